"""The queue of the writers of one database, while a long write is under way (spec: schema-and-store §8.10, http §14).

Usually it is empty: the writes of a turn go into the turn's writer and wait for its commit only. A long write needs the database for itself, over many
turns. Writers that arrive meanwhile wait here, first in, first out: adjacent ordinary writers are admitted together, and their writes share a commit as
always; a long one is admitted alone.

    state     what holds
    FREE      the queue is empty. Ordinary writers proceed at once
    ADMITTED  a long write has been admitted, and acquires the database in a later turn. Ordinary writers admitted before it run now
    HELD      that long write holds the database, until `release`. It waits itself for other processes to finish
    FOREIGN   another process holds the database, and is told that writers wait; a timer polls whether it still does. There is no poll in any other state

    FREE ------> ADMITTED ----> HELD ------> FREE       a long write that need not wait goes from FREE to HELD
      ^-----------'                                     it was cancelled before it acquired the database
    FREE ------> FOREIGN -----> FREE

Whenever the state becomes FREE, the ordinary writers in front are admitted and then the long one behind them. So in every other state all new writers
are queued, none runs beside a long write, and no writer overtakes another or the timer.

No writer waits forever. `check` refuses a writer when those before it will take too long, estimated from past long writes, or when
a writer in the queue has waited for too long already.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

from svc.clock import Clock
from svc.errors import Overloaded, Problem

if TYPE_CHECKING:
    from svc.store.env import Environment

logger = logging.getLogger("svc.store")

FIRST_PACE = 100e-6  # seconds that one write of a long one takes, its share of commit included: until it is known
PACE_FROM = 1000  # writes from which on a long write updates the pace: the time of a shorter one is mostly its commit, and chance
FOREIGN_PAUSE = 0.005  # polling interval, seconds: whether another process still writes


class QueueState(IntEnum):
    FREE = 0
    ADMITTED = 1
    HELD = 2
    FOREIGN = 3


class QueueInput(IntEnum):
    ADMIT = 0  # a long write that is next
    ACQUIRE = 1  # a long write begins
    GIVE_UP = 2  # it was cancelled instead
    RELEASE = 3  # it has ended
    FOREIGN_SEEN = 4
    FOREIGN_GONE = 5


TRANSITIONS = {
    QueueState.FREE: {
        QueueInput.ADMIT: QueueState.ADMITTED,
        QueueInput.ACQUIRE: QueueState.HELD,
        QueueInput.FOREIGN_SEEN: QueueState.FOREIGN,
    },
    QueueState.ADMITTED: {QueueInput.ACQUIRE: QueueState.HELD, QueueInput.GIVE_UP: QueueState.FREE},
    QueueState.HELD: {QueueInput.RELEASE: QueueState.FREE},
    QueueState.FOREIGN: {QueueInput.FOREIGN_GONE: QueueState.FREE},
}


@dataclass(frozen=True, slots=True)
class QueueLimits:
    """Seconds: that a writer would have to wait; that something has been waiting."""

    wait: float = 20.0
    age: float = 45.0


@dataclass(slots=True, eq=False)
class _Waiter:
    """`size`: number of writes of a long one, None for an ordinary writer. `since`: when it came, monotonic. `turn`: done when it is admitted."""

    size: int | None
    since: float
    turn: asyncio.Future[None] | None = None


class WriterQueue:
    """The queue of one database."""

    def __init__(self, env: Environment, clock: Clock, limits: QueueLimits) -> None:
        self._env = env
        self._now = clock.monotonic
        self._limits = limits
        self.state = QueueState.FREE
        self._long: _Waiter | None = None  # the long write that is admitted or holds the database
        self._waiting: deque[_Waiter] = deque()
        self._since = 0.0  # when the state was entered
        self._pace = FIRST_PACE

    def __len__(self) -> int:
        return len(self._waiting)

    def _move(self, input_: QueueInput) -> None:
        state = TRANSITIONS[self.state].get(input_)
        assert state is not None, f"{input_.name} while the queue of writers is {self.state.name}"
        self.state = state
        self._since = self._now()

    def verify(self) -> None:
        """Assert what holds in each state."""
        assert (self._long is not None) is (self.state in (QueueState.ADMITTED, QueueState.HELD)), self.state.name
        assert self.state is not QueueState.FREE or not self._waiting, "the queue is free, and a writer waits"

    @property
    def is_held(self) -> bool:
        """Whether a long write holds the database, or another process."""
        return self.state is QueueState.HELD or self.state is QueueState.FOREIGN

    def check(self) -> None:
        """Raise Overloaded if one more writer would have to wait for too long."""
        if self.state is QueueState.FREE:
            return
        oldest = self._since if self._long is None else self._long.since
        if self._waiting:
            oldest = min(oldest, self._waiting[0].since)
        if self._now() - oldest > self._limits.age:
            raise Overloaded("Service unavailable, the outstanding write queue is too long")
        if self.expected_wait() > self._limits.wait:
            raise Overloaded

    def expected_wait(self) -> float:
        """Seconds until one more writer would be admitted."""
        seconds = sum(waiter.size or 0 for waiter in self._waiting) * self._pace
        if self._long is not None and self._long.size is not None:
            passed = self._now() - self._since if self.state is QueueState.HELD else 0.0
            seconds += max(self._long.size * self._pace - passed, 0.0)
        return seconds

    async def wait(self) -> None:
        """Wait until ordinary writers are admitted, in their order. Raises Overloaded, StoreFailure."""
        self.check()
        if self.state is QueueState.FREE and not self._env.is_open_to_writers(announces=True):
            self._move(QueueInput.FOREIGN_SEEN)
            asyncio.get_running_loop().call_later(FOREIGN_PAUSE, self._poll_foreign)
        while self.state is not QueueState.FREE:
            await self._enqueue(_Waiter(None, self._now()))
            if not self.is_held:
                return
            self.check()  # a long write acquired the database after this writer was admitted and before it ran

    async def acquire(self, size: int) -> None:
        """Wait until a long write of `size` writes may begin; it holds the database until `release`. Raises Overloaded."""
        self.check()
        waiter = _Waiter(size, self._now())
        if self.state is QueueState.FREE:
            self._long = waiter
        else:
            try:
                await self._enqueue(waiter)
            except BaseException:
                if self._long is waiter:
                    self._long = None
                    self._move(QueueInput.GIVE_UP)
                    self._advance()
                raise
        self._move(QueueInput.ACQUIRE)

    def know_size(self, size: int) -> None:
        """The long write that holds the database has found out how many writes it is, and begins with them."""
        assert self._long is not None and self.state is QueueState.HELD
        self._long.size = size
        self._since = self._now()

    def release(self, size: int | None = None) -> None:
        """The long write has ended, after `size` writes if those are others than it began with: admit the next writers."""
        long, since = self._long, self._since
        self._long = None
        self._move(QueueInput.RELEASE)
        size = size or (None if long is None else long.size)
        if size is not None and size >= PACE_FROM:
            self._pace = (self._pace + (self._now() - since) / size) / 2
        self._advance()

    async def _enqueue(self, waiter: _Waiter) -> None:
        waiter.turn = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        try:
            await waiter.turn
        except BaseException:
            if waiter in self._waiting:
                self._waiting.remove(waiter)
            raise

    def _advance(self) -> None:
        """Admit the ordinary writers in front, then the long one behind them. They run in the next turn, in this order."""
        while self._waiting and self.state is QueueState.FREE:
            waiter = self._waiting.popleft()
            assert waiter.turn is not None
            if waiter.turn.done():  # it was cancelled, and its task has not run yet
                continue
            if waiter.size is not None:
                self._long = waiter
                self._move(QueueInput.ADMIT)
            waiter.turn.set_result(None)

    def _withdraw(self) -> None:
        if self.state is not QueueState.FOREIGN:
            self._env.withdraw()

    def _poll_foreign(self) -> None:
        """Whether the other process still has the database."""
        try:
            is_open = self._env.is_open_to_writers(announces=True)
        except Problem as problem:  # each waiting writer gets it itself
            logger.error("whether another process writes cannot be determined: %s", problem.message)
            is_open = True
        if is_open:
            self._move(QueueInput.FOREIGN_GONE)
            self._advance()
            asyncio.get_running_loop().call_later(FOREIGN_PAUSE, self._withdraw)  # when those that were admitted have begun
        else:
            asyncio.get_running_loop().call_later(FOREIGN_PAUSE, self._poll_foreign)
