"""What gives items to a consumer, one after the other: by itself only those that application code sends (contract: applications §9).

There are three ways to consume: `take`, for whoever sends them on (`event.EventSource`); `async for`; and `on("data", callback)`. One at a time.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections import deque
from collections.abc import Callable
from typing import Any

from svc.realtime.event import EndReason

logger = logging.getLogger("svc.realtime")

MAX_SENT = 10_000  # items that wait
TAKE_BATCH = 100  # items that application code takes at once

# What the consumer may not see any more, or what takes up room that there is not.
DISCARDS_QUEUE = frozenset((EndReason.REVOKED, EndReason.NO_LOGIN, EndReason.TOO_SLOW, EndReason.FAILED))


def nobody() -> None:
    """Nobody waits yet."""


class DeliveryQueue:
    """It never ends by itself. `waiting`: the consumer has found it empty, and wants to be told of more."""

    __slots__ = ("_callbacks", "_pump", "_resume", "_sent", "_taken", "ended", "loop", "on_ready", "waiting")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.on_ready: Callable[[], None] = nobody
        self.ended: EndReason | None = None
        self.waiting = False
        self._sent: deque[tuple[int, Any]] = deque()  # (place among other things, item)
        self._taken: deque[Any] = deque()  # for iteration
        self._resume: asyncio.Future[None] | None = None
        self._callbacks: dict[str, list[Callable[..., Any]]] = {"data": [], "close": []}
        self._pump: asyncio.Task[None] | None = None

    # -- what a consumer calls

    def take(self, limit: int) -> list[Any]:
        """See `EventSource`."""
        found = [self._sent.popleft()[1] for _ in range(min(limit, len(self._sent)))]
        if not found and self.ended is None:
            self.waiting = True
        return found

    def close(self) -> None:
        """The consumer is gone."""
        self.waiting = False
        self.on_ready = nobody
        self.finish(EndReason.FINISHED)
        self._forget()
        self._wake()

    # -- what application code calls

    def send(self, event: Any) -> None:
        """Give the consumer something, after all that has happened by now. It is kept until it is taken: of too many items it ends as too slow."""
        if self.ended is not None:
            return
        if len(self._sent) >= MAX_SENT:
            self.finish(EndReason.TOO_SLOW)
            return
        self._sent.append((self._place(), event))
        if self.waiting and self.has_something:
            self._signal_soon()

    def end(self) -> None:
        """No more items; those that wait are still given."""
        self.finish(EndReason.FINISHED)

    def on(self, name: str, callback: Callable[..., Any]) -> DeliveryQueue:
        """`"data"`: called with each item, one after the other, awaited if it has to be. `"close"`: called at the end, with why it ended."""
        self._callbacks[name].append(callback)
        if name == "data" and self._pump is None:
            self._pump = self.loop.create_task(self._call())
        elif name == "close" and self.ended is not None:
            self.loop.call_soon_threadsafe(self._tell_end)
        return self

    async def _call(self) -> None:
        async for item in self:
            for callback in tuple(self._callbacks["data"]):
                try:
                    result = callback(item)
                    if inspect.isawaitable(result):
                        await result
                except Exception:
                    logger.exception("a subscriber failed on an event")

    def __aiter__(self) -> DeliveryQueue:
        return self

    async def __anext__(self) -> Any:
        while not self._taken:
            self.on_ready = self._wake
            self._taken.extend(self.take(TAKE_BATCH))
            if self._taken:
                break
            if self.ended is not None:
                raise StopAsyncIteration
            self._resume = self.loop.create_future()
            await self._resume
        return self._taken.popleft()

    async def aclose(self) -> None:
        self.close()

    # -- for those who fill it

    def _place(self) -> int:
        """Where an item that is sent now belongs."""
        return 0

    @property
    def has_something(self) -> bool:
        """Whether `take` would return something, or the end is to be told."""
        return bool(self._sent or self.ended is not None)

    def signal(self) -> None:
        """Tell the consumer that there is something to take."""
        self.waiting = False
        try:
            self.on_ready()
        except Exception:
            logger.exception("a subscriber could not be told of events")

    def _signal_soon(self) -> None:
        """The same, though not from within the call of whoever caused it."""
        self.loop.call_soon_threadsafe(self._signal_now)

    def _signal_now(self) -> None:
        if self.waiting and self.has_something:
            self.signal()

    def finish(self, why: EndReason) -> None:
        """End it, once."""
        if self.ended is not None:
            return
        self.ended = why
        if why in DISCARDS_QUEUE:
            self._forget()
        if self._callbacks["close"]:
            self.loop.call_soon_threadsafe(self._tell_end)
        if self.waiting:
            self._signal_soon()

    def _forget(self) -> None:
        """Drop all that waits."""
        self._sent.clear()
        self._taken.clear()

    def _tell_end(self) -> None:
        callbacks, self._callbacks["close"] = self._callbacks["close"], []
        for callback in callbacks:
            try:
                callback(self.ended)
            except Exception:
                logger.exception("a subscriber failed on the end of a subscription")

    def _wake(self) -> None:
        if self._resume is not None:
            # Not at once: at the end of a turn the loop has decided already how long it will wait.
            self.loop.call_soon_threadsafe(self._go_on)

    def _go_on(self) -> None:
        if self._resume is not None and not self._resume.done():
            self._resume.set_result(None)
