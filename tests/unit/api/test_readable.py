"""Attribute rights of a role hold for records wherever a handler returns them, and the right to create for every way to make a record."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from svc.auth.roles import Role
from svc.auth.users import User
from tests.support.application import Application, application

SCHEMA = """
type Seat @table @export { id: ID @primaryKey stock: Int price: Float @indexed secret: String showId: ID @indexed
  show: Show @relationship(from: "showId") }
type Show @table @export { id: ID @primaryKey title: String secret: String }
type Lit @table { id: ID @primaryKey secret: String double: Int @computed(from: "stock * 2") @enumerable stock: Int }
"""

CODE = """
from svc import Response, get_response, tables

class Listed(tables.Seat):
    async def get(self, query=None):
        return await super().search(query).to_list()

class Mapped(tables.Seat):
    def get(self, query=None):
        return super().search(query).map(lambda record: record)

class Made(tables.Seat):
    async def get(self, query=None):
        async for record in super().search(query):
            yield [record]

class Plainly(tables.Seat):
    def get(self, query=None):
        return ({"it": tables.Seat(key)} for key in ["a"])

class Searched(tables.Seat):
    def get(self, query=None):
        return tables.Seat.search({})

class Lit(tables.Lit):
    def get(self, query=None):
        return tables.Lit.search({})

class Inside(tables.Seat):
    load_as_instance = False
    async def get(self, target):
        return {"it": {"is": [await super().get(target)]}}

class Answer(tables.Seat):
    load_as_instance = False
    async def get(self, target):
        return Response(status=202, data=(await super().get(target), 1))

class Status(tables.Seat):
    load_as_instance = False
    async def get(self, target):
        get_response().status = 202
        return [await super().get(target)]

class Selves(tables.Seat):
    async def get(self, query=None):
        self.stock = 9
        self.extra = "shown"
        return [self]

class Related(tables.Show):
    load_as_instance = False
    async def get(self, target):
        return [await tables.Seat.get("a")]

class Counted(tables.Seat):
    def get(self, query=None):
        return tables.Seat.search({"aggregate": {"group": ["showId"], "functions": ["count"]}}).map(lambda row: row)

class Updater(tables.Seat):
    def allow_update(self, user, data, target):
        return True

class UpdaterAlone(tables.Seat):
    async def allow_update(self, user, data, target):
        return True
    async def allow_create(self, user, data, target):
        return False
"""


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Application]:
    with application(tmp_path, CODE, SCHEMA) as app:
        app.ask("PUT", "/Show/f", {"title": "Faust", "secret": "HIDDEN"})
        app.ask("PUT", "/Seat/a", {"stock": 1, "price": 2, "secret": "HIDDEN", "showId": "f"})
        app.run(app.tables.Lit.put("l", {"stock": 4, "secret": "HIDDEN"}))
        app.node.as_user(clerk(app))
        yield app


def clerk(app: Application) -> User:
    """Reads all but `secret`, updates, and creates nothing."""

    def table(*names: str) -> dict[str, Any]:
        attributes = [{"attribute_name": name, "read": name != "secret", "insert": True, "update": True} for name in names]
        return {"read": True, "insert": False, "update": True, "delete": False, "attribute_permissions": attributes}

    tables = {
        "Seat": table("id", "stock", "price", "secret", "showId"),
        "Show": table("id", "title", "secret"),
        "Lit": table("id", "stock", "double", "secret"),
    }
    return User("clerk", role=Role("clerk", "clerk", {"data": {"tables": tables}}, databases=app.node.store.databases))


SEAT = {"id": "a", "stock": 1, "price": 2, "showId": "f"}


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("/Seat/", [SEAT]),
        ("/Listed/", [SEAT]),
        ("/Mapped/", [SEAT]),
        ("/Made/", [[SEAT]]),
        ("/Plainly/", [{"it": SEAT}]),
        ("/Searched/", [SEAT]),
        ("/Lit/", [{"id": "l", "stock": 4, "double": 8}]),
        ("/Inside/a", {"it": {"is": [SEAT]}}),
        ("/Answer/a", [SEAT, 1]),
        ("/Status/a", [SEAT]),
        ("/Selves/a", [{**SEAT, "stock": 9, "extra": "shown"}]),
    ],
)
def test_records_of_the_table_are_without_what_may_not_be_read(shop: Application, address: str, expected: Any) -> None:
    status, body = shop.ask("GET", address)
    assert status in (200, 202), body
    assert body == expected, json.dumps(body)
    assert shop.errors == []


def test_records_of_other_tables_are_what_the_code_makes_of_them(shop: Application) -> None:
    assert shop.ask("GET", "/Related/f") == (200, [{**SEAT, "secret": "HIDDEN"}])


def test_what_is_counted_stays(shop: Application) -> None:
    status, body = shop.ask("GET", "/Counted/")
    assert (status, body) == (200, [{"showId": "f", "count": 1}]), body


@pytest.mark.parametrize("name", ["Updater", "UpdaterAlone"])
@pytest.mark.parametrize("data", [[{"id": "new", "stock": 3}], {"id": "new", "stock": 3}], ids=["list", "object"])
def test_the_right_to_update_makes_no_records_through_a_put_of_the_collection(shop: Application, name: str, data: Any) -> None:
    assert shop.ask("PUT", f"/{name}/", data)[0] == 403
    assert shop.ask("PUT", f"/{name}/new", {"stock": 3})[0] == 403
    assert shop.ask("PUT", f"/{name}/a", {"stock": 3})[0] == 204
    assert shop.run(shop.tables.Seat.get("new")) is None


COMPUTED = """
from svc import tables

class Changed(tables.Sum):
    def get(self, query=None):
        self.price = 7.0
        return super().get(query)
"""

SUMS = """
type Sum @table { id: ID @primaryKey price: Float double: Float @computed(from: "price * 2") @enumerable
  triple: Float @computed(from: "price * 3") showId: ID show: Show @relationship(from: "showId") }
type Show @table { id: ID @primaryKey title: String }
"""


def test_what_is_computed_of_a_record_that_a_handler_has_changed(tmp_path: Path) -> None:
    with application(tmp_path, COMPUTED, SUMS) as app:
        app.run(app.tables.Show.put("f", {"title": "Faust"}))
        app.run(app.tables.Sum.put("a", {"price": 1.0, "showId": "f"}))
        for query, body in {
            "": {"id": "a", "price": 7, "showId": "f", "double": 14},
            "?select(double)": 14,
            "?select(triple)": 21,
            ".double": 14,
            ".triple": 21,
            "?select(double,triple,show{title})": {"double": 14, "triple": 21, "show": {"title": "Faust"}},
        }.items():
            assert app.ask("GET", f"/Changed/a{query}") == (200, body), query
