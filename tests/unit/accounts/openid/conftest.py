"""A site with logins at providers, and browsers that visit it."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from svc.accounts.forms import DIRECTORY
from svc.accounts.openid.logins import LoginParts, ProviderLogins, ProviderOptions, open_seal
from svc.accounts.openid.member_logins import MemberLogins
from svc.accounts.openid.settings import LOGINS_PATH
from svc.accounts.settings import AccountSettings
from svc.auth.users import User, new_login_epoch
from svc.auth.writes import write
from svc.errors import Problem
from svc.messages import HeaderBlock, Request, Response
from svc.pages.templates import Templates
from svc.reactor import Reactor
from svc.resources import Resources
from svc.rest import Rest
from svc.rest.login import LoginChoice, local_path
from svc.store import Transaction
from svc.store.system import SYSTEM, USER_TABLE, ensure_account_tables
from tests.support.fakes import make_reactor
from tests.support.identifying import make_identifier
from tests.support.openid import FakeProvider, provider_settings
from tests.support.operations import OperationsNode
from tests.support.pages import BROWSER

NAVIGATION = {"accept": BROWSER, "user-agent": "Mozilla/5.0", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}


class FewAccounts:
    """Accounts without an application: users, and the addresses that they have. `adopted`: names of those that were linked by their address."""

    def __init__(self, node: OperationsNode, settings: AccountSettings) -> None:
        self.settings = settings
        self.has_addresses = True
        self.addresses: dict[str, str] = {}
        self.records: dict[str, dict[str, Any]] = {}
        self.adopted: list[str] = []
        self.verified: list[bool] = []
        self._node = node

    def add(self, name: str, address: str = "", role: str = "member", *, active: bool = True) -> User:
        self._node.run("add_user", username=name, password="password", role=role, active=active)
        if address:
            self.addresses[address] = name
        found = self._node.directory.get_user(name)
        assert found is not None
        return found

    def admit(self, request: Request, what: str) -> None:
        pass

    def user_by_address(self, address: str) -> User | None:
        name = self.addresses.get(address)
        return None if name is None else self._node.directory.get_user(name)

    async def sign_up_from_provider(
        self, record: Mapping[str, Any], *, verified: bool, role: str | None, request: Request, also: Callable[[Transaction, str], None]
    ) -> User:
        name, address = record["username"], record.get("email")
        if self._node.directory.get_user(name) is not None or address in self.addresses:
            raise Problem("taken", 409, "ACCOUNT_EXISTS")
        found = self._node.directory.role_named(role or self.settings.role)
        assert found is not None
        users = self._node.store.databases[SYSTEM].tables[USER_TABLE]
        transaction = self._node.store.begin(name)
        transaction.create(users, name, {"username": name, "role": found["id"], "active": True, "login_epoch": new_login_epoch()})
        also(transaction, name)
        await write(transaction)
        self.records[name] = dict(record)
        self.verified.append(verified)
        if address:
            self.addresses[address] = name
        made = self._node.directory.get_user(name)
        assert made is not None
        return made

    async def adopt(self, user: User, also: Callable[[Transaction, str], None]) -> User:
        transaction = self._node.store.begin(user.username)
        also(transaction, user.username)
        await write(transaction)
        self.adopted.append(user.username)
        return user


class Site:
    """`fakes`: the providers, by name. `accounts`: who there is."""

    def __init__(self, node: OperationsNode, root: Path) -> None:
        self.node = node
        self.root = root
        ensure_account_tables(node.store)
        self.fakes: dict[str, FakeProvider] = {}
        for name in ("member", "guest"):
            node.run("add_role", role=name, permission={"super_user": False})
        self.reactor = make_reactor(node.loop, node.clock)
        self.rest = Rest(Resources(), self.reactor, login=True)
        self.identifier = make_identifier(node.directory, clock=node.clock, sessions=node.node.sessions)
        self.accounts = FewAccounts(node, AccountSettings("member"))
        self.logins: ProviderLogins
        self.open(provider_settings())

    def open(self, *providers: Any, **settings: Any) -> None:
        """With these providers, and settings of `accounts`."""
        self.accounts.settings = AccountSettings(**{"role": "member", **settings})
        sessions = self.node.node.sessions
        parts = LoginParts(self.node.directory, sessions, self.reactor, self.rest.login_pages, local_path)
        shown = {provider.shown_name: provider for provider in providers}

        def make_fetch(name: str, reactor: Reactor) -> FakeProvider:
            return self.fakes.setdefault(shown[name].name, FakeProvider(self.node.clock, issuer=shown[name].issuer))

        self.logins = ProviderLogins(ProviderOptions(providers, open_seal(self.root / "keys")), self.accounts, parts, make_fetch)
        templates = Templates(self.node.clock.monotonic, None, (DIRECTORY,))

        def make(bodies: Any, responses: Any, pages: Any) -> dict[str, Any]:
            logins = self.logins
            own = MemberLogins(logins.identities, logins.providers, self.node.directory, bodies, responses, pages, templates)
            return {**logins.endpoints, LOGINS_PATH: own}

        self.rest.serve_accounts(make)
        self.rest.login_pages.choices = [LoginChoice(each.login_path, each.shown_name) for each in self.logins.providers]

    @property
    def fake(self) -> FakeProvider:
        return next(iter(self.fakes.values()))


class Browser:
    """With its cookies. `user`: who has made the last request, as far as the server knows."""

    def __init__(self, site: Site, *, scheme: str = "https", peer: str = "198.51.100.7") -> None:
        self.site = site
        self.scheme = scheme
        self.peer = peer
        self.cookies: dict[str, str] = {}
        self.user: str | None = None
        self.set_cookie: list[str] = []

    def request(self, address: str, method: str = "GET", content: bytes = b"", **fields: str) -> Request:
        pairs = [("host", "shop.example"), *((name.replace("_", "-"), value) for name, value in fields.items())]
        if self.cookies:
            pairs.append(("cookie", "; ".join(f"{name}={value}" for name, value in self.cookies.items())))
        request = Request(method, address, HeaderBlock(pairs), content)
        request.peer, request.scheme = self.peer, self.scheme
        return request

    async def send(self, request: Request) -> Response:
        """Raises Problem."""
        request.user = self.site.identifier.identify(request)  # type: ignore[assignment]
        self.user = None if request.user is None else request.user.username
        try:
            answer = self.site.rest.handle(request)
            found: Response = await answer if inspect.isawaitable(answer) else answer
            return found
        finally:
            self.set_cookie = [value for name, value in (request.added_headers or ()) if name == "Set-Cookie"]
            for text in self.set_cookie:
                name, _, value = text.partition(";")[0].partition("=")
                self.cookies[name] = value
                if not value:
                    del self.cookies[name]

    def get(self, address: str, **fields: str) -> Response:
        return self.site.node.wait(lambda: self.send(self.request(address, **fields)))  # type: ignore[no-any-return]

    def write(self, method: str, address: str, content: bytes = b"", **fields: str) -> Response:
        request = self.request(address, method, content, **fields)
        return self.site.node.wait(lambda: self.send(request))  # type: ignore[no-any-return]

    def visit(self, address: str, **fields: str) -> Response:
        """As a browser asks for a page."""
        return self.get(address, **{**NAVIGATION, **fields})

    def begin(self, address: str = "/login/example", **fields: str) -> str:
        """Where the login leads to."""
        response = self.get(address, **fields)
        assert response.status == 302 and response.headers.get("Cache-Control") == "no-store", response
        location = response.headers.get("Location")
        assert location is not None
        return location

    def back(self, provider: str = "example", **parameters: str) -> str:
        """The address by which somebody comes back."""
        return f"/login/{provider}/callback?{urlencode(parameters)}"

    def log_in(self, address: str = "/login/example", **person: Any) -> Response:
        """All of it."""
        return self.get(self.back(**self.site.fake.log_in(self.begin(address), **person)))

    def begin_adding(self, address: str = "/login/example") -> str:
        """Where a member is led to who adds a login."""
        response = self.write("POST", address, content_length="0")
        assert response.status == 303, response
        return str(response.headers.get("Location"))

    def add(self, **person: Any) -> Response:
        """All of it."""
        return self.get(self.back(**self.site.fake.log_in(self.begin_adding(), **person)))

    def who(self) -> str | None:
        """Who is logged in."""
        request = self.request("/nothing")
        found = self.site.identifier.identify(request)
        return None if found is None else found.username  # type: ignore[union-attr]

    def password(self, name: str) -> None:
        """Log in with the password of `FewAccounts`."""
        content = json.dumps({"username": name, "password": "password"}).encode()
        request = self.request("/login", "POST", content, content_type="application/json")
        assert self.site.node.wait(lambda: self.send(request)).status == 200


@pytest.fixture
def node(tmp_path: Path) -> Iterator[OperationsNode]:
    with OperationsNode(tmp_path) as found:
        yield found


@pytest.fixture
def site(node: OperationsNode, tmp_path: Path) -> Site:
    return Site(node, tmp_path)


@pytest.fixture
def browser(site: Site) -> Browser:
    return Browser(site)
