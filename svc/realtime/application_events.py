"""Events that application code sends itself, from no table (spec: realtime §1)."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections import deque
from collections.abc import Callable
from typing import Any

from svc.realtime.event import EndReason
from svc.realtime.limits import MAX_SENT

logger = logging.getLogger("svc.realtime")


def _no_consumer() -> None:
    """Placeholder until a consumer sets its callback."""


class ApplicationEvents:
    """An `event.EventSource` of items. It ends by `end` or when its consumer goes. For application code: `send`, `on`, `end`, and iteration."""

    __slots__ = ("_callbacks", "_items", "_next", "ended", "on_ready", "waiting")

    def __init__(self) -> None:
        self.on_ready: Callable[[], None] = _no_consumer
        self.ended: EndReason | None = None
        self._items: deque[Any] = deque()
        self.waiting = False  # the last `take` returned nothing
        self._callbacks: dict[str, list[Callable[..., Any]]] = {"data": [], "close": []}
        self._next: asyncio.Future[None] | None = None

    def take(self, limit: int) -> list[Any]:
        items = self._items
        found = [items.popleft() for _ in range(min(limit, len(items)))]
        self.waiting = not found
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
        self._notify()

    def on(self, name: str, callback: Callable[..., Any]) -> ApplicationEvents:
        """`"data"`: called with each item, instead of taking or iterating. `"close"`: called at the end, with the `EndReason`."""
        self._callbacks[name].append(callback)
        if name == "data":
            while self._items:
                self._call("data", self._items.popleft())
        return self

    def end(self) -> None:
        """End it: queued items can still be taken."""
        self._finish(EndReason.FINISHED)

    def close(self) -> None:
        self.on_ready = _no_consumer
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
            self._notify()
            self._call("close", why)

    def _notify(self) -> None:
        if self.waiting:
            self.waiting = False
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


_running: set[asyncio.Future[Any]] = set()  # asyncio itself holds only weak references to tasks


def _done(task: asyncio.Future[Any]) -> None:
    _running.discard(task)
    if not task.cancelled() and task.exception() is not None:
        logger.error("a subscriber failed", exc_info=task.exception())
