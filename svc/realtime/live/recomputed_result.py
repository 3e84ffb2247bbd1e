"""Results that take work to be known: what those that are kept (`kept`) and those of aggregates (`counted`) have in common."""

from __future__ import annotations

import asyncio
import logging
import sys
from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Coroutine, Generator, Iterator
from typing import TYPE_CHECKING, Any

from svc.clock import Clock
from svc.errors import QueryTooLarge
from svc.realtime.event import EndReason
from svc.realtime.live.events import RowEvent
from svc.realtime.live.query_spec import LiveQuerySpec
from svc.realtime.live.result import LiveResult
from svc.realtime.live.subscription import LiveSubscription, Snapshot
from svc.store.slices import Slices

if TYPE_CHECKING:
    from svc.realtime.live.queries import LiveQueries

logger = logging.getLogger("svc.realtime")

MIN_RUN_INTERVAL = 0.1  # seconds between two runs of one query
RUN_INTERVAL_FACTOR = 9.0  # ... and at least so many times as long as the last one took: a tenth of the time for each

TOO_MANY_CHANGES = "Too much has changed at once"


class RecomputedResult(LiveResult):
    """A result that takes work to be known: it is worked at in steps, and nobody begins or hears anything while that goes on."""

    def __init__(self, owner: LiveQueries, asked: LiveQuerySpec, key: Any) -> None:
        super().__init__(owner, asked, key)
        self.is_known = False
        self.is_lost = True  # the query has to be run (again)
        self.is_running = False
        self.not_before = 0.0  # monotonic: of the next run
        self.position = 0  # LSN up to which changes are in the result
        self._shared: list[RowEvent] | None = None
        self._shared_until = 0.0

    @property
    def size(self) -> int:
        """Rows that are kept."""
        raise NotImplementedError

    @property
    def has_work(self) -> bool:
        return self.is_lost

    def begin(self, subscription: LiveSubscription) -> Snapshot | None:
        if not self.is_known or self.is_running:
            return None
        return self._begin(subscription)

    def finish(self, lsn: int) -> None:
        self.position = max(self.position, lsn)
        if self.has_work and not self.is_running:
            self.owner.work(self)

    def lose(self) -> None:
        self.is_lost = True

    def close(self) -> None:
        super().close()
        self._shared = None

    def steps(self) -> Generator[None, None, None]:
        """Bring the result up to now; called once at a time."""
        while self.has_work and not self.is_closed:
            yield from self._work()

    def worked(self) -> None:
        """All steps are taken."""
        self.is_running = False
        if not self.is_closed:
            super().finish(self.position)
            self.wake()

    def rest(self, began: float) -> None:
        """The query was run, from `began` until now: it is not run again too soon."""
        now = self.owner.now()
        self.not_before = now + max(MIN_RUN_INTERVAL, RUN_INTERVAL_FACTOR * (now - began))

    @abstractmethod
    def _work(self) -> Generator[None, None, None]:
        """One piece of the work."""

    @abstractmethod
    def _begin(self, subscription: LiveSubscription) -> Snapshot | None: ...

    def _refuse(self, reason: str) -> None:
        self.is_lost = False
        for subscription in list(self.subscribers):
            subscription.refuse(reason)


INLINE_SECONDS = 0.002  # seconds that something is worked at before it has to share the loop
MAX_RUNNING = 4  # results that are worked at at the same time: each holds a snapshot


class TurnScheduler:
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


class ResultWorkers:
    """Those who work at results."""

    def __init__(self, turns: TurnScheduler) -> None:
        self._turns = turns
        self._queue: deque[RecomputedResult] = deque()  # wait for being worked at
        self._tasks: set[asyncio.Task[None]] = set()
        self._working = 0  # results that are worked at in slices
        self._timers: dict[RecomputedResult, asyncio.TimerHandle] = {}

    @property
    def is_idle(self) -> bool:
        return not self._queue and not self._working and not self._timers

    def work(self, result: RecomputedResult) -> None:
        """Bring a result up to date: now, if it may be run now and that is quickly done."""
        if result.is_running or result.is_closed or result in self._timers:
            return
        wait = result.not_before - self._turns.now() if result.is_lost else 0.0
        if wait > 0:
            self._timers[result] = self._turns.loop.call_later(wait, self._work_now, result)
            return
        self._start(result)

    def forget(self, result: RecomputedResult) -> None:
        """It is closed."""
        timer = self._timers.pop(result, None)
        if timer is not None:
            timer.cancel()
        if result in self._queue:
            self._queue.remove(result)

    def _work_now(self, result: RecomputedResult) -> None:
        self._timers.pop(result, None)
        if not result.is_closed and not result.is_running:
            self._start(result)

    def _start(self, result: RecomputedResult) -> None:
        result.is_running = True
        if self._working >= MAX_RUNNING:
            self._queue.append(result)
            return
        steps, now = result.steps(), self._turns.now
        end = now() + INLINE_SECONDS
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

    def _work_on(self, result: RecomputedResult, steps: Iterator[None]) -> None:
        task = self._turns.spawn(self._exhaust(result, steps))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _exhaust(self, result: RecomputedResult, steps: Iterator[None]) -> None:
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
        if self._queue and self._working < MAX_RUNNING:
            self._start(self._queue.popleft())
            if self._queue:
                self._turns.later(self._start_waiting)

    def _worked(self, result: RecomputedResult) -> None:
        result.worked()
        if not result.is_closed and result.has_work:
            self.work(result)

    @staticmethod
    def _failed(result: RecomputedResult) -> None:
        error = sys.exception()
        if isinstance(error, QueryTooLarge):  # what a client asked for, no defect
            logger.warning("a live query of %s ends: %s", result.table.name, error.message)
        else:
            logger.exception("the live query %r of %r failed", result.asked.query, result.table)
        result.is_running = False
        result.is_lost = False
        for subscription in list(result.subscribers):
            subscription.end(EndReason.FAILED)


def _nothing() -> None:
    pass
