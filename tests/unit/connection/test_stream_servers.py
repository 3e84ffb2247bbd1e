"""Connections that code of an application serves with asyncio's streams, over pairs of sockets."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from svc.connection.stream_servers import StreamConnections

LIMIT = 30.0  # seconds


class World:
    def __init__(self, listener: Callable[..., Any]) -> None:
        self.errors: list[BaseException | None] = []
        self.server = StreamConnections(asyncio.get_running_loop(), listener, lambda where, error: self.errors.append(error))

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        own, theirs = socket.socketpair()
        for sock in (own, theirs):
            sock.setblocking(False)
        self.server.accept(theirs, "peer", "http")
        return await asyncio.open_connection(sock=own)

    async def ended(self) -> None:
        """All that was accepted has ended."""
        await asyncio.gather(*self.server._tasks, return_exceptions=True)
        assert not self.server.open


def run(listener: Callable[..., Any], work: Callable[[World], Awaitable[None]]) -> list[BaseException | None]:
    """The errors that were logged."""

    async def main() -> list[BaseException | None]:
        world = World(listener)
        await asyncio.wait_for(work(world), LIMIT)
        await asyncio.wait_for(world.ended(), LIMIT)
        return world.errors

    return asyncio.run(main())


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(100):
        writer.write(data)
        await writer.drain()


def test_an_async_listener_serves_until_it_returns() -> None:
    async def talk(world: World) -> None:
        reader, writer = await world.connect()
        writer.write(b"abc")
        assert await reader.readexactly(3) == b"abc"
        assert (len(world.server.open), world.server.count) == (1, 1)
        writer.write_eof()
        assert await reader.read() == b""
        writer.close()

    assert run(echo, talk) == []


def test_a_plain_listener_goes_on_by_itself() -> None:
    def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"hello")
        asyncio.get_running_loop().call_soon(lambda: (writer.write(b" and bye"), writer.close()))

    async def talk(world: World) -> None:
        reader, writer = await world.connect()
        assert await reader.read() == b"hello and bye"
        writer.close()

    assert run(listen, talk) == []


@pytest.mark.parametrize("wait", [False, True])
def test_what_a_listener_raises_is_logged_and_ends_the_connection(wait: bool) -> None:
    def plain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        raise ValueError("no")

    async def later(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        raise ValueError("no")

    async def talk(world: World) -> None:
        reader, writer = await world.connect()
        if wait:
            writer.write(b"x")
        assert await reader.read() == b""
        writer.close()

    (error,) = run(later if wait else plain, talk)
    assert isinstance(error, ValueError)


def test_a_peer_that_goes_is_no_error() -> None:
    async def shout(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            writer.write(b"x" * 65536)
            await writer.drain()

    async def talk(world: World) -> None:
        reader, writer = await world.connect()
        await reader.read(1)
        writer.transport.abort()

    assert run(shout, talk) == []


def test_the_end_of_the_server_ends_its_connections() -> None:
    ended = []

    async def wait(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"x")
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(True)

    async def talk(world: World) -> None:
        reader, writer = await world.connect()
        assert await reader.read(1) == b"x"
        world.server.close_all()
        assert await reader.read() == b""
        writer.close()

    assert run(wait, talk) == []
    assert ended == [True]
