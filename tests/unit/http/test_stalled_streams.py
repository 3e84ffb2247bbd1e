"""Streamed collections of a whole node on fake sockets: what a client that stops reading, or goes away, costs (spec: http §8, schema-and-store §8.11)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import lmdb
import pytest

from svc.clock import FakeClock
from svc.connection.bodies import HIGH_WATER
from svc.http.row_stream import QueryExecution
from svc.store.schema import Attribute
from svc.store.snapshots import IDLE, SnapshotLimits
from svc.store.writing.bulk_write import load_records
from tests.support.fakes import TickingClock
from tests.support.node import Node, Wire
from tests.support.snapshots import reader_slots

SCHEMA = "type Note @table @export { id: ID @primaryKey  n: Int @indexed  text: String }"
COUNT = 6000
RECORD_BYTES = 230


def make_node(path: Path, clock: FakeClock) -> Node:
    app = path / "app"
    app.mkdir()
    (app / "schema.graphql").write_text(SCHEMA)
    node = Node(path / "store", app, clock)
    table = node.store.databases["data"].tables["Note"]
    for _ in load_records(table, ({"id": f"n{number:05}", "n": number, "text": "x" * 200} for number in range(COUNT))):
        pass
    return node


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    node = make_node(tmp_path_factory.mktemp("stalled"), FakeClock())
    yield node
    node.close()


@pytest.fixture
def node(filled: Node) -> Iterator[Node]:
    yield filled
    assert filled.store.databases["data"].env.open_snapshots() == 0 and len(filled.store.snapshots) == 0
    assert not filled.errors


def ask(node: Node, room: int, target: str = "/Note/", accept: str = "application/json") -> Wire:
    """A client that has asked and takes `room` bytes of the answer."""
    wire = node.connect()
    wire.sock.room = room
    wire.send(f"GET {target} HTTP/1.1\r\nHost: localhost\r\nAccept: {accept}\r\n\r\n".encode())
    return wire


def take(node: Node, wire: Wire, room: int) -> None:
    """The client reads on."""
    wire.sock.room = room
    writer = node.connections.loop.writers.get(wire.sock)  # type: ignore[attr-defined]
    if writer is not None:
        writer()
    while node.turn():
        pass


def body_of(sent: bytes) -> bytes:
    """Without head and chunk lines; what came last may be incomplete."""
    rest = sent.partition(b"\r\n\r\n")[2]
    body = b""
    while rest:
        size, _, rest = rest.partition(b"\r\n")
        length = int(size, 16)
        body, rest = body + rest[:length], rest[length + 2 :]
    return body


def test_no_more_is_read_than_the_client_takes(node: Node) -> None:
    wire = ask(node, room=10_000)
    assert wire.connection._pending < HIGH_WATER + 128 * RECORD_BYTES * 2
    before = wire.connection._pending
    for _ in range(20):
        node.turn()
    assert wire.connection._pending == before, "it went on although nobody reads"
    most = 0
    while wire.connection._sending is not None:
        take(node, wire, 50_000)
        most = max(most, wire.connection._pending)
    assert most < HIGH_WATER + 128 * RECORD_BYTES * 2
    take(node, wire, 1 << 30)
    assert len(json.loads(body_of(wire.sock.sent))) == COUNT
    wire.connection.close_now()


def test_a_client_that_goes_away_lets_go_of_its_snapshot_at_once(node: Node) -> None:
    wires = []
    for number in range(3):
        change_note(node, number)
        wires.append(ask(node, room=10_000))
    env = node.store.databases["data"].env
    assert env.open_snapshots() == 3
    for left, wire in zip((2, 1, 0), wires, strict=True):
        wire.connection.close_now()
        assert env.open_snapshots() == left


def change_note(node: Node, number: int) -> None:
    """Another state of the database."""
    assert node.connect().ask("PUT", "/Note/n05999", json.dumps({"n": 5999, "text": f"{number:0200}"}).encode())[0] == 204


STALLED = (
    ("/Note/", "application/json"),
    ("/Note/?n=ge=0", "application/cbor"),
    ("/Note/?select(id,text)", "text/csv"),
    ("/Note/?sort(-n)", "application/json"),
    ("/Note/?n=ge=0&sort(text)", "application/json"),
)


def test_answers_of_one_state_share_a_reader_slot(node: Node) -> None:
    env = node.store.databases["data"].env
    before = reader_slots(env)
    wires = [ask(node, 100, *STALLED[number % len(STALLED)]) for number in range(60)]
    assert reader_slots(env) <= before + 2, "one for all of them, one for the turn"
    for wire in wires:
        take(node, wire, 1 << 30)
        assert wire.sock.sent.startswith(b"HTTP/1.1 200 ") and wire.sock.sent.endswith(b"0\r\n\r\n")
        wire.connection.close_now()
    assert reader_slots(env) <= before + 2


@pytest.mark.parametrize(("target", "accept"), STALLED)
def test_answers_beyond_the_bound_go_on_in_other_snapshots(
    node: Node, target: str, accept: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Each with all records; the slots that are taken are bounded, and so are the lines in the log."""
    monkeypatch.setattr(node.store.snapshots, "limits", SnapshotLimits(most=3))
    env = node.store.databases["data"].env
    whole = ask(node, 1 << 30, target, accept)
    length = len(body_of(whole.sock.sent))
    whole.connection.close_now()
    before = reader_slots(env)
    wires = []
    for number in range(12):
        change_note(node, number)
        wires.append(ask(node, 100, target, accept))
        assert reader_slots(env) <= before + 4 and len(node.store.snapshots) <= 3
        assert node.connect().ask("GET", "/Note/n00007")[0] == 200
    for wire in wires:
        take(node, wire, 1 << 30)
        assert len(body_of(wire.sock.sent)) == length
        wire.connection.close_now()
    assert reader_slots(env) <= before + 4
    assert caplog.text.count("is given up") <= 1 >= caplog.text.count("continues with the current data"), (
        "a line a second, and the clock stands"
    )


def test_a_read_does_without_a_free_slot(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever has taken all slots: what is held for a stream goes first."""
    env = node.store.databases["data"].env
    wire = ask(node, 100)
    env.end_snapshot()
    taken = []
    with pytest.raises(lmdb.ReadersFullError):
        while True:
            taken.append(env._env.begin())
    try:
        assert node.connect().ask("GET", "/Note/n00007")[0] == 200
    finally:
        taken.clear()
    take(node, wire, 1 << 30)
    assert len(json.loads(body_of(wire.sock.sent))) == COUNT
    wire.connection.close_now()


def take_snapshot_away(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    node.clock.advance(IDLE - 1)
    assert node.store.snapshots.abort_due() == 0
    node.clock.advance(1)
    assert node.store.snapshots.abort_due() == 1
    assert node.store.databases["data"].env.open_snapshots() == 0
    assert "was not read for" in caplog.text and "the answer to GET /Note/" in caplog.text and "at 127.0.0.1" in caplog.text


@pytest.mark.parametrize(
    "target",
    [
        "/Note/",
        "/Note/?n=ge=0",
        "/Note/?n=ge=0&select(id,text)",
        "/Note/?sort(n)",
        "/Note/?sort(-n)",
        "/Note/?n=ge=0&sort(text)",
        "/Note/?sort(-id)",
    ],
)
def test_the_answer_goes_on_with_another_snapshot(node: Node, target: str, caplog: pytest.LogCaptureFixture) -> None:
    """Where the rows have an order, or are in memory already."""
    wire = ask(node, 1 << 30, target)
    expected = json.loads(body_of(wire.sock.sent))
    wire.connection.close_now()
    wire = ask(node, 10_000, target)
    take_snapshot_away(node, caplog)
    take(node, wire, 500_000)
    take_snapshot_away(node, caplog)
    take(node, wire, 1 << 30)
    assert json.loads(body_of(wire.sock.sent)) == expected
    wire.connection.close_now()


def test_an_answer_without_order_ends_with_an_error(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    wire = ask(node, 10_000, "/Note/?n=ge=3000|id=gt=n00000")
    take_snapshot_away(node, caplog)
    take(node, wire, 1 << 30)
    rows = json.loads(body_of(wire.sock.sent))
    assert 100 < len(rows) < COUNT
    assert rows[-1] == {"error": "SnapshotLost: The result was not read for 30 seconds, its snapshot was given up"}
    assert all("id" in row for row in rows[:-1])
    wire.connection.close_now()


def test_an_answer_ends_with_an_error_if_the_definitions_have_changed(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    wire = ask(node, 10_000)
    take_snapshot_away(node, caplog)
    database = node.store.databases["data"]
    table = database.tables["Note"]
    database.define_table(replace(table.definition, attributes=(*table.definition.attributes, Attribute("more"))))
    take(node, wire, 1 << 30)
    assert "SnapshotLost" in json.loads(body_of(wire.sock.sent))[-1]["error"]
    wire.connection.close_now()


def test_an_answer_that_has_told_its_length_breaks_off(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    """MessagePack begins with the number of rows: with other rows it would be no document, and an error has no place in it."""
    wire = ask(node, 10_000, accept="application/x-msgpack")
    while not wire.sock.sent:
        node.turn()
    take_snapshot_away(node, caplog)
    take(node, wire, 1 << 30)
    assert wire.connection.closed and not wire.sock.sent.endswith(b"0\r\n\r\n")
    assert b"\r\n\r\n\r\n" not in wire.sock.sent
    node.errors.clear()


def test_a_client_that_reads_slowly_keeps_it(node: Node) -> None:
    wire = ask(node, 10_000)
    while wire.connection._sending is not None:
        node.clock.advance(IDLE / 2)
        assert node.store.snapshots.abort_due() == 0
        take(node, wire, HIGH_WATER)
    take(node, wire, 1 << 30)
    assert len(json.loads(body_of(wire.sock.sent))) == COUNT
    wire.connection.close_now()


@pytest.mark.parametrize("query", ["n=ge=0&text=nothing", "n=ge=0&sort(text)&limit(1)"])
def test_a_long_search_gives_way(tmp_path: Path, query: str) -> None:
    """Others are answered while it runs, also when it finds nothing; its end is the end of its snapshot."""
    node = make_node(tmp_path, TickingClock(looks_a_slice=4))
    searching, reading = node.connect(), node.connect()
    try:
        searching.sock.incoming.append(f"GET /Note/?{query} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        node.connections.loop.readers[searching.sock]()  # type: ignore[attr-defined]
        answered = 0
        while not searching.sock.sent:
            reading.sock.incoming.append(b"GET /Note/n00007 HTTP/1.1\r\nHost: localhost\r\n\r\n")
            node.connections.loop.readers[reading.sock]()  # type: ignore[attr-defined]
            node.turn()
            answered += 1
            assert reading.sock.sent.count(b"HTTP/1.1 200 OK") == answered < 10_000
        assert answered > 3
        while node.turn():
            pass
        assert node.store.databases["data"].env.open_snapshots() == 0
    finally:
        node.close()
    assert not node.errors


def test_a_long_search_ends_with_its_client(tmp_path: Path) -> None:
    node = make_node(tmp_path, TickingClock(looks_a_slice=4))
    searching = node.connect()
    try:
        searching.sock.incoming.append(b"GET /Note/?n=ge=0&text=nothing HTTP/1.1\r\nHost: localhost\r\n\r\n")
        node.connections.loop.readers[searching.sock]()  # type: ignore[attr-defined]
        for _ in range(3):
            node.turn()
        assert not searching.sock.sent and node.store.databases["data"].env.open_snapshots() == 1
        searching.connection.close_now()
        node.turn()
        node.turn()
        assert node.store.databases["data"].env.open_snapshots() == 0 and not node.turn()
    finally:
        node.close()
    assert not node.errors


def test_many_long_searches_share_the_slices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten of them delay others no longer than one does."""
    node = make_node(tmp_path, TickingClock(looks_a_slice=4))
    slices: list[QueryExecution] = []
    gather = QueryExecution.gather

    def gather_one(self: QueryExecution) -> bool:
        slices.append(self)
        return gather(self)

    monkeypatch.setattr(QueryExecution, "gather", gather_one)
    wires = [node.connect() for _ in range(10)]
    try:
        for wire in wires:
            wire.sock.incoming.append(b"GET /Note/?n=ge=0&text=nothing HTTP/1.1\r\nHost: localhost\r\n\r\n")
            node.connections.loop.readers[wire.sock]()  # type: ignore[attr-defined]
        while node.connections.input.line:  # until all have begun
            node.turn()
        while not all(wire.sock.sent for wire in wires):
            slices.clear()
            node.turn()
            assert len(slices) <= 1
        while node.turn():
            pass
    finally:
        node.close()
    assert not node.errors
