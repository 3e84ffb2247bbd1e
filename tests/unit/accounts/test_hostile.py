"""Whatever a client sends is answered: never 500, and nothing that it could not have been given (spec: rows §2.3)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.support.accounts import ADDRESS, PASSWORD, Site, open_site

PATHS = ("", "/confirm", "/forgot", "/reset", "/email", "/password", "/me")
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "QUERY")
NAMES = (
    "username",
    "email",
    "password",
    "current_password",
    "code",
    "name",
    "born",
    "karma",
    "joined",
    "role",
    "active",
    "action",
    "confirm",
    "redirect",
)
TEXTS = st.one_of(
    st.text(max_size=40),
    st.sampled_from([ADDRESS, PASSWORD, "ann", "A" * 22, "yes", "remove", "\ud800", "a@b", "x" * 300, "//evil.example", "\0"]),
)
LEAVES = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), TEXTS, st.just(10**400), st.just({"__op__": "add", "value": 1}))
VALUES = st.recursive(LEAVES, lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXTS, inner, max_size=3)), max_leaves=6)
FIELDS = st.dictionaries(st.one_of(st.sampled_from(NAMES), TEXTS), VALUES, max_size=6)
ACCEPTS = ("application/json", "text/html,*/*;q=0.1", "application/cbor", "text/plain", "")


@pytest.fixture(scope="module", params=["username", "email"])
def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    entry = f"{{role: member, identity: {request.param}, verify: false, limits: {{signUps: 1000000}}}}"
    with open_site(tmp_path_factory.mktemp("hostile") / "site", entry, authentication_failureDelay=False) as found:
        found.sign_up(email=ADDRESS, username="ann")
        yield found
        found.check()


def encoded(fields: dict[str, Any], is_form: bool) -> bytes:
    if is_form:
        return urlencode({name: str(value) for name, value in fields.items()}, errors="replace").encode()
    return json.dumps(fields).encode("utf-8", "surrogatepass")


@given(
    method=st.sampled_from(METHODS),
    path=st.sampled_from(PATHS),
    fields=FIELDS,
    is_form=st.booleans(),
    accept=st.sampled_from(ACCEPTS),
    logs_in=st.booleans(),
)
@example(
    method="POST", path="", fields={"username": "ann2", "password": PASSWORD, "name": 10**400}, is_form=False, accept="", logs_in=False
)
@example(method="POST", path="/me", fields={"action": ["remove"]}, is_form=False, accept=ACCEPTS[1], logs_in=True)
@example(method="POST", path="/me", fields={}, is_form=True, accept=ACCEPTS[1], logs_in=False)
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
def test_any_request(site: Site, method: str, path: str, fields: dict[str, Any], is_form: bool, accept: str, logs_in: bool) -> None:
    kind = "application/x-www-form-urlencoded" if is_form else "application/json"
    headers = {"Accept": accept, "Content-Type": kind} if accept else {"Content-Type": kind}
    user = "ann" if logs_in and "ann" in site.users else None
    answer = site.application.request(method, f"/accounts{path}", data=encoded(fields, is_form), headers=headers, user=user)
    assert answer.status < 500, (answer.status, answer.text)
    roles = {user["username"]: user["role"]["role"] for user in site.application.operation("list_users")}
    assert [name for name, role in roles.items() if role == "super_user"] == ["admin"]


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"null", b'"x"', b"\xff", b"{" * 1000, b'{"a":' * 1000, b"a=" + b"%" * 100])
@pytest.mark.parametrize(
    "kind",
    ["application/json", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "text/plain", "application/cbor", "x"],
)
def test_bodies_that_are_none(site: Site, content: bytes, kind: str) -> None:
    for path in PATHS[:4]:
        answer = site.application.post(f"/accounts{path}", data=content, headers={"Content-Type": kind}, user=None)
        assert 400 <= answer.status < 500, (path, answer.text)


def test_a_table_that_was_dropped(tmp_path: Path) -> None:
    with open_site(tmp_path / "site", "{role: member, identity: email, verify: false}") as site:
        site.sign_up(email=ADDRESS, username="ann")
        site.can_log_in("ann")
        site.application.operation("drop_table", table="Person")
        assert site.sign_up(email="eve@example.org").status == 503
        assert site.get("/me").status == 503
        assert site.post("/forgot", {"email": ADDRESS}).status == 503
        assert not site.can_log_in(ADDRESS) and site.can_log_in("ann")
        assert site.application.operation("drop_user", username="ann") == {"message": "ann successfully deleted"}
