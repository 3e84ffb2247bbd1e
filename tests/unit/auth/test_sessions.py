"""Sessions (http §11.3, security §3), and how the identifier takes their cookies."""

from typing import Any
from uuid import UUID

import pytest

from svc.auth.identify import Identifier
from svc.auth.sessions import FOR_EVER, Sessions, cookie_name
from svc.auth.system import SESSION_TABLE, SYSTEM, USER_TABLE
from svc.auth.users import User
from svc.clock import FakeClock
from svc.config import Config
from svc.errors import Problem, StoreFailure
from svc.messages import HeaderBlock, Request
from svc.store.records import decode

World = Any  # tests/unit/auth/conftest.py
HOST = "localhost:9926"


class Browser:
    """Sends requests to one server, with the cookies it has been given. `send` does something with `request.session` as an application would."""

    def __init__(self, world: World, *, host: str = HOST, scheme: str = "http", **settings: Any) -> None:
        self.world = world
        self.host = host
        self.scheme = scheme
        self.cookies: dict[str, str] = {}
        self.sessions = Sessions(world.store, world.directory, world.clock, **settings)
        self.identifier = Identifier(world.directory, clock=world.clock, sessions=self.sessions)
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
        return {record["id"]: record for record in (decode(raw) for _, raw in table.scan(table.database.snapshot()))}

    @property
    def id(self) -> str:
        return next(iter(self.cookies.values()))


@pytest.fixture
def browser(world: World) -> Browser:
    return Browser(world)


# --- the cookie ------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("host", "fields", "name"),
    [
        ("localhost:9926", {}, "localhost_9926-svc-session"),
        ("localhost:9926", {"origin": "http://localhost:9926"}, "localhost_9926-svc-session"),
        ("api.example.com", {"origin": "https://my-app.example.com"}, "my_app_example_com-svc-session"),
        ("[::1]:9926", {}, "___1__9926-svc-session"),
        ("localhost", {"origin": "null"}, "null-svc-session"),
        ("bücher.example", {}, "b_cher_example-svc-session"),
        ("a_B9", {}, "a_B9-svc-session"),
    ],
)
def test_name(world: World, host: str, fields: dict[str, str], name: str) -> None:
    browser = Browser(world, host=host)
    browser.update({"color": "red"}, **fields)
    assert list(browser.cookies) == [name]
    assert browser.get(**fields)["color"] == "red"


def test_value_is_a_random_uuid(browser: Browser) -> None:
    browser.update({"a": 1})
    assert UUID(browser.id).version == 4
    assert Browser(browser.world).get() == {}


def test_attributes_over_plain_http(browser: Browser) -> None:
    browser.update({"a": 1})
    assert browser.set_cookie == [
        f"localhost_9926-svc-session={browser.id}; Path=/; Expires=Tue, 01 Oct 8307 19:33:20 GMT; HttpOnly; SameSite=Lax"
    ]
    assert browser.answer.response_headers.get("X-Svc-Session") is None


def test_attributes_over_https(world: World) -> None:
    browser = Browser(world, scheme="https", host="shop.example")
    browser.update({"a": 1})
    assert browser.set_cookie == [f"shop_example-svc-session={browser.id}; Path=/; Expires={FOR_EVER}; HttpOnly; SameSite=None; Secure"]
    assert browser.answer.response_headers.get("X-Svc-Session") == "Secure"
    browser.update({"a": 2})  # each write, though the cookie stays
    assert browser.answer.response_headers.get("X-Svc-Session") == "Secure" and browser.set_cookie == []


def test_expires(world: World) -> None:
    browser = Browser(world, life=3600)
    browser.update({"a": 1})
    assert "; Expires=Thu, 01 Jan 2026 01:00:00 GMT;" in browser.set_cookie[0]
    world.clock.advance(3599)
    browser.update({"b": 2})  # keeps the expiry it was given
    assert browser.get() == {"id": browser.id, "user": None, "a": 1, "b": 2}
    old = browser.id
    world.clock.advance(1)
    assert browser.get() == {}
    browser.update({"c": 3})
    assert browser.id != old and browser.get() == {"id": browser.id, "user": None, "c": 3}


def test_a_life_beyond_all_dates_is_for_ever(world: World) -> None:
    browser = Browser(world, life=1e12)
    browser.update({"a": 1})
    assert FOR_EVER in browser.set_cookie[0] and browser.get()["a"] == 1


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


def test_domain_goes_by_the_origin_too(world: World) -> None:
    browser = Browser(world, host="127.0.0.1:9926", domains=["example.com"])
    browser.update({"a": 1}, origin="https://shop.example.com")
    assert "; Domain=example.com;" in browser.set_cookie[0]


# --- when it is set --------------------------------------------------------------------------------------------------------------------


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
        "localhost_9926-svc-session",
        "localhost_9926-svc-session=",
        "localhost_9926-svc-session=1",
        "localhost_9926-svc-session=../../etc",
        "localhost_9926-svc-session=" + "a" * 4000,
        "localhost_9926-svc-session=00000000-0000-4000-8000-000000000000",
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
    assert browser.set_cookie == ["localhost_9926-svc-session=; Path=/; Expires=Thu, 01 Jan 1970 00:00:00 GMT; HttpOnly; SameSite=Lax"]
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


def test_another_origin_is_anonymous(browser: Browser) -> None:
    """Acceptance example 10."""
    browser.login()
    assert browser.user() == "ann" and browser.user(origin=f"http://{HOST}") == "ann"
    assert browser.user(origin="https://evil.example") is None
    assert browser.get(origin="https://evil.example") == {}


def test_changes_count_with_the_next_request(browser: Browser) -> None:
    world = browser.world
    browser.login()
    first = browser.request().user
    world.user("ann", "super_user")
    second = browser.request().user
    assert isinstance(first, User) and not first.super_user and second.super_user
    world.user("ann", "super_user", active=False)
    assert browser.user() is None and browser.get()["user"] == "ann"
    world.user("ann", "gardener")
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
    browser.identifier = Identifier(world.directory, clock=world.clock, sessions=browser.sessions, admit_socket=True, authorize_local=True)
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
    assert Identifier(world.directory, clock=world.clock).identify(request) is None


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
    assert cookie_name("") == "-svc-session"
