"""The queue between a subscription and its consumer; by itself it has only items that application code sends (spec: realtime §1).

There are three ways to consume, of which one is used: `take`, for protocols (`event.EventSource`); `async for`; and `on("data", callback)`.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable
from typing import Any

from svc.loop import contained
from svc.realtime.event import EndReason
from svc.realtime.limits import MAX_SENT, BoundedSource

logger = logging.getLogger("svc.realtime")

TAKE_BATCH = 100  # items taken at a time for iteration

# Ends after which queued items are dropped: the consumer may not see them any more, or they take too much memory.
DISCARDS_QUEUE = frozenset((EndReason.REVOKED, EndReason.NO_LOGIN, EndReason.TOO_SLOW, EndReason.FAILED))


def _no_consumer() -> None:
    """Placeholder until a consumer sets its callback."""


class DeliveryQueue(BoundedSource):
    """It does not end by itself. `waiting`: the consumer has found it empty, and is to be notified of more."""

    __slots__ = ("_callbacks", "_pump", "_resume", "_sent", "_taken", "ended", "loop", "on_ready", "waiting")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.on_ready: Callable[[], None] = _no_consumer
        self.ended: EndReason | None = None
        self.waiting = False
        # Lists and not deques: there are very many of them, nearly always empty.
        self._sent: list[tuple[int, Any]] = []  # (LSN behind which it belongs, item)
        self._taken: list[Any] = []  # for iteration
        self._resume: asyncio.Future[None] | None = None
        self._callbacks: dict[str, list[Callable[..., Any]]] = {}
        self._pump: asyncio.Task[None] | None = None

    # -- called by the consumer

    def take(self, limit: int) -> list[Any]:
        """See `EventSource`."""
        found = [item for _, item in self._sent[:limit]]
        del self._sent[:limit]
        if not found and self.ended is None:
            self.waiting = True
        return found

    def close(self) -> None:
        """The consumer is gone."""
        self.waiting = False
        self.on_ready = _no_consumer
        self.finish(EndReason.FINISHED)
        self._drop_items()
        self._wake()

    # -- called by application code

    def send(self, event: Any) -> None:
        """Queue an item, behind all events of commits up to now. With more than MAX_SENT items it ends as too slow."""
        if self.ended is not None:
            return
        if len(self._sent) >= MAX_SENT:
            self.finish_too_slow()
            return
        self._sent.append((self._send_position(), event))
        if self.waiting and self.has_events:
            self._notify_soon()

    def end(self) -> None:
        """End it: queued items can still be taken."""
        self.finish(EndReason.FINISHED)

    def on(self, name: str, callback: Callable[..., Any]) -> DeliveryQueue:
        """`"data"`: called with each item, one after the other, awaited if it has to be. `"close"`: called at the end, with why it ended."""
        if name not in ("data", "close"):
            raise KeyError(name)
        self._callbacks.setdefault(name, []).append(callback)
        if name == "data" and self._pump is None:
            self._pump = self.loop.create_task(self._call())
        elif name == "close" and self.ended is not None:
            self.loop.call_soon_threadsafe(self._call_close_callbacks)
        return self

    async def _call(self) -> None:
        async for item in self:
            for callback in tuple(self._callbacks.get("data", ())):
                try:
                    result = callback(item)
                    if inspect.isawaitable(result):
                        await result
                except BaseException as error:
                    logger.error("a subscriber failed on an event", exc_info=contained(error))

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
        return self._taken.pop(0)

    async def aclose(self) -> None:
        self.close()

    # -- called by producers

    def _send_position(self) -> int:
        """LSN behind which an item that is sent now belongs."""
        return 0

    @property
    def has_events(self) -> bool:
        """Whether `take` would return something, or the consumer is to be notified of the end."""
        return bool(self._sent or self.ended is not None)

    def notify(self) -> None:
        """Notify the consumer that there is something to take."""
        self.waiting = False
        try:
            self.on_ready()
        except BaseException as error:
            logger.error("the callback of a subscriber failed", exc_info=contained(error))

    def _notify_soon(self) -> None:
        """Notify the consumer in the next turn, not within the call of the producer."""
        self.loop.call_soon_threadsafe(self._notify_now)

    def _notify_now(self) -> None:
        if self.waiting and self.has_events:
            self.notify()

    def finish(self, why: EndReason) -> None:
        """End it, once."""
        if self.ended is not None:
            return
        self.ended = why
        if why in DISCARDS_QUEUE:
            self._drop_items()
        if "close" in self._callbacks:
            self.loop.call_soon_threadsafe(self._call_close_callbacks)
        if self.waiting:
            self._notify_soon()

    def _drop_items(self) -> None:
        """Drop all queued items."""
        self._sent.clear()
        self._taken.clear()

    def _call_close_callbacks(self) -> None:
        for callback in self._callbacks.pop("close", ()):
            try:
                callback(self.ended)
            except BaseException as error:
                logger.error("a subscriber failed on the end of a subscription", exc_info=contained(error))

    def _wake(self) -> None:
        if self._resume is not None:
            # Not at once: at the end of a turn the loop has decided already how long it waits.
            self.loop.call_soon_threadsafe(self._resume_iteration)

    def _resume_iteration(self) -> None:
        if self._resume is not None and not self._resume.done():
            self._resume.set_result(None)
