"""Resources of a whole node as pages: what browsers see, and that other clients see no difference (spec: http §7.7)."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from itertools import pairwise
from urllib.parse import parse_qsl, urlencode

import msgspec
import pytest

from svc.auth.roles import Role
from svc.auth.users import User
from svc.pages.collection import MOST_COLUMNS, ROWS
from tests.support.application import Application, application
from tests.support.pages import BROWSER, Parsed

HOSTILE = "\"'><img src=x onerror=alert(1)></td></table><script>alert(2)</script>&lt;"
CODE = """
from svc import Resource, Response, tables

class Anything(Resource):
    def allow_read(self, *_): return True
    def get(self, target=None):
        kind = target.get("kind")
        return {
            "text": "<b>&", "number": 5, "none": None, "list": [1, {"a": 2}], "rows": [{"a": 1, "b": None}, {"a": "<i>"}], "nested": {"a": {"b": [1, 2]}},
            "bytes": b"raw", "long": [{"n": n} for n in range(1000)], "html": Response("<h1>own</h1>", headers={"Content-Type": "text/html"}),
            "data": Response(data={"x": "<b>"}, status=203, headers={"X-A": "b", "Cache-Control": "public", "Content-Security-Policy": "x"}),
            "typed": Response(data={"x": 1}, headers={"Content-Type": "text/x"}),
            "endless": (n for n in iter(int, 1)),
        }[kind]

class Named(tables.Seat):
    def get(self, target=None):
        return super().get(target)

class Dear(tables.Seat):
    def get(self, target=None):
        target.conditions = [*target.conditions, {"attribute": "price", "comparator": "ge", "value": 100}]
        return super().get(target)

class Firsts(tables.Seat):
    def get(self, target=None):
        target.limit = 3
        return super().get(target)

class Told(Resource):
    '''One thing at a time: /Told/5

    More of it.
    '''
    def allow_read(self, *_): return True
    def allow_create(self, *_): return True
    def get(self, target=None):
        return {"told": self.get_id()} if self.get_id() else None
    def post(self, data, target=None):
        return {"told": data["name"]}

class Leading(Resource):
    async def allow_create(self, *_): return True
    async def post(self, data, target=None):
        return Response(status=302, headers={"Location": "/Told/5"})

class Broken(Resource):
    def allow_read(self, *_): return True
    def get(self, target=None): raise RuntimeError("secret <b>")
"""
SCHEMA = """
"What is \\"sold\\" <b>."
type Seat @table @export { id: ID @primaryKey name: String @indexed price: Float @indexed stock: Int place: Any since: Date image: Bytes photo: Blob
  showId: ID @indexed show: Show @relationship(from: "showId") otherIds: [ID] @indexed others: [Show] @relationship(from: "otherIds") }
type Show @table @export { id: ID @primaryKey title: String @indexed seats: [Seat] @relationship(to: "showId") }
type Number @table @export { id: Long @primaryKey name: String }
type Secret @table @export { id: ID @primaryKey show: String showId: ID @indexed to: Show @relationship(from: "showId") }
"""
FIGURES = "group(name;count,sum(price),avg(price),min(price),max(price))"
READABLE = ("id", "name", "showId")
RIGHTS = {"read": True, "insert": False, "update": False, "delete": False}
SEAT = RIGHTS | {"attribute_permissions": [{"attribute_name": name, "read": True, "insert": False, "update": False} for name in READABLE]}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Application]:
    with application(tmp_path_factory.mktemp("pages"), CODE, schema=SCHEMA) as made:
        assert made.ask("PUT", "/Show/s1", {"title": "First <b>"})[0] == 204
        seats = [{"id": f"{n:04}", "name": f"n{n % 7}", "price": n / 2, "showId": "s1"} for n in range(300)]
        assert made.ask("POST", "/Seat/", seats)[0] == 201
        strange = {
            "name": HOSTILE,
            "place": {HOSTILE: [HOSTILE]},
            HOSTILE: HOSTILE,
            "stock": None,
            "showId": "javascript:alert(1)",
            "otherIds": ["s1", "<x>"],
        }
        for key in ("a<b", "a/b", "x.csv", "ä\"'", "..", "javascript:alert(1)"):
            assert made.ask("PUT", f"/Seat/{escaped(key)}", strange)[0] == 204, key
        assert made.ask("PUT", "/Number/5", {"name": "five"})[0] == 204
        assert made.ask("PUT", "/Secret/1", {"show": "x", "showId": "s1"})[0] == 204
        yield made
        assert made.errors == []


def escaped(key: str) -> str:
    return "".join(f"%{byte:02X}" for byte in key.encode())


@pytest.fixture
def as_reader(site: Application) -> Iterator[Application]:
    role = Role("reader", "reader", {"data": {"tables": {"Seat": SEAT}}}, databases=site.node.store.databases)
    site.node.as_user(User("reader", role=role))
    yield site
    site.node.as_user(ADMIN)


ADMIN = User("admin", role=Role("super", "super_user", {"super_user": True}))


def show(site: Application, target: str, status: int = 200, **fields: str) -> Parsed:
    found, answered, body = site.answer("GET", target, accept=BROWSER, **fields)
    assert found == status, (found, body)
    assert answered["content-type"] == "text/html; charset=utf-8"
    assert answered["content-security-policy"] == (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; frame-ancestors 'none'; "
        "base-uri 'none'"
    )
    assert (answered["x-content-type-options"], answered["referrer-policy"]) == ("nosniff", "same-origin")
    assert answered["vary"] == "Accept, Accept-Encoding, Authorization, Cookie" and "etag" not in answered
    assert answered["cache-control"] == "private, no-cache"
    return Parsed(body)


def follow(path: str, link: str) -> str:
    """The address of a link on the page at `path`, as a browser finds it."""
    if link.startswith("?"):
        return path.partition("?")[0] + link
    folders = path.partition("?")[0].split("/")[1:-1]
    while link.startswith(("./", "../")):
        step, _, link = link.partition("/")
        if step == "..":
            folders.pop()
    return "/" + "/".join([*folders, link])


# --- negotiation -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("accept", "media_type"),
    [
        (BROWSER, "text/html"),
        ("text/html", "text/html"),
        ("TEXT/HTML;q=0.9, application/json;q=0.8", "text/html"),
        ("text/html, text/plain, */*;q=0.01", "text/html"),
        ("text/html, application/json;q=0.9", "text/html"),
        ("application/json, text/html", "application/json"),
        ("text/html, application/json", "application/json"),
        ("text/html, text/csv", "text/csv"),
        ("text/html;q=0.5, application/cbor;q=0.5", "application/cbor"),
        ("text/html;q=0, */*", "application/json"),
        ("*/*", "application/json"),
        ("text/*", "text/yaml"),
        (None, "application/json"),
        ("text/htmlx, */*", "application/json"),
        ("text/html, image/gif, image/jpeg, *; q=.2, */*; q=.2", "application/json"),  # Java
    ],
)
@pytest.mark.parametrize("target", ["/Show/s1", "/Show/", "/Show", "/"])
def test_who_gets_a_page(site: Application, accept: str | None, media_type: str, target: str) -> None:
    fields = {} if accept is None else {"accept": accept}
    status, answered, _ = site.answer("GET", target, **fields)
    assert (status, answered["content-type"].partition(";")[0]) == (200, media_type)


def test_an_extension_is_data_also_for_a_browser(site: Application) -> None:
    for target, media_type in (("/Show/s1.json", "application/json"), ("/Show/.csv", "text/csv"), ("/Show.json", "application/json")):
        assert site.answer("GET", target, accept=BROWSER)[1]["content-type"].startswith(media_type)


def test_a_type_of_an_application_wins(site: Application) -> None:
    site.node.types["text/html"] = {"serialize": lambda data: f"<p>{json.dumps(data)}</p>"}
    try:
        _, answered, body = site.answer("GET", "/Show/s1", accept=BROWSER)
        assert answered["content-type"] == "text/html" and body.startswith(b"<p>{") and "content-security-policy" not in answered
    finally:
        del site.node.types["text/html"]
    show(site, "/Show/s1")


def test_conditions_of_data_do_not_speak_of_pages(site: Application) -> None:
    tag = site.answer("GET", "/Show/s1")[1]["etag"]
    show(site, "/Show/s1", if_none_match=tag)
    show(site, "/Show/s1", if_none_match="*")


def test_head_is_the_same_without_a_body(site: Application) -> None:
    status, answered, body = site.answer("HEAD", "/Show/", accept=BROWSER)
    assert status == 200 and answered["content-type"].startswith("text/html") and body is None


# --- collections -------------------------------------------------------------------------------------------------------------------


def test_pages_of_a_collection_follow_each_other(site: Application) -> None:
    path, seen = "/Seat/", []
    while path:
        page = show(site, path)
        rows = [row for row in page.rows if row[0][:1] == "0"]
        assert len(page.rows) - 1 <= ROWS
        assert ("First page" in page.links) == (path != "/Seat/")
        seen += [row[0] for row in rows]
        path = follow(path, page.links["Next page"]) if "Next page" in page.links else ""
    assert seen == [f"{n:04}" for n in range(300)]


def test_a_sorted_filtered_table_keeps_both_over_its_pages(site: Application) -> None:
    path = "/Seat/?_column=name&_operator=eq&_value=n3&_query=limit(10)"
    status, answered, _ = site.answer("GET", path, accept=BROWSER)
    assert status == 303
    path = follow(path, answered["location"])
    assert path == "/Seat/?name==n3&limit(10)"
    path = follow(path, show(site, path).links["Sort by price, descending"])
    assert path == "/Seat/?name==n3&sort(-price)&limit(10)"
    prices = []
    for number in range(3):
        page = show(site, path)
        assert page.find("th", **{"aria-sort": "descending"}) and "Remove the condition name==n3" in page.links
        prices += [float(row[2]) for row in page.rows[1:]]
        path = follow(path, page.links["Next page"]) if number < 2 else path
    assert prices == sorted((n / 2 for n in range(300) if n % 7 == 3), reverse=True)[:30]
    assert show(site, follow(path, show(site, path).links["First page"])).rows[1][2] == str(prices[0])


def test_only_what_the_planner_sorts_has_a_link(site: Application) -> None:
    page = show(site, "/Seat/")
    sorted_columns = {name.split()[2].rstrip(",") for name in page.links if name.startswith("Sort by")}
    assert sorted_columns == {"id", "name", "price", "showId", "otherIds"}
    for name, link in page.links.items():
        if name.startswith("Sort by"):
            show(site, follow("/Seat/", link))
    assert "Sort by stock, ascending" in show(site, "/Seat/?name==n3").links
    for name, link in show(site, "/Seat/?name==n3").links.items():
        if name.startswith("Sort by"):
            show(site, follow("/Seat/", link))


@pytest.mark.parametrize(
    ("limit", "rows"), [("limit(3)", 3), ("limit(250)", 250), ("limit(5,8)", 3), ("limit(0)", 0), ("limit(100000000)", 306)]
)
def test_a_limit_holds_up_to_that_of_pages(site: Application, limit: str, rows: int) -> None:
    page = show(site, f"/Seat/?{limit}")
    assert max(len(page.rows) - 1, 0) == rows
    if rows:
        start = 6 if limit == "limit(5,8)" else 1
        assert (f"Records {start} to {start + rows - 1} of 306" if rows < 306 else "306 records of 306") in page.text


def test_data_of_the_same_address(site: Application) -> None:
    page = show(site, "/Seat/?name==n3&sort(-price)")
    data = site.ask("GET", follow("/Seat/", page.links["JSON"]))[1]
    assert len(data) == len(page.rows) - 1 == 43 and [each["id"] for each in data] == [row[0] for row in page.rows[1:]]
    page = show(site, "/Seat/")
    assert len(site.ask("GET", follow("/Seat/", page.links["JSON"]))[1]) == ROWS
    assert site.ask("GET", follow("/Seat/", page.links["CSV"]))[1].count(b"\r\n") == 307
    assert "limit" not in page.links["CSV"]
    page = show(site, "/Seat?name==n3")
    assert site.ask("GET", follow("/Seat", page.links["JSON"]))[0] == 200


@pytest.mark.parametrize(
    ("query", "columns", "row"),
    [
        ("select(id,name)&sort(id)&id=ge=0&limit(1)", ["id", "name"], ["0000", "n0"]),
        ("select(name)&id==0001", ["name"], ["n1"]),
        ("select([id,name])&id==0001", ["id", "name"], ["0001", "n1"]),
        ("select(id,show{title})&id==0001", ["id", "show"], ["0001", "First <b>"]),
        ("select(id,stock)&id==0001", ["id", "stock"], ["0001", ""]),
        ("select(*,show)&id==0001", ["id", "name"], ["0001", "n1"]),
        ("group(name;count,max(price))&name==n1", ["name", "count", "max.price"], ["n1", "43", "147.5"]),
        ("facet(name)&name==n1", ["value", "count"], ["n1", "43"]),
        ("show.title==First*&id==0001&select(id)", ["id"], ["0001"]),
    ],
)
def test_other_results(site: Application, query: str, columns: list[str], row: list[str]) -> None:
    page = show(site, f"/Seat/?{query}")
    assert all(cell.startswith(column) for cell, column in zip(page.rows[0], columns, strict=False)), page.rows[0]
    assert page.rows[1][: len(row)] == row and len(page.rows) == 2


def test_no_record_is_said(site: Application) -> None:
    page = show(site, "/Seat/?name==nothing")
    assert page.rows == [] and "No records." in page.text


def test_a_count_is_a_number(site: Application) -> None:
    assert "count306" in show(site, "/Seat/?count()").text


def test_keys_that_begin_in_a_way(site: Application) -> None:
    page = show(site, "/Seat/a/")
    assert page.rows[1][0] == "a/b" and "of 306" not in page.text


def test_a_query_with_a_fault_shows_where(site: Application) -> None:
    page = show(site, "/Seat/?name==a&sort(", 400)
    assert "QUERY_SYNTAX" in page.text and "?name==a&sort(" in page.text and page.find("mark") is not None
    page = show(site, "/Seat/?stock=gt=5", 400)
    assert "NOT_INDEXED" in page.text
    show(site, "/Seat/?no==1", 400)
    show(site, "/Seat/?live()", 400)
    show(site, "/Seat/?after(x)", 400)
    page = show(site, f"/Seat/?{escaped(HOSTILE)}==<script>alert(1)</script>", 400)
    assert "<script>alert(1)</script>" in page.text


# --- records -----------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["a<b", "a/b", "x.csv", "ä\"'", "..", "javascript:alert(1)"])
def test_every_key_has_its_page(site: Application, key: str) -> None:
    page = show(site, f"/Seat/?id=={escaped(key)}")
    path = follow("/Seat/", next(found["href"] for tag, found in page.elements if found.get("href", "").startswith("../Seat/")))
    record = show(site, path)
    assert record.find("h1") is not None and key in record.text and HOSTILE in record.text
    data = site.ask("GET", follow(path, record.links["JSON"]))[1]
    assert data["id"] == key and data[HOSTILE] == HOSTILE


def test_a_record_leads_to_related_ones(site: Application) -> None:
    page = show(site, "/Seat/0001")
    assert follow("/Seat/0001", page.links["s1"]) == follow("/Seat/0001", page.links["Show s1"]) == "/Show/s1"
    page = show(site, "/Show/s1")
    path = follow("/Show/s1", page.links["all Seat with showId = s1"])
    assert path == "/Seat/?showId==s1" and len(show(site, path).rows) == ROWS + 1


def test_null_and_missing_are_told_apart(site: Application) -> None:
    page = show(site, "/Seat/a%3Cb")
    members = {row[0].split("\n")[0]: row[1].strip() for row in page.rows}
    assert members["stockInt"] == "null" and members["sinceDate"] == "missing"


def test_lists_of_keys_lead_to_each_record(site: Application) -> None:
    page = show(site, "/Seat/a%3Cb")
    assert page.links["s1"] == "../Show/s1" and page.links["<x>"] == "../Show/%3Cx%3E"
    page = show(site, "/Seat/?sort(-id)&limit(2)")
    assert page.links["<x>"] == "../Show/%3Cx%3E"


def test_files_are_described_and_can_be_downloaded(site: Application) -> None:
    assert site.wire.ask("PUT", "/Seat/0002/photo", b"\x89PNG" * 100, {"Content-Type": "image/png"})[0] == 204
    assert site.wire.ask("PUT", "/Seat/0002/image", b"abc", {"Content-Type": "application/octet-stream"})[0] == 204
    page = show(site, "/Seat/0002")
    assert "image/png, 400 bytes" in page.text and "3 bytes" in page.text
    assert [found["href"] for tag, found in page.elements if "download" in found] == ["../Seat/0002.image", "../Seat/0002.photo"]
    status, answered, body = site.answer("GET", "/Seat/0002.photo", accept=BROWSER)
    assert (status, answered["content-type"], body) == (200, "image/png", b"\x89PNG" * 100)
    assert "image/png, 400 bytes" in show(site, "/Seat/?id==0002").text


def test_raw_content_stays_raw(site: Application) -> None:
    assert site.wire.ask("PUT", "/Seat/page", b"<h1>x</h1>", {"Content-Type": "text/html"})[0] == 204
    try:
        status, answered, body = site.answer("GET", "/Seat/page", accept=BROWSER)
        assert (status, answered["content-type"], body) == (200, "text/html; charset=utf-8", b"<h1>x</h1>")
        assert answered["x-content-type-options"] == "nosniff" and "etag" in answered
        assert "<h1>x</h1>" in show(site, "/Seat/page?select(*)").text
    finally:
        site.ask("DELETE", "/Seat/page")


def test_parts_of_a_record(site: Application) -> None:
    assert "n1" in show(site, "/Seat/0001.name").text
    assert "First <b>" in show(site, "/Seat/0001.show").text
    assert [row[0].split("\n")[0] for row in show(site, "/Seat/0001?select(name,show{title})").rows] == ["nameString", "showShow"]
    assert "n1" in show(site, "/Seat/0001/name").text
    assert "has no such property" in show(site, "/Seat/0001.since", 404).text
    show(site, "/Seat/nothing", 404)


def test_very_long_values_are_cut(site: Application) -> None:
    big = {"name": "x" * 300_000, "place": [{"a": "y" * 100}] * 3000, **{f"p{n}": n for n in range(100)}}
    assert site.ask("PUT", "/Seat/big", big)[0] == 204
    try:
        for target, most in (("/Seat/?id==big", 40_000), ("/Seat/big", 600_000)):
            body = site.answer("GET", target, accept=BROWSER)[2]
            assert len(body) < most and "…" in body.decode()
        page = show(site, "/Seat/?id==big")
        assert len(page.rows[0]) == MOST_COLUMNS and "more columns without room" in page.text
    finally:
        site.ask("DELETE", "/Seat/big")


def test_a_description(site: Application) -> None:
    page = show(site, "/Seat")
    assert 'What is "sold" <b>.' in page.text
    rows = {row[0]: row[1:3] for row in page.rows[1:]}
    assert rows["id"] == ["ID", "primary key"] and rows["name"] == ["String", "indexed"] and rows["show"] == ["Show", "by showId"]
    assert rows["otherIds"] == ["[ID]", "indexed"]
    assert follow("/Seat", page.links["Records"]) == "/Seat/" and follow("/Seat", page.links["Show"]) == "/Show/"
    assert site.ask("GET", follow("/Seat", page.links["JSON"]))[1]["name"] == "Seat"


# --- rights ------------------------------------------------------------------------------------------------------------------------


def test_rights_are_those_of_data(as_reader: Application) -> None:
    page = show(as_reader, "/Seat/?limit(3)")
    assert [cell.split()[0] for cell in page.rows[0]] == ["id", "name", "showId"]
    assert [option["value"] for tag, option in page.elements if tag == "option"][:3] == ["id", "name", "showId"]
    assert not any("Show" in href for href in page.links.values()), "the table it leads to may not be read"
    page = show(as_reader, "/Seat/0001")
    assert [row[0].split("\n")[0] for row in page.rows] == ["idID", "nameString", "showIdID"] and "Related" not in page.text
    assert [row[0] for row in show(as_reader, "/Seat").rows[1:]] == ["id", "name", "showId"]
    for target in ("/Show/", "/Show/s1", "/Show", "/Secret/", "/Seat/?price=gt=5", "/Seat/?sort(price)"):
        assert site_status(as_reader, target) == 403, target
    for name in ("price", "pric"):  # one is there, and the caller does not learn which
        assert site_status(as_reader, f"/Seat/?_column={name}&_operator=gt&_value=5") == 403
        assert site_status(as_reader, f"/Seat/?{name}=gt=5") == 403
    assert [entry["path"] for entry in as_reader.ask("GET", "/")[1]["resources"]] == [
        f"/{name}/" for name in ("Anything", "Broken", "Dear", "Firsts", "Named", "Seat", "Told")
    ]


def site_status(site: Application, target: str) -> int:
    return site.answer("GET", target, accept=BROWSER)[0]


def test_an_anonymous_caller_learns_nothing_of_tables(site: Application) -> None:
    site.node.as_user(None)
    try:
        for target in ("/Seat/", "/Seat/?(", "/Seat/?_column=x", "/Seat/0001", "/Seat"):
            status, answered, body = site.answer("GET", target, accept=BROWSER)
            assert (
                (status, answered["content-type"]) == (401, "text/html; charset=utf-8") and b"Must login" in body and b"price" not in body
            )
        found = site.ask("GET", "/")[1]
        assert found["user"] is None and [entry["path"] for entry in found["resources"]] == ["/Anything/", "/Broken/", "/Told/"]
        page = show(site, "/")
        assert "Anything" in page.links and "Seat" not in page.text
    finally:
        site.node.as_user(ADMIN)


# --- code of applications ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "texts"),
    [
        ("text", ["<b>&"]),
        ("number", ["5"]),
        ("list", ["1", "2", "2 elements"]),
        ("rows", ["null", "<i>", "2 elements"]),
        ("nested", ["a", "b", "2"]),
        ("long", ["199", "1000 elements; only the first ones are shown"]),
        ("endless", ["500 elements; only the first ones are shown"]),
    ],
)
def test_data_of_code(site: Application, kind: str, texts: list[str]) -> None:
    page = show(site, f"/Anything/?kind={kind}")
    assert all(text in page.text for text in texts)


def test_responses_of_code(site: Application) -> None:
    status, answered, body = site.answer("GET", "/Anything/?kind=html", accept=BROWSER)
    assert (status, answered["content-type"], body) == (200, "text/html", b"<h1>own</h1>") and "content-security-policy" not in answered
    status, answered, body = site.answer("GET", "/Anything/?kind=data", accept=BROWSER)
    assert (status, answered["x-a"], answered["content-type"]) == (203, "b", "text/html; charset=utf-8") and "<b>" in Parsed(body).text
    assert answered["cache-control"] == "private, no-cache" and answered["content-security-policy"].startswith("default-src 'none'")
    status, answered, body = site.answer("GET", "/Anything/?kind=typed", accept=BROWSER)
    assert (status, answered["content-type"], body) == (200, "text/x", b'{"x":1}')
    assert site.answer("GET", "/Anything/?kind=bytes", accept=BROWSER)[2] == b"raw"
    assert site.answer("GET", "/Anything/?kind=none", accept=BROWSER)[0] == 404


def test_a_class_of_a_table_gets_the_query_as_it_is(site: Application) -> None:
    page = show(site, "/Named/")
    assert len(page.rows) - 1 == ROWS and "of 306" not in page.text, "the code may leave some out"
    assert len(show(site, "/Named/?name=n3&limit(2)").rows) == 3
    assert "Sort by" not in " ".join(show(site, "/Firsts/").links), "it has another query run"
    assert "_column" not in str(page.elements), "its code would get the fields of the form"


@pytest.mark.parametrize("path", ["/Named/", "/Dear/"])
def test_pages_of_a_class_sort_and_follow_each_other(site: Application, path: str) -> None:
    page = show(site, follow(path, show(site, path).links["Sort by price, descending"]))
    assert [row[2] for row in page.rows[1:4]] == ["149.5", "149", "148.5"]
    following = show(site, follow(path, page.links["Next page"]))
    assert following.rows[1][2] == "124.5" and "Records 51 to 100" in following.text
    assert show(site, follow(path, following.links["Previous page"])).rows == page.rows
    status, answered, body = site.answer("GET", follow(path, page.links["CSV"]))
    assert (status, answered["content-type"]) == (200, "text/csv; charset=utf-8") and body.count(b"\r\n") > 100


def test_a_defect_says_nothing_of_itself(site: Application) -> None:
    page = show(site, "/Broken/", 500)
    assert "secret" not in page.text and "Internal Server Error" in page.text
    assert len(site.errors) == 1
    site.errors.clear()


# --- the way back, counts, labels, forms -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "query", ["", "name==n3&limit(4)", "sort(-price)&limit(7)", "sort(stock)&name==n1&limit(8)", "[name==n1|price=ge=100]&limit(9)"]
)
def test_each_page_leads_back_to_the_one_before(site: Application, query: str) -> None:
    path, seen = f"/Seat/?{query}" if query else "/Seat/", []
    while path:
        page = show(site, path)
        seen.append(page)
        path = follow("/Seat/", page.links["Next page"]) if "Next page" in page.links else ""
    first = 1
    for page in seen:
        assert f"Records {first:,} to {first + len(page.rows) - 2:,}" in page.text
        first += len(page.rows) - 1
    for page, after in pairwise(seen):
        assert show(site, follow("/Seat/", after.links["Previous page"])).rows == page.rows
    assert len(seen) > 4 and "Previous page" not in seen[0].links


def test_a_forged_position_moves_no_rows(site: Application) -> None:
    page = show(site, "/Seat/?limit(5)")
    cursor = page.links["Next page"].partition("after(")[2].rstrip(")")
    document = msgspec.msgpack.decode(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    expected = show(site, f"/Seat/?limit(5)&after({cursor})").rows
    for before, status in ((10**15, 200), (0, 200), (-1, 400), (10**18, 400), ("5", 400), (None, 400)):
        forged = base64.urlsafe_b64encode(msgspec.msgpack.encode([*document[:5], before])).rstrip(b"=").decode()
        found = show(site, f"/Seat/?limit(5)&after({forged})", status)
        assert status == 400 or found.rows == expected
    shorter = base64.urlsafe_b64encode(msgspec.msgpack.encode(document[:5])).rstrip(b"=").decode()
    page = show(site, f"/Seat/?limit(5)&after({shorter})")
    assert page.rows == expected and "Previous page" not in page.links, "a cursor of before has no position"


def test_related_records_are_counted(site: Application, as_reader: Application) -> None:
    assert "(300)" not in show(as_reader, "/Seat/0001").text
    site.node.as_user(ADMIN)
    page = show(site, "/Show/s1")
    assert "all Seat with showId = s1 (300)" in page.text
    assert site.ask("PUT", "/Show/none", {"title": "Nobody's"})[0] == 204
    assert "(0)" in show(site, "/Show/none").text
    assert site.ask("DELETE", "/Show/none")[0] == 204


def test_related_records_are_counted_by_what_the_caller_may_read(site: Application) -> None:
    """The number of records with a value tells of an attribute as much as a condition on it would."""
    hidden = RIGHTS | {"attribute_permissions": [{"attribute_name": "name", "read": True, "insert": False, "update": False}]}
    for seat, is_shown in ((RIGHTS | {"attribute_permissions": []}, True), (hidden, False)):
        tables = {"Show": RIGHTS | {"attribute_permissions": []}, "Seat": seat}
        role = Role("half", "half", {"data": {"tables": tables}}, databases=site.node.store.databases)
        site.node.as_user(User("half", role=role))
        try:
            status = site.ask("GET", "/Seat/?showId==s1&limit(1)")[0]
            text = show(site, "/Show/s1").text
        finally:
            site.node.as_user(ADMIN)
        assert status == (200 if is_shown else 403)
        assert ("(300)" in text) == ("showId = s1" in text) == is_shown


def test_joined_records_have_labels(site: Application) -> None:
    page = show(site, "/Seat/?id==0001&select(id,show{id,title})")
    assert page.rows[1] == ["0001", "First <b>"] and follow("/Seat/", page.links["First <b>"]) == "/Show/s1"
    page = show(site, "/Show/?id==s1&select(title,seats{name,price,id})")
    assert page.rows[1][1].startswith("n0 {price: 0}, n1 {price: 0.5}, ") and page.rows[1][1].endswith(", …")
    assert follow("/Show/", page.links["n1"]).startswith("/Seat/")
    assert show(site, "/Seat/?id==0001&select(id,show{id})").rows[1] == ["0001", "s1"]
    assert show(site, "/Seat/?id==0001&select(id,others{title})").rows[1] == ["0001", "[]"]


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ("_column=price&_operator=gt&_value=dear&_query=name%3D%3Dn3", "BAD_VALUE"),
        ("_column=no&_operator=eq&_value=1&_query=", "UNKNOWN_ATTRIBUTE"),
        ("_column=stock&_operator=eq&_value=1&_query=", "NOT_INDEXED"),
        ("_column=price&_operator=zz&_value=1&_query=", "UNUSABLE_OPERATOR"),
        ("_column=price&_operator=gt&_value=%3Cb%3E&_query=", "BAD_VALUE"),
    ],
)
def test_a_wrong_value_stays_in_the_form(site: Application, fields: str, code: str) -> None:
    page = show(site, f"/Seat/?{fields}", 400)
    sent = dict(parse_qsl(fields, keep_blank_values=True))
    assert code in page.text
    assert page.find("input", name="_value")["value"] == sent["_value"]
    assert page.find("input", name="_query")["value"] == sent["_query"]
    chosen = [option["value"] for tag, option in page.elements if tag == "option" and "selected" in option]
    assert set(chosen) <= {sent["_column"], sent["_operator"]}


@pytest.mark.parametrize(
    ("fields", "reference", "row"),
    [
        ("_column=name&_value=&_operator=count&_query=", "?facet(name)", ["n0", "43"]),
        ("_column=name&_value=price&_operator=count&_query=price%3Dge%3D149", f"?price=ge=149&{FIGURES}", ["n4"]),
        ("_column=stock&_value=&_operator=count&_query=name%3D%3Dn1", "?name==n1&facet(stock)", ["null", "43"]),
    ],
)  # fmt: skip
def test_values_are_counted_by_a_form(site: Application, fields: str, reference: str, row: list[str]) -> None:
    status, answered, _ = site.answer("GET", f"/Seat/?{fields}", accept=BROWSER)
    assert (status, answered["location"]) == (303, reference)
    assert show(site, f"/Seat/{reference}").rows[1][: len(row)] == row


def test_the_form_that_counts_offers_what_the_caller_sees(as_reader: Application) -> None:
    page = show(as_reader, "/Seat/")
    assert [option["value"] for tag, option in page.elements if tag == "option"][-2:] == ["name", "showId"]
    assert "with figures of" not in page.text


@pytest.mark.parametrize("media_type", ["application/x-www-form-urlencoded", "multipart/form-data; boundary=b"])
def test_a_form_that_was_sent_ends_at_a_page(site: Application, media_type: str) -> None:
    def send(path: str, accept: str = BROWSER, **fields: str) -> tuple[int, dict[str, str], bytes]:
        if media_type.startswith("multipart"):
            parts = [f'--b\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n' for name, value in fields.items()]
            body = "".join([*parts, "--b--\r\n"]).encode()
        else:
            body = urlencode(fields).encode()
        return site.answer("POST", path, body, content_type=media_type, accept=accept)

    status, answered, body = send("/Show/", id="sent", title="by a form")
    assert (status, answered["location"], answered["cache-control"], body) == (303, "/Show/sent", "no-store", None)
    assert "by a form" in show(site, "/Show/sent").text
    status, answered, _ = send("/Show/", id="sent2", title="t", redirect="/Show/?title==t")
    assert (status, answered["location"]) == (303, "/Show/?title==t")
    assert site.ask("GET", "/Show/sent2")[1] == {"id": "sent2", "title": "t"}, "`redirect` is not part of the record"
    for other in ("https://evil.example/", "//evil.example", "/\\evil.example"):
        assert send("/Show/", id="sent3", title="t", redirect=other)[0] == 400
    assert site.ask("GET", "/Show/sent3")[0] == 404
    status, answered, body = send("/Show/", id="sent", title="again", redirect="/x")
    assert status == 409 and answered["content-type"] == "text/html; charset=utf-8"
    status, answered, body = send("/Show/", "application/json", id="sent4", title="t")
    assert (status, answered["location"]) == (201, "/Show/sent4"), "other clients see no difference"
    status, answered, body = send("/Told/", name="<b>")
    assert (status, answered["content-type"]) == (200, "text/html; charset=utf-8") and "<b>" in Parsed(body).text
    assert send("/Told/", name="x", redirect="/Show/")[1]["location"] == "/Show/"
    for redirect in ({}, {"redirect": "/Show/"}):
        status, answered, _ = send("/Leading/", **redirect)
        assert (status, answered["location"]) == (302, "/Told/5"), "code leads elsewhere"
    assert send("/Show/", "text/html", id="sent", title="t", redirect="/x")[0] == 409, "no other type needs to be accepted"
    for key in ("sent", "sent2", "sent4"):
        assert site.ask("DELETE", f"/Show/{key}")[0] == 204


def test_lists_of_records_in_json_are_answered_as_before(site: Application) -> None:
    status, answered, _ = site.answer("POST", "/Show/", [{"id": "j1"}], accept=BROWSER)
    assert (status, answered["content-type"]) == (201, "application/json")
    assert site.ask("DELETE", "/Show/j1")[0] == 204


# --- errors ------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("target", "status", "code"),
    [
        ("/nothing", 404, "NOT_FOUND"),
        ("/Seat/%zz", 400, "BAD_PATH"),
        ("/Number/x", 400, "BAD_VALUE"),
        ("/nothing/<script>", 404, "NOT_FOUND"),
        ("//x//y", 404, "NOT_FOUND"),
    ],
)
def test_errors_are_pages(site: Application, target: str, status: int, code: str) -> None:
    page = show(site, target, status)
    assert code in page.text and target in page.text
    assert site.answer("GET", target)[1]["content-type"] == "application/problem+json"


def test_other_methods_of_a_browser(site: Application) -> None:
    status, answered, body = site.answer("DELETE", "/Seat", accept=BROWSER)
    assert (status, answered["content-type"]) == (405, "text/html; charset=utf-8") and "allow" in answered and b"METHOD_NOT_ALLOWED" in body
    status, answered, body = site.answer("PUT", "/Seat/0001", {"price": "<x>", "stock": "y"}, accept=BROWSER)
    assert status == 400 and {"VALIDATION", "Value"} <= set(Parsed(body).text.split())
    status, _, body = site.answer("POST", "/Seat/", [{"id": "0001"}, {"id": "<b>", "stock": "y"}], accept=BROWSER)
    assert status == 400 and "index: 1, key: <b>, attribute: stock" in Parsed(body).text


# --- the root ----------------------------------------------------------------------------------------------------------------------


def test_the_root(site: Application) -> None:
    found = site.ask("GET", "/")[1]
    assert found["user"] == "admin" and found["server"] == "svc"
    seat = {"path": "/Seat/", "name": "Seat", "kind": "table", "description": 'What is "sold" <b>.'}
    assert any(seat.items() <= entry.items() for entry in found["resources"])
    assert {entry["path"] for entry in found["interfaces"]} >= {"/openapi"}
    page = show(site, "/")
    assert follow("/", page.links["Seat"]) == "/Seat/" and 'What is "sold" <b>.' in page.text
    assert follow("/Seat/0001", show(site, "/Seat/0001").links["svc"]) == "/_pages/", "an application may have its own page at the root"
    assert show(site, "/_pages/").rows == page.rows and follow("/_pages/", show(site, "/_pages/").links["Seat"]) == "/Seat/"
    assert site.ask("GET", "/_pages/")[1] == found and site.ask("DELETE", "/_pages/")[0] == 405
    assert "Told" not in page.links and "/Told/{id}" in page.text and "One thing at a time: /Told/5" in page.text
    assert "More of it" not in page.text and "Anything" in page.links
    assert site.ask("POST", "/", {})[0] == 405 and site.answer("OPTIONS", "/")[1]["allow"] == "GET, HEAD, OPTIONS"


def test_files_of_pages_are_kept_by_caches(site: Application) -> None:
    page = show(site, "/Seat/0001")
    for tag in ("link", "img"):
        address = page.find(tag).get("href") or page.find(tag)["src"]
        status, answered, body = site.answer("GET", follow("/Seat/0001", address))
        assert status == 200 and body and answered["cache-control"] == "public, max-age=31536000, immutable"
        assert site.answer("GET", follow("/Seat/0001", address), if_none_match=answered["etag"])[0] == 304
    assert site.answer("GET", "/_pages/page-000000000000.css")[0] == 404
    assert site.ask("DELETE", follow("/Seat/0001", page.find("link")["href"]))[0] == 405


def test_plain_parameters_are_understood(site: Application) -> None:
    page = show(site, "/Seat/?_sort=-price&_limit=3&_offset=2&_where=name%3D%3Dn3&_count=exact")
    assert [float(row[2]) for row in page.rows[1:]] == [141.5, 138.0, 134.5] and "Records 3 to 5 of 43" in page.text
    assert follow("/Seat/", page.links["First page"]) == "/Seat/?name==n3&sort(-price)&limit(3)&_count=exact"
    again = show(site, follow("/Seat/", page.links["Next page"]))
    assert [float(row[2]) for row in again.rows[1:]] == [131.0, 127.5, 124.0] and "Records 6 to 8 of 43" in again.text
    assert "Records 1 to 3" in show(site, "/Seat/?name==n3&limit(3)").text
    assert len(show(site, "/Seat/?_offset=300").rows) == 7


@pytest.mark.parametrize("query", ["[name==n1|price=ge=100]&select(id)", "group(price;count)", "facet(price)"])
def test_results_without_a_cursor_have_pages_too(site: Application, query: str) -> None:
    path, seen = f"/Seat/?{query}", []
    while path:
        page = show(site, path)
        seen += [row[0] for row in page.rows[1:]]
        path = follow(path, page.links["Next page"]) if "Next page" in page.links else ""
    whole = site.ask("GET", f"/Seat/?{query}")[1]
    assert len(seen) == len(whole) > ROWS and len(set(seen)) == len(seen)


@pytest.mark.parametrize("query", ["price=ge=100&group(name;count)", "price=ge=100&facet(name)", "group(stock,name;count)"])
def test_rows_of_an_aggregate_lead_to_their_records(site: Application, query: str) -> None:
    page = show(site, f"/Seat/?{query}")
    path = follow("/Seat/", page.links["n3"])
    assert path == ("/Seat/?price=ge=100&name==n3" if "price" in query else "/Seat/?name==n3")
    assert {row[1] for row in show(site, path).rows[1:]} == {"n3"}


def test_an_aggregate_of_missing_values_leads_there(site: Application) -> None:
    page = show(site, "/Seat/?facet(price)&limit(200)&sort(value)")
    nulls = [found["href"] for tag, found in page.elements if found.get("href", "").startswith("?price==null")]
    assert nulls == ["?price==null"] and len(show(site, follow("/Seat/", nulls[0])).rows) == 7


def test_a_long_query_makes_no_long_page(site: Application) -> None:
    """Links repeat the query: a thousand conditions with a link each to remove it were a page of 14 MB."""
    many = "&".join(f"name!=x{number}" for number in range(1000))
    for query in (f"price=gt=-1&{many}", f"price=gt=-1&{many}&facet(name)"):
        _, _, body = site.answer("GET", f"/Seat/?{query}", accept=BROWSER)
        assert len(body) < 120_000
    page = show(site, "/Seat/?price=gt=-1&name!=a")
    assert page.links["Remove the condition name!=a"] == "?price=gt=-1"


def test_columns_without_room_are_told_in_part(site: Application) -> None:
    for number in range(3):
        assert site.ask("PUT", f"/Number/{1000 + number}", {f"c{number}_{at}": at for at in range(700)})[0] == 204
    _, _, body = site.answer("GET", "/Number/?id=ge=1000&limit(3)", accept=BROWSER)
    text = body.decode()
    assert "At least 1342 more columns" in text
    assert text.count("<bdi>c0_") == MOST_COLUMNS - 2 + 50
    for number in range(3):
        assert site.ask("DELETE", f"/Number/{1000 + number}")[0] == 204
