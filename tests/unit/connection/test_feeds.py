"""Pushed bodies on an HTTP/1.1 connection: written when something happens, without a deadline while nothing is unsent."""

from __future__ import annotations

import pytest

from svc.errors import ClientError
from svc.messages import Feed, FeedWriter, Response
from tests.support.connections import World

GET = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"


class Recorded(Feed):
    def __init__(self) -> None:
        self.writer: FeedWriter | None = None
        self.heard: list[str] = []

    def start(self, writer: FeedWriter) -> None:
        self.writer = writer

    def write(self, data: bytes) -> None:
        assert self.writer is not None
        self.writer.write(data)

    def on_sent(self) -> None:
        self.heard.append("sent")

    def sweep(self, now: float) -> None:
        self.heard.append("sweep")

    def drain(self, is_replaced: bool = False) -> None:
        assert self.writer is not None
        self.heard.append("drain")
        self.writer.end()

    def close(self) -> None:
        self.heard.append("close")


@pytest.fixture
def world() -> World:
    return World()


def begin(world: World, request: bytes = GET) -> Recorded:
    feed = Recorded()
    world.application.answer = lambda exchange: Response(feed)
    world.receive(request)
    return feed


def test_the_head_goes_at_once(world: World) -> None:
    feed = begin(world)
    assert world.sock.sent.startswith(b"HTTP/1.1 200 OK\r\n")
    assert world.sock.sent.endswith(b"Transfer-Encoding: chunked\r\n\r\n")
    assert feed.heard == []


def test_what_is_written_goes_at_the_end_of_the_turn(world: World) -> None:
    feed = begin(world)
    world.sock.sent = b""
    feed.write(b"one")
    feed.write(b"two")
    assert world.sock.sent == b""
    world.turn()
    assert world.sock.sent == b"3\r\none\r\n3\r\ntwo\r\n"
    assert feed.heard == ["sent"]


def test_the_connection_goes_on_after_the_end(world: World) -> None:
    feed = begin(world)
    feed.write(b"one")
    assert feed.writer is not None
    feed.writer.end()
    world.turn()
    assert world.sock.sent.endswith(b"3\r\none\r\n0\r\n\r\n")
    assert feed.heard == ["close"]
    assert world.application.done[0].body_bytes == 3
    world.application.answer = lambda exchange: Response(b"again")
    world.sock.sent = b""
    world.receive(GET)
    assert world.bodies() == [b"again"]


def test_silence_has_no_deadline(world: World) -> None:
    feed = begin(world)
    world.pass_time(100_000)
    feed.write(b"x")
    world.turn()
    world.pass_time(100_000)
    assert not world.sock.closed
    assert feed.heard == ["sweep", "sent", "sweep"]


def test_a_reader_who_takes_nothing_is_let_go(world: World) -> None:
    feed = begin(world)
    world.sock.room = 0
    feed.write(b"x" * 1000)
    world.turn()
    assert feed.writer is not None
    assert feed.writer.pending > 1000
    world.pass_time(19)
    assert not world.sock.closed
    world.pass_time(2)
    assert world.sock.closed
    assert feed.heard[-1] == "close"


def test_it_is_told_when_a_slow_reader_has_taken_all(world: World) -> None:
    feed = begin(world)
    world.sock.room = 10
    feed.write(b"x" * 1000)
    world.turn()
    assert "sent" not in feed.heard
    world.writable()
    world.turn()
    assert feed.heard == ["sent"]
    assert feed.writer is not None
    assert feed.writer.pending == 0
    world.pass_time(100_000)
    assert not world.sock.closed


@pytest.mark.parametrize("piece", [b"", ConnectionResetError()])
def test_a_peer_who_goes_away_ends_it(world: World, piece: bytes | OSError) -> None:
    feed = begin(world)
    world.receive(piece)
    assert world.sock.closed
    assert feed.heard == ["close"]
    feed.write(b"nobody listens")
    assert not world.connections.lasting
    assert world.application.done


def test_a_stop_ends_it(world: World) -> None:
    feed = begin(world)
    world.connections.drain()
    world.turn()
    assert feed.heard == ["drain", "close"]
    assert world.sock.sent.endswith(b"0\r\n\r\n")
    assert world.sock.closed


def test_head_ends_it_before_it_begins(world: World) -> None:
    feed = begin(world, b"HEAD / HTTP/1.1\r\nHost: a\r\n\r\n")
    world.turn()
    assert feed.heard == ["close"]
    assert feed.writer is None
    assert world.sock.sent.count(b"\r\n\r\n") == 1


def test_http_1_0_is_closed_at_the_end(world: World) -> None:
    feed = begin(world, b"GET / HTTP/1.0\r\n\r\n")
    feed.write(b"one")
    assert feed.writer is not None
    feed.writer.end()
    world.turn()
    assert world.sock.sent.endswith(b"\r\n\r\none")
    assert world.sock.closed


def test_an_error_in_its_own_code_costs_the_connection_only(world: World) -> None:
    class Broken(Recorded):
        def on_sent(self) -> None:
            raise ClientError("broken")

    feed = Broken()
    world.application.answer = lambda exchange: Response(feed)
    world.receive(GET)
    feed.write(b"x")
    world.turn()
    assert world.sock.closed
    assert len(world.errors) == 1
    assert feed.heard == ["close"]
