"""The page of a table as something to work in: query line, columns, values, other forms of its address (spec: http §7.8.5)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote, urlencode

import pytest

from svc.auth.roles import Role
from svc.auth.users import User
from tests.support.application import ADMIN, Application, application
from tests.support.pages import BROWSER, Parsed

HOSTILE = "\"'><img src=x onerror=alert(1)>"
SCHEMA = """
type Seat @table @export { id: ID @primaryKey name: String @indexed price: Float @indexed stock: Int row: String @indexed isFree: Boolean @indexed
  rank: Int @indexed many: String @indexed since: Date showId: ID @indexed show: Show @relationship(from: "showId") }
type Show @table @export { id: ID @primaryKey title: String @indexed secret: String seats: [Seat] @relationship(to: "showId") }
type Own @table @export @allow(read: "owner==$user.username") { id: ID @primaryKey owner: String @indexed kind: String @indexed showId: ID @indexed
  show: Own @relationship(from: "showId") title: String }
type Gone @table(expiration: 3600) @export { id: ID @primaryKey kind: String @indexed }
type Open @table @export { id: Long @primaryKey name: String }
type Odd @table @export { id: ID @primaryKey _filter: String @indexed }
"""
READ = {"read": True, "insert": False, "update": False, "delete": False}
READERS = {
    "Seat": READ | {"attribute_permissions": [{"attribute_name": name, "read": True, "insert": False, "update": False} for name in ("id", "name", "showId")]},
    "Show": READ | {"attribute_permissions": [{"attribute_name": "id", "read": True, "insert": False, "update": False}]},
    "Own": READ,
}  # fmt: skip


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Application]:
    with application(
        tmp_path_factory.mktemp("tools"),
        "",
        schema=SCHEMA,
        files={"config.yaml": "rest: true\ngraphqlSchema: {files: schema.graphql}\njsResource: {files: resources.py}\n"},
    ) as made:
        assert made.ask("POST", "/Show/", [{"id": "s1", "title": "First"}, {"id": "s2", "title": HOSTILE}])[0] == 201
        seats = [
            {"id": f"{n:04}", "name": f"n{n % 7}", "price": n / 2, "row": "ABC"[n % 3], "isFree": n % 2 == 0, "rank": n % 2, "many": f"m{n}",
             "showId": f"s{n % 2 + 1}"}
            for n in range(120)
        ]  # fmt: skip
        assert made.ask("POST", "/Seat/", seats)[0] == 201
        assert made.ask("PUT", f"/Seat/{quote(HOSTILE, safe='')}", {"name": HOSTILE, "row": HOSTILE, "showId": "nothing"})[0] == 204
        owned = [
            {"id": str(n), "owner": ("ann", "bob")[n % 2], "kind": ("x", "y")[n % 2], "showId": "1", "title": f"of {n}"} for n in range(6)
        ]
        assert made.ask("POST", "/Own/", owned)[0] == 201
        assert made.ask("POST", "/Gone/", [{"id": "1", "kind": "a"}, {"id": "2", "kind": "b"}])[0] == 201
        assert made.ask("PUT", "/Open/5", {"name": "five"})[0] == 204
        yield made
        assert made.errors == []


@pytest.fixture
def as_ann(site: Application) -> Iterator[Application]:
    role = Role("reader", "reader", {"data": {"tables": READERS}}, databases=site.node.store.databases)
    site.node.as_user(User("ann", role=role))
    yield site
    site.node.as_user(ADMIN)


def show(site: Application, target: str, status: int = 200) -> Parsed:
    found, _, body = site.answer("GET", target, accept=BROWSER)
    assert found == status, (found, body)
    return Parsed(body)


def send(site: Application, path: str, *fields: tuple[str, str]) -> tuple[int, str, Any]:
    """(status, where a form leads, the page)."""
    status, answered, body = site.answer("GET", f"{path}?{urlencode(fields)}", accept=BROWSER)
    return status, answered.get("location", ""), body


def texts(page: Parsed) -> dict[str, str]:
    """The other forms of the address."""
    lines = page.text.split("This address in other forms")[1]
    names = [each["data-copy"].removeprefix("as-") for tag, each in page.elements if tag == "button" and "data-copy" in each]
    found = {}
    for name, after in zip(names, [*names[1:], ""], strict=True):
        title = next(each for each in ("URL", "curl", "Python", "JavaScript", "GraphQL", "SQL", "Operation") if each.lower() == name)
        lines = lines.split(f"{title} Copy\n", 1)[1]
        following = next(
            (each for each in ("URL", "curl", "Python", "JavaScript", "GraphQL", "SQL", "Operation") if each.lower() == after), ""
        )
        found[title] = lines.split(f"\n{following} Copy\n" if following else "\n\n")[0]
    return found


# --- the query line ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "location"),
    [
        ("price=gt=10&sort(-price)", "?price=gt=10&sort(-price)"),
        (" ?name==n1 ", "?name==n1"),
        ("name==a b&limit(5)", "?name==a%20b&limit(5)"),
        ("name==ä", "?name==%C3%A4"),
        ("facet(row)", "?facet(row)"),
        ("", "?"),
    ],
)
def test_a_line_becomes_the_address(site: Application, line: str, location: str) -> None:
    assert send(site, "/Seat/", ("_filter", line))[:2] == (303, location)


@pytest.mark.parametrize(
    ("line", "code", "position"),
    [
        ("price=gt=", "QUERY_SYNTAX", "9"),
        ("nosuch==1", "UNKNOWN_ATTRIBUTE", "0"),
        ("name==a&sort(", "QUERY_SYNTAX", None),
        ("stock=gt=5", "NOT_INDEXED", None),
        ("live()", "QUERY_SYNTAX", None),
        (f"name==1&{HOSTILE}", "QUERY_SYNTAX", None),
        ("price=gt=x", "BAD_VALUE", None),
    ],
)
def test_a_fault_is_shown_at_its_place(site: Application, line: str, code: str, position: str | None) -> None:
    status, _, body = send(site, "/Seat/", ("_filter", line))
    page = Parsed(body)
    assert status == 400 and code in page.text
    assert page.find("input", name="_filter")["value"] == line and page.find("input", name="_filter")["aria-invalid"] == "true"
    fault = page.find("div", id="filter-fault")
    if position is not None:
        assert fault["data-position"] == position and page.find("mark") is not None
    assert fault["role"] == "alert"


def test_the_line_of_a_page_is_its_query(site: Application) -> None:
    page = show(site, "/Seat/?name==n1&price=gt=1&sort(-price)&limit(5)")
    assert page.find("input", name="_filter")["value"] == "name==n1&price=gt=1&sort(-price)&limit(5)"
    assert {"name", "price", "row"} <= {each["value"] for tag, each in page.elements if tag == "option" and each.get("label")}
    assert show(site, "/Odd/?_filter==x").rows == [], "an attribute of that name is a condition"


def test_forms_that_are_none(site: Application) -> None:
    assert send(site, "/Seat/", ("_filter", "name==1"), *[(f"a{n}", "") for n in range(20)])[0] == 400
    assert site.answer("GET", "/Seat/?_filter=%ff", accept=BROWSER)[0] == 400
    assert site.answer("GET", "/Seat/?_columns=&" + "&".join(["_show=a"] * 400), accept=BROWSER)[0] == 400
    assert send(site, "/Seat/", ("_columns", "sort("), ("_show", "name"))[0] == 400


# --- columns -----------------------------------------------------------------------------------------------------------------------


def test_columns_are_chosen(site: Application) -> None:
    page = show(site, "/Seat/?name==n1&sort(-price)")
    query = page.find("input", name="_columns")["value"]
    boxes = [(each["value"], "checked" in each) for tag, each in page.elements if tag == "input" and each.get("name") == "_show"]
    assert ("price", True) in boxes and ("show", False) in boxes
    status, location, _ = send(site, "/Seat/", ("_columns", query), ("_show", "price"), ("_show", "id"))
    assert (status, location) == (303, "?name==n1&sort(-price)&select(price,id)")
    page = show(site, f"/Seat/{location}")
    assert [cell.split()[0] for cell in page.rows[0]] == ["price", "id"] and page.links[
        "Show the usual columns"
    ] == "?name==n1&sort(-price)"
    names = [each["value"] for tag, each in page.elements if tag == "input" and each.get("name") == "_show"]
    assert names[:2] == ["price", "id"], "in their order"
    assert send(site, "/Seat/", ("_columns", query))[1] == "?name==n1&sort(-price)"
    assert send(site, "/Seat/", ("_columns", ""), ("_show", "id"))[1] == "?select(id,)"
    kept = show(site, "/Seat/?select(id,show{title})").find("input", name="_columns")["value"]
    assert send(site, "/Seat/", ("_columns", kept), ("_show", "show"), ("_show", "name"))[1] == "?select(show{title},name)"
    assert send(site, "/Seat/", ("_columns", ""), ("_show", HOSTILE))[1] == f"?select({quote(HOSTILE, safe='')},)"


def test_columns_that_may_not_be_read_are_not_offered(as_ann: Application) -> None:
    page = show(as_ann, "/Seat/")
    boxes = [each["value"] for tag, each in page.elements if tag == "input" and each.get("name") == "_show"]
    assert boxes == ["id", "name", "showId"] and "price" not in page.text and "many" not in page.text
    page = show(as_ann, "/Seat/?select(id,price,prices)&sort(id)")
    assert [cell.split()[0] for cell in page.rows[0]] == ["id"], "of neither anything is told"
    assert send(as_ann, "/Seat/", ("_filter", "price=gt=1"))[0] == send(as_ann, "/Seat/", ("_filter", "prices=gt=1"))[0] == 403


# --- values of attributes ----------------------------------------------------------------------------------------------------------


def test_values_of_attributes_that_have_few(site: Application) -> None:
    page = show(site, "/Seat/")
    assert page.links["A"] == "?row==A" and page.links["true"] == "?isFree==true" and page.links["n1"] == "?name==n1"
    assert f"?row=={quote(HOSTILE, safe='')}" in [each.get("href") for _, each in page.elements]
    assert "m1" not in page.links, "of many values none is offered"
    assert "A 40" in page.text and page.links["row"] == "?facet(row)" and "s1 First 60" in page.text
    assert len(show(site, "/Seat/?row==A&limit(100)").rows) == 41
    page = show(site, "/Seat/?row==A&sort(-price)&limit(5)&select(id,row)")
    assert page.links["n1"] == "?row==A&name==n1&sort(-price)&limit(5)&select(id,row)"
    assert "B" not in page.links and "n1 1" not in page.text, "counts of a part of the table are not known"
    assert "null or missing" in show(site, "/Seat/").links
    assert "a" not in show(site, "/Gone/").links, "what has expired is not told from what has not"


def test_rules_on_rows_and_rights_hold_for_values(as_ann: Application) -> None:
    page = show(as_ann, "/Own/")
    assert len(page.rows) == 4 and not {"x", "y", "ann", "bob"} & page.links.keys()
    assert "bob" not in page.text
    page = show(as_ann, "/Seat/")
    assert "n1" in page.links and not {"A", "B", "true"} & page.links.keys()
    assert "First" not in page.text, "the title of a show may not be read"


def test_the_page_reads_no_more_of_a_large_table(site: Application, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a page reads is counted by steps in indexes, which do not depend on the number of records."""
    from svc.store.indexes.index import Index

    steps = 0
    values = Index.values

    def counted(*given: Any) -> Iterator[tuple[bytes, int]]:
        nonlocal steps
        for pair in values(*given):
            steps += 1
            yield pair

    monkeypatch.setattr(Index, "values", counted)
    seats = [{"id": f"x{n:05}", "name": f"n{n % 7}", "many": f"v{n}"} for n in range(3000)]
    assert site.ask("POST", "/Seat/", seats)[0] == 201
    assert "3,121" in show(site, "/Seat/").text
    assert 0 < steps <= 100
    assert site.ask("DELETE", "/Seat/?id==x*")[0] == 204


# --- pages, records, orders --------------------------------------------------------------------------------------------------------


def test_the_total_is_told_where_an_index_knows_it(site: Application) -> None:
    assert "40 records of 40" in show(site, "/Seat/?row==A").text
    page = show(site, "/Seat/?row==A&limit(10)")
    assert "Records 1 to 10 of 40" in page.text
    assert "Records 11 to 20 of 40" in show(site, f"/Seat/{page.links['Next page']}").text
    page = show(site, "/Seat/?price=ge=50&limit(5)")
    assert "Records 1 to 5 of 20" in page.text
    after = show(site, f"/Seat/{page.links['Next page']}").text
    assert "Records 6 to 10" in after and "Records 6 to 10 of" not in after, "what is behind a cursor is not all"
    assert "Records 1 to 10 of" not in show(site, "/Seat/?row==A&stock==null&limit(10)").text


def test_how_many_rows(site: Application) -> None:
    page = show(site, "/Seat/?row==A&sort(price)")
    assert page.links["25"] == "?row==A&sort(price)&limit(25)" and page.links["500"] == "?row==A&sort(price)&limit(500)"
    assert "50" not in page.links
    page = show(site, "/Seat/?limit(100)")
    assert "100" not in page.links and page.links["50"] == "?limit(50)" and len(page.rows) == 101


@pytest.mark.parametrize(
    ("key", "location"), [("0001", "../Seat/0001"), ("a/b.csv", "../Seat/a/b%2Ecsv"), (HOSTILE, f"../Seat/{quote(HOSTILE, safe='')}")]
)
def test_a_record_is_opened_by_its_key(site: Application, key: str, location: str) -> None:
    status, found, _ = send(site, "/Seat/", ("_open", key))
    assert (status, found) == (303, location)


def test_keys_that_open_nothing(site: Application) -> None:
    assert send(site, "/Seat/", ("_open", ""))[0] == 400
    assert send(site, "/Open/", ("_open", "5"))[1] == "../Open/5"
    assert show(site, "/Seat/none", 404) is not None


def test_orders_by_further_keys(site: Application) -> None:
    page = show(site, "/Seat/?sort(-name)")
    further = {
        each["aria-label"]: each.get("data-further") for tag, each in page.elements if tag == "a" and "order" in each.get("class", "")
    }
    assert further["Sort by price, ascending"] == "?sort(-name,price)" and further["Sort by name, ascending"] == "?sort(name)"
    assert not any("data-further" in each for _, each in show(site, "/Seat/").elements)


def test_related_records_are_called_by_their_title(site: Application) -> None:
    page = show(site, "/Seat/?sort(id)&id=ge=0000&limit(2)&select(id,showId)")
    assert [row[1] for row in page.rows[1:]] == ["s1 First", f"s2 {HOSTILE}"]
    page = show(site, "/Seat/?showId==nothing&select(id,showId)")
    assert page.rows[1][1] == "nothing"


def test_live_rows(site: Application) -> None:
    assert show(site, "/Seat/?name==n1").find("section", id="rows")["data-live"] == "?name==n1&limit(50)&live()"
    page = show(site, "/Seat/?sort(price)&limit(10)")
    page = show(site, f"/Seat/{page.links['Next page']}")
    assert page.find("section", id="rows")["data-live"] == "?sort(price)&limit(10,20)&live()"
    assert page.find("button", **{"data-follow": "rows"}) is not None
    assert "data-live" not in show(site, "/Seat/?limit(20000,20010)").find("section", id="rows")


def test_files_of_all_rows(site: Application) -> None:
    page = show(site, "/Seat/?row==A&limit(3)")
    for name, count in (("CSV", 41), ("NDJSON", 40)):
        link = page.find("a", download=f"Seat.{name.lower()}")["href"]
        status, answered, body = site.wire.ask("GET", f"/Seat/{link[2:]}", b"", {"Accept": BROWSER})
        assert status == 200 and body.count(b"\n") == count
        assert name == "NDJSON" or answered["content-disposition"] == 'attachment; filename="Seat.csv"'
    assert len(site.ask("GET", f"/Seat/{page.links['Export JSON'][2:]}")[1]) == 40


# --- other forms -------------------------------------------------------------------------------------------------------------------


def test_forms_of_an_address(site: Application) -> None:
    found = texts(show(site, "/Seat/?name==n1&sort(-price)&limit(5)"))
    url = "http://localhost:9926/Seat/?name==n1&sort(-price)&limit(5)"
    assert found["URL"].endswith("/Seat/?name==n1&sort(-price)&limit(5)"), found
    url = found["URL"]
    assert found["curl"] == f"curl -g -u \"$LOGIN\" '{url}'"
    assert json.loads(found["Operation"]) == {
        "operation": "search_by_conditions", "database": "data", "table": "Seat", "query": "name==n1&sort(-price)&limit(5)"
    }  # fmt: skip
    assert "limit(50)" in texts(show(site, "/Seat/"))["URL"], "the rows of the page"
    hostile = texts(show(site, f"/Seat/?row=={quote(HOSTILE, safe='')}"))
    assert HOSTILE not in "".join(hostile.values()) or "SQL" in hostile
    below = texts(show(site, "/Seat/00/"))
    assert "Operation" not in below and "SQL" not in below


def test_a_caller_of_few_rights_gets_no_statement(as_ann: Application) -> None:
    assert "SQL" not in texts(show(as_ann, "/Seat/"))
