"""A form is sent after its login has ended: it is done after a login (spec: http §7.8)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import svc.testing
from svc.pages.kept_forms import LONGEST
from tests.support.pages import BROWSER, Parsed
from tests.support.sent_forms import PageForm, forms_of
from tests.unit.testing.conftest import write_application

HOSTILE = "\"'><img src=x onerror=alert(1)>"
FILES = {
    "config.yaml": "login: true\nrest: true\ngraphqlSchema: {files: '*.graphql'}\n",
    "schema.graphql": "type Product @table @export { id: ID @primaryKey name: String note: String }\n",
}
PAGE = {"Accept": BROWSER, "User-Agent": "Mozilla/5.0"}
ANN = {"username": "ann", "password": "blue-heron"}
EVE = {"username": "eve", "password": "green-owl"}
EDIT = "/Product/p1?_view=edit"


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Any]:
    with svc.testing.app(write_application(tmp_path / "shop", FILES)) as made:
        rights = dict.fromkeys(("read", "insert", "update", "delete"), True) | {"attribute_permissions": []}
        made.operation("add_role", role="clerk", permission={"data": {"tables": {"Product": rights}}})
        made.operation(
            "add_role",
            role="reader",
            permission={"data": {"tables": {"Product": {**dict.fromkeys(rights, False), "read": True, "attribute_permissions": []}}}},
        )
        made.operation("add_user", **ANN, role="clerk", active=True)
        made.operation("add_user", username="bob", password="red-kite", role="reader", active=True)
        made.operation("add_user", **EVE, role="super_user", active=True)
        assert made.put("/Product/p1", {"name": "old"}).status == 204
        yield made


def post_form(answer: Any) -> PageForm:
    Parsed(answer.content)
    return next(each for each in forms_of(answer.content) if each.method == "post")


def send(who: Any, path: str, form: PageForm, **headers: str) -> Any:
    body, kind = form.body()
    return who.request("POST", path, data=body, headers={**PAGE, "Content-Type": kind, **headers})


def begun(shop: Any, name: str = HOSTILE) -> tuple[Any, PageForm]:
    """Somebody whose login ends while they fill in the form."""
    ann = shop.as_user(None)
    assert ann.post("/login", ANN).status == 200
    form = post_form(ann.get(EDIT, headers=PAGE))
    form.fill("v.name", name)
    assert ann.post("/logout", {}).status == 200
    return ann, form


def test_it_is_done_after_the_login(shop: Any) -> None:
    ann, form = begun(shop)
    asked = send(ann, EDIT, form)
    assert asked.status == 401 and "Basic" not in str(asked.headers) and "Your login has ended" in asked.text
    again = post_form(asked)
    assert "_token" not in again and again["v.name"] == HOSTILE
    again.fill("_username", "ann")
    again.fill("_password", "wrong")
    refused = send(ann, EDIT, again)
    assert refused.status == 401 and "Login failed" in refused.text and shop.get("/Product/p1").json["name"] == "old"
    again = post_form(refused)
    assert again["_password"] == "" and again["v.name"] == HOSTILE
    again.fill("_username", "ann")
    again.fill("_password", "blue-heron")
    assert send(ann, EDIT, again).headers["location"].endswith("#saved")
    assert shop.get("/Product/p1").json["name"] == HOSTILE
    assert ann.get("/Product/p1").json["name"] == HOSTILE, "the login stays"


def test_another_user_may_do_what_that_user_may(shop: Any) -> None:
    ann, form = begun(shop)
    again = post_form(send(ann, EDIT, form))
    again.fill("_username", "bob")
    again.fill("_password", "red-kite")
    assert send(ann, EDIT, again).status == 403
    assert shop.get("/Product/p1").json["name"] == "old"


def test_a_password_in_a_form_changes_nothing_for_who_is_logged_in(shop: Any) -> None:
    """So a token is still wanted."""
    ann, form = begun(shop)
    again = post_form(send(ann, EDIT, form))
    again.fill("_username", "bob")
    again.fill("_password", "red-kite")
    ann.post("/login", ANN)
    answer = send(ann, EDIT, again)
    assert answer.status == 403 and "made for another login" in answer.text
    assert shop.get("/Product/p1").json["name"] == "old"


def test_a_page_of_another_site_logs_nobody_in(shop: Any) -> None:
    ann, form = begun(shop)
    again = post_form(send(ann, EDIT, form))
    again.fill("_username", "ann")
    again.fill("_password", "blue-heron")
    foreign = {"Origin": "https://elsewhere.example"}
    for sent in (again, form):
        answer = send(ann, EDIT, sent, **foreign)
        assert answer.status in (401, 403) and not ann.cookies
        assert HOSTILE[-10:] not in answer.text and "_username" not in answer.text
    assert shop.get("/Product/p1").json["name"] == "old"


def test_what_is_too_long_is_not_kept(shop: Any) -> None:
    ann, form = begun(shop, "x" * (LONGEST + 1))
    answer = send(ann, EDIT, form)
    assert answer.status in (401, 413) and b"x" * 100 not in answer.content
    assert "_username" not in answer.text


def test_without_a_login_of_the_application_it_is_401(tmp_path: Path) -> None:
    files = FILES | {"config.yaml": FILES["config.yaml"].replace("login: true\n", "")}
    with svc.testing.app(write_application(tmp_path / "plain", files)) as shop:
        assert shop.put("/Product/p1", {"name": "old"}).status == 204
        form = post_form(shop.get(EDIT, headers=PAGE))
        answer = send(shop.as_user(None), EDIT, form)
        assert answer.status == 401 and "_username" not in answer.text and "Basic" in str(answer.headers)


def test_a_statement_is_run_after_the_login(shop: Any) -> None:
    eve = shop.as_user(None)
    assert eve.post("/login", EVE).status == 200
    form = post_form(eve.get("/sql", headers=PAGE))
    form.fill("sql", "SELECT name AS found FROM data.Product")
    eve.post("/logout", {})
    asked = send(eve, "/sql", form)
    again = post_form(asked)
    assert asked.status == 401 and "Basic" not in str(asked.headers) and again["sql"] == form["sql"]
    again.fill("_username", "eve")
    again.fill("_password", "green-owl")
    done = send(eve, "/sql", again)
    assert done.status == 200 and Parsed(done.content).rows[-1] == ["old"]
