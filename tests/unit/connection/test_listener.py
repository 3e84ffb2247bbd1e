"""Accepting in batches, backing off at the descriptor limit, on a fake listening socket."""

from __future__ import annotations

import errno
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from svc.connection.listener import (
    ACCEPT_BATCH,
    BACK_OFF,
    LOOK_SECONDS,
    RESERVED_BY_APPLICATION,
    RESERVED_BY_SOCKET,
    Listener,
    last_descriptor,
    peer_address,
)
from svc.connection.listening import ListeningSockets
from svc.messages import UNIX_PEER
from tests.support.fakes import FakeLoop


class FakeConnected:
    def __init__(self, descriptor: int = 10) -> None:
        self._descriptor = descriptor

    def fileno(self) -> int:
        return self._descriptor

    def setblocking(self, flag: bool) -> None:
        assert flag is False

    def setsockopt(self, *option: int) -> None:
        pass


class FakeListening:
    """`free`: the lowest descriptor that is free, as a copy of its own finds it."""

    def __init__(self) -> None:
        self.free = 10
        self.waiting: list[tuple[Any, Any] | OSError] = []
        self.closed = False

    def getsockname(self) -> tuple[str, int]:
        return ("::", 9926)

    def getsockopt(self, *option: int) -> int:
        return 0

    def accept(self) -> tuple[Any, Any]:
        if not self.waiting:
            raise BlockingIOError
        item = self.waiting.pop(0)
        if isinstance(item, OSError):
            raise item
        return item

    def fileno(self) -> int:
        return -1

    def close(self) -> None:
        self.closed = True


class TimedLoop(FakeLoop):
    now = 0.0

    def time(self) -> float:
        return self.now

    def __init__(self) -> None:
        super().__init__()
        self.later: list[tuple[float, Callable[[], None]]] = []

    def call_later(self, delay: float, callback: Callable[..., None], *arguments: Any) -> None:
        self.later.append((delay, partial(callback, *arguments)))


class FakeConnections:
    def __init__(self) -> None:
        self.open: list[str] = []

    def accept(self, sock: Any, peer: str, scheme: str) -> None:
        self.open.append(peer)


class World:
    def __init__(self, *others: FakeListening) -> None:
        """`others`: the sockets of siblings."""
        self.sock, self.loop, self.connections = FakeListening(), TimedLoop(), FakeConnections()
        self.routed: list[bool] = []
        self.warnings: list[str] = []
        self.listener = Listener(
            ListeningSockets((self.sock,), others), self.connections, self.loop, self.routed.append, self.warnings.append
        )  # type: ignore[arg-type]
        self.listener.start()

    def arrive(self, count: int) -> None:
        self.sock.waiting += [(FakeConnected(), ("::ffff:10.0.0.1", 1, 0, 0))] * count

    def turn(self) -> None:
        self.loop.readers[self.sock]()


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    world = World()
    monkeypatch.setattr(Listener, "_warned_at", float("-inf"))
    monkeypatch.setattr("svc.connection.listener.free_descriptor", lambda sock: sock.free)
    monkeypatch.setattr("svc.connection.listener.last_descriptor", lambda reserved: 100)
    return world


def test_all_that_wait_are_taken_at_once(world: World) -> None:
    world.arrive(3)
    world.turn()
    assert world.connections.open == ["10.0.0.1"] * 3
    assert world.routed == [True] * 3


def test_a_flood_is_spread_over_turns_and_counted_as_late(world: World) -> None:
    world.arrive(ACCEPT_BATCH + 5)
    world.turn()
    assert len(world.connections.open) == ACCEPT_BATCH
    world.turn()
    assert world.routed == [True] * ACCEPT_BATCH + [False] * 5
    world.arrive(1)
    world.turn()
    assert world.routed[-1] is True


@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENFILE, errno.ENOBUFS])
def test_without_descriptors_it_waits_and_comes_back(world: World, code: int) -> None:
    world.sock.waiting.append(OSError(code, "Too many open files"))
    world.arrive(1)
    world.turn()
    assert world.sock not in world.loop.readers
    assert "port 9926: Too many open files" in world.warnings[0]
    delay, resume = world.loop.later[0]
    assert delay == BACK_OFF
    resume()
    world.turn()
    assert world.connections.open == ["10.0.0.1"]
    assert world.routed == [False]


def test_the_last_descriptors_are_left_to_others(world: World) -> None:
    world.sock.waiting += [(FakeConnected(number), ("10.0.0.1", 1)) for number in (98, 99, 100, 101)]
    world.turn()
    assert len(world.connections.open) == 3
    assert world.sock not in world.loop.readers
    for attempt in range(5):
        world.sock.free = 101
        delay, resume = world.loop.later[attempt]
        assert delay == BACK_OFF
        resume()
        assert world.sock not in world.loop.readers
        world.loop.now += BACK_OFF
    assert len(world.warnings) == 2, "once a second"
    assert "port 9926: The last descriptors are reserved" in world.warnings[0]
    world.sock.free = 100
    world.loop.later[-1][1]()
    world.turn()
    assert len(world.connections.open) == 4


@pytest.mark.parametrize(
    ("limit", "reserved", "last"),
    [
        (1024, RESERVED_BY_APPLICATION, 927),
        (1024, RESERVED_BY_SOCKET, 999),
        (128, RESERVED_BY_APPLICATION, 95),
        (128, RESERVED_BY_SOCKET, 119),
    ],
)
def test_what_is_reserved(limit: int, reserved: int, last: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resource.getrlimit", lambda kind: (limit, limit))
    assert last_descriptor(reserved) == last


def test_a_peer_that_gave_up_is_skipped(world: World) -> None:
    world.sock.waiting.append(ConnectionAbortedError(errno.ECONNABORTED, "gone"))
    world.arrive(1)
    world.turn()
    assert len(world.connections.open) == 1


def test_after_stop_nothing_comes_back(world: World) -> None:
    world.sock.waiting.append(OSError(errno.EMFILE, "Too many open files"))
    world.turn()
    world.listener.stop()
    world.loop.later[0][1]()
    assert world.sock not in world.loop.readers
    assert world.sock.closed
    world.listener.stop()


def test_addresses() -> None:
    assert peer_address(("::1", 1, 0, 0)) == "::1"
    assert peer_address(("127.0.0.1", 1)) == "127.0.0.1"
    assert peer_address("") == UNIX_PEER


def test_who_has_waited_for_a_sibling_is_taken(world: World) -> None:
    """One that has not is left to it: of clients that come to it there is one look, a little later."""
    first, second = FakeListening(), FakeListening()
    world = World(first, second)
    assert world.loop.later == []  # without clients there is nothing to do
    for is_taken_by_sibling in (True, False):
        first.waiting.append((FakeConnected(), ("10.0.0.2", 1)))
        world.loop.readers[first]()
        assert set(world.loop.readers) == {world.sock, second}
        [(delay, look)] = world.loop.later
        assert delay == LOOK_SECONDS and world.connections.open == []
        world.loop.later.clear()
        if is_taken_by_sibling:
            first.waiting.clear()
        look()
        assert set(world.loop.readers) == {world.sock, first, second} and world.loop.later == []
    assert world.connections.open == ["10.0.0.2"]


def test_a_listener_that_has_stopped_looks_no_more(world: World) -> None:
    other = FakeListening()
    world = World(other)
    other.waiting.append((FakeConnected(), ("10.0.0.2", 1)))
    world.loop.readers[other]()
    [(_, look)] = world.loop.later
    world.listener.stop()
    look()
    assert world.loop.readers == {} and world.connections.open == [] and other.closed


def test_without_descriptors_those_of_siblings_are_left_too(world: World) -> None:
    other = FakeListening()
    world = World(other)
    world.sock.waiting.append(OSError(errno.EMFILE, "Too many open files"))
    world.turn()
    other.waiting.append((FakeConnected(), ("10.0.0.2", 1)))
    world.loop.readers[other]()
    (_, resume), (_, look) = world.loop.later
    look()
    assert world.connections.open == []
    resume()
    world.loop.readers[other]()
    world.loop.later[-1][1]()
    assert world.connections.open == ["10.0.0.2"]
