"""Connections to what is no engine, or one that lies: they end, with a reason, and gather nothing without end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from svc.cluster import client
from svc.cluster.client import Address, ConnectFailed, Connection, Message, Unavailable
from svc.cluster.link import Link
from svc.loop import new_loop
from tests.support.engines import LogLines, until

INFO = b'INFO {"server_id":"N","version":"2.15.1","headers":true,"max_payload":1048576}\r\n'
Script = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def run(scene: Callable[[], Awaitable[None]]) -> None:
    loop, _ = new_loop()
    try:
        loop.run_until_complete(asyncio.wait_for(scene(), 300))
    finally:
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()


@asynccontextmanager
async def listening(script: Script) -> AsyncIterator[Address]:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await script(reader, writer)
            await reader.read()
        except OSError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield Address("127.0.0.1", server.sockets[0].getsockname()[1])
    finally:
        server.close()


async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> list[bytes]:
    """What an engine says, until the subscription for answers has come."""
    writer.write(INFO)
    lines = []
    while True:
        line = await reader.readline()
        lines.append(line)
        if line.startswith(b"PING"):
            writer.write(b"PONG\r\n")
        if line.startswith(b"SUB") or not line:
            return lines


@pytest.mark.parametrize(
    "said",
    [
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"INFO nonsense\r\n",
        b"INFO []\r\n",
        b"\x00\xff" * 5000,
        b"INFO " + b"[" * 60_000 + b"\r\n",
        b"INFO {" + b" " * 200_000,
        b"INFO {}\r\nHELLO\r\n",
        INFO + b"-ERR 'Authorization Violation'\r\n",
        INFO[:-3] + b',"tls_required":true}\r\n',
        INFO[:-3] + b',"connect_urls":[5]}\r\n',
        b"",
    ],
    ids=range(11),
)
def test_what_is_no_engine(said: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "CONNECT_SECONDS", 1.0)
    monkeypatch.setattr(client, "OPEN_SECONDS", 5.0)

    async def scene() -> None:
        async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(said)
            await writer.drain()

        async with listening(script) as address:
            with pytest.raises(ConnectFailed):
                await Connection.open(address, "x", "_INBOX")

    run(scene)


@pytest.mark.parametrize(
    "said",
    [
        b"MSG x 1 99999999999\r\n" + bytes(1 << 20),
        b"HMSG x 1 10 5\r\nNATS/1.0\r\n\r\n",
        b"HMSG _INBOX.x.1 1 2 2\r\nxx\r\n",
        b"HMSG _INBOX.x.1 1 99999999 999999999\r\n",
        b"nonsense\r\n",
        b"MSG " + b"x" * (8 << 20),
        b"INFO nonsense\r\n",
        b"INFO " + b"[" * 200_000 + b"\r\n",
        b"-ERR 'Stale Connection'\r\n",
        b"-ERR 'User Authentication Expired'\r\n",
        b"-ERR 'Permissions Violation for Publish to \"x\"'\r\n",
    ],
    ids=range(11),
)
def test_an_engine_that_lies(said: bytes) -> None:
    async def scene() -> None:
        async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await greet(reader, writer)
            writer.write(said)
            await writer.drain()

        async with listening(script) as address:
            connection = await Connection.open(address, "x", "_INBOX")
            reasons: list[str] = []
            connection.on_closed.add(reasons.append)
            with pytest.raises(Unavailable):
                await connection.request("x", seconds=120)
            await until(lambda: reasons)
            assert reasons == [connection.reason]
            assert connection.reason
            assert "\n" not in connection.reason
            with pytest.raises(Unavailable):
                await connection.publish("x")
            with pytest.raises(Unavailable):
                await connection.subscribe("x", lambda message: None)
            await connection.close()

    run(scene)


def test_more_than_can_be_taken_ends_it() -> None:
    async def scene() -> None:
        async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await greet(reader, writer)
            line = await reader.readline()
            while not line.startswith(b"SUB flood"):
                line = await reader.readline()
            sid = line.split()[-1]
            for _ in range(100):
                writer.write((b"MSG flood %b 100000\r\n%b\r\n" % (sid, bytes(100_000))) * 10)
                await writer.drain()

        async with listening(script) as address:
            connection = await Connection.open(address, "x", "_INBOX")
            taken: list[Message] = []
            await connection.subscribe("flood", taken.append, waiting_max=150_000)
            await until(lambda: connection.is_closed)
            assert connection.reason == "it sends more than was asked for"
            await connection.close()

    run(scene)


def test_one_that_is_silent_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "PING_SECONDS", 0.05)

    async def scene() -> None:
        async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await greet(reader, writer)

        async with listening(script) as address:
            connection = await Connection.open(address, "x", "_INBOX")
            with pytest.raises(Unavailable, match="does not answer any more"):
                await connection.request("x", seconds=120)
            assert connection.is_closed

    run(scene)


def test_a_message_that_cannot_be_taken_ends_it(caplog: pytest.LogCaptureFixture) -> None:
    async def scene() -> None:
        async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await greet(reader, writer)
            line = b""
            while not line.startswith(b"SUB"):
                line = await reader.readline()
            writer.write(b"MSG x %b 0\r\n\r\n" % line.split()[-1])

        async with listening(script) as address:
            connection = await Connection.open(address, "x", "_INBOX")
            await connection.subscribe("x", lambda message: 1 / 0)  # type: ignore[arg-type, return-value]
            await until(lambda: connection.is_closed)
            await connection.close()

    run(scene)
    assert "ZeroDivisionError" in caplog.text


def test_a_link_opens_another_and_says_why_once() -> None:
    async def scene() -> None:
        rounds = 0

        async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal rounds
            rounds += 1
            if rounds in (2, 3):
                writer.write(b"nonsense\r\n")
                return
            await greet(reader, writer)
            if rounds == 1:
                writer.close()

        log, ups, downs = LogLines(), [], []

        async def up(connection: Connection) -> None:
            ups.append(connection)

        async with listening(script) as address:
            link = Link("b", lambda: Connection.open(address, "x", "_INBOX"), log, on_up=up, on_down=downs.append)  # type: ignore[arg-type]
            link.start()
            link.start()
            await until(lambda: len(ups) >= 2 and link.connection is ups[-1])
            assert len(ups) == 2
            assert len(downs) == 1
            assert link.fault == ""
            warnings = [line for level, line in log.lines if level == "warn"]
            assert len(warnings) == len(set(warnings))
            await link.close()
            assert link.connection is None
            assert ups[-1].is_closed
            await link.close()

    run(scene)
