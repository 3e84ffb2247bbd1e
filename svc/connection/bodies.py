"""Streamed response bodies: pulled from an iterator, awaited, or pushed by a `Feed`.

    PulledBody    an iterator: asked for a chunk when the connection has room, within the turn's share of time
    AwaitedBody   an asynchronous iterator: the same in a task
    PushedBody    a `Feed`, which writes when something happens
    FileBody      a `FileRange` on a plain socket: the kernel sends it, nothing of it is in memory

Back pressure: nothing is pulled while more than HIGH_WATER bytes are unsent.
"""

from __future__ import annotations

import asyncio
import errno
import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from typing import TYPE_CHECKING, Any, Protocol

from svc.connection.exchange import Carrier, Exchange
from svc.connection.file_range import FileCut, FileRange
from svc.loop import as_exception, contained, is_ours
from svc.messages import Feed, Response

if TYPE_CHECKING:
    from svc.connection.shared import SharedState

HIGH_WATER = 256 * 1024  # bytes of unsent output at which a stream pauses
LOW_WATER = 64 * 1024  # ... and at which it goes on
FILE_SLICE = 256 * 1024  # bytes of a file that the kernel is asked to send at one time: of a cold disk it reads them first

BODY = "the body of a response"

LogError = Callable[[str, BaseException | None], None]


class PulledBody:
    """A body from an iterator."""

    __slots__ = ("_exchange", "_is_queued", "_iterator", "_shared")

    lasts = False  # no deadline applies while nothing is unsent

    def __init__(self, shared: SharedState, exchange: Exchange, iterator: Iterator[bytes]) -> None:
        self._shared = shared
        self._exchange = exchange
        self._iterator: Iterator[bytes] | None = iterator
        self._is_queued = False  # in shared.streams

    def start(self) -> None:
        self._queue()

    def _queue(self) -> None:
        if not self._is_queued:
            self._is_queued = True
            self._shared.streams.append(self)

    def pull(self, deadline: float) -> None:
        """Take chunks until the buffer is full, the turn's share is used up, or it ends."""
        self._is_queued = False
        iterator, exchange = self._iterator, self._exchange
        if iterator is None:
            return
        connection = exchange.connection
        now = self._shared.now
        try:
            while connection.pending_of(exchange) < HIGH_WATER:  # else `on_room` continues when the socket has taken it
                try:
                    chunk = next(iterator)
                except StopIteration:
                    self._iterator = None
                    connection.end_body(exchange)
                    return
                if type(chunk) is not bytes:
                    chunk = as_bytes(chunk)
                if chunk:
                    exchange.body_bytes += len(chunk)
                    connection.send_body(exchange, chunk)
                if now() >= deadline:
                    self._queue()
                    break
        except BaseException as error:
            connection.defect(contained(error, BODY))
            return
        connection.touch()

    def on_room(self) -> None:
        """Less than LOW_WATER is unsent."""
        if self._iterator is not None:
            self._queue()

    def on_sent(self) -> None:
        """Nothing is unsent."""
        self.on_room()

    def close(self) -> None:
        """The peer closed the connection."""
        iterator, self._iterator = self._iterator, None
        if iterator is not None:
            close_iterator(iterator, self._shared.log_error)


class AwaitedBody:
    """A body from an asynchronous iterator, in a task."""

    __slots__ = ("_body", "_exchange", "_room", "_shared")

    lasts = False

    def __init__(self, shared: SharedState, exchange: Exchange, body: AsyncIterator[bytes]) -> None:
        self._shared = shared
        self._exchange = exchange
        self._body = body
        self._room: asyncio.Future[None] | None = None  # waits for the buffer to empty

    def start(self) -> None:
        self._exchange.task = self._shared.loop.create_task(self._pump())

    async def _pump(self) -> None:
        exchange = self._exchange
        connection = exchange.connection
        body = self._body
        try:
            async for chunk in body:
                if type(chunk) is not bytes:
                    chunk = as_bytes(chunk)
                while connection.pending_of(exchange) >= HIGH_WATER and not exchange.abandoned:
                    self._room = self._shared.loop.create_future()
                    await self._room
                if exchange.abandoned:
                    return
                if chunk:
                    exchange.body_bytes += len(chunk)
                    connection.send_body(exchange, chunk)
            connection.end_body(exchange)
        except BaseException as error:
            if is_ours(error) and (exchange.abandoned or not isinstance(error, asyncio.CancelledError)):
                raise
            connection.defect(as_exception(error, BODY))
        finally:
            close = getattr(body, "aclose", None)
            if close is not None:
                try:
                    await close()
                except BaseException as error:
                    self._shared.log_error("the end of a response's body", contained(error))

    def on_room(self) -> None:
        pass

    def on_sent(self) -> None:
        room, self._room = self._room, None
        if room is not None:
            room.set_result(None)
            self._shared.woken = True

    def close(self) -> None:
        room, self._room = self._room, None
        if room is not None:
            room.cancel()


class PushedBody:
    """The `FeedWriter` of a feed."""

    __slots__ = ("_exchange", "_feed", "_has_written", "_is_over", "_shared")

    lasts = True

    def __init__(self, shared: SharedState, exchange: Exchange, feed: Feed) -> None:
        self._shared = shared
        self._exchange = exchange
        self._feed = feed
        self._has_written = False
        self._is_over = False

    def start(self) -> None:
        self._shared.lasting[self._feed] = 0.0
        self._feed.start(self)

    @property
    def pending(self) -> int:
        return self._exchange.connection.pending_of(self._exchange)

    def write(self, data: bytes) -> None:
        if not self._is_over and data:
            exchange = self._exchange
            self._has_written = True
            exchange.body_bytes += len(data)
            exchange.connection.send_body(exchange, data)

    def end(self) -> None:
        if not self._is_over:
            self._is_over = True
            self._exchange.connection.end_body(self._exchange)
            self._close_feed()

    def on_room(self) -> None:
        pass

    def on_sent(self) -> None:
        if self._has_written and not self._is_over:
            self._has_written = False
            self._feed.on_sent()

    def close(self) -> None:
        if not self._is_over:
            self._is_over = True
            self._close_feed()

    def _close_feed(self) -> None:
        self._shared.lasting.pop(self._feed, None)
        self._feed.close()


class FileCarrier(Carrier, Protocol):
    """A connection over a plain socket: `http1.Http1Connection`."""

    def send_file(self, exchange: Exchange, file: FileRange, size: int) -> bool:
        """Have the kernel send up to `size` bytes. False: no more before `on_room` or `on_sent` of the body. Raises FileCut, OSError."""


class FileBody:
    """A body that the kernel sends from a file."""

    __slots__ = ("_connection", "_exchange", "_file", "_is_queued", "_reading", "_shared", "_waits")

    lasts = False

    def __init__(self, shared: SharedState, exchange: Exchange, connection: FileCarrier, file: FileRange) -> None:
        self._shared = shared
        self._exchange = exchange
        self._connection = connection
        self._file: FileRange | None = file
        self._is_queued = False  # in shared.streams
        self._waits = False  # for room
        self._reading: PulledBody | None = None  # where the kernel cannot do it: by pieces, as other bodies

    def start(self) -> None:
        self._queue()

    def _queue(self) -> None:
        if not self._is_queued:
            self._is_queued = True
            self._shared.streams.append(self)

    def pull(self, deadline: float) -> None:
        """Send until the socket is full, the turn's share is used up, or it ends."""
        self._is_queued = False
        file, connection, exchange = self._file, self._connection, self._exchange
        if file is None:
            return
        now = self._shared.now
        try:
            while file.position < file.end:
                if not connection.send_file(exchange, file, min(FILE_SLICE, file.remaining)):
                    self._waits = True
                    return
                if now() >= deadline:
                    self._queue()
                    return
            self.close()
            connection.end_body(exchange)
        except OSError as error:
            if error.errno not in _CANNOT_SEND_FILES:
                connection.defect(error)
                return
            self._file = None
            self._reading = PulledBody(self._shared, exchange, file)
            self._reading.start()
        except FileCut as error:
            connection.defect(error)

    def on_room(self) -> None:
        self._waits = False
        if self._reading is not None:
            self._reading.on_room()
        elif self._file is not None:
            self._queue()

    def on_sent(self) -> None:
        if self._reading is not None:
            self._reading.on_sent()
        elif self._file is not None and not self._waits:
            self._queue()

    def close(self) -> None:
        """The peer closed the connection, or all is sent."""
        file, self._file = self._file, None
        if file is not None:
            file.close()
        if self._reading is not None:
            self._reading.close()


_CANNOT_SEND_FILES = frozenset((errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EOVERFLOW))  # some file systems

StreamedBody = PulledBody | AwaitedBody | PushedBody | FileBody


def streamed_body(shared: SharedState, exchange: Exchange, body: Any) -> StreamedBody:
    """The sender of a response's body that is not bytes. A body that is not sent is closed here (HEAD)."""
    if exchange.request.method == "HEAD":
        close_body(body, shared.log_error)
        body = iter(())
    if isinstance(body, Feed):
        return PushedBody(shared, exchange, body)
    if hasattr(body, "__anext__") or hasattr(body, "__aiter__"):
        return AwaitedBody(shared, exchange, body)
    return PulledBody(shared, exchange, iter(body))


def close_body(body: Any, log_error: LogError) -> None:
    """End a body that will not be sent."""
    if isinstance(body, Feed):
        body.close()
    else:
        close_iterator(body, log_error)


def close_iterator(body: object, log_error: LogError) -> None:
    """What code of an application raises at its end is logged."""
    close = getattr(body, "close", None)
    if close is not None and not inspect.iscoroutinefunction(close):
        try:
            close()
        except BaseException as error:
            log_error("the end of a response's body", contained(error))


def as_bytes(chunk: Any) -> bytes:
    """A piece of a body. Raises TypeError."""
    if isinstance(chunk, bytes | bytearray | memoryview):
        return bytes(chunk)
    raise TypeError(f"the body of a response gives bytes, not {type(chunk).__name__}")


def take_length(response: Response) -> int | None:
    """The length of a streamed body, if the response announces it; the field is removed, for the driver writes it. Raises ValueError."""
    length = response.headers.get("content-length")
    if length is None:
        return None
    response.headers.delete("content-length")
    numbers = {number.strip() for number in length.split(",")}  # repeated, it is still one (RFC 9110 §8.6)
    number = numbers.pop()
    if numbers or not (number.isascii() and number.isdecimal()):
        raise ValueError(f"not a Content-Length: {length!r:.100}")
    return int(number)
