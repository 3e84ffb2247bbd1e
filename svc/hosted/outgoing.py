"""What a server's parts write, on its way into ASGI messages: a queue with a size, whose reader is a coroutine."""

from __future__ import annotations

import asyncio
from typing import Generic, TypeVar

T = TypeVar("T")


class Outgoing(Generic[T]):
    """`pending`: bytes that the host has not taken. `is_ended`: nothing follows what is queued. `is_gone`: nobody takes it any more."""

    def __init__(self) -> None:
        self.pending = 0
        self.is_ended = False
        self.is_gone = False
        self._items: list[tuple[T, int]] = []
        self._changed = asyncio.Event()

    def put(self, item: T, size: int) -> None:
        if not self.is_ended and not self.is_gone:
            self._items.append((item, size))
            self.pending += size
            self._changed.set()

    def drop(self) -> None:
        """What is queued will not be sent."""
        self._items = []
        self.pending = 0

    def end(self) -> None:
        self.is_ended = True
        self._changed.set()

    def give_up(self) -> None:
        """The peer is gone."""
        self.is_gone = True
        self.drop()
        self._changed.set()

    async def take(self) -> list[tuple[T, int]]:
        """All that is queued, when there is something; [] at the end."""
        while not self._items and not self.is_ended and not self.is_gone:
            self._changed.clear()
            await self._changed.wait()
        items, self._items = self._items, []
        return items

    def taken(self, size: int) -> bool:
        """The host has taken so many bytes. True: everything."""
        self.pending = max(0, self.pending - size)
        return not self.pending and not self.is_gone
