"""WebSockets of a real process, spoken to by a client that is not ours, and by peers that misbehave."""

from __future__ import annotations

import asyncio
import json
import random
import socket
import struct
from base64 import b64encode
from collections.abc import Coroutine, Iterator
from contextlib import closing
from typing import Any

import pytest
import websockets
from websockets.exceptions import ConnectionClosed, ConnectionClosedError, InvalidStatus

from tests.integration.socket_process import SocketProcess
from tests.support.waiting import LIMIT, wait_until
from tests.support.websocket_frames import KEY, binary, close, frame, more, ping, text

pytestmark = pytest.mark.programs


@pytest.fixture(scope="module")
def server() -> Iterator[SocketProcess]:
    process = SocketProcess("--listeners")
    yield process
    found = process.stop()
    assert (found["open"], found["held"]) == (0, 0)
    # What /broken is for, and nothing else.
    assert process.errors.count("Traceback") == process.errors.count("KeyError: 'not for the client'"), process.errors


@pytest.fixture(scope="module")
def compressing() -> Iterator[SocketProcess]:
    process = SocketProcess("--deflate")
    yield process
    process.stop()
    assert process.errors == ""


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(work, LIMIT))


class Raw:
    """A client that says what it likes."""

    def __init__(self, port: int, target: str = "/echo", receive_buffer: int | None = None) -> None:
        self.sock = socket.socket()
        if receive_buffer is not None:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.sock.settimeout(LIMIT)
        self.sock.connect(("127.0.0.1", port))
        key = b64encode(bytes(16)).decode()
        self.sock.sendall(
            f"GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
            f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n\r\n".encode()
        )
        self.rest = b""
        while b"\r\n\r\n" not in self.rest:
            self.rest += self.sock.recv(1000)
        head, _, self.rest = self.rest.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 101 ")

    def send(self, data: bytes) -> None:
        self.sock.sendall(data)

    def read(self, size: int) -> bytes:
        while len(self.rest) < size:
            data = self.sock.recv(1 << 16)
            if not data:
                raise EOFError
            self.rest += data
        data, self.rest = self.rest[:size], self.rest[size:]
        return data

    def frame(self) -> tuple[int, bytes]:
        first, length = self.read(2)
        if length == 126:
            length = struct.unpack("!H", self.read(2))[0]
        elif length == 127:
            length = struct.unpack("!Q", self.read(8))[0]
        return first, self.read(length)

    def close_code(self) -> int:
        """The code of the close frame that is next, with nothing after it."""
        first, payload = self.frame()
        assert first == 0x88
        with pytest.raises(EOFError):
            self.read(1)
        return int(struct.unpack("!H", payload[:2])[0])

    def close(self) -> None:
        self.sock.close()


def figures(server: SocketProcess) -> dict[str, int]:
    """What the server holds for others than who asks."""
    with closing(Raw(server.port, "/figures")) as raw:
        raw.send(text("?"))
        found: dict[str, int] = json.loads(raw.frame()[1])
        raw.send(close())
        assert raw.close_code() == 1000
        return found


# --- a client that behaves ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/echo", "/iterate", "/wait"])
@pytest.mark.parametrize("compression", [None, "deflate"])
def test_messages_come_back(server: SocketProcess, compressing: SocketProcess, path: str, compression: str | None) -> None:
    async def talk() -> None:
        process = server if compression is None else compressing
        async with websockets.connect(process.url + path, compression=compression, max_size=None) as client:
            assert bool(client.protocol.extensions) is (compression is not None)
            for message in (
                "",
                "Hällo",
                b"",
                b"\0\xff",
                "x" * 125,
                "x" * 126,
                "é" * 40_000,
                random.Random(1).randbytes(65536),
                b"".join(b"%d," % number for number in range(450_000)),
            ):
                await client.send(message)
                assert await client.recv() == message
            await client.send(["frag", "ments", "", "!"])
            assert await client.recv() == "fragments!"
            await (await client.ping())
            await asyncio.gather(*(client.send(f"{number}") for number in range(2000)))
            assert [await client.recv() for _ in range(2000)] == [f"{number}" for number in range(2000)]
        assert client.close_code == 1000

    run(talk())


def test_many_at_a_time(server: SocketProcess) -> None:
    async def talk(number: int) -> None:
        async with websockets.connect(f"{server.url}/iterate", compression=None) as client:
            for turn in range(20):
                await client.send(f"{number} {turn}")
                assert await client.recv() == f"{number} {turn}"

    async def all_of_them() -> None:
        await asyncio.gather(*(talk(number) for number in range(50)))

    run(all_of_them())


@pytest.mark.parametrize(
    ("path", "first", "code", "reason"),
    [
        ("/broken", "before", 1011, "Internal Server Error"),
        ("/forbidden", None, 3003, "You may not"),
        ("/stranger", None, 3000, "Must login"),
    ],
)
def test_the_server_closes(server: SocketProcess, path: str, first: str | None, code: int, reason: str) -> None:
    async def talk() -> None:
        async with websockets.connect(server.url + path) as client:
            if first is not None:
                assert await client.recv() == first
            with pytest.raises(ConnectionClosedError) as caught:
                await client.recv()
            assert caught.value.rcvd is not None
            assert (caught.value.rcvd.code, caught.value.rcvd.reason) == (code, reason)

    run(talk())


def test_a_service_that_is_done(server: SocketProcess) -> None:
    async def talk() -> None:
        async with websockets.connect(f"{server.url}/once") as client:
            await client.send("only")
            assert [message async for message in client] == ["only"]
            assert client.close_code == 1000

    run(talk())


def test_a_listener_of_an_application(server: SocketProcess) -> None:
    async def talk() -> None:
        async with websockets.connect(f"{server.url}/chat", subprotocols=["chat", "other"]) as client:  # type: ignore[list-item]
            assert client.subprotocol == "chat"
            assert await client.recv() == "welcome"
            await client.send("a")
            assert await client.recv() == "you said 'a'"
            await client.send("x" * 1001)
            with pytest.raises(ConnectionClosed) as caught:
                await client.recv()
            assert caught.value.rcvd is not None and caught.value.rcvd.code == 1009

    run(talk())


def test_nobody_there(server: SocketProcess) -> None:
    async def talk() -> None:
        with pytest.raises(InvalidStatus) as caught:
            await websockets.connect(f"{server.url}/none")
        assert caught.value.response.status_code == 404

    run(talk())


def test_a_protocol_of_its_own(server: SocketProcess) -> None:
    with closing(socket.create_connection(("127.0.0.1", server.port), timeout=LIMIT)) as sock:
        sock.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: line\r\n\r\nearly")
        received = b""
        while not received.endswith(b"EARLY"):
            received += sock.recv(1000)
        assert received == b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: line\r\n\r\nEARLY"
        sock.sendall(b"late")
        assert sock.recv(1000) == b"LATE"
        sock.shutdown(socket.SHUT_WR)
        assert sock.recv(1000) == b""


# --- peers that misbehave ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (text("a", key=None), 1002),
        (text("a", rsv=4), 1002),
        (frame(3, b"a"), 1002),
        (ping(b"a", fin=False), 1002),
        (ping(b"x" * 126), 1002),
        (text("a", form=8), 1002),
        (more("a"), 1002),
        (text("a", fin=False) + text("b"), 1002),
        (close(1005), 1002),
        (frame(8, b"x"), 1002),
        (text(b"\xff"), 1007),
        (text(b"\xc3", fin=False) + more(b"x"), 1007),
        (close(1000, b"\xff"), 1007),
        (bytes([0x82, 0xFF]) + struct.pack("!Q", (100 << 20) + 1) + KEY, 1009),
        (bytes([0x02, 0xFF]) + struct.pack("!Q", (100 << 20)) + KEY, None),
        (text("", fin=False) + more("", fin=False) * 200, 1008),
    ],
)
@pytest.mark.parametrize("path", ["/echo", "/iterate"])
def test_what_is_wrong_ends_that_connection_and_no_other(server: SocketProcess, sent: bytes, code: int | None, path: str) -> None:
    with closing(Raw(server.port, path)) as good, closing(Raw(server.port, path)) as bad:
        bad.send(text("before") + sent)
        assert bad.frame() == (0x81, b"before")
        if code is not None:
            assert bad.close_code() == code
        good.send(text("still here"))
        assert good.frame() == (0x81, b"still here")


def test_garbage(server: SocketProcess) -> None:
    source = random.Random(7)
    for _ in range(100):
        with closing(Raw(server.port)) as raw:
            raw.send(source.randbytes(source.randrange(1, 200)))
            raw.sock.shutdown(socket.SHUT_WR)
            try:
                while raw.sock.recv(1 << 16):
                    pass
            except ConnectionResetError:
                pass
    wait_until(lambda: figures(server)["open"] == 0)


def test_a_connection_that_breaks_in_the_middle_of_a_message(server: SocketProcess) -> None:
    for how in ("close", "reset"):
        raw = Raw(server.port, "/iterate")
        raw.send(binary(b"x" * 100_000, fin=False) + binary(b"x" * 500)[:100])
        if how == "reset":
            raw.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        raw.close()
    wait_until(lambda: figures(server) == {"open": 0, "pending": 0, "held": 0})


def test_a_service_waits_for_readers_that_do_not_read(server: SocketProcess) -> None:
    slow = [Raw(server.port, "/fill", receive_buffer=4096) for _ in range(5)]
    wait_until(lambda: figures(server)["pending"] > 0)
    for _ in range(50):
        found = figures(server)
        assert found["open"] == 5
        assert found["pending"] <= 256 * 1024 + 65536 + 20
    for raw in slow:
        first, payload = raw.frame()
        assert (first, len(payload)) == (0x82, 65536)
        raw.close()
    wait_until(lambda: figures(server)["open"] == 0)


def test_who_floods_a_reader_that_does_not_read_loses_it(server: SocketProcess) -> None:
    raw = Raw(server.port, "/flood", receive_buffer=4096)
    most = 0

    def is_gone() -> bool:
        nonlocal most
        found = figures(server)
        most = max(most, found["pending"])
        return found["open"] == 0

    wait_until(is_gone)
    assert most <= 16 * 1024 * 1024 + 65536 + 20
    raw.close()


def test_a_peer_that_sends_more_than_is_taken_is_held_back() -> None:
    process = SocketProcess("--ping", "0.2")
    try:
        raw = Raw(process.port, "/silent")
        raw.sock.setblocking(False)
        message = binary(b"x" * 60_000)
        sent = 0
        quiet = 0
        while quiet < 100 and sent < 200 << 20:
            try:
                sent += raw.sock.send(message[sent % len(message) :])
                quiet = 0
            except BlockingIOError:
                quiet += 1
                assert figures(process)["open"] == 1  # the server is at work, and this takes it a turn
        assert sent < 200 << 20
        raw.close()
        # Nobody reads its end, so it is pings that find out.
        wait_until(lambda: figures(process)["open"] == 0)
    finally:
        process.stop()
    assert process.errors == ""


def test_pings_of_a_peer_that_does_not_read(server: SocketProcess) -> None:
    raw = Raw(server.port, "/echo", receive_buffer=4096)
    raw.sock.settimeout(0.05)
    pings = ping(b"x" * 125) * 400
    sent = 0
    try:
        while sent < 40 << 20:
            sent += raw.sock.send(pings)
    except TimeoutError:
        pass
    assert figures(server)["pending"] <= 256 * 1024 + 2 * 17_000
    raw.close()
    wait_until(lambda: figures(server)["open"] == 0)


# --- peers that fall silent, and the end -----------------------------------------------------------------------------------------------


def test_peers_that_fall_silent() -> None:
    """A peer that answers is not given up: where the machine is too busy for it to answer in time, it gets more of it."""
    for silence in (0.6, 6.0, LIMIT):
        process = SocketProcess("--ping", str(silence / 3), "--silence", str(silence))
        try:
            with closing(Raw(process.port, "/echo")) as dead, closing(Raw(process.port, "/echo")) as alive:
                try:
                    answer_until_it_is_gone(dead, alive)
                except (EOFError, ConnectionResetError):
                    assert silence < LIMIT, "a peer that answers was given up"
                    continue
            with closing(Raw(process.port, "/forbidden")) as rude:  # does not answer our close frame
                assert rude.frame()[0] == 0x88
                with pytest.raises((EOFError, ConnectionResetError)):
                    rude.read(1)
            break
        finally:
            process.stop()
    assert process.errors == ""


def answer_until_it_is_gone(dead: Raw, alive: Raw) -> None:
    """One of them answers pings, ten of them at least."""
    heard = 0
    dead.sock.settimeout(0.01)
    gone = False
    while not gone or heard < 10:
        assert alive.frame() == (0x89, b"")
        alive.send(frame(10, b""))
        heard += 1
        try:
            gone = gone or dead.sock.recv(100) == b""
        except TimeoutError:
            pass
        except ConnectionResetError:
            gone = True
    alive.send(text("alive"))
    while (found := alive.frame()) == (0x89, b""):
        pass
    assert found == (0x81, b"alive")


def test_the_server_stops() -> None:
    process = SocketProcess()

    async def talk() -> None:
        async with websockets.connect(f"{process.url}/echo") as one, websockets.connect(f"{process.url}/iterate") as two:
            await one.send("a")
            assert await one.recv() == "a"
            stopping = asyncio.create_task(asyncio.to_thread(process.stop))
            for client in (one, two):
                with pytest.raises(ConnectionClosed) as caught:
                    await client.recv()
                assert caught.value.rcvd is not None and caught.value.rcvd.code == 1001
            found = await stopping
            assert found["open"] == 0

    try:
        run(talk())
    finally:
        process.kill()
    assert process.errors == ""
