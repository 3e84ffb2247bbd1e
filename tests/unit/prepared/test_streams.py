"""Prepared reads on streams of HTTP/2: whatever else a connection says, it is told the same as without them."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from math import inf
from pathlib import Path
from typing import Any

import hpack
import pytest

from svc.connection.http2 import Http2Connection
from svc.connection.input_share import BATCH
from svc.prepared import streams
from tests.support.http2 import Client
from tests.support.http2_cases import (
    CASES,
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    GOAWAY,
    HEADERS,
    PADDED,
    PING,
    RST_STREAM,
    WHOLE,
    WINDOW_UPDATE,
    WITH_PRIORITY,
    frame,
    number,
    settings,
)
from tests.support.prepared_reads import authorization
from tests.support.prepared_streams import BesideStreams, Output, RawClient, same_output

Head = list[Any]


@pytest.fixture
def beside(tmp_path: Path) -> Iterator[BesideStreams]:
    made = BesideStreams(tmp_path)
    made.get("/Product/k1", authorization("root"))
    assert made.prepared_count == 1
    yield made
    made.prepare(True)
    made.close()


def head(path: str = "/Product/k1", *more: tuple[str, str], method: str = "GET", named: type = hpack.HeaderTuple) -> Head:
    fields = [(name.lower(), value) for name, value in authorization("root").items()]
    return [(":method", method), (":scheme", "http"), (":authority", "localhost"), named(":path", path), *fields, *more]


class Encoder:
    """Of one connection. `named`: how paths are coded."""

    def __init__(self, named: type = hpack.HeaderTuple, huffman: bool = True) -> None:
        self.hpack = hpack.Encoder()
        self._named = named
        self._huffman = huffman

    def get(self, stream_id: int, path: str = "/Product/k1", *more: tuple[str, str]) -> bytes:
        return frame(HEADERS, WHOLE, stream_id, self.block(path, *more))

    def block(self, path: str = "/Product/k1", *more: tuple[str, str], method: str = "GET") -> bytes:
        return self.hpack.encode(head(path, *more, method=method, named=self._named), self._huffman)


def encoders() -> list[Encoder]:
    return [Encoder(named, huffman) for named in (hpack.HeaderTuple, hpack.NeverIndexedHeaderTuple) for huffman in (True, False)]


def statuses(output: Output) -> dict[int, str]:
    return {stream_id: frames[0][1][0][1] for stream_id, frames in output.items() if stream_id and len(frames[0]) == 2}


def test_many_streams_in_one_read(beside: BesideStreams) -> None:
    for encoder in encoders():
        hits = beside.hits
        paths = ["/Product/k1", "/Product/k-2", "/Product/none", "/Product/K_3"]
        data = b"".join([encoder.get(2 * index + 1, paths[index % 4]) for index in range(100)])
        output = same_output(beside, data)
        assert [status for _, status in sorted(statuses(output).items())] == ["200", "200", "404", "200"] * 25
        assert beside.hits >= hits + 100


def test_more_streams_than_there_may_be(beside: BesideStreams) -> None:
    """In one turn, for those that are answered count until the answers are sent."""
    encoder = Encoder()
    told = []
    for is_prepared in (False, True):
        encoder = Encoder()
        data = b"".join([encoder.get(2 * index + 1) for index in range(130)])
        client = RawClient(beside, is_prepared)
        client.wire.arrive(data)
        beside.node.settle()
        told.append(client.output())
    assert set(statuses(told[1]).values()) == {"200"} and len(statuses(told[1])) >= 100


@pytest.mark.parametrize("index", range(4))
def test_cut_anywhere(beside: BesideStreams, index: int) -> None:
    encoder = encoders()[index]
    first = encoder.get(1) + encoder.get(3)
    whole = first + encoder.get(5, "/Product/k-2") + encoder.get(7)
    output = same_output(beside, whole)
    assert list(statuses(output).values()) == ["200"] * 4
    for at in range(1, len(whole)):
        hits = beside.hits
        assert same_output(beside, whole[:at], whole[at:]) == output, at
        assert beside.hits == hits + 4
    assert same_output(beside, *[bytes((byte,)) for byte in whole]) == output


@pytest.mark.parametrize("window", [0, 1, 10, 65535])
def test_windows(beside: BesideStreams, window: int) -> None:
    """An answer that does not fit waits as others do; the next ones are answered as before."""
    encoder = Encoder()
    opened = b"".join([frame(WINDOW_UPDATE, 0, stream_id, number(5)) for stream_id in (1, 3) for _ in range(40)])
    pieces = [
        encoder.get(1) + encoder.get(3) + encoder.get(5, "/Product/none"),
        opened,
        encoder.get(7),
        settings((4, 65535)),
        encoder.get(9) + encoder.get(11),
    ]
    output = same_output(beside, *pieces, first=settings((4, window)))
    assert list(statuses(output).values()) == ["200", "200", "404", "200", "200", "200"]
    assert all(frames[-1][1 if len(frames[-1]) == 3 else 0] & END_STREAM for stream_id, frames in output.items() if stream_id)


def test_the_window_of_the_connection(beside: BesideStreams) -> None:
    beside.put("Product", "large", {"name": "x" * 900})
    encoder = Encoder()
    told = []
    for is_prepared in (False, True):
        client, encoder = RawClient(beside, is_prepared), Encoder()
        for index in range(100):
            client.send(encoder.get(2 * index + 1, "/Product/large"))
        before = client.output()
        client.send(frame(WINDOW_UPDATE, 0, 0, number(1 << 20)))
        client.send(encoder.get(201, "/Product/large"))
        after = client.output()
        told.append((before, after))
        received = sum(
            [
                len(part[2])
                for output in (before, after)
                for frames in output.values()
                for part in frames
                if part[0] == DATA and len(part) == 3
            ]
        )
        assert received > 65535
    assert told[0] == told[1] and list(statuses(told[0][1]).values())[-1] == "200"


@pytest.mark.parametrize("sizes", [(0,), (0, 4096), (100, 50, 4096), (64,)])
def test_sizes_of_the_table(beside: BesideStreams, sizes: tuple[int, ...]) -> None:
    """Of that for requests, and of that for answers, in the middle."""
    encoder = Encoder()
    pieces, stream_id = [], 1
    for size in (4096, *sizes):
        encoder.hpack.header_table_size = size
        pieces.append(settings((1, size)))
        for _ in range(4):
            pieces.append(encoder.get(stream_id))
            stream_id += 2
    output = same_output(beside, *pieces)
    assert len(statuses(output)) == stream_id // 2


def test_frames_of_all_kinds(beside: BesideStreams) -> None:
    """Paddings, priorities, blocks in pieces, bodies, trailers, resets, in between and in one read."""
    encoder = Encoder()
    block = encoder.block

    def pieces() -> Iterator[bytes]:
        yield encoder.get(1)
        content = block()
        yield frame(HEADERS, WHOLE | PADDED, 3, bytes((5,)) + content + bytes(5))
        content = block()
        yield frame(HEADERS, WHOLE | WITH_PRIORITY, 5, number(0) + b"\x10" + content)
        content = block()
        yield (
            frame(HEADERS, END_STREAM, 7, content[:3])
            + frame(CONTINUATION, 0, 7, content[3:4])
            + frame(CONTINUATION, END_HEADERS, 7, content[4:])
        )
        yield encoder.get(9, "/Product/?limit(1)") + frame(RST_STREAM, 0, 9, number(8)) + encoder.get(11)
        yield frame(HEADERS, END_HEADERS, 13, block("/Product/other", method="PUT"))
        yield encoder.get(15) + frame(DATA, 0, 13, b'{"name":') + frame(PING, 0, 0, b"12345678") + encoder.get(17)
        yield frame(DATA, 0, 13, b'"b"}') + frame(HEADERS, WHOLE, 13, encoder.hpack.encode([("x-sum", "1")])) + encoder.get(19)
        yield frame(HEADERS, END_HEADERS, 21, block()) + frame(DATA, END_STREAM, 21, b"")
        yield encoder.get(23, "/Product/k1", ("x-other", "a")) + encoder.get(25) + encoder.get(27)
        yield frame(0x77, 0, 0, b"unknown") + encoder.get(29)

    told = list(pieces())
    hits = beside.hits
    one = same_output(beside, *told)
    assert beside.hits >= hits + 6
    assert {stream_id: one[stream_id] for stream_id in one if stream_id} == {
        stream_id: frames for stream_id, frames in same_output(beside, b"".join(told)).items() if stream_id
    }


def test_a_reset_in_the_same_read(beside: BesideStreams) -> None:
    """The answer is made before it is read, as if it had come later; so many of them end the connection as ever."""
    client, encoder = RawClient(beside, True), Encoder()
    client.send(encoder.get(1) + frame(RST_STREAM, 0, 1, number(8)) + encoder.get(3) + frame(WINDOW_UPDATE, 0, 1, number(5)))
    assert statuses(client.output()) == {1: "200", 3: "200"} and not client.is_closed
    floods = []
    for is_prepared in (False, True):
        client, encoder = RawClient(beside, is_prepared), Encoder()
        for index in range(400):
            client.send(encoder.get(2 * index + 1) + frame(RST_STREAM, 0, 2 * index + 1, number(8)))
        floods.append(([part for part in client.output()[0] if part[0] == GOAWAY], client.is_closed))
    assert floods[0] == floods[1] and floods[0][0]


@pytest.mark.parametrize("name", list(CASES))
def test_what_the_rules_demand(beside: BesideStreams, name: str) -> None:
    case = CASES[name]
    encoder = Encoder()
    same_output(beside, case.data)
    if case.stream_id == 1:
        same_output(beside, *[bytes((byte,)) for byte in case.data[:300]], case.data[300:])
    shifted = frame(PING, 0, 0, b"between!") + case.data
    same_output(beside, encoder.get((1 << 31) - 1), shifted)  # all its streams come too late


@pytest.mark.parametrize(
    "data",
    [
        b"\x82\x86\x84\xff\xff\xff\xff\xff\xff",
        b"\xbf\xc0\xc1\xc2\xc3\xc4\xc5\xc6",
        b"\xff\x00",
        b"\x82\x87\x44\x84\xff\xff\xff\xff",
        b"\x3f\xe2\x1f\x82",
    ],
)
def test_hostile_blocks(beside: BesideStreams, data: bytes) -> None:
    for encoder in encoders():
        output = same_output(beside, encoder.get(1) + encoder.get(3), frame(HEADERS, WHOLE, 5, data), encoder.get(7))
        assert any(part[0] == GOAWAY for part in output[0]) and statuses(output) == {1: "200", 3: "200"}
    for at in range(0, 40, 3):  # a block that goes wrong where another was expected
        for encoder in encoders():
            good = encoder.get(1) + encoder.get(3)
            block = bytearray(encoder.block())
            block[at % len(block)] ^= 0x41
            same_output(beside, good, frame(HEADERS, WHOLE, 5, bytes(block)), encoder.get(7))


def test_a_path_in_the_wrong_place(beside: BesideStreams) -> None:
    """It is the same set of fields."""
    encoder = Encoder()
    fields = head()
    fields.append(fields.pop(3))
    for _ in range(2):
        bad = frame(HEADERS, WHOLE, 3, encoder.hpack.encode(fields))
        output = same_output(beside, bad)
        assert statuses(output) == {3: "400"}
        encoder = Encoder()
    twice = frame(HEADERS, WHOLE, 3, encoder.hpack.encode([*head()[:4], *head()[3:]]))
    assert statuses(same_output(beside, Encoder().get(1), twice)) in ({1: "200", 3: "400"}, {1: "200"})


def test_the_peer_says_goodbye(beside: BesideStreams) -> None:
    encoder = Encoder()
    goodbye = frame(GOAWAY, 0, 0, number(0) + number(0))
    for pieces in ([encoder.get(1) + goodbye], [goodbye + Encoder().get(1)], [Encoder().get(1), goodbye, Encoder().get(3)]):
        same_output(beside, *pieces)


@pytest.mark.parametrize("asks_before", [False, True])
def test_a_server_that_stops(beside: BesideStreams, asks_before: bool) -> None:
    told = []
    for is_prepared in (False, True):
        encoder = Encoder()
        client = RawClient(beside, is_prepared)
        client.send(frame(HEADERS, END_HEADERS, 1, encoder.block("/Product/other", method="PUT")))
        if asks_before:
            client.send(encoder.get(3))
        client.connection.drain()
        beside.node.settle()
        client.send(encoder.get(5) + encoder.get(7))  # on its way before the peer has seen that
        client.send(frame(PING, 1, 0, b"drain-ok"))
        client.send(encoder.get(9))
        client.send(frame(DATA, END_STREAM, 1, b'{"name":"c"}'))
        beside.node.pass_time(3)
        told.append((client.output(), client.is_closed))
    assert told[0] == told[1] and told[0][1]


def test_a_peer_that_takes_little(beside: BesideStreams) -> None:
    client, encoder = RawClient(beside, True), Encoder()
    client.send(encoder.get(1))
    whole = client.output()[1]
    sock, connections = client.wire.sock, beside.node.connections
    hits = beside.hits
    sock.room = 10
    client.send(encoder.get(3))
    assert len(sock.sent) == 10 and connections.held > 0 and beside.hits == hits + 1
    sock.room = 5  # which the loop has not said yet
    client.send(frame(PING, 0, 0, b"12345678"))
    assert len(sock.sent) == 10
    sock.room = 0
    client.send(encoder.get(5))  # goes the general way, behind the rest of the first
    assert beside.hits == hits + 1
    sock.room = 1 << 20
    connections.loop.writers[sock]()
    beside.node.settle()
    output = client.output()
    assert output[3] == whole and output[5] == whole and connections.held == 0
    client.send(encoder.get(7))
    assert client.output()[7] == whole and beside.hits == hits + 2


def test_a_peer_that_takes_nothing_is_closed(beside: BesideStreams) -> None:
    client = RawClient(beside, True)
    client.wire.sock.room = 0
    client.send(Encoder().get(1))
    assert not client.is_closed
    beside.node.pass_time(200)
    assert client.is_closed and beside.node.connections.held == 0


def test_a_peer_that_has_gone(beside: BesideStreams, monkeypatch: pytest.MonkeyPatch) -> None:
    client, encoder = RawClient(beside, True), Encoder()

    def gone(data: bytes) -> int:
        raise ConnectionResetError

    monkeypatch.setattr(client.wire.sock, "send", gone)
    client.send(encoder.get(1) + encoder.get(3, "/nothing") + encoder.get(5))
    assert client.is_closed and not beside.node.errors


def test_an_idle_connection_ends_after_its_last_answer(beside: BesideStreams) -> None:
    client, encoder = RawClient(beside, True), Encoder()
    for index in range(3):
        beside.node.pass_time(20)
        client.send(encoder.get(2 * index + 1))
        assert not client.is_closed
    beside.node.pass_time(31)
    assert client.is_closed


def test_half_a_frame_must_be_complete_in_time(beside: BesideStreams) -> None:
    client, encoder = RawClient(beside, True), Encoder()
    client.send(encoder.get(1) + encoder.get(3)[:12])
    beside.node.pass_time(200)
    assert client.is_closed and statuses(client.output()) == {1: "200"}


def test_a_frame_that_has_become_complete_in_time(beside: BesideStreams) -> None:
    client, encoder = RawClient(beside, True), Encoder()
    data = encoder.get(1)
    client.send(data[:12])
    assert client.connection._head_deadline < inf
    client.send(data[12:])
    assert client.connection._head_deadline == inf and statuses(client.output()) == {1: "200"}


def test_what_is_counted_is_the_same(beside: BesideStreams) -> None:
    connections, recorder = beside.node.connections, beside.node.recorder
    found = []
    hits = beside.hits
    for is_prepared in (True, False):
        client, encoder = RawClient(beside, is_prepared), Encoder()
        recorder.close()
        before = connections.bytes_received, connections.bytes_sent
        client.send(encoder.get(1))
        client.send(encoder.get(3) + encoder.get(5, "/Product/none"))
        groups = {
            place: (group.durations, group.successes, group.statuses, group.sizes, group.transfers)
            for place, group in recorder._requests.items()
        }
        found.append((groups, connections.bytes_received - before[0], connections.bytes_sent - before[1]))
    assert found[0] == found[1] and ("Product", "GET") in found[0][0]
    assert beside.hits == hits + 3


def test_they_use_up_the_share_of_input(beside: BesideStreams) -> None:
    """As other requests do."""
    node, client, encoder = beside.node, RawClient(beside, True), Encoder()
    share, hits = node.connections.input, beside.hits
    client.wire.arrive(encoder.get(1))
    assert share.deadline and not share.is_over and beside.hits == hits + 1
    node.clock.advance(1.0)
    client.wire.arrive(encoder.get(3) + encoder.get(5))
    assert share.is_over and beside.hits == hits + 2
    node.settle()
    assert beside.hits == hits + 3 and set(statuses(client.output())) == {1, 3, 5}


def test_they_give_way_to_other_connections(beside: BesideStreams) -> None:
    client, encoder = RawClient(beside, True), Encoder()
    hits = beside.hits
    client.wire.arrive(b"".join([encoder.get(2 * index + 1) for index in range(3 * BATCH)]))
    assert beside.hits == hits + BATCH
    beside.node.settle()
    assert beside.hits == hits + 3 * BATCH and len(statuses(client.output())) == 3 * BATCH


def test_requests_are_not_overtaken(beside: BesideStreams) -> None:
    """What comes behind a request that is not prepared, in the same read, is left to the general path."""
    client, encoder = RawClient(beside, True), Encoder()
    hits = beside.hits
    client.send(encoder.get(1) + encoder.get(3, "/Product/?limit(1)") + encoder.get(5))
    assert beside.hits == hits + 1 and set(statuses(client.output())) == {1, 3, 5}


def test_a_listener_comes_first(beside: BesideStreams) -> None:
    node, hits = beside.node, beside.hits
    asked = []

    def listen(request, next):
        asked.append(request.pathname)
        return next(request)

    node.server.http(listen, run_first=True)
    beside.get("/Product/k1", authorization("root"))
    assert beside.hits == hits and len(asked) == 3


def test_their_number_is_bounded(beside: BesideStreams, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(beside.node.prepared.streams.reads, "_most", 8)
    for index in range(40):
        beside.get("/Product/k1", {**authorization("root"), "X-Number": str(index)})
    assert 0 < beside.prepared_count <= 16


def test_long_blocks_are_not_kept(beside: BesideStreams) -> None:
    count = beside.prepared_count
    for _ in range(4):
        beside.get("/Product/k1", {**authorization("root"), "X-Long": "x" * streams.FIELDS_MAX})
    assert beside.prepared_count == count


def test_long_keys(beside: BesideStreams) -> None:
    for length in (390, 399, 400, 401, 500):
        for _ in range(2):
            beside.get("/Product/" + "k" * length, authorization("root"))


def test_a_connection_with_a_certificate_is_not_asked(beside: BesideStreams) -> None:
    client, encoder = RawClient(beside, True), Encoder()
    client.connection.peer_certificate = object()
    hits, count = beside.hits, beside.prepared_count
    for index in range(4):
        client.wire.arrive(encoder.get(2 * index + 1, "/Brand/k1"))
        beside.node.settle()
    assert beside.hits == hits and beside.prepared_count == count


def test_nothing_waits_for_the_garbage_collector(beside: BesideStreams) -> None:
    gc.collect()
    gc.disable()
    try:
        client, encoder = RawClient(beside, True), Encoder()
        client.send(encoder.get(1) + encoder.get(3))
        client.connection.close_now()
        beside.node.settle()
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        assert not [each for each in gc.garbage if isinstance(each, Http2Connection)]
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


@pytest.mark.parametrize("beginning", [b"", b"/"])
def test_addresses_below_others(beside: BesideStreams, beginning: bytes) -> None:
    for path in ("/Product/k1", "/Product/x/k1", "//k1", "/k1", "/Product/k1/", "/Brand/k1", "/Product/k-2") * 2:
        beside.get(path, authorization("root"))


def test_a_client_that_asks_by_turns(beside: BesideStreams) -> None:
    client = Client(beside.node)
    paths = ("/Product/k1", "/Brand/k1")
    for path in paths:
        beside.get(path, authorization("root"))
        beside.get(path, authorization("reader"))
    beside.prepare(True)
    hits = beside.hits
    for _ in range(3):
        for path in paths:
            for user in ("root", "reader"):
                stream_id = client.request("GET", path, authorization(user))
                client.exchange_bytes()
                assert client.answers[stream_id].status == 200
    assert beside.hits == hits + 12
