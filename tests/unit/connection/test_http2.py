"""HTTP/2 on a fake socket, a fake loop and a fake clock: many requests at a time, deadlines, flow control, tunnels, the end."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from svc.connection import Exchange
from svc.connection.bodies import HIGH_WATER, LOW_WATER
from svc.connection.http2 import DRAIN_SECONDS, LINGER_SECONDS, RETIRE_SECONDS, UNSENT_MAX, Http2Connection
from svc.connection.http2_exchange import BUFFERED_HIGH_WATER
from svc.messages import Feed, FeedWriter, Response, Tunnel, Upgrade
from svc.protocol.http2_frames import (
    ACK,
    CANCEL,
    CONTINUATION,
    HEADERS,
    HTTP_1_1_REQUIRED,
    INTERNAL_ERROR,
    LARGEST_WINDOW,
    NO_ERROR,
    PING,
    PREFACE,
    PROTOCOL_ERROR,
    encode_frame,
    encode_goaway,
)
from tests.support.connections import World
from tests.support.http2 import Answer, ClientEnd


class World2(World):
    """A world whose client speaks HTTP/2."""

    def __init__(self, **client: Any) -> None:
        super().__init__(http2=True)
        self.loop.create_task = self._make_task  # type: ignore[attr-defined]
        self.client = ClientEnd(**client)
        self.talk()

    @property
    def http2(self) -> Http2Connection:
        (connection,) = self.connections.open
        assert isinstance(connection, Http2Connection)
        return connection

    def _make_task(self, coroutine: Any) -> Any:
        raise AssertionError("no test here waits for a coroutine")

    def talk(self) -> None:
        """Both sides send what they have, until nobody has anything."""
        while True:
            while self.turn():
                pass
            data, self.sock.sent = self.sock.sent, b""
            if data:
                self.client.receive(data)
            answer = self.client.data_to_send()
            if not answer:
                return
            self.receive(answer)

    def ask(self, target: str = "/1", method: str = "GET", fields: Any = None, body: bytes | None = None, **options: Any) -> Answer:
        stream_id = self.client.request(method, target, fields, body, **options)
        self.talk()
        return self.client.answers[stream_id]

    def later(self) -> None:
        """From now on the application answers later."""
        self.application.answer = lambda exchange: None


@pytest.fixture
def world() -> World2:
    return World2()


def test_requests_are_answered_with_one_send_a_turn(world: World2) -> None:
    for number in range(10):
        world.client.request("GET", f"/{number}")
    sends = 0
    send = world.sock.send

    def counted(data: bytes) -> int:
        nonlocal sends
        sends += 1
        return send(data)

    world.sock.send = counted  # type: ignore[method-assign]
    world.talk()
    assert [answer.body for answer in world.client.answers.values()] == [b"/%d" % number for number in range(10)]
    assert sends == 1
    assert len(world.application.done) == 10
    assert world.application.done[0].body_bytes == 2


def test_answers_come_in_the_order_in_which_they_are_ready(world: World2) -> None:
    world.later()
    answers = [world.ask(f"/{number}") for number in range(3)]
    for number in (2, 0, 1):
        world.application.handled[number].respond(Response(b"%d" % number))
        world.talk()
        assert answers[number].body == b"%d" % number
    assert not world.application.cancels


def test_a_preface_cut_anywhere() -> None:
    world = World(http2=True)
    client = ClientEnd()
    client.request("GET", "/7")
    for byte in client.data_to_send():
        world.receive(bytes((byte,)))
    while world.turn():
        pass
    client.receive(world.sock.sent)
    assert client.answers[1].body == b"/7"


def test_without_http2_the_preface_is_refused_as_http1() -> None:
    world = World()
    assert not world.connections.http2
    world.receive(PREFACE)
    assert world.sock.sent.startswith(b"HTTP/1.1 ")
    assert b" 505 " in world.sock.sent[:20]


def test_nothing_waits_for_the_garbage_collector(world: World2) -> None:
    class Marked:
        pass

    marks: list[Any] = []

    def mark(exchange: Exchange) -> Response:
        marked = Marked()
        exchange.request.user = marked
        marks.append(weakref.ref(marked))
        return Response(b"x")

    world.application.answer = mark
    gc.disable()
    try:
        for _ in range(3):
            world.ask()
        world.application.done.clear()
        world.application.handled.clear()
        assert [weak() for weak in marks] == [None] * 3
    finally:
        gc.enable()


def test_a_defect_costs_its_stream_and_is_logged(world: World2) -> None:
    def fail(exchange: Exchange) -> Response:
        return Response(b"x", pairs=[("bad name", "x")]) if exchange.request.target == "/bad" else Response(b"fine")

    world.application.answer = fail
    answers = [world.ask(target) for target in ("/1", "/bad", "/2")]
    assert [answer.body for answer in answers] == [b"fine", b"", b"fine"]
    assert answers[1].reset == INTERNAL_ERROR
    assert [type(error) for _, error in world.errors] == [ValueError]


def test_a_defect_of_a_streamed_body_costs_its_stream(world: World2) -> None:
    def body() -> Iterator[bytes]:
        yield b"some"
        raise ZeroDivisionError

    world.application.answer = lambda exchange: Response(body()) if exchange.request.target == "/bad" else Response(b"fine")
    broken = world.ask("/bad")
    assert (broken.reset, broken.is_complete) == (INTERNAL_ERROR, False)
    assert world.ask("/1").body == b"fine"
    assert [type(error) for _, error in world.errors] == [ZeroDivisionError]
    assert len(world.application.done) == 2


def test_a_defect_while_reading_costs_the_connection(world: World2) -> None:
    def fail(exchange: Exchange) -> Response:
        raise ZeroDivisionError

    world.application.answer = fail
    world.ask()
    assert world.sock.closed
    assert [type(error) for _, error in world.errors] == [ZeroDivisionError]


# --- bodies of requests ----------------------------------------------------------------------------------------------------------------


def test_bodies_in_pieces_of_several_requests(world: World2) -> None:
    world.application.answer = lambda exchange: Response(exchange.request.content)
    client = world.client
    streams = [client.request("PUT", "/", is_open=True) for _ in range(3)]
    for piece in (b"ab", b"cd"):
        for stream_id in streams:
            client.send_body(stream_id, piece + b"%d" % stream_id, is_open=piece == b"ab")
        world.talk()
    assert [client.answers[stream_id].body for stream_id in streams] == [b"ab%dcd%d" % (n, n) for n in streams]
    assert world.connections.bodies == 0


def test_expect_continue(world: World2) -> None:
    world.application.answer = lambda exchange: Response(exchange.request.content)
    stream_id = world.client.request("PUT", "/", [("expect", "100-continue")], is_open=True)
    world.talk()
    assert world.client.answers[stream_id].early == [(100, [])]
    world.client.send_body(stream_id, b"ab")
    world.talk()
    assert world.client.answers[stream_id].body == b"ab"


def test_a_body_that_is_refused_is_not_read(world: World2) -> None:
    world.application.decide = lambda exchange: Response(b"no", 401)
    answer = world.ask("/", "PUT", None, b"x", is_open=True)
    assert (answer.status, answer.body, answer.reset) == (401, b"no", NO_ERROR)
    world.application.decide = lambda exchange: None
    assert world.ask("/1").body == b"/1"


def test_bodies_in_memory_are_bounded_over_all_connections(world: World2) -> None:
    answer = world.ask("/", "PUT", None, b"x" * 1001, is_open=True)
    stream_id = max(world.client.answers)
    world.client.send_body(stream_id, b"x", is_open=True)
    world.talk()
    assert answer.status == 503
    assert world.connections.bodies == 0


class Sink:
    """Takes `room` bytes, then is full."""

    def __init__(self, room: int) -> None:
        self.room = room
        self.taken = 0
        self.on_change: Callable[[BaseException | None], None]
        self.done: Callable[[Any, BaseException | None], None] | None = None
        self.is_discarded = False

    def write(self, data: bytes) -> bool:
        self.taken += len(data)
        return self.taken < self.room

    def finish(self, done: Callable[[Any, BaseException | None], None]) -> None:
        self.done = done

    def discard(self) -> None:
        self.is_discarded = True


def test_a_slow_sink_holds_only_its_own_stream_back(world: World2) -> None:
    sink = Sink(10_000)
    world.application.decide = lambda exchange: sink if exchange.request.target == "/slow" else None
    world.connections.max_bodies = 1 << 20
    world.application.answer = lambda exchange: Response(b"%d" % len(exchange.request.content))
    slow = world.ask("/slow", "PUT", None, b"x" * 300_000)
    assert 10_000 <= sink.taken <= 65_535, "the peer is not held back"
    assert world.ask("/fast", "PUT", None, b"y" * 300_000).body == b"300000"
    sink.room = 1 << 20
    sink.on_change(None)
    world.talk()
    assert sink.taken == 300_000 and sink.done is not None
    sink.done("made", None)
    world.talk()
    assert slow.status == 200
    assert world.application.handled[-1].request.upload == "made"


def test_a_request_reset_by_the_peer_is_cancelled(world: World2) -> None:
    sink = Sink(100)
    world.application.decide = lambda exchange: sink
    world.later()
    world.ask("/1")
    world.ask("/2", "PUT", None, b"x", is_open=True)
    for stream_id in list(world.client.answers):
        world.client.h2.reset_stream(stream_id, CANCEL)
    world.talk()
    assert [exchange.request.target for exchange in world.application.cancels] == ["/1", "/2"]
    assert sink.is_discarded
    world.application.handled[0].respond(Response(b"too late"))
    world.talk()
    assert not world.application.done


# --- streamed answers ------------------------------------------------------------------------------------------------------------------


def test_a_streamed_body(world: World2) -> None:
    world.application.answer = lambda exchange: Response(iter([b"ab", b"", b"cd"]), pairs=[("Content-Length", "4")])
    answer = world.ask()
    assert (answer.body, answer.fields["content-length"], answer.is_complete) == (b"abcd", "4", True)
    assert world.application.done[0].body_bytes == 4
    answer = world.ask("/", "HEAD")
    assert (answer.body, answer.is_complete) == (b"", True)


def test_bodies_are_pulled_as_the_peer_reads() -> None:
    world = World2(window=1 << 20, reads=False)
    pulled = [0, 0]

    def body(number: int) -> Iterator[bytes]:
        for _ in range(100):
            pulled[number] += 10_000
            yield b"x" * 10_000

    world.application.answer = lambda exchange: Response(body(int(exchange.request.target[1:])))
    answers = [world.ask("/0"), world.ask("/1")]
    assert all(count <= HIGH_WATER + 65_535 + 20_000 for count in pulled), pulled
    assert sum(len(answer.body) for answer in answers) == 65_535
    before = list(pulled)
    world.client.h2.increment_flow_control_window(500_000)
    world.talk()
    assert all(now > then for now, then in zip(pulled, before, strict=True))
    world.client.h2.increment_flow_control_window(2_000_000)
    world.talk()
    assert [len(answer.body) for answer in answers] == [1_000_000] * 2
    assert all(answer.is_complete for answer in answers)


def test_what_waits_for_windows_is_bounded_for_a_connection() -> None:
    world = World2(window=0)

    def body() -> Iterator[bytes]:
        while True:
            yield b"x" * 10_000

    world.application.answer = lambda exchange: Response(body())
    for _ in range(90):
        world.client.request("GET", "/")
    world.talk()
    assert world.http2.protocol.buffered <= BUFFERED_HIGH_WATER + HIGH_WATER + 90 * (LOW_WATER + 10_000)


def test_a_socket_that_takes_little_holds_the_reading_back(world: World2) -> None:
    """Answers to PING and the like are not to pile up."""
    world.sock.room = 0
    world.application.answer = lambda exchange: Response(b"x" * 300_000)
    for _ in range(4):
        world.client.request("GET", "/")
    world.client.h2.increment_flow_control_window(1 << 30)
    world.receive(world.client.data_to_send())
    unread = 0
    while world.sock in world.loop.readers and unread < 100:
        world.http2.protocol.tick(1000)
        world.receive(encode_frame(PING, 0, 0, bytes(8)) * 200)
        unread += 1
    assert world.http2.unsent_bytes < UNSENT_MAX + HIGH_WATER
    world.writable()
    world.talk()
    assert world.sock in world.loop.readers


class Counting(Feed):
    def __init__(self) -> None:
        self.writer: FeedWriter
        self.sent = self.closes = self.drains = 0

    def start(self, writer: FeedWriter) -> None:
        self.writer = writer
        writer.write(b"hello ")

    def on_sent(self) -> None:
        self.sent += 1

    def drain(self, is_replaced: bool = False) -> None:
        self.drains += 1

    def close(self) -> None:
        self.closes += 1


def test_a_feed(world: World2) -> None:
    feed = Counting()
    world.application.answer = lambda exchange: Response(feed)
    answer = world.ask()
    assert (answer.body, feed.sent) == (b"hello ", 1)
    world.pass_time(1000)  # it lasts as long as the peer listens
    feed.writer.write(b"again")
    world.talk()
    assert (answer.body, feed.sent, feed.writer.pending) == (b"hello again", 2, 0)
    feed.writer.end()
    world.talk()
    assert answer.is_complete and feed.closes == 1
    assert not world.connections.lasting
    assert feed.writer.pending == 0


def test_a_feed_whose_peer_goes_away(world: World2) -> None:
    feed = Counting()
    world.application.answer = lambda exchange: Response(feed)
    world.ask()
    world.client.h2.reset_stream(1, CANCEL)
    world.talk()
    assert feed.closes == 1
    assert len(world.application.done) == 1


def test_a_feed_that_is_not_read_is_ended() -> None:
    world = World2(window=5)
    world.client.reads = False
    feed = Counting()
    world.application.answer = lambda exchange: Response(feed)
    answer = world.ask()
    assert feed.writer.pending == 1
    for _ in range(3):
        world.pass_time(21)
    world.talk()
    assert (answer.reset, feed.closes) == (CANCEL, 1)


# --- deadlines -------------------------------------------------------------------------------------------------------------------------


def test_each_request_has_its_own_deadline(world: World2) -> None:
    world.later()
    first = world.ask("/1")
    world.pass_time(15)
    second = world.ask("/2")
    world.pass_time(6)
    world.talk()
    assert (first.status, second.status) == (503, 0)
    assert [exchange.request.target for exchange in world.application.cancels] == ["/1"]
    world.pass_time(15)
    world.talk()
    assert second.status == 503
    assert not world.sock.closed


def test_a_body_that_does_not_come_gets_408(world: World2) -> None:
    answer = world.ask("/", "PUT", None, b"x", is_open=True)
    world.pass_time(21)
    world.talk()
    assert (answer.status, answer.reset) == (408, NO_ERROR)
    assert world.connections.bodies == 0
    assert not world.sock.closed


def test_a_sink_that_stays_full_gets_503(world: World2) -> None:
    sink = Sink(1)
    world.application.decide = lambda exchange: sink
    answer = world.ask("/", "PUT", None, b"xyz", is_open=True)
    stream_id = max(world.client.answers)
    world.client.send_body(stream_id, b"more", is_open=True)
    world.talk()
    world.pass_time(21)
    world.talk()
    assert answer.status == 503
    assert sink.is_discarded


def test_an_answer_that_is_not_read_is_given_up() -> None:
    world = World2(window=10)
    world.client.reads = False
    world.application.answer = lambda exchange: Response(b"x" * 100)
    slow, dead = world.ask("/slow"), world.ask("/dead")
    for _ in range(5):
        world.client.h2.increment_flow_control_window(1, 1)
        world.talk()
        world.pass_time(15)
    world.talk()
    assert (slow.reset, dead.reset) == (None, CANCEL)
    assert len(slow.body) == 15


def test_an_idle_connection_is_closed(world: World2) -> None:
    world.ask()
    world.pass_time(4)
    assert not world.sock.closed
    world.pass_time(2)
    world.talk()
    assert world.sock.closed
    assert [int(event.error_code) for event in world.client.goodbyes] == [NO_ERROR]


def test_a_connection_that_never_asks_is_closed(world: World2) -> None:
    world.pass_time(11)
    world.talk()
    assert world.sock.closed


@pytest.mark.parametrize(
    "data", [encode_frame(HEADERS, 0, 3, b"\x82"), encode_frame(HEADERS, 0, 3, b"") + encode_frame(CONTINUATION, 0, 3, b""), b"\0\0"]
)
def test_what_has_begun_must_be_complete_in_time(world: World2, data: bytes) -> None:
    world.later()
    world.ask()
    world.receive(data)
    world.pass_time(11)
    world.talk()
    assert world.client.goodbyes
    assert world.application.cancels == world.application.handled
    world.pass_time(LINGER_SECONDS)
    assert world.sock.closed


def test_a_peer_that_does_not_read_is_closed(world: World2) -> None:
    world.sock.room = 0
    world.client.request("GET", "/")
    world.receive(world.client.data_to_send())
    for _ in range(3):
        world.pass_time(10)
    assert world.sock.closed
    assert len(world.application.done) == 1


# --- the end ---------------------------------------------------------------------------------------------------------------------------


def test_a_broken_protocol_ends_it_gently(world: World2) -> None:
    world.later()
    world.ask()
    world.receive(encode_frame(CONTINUATION, 4, 1, b""))
    world.talk()
    assert [int(event.error_code) for event in world.client.goodbyes] == [PROTOCOL_ERROR]
    assert world.application.cancels == world.application.handled
    assert world.sock.half_closed and not world.sock.closed
    world.receive(b"what was on its way")
    world.receive(b"")
    assert world.sock.closed


def test_a_peer_that_goes_away_leaves_nothing(world: World2) -> None:
    feed, sink = Counting(), Sink(100)
    world.application.decide = lambda exchange: sink
    world.application.answer = lambda exchange: Response(feed) if exchange.request.target == "/feed" else None
    world.ask("/feed")
    world.ask("/1")
    world.ask("/", "PUT", None, b"x", is_open=True)
    world.receive(ConnectionResetError())
    assert world.sock.closed
    assert feed.closes == 1 and sink.is_discarded
    assert [exchange.request.target for exchange in world.application.cancels] == ["/1", "/"]
    assert not world.connections.open and not world.connections.lasting
    assert world.connections.bodies == 0


def test_a_half_close_answers_what_is_complete(world: World2) -> None:
    feed = Counting()
    world.application.answer = lambda exchange: Response(feed) if exchange.request.target == "/feed" else None
    world.ask("/feed")
    waiting = world.ask("/1")
    world.ask("/", "PUT", None, b"x", is_open=True)
    world.ask("/2")
    world.sock.incoming.append(b"")
    world.loop.readers[world.sock]()
    assert feed.closes == 1
    assert not world.sock.closed
    world.application.handled[1].respond(Response(b"answer"))
    world.talk()
    assert waiting.body == b"answer"
    assert world.sock.closed
    assert "/2" in [exchange.request.target for exchange in world.application.cancels]  # not answered in that turn


def test_a_drain_finishes_what_is_under_way(world: World2) -> None:
    world.later()
    answer = world.ask()
    world.connections.drain()
    world.turn()
    assert world.sock.sent == encode_goaway(LARGEST_WINDOW, NO_ERROR) + encode_frame(PING, 0, 0, b"drain-ok")
    world.sock.sent = b""
    world.receive(encode_frame(PING, ACK, 0, b"drain-ok"))
    assert world.sock.sent == encode_goaway(1, NO_ERROR)
    assert not world.sock.closed
    world.sock.sent = b""
    world.application.handled[0].respond(Response(b"x"))
    while world.turn():
        pass
    world.client.receive(world.sock.sent)
    assert answer.is_complete and answer.body == b"x"
    assert world.sock.closed


def test_a_drain_of_a_peer_who_says_nothing(world: World2) -> None:
    world.later()
    world.ask()
    world.connections.drain()
    world.turn()
    world.sock.sent = b""
    world.pass_time(DRAIN_SECONDS)
    world.turn()
    assert world.sock.sent == encode_goaway(1, NO_ERROR)


def test_a_drain_of_an_idle_connection(world: World2) -> None:
    world.ask()
    world.sock.sent = b""
    world.connections.drain()
    world.turn()
    assert world.sock.sent == encode_goaway(1, NO_ERROR)
    assert world.sock.closed


def test_one_whose_place_is_taken_says_goodbye_behind_an_answer(world: World2) -> None:
    world.ask()
    world.sock.sent = b""
    world.connections.retire()
    world.turn()
    assert world.sock.sent == b"" and not world.sock.closed  # a request may be on its way
    answer = world.ask()
    assert answer.is_complete and [goodbye.last_stream_id for goodbye in world.client.goodbyes] == [3]
    assert world.sock.closed


def test_one_whose_place_is_taken_waits_for_the_last_answer(world: World2) -> None:
    world.later()
    first, second = world.ask(), world.ask()
    world.connections.retire()
    for answer, exchange in zip((first, second), world.application.handled, strict=True):
        assert not world.sock.closed and b"drain-ok" not in world.sock.sent
        exchange.respond(Response(b"x"))
        world.talk()
        assert answer.is_complete and answer.body == b"x"
    assert world.client.goodbyes and world.sock.closed


@pytest.mark.parametrize("is_idle", [True, False])
def test_one_whose_place_is_taken_says_goodbye_at_last(world: World2, is_idle: bool) -> None:
    if not is_idle:
        world.later()
    world.ask()
    world.sock.sent = b""
    world.connections.retire()
    world.pass_time(RETIRE_SECONDS)
    world.turn()
    if is_idle:
        assert world.sock.sent == encode_goaway(1, NO_ERROR) and world.sock.closed
        return
    assert world.sock.sent == encode_goaway(LARGEST_WINDOW, NO_ERROR) + encode_frame(PING, 0, 0, b"drain-ok")
    world.sock.sent = b""
    world.receive(encode_frame(PING, ACK, 0, b"drain-ok"))
    assert world.sock.sent == encode_goaway(1, NO_ERROR) and not world.sock.closed


def test_a_drain_answers_what_has_just_come(world: World2) -> None:
    answer = world.client.answers[world.client.request("GET", "/late")]
    world.sock.incoming.append(world.client.h2.data_to_send())
    world.connections.drain()
    while world.turn():
        pass
    world.client.receive(world.sock.sent)
    assert answer.is_complete
    assert answer.body == b"/late"


def test_early_hints(world: World2) -> None:
    def answer(exchange: Exchange) -> Response:
        exchange.request.send_early_hints(["</a.css>; rel=preload"])
        return Response(b"x")

    world.application.answer = answer
    hinted = world.ask()
    assert hinted.early == [(103, [("link", "</a.css>; rel=preload")])]
    assert hinted.body == b"x"


# --- tunnels ---------------------------------------------------------------------------------------------------------------------------


class Echo:
    """A receiver that sends back what it gets."""

    def __init__(self) -> None:
        self.tunnel: Tunnel
        self.said: list[str] = []

    def start(self, tunnel: Tunnel) -> None:
        self.tunnel = tunnel
        self.said.append("start")

    def on_data(self, data: bytes) -> None:
        self.said.append(f"data {len(data)}")
        self.tunnel.write(data)

    def on_eof(self) -> None:
        self.said.append("eof")

    def on_sent(self) -> None:
        self.said.append("sent")

    def on_closed(self) -> None:
        self.said.append("closed")

    def sweep(self, now: float) -> None:
        pass

    def drain(self, is_replaced: bool = False) -> None:
        self.said.append("drain")


def open_tunnel(world: World2, early: bytes = b"") -> tuple[int, Answer]:
    client = world.client
    stream_id = client.h2.get_next_available_stream_id()
    head = [(":method", "CONNECT"), (":protocol", "websocket"), (":scheme", "http"), (":authority", "localhost"), (":path", "/chat")]
    client.h2.send_headers(stream_id, head)
    client.answers[stream_id] = Answer()
    if early:
        client.h2.send_data(stream_id, early)
    world.talk()
    return stream_id, client.answers[stream_id]


@pytest.fixture
def echo(world: World2) -> Echo:
    receiver = Echo()
    world.application.answer = lambda exchange: Upgrade(exchange.request.offers, receiver, [("X", "y")])
    return receiver


def test_a_tunnel(world: World2, echo: Echo) -> None:
    stream_id, answer = open_tunnel(world, b"early")
    exchange = world.application.handled[0]
    assert (exchange.request.method, exchange.request.offers, exchange.status) == ("GET", "websocket", 101)
    assert (answer.status, answer.fields["x"], answer.body) == (200, "y", b"early")
    assert world.application.done == [exchange]
    world.client.send_body(stream_id, b"more", is_open=True)
    world.talk()
    assert answer.body == b"earlymore"
    assert echo.said == ["start", "data 5", "sent", "data 4", "sent"]
    assert (echo.tunnel.peer, echo.tunnel.scheme, echo.tunnel.pending) == ("127.0.0.1", "http", 0)
    world.pass_time(1000)
    assert not answer.is_complete
    echo.tunnel.close()
    echo.tunnel.write(b"dropped")
    world.talk()
    assert (answer.is_complete, answer.reset, echo.said[-1]) == (True, None, "closed")
    assert not world.connections.lasting


def test_a_tunnel_that_the_peer_ends(world: World2, echo: Echo) -> None:
    stream_id, answer = open_tunnel(world)
    world.client.h2.end_stream(stream_id)
    world.talk()
    assert echo.said == ["start", "eof"]
    echo.tunnel.write(b"bye")
    echo.tunnel.close()
    world.talk()
    assert (answer.body, answer.is_complete) == (b"bye", True)
    assert echo.said.count("closed") == 1


@pytest.mark.parametrize("how", ["abort", "reset", "socket"])
def test_a_tunnel_that_is_cut_off(world: World2, echo: Echo, how: str) -> None:
    stream_id, answer = open_tunnel(world)
    if how == "abort":
        echo.tunnel.abort()
        assert echo.said == ["start"], "called from inside its own call"
        world.talk()
        assert answer.reset == CANCEL
    elif how == "reset":
        world.client.h2.reset_stream(stream_id)
        world.talk()
    else:
        world.receive(ConnectionResetError())
    assert echo.said == ["start", "closed"]
    echo.tunnel.write(b"x")
    echo.tunnel.close()
    assert not world.connections.lasting
    assert len(world.application.done) == 1 and not world.application.cancels


def test_a_tunnel_that_is_paused_holds_its_peer_back(world: World2, echo: Echo) -> None:
    stream_id, answer = open_tunnel(world)
    echo.tunnel.pause_reading()
    world.client.send_body(stream_id, b"x" * 300_000, is_open=True)
    world.talk()
    assert len(answer.body) <= 65_535
    echo.tunnel.resume_reading()
    world.talk()
    assert len(answer.body) == 300_000


def test_a_tunnel_that_is_not_read_is_ended(echo: Echo) -> None:
    world = World2(window=5)
    world.client.reads = False
    world.application.answer = lambda exchange: Upgrade(exchange.request.offers, echo)
    _, answer = open_tunnel(world, b"123456789")
    assert echo.tunnel.pending == 4
    for _ in range(3):
        world.pass_time(21)
    world.talk()
    assert answer.reset == CANCEL and echo.said[-1] == "closed"


def test_an_upgrade_that_needs_the_socket_wants_http1(world: World2) -> None:
    receiver = Echo()
    world.application.answer = lambda exchange: Upgrade("", receiver)
    _, answer = open_tunnel(world)
    assert answer.reset == HTTP_1_1_REQUIRED
    assert receiver.said == ["closed"]


def test_an_upgrade_that_is_refused(world: World2) -> None:
    world.application.answer = lambda exchange: Response(b"no", 404)
    _, answer = open_tunnel(world)
    assert (answer.status, answer.body, answer.reset) == (404, b"no", NO_ERROR)


def test_a_drain_tells_the_receivers(world: World2, echo: Echo) -> None:
    open_tunnel(world)
    world.connections.drain()
    assert echo.said == ["start", "drain"]
