"""Working at results (`kept`, `counted`): at once if that is quickly done, else in the slices that all long work shares, a few results at a time."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

from svc.clock import Clock
from svc.errors import QueryTooLarge
from svc.realtime.event import Ended
from svc.realtime.live.worked import WorkedResult
from svc.store.slices import Slices

logger = logging.getLogger("svc.realtime")

INLINE = 0.002  # seconds that something is worked at before it has to share the loop
RUNNING = 4  # results that are worked at at the same time: each holds a snapshot


class Turns:
    """The turns of a loop."""

    __slots__ = ("loop", "now", "slices")

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Clock, slices: Slices) -> None:
        self.loop = loop
        self.now = clock.monotonic
        self.slices = slices

    def later(self, callback: Callable[[], None]) -> None:
        """Call it in the next turn."""
        # Not `call_soon`: at the end of a turn the loop has decided already how long it will wait.
        self.loop.call_soon_threadsafe(callback)

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self.loop.create_task(work)
        self.later(_nothing)  # see above
        return task


class Workers:
    """Those who work at results."""

    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self._queue: deque[WorkedResult] = deque()  # wait for being worked at
        self._tasks: set[asyncio.Task[None]] = set()
        self._working = 0  # results that are worked at in slices
        self._timers: dict[WorkedResult, asyncio.TimerHandle] = {}

    @property
    def is_idle(self) -> bool:
        return not self._queue and not self._working and not self._timers

    def work(self, result: WorkedResult) -> None:
        """Bring a result up to date: now, if it may be run now and that is quickly done."""
        if result.is_running or result.is_closed or result in self._timers:
            return
        wait = result.not_before - self._turns.now() if result.is_lost else 0.0
        if wait > 0:
            self._timers[result] = self._turns.loop.call_later(wait, self._work_now, result)
            return
        self._start(result)

    def forget(self, result: WorkedResult) -> None:
        """It is closed."""
        timer = self._timers.pop(result, None)
        if timer is not None:
            timer.cancel()
        if result in self._queue:
            self._queue.remove(result)

    def _work_now(self, result: WorkedResult) -> None:
        self._timers.pop(result, None)
        if not result.is_closed and not result.is_running:
            self._start(result)

    def _start(self, result: WorkedResult) -> None:
        result.is_running = True
        if self._working >= RUNNING:
            self._queue.append(result)
            return
        steps, now = result.steps(), self._turns.now
        end = now() + INLINE
        try:
            for _ in steps:
                if now() >= end:
                    self._working += 1
                    self._turns.later(lambda: self._work_on(result, steps))
                    return
        except Exception:
            self._failed(result)
            return
        self._worked(result)

    def _work_on(self, result: WorkedResult, steps: Iterator[None]) -> None:
        task = self._turns.spawn(self._exhaust(result, steps))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _exhaust(self, result: WorkedResult, steps: Iterator[None]) -> None:
        try:
            await self._turns.slices.exhaust(steps)
        except Exception:
            self._failed(result)
        else:
            self._worked(result)
        finally:
            self._working -= 1
            self._turns.later(self._start_waiting)

    def _start_waiting(self) -> None:
        """Work at one of those that wait, and see to it that the others are not forgotten."""
        if self._queue and self._working < RUNNING:
            self._start(self._queue.popleft())
            if self._queue:
                self._turns.later(self._start_waiting)

    def _worked(self, result: WorkedResult) -> None:
        result.worked()
        if not result.is_closed and result.has_work:
            self.work(result)

    @staticmethod
    def _failed(result: WorkedResult) -> None:
        error = sys.exception()
        if isinstance(error, QueryTooLarge):  # what a client asked for, no defect
            logger.warning("a live query of %s ends: %s", result.table.name, error.message)
        else:
            logger.exception("the live query %r of %r failed", result.asked.query, result.table)
        result.is_running = False
        result.is_lost = False
        for subscription in list(result.subscribers):
            subscription.end(Ended.FAILED)


def _nothing() -> None:
    pass
