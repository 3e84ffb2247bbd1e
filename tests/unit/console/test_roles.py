"""Roles in the console (spec: console §11)."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

import pytest

from svc.auth.users import User
from svc.pages.sent_form import MOST_FIELDS
from tests.support.console import ConsoleAnswer, ConsoleSite
from tests.support.pages import Parsed

ODD = "a\"'><img src=x onerror=alert(1)>%?#:"
READ = {"read": True, "insert": False, "update": False, "delete": False, "attribute_permissions": []}
READER = {"data": {"tables": {"plant": READ}}}


@pytest.fixture
def site(site: ConsoleSite) -> ConsoleSite:
    attributes = [{"name": name} for name in ("id", "kind", "price")]
    for database, table in (("data", "plant"), ("data", ODD), ("garden", "bed")):
        site.node.run("create_table", database=database, table=table, primary_key="id", attributes=attributes)
    site.node.run("add_role", role="reader", permission=READER)
    return site


def permission(site: ConsoleSite, name: str = "reader") -> Any:
    return next(role["permission"] for role in site.node.run("list_roles") if role["role"] == name)


def form_of(page: Parsed) -> dict[str, str]:
    """What a browser sends of the form that is posted."""
    fields: dict[str, str] = {}
    is_posted = False
    for tag, each in page.elements:
        if tag == "form":
            is_posted = each.get("method") == "post" and not each.get("action")
        if tag != "input" or not is_posted or "disabled" in each or "name" not in each:
            continue
        if each.get("type") not in ("checkbox", "radio") or "checked" in each:
            fields[each["name"]] = each.get("value", "")
    del fields["_token"]
    return fields


def shown(site: ConsoleSite, path: str = "/console/roles/reader", user: User | str = "admin") -> dict[str, str]:
    answer = site.get(path, user)
    assert answer.status == 200, answer.body.decode()
    return form_of(answer.page)


def save(site: ConsoleSite, change: dict[str, str], *without: str, path: str = "/console/roles/reader") -> ConsoleAnswer:
    return site.post(path, {name: value for name, value in (shown(site, path) | change).items() if name not in without})


def checked(page: Parsed, name: str) -> bool:
    return "checked" in page.find("input", name=name)


# --- the list -----------------------------------------------------------------------------------------------------------------------------


def test_roles_are_listed(site: ConsoleSite) -> None:
    site.node.run("add_user", username="ann", password="x", role="reader", active=True)
    page = site.get("/console/roles").page
    assert page.rows[1][:3] == ["reader", "1 table", "1 user"] and page.rows[2][:3] == ["super_user", "everything", "1 user"]
    assert page.links["reader"] == "./roles/reader"
    assert page.links["1 user with the role reader"] == "./users?role=reader"


def test_a_role_is_added_copied_dropped(site: ConsoleSite) -> None:
    added = site.post("/console/roles?do=add", {"role": "writer"})
    assert added.status == 303 and added.location.startswith("./roles/writer?note=") and permission(site, "writer") == {}
    assert site.post("/console/roles/reader?do=copy", {"role": "other"}).status == 303 and permission(site, "other") == READER
    for name, status, text in (
        ("reader", 409, "already exists"),
        ("a b", 400, "Role is invalid"),
        ("", 400, "role"),
        ("../x", 400, "invalid"),
    ):
        refused = site.post("/console/roles/reader?do=copy", {"role": name})
        assert refused.status == status and text in refused.page.text
    site.node.run("add_user", username="ann", password="x", role="other", active=True)
    question = site.get("/console/roles/other?do=drop").page
    assert "1 user has this role" in question.text
    refused = site.post("/console/roles/other?do=drop", {"action": "confirm"})
    assert refused.status == 409 and "active user(s) tied to this role" in refused.page.text
    site.node.run("drop_user", username="ann")
    assert site.post("/console/roles/other?do=drop", {"action": "confirm"}, token=None).status == 403
    assert site.post("/console/roles/other?do=drop", {"action": "confirm"}).status == 303 and site.get("/console/roles/other").status == 404


# --- the matrix ---------------------------------------------------------------------------------------------------------------------------


def test_the_matrix_shows_what_the_role_may(site: ConsoleSite) -> None:
    answer = site.get("/console/roles/reader")
    page = answer.page
    assert checked(page, "t:data:plant:read") and not checked(page, "t:data:plant:insert") and not checked(page, "t:garden:bed:read")
    assert page.find("input", name="t:data:plant:read")["aria-label"] == "read data.plant"
    assert checked(page, "a:data:plant:kind:read") and not checked(page, "o:data:plant")
    assert "<img src=x" not in answer.body.decode() and f"t:data:{quote(ODD, safe='')}:read" in form_of(page) | {
        each.get("name", ""): "" for _, each in page.elements
    }
    assert "system" not in [row[0] for row in page.rows]


def test_saving_what_is_shown_changes_nothing(site: ConsoleSite) -> None:
    for each in (
        READER,
        {},
        {"structure_user": ["data"], "operations": ["read_only", "list_users"], "cluster_user": False},
        {"super_user": True},
    ):
        site.node.run("alter_role", id="reader", permission=each)
        assert save(site, {}).status == 303 and permission(site) == each


def test_rights_are_given_and_taken(site: ConsoleSite) -> None:
    odd = quote(ODD, safe="")
    answer = save(site, {"t:garden:bed:insert": "yes", f"t:data:{odd}:read": "yes", f"t:data:{odd}:delete": "yes"}, "t:data:plant:read")
    assert answer.status == 303 and answer.location.startswith("../roles/reader?note=The+role+reader+was+saved")
    assert permission(site) == {
        "data": {"tables": {ODD: {**READ, "delete": True}}},
        "garden": {"tables": {"bed": {**READ, "read": False, "insert": True}}},
    }
    assert save(site, {"structure": "some", "s:garden": "yes", "has_operations": "yes", "p:list_users": "yes"}).status == 303
    assert permission(site)["structure_user"] == ["garden"] and permission(site)["operations"] == ["list_users"]
    assert save(site, {"role_name": "renamed"}).location.startswith("../roles/renamed?") and permission(site, "renamed")["operations"]


def test_rights_on_attributes(site: ConsoleSite) -> None:
    assert save(site, {"o:data:plant": "yes"}, "a:data:plant:price:read").status == 303
    entry = permission(site)["data"]["tables"]["plant"]["attribute_permissions"]
    assert [each["attribute_name"] for each in entry] == ["id", "kind"]
    refused = save(site, {"a:data:plant:kind:update": "yes"})
    assert refused.status == 400 and "conflict with TABLE permissions" in refused.page.text
    cell = refused.page.find("input", name="t:data:plant:update")
    assert cell["aria-invalid"] == "true" and refused.page.find("ul", id=cell["aria-describedby"])
    assert checked(refused.page, "a:data:plant:kind:update") and "aria-invalid" not in refused.page.find("input", name="t:garden:bed:read")
    path = "/console/roles/reader/data/plant"
    page = site.get(path).page
    assert not [each for _, each in page.elements if each.get("name") == "t:garden:bed:read"]
    assert save(site, {"t:data:plant:update": "yes", "a:data:plant:price:update": "yes"}, path=path).location.startswith(
        "../../../roles/reader/data/plant?"
    )
    [price] = [each for each in permission(site)["data"]["tables"]["plant"]["attribute_permissions"] if each["attribute_name"] == "price"]
    assert price == {"attribute_name": "price", "read": False, "insert": False, "update": True}
    every = [name for name in shown(site) if name.startswith("a:data:plant:")]
    none = save(site, {}, "o:data:plant")
    assert none.status == 303 and permission(site)["data"]["tables"]["plant"]["attribute_permissions"] == []
    nothing = save(site, {"o:data:plant": "yes"}, *every, *[name for name in shown(site) if name.startswith("a:data:plant:")])
    assert nothing.status == 400 and "No attribute is chosen" in nothing.page.text


def test_what_does_not_exist_any_more_is_marked_and_kept_until_it_is_removed(site: ConsoleSite) -> None:
    both = {"data": {"tables": {"plant": READ}}, "garden": {"tables": {"bed": READ}}}
    site.node.run("alter_role", id="reader", permission=both)
    site.node.run("drop_table", database="garden", table="bed")
    page = site.get("/console/roles/reader").page
    assert "does not exist" in page.text and page.find("input", name="x:garden:bed")
    refused = save(site, {"t:data:plant:insert": "yes"})
    assert refused.status == 400 and "This table does not exist" in refused.page.text and permission(site) == both
    assert checked(refused.page, "t:data:plant:insert")
    site.node.run("drop_database", database="garden")
    assert "garden does not exist" in site.get("/console/roles/reader").page.text
    assert save(site, {"x:garden": "yes"}).status == 303 and permission(site) == READER


def test_two_people_who_edit_one_role(site: ConsoleSite) -> None:
    mine = shown(site) | {"t:garden:bed:read": "yes"}
    theirs = {"data": {"tables": {"plant": {**READ, "delete": True}}}, "operations": ["read_only"]}
    site.node.run("alter_role", id="reader", permission=theirs)
    answer = site.post("/console/roles/reader", mine)
    assert answer.status == 409 and "Somebody else has changed this role" in answer.page.text and permission(site) == theirs
    for line in (
        "data.plant: delete true becomes false",
        "garden.bed: read nothing becomes true",
        'operations: ["read_only"] becomes nothing',
    ):
        assert line in answer.page.text
    assert checked(answer.page, "t:garden:bed:read") and not checked(answer.page, "t:data:plant:delete")
    # Who has seen that may save it, now or after a look at the cells.
    again = form_of(answer.page) | {"t:data:plant:delete": "yes"}
    assert site.post("/console/roles/reader", again).status == 303
    assert permission(site) == {
        "data": {"tables": {"plant": {**READ, "delete": True}}},
        "garden": {"tables": {"bed": READ}},
    }


def test_rules_on_rows_are_shown_at_their_tables(site: ConsoleSite) -> None:
    allow = [{"roles": ["reader"], "read": "kind=='fern'", "update": "$old.kind=='<s>'"}, {"read": "false"}]
    attributes = [{"name": "id", "is_primary_key": True}, {"name": "kind", "type": "String"}]
    site.node.run("create_table", table="leaf", primary_key="id", attributes=attributes, allow=allow)
    site.node.run("add_role", role="other", permission={})
    page = site.get("/console/roles/reader").page
    assert "readonly records with kind=='fern'" in page.text and "updateonly records with $old.kind=='<s>'" in page.text
    assert "only records with false" in site.get("/console/roles/other").page.text
    assert "only records" not in site.get("/console/roles/super_user").page.text


def test_the_faults_of_alter_role_that_no_row_shows(site: ConsoleSite) -> None:
    refused = save(site, {"super_user": "yes"})
    assert refused.status == 400 and "cannot have other permissions set" in refused.page.text and permission(site) == READER
    wrong = save(site, {"role_name": "a b"})
    assert wrong.status == 400 and wrong.page.find("input", name="role_name")["value"] == "a b"
    last = save(site, {}, "super_user", path="/console/roles/super_user")
    assert last.status == 409 and "last active super_user" in last.page.text


def test_forms_that_are_none_of_ours(site: ConsoleSite) -> None:
    for change in ({"shown": "x"}, {"shown": "[" * 5000}, {"shown": "{}", "seen": ""}, {"seen": "0" * 32}):
        assert save(site, change).status in (400, 409) and permission(site) == READER
    assert site.post("/console/roles/reader", shown(site), token=None).status == 403
    assert site.post("/console/roles/reader", shown(site), token="0" * 32).status == 403
    for path in ("/console/roles/nosuch", "/console/roles/reader/data/nosuch", "/console/roles/reader/system/svc_user"):
        assert site.get(path).status == 404


def test_five_hundred_tables_of_two_hundred_attributes(site: ConsoleSite) -> None:
    attributes = [{"name": "id"}, *({"name": f"a{number:03}"} for number in range(200))]
    for number in range(130):
        site.node.run("create_table", database="wide", table=f"t{number:03}", primary_key="id", attributes=attributes)
    rights = {f"t{number:03}": {**READ, "insert": True, "update": True, "delete": True} for number in range(130)}
    site.node.run("alter_role", id="reader", permission={"wide": {"tables": rights}, "data": READER["data"]})
    answer = site.get("/console/roles/reader")
    fields = [each["name"] for tag, each in answer.page.elements if tag in ("input", "textarea", "select") and "name" in each]
    assert len(fields) < MOST_FIELDS and len(answer.body) < 1 << 20
    assert "1 to 100 of 133 tables" in answer.page.text
    assert answer.page.links["201 attributes"].startswith("../roles/reader/wide/t")
    saved = save(site, {}, "t:wide:t129:delete", path="/console/roles/reader?page=2")
    assert saved.status == 303 and "page=2" in saved.location
    found = permission(site)
    assert found["wide"]["tables"]["t129"]["delete"] is False and len(found["wide"]["tables"]) == 130
    assert "t005" in site.get("/console/roles/reader?search=wide.t00&given=yes").page.text
    one = site.get("/console/roles/reader/wide/t000")
    names = [each["name"] for tag, each in one.page.elements if tag == "input" and "name" in each]
    assert len(names) < MOST_FIELDS and "a:wide:t000:a199:read" in names


# --- JSON ---------------------------------------------------------------------------------------------------------------------------------

JSON = "/console/roles/reader?do=json"


def text_of(answer: ConsoleAnswer, name: str) -> str:
    import html
    import re

    found = re.search(rf'<textarea name="{name}"[^>]*>\n(.*?)</textarea>', answer.body.decode(), re.DOTALL)
    assert found
    return html.unescape(found[1])


def test_the_json_view(site: ConsoleSite) -> None:
    answer = site.get(JSON)
    assert json.loads(text_of(answer, "permission")) == READER and text_of(answer, "access") == ""
    seen = answer.page.find("input", name="seen")["value"]
    wanted = {"operations": ["read_only"], "data": {"tables": {ODD: READ}}}
    saved = site.post(JSON, {"permission": json.dumps(wanted), "access": '{"screens": ["<b>"]}', "seen": seen})
    assert (
        saved.status == 303 and permission(site) == wanted and saved.location.startswith("../roles/reader?") and "do=json" in saved.location
    )
    again = site.get(JSON)
    assert json.loads(text_of(again, "access")) == {"screens": ["<b>"]} and "<img src=x" not in again.body.decode()
    assert site.post(JSON, {"permission": "{}", "access": "", "seen": seen}).status == 409


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "line 1, column 1"),
        ('{"data":\n  {,}}', "line 2, column 4"),
        ('{"a": NaN}', "NaN is no JSON"),
        ('{"data": {}, "data": {}}', 'The name "data" is there twice'),
        ("[" * 100_000, "nested too deep"),
        ("1" * 5000, "too long"),
        ("[]", "permission"),
        ('{"nosuch": {"tables": {}}}', "database 'nosuch' does not exist"),
        ('{"data": {"tables": {"plant": {"read": 1}}}}', "data_plant: Table READ permission must be a boolean"),
    ],
)
def test_what_is_wrong_with_the_json(site: ConsoleSite, text: str, fault: str) -> None:
    seen = site.get(JSON).page.find("input", name="seen")["value"]
    answer = site.post(JSON, {"permission": text, "access": "", "seen": seen})
    assert answer.status == 400 and fault in answer.page.text and text_of(answer, "permission") == text
    assert answer.page.find("textarea", name="permission")["aria-invalid"] == "true" and permission(site) == READER


def test_wrong_access(site: ConsoleSite) -> None:
    seen = site.get(JSON).page.find("input", name="seen")["value"]
    answer = site.post(JSON, {"permission": "{}", "access": "{", "seen": seen})
    assert answer.status == 400 and answer.page.find("textarea", name="access")["aria-invalid"] == "true"


# --- rights -------------------------------------------------------------------------------------------------------------------------------


def test_who_may_only_list_roles(site: ConsoleSite) -> None:
    site.node.run("add_role", role="viewer", permission={"operations": ["list_roles"]})
    site.node.run("add_user", username="eve", password="x", role="viewer", active=True)
    eve = site.node.directory.get_user("eve")
    assert eve is not None
    assert "Users" not in [each for row in site.get("/console/roles", eve).page.rows for each in row]
    answer = site.get("/console/roles/reader", eve)
    assert "Save" not in answer.page.text and "disabled" in answer.page.find("input", name="t:data:plant:read")
    assert not [each for _, each in answer.page.elements if each.get("name") == "t:garden:bed:read"]  # a table that eve does not know of
    assert not {"Copy", "Drop", "Users"} & answer.page.links.keys() and "readonly" in site.get(JSON, eve).page.find(
        "textarea", name="permission"
    )
    token = answer.page.find("input", name="_token")["value"]
    for path, form in (
        ("/console/roles/reader", shown(site) | {"t:data:plant:insert": "yes"}),
        (JSON, {"permission": "{}", "access": "", "seen": shown(site)["seen"]}),
        ("/console/roles?do=add", {"role": "new"}),
        ("/console/roles/reader?do=drop", {"action": "confirm"}),
    ):
        assert site.post(path, form, eve, token=token).status == 403, path
    assert permission(site) == READER


def test_who_may_alter_roles_gives_no_more_than_the_own_rights(site: ConsoleSite) -> None:
    both = ["list_roles", "alter_role"]
    site.node.run("add_role", role="clerk", permission={**READER, "operations": both})
    site.node.run("add_user", username="eve", password="x", role="clerk", active=True)
    site.node.run("alter_role", id="reader", permission={**READER, "operations": both})
    eve = site.node.directory.get_user("eve")
    assert eve is not None
    refused = site.post("/console/roles/reader", shown(site, user=eve) | {"t:data:plant:insert": "yes"}, eve)
    assert refused.status == 403 and "cannot give rights that it does not have" in refused.page.text
    less = {name: value for name, value in shown(site, user=eve).items() if name != "t:data:plant:read"}
    assert site.post("/console/roles/reader", less, eve).status == 303 and permission(site) == {"operations": both}
