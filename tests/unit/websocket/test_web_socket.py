"""One WebSocket on a tunnel that is not there: messages, limits, time, and how it ends."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from svc.connection.input_share import SLICE
from svc.errors import AccessViolation, ClientError, Problem
from svc.protocol.websocket import FRAMES_A_BATCH, encode_frame
from svc.websocket import Socket, WebSocket, WebSocketClosed
from svc.websocket.web_socket import (
    CLOSE_SECONDS,
    HIGH_WATER,
    INCOMING_BYTES,
    INCOMING_MESSAGES,
    MAX_PENDING,
    PING_SECONDS,
    SILENCE_SECONDS,
)
from tests.support.web_socket import Wire, World, handshake_request
from tests.support.websocket_frames import binary, close, frame, more, ping, pong, text

TEXT, BINARY, CLOSE, PING, PONG = 0x81, 0x82, 0x88, 0x89, 0x8A


def closing(code: int, reason: str = "") -> tuple[int, bytes]:
    return CLOSE, struct.pack("!H", code) + reason.encode()


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    yield made
    made.close()


def nothing(socket: Socket) -> None:
    """Serves by doing nothing; what comes waits."""


def echo(socket: WebSocket) -> None:
    socket.on("message", lambda message: socket.send_frame(encode_frame(message)))


async def iterate(socket: WebSocket) -> None:
    async for message in socket:
        await socket.send(message)


async def take_all(socket: WebSocket, put: Callable[[Any], None]) -> None:
    async for message in socket:
        put(message)


class Waiting:
    """A service whose messages are handled on demand."""

    def __init__(self) -> None:
        self.messages: list[Any] = []
        self.gates: list[asyncio.Future[None]] = []

    def __call__(self, socket: WebSocket) -> None:
        async def take(message: Any) -> None:
            self.messages.append(message)
            gate = asyncio.get_running_loop().create_future()
            self.gates.append(gate)
            await gate
            await socket.send(f"done {message}")

        socket.on("message", take)


def ends(socket: WebSocket) -> list[tuple[int, str]]:
    found: list[tuple[int, str]] = []
    socket.on("close", lambda code, reason: found.append((code, reason)))
    return found


# --- messages ------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("service", [echo, iterate])
def test_messages_are_answered(world: World, service: Any) -> None:
    wire = world.open(service)
    assert wire.send(text("a"), binary(b"b"), text("c", fin=False) + ping(b"p") + more("d")) == [
        (TEXT, b"a"),
        (BINARY, b"b"),
        (PONG, b"p"),
        (TEXT, b"cd"),
    ]
    assert not world.errors


def test_a_web_socket_is_what_services_are_promised(world: World) -> None:
    promised: Socket = world.open(nothing).socket
    assert not promised.closed and promised.pending == 0 and promised.close_code is None


@pytest.mark.parametrize("service", [echo, iterate])
def test_more_messages_than_a_turn_can_do(world: World, service: Any) -> None:
    wire = world.open(service)
    count = FRAMES_A_BATCH * 5 + 7
    wire.socket.on_data(text("x") * count)
    assert not wire.tunnel.is_reading  # until what came is worked off
    world.turn(50)
    assert wire.tunnel.frames() == [(TEXT, b"x")] * count
    assert wire.tunnel.is_reading


def test_messages_that_take_long_are_spread_over_turns(world: World) -> None:
    taken: list[str] = []

    async def slow(socket: WebSocket) -> None:
        async for _ in socket:
            world.clock.advance(SLICE)
            taken.append(socket.request.target)

    def slow_callback(socket: WebSocket) -> None:
        def on_message(message: str | bytes) -> None:
            world.clock.advance(SLICE)
            taken.append(socket.request.target)

        socket.on("message", on_message)

    for service in (slow, slow_callback):
        wires = [world.open(service, handshake_request(f"/{number}")) for number in range(3)]
        taken.clear()
        for wire in wires:
            wire.socket.on_data(text("x") * FRAMES_A_BATCH * 3)
        for _ in range(3):
            before = len(taken)
            world.turn(1)
            assert len(taken) - before <= FRAMES_A_BATCH + 2 * len(wires)
        world.turn(1000)
        assert sorted(taken) == sorted(wire.socket.request.target for wire in wires for _ in range(FRAMES_A_BATCH * 3))


def test_bytes_and_their_like_are_binary(world: World) -> None:
    async def send(socket: WebSocket) -> None:
        for message in ("a", b"b", bytearray(b"c"), memoryview(b"d")):
            await socket.send(message)
        with pytest.raises(TypeError, match="not dict"):
            await socket.send({})  # type: ignore[arg-type]

    assert world.open(send).tunnel.frames() == [(TEXT, b"a"), (BINARY, b"b"), (BINARY, b"c"), (BINARY, b"d"), closing(1000)]


def test_callbacks_are_called_in_order_and_their_exceptions_logged(world: World) -> None:
    wire = world.open(nothing)
    seen: list[str] = []

    def first(message: str | bytes) -> None:
        seen.append(f"first {message!r}")
        raise KeyError("mine")

    async def second(message: str | bytes) -> None:
        await asyncio.sleep(0)
        seen.append(f"second {message!r}")
        raise ValueError("mine too")

    wire.socket.on("message", first)
    wire.socket.on("message", second)
    wire.send(text("a") + text("b"))
    assert seen == ["first 'a'", "second 'a'", "first 'b'", "second 'b'"]
    assert [type(error) for _, error in world.errors] == [KeyError, ValueError] * 2
    assert not wire.socket.closed
    with pytest.raises(ValueError, match="no 'data'"):
        wire.socket.on("data", first)


def test_a_callback_that_comes_late_gets_what_has_waited(world: World) -> None:
    wire = world.open(nothing)
    wire.send(text("a") + text("b"))
    seen: list[Any] = []
    wire.socket.on("message", seen.append)
    assert seen == []  # not from inside the call
    world.turn()
    wire.send(text("c"))
    assert seen == ["a", "b", "c"]


def test_an_async_callback_gets_one_message_at_a_time(world: World) -> None:
    service = Waiting()
    wire = world.open(service)
    wire.send(text("a") + text("b"), text("c"))
    assert service.messages == ["a"]
    service.gates[0].set_result(None)
    world.turn()
    assert service.messages == ["a", "b"]
    assert wire.tunnel.frames() == [(TEXT, b"done a")]


def test_ignored_messages(world: World) -> None:
    wire = world.open(WebSocket.ignore_messages)
    wire.send(text("x") * (INCOMING_MESSAGES + 1))
    world.turn(20)
    assert wire.tunnel.is_reading


# --- limits --------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("message", "most"),
    [(text("x"), INCOMING_MESSAGES + FRAMES_A_BATCH), (binary(b"x" * 65000), INCOMING_BYTES // 65000 + FRAMES_A_BATCH)],
)
def test_a_peer_whose_messages_are_not_taken_is_not_read(world: World, message: bytes, most: int) -> None:
    wire = world.open(nothing)
    sent = 0
    while wire.tunnel.is_reading:
        wire.send(message)
        sent += 1
        assert sent <= most
    taken: list[Any] = []

    task = world.loop.create_task(take_all(wire.socket, taken.append))
    world.turn()
    assert len(taken) == sent
    assert wire.tunnel.is_reading
    task.cancel()


def test_bytes_behind_too_many_messages_stay_with_the_driver(world: World) -> None:
    wire = world.open(nothing)
    count = (INCOMING_MESSAGES + FRAMES_A_BATCH) * 4
    wire.socket.on_data(text("x") * count)
    world.turn(50)
    assert wire.socket._incoming is not None and len(wire.socket._incoming) < INCOMING_MESSAGES + FRAMES_A_BATCH
    assert not wire.tunnel.is_reading
    taken: list[Any] = []

    task = world.loop.create_task(take_all(wire.socket, taken.append))
    world.turn(100)
    assert len(taken) == count
    assert wire.tunnel.is_reading
    task.cancel()


def test_send_waits_for_a_slow_reader(world: World) -> None:
    sent: list[int] = []

    async def fill(socket: WebSocket) -> None:
        for number in range(20):
            await socket.send(b"x" * 65000)
            sent.append(number)

    wire = world.open(nothing)
    wire.tunnel.is_stuck = True
    wire.socket.run(fill)
    world.turn()
    assert len(sent) == HIGH_WATER // 65000 + 1
    assert wire.socket.pending > HIGH_WATER
    world.turn()
    assert len(sent) == HIGH_WATER // 65000 + 1
    wire.release()
    assert len(sent) > HIGH_WATER // 65000 + 1
    while not wire.socket.closed:
        wire.release()
    assert len(sent) == 20


def test_sending_without_checking_pending_is_cut_off_at_a_limit(world: World) -> None:
    wire = world.open(nothing)
    over = ends(wire.socket)
    wire.tunnel.is_stuck = True
    data = encode_frame(b"x" * (1 << 20))
    for _ in range(MAX_PENDING // (1 << 20) + 2):
        wire.socket.send_frame(data)
    assert wire.tunnel.ended == "abort"
    assert over == [(1013, "Too slow")]
    assert wire.socket.closed
    wire.socket.send_frame(data)
    wire.socket.on_closed()
    assert over == [(1013, "Too slow")]
    assert world.entries()["connection", None, "disconnect"]["total"] == 0


def test_the_sent_callback_is_called(world: World) -> None:
    wire = world.open(nothing)
    told: list[int] = []
    wire.socket.on("sent", lambda: told.append(1))
    wire.socket.on("sent", lambda: told.append(2))
    wire.socket.send_frame(encode_frame("x"))
    assert told == []
    wire.release()
    assert told == [1, 2]


def test_pings_of_a_peer_that_does_not_listen(world: World) -> None:
    wire = world.open(echo)
    wire.tunnel.is_stuck = True
    wire.send(binary(b"x" * 65000) * 5 + ping(b"first"))
    for number in range(1000):
        wire.send(ping(b"%d" % number))
    frames = wire.tunnel.frames()
    assert frames == []
    before = wire.tunnel.pending
    wire.send(ping(b"x" * 100) * 100)
    assert wire.tunnel.pending == before
    wire.release()
    assert wire.tunnel.frames() == [(PONG, b"x" * 100)]


def test_many_large_messages_at_a_time() -> None:
    world = World(max_collected=100_000)
    one, two = world.open(nothing), world.open(nothing)
    assert one.send(binary(b"x" * 60_000, fin=False)) == []
    assert two.send(binary(b"x" * 50_000, fin=False)) == []
    assert one.tunnel.frames() == [closing(1013, "Too many large messages at a time")]
    assert one.tunnel.ended == "close" and one.socket.close_code == 1013
    assert two.send(more(b"y", fin=False)) == []
    two.socket.on_closed()
    three = world.open(nothing)  # what the others held is free again
    assert three.send(binary(b"x" * 60_000, fin=False)) == []
    assert three.send(more(b"")) == []
    assert world.sockets._collected == 0
    world.close()


def test_a_message_that_is_too_large(world: World) -> None:
    wire = world.open(nothing, max_payload=1000)
    errors: list[BaseException] = []
    wire.socket.on("error", errors.append)
    over = ends(wire.socket)
    assert wire.send(binary(b"x" * 1001)) == [closing(1009, "A message may have 1000 bytes")]
    assert wire.tunnel.ended == "close"
    assert over == [(1009, "A message may have 1000 bytes")]
    assert [str(error) for error in errors] == ["A message may have 1000 bytes"]


# --- the end -------------------------------------------------------------------------------------------------------------------------


def test_the_peer_closes(world: World) -> None:
    wire = world.open(echo)
    over = ends(wire.socket)
    assert wire.send(text("a") + close(4001, "bye") + text("b")) == [(TEXT, b"a"), (CLOSE, struct.pack("!H", 4001))]
    assert wire.tunnel.ended == "close"
    assert over == [(4001, "bye")]
    assert (wire.socket.close_code, wire.socket.close_reason) == (4001, "bye")
    wire.socket.on_closed()
    assert world.entries()["connection", None, "disconnect"]["total"] == 1
    assert over == [(4001, "bye")]


@pytest.mark.parametrize(("end", "said"), [(close(1000), closing(1000)), (frame(3), None)])
def test_an_iteration_can_answer_everything_before_the_end(world: World, end: bytes, said: Any) -> None:
    wire = world.open(iterate)
    frames = wire.send(text("a") + text("b") + end)
    assert frames[:2] == [(TEXT, b"a"), (TEXT, b"b")]
    assert len(frames) == 3 and frames[2][0] == CLOSE
    if said is not None:
        assert frames[2] == said
    assert wire.tunnel.ended == "close"


def test_an_async_callback_answers_before_the_end(world: World) -> None:
    service = Waiting()
    wire = world.open(service)
    assert wire.send(text("a") + text("b") + close(1000)) == []
    assert not wire.socket.closed
    for number in range(2):
        service.gates[number].set_result(None)
        world.turn()
    assert wire.tunnel.frames() == [(TEXT, b"done a"), (TEXT, b"done b"), closing(1000)]


def test_a_close_frame_does_not_wait_for_ever_for_messages_to_be_taken(world: World) -> None:
    wire = world.open(nothing)
    assert wire.send(text("a") + close(1000)) == []
    wire.pass_time(CLOSE_SECONDS - 1)
    assert wire.tunnel.frames() == []
    wire.pass_time(2)
    assert wire.tunnel.frames() == [closing(1000)]
    assert wire.tunnel.ended == "close"


def test_we_close(world: World) -> None:
    wire = world.open(nothing)
    over = ends(wire.socket)
    closed = world.loop.create_task(wire.socket.close(4002, "enough"))
    world.turn()
    assert wire.tunnel.frames() == [closing(4002, "enough")]
    assert wire.socket.closed and not closed.done() and over == []
    assert wire.send(text("late")) == []
    assert wire.send(close(4002)) == []
    assert closed.done() and over == [(4002, "enough")]
    assert wire.tunnel.ended == "close"
    wire.socket.close_soon(1000)
    assert wire.tunnel.frames() == []


def test_a_peer_that_does_not_answer_our_close_frame(world: World) -> None:
    wire = world.open(nothing)
    over = ends(wire.socket)
    wire.socket.close_soon(1000)
    wire.pass_time(CLOSE_SECONDS - 1)
    assert wire.tunnel.ended == ""
    wire.pass_time(2)
    assert wire.tunnel.ended == "abort"
    assert over == [(1000, "")]
    assert world.entries()["connection", None, "disconnect"]["total"] == 0


def test_our_close_frame_has_to_be_sent_before_the_peer_can_answer_it(world: World) -> None:
    wire = world.open(nothing)
    wire.tunnel.is_stuck = True
    wire.socket.send_frame(encode_frame(b"x" * 100))
    wire.socket.close_soon(1000)
    wire.pass_time(CLOSE_SECONDS * 3)
    assert wire.tunnel.ended == ""
    wire.release()
    wire.pass_time(CLOSE_SECONDS + 1)
    assert wire.tunnel.ended == "abort"


def test_closing_reads_on_for_the_answer(world: World) -> None:
    wire = world.open(nothing)
    wire.socket.on_data(text("x") * (INCOMING_MESSAGES + FRAMES_A_BATCH) * 2)
    world.turn(20)
    assert not wire.tunnel.is_reading
    wire.socket.close_soon(1000)
    world.turn(20)
    assert wire.tunnel.is_reading
    wire.send(close(1000))
    assert wire.tunnel.ended == "close"


@pytest.mark.parametrize("how", ["eof", "closed"])
def test_the_connection_is_lost(world: World, how: str) -> None:
    wire = world.open(iterate)
    over = ends(wire.socket)
    wire.socket.on_eof() if how == "eof" else wire.socket.on_closed()
    world.turn()
    assert over == [(1006, "")]
    assert wire.socket.close_code == 1006 and wire.socket.closed
    assert not world.sockets._tasks
    wire.socket.on_closed()
    assert over == [(1006, "")]
    assert not world.errors
    assert world.entries()["connection", None, "disconnect"]["total"] == 0


def test_messages_that_came_before_the_connection_was_lost(world: World) -> None:
    wire = world.open(nothing)
    wire.send(text("a") + text("b"))
    wire.socket.on_eof()
    taken: list[Any] = []

    world.loop.run_until_complete(asyncio.wait_for(take_all(wire.socket, taken.append), 5))
    assert taken == ["a", "b"]


def test_sending_after_the_end_stops_the_service_and_is_not_logged(world: World) -> None:
    ticks: list[int] = []

    async def tick(socket: WebSocket) -> None:
        while True:
            await socket.send("tick")
            ticks.append(1)
            await asyncio.sleep(0)

    wire = world.open(tick)
    wire.socket.on_closed()
    world.turn()
    count = len(ticks)
    assert count
    world.turn()
    assert len(ticks) == count and not world.errors and not world.sockets._tasks


def test_waiting_for_room_ends_with_the_websocket(world: World) -> None:
    async def fill(socket: WebSocket) -> None:
        while True:
            await socket.send(b"x" * HIGH_WATER)

    wire = world.open(nothing)
    wire.tunnel.is_stuck = True
    wire.socket.run(fill)
    world.turn()
    wire.socket.on_closed()
    world.turn()
    assert not world.sockets._tasks and not world.errors


@pytest.mark.parametrize(
    ("error", "code", "reason"),
    [
        (AccessViolation(), 3000, "Must login"),
        (Problem("You may not", 403), 3003, "You may not"),
        (ClientError("é" * 200), 1011, "é" * 61),
        (Problem("Busy", 503), 1011, "Busy"),
        (KeyError("secret"), 1011, "Internal Server Error"),
    ],
)
def test_errors_of_a_service(world: World, error: Exception, code: int, reason: str) -> None:
    async def later(socket: WebSocket) -> None:
        await asyncio.sleep(0)
        raise error

    def now(socket: WebSocket) -> None:
        raise error

    for service in (later, now):
        wire = world.open(service)
        assert wire.tunnel.frames() == [closing(code, reason)]
    assert [logged for _, logged in world.errors] == ([error, error] if isinstance(error, KeyError) else [])


def test_errors_with_a_status_of_their_own(world: World) -> None:
    class Odd(Exception):
        status_code = 403

    async def service(socket: WebSocket) -> None:
        raise Odd("odd")

    assert world.open(service).tunnel.frames() == [closing(3003, "odd")]
    assert not world.errors


def test_a_service_that_is_done(world: World) -> None:
    async def once(socket: WebSocket) -> None:
        await socket.send("only")

    assert world.open(once).tunnel.frames() == [(TEXT, b"only"), closing(1000)]
    assert world.open(nothing).tunnel.frames() == []


def test_a_code_that_may_not_be_sent_is_a_mistake_of_the_service(world: World) -> None:
    async def wrong(socket: WebSocket) -> None:
        await socket.close(1006)

    assert world.open(wrong).tunnel.frames() == [closing(1011, "Internal Server Error")]
    assert len(world.errors) == 1


def test_the_server_stops(world: World) -> None:
    wire = world.open(iterate)
    wire.socket.drain()
    world.turn()
    assert wire.tunnel.frames() == [closing(1001)]
    assert not world.sockets._tasks


# --- time --------------------------------------------------------------------------------------------------------------------------


def test_pings_keep_it_alive(world: World) -> None:
    wire = world.open(nothing)
    for _ in range(20):
        wire.pass_time(PING_SECONDS)
        assert wire.tunnel.frames() == [(PING, b"")]
        wire.send(pong())
    assert wire.tunnel.ended == ""


def test_silence_ends_it(world: World) -> None:
    wire = world.open(nothing)
    over = ends(wire.socket)
    wire.pass_time(SILENCE_SECONDS - 2)
    assert wire.tunnel.ended == ""
    wire.pass_time(3)
    assert wire.tunnel.ended == "abort"
    assert over == [(1006, "")]


def test_a_slow_message_is_no_silence(world: World) -> None:
    wire = world.open(nothing)
    sent = text("x" * 100)
    for place in range(len(sent)):
        wire.pass_time(SILENCE_SECONDS - 5)
        wire.send(sent[place : place + 1])
    assert wire.tunnel.ended == ""


def test_a_peer_that_is_held_back_cannot_answer_pings(world: World) -> None:
    wire = world.open(nothing)
    wire.socket.on_data(text("x") * (INCOMING_MESSAGES + FRAMES_A_BATCH))
    world.turn(20)
    assert not wire.tunnel.is_reading
    wire.pass_time(SILENCE_SECONDS * 3)
    assert wire.tunnel.ended == ""


# --- figures ---------------------------------------------------------------------------------------------------------------------


def test_figures(world: World) -> None:
    def named(socket: WebSocket) -> None:
        socket.request.handler_path = "Product"
        socket._record_sent, socket._record_received = world.sockets.opened(socket)

    wire = world.open(nothing)
    wire.socket.send_frame(encode_frame("12345"))
    other = world.open(named)
    other.socket.send_frame(encode_frame(b"x" * 200))
    other.socket.send_frame(encode_frame(b"x" * 200))
    other.send(text("12345"), text("ä€"), binary(b"\xff"))
    found = world.entries()
    received = found["bytes-received", "Product", "message"]
    assert (received["type"], received["count"], received["mean"]) == ("ws", 3, (5 + 5 + 1) / 3)
    assert found["bytes-sent", None, "message"]["mean"] == 7
    assert found["bytes-sent", "Product", "message"] | {"type": "ws", "mean": 204, "count": 2} == found["bytes-sent", "Product", "message"]
    assert found["connection", None, "connect"]["total"] == found["connection", None, "connect"]["count"] == 2
    assert found["ws-connections", None, None]["connections"] == 2
    wire.send(close(1000))
    other.socket.on_closed()
    found = world.entries()
    assert (found["connection", None, "disconnect"]["total"], found["connection", None, "disconnect"]["count"]) == (1, 2)
    assert ("ws-connections", None, None) not in found


def test_one_that_is_only_sent_a_refusal_is_not_counted_as_success(world: World) -> None:
    def refuse(socket: WebSocket) -> None:
        socket.fail(AccessViolation())

    world.open(refuse)
    assert world.entries()["connection", None, "connect"]["total"] == 0


def test_before_the_handshake_is_answered(world: World) -> None:
    upgrade = world.sockets.accept(handshake_request())
    socket = upgrade.receiver
    assert isinstance(socket, WebSocket)
    socket.send_frame(encode_frame("early"))
    assert socket.pending == 7
    wire = Wire(world, socket)
    wire.start()
    assert wire.tunnel.frames() == [(TEXT, b"early")]


def test_closed_before_the_handshake_is_answered(world: World) -> None:
    socket = world.sockets.accept(handshake_request()).receiver
    assert isinstance(socket, WebSocket)
    over = ends(socket)
    socket.on_closed()
    assert over == [(1006, "")]
    assert world.entries() == {}

    async def send() -> None:
        with pytest.raises(WebSocketClosed):
            await socket.send("x")

    world.loop.run_until_complete(send())


def test_time_does_not_count_before_the_handshake_is_answered(world: World) -> None:
    """The carrier knows it, and sweeps it, before it starts it."""
    for closes in (False, True):
        socket = world.sockets.accept(handshake_request(), echo).receiver
        assert isinstance(socket, WebSocket)
        if closes:
            socket.close_soon(1000)
        wire = Wire(world, socket)
        wire.pass_time(SILENCE_SECONDS * 2)
        wire.start()
        assert wire.tunnel.ended == ""
        assert wire.send(text("a")) == ([closing(1000)] if closes else [(TEXT, b"a")])
        wire.pass_time(CLOSE_SECONDS + 1)
        assert wire.tunnel.ended == ("abort" if closes else "")


def test_cut_off_before_the_handshake_is_answered(world: World) -> None:
    socket = world.sockets.accept(handshake_request(), echo).receiver
    assert isinstance(socket, WebSocket)
    for _ in range(MAX_PENDING // (1 << 20) + 2):
        socket.send_frame(encode_frame(b"x" * (1 << 20)))
    wire = Wire(world, socket)
    wire.start()
    assert wire.tunnel.ended == "abort" and wire.tunnel.frames() == []
    assert world.entries() == {}
