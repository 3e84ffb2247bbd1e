"""Prepared reads on their connection: cut, pipelined, slow, many, ended."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from svc.prepared import requests
from svc.rest import RestOptions
from tests.support.prepared_reads import Beside, authorization


@pytest.fixture
def beside(tmp_path: Path) -> Iterator[Beside]:
    made = Beside(tmp_path)
    for _ in range(2):
        made.get("/Product/k1", authorization("root"))
    assert made.prepared_count == 1
    yield made
    made.close()


def request(path: str = "/Product/k1") -> bytes:
    fields = "".join(f"{name}: {value}\r\n" for name, value in authorization("root").items())
    return f"GET {path} HTTP/1.1\r\nHost: a.example\r\n{fields}\r\n".encode()


def test_cut_anywhere(beside: Beside) -> None:
    whole, wire = beside.get("/Product/k1", authorization("root")), beside.wires[0]
    beside.node.connections.prepared = beside.node.prepared
    for at in range(1, len(request())):
        wire.sock.sent = b""
        assert wire.send(request()[:at], request()[at:]) == whole, at


def test_several_at_once(beside: Beside) -> None:
    whole, wire = beside.get("/Product/k1", authorization("root")), beside.wires[0]
    beside.node.connections.prepared = beside.node.prepared
    for data, count in ((request() * 3, 3), (request() + request()[:10], 1), (request()[10:], 2)):
        wire.sock.sent = b"" if count != 2 else wire.sock.sent
        wire.send(data)
        assert wire.sock.sent == whole * count


def test_a_body_behind_it_is_the_next_request(beside: Beside) -> None:
    wire = beside.wires[0]
    wire.sock.sent = b""
    beside.node.connections.prepared = beside.node.prepared
    wire.send(request() + b"{}")
    wire.send(b"\r\n\r\n")
    assert wire.sock.sent.startswith(b"HTTP/1.1 200 ") and b"HTTP/1.1 400 " in wire.sock.sent


def test_a_peer_that_takes_little(beside: Beside) -> None:
    whole, wire = beside.get("/Product/k1", authorization("root")), beside.wires[0]
    connections, hits = beside.node.connections, beside.hits
    connections.prepared = beside.node.prepared
    wire.sock.sent, wire.sock.room = b"", 10
    assert wire.send(request()) == whole[:10] and beside.hits == hits + 1
    assert connections.held == len(whole) - 10
    wire.send(request("/Product/k-2"))  # what comes meanwhile goes the general way, behind the rest of the first
    assert beside.hits == hits + 1 and wire.sock.sent == whole[:10]
    wire.sock.room = 1 << 20
    connections.loop.writers[wire.sock]()
    beside.node.settle()
    assert wire.sock.sent.startswith(whole) and wire.sock.sent.count(b"HTTP/1.1 200 ") == 2
    assert connections.held == 0
    wire.sock.sent = b""
    assert wire.send(request()) == whole and beside.hits == hits + 2


def test_a_peer_that_takes_nothing_is_closed(beside: Beside) -> None:
    wire = beside.wires[0]
    beside.node.connections.prepared = beside.node.prepared
    wire.sock.room = 0
    wire.send(request())
    assert not wire.connection.closed
    beside.node.pass_time(200)
    assert wire.connection.closed and beside.node.connections.held == 0


def test_a_peer_that_has_gone(beside: Beside, monkeypatch: pytest.MonkeyPatch) -> None:
    wire = beside.wires[0]
    beside.node.connections.prepared = beside.node.prepared

    def gone(data: bytes) -> int:
        raise ConnectionResetError

    monkeypatch.setattr(wire.sock, "send", gone)
    wire.send(request())
    assert wire.connection.closed


def test_a_server_that_stops(beside: Beside) -> None:
    beside.node.connections.prepared = beside.node.prepared
    hits = beside.hits
    beside.node.connections.drain()
    beside.node.settle()
    assert all(wire.connection.closed for wire in beside.wires) and beside.hits == hits


def test_an_idle_connection_ends_after_its_last_answer(beside: Beside) -> None:
    wire = beside.wires[0]
    beside.node.connections.prepared = beside.node.prepared
    for _ in range(3):
        beside.node.pass_time(20)
        wire.send(request())
        assert not wire.connection.closed
    beside.node.pass_time(31)
    assert wire.connection.closed


def test_what_is_counted_is_the_same(beside: Beside) -> None:
    connections, recorder = beside.node.connections, beside.node.recorder
    found = []
    for wire, prepared in ((beside.wires[0], beside.node.prepared), (beside.wires[1], None)):
        connections.prepared = prepared
        before = connections.bytes_received, connections.bytes_sent
        recorder.close()
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
    """As other requests do."""
    node = beside.node
    node.connections.prepared = node.prepared
    share = node.connections.input
    wire = beside.wires[0]
    wire.sock.incoming.append(request())
    wire.connection.on_readable()
    assert share.deadline and not share.is_over
    node.clock.advance(1.0)
    wire.sock.incoming.append(request())
    wire.connection.on_readable()
    assert share.is_over
    hits = beside.hits
    wire.sock.incoming.append(request())
    wire.connection.on_readable()
    assert beside.hits == hits  # it is in line
    node.settle()
    assert beside.hits == hits + 1


def test_their_number_is_bounded(beside: Beside, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(beside.node.prepared.reads, "_most", 8)
    for number in range(40):
        for _ in range(3):
            beside.get("/Product/k1", {**authorization("root"), "X-Number": str(number)})
    assert 0 < len(beside.node.prepared.reads.values()) <= 16
    hits = beside.hits
    beside.get("/Product/k1", {**authorization("root"), "X-Number": "39"})
    assert beside.hits == hits + 1


def test_long_header_blocks_are_not_kept(beside: Beside) -> None:
    count = len(beside.node.prepared.reads.values())
    for _ in range(4):
        beside.get("/Product/k1", {**authorization("root"), "X-Long": "x" * requests.PLACE_MAX})
    assert len(beside.node.prepared.reads.values()) == count


def test_a_listener_comes_first(beside: Beside) -> None:
    node = beside.node
    node.connections.prepared = node.prepared
    hits = beside.hits
    asked = []

    def listen(request, next):
        asked.append(request.pathname)
        return next(request)

    node.server.http(listen, run_first=True)
    beside.get("/Product/k1", authorization("root"))
    assert beside.hits == hits and len(asked) == 3


def test_a_record_is_read_as_of_the_turn(beside: Beside) -> None:
    for number in range(3):
        beside.put("Product", "k1", {"name": f"n{number}"})
        hits = beside.hits
        assert f'"n{number}"'.encode() in beside.get("/Product/k1", authorization("root"))
        assert beside.hits == hits + 1


def test_the_first_request_of_a_connection(beside: Beside) -> None:
    whole, hits = beside.get("/Product/k1", authorization("root")), beside.hits
    beside.connect()
    assert beside.get("/Product/k1", authorization("root")) == whole and beside.hits == hits + 1


def test_http2_does_not_begin_behind_it(beside: Beside) -> None:
    beside.node.connections.http2 = True
    beside.connect()
    answers = []
    for wire, prepared in zip(beside.wires, (beside.node.prepared, None), strict=True):
        beside.node.connections.prepared = prepared
        wire.send(request())
        wire.sock.sent = b""
        answers.append(wire.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))
    assert answers[0] == answers[1] and answers[0].startswith(b"HTTP/1.1 ")


def test_a_connection_that_asks_by_turns(beside: Beside) -> None:
    """What has answered the last request is tried first, and is not the only one."""
    paths = ("/Product/k1", "/Brand/k1")
    for path in paths * 2:
        beside.get(path, authorization("root"))
        beside.get(path, authorization("reader"))
    hits = beside.hits
    for number in range(1, 4):
        for path in paths:
            beside.get(path, authorization("root"))
            beside.get(path, authorization("reader"))
        assert beside.hits == hits + 4 * number


def test_what_has_ended_is_made_anew(beside: Beside) -> None:
    """At the next answer of the general path, for each connection."""
    for number in range(3):
        beside.connect()
        beside.get("/Product/k1", authorization("root"))
        beside.node.rest.configure(RestOptions(pages=number % 2 == 0), login=True)
        hits = beside.hits
        beside.get("/Product/k1", authorization("root"))
        assert beside.hits == hits
        beside.get("/Product/k1", authorization("root"))
        assert beside.hits == hits + 1


def test_many_connections_at_one_place(beside: Beside) -> None:
    """Each learns of what has been prepared for it meanwhile, whatever it has found there itself."""
    node, fields = beside.node, {**authorization("root"), "X-New": "a"}
    lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    data = f"GET /Product/k1 HTTP/1.1\r\nHost: a.example\r\n{lines}\r\n".encode()
    node.connections.prepared = node.prepared
    wires = [node.connect() for _ in range(20)]
    for wire in wires:  # nothing is kept for others
        wire.send(data.replace(b"k1", b"none"))
    for wire in wires[:2]:
        wire.send(data)
    for wire in wires:
        wire.sock.sent = b""
    hits = beside.hits
    for number, wire in enumerate(wires, 1):
        assert wire.send(data).startswith(b"HTTP/1.1 200 ") and beside.hits == hits + number


def test_what_is_refused_is_known_to_its_connection_alone(beside: Beside) -> None:
    kept = beside.node.prepared.reads.values()
    for number in range(20):
        beside.get("/Product/k1", {"X-Number": str(number)})
    assert beside.node.prepared.reads.values() == kept


def test_what_declines_is_not_made_again_and_again(beside: Beside, monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    prepare = beside.node.prepared._record_reads.prepare
    monkeypatch.setattr(beside.node.prepared._record_reads, "prepare", lambda *args: made.append(args) or prepare(*args))
    beside.put("Product", "k1", {"contentType": "text/plain", "data": "text"})
    for _ in range(5):
        beside.get("/Product/k1", authorization("root"))
    assert not made
    for _ in range(9):
        beside.get("/Product/k1?", authorization("root"))
        beside.get("/Fleeting/k1", {**authorization("root"), "Cookie": "a=b"})
    assert len(made) <= 4


@pytest.mark.parametrize(
    "head", [b"", b" HTTP/1.1\r\nHost: a\r\n\r\n", b' HTTP/1.1\r\nIf-None-Match: "short"\r\n\r\n', b'\r\nIf-None-Match: "']
)
def test_no_tag_to_cut(head: bytes) -> None:
    assert requests.cut_tag(head) == (b"", b"", head)


def test_the_date_is_that_of_the_turn(beside: Beside) -> None:
    node = beside.node
    node.connections.prepared = node.prepared
    wire, hits = beside.wires[0], beside.hits
    for second in ("00", "01", "02"):
        node.connections.date = lambda text=f"Thu, 01 Jan 2026 00:00:{second} GMT": text
        for _ in range(2):
            wire.sock.sent = b""
            assert f"\r\nDate: Thu, 01 Jan 2026 00:00:{second} GMT\r\n".encode() in wire.send(request())
    assert beside.hits == hits + 6
