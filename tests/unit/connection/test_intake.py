"""Bodies on their way in: the room that they share, and limits of some of them."""

from __future__ import annotations

from typing import Any

from svc.auth.users import User
from svc.connection.exchange import BodyLimit
from svc.errors import ClientError
from tests.support.connections import World
from tests.support.fakes import FakeSocket

CHUNKED = b"POST /%s HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"


class Senders(World):
    """Clients that send bodies and do not end them. The room is 1000 bytes."""

    def begin(self, name: str, size: int, peer: str = "10.0.0.1", user: str | None = None) -> FakeSocket:
        def decide(exchange: Any) -> None:
            exchange.request.user = None if user is None else User(user)

        self.application.decide = decide
        sock = FakeSocket()
        self.connections.accept(sock, peer)  # type: ignore[arg-type]
        self.add(sock, CHUNKED % name.encode())
        self.add(sock, b"%x\r\n%s\r\n" % (size, b"x" * size))
        return sock

    def add(self, sock: FakeSocket, data: bytes) -> None:
        sock.incoming.append(data)
        if sock in self.loop.readers:
            self.loop.readers[sock]()
        self.turn()


def test_who_comes_last_is_not_refused_for_those_who_hold_the_room() -> None:
    world = Senders()
    attackers = [world.begin("attack", 495), world.begin("attack", 490)]
    other = world.begin("other", 100, "10.0.0.2")
    world.add(other, b"0\r\n\r\n")
    assert other.sent.startswith(b"HTTP/1.1 200")
    assert attackers[0].sent.startswith(b"HTTP/1.1 503") and b"Too many request bodies" in attackers[0].sent
    assert attackers[1].sent == b""
    assert world.connections.bodies == 490 and len(world.connections.intakes) == 1


def test_many_bodies_of_one_user_count_together_wherever_they_come_from() -> None:
    world = Senders()
    attackers = [world.begin("attack", 90, f"10.0.1.{number}", "mallory") for number in range(10)]
    other = world.begin("other", 400, "10.0.0.2", "alice")
    world.add(other, b"0\r\n\r\n")
    assert other.sent.startswith(b"HTTP/1.1 200")
    assert sum(sock.sent.startswith(b"HTTP/1.1 503") for sock in attackers) == 4


def test_a_body_that_ends_its_connection_leaves_nothing() -> None:
    world = Senders()
    sock = world.begin("one", 500)
    sock.incoming.append(ConnectionResetError())
    world.loop.readers[sock]()
    world.turn()
    assert world.connections.bodies == 0 and not world.connections.intakes


def limited(world: World, size: int = 10) -> None:
    world.application.decide = lambda exchange: BodyLimit(size, ClientError("too long for this", 413))


def test_a_body_that_is_announced_to_be_too_long_is_refused_with_the_head() -> None:
    world = World()
    limited(world)
    world.receive(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 11\r\nExpect: 100-continue\r\n\r\n")
    assert world.sock.sent.startswith(b"HTTP/1.1 413") and b"too long for this" in world.sock.sent
    assert not world.application.handled and world.connections.bodies == 0


def test_a_body_of_unknown_length_is_refused_when_it_passes_the_limit() -> None:
    world = World()
    limited(world)
    world.receive(CHUNKED % b"x", b"a\r\n0123456789\r\n")
    assert world.sock.sent == b""
    world.receive(b"1\r\n0\r\n")
    assert world.sock.sent.startswith(b"HTTP/1.1 413")
    assert not world.application.handled and world.connections.bodies == 0


def test_a_body_within_its_limit_is_collected() -> None:
    world = World()
    limited(world)
    world.receive(CHUNKED % b"x", b"a\r\n0123456789\r\n", b"0\r\n\r\n")
    assert world.sock.sent.startswith(b"HTTP/1.1 200")
    assert world.application.handled[0].request.content == b"0123456789"
