"""What there is, and how each is addressed (spec: http §10.4)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from svc.auth.roles import Role
from svc.auth.users import User
from svc.pages import views
from tests.support.application import ADMIN, Application, application
from tests.support.pages import BROWSER, Parsed
from tests.support.statements import FakeEngine, statements_of

CODE = """
from svc import Resource, tables

class Open(Resource):
    "What everybody may ask"
    def allow_read(self, *_): return True
    def get(self, target=None): return 1
    def post(self, data, target=None): return 1

class Seats(tables.Seat):
    def allow_read(self, *_): return True
    def allow_create(self, *_): return True
    def get(self, target=None): return super().get(target)
    def post(self, data, target=None): return None
"""
SCHEMA = """
type Seat @table @export { id: ID @primaryKey name: String }
"Of <b> a day"
type Flight @table @export { number: ID @primaryKey name: String }
type Own @table @export @allow(read: "owner==$user.username") { id: ID @primaryKey owner: String @indexed }
type Secret @table @export { id: ID @primaryKey }
"""
NONE = {"read": False, "insert": False, "update": False, "delete": False}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Application]:
    with application(tmp_path_factory.mktemp("home"), CODE, schema=SCHEMA) as made:
        made.node.rest.serve_sql(statements_of(FakeEngine()), made.node.store, "roles")
        for number in range(3):
            assert made.ask("PUT", f"/Flight/{number}", {"name": "x"})[0] == 204
        assert made.ask("PUT", "/Own/1", {"owner": "ann"})[0] == 204
        yield made
        assert made.errors == []


@pytest.fixture(autouse=True)
def as_admin(site: Application) -> Iterator[None]:
    site.node.as_user(ADMIN)
    yield
    site.node.as_user(ADMIN)


def as_role(site: Application, **tables: dict[str, bool]) -> None:
    rights = {name: NONE | given | {"attribute_permissions": []} for name, given in tables.items()}
    site.node.as_user(User("ann", role=Role("r", "r", {"data": {"tables": rights}}, databases=site.node.store.databases)))


def resource(site: Application, name: str) -> dict[str, Any]:
    return next(entry for entry in site.ask("GET", "/")[1]["resources"] if entry["name"] == name)


def page(site: Application) -> Parsed:
    status, _, body = site.answer("GET", "/", accept=BROWSER)
    assert status == 200
    return Parsed(body)


def test_each_table_says_how_it_is_addressed(site: Application) -> None:
    assert resource(site, "Flight") == {
        "path": "/Flight/",
        "name": "Flight",
        "kind": "table",
        "description": "Of <b> a day",
        "methods": ["GET", "POST", "PUT", "PATCH", "DELETE"],
        "record": "/Flight/{number}",
        "attributes": "/Flight",
        "count": 3,
    }
    assert resource(site, "Open")["methods"] == ["GET", "POST"] and "record" not in resource(site, "Open")
    assert "count" not in resource(site, "Seats"), "code of the application may have another number"
    shown = page(site)
    assert "/Flight/{number}" in shown.text and "3 records" in shown.text and shown.links["Attributes of Flight"] == "./Flight"
    assert shown.links["Flight"] == "./Flight/"
    for text in (
        "http://localhost/Flight/",
        "curl -N -H 'Accept: text/event-stream' 'http://localhost/Flight/'",
        "ws://localhost/Flight/",
        "Flight/#",
        "SELECT * FROM data.Flight",
    ):
        assert text in shown.text, text
    assert "GraphQL" not in shown.text, "it is off"
    assert shown.find("button", **{"data-copy": "way-1-1"})["hidden"] == ""


def test_methods_are_those_of_the_caller(site: Application) -> None:
    as_role(site, Flight={"read": True}, Seat={"read": True, "insert": True})
    assert resource(site, "Flight")["methods"] == ["GET"] and resource(site, "Flight")["count"] == 3
    assert resource(site, "Seat")["methods"] == ["GET", "POST", "PUT"]
    assert resource(site, "Seats")["methods"][:2] == ["GET", "POST"], "its code decides"
    assert resource(site, "Open")["methods"] == ["GET"]
    assert not {"Secret", "Own"} & {entry["name"] for entry in site.ask("GET", "/")[1]["resources"]}
    assert "Secret" not in page(site).text


def test_a_rule_on_rows_hides_their_number(site: Application) -> None:
    assert resource(site, "Own")["count"] == 1
    as_role(site, Own={"read": True})
    assert "count" not in resource(site, "Own") and resource(site, "Own")["record"] == "/Own/{id}"


def test_nobody_sees_what_is_open_to_all(site: Application) -> None:
    site.node.as_user(None)
    found = site.ask("GET", "/")[1]
    assert {entry["name"] for entry in found["resources"]} == {"Open", "Seats"} and found["user"] is None
    assert "/sql" not in {entry["path"] for entry in found["interfaces"]} and "SELECT" not in page(site).text


def test_super_users_find_the_console(site: Application) -> None:
    pages = site.node.rest._pages
    pages.console_addresses = lambda: ["http://127.0.0.1:9925"]
    assert page(site).links["The console"] == "http://localhost:9925/"
    as_role(site, Flight={"read": True})
    assert "The console" not in page(site).links
    site.node.as_user(ADMIN)
    pages.console_addresses = tuple
    assert "The console" not in page(site).links


def test_a_new_record_is_offered_to_who_may_make_one(site: Application, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(views, "VIEWS", {"new": "svc.pages.editing"})
    assert page(site).links["New record of Flight"] == "./Flight/?_view=new"
    as_role(site, Flight={"read": True}, Seat={"read": True, "insert": True})
    shown = page(site)
    assert "New record of Seat" in shown.links and "New record of Flight" not in shown.links
    monkeypatch.setattr(views, "VIEWS", {})
    assert "New record of Seat" not in page(site).links
