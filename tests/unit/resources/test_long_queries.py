"""svc.resources.table_reading: queries of many conditions, which are parsed, planned and run in a turn each."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from svc.resources.table_reading import LONG_QUERY
from tests.support.fakes import TickingClock
from tests.support.node import Node
from tests.support.pages import BROWSER

KEYS = [f"p{number:04}" for number in range(LONG_QUERY // 8)]
LONG = "|".join(f"id=={key}" for key in KEYS)
SHORT = "id==p0001|id==p0003"


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    path: Path = tmp_path_factory.mktemp("long-queries")
    (path / "app").mkdir()
    (path / "app" / "schema.graphql").write_text("type Product @table @export { id: ID @primaryKey name: String }")
    made = Node(path / "store", path / "app", TickingClock())
    for key in ("p0001", "p0003", "other"):
        assert made.connect().ask("PUT", f"/Product/{key}", json.dumps({"name": f"<{key}>"}).encode())[0] == 204
    yield made
    made.close()
    assert not made.errors


def ask(node: Node, query: str, accept: str = "application/json") -> tuple[int, int, bytes]:
    """Number of turns behind that of the request until there is an answer, its status, its body."""
    wire = node.connect()
    wire.sock.incoming.append(f"GET /Product/?{query} HTTP/1.1\r\nHost: localhost\r\nAccept: {accept}\r\n\r\n".encode())
    wire._loop.readers[wire.sock]()
    turns = 0
    while not wire.sock.sent:
        node.turn()
        turns += 1
    node.settle()
    head, _, body = bytes(wire.sock.sent).partition(b"\r\n\r\n")
    wire.connection.close_now()
    return turns, int(head.split(b" ")[1]), body


def test_each_part_has_a_turn(node: Node) -> None:
    assert len(LONG) > LONG_QUERY
    short, long = ask(node, SHORT), ask(node, LONG)
    assert short[1] == long[1] == 200
    for _, _, body in (short, long):
        assert b'"id":"p0001"' in body and b'"id":"p0003"' in body and b"other" not in body
    assert long[0] - short[0] >= 3


def test_pages_too(node: Node) -> None:
    short, long = ask(node, SHORT, BROWSER), ask(node, LONG, BROWSER)
    assert short[1] == long[1] == 200
    assert b"&lt;p0003&gt;" in long[2] and b"&lt;other&gt;" not in long[2]
    assert long[0] - short[0] >= 4


@pytest.mark.parametrize(
    ("query", "code"),
    [(LONG + "|", "QUERY_SYNTAX"), (LONG + "|missing==1", "UNKNOWN_ATTRIBUTE"), ("x=" + "1" * LONG_QUERY, "UNKNOWN_ATTRIBUTE")],
)
def test_faults_are_answered(node: Node, query: str, code: str) -> None:
    _, status, body = ask(node, query)
    assert (status, json.loads(body)["code"]) == (400, code)
