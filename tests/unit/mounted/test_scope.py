"""The scope of a request."""

from __future__ import annotations

from typing import Any

import pytest

from svc.messages import UNIX_PEER, HeaderBlock, Request
from svc.mounted.scope import http_scope, websocket_scope


def request_for(target: str, pairs: list[tuple[str, str]] | None = None, version: str = "1.1") -> Request:
    request = Request("POST", target, HeaderBlock(pairs or [("host", "shop.example:8080"), ("x-a", "\xe9")]), http_version=version)
    request.peer = "192.0.2.7"
    return request


def test_all_members() -> None:
    request = request_for("/app/caf%C3%A9/a%2Fb?q=%20a&q=b")
    request.pathname = "/caf%C3%A9/a%2Fb"  # as the chain of listeners does
    state: dict[str, Any] = {"pool": []}
    scope = http_scope(request, "/app", state)
    assert scope == {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": "/app/café/a/b",
        "raw_path": b"/app/caf%C3%A9/a%2Fb",
        "query_string": b"q=%20a&q=b",
        "root_path": "/app",
        "headers": [(b"host", b"shop.example:8080"), (b"x-a", b"\xe9")],
        "client": ("192.0.2.7", 0),
        "server": ("shop.example", 8080),
        "state": {"pool": []},
        "extensions": {"http.response.early_hint": {}},
        "svc.user": None,
        "svc.request": request,
    }
    assert scope["state"] is not state and scope["state"]["pool"] is state["pool"]


def test_a_scope_is_the_requests_own() -> None:
    request = request_for("/")
    first = http_scope(request, "", {})
    first["headers"].append((b"x", b"y"))
    first["asgi"]["version"] = first["extensions"]["http.response.early_hint"] = None
    second = http_scope(request, "", {})
    assert len(second["headers"]) == 2 and second["asgi"]["version"] == "3.0" and second["extensions"] == {"http.response.early_hint": {}}


@pytest.mark.parametrize(
    ("target", "pathname", "path"),
    [
        ("/app", "/", "/app"),
        ("/app/", "/", "/app/"),
        ("/app/x", "/x", "/app/x"),
        ("/%61pp/x", "/x", "/app/x"),
        ("/app/x", "/rewritten", "/app/rewritten"),
    ],
)
def test_the_path_begins_with_the_root_path(target: str, pathname: str, path: str) -> None:
    request = request_for(target)
    request.pathname = pathname
    assert http_scope(request, "/app", {})["path"] == path


def test_a_root_path_beyond_ascii() -> None:
    for target in ("/caf%C3%A9/x%20y", "/caf%c3%a9/x%20y"):
        request = request_for(target)
        request.pathname = "/x%20y"
        scope = http_scope(request, "/café", {})
        assert scope["path"] == "/café/x y" and scope["raw_path"] == b"/caf%C3%A9/x%20y" and scope["root_path"] == "/café"


def test_the_prefix_of_a_proxy_is_before_the_root_path() -> None:
    request = request_for("/app/x%20y")
    request.pathname, request.prefix = "/x%20y", "/caf%C3%A9"
    scope = http_scope(request, "/app", {})
    assert (scope["path"], scope["raw_path"], scope["root_path"]) == ("/café/app/x y", b"/caf%C3%A9/app/x%20y", "/café/app")


def test_at_the_root() -> None:
    scope = http_scope(request_for("/a/b"), "", {})
    assert (scope["path"], scope["root_path"], scope["query_string"]) == ("/a/b", "", b"")


def test_a_path_that_is_not_utf_8() -> None:
    assert http_scope(request_for("/%ff"), "", {})["path"] == "/\ufffd"


def test_cookies_of_http_2_are_one_field() -> None:
    request = request_for("/", [("host", "a"), ("cookie", "a=1"), ("cookie", "b=2")], "2")
    scope = http_scope(request, "", {})
    assert scope["headers"] == [(b"host", b"a"), (b"cookie", b"a=1; b=2")] and scope["http_version"] == "2"


def test_a_peer_without_an_address_and_a_request_without_host() -> None:
    request = request_for("/", [("x", "y")])
    request.peer = UNIX_PEER
    scope = http_scope(request, "", {})
    assert scope["client"] is None and scope["server"] is None


@pytest.mark.parametrize(("scheme", "expected"), [("http", "ws"), ("https", "wss")])
def test_a_websocket(scheme: str, expected: str) -> None:
    request = request_for("/app/chat", [("host", "shop.example")])
    request.scheme = scheme
    scope = websocket_scope(request, "/app", {}, ["chat"])
    assert scope["type"] == "websocket" and scope["scheme"] == expected and scope["subprotocols"] == ["chat"]
    assert scope["extensions"] == {"websocket.http.response": {}} and "method" not in scope
    assert scope["server"] == ("shop.example", 443 if scheme == "https" else 80)


@pytest.mark.parametrize("host", [":", "[", "a:b:c", "a:99999999999999999999", "\xe9:1", "[::1", "]:1", ""])
def test_any_host_is_taken(host: str) -> None:
    assert "server" in http_scope(request_for("/", [("host", host)]), "", {})
