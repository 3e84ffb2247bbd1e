"""Prepared lists on their connection: found by place and shape, cut, pipelined, beside records, bounded, declined."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from svc.prepared import list_reads, requests
from svc.query.list_rows import MOST_BYTES
from svc.resources import TableResource
from svc.store.system import SYSTEM, USER_TABLE
from svc.store.values.records import decode
from tests.support.prepared_reads import Beside, authorization

ROOT = authorization("root")


@pytest.fixture
def beside(tmp_path: Path) -> Iterator[Beside]:
    made = Beside(tmp_path)
    for number in range(12):
        made.put("Product", f"p{number}", {"name": f"n{number % 3}", "price": number / 2, "stock": number % 4, "brandId": "k1"})
    yield made
    made.close()


def prepare(beside: Beside, pattern: str = "name==?", fields: dict[str, str] = ROOT) -> None:
    """After two answers of the general path it is prepared."""
    hits = beside.hits
    for value in ("n0", "n1"):
        beside.get(f"/Product/?{pattern.replace('?', value)}", fields)
    assert beside.hits == hits


def is_hit(beside: Beside, query: str, fields: dict[str, str] = ROOT, table: str = "Product") -> bool:
    hits = beside.hits
    assert beside.get(f"/{table}/?{query}", fields).startswith(b"HTTP/1.1 200 ")
    return beside.hits > hits


def request(path: str = "/Product/?name==n2") -> bytes:
    fields = "".join(f"{name}: {value}\r\n" for name, value in ROOT.items())
    return f"GET {path} HTTP/1.1\r\nHost: a.example\r\n{fields}\r\n".encode()


def test_by_place_and_shape(beside: Beside) -> None:
    prepare(beside)
    assert is_hit(beside, "name==n2") and is_hit(beside, "name==none") and is_hit(beside, "name==a-b_c.d~e@f,g'h")
    assert not is_hit(beside, "name=n2"), "another shape"
    assert not is_hit(beside, "name==null"), "null is part of a shape"
    assert not is_hit(beside, "name==n2", {**ROOT, "X-Other": "a"}), "another header block"
    assert not is_hit(beside, "name==n2", table="Brand")


def test_values_that_are_not_plain(beside: Beside) -> None:
    beside.put("Product", "p100", {"name": "a b:c"})
    prepare(beside)
    for value in ("a%20b:c", "%6E2", "n:2"):
        assert is_hit(beside, f"name=={value}"), value
    hits = beside.hits
    for value in ("%zz", "%FF", "a b", "string:n2", "a+b", "n2#x", "%"):
        beside.get(f"/Product/?name=={value}", ROOT)
    assert beside.hits == hits


def test_several_shapes_of_one_place(beside: Beside) -> None:
    patterns = ["name==?", "name==?&sort(price)", "name==?&select(id,price)", "name==?&count()"]
    for pattern in patterns:
        prepare(beside, pattern)
    for pattern in patterns * 2:
        assert is_hit(beside, pattern.replace("?", "n2"))
    assert len(beside.node.prepared.lists.values()) == 1


def test_their_number_is_bounded(beside: Beside) -> None:
    names = ["id", "name", "price", "stock", "brandId"]
    patterns = [f"name==?&select({one},{other})" for one in names for other in names if one != other]
    for pattern in patterns:
        prepare(beside, pattern)
    assert [is_hit(beside, pattern.replace("?", "n2")) for pattern in patterns[-list_reads._SHAPES :]] == [True] * list_reads._SHAPES
    assert not is_hit(beside, patterns[0].replace("?", "n2"))


def test_the_number_of_places_is_bounded(beside: Beside) -> None:
    lists = beside.node.prepared.lists
    lists._most = 4
    for number in range(20):
        beside.get("/Product/?name==n0", {**ROOT, "X-Number": str(number)})
    assert len(lists.values()) <= 8


def test_shapes_that_are_counted_are_bounded(beside: Beside) -> None:
    for number in range(200):
        beside.get(f"/Product/?name==n0&limit(1,{number + 1})", ROOT)
    place = next(iter(beside.node.prepared.lists._young.values()))
    assert len(place._answers) <= list_reads._COUNTED


def test_cut_anywhere(beside: Beside) -> None:
    prepare(beside)
    whole, wire = beside.get("/Product/?name==n2", ROOT), beside.wires[0]
    beside.node.connections.prepared = beside.node.prepared
    for at in range(1, len(request())):
        wire.sock.sent = b""
        assert wire.send(request()[:at], request()[at:]) == whole, at


def test_several_at_once(beside: Beside) -> None:
    prepare(beside)
    whole, wire = beside.get("/Product/?name==n2", ROOT), beside.wires[0]
    beside.node.connections.prepared = beside.node.prepared
    wire.sock.sent = b""
    wire.send(request() * 3)
    assert wire.sock.sent == whole * 3


def test_beside_records_on_one_connection(beside: Beside) -> None:
    prepare(beside)
    for _ in range(2):
        beside.get("/Product/p1", ROOT)
    hits = beside.hits
    for _ in range(3):
        for path in ("/Product/p1", "/Product/?name==n1", "/Product/?name==n2", "/Product/p2"):
            beside.get(path, ROOT)
    assert beside.hits == hits + 12


def test_a_record_with_a_query_is_no_list(beside: Beside) -> None:
    for _ in range(4):
        for path in ("/Product/p1?select(name)", "/Product?name==n1", "/Product/p1?name==n1", "/?name==n1", "/Product/p/?name==n1"):
            beside.get(path, ROOT)
    assert not beside.hits


def test_too_many_and_too_long(beside: Beside) -> None:
    prepare(beside)
    for number in range(140):
        beside.put("Product", f"q{number:03}", {"name": "n5" if number < 127 else "n6"})
    assert is_hit(beside, "name==n5")
    beside.put("Product", "q127", {"name": "n5"})
    assert not is_hit(beside, "name==n5"), "its answer begins before all is found"
    beside.put("Product", "long", {"name": "n7", "specs": "".join(map(chr, range(0x4E00, 0x9FA5))) * 3})
    assert beside.node.store.databases["data"].tables["Product"].get_raw("long")[0] != 0x10 or MOST_BYTES < 187_000
    assert not is_hit(beside, "name==n7")


def test_what_is_declined_again_and_again_is_tried_now_and_then(beside: Beside, monkeypatch: pytest.MonkeyPatch) -> None:
    prepare(beside, "name==?&limit(2)")
    tried: list[Any] = []
    place = next(iter(beside.node.prepared.lists._young.values()))
    prepared = place._lists[0]
    read = prepared.read
    prepared.read = lambda *args: tried.append(args) or read(*args)
    for _ in range(100):
        assert not is_hit(beside, "name==n1&limit(2)")
    assert list_reads._PATIENCE < len(tried) < 20
    while not is_hit(beside, "name==none&limit(2)"):
        pass
    assert is_hit(beside, "name==none&limit(2)"), "one that is not declined makes it usual again"


def test_it_ends_with_what_it_rests_on(beside: Beside) -> None:
    prepare(beside)
    found = beside.node.store.databases[SYSTEM].tables[USER_TABLE]
    beside.put(USER_TABLE, "reader", {**decode(found.get_raw("reader")), "active": False}, SYSTEM)
    assert not is_hit(beside, "name==n2") and is_hit(beside, "name==n2"), "prepared again after one answer"


def test_what_is_counted_is_the_same(beside: Beside) -> None:
    prepare(beside)
    connections, recorder = beside.node.connections, beside.node.recorder
    found = []
    for wire, prepared in ((beside.wires[0], beside.node.prepared), (beside.wires[1], None)):
        connections.prepared = prepared
        before = connections.bytes_received, connections.bytes_sent
        recorder._requests.clear()
        wire.sock.sent = b""
        for _ in range(3):
            wire.send(request())
        groups = {
            place: (group.durations, group.successes, group.statuses, group.sizes, group.transfers)
            for place, group in recorder._requests.items()
        }
        found.append((groups, connections.bytes_received - before[0], connections.bytes_sent - before[1]))
    assert found[0] == found[1] and ("Product", "GET") in found[0][0]
    assert beside.hits >= 3


def test_they_use_up_the_share_of_input(beside: Beside) -> None:
    prepare(beside)
    node, wire = beside.node, beside.wires[0]
    node.connections.prepared = node.prepared
    share = node.connections.input
    for _ in range(2):
        wire.sock.incoming.append(request())
        wire.connection.on_readable()
        node.clock.advance(1.0)
    assert share.deadline and share.is_over


@pytest.mark.parametrize("step", ["on_search", "on_get", "planned", "authorize"])
def test_code_of_an_application_is_asked(beside: Beside, step: str) -> None:
    real = getattr(TableResource, step).__func__
    resource = beside.node.resources.find("/Product/", "rest")[0].resource
    setattr(resource, step, classmethod(lambda cls, *args, **options: real(cls, *args, **options)))
    for _ in range(4):
        assert not is_hit(beside, "name==n1")


def test_long_queries_and_blocks_are_not_kept(beside: Beside) -> None:
    for _ in range(4):
        beside.get(f"/Product/?name=={'n' * requests.QUERY_MAX}", ROOT)
        beside.get("/Product/?name==n1", {**ROOT, "X-Long": "a" * requests.PLACE_MAX})
    assert not beside.hits and len(beside.node.prepared.lists.values()) == 0
