"""The store of a node: its databases, opened, made, found and dropped; its figures; its end.

The turn, with the commit of what is written, is in `turn`, the base class of `Store`.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from svc.clock import SYSTEM_CLOCK, Clock
from svc.errors import NotFound, Problem, SchemaError, StoreFailure
from svc.store.database import Database
from svc.store.database_drops import DirectoryRemover, EnvironmentCloser, leftovers, move_away
from svc.store.definitions import check_database_name
from svc.store.disk.reclamation import Reclamation
from svc.store.disk.restore_mark import InterruptedRestore, interrupted_restore, marked_databases
from svc.store.env import new_helper
from svc.store.maintenance import Maintenance
from svc.store.store_settings import DEFAULT_SETTINGS, StoreSettings
from svc.store.turn import Turn
from svc.store.writing.queued_writes import QueuedWrites
from svc.store.writing.transaction import Transaction

logger = logging.getLogger("svc.store")

_CLOCK_TOLERANCE_MS = 10.0  # a step of the clock this small is none
_PAUSE = 0.002  # polling interval, seconds: whether another process still writes
_SETTLED = 2.0  # seconds after which a directory's time of change proves that nothing has changed since
_REMOVAL_SECONDS = 5.0  # that closing waits for the files of dropped databases


def default_blob_paths(path: Path) -> tuple[Path, ...]:
    """The default directories of the blobs of the store at `path`: in it, under a name that no database can have."""
    return (path / ".blobs",)


@dataclass(frozen=True, slots=True)
class StoreStats:
    """A snapshot of the store's figures, in bytes and counts."""

    cache_bytes: int
    cache_budget: int
    commits: int
    failed_commits: int
    transactions: int


class Store(Turn):
    """The databases under the directory `path`, each opened at once: that reads definitions, no records.

    `node`: name of this node in the log. `make_helper`: the executor of a single thread that the long writer of a database lives on. Raises StoreFailure
    if a database cannot be opened.
    """

    def __init__(
        self,
        path: Path,
        settings: StoreSettings = DEFAULT_SETTINGS,
        *,
        node: str = "localhost",
        make_helper: Callable[[], Executor] = new_helper,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        super().__init__(
            settings, node=node, blob_paths=settings.blob_paths or default_blob_paths(path), make_helper=make_helper, clock=clock
        )
        self.path = path
        self.log_retention = settings.log_retention
        self.reclamation = Reclamation(path, settings.reclamation, clock)
        self._remover = DirectoryRemover()
        self._closing = EnvironmentCloser()
        self._looked_at = 0  # time of change of the directory, when it was last looked through
        self._write_async = settings.write_async
        self._map_bytes = settings.map_bytes
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

    def follow(self) -> None:
        """Take over what other processes have committed since the last turn: definitions among it. Half a microsecond for each database if there is nothing.
        Raises Problem if one cannot be read; the others are up to date then."""
        failed = None
        for database in list(self.databases.values()):
            environment = database.env
            try:
                if environment.last_commit() != environment.current:
                    database.snapshot()
            except Problem as problem:
                if not database.is_dropped:
                    failed = problem
        if failed is not None:
            raise failed

    def refresh(self) -> None:
        """Open the databases that other processes have made since the last poll. Usually one system call."""
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
        database.queued_writes = QueuedWrites(database)
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
            while not database.env.is_open_to_writers():  # noqa: ASYNC110 - another process sends no notification
                await asyncio.sleep(_PAUSE)
            if database.is_dropped:
                raise NotFound(f"database '{name}' does not exist")
            database.mark_dropped()
        finally:
            queue.release()
        self._schedule_removal(database)

    def _schedule_removal(self, database: Database) -> None:
        """Free the name of a dropped database, and remove its files; it is closed when no snapshot of it is read any more."""
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

    def remove_files(self, directories: list[Path]) -> None:
        """Remove these directories, on a thread."""
        self._remover.remove(directories)

    def sweep_blobs(self, database: Database) -> None:
        """Have the background work search for files of blobs that belong to no record."""
        self._maintenance.sweep_now(database)

    def close_dropped(self) -> None:
        """Close dropped databases without open snapshots; to be called periodically between turns."""
        self._closing.close_unused()

    def begin(self, user: str | None = None, trace_id: bytes | None = None) -> Transaction:
        """A transaction for the writes of one request."""
        return Transaction(self, user, trace_id=trace_id)

    # -- background, figures, end

    def maintenance(self, budget: float, *, leads: bool = True) -> bool:
        """Do background work for about `budget` seconds: see `maintenance`. True if there is more to do at once. Commits what it does.

        `leads`: False: another process does what concerns the databases, this one only what concerns itself."""
        return self._maintenance.run(budget, leads)

    def stats(self) -> StoreStats:
        return StoreStats(self.caches.used, self.caches.budget, self.commits, self.failed_commits, self.transactions)

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

    def give_up(self) -> None:
        """In a forked child: nothing can be read or written any more, and nothing of what the parent has open is ended."""
        for database in self.databases.values():
            database.env.give_up()

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
