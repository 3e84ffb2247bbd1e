"""An execution that goes on in later turns, on a snapshot that is held for it (spec: schema-and-store §8.11)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

from svc.errors import SnapshotLost
from svc.query.plan import AnyRows
from svc.store import Database
from svc.store.env import Txn
from svc.store.snapshots import HeldSnapshot

T = TypeVar("T")


class LastingRun:
    """`use` it before each step, and `close` it. Where the snapshot was given up, the execution goes on with the current data."""

    __slots__ = ("_database", "_generation", "_held", "_run", "has_moved", "is_fixed")

    def __init__(self, run: AnyRows, database: Database, reader: Callable[[], str], held: HeldSnapshot | None = None) -> None:
        """`run`: begun on the turn's snapshot, or on that of `held`, a snapshot of the caller's. `reader`: what the log calls it."""
        self._run = run
        self._database = database
        self._generation = database.generation
        self.has_moved = False
        self.is_fixed = False  # what was said of the rows holds in this snapshot only
        if held is None:
            self._held = database.store.snapshots.hold(database, reader=reader(), on_lost=run.let_go)
        else:
            self._held = held.share(on_lost=run.let_go)

    def use(self) -> Txn:
        """The read transaction for the next step. Raises SnapshotLost if there is none on which the execution could go on: the rows must have an order by
        which the rest can be found, and definitions must be as they were."""
        try:
            return self._held.use()
        except SnapshotLost:
            database, lost = self._database, self._held
            if not lost.is_replaceable:
                raise
            database.snapshot()  # picks up changes of other processes
            if self.is_fixed or self._generation != database.generation:
                raise
            snapshots = database.store.snapshots
            self._held = snapshots.hold(database, fresh=True, reader=lost.reader, on_lost=self._run.let_go)
            if not self._run.move(self._held.use()):
                raise
            lost.abort()
            self.has_moved = True
            snapshots.report_moved(database, lost.reader)
            return self._held.use()

    def beside(self, run: AnyRows) -> LastingRun:
        """Another execution on the same snapshot, begun there. Raises SnapshotLost if that was given up."""
        return LastingRun(run, self._database, lambda: self._held.reader, self._held)

    def steps(self, steps: Iterator[T]) -> Iterator[T]:
        """Steps that the execution is used in."""
        self.use()
        for step in steps:
            yield step
            self.use()

    def close(self) -> None:
        """Release the snapshot. The execution is closed by its owner."""
        self._held.abort()
