"""What follows an upgrade: bytes both ways, on a fake socket."""

from __future__ import annotations

from typing import Any

import pytest

from svc.messages import Response, Tunnel, Upgrade
from tests.support.connections import World

ASK = b"GET /chat HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: %b\r\n\r\n"


class Recorded:
    def __init__(self) -> None:
        self.tunnel: Any = None
        self.heard: list[str | bytes] = []

    def start(self, tunnel: Tunnel) -> None:
        self.tunnel = tunnel
        self.heard.append("start")

    def on_data(self, data: bytes) -> None:
        self.heard.append(data)

    def on_eof(self) -> None:
        self.heard.append("eof")

    def on_sent(self) -> None:
        self.heard.append("sent")

    def on_closed(self) -> None:
        self.heard.append("closed")

    def sweep(self, now: float) -> None:
        self.heard.append("sweep")

    def drain(self, is_replaced: bool = False) -> None:
        self.heard.append("drain")


@pytest.fixture
def world() -> World:
    return World()


def begin(world: World, *pieces: bytes | OSError, offered: bytes = b"Chat") -> Recorded:
    receiver = Recorded()
    world.application.answer = lambda exchange: Upgrade("chat", receiver, [("X-Room", "7")])
    world.receive(ASK % offered, *pieces)
    return receiver


def test_the_answer_is_101(world: World) -> None:
    receiver = begin(world)
    assert world.sock.sent == b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: chat\r\nX-Room: 7\r\nConnection: Upgrade\r\n\r\n"
    assert receiver.heard == ["start"]
    assert world.application.handled[0].request.offers == "chat"
    assert [exchange.status for exchange in world.application.done] == [101]


@pytest.mark.parametrize(
    ("offered", "offers"), [(b"websocket", "websocket"), (b"h2c, WebSocket", "websocket"), (b"h2c", "h2c"), (b",", "")]
)
def test_what_a_request_offers(world: World, offered: bytes, offers: str) -> None:
    world.receive(ASK % offered)
    assert world.application.handled[0].request.offers == offers
    assert world.bodies() == [b"/chat"]  # not accepted: an ordinary answer


def test_bytes_that_came_with_the_request(world: World) -> None:
    receiver = Recorded()
    world.application.answer = lambda exchange: Upgrade("chat", receiver)
    world.receive(ASK % b"chat" + b"early")
    world.receive(b"late")
    assert receiver.heard == ["start", b"early", b"late"]


def test_a_request_with_a_body_offers_nothing_until_it_is_here(world: World) -> None:
    receiver = Recorded()
    world.application.answer = lambda exchange: Response(b"no") if not exchange.request.offers else Upgrade("chat", receiver)
    head = (ASK % b"chat")[:-2]
    world.receive(head + b"Content-Length: 2\r\n\r\n", b"ab")
    assert world.bodies() == [b"no"]


def test_bytes_out(world: World) -> None:
    receiver = begin(world)
    world.sock.sent = b""
    receiver.tunnel.write(b"one")
    receiver.tunnel.write(b"two")
    assert receiver.tunnel.pending == 6
    world.turn()
    assert world.sock.sent == b"onetwo"
    assert receiver.tunnel.pending == 0
    assert receiver.heard == ["start", "sent"]


def test_a_slow_reader(world: World) -> None:
    receiver = begin(world)
    world.sock.room = 2
    receiver.tunnel.write(b"12345")
    world.turn()
    assert receiver.tunnel.pending == 3
    world.writable(1)
    world.turn()
    assert "sent" not in receiver.heard
    world.writable()
    world.turn()
    assert receiver.heard == ["start", "sent"]
    world.pass_time(100_000)
    assert not world.sock.closed


def test_a_reader_who_takes_nothing_is_let_go(world: World) -> None:
    receiver = begin(world)
    world.sock.room = 0
    receiver.tunnel.write(b"12345")
    world.turn()
    world.pass_time(21)
    assert world.sock.closed
    assert receiver.heard == ["start", "sweep", "closed"] or receiver.heard == ["start", "closed"]


def test_reading_can_be_paused(world: World) -> None:
    receiver = begin(world)
    receiver.tunnel.pause_reading()
    assert world.sock not in world.loop.readers
    receiver.tunnel.resume_reading()
    world.receive(b"x")
    assert receiver.heard == ["start", b"x"]


def test_the_peer_ends_first(world: World) -> None:
    receiver = begin(world)
    world.receive(b"")
    assert receiver.heard == ["start", "eof"]
    receiver.tunnel.write(b"last words")
    receiver.tunnel.close()
    world.turn()
    assert world.sock.sent.endswith(b"last words")
    assert world.sock.closed
    assert receiver.heard == ["start", "eof", "closed"]


def test_we_end_first(world: World) -> None:
    receiver = begin(world)
    receiver.tunnel.write(b"last words")
    receiver.tunnel.close()
    receiver.tunnel.write(b"dropped")
    world.turn()
    assert world.sock.sent.endswith(b"last words")
    assert world.sock.half_closed
    assert not world.sock.closed
    world.receive(b"not wanted", b"")
    assert world.sock.closed
    assert receiver.heard == ["start", "closed"]


def test_a_peer_who_never_ends(world: World) -> None:
    receiver = begin(world)
    receiver.tunnel.close()
    world.turn()
    world.pass_time(3)
    assert world.sock.closed
    assert receiver.heard[-1] == "closed"


def test_abort(world: World) -> None:
    receiver = begin(world)
    world.sock.room = 0
    receiver.tunnel.write(b"never sent")
    world.turn()
    receiver.tunnel.abort()
    assert receiver.heard == ["start"]  # not inside its own call
    world.turn()
    assert world.sock.closed
    assert not world.loop.writers
    assert receiver.heard == ["start", "closed"]


@pytest.mark.parametrize("state", ["before", "after"])
def test_a_connection_that_breaks(world: World, state: str) -> None:
    if state == "after":
        receiver = begin(world, ConnectionResetError())
        assert receiver.heard == ["start", "closed"]
    else:
        receiver = Recorded()
        world.application.answer = lambda exchange: Upgrade("chat", receiver)
        world.sock.incoming.append(ASK % b"chat")
        world.loop.readers[world.sock]()
        world.connections.close_all()
        assert receiver.heard == ["closed"]
    assert world.sock.closed
    assert not world.connections.lasting


def test_the_end_of_the_server(world: World) -> None:
    receiver = begin(world)
    world.connections.drain()
    assert receiver.heard == ["start", "drain"]
    assert not world.sock.closed


def test_a_defect_of_the_receiver_costs_its_connection(world: World) -> None:
    receiver = begin(world)

    def broken(data: bytes) -> None:
        raise RuntimeError("broken")

    receiver.on_data = broken  # type: ignore[method-assign]
    world.receive(b"x")
    assert world.sock.closed
    assert len(world.errors) == 1
    assert receiver.heard == ["start", "closed"]


def test_later_requests_in_the_same_bytes_are_the_other_protocols(world: World) -> None:
    receiver = begin(world, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    assert len(world.application.handled) == 1
    assert receiver.heard == ["start", b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"]
