"""Server-sent events: the response to a GET that prefers `text/event-stream` (spec: realtime §3).

    SourceStream     a subscription or a live query, pushed as it happens
    IteratorStream   the items that a resource's own `connect` yields, in a task

Both are bodies that do not end by themselves: errors have to be found before the first byte, and are ordinary responses. An answer of 200 would have the
browser come back for the same error every few seconds.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from svc.content.plain_type import EVENT_STREAM
from svc.errors import Problem
from svc.http.compression import VARY
from svc.http.event_blocks import BLOCK, KEEP_ALIVE, RETRY, RETRY_LIVE, block_of
from svc.http.event_pump import HIGH_WATER, EventPump, WakeSignal, as_event_source
from svc.http.media_types import media_type_of
from svc.loop import as_exception, contained, is_ours
from svc.messages import Feed, FeedWriter, HeaderPairs, Response
from svc.realtime.connected_items import ConnectedItems
from svc.realtime.event import EndReason, EventSource

SILENCE = 15.0  # seconds after which a comment is sent, so that proxies keep the connection and a lost one is noticed
FIRST_ITEM = 1.0  # seconds that the answer waits for the first item of an iterator: what is raised until then has its own status

Report = Callable[[BaseException], None]


class EventStreams:
    """Makes the responses. `report` logs a defect while one streams."""

    def __init__(self, loop: asyncio.AbstractEventLoop | None, now: Callable[[], float], report: Report) -> None:
        self._loop = loop
        self._now = now
        self._report = report

    def respond(self, result: Any) -> Response | Awaitable[Response] | None:
        """The stream of what `connect` returned, or an awaitable of it; None if it cannot be streamed."""
        source = as_event_source(result)
        if source is not None:
            return _response(SourceStream(source, self._now, self._report))
        if hasattr(result, "__aiter__"):
            return self._begun(aiter(result))
        return None

    async def _begun(self, items: AsyncIterator[Any]) -> Response:
        stream = IteratorStream(items, self._loop or asyncio.get_running_loop(), self._now, self._report)
        await stream.begin()
        return _response(stream)


def _response(feed: Feed) -> Response:
    pairs: HeaderPairs = [
        ("Content-Type", EVENT_STREAM),
        ("Cache-Control", "no-store"),
        ("X-Accel-Buffering", "no"),  # else nginx buffers the events
        VARY,
    ]
    return Response(feed, 200, pairs=pairs)


class EventFeed(Feed):
    """The common part: the start, and comments when nothing is sent."""

    __slots__ = ("_now", "_quiet_since", "_writer")

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._writer: FeedWriter | None = None
        self._quiet_since = 0.0

    def _begin(self, writer: FeedWriter, prelude: bytes) -> None:
        self._writer = writer
        self._quiet_since = self._now()
        writer.write(prelude)

    def _keep_alive(self, now: float) -> None:
        writer = self._writer
        if writer is not None and now - self._quiet_since >= SILENCE:
            self._quiet_since = now
            if not writer.pending:  # else the client has not taken everything yet
                writer.write(KEEP_ALIVE)


class SourceStream(EventFeed):
    __slots__ = ("_prelude", "_pump", "_written")

    def __init__(self, source: EventSource, now: Callable[[], float], report: Report) -> None:
        super().__init__(now)
        self._prelude = RETRY_LIVE if hasattr(source, "reset_reason") else RETRY
        self._pump = EventPump(source, BLOCK, block_of, self._on_end, report)
        self._written = False  # since the last sweep

    def start(self, writer: FeedWriter) -> None:
        self._begin(writer, self._prelude)
        self._pump.start(writer, writer.write)

    def on_sent(self) -> None:
        self._written = True
        if self._pump.is_waiting:
            self._pump.run()

    def sweep(self, now: float) -> None:
        if self._written:
            self._written = False
            self._quiet_since = now
        else:
            self._keep_alive(now)

    def drain(self, is_replaced: bool = False) -> None:
        self._on_end(EndReason.FINISHED)

    def close(self) -> None:
        self._writer = None
        self._pump.close()

    def _on_end(self, why: EndReason) -> None:
        """End the stream: browsers connect again, and get the error then."""
        writer = self._writer
        if writer is not None:
            writer.end()


class IteratorStream(EventFeed):
    """`begin` it before it is answered with. One task asks for all items: the code that makes them may keep something open from one to the next."""

    __slots__ = ("_asked", "_early", "_fault", "_finished", "_is_closed", "_is_unanswered", "_items", "_loop", "_report", "_room", "_task")

    def __init__(self, items: AsyncIterator[Any], loop: asyncio.AbstractEventLoop, now: Callable[[], float], report: Report) -> None:
        super().__init__(now)
        self._items = items
        self._loop = loop
        self._report = report
        self._room = WakeSignal(loop)
        self._task: asyncio.Task[None] | None = None
        self._asked: asyncio.Future[None] | None = None  # for the first item; done when it is there, or none comes
        self._early: bytes | None = None  # that item, until the connection asks for it
        self._fault: Exception | None = None  # instead of it
        self._is_unanswered = True
        self._is_closed = self._finished = False

    async def begin(self) -> None:
        """Until the first item is there, or none has come for FIRST_ITEM seconds. Raises what is raised instead of it."""
        asked = self._asked = self._loop.create_future()
        self._task = self._loop.create_task(self._run())
        try:
            await asyncio.wait((asked,), timeout=FIRST_ITEM)
        except BaseException:
            self.close()
            raise
        self._is_unanswered = False
        fault, self._fault = self._fault, None
        if fault is not None:
            raise fault

    def start(self, writer: FeedWriter) -> None:
        self._begin(writer, RETRY)
        early, self._early = self._early, None
        if early is not None:
            writer.write(early)
        self._room.set()
        if self._finished:
            writer.end()
        elif isinstance(self._items, ConnectedItems):
            self._items.tell(self._on_end)

    async def _run(self) -> None:
        try:
            async for item in self._items:
                self._send(block_of(item))
                while not self._is_closed and (self._writer is None or self._writer.pending >= HIGH_WATER):
                    await self._room.wait()
        except BaseException as error:
            if is_ours(error) and (self._is_closed or not isinstance(error, asyncio.CancelledError)):
                raise
            if self._is_unanswered:
                self._fault = as_exception(error)
            elif not isinstance(error, Problem):
                self._report(as_exception(error))
        finally:
            await close_items(self._items, self._report)
            self._finished = True
            self._has_asked()
        if self._writer is not None:
            self._writer.end()

    def _send(self, block: bytes) -> None:
        if self._writer is None:
            self._early = block
            self._has_asked()
        else:
            self._writer.write(block)
            self._quiet_since = self._now()

    def _has_asked(self) -> None:
        if self._asked is not None and not self._asked.done():
            self._asked.set_result(None)

    def on_sent(self) -> None:
        self._room.set()

    def sweep(self, now: float) -> None:
        self._keep_alive(now)

    def drain(self, is_replaced: bool = False) -> None:
        if self._writer is not None:
            self._writer.end()

    def close(self) -> None:
        self._writer = None
        self._is_closed = True
        if (
            self._task is not None and not self._finished and not self._task.cancelling()
        ):  # a second time would cut short what it does at its end
            self._task.cancel()

    def _on_end(self, why: EndReason) -> None:
        """The client may not have the items any more."""
        if self._writer is not None:
            self._writer.end()
        self.close()


class CodeEvents:
    """The body of an event stream that code has written itself, as one that ends with the login of the caller (`auth.logins.LoginStream`)."""

    def __init__(self, items: AsyncIterator[bytes]) -> None:
        self._items = items
        self._task: asyncio.Task[Any] | None = None  # that waits for the next item
        self._has_ended = False

    def __aiter__(self) -> CodeEvents:
        return self

    async def __anext__(self) -> bytes:
        if self._has_ended:
            raise StopAsyncIteration
        self._task = asyncio.current_task()
        try:
            return await anext(self._items)
        except asyncio.CancelledError:
            if self._has_ended and self._task is not None and not self._task.uncancel():
                raise StopAsyncIteration from None
            raise
        finally:
            self._task = None

    async def aclose(self) -> None:
        close = getattr(self._items, "aclose", None)
        if close is not None:
            await close()

    def login_ended(self) -> None:
        if not self._has_ended:
            self._has_ended = True
            if self._task is not None:
                self._task.cancel()


def is_event_stream(pairs: HeaderPairs) -> bool:
    """Whether the fields of an answer say that it is one."""
    return any(name.lower() == "content-type" and media_type_of(value) == EVENT_STREAM for name, value in pairs)


async def close_items(items: Any, report: Report) -> None:
    """Close an iterator whose client has disconnected; generators run their `finally`."""
    close = getattr(items, "aclose", None) or getattr(items, "close", None)
    try:
        closed = close() if close is not None else None
        if inspect.isawaitable(closed):
            await closed
    except BaseException as error:
        report(contained(error))
