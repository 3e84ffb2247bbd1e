"""Requests and answers of any size over messages that have a limit (spec: replication-engine §4).

What is larger than PIECE travels as pieces of that size, some of them on their way at once. Each piece is a request of its own that is answered, so nothing is
sent faster than it is taken, and nothing is sent again: a piece that gets no answer fails the whole.

    request    Piece: <id> <number> <count>     one of them; the last to arrive gets the answer of the whole
               Fetch: <id> <number>             a piece of an answer that is too large for one message
    answer     Part: kept                       the piece was taken, others are missing
               Part: <id> <count>               the first piece of the answer; the others are to be fetched
               Error: <text>                    refused

A message without one of these headers is a whole request and needs `Whole: 1`: a reader of a stream can have the engine deliver messages of that stream
anywhere, but these never have it.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import suppress
from typing import Any

import msgspec

from svc.cluster.client import Connection, Message, Subscription, Unavailable

logger = logging.getLogger("svc.cluster")

PIECE = 512 << 10  # bytes
IN_FLIGHT = 4  # pieces of one request that are not answered yet
LARGEST = 64 << 20  # bytes of a request or an answer
KEPT = 128 << 20  # bytes of pieces that are kept, of all requests and answers
KEPT_SECONDS = 60.0  # of what nobody adds to or fetches from
OPEN_MAX = 256  # requests that are answered at a time
_WAITING_MAX = 32 * PIECE  # bytes that wait to be taken: of some nodes that send at the same time
PIECES_MAX = LARGEST // PIECE
_ID_MAX = 64
_ERROR_MAX = 500  # characters
_WHOLE = {"Whole": "1"}

Handler = Callable[[str, bytes], Awaitable[bytes]]
"""The subject and the request; returns the answer. Raises RequestRefused."""


class RequestRefused(Exception):
    """The other end refuses: its words."""


# --- asking -------------------------------------------------------------------------------------------------------------------------------


async def ask(connection: Connection, subject: str, data: bytes, *, seconds: float) -> bytes:
    """The answer to a request, both of any size up to LARGEST. `seconds`: for each message. Raises RequestRefused, Unavailable."""
    if len(data) > LARGEST:
        raise RequestRefused(f"more than {LARGEST >> 20} MiB cannot be sent")
    if len(data) <= PIECE:
        answer = _checked(await connection.request(subject, data, _WHOLE, seconds=seconds))
    else:
        answer = await _send_pieces(connection, subject, data, seconds)
    part = answer.headers.get("Part")
    if part is None:
        return answer.data
    name, count = _numbers(part, 1)
    if not 1 < count <= PIECES_MAX:
        raise Unavailable("it answers something else")
    pieces = [answer.data]
    size = len(answer.data)
    requests = ({"Fetch": f"{name} {number}"} for number in range(1, count))
    async for piece in _in_order(lambda headers: connection.request(subject, b"", headers, seconds=seconds), requests):
        pieces.append(piece.data)
        size += len(piece.data)
        if size > LARGEST:
            raise Unavailable("its answer is too large")
    return b"".join(pieces)


async def ask_series(connection: Connection, subject: str, requests: Callable[[int], bytes], *, seconds: float) -> AsyncIterator[bytes]:
    """Answers to request 0, 1, 2 ... in this order, until one is empty, some of them on their way at once: for content that is read bit by bit, of which no
    more than IN_FLIGHT answers are in memory. Raises RequestRefused, Unavailable."""

    def numbered() -> Any:
        number = 0
        while True:
            yield requests(number)
            number += 1

    async for answer in _in_order(lambda data: connection.request(subject, data, _WHOLE, seconds=seconds), numbered()):
        if not answer.data:
            return
        yield answer.data


async def _send_pieces(connection: Connection, subject: str, data: bytes, seconds: float) -> Message:
    name = secrets.token_hex(8)
    count = -(-len(data) // PIECE)
    view = memoryview(data)

    def send(number: int) -> Coroutine[Any, Any, Message]:
        piece = bytes(view[number * PIECE : (number + 1) * PIECE])
        return connection.request(subject, piece, {"Piece": f"{name} {number} {count}"}, seconds=seconds)

    found: Message | None = None
    async for answer in _in_order(send, range(count)):
        if answer.headers.get("Part") != "kept":
            if found is not None:
                raise Unavailable("it answers twice")
            found = answer
    if found is None:
        raise Unavailable("it has all pieces, and does not answer")
    return found


async def _in_order(send: Callable[[Any], Coroutine[Any, Any, Message]], values: Any) -> AsyncIterator[Message]:
    """The answers in the order of the values, of which IN_FLIGHT are on their way."""
    loop = asyncio.get_running_loop()
    waiting: list[asyncio.Task[Message]] = []
    remaining = iter(values)
    try:
        while True:
            while len(waiting) < IN_FLIGHT:
                value = next(remaining, _NOTHING)
                if value is _NOTHING:
                    break
                waiting.append(loop.create_task(send(value)))
            if not waiting:
                return
            answer = _checked(await waiting[0])
            waiting.pop(0)
            yield answer
    finally:
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)


_NOTHING = object()


def _checked(answer: Message) -> Message:
    error = answer.headers.get("Error")
    if error is not None:
        raise RequestRefused(error[:_ERROR_MAX])
    return answer


def _numbers(text: str, count: int) -> tuple[Any, ...]:
    """An identifier and so many numbers. Raises Unavailable.

    >>> _numbers("ab12 3 7", 2)
    ('ab12', 3, 7)
    """
    name, *numbers = text.split(" ")
    if (
        len(numbers) != count
        or not name
        or len(name) > _ID_MAX
        or not all(each.isascii() and each.isdigit() and len(each) < 9 for each in numbers)
    ):
        raise Unavailable("it says something else")
    return name, *map(int, numbers)


# --- answering ----------------------------------------------------------------------------------------------------------------------------


class _Kept(msgspec.Struct):
    """Pieces of a request that is not complete, or of an answer that is fetched."""

    pieces: list[bytes | None]
    missing: int
    size: int
    timer: Any = None


class Answers:
    """Answers what is asked under a subject, which may be a pattern. `close` ends it."""

    def __init__(self, connection: Connection, handler: Handler) -> None:
        self._connection = connection
        self._handler = handler
        self._loop = asyncio.get_running_loop()
        self._requests: dict[tuple[str, str], _Kept] = {}  # by subject and identifier
        self._answers: dict[tuple[str, str], _Kept] = {}
        self._size = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._subscription: Subscription | None = None

    async def open(self, subject: str) -> None:
        """Requests are answered when this returns. Raises Unavailable."""
        self._subscription = await self._connection.subscribe(subject, self._take, waiting_max=_WAITING_MAX)
        await self._connection.settle()

    async def close(self) -> None:
        """Harmless when done."""
        subscription, self._subscription = self._subscription, None
        if subscription is not None:
            await subscription.stop()
            with suppress(Unavailable):
                await self._connection.settle()
        for task in self._tasks:
            task.cancel()
        for kept in (self._requests, self._answers):
            for key in list(kept):
                self._drop(kept, key)

    def check(self) -> None:
        """Assert that what is kept is counted."""
        assert self._size == sum(each.size for kept in (self._requests, self._answers) for each in kept.values())

    def _take(self, message: Message) -> None:
        if not message.reply:
            return
        try:
            self._sort(message)
        except Unavailable as error:
            self._send(message.reply, b"", {"Error": str(error)})

    def _sort(self, message: Message) -> None:
        headers = message.headers
        if "Whole" in headers:
            self._answer(message, message.data)
        elif "Piece" in headers:
            whole = self._add_piece(message, headers["Piece"])
            if whole is None:
                self._send(message.reply, b"", {"Part": "kept"})
            else:
                self._answer(message, whole)
        elif "Fetch" in headers:
            name, number = _numbers(headers["Fetch"], 1)
            key = (message.subject, name)
            kept = self._answers.get(key)
            if kept is None or number >= len(kept.pieces):
                raise Unavailable("there is no such answer")
            piece = kept.pieces[number]
            if piece is None:
                raise Unavailable("this piece was fetched before")
            kept.pieces[number] = None
            kept.missing -= 1
            self._send(message.reply, piece, {})
            self._resize(kept, -len(piece))
            if kept.missing:
                self._keep(self._answers, key, kept)
            else:
                self._drop(self._answers, key)
        else:
            raise Unavailable("it says something else")

    def _add_piece(self, message: Message, text: str) -> bytes | None:
        """The whole request if it is complete now."""
        name, number, count = _numbers(text, 2)
        key = (message.subject, name)
        if not (1 < count <= PIECES_MAX and number < count and 0 < len(message.data) <= PIECE):
            raise Unavailable("it says something else")
        kept = self._requests.get(key) or _Kept([None] * count, count, 0)
        if count != len(kept.pieces) or kept.pieces[number] is not None:
            self._drop(self._requests, key)
            raise Unavailable("it says something else")
        if self._size + len(message.data) > KEPT:
            self._drop(self._requests, key)
            raise Unavailable("too much is on its way, later")
        kept.pieces[number] = message.data
        kept.missing -= 1
        self._resize(kept, len(message.data))
        self._keep(self._requests, key, kept)
        if kept.missing:
            return None
        self._drop(self._requests, key)
        return b"".join(piece for piece in kept.pieces if piece is not None)

    def _keep(self, where: dict[tuple[str, str], _Kept], key: tuple[str, str], kept: _Kept) -> None:
        """For KEPT_SECONDS from now on."""
        if kept.timer is not None:
            kept.timer.cancel()
        kept.timer = self._loop.call_later(KEPT_SECONDS, self._drop, where, key)
        where[key] = kept

    def _drop(self, where: dict[tuple[str, str], _Kept], key: tuple[str, str]) -> None:
        kept = where.pop(key, None)
        if kept is not None:
            kept.timer.cancel()
            self._size -= kept.size

    def _resize(self, kept: _Kept, size: int) -> None:
        kept.size += size
        self._size += size

    # --- the answer ------------------------------------------------------------------------------------------------------------------------

    def _answer(self, message: Message, data: bytes) -> None:
        if len(self._tasks) >= OPEN_MAX:
            raise Unavailable("too many requests, later")
        self._spawn(self._call(message, data))

    def _send(self, reply: str, data: bytes, headers: Mapping[str, str]) -> None:
        self._spawn(self._publish(reply, data, headers))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _call(self, message: Message, data: bytes) -> None:
        try:
            answer = await self._handler(message.subject, data)
        except RequestRefused as error:
            await self._publish(message.reply, b"", {"Error": str(error)[:_ERROR_MAX]})
            return
        except Exception:
            logger.exception("a request under %s cannot be answered", message.subject)
            await self._publish(message.reply, b"", {"Error": "it failed"})
            return
        if len(answer) <= PIECE:
            await self._publish(message.reply, answer, {})
        elif len(answer) > LARGEST or self._size + len(answer) - PIECE > KEPT:
            await self._publish(message.reply, b"", {"Error": "the answer is too large"})
        else:
            pieces = [answer[start : start + PIECE] for start in range(0, len(answer), PIECE)]
            kept = _Kept([None, *pieces[1:]], len(pieces) - 1, 0)
            name = secrets.token_hex(8)
            self._resize(kept, len(answer) - PIECE)
            self._keep(self._answers, (message.subject, name), kept)
            await self._publish(message.reply, pieces[0], {"Part": f"{name} {len(pieces)}"})

    async def _publish(self, reply: str, data: bytes, headers: Mapping[str, str]) -> None:
        try:
            await self._connection.publish(reply, data, headers)
        except Unavailable as error:
            logger.debug("an answer cannot be sent: %s", error)
