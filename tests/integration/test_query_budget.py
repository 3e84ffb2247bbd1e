"""Queries that would cost too much: nested selections, related rows, sorts. Refused with the budget's name, or ended so that a client can tell."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import cbor2
import msgspec
import pytest

from svc.clock import FakeClock
from svc.query import budget
from svc.query.budget import QueryLimits
from tests.support.node import Node

pytestmark = pytest.mark.programs

PRODUCTS = 60


@pytest.fixture
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    node = Node(tmp_path_factory.mktemp("node"))
    wire = node.connect()
    rows = [{"id": f"{number:03}", "name": f"p{number}", "price": number, "stock": -number, "brandId": "b"} for number in range(PRODUCTS)]
    assert wire.ask("PUT", "/Brand/b", b'{"name":"n"}')[0] == 204
    assert wire.ask("POST", "/Product/", json.dumps(rows).encode())[0] == 201
    yield node
    assert node.errors == []
    node.close()


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "_limits", QueryLimits(related_rows=500))


def nested(levels: int) -> str:
    inner = "id"
    for _ in range(levels):
        inner = f"id,brand{{id,products{{{inner}}}}}"
    return f"select({inner})"


def body_of(answer: bytes) -> bytes:
    """The content of a chunked body."""
    content, rest = b"", answer
    while rest:
        size, _, rest = rest.partition(b"\r\n")
        content, rest = content + rest[: int(size, 16)], rest[int(size, 16) + 2 :]
    return content


@pytest.mark.parametrize(
    ("method", "target", "body"),
    [
        ("GET", f"/Product/?{nested(4)}", b""),
        ("GET", f"/Product/?{nested(4)}&limit(1)", b""),
        ("GET", f"/Product/001?{nested(4)}", b""),
        ("GET", f"/Product/.csv?{nested(4)}", b""),
        ("GET", f"/Product/.cbor?{nested(6)}", b""),
    ],
)
def test_selections_that_multiply_are_refused(node: Node, method: str, target: str, body: bytes) -> None:
    status, _, answer = node.connect().ask(method, target, body, {"Accept": "application/json"})
    assert status == 400, answer[:200]
    problem = msgspec.json.decode(answer) if answer[:1] == b"{" else cbor2.loads(answer)
    assert problem["code"] == "QUERY_TOO_LARGE"
    assert "5000000 related rows (query.maxRelatedRows)" in problem["detail"]


@pytest.mark.parametrize("extension", ["", ".cbor", ".msgpack"])
def test_heavy_rows_are_whole(node: Node, extension: str) -> None:
    """Two levels: 3,600 related records in each row, which are encoded in pieces."""
    status, fields, answer = node.connect().ask("GET", f"/Product/{extension}?{nested(2)}")
    assert status == 200
    content = body_of(answer) if fields.get("transfer-encoding") == "chunked" else answer
    rows = {"": json.loads, ".cbor": cbor2.loads, ".msgpack": msgspec.msgpack.decode}[extension](content)
    inner = [{"id": f"{number:03}"} for number in range(PRODUCTS)]
    middle = [{"id": f"{number:03}", "brand": {"id": "b", "products": inner}} for number in range(PRODUCTS)]
    assert rows == [{"id": f"{number:03}", "brand": {"id": "b", "products": middle}} for number in range(PRODUCTS)]


def test_a_heavy_record_alone_is_whole(node: Node) -> None:
    rows = [{"id": f"x{number}", "name": "x" * 50, "brandId": "c"} for number in range(6000)]
    wire = node.connect()
    assert wire.ask("PUT", "/Brand/c", b'{"name":"c"}')[0] == 204
    for at in range(0, 6000, 2000):
        assert wire.ask("POST", "/Product/", json.dumps(rows[at : at + 2000]).encode())[0] == 201
    status, fields, answer = wire.ask("GET", "/Brand/c?select(name,products{id})")
    content = body_of(answer) if fields.get("transfer-encoding") == "chunked" else answer
    assert status == 200
    assert {row["id"] for row in json.loads(content)["products"]} == {row["id"] for row in rows}


@pytest.mark.parametrize(
    ("target", "setting"),
    [
        (f"/Product/?{nested(2)}", "query.maxRelatedRows"),
        ("/Product/?price=ge=0&sort(-stock)", None),
        ("/Product/", None),
        ("/Product/?price=ge=0", None),
    ],
)
def test_the_budget_that_is_passed_is_named(node: Node, limits: None, target: str, setting: str | None) -> None:
    status, _, answer = node.connect().ask("GET", target)
    if setting is None:
        assert status == 200
    else:
        assert status == 400
        assert (json.loads(answer)["code"], f"({setting})" in json.loads(answer)["detail"]) == ("QUERY_TOO_LARGE", True)


def test_sorts_and_joins_count_what_they_hold(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "_limits", QueryLimits(bytes=10_000))
    wire = node.connect()
    assert "query.maxBytes" in json.loads(wire.ask("GET", "/Brand/?select(name,products{*})")[2])["detail"]
    assert "query.maxBytes" in json.loads(wire.ask("GET", "/Product/?price=ge=0&sort(-stock)")[2])["detail"]
    assert wire.ask("GET", "/Product/?price=ge=0&sort(-price)")[0] == 200  # the index has this order


def test_an_answer_that_has_begun_ends_with_the_error(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "_limits", QueryLimits(related_rows=9000))
    rows = [{"id": f"y{number}", "name": "y", "price": 1000, "brandId": "b" if number > 250 else "none"} for number in range(400)]
    wire = node.connect()
    assert wire.ask("POST", "/Product/", json.dumps(rows).encode())[0] == 201
    status, fields, answer = wire.ask("GET", "/Product/?price=1000&select(id,brand{id,products{id}})")
    assert (status, fields.get("transfer-encoding")) == (200, "chunked")
    found = json.loads(body_of(answer))
    assert found[0] == {"id": "y0"}
    assert found[-1]["error"].startswith("QueryTooLarge: ") and "query.maxRelatedRows" in found[-1]["error"]


def test_lists_that_multiply_in_groups_are_refused_before_they_do(node: Node) -> None:
    wire = node.connect()
    specs = {name: [f"{name}{number}" for number in range(2000)] for name in ("a", "b", "c")}
    assert wire.ask("PUT", "/Product/lists", json.dumps({"price": 5000, "specs": specs}).encode())[0] == 204
    status, _, answer = wire.ask("GET", "/Product/?price=5000&group(specs.a,specs.b,specs.c;count)")
    assert status == 400
    assert "more than 100000 different values" in json.loads(answer)["detail"]


def test_a_live_query_that_is_too_large_ends(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    client = node.connect()
    answer = client.send(
        f"GET /Product/?live()&price=lt=10&{nested(4)} HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n".encode()
    )
    assert answer.startswith(b"HTTP/1.1 200 ") and answer.endswith(b"0\r\n\r\n")
    assert [record.levelname for record in caplog.records if "live query" in record.message] == ["WARNING"]
    assert "query.maxRelatedRows" in caplog.text


class TickingClock(FakeClock):
    """A millisecond passes whenever it is looked at."""

    def __init__(self) -> None:
        super().__init__()
        self.monotonic = self._tick

    def _tick(self) -> float:
        self.advance(0.001)
        return self._monotonic


@pytest.mark.parametrize(
    "query", ["price=ge=0&sort(-stock)", "group(name;count,sum(stock))", "price=ge=0&select(id,brand{name})&sort(stock)"]
)
def test_the_time_of_a_query_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, query: str) -> None:
    node = Node(tmp_path, clock=TickingClock())
    wire = node.connect()
    for at in range(0, 4000, 1000):
        rows = [{"id": f"{number:05}", "name": f"p{number % 7}", "price": number, "stock": -number} for number in range(at, at + 1000)]
        assert wire.ask("POST", "/Product/", json.dumps(rows).encode())[0] == 201
    monkeypatch.setattr(budget, "_limits", QueryLimits(seconds=0.005))
    status, _, answer = wire.ask("GET", f"/Product/?{query}")
    assert (status, json.loads(answer)["code"]) == (400, "QUERY_TOO_LARGE")
    assert "takes more than 0.005 seconds of work (query.maxTime)" in json.loads(answer)["detail"]
    assert wire.ask("GET", "/Product/?limit(3)&sort(price)")[0] == 200  # the index has this order
    status, _, answer = wire.ask("GET", "/Product/")
    assert (status, len(json.loads(body_of(answer)))) == (200, 4000)  # however long: a plain scan is not limited
    assert node.errors == []
    node.close()
