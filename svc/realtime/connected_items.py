"""What the code of an application sends to one client, item by item, for as long as the client may have it (spec: realtime §4)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

from svc.realtime.event import EndReason
from svc.realtime.hub import Hub
from svc.realtime.rights_watch import RightsWatch


def _no_consumer(why: EndReason) -> None:
    """Placeholder until a protocol sets its callback."""


class ConnectedItems:
    """An async iterator that the server may end. `on_end`: set by the protocol that sends the items; it ends the connection, whatever the iterator is at."""

    __slots__ = ("_hub", "_items", "_watch", "ended", "on_end")

    def __init__(self, items: AsyncIterator[Any], hub: Hub | None, watch: Callable[[Callable[[EndReason], None]], RightsWatch]) -> None:
        """`watch(end)` makes the watch of the user's rights. It begins with the first item."""
        self._items = items
        self._hub = hub
        self._watch: RightsWatch | None = watch(self._end)
        self.ended: EndReason | None = None
        self.on_end: Callable[[EndReason], None] = _no_consumer

    def __aiter__(self) -> ConnectedItems:
        return self

    async def __anext__(self) -> Any:
        watch, hub = self._watch, self._hub
        if watch is not None and hub is not None:
            hub.watch(watch)
        if self.ended is not None:
            raise StopAsyncIteration
        try:
            return await anext(self._items)
        except BaseException:
            self._release()
            raise

    async def aclose(self) -> None:
        self._release()
        close = getattr(self._items, "aclose", None)
        if close is not None:
            await close()

    def _release(self) -> None:
        watch, self._watch = self._watch, None
        if watch is not None and self._hub is not None:
            watch.is_over = True
            self._hub.unwatch(watch)

    def _end(self, why: EndReason) -> None:
        self.ended = why
        self.on_end(why)
