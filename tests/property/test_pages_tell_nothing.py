"""Pages of callers with few rights say nothing of what is not theirs: names, values, numbers, that something is there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

import svc.testing
from svc.testing.application import Application
from tests.support.crawler import APPLICATION, OPERATIONS, Browser, Offered, crawl
from tests.support.roles_scene import PASSWORD, ROLES, add_user, browser, dump, fill, make_application

STARTS = [f"{APPLICATION}/", f"{OPERATIONS}/console/"]
SECRETS = {
    "clerk": ("Vault", "Loan", "Maker", "treasury", "Ledger", "hidden-note", "4100", "somebody-else", "observer", "automat", "makerId"),
    "lender": ("Vault", "treasury", "Ledger", "somebody-else", "observer", "automat", "Rate", "l0", "l2", "l4"),
    "operator": ("Vault", "treasury", "Ledger", "hidden-note", "somebody-else", "automat", "Loan", "Rate"),
    "nobody": ("Vault", "Tool", "Maker", "treasury", "Loan", "Rate", "observer", "automat", "toolshed"),
    None: ("Vault", "Tool", "Maker", "treasury", "Loan", "Rate", "observer", "automat", "toolshed", "admin"),
}
"""Words that are in no page of a caller."""


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Application]:
    path: Path = tmp_path_factory.mktemp("silent")
    with svc.testing.app(make_application(path)) as app:
        fill(app)
        yield app


@pytest.mark.parametrize("name", SECRETS)
def test_words_that_are_in_no_page(app: Application, name: str | None) -> None:
    count = 0
    told: list[tuple[str, str]] = []
    for visit in crawl(browser(app, name), STARTS):
        if "/console/logs" in visit.address:
            continue  # who may read the log reads all of it
        count += 1
        text = visit.answer.text
        told += [(word, visit.address) for word in SECRETS[name] if word in text]
    assert count > 10 and not told, "\n".join(map(str, told))


HIDDEN = {
    "lender": [("/Loan/l0", "/Loan/none"), ("/Vault/v0", "/Nosuch/v0"), ("/Vault/", "/Nosuch/"), ("/Vault", "/Nosuch")],
    "clerk": [("/Loan/l0", "/Loan/none"), ("/Ledger/x1", "/Nosuch/x1")],
    None: [("/Tool/t0", "/Tool/none"), ("/Loan/l0", "/Loan/none")],
}
VIEWS = (
    "",
    "?_view=edit",
    "?_view=copy",
    "?_view=delete",
    "?_view=history",
    "?_view=history&version=1.0",
    "?_view=pick",
    "?_view=import",
    "?_view=new",
)


@pytest.mark.parametrize("name", HIDDEN)
def test_what_is_hidden_is_as_what_is_not_there(app: Application, name: str | None) -> None:
    person = browser(app, name)
    for hidden, absent in HIDDEN[name]:
        for view in VIEWS:
            found, missing = (person.get(f"{APPLICATION}{path}{view}") for path in (hidden, absent))
            if name is None or "Nosuch" not in absent:
                assert found.status == missing.status, (found, missing)
                assert same(found.text, hidden) == same(missing.text, absent), (found, missing)
            else:
                assert found.status in (401, 403, 404), found
            assert found.status >= 400, found


def same(text: str, path: str) -> str:
    last = path.rpartition("/")[2]
    return text.replace(path, "PATH").replace(quote(path, safe=""), "PATH").replace(last, "LAST") if last else text


def test_choices_and_neighbours_are_those_that_one_may_read(app: Application) -> None:
    lender = browser(app, "lender")
    text = lender.get(f"{APPLICATION}/Loan/?_view=pick").text
    assert "l1" in text and "l0" not in text
    assert "somebody" not in lender.get(f"{APPLICATION}/Loan/?_view=pick&q=somebody").text.replace('value="somebody"', "")
    page = Offered(f"{APPLICATION}/Loan/l3", lender.get(f"{APPLICATION}/Loan/l3").text)
    assert not any(f"/Loan/l{number}" in link for link in page.links for number in (0, 2, 4))
    assert f"{APPLICATION}/Loan/l1" in page.links and f"{APPLICATION}/Loan/l5" in page.links
    for query in ("facet(borrower)", "count()", "group(borrower)", "limit(2)", "limit(1)&count", "_open=l0", "borrower==somebody-else"):
        answer = lender.get(f"{APPLICATION}/Loan/?{query}")
        assert "(6)" not in answer.text and "of 6" not in answer.text, answer
        assert "somebody-else" not in answer.text or "borrower==" in query, answer
    clerk = browser(app, "clerk")
    for query in (
        "facet(cost)",
        "sort(cost)",
        "cost==41000",
        "select(id,note)",
        "group(cost)",
        "maker.name==Ash",
        "select(id,maker{name})",
    ):
        answer = clerk.get(f"{APPLICATION}/Tool/?{query}")
        assert "41000" not in answer.text.replace("cost==41000", "") and "hidden-note" not in answer.text and "Birch" not in answer.text, (
            answer
        )
    for view in ("pick", "pick&q=hidden-note-1", "pick&q=41000"):
        text = clerk.get(f"{APPLICATION}/Tool/?_view={view}").text
        assert "hidden-note" not in text.replace(f'value="{view[7:]}"', "") and "t1" not in text.replace("t1", "", 0 if "q=" in view else 9)


def test_a_history_is_for_who_may_read_the_log_and_has_what_they_may_read(app: Application) -> None:
    for name in ("clerk", "lender", "structure", "operator"):
        assert browser(app, name).get(f"{APPLICATION}/Tool/t0?_view=history").status == 403
    observer = browser(app, "observer")
    answer = observer.get(f"{APPLICATION}/Tool/t0?_view=history")
    assert answer.status == 200
    assert "hidden-note" not in answer.text and "41001" not in answer.text, answer.text


def test_uploads_and_jobs_of_others(app: Application) -> None:
    owner, other, admin = browser(app, "clerk"), browser(app, "clerk"), browser(app, "admin")
    address = f"{APPLICATION}/Tool/?_view=import"
    [form] = [form for form in Offered(address, owner.get(address).text).forms if form.files]
    sent = owner.send(form, form.buttons[0] if form.buttons else None)
    assert sent.status == 303
    upload = sent.headers["location"]
    assert owner.get(f"{APPLICATION}/Tool/{upload}").status == 200
    for person in (other, admin, browser(app, "structure")):
        answer = person.get(f"{APPLICATION}/Tool/{upload}")
        assert answer.status in (403, 404) and "new1" not in answer.text, answer
    [form] = [
        form
        for form in Offered(f"{APPLICATION}/Tool/{upload}", owner.get(f"{APPLICATION}/Tool/{upload}").text).forms
        if form.value("step") == "run"
    ]
    sent = owner.send(form, form.buttons[0] if form.buttons else None)
    assert sent.status == 303, sent
    job = sent.headers["location"].rpartition("=")[2]
    app.settle()
    for path in (
        f"{APPLICATION}/Tool/?_view=import&job={job}",
        f"{APPLICATION}/Tool/?_view=import&job={job}&refused=csv",
        f"{OPERATIONS}/console/jobs/{job}",
    ):
        assert owner.get(path).status == 200
        for name in ("structure", "lender", "nobody", None):
            assert browser(app, name).get(path).status in (401, 403, 404), (name, path)


def test_keys_and_tokens_are_no_logins(app: Application) -> None:
    key = app.operation("create_key", name="passkey", role="super_user")["key"]
    before = dump(app)
    someone = Browser(app.instance)
    for name in ("passkey", "admin", "", key):
        assert someone.post(f"{OPERATIONS}/console/login", {"_username": name, "_password": key}).status in (400, 401)
        assert someone.post(f"{APPLICATION}/login", {"username": name, "password": key}).status in (400, 401)
    fields = {"Authorization": f"Bearer {key}"}
    users = f"{OPERATIONS}/console/users?do=add"
    shown = someone.get(users, **fields)
    assert shown.status == 200
    wanted = {"username": "mallory", "password": "password", "again": "password", "role": "super_user"}
    assert someone.post(users, wanted, **fields).status == 403  # a form has its token, whoever sends it
    assert dump(app) == before
    app.operation("revoke_key", name="passkey")


def test_no_form_makes_a_role_more_powerful(app: Application) -> None:
    """Of callers who may run what these forms do, as far as that can be given."""
    app.operation(
        "add_role", role="people", permission={"operations": ["list_users", "list_roles", "list_keys", "list_sessions", "user_info"]}
    )
    add_user(app, "people", "people")
    people = browser(app, "people")
    token = next(form.value("_token") for form in Offered(STARTS[1], people.get(STARTS[1]).text).forms)
    before = dump(app)
    attempts: list[tuple[str, dict[str, Any]]] = [
        ("roles/people", {"super_user": "yes", "seen": ""}),
        ("roles/people?do=json", {"permission": '{"super_user": true}', "seen": ""}),
        ("roles?do=add", {"role": "mine"}),
        ("users/people", {"action": "change", "role": "super_user", "active": "yes"}),
        ("users/admin", {"action": "password", "password": "mine-mine", "again": "mine-mine"}),
        ("users?do=add", {"username": "mine", "password": "mine-mine", "again": "mine-mine", "role": "super_user"}),
        ("keys?do=create", {"name": "mine", "whose": "role", "role": "super_user", "expires": "90d"}),
        ("keys?do=create", {"name": "mine", "whose": "user", "user": "admin", "expires": "90d"}),
        ("keys/automat", {"action": "confirm"}),
        ("sessions?username=admin", {"action": "confirm"}),
        (
            "operations/list_users",
            {".body": '{"operation": "add_user", "username": "m", "password": "mine-mine", "role": "super_user", "active": true}'},
        ),
        (
            "operations/list_users",
            {".body": '{"operation": "alter_user", "username": "people", "role": "super_user", "bypass_auth": true}'},
        ),
        (
            "operations/list_users",
            {
                ".body": '{"operation": "alter_user", "username": "people", "role": "super_user", "svc_user": {"role": {"permission": {"super_user": true}}}}'
            },
        ),
        (
            "operations/list_users",
            {".body": '{"operation": "add_role", "role": "x", "permission": {"super_user": true}, "impersonate": "admin"}'},
        ),
        (
            "operations/list_users",
            {".body": '{"operation": "add_role", "role": "x", "permission": {}, "impersonate": {"username": "admin"}}'},
        ),
        ("operations", {".body": '{"operation": "create_authentication_tokens", "impersonate": "admin"}'}),
        ("operations/list_users", {"impersonate": "admin", "bypass_auth": "true"}),
        ("sql", {"sql": "UPDATE system.svc_user SET role = 'super_user'"}),
    ]
    for path, form in attempts:
        answer = people.post(f"{OPERATIONS}/console/{path}", {**form, "_token": token or ""})
        assert 400 <= answer.status < 500, (path, answer)
    assert dump(app) == before


def test_what_is_taken_away_in_the_middle(app: Application) -> None:
    app.operation("add_role", role="late", permission=ROLES["clerk"])
    add_user(app, "late", "late")
    late = browser(app, "late")
    address = f"{APPLICATION}/Tool/t0?_view=edit"
    [form] = [form for form in Offered(address, late.get(address).text).forms if form.value("_version") is not None]
    before = dump(app)["data.Tool"]
    changed = [(name, "Mine" if name == "v.name" else value) for name, value in form.fields]
    form.fields = changed
    app.operation(
        "alter_role",
        id="late",
        permission={
            "data": {"tables": {"Tool": {"read": True, "insert": False, "update": False, "delete": False, "attribute_permissions": []}}}
        },
    )
    assert late.send(form).status == 403
    app.operation("alter_role", id="late", permission=ROLES["clerk"])
    app.operation("alter_user", username="late", active=False)
    assert late.send(form).status in (401, 403)
    app.operation("alter_user", username="late", active=True)
    app.operation("alter_user", username="late", password="another one")
    assert late.send(form).status in (401, 403)
    assert late.get(f"{OPERATIONS}/console/").status == 401
    assert Browser(app.instance).post(f"{OPERATIONS}/console/login", {"_username": "late", "_password": PASSWORD}).status == 401
    assert dump(app)["data.Tool"] == before


def test_names_break_out_of_no_header(app: Application) -> None:
    admin = browser(app, "admin")
    token = next(form.value("_token") for form in Offered(STARTS[1], admin.get(STARTS[1]).text).forms) or ""
    for name in ("a\r\nSet-Cookie: x=y", "a\nX: y", 'a"; filename="x', "a\u2028b", "..%2f..", "é"):
        for path, form in (
            ("roles?do=add", {"role": name}),
            ("databases", {"do": "create-database", "database": name}),
            ("users?do=add", {"username": name, "password": "password", "again": "password", "role": "clerk", "active": "yes"}),
            ("keys?do=create", {"name": name, "whose": "role", "role": "clerk", "expires": "90d"}),
        ):
            answer = admin.post(f"{OPERATIONS}/console/{path}", {**form, "_token": token})
            assert answer.status < 500 and "x" not in answer.headers and "set-cookie" not in answer.headers, answer
            assert all(ord(character) > 31 for _, value in answer.headers.pairs for character in value)
        for path in (f"backups/download?database={quote(name)}", f"operations/{quote(name, safe='')}", f"logs?tag={quote(name)}"):
            answer = admin.get(f"{OPERATIONS}/console/{path}")
            assert answer.status < 500 and "x" not in answer.headers and "set-cookie" not in answer.headers, answer


def test_files_are_not_fetched_by_links_of_other_sites(app: Application) -> None:
    """The cookie comes with a link from elsewhere (Lax), so nothing may happen by it; a page of another origin that asks gets nothing."""
    admin = browser(app, "admin")
    for path in ("backups/download?database=data", "applications/toolshed/archive"):
        answer = admin.get(f"{OPERATIONS}/console/{path}", Sec_Fetch_Site="cross-site")
        assert answer.status != 200, answer
