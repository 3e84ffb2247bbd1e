"""Results that take work to compute: the base class of `MaterializedResult` and `AggregateResult`, and the workers that compute them.

Work is done at once if it takes no longer than INLINE_SECONDS, else in the slices that all long work shares, a few results at a time.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Coroutine, Generator, Iterator
from typing import Any

from svc.clock import Clock
from svc.errors import Problem, QueryTooLarge, SnapshotLost
from svc.realtime.event import EndReason
from svc.realtime.live.events import RowEvent, Snapshot
from svc.realtime.live.query_spec import LiveQuerySpec
from svc.realtime.live.result import LiveResult, ResultOwner
from svc.realtime.live.subscription import LiveSubscription
from svc.store.slices import Slices

logger = logging.getLogger("svc.realtime")

MIN_RUN_INTERVAL = 0.1  # seconds between two runs of one query ...
RUN_INTERVAL_FACTOR = 9.0  # ... and at least this many times the duration of the last one: a query takes at most a tenth of the time

TOO_MANY_CHANGES = "Too much has changed at once"


class RecomputedResult(LiveResult):
    """A result that is computed in steps. Meanwhile no snapshot is started and no event is pushed."""

    def __init__(self, owner: ResultOwner, spec: LiveQuerySpec, key: Any) -> None:
        super().__init__(owner, spec, key)
        self.is_known = False
        self.needs_run = True  # the query has to be run, or run again
        self.is_running = False
        self.next_run_at = 0.0  # monotonic: of the next run
        self.position = 0  # LSN up to which changes are in the result
        self._shared: list[RowEvent] | None = None
        self._shared_until = 0.0

    @property
    def size(self) -> int:
        """Rows that are kept."""
        raise NotImplementedError

    @property
    def has_work(self) -> bool:
        return self.needs_run

    def start_snapshot(self, subscription: LiveSubscription) -> Snapshot | None:
        if self.is_known and not self.is_running and not self.spec.is_fixed:
            self.follow_viewer()
            if self.needs_run:
                self.owner.update_next_turn(self)
                return None
        if not self.is_known or self.is_running or self.is_closed:
            return None
        return self._start_snapshot(subscription)

    def end_commit(self, lsn: int) -> None:
        self.position = max(self.position, lsn)
        if self.has_work and not self.is_running:
            self.owner.update(self)

    def invalidate(self) -> None:
        self.needs_run = True

    def close(self) -> None:
        super().close()
        self._shared = None

    def steps(self) -> Generator[None, None, None]:
        """Bring the result up to date; not called again before it has ended."""
        while self.has_work and not self.is_closed:
            self.follow_viewer()
            if self.is_closed:
                return
            try:
                yield from self._update_steps()
            except SnapshotLost:
                self.needs_run = True  # once more
                yield

    def updated(self) -> None:
        """All steps are taken: push the events, and notify subscribers that wait for a snapshot."""
        self.is_running = False
        if not self.is_closed:
            super().end_commit(self.position)
            self.wake()

    def follow_viewer(self) -> None:
        """Have the conditions that rules on rows make of the account's record, and of the time, as they are now."""
        if self.spec.is_fixed or self.is_closed:
            return
        try:
            with self.owner.newest(self.table.database) as txn:
                spec, has_changed = self.spec.renewed(txn)
        except Problem:  # an index is being built
            self.owner.replace_result(self)
            return
        if spec is not self.spec:
            self.spec = spec
            self.owner.conditions_changed(self)
        if has_changed:
            self.needs_run = True

    def refresh(self) -> None:
        """The account's record has changed, or time has passed."""
        if self.spec.is_volatile or self.is_running:
            self.needs_run = True
        else:
            self.follow_viewer()
        if self.has_work and not self.is_running and not self.is_closed:
            self.owner.update(self)

    def set_next_run(self, began: float) -> None:
        """The query was run, from `began` until now: set the earliest time of the next run."""
        now = self.owner.now()
        self.next_run_at = now + max(MIN_RUN_INTERVAL, RUN_INTERVAL_FACTOR * (now - began))

    @abstractmethod
    def _update_steps(self) -> Generator[None, None, None]:
        """One piece of the work: a run of the query, or a recheck of some records."""

    @abstractmethod
    def _start_snapshot(self, subscription: LiveSubscription) -> Snapshot | None: ...

    def _reject(self, reason: str) -> None:
        self.needs_run = False
        for subscription in list(self.subscribers):
            subscription.reject(reason)


INLINE_SECONDS = 0.002  # seconds of work before it has to share the loop
MAX_RUNNING = 4  # results computed in slices at the same time: each holds a snapshot


class TurnScheduler:
    """Schedules callbacks and tasks in later turns of the loop."""

    __slots__ = ("loop", "now", "slices")

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Clock, slices: Slices) -> None:
        self.loop = loop
        self.now = clock.monotonic
        self.slices = slices

    def call_next_turn(self, callback: Callable[[], None]) -> None:
        """Call `callback` in the next turn."""
        # Not `call_soon`: at the end of a turn the loop has decided already how long it will wait.
        self.loop.call_soon_threadsafe(callback)

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self.loop.create_task(work)
        self.call_next_turn(_nothing)  # see above
        return task


class ResultWorkers:
    """Computes results, at most MAX_RUNNING of them in slices at a time."""

    def __init__(self, scheduler: TurnScheduler) -> None:
        self._scheduler = scheduler
        self._queue: deque[RecomputedResult] = deque()  # results that wait for their turn
        self._tasks: set[asyncio.Task[None]] = set()
        self._in_slices = 0  # results computed in slices
        self._timers: dict[RecomputedResult, asyncio.TimerHandle] = {}

    @property
    def is_idle(self) -> bool:
        return not self._queue and not self._in_slices and not self._timers

    def update(self, result: RecomputedResult) -> None:
        """Bring a result up to date: now, if its query may be run now and that takes less than INLINE_SECONDS."""
        if result.is_running or result.is_closed or result in self._timers:
            return
        wait = result.next_run_at - self._scheduler.now() if result.needs_run else 0.0
        if wait > 0:
            self._timers[result] = self._scheduler.loop.call_later(wait, self._timer_fired, result)
            return
        self._start(result)

    def discard(self, result: RecomputedResult) -> None:
        """Forget a result that is closed."""
        timer = self._timers.pop(result, None)
        if timer is not None:
            timer.cancel()
        if result in self._queue:
            self._queue.remove(result)

    def _timer_fired(self, result: RecomputedResult) -> None:
        self._timers.pop(result, None)
        if not result.is_closed and not result.is_running:
            self._start(result)

    def _start(self, result: RecomputedResult) -> None:
        result.is_running = True
        if self._in_slices >= MAX_RUNNING:
            self._queue.append(result)
            return
        steps, now = result.steps(), self._scheduler.now
        end = now() + INLINE_SECONDS
        try:
            for _ in steps:
                if now() >= end:
                    self._in_slices += 1
                    self._scheduler.call_next_turn(lambda: self._continue_in_slices(result, steps))
                    return
        except Exception:
            self._failed(result)
            return
        self._finished(result)

    def _continue_in_slices(self, result: RecomputedResult, steps: Iterator[None]) -> None:
        task = self._scheduler.spawn(self._exhaust(result, steps))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _exhaust(self, result: RecomputedResult, steps: Iterator[None]) -> None:
        try:
            await self._scheduler.slices.exhaust(steps)
        except Exception:
            self._failed(result)
        else:
            self._finished(result)
        finally:
            self._in_slices -= 1
            self._scheduler.call_next_turn(self._start_waiting)

    def _start_waiting(self) -> None:
        """Compute one of the results that wait, and schedule the others."""
        if self._queue and self._in_slices < MAX_RUNNING:
            self._start(self._queue.popleft())
            if self._queue:
                self._scheduler.call_next_turn(self._start_waiting)

    def _finished(self, result: RecomputedResult) -> None:
        result.updated()
        if not result.is_closed and result.has_work:
            self.update(result)

    @staticmethod
    def _failed(result: RecomputedResult) -> None:
        error = sys.exception()
        if isinstance(error, QueryTooLarge):  # caused by the query of a client, not a defect
            logger.warning("a live query of %s ends: %s", result.table.name, error.message)
        else:
            logger.exception("the live query %r of %r failed", result.spec.query, result.table)
        result.is_running = False
        result.needs_run = False
        for subscription in list(result.subscribers):
            subscription.finish(EndReason.FAILED)


def _nothing() -> None:
    pass
