"""The page of a record: neighbours, related records by name, JSON, events (spec: http §7.8.6)."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from svc.auth.roles import Role
from svc.auth.users import User
from svc.pages.record import MOST_SHOWN
from svc.pages.related import FIRST
from tests.support.application import ADMIN, Application, application
from tests.support.pages import BROWSER, Parsed

HOSTILE = "\"'><img src=x onerror=alert(1)>"
SCHEMA = """
type Author @table @export { id: ID @primaryKey name: String books: [Book] @relationship(to: "authorId") }
type Book @table @export { id: ID @primaryKey title: String authorId: ID @indexed author: Author @relationship(from: "authorId")
  tagIds: [ID] @indexed tags: [Tag] @relationship(from: "tagIds") }
type Tag @table @export { id: ID @primaryKey label: String }
type Loan @table @export { id: Long @primaryKey bookId: ID @indexed book: Book @relationship(from: "bookId") note: String }
type Secret @table @export { id: ID @primaryKey bookId: ID @indexed book: Book @relationship(from: "bookId") }
type Mine @table @export @allow(read: "owner==$user.username") { id: Long @primaryKey owner: String @indexed }
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Application]:
    with application(tmp_path_factory.mktemp("record"), "", schema=SCHEMA) as made:
        made.ask("PUT", "/Author/a1", {"name": HOSTILE})
        made.ask("PUT", "/Tag/t1", {"label": "Old"})
        made.ask("PUT", "/Tag/t2", {"label": HOSTILE})
        books = [{"id": f"b{n}", "title": f"Volume {n}", "authorId": "a1", "tagIds": ["t1", "t2"]} for n in range(8)]
        assert made.ask("POST", "/Book/", books)[0] == 201
        assert made.ask("POST", "/Loan/", [{"id": n, "bookId": "b1", "note": f"n{n}"} for n in (1, 2)])[0] == 201
        made.ask("PUT", "/Secret/s", {"bookId": "b1"})
        made.ask("POST", "/Mine/", [{"id": n, "owner": "u" if n % 10 == 1 else "other"} for n in range(60)])
        yield made
        assert made.errors == []


def show(site: Application, target: str, status: int = 200) -> Parsed:
    found, _, body = site.answer("GET", target, accept=BROWSER)
    assert found == status, (found, body)
    return Parsed(body)


def around(page: Parsed) -> tuple[str, str]:
    return page.links.get("Previous record", ""), page.links.get("Next record", "")


def test_neighbours_are_those_in_the_order_of_the_keys(site: Application) -> None:
    assert around(show(site, "/Book/b0")) == ("", "../Book/b1")
    assert around(show(site, "/Book/b3")) == ("../Book/b2", "../Book/b4")
    assert around(show(site, "/Book/b7")) == ("../Book/b6", "")
    assert around(show(site, "/Loan/1")) == ("", "../Loan/2")
    page = show(site, "/Book/b3")
    assert [each.get("data-key") for tag, each in page.elements if each.get("rel") in ("prev", "next")] == ["p", "n"]


def test_rules_on_rows_hold_for_neighbours(site: Application) -> None:
    rights = {"read": True, "insert": False, "update": False, "delete": False, "attribute_permissions": []}
    role = Role("narrow", "narrow", {"data": {"tables": {"Mine": rights}}}, databases=site.node.store.databases)
    site.node.as_user(User("u", role=role))
    try:
        assert around(show(site, "/Mine/11")) == ("../Mine/1", "../Mine/21")
        assert around(show(site, "/Mine/51")) == ("../Mine/41", "")
        show(site, "/Mine/12", 404)
    finally:
        site.node.as_user(ADMIN)
    assert around(show(site, "/Mine/11")) == ("../Mine/10", "../Mine/12")


def test_related_records_are_named(site: Application) -> None:
    page = show(site, "/Author/a1")
    assert page.links["Volume 0"] == "../Book/b0" and page.links[f"Volume {FIRST - 1}"] == f"../Book/b{FIRST - 1}"
    assert f"Volume {FIRST}" not in page.links and "all Book with authorId = a1 (8)" in " ".join(page.text.split())
    assert page.links["all Book with authorId = a1"] == "../Book/?authorId==a1"


def test_what_leads_to_a_record_is_found_though_its_table_says_nothing_of_it(site: Application) -> None:
    page = show(site, "/Book/b1")
    text = " ".join(page.text.split())
    assert "Loan.book: all Loan with bookId = b1 (2) n1, n2" in text and page.links["n1"] == "../Loan/1"
    assert f"author: Author a1 {HOSTILE}" in text, "also the one that it refers to is named"
    assert f"tags: Tag (2) Old, {HOSTILE}" in text and page.links["Old"] == "../Tag/t1"
    assert "Book.tags: all Book with tagIds = t1 (8)" in " ".join(show(site, "/Tag/t1").text.split())


def test_what_may_not_be_read_is_not_told(site: Application) -> None:
    rights = {"read": True, "insert": False, "update": False, "delete": False, "attribute_permissions": []}
    only_key = rights | {"attribute_permissions": [{"attribute_name": "id", "read": True, "insert": False, "update": False}]}
    tables = {"Book": rights, "Author": only_key}
    site.node.as_user(User("half", role=Role("half", "half", {"data": {"tables": tables}}, databases=site.node.store.databases)))
    try:
        page = show(site, "/Book/b1")
    finally:
        site.node.as_user(ADMIN)
    assert "Loan" not in page.text and "Secret" not in page.text and "img" not in page.text
    assert "History" not in page.links


def test_json_is_that_of_the_record(site: Application) -> None:
    page = show(site, "/Book/b1")
    assert json.JSONDecoder().raw_decode(page.text, page.text.index("{"))[0] == site.ask("GET", "/Book/b1")[1]
    assert site.ask("PUT", "/Tag/long", {"label": "x" * 50_000})[0] == 204
    assert not any(each.get("class") == "json" for _, each in show(site, "/Tag/long").elements)
    site.ask("DELETE", "/Tag/long")


def test_a_record_says_where_its_events_are(site: Application) -> None:
    page = show(site, "/Book/b1")
    assert page.find("section", id="record")["data-live"] == "../Book/b1"


def test_the_address_in_other_forms(site: Application) -> None:
    site.ask("PUT", "/Tag/a%27b%22%3C", {"label": "x"})
    page = show(site, "/Tag/a%27b%22%3C")
    assert 'curl -g -u "$LOGIN" http://localhost/Tag/a%27b%22%3C' in page.text
    assert "record = httpx.get('http://localhost/Tag/a%27b%22%3C', auth=login)" in page.text
    body = {"operation": "search_by_id", "database": "data", "table": "Tag", "ids": ["a'b\"<"], "get_attributes": ["*"]}
    assert json.dumps(body) in page.text
    assert {"as-url", "as-curl", "as-python", "as-javascript", "as-operation"} <= {
        each.get("id") for tag, each in page.elements if tag == "pre"
    }
    site.ask("DELETE", "/Tag/a%27b%22%3C")


def test_of_very_many_attributes_the_first_are_shown(site: Application) -> None:
    assert site.ask("PUT", "/Author/many", {f"p{number}": number for number in range(1500)})[0] == 204
    for view in ("", "?_view=delete"):
        page = show(site, f"/Author/many{view}")
        assert len(page.rows) == MOST_SHOWN
        assert "502 more attributes are not shown here." in page.text  # with the declared ones, id and name
    assert site.ask("DELETE", "/Author/many")[0] == 204
