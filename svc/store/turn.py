"""The turn of the store: its writers, its one commit per database, and what follows it (spec: schema-and-store §8).

A turn of the loop is: any number of reads from shared snapshots and of applied transactions, then `commit_turn` if `has_pending`, then
`end_turn`. The commit is one per database that was written to, so one fsync, however many requests share it.

Two processes that each hold one database's writer and wait for the other's would deadlock. Therefore writers are opened in the order of the
databases' names; a transaction that needs an earlier one first commits what the turn has written (`open_writers`).

A long write is not part of a turn: it has a writer and a commit of its own (`writing.long_write`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Executor
from contextlib import contextmanager
from math import inf, nextafter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from svc.clock import Clock
from svc.errors import NotFound, Problem, ServerError
from svc.store.blobs import Helper
from svc.store.blobs.files import EXPECTED_SECONDS
from svc.store.env import Holder, WriterBusy
from svc.store.indexes.cache import IndexCaches
from svc.store.slices import Slices
from svc.store.snapshots import LONG, Snapshots
from svc.store.time_ordered_uuids import TimeOrderedUuids
from svc.store.writing.writer_queue import FOREIGN_PAUSE, WriterQueue

if TYPE_CHECKING:
    from svc.store.database import Database
    from svc.store.log.entries import LogEntry
    from svc.store.schema import TableDefinition
    from svc.store.store_settings import StoreSettings
    from svc.store.table import Table

logger = logging.getLogger("svc.store")

T = TypeVar("T")
Listener = Callable[["Database", "list[LogEntry]"], None]


class AppliedTransaction(Protocol):
    """A transaction whose writes wait for the turn's commit: `Transaction`. `outcome`: (the problem or None,) once it is known."""

    databases: tuple[Database, ...]
    on_done: Callable[[Problem | None], None] | None
    outcome: tuple[Problem | None] | None

    def apply(self) -> None: ...


class RemoteCommits(Protocol):
    """What other nodes have committed of that which this one has written."""

    def count_nodes(self) -> int:
        """How many others are known."""

    async def wait(self, databases: Iterable[str] | None, count: int) -> None:
        """Until `count` others have committed what was written to these databases, and is on disk; None: to all. Raises Problem 504 if that takes too long."""


class LateRows(Protocol):
    """Rows that are written before the turn's commit: `side_rows.SideRows`."""

    def write(self) -> None: ...


class Turn:
    """The writers and the commit of a turn, and what all databases of a store share. Base class of `Store`.

    `node`: name of this node in the log. `audit`: whether the log keeps images where the table does not say. `make_helper`: see `Environment`.
    `helper`: for what blocks, the files of blobs; a server gives it threads. `on_drop` is called with each table that is no longer there.
    """

    def __init__(
        self,
        settings: StoreSettings,
        *,
        node: str,
        blob_paths: tuple[Path, ...],
        make_helper: Callable[[], Executor],
        clock: Clock,
    ) -> None:
        self.node = node
        self.audit = settings.audit
        self.compress_above = settings.compress_above
        self.blob_paths = blob_paths
        self.make_helper = make_helper
        self.clock = clock
        self.helper = Helper()
        self.slices = Slices(clock)
        self.snapshots = Snapshots(clock, settings.snapshot_limits)
        self.caches = IndexCaches(settings.cache_bytes)
        self.uuids = TimeOrderedUuids(clock)
        self.databases: dict[str, Database] = {}
        self.on_commit: list[Listener] = []
        self.on_drop: list[Callable[[Table], None]] = []
        self.is_replicated: Callable[[str], bool] = lambda name: (
            False
        )  # whether other nodes are to get what is written to a database, by its name
        self.anonymous_role: Callable[[], Any] = lambda: None  # auth.Role of callers without a user, kept here by auth.UserDirectory
        self.blob_timeout = EXPECTED_SECONDS  # without progress, after which readers of a blob that comes from another node give up
        self.remote_commits: RemoteCommits | None = None  # kept here by server.replicating; None: there are no other nodes
        self._queues: dict[Database, WriterQueue] = {}  # of databases that had a long write
        self._queue_limits = settings.queue_limits
        self._version = 0.0
        self._writing: list[Database] = []  # whose writers are open, in the order of their names
        self._applied: list[AppliedTransaction] = []  # wait for a commit
        self._finished: list[tuple[AppliedTransaction, Problem | None]] = []  # wait for `on_done`
        self.late_rows: dict[LateRows, None] = {}  # that are written before the commit
        self._published: list[tuple[Database, list[LogEntry]]] = []  # the same for listeners
        self.commits = self.failed_commits = self.transactions = 0  # since the store was opened
        self._reported: set[Holder] = set()  # long writes that have been logged as such

    def database_dropped(self, database: Database) -> None:
        """A database has been found to be dropped, by this process or another."""
        raise NotImplementedError

    def table_dropped(self, table: Table) -> None:
        """Call `on_drop`: a table is no longer there."""
        for listener in self.on_drop:
            try:
                listener(table)
            except Exception:
                logger.exception("a listener failed on the end of %r", table)

    @property
    def has_pending(self) -> bool:
        """Whether `commit_turn` has something to do."""
        return bool(self._writing or self._applied or self._finished or self.late_rows)

    def open_writers(self, databases: Iterable[Database], *, wait: bool = True) -> None:
        """Open the write transactions of these databases for the turn. May have to commit first what the turn has written so far.

        Raises WriterBusy unless `wait` if one of them has a long write under way.
        """
        missing = [database for database in databases if not database.env.has_writer]
        if not missing:
            return
        if not wait and self._queues:
            for database in missing:
                queue = self._queues.get(database)
                if queue is not None and queue.is_held:
                    raise WriterBusy(database.env)
        missing.sort(key=lambda database: database.name)
        if self._writing and self._writing[-1].name > missing[0].name:
            self.flush()
            missing = sorted(databases, key=lambda database: database.name)
        for database in missing:
            database.begin_writing(wait=wait)
            self._writing.append(database)

    # -- long writes

    def queue_of(self, database: Database) -> WriterQueue:
        """Where the writers of this database stand in line."""
        queue = self._queues.get(database)
        if queue is None:
            queue = self._queues[database] = WriterQueue(database.env, self.clock, self._queue_limits)
        return queue

    async def write_when_free(self, databases: Callable[[], Iterable[Database]], attempt: Callable[[], T]) -> T:
        """What `attempt` returns, which raises WriterBusy while one of the databases has a long write under way: it is called when the writers before it
        have written, and again if another process was faster. `databases` is asked before each. Raises Overloaded, and what `attempt` raises.
        """
        while True:
            for database in databases():
                await self.queue_of(database).wait()
            try:
                return attempt()
            except WriterBusy:
                # Never at once: what keeps the database may need this loop to end.
                await asyncio.sleep(FOREIGN_PAUSE)

    @staticmethod
    def check_tables(tables: Mapping[Table, TableDefinition]) -> None:
        """Raise ServerError if one of these tables is no longer what it was when its records were checked, NotFound if it is gone."""
        for table, definition in tables.items():
            if table.database.tables.get(table.name) is not table:
                raise NotFound(f"Table '{table.database.name}.{table.name}' does not exist")
            if table.definition is not definition and not definition.dynamic:
                raise ServerError(
                    f"The table {table.name} was changed while records were being written to it, try again", 503, "OVERLOADED"
                )

    def count_commit(self, *, failed: bool = False) -> None:
        """A long write was committed, or could not be."""
        self.transactions += 1
        if failed:
            self.failed_commits += 1
        else:
            self.commits += 1

    def has_listeners(self, database: Database) -> bool:
        """Whether there is a listener for commits to this database. Without one the log entries are not read: that takes 2 us for each."""
        return bool(self.on_commit or database.on_commit)

    def publish(self, database: Database, entries: list[LogEntry]) -> None:
        """Tell the listeners what was written."""
        for listener in (*self.on_commit, *database.on_commit):
            try:
                listener(database, entries)
            except Exception:
                logger.exception("a listener failed on the log entries of %s", database.name)

    def tell_watchers(self, database: Database) -> None:
        """Something was written."""
        for watcher in tuple(database.watchers):
            try:
                watcher(database)
            except Exception:
                logger.exception("a watcher failed on a commit of %s", database.name)

    def applied(self, transaction: AppliedTransaction) -> None:
        """A transaction waits for the turn's commit."""
        self._applied.append(transaction)

    def undone(self, transaction: AppliedTransaction, problem: Problem) -> None:
        """A transaction waits to be told why it could not be applied."""
        self._finished.append((transaction, problem))

    def flush_or_raise(self, database: Database) -> None:
        """`flush`, for writes without a Transaction: raises the problem that undid the writes to `database`."""
        problem = self.flush().get(database)
        if problem is not None:
            raise problem

    def flush(self) -> dict[Database, Problem]:
        """Commit what the turn has written, now. Transactions and listeners are notified by `commit_turn`, not from here.

        Returns the problems of the databases that could not be committed.
        """
        while self.late_rows:
            self.late_rows.popitem()[0].write()
        failed: dict[Database, Problem] = {}
        writing, self._writing = self._writing, []
        for database in writing:
            try:
                entries = database.commit()
            except Problem as problem:
                failed[database] = problem
                self.failed_commits += 1
                continue
            self.commits += 1
            if entries and (database.watchers or self.has_listeners(database)):
                self._published.append((database, entries))
        for transaction in self._applied:
            undone_by = next((failed[database] for database in transaction.databases if database in failed), None) if failed else None
            self._finished.append((transaction, undone_by))
        self.transactions += len(self._applied)
        self._applied.clear()
        return failed

    def commit_turn(self) -> None:
        """Make the turn's writes durable, drop its snapshots, notify listeners of what was written and each transaction of its outcome.

        Problems of the store go to the transactions they undid; an exception of a listener is logged and has no other effect.
        """
        self.flush()
        self.end_turn()
        published, self._published = self._published, []
        for database, entries in published:
            self.publish(database, entries)
            if database.watchers:
                self.tell_watchers(database)
        finished, self._finished = self._finished, []
        for transaction, problem in finished:
            told, transaction.on_done = transaction.on_done, None
            transaction.outcome = (problem,)
            if told is not None:
                try:
                    told(problem)
                except Exception:
                    logger.exception("the end of a transaction could not be handled")

    def commit_now(self, transaction: AppliedTransaction) -> None:
        """Apply a transaction and commit the turn with it. Raises the Problem that prevents it. For the start, before the loop runs."""
        transaction.apply()
        self.commit_turn()
        if transaction.outcome is not None and transaction.outcome[0] is not None:
            raise transaction.outcome[0]

    def report_long_transactions(self) -> None:
        """Log the transactions that are open for long, each once; to be called about once a second (`storage.debugLongTransactions`)."""
        self.snapshots.report_long()
        now = self.clock.monotonic()
        writing = {database.env.holder: database for database in self.databases.values() if database.env.holder is not None}
        self._reported &= writing.keys()
        for holder, database in writing.items():
            if holder not in self._reported and holder.since and now - holder.since >= LONG:
                self._reported.add(holder)
                logger.warning("database %s: %s has the write transaction for %.0f s", database.name, holder.about, now - holder.since)

    def end_turn(self) -> None:
        """Drop the shared snapshots: what is read after this is read as of then."""
        for database in list(self.databases.values()):
            database.env.end_snapshot()
        if self.snapshots.lost:
            self.snapshots.let_go()

    # -- versions

    def next_version(self) -> float:
        """ms since the epoch, greater than every version before it on this node. The writers must be open, so that others' are known."""
        now_ms = self.clock.wall() * 1000
        if now_ms <= self._version:
            now_ms = nextafter(self._version, inf)
        self._version = now_ms
        return now_ms

    @contextmanager
    def next_version_is(self, version: float) -> Iterator[None]:
        """Within the block that is what `next_version` gives, and versions do not go on from there: one that another node has made far ahead of the time
        (`replicated_log`)."""
        vars(self)["next_version"] = lambda: version  # no write has to look whether there is one
        try:
            yield
        finally:
            vars(self).pop("next_version", None)  # nested ones end together

    def coming_version(self) -> float:
        """What `next_version` would give now, which it does not use up."""
        return max(self.clock.wall() * 1000, nextafter(self._version, inf))

    def saw_version(self, version: float) -> None:
        """A version that the next ones must exceed."""
        if version > self._version:
            self._version = version
