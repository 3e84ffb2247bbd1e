"""`POST /login` and `POST /logout` (spec: http §11.2), and the way to the login page (spec: http §11.1)."""

import gzip
import inspect
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from svc.auth.identify import challenge
from svc.errors import Problem
from svc.messages import HeaderBlock, Request, Response
from svc.resources import Resources
from svc.rest import Rest
from svc.rest.login import local_path
from tests.support.fakes import make_reactor
from tests.support.identifying import make_identifier
from tests.support.operations import OperationsNode

JSON = {"content-type": "application/json"}
FORM = {"content-type": "application/x-www-form-urlencoded"}
GOOD = b'{"username": "admin", "password": "password"}'


class Site:
    """Requests to `Rest`, with the cookies of earlier answers."""

    def __init__(self, node: OperationsNode, *, login: bool = True) -> None:
        self.node = node
        self.rest = Rest(Resources(), make_reactor(clock=node.clock), login=login)
        self.identifier = make_identifier(node.directory, clock=node.clock, sessions=node.node.sessions)
        self.cookies: dict[str, str] = {}
        self.set_cookie: list[str] = []

    def send(self, path: str, content: bytes = b"", method: str = "POST", **fields: str) -> Response:
        pairs = [("host", "localhost:9926"), *((name.replace("_", "-"), value) for name, value in fields.items())]
        if self.cookies:
            pairs.append(("cookie", "; ".join(f"{name}={value}" for name, value in self.cookies.items())))
        request = Request(method, path, HeaderBlock(pairs), content)
        request.peer = "10.0.0.1"
        request.user = self.identifier.identify(request)
        self.user = None if request.user is None else request.user.username

        async def run() -> Response:
            answer = self.rest.handle(request)
            found: Response = await answer if inspect.isawaitable(answer) else answer
            return found

        try:
            return self.node.wait(run)  # type: ignore[no-any-return]
        finally:
            self.set_cookie = [value for name, value in (request.added_headers or ()) if name == "Set-Cookie"]
            for text in self.set_cookie:
                name, _, value = text.partition(";")[0].partition("=")
                self.cookies[name] = value

    def who(self) -> str | None:
        with pytest.raises(Problem):
            self.send("/nothing", method="GET")
        return self.user


@pytest.fixture
def node(tmp_path: Path) -> Iterator[OperationsNode]:
    with OperationsNode(tmp_path) as found:
        yield found


@pytest.fixture
def site(node: OperationsNode) -> Site:
    return Site(node)


def body_of(response: Response) -> Any:
    assert isinstance(response.body, bytes)
    return json.loads(response.body)


def refused(site: Site, status: int, path: str, content: bytes = b"", **fields: str) -> str:
    with pytest.raises(Problem) as caught:
        site.send(path, content, **fields)
    assert caught.value.status_code == status and site.set_cookie == []
    return caught.value.message


@pytest.mark.parametrize(
    ("content", "fields"),
    [
        (GOOD, JSON),
        (GOOD, {}),
        (b"username=admin&password=password", FORM),
    ],
)
def test_login(site: Site, content: bytes, fields: dict[str, str]) -> None:
    response = site.send("/login", content, **fields)
    assert response.status == 200 and body_of(response) == {"message": "Login successful"}
    assert list(site.cookies) == ["svc-session"] and site.who() == "admin"


def test_logout_ends_the_session(site: Site) -> None:
    site.send("/login", GOOD, **JSON)
    session_id = site.cookies["svc-session"]
    response = site.send("/logout")
    assert response.status == 200 and body_of(response) == {"message": "Logout successful"}
    assert "Expires=Thu, 01 Jan 1970 00:00:00 GMT" in site.set_cookie[0]
    assert site.node.node.sessions.record(session_id) is None and site.who() is None
    assert site.send("/logout").status == 200 and site.set_cookie == []  # nothing to end


def test_redirects(site: Site) -> None:
    response = site.send("/login", b"username=admin&password=password&redirect=%2Fshop%2F%3Fpage%3D2", **FORM)
    assert (response.status, response.headers.get("Location")) == (302, "/shop/?page=2") and site.who() == "admin"
    response = site.send("/logout", b"redirect=/", **FORM)
    assert (response.status, response.headers.get("Location")) == (302, "/")


@pytest.mark.parametrize(
    "wish",
    ["https://evil.example/", "//evil.example", "/\\evil.example", "\\\\evil.example", "javascript:alert(1)", "shop", "", "/a\r\nSet-Cookie: x=1",
     "/\t/evil.example", " /x", "/x y", "/" + "x" * 3000, None, 5, ["/x"], {"a": "/x"}],
)  # fmt: skip
def test_redirects_elsewhere_are_ignored(site: Site, wish: object) -> None:
    response = site.send("/login", json.dumps({"username": "admin", "password": "password", "redirect": wish}).encode(), **JSON)
    assert response.status == 200 and site.who() == "admin"


def test_redirect_in_other_letters() -> None:
    assert local_path("/blüten/?q=ö#é") == "/bl%C3%BCten/?q=%C3%B6#%C3%A9"
    assert local_path("/a%20b") == "/a%20b"


@pytest.mark.parametrize(
    ("content", "status", "text"),
    [
        (b'{"username": "admin", "password": "no"}', 401, "Login failed"),
        (b'{"username": "nobody", "password": "password"}', 401, "Login failed"),
        (b'{"username": "\\ud800", "password": "password"}', None, ""),
        (b"{}", 400, "'username' is required. 'password' is required"),
        (b'{"username": 5, "password": ""}', 400, "'username' must be a string. 'password' is not allowed to be empty"),
        (b'{"username": ["admin"], "password": {}}', 400, "'username' must be a string. 'password' must be a string"),
        (b"[]", 400, "POST /login needs an object with username and password"),
        (b"null", 400, "POST /login needs an object with username and password"),
        (b"{", 400, None),
        (b"", 400, "POST needs a body"),
    ],
)
def test_refused(site: Site, content: bytes, status: int | None, text: str | None) -> None:
    with pytest.raises(Problem) as caught:
        site.send("/login", content, **JSON)
    assert caught.value.status_code == status if status is not None else caught.value.status_code in (400, 401)
    if text:
        assert caught.value.message == text
    assert site.set_cookie == [] and site.who() is None


def test_wrong_login_leaves_the_session(site: Site) -> None:
    site.send("/login", GOOD, **JSON)
    assert refused(site, 401, "/login", b'{"username": "admin", "password": "no"}', **JSON) == "Login failed"
    assert site.who() == "admin"


def test_nothing_happens_when_the_answer_is_not_wanted(site: Site) -> None:
    refused(site, 406, "/login", GOOD, **JSON, accept="image/png")
    assert site.who() is None
    site.send("/login", GOOD, **JSON)
    refused(site, 406, "/logout", accept="image/png")
    assert site.who() == "admin"


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"content-length": "200"}, None),
        ({"content-length": "65536"}, None),
        ({"content-length": "65537"}, 413),
        ({"content-length": "9" * 5000}, 413),
        ({"transfer-encoding": "chunked"}, 411),
    ],
)
def test_bodies_that_come_later(site: Site, fields: dict[str, str], status: int | None) -> None:
    for path in ("/login", "/logout"):
        request = Request("POST", path, HeaderBlock(list(fields.items())))
        if status is None:
            assert site.rest.receive(request) is None
            continue
        with pytest.raises(Problem) as caught:
            site.rest.receive(request)
        assert caught.value.status_code == status


def test_other_formats(site: Site) -> None:
    response = site.send("/login", GOOD, **JSON, accept="application/cbor")
    assert response.headers.get("Content-Type") == "application/cbor"


def test_only_by_post_and_only_these_paths(site: Site) -> None:
    for method, path in (
        ("GET", "/login"),
        ("PUT", "/login"),
        ("GET", "/logout"),
        ("POST", "/login/"),
        ("POST", "/LOGIN"),
        ("POST", "/x/login"),
    ):
        with pytest.raises(Problem) as caught:
            site.send(path, GOOD, method, **JSON)
        assert caught.value.status_code == 404


def test_only_where_an_application_asks_for_it(node: OperationsNode) -> None:
    site = Site(node, login=False)
    assert refused(site, 404, "/login", GOOD, **JSON) == "Not found"


def test_sessions_switched_off(tmp_path: Path) -> None:
    with OperationsNode(tmp_path, settings={"authentication": {"enableSessions": False}}) as node:
        site = Site(node)
        assert refused(site, 400, "/login", GOOD, **JSON) == "No session for login"
        assert refused(site, 400, "/logout") == "No session for logout"


# --- the way to the login page ---------------------------------------------------------------------------------------------------------

BROWSER = {"user-agent": "Mozilla/5.0 (X11; Linux x86_64)", "accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
CHALLENGE = 'Basic realm="svc", charset="UTF-8", Bearer realm="svc"'  # two lines


def challenged(method: str = "GET", target: str = "/plant/?a=1&b=x%20y", login_path: str | None = "/login", **fields: str) -> Response:
    return challenge(Request(method, target, HeaderBlock(list(fields.items()))), Response(b"no", 401), login_path)


def test_navigation_is_sent_to_the_login_page() -> None:
    for method in ("GET", "HEAD"):
        response = challenged(method, **BROWSER)
        assert (response.status, response.headers.get("Location")) == (302, "/login?redirect=%2Fplant%2F%3Fa%3D1%26b%3Dx%2520y")
        assert response.headers.get("WWW-Authenticate") is None and response.body is None


@pytest.mark.parametrize(
    ("method", "login_path", "fields"),
    [
        ("GET", None, BROWSER),
        ("POST", "/login", BROWSER),
        ("GET", "/login", {}),
        ("GET", "/login", {**BROWSER, "user-agent": "curl/8"}),
        ("GET", "/login", {**BROWSER, "accept": "application/json, text/html"}),
    ],
)
def test_others_get_the_challenge(method: str, login_path: str | None, fields: dict[str, str]) -> None:
    response = challenged(method, login_path=login_path, **fields)
    assert (response.status, response.body, response.headers.get("WWW-Authenticate")) == (401, b"no", CHALLENGE)


def test_scripts_that_say_so_get_neither() -> None:
    response = challenged(**BROWSER, **{"x-requested-with": "XMLHttpRequest"})
    assert response.status == 401 and response.headers.get("WWW-Authenticate") is None


@pytest.mark.parametrize("path", ["/login", "/logout"])
def test_a_body_is_short_also_once_it_is_decoded(site: Site, path: str) -> None:
    site.send("/login", GOOD, **JSON)
    blanks = b" " * (1 << 20)
    refused(site, 413, path, GOOD + blanks, **JSON)
    assert "65536" in refused(site, 413, path, gzip.compress(blanks + GOOD), content_encoding="gzip", **JSON)
