"""API keys, sessions and the own password in the console (spec: console §10)."""

from __future__ import annotations

import re
from urllib.parse import quote

import pytest

from svc.auth.users import User
from svc.messages import HeaderBlock, Request
from tests.support.console import ConsoleAnswer, ConsoleSite
from tests.support.pages import Parsed

HOSTILE = "\"'><img src=x onerror=alert(1)>"
KEY = re.compile(r"svc_[0-9A-Za-z]{10}_[0-9A-Za-z]{33}")


@pytest.fixture
def site(site: ConsoleSite) -> ConsoleSite:
    site.node.run("alter_user", username="admin", password="right")
    site.node.run("add_role", role="reader", permission={})
    site.node.run("add_user", username="ann", password="s3cret", role="reader", active=True)
    return site


def granted(site: ConsoleSite, *operations: str) -> User:
    site.node.run("add_role", role="some", permission={"operations": list(operations)})
    site.node.run("add_user", username="eve", password="s3cret", role="some", active=True)
    found = site.node.directory.get_user("eve")
    assert found is not None
    return found


def log_in(site: ConsoleSite, name: str, password: str = "s3cret") -> str:
    """The cookie."""
    answer = site.post("/console/login", {"_username": name, "_password": password}, None, token=None)
    assert answer.status == 303, answer.page.text
    return next(value for key, value in answer.headers if key.lower() == "set-cookie").partition(";")[0]


def who(site: ConsoleSite, cookie: str) -> str | None:
    """Whose session a cookie is of."""
    user = site.node.node.sessions.user(Request("GET", "/", HeaderBlock([("host", "localhost:9925"), ("cookie", cookie)])))
    return None if user is None else user.username


# --- API keys -----------------------------------------------------------------------------------------------------------------------------


def create(site: ConsoleSite, **fields: str) -> ConsoleAnswer:
    return site.post(
        "/console/keys?do=create", {"name": "nightly", "whose": "role", "role": "reader", "user": "", "expires": "90d", **fields}
    )


def test_a_key_is_shown_once(site: ConsoleSite) -> None:
    answer = create(site)
    assert answer.status == 200 and answer.location == "" and ("Cache-Control", "no-store") in answer.headers
    [key] = KEY.findall(answer.body.decode())
    page = site.get("/console/keys").page
    assert page.rows[1][0] == "nightly" and page.rows[1][1] == key[:14] and "the role reader" in page.rows[1][2]
    assert key not in site.get("/console/keys").body.decode() and page.rows[1][6] == "never"
    assert page.rows[1][5] != "never" and create(site, name="for ever", expires=" ").status == 200
    assert site.get("/console/keys?search=ever").page.rows[1][5] == "never"


def test_a_key_with_the_rights_of_a_user(site: ConsoleSite) -> None:
    assert create(site, whose="user", user="ann").status == 200
    assert [(each["user"], each["active"]) for each in site.node.run("list_keys")] == [("ann", True)]
    assert "the user ann" in site.get("/console/keys?search=ann").page.text


@pytest.mark.parametrize(
    ("change", "status", "text"),
    [
        ({"name": ""}, 400, "name"),
        ({"name": "svc_x"}, 400, "must not begin with svc_"),
        ({"role": "nosuch"}, 404, "nosuch role not found"),
        ({"whose": "user", "user": "nobody"}, 404, "User nobody does not exist"),
        ({"expires": "soon"}, 400, "'expires' must be a time"),
    ],
)
def test_what_is_wrong_with_a_new_key(site: ConsoleSite, change: dict[str, str], status: int, text: str) -> None:
    answer = create(site, **change)
    assert answer.status == status and text in answer.page.text and site.node.run("list_keys") == []
    assert answer.page.find("input", name="expires")["value"] == change.get("expires", "90d")
    assert "checked" in answer.page.find("input", type="radio", value=change.get("whose", "role"))


@pytest.mark.parametrize("name", [HOSTILE, "a/b?c#d%2F", "..", "Анна"])
def test_a_key_is_revoked_after_a_question(site: ConsoleSite, name: str) -> None:
    assert create(site, name=name).status == 200
    page = site.get("/console/keys").page
    [href] = [each["href"] for tag, each in page.elements if tag == "a" and each.get("aria-label") == f"Revoke {name}"]
    path = "/console/" + href.removeprefix("./")
    question = site.get(path)
    assert question.status == 200 and "never" in question.page.text and "<img src=x" not in question.body.decode()
    assert site.post(path, {"action": "confirm"}, token="0" * 32).status == 403 and len(site.node.run("list_keys")) == 1
    assert site.post(path, {"action": "confirm"}).status == 303 and site.node.run("list_keys") == []
    assert site.get(path).status == 404


def test_who_may_only_list_keys(site: ConsoleSite) -> None:
    create(site)
    eve = granted(site, "list_keys")
    page = site.get("/console/keys", eve).page
    assert "nightly" in page.text and "Revoke" not in page.text and "Create an API key" not in page.links
    assert site.post("/console/keys/nightly", {"action": "confirm"}, eve).status == 403
    assert site.get("/console/users", eve).status == 403 and len(site.node.run("list_keys")) == 1


# --- sessions -----------------------------------------------------------------------------------------------------------------------------


def test_sessions_are_listed_without_their_ids(site: ConsoleSite) -> None:
    own, other = log_in(site, "admin", "right"), log_in(site, "ann")
    answer = site.get("/console/sessions", cookie=own)
    page = answer.page
    assert [row[0] for row in page.rows[1:]] == ["admin", "ann"] and page.rows[1][1].endswith("this one")
    for cookie in (own, other):
        session_id = cookie.partition("=")[2]
        assert session_id not in answer.body.decode() and session_id[:8] in page.text
    [href] = [
        each["href"]
        for tag, each in page.elements
        if tag == "a" and "session" in each.get("aria-label", "") and "ann" in each["aria-label"]
    ]
    handle = href.rpartition("/")[2]
    assert who(site, f"svc-session={handle}") is None and who(site, f"svc-session={handle[:8]}") is None
    path = f"/console/sessions/{handle}"
    assert "a session of ann" in site.get(path).page.text
    assert "It is your own" in site.get("/console/" + _own(page).removeprefix("./"), cookie=own).page.text
    assert site.post(path, {}, token=None).status == 403 and who(site, other) == "ann"
    assert site.post(path, {"action": "confirm"}).status == 303 and who(site, other) is None and who(site, own) == "admin"
    assert site.get(path).status == 404


def _own(page: Parsed) -> str:
    return next(each["href"] for tag, each in page.elements if tag == "a" and each.get("aria-label", "").endswith("of admin"))


def test_all_sessions_of_a_user(site: ConsoleSite) -> None:
    first, second, admin = log_in(site, "ann"), log_in(site, "ann"), log_in(site, "admin", "right")
    page = site.get("/console/sessions?username=ann").page
    assert len(page.rows) == 3 and page.links["ann"] == "./sessions?username=ann"
    path = "/console/sessions?username=ann&do=end"
    assert "End all sessions of ann?" in site.get(path).page.text
    assert site.post(path, {"action": "confirm"}).location.startswith("./sessions?note=All+sessions+and+tokens+of+ann")
    assert (who(site, first), who(site, second), who(site, admin)) == (None, None, "admin")
    assert site.post("/console/sessions?username=nobody&do=end", {"action": "confirm"}).status == 404
    hostile = site.get(f"/console/sessions?username={quote(HOSTILE)}&do=end")
    assert hostile.status == 200 and "<img src=x" not in hostile.body.decode()


def test_who_may_only_list_sessions(site: ConsoleSite) -> None:
    admin = log_in(site, "admin", "right")
    eve = granted(site, "list_sessions", "end_session")
    page = site.get("/console/sessions?username=admin", eve).page
    assert "End all sessions" not in page.text
    path = "/console/" + _own(page).removeprefix("./")
    assert site.post(path, {"action": "confirm"}, eve).status == 403 and who(site, admin) == "admin"
    assert site.post("/console/sessions?username=admin&do=end", {"action": "confirm"}, eve).status == 403 and who(site, admin) == "admin"


# --- the own password ---------------------------------------------------------------------------------------------------------------------


def test_the_own_password_is_changed_and_the_session_goes_on(site: ConsoleSite) -> None:
    own, other = log_in(site, "ann"), log_in(site, "ann")
    ann = site.node.directory.get_user("ann")
    form = {"current": "s3cret", "password": "correct horse", "again": "correct horse"}
    answer = site.post("/console/password", form, ann, cookie=own)
    assert answer.status == 303 and answer.location == "./password?note=Your+password+was+changed"
    assert who(site, own) == "ann" and who(site, other) is None
    log_in(site, "ann", "correct horse")


@pytest.mark.parametrize(
    ("change", "status", "text"),
    [
        ({"current": "wrong"}, 403, "current_password is wrong"),
        ({"again": "other"}, 400, "not the same"),
        ({"password": "", "again": ""}, 400, "password"),
        ({"current": ""}, 400, "current_password"),
    ],
)
def test_what_is_wrong_with_the_own_password(site: ConsoleSite, change: dict[str, str], status: int, text: str) -> None:
    ann = site.node.directory.get_user("ann")
    form = {"current": "s3cret", "password": "new one", "again": "new one", **change}
    answer = site.post("/console/password", form, ann)
    assert answer.status == status and text in answer.page.text and "new one" not in answer.body.decode()
    log_in(site, "ann")


def test_another_name_in_the_form_changes_nobody_else(site: ConsoleSite) -> None:
    ann = site.node.directory.get_user("ann")
    form = {"current": "s3cret", "password": "new", "again": "new", "username": "admin"}
    assert site.post("/console/password", form, ann).status == 303
    log_in(site, "admin", "right")
    log_in(site, "ann", "new")


def test_a_form_of_another_login_changes_nothing(site: ConsoleSite) -> None:
    ann = site.node.directory.get_user("ann")
    form = {"current": "s3cret", "password": "new", "again": "new"}
    for token in (None, "0" * 32):
        assert site.post("/console/password", form, ann, token=token).status == 403
    log_in(site, "ann")
