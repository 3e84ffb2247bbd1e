"""The log as it grows: listeners get every committed entry once and in order, whichever process wrote it (architecture §4, §6).

A commit of this process hands its entries over (`Database.on_commit`); a commit of another one shows only as a larger number of LMDB's last
transaction. Siblings, which wake this process, are looked at in each turn (`look`). While another process that does not has the database open, that number
is polled every POLL_INTERVAL seconds; else it is looked at once a second (`sweep`), in a turn that there is anyway. One number per database decides what is
reported: `position`, the LSN up to which listeners have got everything.

    own entries that begin at position + 1      are reported as they are
    ... that begin earlier                      have been read from the log already; the rest of them is reported
    ... that begin later                        a sibling has committed before: from here on the log is read
    a sibling's commit was seen                 from here on the log is read

Accounts come first: before entries of another database are reported, those of the system database are, if it has listeners. So a listener to both knows
of a role's change before it gets a record that was written after it, in whatever process.

Reading the log ends where the snapshot opened for it ends. Until then own entries are ignored, for the log has them too. The log is read in slices, and
so is a large own commit: what is reported makes work for subscribers.

A database without listeners is not followed, and costs nothing. Who wants to know no more than that there are new entries is a watcher: for those the log
is not read.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from itertools import islice

from svc.clock import Clock
from svc.errors import Problem
from svc.store import Database, LogEntry, Store
from svc.store.disk.faults import LmdbError, store_problem
from svc.store.slices import SLICE
from svc.store.system import SYSTEM

logger = logging.getLogger("svc.realtime")

Listener = Callable[[Database, list[LogEntry]], None]
Watcher = Callable[[Database], None]

POLL_INTERVAL = 0.02  # seconds between two polls for commits of processes that do not wake this one
ENTRIES_PER_BATCH = 500  # entries reported at once: about a millisecond of work for a few listeners


class _FollowedLog:
    """A database with listeners or watchers. `position`: see above. `reads`: the log is being read. `is_shared`: another process has the database open, as far
    as is known."""

    __slots__ = ("arrivals", "commit", "database", "is_shared", "listeners", "position", "reads", "watchers")

    def __init__(self, database: Database) -> None:
        self.database = database
        self.listeners: list[Listener] = []
        self.watchers: list[Watcher] = []
        self.reads = False
        self.commit = database.env.last_commit()  # LMDB's number of the last one that was seen
        self.position = 0
        self.arrivals = b""  # as of the last look at whether it is shared
        self.is_shared = False


class CommitFeed:
    """Reports the commits of all processes to listeners. Used on the thread of `loop` alone."""

    def __init__(self, store: Store, loop: asyncio.AbstractEventLoop, clock: Clock) -> None:
        self._store = store
        self._loop = loop
        self._now = clock.monotonic
        self._followed: dict[Database, _FollowedLog] = {}
        self._poll_timer: asyncio.TimerHandle | None = None
        self._reading = False  # a slice is scheduled
        self.is_woken: Callable[[], bool] = lambda: False
        """Whether other processes wake this one when they have committed."""

    def add(self, database: Database, listener: Listener) -> int:
        """From here on `listener(database, entries)` is called after each commit, in the order of LSNs, without gap or repetition; entries of
        a long commit come in pieces. What it raises is logged.

        Returns the LSN behind which it gets every entry. Raises StoreFailure.
        """
        followed = self._follow(database)
        if not followed.listeners:
            followed.position = _newest(database)
            database.on_commit.append(self._committed)
        followed.listeners.append(listener)
        return followed.position

    def watch(self, database: Database, watcher: Watcher) -> None:
        """From here on `watcher(database)` is called when there are new entries, once for several commits, and perhaps for none. Raises StoreFailure."""
        followed = self._follow(database)
        followed.watchers.append(watcher)
        database.watchers.append(watcher)

    def _follow(self, database: Database) -> _FollowedLog:
        followed = self._followed.get(database)
        if followed is None:
            followed = self._followed[database] = _FollowedLog(database)
            if self._poll_timer is None:
                self._poll_timer = self._loop.call_later(POLL_INTERVAL, self._poll)
        return followed

    def unwatch(self, database: Database, watcher: Watcher) -> None:
        """Harmless when done."""
        followed = self._followed.get(database)
        if followed is not None and watcher in followed.watchers:
            followed.watchers.remove(watcher)
            database.watchers.remove(watcher)
            self._unfollow_unwanted(followed)

    def remove(self, database: Database, listener: Listener) -> None:
        """Remove a listener. Harmless when done."""
        followed = self._followed.get(database)
        if followed is None or listener not in followed.listeners:
            return
        followed.listeners.remove(listener)
        if not followed.listeners:
            database.on_commit.remove(self._committed)
            followed.reads = False
            self._unfollow_unwanted(followed)

    def position(self, database: Database) -> int:
        """The LSN up to which the listeners of this database have got everything; -1 if there are no listeners."""
        followed = self._followed.get(database)
        return followed.position if followed is not None and followed.listeners else -1

    def catch_up(self, database: Database) -> bool:
        """Report what has been committed by now, if that is done within a slice; False if there is more."""
        followed = self._followed.get(database)
        if followed is None or not followed.listeners:
            return True
        followed.reads = True
        self._read(followed)
        return not followed.reads

    @property
    def is_following(self) -> bool:
        """Whether there are listeners or watchers."""
        return bool(self._followed)

    def look(self) -> None:
        """Report what others have committed, at the end of a turn: what that makes ready is not waited for."""
        for followed in list(self._followed.values()):
            self._look_at(followed)

    def sweep(self, now: float = 0.0) -> None:
        """The same once a second, and whether other processes have to be polled for."""
        if self._followed and self._poll_timer is None:
            self._poll()

    def close(self) -> None:
        """Forget all listeners."""
        for followed in list(self._followed.values()):
            self._unfollow(followed)

    # -- what this process commits

    def _committed(self, database: Database, entries: list[LogEntry]) -> None:
        followed = self._followed.get(database)
        if followed is None:
            return
        if self.is_woken():
            self._pass_own(followed)
        if followed.reads:
            return
        first = entries[0].lsn
        if first > followed.position + 1:
            followed.reads = True
            self._read(followed)
            return
        if first <= followed.position:
            entries = [entry for entry in entries if entry.lsn > followed.position]
        if not self._accounts_are_reported(followed):
            followed.reads = True
        elif len(entries) > ENTRIES_PER_BATCH:
            followed.reads = True
            self._report(followed, entries[:ENTRIES_PER_BATCH])
            self._read_next_turn()
        elif entries:
            self._report(followed, entries)

    def _accounts_are_reported(self, followed: _FollowedLog) -> bool:
        """Report what has been committed to the system database, before entries of another one. False: that takes more than a slice, or cannot be done
        now; then the other database is read from the log, after it."""
        system = self._store.databases.get(SYSTEM)
        accounts = None if system is None else self._followed.get(system)
        if accounts is None or accounts is followed or not accounts.listeners:
            return True
        try:
            commit = accounts.database.env.last_commit()
        except Problem as problem:
            logger.error("the log of %s cannot be followed: %s", SYSTEM, problem.message)
            return False
        if commit != accounts.commit:
            accounts.commit = commit
            accounts.reads = True
        if accounts.reads:
            self._read(accounts)
        return not accounts.reads

    # -- what others commit

    def _poll(self) -> None:
        """Look for commits of others, and again soon if there may be some that this process is not woken for."""
        self._poll_timer = None
        is_woken, is_due = self.is_woken(), False
        for followed in list(self._followed.values()):
            if self._look_at(followed) and not is_woken and self._is_shared(followed):
                is_due = True
        if is_due and self._followed and self._poll_timer is None:
            self._poll_timer = self._loop.call_later(POLL_INTERVAL, self._poll)

    @staticmethod
    def _is_shared(followed: _FollowedLog) -> bool:
        env = followed.database.env
        arrivals = env.arrivals()  # a look into memory, which says of most databases all there is to know
        if followed.is_shared or arrivals != followed.arrivals:
            followed.arrivals = arrivals
            followed.is_shared = env.has_siblings()
        return followed.is_shared

    def _look_at(self, followed: _FollowedLog) -> bool:
        """Read the log if it has new entries. False if it cannot be followed."""
        database = followed.database
        if database.is_dropped:
            self._unfollow(followed)
            return False
        try:
            commit = database.env.last_commit()
        except Problem as problem:
            logger.error("the log of %s cannot be followed: %s", database.name, problem.message)
            return False
        if commit != followed.commit:
            followed.commit = commit
            followed.reads = bool(followed.listeners)
            self._store.tell_watchers(database)
        if followed.reads and not self._reading:
            self._read(followed)
        return not database.is_dropped

    @staticmethod
    def _pass_own(followed: _FollowedLog) -> None:
        """A commit of this process alone is none to look at."""
        with suppress(Problem):
            if followed.database.env.last_commit() == followed.commit + 1:
                followed.commit += 1

    # -- reading the log

    def _read(self, followed: _FollowedLog) -> None:
        """Report what the log has, for the length of a slice. `_poll` tries again what fails here."""
        database = followed.database
        if database.is_dropped:
            self._unfollow(followed)
            return
        if not self._accounts_are_reported(followed):
            return
        end = self._now() + SLICE
        try:
            snapshot = database.env.open_snapshot()
        except Problem as problem:
            logger.error("the log of %s cannot be read: %s", database.name, problem.message)
            return
        try:
            if database.is_dropped:  # which opening the snapshot has shown
                self._unfollow(followed)
                return
            entries = database.log.read(snapshot, followed.position + 1)
            while followed.listeners:
                piece = list(islice(entries, ENTRIES_PER_BATCH // 5))
                if not piece:
                    followed.reads = False
                    return
                self._report(followed, piece)
                if self._now() >= end:
                    self._read_next_turn()
                    return
        except LmdbError as error:
            store_problem(error, database.env.path)  # which logs it
        finally:
            snapshot.abort()

    def _read_next_turn(self) -> None:
        """Read on in the next turn."""
        if not self._reading:
            self._reading = True
            # Not `call_soon`: at the end of a turn the loop has decided already how long it waits.
            self._loop.call_soon_threadsafe(self._read_all)

    def _read_all(self) -> None:
        self._reading = False
        for followed in list(self._followed.values()):
            if followed.reads:
                self._read(followed)

    def _report(self, followed: _FollowedLog, entries: list[LogEntry]) -> None:
        followed.position = entries[-1].lsn
        for listener in tuple(followed.listeners):
            try:
                listener(followed.database, entries)
            except Exception:
                logger.exception("a listener failed on the log entries of %s", followed.database.name)

    def _unfollow(self, followed: _FollowedLog) -> None:
        database = followed.database
        if followed.listeners:
            followed.listeners.clear()
            database.on_commit.remove(self._committed)
        for watcher in followed.watchers:
            database.watchers.remove(watcher)
        followed.watchers.clear()
        self._unfollow_unwanted(followed)

    def _unfollow_unwanted(self, followed: _FollowedLog) -> None:
        """If it has neither listeners nor watchers any more."""
        if not followed.listeners and not followed.watchers and self._followed.get(followed.database) is followed:
            del self._followed[followed.database]
        if not self._followed and self._poll_timer is not None:
            self._poll_timer.cancel()
            self._poll_timer = None


def _newest(database: Database) -> int:
    """LSN of the newest entry that is committed."""
    snapshot = database.env.open_snapshot()
    try:
        return database.log.newest_lsn(snapshot)
    finally:
        snapshot.abort()
