"""Listeners that only pass on change nothing: every request is answered, byte for byte, as without them."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import pytest

from svc.auth.origin_policy import OriginPolicy
from svc.http.cors import Cors
from svc.messages import Request
from tests.support.node import Node

KEY = base64.b64encode(bytes(16)).decode()
JSON = "Content-Type: application/json"
UPGRADE = ("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", f"Sec-WebSocket-Key: {KEY}")
OWN, FOREIGN, FRIEND = "Origin: http://localhost", "Origin: https://evil.example", "Origin: https://friend.example"

REQUESTS: dict[str, tuple[str, str, tuple[str, ...], bytes]] = {
    "record": ("GET", "/Product/1", (), b""),
    "head": ("HEAD", "/Product/1", (), b""),
    "missing record": ("GET", "/Product/none", (), b""),
    "missing resource": ("GET", "/none", (), b""),
    "collection": ("GET", "/Product/?sort(id)", (), b""),
    "csv": ("GET", "/Product/.csv?select(id,name)", (), b""),
    "cbor": ("GET", "/Product/1", ("Accept: application/cbor",), b""),
    "not acceptable": ("GET", "/Product/1", ("Accept: image/png",), b""),
    "wrong query": ("GET", "/Product/?(((", (), b""),
    "description": ("GET", "/Brand", (), b""),
    "openapi": ("GET", "/openapi", (), b""),
    "unchanged": ("GET", "/Product/1", ("If-None-Match: *",), b""),
    "coded": ("GET", "/Product/?sort(id)", ("Accept-Encoding: gzip",), b""),
    "put": ("PUT", "/Product/2", (JSON,), b'{"name":"two"}'),
    "put refused": ("PUT", "/Product/1", (JSON, "If-None-Match: *"), b'{"name":"two"}'),
    "patch": ("PATCH", "/Product/1", (JSON,), b'{"stock":{"__op__":"add","value":1}}'),
    "post": ("POST", "/Product/", (JSON,), b'{"id":"new"}'),
    "post again": ("POST", "/Product/", (JSON,), b'{"id":"1"}'),
    "post to a record": ("POST", "/Product/1", (JSON,), b"{}"),
    "delete": ("DELETE", "/Product/1", (), b""),
    "no json": ("PUT", "/Product/1", (JSON,), b"{oops"),
    "no body": ("PUT", "/Product/1", (JSON,), b""),
    "list": ("PUT", "/Product/", (JSON,), b'[{"id":"a"},{"id":"b"}]'),
    "post nowhere": ("POST", "/none", (JSON,), b"{}"),
    "unknown method": ("BREW", "/Product/1", (), b""),
    "unknown method nowhere": ("BREW", "/none", (), b""),
    "trace": ("TRACE", "/Product/1", (), b""),
    "options": ("OPTIONS", "/Product/1", (), b""),
    "options nowhere": ("OPTIONS", "/none", (), b""),
    "options of all": ("OPTIONS", "*", (), b""),
    "preflight": ("OPTIONS", "/Product/1", (OWN, "Access-Control-Request-Method: PUT"), b""),
    "preflight from elsewhere": ("OPTIONS", "/Product/1", (FOREIGN, "Access-Control-Request-Method: PUT"), b""),
    "preflight of a friend": ("OPTIONS", "/Product/1", (FRIEND, "Access-Control-Request-Method: PUT"), b""),
    "page of a friend": ("GET", "/Product/1", (FRIEND,), b""),
    "own page": ("GET", "/Product/1", (OWN,), b""),
    "foreign page": ("GET", "/Product/1", (FOREIGN,), b""),
    "wrong token": ("GET", "/Product/1", ("Authorization: Bearer nonsense",), b""),
    "wrong token nowhere": ("GET", "/none", ("Authorization: Bearer nonsense",), b""),
    "websocket": ("GET", "/Brand/1", UPGRADE, b""),
    "websocket nowhere": ("GET", "/none", UPGRADE, b""),
    "websocket of another version": ("GET", "/Brand/1", (*UPGRADE[:2], "Sec-WebSocket-Version: 12", UPGRADE[3]), b""),
    "websocket without a key": ("GET", "/Brand/1", UPGRADE[:3], b""),
    "websocket with a wrong token": ("GET", "/Brand/1", (*UPGRADE, "Authorization: Bearer nonsense"), b""),
    "websocket of a foreign page": ("GET", "/Brand/1", (*UPGRADE, FOREIGN), b""),
    "websocket by post": ("POST", "/Product/", (*UPGRADE, JSON), b'{"id":"new"}'),
    "another upgrade": ("GET", "/Product/1", ("Connection: Upgrade", "Upgrade: h2c"), b""),
    "another upgrade with a wrong token": ("GET", "/Product/1", ("Connection: Upgrade", "Upgrade: h2c", "Authorization: Bearer x"), b""),
    "wrong path": ("GET", "/Product//1", (), b""),
    "wrong encoding": ("GET", "/Product/%zz", (), b""),
}


def plain(request: Request, next: Any) -> Any:
    return next(request)


async def waiting(request: Request, next: Any) -> Any:
    return await next(request)


async def returning(request: Request, next: Any) -> Any:
    return next(request)


WAYS: dict[str, list[tuple[Any, dict[str, Any]]]] = {
    "plain": [(plain, {"run_first": True})],
    "async": [(waiting, {"run_first": True})],
    "returned": [(returning, {"before": "rest"})],
    "behind": [(plain, {})],
    "routed": [(waiting, {"url_path": "/Product"}), (plain, {"host": "localhost"})],
    "many": [(plain, {}), (waiting, {"run_first": True}), (waiting, {"before": "rest"}), (plain, {"after": "static"}), (waiting, {})],
    "upgrades": [(plain, {"run_first": True})],
}


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    made = Node(tmp_path_factory.mktemp("store"))
    made.dispatcher._cors = Cors(OriginPolicy(["https://friend.example"]))
    yield made
    made.close()


def ask(node: Node, request: tuple[str, str, tuple[str, ...], bytes], split: bool) -> list[bytes]:
    """The answer, and what is stored then."""
    for target, body in (("/Product/1", b'{"name":"one","price":1}'), ("/Product/3", b'{"name":"three"}')):
        assert node.connect().ask("PUT", target, body)[0] == 204
    for target in ("/Product/2", "/Product/new", "/Product/a", "/Product/b"):
        node.connect().ask("DELETE", target)
    method, target, fields, body = request
    lines = [
        f"{method} {target} HTTP/1.1",
        "Host: localhost",
        *fields,
        *([f"Content-Length: {len(body)}"] if body or method == "PUT" else []),
    ]
    head = "\r\n".join(lines).encode() + b"\r\n\r\n"
    wire = node.connect()
    answer = wire.send(head, body) if split and body else wire.send(head + body)
    wire.connection.close_now()
    node.settle()
    stored = node.connect().ask("GET", "/Product/?select(id,name,stock)&sort(id)")[2]
    return [answer, stored]


def tagless(answer: bytes) -> list[bytes]:
    """The lines, without the version of the record, which is another each time, and `Connection`: what is refused early leaves its body unread."""
    return [line for line in answer.split(b"\r\n") if not line.startswith((b"ETag: ", b"Server-Timing: ", b"Connection: close"))]


@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize("way", WAYS)
def test_nothing_changes(node: Node, way: str, split: bool) -> None:
    for name, request in REQUESTS.items():
        before, stored = ask(node, request, split)
        app = node.server.of_application("passing")
        for listener, options in WAYS[way]:
            app.http(listener, options)
        if way == "upgrades":
            app.upgrade(lambda request, socket, head, next: next(request, socket, head))
        after, stored_after = ask(node, request, split)
        app.withdraw()
        assert tagless(after) == tagless(before), name
        assert stored_after == stored, name
        assert before or after == before, name
    assert node.errors == []
