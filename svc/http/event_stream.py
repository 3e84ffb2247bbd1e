"""Server-sent events: the response to a GET that prefers `text/event-stream` (spec: realtime §3).

    SourceStream     a subscription or a live query, pushed as it happens
    IteratorStream   the items that a resource's own `connect` yields, in a task

Both are bodies that do not end by themselves: errors have to be found before the first byte, and are ordinary responses.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable
from typing import Any

from svc.content.plain_type import EVENT_STREAM
from svc.errors import Problem
from svc.http.compression import VARY
from svc.http.event_blocks import BLOCK, KEEP_ALIVE, RETRY, RETRY_LIVE, block_of
from svc.http.event_pump import HIGH_WATER, EventPump, WakeSignal, as_event_source
from svc.messages import Feed, FeedWriter, HeaderPairs, Response
from svc.realtime.connected_items import ConnectedItems
from svc.realtime.event import EndReason, EventSource

SILENCE = 15.0  # seconds after which a comment is sent, so that proxies keep the connection and a lost one is noticed

Report = Callable[[BaseException], None]


class EventStreams:
    """Makes the responses. `report` logs a defect while one streams."""

    def __init__(self, loop: asyncio.AbstractEventLoop | None, now: Callable[[], float], report: Report) -> None:
        self._loop = loop
        self._now = now
        self._report = report

    def respond(self, result: Any) -> Response | None:
        """The stream of what `connect` returned; None if it cannot be streamed."""
        feed: Feed
        source = as_event_source(result)
        if source is not None:
            feed = SourceStream(source, self._now, self._report)
        elif hasattr(result, "__aiter__"):
            feed = IteratorStream(aiter(result), self._loop or asyncio.get_running_loop(), self._now, self._report)
        else:
            return None
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

    def drain(self) -> None:
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
    __slots__ = ("_finished", "_items", "_loop", "_report", "_room", "_task")

    def __init__(self, items: AsyncIterator[Any], loop: asyncio.AbstractEventLoop, now: Callable[[], float], report: Report) -> None:
        super().__init__(now)
        self._items = items
        self._loop = loop
        self._report = report
        self._room = WakeSignal(loop)
        self._task: asyncio.Task[None] | None = None
        self._finished = False

    def start(self, writer: FeedWriter) -> None:
        self._begin(writer, RETRY)
        self._task = self._loop.create_task(self._run(writer))
        items = self._items
        if isinstance(items, ConnectedItems):
            items.tell(self._on_end)

    async def _run(self, writer: FeedWriter) -> None:
        try:
            async for item in self._items:
                writer.write(block_of(item))
                self._quiet_since = self._now()
                while writer.pending >= HIGH_WATER and self._writer is not None:
                    await self._room.wait()
        except asyncio.CancelledError:
            raise
        except Exception as error:
            if not isinstance(error, Problem):
                self._report(error)
        finally:
            await close_items(self._items, self._report)
        self._finished = True
        writer.end()

    def on_sent(self) -> None:
        self._room.set()

    def sweep(self, now: float) -> None:
        self._keep_alive(now)

    def drain(self) -> None:
        if self._writer is not None:
            self._writer.end()

    def close(self) -> None:
        self._writer = None
        if self._task is None:
            self._task = self._loop.create_task(close_items(self._items, self._report))
        elif not self._finished and not self._task.cancelling():  # a second time would cut short what it does at its end
            self._task.cancel()

    def _on_end(self, why: EndReason) -> None:
        """The client may not have the items any more."""
        if self._writer is not None:
            self._writer.end()
        if self._task is not None and not self._task.cancelling():
            self._task.cancel()


async def close_items(items: Any, report: Report) -> None:
    """Close an iterator whose client has disconnected; generators run their `finally`."""
    close = getattr(items, "aclose", None) or getattr(items, "close", None)
    try:
        closed = close() if close is not None else None
        if inspect.isawaitable(closed):
            await closed
    except Exception as error:
        report(error)
