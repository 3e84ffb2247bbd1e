"""Which requests a listener is for."""

from __future__ import annotations

from typing import Any

import pytest

from svc.listeners.routes import ANYWHERE, Route, make_route
from svc.messages import HeaderBlock, Request


def request(target: str = "/", host: str = "localhost", scheme: str = "http") -> Request:
    made = Request("GET", target, HeaderBlock([("host", host)]))
    made.scheme = scheme
    return made


@pytest.mark.parametrize(
    ("url_path", "target", "rest"),
    [
        ("/shop", "/shop/a?x", "/a"),
        ("shop/", "/shop", "/"),
        ("/shop", "/shop/", "/"),
        ("/shop", "/shopping", None),
        ("/shop", "/Shop/a", None),
        ("/shop", "/%73hop/a%2Fb", "/a%2Fb"),
        ("/a/b", "/a/b/c/d", "/c/d"),
        ("/a/b", "/a", None),
        ("/gr%C3%B6%C3%9Fe", "/gr%c3%b6%c3%9fe/x", "/x"),
        ("/größe", "/gr%C3%B6%C3%9Fe", "/"),
        ("/shop", "//shop/a", None),
        ("/shop", "*", None),
        ("/", "*", "*"),
        ("", "/x", "/x"),
    ],
)
def test_paths(url_path: str, target: str, rest: str | None) -> None:
    assert make_route(None, url_path).rest_of(request(target)) == rest


@pytest.mark.parametrize(
    ("host", "asked", "matches"),
    [
        ("Shop.example", "shop.EXAMPLE:8080", True),
        ("shop.example:80", "shop.example", True),
        ("shop.example", "shop.example.", True),
        ("shop.example", "a.shop.example", False),
        ("::1", "[::1]:9926", True),
        ("[::1]", "[::1]", True),
        ("shop", "", False),
    ],
)
def test_hosts(host: str, asked: str, matches: bool) -> None:
    assert (make_route(host).rest_of(request("/a", asked)) == "/a") is matches


def test_schemes() -> None:
    assert Route(scheme="https").rest_of(request("/a")) is None
    assert Route(scheme="https").rest_of(request("/a", scheme="https")) == "/a"
    assert ANYWHERE.is_open
    assert not Route(scheme="https").is_open


def test_the_mount_of_an_application_goes_before_its_own_wishes() -> None:
    mount = make_route("shop.example", "/shop")
    made = make_route("other.example", "admin", base=mount)
    assert (made.host, made.segments) == ("shop.example", ("shop", "admin"))
    assert make_route("other.example", base=make_route(None, "/shop")).host == "other.example"


def test_a_dot_is_the_name_of_the_application() -> None:
    assert make_route(None, ".", app="boxoffice").segments == ("boxoffice",)
    assert make_route(None, "./x", app="boxoffice").segments == ("boxoffice", "x")


@pytest.mark.parametrize("url_path", ["/a/../b", "..", "/a//b", "/%2e%2e/a", "/a%2Fb", "/a?x", "/a#x"])
def test_paths_that_lead_elsewhere_are_refused(url_path: str) -> None:
    with pytest.raises(ValueError, match="url_path"):
        make_route(None, url_path)


@pytest.mark.parametrize(("host", "url_path"), [(1, None), (None, 1), (b"a", None)])
def test_other_types_are_refused(host: Any, url_path: Any) -> None:
    with pytest.raises(TypeError):
        make_route(host, url_path)


def test_the_more_particular_is_larger() -> None:
    both, host, long, short = (make_route("h", "/a"), make_route("h"), make_route(None, "/a/b"), make_route(None, "/a"))
    assert both.particular > host.particular > long.particular > short.particular > ANYWHERE.particular


@pytest.mark.parametrize(
    ("url_path", "target", "is_extended"),
    [
        ("/shop", "/shop.json", True),
        ("/shop", "/shop.json?x", True),
        ("/shop", "/%73hop%2ejson", True),
        ("/a/shop", "/a/shop.csv", True),
        ("/shop", "/shop", False),
        ("/shop", "/shop.1", False),
        ("/shop", "/shop.json/x", False),
        ("/shop", "/x/shop.json", False),
        ("/a/shop", "/b/shop.csv", False),
        ("/a/shop", "/shop.csv", False),
        ("/shop", "/shopping.json", False),
        ("/", "/.json", False),
    ],
)
def test_extensions(url_path: str, target: str, is_extended: bool) -> None:
    assert make_route(None, url_path).is_extended(request(target)) is is_extended
    assert not make_route("elsewhere", url_path).is_extended(request(target))
    assert not make_route(None, url_path, "https").is_extended(request(target))
