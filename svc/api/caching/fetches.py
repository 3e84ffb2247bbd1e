"""One call of the source at a time for each record, on all instances, and a queue where there are too many calls (spec: caching §3).

    start --the record is locked elsewhere--> waiting for others --it is fresh now--> settled
      |                                          |
      '-------------> queued <-------------------'
                        |
                     running --> settled: all callers have the result --> stored: the lock is free

A flight goes on when nobody waits for it any more. Until what it has found is on the disk, those who ask for the record join it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any

from svc.awaitables import is_waiting
from svc.clock import Clock
from svc.errors import Overloaded, Problem, ServerError
from svc.loop import contained, is_ours
from svc.store import Table
from svc.store.caching import FetchLock

logger = logging.getLogger("svc.applications")

MOST = 100  # calls of the source of a table that are under way in an instance
MOST_QUEUED = 10_000  # others that wait for their turn, also those whose callers have gone
QUEUE_SECONDS = 20.0  # that a call may have to wait
PATIENCE = 10.0  # seconds that others wait for a call before they make their own
LONGEST = 120.0  # seconds a call may take
FIRST_PAUSE = 0.005  # polling interval, seconds: whether another process still has the lock
LONGEST_PAUSE = 0.05
_WEIGHT = 0.2  # of the newest call in the mean duration


class SourceCall:
    """One call of the source. `work`: makes it; returns the stored form of the record, None if there is none, or an awaitable of it. `is_known`: see below."""

    __slots__ = (
        "began",
        "error",
        "future",
        "is_fetched",
        "is_known",
        "is_settled",
        "is_stored",
        "lock",
        "milliseconds",
        "problem",
        "raw",
        "since",
        "stored",
        "storing",
        "task",
        "when_stored",
        "work",
    )

    def __init__(self, stored: bytes, work: Callable[[SourceCall], Any], is_known: Callable[[SourceCall], bytes | None]) -> None:
        """`is_known`: asked after the wait for another process: the record, if that has refreshed it."""
        self.stored = stored
        self.work = work
        self.is_known = is_known
        self.since = 0.0  # wall time of the start, ms
        self.began = 0.0  # monotonic
        self.milliseconds = 0.0  # that the call took
        self.is_settled = self.is_stored = False
        self.is_fetched = True  # False: by another process
        self.storing = False  # what it has found is being written
        self.raw: bytes | None = None
        self.error: BaseException | None = None
        self.problem: Problem | None = None  # what the error is to those who have waited
        self.lock: FetchLock | None = None
        self.future: asyncio.Future[None] | None = None
        self.when_stored: asyncio.Future[None] | None = None
        self.task: asyncio.Task[None] | None = None


class Fetches:
    """The flights of one table. `on_call` hears how many ms each call took."""

    def __init__(self, table: Table, clock: Clock, loop: asyncio.AbstractEventLoop, on_call: Callable[[float], None]) -> None:
        self._table = table
        self._clock = clock
        self._loop = loop
        self._on_call = on_call
        self._flights: dict[bytes, SourceCall] = {}
        self._queue: deque[tuple[SourceCall, float]] = deque()
        self._running = 0
        self._is_beginning = False  # calls of the queue are being begun
        self._mean: float | None = None  # seconds a call takes
        self._tasks: set[asyncio.Task[None]] = set()

    def find(self, stored: bytes) -> SourceCall | None:
        """The flight for a record."""
        return self._flights.get(stored)

    def start(self, flight: SourceCall, *, alone: bool = True) -> None:
        """Begin a flight. It may be settled when this returns. `alone`: not while another process fetches the record; False: in any case. Raises Overloaded."""
        stored = flight.stored
        lock: FetchLock | None = None
        if alone:
            try:
                lock = self._table.database.fetch_locks.try_lock(self._table.number, stored)
            except OSError as error:
                logger.error("the locks of %r cannot be used, several processes may fetch the same record: %s", self._table, error)
                alone = False
        flight.since = self._clock.wall() * 1000
        flight.lock = lock
        if lock is None and alone:
            self._enter(flight)
            self._spawn(flight, self._wait_for_others(flight))
            return
        try:
            self._check_queue()
        except BaseException:
            self._release(flight)
            raise
        self._enter(flight)
        self._begin(flight)

    def _enter(self, flight: SourceCall) -> None:
        self._flights[flight.stored] = self._table.loading[flight.stored] = flight

    async def _wait_for_others(self, flight: SourceCall) -> None:
        locks, number = self._table.database.fetch_locks, self._table.number
        end = self._clock.monotonic() + PATIENCE
        pause = FIRST_PAUSE
        while self._clock.monotonic() < end:
            await asyncio.sleep(pause)
            flight.lock = locks.try_lock(number, flight.stored)
            if flight.lock is not None:
                flight.raw = flight.is_known(flight)
                if flight.raw is not None:
                    flight.is_fetched = False
                    self._settle(flight)
                    return
                break
            pause = min(pause * 1.5, LONGEST_PAUSE)
        self._check_queue()
        self._begin(flight)

    # --- the queue -------------------------------------------------------------------------------------------------------------------

    def _check_queue(self) -> None:
        """Raise Overloaded if one more call would have to wait for too long."""
        if self._running < MOST:
            return
        waited = self._clock.monotonic() - self._queue[0][1] if self._queue else 0.0
        expected = (len(self._queue) + 1) * (self._mean or 0.0) / MOST
        if len(self._queue) >= MOST_QUEUED or max(waited, expected) > QUEUE_SECONDS:
            raise Overloaded(f"Service unavailable, the source of {self._table.name} is too slow for so many requests")

    def _begin(self, flight: SourceCall) -> None:
        if self._running >= MOST:
            self._queue.append((flight, self._clock.monotonic()))
        else:
            self._run(flight)

    def _begin_next(self) -> None:
        if self._is_beginning:  # one of them has ended at once: the next follows below
            return
        self._is_beginning = True
        try:
            while self._queue and self._running < MOST:
                self._run(self._queue.popleft()[0])
        finally:
            self._is_beginning = False

    # --- a call ----------------------------------------------------------------------------------------------------------------------

    def _run(self, flight: SourceCall) -> None:
        self._running += 1
        flight.began = self._clock.monotonic()
        try:
            result = flight.work(flight)
        except BaseException as error:
            if is_ours(error):
                self._landed(flight, _stopping())
                raise
            self._landed(flight, contained(error))
            return
        if is_waiting(result):
            self._spawn(flight, self._finish(flight, result))
        else:
            flight.raw = result
            self._landed(flight, None)

    async def _finish(self, flight: SourceCall, result: Any) -> None:
        problem: BaseException | None = None
        limit = asyncio.timeout(LONGEST)
        try:
            async with limit:
                flight.raw = await result
        except BaseException as error:
            problem = ServerError(f"it has not answered for {LONGEST:.0f} s", 504) if limit.expired() else contained(error)
        self._landed(flight, problem)

    def _landed(self, flight: SourceCall, error: BaseException | None) -> None:
        self._running -= 1
        seconds = self._clock.monotonic() - flight.began
        self._mean = seconds if self._mean is None else self._mean + _WEIGHT * (seconds - self._mean)
        flight.milliseconds = seconds * 1000
        self._on_call(flight.milliseconds)
        flight.error = error
        self._settle(flight)
        self._begin_next()

    def _settle(self, flight: SourceCall) -> None:
        """All callers have the result."""
        flight.is_settled = True
        flight.work = flight.is_known = _nothing  # what they refer to is needed no more
        if flight.future is not None and not flight.future.done():
            flight.future.set_result(None)
        if not flight.storing:
            self.stored(flight, None)

    def stored(self, flight: SourceCall, problem: Problem | None) -> None:
        """What was found is on the disk, or is not going to be."""
        if problem is not None:
            logger.warning("a record of %s was loaded and could not be stored: %s", self._table.name, problem.message)
        flight.storing = False
        if not flight.is_settled:
            return  # written before the result was known
        flight.is_stored = True
        if self._flights.get(flight.stored) is flight:
            del self._flights[flight.stored]
        if self._table.loading.get(flight.stored) is flight:
            del self._table.loading[flight.stored]
        self._release(flight)
        if flight.when_stored is not None and not flight.when_stored.done():
            flight.when_stored.set_result(None)

    @staticmethod
    def _release(flight: SourceCall) -> None:
        if flight.lock is not None:
            flight.lock.release()
            flight.lock = None

    def close(self) -> None:
        """End all calls."""
        self._queue.clear()
        for task in self._tasks:
            task.cancel()

    # --- waiting ---------------------------------------------------------------------------------------------------------------------

    async def wait(self, flight: SourceCall, *, own: bool) -> bool:
        """Wait until a flight is settled. False: a caller that has not begun it (not `own`) has waited for long enough, and may begin another."""
        if flight.is_settled:
            return True
        if flight.future is None:
            flight.future = self._loop.create_future()
        if own:
            await asyncio.shield(flight.future)
            return True
        done, _ = await asyncio.wait((flight.future,), timeout=PATIENCE)
        return bool(done)

    async def wait_stored(self, flight: SourceCall) -> None:
        """Wait until what a flight has found can be read."""
        if not flight.is_stored:
            if flight.when_stored is None:
                flight.when_stored = self._loop.create_future()
            await asyncio.shield(flight.when_stored)

    def _spawn(self, flight: SourceCall, work: Coroutine[Any, Any, None]) -> None:
        task = flight.task = self._loop.create_task(self._guarded(flight, work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _guarded(self, flight: SourceCall, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except BaseException as error:
            # It has no place in the queue: it was refused one, or the loop ends.
            if not flight.is_settled:
                if flight.began and not isinstance(error, Exception):
                    self._running -= 1
                    self._begin_next()
                flight.error = error if isinstance(error, Exception) else _stopping()
                self._settle(flight)
            if not isinstance(error, Exception):
                raise


def _stopping() -> Overloaded:
    return Overloaded("Service unavailable, the server is stopping")


def _nothing(flight: SourceCall) -> None:
    return None
