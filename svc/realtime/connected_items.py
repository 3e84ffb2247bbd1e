"""What the code of an application does for one client, for as long as the client may have it (spec: realtime §4).

    Opening         the handler runs, and has not returned anything yet
    ConnectedItems  what it has returned: an iterator of items

Each is ended when the rights of its user are gone: `on_end`, set by the protocol, ends the connection, whatever the handler is at.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from typing import Any

from svc.realtime.event import EndReason
from svc.realtime.hub import Hub
from svc.realtime.rights_watch import RightsWatch

Watch = Callable[[Callable[[EndReason], None]], RightsWatch]


def _no_consumer(why: EndReason) -> None:
    """Placeholder until a protocol sets its callback."""


class Endable:
    """`watch(end)` makes the watch of the user's rights. `ended`: why the server has ended it."""

    __slots__ = ("_hub", "_watch", "ended", "on_end")

    def __init__(self, hub: Hub | None, watch: Watch) -> None:
        self._hub = hub
        self._watch: RightsWatch | None = watch(self._end)
        self.ended: EndReason | None = None
        self.on_end: Callable[[EndReason], None] = _no_consumer

    def tell(self, on_end: Callable[[EndReason], None]) -> None:
        """From now on call this, once, when it ends; at once if it has."""
        self.on_end = on_end
        if self.ended is not None:
            on_end(self.ended)

    def _begin(self) -> None:
        if self._watch is not None and self._hub is not None:
            self._hub.watch(self._watch)

    def _release(self) -> None:
        watch, self._watch = self._watch, None
        if watch is not None and self._hub is not None:
            watch.is_over = True
            self._hub.unwatch(watch)

    def _end(self, why: EndReason) -> None:
        self.ended = why
        self.on_end(why)


class Opening(Endable):
    """An awaitable: what the handler returns."""

    __slots__ = ("_result",)

    def __init__(self, result: Awaitable[Any], hub: Hub | None, watch: Watch) -> None:
        super().__init__(hub, watch)
        self._result = result

    def __await__(self) -> Generator[Any, Any, Any]:
        self._begin()
        try:
            return (yield from self._result.__await__())
        finally:
            self._release()

    def close(self) -> None:
        """It is not awaited: the client has gone before."""
        close = getattr(self._result, "close", None)
        if close is not None:
            close()


class ConnectedItems(Endable):
    """An async iterator. The watch begins with the first item."""

    __slots__ = ("_items",)

    def __init__(self, items: AsyncIterator[Any], hub: Hub | None, watch: Watch) -> None:
        super().__init__(hub, watch)
        self._items = items

    def __aiter__(self) -> ConnectedItems:
        return self

    async def __anext__(self) -> Any:
        self._begin()
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
