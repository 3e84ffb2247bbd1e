"""Sends events of a source to one client, no faster than the client takes them (spec: realtime §1 rule 8).

Events wait in the source, where their number is bounded; on the way to the client are at most HIGH_WATER bytes and a batch. The bytes of an event are
made once for all its receivers and kept in its memo, so to deliver one costs: take, look up, write.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any, Protocol

from svc.loop import contained
from svc.realtime.event import EndReason, Event, EventSource

HIGH_WATER = 64 * 1024  # bytes on their way to a client, above which no more events are taken
MAX_BATCH = 64  # events taken at a time; their sizes are not known beforehand, so it begins with two and doubles


class EventSink(Protocol):
    """Takes the bytes: a `FeedWriter` or a `websocket.Socket`."""

    @property
    def pending(self) -> int: ...


class EventPump:
    """Call `run` when the source has events, or the client has room again."""

    __slots__ = ("_encode", "_key", "_on_end", "_report", "_sink", "_source", "_write", "is_waiting")

    def __init__(
        self,
        source: EventSource,
        key: object,
        encode: Callable[[Any], bytes],
        on_end: Callable[[EndReason], None],
        report: Callable[[BaseException], None],
    ) -> None:
        """`encode` makes the bytes of an event and keeps them in its memo under `key`; it takes other items of a source, too.
        `on_end` is called once, when the source has no more. `report` logs a defect."""
        self._source: EventSource | None = source
        self._key = key
        self._encode = encode
        self._on_end: Callable[[EndReason], None] | None = on_end
        self._report = report
        self._sink: EventSink | None = None
        self._write: Callable[[bytes], None] = _discard
        self.is_waiting = False  # for room

    def start(self, sink: EventSink, write: Callable[[bytes], None]) -> None:
        source = self._source
        if source is not None:
            self._sink, self._write = sink, write
            source.on_ready = self.run
            self.run()

    def run(self) -> None:
        source, sink = self._source, self._sink
        if source is None or sink is None:
            return
        self.is_waiting = False
        write, key = self._write, self._key
        batch = 2  # one more than usually waits
        try:
            room = HIGH_WATER - sink.pending
            while room > 0:
                events = source.take(batch)
                if not events:
                    if source.ended is not None:
                        self._end(source.ended)
                    return
                for event in events:
                    memo = getattr(event, "memo", None)
                    data = (memo.get(key) if memo else None) or self._encode(event)
                    write(data)
                    room -= len(data)
                if self._source is None or (len(events) < batch and source.waiting):  # ended from within, or empty
                    return
                if batch < MAX_BATCH:
                    batch *= 2
            self.is_waiting = True
        except BaseException as error:  # of one event or one source: other streams go on
            self._report(contained(error))
            self._end(EndReason.FAILED)

    def close(self) -> None:
        """The client has disconnected, or the stream has ended. Forget what it was given, which refers to this object in turn: such cycles wait for the
        garbage collector."""
        source, self._source = self._source, None
        self._on_end = self._sink = None
        self._write = _discard
        if source is not None:
            source.close()

    def _end(self, why: EndReason) -> None:
        on_end = self._on_end
        self.close()
        if on_end is not None:
            on_end(why)


def _discard(data: bytes) -> None:
    """Nobody receives it any more."""


def as_event_source(result: Any) -> EventSource | None:
    """The result of a `connect` if it is an `EventSource`; None: it has to be iterated."""
    return result if hasattr(result, "take") and hasattr(result, "on_ready") else None


class WakeSignal:
    """Wakes a task that waits for room or for the next event."""

    __slots__ = ("_future", "_loop")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._future: asyncio.Future[None] | None = None

    async def wait(self) -> None:
        """Wait until the next `set`."""
        self._future = self._loop.create_future()
        await self._future

    def set(self) -> None:
        if self._future is not None:
            # This may be the end of a turn, when the length of the coming poll is settled already: it has to be cut short.
            self._loop.call_soon_threadsafe(self._resolve)

    def _resolve(self) -> None:
        future, self._future = self._future, None
        if future is not None and not future.done():
            future.set_result(None)


async def iter_source(source: EventSource, loop: asyncio.AbstractEventLoop) -> AsyncIterator[Event]:
    """The events one by one, for code that has to await between them."""
    more = WakeSignal(loop)
    source.on_ready = more.set
    try:
        while True:
            events = source.take(1)
            for event in events:
                yield event
            if not events:
                if source.ended is not None:
                    return
                await more.wait()
    finally:
        source.close()
