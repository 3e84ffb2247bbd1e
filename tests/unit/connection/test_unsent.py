"""Answers that a peer does not take: what one connection may hold in memory, and what all together."""

from __future__ import annotations

from typing import Any

import pytest

from svc.connection.base import UNSENT_MAX
from svc.connection.http2 import ANSWERS_MAX
from svc.connection.http2_exchange import ANSWERS_LIMIT
from svc.messages import Response
from tests.support.connections import World
from tests.support.fakes import FakeSocket
from tests.unit.connection.test_http2 import World2

SIZE = 1 << 20
GET = b"GET /%d HTTP/1.1\r\nHost: a\r\n\r\n"


def large(world: World) -> None:
    """Each answer is of SIZE and says which request it is of."""
    world.application.answer = lambda exchange: Response(exchange.request.target.encode().ljust(SIZE, b"."))


def number_of(body: bytes) -> int:
    """The request that a whole answer is of."""
    target = body[: body.index(b".")]
    assert body == target.ljust(SIZE, b".")
    return int(target[1:])


def numbers(world: World) -> list[int]:
    return [number_of(body) for body in world.bodies()]


# --- HTTP/1.1 ------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("together", [True, False], ids=["in one read", "one by one"])
def test_who_pipelines_and_never_reads_is_not_read_either(together: bool) -> None:
    world = World()
    large(world)
    world.sock.room = 0
    requests = [GET % number for number in range(50)]
    world.receive(*([b"".join(requests)] if together else requests))
    assert world.sock not in world.loop.readers
    assert world.connection._pending + world.connection.protocol.unsent <= UNSENT_MAX + 2 * SIZE
    assert world.connections.held == world.connection.held == world.connection._pending
    waiting, world.sock.incoming = len(world.sock.incoming), []
    for _ in range(200):
        world.writable(SIZE)
        world.turn()
        assert world.connection.held <= UNSENT_MAX + 2 * SIZE
    assert numbers(world) == list(range(50 if together else 50 - waiting))
    assert world.sock in world.loop.readers
    assert world.connections.held == 0
    world.sock.sent, world.sock.room = b"", 1 << 30
    world.receive(GET % 99)
    assert numbers(world) == [99]


def test_a_peer_that_never_reads_is_closed_in_time() -> None:
    world = World()
    large(world)
    world.sock.room = 0
    world.receive(GET % 1)
    assert world.connections.held > SIZE
    world.pass_time(21)
    assert world.sock.closed
    assert world.connections.held == 0


# --- HTTP/2 --------------------------------------------------------------------------------------------------------------------------


def closed_windows() -> World2:
    world = World2(window=0, reads=False)
    large(world)
    return world


def test_requests_wait_while_the_windows_are_closed() -> None:
    world = closed_windows()
    answers = [world.client.request("GET", f"/{number}") for number in range(100)]
    world.talk()
    assert len(world.application.handled) <= ANSWERS_MAX // SIZE + 1
    assert world.http2.protocol.buffered <= ANSWERS_MAX + SIZE
    assert world.connections.held == world.http2.protocol.buffered
    for stream_id in answers:
        world.client.h2.increment_flow_control_window(SIZE, stream_id)
        world.client.h2.increment_flow_control_window(SIZE)
        world.talk()
        assert world.http2.protocol.buffered <= ANSWERS_MAX + SIZE
    assert [number_of(world.client.answers[stream_id].body) for stream_id in answers] == list(range(100))
    assert world.connections.held == 0


def test_a_request_that_waits_too_long_is_answered_and_never_begun() -> None:
    world = closed_windows()
    answers = [world.client.answers[world.client.request("GET", f"/{number}")] for number in range(20)]
    world.talk()
    begun = len(world.application.handled)
    world.pass_time(21)
    world.talk()
    assert [answer.status for answer in answers[begun:]] == [503] * (20 - begun)
    world.pass_time(21)
    world.pass_time(21)
    world.talk()
    assert len(world.application.handled) == begun
    assert world.connections.held == 0


def test_a_request_given_up_while_it_waits_is_never_begun() -> None:
    world = closed_windows()
    for number in range(20):
        world.client.request("GET", f"/{number}")
    world.talk()
    begun = len(world.application.handled)
    for stream_id in world.client.answers:
        world.client.h2.reset_stream(stream_id)
    world.talk()
    assert world.http2.protocol.idle and world.connections.held == 0
    assert world.ask("/99").status == 200
    assert [exchange.request.target for exchange in world.application.handled[begun:]] == ["/99"]


def test_answers_of_requests_begun_before_are_bounded_too() -> None:
    world = closed_windows()
    world.later()
    answers = [world.client.answers[world.client.request("GET", f"/{number}")] for number in range(60)]
    world.talk()
    for exchange in world.application.handled:
        exchange.respond(Response(bytes(SIZE)))
    world.talk()
    assert len(world.application.handled) == 60
    assert world.http2.protocol.buffered <= ANSWERS_LIMIT + SIZE + 60 * 1000
    assert [answer.status for answer in answers] == [200] * 5 + [503] * 55


# --- all together --------------------------------------------------------------------------------------------------------------------


def test_those_that_hold_most_are_closed_when_all_hold_too_much() -> None:
    world = World()
    large(world)
    world.connections.max_held = 5 * SIZE
    sockets: list[Any] = []
    for number in range(10):
        sock = FakeSocket()
        sock.room = 0 if number else 1 << 30
        sockets.append(sock)
        world.connections.accept(sock, "127.0.0.1")  # type: ignore[arg-type]
        sock.incoming.append(GET % number * (3 if number == 5 else 1))
        world.loop.readers[sock]()
        while world.turn():
            pass
        assert world.connections.held <= world.connections.max_held
        assert world.connections.held == sum(connection.held for connection in world.connections.open)
    assert sockets[5].closed and not sockets[0].closed
    assert len(world.errors) == 1 and "do not read" in world.errors[0][0]
    world.connections.close_all()
    assert world.connections.held == 0
