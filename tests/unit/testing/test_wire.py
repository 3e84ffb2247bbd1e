"""Reading answers and frames, however they are cut."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from svc.clock import FakeClock
from svc.testing.wire import AnswerReader, MemorySocket, WireLoop

ANSWERS = [
    ("GET", b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-A:  b \r\n\r\nhello", False, 200, b"hello"),
    ("GET", b"HTTP/1.1 204 No Content\r\n\r\n", False, 204, b""),
    ("GET", b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", False, 304, b""),
    ("HEAD", b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", False, 200, b""),
    ("GET", b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", False, 200, b""),
    (
        "GET",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nA;x=y\r\n0123456789\r\n0\r\nX-T: v\r\n\r\n",
        False,
        200,
        b"abc0123456789",
    ),
    ("GET", b"HTTP/1.1 200 OK\r\n\r\nto the end", True, 200, b"to the end"),
    ("GET", b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx", False, 200, b"x"),
]


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


@pytest.mark.parametrize(("method", "raw", "closes", "status", "content"), ANSWERS)
def test_an_answer_is_read_however_it_is_cut(
    loop: asyncio.AbstractEventLoop, method: str, raw: bytes, closes: bool, status: int, content: bytes
) -> None:
    for size in range(1, len(raw) + 1):
        reader = AnswerReader(loop, method)
        for start in range(0, len(raw), size):
            assert not reader.end.done()
            reader.receive(raw[start : start + size])
        if closes:
            assert not reader.end.done()
            reader.closed()
        found, fields = reader.head.result()
        assert (found, reader.end.result()) == (status, content)
        assert bool(reader.early) == (b"103" in raw) and (("X-A", "b") in fields) == (b"X-A" in raw)
        reader.receive(b"more")  # is not read
        reader.closed()


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"", "without an answer"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel", "in the middle of the answer"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", "in the middle of the answer"),
        (b"nonsense\r\n\r\n", "cannot be read"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", "cannot be read"),
    ],
)
def test_an_answer_that_is_cut_off_says_so(loop: asyncio.AbstractEventLoop, raw: bytes, text: str) -> None:
    reader = AnswerReader(loop, "GET")
    reader.receive(raw)
    reader.closed()
    with pytest.raises(ConnectionError, match=text):
        reader.end.result()


def test_a_socket_in_memory_is_read_when_there_is_something() -> None:
    loop = WireLoop(FakeClock())
    sock = MemorySocket(loop)
    read: list[bytes] = []
    try:
        with pytest.raises(BlockingIOError):
            sock.recv(10)
        loop.add_reader(sock, lambda: read.append(sock.recv(4)))
        loop.deliver(sock, b"0123456789")
        loop.expect(0.0, patience=1.0)
        assert loop.turn_until(None) and read == [b"0123", b"4567", b"89"]
        assert loop.remove_reader(sock) and not loop.remove_reader(sock)
        loop.hang_up(sock)
        assert sock.recv(4) == b""
        with pytest.raises(ConnectionResetError):
            sock.send(b"x")
    finally:
        loop.close()


class Taking:
    def __init__(self) -> None:
        self.data = b""

    def receive(self, data: bytes) -> None:
        self.data += data

    def closed(self) -> None:
        pass


def test_a_client_that_reads_slowly_has_room_for_some_bytes() -> None:
    loop = WireLoop(FakeClock())
    sock = MemorySocket(loop)
    sock.client = client = Taking()
    rest = bytearray(b"0123456789")

    def write() -> None:
        del rest[: sock.send(bytes(rest))]
        if not rest:
            loop.remove_writer(sock)

    try:
        sock.room = 4
        loop.add_writer(sock, write)
        for room, size in ((0, 4), (1, 5), (100, 10)):
            loop.give_room(sock, room)
            loop.expect(0.0, patience=10.0)
            assert loop.turn_until(None) and len(client.data) == size
        assert sock.room == 95 and not loop.remove_writer(sock)
        sock.room = 0
        with pytest.raises(BlockingIOError):
            sock.send(b"x")
    finally:
        loop.close()


def test_time_passes_to_the_next_timer_and_not_beyond_the_horizon() -> None:
    clock = FakeClock()
    loop = WireLoop(clock)
    called: list[tuple[str, float]] = []
    began = clock.monotonic()
    try:
        for name, delay in (("late", 5.0), ("soon", 0.25), ("never", 100.0)):
            loop.call_later(delay, lambda name=name: called.append((name, clock.monotonic() - began)))
        loop.expect(10.0, patience=1.0)
        assert loop.turn_until(None)
        assert called == [("soon", 0.25), ("late", 5.0)] and clock.monotonic() == began + 10.0
        future = loop.create_future()
        loop.call_later(1.0, future.set_result, None)
        loop.expect(50.0, patience=1.0)
        assert loop.turn_until(future) and clock.monotonic() == began + 11.0
    finally:
        loop.close()
