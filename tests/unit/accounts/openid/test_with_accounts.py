"""Logins at providers with the accounts of an application, from the entry in config.yaml to what is stored (spec: rows §2.6)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from svc.accounts.openid import logins
from svc.testing.answer import Answer
from svc.testing.application import app
from svc.testing.instance import LoadError
from svc.testing.requests import Requests
from tests.support.accounts import ROLES, SCHEMA, Site, open_site, write_site
from tests.support.openid import CLIENT, ISSUER, FakeProvider

PROVIDER = f"name: example, issuer: '{ISSUER}', clientId: {CLIENT}, clientSecret: 's3cret/:?'"


class ProviderSite:
    """`fake`: the provider."""

    def __init__(self, site: Site, fakes: list[FakeProvider]) -> None:
        self.site = site
        self._fakes = fakes

    @property
    def fake(self) -> FakeProvider:
        return self._fakes[-1]

    def browser(self) -> Requests:
        return self.site.application.as_user(None)

    def log_in(self, browser: Requests, address: str = "/login/example", **person: Any) -> Answer:
        location = browser.get(address).headers["location"]
        return browser.get(f"/login/example/callback?{urlencode(self.fake.log_in(location, **person))}")

    def me(self, browser: Requests) -> Any:
        answer = browser.get("/accounts/me")
        return answer.json if answer.status == 200 else answer.status

    @property
    def identities(self) -> list[dict[str, Any]]:
        found = self.site.application.operation("search_by_value", database="system", table="svc_identities", attribute="id", value="*")
        return list(found)


Open = Callable[..., Any]


@pytest.fixture
def open_providers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Open:
    @contextmanager
    def opened(entry: str = "", provider: str = "", **options: Any) -> Iterator[ProviderSite]:
        """`entry`, `provider`: what these have besides what they must have."""
        fakes: list[FakeProvider] = []

        def make_fetch(name: str, reactor: Any) -> FakeProvider:
            fakes.append(FakeProvider(reactor.clock))
            return fakes[-1]

        monkeypatch.setattr(logins, "HttpFetch", make_fetch)
        text = f"{{role: member, {entry} providers: [{{{PROVIDER}{provider}}}]}}"
        with open_site(tmp_path / "site", text, **options) as site:
            yield ProviderSite(site, fakes)

    return opened


def test_somebody_new(open_providers: Open) -> None:
    with open_providers(provider=", claims: {email: email, name: name, username: preferred_username}") as site:
        browser = site.browser()
        answer = site.log_in(browser, "/login/example?redirect=/accounts/me", preferred_username="ann", name="Ann")
        assert (answer.status, answer.headers["location"]) == (303, "/accounts/me")
        found = site.me(browser)
        assert (found["username"], found["role"], found["record"]["email"], found["record"]["name"]) == (
            "ann",
            "member",
            "ann@example.org",
            "Ann",
        )
        (row,) = site.identities
        assert row["user"] == "ann" and row["issuer"] == ISSUER and row["subject"] == "42" and row.get("account") is None
        other = site.browser()
        site.log_in(other, email="other@example.org")
        assert site.me(other)["username"] == "ann" and len(site.identities) == 1
        site.site.check()


def test_whom_addresses_identify(open_providers: Open) -> None:
    with open_providers("identity: email, verify: true,") as site:
        browser = site.browser()
        assert site.log_in(browser).status == 303
        assert site.me(browser)["record"]["email"] == "ann@example.org"
        refused = site.log_in(site.browser(), sub="43", email="bob@example.org", email_verified=False)
        assert (refused.status, refused.json["code"]) == (403, "ADDRESS_NOT_VERIFIED")
        refused = site.log_in(site.browser(), sub="43", email=None)
        assert (refused.status, refused.json["code"]) == (403, "ADDRESS_REQUIRED")
        assert len(site.site.users) == 1 and len(site.identities) == 1


def test_an_address_that_is_not_verified_counts_once_it_is_confirmed(open_providers: Open) -> None:
    with open_providers() as site:
        browser = site.browser()
        assert site.log_in(browser, email_verified=False).status == 303
        assert site.me(browser)["record"].get("email") is None
        assert site.site.mails[-1].to == "ann@example.org"
        assert site.site.post("/confirm", {"code": site.site.code()}).status == 200
        assert site.me(browser)["record"]["email"] == "ann@example.org"


def test_an_address_that_somebody_has(open_providers: Open) -> None:
    with open_providers("verify: true,") as site:
        assert site.site.sign_up(username="ann", email="ann@example.org").status == 202
        assert site.site.post("/confirm", {"code": site.site.code()}).status == 200
        refused = site.log_in(site.browser())
        assert (refused.status, refused.json["code"]) == (409, "ACCOUNT_EXISTS")
        assert site.site.can_log_in("ann") and site.identities == []
        site.site.check()


def test_linked_by_a_confirmed_address(open_providers: Open) -> None:
    with open_providers("verify: true,", ", linkByEmail: true") as site:
        assert site.site.sign_up(username="ann", email="Ann@example.org").status == 202
        assert site.site.post("/confirm", {"code": site.site.code()}).status == 200
        browser = site.browser()
        assert site.log_in(browser, email="ANN@example.org").status == 303
        assert site.me(browser)["username"] == "ann" and site.site.can_log_in("ann") and site.site.users == ["ann"]


def test_linked_by_an_address_that_nobody_has_confirmed(open_providers: Open) -> None:
    """Somebody else may have signed up with it, to be there when its owner comes: what that one knows lets nobody in any more."""
    with open_providers(entry="linkByEmail: true, attributes: [name],") as site:
        site.site.accounts.mails = None  # no mail is configured
        assert site.site.sign_up(username="eve", email="ann@example.org").status == 201
        eve = site.browser()
        assert eve.post("/login", {"username": "eve", "password": "correct horse"}).status == 200 and site.me(eve)["username"] == "eve"
        browser = site.browser()
        assert site.log_in(browser).status == 303 and site.me(browser)["username"] == "eve"
        assert site.me(eve) == 401 and not site.site.can_log_in("eve")


def test_hooks(open_providers: Open) -> None:
    hooks = {
        "accounts.py": """
            def before_sign_up(record):
                record["karma"] = 7
                return record.get("name") != "Eve"

            def after_sign_up(user):
                return user.username != "bob"
            """
    }
    with open_providers(provider=", claims: {email: email, name: name, username: preferred_username}", files=hooks) as site:
        for person in ({"name": "Eve", "preferred_username": "eve"}, {"preferred_username": "bob"}):
            refused = site.log_in(site.browser(), **person)
            assert (refused.status, refused.json["code"]) == (403, "SIGN_UP_REFUSED")
        assert site.site.users == [] and site.identities == []
        browser = site.browser()
        assert site.log_in(browser, preferred_username="ann").status == 303
        assert site.me(browser)["record"]["karma"] == 7
        site.site.check()


def test_an_account_that_goes(open_providers: Open) -> None:
    with open_providers(provider=", claims: {email: email, username: preferred_username}") as site:
        browser = site.browser()
        site.log_in(browser, preferred_username="ann")
        assert browser.delete("/accounts/me").status == 204 and site.identities == []
        site.log_in(browser, preferred_username="ann")
        assert site.me(browser)["username"] == "ann"
        site.site.application.operation("drop_user", username="ann")
        assert site.identities == [] and site.me(browser) == 401
        site.site.check()


def test_sign_ups_of_one_network_are_limited(open_providers: Open) -> None:
    with open_providers("limits: {signUps: 2},") as site:
        for number in range(2):
            assert site.log_in(site.browser(), sub=str(number), email=f"{number}@example.org").status == 303
        refused = site.log_in(site.browser(), sub="3", email="3@example.org")
        assert (refused.status, refused.json["code"]) == (429, "TOO_MANY_REQUESTS")
        assert site.log_in(site.browser(), sub="1").status == 303  # who is known comes in


def test_the_role_of_the_provider(open_providers: Open) -> None:
    with open_providers(provider=", role: guest", roles=ROLES + "guest: {}\n") as site:
        browser = site.browser()
        site.log_in(browser)
        assert site.me(browser)["role"] == "guest"


def test_the_pages(open_providers: Open) -> None:
    with open_providers(provider=", label: Example") as site:
        browser = site.browser()
        page = {"Accept": "text/html", "User-Agent": "Mozilla/5.0"}
        assert '<a class="button" href="./login/example">Log in with Example</a>' in browser.get("/login", headers=page).text
        site.log_in(browser)
        assert 'href="../accounts/me/logins"' in browser.get("/accounts/me", headers=page).text
        body = browser.get("/accounts/me/logins", headers=page).text
        assert "ann@example.org" in body and 'action="../../login/example"><button>Add a login at Example</button>' in body


def test_a_table_without_addresses(open_providers: Open) -> None:
    schema = "type Person @table @account @export { username: ID @primaryKey }\ntype Note @table @export { id: ID @primaryKey }\n"
    with open_providers(schema=schema) as site:
        browser = site.browser()
        assert site.log_in(browser).status == 303 and set(site.me(browser)["record"]) == {"username"}


def test_without_an_entry_login_there_is_a_login_page_too(open_providers: Open) -> None:
    config = f"rest: true\ngraphqlSchema: {{files: schema.graphql}}\nroles: {{files: roles.yaml}}\naccounts: {{role: member, providers: [{{{PROVIDER}}}]}}\n"
    with open_providers(files={"config.yaml": config}) as site:
        assert "Log in with example" in site.browser().get("/login", headers={"Accept": "text/html", "User-Agent": "Mozilla/5.0"}).text


@pytest.mark.parametrize(
    ("provider", "text"),
    [
        ("name: a, issuer: 'http://id.example', clientId: b", "config.yaml:6: accounts.providers[a]: issuer must be an https address"),
        ("name: a, issuer: 'https://id.example', clientId: b, colour: c", "'colour' is not an option of a provider"),
        (
            "name: a, issuer: 'https://id.example', clientId: b, claims: {nam: name}",
            "Person has no attribute nam that can be set, did you mean 'name'?",
        ),
        ("name: a, issuer: 'https://id.example', clientId: b, claims: {joined: iat}", "Person has no attribute joined that can be set"),
        ("name: a, issuer: 'https://id.example', clientId: b, role: nobody", "accounts.providers[a]: role: there is no role nobody"),
        ("name: a, issuer: 'https://id.example', clientId: b, role: super_user", "super_user is a role of super users"),
        ("name: a, issuer: 'https://id.example', clientId: b, clientSecret: {env: SVC_NO_SUCH}", "there is no variable SVC_NO_SUCH"),
    ],
)
def test_faults(tmp_path: Path, provider: str, text: str) -> None:
    with (
        pytest.raises(LoadError) as raised,
        app(write_site(tmp_path / "site", f"{{role: member, providers: [{{{provider}}}]}}", schema=SCHEMA)),
    ):
        pass
    assert text in str(raised.value), raised.value


def test_without_httpx(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("svc.apps.accounts_entry.find_spec", lambda name: None)
    with pytest.raises(LoadError) as raised, app(write_site(tmp_path / "site", f"{{role: member, providers: [{{{PROVIDER}}}]}}")):
        pass
    assert "pip install 'svc[accounts]'" in str(raised.value)


def test_an_adopted_account_keeps_no_other_way_in(open_providers: Open) -> None:
    """Somebody who has made an account with an address of somebody else may have added an own login to it, to come back by that."""
    with open_providers(entry="linkByEmail: true, attributes: [name],") as site:
        site.site.accounts.mails = None  # no mail is configured
        assert site.site.sign_up(username="eve", email="ann@example.org").status == 201
        eve = site.browser()
        assert eve.post("/login", {"username": "eve", "password": "correct horse"}).status == 200
        location = eve.post("/login/example").headers["location"]
        assert eve.get(f"/login/example/callback?{urlencode(site.fake.log_in(location, sub='66', email='eve@example.org'))}").status == 303
        key = site.site.application.operation("create_key", name="robot", user="eve")["key"]
        assert len(site.identities) == 1
        browser = site.browser()
        assert site.log_in(browser).status == 303 and site.me(browser)["username"] == "eve"
        assert [row["subject"] for row in site.identities] == ["42"]
        again = site.browser()
        site.log_in(again, sub="66", email="eve@example.org")
        assert site.me(again)["username"] != "eve"
        assert site.site.get("/me", headers={"Authorization": f"Bearer {key}"}).status == 401


def test_a_key_adds_and_removes_no_login(open_providers: Open) -> None:
    with open_providers(provider=", claims: {email: email, username: preferred_username}") as site:
        browser = site.browser()
        site.log_in(browser, preferred_username="ann")
        (row,) = site.identities
        headers = {"Authorization": f"Bearer {site.site.application.operation('create_key', name='robot', user='ann')['key']}"}
        program = site.browser()
        assert program.get("/accounts/me/logins", headers=headers).json["logins"]
        for answer in (
            program.delete(f"/accounts/me/logins?id={row['id']}", headers=headers),
            program.post("/login/example", headers=headers),
        ):
            assert answer.status == 403 and "An API key cannot" in answer.json["detail"]
        assert len(site.identities) == 1
