"""Requests of trusted proxies become those of their clients, and no others."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from svc.config.addresses import parse_networks
from svc.errors import ClientError
from svc.http.behind_proxies import BehindProxies, TrustedProxies
from svc.messages import UNIX_PEER, HeaderBlock, Request, Response

PROXIES = "10.0.0.0/8, fd00::/8"


def request(peer: str = "10.0.0.2", **fields: str) -> Request:
    made = Request("GET", "/Item/1?x", HeaderBlock([(name.replace("_", "-"), value) for name, value in fields.items()]))
    made.peer = peer
    return made


def applied(made: Request) -> Request:
    TrustedProxies(parse_networks(PROXIES)).apply(made)
    return made


FIELDS = {"host": "inner:9926", "x_forwarded_for": "192.0.2.7", "x_forwarded_proto": "https", "x_forwarded_host": "shop.example"}


@pytest.mark.parametrize("peer", ["10.0.0.2", "fd00::2"])
def test_a_request_of_a_trusted_proxy_is_its_clients(peer: str) -> None:
    made = applied(request(peer, **FIELDS))
    assert (made.ip, made.proxy, made.protocol, made.host) == ("192.0.2.7", peer, "https", "shop.example")
    assert made.absolute_url == "https://shop.example/Item/1?x"
    assert made.headers.get("Host") == "shop.example"
    assert made.headers.get("X-Forwarded-For") == "192.0.2.7"


def test_the_prefix_of_a_proxy_is_before_the_path() -> None:
    made = applied(request(**FIELDS, x_forwarded_prefix="/svc"))
    assert (made.prefix, made.target, made.pathname) == ("/svc", "/Item/1?x", "/Item/1")
    assert made.absolute_url == "https://shop.example/svc/Item/1?x"
    assert applied(request("192.0.2.9", **FIELDS, x_forwarded_prefix="/svc")).prefix == ""


@pytest.mark.parametrize("peer", ["192.0.2.9", "::1", UNIX_PEER, "", "fe80::1%eth0"])
def test_those_of_others_stay_as_they_are(peer: str) -> None:
    made = request(peer, **FIELDS, forwarded='for="')
    block = made.block
    applied(made)
    assert (made.ip, made.proxy, made.protocol, made.host) == (peer, "", "http", "inner:9926")
    assert made.block is block and not block.memo


def test_what_proxies_do_not_say_stays_as_it_is() -> None:
    made = applied(request(host="inner"))
    assert (made.ip, made.proxy, made.protocol, made.host) == ("10.0.0.2", "10.0.0.2", "http", "inner")


def test_what_a_block_says_is_read_once_and_for_all_proxies() -> None:
    proxies = TrustedProxies(parse_networks(PROXIES))
    one, other = request(**FIELDS), request("10.0.0.3")
    other.block = one.block
    for made in (one, other, one):
        proxies.apply(made)
    assert one.block is other.block
    assert [(made.ip, made.proxy) for made in (one, other)] == [("192.0.2.7", "10.0.0.2"), ("192.0.2.7", "10.0.0.3")]


def test_malformed_fields_are_answered_and_never_handled() -> None:
    calls: list[str] = []

    def call(name: str) -> Any:
        return lambda exchange: calls.append(name)

    def refuse(error: BaseException, made: Request | None) -> Response:
        assert isinstance(error, ClientError)
        return Response(str(error), error.status_code)

    inner: Any = SimpleNamespace(error_response=refuse, decode_content=None, sent=None, cancelled=None)
    inner.receive, inner.handle, inner.upgrade = (call(name) for name in ("receive", "handle", "upgrade"))
    behind = BehindProxies(inner, TrustedProxies(parse_networks(PROXIES)))
    methods = (behind.receive, behind.handle, behind.upgrade)
    for method in methods:
        answer: Any = method(SimpleNamespace(request=request(x_forwarded_proto="gopher")))  # type: ignore[arg-type]
        assert answer.status == 400 and "X-Forwarded-Proto" in answer.body
    assert calls == []
    for method in methods:
        method(SimpleNamespace(request=request(**FIELDS)))  # type: ignore[arg-type]
    assert calls == ["receive", "handle", "upgrade"]
