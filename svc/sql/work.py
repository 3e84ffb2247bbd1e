"""What a statement has taken so far, and may still take (spec: sql §8)."""

from __future__ import annotations

import apsw

from svc.clock import Clock
from svc.errors import Problem, QueryTooLarge
from svc.sql.options import SqlOptions
from svc.sql.run_slot import RunTurn

CHECKED = 200  # instructions of SQLite's virtual machine between two looks at the clock; with columns of tables that is less than 0.5 ms


class TurnIsOver(Exception):
    """The statement has worked for as long as the loop may be held."""


class Work:
    """The budget of one statement. SQLite asks `is_over` while it works, and cursors while they read: True ends it, and `reason` says why.

    `deadline`: monotonic, s, of the piece of work under way. `is_turn`: it is that of the turn, not of the statement.
    """

    __slots__ = (
        "_before",
        "_options",
        "began",
        "deadline",
        "held",
        "is_left",
        "is_turn",
        "now",
        "options",
        "reason",
        "turn",
        "wall_ms",
        "worked",
    )

    def __init__(self, options: SqlOptions, clock: Clock) -> None:
        self.options = options
        self.now = clock.monotonic
        self.wall_ms = int(clock.wall() * 1000)  # the time of the statement
        self.began = 0.0
        self._before = 0  # bytes that SQLite had before the piece of work, without those of this statement
        self.held = 0  # bytes: of SQLite between two pieces of work
        self.worked = 0.0  # seconds
        self.deadline = 0.0
        self.is_turn = False
        self.is_left = False  # nobody waits for it any more
        self.reason: Exception | None = None
        self.turn: RunTurn | None = None  # on a thread

    def let_others(self) -> float:
        """On a thread: let others work, if it is time for that. The seconds that it took, which do not count as work, nor does the memory that they have
        got."""
        if self.turn is None:
            return 0.0
        used = apsw.memory_used()
        waited = self.turn.let_others()
        if waited:
            self.began += waited
            self.deadline += waited
            self._before += apsw.memory_used() - used
        return waited

    def begin(self, seconds: float | None = None) -> None:
        """A piece of work begins; `seconds`: that it may take, None: all that is left."""
        self.began = self.now()
        self._before = apsw.memory_used() - self.held
        left = self.options.max_time - self.worked
        self.is_turn = seconds is not None and seconds < left
        self.deadline = self.began + (seconds if seconds is not None and self.is_turn else left)
        self.reason = None

    def end(self) -> None:
        """It has ended."""
        self.worked += self.now() - self.began
        self.held = max(apsw.memory_used() - self._before, 0)

    def is_over(self) -> bool:
        if self.is_left:
            self.reason = self.reason or Problem("The statement was given up", 503)
        elif self.now() >= self.deadline:
            self.reason = self.late()
        elif apsw.memory_used() - self._before > self.options.max_memory:
            self.reason = too_much(self.options)
        else:
            return False
        return True

    def late(self) -> Exception:
        """What is raised when the piece of work takes too long."""
        return TurnIsOver() if self.is_turn else too_long(self.options)

    def check(self) -> None:
        """Raise what ends the work, for callers that can."""
        if self.is_over():
            assert self.reason is not None
            raise self.reason


def too_long(options: SqlOptions) -> QueryTooLarge:
    return QueryTooLarge(
        f"The statement takes more than {options.max_time:g} seconds of work (sql.maxTime): narrow it with WHERE, compare indexed columns, or use LIMIT",
        budget="seconds",
    )


def too_much(options: SqlOptions) -> QueryTooLarge:
    return QueryTooLarge(
        f"The statement takes more than {options.max_memory >> 20} MB of memory (sql.maxMemory): narrow it, sort or group fewer rows, or make shorter texts",
        budget="bytes",
    )


def too_many_rows(options: SqlOptions) -> QueryTooLarge:
    return QueryTooLarge(
        f"The statement finds more than {options.max_rows} rows, which is what one answer may have that is not streamed (sql.maxRows): use LIMIT",
        budget="rows",
    )
