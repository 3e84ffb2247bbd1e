"""Records are inserted, duplicated and deleted by forms (spec: http §7.8)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from svc.auth.roles import Role
from svc.auth.users import User
from tests.support.application import ADMIN, Application, application
from tests.support.pages import BROWSER, Parsed
from tests.support.sent_forms import forms_of
from tests.unit.pages.editing.test_edit import CODE, HOSTILE, SCHEMA, WHOLE, form_at, send, stored

MAKING = """
class Made(tables.Brand):
    def post(self, data, target=None):
        data["name"] = data["name"].upper()
        return super().post(data, target)

class Led(tables.Brand):
    def post(self, data, target=None):
        from svc import Response
        return Response(status=303, headers={"Location": "/Brand/b1"})

class Refusing(tables.Brand):
    def patch(self, data, target=None):
        from svc import Response
        return Response(status=422, data={"error": "not <b>today</b>"})
    def delete(self, target=None):
        from svc import Response
        return Response(status=409, data={"error": "not <b>today</b>"})
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Application]:
    with application(tmp_path_factory.mktemp("create"), CODE + MAKING, schema=SCHEMA) as made:
        made.ask("PUT", "/Brand/b1", {"name": "Ärger & Co"})
        yield made
        assert made.errors == []


@pytest.fixture(autouse=True)
def as_admin(site: Application) -> Iterator[None]:
    yield
    site.node.as_user(ADMIN)


def as_role(site: Application, tables: dict[str, Any]) -> None:
    role = Role("some", "some", {"data": {"tables": tables}}, databases=site.node.store.databases)
    site.node.as_user(User("some", role=role))


def test_a_record_is_inserted(site: Application) -> None:
    form = form_at(site, "/Product/?_view=new")
    assert form["s.note"] == "missing" and form["v.active"] == "missing" and "v.made" not in form
    form.fill("v.name", "New")
    form.fill("v.note", "typed")
    form.fill("v.tags", "a\nb")
    form.fill("v.place", "[1]")
    form.fill("~others", '{"more": 1}')
    status, location, _ = send(site, "/Product/?_view=new", form)
    assert status == 303 and location.startswith("../Product/") and location.endswith("#created")
    body = stored(site, location.removeprefix("..").removesuffix("#created"))[0]
    assert body.pop("id") and body.pop("made") and body.pop("changed")
    assert body == {"name": "New", "note": "typed", "tags": ["a", "b"], "place": [1], "more": 1, "stock": 3}


def test_what_is_missing_is_said_at_its_field(site: Application) -> None:
    form = form_at(site, "/Product/?_view=new")
    status, _, page = send(site, "/Product/?_view=new", form)
    assert status == 400 and "name: Property name is required" in Parsed(page).text
    form = forms_of(page)[0]
    form.fill("s.name", "value")  # the empty text is one
    form.fill("v.id", "empty")
    assert send(site, "/Product/?_view=new", form)[0] == 303
    assert stored(site, "/Product/empty")[0]["name"] == ""
    status, _, page = send(site, "/Product/?_view=new", form)
    assert status == 409 and Parsed(page).links['id: Record already exists ("empty")'] == "#f-id"


@pytest.mark.parametrize(
    ("table", "key", "address"),
    [
        ("Size", "42", "/Size/42"), ("Size", "", None), ("Doc", "a/b c", "/Doc/a/b%20c"), ("Free", "5", "/Free/5"), ("Free", "x.csv", "/Free/x%2Ecsv"),
        ("Brand", HOSTILE, None), ("Brand", "a:b", "/Brand/a%3Ab"), ("Size", "x", "fault"), ("Size", "1.5", "fault"),
    ],
)  # fmt: skip
def test_keys(site: Application, table: str, key: str, address: str | None) -> None:
    form = form_at(site, f"/{table}/?_view=new")
    form.fill("v.id", key)
    if table == "Size":
        form.fill("v.label", "x")
    status, location, page = send(site, f"/{table}/?_view=new", form)
    if address == "fault":
        assert status == 400 and Parsed(page).find("input", id="f-id")["aria-invalid"] == "true"
        return
    assert status == 303, page
    found = location.removeprefix("..").removesuffix("#created")
    assert address is None or found == address
    record = found
    form = form_at(site, f"{record}?_view=edit")
    name = "v.label" if table == "Size" else "v.name" if table == "Brand" else "v.text"
    form.fill(name, HOSTILE)
    assert send(site, f"{record}?_view=edit", form)[0] == 303
    assert stored(site, record)[0][name[2:]] == HOSTILE
    assert send(site, f"{record}?_view=delete", form_at(site, f"{record}?_view=delete"))[0] == 303
    assert site.ask("GET", record)[0] == 404


def test_a_record_is_duplicated_with_all_it_has(site: Application) -> None:
    site.ask("PUT", "/Product/d1", WHOLE | {"tags": None, "price": None})
    site.answer("PUT", "/Product/d1/photo", b"\x89PNG" * 5000, content_type="image/png")
    form = form_at(site, "/Product/d1?_view=copy")
    assert form["v.id"] == "" and form["v.name"] == "Keyboard"
    form.fill("v.id", "d2")
    form.fill("v.stock", "1")
    form.fill("~others", '{"extra": {"x": 1}, "third": 3}')
    assert send(site, "/Product/d1?_view=copy", form)[:2] == (303, "../Product/d2#created")
    first, second = stored(site, "/Product/d1")[0], stored(site, "/Product/d2")[0]
    assert (
        second | {"made": 0, "changed": 0} == first | {"id": "d2", "stock": 1, "third": 3, "made": 0, "changed": 0} | {} or "other" in first
    )
    assert "other" not in second and second["price"] is None and second["tags"] is None
    assert {name for name in first if name not in ("id", "stock", "made", "changed", "other") and first[name] != second[name]} == set()
    assert site.answer("GET", "/Product/d2.photo")[2] == b"\x89PNG" * 5000
    site.ask("DELETE", "/Product/d1")
    assert site.answer("GET", "/Product/d2.photo")[2] == b"\x89PNG" * 5000


def test_a_record_is_deleted_when_that_is_confirmed(site: Application) -> None:
    site.ask("PUT", "/Brand/x1", {"name": HOSTILE})
    for number in range(3):
        site.ask("PUT", f"/Product/r{number}", {"name": "x", "brandId": "x1"})
    site.ask("PUT", "/Kept/k1", {"brandId": "x1"})
    status, _, page = site.answer("GET", "/Brand/x1?_view=delete", accept=BROWSER)
    parsed = Parsed(page)
    assert (
        status == 200 and "Product by brandId: 3 records" in parsed.text and "Kept by brandId: 1 record (as long as they do" in parsed.text
    )
    form = forms_of(page)[0]
    status, _, page = send(site, "/Brand/x1?_view=delete", form)
    assert status == 409 and "1 record refers to it by Kept.brandId" in Parsed(page).text
    site.ask("DELETE", "/Kept/k1")
    site.ask("PATCH", "/Brand/x1", {"name": "changed"})
    status, _, page = send(site, "/Brand/x1?_view=delete", form)
    assert status == 412 and b"Somebody else has changed the record" in page and site.ask("GET", "/Brand/x1")[0] == 200
    form = forms_of(page)[0]
    assert send(site, "/Brand/x1?_view=delete", form)[:2] == (303, "../Brand/#deleted")
    assert site.ask("GET", "/Brand/x1")[0] == 404
    assert site.answer("GET", "/Brand/x1?_view=delete", accept=BROWSER)[0] == 404
    assert send(site, "/Brand/x1?_view=delete", form)[0] in (303, 404)


def test_code_of_an_application_makes_records(site: Application) -> None:
    form = form_at(site, "/Made/?_view=new")
    form.fill("v.id", "m1")
    form.fill("v.name", "quiet")
    assert send(site, "/Made/?_view=new", form)[:2] == (303, "../Made/m1#created")
    assert stored(site, "/Brand/m1")[0]["name"] == "QUIET"
    assert send(site, "/Led/?_view=new", form)[:2] == (303, "/Brand/b1")


def test_what_code_of_an_application_answers_is_shown(site: Application) -> None:
    site.ask("PUT", "/Brand/q1", {"name": "x"})
    form = form_at(site, "/Refusing/q1?_view=edit")
    form.fill("v.name", "y")
    for view, sent, status in (("edit", form, 422), ("delete", form_at(site, "/Refusing/q1?_view=delete"), 409)):
        found, _, page = send(site, f"/Refusing/q1?_view={view}", sent)
        assert found == status and "not <b>today</b>" in Parsed(page).text
    assert stored(site, "/Brand/q1")[0]["name"] == "x"


# --- choosing ------------------------------------------------------------------------------------------------------------------------


def test_a_related_record_is_chosen_without_scripts(site: Application) -> None:
    site.ask("PUT", "/Product/c1", WHOLE)
    site.ask("PUT", "/Brand/b2", {"name": HOSTILE})
    form = form_at(site, "/Product/c1?_view=edit")
    form.fill("v.note", "kept\n\nas it is")
    status, _, page = send(site, "/Product/c1?_view=edit", form, ("_pick", "brandId"))
    assert status == 200 and HOSTILE in Parsed(page).text and "Ärger & Co" in Parsed(page).text
    chooser = forms_of(page)[0]
    chooser.fill("_search", "ärger")
    status, _, page = send(site, "/Product/c1?_view=edit", chooser, ("_pick", "brandId"))
    chooser = forms_of(page)[0]
    assert [button for button in chooser.buttons if button[0] == "_picked"] == [("_picked", '"b1"')]
    chooser.fill("_search", "img src")
    status, _, page = send(site, "/Product/c1?_view=edit", chooser, ("_pick", "brandId"))
    chooser = forms_of(page)[0]
    status, _, page = send(site, "/Product/c1?_view=edit", chooser, ("_picked", '"b2"'))
    again = forms_of(page)[0]
    assert status == 200 and again["v.brandId"] == "b2" and again["v.note"] == "kept\n\nas it is"
    assert stored(site, "/Product/c1")[0]["brandId"] == "b1"
    assert send(site, "/Product/c1?_view=edit", again)[0] == 303
    body = stored(site, "/Product/c1")[0]
    assert (body["brandId"], body["note"], body["tags"]) == ("b2", "kept\n\nas it is", WHOLE["tags"])
    status, _, page = send(site, "/Product/c1?_view=edit", form, ("_pick", "brandId"))
    status, _, page = send(site, "/Product/c1?_view=edit", forms_of(page)[0], ("_cancel", "1"))
    assert status == 200 and forms_of(page)[0]["v.brandId"] == "b1"


def test_the_view_that_a_script_asks(site: Application) -> None:
    status, _, page = site.answer("GET", "/Brand/?_view=pick&q=b1", accept=BROWSER)
    found = [each for tag, each in Parsed(page).elements if tag == "li"]
    assert status == 200 and found == [{"data-key-text": "b1", "data-label": "Ärger & Co"}]
    assert b"No record fits" in site.answer("GET", "/Brand/?_view=pick&q=%00%22", accept=BROWSER)[2]
    assert site.answer("GET", "/Brand/b1?_view=pick", accept=BROWSER)[0] == 404


def test_a_large_table_is_searched_by_its_indexes(site: Application) -> None:
    many = [{"id": f"k{number:05}", "name": f"Brand {number}"} for number in range(1500)]
    assert site.ask("POST", "/Brand/", many)[0] == 201
    try:
        for search, expected in (
            ("k00007", ["k00007"]),
            ("Brand 149", ["k00149", *(f"k{n:05}" for n in range(1490, 1500))]),
            ("brand 7", None),
        ):
            page = site.answer("GET", f"/Brand/?_view=pick&q={search.replace(' ', '%20')}", accept=BROWSER)[2]
            found = [each["data-key-text"] for tag, each in Parsed(page).elements if tag == "li"]
            assert sorted(found) == expected if expected is not None else len(found) == 20
        assert b"There are more" in site.answer("GET", "/Brand/?_view=pick&q=Brand", accept=BROWSER)[2]
    finally:
        assert site.ask("DELETE", "/Brand/?id=sw=k0")[0] == 204


# --- rights --------------------------------------------------------------------------------------------------------------------------

READ = {"read": True, "insert": False, "update": False, "delete": False}


def offered(site: Application, path: str) -> list[str]:
    page = site.answer("GET", path, accept=BROWSER)[2]
    return [name for name in Parsed(page).links if name in ("New record", "Edit", "Duplicate", "Delete")]


@pytest.mark.parametrize(
    ("rights", "table", "record"),
    [
        (READ, [], []), (READ | {"insert": True}, ["New record"], ["Duplicate"]), (READ | {"update": True}, [], ["Edit"]),
        (READ | {"delete": True}, [], ["Delete"]),
    ],
)  # fmt: skip
def test_what_is_offered_is_what_is_allowed(site: Application, rights: dict[str, Any], table: list[str], record: list[str]) -> None:
    as_role(site, {"Brand": rights | {"attribute_permissions": []}})
    assert offered(site, "/Brand/") == table and offered(site, "/Brand/b1") == record
    views = {
        "New record": "/Brand/?_view=new",
        "Edit": "/Brand/b1?_view=edit",
        "Duplicate": "/Brand/b1?_view=copy",
        "Delete": "/Brand/b1?_view=delete",
    }
    for name, path in views.items():
        status = site.answer("GET", path, accept=BROWSER)[0]
        assert (status == 200) == (name in (*table, *record)), (name, status)


def test_rights_on_attributes(site: Application) -> None:
    site.ask("PUT", "/Product/a1", WHOLE)
    names = {"name": (True, True), "note": (True, False), "price": (False, True)}
    listed = [{"attribute_name": name, "read": read, "insert": write, "update": write} for name, (read, write) in names.items()]
    as_role(site, {"Product": READ | {"insert": True, "update": True, "attribute_permissions": listed}})
    form = form_at(site, "/Product/a1?_view=edit")
    assert [name for name, _ in form.fields if name.startswith("v.")] == ["v.name"] and "~others" not in form
    page = site.answer("GET", "/Product/a1?_view=edit", accept=BROWSER)[2]
    assert "You may not change it" in Parsed(page).text and b"49.5" not in page
    shown = json.loads(form["_shown"])
    form.fields.append(("v.note", "forged"))
    form.fill("_shown", json.dumps({"f": shown["f"] | {"note": ["text", "value", "x"]}, "r": {}}))
    status, _, page = send(site, "/Product/a1?_view=edit", form)
    assert status == 403 and "note" in Parsed(page).text
    form = form_at(site, "/Product/a1?_view=edit")
    form.fill("v.name", "allowed")
    assert send(site, "/Product/a1?_view=edit", form)[0] == 303
    site.node.as_user(ADMIN)
    body = stored(site, "/Product/a1")[0]
    assert (body["name"], body["note"], body["price"], body["extra"]) == ("allowed", WHOLE["note"], 49.5, {"x": 1})


def test_nobody_is_led_to_log_in(site: Application) -> None:
    site.node.as_user(None)
    assert site.answer("GET", "/Brand/b1?_view=edit", accept=BROWSER)[0] in (302, 401)


# --- attacks -------------------------------------------------------------------------------------------------------------------------


def test_forms_of_other_sites_and_forged_ones(site: Application) -> None:
    site.ask("PUT", "/Product/z1", WHOLE)
    before = stored(site, "/Product/z1")
    form = form_at(site, "/Product/z1?_view=edit")
    form.fill("v.name", "forged")
    token = form["_token"]
    form.fill("_token", "x")
    status, _, page = send(site, "/Product/z1?_view=edit", form)
    assert status == 403 and b"FORM_TOKEN" in page
    form.fields = [pair for pair in form.fields if pair[0] != "_token"]
    assert send(site, "/Product/z1?_view=edit", form)[0] == 403
    form.fields.append(("_token", token))
    shown = form["_shown"]
    for text in (
        "",
        "x",
        "[]",
        "{}",
        '{"f": {"name": 5}, "r": {}}',
        '{"f": {"~zz": ["text", "value", ""]}, "r": {}}',
        '{"f": [], "r": {}}',
    ):
        form.fill("_shown", text)
        assert send(site, "/Product/z1?_view=edit", form)[0] == 400, text
    form.fill("_shown", shown)
    for version in ("", "x", '"', "*"):
        form.fill("_version", version)
        assert send(site, "/Product/z1?_view=edit", form)[0] == 412, version
    assert stored(site, "/Product/z1") == before


@pytest.mark.parametrize("name", ["dear", "brand", "made", "id"])
def test_what_may_not_be_written_is_not(site: Application, name: str) -> None:
    site.ask("PUT", "/Product/z2", WHOLE)
    before = stored(site, "/Product/z2")[0]
    form = form_at(site, "/Product/z2?_view=edit")
    form.fields.append((f"v.{name}", '"forged"'))
    form.fill("_shown", json.dumps({"f": {name: ["json", "value", "x"]}, "r": {}}))
    send(site, "/Product/z2?_view=edit", form)
    after = stored(site, "/Product/z2")[0]
    assert {each: after[each] for each in after if each != "changed"} == {each: before[each] for each in before if each != "changed"}


def test_a_digest_that_was_changed_does_no_harm(site: Application) -> None:
    """What counts as touched is written as it stands in the form."""
    site.ask("PUT", "/Product/z3", WHOLE)
    form = form_at(site, "/Product/z3?_view=edit")
    shown = json.loads(form["_shown"])
    form.fill("_shown", json.dumps({"f": {token: [each[0], each[1], "forged"] for token, each in shown["f"].items()}, "r": {}}))
    before = stored(site, "/Product/z3")[0]
    assert send(site, "/Product/z3?_view=edit", form)[0] == 303
    after = stored(site, "/Product/z3")[0]
    assert {each: after[each] for each in WHOLE} == {each: before[each] for each in WHOLE}


def test_many_fields(site: Application) -> None:
    site.ask("PUT", "/Product/z4", WHOLE)
    form = form_at(site, "/Product/z4?_view=edit")
    form.encoding = "application/x-www-form-urlencoded"
    form.fields += [(f"v.x{number}", "1") for number in range(3000)]
    assert send(site, "/Product/z4?_view=edit", form)[0] == 400
    form.encoding = "multipart/form-data"
    assert send(site, "/Product/z4?_view=edit", form)[0] == 413


def test_a_long_text_comes_back_as_it_is(site: Application) -> None:
    text = "ä line\n" * 20_000
    site.ask("PUT", "/Product/z5", {"name": "x", "note": text})
    before = stored(site, "/Product/z5")
    form = form_at(site, "/Product/z5?_view=edit")
    assert form["v.note"] == text
    assert send(site, "/Product/z5?_view=edit", form)[:2] == (303, "./z5")
    assert stored(site, "/Product/z5") == before
    form.fill("v.note", text + "end")
    assert send(site, "/Product/z5?_view=edit", form)[0] == 303
    assert stored(site, "/Product/z5")[0]["note"] == text + "end"


def test_a_table_of_many_attributes(tmp_path: Path) -> None:
    names = [f"a{number:03}" for number in range(450)]
    schema = f"type Wide @table @export {{ id: ID @primaryKey {' '.join(f'{name}: String' for name in names)} file: Blob }}"
    with application(tmp_path, "", schema=schema) as site:
        record = {name: f"value of {name}" for name in names}
        assert site.ask("PUT", "/Wide/w", record)[0] == 204
        before = stored(site, "/Wide/w")
        page = site.answer("GET", "/Wide/w?_view=edit", accept=BROWSER)[2]
        links = Parsed(page).links
        assert links["201 to 400"] == "?_view=edit&_from=200" and links["401 to 452"] == "?_view=edit&_from=400"
        for address, first in (("/Wide/w?_view=edit", 0), ("/Wide/w?_view=edit&_from=200", 199), ("/Wide/w?_view=edit&_from=400", 399)):
            form = form_at(site, address)
            assert send(site, address, form)[:2] == (303, "./w")
            assert stored(site, "/Wide/w") == before
            form.fill(f"v.{names[first]}", f"new {first}")
            assert send(site, address, form)[:2] == (303, "./w#saved")
            before = stored(site, "/Wide/w")
            assert before[0] == record | {"id": "w", names[first]: f"new {first}"}
            record = before[0]
        form = form_at(site, "/Wide/?_view=new")
        assert len(form.fields) < 500
        assert send(site, "/Wide/?_view=new", form)[0] == 303
        assert site.errors == []


RULES = """
type Note @table @export @allow(read: "owner==$user.username|shared==true", create: "owner==$user.username", update: "owner==$user.username",
  delete: "owner==$user.username&shared==false") { id: ID @primaryKey owner: String @indexed shared: Boolean @indexed text: String }
"""


def test_rules_on_rows(tmp_path: Path) -> None:
    with application(tmp_path, "", schema=RULES) as site:
        notes = [
            {"id": "own", "owner": "ann", "shared": False},
            {"id": "out", "owner": "ann", "shared": True},
            {"id": "theirs", "owner": "bob", "shared": True},
        ]
        assert site.ask("PUT", "/Note/", [*notes, {"id": "secret", "owner": "bob", "shared": False}])[0] == 204
        rights = {"read": True, "insert": True, "update": True, "delete": True, "attribute_permissions": []}
        role = Role("some", "some", {"data": {"tables": {"Note": rights}}}, databases=site.node.store.databases)
        site.node.as_user(User("ann", role=role))
        assert offered(site, "/Note/own") == ["Edit", "Duplicate", "Delete"]
        assert offered(site, "/Note/out") == ["Edit", "Duplicate"] and offered(site, "/Note/theirs") == ["Duplicate"]
        for view in ("edit", "copy", "delete"):
            assert site.answer("GET", f"/Note/secret?_view={view}", accept=BROWSER)[0] == 404
        form = form_at(site, "/Note/own?_view=edit")
        form.fill("v.owner", "bob")
        status, _, page = send(site, "/Note/own?_view=edit", form)
        assert (
            status == 403 and b"ROW_NOT_ALLOWED" not in page and forms_of(page)[0]["v.owner"] == "bob" and 'role="alert"' in page.decode()
        )
        copied = form_at(site, "/Note/theirs?_view=copy")
        status, _, page = send(site, "/Note/theirs?_view=copy", copied)
        assert status == 403 and forms_of(page)[0]["v.owner"] == "bob"
        copied.fill("v.owner", "ann")
        assert send(site, "/Note/theirs?_view=copy", copied)[0] == 303
        assert (
            site.answer("GET", "/Note/out?_view=delete", accept=BROWSER)[0]
            == site.answer("GET", "/Note/theirs?_view=edit", accept=BROWSER)[0]
            == 403
        )
        for key in ("out", "theirs"):
            form = form_at(site, "/Note/own?_view=delete")
            site.node.as_user(ADMIN)
            form.fill("_version", stored(site, f"/Note/{key}")[1].strip('"'))
            site.node.as_user(User("ann", role=role))
            status, _, page = send(site, f"/Note/{key}?_view=delete", form)
            assert status == 403 and "alert" in page.decode()
        form = form_at(site, "/Note/own?_view=edit")
        site.node.as_user(ADMIN)
        site.ask("PATCH", "/Note/own", {"owner": "bob"})  # it is out of sight by now
        site.node.as_user(User("ann", role=role))
        form.fill("v.text", "mine")
        status, _, page = send(site, "/Note/own?_view=edit", form)
        assert status == 404 and b"bob" not in page
        assert site.errors == []


def test_hostile_names_of_properties(site: Application) -> None:
    record = {"name": "x", HOSTILE: HOSTILE, "": 1, "a\r\nb": "c", "\x00": None, "~others": 2, "v.name": 3}
    site.ask("PUT", "/Product/h1", record)
    before = stored(site, "/Product/h1")
    form = form_at(site, "/Product/h1?_view=edit")
    assert send(site, "/Product/h1?_view=edit", form)[:2] == (303, "./h1") and stored(site, "/Product/h1") == before
    rest = json.loads(form["~others"])
    form.fill("~others", json.dumps({name: ["mine"] for name in rest}))
    site.ask("PATCH", "/Product/h1", {"": 2, HOSTILE: "theirs"})
    status, _, page = send(site, "/Product/h1?_view=edit", form)
    assert status == 412
    confirm = next(form for form in forms_of(page) if form.method == "post")
    assert sorted(confirm["_confirmed"].split()) == sorted(name for name, _ in {(pair[0][2:], 0) for pair in confirm.boxes})
    for token in confirm["_confirmed"].split():
        confirm.choose(f"t.{token}", "mine" if token == "~" else "theirs")
    assert send(site, "/Product/h1?_view=edit", confirm)[0] == 303
    after = stored(site, "/Product/h1")[0]
    assert {name: after[name] for name in rest} == {name: ["mine"] for name in rest} | {HOSTILE: "theirs"}


def test_a_form_of_64_mebibytes(site: Application) -> None:
    site.ask("PUT", "/Product/y1", {"name": "x"})
    before = stored(site, "/Product/y1")
    form = form_at(site, "/Product/y1?_view=edit")
    files = {"f.photo": ("a", "application/octet-stream", b"x" * (64 << 20))}
    assert send(site, "/Product/y1?_view=edit", form, files=files)[0] == 413
    site.wire = site.node.connect()  # the connection ends with that
    assert stored(site, "/Product/y1") == before


LISTED = """
type Free @table @export { id: Any @primaryKey name: String }
type Pair @table @export { id: ID @primaryKey
  frees: [ID] @indexed many: [Free] @relationship(from: "frees")
  one: Any @indexed single: Free @relationship(from: "one") }
"""


def test_what_is_chosen_goes_into_lists_and_json(tmp_path: Path) -> None:
    with application(tmp_path, "", schema=LISTED) as site:
        assert site.ask("PUT", "/Free/5", {"name": "number"})[0] == site.ask("PUT", "/Free/%35", {"name": "text"})[0] == 204
        assert site.ask("PUT", "/Pair/p", {"frees": ["a"]})[0] == 204
        form = form_at(site, "/Pair/p?_view=edit")
        for token, picked in (("frees", '"5"'), ("one", "5")):
            page = send(site, "/Pair/p?_view=edit", form, ("_pick", token))[2]
            page = send(site, "/Pair/p?_view=edit", forms_of(page)[0], ("_picked", picked))[2]
            form = forms_of(page)[0]
        assert (form["v.frees"], form["v.one"]) == ("a\n5", "5")
        assert send(site, "/Pair/p?_view=edit", form)[0] == 303
        body = stored(site, "/Pair/p")[0]
        assert (body["frees"], body["one"]) == (["a", "5"], 5)
        for forged in ("x", "[", '{"a": 1}', ""):
            chooser = forms_of(send(site, "/Pair/p?_view=edit", form, ("_pick", "one"))[2])[0]
            chooser.buttons.append(("_picked", forged))
            assert send(site, "/Pair/p?_view=edit", chooser, ("_picked", forged))[0] == 200
        form.buttons += [("_pick", "id"), ("_pick", "nothing"), ("_pick", "~zz")]
        for token in ("id", "nothing", "~zz"):
            assert send(site, "/Pair/p?_view=edit", form, ("_pick", token))[0] == 404
        assert site.errors == []
