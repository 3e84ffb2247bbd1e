"""Records are changed by forms (spec: http §7.8)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.application import ADMIN, Application, application
from tests.support.pages import BROWSER, Parsed
from tests.support.sent_forms import PageForm, forms_of

HOSTILE = "\"'><img src=x onerror=alert(1)></td></textarea><script>alert(2)</script>&lt;"
SCHEMA = """
enum Status { OPEN CLOSED "second" PENDING }
"Where things are made."
type Brand @table @export { id: ID @primaryKey name: String @indexed products: [Product] @relationship(to: "brandId") }
type Size @table @sealed @export { id: Long @primaryKey label: String! }
type Product @table @export {
  id: ID @primaryKey
  "What it is called."
  name: String! @indexed
  note: String
  price: Float
  stock: Int @default(value: 3)
  big: BigInt
  active: Boolean
  since: Date
  status: Status
  tags: [String]
  sizes: [Int]
  place: Any
  brandId: ID @indexed
  brand: Brand @relationship(from: "brandId")
  code: String @unique
  photo: Blob
  raw: Bytes
  dear: Boolean @computed(from: "price > 100")
  made: Date @createdTime
  changed: Date @updatedTime
}
type Doc @table @export @splitSegments { id: ID @primaryKey text: String }
type Free @table @export { id: Any @primaryKey text: String }
type Kept @table @export { id: ID @primaryKey brandId: ID @indexed brand: Brand @relationship(from: "brandId", onDelete: restrict) }
"""
CODE = """
from svc import Resource, tables

class Shown(tables.Product):
    async def get(self, target=None):
        found = await super().get(target)
        if found is None or target.id is None:
            return found
        record = dict(found)
        record.pop("note", None)
        record["price"] = 1
        record["doubled"] = 2
        return record
    def patch(self, data, target=None):
        data["tags"] = ["patched"]
        return super().patch(data, target)
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Application]:
    with application(tmp_path_factory.mktemp("edit"), CODE, schema=SCHEMA) as made:
        assert made.ask("PUT", "/Brand/b1", {"name": "Ärger & Co"})[0] == 204
        assert made.ask("PUT", "/Brand/b2", {"name": HOSTILE})[0] == 204
        yield made
        assert made.errors == []


@pytest.fixture(autouse=True)
def as_admin(site: Application) -> Iterator[None]:
    yield
    site.node.as_user(ADMIN)


WHOLE: dict[str, Any] = {
    "name": "Keyboard", "note": "\nfirst\nsecond ", "price": 49.5, "stock": 7, "big": 2**70 + 1, "active": False, "since": "1894-03-05T01:02:03.955Z",
    "status": "OPEN", "tags": ["a,b", "c"], "sizes": [1, 2], "place": {"a": [1, 2.5, None], "b": 2**64}, "brandId": "b1", "extra": {"x": 1}, "other": "y",
}  # fmt: skip


def stored(site: Application, path: str) -> tuple[Any, str]:
    status, fields, body = site.answer("GET", path, accept="application/json")
    assert status == 200, body
    return body, fields["etag"]


def form_at(site: Application, path: str, status: int = 200) -> PageForm:
    found, _, body = site.answer("GET", path, accept=BROWSER)
    assert found == status, body
    Parsed(body)
    return next(form for form in forms_of(body) if form.method == "post")


def send(
    site: Application, path: str, form: PageForm, button: tuple[str, str] | None = None, files: Any = None, **fields: str
) -> tuple[int, str, bytes]:
    """(status, location, page)."""
    body, kind = form.body(button, files)
    status, answered, page = site.answer("POST", path, body, **({"accept": BROWSER, "content_type": kind} | fields))
    if status >= 400 or status == 200:
        Parsed(page)
    return status, answered.get("location", ""), page


def test_a_form_that_is_sent_as_it_is_writes_nothing(site: Application) -> None:
    assert site.ask("PUT", "/Product/p1", WHOLE)[0] == 204
    before = stored(site, "/Product/p1")
    form = form_at(site, "/Product/p1?_view=edit")
    assert form["v.note"] == "\nfirst\nsecond " and form["v.big"] == str(2**70 + 1) and form["v.since"] == "1894-03-05T01:02:03.955Z"
    assert form["v.status"] == "=OPEN" and form["v.tags"] == "a,b\nc" and form["v.active"] == "=false"
    assert json.loads(form["v.place"]) == WHOLE["place"] and str(2**64) in form["v.place"]
    page = Parsed(site.answer("GET", "/Product/p1?_view=edit", accept=BROWSER)[2])
    assert "Computed" in page.text and "Set by the server" in page.text
    assert "v.id" not in form and "v.dear" not in form and "v.made" not in form and "v.changed" not in form
    assert send(site, "/Product/p1?_view=edit", form)[:2] == (303, "./p1")
    assert stored(site, "/Product/p1") == before


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("name", "Mouse", "Mouse"), ("note", "a\nb\n", "a\nb\n"), ("note", HOSTILE, HOSTILE), ("price", "1e3", 1000), ("price", "", None), ("stock", "-2", -2),
        ("big", str(10**60), 10**60), ("active", "=true", True), ("active", "null", None), ("since", "2024-01-05T20:07:27.955Z", "2024-01-05T20:07:27.955Z"),
        ("since", "2024-01-05", "2024-01-05T00:00:00.000Z"), ("status", "=CLOSED", "CLOSED"), ("tags", "x\n\ny", ["x", "y"]), ("tags", "", []),
        ("sizes", "5\n6", [5, 6]), ("place", "5", 5), ("place", '"5"', "5"), ("place", "", None), ("brandId", "b2", "b2"), ("note", "", ""),
    ],
)  # fmt: skip
def test_just_what_was_changed_is_written(site: Application, name: str, text: str, value: Any) -> None:
    site.ask("PUT", "/Product/p1", WHOLE)
    before = stored(site, "/Product/p1")[0]
    form = form_at(site, "/Product/p1?_view=edit")
    form.fill(f"v.{name}", text)
    assert send(site, "/Product/p1?_view=edit", form)[:2] == (303, "./p1#saved")
    after = stored(site, "/Product/p1")[0]
    assert after[name] == value
    same = before.keys() - {name, "changed"}
    assert {each: after[each] for each in same} == {each: before[each] for each in same} and after.keys() == before.keys()


def test_null_missing_and_empty_are_told_apart(site: Application) -> None:
    site.ask("PUT", "/Product/n1", {"name": "x", "note": None, "tags": None})
    form = form_at(site, "/Product/n1?_view=edit")
    assert form["s.note"] == "null" and form.options["s.note"] == ["value", "null"]
    assert form["s.code"] == "missing" and form.options["s.code"] == ["value", "null", "missing"]
    assert "s.name" not in form  # required
    form.fill("s.note", "value")
    form.fill("s.code", "null")
    form.fill("v.tags", "typed")
    assert send(site, "/Product/n1?_view=edit", form)[0] == 303
    body = stored(site, "/Product/n1")[0]
    assert body["note"] == "" and body["code"] is None and body["tags"] == ["typed"] and "price" not in body


def test_undeclared_properties(site: Application) -> None:
    site.ask("PUT", "/Product/p2", {"name": "x", "one": 1, "two": {"a": 2**60}, "three": "3"})
    form = form_at(site, "/Product/p2?_view=edit")
    rest = json.loads(form["~others"])
    assert rest == {"one": 1, "two": {"a": 2**60}, "three": "3"}
    form.fill("~others", json.dumps({"one": 1, "two": {"a": 5}, "four": []}))
    assert send(site, "/Product/p2?_view=edit", form)[0] == 303
    body = stored(site, "/Product/p2")[0]
    assert (body["one"], body["two"], body["three"], body["four"]) == (1, {"a": 5}, None, [])
    form = form_at(site, "/Product/p2?_view=edit")
    for text, said in (
        ("{", "truncated"),
        ('{"a" 1}', "line 1, column 6"),
        ("[1]", "one JSON object"),
        ('{"name": 1}', "field of its own"),
    ):
        form.fill("~others", text)
        status, _, page = send(site, "/Product/p2?_view=edit", form)
        assert status == 400 and said in page.decode()
    assert stored(site, "/Product/p2")[0] == body


def test_faults_are_at_their_fields_and_nothing_is_lost(site: Application) -> None:
    site.ask("PUT", "/Product/p1", WHOLE)
    before = stored(site, "/Product/p1")
    form = form_at(site, "/Product/p1?_view=edit")
    form.fill("v.price", "dear")
    form.fill("v.place", '{"a": 1,\n "b": }')
    form.fill("v.note", HOSTILE)
    status, _, page = send(site, "/Product/p1?_view=edit", form)
    assert status == 400
    parsed = Parsed(page)
    assert parsed.find("input", id="f-price")["aria-invalid"] == "true"
    assert parsed.find("input", id="f-price")["aria-describedby"].split()[0] == "f-price-fault"
    assert parsed.links["place: Invalid JSON: JSON is malformed: invalid character (line 2, column 7)"] == "#f-place"
    again = next(form for form in forms_of(page) if form.method == "post")
    assert (again["v.price"], again["v.place"], again["v.note"]) == ("dear", '{"a": 1,\n "b": }', HOSTILE)
    again.fill("v.price", "5")
    again.fill("v.place", "null")
    assert send(site, "/Product/p1?_view=edit", again)[0] == 303
    after = stored(site, "/Product/p1")[0]
    assert (after["price"], after["place"], after["note"]) == (5, None, HOSTILE) and after["tags"] == before[0]["tags"]


def test_what_the_table_refuses_is_at_its_field(site: Application) -> None:
    site.ask("PUT", "/Product/p1", WHOLE | {"code": "c1"})
    site.ask("PUT", "/Product/p2", WHOLE | {"code": "c2"})
    form = form_at(site, "/Product/p2?_view=edit")
    form.fill("v.stock", str(2**40))
    status, _, page = send(site, "/Product/p2?_view=edit", form)
    assert status == 400 and "stock: Value 1099511627776 in property stock must be an integer" in Parsed(page).text
    form.fill("v.stock", "1")
    form.fill("v.code", "c1")
    status, _, page = send(site, "/Product/p2?_view=edit", form)
    assert status == 409 and "code: Value &#34;c1&#34; in property code is that of another record" in page.decode()


def test_two_people_edit_one_record(site: Application) -> None:
    site.ask("PUT", "/Product/p3", WHOLE)
    first, second = form_at(site, "/Product/p3?_view=edit"), form_at(site, "/Product/p3?_view=edit")
    first.fill("v.name", "Theirs")
    first.fill("v.stock", "1")
    assert send(site, "/Product/p3?_view=edit", first)[0] == 303
    second.fill("v.name", "Mine")
    second.fill("v.note", "Mine too")
    second.fill("~others", '{"extra": {"x": 2}, "other": "y"}')
    status, _, page = send(site, "/Product/p3?_view=edit", second)
    assert status == 412
    rows = {row[0]: row[1:] for row in Parsed(page).rows}
    assert [text.strip() for text in rows["name"][:3]] == ["Keyboard", "Theirs", "Mine"] and "Both have changed it" in rows["name"][3]
    assert rows["note"][2].strip() == "Mine too" and rows["note"][3].strip() == "Yours"
    assert [text.strip() for text in rows["stock"]] == ["7", "1", "not changed", "Theirs"]
    assert "extra" in rows and "place" not in rows and "other" not in rows
    assert stored(site, "/Product/p3")[0]["note"] == WHOLE["note"]
    confirm = next(form for form in forms_of(page) if form.method == "post")
    status, _, page = send(site, "/Product/p3?_view=edit", confirm)  # without a choice
    assert status == 400 and b"Choose for each conflict" in page
    confirm = next(form for form in forms_of(page) if form.method == "post")
    confirm.choose("t.name", "theirs")
    assert send(site, "/Product/p3?_view=edit", confirm)[0] == 303
    body = stored(site, "/Product/p3")[0]
    assert (body["name"], body["note"], body["stock"], body["extra"]) == ("Theirs", "Mine too", 1, {"x": 2})


def test_what_is_confirmed_is_of_the_version_that_was_shown(site: Application) -> None:
    site.ask("PUT", "/Product/p3", WHOLE)
    form = form_at(site, "/Product/p3?_view=edit")
    site.ask("PATCH", "/Product/p3", {"name": "second"})
    form.fill("v.name", "Mine")
    status, _, page = send(site, "/Product/p3?_view=edit", form)
    confirm = next(form for form in forms_of(page) if form.method == "post")
    confirm.choose("t.name", "mine")
    site.ask("PATCH", "/Product/p3", {"stock": 99})
    status, _, page = send(site, "/Product/p3?_view=edit", confirm)
    assert status == 412 and stored(site, "/Product/p3")[0]["name"] == "second"
    confirm = next(form for form in forms_of(page) if form.method == "post")
    assert send(site, "/Product/p3?_view=edit", confirm)[0] == 303  # of what was shown first nothing is in conflict any more
    body = stored(site, "/Product/p3")[0]
    assert body["name"] == "Mine" and body["stock"] == 99


def test_a_record_that_was_deleted_can_be_inserted_again(site: Application) -> None:
    site.ask("PUT", "/Product/p4", WHOLE)
    form = form_at(site, "/Product/p4?_view=edit")
    site.ask("DELETE", "/Product/p4")
    form.fill("v.name", "Again")
    status, _, page = send(site, "/Product/p4?_view=edit", form)
    assert status == 404 and b"deleted this record" in page
    again = next(form for form in forms_of(page) if form.method == "post")
    assert again.action == "../Product/?_view=new"
    status, _, page = send(site, "/Product/?_view=new", again, ("_again", "1"))
    assert status == 200
    insert = next(form for form in forms_of(page) if form.method == "post")
    assert insert["v.id"] == "p4" and insert["v.name"] == "Again"
    assert send(site, "/Product/?_view=new", insert)[:2] == (303, "../Product/p4#created")
    body = stored(site, "/Product/p4")[0]
    assert {name: body[name] for name in WHOLE if name not in ("extra", "other", "name")} == {
        name: WHOLE[name] for name in WHOLE if name not in ("extra", "other", "name")
    }


def test_files(site: Application) -> None:
    site.ask("PUT", "/Product/f1", {"name": "x"})
    form = form_at(site, "/Product/f1?_view=edit")
    assert form.files == ["f.photo", "f.raw"]
    files = {"f.photo": ("a.png", "image/png", b"\x89PNG\r\n"), "f.raw": ("a", "text/plain", b"\x00\xff")}
    assert send(site, "/Product/f1?_view=edit", form, files=files)[0] == 303
    body = stored(site, "/Product/f1")[0]
    assert body["photo"]["contentType"] == "image/png" and body["photo"]["size"] == 6 and body["raw"] == "AP8="
    page = site.answer("GET", "/Product/f1?_view=edit", accept=BROWSER)[2]
    assert Parsed(page).find("img", **{"class": "preview"})["src"] == "../Product/f1.photo"
    form = forms_of(page)[0]
    assert send(site, "/Product/f1?_view=edit", form)[:2] == (303, "./f1")
    form.choose("r.photo", "1")
    files = {"f.raw": ("a", "image/svg+xml", b"<svg>")}
    assert send(site, "/Product/f1?_view=edit", form, files=files)[0] == 303
    body = stored(site, "/Product/f1")[0]
    assert body["photo"] is None and body["raw"] == "PHN2Zz4="
    site.answer("PUT", "/Product/f1/photo", b"<svg onload=alert(1)>", content_type="image/svg+xml")
    page = site.answer("GET", "/Product/f1?_view=edit", accept=BROWSER)[2]
    assert b"image/svg+xml" in page and "preview" not in [each.get("class") for tag, each in Parsed(page).elements if tag == "img"]


def test_texts_that_a_field_would_change_are_shown_as_json(site: Application) -> None:
    for text in (
        "a\r\nb\r\n",
        "a\rb",
        "a\r\nb\nc",
        "\x00\x01\x1b",
        "\u0085",
        "tab\tand \u202e mark",
        "\ufeffx\U0001f600",
        "\n",
        "\n\n",
        "\r\n",
        " ",
    ):
        site.ask("PUT", "/Product/t1", {"name": "x", "note": text})
        before = stored(site, "/Product/t1")
        form = form_at(site, "/Product/t1?_view=edit")
        assert send(site, "/Product/t1?_view=edit", form)[:2] == (303, "./t1"), text
        assert stored(site, "/Product/t1") == before
        form.fill("v.note", form["v.note"][:-1] + 'z"' if form["v.note"].endswith('"') else form["v.note"] + "z")
        assert send(site, "/Product/t1?_view=edit", form)[0] == 303, text
        assert stored(site, "/Product/t1")[0]["note"] == text + "z"


def test_code_of_an_application_runs_and_keeps_what_it_hides(site: Application) -> None:
    site.ask("PUT", "/Product/c1", WHOLE)
    status, _, page = site.answer("GET", "/Shown/c1?_view=edit", accept=BROWSER)
    assert status == 200 and b"first\nsecond" not in page and b"49.5" not in page and b"doubled" not in page
    form = forms_of(page)[0]
    assert "v.note" not in form and "v.price" not in form and form["v.stock"] == "7"
    form.fill("v.stock", "8")
    assert send(site, "/Shown/c1?_view=edit", form)[:2] == (303, "./c1#saved")
    body = stored(site, "/Product/c1")[0]
    assert body["stock"] == 8 and body["tags"] == ["patched"] and body["price"] == 49.5 and body["note"] == WHOLE["note"]
