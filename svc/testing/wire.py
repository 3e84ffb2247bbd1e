"""A connection that is a pair of queues in memory: the server's end has the interface of a socket, the client's end reads HTTP/1.1.

A client that reads slowly has `room` for so many bytes; `WireLoop.give_room` is its reading on.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from svc.testing.loop import ManualLoop

MAX_SENT = 64 << 20  # bytes of one answer


class Client(Protocol):
    """Receives what the server sends."""

    def receive(self, data: bytes) -> None: ...

    def closed(self) -> None:
        """The server has ended the connection."""


class MemorySocket:
    """The server's end. `room`: bytes that the client takes before it has read on."""

    def __init__(self, loop: ManualLoop) -> None:
        self._turns = loop.turns
        self.incoming: deque[bytes] = deque()
        self.is_ended = False  # by the client
        self.is_closed = False  # by the server
        self.room: float = math.inf
        self.on_readable: Callable[[], None] | None = None
        self.on_writable: Callable[[], None] | None = None
        self.client: Client | None = None

    def recv(self, size: int, flags: int = 0) -> bytes:
        """`flags`: none, or MSG_PEEK."""
        if not self.incoming:
            if self.is_ended:
                return b""
            raise BlockingIOError
        if flags:
            return self.incoming[0][:size]
        piece = self.incoming.popleft()
        if len(piece) > size:
            self.incoming.appendleft(piece[size:])
            piece = piece[:size]
        return piece

    def send(self, data: bytes | memoryview) -> int:
        if self.is_ended:
            raise ConnectionResetError
        size = int(min(len(data), self.room))
        if not size and data:
            raise BlockingIOError
        self.room -= size
        if self.client is not None:
            self._turns.is_woken = True
            self.client.receive(bytes(data[:size]))
        return size

    def shutdown(self, how: int) -> None:
        self._end()

    def close(self) -> None:
        self.is_closed = True
        self._end()

    def _end(self) -> None:
        client, self.client = self.client, None
        if client is not None:
            self._turns.is_woken = True
            client.closed()


class WireLoop(ManualLoop):
    """A loop that knows memory sockets."""

    def add_reader(self, fd: Any, callback: Callable[..., Any], *args: Any) -> None:  # type: ignore[override]
        if not isinstance(fd, MemorySocket):
            super().add_reader(fd, callback, *args)
            return
        fd.on_readable = callback
        self._wake(fd)

    def remove_reader(self, fd: Any) -> bool:
        if not isinstance(fd, MemorySocket):
            return super().remove_reader(fd)
        was_there, fd.on_readable = fd.on_readable is not None, None
        return was_there

    def add_writer(self, fd: Any, callback: Callable[..., Any], *args: Any) -> None:  # type: ignore[override]
        if not isinstance(fd, MemorySocket):
            super().add_writer(fd, callback, *args)
            return
        fd.on_writable = callback
        self._wake_writer(fd)

    def remove_writer(self, fd: Any) -> bool:
        if not isinstance(fd, MemorySocket):
            return super().remove_writer(fd)
        was_there, fd.on_writable = fd.on_writable is not None, None
        return was_there

    def deliver(self, sock: MemorySocket, data: bytes) -> None:
        """The client sends."""
        sock.incoming.append(data)
        self._wake(sock)

    def give_room(self, sock: MemorySocket, size: float) -> None:
        """The client reads on, so many bytes."""
        sock.room += size
        self._wake_writer(sock)

    def hang_up(self, sock: MemorySocket) -> None:
        """The client ends the connection."""
        sock.client = None
        sock.is_ended = True
        self._wake(sock)
        self._wake_writer(sock)

    def _wake(self, sock: MemorySocket) -> None:
        if sock.incoming or sock.is_ended:
            self.call_soon(self._readable, sock)

    def _readable(self, sock: MemorySocket) -> None:
        if sock.on_readable is not None and not sock.is_closed and (sock.incoming or sock.is_ended):
            sock.on_readable()
            if sock.incoming:
                self._wake(sock)

    def _wake_writer(self, sock: MemorySocket) -> None:
        if sock.on_writable is not None and (sock.room or sock.is_ended):
            self.call_soon(self._writable, sock)

    def _writable(self, sock: MemorySocket) -> None:
        if sock.on_writable is not None and not sock.is_closed and (sock.room or sock.is_ended):
            sock.on_writable()
            self._wake_writer(sock)


class AnswerReader:
    """Reads one answer (RFC 9112 §6): `head` is a future of (status, fields), `end` of the body. `on_data`: gets the pieces of an event
    stream, and after 101 those of the other protocol, instead of `end`.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, method: str, on_data: Callable[[bytes], None] | None = None) -> None:
        self.head: asyncio.Future[tuple[int, list[tuple[str, str]]]] = loop.create_future()
        self.end: asyncio.Future[bytes] = loop.create_future()
        self.early: list[tuple[int, list[tuple[str, str]]]] = []
        """Informational answers."""
        self.on_data = on_data
        self.on_end: Callable[[], None] = lambda: None
        self.on_head: Callable[[list[tuple[str, str]]], None] = lambda fields: None
        self._method = method
        self._raw = bytearray()
        self._body: list[bytes] = []
        self._size = 0
        self._rest = 0  # bytes of the body, or of the chunk
        self._read: Callable[[], bool] = self._read_head

    def receive(self, data: bytes) -> None:
        if self.end.done() or self.head.cancelled():
            return
        self._raw += data
        try:
            while self._read():
                pass
        except (ValueError, IndexError) as error:
            self._fail(f"the answer cannot be read: {error}")

    def closed(self) -> None:
        if self.end.done() or self.head.cancelled():
            return
        if not self.head.done():
            self._fail("the server has closed the connection without an answer")
        elif self._read in (self._read_to_end, self._read_other):
            self._finish()
        else:
            self._fail("the server has closed the connection in the middle of the answer")

    def _fail(self, reason: str) -> None:
        error = ConnectionError(reason)
        for future in (self.head, self.end):
            if not future.done():
                future.set_exception(error)
                future.exception()  # else it is reported when it is not asked for
        self.on_end()

    def _finish(self) -> bool:
        self.end.set_result(b"".join(self._body))
        self.on_end()
        return False

    def _take(self, data: bytes) -> None:
        if self.on_data is not None:
            self.on_data(data)
            return
        self._size += len(data)
        if self._size > MAX_SENT:
            self._fail(f"the answer is longer than {MAX_SENT >> 20} MB: follow it with events()")
            return
        self._body.append(data)

    def _read_head(self) -> bool:
        place = self._raw.find(b"\r\n\r\n")
        if place < 0:
            return False
        lines = bytes(self._raw[:place]).decode("latin-1").split("\r\n")
        del self._raw[: place + 4]
        status = int(lines[0].split(" ")[1])
        fields = [(name, value.strip()) for name, _, value in (line.partition(":") for line in lines[1:])]
        if status < 200 and status != 101:
            self.early.append((status, fields))
            return True
        named = {name.lower(): value for name, value in fields}
        if not (status == 101 or (status == 200 and named.get("content-type", "").startswith("text/event-stream"))):
            self.on_data = None
        if status == 101:
            self._read = self._read_other
        elif self._method == "HEAD" or status in (204, 304):
            self._rest = 0
            self._read = self._read_length
        elif "chunked" in named.get("transfer-encoding", ""):
            self._read = self._read_chunk_size
        elif "content-length" in named:
            self._rest = int(named["content-length"])
            self._read = self._read_length
        else:
            self._read = self._read_to_end
        self.on_head(fields)
        self.head.set_result((status, fields))
        return True

    def _read_other(self) -> bool:
        return self._read_to_end()

    def _read_to_end(self) -> bool:
        data = bytes(self._raw)
        self._raw.clear()
        if data:
            self._take(data)
        return False

    def _read_length(self) -> bool:
        data = bytes(self._raw[: self._rest])
        del self._raw[: len(data)]
        self._rest -= len(data)
        if data:
            self._take(data)
        if not self._rest and not self.end.done():
            return self._finish()
        return False

    def _read_chunk_size(self) -> bool:
        line, found, _ = self._raw.partition(b"\r\n")
        if not found:
            return False
        del self._raw[: len(line) + 2]
        self._rest = int(line.split(b";")[0], 16)
        self._read = self._read_chunk if self._rest else self._read_trailer
        return True

    def _read_chunk(self) -> bool:
        data = bytes(self._raw[: self._rest])
        del self._raw[: len(data)]
        self._rest -= len(data)
        if data:
            self._take(data)
        if self._rest or self.end.done():
            return False
        self._read = self._read_chunk_end
        return True

    def _read_chunk_end(self) -> bool:
        if len(self._raw) < 2:
            return False
        del self._raw[:2]
        self._read = self._read_chunk_size
        return True

    def _read_trailer(self) -> bool:
        line, found, _ = self._raw.partition(b"\r\n")
        if not found:
            return False
        del self._raw[: len(line) + 2]
        return True if line else self._finish()
