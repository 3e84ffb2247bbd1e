"""A listener with a path sees every spelling of the address of a resource."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from svc.messages import Abort, Request, Response
from tests.support.node import Node

SCHEMA = """
type Secret @table @export { id: ID @primaryKey  name: String @indexed }
type Sockets @table @export(rest: false, sse: false) { id: ID @primaryKey }
type Deep @table @export(name: "a/b") { id: ID @primaryKey  name: String @indexed }
"""
KEY = base64.b64encode(bytes(16)).decode()


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    app = tmp_path / "app"
    app.mkdir()
    (app / "schema.graphql").write_text(SCHEMA)
    made = Node(tmp_path / "store", app)
    for table in ("Secret", "a/b"):
        assert made.connect().ask("PUT", f"/{table}/1", b'{"name":"private"}')[0] == 204
    yield made
    made.close()


def guard(request: Request, next: Any) -> Any:
    return {"guarded": request.pathname}


@pytest.mark.parametrize(
    "target",
    ["/Secret/1", "/Secret", "/%53ecret/1", "/Secret.json?name=private", "/Secret.csv", "/Secret/1.json", "http://localhost/Secret/1",
     "/a/b.json?name=private", "/a/%62/1"],
)  # fmt: skip
@pytest.mark.parametrize("method", ["GET", "HEAD", "QUERY"])
def test_no_spelling_gets_past_a_listener(node: Node, target: str, method: str) -> None:
    node.server.http(guard, url_path="/Secret")
    node.server.http(guard, url_path="/a/b")
    status, _, body = node.connect().ask(method, target)
    assert status == 200
    assert body[:11] == (b"" if method == "HEAD" else b'{"guarded":')


def test_a_listener_of_a_record_sees_its_extensions_and_properties(node: Node) -> None:
    node.server.http(guard, url_path="/Secret/1")
    for target in ("/Secret/1.json", "/Secret/1.name"):
        assert node.connect().ask("GET", target)[2] == b'{"guarded":"/"}'
    assert node.connect().ask("GET", "/Secret/2")[0] == 404


def test_an_extension_belongs_to_resources_alone(node: Node) -> None:
    node.server.http(guard, url_path="/feed")
    node.server.http(lambda request, next: {"other": True}, url_path="/feed.json")
    assert node.connect().ask("GET", "/feed.json")[2] == b'{"other":true}'
    assert node.connect().ask("GET", "/feed")[2] == b'{"guarded":"/"}'


def test_what_follows_finds_the_address_with_its_extension(node: Node) -> None:
    seen: list[str] = []

    async def watch(request: Request, next: Any) -> Any:
        seen.append(request.pathname)
        response = await next(request)
        seen.append(request.pathname)
        return response

    node.server.http(watch, url_path="/Secret")
    status, fields, body = node.connect().ask("GET", "/Secret.csv?name=private&select(id)")
    assert (status, fields["content-type"].partition(";")[0]) == (200, "text/csv") and b"1" in body
    assert seen == ["/", "/"]


def handshake(node: Node, path: str) -> bytes:
    return node.connect().send(
        f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {KEY}\r\n\r\n".encode()
    )


@pytest.mark.parametrize("path", ["/Secret", "/Secret.json", "/Sockets.json"])
def test_the_handshake_of_a_websocket_too(node: Node, path: str) -> None:
    assert handshake(node, path).startswith(b"HTTP/1.1 101")
    for table in ("/Secret", "/Sockets"):
        node.server.http(lambda request, next: Response(status=418), url_path=table)
    assert handshake(node, path).startswith(b"HTTP/1.1 418")


@pytest.mark.parametrize("path", ["/Secret", "/Secret.json", "/Sockets.json"])
def test_a_listener_of_websockets_too(node: Node, path: str) -> None:
    async def refuse(ws: Any, request: Request, chain_completion: Any, next: Any) -> None:
        raise Abort(Response(status=418))

    for table in ("/Secret", "/Sockets", "/other"):
        node.server.ws(refuse, url_path=table)
    assert handshake(node, path).startswith(b"HTTP/1.1 418")
    assert handshake(node, "/other.json").startswith(b"HTTP/1.1 404")
