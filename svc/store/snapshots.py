"""Snapshots that outlive their turn: of answers that are streamed (contract: schema-and-store §8.11).

LMDB does not reuse a page that an open snapshot may read, so a client that stops reading in the middle of an answer would make the database
grow for as long as it likes. A snapshot that nobody has used for IDLE seconds is therefore taken away from whoever holds it.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from svc.clock import Clock
from svc.errors import SnapshotLost
from svc.store.env import Txn

if TYPE_CHECKING:
    from svc.store.database import Database

logger = logging.getLogger("svc.store")

IDLE = 30.0  # seconds; with a look about every second it is gone well before 60


class HeldSnapshot:
    """One of them. Whoever holds it calls `use` for each piece of work, and `abort` at the end."""

    __slots__ = ("_database", "_snapshots", "_txn", "_used")

    def __init__(self, snapshots: Snapshots, database: Database, txn: Txn) -> None:
        self._snapshots = snapshots
        self._database = database
        self._txn: Txn | None = txn
        self._used = snapshots.now()

    def use(self) -> Txn:
        """The read transaction, for some work now. Raises SnapshotLost if it was idle for too long."""
        if self._txn is None:
            raise SnapshotLost(f"The result was not read for {IDLE:.0f} seconds, its snapshot was given up")
        self._used = self._snapshots.now()
        return self._txn

    def abort(self) -> None:
        """Let go of it. Harmless when done."""
        txn, self._txn = self._txn, None
        if txn is not None:
            self._snapshots.forget(self)
            txn.abort()

    def abort_idle(self, now: float) -> bool:
        """`abort` if nobody has used it for too long."""
        idle = now - self._used
        if idle < IDLE:
            return False
        logger.warning("database %s: a result was not read for %.0f s, its snapshot is given up", self._database.name, idle)
        self.abort()
        return True


class Snapshots:
    """All held snapshots of a store."""

    def __init__(self, clock: Clock) -> None:
        self.now = clock.monotonic
        self._held: set[HeldSnapshot] = set()

    def __len__(self) -> int:
        return len(self._held)

    def hold(self, database: Database, *, fresh: bool = False) -> HeldSnapshot:
        """The turn's snapshot of this database, from now on the caller's: for a result begun on it that outlives the turn. `fresh`: one of the
        caller's own instead, of what is committed by now."""
        held = HeldSnapshot(self, database, database.open_snapshot() if fresh else database.take_snapshot())
        self._held.add(held)
        return held

    def forget(self, held: HeldSnapshot) -> None:
        self._held.discard(held)

    def abort_idle(self) -> int:
        """Take away those that nobody uses; to be called about once a second. Returns how many."""
        now = self.now()
        return sum([held.abort_idle(now) for held in list(self._held)])
