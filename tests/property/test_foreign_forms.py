"""Forms of both ports, sent by pages of other sites, by other logins, and without a login: nothing happens."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import svc.testing
from svc.testing.answer import Answer
from svc.testing.application import Application
from tests.support.crawler import APPLICATION, OPERATIONS, Browser, Form, Offered, Visit, crawl
from tests.support.roles_scene import PASSWORD, add_user, browser, dump, fill, make_application

TOKEN = "_token"
STARTS = [f"{APPLICATION}/", f"{OPERATIONS}/console/"]
USERS = f"{OPERATIONS}/console/users"


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Application]:
    path: Path = tmp_path_factory.mktemp("foreign")
    with svc.testing.app(make_application(path)) as app:
        fill(app)
        add_user(app, "second", "super_user")
        yield app


@pytest.fixture(scope="module")
def visits(app: Application) -> list[Visit]:
    return list(crawl(browser(app, "admin"), STARTS))


@pytest.fixture(scope="module")
def forms(visits: list[Visit]) -> list[Form]:
    """One of a kind, of the super user, who is offered all there are."""
    found: dict[object, Form] = {}
    for visit in visits:
        for form in [] if visit.offered is None else visit.offered.forms:
            if form.method == "POST" and form.value(TOKEN) is not None:
                found.setdefault((form.action.partition("?")[0].rpartition("/")[0], form.names, tuple(form.buttons)), form)
    assert len(found) > 60
    return list(found.values())


def button_of(form: Form) -> tuple[str, str]:
    return next(iter(form.buttons), ("", ""))


def entered(form: Form, user: str) -> dict[str, str]:
    return {**dict(form.fields), "_username": user, "_password": PASSWORD}


def with_token(form: Form, token: str | None) -> Form:
    fields = [(name, value) for name, value in form.fields if name != TOKEN]
    return replace(form, fields=fields if token is None else [*fields, (TOKEN, token)])


def token_of(person: Browser) -> str:
    return next(form.value(TOKEN) or "" for form in offered(person.get(f"{OPERATIONS}/console/")).forms if form.value(TOKEN))


def offered(answer: Answer) -> Offered:
    return Offered(answer.request.split()[1], answer.text)


def test_tokens_that_are_missing_of_another_session_or_of_before(app: Application, forms: list[Form]) -> None:
    before = dump(app)
    admin, again, second = browser(app, "admin"), browser(app, "admin"), browser(app, "second")
    own = token_of(admin)
    old = browser(app, "admin")
    kept = token_of(old)
    old.post(f"{OPERATIONS}/console/logout", {TOKEN: kept})
    tokens = (None, "", own[:-1], own.upper() + "0", token_of(again), token_of(second), kept)
    assert len({own, token_of(again), token_of(second), kept}) == 4
    for number, form in enumerate(forms):
        for token in tokens if number % 20 == 0 else (None, token_of(second)):
            answer = admin.send(with_token(form, token), button_of(form))
            assert (answer.status, "made for another login" in answer.text) == (403, True), answer
    assert dump(app) == before


def test_pages_of_other_sites(app: Application, forms: list[Form]) -> None:
    before = dump(app)
    admin = browser(app, "admin")
    token = token_of(admin)
    foreign = [
        {"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"},
        {"Origin": "null", "Sec-Fetch-Site": "cross-site"},
        {"Origin": "http://localhost:8000", "Sec-Fetch-Site": "same-site"},
        {"Origin": "", "Sec-Fetch-Site": "cross-site"},
    ]
    for form in forms:
        for fields in foreign:
            answer = admin.send(with_token(form, token), button_of(form), **fields)
            assert answer.status in (401, 403), answer
            assert "Set-Cookie" not in answer.headers
            if answer.content_type == "text/html":
                check_login_form(answer)
    assert dump(app) == before


def check_login_form(answer: Answer) -> None:
    """It does nothing but log in: what was sent is not in it."""
    for form in offered(answer).forms:
        assert {name for name, _ in form.fields} <= {"_username", "_password", "username", "password", "redirect"}, form


def test_a_login_does_not_do_what_another_site_has_sent(app: Application) -> None:
    before = dump(app)
    visitor = browser(app, "admin")
    evil = {"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"}
    wanted = {"action": "confirm", "username": "mallory", "role": "super_user"}
    for fields in (
        evil,
        evil | {"Origin": "null"},
        evil | {"Origin": ""},
        {"Origin": "http://localhost:8000", "Sec-Fetch-Site": "same-site"},
    ):
        answer = visitor.post(f"{USERS}/clerk?do=drop", wanted, **fields)
        assert answer.status == 401
        [form] = [form for form in offered(answer).forms if "_username" in form.names]
        assert form.names == {"_username", "_password", "redirect"} and form.value("redirect") == "/console/users/clerk?do=drop"
        assert form.action == f"{OPERATIONS}/console/login"
        credentials = {"_username": "admin", "_password": PASSWORD}
        assert visitor.post(f"{USERS}/clerk?do=drop", wanted | credentials, **fields).status == 403
        assert visitor.post(f"{OPERATIONS}/console/login", credentials, **fields).status == 403
    assert dump(app) == before


def test_a_form_of_our_own_is_kept_while_somebody_logs_in(app: Application) -> None:
    late = Browser(app.instance)
    wanted = {"role": "gardener", TOKEN: "of a session that has ended"}
    answer = late.post(f"{OPERATIONS}/console/roles?do=add", wanted)
    assert answer.status == 401
    [form] = offered(answer).forms
    assert form.value("role") == "gardener" and TOKEN not in form.names
    assert late.post(form.action, entered(form, "clerk")).status == 403
    late = Browser(app.instance)
    answer = late.post(form.action, entered(form, "admin"))
    assert answer.status == 303 and "gardener" in answer.headers["location"], answer
    app.operation("drop_role", id="gardener")


@pytest.mark.parametrize(
    ("path", "sent"),
    [
        ("password", {"current": "pass-1", "password": "pass-2", "again": "pass-3"}),
        ("users?do=add", {"username": "new", "password": "pass-1", "again": "pass-1", "role": "clerk"}),
        ("configuration/mail.password", {"value": "pass-1"}),
        ("operations/add_user", {".body": '{"operation": "add_user", "username": "new", "password": "pass-1", "role": "clerk"}'}),
        ("operations/add_user", {"username": "new", "password": "pass-1", "role": "clerk"}),
        ("operations/create_authentication_tokens", {"username": "admin", "password": "pass-1"}),
        ("sql", {"sql": "UPDATE system.svc_user SET password = 'pass-1'"}),
        ("cluster/add", {"hostname": "b", "username": "admin", "password": "pass-1"}),
        ("certificates?do=add", {"name": "b", "_private_key": "pass-1"}),
        ("ssh-keys?do=add", {"name": "b", "key": "pass-1"}),
    ],
)
def test_what_is_secret_is_in_no_page(app: Application, path: str, sent: dict[str, str]) -> None:
    before = dump(app)
    late = Browser(app.instance)
    address = f"{OPERATIONS}/console/{path}"
    answer = late.post(address, sent)
    assert answer.status == 401 and "pass-" not in answer.text
    assert "enter it again after the login" in answer.text
    [form] = offered(answer).forms
    assert form.names == {"_username", "_password", "redirect"}
    answer = late.post(form.action, entered(form, "admin"))
    assert answer.status == 303 and answer.headers["location"] == address.removeprefix(OPERATIONS)
    refused = late.post(address, sent | {"_username": "admin", "_password": "wrong"})
    assert refused.status == 401 and "pass-" not in refused.text
    assert dump(app) == before


def test_forms_are_not_sent_by_links(app: Application, forms: list[Form]) -> None:
    before = dump(app)
    admin = browser(app, "admin")
    for form in forms:
        answer = admin.send(replace(form, method="GET"), button_of(form))
        assert answer.status < 500, answer
    assert dump(app) == before


def test_logins_lead_to_no_other_site(app: Application) -> None:
    for target in (
        "https://evil.example/",
        "//evil.example",
        "/\\evil.example",
        "/\t/evil.example",
        "javascript:alert(1)",
        "\r\nX: y",
        "/a\r\nX: y",
    ):
        for address, name, password in (
            (f"{OPERATIONS}/console/login", "_username", "_password"),
            (f"{APPLICATION}/login", "username", "password"),
        ):
            answer = Browser(app.instance).post(address, {name: "clerk", password: PASSWORD, "redirect": target})
            assert answer.status == 303 and answer.headers["location"] == "./" and "X" not in answer.headers
    admin = browser(app, "admin")
    for name in ("back", "_from", "return", "redirect", "next", "url", "note"):
        for start in STARTS:
            answer = admin.get(f"{start}?{name}=https%3A%2F%2Fevil.example%2F")
            assert "evil.example" not in answer.headers.get("location", "")
            if answer.content_type == "text/html":
                assert not any("evil.example" in link.partition("?")[0] for link in offered(answer).links)


def test_every_answer_is_of_no_frame_and_what_is_of_a_person_is_not_kept(app: Application, visits: list[Visit], forms: list[Form]) -> None:
    admin = browser(app, "admin")
    answers = [visit.answer for visit in visits]
    answers += [
        admin.get(address) for address in (f"{OPERATIONS}/console/nosuch", f"{APPLICATION}/Tool/none", f"{APPLICATION}/Tool/?_view=no")
    ]
    answers += [Browser(app.instance).get(address) for address in (f"{OPERATIONS}/console/users", f"{APPLICATION}/Tool/")]
    answers += [admin.send(with_token(form, None), button_of(form)) for form in forms]
    for answer in answers:
        fields, address = answer.headers, answer.request.split()[1]
        is_page = answer.content_type == "text/html"
        if (is_page or "/_pages/" in address or "/console/" in address) and answer.content:
            assert "frame-ancestors 'none'" in fields["content-security-policy"] and fields["x-content-type-options"] == "nosniff", answer
        if is_page and ("/console/" in address or ("_view=" in address and answer.status < 400)):
            assert "no-store" in fields["cache-control"], answer
        elif is_page and "/_pages/" not in address and "/docs" not in address:
            assert "private" in fields["cache-control"] or "no-store" in fields["cache-control"], answer
