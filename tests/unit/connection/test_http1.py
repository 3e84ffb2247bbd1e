"""The connection on a fake socket, a fake loop and a fake clock: order, limits, deadlines, flow control."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from svc.connection import Exchange
from svc.connection.bodies import HIGH_WATER
from svc.connection.http1 import ConnectionState
from svc.connection.intake import READ_AHEAD
from svc.errors import Problem
from svc.messages import Feed, FeedWriter, Response
from tests.support.connections import World

GET = b"GET /%d HTTP/1.1\r\nHost: a\r\n\r\n"


@pytest.fixture
def world() -> World:
    return World()


def test_a_request_is_answered_with_one_send_at_the_end_of_the_turn(world: World) -> None:
    world.sock.incoming.append(GET % 1)
    world.loop.readers[world.sock]()
    assert world.sock.sent == b""
    world.turn()
    assert world.bodies() == [b"/1"]
    assert world.connection.state is ConnectionState.IDLE
    assert len(world.application.done) == 1


def test_pipelined_requests_are_answered_in_order_though_the_first_waits(world: World) -> None:
    world.application.answer = lambda exchange: None if exchange.request.target == "/1" else Response(exchange.request.target.encode())
    world.receive(GET % 1 + GET % 2 + GET % 3)
    assert [e.request.target for e in world.application.handled] == ["/1"]
    world.application.handled[0].respond(Response(b"late"))
    while world.turn():
        pass
    assert world.bodies() == [b"late", b"/2", b"/3"]


def test_a_long_pipeline_is_spread_over_turns(world: World) -> None:
    world.sock.incoming.append(b"".join(GET % n for n in range(100)))
    world.loop.readers[world.sock]()
    assert len(world.application.handled) < 100
    while world.turn():
        pass
    assert world.bodies() == [b"/%d" % n for n in range(100)]


def test_a_request_cut_anywhere(world: World) -> None:
    world.receive(*[bytes([byte]) for byte in GET % 7])
    assert world.bodies() == [b"/7"]


def end_half(world: World) -> None:
    """The peer's FIN; the turn does not end."""
    world.sock.incoming.append(b"")
    world.loop.readers[world.sock]()


def test_half_close_after_a_request_that_is_answered_in_the_turn(world: World) -> None:
    world.application.answer = lambda exchange: None
    world.receive(GET % 1)
    end_half(world)
    assert not world.sock.closed
    world.application.handled[0].respond(Response(b"x"))
    world.turn()
    assert world.bodies() == [b"x"]
    assert world.sock.closed
    assert not world.connections.open


def test_half_close_while_a_handler_waits_cancels_it(world: World) -> None:
    world.application.answer = lambda exchange: None
    world.receive(GET % 1, b"")
    assert world.sock.closed and not world.sock.sent
    (exchange,) = world.application.cancels
    assert exchange.abandoned
    exchange.respond(Response(b"too late"))
    assert not world.turn() and not world.sock.sent


def test_half_close_does_not_cut_off_an_answer_that_is_made(world: World) -> None:
    world.sock.room = 1000
    world.application.answer = lambda exchange: Response(b"x" * 5000)
    world.receive(GET % 1, b"")
    assert not world.sock.closed
    world.writable()
    world.turn()
    assert world.bodies() == [b"x" * 5000]
    assert world.sock.closed


def test_half_close_behind_pipelined_requests(world: World) -> None:
    world.application.answer = lambda exchange: Response(b"x") if exchange.request.target != "/9" else None
    world.receive(b"".join(GET % number for number in range(10)), b"")
    while world.turn():
        pass
    assert world.bodies() == [b"x"] * 9
    assert world.sock.closed
    assert [exchange.request.target for exchange in world.application.cancels] == ["/9"]


@pytest.mark.parametrize("piece", [b"", b"GET / HT", b"PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nab"])
def test_a_peer_that_goes_away_leaves_nothing(world: World, piece: bytes) -> None:
    if piece:
        world.receive(piece)
    world.receive(b"")
    world.turn()
    assert world.sock.closed
    assert not world.connections.open
    assert world.connections.bodies == 0
    assert not world.loop.readers


def test_a_reset_connection_cancels_what_is_running(world: World) -> None:
    world.application.answer = lambda exchange: None
    world.receive(GET % 1, ConnectionResetError())
    assert world.sock.closed
    assert world.application.cancels == world.application.handled
    world.application.handled[0].respond(Response(b"too late"))
    world.turn()
    assert world.sock.sent == b""


def test_a_defect_costs_the_connection_and_is_logged(world: World) -> None:
    def fail(exchange: Exchange) -> Response:
        raise ZeroDivisionError

    world.application.answer = fail
    world.receive(GET % 1)
    assert world.sock.closed
    assert isinstance(world.errors[0][1], ZeroDivisionError)


# --- bodies ----------------------------------------------------------------------------------------------------------------------------


def test_a_body_in_pieces(world: World) -> None:
    world.application.answer = lambda exchange: Response(exchange.request.content)
    world.receive(b"PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\nab", b"cd", b"ef")
    assert world.bodies() == [b"abcdef"]
    assert world.connections.bodies == 0


def test_expect_continue(world: World) -> None:
    world.application.answer = lambda exchange: Response(exchange.request.content)
    world.receive(b"PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n")
    assert world.sock.sent.startswith(b"HTTP/1.1 100 ")
    world.sock.sent = b""
    world.receive(b"ab")
    assert world.bodies() == [b"ab"]


def test_bodies_in_memory_are_bounded_over_all_connections(world: World) -> None:
    world.receive(b"PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 5000\r\n\r\n", b"x" * 1001)
    assert world.sock.sent.startswith(b"HTTP/1.1 503 ")
    assert world.connections.bodies == 0
    assert not world.application.handled


def test_reading_stops_while_a_peer_runs_ahead_of_its_answers(world: World) -> None:
    world.application.answer = lambda exchange: None
    world.receive(GET % 1)
    pieces = 0
    while world.sock in world.loop.readers:
        world.receive(b"GET /x HTTP/1.1\r\nHost: a\r\n\r\n" * 1000)
        pieces += 1
    assert pieces * 28_000 <= READ_AHEAD + 100_000
    world.application.handled[0].respond(Response(b"x"))
    while world.turn():
        pass
    assert world.sock in world.loop.readers


def test_early_hints_go_ahead_of_the_answer_and_not_after_it(world: World) -> None:
    def answer(exchange: Exchange) -> Response:
        exchange.request.send_early_hints(["</a.css>; rel=preload", "</b.js>; rel=preload"], {"X-A": "1"})
        return Response(b"x")

    world.application.answer = answer
    world.receive(GET % 1)
    hints, _, rest = world.sock.sent.partition(b"\r\n\r\n")
    assert hints == b"HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\nLink: </b.js>; rel=preload\r\nX-A: 1"
    assert rest.startswith(b"HTTP/1.1 200 ")
    sent = world.sock.sent
    world.application.handled[0].request.send_early_hints("</late>")
    world.turn()
    assert world.sock.sent == sent


def test_the_body_is_decoded_when_it_is_awaited(world: World) -> None:
    world.application.answer = lambda exchange: None
    world.receive(b"PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nab")
    request = world.application.handled[0].request

    async def read() -> tuple[object, object, list[bytes]]:
        return await request.data, await request.data, [piece async for piece in request.body]

    assert asyncio.run(read()) == ("ab", "ab", [b"ab"])


# --- deadlines -------------------------------------------------------------------------------------------------------------------------


def test_silence_after_connecting_is_closed_without_a_word(world: World) -> None:
    world.pass_time(9)
    assert not world.sock.closed
    world.pass_time(2)
    assert world.sock.closed
    assert world.sock.sent == b""


def test_an_incomplete_head_gets_408(world: World) -> None:
    world.receive(b"GET / HTTP/1.1\r\nHo")
    world.pass_time(11)
    assert world.sock.sent.startswith(b"HTTP/1.1 408 ")
    world.pass_time(3)
    assert world.sock.closed


def test_a_slow_second_head_gets_408_too(world: World) -> None:
    world.receive(GET % 1)
    world.sock.sent = b""
    world.pass_time(4)
    world.receive(b"GET ")
    world.pass_time(9)
    assert not world.sock.closed
    world.pass_time(2)
    assert world.sock.sent.startswith(b"HTTP/1.1 408 ")


def test_an_incomplete_body_gets_408(world: World) -> None:
    world.receive(b"PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nab")
    world.pass_time(21)
    assert world.sock.sent.startswith(b"HTTP/1.1 408 ")
    assert world.connections.bodies == 0


def test_a_handler_that_takes_too_long_gets_503(world: World) -> None:
    world.application.answer = lambda exchange: None
    world.receive(GET % 1)
    world.pass_time(21)
    assert world.sock.sent.startswith(b"HTTP/1.1 503 ")
    world.application.handled[0].respond(Response(b"late"))
    world.turn()
    assert world.sock.sent.count(b"HTTP/1.1") == 1


def test_idle_connections_are_closed(world: World) -> None:
    world.receive(GET % 1)
    world.pass_time(4)
    assert not world.sock.closed
    world.pass_time(2)
    assert world.sock.closed


def test_a_reader_that_takes_nothing_is_closed(world: World) -> None:
    world.application.answer = lambda exchange: Response(b"x" * 100_000)
    world.sock.room = 1000
    world.receive(GET % 1)
    assert world.sock in world.loop.writers
    world.pass_time(19)
    world.writable(1000)  # progress counts
    world.pass_time(19)
    assert not world.sock.closed
    world.pass_time(2)
    assert world.sock.closed


def test_draining_closes_idle_connections_and_lets_others_finish(world: World) -> None:
    world.application.answer = lambda exchange: None
    world.receive(GET % 1)
    world.connections.drain()
    world.turn()
    assert not world.sock.closed
    world.application.handled[0].respond(Response(b"x"))
    world.turn()
    assert b"connection: close" in world.sock.sent.lower()
    assert world.sock.closed


@pytest.mark.parametrize("spoke", [False, True])
def test_draining_closes_who_says_nothing(world: World, spoke: bool) -> None:
    if spoke:
        world.receive(GET % 1)
    world.connections.drain()
    world.turn()
    assert world.sock.closed
    assert len(world.application.done) == spoke


@pytest.mark.parametrize("spoke", [False, True])
def test_draining_answers_what_has_just_come(world: World, spoke: bool) -> None:
    if spoke:
        world.receive(GET % 1)
    world.sock.sent = b""
    world.sock.incoming.append(GET % 2)
    world.connections.drain()
    world.turn()
    assert world.bodies() == [b"/2"]
    assert b"Connection: close" in world.sock.sent
    assert world.sock.closed


# --- streams ---------------------------------------------------------------------------------------------------------------------------


class Chunks(Iterator[bytes]):
    def __init__(self, chunks: list[bytes]) -> None:
        self.left = chunks
        self.pulled = 0
        self.closed = False

    def __next__(self) -> bytes:
        if not self.left:
            raise StopIteration
        self.pulled += 1
        return self.left.pop(0)

    def close(self) -> None:
        self.closed = True


def chunked_body(sent: bytes) -> bytes:
    _, _, rest = sent.partition(b"\r\n\r\n")
    body = b""
    while rest:
        size, _, rest = rest.partition(b"\r\n")
        count = int(size, 16)
        body += rest[:count]
        rest = rest[count + 2 :]
        if count == 0:
            break
    return body


def test_a_stream_is_chunked_and_the_connection_lives_on(world: World) -> None:
    chunks = Chunks([b"a", b"", b"bc"])
    world.application.answer = lambda exchange: Response(chunks)
    world.receive(GET % 1)
    while world.turn():
        pass
    assert chunked_body(world.sock.sent) == b"abc"
    assert world.application.done[0].body_bytes == 3
    assert not world.sock.closed


def test_a_stream_whose_end_is_found_when_all_is_sent_is_over(world: World) -> None:
    """With a length nothing is sent any more then."""
    world.application.answer = lambda exchange: Response(iter([b"x" * HIGH_WATER]), pairs=[("Content-Length", str(HIGH_WATER))])
    world.receive(GET % 1)
    while world.turn():
        pass
    assert [exchange.body_bytes for exchange in world.application.done] == [HIGH_WATER]
    world.pass_time(6)
    assert world.connection.closed, "keep-alive is over"


def test_a_slow_reader_holds_back_its_stream(world: World) -> None:
    chunks = Chunks([b"x" * 65536 for _ in range(100)])
    world.application.answer = lambda exchange: Response(chunks)
    world.sock.room = 0
    world.receive(GET % 1)
    while world.turn():
        pass
    held = chunks.pulled
    assert held * 65536 <= HIGH_WATER + 65536
    world.writable()
    while world.turn():
        pass
    assert chunks.pulled == 100
    assert len(chunked_body(world.sock.sent)) == 6_553_600


def test_a_reader_that_goes_away_releases_the_stream(world: World) -> None:
    chunks = Chunks([b"x" * 65536 for _ in range(100)])
    world.application.answer = lambda exchange: Response(chunks)
    world.sock.room = 0
    world.receive(GET % 1)
    world.receive(ConnectionResetError())
    assert chunks.closed
    assert world.sock.closed
    assert not world.turn()


def slow(world: World, pauses: int) -> Iterator[bytes]:
    """Has nothing to give for so many turns."""
    yield b"a"
    for _ in range(pauses):
        world.clock.advance(1)  # longer than a slice
        yield b""
    yield b"b"


def test_a_slow_source_is_not_the_peers_fault(world: World) -> None:
    world.application.answer = lambda exchange: Response(slow(world, 50))
    world.receive(GET % 1)
    while world.turn():
        world.pass_time(0)
    assert world.sock.sent.endswith(b"1\r\na\r\n1\r\nb\r\n0\r\n\r\n")


def test_a_stream_for_a_peer_who_is_gone_ends(world: World) -> None:
    world.application.answer = lambda exchange: Response(slow(world, 50))
    world.receive(GET % 1, b"")
    assert world.sock.closed
    world.turn()
    assert not world.connections.streams
    assert not world.sock.sent.endswith(b"0\r\n\r\n")
    assert len(world.application.done) == 1


def test_head_of_a_stream_sends_no_body(world: World) -> None:
    chunks = Chunks([b"abc"])
    world.application.answer = lambda exchange: Response(chunks)
    world.receive(b"HEAD / HTTP/1.1\r\nHost: a\r\n\r\n")
    while world.turn():
        pass
    assert world.sock.sent.endswith(b"\r\n\r\n")
    assert chunks.closed
    assert chunks.pulled == 0


# --- broken protocol -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("data", [b"nonsense\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n", b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"])
def test_a_broken_request_is_answered_and_the_connection_closed(world: World, data: bytes) -> None:
    world.receive(data)
    assert world.sock.sent.startswith(b"HTTP/1.1 400 ")
    assert world.sock.half_closed
    assert not world.errors
    world.receive(b"more of it" * 1000)
    assert not world.sock.closed  # a reset now could cost the peer the answer
    world.receive(b"")
    assert world.sock.closed


def test_a_peer_that_goes_on_sending_after_the_last_answer_is_cut_off(world: World) -> None:
    world.receive(b"nonsense\r\n\r\n")
    world.pass_time(1)
    assert not world.sock.closed
    world.pass_time(2)
    assert world.sock.closed


MALFORMED_BODY = b"PUT /up HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nnonsense\r\n"


def refuse(exchange: Exchange) -> Response:
    return Response(b"no", 403)


def overflow(exchange: Exchange) -> None:
    """The body is collected, but there is no room for it."""
    shared = exchange.connection._shared  # type: ignore[attr-defined]
    shared.max_bodies = 3


class WritesAtOnce(Feed):
    def start(self, writer: FeedWriter) -> None:
        writer.write(b"no")

    def on_sent(self) -> None:
        pass

    def sweep(self, now: float) -> None:
        pass

    def drain(self, is_replaced: bool = False) -> None:
        pass

    def close(self) -> None:
        pass


class BrokenSink:
    """Fails with the first piece."""

    on_change: Callable[[BaseException | None], None]

    def write(self, data: bytes) -> bool:
        self.on_change(Problem("no room", 507))
        return True

    def finish(self, done: Callable[[Any, BaseException | None], None]) -> None:
        raise AssertionError

    def discard(self) -> None:
        pass


@pytest.mark.parametrize(
    ("decide", "status"),
    [
        (refuse, 403),
        (lambda exchange: Response(iter([b"no ", b"no"]), 403), 403),
        (lambda exchange: Response(WritesAtOnce(), 403), 403),
        (overflow, 503),
        (lambda exchange: BrokenSink(), 507),
        (lambda exchange: None, 400),
        (lambda exchange: FakeSink(), 400),
    ],
    ids=["refused", "a stream", "a feed", "too many bodies", "a sink that fails", "collected", "a sink"],
)
@pytest.mark.parametrize(
    "cut", [len(MALFORMED_BODY), MALFORMED_BODY.find(b"5"), MALFORMED_BODY.find(b"nonsense")], ids=["whole", "head", "chunk"]
)
def test_a_request_decided_at_its_head_whose_body_is_malformed(
    world: World, decide: Callable[[Exchange], Any], status: int, cut: int
) -> None:
    world.application.decide = decide
    world.receive(MALFORMED_BODY[:cut])
    if MALFORMED_BODY[cut:]:
        world.receive(MALFORMED_BODY[cut:])
    assert world.sock.sent.startswith(b"HTTP/1.1 %d " % status)
    assert world.sock.sent.count(b"HTTP/1.1 ") == 1
    assert b"Connection: close\r\n" in world.sock.sent
    assert not world.errors
    world.receive(b"")
    assert world.sock.closed
    assert world.connections.bodies == 0


@pytest.mark.parametrize(
    "decide", [refuse, overflow, lambda exchange: BrokenSink()], ids=["refused", "too many bodies", "a sink that fails"]
)
def test_a_pipelined_request_decided_at_its_head_whose_peer_leaves_within_its_body(world: World, decide: Callable[[Exchange], Any]) -> None:
    """It comes while its predecessor is being answered, and so does the peer's FIN."""
    world.application.decide = decide
    world.application.answer = lambda exchange: None
    world.receive(GET % 1, PUT % 10 + b"hello")
    end_half(world)
    world.application.handled[0].respond(Response(b"first"))
    while world.turn():
        pass
    assert world.sock.sent.count(b"HTTP/1.1 ") == 2
    assert not world.errors
    assert world.sock.closed
    assert world.connections.bodies == 0


# --- bodies that are taken as they come ------------------------------------------------------------------------------------------------

PUT = b"PUT /up HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n"


class FakeSink:
    """Says that it is full when it holds `room` bytes."""

    def __init__(self, room: int = 1 << 30) -> None:
        self.room = room
        self.taken = b""
        self.done: Callable[[Any, BaseException | None], None] | None = None
        self.discarded = False
        self.on_change: Callable[[BaseException | None], None] = lambda error: None

    def write(self, data: bytes) -> bool:
        assert not self.discarded and self.done is None
        self.taken += data
        return len(self.taken) < self.room

    def finish(self, done: Callable[[Any, BaseException | None], None]) -> None:
        self.done = done

    def discard(self) -> None:
        self.discarded = True


def with_sink(world: World, room: int = 1 << 30) -> FakeSink:
    sink = FakeSink(room)
    world.application.decide = lambda exchange: sink
    return sink


def test_a_whole_request_is_not_asked_about(world: World) -> None:
    world.application.decide = lambda exchange: Response(b"no", 403)
    world.receive(PUT % 3 + b"abc")
    assert world.bodies() == [b"/up"]
    assert world.application.asked == []


def test_a_sink_takes_the_body(world: World) -> None:
    sink = with_sink(world)
    world.receive(PUT % 6, b"ab", b"cdef")
    assert (sink.taken, world.sock.sent) == (b"abcdef", b"")
    assert world.connection.state is ConnectionState.HANDLING
    assert world.connections.bodies == 0
    assert sink.done is not None
    sink.done("what it made", None)
    world.turn()
    assert world.bodies() == [b"/up"]
    request = world.application.handled[0].request
    assert (request.upload, request.content) == ("what it made", b"")
    world.application.decide = lambda exchange: None
    world.receive(PUT % 2, b"xy")
    assert len(world.bodies()) == 2
    assert world.application.handled[1].request.content == b"xy"


def test_a_chunked_body_goes_there_too(world: World) -> None:
    sink = with_sink(world)
    world.receive(b"PUT /up HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", b"2\r\nde\r\n0\r\n\r\n")
    assert sink.taken == b"abcde"
    assert sink.done is not None


def test_a_refused_body_is_not_read(world: World) -> None:
    world.application.decide = lambda exchange: Response(b"no", 403)
    world.receive((PUT % 1000).replace(b"Host", b"Expect: 100-continue\r\nHost"))
    assert world.sock.sent.startswith(b"HTTP/1.1 403")
    assert b"Connection: close" in world.sock.sent
    assert world.sock.half_closed
    world.receive(b"x" * 500)
    assert world.application.handled == []
    assert len(world.application.done) == 1
    world.receive(b"")
    assert world.sock.closed


def test_who_waits_for_a_word_gets_it_when_the_body_is_wanted(world: World) -> None:
    sink = with_sink(world)
    world.receive((PUT % 3).replace(b"Host", b"Expect: 100-continue\r\nHost"))
    assert world.sock.sent == b"HTTP/1.1 100 Continue\r\n\r\n"
    world.receive(b"abc")
    assert sink.taken == b"abc"


def test_while_the_sink_is_full_nothing_is_read(world: World) -> None:
    sink = with_sink(world, room=4)
    world.receive(PUT % 10, b"abcd")
    assert world.sock not in world.loop.readers
    sink.room = 100
    sink.on_change(None)
    assert world.sock in world.loop.readers
    world.receive(b"efghij")
    assert sink.taken == b"abcdefghij"


def test_a_body_may_take_its_time_as_long_as_it_moves(world: World) -> None:
    sink = with_sink(world)
    world.receive(PUT % 3)
    for piece in (b"a", b"b"):
        world.pass_time(15)
        world.receive(piece)
    world.pass_time(15)
    assert not sink.discarded
    world.pass_time(10)
    assert sink.discarded
    assert world.sock.sent.startswith(b"HTTP/1.1 408")


def test_a_peer_that_goes_away_in_the_middle(world: World) -> None:
    sink = with_sink(world)
    world.receive(PUT % 10, b"abc", b"")
    assert sink.discarded
    assert world.sock.closed
    assert len(world.application.cancels) == 1


@pytest.mark.parametrize("complete", [False, True], ids=["while it comes", "at its end"])
def test_a_sink_that_fails(world: World, complete: bool) -> None:
    sink = with_sink(world)
    world.receive(PUT % 10, b"abcde")
    if complete:
        world.receive(b"fghij")
        assert sink.done is not None
        sink.done(None, Problem("full", 507))
    else:
        sink.on_change(Problem("full", 507))
    world.turn()
    assert world.sock.sent.startswith(b"HTTP/1.1 507")
    assert world.application.handled == []
    assert world.sock.half_closed is not complete
    if complete:
        world.application.decide = lambda exchange: None
        world.receive(GET % 1)
        assert b"/1" in world.sock.sent


def test_a_sink_that_is_full_for_too_long(world: World) -> None:
    sink = with_sink(world, room=2)
    world.receive(PUT % 10, b"abc")
    world.pass_time(21)
    assert world.sock.sent.startswith(b"HTTP/1.1 503")
    assert sink.discarded


def test_a_sink_that_fails_within_the_call(world: World) -> None:
    sink = with_sink(world)

    def write(data: bytes) -> bool:
        sink.on_change(Problem("full", 507))
        return False

    sink.write = write  # type: ignore[method-assign]
    world.receive(PUT % 3, b"abc")
    assert world.sock.sent.startswith(b"HTTP/1.1 507")
    assert not world.errors


def test_time_runs_out_at_the_end_of_the_body(world: World) -> None:
    sink = with_sink(world)
    world.receive(PUT % 3, b"abc")
    world.pass_time(21)
    assert world.sock.sent.startswith(b"HTTP/1.1 503")
    assert sink.discarded
    assert sink.done is not None
    sink.done("late", None)
    assert world.application.handled == []


class LaterWorld(World):
    """Decisions that are awaited, on a loop of their own."""

    def __init__(self) -> None:
        super().__init__()
        self.real = asyncio.new_event_loop()
        self.decision: asyncio.Future[Any] = self.real.create_future()
        self.loop.create_task = self.real.create_task  # type: ignore[attr-defined]
        self.application.decide = lambda exchange: self.decision

    def run(self) -> None:
        for _ in range(5):
            self.real.run_until_complete(asyncio.sleep(0))
        self.turn()


@pytest.fixture
def later() -> Iterator[LaterWorld]:
    found = LaterWorld()
    yield found
    found.connections.close_all()
    found.run()
    found.real.close()


@pytest.mark.parametrize("pieces", [[], [b"ab"], [b"ab", b"cd"]], ids=len)
def test_a_decision_that_comes_later(later: LaterWorld, pieces: list[bytes]) -> None:
    sink = FakeSink()
    later.receive(PUT % 4, *pieces)
    later.run()
    assert later.application.handled == []
    later.decision.set_result(sink)
    later.run()
    later.receive(*[b"ab", b"cd"][len(pieces) :])
    assert sink.taken == b"abcd"
    assert sink.done is not None
    sink.done("made", None)
    later.turn()
    assert later.bodies() == [b"/up"]
    assert later.connections.bodies == 0


@pytest.mark.parametrize("pieces", [[], [b"ab"], [b"ab", b"cd"]], ids=len)
@pytest.mark.parametrize("refused", [False, True], ids=["collected", "refused"])
def test_a_decision_against_a_sink_that_comes_later(later: LaterWorld, pieces: list[bytes], refused: bool) -> None:
    later.receive(PUT % 4, *pieces)
    later.decision.set_result(Response(b"no", 403) if refused else None)
    later.run()
    if refused:
        assert later.sock.sent.startswith(b"HTTP/1.1 403")
        assert later.application.handled == []
        assert later.sock.half_closed is (len(pieces) < 2)
    else:
        later.receive(*[b"ab", b"cd"][len(pieces) :])
        assert later.application.handled[0].request.content == b"abcd"
    assert later.connections.bodies == 0


def test_until_the_decision_not_much_is_read(later: LaterWorld) -> None:
    later.connections.max_bodies = 1 << 30
    later.receive(PUT % (READ_AHEAD + 100), b"x" * (READ_AHEAD + 1))
    assert later.sock not in later.loop.readers
    later.decision.set_result(None)
    later.run()
    assert later.sock in later.loop.readers
    later.receive(b"x" * 99)
    assert len(later.application.handled[0].request.content) == READ_AHEAD + 100


def test_a_peer_that_goes_away_before_the_decision(later: LaterWorld) -> None:
    sink = FakeSink()
    later.receive(PUT % 4, b"ab", b"")
    later.decision.set_result(sink) if not later.decision.cancelled() else None
    later.run()
    assert later.sock.closed
    assert sink.taken == b""
    assert later.connections.bodies == 0
