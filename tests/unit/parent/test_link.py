"""The end of the channel that an instance has, with a parent that is only written down."""

from __future__ import annotations

import asyncio
import errno
import mmap
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from svc.connection.listening import listen_on
from svc.parent.channel import Channel, pair
from svc.parent.link import BEAT, COMPLETED, RENEWING, Link
from svc.parent.messages import Failed, NotRestarted, Opened, OpenPath, OpenPort, Ready, Refused, Release, Restart, Retire, Succeed


class World:
    """`parent`: the other end. What it says before it is asked is there when that is waited for."""

    def __init__(self) -> None:
        here, there = pair()
        self.parent = Channel(there)
        there.setblocking(False)
        self.beats = mmap.mmap(-1, (RENEWING + 1) * BEAT.size)
        self.link = Link(Channel(here), 3, self.beats, 2, is_first=True)
        self.sockets = [sock for _ in range(4) for sock in listen_on(0, ("127.0.0.1",))]

    def heard(self) -> list[object]:
        try:
            return [message for message, _ in self.parent.receive()]
        except BlockingIOError:
            return []

    def opened(self, *sockets: socket.socket, own: int = 1, is_last: bool = True) -> None:
        self.parent.send(Opened(own, is_last), [sock.fileno() for sock in sockets])

    def close(self) -> None:
        self.link.close()
        self.parent.close()
        for sock in self.sockets:
            sock.close()
        self.beats.close()


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    yield made
    made.close()


def test_sockets_of_a_port(world: World) -> None:
    world.opened(*world.sockets[:2], is_last=False)
    world.opened(*world.sockets[2:], own=2)
    first, second = world.link.at_port("http.port", 0, ("127.0.0.1", "::1"))
    assert world.heard() == [OpenPort("http.port", 0, ("127.0.0.1", "::1"))]
    assert (len(first.own), len(first.others), len(second.own), len(second.others)) == (1, 1, 2, 0)
    first.close()
    assert world.heard() == [], "the other address is still listened to"
    second.close()
    assert world.heard() == [Release(world.sockets[0].getsockname()[1], "")]


def test_what_one_that_ends_closes_stays_open(world: World) -> None:
    world.opened(world.sockets[0])
    found = world.link.at_path(Path("/run/svc"))
    world.link.leave()
    found.close()
    assert world.heard() == [OpenPath("/run/svc")]


def test_a_port_that_cannot_be_opened(world: World) -> None:
    world.parent.send(Refused(errno.EADDRINUSE, "Address already in use", "::1"))
    with pytest.raises(OSError, match="Address already in use") as raised:
        world.link.at_port("http.port", 80, ("::1",))
    assert (raised.value.errno, raised.value.filename) == (errno.EADDRINUSE, "::1")


def test_a_parent_that_is_gone_while_it_is_asked(world: World) -> None:
    world.parent.close()
    with pytest.raises(OSError):
        world.link.at_port("http.port", 80, ("::1",))


def test_news_that_come_meanwhile_are_heard_when_the_loop_runs(world: World) -> None:
    async def listen() -> list[str]:
        heard: list[str] = []
        ends = asyncio.Event()

        def note(name: str, sock: socket.socket) -> None:
            heard.append(name)
            sock.close()

        world.link.on_retire = lambda sock: note("retire", sock)
        world.link.on_succeed = lambda sock: note("succeed", sock)
        world.link.on_lost = ends.set
        here, there = pair()
        with here, there:
            world.parent.send(Succeed(), [here.fileno()])
            world.parent.send(NotRestarted("it rains"))
            world.opened(world.sockets[0])
            for sockets in world.link.at_port("http.port", 0, ("127.0.0.1",)):
                sockets.close()
            assert heard == [] and world.link.not_restarted is None
            world.link.begin(asyncio.get_running_loop())
            world.parent.send(Retire(), [there.fileno()])
        world.parent.close()
        await ends.wait()
        return heard

    assert asyncio.run(listen()) == ["succeed", "retire"]
    assert world.link.not_restarted == "it rains"


def test_what_it_says(world: World) -> None:
    world.link.ready(2, 1)
    world.link.failed("no")
    world.link.restart()
    assert world.heard() == [Ready(2, 1), Failed("no"), Restart()]
    world.parent.close()
    world.link.ready(2, 1)  # nobody hears it


def test_what_the_memory_says(world: World) -> None:
    world.link.beat()
    world.link.beat(1.0)
    assert BEAT.unpack_from(world.beats, 2 * BEAT.size) == (2,)
    assert (world.link.restarts, world.link.is_restarting, world.link.begins_restart) == (0, False, False)
    BEAT.pack_into(world.beats, COMPLETED * BEAT.size, 3)
    BEAT.pack_into(world.beats, RENEWING * BEAT.size, 1)
    assert (world.link.restarts, world.link.is_restarting) == (2, True)
    here, there = pair()
    assert Link(Channel(here), 0, world.beats, 0, is_first=True).begins_restart
    assert not Link(Channel(here), 1, world.beats, 1, is_first=False).begins_restart
    here.close()
    there.close()
