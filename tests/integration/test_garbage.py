"""What a request leaves behind is freed with it: cycles would wait for the garbage collector, which stops the loop to find them."""

from __future__ import annotations

import gc
import json
from collections.abc import Iterator

import pytest

from tests.support.node import Node

REQUESTS = 200


@pytest.fixture
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    node = Node(tmp_path_factory.mktemp("node"))
    yield node
    node.close()


@pytest.mark.parametrize(
    ("method", "target", "body"),
    [
        ("GET", "/Product/1", ""),
        ("GET", "/Product/none", ""),
        ("GET", "/Product/?price=ge=1&sort(-name)&select(name,brand{name})", ""),
        ("GET", "/Product/?nope=1", ""),
        ("PUT", "/Product/1", '{"name":"x","price":1,"tags":["a"]}'),
        ("PATCH", "/Product/1", '{"stock":{"__op__":"add","value":1}}'),
        ("POST", "/Product/", '{"name":"x"}'),
        ("DELETE", "/Product/2", ""),
        ("PUT", "/Product/1", "{"),
    ],
)
def test_no_cycles(node: Node, method: str, target: str, body: str) -> None:
    wire = node.connect()
    wire.ask("PUT", "/Product/1", json.dumps({"name": "x", "price": 1}).encode())
    for _ in range(5):
        wire.ask(method, target, body.encode())  # fills caches
    gc.collect()
    gc.disable()
    try:
        for _ in range(REQUESTS):
            wire.ask(method, target, body.encode())
        found = gc.collect()
    finally:
        gc.enable()
    assert found < REQUESTS, f"{found / REQUESTS:.1f} objects in cycles for each request"
