"""From commits to the live results that they may concern.

    commit -> log entries -> one change for each record -> results found by `subscription_index` and `query_spec.Chain` -> their subscribers

The entries of one commit are processed together. What takes longer than INLINE_SECONDS goes on in the slices that all long work shares, and commits
that come meanwhile wait in a backlog. If the backlog becomes too long it is dropped: results are reset or run again, and clients are notified of that.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Any

from svc.errors import Problem
from svc.query.definition_cache import Definitions
from svc.query.relations import Lookups
from svc.realtime.commit_feed import CommitFeed
from svc.realtime.live.materialized_result import MaterializedResult
from svc.realtime.live.query_spec import Chain, records_leading_to
from svc.realtime.live.recomputed_result import INLINE_SECONDS, TurnScheduler
from svc.realtime.live.record_change import WRITES, RecordChange, change_of, needs_snapshot
from svc.realtime.live.result import LiveResult
from svc.realtime.live.subscription_index import SubscriptionIndex
from svc.store import Database, LogEntry, Table
from svc.store.env import Txn

logger = logging.getLogger("svc.realtime")

MAX_BACKLOG = 20_000  # log entries of one database that wait to be processed
RESULTS_PER_STEP = 128  # results notified of one record between two readings of the clock


class _FollowedTable:
    """The results that read one table. `index`: results of queries of this table. `related`: results that reach it through relationships."""

    __slots__ = ("definitions", "index", "related", "table")

    def __init__(self, table: Table) -> None:
        self.table = table
        self.definitions = Definitions(table)
        self.index: SubscriptionIndex[LiveResult] = SubscriptionIndex(table)
        self.related: dict[LiveResult, list[Chain]] = {}

    @property
    def is_empty(self) -> bool:
        return not len(self.index) and not self.related

    @property
    def readers(self) -> list[LiveResult]:
        return [*self.index, *self.related]


class _FollowedDatabase:
    __slots__ = ("backlog", "backlog_entries", "database", "position", "tables")

    def __init__(self, database: Database) -> None:
        self.database = database
        self.tables: dict[str, _FollowedTable] = {}
        self.backlog: deque[list[LogEntry]] = deque()
        self.backlog_entries = 0
        self.position = 0  # LSN up to which everything has been processed


class CommitDispatcher:
    """Used on the thread of the loop alone. `on_definition_changed(table)` is called when the definition of a followed table has changed."""

    def __init__(self, feed: CommitFeed, scheduler: TurnScheduler, on_definition_changed: Callable[[Table], None]) -> None:
        self._feed = feed
        self._scheduler = scheduler
        self._now = scheduler.now
        self._on_definition_changed = on_definition_changed
        self._followed: dict[Database, _FollowedDatabase] = {}
        self._steps: Iterator[None] | None = None  # processing the backlogs
        self._task: asyncio.Task[None] | None = None  # takes these steps

    @property
    def is_behind(self) -> bool:
        """Whether commits wait to be processed."""
        return self._steps is not None

    @property
    def is_idle(self) -> bool:
        return self._steps is None and not any(followed.backlog for followed in self._followed.values())

    # -- results

    def add(self, result: LiveResult) -> int:
        """From here on notify `result` of changes that may concern it. Returns the LSN behind which it gets them."""
        spec = result.spec
        database = spec.table.database
        followed = self._followed.get(database)
        if followed is None:
            followed = _FollowedDatabase(database)
            followed.position = self._feed.add(database, self._committed)
            self._followed[database] = followed
        _followed_table(followed, spec.table).index.add(result, spec.predicate)
        for chain in spec.chains:
            _followed_table(followed, chain[-1].target).related.setdefault(result, []).append(chain)
        return followed.position

    def find_anew(self, result: LiveResult) -> None:
        """Its conditions are others than before, on the same tables."""
        followed = self._followed.get(result.table.database)
        table = None if followed is None else followed.tables.get(result.table.name)
        if table is not None:
            table.index.remove(result)
            table.index.add(result, result.spec.predicate)

    def remove(self, result: LiveResult) -> None:
        """Harmless if it is not there."""
        database = result.table.database
        followed = self._followed.get(database)
        if followed is None:
            return
        for name, table in list(followed.tables.items()):
            table.index.remove(result)
            table.related.pop(result, None)
            if table.is_empty:
                del followed.tables[name]
        if not followed.tables:
            del self._followed[database]
            self._feed.remove(database, self._committed)

    def readers(self, table: Table) -> list[LiveResult]:
        """The results that read the table of this name, whichever definition of it they know."""
        followed = self._followed.get(table.database)
        known = None if followed is None else followed.tables.get(table.name)
        return [] if known is None else known.readers

    def readers_of_same(self, table: Table) -> list[LiveResult]:
        """The results that read this very table, not a later one of the same name."""
        followed = self._followed.get(table.database)
        known = None if followed is None else followed.tables.get(table.name)
        return known.readers if known is not None and known.table is table else []

    def check_definitions(self) -> None:
        """Report the tables whose definitions have changed."""
        for followed in list(self._followed.values()):
            for table in list(followed.tables.values()):
                if not table.definitions.hold(table.table):
                    self._on_definition_changed(table.table)

    # -- positions

    def position(self, database: Database) -> int:
        """The LSN up to which commits have been processed; 0 if no result reads the database."""
        followed = self._followed.get(database)
        return 0 if followed is None else followed.position

    @contextmanager
    def newest(self, database: Database) -> Iterator[Txn]:
        """A snapshot, for work within this turn, that has everything the feed has reported."""
        txn = database.snapshot()
        newest = database.log.newest(txn)
        if newest is not None and newest.lsn >= self._feed.position(database):
            yield txn
            return
        txn = database.open_snapshot()
        try:
            yield txn
        finally:
            txn.abort()

    # -- commits

    def _committed(self, database: Database, entries: list[LogEntry]) -> None:
        followed = self._followed.get(database)
        if followed is None:
            return
        if followed.backlog_entries + len(entries) > MAX_BACKLOG and followed.backlog:
            logger.warning("live queries of %s are reset: more than %d log entries wait to be processed", database.name, MAX_BACKLOG)
            self._invalidate(followed, entries[-1].lsn)
            return
        if len(entries) == 1 and self._steps is None and self._dispatch_single(followed, entries[0]):
            return
        followed.backlog.append(entries)
        followed.backlog_entries += len(entries)
        if self._steps is None:
            self._steps = self._process_backlogs()
        elif self._task is not None:
            return
        if not self._advance(self._now() + INLINE_SECONDS):
            self._task = self._scheduler.spawn(self._advance_in_slices())

    def _advance(self, end: float) -> bool:
        """Process backlogs until the clock is at `end`; True when nothing is left."""
        now, steps = self._now, self._steps
        assert steps is not None
        for _ in steps:
            if now() >= end:
                return False
        self._steps = None
        return True

    async def _advance_in_slices(self) -> None:
        slices = self._scheduler.slices
        while self._steps is not None and not self._advance(await slices.take()):
            pass
        self._task = None
        if any(followed.backlog for followed in self._followed.values()) and self._steps is None:
            self._steps = self._process_backlogs()
            self._task = self._scheduler.spawn(self._advance_in_slices())

    def _process_backlogs(self) -> Generator[None, None, None]:
        while True:
            followed = next((followed for followed in self._followed.values() if followed.backlog), None)
            if followed is None:
                return
            entries = followed.backlog.popleft()
            followed.backlog_entries -= len(entries)
            try:
                yield from self._dispatch(followed, entries)
            except Exception as error:
                self._failed(followed, entries[-1].lsn, error)
            yield

    def _invalidate(self, followed: _FollowedDatabase, lsn: int) -> None:
        """Drop the backlog: all results are reset or run again."""
        followed.backlog.clear()
        followed.backlog_entries = 0
        followed.position = lsn
        results = {result for table in followed.tables.values() for result in table.readers}
        for result in results:
            result.invalidate()
            result.end_commit(lsn)

    def _failed(self, followed: _FollowedDatabase, lsn: int, error: Exception) -> None:
        """A commit could not be processed: clients are notified by a reset."""
        why = error.message if isinstance(error, Problem) else "a defect"
        logger.error(
            "live queries of %s are reset: %s", followed.database.name, why, exc_info=None if isinstance(error, Problem) else error
        )
        self._invalidate(followed, lsn)

    def _dispatch_single(self, followed: _FollowedDatabase, entry: LogEntry) -> bool:
        """Process the frequent commit, of one record that concerns few results, without steps. False if it is another one. Half the cost of
        `_dispatch`."""
        lsn = entry.lsn
        table = followed.tables.get(entry.table)
        if table is not None and entry.kind in WRITES and table.table.number == entry.table_number:
            index = table.index
            if table.related or index.unindexed > RESULTS_PER_STEP or not table.definitions.hold(table.table):
                return False
            try:
                change = self._change_of(table.table, entry, entry)
                if not change.is_known:
                    return False
                found = _concerned_by(index, change, entry.changed)
                if len(found) > RESULTS_PER_STEP:
                    return False
                for result in found:
                    result.record_changed(change)
                followed.position = max(followed.position, lsn)
                for result in found:
                    if not result.is_closed:
                        result.end_commit(lsn)
            except Exception as error:
                self._failed(followed, lsn, error)
        followed.position = max(followed.position, lsn)
        return True

    def _change_of(self, table: Table, first: LogEntry, last: LogEntry) -> RecordChange:
        if not needs_snapshot(last):
            return change_of(table, first, last, None)
        with self.newest(table.database) as txn:
            return change_of(table, first, last, txn)

    def _dispatch(self, followed: _FollowedDatabase, entries: list[LogEntry]) -> Generator[None, None, None]:
        """Process one commit, or a piece of a long one, in steps."""
        tables = followed.tables
        records: dict[tuple[int, bytes], tuple[LogEntry, LogEntry]] = {}  # the first and the last entry of each record
        for entry in entries:
            if entry.table in tables and entry.kind in WRITES:
                record = (entry.table_number, entry.key)
                known = records.pop(record, None)
                records[record] = (entry if known is None else known[0], entry)
        for name in {entry.table for _, entry in records.values()}:
            table = tables.get(name)
            if table is not None and not table.definitions.hold(table.table):
                self._on_definition_changed(table.table)
        notified: dict[LiveResult, None] = {}
        for first, last in records.values():
            table = tables.get(last.table)
            if table is None or table.table.number != last.table_number:
                continue
            yield from self._dispatch_record(table, first, last, notified)
            yield
        lsn = entries[-1].lsn
        followed.position = max(followed.position, lsn)
        for result in notified:
            if not result.is_closed:
                result.end_commit(lsn)
                yield

    def _dispatch_record(
        self, followed: _FollowedTable, first: LogEntry, last: LogEntry, notified: dict[LiveResult, None]
    ) -> Generator[None, None, None]:
        table, index = followed.table, followed.index
        change = self._change_of(table, first, last)
        if len(index):
            found = _concerned_by(index, change, None) if change.is_known else dict.fromkeys(index)
            notified.update(found)
            for count, result in enumerate(found, 1):
                if not result.is_closed:
                    result.record_changed(change)
                if not count % RESULTS_PER_STEP:
                    yield
        for result, chains in list(followed.related.items()):
            if result.is_closed:
                continue
            notified[result] = None
            if not change.is_known or not isinstance(result, MaterializedResult):
                result.related_changed(None)
                continue
            with self.newest(table.database) as txn:
                lookups = Lookups(txn)
                for chain in chains:
                    result.related_changed(records_leading_to(chain, change.raws, lookups))
            yield


def _followed_table(followed: _FollowedDatabase, table: Any) -> _FollowedTable:
    found = followed.tables.get(table.name)
    if found is None:
        found = followed.tables[table.name] = _FollowedTable(table)
    return found


def _concerned_by(index: SubscriptionIndex[LiveResult], change: RecordChange, changed: tuple[str, ...] | None) -> dict[LiveResult, None]:
    """The results that a change may concern. `changed`: the attributes that differ, None if that is not known."""
    found: dict[LiveResult, None] = {}
    index.find_unindexed(found)
    index.find_by_key(change.key, found)
    raws = change.raws
    if len(raws) == 2 and changed is not None and not index.reads(changed):
        del raws[0]  # the values before lead to the same results
    for raw in raws:
        index.find_by_values(raw, found)
    return found
