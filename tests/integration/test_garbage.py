"""What a request leaves behind is freed with it: cycles would wait for the garbage collector, which stops the loop to find them."""

from __future__ import annotations

import gc
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import svc.testing
from tests.support.node import Node
from tests.unit.testing.conftest import write_application

REQUESTS = 200
FOLLOWERS = 20
SCHEMA = "type Product @table @export { id: ID @primaryKey\n price: Float @indexed }"


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


@pytest.mark.parametrize("kind", ["events", "connect"])
def test_no_cycles_of_followers(tmp_path: Path, kind: str) -> None:
    """They last for long: a collection that finds them once they are over visits everything that lives."""
    files = {"config.yaml": "rest: true\ngraphqlSchema: {files: '*.graphql'}\n", "schema.graphql": SCHEMA}
    with svc.testing.app(write_application(tmp_path / "things", files)) as app:
        follow = getattr(app, kind)

        def follow_and_leave() -> None:
            for address in ("/Product/1", "/Product/", "/Product/?price=gt=0&live()"):
                stream = follow(address)
                app.put("/Product/1", {"price": 1})
                stream.close()

        follow_and_leave()
        gc.collect()
        gc.disable()
        try:
            before = held()
            for _ in range(FOLLOWERS):
                follow_and_leave()
            app._instance.rest()
            assert held() == before
        finally:
            gc.enable()


def held() -> Counter[str]:
    names = (
        "EventPump",
        "SourceStream",
        "PushedBody",
        "Exchange",
        "Http1Connection",
        "WebSocket",
        "_SourceSender",
        "Subscription",
        "LiveQuery",
    )
    return Counter(name for each in gc.get_objects() if (name := type(each).__name__) in names)
