"""Sessions (spec: http §11.3, security §3), and how the identifier takes their cookies."""

from typing import Any
from uuid import UUID

import pytest

from svc.auth.origin_policy import OriginPolicy
from svc.auth.session_cookie import COOKIE, HOST_COOKIE
from svc.auth.sessions import Sessions
from svc.auth.token_keys import TokenKeys
from svc.auth.tokens import Tokens
from svc.auth.users import User
from svc.clock import FakeClock
from svc.config import Config
from svc.errors import Problem, StoreFailure
from svc.messages import HeaderBlock, Request
from svc.store import Store
from svc.store.schema import Attribute, TableDefinition
from svc.store.system import SESSION_TABLE, SYSTEM, USER_TABLE, ensure_system
from svc.store.values.records import decode
from tests.support.identifying import make_identifier

World = Any  # tests/unit/auth/conftest.py
HOST = "localhost:9926"
DAY = 86_400


class Browser:
    """Sends requests to one server, with the cookies it has been given. `send` does something with `request.session` as an application would."""

    def __init__(self, world: World, *, host: str = HOST, scheme: str = "http", origins: tuple[str, ...] = (), **settings: Any) -> None:
        self.world = world
        self.host = host
        self.scheme = scheme
        self.cookies: dict[str, str] = {}
        policy = OriginPolicy(origins)
        self.sessions = Sessions(world.store, world.directory, world.clock, **settings)
        self.sessions.has_other_sites = policy.has_other_sites
        self.identifier = make_identifier(world.directory, clock=world.clock, sessions=self.sessions, origins=policy)
        self.set_cookie: list[str] = []
        self.answer = Request("GET", "/", HeaderBlock([]))

    def request(self, **fields: str) -> Request:
        pairs = [("host", self.host), *fields.items()]
        if self.cookies:
            pairs.append(("cookie", "; ".join(f"{name}={value}" for name, value in self.cookies.items())))
        made = Request("GET", "/", HeaderBlock(pairs))
        made.scheme = self.scheme
        made.peer = "10.0.0.1"
        made.user = self.identifier.identify(made)
        return made

    def send(self, work: Any, **fields: str) -> Any:
        request = self.answer = self.request(**fields)
        try:
            return self.world.run(lambda: work(request))
        finally:
            added = request.added_headers
            self.set_cookie = [value for name, value in (added or ()) if name == "Set-Cookie"]
            for text in self.set_cookie:
                name, _, value = text.partition(";")[0].partition("=")
                self.cookies[name] = value

    def update(self, changes: dict[str, Any], **fields: str) -> None:
        self.send(lambda request: request.session.update(changes), **fields)

    def get(self, **fields: str) -> dict[str, Any]:
        found: dict[str, Any] = self.send(lambda request: request.session.get(), **fields)
        return found

    def login(self, username: str = "ann", password: str | None = None, **fields: str) -> None:
        self.send(lambda request: request.login(username, password or username), **fields)

    def user(self, **fields: str) -> str | None:
        user = self.request(**fields).user
        return None if user is None else user.username

    @property
    def stored(self) -> dict[str, dict[str, Any]]:
        table = self.world.store.databases[SYSTEM].tables[SESSION_TABLE]
        records = [decode(raw) for _, raw in table.scan(table.database.snapshot())]
        return {
            record["id"]: {name: value for name, value in record.items() if name not in ("__login__", "__since__")} for record in records
        }

    @property
    def id(self) -> str:
        return next(iter(self.cookies.values()))


@pytest.fixture
def browser(world: World) -> Browser:
    return Browser(world)


# --- the cookie ------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scheme", "host", "domains", "name"),
    [
        ("http", "localhost:9926", [], COOKIE),
        ("http", "shop.example.com", [], COOKIE),
        ("http", "shop.example.com", ["example.com"], COOKIE),
        ("https", "shop.example.com", [], HOST_COOKIE),
        ("https", "shop.example.com:9927", ["other.example"], HOST_COOKIE),
        ("https", "shop.example.com:9927", ["example.com"], COOKIE),  # a `__Host-` cookie has no domain
        ("https", "[::1]:9927", ["example.com"], HOST_COOKIE),
    ],
)
def test_name(world: World, scheme: str, host: str, domains: list[str], name: str) -> None:
    browser = Browser(world, scheme=scheme, host=host, domains=domains)
    browser.update({"color": "red"})
    assert list(browser.cookies) == [name]
    assert browser.get()["color"] == "red"


def test_names_that_collided_once(world: World) -> None:
    """Cookies were named after the origin with `_` for what a name cannot have: `shop-example.com` was `shop.example.com`."""
    one = Browser(world, host="shop.example.com")
    one.login()
    other = Browser(world, host="shop-example.com")
    other.cookies.update(one.cookies)
    assert other.user(origin="http://shop.example.com") is None and other.user() == "ann"


def test_over_https_only_the_protected_cookie_counts(world: World) -> None:
    """A network attacker can set cookies over plain HTTP, but none whose name begins with `__Host-`."""
    browser = Browser(world)
    browser.login()
    secure = Browser(world, scheme="https")
    assert secure.user(cookie=f"svc-session={browser.id}") is None
    assert secure.user(cookie=f"__Host-svc-session={browser.id}") == "ann"
    assert Browser(world).user(cookie=f"__Host-svc-session={browser.id}") is None
    same = HeaderBlock([("host", HOST), ("cookie", f"svc-session={browser.id}")])  # connections of both kinds share header blocks
    for scheme, expected in (("http", "ann"), ("https", None), ("http", "ann")):
        request = Request("GET", "/", same)
        request.scheme = scheme
        assert getattr(browser.identifier.identify(request), "username", None) == expected


def test_value_is_a_random_uuid(browser: Browser) -> None:
    browser.update({"a": 1})
    assert UUID(browser.id).version == 4
    assert Browser(browser.world).get() == {}


def test_attributes_over_plain_http(browser: Browser) -> None:
    browser.update({"a": 1})
    assert browser.set_cookie == [f"svc-session={browser.id}; Path=/; Expires=Sat, 31 Jan 2026 00:00:00 GMT; HttpOnly; SameSite=Lax"]
    assert browser.answer.response_headers.get("X-Svc-Session") is None


@pytest.mark.parametrize(
    ("origins", "same_site"),
    [
        ((), "Lax"),
        (("*",), "Lax"),
        (("https://shop.example",), "Lax"),
        (("https://www.shop.example:8443",), "Lax"),
        (("https://app.example",), "None"),
        (("https://shop.example", "http://localhost:*"), "None"),
    ],
)
def test_attributes_over_https(world: World, origins: tuple[str, ...], same_site: str) -> None:
    browser = Browser(world, scheme="https", host="shop.example", origins=origins)
    browser.update({"a": 1})
    assert browser.set_cookie == [
        f"__Host-svc-session={browser.id}; Path=/; Expires=Sat, 31 Jan 2026 00:00:00 GMT; HttpOnly; SameSite={same_site}; Secure"
    ]
    assert browser.answer.response_headers.get("X-Svc-Session") == "Secure"
    browser.update({"a": 2})  # each write, though the cookie stays
    assert browser.answer.response_headers.get("X-Svc-Session") == "Secure" and browser.set_cookie == []


def test_expires(world: World) -> None:
    browser = Browser(world, life=3600)
    browser.update({"a": 1})
    assert "; Expires=Thu, 01 Jan 2026 01:00:00 GMT;" in browser.set_cookie[0]
    world.clock.advance(3599)
    browser.update({"b": 2})  # keeps the expiry it was given
    assert browser.set_cookie == []
    assert browser.get() == {"id": browser.id, "user": None, "a": 1, "b": 2}
    old = browser.id
    world.clock.advance(1)
    assert browser.get() == {}
    browser.update({"c": 3})
    assert browser.id != old and browser.get() == {"id": browser.id, "user": None, "c": 3}


def test_use_renews_it_once_a_day(browser: Browser) -> None:
    clock = browser.world.clock
    browser.login()
    browser.update({"basket": ["fern"]})
    clock.advance(DAY)
    browser.get()
    assert browser.set_cookie == []  # not yet a day
    clock.advance(1)
    first = browser.id
    browser.get()
    assert browser.set_cookie == [f"svc-session={first}; Path=/; Expires=Sun, 01 Feb 2026 00:00:01 GMT; HttpOnly; SameSite=Lax"]
    browser.get()
    assert browser.set_cookie == []  # once
    clock.advance(30 * DAY - 1)
    assert browser.get() == {"id": first, "user": "ann", "basket": ["fern"]} and len(browser.set_cookie) == 1 and browser.user() == "ann"
    clock.advance(30 * DAY)
    assert browser.user() is None and browser.get() == {}


@pytest.mark.parametrize("settings", [{}, {"life": 10 * DAY}])
def test_one_that_was_made_while_the_clock_was_ahead_does_not_live_longer(world: World, settings: dict[str, Any]) -> None:
    browser = Browser(world, **settings)
    world.clock.step(400 * DAY)
    browser.login()
    world.clock.step(-400 * DAY)
    assert browser.get()["user"] == "ann"
    world.clock.advance(31 * DAY)
    assert browser.user() is None


def test_requests_of_one_turn_renew_it_once(browser: Browser) -> None:
    browser.login()
    browser.world.clock.advance(2 * DAY)
    made = [browser.request() for _ in range(3)]
    assert [request.user.username for request in made] == ["ann"] * 3
    assert [len(request.response_headers) for request in made] == [1, 0, 0]
    browser.world.store.commit_turn()
    assert len(browser.request().response_headers) == 0


def test_a_renewal_that_fails_is_tried_again(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    browser.login()
    browser.world.clock.advance(2 * DAY)

    def fails(transaction: object, *, wait: bool) -> None:
        raise StoreFailure("The store cannot write")

    with monkeypatch.context() as patched:
        patched.setattr("svc.store.Transaction.apply", fails)
        request = browser.request()
    assert request.user.username == "ann" and len(request.response_headers) == 0
    assert len(browser.request().response_headers) == 1


def test_a_configured_life_is_not_renewed(world: World) -> None:
    browser = Browser(world, life=10 * DAY)
    browser.login()
    world.clock.advance(9 * DAY)
    assert browser.user() == "ann" and browser.set_cookie != []
    browser.get()
    assert browser.set_cookie == []
    world.clock.advance(DAY)
    assert browser.user() is None


def test_a_life_beyond_all_dates_is_a_hundred_years(world: World) -> None:
    browser = Browser(world, life=1e12)
    browser.update({"a": 1})
    assert "Expires=Sat, 08 Dec 2125" in browser.set_cookie[0] and browser.get()["a"] == 1


@pytest.mark.parametrize(
    ("domains", "host", "domain"),
    [
        (["example.com"], "shop.example.com", "example.com"),
        ([".example.com"], "shop.example.com:8443", "example.com"),
        (["example.com"], "example.com", "example.com"),
        (["Example.COM"], "SHOP.example.com", "example.com"),
        (["other.org", "example.com"], "a.b.example.com", "example.com"),
        (["example.com"], "badexample.com", None),
        (["shop.example.com"], "example.com", None),
        (["example.com"], "example.com.evil.org", None),
        ([".", ""], "example.com", None),
        ([], "example.com", None),
        (["1"], "[::1]:9926", None),
    ],
)
def test_domain(world: World, domains: list[str], host: str, domain: str | None) -> None:
    browser = Browser(world, host=host, domains=domains)
    browser.update({"a": 1})
    found = [part.strip() for part in browser.set_cookie[0].split(";") if part.strip().startswith("Domain")]
    assert found == ([] if domain is None else [f"Domain={domain}"])


def test_reading_makes_no_session(browser: Browser) -> None:
    assert browser.get() == {} and browser.set_cookie == [] and browser.stored == {}
    assert browser.request().session.id is None and browser.request().session.user is None


def test_first_update_sets_it_and_later_ones_do_not(browser: Browser) -> None:
    browser.update({"a": 1})
    assert len(browser.set_cookie) == 1
    browser.update({"b": 2})
    assert browser.set_cookie == []
    assert browser.stored == {browser.id: {"id": browser.id, "user": None, "a": 1, "b": 2}}


def test_two_updates_of_one_request(browser: Browser) -> None:
    async def twice(request: Request) -> None:
        await request.session.update({"a": 1})
        await request.session.update({"b": 2})
        assert await request.session.get() == {"id": request.session.id, "user": None, "a": 1, "b": 2}

    browser.send(twice)
    assert len(browser.set_cookie) == 1 and len(browser.stored) == 1


def test_a_failed_write_sets_no_cookie(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fails(transaction: object) -> None:
        raise StoreFailure("The store cannot write")

    with monkeypatch.context() as patched, pytest.raises(StoreFailure):
        patched.setattr("svc.auth.sessions.write", fails)
        browser.update({"a": 1})
    assert browser.set_cookie == [] and browser.cookies == {}


@pytest.mark.parametrize(
    "cookie",
    [
        "",
        ";",
        "svc-session",
        "svc-session=",
        "svc-session=1",
        "svc-session=../../etc",
        "svc-session=" + "a" * 4000,
        "svc-session=00000000-0000-4000-8000-000000000000",
        "other=00000000-0000-4000-8000-000000000000",
    ],
)
def test_cookies_that_name_no_session(browser: Browser, cookie: str) -> None:
    assert browser.get(cookie=cookie) == {} and browser.user(cookie=cookie) is None
    browser.update({"a": 1}, cookie=cookie)
    assert UUID(browser.id) and browser.id not in cookie


def test_among_other_cookies(browser: Browser) -> None:
    browser.login()
    name, value = next(iter(browser.cookies.items()))
    browser.cookies.clear()
    assert browser.user(cookie=f'a=b; x="{value}" ;{name}={value}; c=d') == "ann"
    assert browser.user(cookie=f"{name}=broken; {name}={value}") == "ann"
    assert browser.user(cookie=f"x{name}={value}") is None


# --- properties ------------------------------------------------------------------------------------------------------------------------


def test_update_keeps_what_it_does_not_name(browser: Browser) -> None:
    browser.login()
    browser.update({"basket": [{"plant": "fern", "count": 2}], "theme": "dark"})
    browser.update({"theme": None})
    assert browser.get() == {"id": browser.id, "user": "ann", "basket": [{"plant": "fern", "count": 2}], "theme": None}
    assert browser.user() == "ann"


def test_id_cannot_be_changed(browser: Browser) -> None:
    browser.update({"a": 1})
    browser.update({**browser.get(), "a": 2})  # the same id
    assert browser.get()["a"] == 2
    with pytest.raises(Problem) as caught:
        browser.update({"id": "mine", "a": 3})
    assert caught.value.status_code == 400 and browser.get()["a"] == 2
    with pytest.raises(Problem):
        Browser(browser.world).update({"id": browser.id})  # nor taken by who has none


def test_user_by_update(browser: Browser) -> None:
    """Application code that has checked credentials of its own."""
    browser.update({"user": "ann"})
    assert browser.user() == "ann"
    browser.update({"user": browser.world.directory.get_user("admin")})
    assert browser.user() == "admin" and browser.get()["user"] == "admin"
    browser.update({"user": None})
    assert browser.user() is None


@pytest.mark.parametrize("changes", [{"user": 5}, {"user": ["ann"]}, {"a": object()}, {5: 1}])
def test_what_cannot_be_stored(browser: Browser, changes: dict[Any, Any]) -> None:
    for _ in range(2):
        with pytest.raises(Problem) as caught:
            browser.update(changes)
        assert caught.value.status_code == 400
        browser.update({"a": 1})
    assert browser.get() == {"id": browser.id, "user": None, "a": 1}


def test_delete(browser: Browser) -> None:
    browser.login()
    browser.send(lambda request: request.session.delete(request.session.id))
    assert browser.stored == {} and browser.user() is None
    assert browser.set_cookie == ["svc-session=; Path=/; Expires=Thu, 01 Jan 1970 00:00:00 GMT; HttpOnly; SameSite=Lax"]
    browser.send(lambda request: request.session.delete())  # without one nothing happens
    assert browser.set_cookie == []


def test_delete_of_another_session(browser: Browser) -> None:
    other = Browser(browser.world)
    other.login("admin")
    browser.login()
    browser.send(lambda request: request.session.delete(other.id))
    assert other.user() is None and browser.user() == "ann" and browser.set_cookie == []


def test_a_session_that_ends_meanwhile_is_not_revived(browser: Browser) -> None:
    """Its user would be logged in again, or its expiry lost."""
    browser.login()
    old = browser.id

    async def late(request: Request) -> None:
        session = request.session
        transaction = browser.world.store.begin()
        transaction.delete(browser.sessions.table, old)
        transaction.apply()  # in the same turn, so that nobody sees it yet
        await session.update({"a": 1})

    browser.send(late)
    assert browser.stored == {browser.id: {"id": browser.id, "user": None, "a": 1}} and browser.id != old


# --- login -----------------------------------------------------------------------------------------------------------------------------


def test_login(browser: Browser) -> None:
    browser.login()
    assert browser.user() == "ann" and browser.stored == {browser.id: {"id": browser.id, "user": "ann"}}
    assert browser.answer.user is browser.world.directory.get_user("ann")  # from here on in the same request


def test_login_begins_a_new_session_with_the_properties_of_the_old(browser: Browser) -> None:
    browser.update({"basket": ["fern"]})
    planted = browser.id
    browser.login()
    assert browser.id != planted and len(browser.set_cookie) == 1
    assert browser.stored == {browser.id: {"id": browser.id, "user": "ann", "basket": ["fern"]}}
    before = browser.id
    browser.login("admin")
    assert browser.id != before and list(browser.stored) == [browser.id] and browser.get()["basket"] == ["fern"]


def test_wrong_login_leaves_the_session(browser: Browser) -> None:
    browser.login()
    browser.update({"basket": ["fern"]})
    before = browser.stored
    for name, password in (("ann", "no"), ("nobody", "x"), ("admin", "ann")):
        with pytest.raises(Problem) as caught:
            browser.login(name, password)
        assert (caught.value.status_code, caught.value.message) == (401, "Login failed")
    assert browser.stored == before and browser.user() == "ann" and browser.set_cookie == []


def test_login_of_an_inactive_user(browser: Browser) -> None:
    browser.world.user("bob", "gardener", active=False)
    with pytest.raises(Problem) as caught:
        browser.login("bob")
    assert caught.value.message == "Cannot complete request: User is inactive" and browser.stored == {}


def test_logins_are_slowed_down_with_those_by_header(browser: Browser) -> None:
    verifier = browser.sessions.verifier
    for attempt in range(6):
        with pytest.raises(Problem):
            browser.login("ann", f"wrong {attempt}")
    pending = verifier.begin(b"x", "ann", "again", "10.0.0.1")
    assert pending.delay > 0
    pending.abandon()


# --- who the caller is -------------------------------------------------------------------------------------------------------------------


FOREIGN = [
    {"origin": "https://evil.example"},
    {"origin": "https://localhost:9926"},
    {"origin": "http://localhost"},
    {"origin": "http://localhost:9927"},
    {"origin": "http://localhost:9926.evil.example"},
    {"origin": "http://localhost:9926, https://evil.example"},
    {"origin": "http://ann@localhost:9926"},
    {"origin": "null"},
    {"origin": ""},
    {"sec-fetch-site": "cross-site"},
    {"origin": "https://evil.example", "sec-fetch-site": "same-origin"},
]


@pytest.mark.parametrize("fields", FOREIGN, ids=str)
def test_a_foreign_page_has_no_session(browser: Browser, fields: dict[str, str]) -> None:
    """Acceptance example 10."""
    browser.login()
    before = browser.stored
    assert browser.user(**fields) is None and browser.get(**fields) == {}
    assert browser.request(**fields).session.user is None
    works: list[Any] = [
        lambda request: request.session.update({"a": 1}),
        lambda request: request.session.delete(browser.id),
        lambda request: request.login("admin", "admin"),
    ]
    for work in works:
        with pytest.raises(Problem) as caught:
            browser.send(work, **fields)
        assert caught.value.status_code == 403 and "http.corsAccessList" in caught.value.message
    assert browser.stored == before and browser.set_cookie == [] and browser.user() == "ann"


@pytest.mark.parametrize("fields", FOREIGN, ids=str)
def test_only_a_token_identifies_a_foreign_page(world: World, keys: TokenKeys, fields: dict[str, str]) -> None:
    tokens = Tokens(keys, world.directory, world.clock)
    browser = Browser(world)
    browser.identifier = make_identifier(world.directory, clock=world.clock, sessions=browser.sessions, tokens=tokens, local=True)
    browser.login()
    made = world.run(lambda: tokens.create(world.directory.get_user("admin")))
    for wrong in ("Basic YW5uOmFubg==", "Basic nonsense", "Basic YW5uOndyb25n", "Negotiate x"):
        request = browser.request(authorization=wrong, **fields)
        assert request.user is None and request.foreign is not None and "http.corsAccessList" in request.foreign
    request = browser.request(authorization=f"Bearer {made['operation_token']}", **fields)
    assert request.user.username == "admin" and request.foreign is None and request.session.id is None
    assert browser.identifier.identify(request) is request.user and request.session.id is None  # remembered by now
    with pytest.raises(Problem):
        browser.request(authorization="Bearer nonsense", **fields)


@pytest.mark.parametrize(
    "fields",
    [
        {"origin": f"http://{HOST}"},
        {"origin": "HTTP://LocalHost:9926"},
        {"origin": f"http://{HOST}", "sec-fetch-site": "same-origin"},
        {"origin": "https://app.example", "sec-fetch-site": "cross-site"},
        {"origin": "http://dev.example:1234"},
        {"sec-fetch-site": "same-origin"},
        {"sec-fetch-site": "same-site"},
        {"sec-fetch-site": "none"},
    ],
    ids=str,
)
def test_own_and_listed_pages_have_it(world: World, fields: dict[str, str]) -> None:
    browser = Browser(world, origins=("https://app.example", "http://dev.example:*", "*"))
    browser.login()
    assert browser.user(**fields) == "ann" and browser.get(**fields)["user"] == "ann"


# --- the account -------------------------------------------------------------------------------------------------------------------------


def test_an_account_made_again_is_another(browser: Browser) -> None:
    world = browser.world
    browser.login()
    world.drop(USER_TABLE, "ann")
    assert browser.user() is None and browser.get() == {}
    world.put(USER_TABLE, "ann", {"username": "ann", "password": "hash:ann", "role": "gardener", "active": True})
    assert browser.user() is None and browser.get() == {} and browser.request().session.id is None
    browser.login()
    assert browser.user() == "ann"


def test_a_new_login_epoch_ends_it(browser: Browser) -> None:
    browser.login()
    browser.update({"basket": 1})
    old = browser.id
    browser.world.alter("ann", login_epoch="another")
    assert browser.user() is None and browser.get() == {}
    browser.update({"theme": "dark"})
    assert browser.id != old and browser.get() == {"id": browser.id, "user": None, "theme": "dark"}
    browser.cookies[COOKIE] = old
    browser.login()
    assert "basket" not in browser.get()


def test_a_user_who_is_not_there_yet_gets_no_session_of_the_past(browser: Browser) -> None:
    browser.update({"user": "zoe", "a": 1})
    assert browser.user() is None and browser.get()["user"] == "zoe"
    browser.world.user("zoe", "gardener")
    assert browser.user() is None and browser.get()["a"] == 1
    browser.update({"user": "zoe"})
    assert browser.user() == "zoe"


def test_what_binds_it_is_not_for_applications(browser: Browser) -> None:
    browser.login()
    assert "__login__" not in browser.get()
    with pytest.raises(Problem) as caught:
        browser.update({"__login__": None})
    assert caught.value.status_code == 400 and browser.user() == "ann"


def test_sessions_of_former_versions_are_removed(tmp_path: Any) -> None:
    """They named no account, and had no end."""
    store = Store(tmp_path / "old", clock=FakeClock())
    database = store.open_database(SYSTEM)
    former = TableDefinition(
        SESSION_TABLE,
        SYSTEM,
        type_name=SESSION_TABLE,
        attributes=(Attribute("id", "String", primary_key=True), Attribute("user", "String")),
        primary_key="id",
        audit=False,
    )
    table = database.define_table(former)
    transaction = store.begin()
    for number in range(3):
        transaction.put(table, str(number), {"id": str(number), "user": "ann"})
    transaction.apply()
    store.commit_turn()
    ensure_system(store)
    table = database.tables[SESSION_TABLE]
    assert list(table.scan(database.snapshot())) == []
    transaction = store.begin()
    transaction.put(table, "new", {"id": "new", "user": None})
    transaction.apply()
    store.commit_turn()
    ensure_system(store)  # once
    assert len(list(table.scan(database.snapshot()))) == 1
    store.close()


# --- users and callers -------------------------------------------------------------------------------------------------------------------


def test_changes_count_with_the_next_request(browser: Browser) -> None:
    world = browser.world
    browser.login()
    first = browser.request().user
    world.alter("ann", role="super_user")
    second = browser.request().user
    assert isinstance(first, User) and not first.super_user and second.super_user
    world.alter("ann", active=False)
    assert browser.user() is None and browser.get()["user"] == "ann"
    world.alter("ann", active=True)
    assert browser.user() == "ann"
    world.drop(USER_TABLE, "ann")
    assert browser.user() is None


def test_another_process_ends_it(browser: Browser) -> None:
    """Nothing is remembered: a second `Sessions` on the store stands for another instance."""
    browser.login()
    other = Browser(browser.world)
    other.cookies.update(browser.cookies)
    assert browser.user() == "ann" == other.user()
    other.send(lambda request: request.session.update({"user": None}))
    assert browser.user() is None


def test_header_goes_before_the_cookie(browser: Browser) -> None:
    browser.login()
    with pytest.raises(Problem) as caught:
        browser.user(authorization="Bearer nonsense")
    assert caught.value.message == "invalid token"
    assert browser.user(authorization="Negotiate abc") == "ann"
    assert browser.user(authorization="Basic Og==") == "ann"  # empty credentials are none


def test_cookie_goes_before_the_socket_and_local_callers(world: World) -> None:
    browser = Browser(world)
    browser.identifier = make_identifier(world.directory, clock=world.clock, sessions=browser.sessions, unix_socket=True, local=True)
    request = browser.request()
    for peer, expected in (("unix", "admin"), ("127.0.0.1", "admin"), ("10.0.0.1", None)):
        request.peer = peer
        found = browser.identifier.identify(request)
        assert getattr(found, "username", None) == expected
    browser.login()
    request = browser.request()
    request.peer = "unix"
    assert getattr(browser.identifier.identify(request), "username", None) == "ann"


def test_the_socket_admits_only_where_it_should(world: World) -> None:
    request = Request("POST", "/", HeaderBlock([]))
    request.peer = "unix"
    assert make_identifier(world.directory, clock=world.clock).identify(request) is None


def test_switched_off(world: World) -> None:
    browser = Browser(world)
    browser.login()
    off = Browser(world, enabled=False)
    off.cookies.update(browser.cookies)
    assert off.user() is None and off.request().session is None
    with pytest.raises(Problem) as caught:
        off.login()
    assert (caught.value.status_code, caught.value.message) == (400, "No session for login")


def test_from_config(world: World, tmp_path: Any) -> None:
    config = Config.from_document(
        {"authentication": {"enableSessions": False, "cookie": {"domains": ["example.com"], "expires": "2d"}}}, tmp_path
    )
    sessions = Sessions.from_config(config, world.store, world.directory, world.clock)
    assert not sessions.enabled and sessions._life == 2 * 86_400 and sessions._domains == ("example.com",)
    assert Sessions.from_config(Config.from_document({}, tmp_path), world.store, world.directory, FakeClock()).enabled


def test_no_id_in_texts(browser: Browser) -> None:
    browser.update({"a": 1})
    assert browser.id not in repr(browser.request().session) and browser.id[:8] in repr(browser.request().session)
