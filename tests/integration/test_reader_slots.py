"""Every read gives its LMDB reader slot back at once, not with a garbage collection: there are a thousand slots for all processes."""

from __future__ import annotations

import gc
import json
from collections.abc import Iterator
from typing import Any

import pytest

from svc.errors import Problem
from svc.store.database import Database
from tests.support.node import Node
from tests.support.operations import OperationsNode
from tests.support.snapshots import reader_slots
from tests.unit.operations.test_searches import fill

pytestmark = pytest.mark.programs

QUERIES = 5_000


JSON = "application/json"

GETS = (
    "/Product/1",
    "/Product/none",
    "/Product/",
    "/Product/?price=gt=10",
    "/Product/?price=gt=10&limit(5)",
    "/Product/?price=gt=10&sort(-name)",
    "/Product/?price=gt=10&sort(-stock)",
    "/Product/?sort(name)",
    "/Product/?price=gt=30|name=p1",
    "/Product/?tags=a&tags=b",
    "/Product/?tags=a|tags=b",
    # relationships: as a condition, selected, in the sort, through several of them
    "/Product/?brand.name=n1",
    "/Brand/?products.price=gt=10",
    "/Brand/?products.stock=gt=10",
    "/Product/?price=ge=1&sort(-name)&select(name,brand{name})",
    "/Product/?price=gt=10&sort(brand.name)",
    "/Brand/?products[price=gt=10&sort(-price)&limit(2)]&select(name,products{name})",
    "/Brand/?select(name,products[price=gt=10&sort(-price)&limit(2)&select(name)])",
    "/Brand/b1?select(name,products{name,brand{products{name}}})",
    "/Product/1?select(name,brand{name})",
    "/Product/1.brand",
    "/Product/1.price",
    # aggregates
    "/Product/?count()",
    "/Product/?price=gt=4&count()",
    "/Product/?brand.name=n1&count()",
    "/Product/?facet(name)",
    "/Product/?group(name;count,sum(price))",
    "/Product/?group(brand.name;count,sum(price))",
    "/Product/?group(;min(price),max(price))",
    "/Product/?price=gt=3&group(brandId;avg(stock))",
    "/Brand/?products.price=gt=1&facet(name)",
    # refused
    "/Product/?stock=1",
    "/Product/?stock=1&count()",
    "/Product/?brand.nope=n1&count()",
    "/Product/?brand=b1",
    "/Product/?sort(brand.name)",
    "/Product/?nope=1",
    "/Product/?price=x",
    "/Product/?name==*a",
    "/Product/?limit(5)&after(x)",
    "/Product/?((((",
    # other types
    "/Product/.csv?price=gt=1",
    "/Product/.msgpack?price=gt=1",
    "/Product/.cbor?select(name,brand{name})",
    "/Product",
    "/openapi",
)
BODIES: tuple[tuple[str, str, object], ...] = (
    ("QUERY", "/Product/", {"conditions": [{"attribute": ["brand", "name"], "value": "n1"}], "select": ["name"]}),
    ("QUERY", "/Product/", {"conditions": [{"attribute": "stock", "value": 1}]}),
    ("QUERY", "/Product/", {"conditions": [{"attribute": "price", "value": 1}], "explain": True}),
    ("QUERY", "/Product/", {"nope": 1}),
    ("DELETE", "/Product/?stock=1000", None),
    ("DELETE", "/Product/?brand.name=nobody", None),
    ("PUT", "/Product/1", {"name": 5}),
    ("POST", "/Product/", [{"id": "1"}]),
)
PREFERENCES = (None, "explain", "count=exact")


@pytest.fixture
def no_garbage_collection() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.fixture
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    yield from filled_node(tmp_path_factory, count=50)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """For tests that change no more than a value of one record."""
    yield from filled_node(tmp_path_factory, count=50)


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """One that answers with more than a turn brings, for tests that change nothing."""
    yield from filled_node(tmp_path_factory, count=1550, repeats=50)


def filled_node(tmp_path_factory: pytest.TempPathFactory, count: int, repeats: int = 1) -> Iterator[Node]:
    """One with so many products, whose names are as long as `repeats` short ones."""
    node = Node(tmp_path_factory.mktemp("node"))
    wire = node.connect()
    brands = [{"id": f"b{number}", "name": f"n{number}"} for number in range(5)]
    products: list[dict[str, Any]] = [
        {"id": str(n), "name": f"p{n}" * repeats, "price": n, "stock": n, "brandId": f"b{n % 5}", "tags": ["a", "b"]} for n in range(count)
    ]
    assert wire.ask("POST", "/Brand/", json.dumps(brands).encode())[0] == 201
    assert wire.ask("POST", "/Product/", json.dumps(products).encode())[0] == 201
    yield node
    node.close()


def data(node: Node) -> Database:
    return node.store.databases["data"]


def fields(preference: str | None) -> dict[str, str]:
    return {"Content-Type": JSON} if preference is None else {"Content-Type": JSON, "Prefer": preference}


def test_slots_over_queries_of_every_kind(node: Node, no_garbage_collection: None) -> None:
    wire = node.connect()
    kinds = [("GET", target, b"", fields(preference)) for target in GETS for preference in PREFERENCES]
    kinds += [(method, target, b"" if body is None else json.dumps(body).encode(), fields(None)) for method, target, body in BODIES]
    for kind in kinds:  # fills caches
        wire.ask(*kind)
    gc.collect()
    before = reader_slots(data(node).env)
    for number in range(QUERIES):
        kind = kinds[number % len(kinds)]
        status = wire.ask(*kind)[0]
        assert status < 500
        assert reader_slots(data(node).env) <= before, kind
    assert not node.errors


def abandoned(node: Node, target: str) -> None:
    """A client that takes 100 bytes of the answer and is gone after a turn."""
    client = node.connect()
    client.sock.room = 100
    client.sock.incoming.append(f"GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    readers = node.connections.loop.readers
    readers[client.sock]()
    node.turn()
    client.sock.incoming.append(ConnectionResetError())
    if client.sock in readers:
        readers[client.sock]()
    node.settle()


def subscribed(node: Node, target: str) -> None:
    """A client that hears of one change and goes."""
    client = node.connect()
    answer = client.send(f"GET {target} HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n".encode())
    assert answer.startswith(b"HTTP/1.1 200 "), answer[:200]
    assert node.connect().ask("PATCH", "/Product/1", b'{"stock":5}')[0] == 204
    client.send(b"")
    client.sock.incoming.append(ConnectionResetError())
    if client.sock in node.connections.loop.readers:
        node.connections.loop.readers[client.sock]()
    node.settle()


@pytest.mark.parametrize(
    "target",
    [
        "/Product/",
        "/Product/?price=ge=0&select(name,brand{name})",
        "/Product/?price=ge=0&sort(-stock)",
        "/Product/?price=ge=0&group(stock;count)",
        "/Brand/?select(name,products{name,brand{name}})",
    ],
)
def test_slots_of_clients_that_went_away(large: Node, no_garbage_collection: None, target: str) -> None:
    abandoned(large, target)
    gc.collect()
    before = reader_slots(data(large).env)
    for _ in range(20):
        abandoned(large, target)
    assert reader_slots(data(large).env) <= before
    assert len(large.store.snapshots) == 0


@pytest.mark.parametrize(
    "target",
    [
        "/Product/1",
        "/Product/",
        "/Product/?live()&price=lt=10",
        "/Product/?live()&price=lt=10&sort(-name)&limit(5)",
        "/Product/?live()&brand.name=n1&select(name,brand{name})",
        "/Product/?live()&count()&price=lt=5",
        "/Product/?live()&group(brand.name;count)&price=lt=400",
    ],
)
def test_slots_of_subscribers(shared: Node, no_garbage_collection: None, target: str) -> None:
    subscribed(shared, target)
    gc.collect()
    before = reader_slots(data(shared).env)
    for _ in range(20):
        subscribed(shared, target)
    assert reader_slots(data(shared).env) <= before


SEARCHES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("search_by_id", {"ids": [1, 2], "get_attributes": ["*"]}),
    ("search_by_value", {"attribute": "keeper.name", "value": "Ann", "get_attributes": ["name"]}),
    ("search_by_conditions", {"conditions": [{"attribute": ["keeper", "name"], "value": "Ann"}], "get_attributes": ["name"]}),
    ("search_by_conditions", {"conditions": [{"attribute": ["keeper", "nope"], "value": "Ann"}], "get_attributes": ["name"]}),
    ("search_by_conditions", {"query": "keeper.name=Ann&select(name,keeper{name})"}),
    ("search_by_conditions", {"query": "keeper.name=Ann&group(keeper.name;count)"}),
    ("search_by_conditions", {"query": "nope("}),
    ("describe_table", {}),
    ("update", {"records": [{"id": 1, "area": "x"}]}),
    ("delete", {"ids": [77]}),
    ("read_audit_log", {}),
)


def test_slots_over_operations(tmp_path_factory: pytest.TempPathFactory, no_garbage_collection: None) -> None:
    with OperationsNode(tmp_path_factory.mktemp("node")) as node:
        fill(node)
        environment = node.store.open_database("garden").env

        def run(name: str, members: dict[str, Any]) -> None:
            try:
                node.run(name, database="garden", table="bed", **members)
            except Problem as problem:
                assert problem.status_code < 500

        for search in SEARCHES:
            run(*search)
        gc.collect()
        before = reader_slots(environment)
        for number in range(20 * len(SEARCHES)):
            search = SEARCHES[number % len(SEARCHES)]
            run(*search)
            assert reader_slots(environment) <= before, search


def test_a_slot_is_counted(node: Node) -> None:
    environment = data(node).env
    before = reader_slots(environment)
    held = [environment.open_snapshot() for _ in range(20)]
    assert reader_slots(environment) >= before + 20 - 8  # some may have been kept for reuse
    for snapshot in held:
        snapshot.abort()
