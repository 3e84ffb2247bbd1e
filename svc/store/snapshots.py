"""Snapshots that outlive their turn: of answers that are streamed (spec: schema-and-store §8.11).

LMDB does not reuse a page that an open snapshot may read, so a client that stops reading in the middle of an answer, or reads slowly, would make
the database grow for as long as it likes. A held snapshot is therefore aborted when

- it has not been used for IDLE seconds, or
- it keeps more than `SnapshotLimits.growth` bytes from being reused, or
- it is older than `SnapshotLimits.age` seconds, and keeps a noticeable part of that (an old snapshot that costs little is left alone).

What a snapshot keeps from being reused is at most what the file has grown by since it was taken, and at most the free pages inside the file; the
lesser of the two is taken for it.

The next `use` raises; the reader goes on with another snapshot if the rest of the result can be found on that.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Protocol

from svc.clock import Clock
from svc.errors import Overloaded, SnapshotLost
from svc.store.env import Environment, Txn

logger = logging.getLogger("svc.store")

IDLE = 30.0  # seconds; polled about once a second, so it ends well before 60
LONG = 5.0  # seconds that a transaction is open, from which on `report_long` speaks of it
_NOTICEABLE = 16  # a 16th of the growth that is allowed
MOST_SEARCHES = 512  # of application code that are under way: each may keep a reader slot, also when its snapshot has been given up
MOST_YIELDING = 256  # snapshots whose holders can go on with another one: of a quarter of all reader slots


@dataclass(frozen=True, slots=True)
class SnapshotLimits:
    """`age` in seconds, `growth` in bytes."""

    age: float = 600.0
    growth: int = 512 << 20


class SnapshotSource(Protocol):
    """A database whose snapshots are held: `Database`."""

    name: str
    env: Environment

    def free_bytes(self) -> int: ...
    def open_snapshot(self) -> Txn: ...
    def take_snapshot(self) -> Txn: ...


class HeldSnapshot:
    """One of them. Whoever holds it calls `use` for each piece of work, and `abort` at the end."""

    __slots__ = ("_began", "_database", "_is_reported", "_reason", "_size", "_snapshots", "_txn", "_used", "reader")

    def __init__(self, snapshots: Snapshots, database: SnapshotSource, txn: Txn, reader: str) -> None:
        self._snapshots = snapshots
        self._database = database
        self._txn: Txn | None = txn
        self._began = self._used = snapshots.now()
        self._size = database.env.used_bytes()
        self._reason = ""
        self._is_reported = False
        self.reader = reader  # for the log

    def use(self) -> Txn:
        """The read transaction, for some work now. Raises SnapshotLost if it was taken away."""
        if self._txn is None:
            raise SnapshotLost(f"{self._reason or 'The result has ended'}, its snapshot was given up")
        self._used = self._snapshots.now()
        return self._txn

    def abort(self) -> None:
        """Let go of it. Harmless when done."""
        txn, self._txn = self._txn, None
        if txn is not None:
            self._snapshots.forget(self)
            txn.abort()

    def report_long(self, now: float) -> None:
        """Log that it is open for LONG, once."""
        if not self._is_reported and now - self._began >= LONG:
            self._is_reported = True
            logger.warning("database %s: %s has a read transaction open for %.0f s", self._database.name, self.reader, now - self._began)

    def abort_if_due(self, now: float, limits: SnapshotLimits) -> bool:
        """`abort` if it was not used for too long, or costs too much."""
        self._reason = self._why(now, limits)
        if not self._reason:
            return False
        logger.warning("database %s: %s: %s, its snapshot is given up", self._database.name, self.reader, self._reason)
        self.abort()
        return True

    def _why(self, now: float, limits: SnapshotLimits) -> str:
        """The reason to take it away, "" if there is none."""
        if now - self._used >= IDLE:
            return f"The result was not read for {now - self._used:.0f} seconds"
        grown = self._database.env.used_bytes() - self._size
        age = now - self._began
        if grown >= (limits.growth // _NOTICEABLE if age >= limits.age else limits.growth):
            kept = min(grown, self._database.free_bytes())
            if kept >= limits.growth:
                return f"The result keeps {kept >> 20} MB of the database from being used again"
            if age >= limits.age and kept >= limits.growth // _NOTICEABLE:
                return f"The result is being read for {age:.0f} seconds"
        return ""


class Snapshots:
    """All held snapshots of a store."""

    def __init__(self, clock: Clock, limits: SnapshotLimits) -> None:
        self.now = clock.monotonic
        self._limits = limits
        self._held: set[HeldSnapshot] = set()
        self._yielding: dict[HeldSnapshot, None] = {}  # the oldest first
        self._searches = 0

    def __len__(self) -> int:
        return len(self._held)

    def hold(self, database: SnapshotSource, *, fresh: bool = False, reader: str = "a result", yields: bool = False) -> HeldSnapshot:
        """The turn's snapshot of this database, from now on the caller's: for a result begun on it that outlives the turn. `fresh`: one of the
        caller's own instead, of what is committed by now. `reader`: its name in the log. `yields`: the holder can go on with another one, so when there
        are many of these, the oldest is given up."""
        if yields and len(self._yielding) >= MOST_YIELDING:
            next(iter(self._yielding)).abort()
        held = HeldSnapshot(self, database, database.open_snapshot() if fresh else database.take_snapshot(), reader)
        self._held.add(held)
        if yields:
            self._yielding[held] = None
        return held

    def search_begins(self) -> None:
        """Code of an application iterates over a result. Raises Overloaded if very many do."""
        if self._searches >= MOST_SEARCHES:
            raise Overloaded(f"More than {MOST_SEARCHES} searches of applications are under way")
        self._searches += 1

    def search_ends(self) -> None:
        self._searches -= 1

    def forget(self, held: HeldSnapshot) -> None:
        self._held.discard(held)
        self._yielding.pop(held, None)

    def report_long(self) -> None:
        """Log those that are open for LONG, each once; to be called about once a second."""
        now = self.now()
        for held in self._held:
            held.report_long(now)

    def abort_due(self) -> int:
        """Abort those that are idle or cost too much; to be called about once a second. Returns how many."""
        now = self.now()
        return sum([held.abort_if_due(now, self._limits) for held in list(self._held)])
