"""The examples of docs/listeners.md, as one application."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.node import Node

PAGE = Path(__file__).parents[2] / "docs" / "listeners.md"


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    app = tmp_path_factory.mktemp("shop")
    (app / "schema.graphql").write_text("type Thing @table @export { id: ID @primaryKey }")
    (app / "resources.py").write_text("\n".join(re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)))
    made = Node(tmp_path_factory.mktemp("store"), app)
    yield made
    made.close()


@pytest.mark.parametrize(
    ("method", "target", "body", "status", "answer"),
    [
        ("GET", "/ping", None, 200, {"pong": True}),
        ("GET", "/pong", None, 404, None),
        ("POST", "/sum", [1, 2, 4], 200, {"sum": 7}),
        ("POST", "/sum", {"a": 1}, 422, None),
        ("POST", "/sum", ["a"], 422, None),
        ("GET", "/members/area", None, 404, None),
        ("PUT", "/Thing/1", {}, 204, None),
        ("GET", "/Thing/2", None, 404, None),
    ],
)
def test_requests(node: Node, method: str, target: str, body: object, status: int, answer: object) -> None:
    found, fields, received = node.connect().ask(method, target, b"" if body is None else json.dumps(body).encode())
    assert (found, fields["x-app"]) == (status, "shop")
    assert answer is None or json.loads(received) == answer


def test_records_are_as_without_listeners(node: Node) -> None:
    for method, status, answer in (("PUT", 204, b""), ("GET", 200, b'{"id":"3"}')):
        found, fields, received = node.connect().ask(method, "/Thing/3", b"{}" if method == "PUT" else b"")
        assert (found, fields["x-app"], received) == (status, "shop", answer)


def test_text(node: Node) -> None:
    status, fields, body = node.connect().ask("GET", "/robots.txt")
    assert (status, fields["content-type"], body) == (200, "text/plain", b"User-agent: *\nDisallow: /\n")


def test_strangers(node: Node) -> None:
    identify = node.dispatcher._identify
    node.as_user(None)
    try:
        assert node.connect().ask("GET", "/members/area")[0] == 401
        assert node.connect().ask("GET", "/members")[0] == 401
    finally:
        node.dispatcher._identify = identify  # type: ignore[method-assign]


def test_a_websocket(node: Node) -> None:
    wire = node.connect()
    head = (
        "GET /echo/x HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: "
    )
    assert wire.send(f"{head}AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n".encode()).startswith(b"HTTP/1.1 101")
    assert wire.send(b"\x81\x82\0\0\0\0hi").endswith(b"\x81\x02hi")
    wire.connection.close_now()
    node.settle()
