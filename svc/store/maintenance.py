"""Background work of the store, in slices between requests: caches, index builds, expired records, old log entries.

Each slice is one write transaction of its own with one commit, so it costs an fsync; what it did is durable when it ends. One of the processes on
a directory does it for all of them, and what concerns only itself is done by each. If several do it, nothing is lost: each looks, with the writer's
lock held, at what is stored, and finds nothing left to do.

The kinds of work of all databases take turns. One that has used up the time of a call is the last one in the next: an index that takes minutes
to build delays each of the others by one call at most.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from svc.clock import AHEAD
from svc.errors import NoSpace, Problem
from svc.store.blobs import Sweep
from svc.store.caching.copies import evict
from svc.store.definitions import FIGURES_KEY, build_key, moves_key
from svc.store.disk.database_locks import BlobFilesLock
from svc.store.disk.faults import LmdbError, store_problem
from svc.store.env import WriterBusy
from svc.store.expiry_index import next_scan
from svc.store.indexes.build import build_slice
from svc.store.indexes.cache import UNUSED_SECONDS
from svc.store.moves import MoveNote
from svc.store.values.records import expiry_of, is_copy, refreshed_of, version_of
from svc.store.writing.write_set import WriteSet

if TYPE_CHECKING:
    from svc.store.database import Database
    from svc.store.store import Store
    from svc.store.table import Table

logger = logging.getLogger("svc.store")

PRUNE_INTERVAL = 10.0  # polling interval, seconds: the age of the oldest log entry
PRUNE_BATCH = 100  # entries
EXPIRE_BATCH = 100  # records
EARLY = 1000  # copies of what a source has that are looked at in one scan, whether they may go before they expire
REMOVE_BATCH = 50  # files of blobs
FIGURES_INTERVAL = 10.0  # polling interval, seconds: whether there are new log entries
SWEEP_INTERVAL = 3600.0  # seconds between two searches for orphaned files
READER_INTERVAL = 60.0  # polling interval, seconds: snapshots of dead processes
RETRY_AFTER = 5.0  # seconds without background work after a failed commit


_Share = tuple["Database | None", int]  # (whose work, its place in `Maintenance._kinds`)
T = TypeVar("T")


class _Ahead(NamedTuple):
    """The entries at the beginning of a log that were written while the clock was ahead. `end`: LSN up to which they are known. `since`: monotonic, when the
    last of them was found."""

    end: int
    since: float


class Maintenance:
    """The background work of one store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._next_prune: dict[Database, float] = {}  # monotonic
        self._unpublished: set[Database] = set()  # whose log is kept for other nodes, which was logged
        self._next_figures: dict[Database, float] = {}  # monotonic
        self._figures: dict[Database, Iterator[None]] = {}
        self._next_low_check = 0.0
        self._last_expired: dict[Database, Table] = {}  # whose expired records have used up the time
        self._ahead: dict[Database, _Ahead] = {}
        self._next_reader_check = 0.0
        self._next_cache_check = 0.0
        self._sweeps: dict[Database, Sweep] = {}
        self._next_sweep: dict[Database, float] = {}  # monotonic
        self._asked_sweeps: set[Database] = set()  # `sweep_now`
        self._leads = True
        self._paused_until: dict[_Share, float] = {}
        self._batches: dict[Database, int] = {}  # expired records that are removed at once, where the volume is too full for EXPIRE_BATCH
        self._deadline = 0.0
        self._kinds: tuple[Callable[[Database], bool], ...] = (
            self._remove_expired,
            self._prune_log,
            self._remove_files,
            self._sweep,
            self._move_values,
            self._build_indexes,
            self._note_figures,
        )
        self._last: _Share = (None, 0)  # what has used up the time of the call before

    def forget(self, database: Database) -> None:
        """A database is no longer there."""
        known: tuple[dict[Database, Any], ...] = (self._sweeps, self._next_sweep, self._next_prune, self._ahead, self._batches)
        for each in (*known, self._last_expired, self._next_figures, self._figures):
            each.pop(database, None)
        self._asked_sweeps.discard(database)
        self._unpublished.discard(database)
        self._paused_until = {share: until for share, until in self._paused_until.items() if share[0] is not database}
        if self._last[0] is database:
            self._last = (None, 0)

    def sweep_now(self, database: Database) -> None:
        """Search for orphaned files with the next slices, not only when the interval has passed."""
        self._next_sweep[database] = 0.0
        self._asked_sweeps.add(database)
        logger.info("database %s: searching for orphaned blobs", database.name)

    def run(self, budget: float, leads: bool = True) -> bool:
        """Work for about `budget` seconds; True if there is more to do at once. A turn of its own: it drops the shared snapshots."""
        store, clock = self._store, self._store.clock
        self._leads = leads
        now = clock.monotonic()
        self._deadline = now + budget
        store.end_turn()  # work on what is committed by now
        store.refresh()
        store.close_dropped()
        store.reclamation.poll()
        if now >= self._next_cache_check:
            self._next_cache_check = now + UNUSED_SECONDS
            store.caches.drop_unused()
        if now >= self._next_low_check and any(database.env.reserve.is_low for database in store.databases.values()):
            self._next_low_check = now + PRUNE_INTERVAL
            store.reclamation.poll(at_once=True)
        more = False
        before: _Share | None = self._last
        for share in self._shares():
            if before is not None and not self._may_go_on():
                self._last, before = before, None  # the first that had no time is the first of the next call
            if self._work(*share):
                more = True
            if before is not None:
                before = share
        if now >= self._next_reader_check:
            self._next_reader_check = now + READER_INTERVAL
            for database in store.databases.values():
                database.env.free_stale_readers()
        return more

    def _shares(self) -> list[_Share]:
        """(database, kind of work) that get the time of this call, one after the other. None: index caches, of all databases."""
        shares: list[_Share] = [(None, 0)]
        shares += [(database, kind) for database in self._store.databases.values() for kind in self._kinds_of(database)]
        return _behind(shares, self._last)

    def _kinds_of(self, database: Database) -> list[int]:
        """Of a process that does not lead: what it says of its own log, and a search that was asked for here."""
        if self._leads:
            return list(range(len(self._kinds)))
        kinds = (self._sweep, self._note_figures) if database in self._asked_sweeps else (self._note_figures,)
        return [self._kinds.index(kind) for kind in kinds]

    def _work(self, database: Database | None, kind: int) -> bool:
        """Do one kind of work; True if time ran out."""
        if database is None:
            caches = self._store.caches
            return caches.has_work and caches.load(self._may_go_on)
        now = self._store.clock.monotonic()
        if now < self._paused_until.get((database, kind), 0.0) or database.is_dropped:
            return False
        try:
            return self._kinds[kind](database)
        except WriterBusy:
            return False  # a long write is under way: there is time for this later
        except LmdbError as error:
            store_problem(error, database.env.path)  # which logs it
        except NoSpace:
            # Fewer at once need less of the reserve.
            self._batches[database] = max(self._batches.get(database, EXPIRE_BATCH) // 4, 1)
        except Problem:
            pass  # The log has the cause. What the slice did is undone; a full disk is not made better by trying at every turn.
        self._paused_until[database, kind] = now + RETRY_AFTER
        return False

    def _may_go_on(self) -> bool:
        return self._store.clock.monotonic() < self._deadline

    def _commit(self, database: Database) -> None:
        """Make a slice durable, and read what is stored from here on."""
        self._store.flush_or_raise(database)
        database.env.end_snapshot()

    # -- indexes

    def _build_indexes(self, database: Database) -> bool:
        for table in list(database.tables.values()):
            for index in table.index_list:
                while not index.ready and index.has_values and not index.is_deferred:
                    if not self._may_go_on():
                        return True
                    self._build(database, table, index.attribute)
        return False

    def _build(self, database: Database, table: Table, attribute: str) -> None:
        """Build as much of one index as the time allows."""
        database.writer(wait=False)
        database.require_space()
        index = table.indexes.get(attribute)  # opening the writer may have shown a new definition
        if index is None or index.ready or not index.has_values or not table.is_there:
            return
        finished = False
        child = database.env.child()
        try:
            while not finished:
                finished = build_slice(child, table, index)
                if not self._may_go_on():
                    break
        except BaseException:
            child.abort()
            raise
        database.env.commit_child(child)
        if finished:
            database.announce_change()
        self._commit(database)
        index.progress = database.snapshot().get(build_key(table.number, attribute), None, database.definitions)
        if index.ready:
            logger.info("database %s: the index %s.%s is built", database.name, table.name, attribute)

    # -- values under old names

    def _move_values(self, database: Database) -> bool:
        for table in list(database.tables.values()):
            while table.moves is not None and not table.moves.is_done:
                if not self._may_go_on():
                    return True
                self._move_some(database, table)
            if table.moves is not None:
                database.env.end_snapshot()  # that of other kinds of work
                if not database.env.open_snapshots():
                    table.end_moves()
        return False

    def _move_some(self, database: Database, table: Table) -> None:
        """Rewrite some records of a table whose values are being moved."""
        store = self._store
        database.writer(wait=False)
        database.require_space()
        moves = table.moves  # opening the writer may have shown that another process has finished, or renamed the table
        if moves is None or moves.is_done or not table.is_there:
            return
        writes = WriteSet(database, store.next_version(), store.clock.wall() * 1000, None)
        key = moves_key(table.number)
        try:
            known = writes.txn.get(key, None, database.definitions)
            note, is_left = (moves.note, False) if known is None else (MoveNote.from_bytes(known), True)
            while is_left:
                note, is_left = moves.rewrite_slice(writes, table, note)
                if not self._may_go_on():
                    break
            if is_left:
                writes.txn.put(key, note.to_bytes(), True, True, False, database.definitions)
            else:
                writes.txn.delete(key, b"", database.definitions)
            writes.writes_unlogged = True
        except BaseException:
            writes.rollback()
            raise
        writes.commit()
        if not is_left:
            database.announce_change()
        self._commit(database)
        moves.note = note
        if not is_left:
            moves.is_done = True
            names = ", ".join([f"{move.old} to {move.new}" for move in note.moves])
            logger.info("database %s: the values of %d records of %s were moved: %s", database.name, note.moved, table.name, names)

    # -- expired records

    def _remove_expired(self, database: Database) -> bool:
        now = self._store.clock.wall()
        has_time = self._may_go_on()
        for table in _behind(list(database.tables.values()), self._last_expired.get(database)):
            if table.next_scan is None or table.next_scan > now + table.expiry.scan_interval:  # the clock was ahead
                table.next_scan = next_scan(now, table.expiry.scan_interval)
            if now < table.next_scan:
                continue
            before_ms = now * 1000 - table.expiry.eviction_ms / self._store.reclamation.divisor
            while table.expiry.whole_keys(database.snapshot(), before_ms, 1):
                if not self._may_go_on():
                    if has_time:
                        self._last_expired[database] = table
                    return True
                if not self._expire(database, table, before_ms):
                    break  # all of them are being refreshed
            if table.is_caching and self._store.reclamation.divisor > 1:
                self._evict_early(database, table, now * 1000)
            table.next_scan = next_scan(now, table.expiry.scan_interval)
        return False

    def _expire(self, database: Database, table: Table, before_ms: float) -> bool:
        """Remove some; False if there was none that could be."""
        store = self._store
        database.writer(wait=False)
        if not table.is_there:
            return False
        writes = WriteSet(database, store.next_version(), store.clock.wall() * 1000, None)
        try:
            removed = False
            for stored in table.expiry.whole_keys(writes.txn, before_ms, self._batches.get(database, EXPIRE_BATCH)):
                # A copy of what a source has is one in a process too that does not know of the source.
                if table.is_caching or is_copy(writes.txn.get(stored, b"\0", table.primary)):
                    removed |= evict(writes, table, stored, before_ms, partial(_is_at_rest, table))
                else:
                    removed |= writes.expire(table, stored, before_ms)
        except BaseException:
            writes.rollback()
            raise
        writes.commit()
        self._commit(database)
        if not database.env.reserve.is_low:
            self._batches.pop(database, None)
        return removed

    def _evict_early(self, database: Database, table: Table, now_ms: float) -> None:
        """Of the copies that expire next, evict those that may go before: the volume is becoming full."""
        spare = []
        snapshot = database.snapshot()
        for stored in table.expiry.whole_keys(snapshot, inf, EARLY):
            raw = snapshot.get(stored, None, table.primary)
            expiry = None if raw is None else expiry_of(raw)
            if raw is not None and expiry is not None:
                life_ms = expiry - (refreshed_of(raw) or version_of(raw))
                if self._store.reclamation.is_spare(expiry + table.expiry.eviction_ms - now_ms, life_ms, len(raw)):
                    spare.append((stored, raw))
        for start in range(0, len(spare), EXPIRE_BATCH):
            if not self._may_go_on():
                return
            store = self._store
            database.writer(wait=False)
            if not table.is_there:
                return
            writes = WriteSet(database, store.next_version(), store.clock.wall() * 1000, None)
            try:
                for stored, raw in spare[start : start + EXPIRE_BATCH]:
                    # Only if it is still what was looked at.
                    if writes.txn.get(stored, None, table.primary) == raw:
                        evict(writes, table, stored, inf, partial(_is_at_rest, table))
            except BaseException:
                writes.rollback()
                raise
            writes.commit()
            self._commit(database)

    # -- the log

    def _prune_log(self, database: Database) -> bool:
        """Remove the entries that are too old; True if time ran out."""
        now = self._store.clock.monotonic()
        if now < self._next_prune.get(database, 0.0):
            return False
        while (end := self._old_end(database)) is not None:
            if not self._may_go_on():
                return True
            if end:
                database.writer(wait=False)
                child = database.env.child()
                try:
                    database.log.prune(child, end, PRUNE_BATCH)
                except BaseException:
                    child.abort()
                    raise
                database.env.commit_child(child)
                self._commit(database)
        self._next_prune[database] = now + PRUNE_INTERVAL
        return False

    def _old_end(self, database: Database) -> int | None:
        """LSN before which the entries at the beginning of the log are too old; 0 if that is to be seen by further looking, None: none is.

        Entries that were written while the clock was ahead are as old as those behind them, and all of them at least as old as this process knows them.
        """
        store, log, snapshot = self._store, database.log, database.snapshot()
        wall, now = store.clock.wall(), store.clock.monotonic()
        retention = store.log_retention / store.reclamation.divisor
        oldest = log.oldest(snapshot)
        if oldest is None or oldest.lsn == log.last_lsn:
            return None
        ahead = self._ahead.pop(database, None) if oldest.wall_ms > (wall + AHEAD) * 1000 else None
        first = oldest.lsn if ahead is None else max(oldest.lsn, ahead.end)
        end, looked = log.find_old(snapshot, first, (wall - retention) * 1000, (wall + AHEAD) * 1000, PRUNE_BATCH)
        if oldest.wall_ms > (wall + AHEAD) * 1000:
            if ahead is not None and ahead.since + retention <= now:
                end = max(end, ahead.end)
            if end and ahead is not None:
                self._ahead[database] = ahead  # what is behind is looked at when these are gone
            elif not end:
                self._ahead[database] = _Ahead(looked, now if ahead is None or ahead.end < looked else ahead.since)
        if end:
            end = self._published_end(database, end, oldest.lsn)
            if not end:
                return None
        return end or (None if looked - first < PRUNE_BATCH else 0)

    def _published_end(self, database: Database, end: int, oldest: int) -> int:
        """The LSN before which old entries have been published too, 0: none has."""
        first = database.unpublished_from
        if first is None or end <= first:
            self._unpublished.discard(database)
            return end
        if database not in self._unpublished:
            self._unpublished.add(database)
            logger.warning(
                "database %s: its log is kept for longer than logging.auditRetention says: what other nodes have not got yet begins with entry %d",
                database.name,
                first,
            )
        return first if first > oldest else 0

    def _note_figures(self, database: Database) -> bool:
        """Read what has come into the log, for what is said of it; True if time ran out."""
        now = self._store.clock.monotonic()
        if now < self._next_figures.get(database, 0.0):
            return False
        steps = self._figures.pop(database, None) or database.figures.steps()
        if not self._may_go_on():
            self._figures[database] = steps
            return True
        for _ in steps:
            if not self._may_go_on():
                self._figures[database] = steps
                return True
        self._next_figures[database] = now + FIGURES_INTERVAL
        row = database.figures.to_save(database.generation)
        if row is not None and self._leads:
            database.writer(wait=False).put(FIGURES_KEY, row, True, True, False, database.definitions)
            database.env.touch()
            self._commit(database)
            database.figures.saved()
        return False

    # -- files of blobs

    def _remove_files(self, database: Database) -> bool:
        """Remove the files to which neither a record nor the log refers any more; True if time ran out."""
        now_ms = self._store.clock.wall() * 1000
        while True:
            oldest = _first_lsn(database)
            if not database.ledger.has_due(database.snapshot(), oldest, now_ms):
                return False
            if not self._may_go_on():
                return True
            try:
                removing = BlobFilesLock(database.env.path, alone=True)
            except OSError:
                return False  # a backup reads them: there is time for this when it is done
            try:
                database.writer(wait=False)
                self._forget_files(database, oldest, now_ms)
            finally:
                removing.close()

    def _forget_files(self, database: Database, oldest: int, now_ms: float) -> None:
        child = database.env.child()
        try:
            numbers = database.ledger.forget(child, oldest, now_ms, REMOVE_BATCH)
        except BaseException:
            child.abort()
            raise
        database.env.commit_child(child)
        self._commit(database)
        # After the commit: a file that then stays is one for the sweep, a row without a file would be damage.
        for number in numbers:
            database.blobs.remove(number)

    def _sweep(self, database: Database) -> bool:
        """Search for orphaned files; True if there are more files to check."""
        now = self._store.clock.monotonic()
        sweep = self._sweeps.get(database)
        if sweep is None:
            if now < self._next_sweep.get(database, 0.0):
                return False
            sweep = self._sweeps[database] = Sweep(database.blobs, partial(_knows, database))
        try:
            removing = BlobFilesLock(database.env.path, alone=True)
        except OSError:
            return False  # a restore has put files there that no record refers to yet, or a backup reads them
        try:
            while sweep.step():
                if not self._may_go_on():
                    return True
        finally:
            removing.close()
        del self._sweeps[database]
        self._asked_sweeps.discard(database)
        self._next_sweep[database] = now + SWEEP_INTERVAL
        return False


def _behind(items: list[T], last: T | None) -> list[T]:
    """The items in their order, beginning behind `last` if that is one of them."""
    if last is None or last not in items:
        return items
    place = items.index(last) + 1
    return items[place:] + items[:place]


def _is_at_rest(table: Table, stored: bytes) -> bool:
    """Whether no process is fetching this record from its source."""
    return stored not in table.loading and not table.database.fetch_locks.is_locked(table.number, stored)


def _first_lsn(database: Database) -> int:
    """LSN with which the log begins."""
    oldest = database.log.oldest(database.snapshot())
    return 0 if oldest is None else oldest.lsn


def _knows(database: Database, number: int, fresh: bool) -> bool:
    if fresh:
        database.env.end_snapshot()
    return database.ledger.knows(database.snapshot(), number)
