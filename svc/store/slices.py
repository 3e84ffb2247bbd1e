"""Time slices for long work: it runs in slices of SLICE seconds, one slice a turn of the loop for all tasks together.

Each task with long work awaits `take` for each slice, and gets it in the order of the calls. So ten clients with ten large writes delay a short
request no longer than one of them does.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Generator, Iterable
from typing import Any, TypeVar, cast

from svc.clock import Clock
from svc.freeing import AT_ONCE, free_later

SLICE = 0.002  # seconds: what a short request may have to wait, besides others like it


T = TypeVar("T")


def run_now(steps: Iterable[object]) -> None:
    """All steps in one turn, for callers that cannot pause or have few."""
    deque(steps, maxlen=0)


class Slices:
    """The slices of one loop."""

    def __init__(self, clock: Clock) -> None:
        self._now = clock.monotonic
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._granting = False

    async def take(self) -> float:
        """Wait for a slice; returns when it ends, in monotonic seconds."""
        loop = asyncio.get_running_loop()
        granted: asyncio.Future[None] = loop.create_future()
        self._waiting.append(granted)
        if not self._granting:
            self._granting = True
            loop.call_soon(self._grant, loop)
        await granted
        return self._now() + SLICE

    def _grant(self, loop: asyncio.AbstractEventLoop) -> None:
        # Whoever is granted a slice runs in the next turn, and this once more behind it.
        while self._waiting:
            granted = self._waiting.popleft()
            if not granted.done():
                granted.set_result(None)
                loop.call_soon(self._grant, loop)
                return
        self._granting = False

    @staticmethod
    def discard(items: list[Any]) -> None:
        """`free_later`: empty a long list."""
        if len(items) > AT_ONCE:
            free_later(items)

    def run(self, steps: Iterable[object]) -> bool:
        """Take steps for the length of a slice; True when there are none left. `steps` is an iterator of short ones."""
        end = self._now() + SLICE
        now = self._now
        return all(now() < end for _ in steps)

    async def result(self, steps: Generator[object, None, T]) -> T:
        """What a generator of short steps returns, in slices."""
        while True:
            end = await self.take()
            try:
                while self._now() < end:
                    next(steps)
            except StopIteration as done:
                return cast(T, done.value)

    async def exhaust(self, steps: Iterable[object]) -> None:
        """Take all steps, in slices."""
        await self.take()
        while not self.run(steps):
            await self.take()
