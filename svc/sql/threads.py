"""The threads for statements that take longer than a turn, and the statements that are open on them (spec: sql §8).

There may be a thread for each open statement, but one of them works at a time (`run_slot`).

A statement is open from its begin to its last row, or until it is given up: it holds a connection, memory and read transactions. So there are not more than
MOST_OPEN at one time: a new one takes the place of one that nobody has read for STALLED seconds, or is refused.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable
from concurrent.futures import Executor, wait
from typing import TYPE_CHECKING, TypeVar

from svc.errors import Overloaded
from svc.sql.connections import ConnectionPool
from svc.sql.run_slot import RunSlot, RunTurn

if TYPE_CHECKING:
    from svc.sql.running import ThreadRun

MOST_OPEN = 64
STALLED = 5.0  # seconds
T = TypeVar("T")
_ENDING = 5.0  # seconds that a thread may take to notice that it should end


class StatementThreads:
    """`executor`: the threads. `pool`: where statements have their connections from. `now`: the monotonic time, s."""

    def __init__(self, executor: Executor, pool: ConnectionPool, now: Callable[[], float]) -> None:
        self.executor = executor
        self.pool = pool
        self.now = now
        self.slot = RunSlot()
        self.open: weakref.WeakSet[ThreadRun] = weakref.WeakSet()

    async def run(self, function: Callable[[], T]) -> T:
        """What a function gives that takes some milliseconds and needs nothing of the loop."""
        turn = RunTurn(self.slot, self.now, lambda: False)

        def run() -> T:
            turn.begin()
            try:
                return function()
            finally:
                turn.end()

        return await asyncio.get_running_loop().run_in_executor(self.executor, run)

    def make_room(self) -> None:
        """For one more. Raises Overloaded."""
        if len(self.open) < MOST_OPEN:
            return
        stalled = [run for run in self.open if run.is_suspended and self.now() - run.used >= STALLED]
        if not stalled:
            raise Overloaded(f"{MOST_OPEN} statements that take long are running or being read, which is as many as may be")
        min(stalled, key=lambda run: run.used).close()

    def close(self) -> None:
        """Give up all statements, and wait until no thread works for one, in the loop's turn: what they read is about to be closed."""
        runs = list(self.open)
        for run in runs:
            run.close()
        wait([run.running for run in runs if run.running is not None], _ENDING)
        for run in runs:
            if run.running is not None and run.running.done():
                run.end_step()
        self.pool.close()
