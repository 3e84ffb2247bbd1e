"""Requests out of the scopes of servers."""

from __future__ import annotations

from typing import Any

import pytest

from svc.hosted.requests import MAX_BLOCK, MAX_BLOCKS, RequestReader
from svc.messages import UNIX_PEER
from svc.websocket.opening_handshake import check, offered_protocols


def scope(**members: Any) -> dict[str, Any]:
    return {
        "type": "http",
        "http_version": "1.1",
        "method": "get",
        "scheme": "http",
        "path": "/a",
        "raw_path": b"/a",
        "query_string": b"",
        "root_path": "",
        "headers": [(b"host", b"shop.example"), (b"X-A", b"\xe9")],
        "client": ("192.0.2.7", 4711),
        **members,
    }


@pytest.mark.parametrize(
    ("members", "target"),
    [
        ({}, "/a"),
        ({"query_string": b"q=%20&r"}, "/a?q=%20&r"),
        ({"path": "/a/b c", "raw_path": b"/a%2Fb%20c"}, "/a%2Fb%20c"),
        ({"path": "/a b/é?#%", "raw_path": None}, "/a%20b/%C3%A9%3F%23%25"),
        ({"path": "/Flight/a,b;c=1", "raw_path": None}, "/Flight/a,b;c=1"),
        ({"raw_path": b"/a?q", "query_string": b"q"}, "/a?q"),
        ({"root_path": "/x", "raw_path": b"/x/a"}, "/a"),
        ({"root_path": "/x", "raw_path": b"/x"}, "/"),
        ({"root_path": "/x/", "raw_path": b"/x/"}, "/"),
        ({"root_path": "/x", "raw_path": b"/xa"}, "/xa"),
        ({"root_path": "/é", "raw_path": b"/%C3%A9/a"}, "/a"),
    ],
)
def test_addresses(members: dict[str, Any], target: str) -> None:
    assert RequestReader().http(scope(**members)).target == target


@pytest.mark.parametrize(
    ("root", "prefix"), [("", ""), ("/", ""), ("/x/", "/x"), ("/é/y", "/%C3%A9/y"), ("//evil.example", "/evil.example")]
)
def test_the_path_of_the_mount_is_the_prefix(root: str, prefix: str) -> None:
    assert RequestReader().http(scope(root_path=root)).prefix == prefix


def test_members() -> None:
    request = RequestReader().http(scope(scheme="https"))
    assert (request.method, request.scheme, request.peer, request.http_version) == ("GET", "https", "192.0.2.7", "1.1")
    assert request.block.pairs == [("host", "shop.example"), ("x-a", "é")] and request.peer_certificate is None
    assert RequestReader().http(scope(http_version="3")).http_version == "2"


@pytest.mark.parametrize("client", [None, (), ("", 0), (UNIX_PEER, 0), [UNIX_PEER, 0]])
def test_no_client_is_the_trusted_peer(client: Any) -> None:
    assert RequestReader().http(scope(client=client)).peer == ""


def test_blocks_are_shared_by_requests_of_one_client_only() -> None:
    reader = RequestReader()
    block = reader.http(scope()).block
    assert reader.http(scope(path="/b")).block is block
    assert reader.http(scope(client=("192.0.2.8", 1))).block is not block
    assert reader.http(scope(scheme="https")).block is not block
    assert reader.http(scope(headers=[(b"host", b"other")])).block is not block


def test_not_all_blocks_are_remembered() -> None:
    reader = RequestReader()
    for number in range(2 * MAX_BLOCKS):
        reader.http(scope(headers=[(b"x", b"%d" % number)]))
    assert len(reader._blocks) <= MAX_BLOCKS
    reader = RequestReader()
    reader.http(scope(headers=[(b"x", bytes(MAX_BLOCK))]))
    assert not reader._blocks


def test_a_handshake_is_one_of_http_1_1() -> None:
    fields = [(b"host", b"a"), (b"sec-websocket-extensions", b"permessage-deflate"), (b"sec-websocket-key", b"bad"), (b"cookie", b"c")]
    given = scope(type="websocket", scheme="wss", http_version="2", headers=fields, subprotocols=["x", "y"])
    del given["method"]
    request = RequestReader().websocket(given)
    assert (request.method, request.offers, request.http_version, request.scheme) == ("GET", "websocket", "1.1", "https")
    assert offered_protocols(request) == ["x", "y"] and check(request)
    assert request.block.get("sec-websocket-extensions") is None and request.block.get("cookie") == "c"
