"""Writes of one record each that wait for the end of the turn, where all of a database are carried out together (spec: schema-and-store §8).

    add -> waiting --write--> applied --the turn's commit--> done(None), or done(problem)
           ^  |  |
           '--'  '-- left to the general path: `write_generally`, in their order
     another process writes: the loop goes on with other work, and more may come

A transaction of its own costs a write a child transaction, whose tables LMDB clears, and a look for the end of the log. Here all that wait share both: one
child, and one append of their log entries. Each is still a transaction by itself, with a version and an LSN at which it begins.

What is queued has been checked by the definition of its table, and is of the plain kind: nothing of it depends on others, or is carried out elsewhere.
`is_queueable` says of which tables writes may be. Whatever turns out not to be plain is left to the general path, before anything of it was written: a record
that is there already, a table that was defined again meanwhile, a database with a long write under way, or without space. If something raises in the middle,
all is undone and each is left to the general path, which finds the one that it was about, and says what is wrong with it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from svc.errors import Problem, RecordExists
from svc.store.disk.faults import LmdbError
from svc.store.env import WriterBusy
from svc.store.log.entries import LogEntry, encode_entry
from svc.store.writing.applied_batch import AppliedBatch
from svc.store.writing.write_set import Decide, WriteSet

if TYPE_CHECKING:
    from svc.store.database import Database
    from svc.store.entity_tags import Precondition
    from svc.store.schema import TableDefinition
    from svc.store.table import Table

logger = logging.getLogger("svc.store")

MOST = 64  # that wait: with more, those before are applied at once, so that the end of a turn does not take longer than the turn


class NotPlain(Exception):
    """Raised by a `Decide`: what is stored is not what a queued write can replace. Nothing has been written then."""


class QueuedWrite(Protocol):
    """`key`: encoded, whole. `record`: what to put, with its key; None: it is a deletion. `precondition`, `decide`: of a put. `definition`: by which it was
    checked. `username`: that the log shows."""

    table: Table
    definition: TableDefinition
    key: bytes
    record: dict[str, Any] | None
    precondition: Precondition | None
    decide: Decide | None
    username: str | None

    def done(self, problem: Problem | None) -> None:
        """It is on the disk; or, with the problem that undid the commit, nowhere."""

    def write_generally(self) -> None:
        """Nothing has been written: carry it out as a transaction of its own. Never raises."""


def is_queueable(table: Table, *, deletes: bool) -> bool:
    """Whether puts, or deletions, of records of the table, as it is defined, can be queued."""
    return not (
        table.is_caching
        or table.constraints is not None
        or table.computed_indexes
        or table.definition.dynamic
        or table.database.guard is not None
        or (deletes and table.database.references_to(table))
    )


class QueuedWrites:
    """Those of one database. Used on the thread of the loop alone."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._waiting: list[QueuedWrite] = []
        self._transactions: list[Callable[[], object]] = []
        self._awaits_place = False

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, queued: QueuedWrite) -> None:
        """Have it carried out before the turn's commit. `done` or `write_generally` is called then, once; not before this returns, but for `write_generally` if
        many wait."""
        waiting = self._waiting
        waiting.append(queued)
        if self._awaits_place:
            return
        if len(waiting) == 1:
            self._database.store.late_rows[self] = None
        elif len(waiting) >= MOST:
            self.write()

    def add_transaction(self, apply: Callable[[], object]) -> None:
        """Have `apply` called when the others are carried out, behind them. It never raises."""
        self._transactions.append(apply)
        if not self._awaits_place:
            self._database.store.late_rows[self] = None

    def write(self) -> None:
        """Called by the turn before its commit."""
        if not self.has_place():
            return
        waiting, self._waiting = self._waiting, []
        transactions, self._transactions = self._transactions, []
        if waiting:
            for queued in self._apply(waiting):
                queued.write_generally()
        for apply in transactions:
            apply()
        self._database.env.leave_place()  # if nothing was written

    def has_place(self) -> bool:
        """Whether writes can be carried out without blocking until another process has ended its turn; then call `Environment.leave_place`. False: what waits
        here is carried out when it has."""
        env = self._database.env
        if env.has_writer:
            return True
        if self._awaits_place:
            return False
        try:
            if env.try_place():
                return True
            loop = asyncio.get_running_loop()
        except (Problem, RuntimeError):  # RuntimeError: there is no loop
            return True
        self._awaits_place = True
        env.await_place(lambda: loop.call_soon_threadsafe(self._go_on))
        return False

    def _go_on(self) -> None:
        """No other process writes: the end of this turn is that of the waiting."""
        self._awaits_place = False
        database = self._database
        try:
            database.env.try_place()
        except Problem:  # it is noticed when they are written
            pass
        database.store.late_rows[self] = None

    def _apply(self, waiting: list[QueuedWrite]) -> list[QueuedWrite]:
        """Returns those of which nothing has been written."""
        database = self._database
        store = database.store
        try:
            store.open_writers((database,), wait=False)
        except (WriterBusy, Problem):
            return waiting
        if database.env.reserve.is_low:
            return waiting
        left: list[QueuedWrite] = []
        done: list[QueuedWrite] = []
        writes: _Writes | None = None
        try:
            writes = _Writes(database, store.clock.wall() * 1000)
            for queued in waiting:
                table, record = queued.table, queued.record
                if table.definition is not queued.definition or not table.is_there or not is_queueable(table, deletes=record is None):
                    left.append(queued)
                    continue
                before = writes.begin(store.next_version(), queued.username)
                try:
                    if record is None:
                        writes.delete(table, queued.key, None)
                    else:
                        writes.put(table, queued.key, record, queued.precondition, None, queued.decide)
                except (NotPlain, RecordExists):
                    writes.version = before
                    left.append(queued)
                else:
                    done.append(queued)
            writes.end()
        except BaseException as error:
            if writes is not None:
                writes.rollback()
            if not isinstance(error, Exception):
                raise
            if not isinstance(error, Problem | LmdbError):
                logger.exception("queued writes to %s could not be carried out together", database.name)
            return waiting
        try:
            writes.commit()
        except Problem:
            return waiting
        if done:
            store.applied(AppliedBatch(database, [queued.done for queued in done]))
            store.transactions += len(done) - 1  # the batch counts as one
        return left


class _Writes(WriteSet):
    """Several transactions, one after the other, in one child. Their log entries are written by `end`."""

    __slots__ = ("_logged", "_start")

    def __init__(self, database: Database, wall_ms: float) -> None:
        super().__init__(database, database.log.last_version, wall_ms, None)
        self._logged: list[bytes] = []
        self._start = self.first_lsn

    def begin(self, version: float, user: str | None) -> float:
        """The next transaction. Returns the version of the one before."""
        before, self.version = self.version, version
        self.first_lsn = self.log.last_lsn + 1
        self.user = user
        return before

    def _append(
        self,
        table: Table,
        kind: int,
        key: bytes,
        lsn: int,
        previous: int,
        value: bytes | None,
        changed: tuple[str, ...],
        image: bytes | None,
    ) -> None:
        entry = LogEntry(
            lsn,
            self.first_lsn,
            self.wall_ms,
            self.version,
            table.name,
            table.number,
            key,
            kind,
            self.user,
            self.database.node,
            previous,
            value,
            changed,
            image if table.audit else None,
        )
        self._logged.append(encode_entry(entry))
        self.log.last_lsn = lsn
        self.entries.append(entry)

    def end(self) -> None:
        """Write the log entries. Raises what prevents it."""
        assert not self.suspects and self.references is None, "a queued write depends on others"
        self.first_lsn, self.log.last_lsn = self._start, self._start - 1
        self.log.append_encoded(self.txn, self._logged)

    def rollback(self) -> None:
        self.first_lsn = self._start
        super().rollback()
