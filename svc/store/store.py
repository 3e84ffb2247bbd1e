"""The store of a node: its databases, the turn, and the versions of what is written.

A turn of the loop is: any number of reads from shared snapshots and of applied transactions, then `commit_turn` if `has_pending`, then
`end_turn`. The commit is one per database that was written to, so one fsync, however many requests share it.

Two processes that each hold one database's writer and wait for the other's would wait for ever. Therefore writers are opened in the order
of the databases' names; who needs an earlier one first commits what it has (`open_writers`).

What takes longer than a turn is no part of one: a long write has a writer and a commit of its own (`long_write`).
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from math import inf, nextafter
from pathlib import Path
from typing import Any, TypeVar

from svc.clock import SYSTEM_CLOCK, Clock
from svc.errors import NotFound, Problem, SchemaError, ServerError, StoreFailure
from svc.store.backup.restore import InterruptedRestore, interrupted_restore, marked_databases
from svc.store.blobs import Helper
from svc.store.database import Database
from svc.store.definitions import check_database_name
from svc.store.disk.reclamation import Reclamation, ReclamationSettings
from svc.store.drops import Closing, Remover, leftovers, move_away
from svc.store.env import MAP_BYTES, Holder, WriterBusy, new_helper
from svc.store.indexes.index import IndexCaches
from svc.store.log.entries import LogEntry
from svc.store.maintenance import Maintenance
from svc.store.schema import TableDefinition
from svc.store.slices import Slices
from svc.store.snapshots import LONG, SnapshotLimits, Snapshots
from svc.store.table import Table
from svc.store.values.records import COMPRESS_ABOVE, NEVER
from svc.store.writing.transaction import Transaction
from svc.store.writing.writer_queue import FOREIGN_PAUSE, QueueLimits, WriterQueue

logger = logging.getLogger("svc.store")

CACHE_BYTES = 64 << 20
LOG_RETENTION = 3 * 86400.0  # seconds
QUEUE_LIMITS = QueueLimits()
SNAPSHOT_LIMITS = SnapshotLimits()
RECLAMATION = ReclamationSettings()
_CLOCK_TOLERANCE_MS = 10.0  # a step of the clock this small is none
_PAUSE = 0.002  # seconds between two looks at whether another process still writes
_SETTLED = 2.0  # seconds after which a directory's time of change tells that nothing more has changed
_REMOVAL_SECONDS = 5.0  # that closing waits for the files of dropped databases

T = TypeVar("T")
Listener = Callable[[Database, list[LogEntry]], None]


def default_blob_paths(path: Path) -> tuple[Path, ...]:
    """Where the blobs of the store at `path` are if nobody says: in it, under a name that is none of a database."""
    return (path / ".blobs",)


@dataclass(frozen=True, slots=True)
class DatabaseStats:
    """Sizes in bytes."""

    size: int
    log_size: int
    log_entries: int
    tables: dict[str, int]  # name -> size of its records


@dataclass(frozen=True, slots=True)
class StoreStats:
    """A snapshot of the store's figures, in bytes and counts."""

    cache_bytes: int
    cache_budget: int
    commits: int
    failed_commits: int
    transactions: int
    databases: dict[str, DatabaseStats]


class Store:
    """The databases under the directory `path`, each opened at once: that reads definitions, no records.

    `node`: name of this node in the log. `write_async`: do not wait for the disk at commit. `cache_bytes`: budget of the index caches.
    `map_bytes`: largest size of a database; address space, not disk. `audit`: whether the log keeps images where the table does not say.
    `log_retention`: seconds that log entries are kept. `queue_limits`: of those who wait for long writes. `snapshot_limits`: of results that are
    read slowly. `reclamation`: of what may go when the volume becomes full. `make_helper`: the executor of a
    single thread that the long writer of a database lives on. `compression`: of large records, as the setting says it
    (configuration §2.8); whatever it is, compressed records can be read. Raises StoreFailure if a database cannot be opened.
    """

    def __init__(
        self,
        path: Path,
        *,
        node: str = "localhost",
        write_async: bool = False,
        cache_bytes: int = CACHE_BYTES,
        map_bytes: int = MAP_BYTES,
        audit: bool = True,
        log_retention: float = LOG_RETENTION,
        queue_limits: QueueLimits = QUEUE_LIMITS,
        snapshot_limits: SnapshotLimits = SNAPSHOT_LIMITS,
        reclamation: ReclamationSettings = RECLAMATION,
        make_helper: Callable[[], Executor] = new_helper,
        blob_paths: tuple[Path, ...] = (),
        compression: bool | Mapping[str, Any] = True,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self.path = path
        self.blob_paths = blob_paths or default_blob_paths(path)
        self.helper = Helper()  # for what blocks, the files of blobs; a server gives it threads
        self.node = node
        self.audit = audit
        threshold = compression.get("threshold", COMPRESS_ABOVE) if isinstance(compression, Mapping) else COMPRESS_ABOVE
        self.compress_above: int = NEVER if compression is False else threshold  # bytes of a record's payload
        self.clock = clock
        self.log_retention = log_retention
        self.make_helper = make_helper
        self.slices = Slices(clock)
        self.snapshots = Snapshots(clock, snapshot_limits)
        self.reclamation = Reclamation(path, reclamation, clock)
        self.caches = IndexCaches(cache_bytes)
        self.on_commit: list[Listener] = []
        self.on_drop: list[Callable[[Table], None]] = []  # told of each table that is no longer there, whoever dropped it
        self._remover = Remover()
        self._closing = Closing()
        self._looked_at = 0  # time of change of the directory, when it was last looked through
        self.databases: dict[str, Database] = {}
        self._queues: dict[Database, WriterQueue] = {}  # of databases that had a long write
        self._queue_limits = queue_limits
        self._write_async = write_async
        self._map_bytes = map_bytes
        self._version = 0.0
        self._writing: list[Database] = []  # whose writers are open, in the order of their names
        self._applied: list[Transaction] = []  # wait for a commit
        self._finished: list[tuple[Transaction, Problem | None]] = []  # wait to be told
        self._published: list[tuple[Database, list[LogEntry]]] = []  # the same for listeners
        self._commits = self._failed_commits = self._transactions = 0
        self._reported: set[Holder] = set()  # long writes that the log has spoken of
        self._maintenance = Maintenance(self)
        try:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            names = self._names()
            self._remover.remove(leftovers([path, *self.blob_paths]))
            for name in marked_databases(path):
                logger.error("the database %s is not loaded: a restore of it was interrupted, repeat it with restore_backup", name)
        except OSError as error:
            raise StoreFailure(f"The directory of the databases cannot be used: {error.strerror}") from error
        try:
            for name in names:
                self._open_existing(name)
        except BaseException:
            self.close()
            raise
        behind_ms = self._version - clock.wall() * 1000
        if behind_ms > _CLOCK_TOLERANCE_MS:
            logger.error(
                "the clock is %.3f s behind the newest entry of the transaction log: set it; versions go on from there", behind_ms / 1000
            )

    def open_database(self, name: str) -> Database:
        """The database of this name, made if there is none. Raises SchemaError for a name that cannot be one."""
        database = self._find_existing(name)
        if database is None:
            self.flush()
            database = self._open(name)
            self._sync_names(name)
        return database

    async def make_database(self, name: str) -> Database:
        """The same without blocking for longer than a commit takes."""
        database = self._find_existing(name)
        if database is None:
            self.flush()
            database = self._open(name)
            await self.helper.wait(partial(self._sync_names, name))
        return database

    def _find_existing(self, name: str) -> Database | None:
        database = self.databases.get(name)
        if database is None:
            check_database_name(name)
            if (self.path / name).exists():
                database = self._open_existing(name)
        return database

    def _sync_names(self, database: str) -> None:
        """Put the names of a new database and of its files on disk."""
        for directory in (self.path / database, self.path):
            _sync(directory)

    def find_database(self, name: str) -> Database | None:
        """The database of this name, also one that another process has made just now."""
        database = self.databases.get(name)
        if database is None:
            self.refresh()
            database = self.databases.get(name)
        return database

    def refresh(self) -> None:
        """Open the databases that other processes have made since the last look. Usually one call of the system."""
        try:
            changed = os.stat(self.path).st_mtime_ns
            if changed == self._looked_at:
                return
            names = [name for name in self._names() if name not in self.databases]
        except OSError as error:
            logger.error("the directory of the databases cannot be read: %s", error)
            return
        for name in names:
            try:
                self._open_existing(name)
            except (Problem, SchemaError) as error:
                logger.error("the database %s cannot be opened: %s", name, error)
        if abs(self.clock.wall() - changed / 1e9) > _SETTLED:
            self._looked_at = changed

    def _names(self) -> list[str]:
        names = sorted(entry.name for entry in self.path.iterdir() if entry.is_dir() and not entry.name.startswith("."))
        return [name for name in names if not interrupted_restore(self.path, name)]

    def _open_existing(self, name: str) -> Database | None:
        """None: it was dropped, by a process that has ended before everything was removed."""
        database = self._open(name)
        if database.is_dropped:
            self._schedule_removal(database)
            return None
        return database

    def _open(self, name: str) -> Database:
        check_database_name(name)
        if interrupted_restore(self.path, name):
            raise InterruptedRestore(name)
        database = Database(self, name, self.path / name, map_bytes=self._map_bytes, write_async=self._write_async)
        if not database.is_dropped:
            self.databases[name] = database
            self.saw_version(database.log.last_version)
        return database

    # -- the end of databases and tables

    async def drop_database(self, name: str) -> None:
        """Remove a database with all it has, in all processes. When this returns, that is durable, and the name can be used again.

        Waits for the long write that is under way in it. Raises NotFound if there is none (any more); Overloaded, NoSpace, StoreFailure.
        """
        database = self.find_database(name)
        if database is None:
            raise NotFound(f"database '{name}' does not exist")
        queue = self.queue_of(database)
        await queue.acquire(1)
        try:
            while not database.env.is_open_to_writers():  # noqa: ASYNC110 - another process tells nobody
                await asyncio.sleep(_PAUSE)
            if database.is_dropped:
                raise NotFound(f"database '{name}' does not exist")
            database.mark_dropped()
        finally:
            queue.release()
        self._schedule_removal(database)

    def _schedule_removal(self, database: Database) -> None:
        """Give its name back, and remove its files; it is closed when nobody reads it any more."""
        self._remover.remove(move_away(database))
        database.env.end_snapshot()
        self._closing.close_unused()

    def database_dropped(self, database: Database) -> None:
        """It has been found to be dropped, by this process or another."""
        if self.databases.get(database.name) is database:
            del self.databases[database.name]
        self._queues.pop(database, None)
        self._maintenance.forget(database)
        self._closing.add(database)

    def table_dropped(self, table: Table) -> None:
        """A table is no longer there."""
        for listener in self.on_drop:
            try:
                listener(table)
            except Exception:
                logger.exception("a listener failed on the end of %r", table)

    def remove_files(self, directories: list[Path]) -> None:
        """Remove these directories, on a thread."""
        self._remover.remove(directories)

    def sweep_blobs(self, database: Database) -> None:
        """Have the background work search for files of blobs that belong to no record."""
        self._maintenance.sweep_now(database)

    def close_dropped(self) -> None:
        """Close databases that were dropped and that nobody reads any more; to be called now and then, between turns."""
        self._closing.close_unused()

    # -- the turn

    def begin(self, user: str | None = None) -> Transaction:
        """A transaction for the writes of one request."""
        return Transaction(self, user)

    @property
    def has_pending(self) -> bool:
        """Whether `commit_turn` has something to do."""
        return bool(self._writing or self._applied or self._finished)

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
        """What `attempt` returns, which raises WriterBusy while one of the databases has a long write under way: it is made when those who came
        before have written, and again if another process was faster. `databases` is asked before each. Raises Overloaded, and what `attempt` raises.
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
        self._transactions += 1
        if failed:
            self._failed_commits += 1
        else:
            self._commits += 1

    def has_listeners(self, database: Database) -> bool:
        """Whether anybody wants to know what is written to this database. Nobody reads log entries for nobody: that takes 2 us for each."""
        return bool(self.on_commit or database.on_commit)

    def publish(self, database: Database, entries: list[LogEntry]) -> None:
        """Tell the listeners what was written."""
        for listener in (*self.on_commit, *database.on_commit):
            try:
                listener(database, entries)
            except Exception:
                logger.exception("a listener failed on the log entries of %s", database.name)

    def applied(self, transaction: Transaction) -> None:
        """A transaction waits for the turn's commit."""
        self._applied.append(transaction)

    def flush_or_raise(self, database: Database) -> None:
        """`flush`, for those who write without a Transaction: raises what undid their writes to `database`."""
        problem = self.flush().get(database)
        if problem is not None:
            raise problem

    def flush(self) -> dict[Database, Problem]:
        """Commit what the turn has written, now. Who waits for it is told by `commit_turn`, not from here.

        Returns the problems of the databases that could not be committed.
        """
        failed: dict[Database, Problem] = {}
        writing, self._writing = self._writing, []
        for database in writing:
            try:
                entries = database.commit()
            except Problem as problem:
                failed[database] = problem
                self._failed_commits += 1
                continue
            self._commits += 1
            if entries and self.has_listeners(database):
                self._published.append((database, entries))
        for transaction in self._applied:
            undone_by = next((failed[database] for database in transaction.databases if database in failed), None) if failed else None
            self._finished.append((transaction, undone_by))
        self._transactions += len(self._applied)
        self._applied.clear()
        return failed

    def commit_turn(self) -> None:
        """Make the turn's writes durable, drop its snapshots, tell listeners what was written and each transaction how it went.

        Problems of the store go to the transactions they undid; an exception of a listener is logged and hinders nobody.
        """
        self.flush()
        self.end_turn()
        published, self._published = self._published, []
        for database, entries in published:
            self.publish(database, entries)
        finished, self._finished = self._finished, []
        for transaction, problem in finished:
            told, transaction.on_done = transaction.on_done, None
            transaction.outcome = (problem,)
            if told is not None:
                try:
                    told(problem)
                except Exception:
                    logger.exception("the end of a transaction could not be handled")

    def commit_now(self, transaction: Transaction) -> None:
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

    # -- versions

    def next_version(self) -> float:
        """ms since the epoch, greater than every version before it on this node. The writers must be open, so that others' are known."""
        now_ms = self.clock.wall() * 1000
        if now_ms <= self._version:
            now_ms = nextafter(self._version, inf)
        self._version = now_ms
        return now_ms

    def saw_version(self, version: float) -> None:
        """A version that the next ones must exceed."""
        if version > self._version:
            self._version = version

    # -- background, figures, end

    def maintenance(self, budget: float) -> bool:
        """Do background work for about `budget` seconds: see `maintenance`. True if there is more to do at once. Commits what it does."""
        return self._maintenance.run(budget)

    def stats(self) -> StoreStats:
        figures: dict[str, DatabaseStats] = {}
        for name, database in list(self.databases.items()):
            txn = database.snapshot()
            figures[name] = DatabaseStats(
                database.env.used_bytes(),
                database.log.size(txn),
                database.log.count(txn),
                {table.name: table.size(txn) for table in database.tables.values()},
            )
        return StoreStats(self.caches.used, self.caches.budget, self._commits, self._failed_commits, self._transactions, figures)

    @property
    def stopped(self) -> list[str]:
        """The names of databases that can be neither read nor written any more until this process has opened them again (`env`)."""
        return [name for name, database in self.databases.items() if database.env.has_stopped]

    def sync(self) -> None:
        """Flush to disk what `write_async` left to the operating system."""
        for database in self.databases.values():
            database.env.sync()

    def check(self) -> None:
        """Assert every invariant of every database. Reads everything; not while writes wait for their commit."""
        for database in self.databases.values():
            database.check()

    def close(self) -> None:
        """Undo what is not committed, and close all databases."""
        for database in self.databases.values():
            database.close()
        self.databases.clear()
        self._closing.close_all()
        self._remover.wait(_REMOVAL_SECONDS)


def _sync(directory: Path) -> None:
    """Put the names in it on disk. Raises StoreFailure."""
    try:
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise StoreFailure(f"The directory of the databases cannot be used: {error.strerror}") from error
