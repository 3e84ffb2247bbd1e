"""A subscription to nothing: what application code sends to it is all there is (contract: applications §9)."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections import deque
from collections.abc import Callable
from typing import Any

from svc.realtime.event import EndReason

logger = logging.getLogger("svc.realtime")

MAX_SENT = 10_000  # items that wait for somebody to take them (realtime §1 rule 8)


def _nobody() -> None:
    """Nobody waits yet."""


class ApplicationEvents:
    """An `event.EventSource` of items. It ends by `end` or when its consumer goes. For application code: `send`, `on`, `end`, and iteration."""

    __slots__ = ("_callbacks", "_items", "_next", "_waiting", "ended", "on_ready")

    def __init__(self) -> None:
        self.on_ready: Callable[[], None] = _nobody
        self.ended: EndReason | None = None
        self._items: deque[Any] = deque()
        self._waiting = False  # the consumer has been told that there is nothing
        self._callbacks: dict[str, list[Callable[..., Any]]] = {"data": [], "close": []}
        self._next: asyncio.Future[None] | None = None

    def take(self, limit: int) -> list[Any]:
        items = self._items
        found = [items.popleft() for _ in range(min(limit, len(items)))]
        self._waiting = not found
        return found

    def send(self, item: Any) -> None:
        if self.ended is not None:
            return
        if self._callbacks["data"]:
            self._call("data", item)
            return
        if len(self._items) >= MAX_SENT:
            self._items.clear()
            self._finish(EndReason.TOO_SLOW)
            return
        self._items.append(item)
        self._tell()

    def on(self, name: str, callback: Callable[..., Any]) -> ApplicationEvents:
        """`"data"`: called with each item, in place of whoever takes or iterates. `"close"`: called at the end, with why it ended."""
        self._callbacks[name].append(callback)
        if name == "data":
            while self._items:
                self._call("data", self._items.popleft())
        return self

    def end(self) -> None:
        """No more; what waits is still given."""
        self._finish(EndReason.FINISHED)

    def close(self) -> None:
        self.on_ready = _nobody
        self._items.clear()
        self._finish(EndReason.FINISHED)

    async def aclose(self) -> None:
        self.close()

    def __aiter__(self) -> ApplicationEvents:
        return self

    async def __anext__(self) -> Any:
        while True:
            found = self.take(1)
            if found:
                return found[0]
            if self.ended is not None:
                raise StopAsyncIteration
            self._next = asyncio.get_running_loop().create_future()
            await self._next

    def _finish(self, why: EndReason) -> None:
        if self.ended is None:
            self.ended = why
            self._tell()
            self._call("close", why)

    def _tell(self) -> None:
        if self._waiting:
            self._waiting = False
            self.on_ready()
        future, self._next = self._next, None
        if future is not None and not future.done():
            future.set_result(None)

    def _call(self, name: str, argument: Any) -> None:
        for callback in self._callbacks[name]:
            try:
                result = callback(argument)
            except Exception:
                logger.exception("a subscriber failed on %s", name)
                continue
            if inspect.isawaitable(result):
                task = asyncio.ensure_future(result)
                _running.add(task)
                task.add_done_callback(_done)


_running: set[asyncio.Future[Any]] = set()  # asyncio itself may forget a task that waits


def _done(task: asyncio.Future[Any]) -> None:
    _running.discard(task)
    if not task.cancelled() and task.exception() is not None:
        logger.error("a subscriber failed", exc_info=task.exception())
