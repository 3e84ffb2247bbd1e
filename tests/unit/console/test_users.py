"""Users in the console (spec: console §10)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from svc.config import Config
from svc.store.system import SYSTEM, USER_TABLE
from tests.support.console import ConsoleSite

HOSTILE = "\"'><img src=x onerror=alert(1)>"
NAMES = [HOSTILE, "a/b?c#d%2Fe%", "..", ".", "Анна \U0001f9d1", "drop", "x" * 250]
READER = {"data": {"tables": {"plant": {"read": True, "insert": False, "update": False, "delete": False, "attribute_permissions": []}}}}


@pytest.fixture
def site(site: ConsoleSite) -> ConsoleSite:
    site.node.run("alter_user", username="admin", password="right")
    site.node.run("create_table", table="plant", primary_key="id", attributes=[{"name": "id"}, {"name": "kind"}])
    site.node.run("add_role", role="reader", permission=READER)
    return site


def add(site: ConsoleSite, name: str, role: str = "reader", **fields: Any) -> str:
    site.node.run("add_user", **{"username": name, "password": "s3cret", "role": role, "active": True, **fields})
    return f"/console/users/?name={name}" if name in (".", "..") else f"/console/users/{quote(name, safe='')}"


def user(site: ConsoleSite, name: str) -> dict:  # type: ignore[type-arg]
    return next(each for each in site.node.run("list_users") if each["username"] == name)


def can_log_in(site: ConsoleSite, name: str, password: str) -> bool:
    form = {"_username": name, "_password": password}
    return site.post("/console/login", form, None, token=None).status == 303


def test_users_are_listed_and_searched(site: ConsoleSite) -> None:
    add(site, "ann")
    add(site, "Anton", active=False)
    page = site.get("/console/users").page
    assert [row[0].split()[0] for row in page.rows[1:]] == ["Anton", "admin", "ann"]
    assert page.rows[1][1:3] == ["reader", "no"] and "super user" in page.rows[2][1] and "you" in page.rows[2][0]
    assert page.links["ann"] == "./users/ann"
    found = site.get("/console/users?search=AN").page
    assert [row[0] for row in found.rows[1:]] == ["Anton", "ann"] and found.find("input", name="search")["value"] == "AN"
    assert "There is no such user" in site.get("/console/users?search=zz").page.text
    assert [row[0] for row in site.get("/console/users?role=reader").page.rows[1:]] == ["Anton", "ann"]


def test_pages_of_a_hundred(site: ConsoleSite) -> None:
    for number in range(120):
        add(site, f"u{number:03}")
    first = site.get("/console/users").page
    assert len(first.rows) == 101 and "1 to 100 of 121 users" in first.text and first.links["Next"] == "./users?page=2"
    second = site.get("/console/users?page=2").page
    assert len(second.rows) == 22 and second.links["Previous"] == "./users?page=1"
    for wrong in ("0", "-1", "99999999999", "x", "²"):
        assert site.get(f"/console/users?page={quote(wrong)}").status == 200


def test_a_user_is_added(site: ConsoleSite) -> None:
    form = {"username": "ann", "password": "correct horse", "again": "correct horse", "role": "reader", "active": "yes"}
    answer = site.post("/console/users?do=add", form)
    assert answer.status == 303 and answer.location.startswith("./users?note=The+user+ann+was+added")
    assert user(site, "ann")["role"]["role"] == "reader" and can_log_in(site, "ann", "correct horse")
    assert "The user ann was added" in site.get("/console/users?note=The+user+ann+was+added").page.text


@pytest.mark.parametrize(
    ("change", "status", "text"),
    [
        ({"again": "other"}, 400, "The two passwords are not the same"),
        ({"password": "", "again": ""}, 400, "password"),
        ({"username": ""}, 400, "username"),
        ({"username": "a:b"}, 400, ":"),
        ({"username": "admin"}, 409, "User admin already exists"),
        ({"role": "nosuch"}, 404, "nosuch role not found"),
        ({"role": ""}, 400, "Role is invalid"),
    ],
)
def test_what_is_wrong_with_a_new_user(site: ConsoleSite, change: dict[str, str], status: int, text: str) -> None:
    form = {"username": "ann", "password": "one", "again": "one", "role": "reader", **change}
    before = site.node.run("list_users")
    answer = site.post("/console/users?do=add", form)
    assert answer.status == status and text in answer.page.text
    assert answer.page.find("input", name="username").get("value", "") == form["username"]
    assert "checked" not in answer.page.find("input", name="active") and "one" not in answer.body.decode().split('"')
    assert site.node.run("list_users") == before


def test_a_password_that_is_made_up_is_shown_once(site: ConsoleSite) -> None:
    answer = site.post("/console/users?do=add", {"username": "ann", "role": "reader", "active": "yes", "generate": "yes"})
    assert answer.status == 200 and answer.location == "" and ("Cache-Control", "no-store") in answer.headers
    found = re.search('id="secret">([A-Za-z0-9_-]{20})<', answer.body.decode())
    assert found and can_log_in(site, "ann", found[1])
    assert answer.page.find("button", **{"data-copy": "secret"})
    again = site.post("/console/users/ann", {"action": "password", "generate": "yes"})
    other = re.search('id="secret">([A-Za-z0-9_-]{20})<', again.body.decode())
    assert other and other[1] != found[1] and can_log_in(site, "ann", other[1]) and not can_log_in(site, "ann", found[1])


def test_a_user_is_changed_by_what_was_changed_in_the_form(site: ConsoleSite) -> None:
    path = add(site, "ann")
    site.node.run("add_role", role="writer", permission={})
    form = {"action": "change", "was_role": "reader", "was_active": "yes", "role": "writer", "active": "yes"}
    assert site.post(path, form).location.startswith("../users/ann?note=")
    assert user(site, "ann")["role"]["role"] == "writer" and user(site, "ann")["active"]
    # Meanwhile it has another role: the form that still shows the former one changes the state alone.
    site.post(path, {"action": "change", "was_role": "reader", "was_active": "yes", "role": "reader"})
    assert user(site, "ann")["role"]["role"] == "writer" and not user(site, "ann")["active"]
    refused = site.post(path, {"action": "change", "was_role": "writer", "was_active": "", "role": "nosuch", "active": "yes"})
    assert refused.status == 404 and "nosuch" in refused.page.text and "checked" in refused.page.find("input", name="active")
    assert site.post(path, {"action": "change", "was_role": "writer", "role": "writer"}).status == 400
    assert site.post(path, {"action": "nosuch"}).status == 400


def test_a_password_is_set(site: ConsoleSite) -> None:
    path = add(site, "ann")
    assert site.post(path, {"action": "password", "password": "new", "again": "new"}).status == 303 and can_log_in(site, "ann", "new")
    wrong = site.post(path, {"action": "password", "password": "new", "again": "old"})
    assert wrong.status == 400 and "not the same" in wrong.page.text and can_log_in(site, "ann", "new")


def test_a_user_is_dropped_after_a_question(site: ConsoleSite) -> None:
    path = add(site, "ann")
    assert can_log_in(site, "ann", "s3cret")
    site.node.send({"operation": "create_key", "name": "import", "user": "ann"}, site.node.admin)
    assert site.get(path).page.links["Drop the user"] == "../users/ann?do=drop"
    question = site.get(f"{path}?do=drop")
    assert "1 session, its tokens and 1 API key" in question.page.text and user(site, "ann")
    assert question.page.links["Cancel"] == "../users/ann"
    assert site.post(f"{path}?do=drop", {"action": "confirm"}, token=None).status == 403 and user(site, "ann")
    assert site.post(f"{path}?do=drop", {"action": "confirm"}).location.startswith("../users?note=")
    assert site.get(path).status == 404
    assert site.post(f"{path}?do=drop", {"action": "confirm"}, token="").status == 403  # there is no page that has a token


def test_the_last_super_user_is_not_offered_to_be_dropped(site: ConsoleSite) -> None:
    page = site.get("/console/users/admin").page
    assert "last active super user" in page.text and "Drop the user" not in page.links
    assert [each for tag, each in page.elements if tag == "input" and each.get("name") == "active"] == []
    refused = site.post("/console/users/admin?do=drop", {"action": "confirm"})
    assert refused.status == 409 and "Cannot remove the last active super_user" in refused.page.text
    form = {"action": "change", "was_role": "super_user", "was_active": "yes", "role": "super_user"}
    assert site.post("/console/users/admin", form).status == 409
    add(site, "root", "super_user")
    assert "Drop the user" in site.get("/console/users/admin").page.links


def test_dropping_oneself_is_said_and_done(site: ConsoleSite) -> None:
    add(site, "root", "super_user")
    root = site.node.directory.get_user("root")
    assert "This is you" in site.get("/console/users/root?do=drop", root).page.text
    assert site.post("/console/users/root?do=drop", {"action": "confirm"}, root).status == 303
    assert site.node.directory.get_user("root") is None


@pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
def test_names_in_addresses_and_pages(site: ConsoleSite, name: str) -> None:
    path = add(site, name)
    for address in ("/console/users", path, path + ("&" if "?" in path else "?") + "do=drop"):
        answer = site.get(address)
        assert answer.status == 200 and "<img src=x" not in answer.body.decode()
    links = [each["href"] for tag, each in site.get("/console/users").page.elements if tag == "a" and "users/" in each.get("href", "")]
    assert "/console/" + path.removeprefix("/console/") in ["/console/" + link.removeprefix("./") for link in links]
    changed = site.post(path, {"action": "change", "was_role": "reader", "was_active": "yes", "role": "reader"})
    assert changed.status == 303 and not user(site, name)["active"]
    assert site.get("/console/" + changed.location.lstrip("./")).status == 200
    assert site.post(path, {"action": "confirm"}).status == 303
    assert name not in [each["username"] for each in site.node.run("list_users")]


def test_no_such_user(site: ConsoleSite) -> None:
    answer = site.get(f"/console/users/{quote(HOSTILE, safe='')}")
    assert answer.status == 404 and "<img src=x" not in answer.body.decode()


def test_who_may_list_users_sees_no_more(site: ConsoleSite) -> None:
    site.node.run("add_role", role="viewer", permission={"operations": ["list_users"]})
    path = add(site, "eve", "viewer")
    eve = site.node.directory.get_user("eve")
    page = site.get("/console/users", eve).page
    assert "Add a user" not in page.links and "ann" not in page.links
    places = [each["href"] for tag, each in page.elements if tag == "a" and each.get("href", "").startswith("./")]
    assert "./users" in places and "./password" in places and not {"./roles", "./keys", "./sessions", "./accounts"} & set(places)
    own = site.get(path, eve).page
    assert "Drop the user" not in own.links and "Set the password" not in own.text and "Save" not in own.text
    assert site.post(path, {"action": "confirm"}, eve).status == 403 and user(site, "eve")
    assert site.post(path, {"action": "password", "password": "x", "again": "x"}, eve, token=_token(site, eve)).status == 403
    for place in ("roles", "keys", "sessions", "accounts"):
        assert site.get(f"/console/{place}", eve).status == 403
    nobody = site.node.user("nobody", {"operations": ["user_info"]})
    assert site.get("/console/users", nobody).status == 403 and site.get("/console/users", None).status == 401


def _token(site: ConsoleSite, by) -> str:  # type: ignore[no-untyped-def]
    return site.get("/console/users", by).page.find("input", name="_token")["value"]


# --- what a user may do -------------------------------------------------------------------------------------------------------------------


def test_effective_rights(site: ConsoleSite) -> None:
    add(site, "ann")
    page = site.get("/console/users?do=rights&who=ann&on=plant").page
    assert "ann, with the role reader, may on data.plant" in page.text
    assert page.rows[1] == ["records", "yes", "no", "no", "no"] and len(page.rows) == 2
    assert site.get("/console/users?do=rights&who=admin&on=data.plant").page.rows[1][1:] == ["yes"] * 4
    assert site.get("/console/users?do=rights&who=&on=plant").page.rows[1][1:] == ["no"] * 4
    site.node.run("grant", role="anonymous", rights=["read"], on="plant.kind")
    nobody = site.get("/console/users?do=rights&who=&on=plant").page
    assert "Whoever has not logged in" in nobody.text and ["kind", "yes", "no", "no", ""] in nobody.rows


def test_effective_rights_name_the_rules(site: ConsoleSite) -> None:
    allow = [{"roles": ["reader"], "read": "kind=='fern'"}, {"roles": ["reader"], "read": "kind=='<s>'"}]
    attributes = [{"name": "id", "is_primary_key": True}, {"name": "kind", "type": "String"}]
    site.node.run("create_table", table="leaf", primary_key="id", attributes=attributes, allow=allow)
    site.node.run("grant", role="reader", rights=["read"], on="leaf")
    add(site, "ann")
    answer = site.get("/console/users?do=rights&who=ann&on=leaf")
    assert "only records with kind=='fern' or kind==" in answer.page.text and "<s>" not in answer.body.decode()
    assert "Rules on rows" not in site.get("/console/users?do=rights&who=admin&on=leaf").page.text


def test_effective_rights_of_what_is_not_there(site: ConsoleSite) -> None:
    assert site.get("/console/users?do=rights&who=nobody&on=plant").status == 404
    assert "no table 'nosuch'" in site.get("/console/users?do=rights&who=admin&on=nosuch").page.text
    assert site.get("/console/users?do=rights&who=admin&on=system.svc_user").status == 404
    site.node.run("add_role", role="viewer", permission={"operations": ["list_users"]})
    add(site, "eve", "viewer")
    assert site.get("/console/users?do=rights&who=admin&on=plant", site.node.directory.get_user("eve")).status == 404


def test_what_was_made_up_is_in_no_log(site: ConsoleSite, tmp_path: Path) -> None:
    site.node.logs.configure(Config.from_document({"logging": {"level": "trace", "root": str(tmp_path / "log")}}, tmp_path))
    entries: list[str] = []
    site.node.logs.on_entry = lambda level, tags, text: entries.append(text)
    secrets = []
    for path, form in (
        ("/console/users?do=add", {"username": "ann", "role": "reader", "active": "yes", "generate": "yes"}),
        ("/console/users/ann", {"action": "password", "generate": "yes"}),
        ("/console/keys?do=create", {"name": "nightly", "whose": "role", "role": "reader"}),
    ):
        found = re.search('id="secret">([^<]+)<', site.post(path, form).body.decode())
        assert found
        secrets.append(found[1])
    site.post("/console/users?do=add", {"username": "bob", "role": "reader", "password": "typed-in", "again": "typed-in"})
    site.node.logs.on_entry = None
    assert any("add_user" in text and "***" in text for text in entries) and any("create_key" in text for text in entries)
    for secret in (*secrets, "typed-in"):
        assert not any(secret in text for text in entries)


def test_ten_thousand_users(site: ConsoleSite) -> None:
    users = site.node.store.databases[SYSTEM].tables[USER_TABLE]
    transaction = site.node.store.begin()
    for number in range(10_000):
        record = {"username": f"u{number:05}", "role": "reader", "active": True, "login_epoch": "x"}
        transaction.put(users, f"u{number:05}", users.validator.record(record))
    site.node.store.commit_now(transaction)
    page = site.get("/console/users?page=100").page
    assert "9,901 to 10,000 of 10,001 users" in page.text or "9901 to 10000 of 10001 users" in page.text
    assert [row[0] for row in site.get("/console/users?search=u0998").page.rows[1:]] == [f"u0998{digit}" for digit in range(10)]
    assert "10,000 users" in site.get("/console/roles").page.text and site.get("/console/users/u09999").status == 200
