"""Live queries: who subscribed to what, and what becomes of a commit.

    commit -> entries -> one change for each record -> the results it may concern (`filing`, `chains`) -> their subscribers

Equal queries of callers who may see the same are one result. The entries of one commit are worked off together; what takes longer than INLINE_SECONDS
seconds goes on in the slices that all long work shares, and commits that come meanwhile wait in a backlog. If that becomes too long, nothing of it
is told: results begin anew or are run again, and clients hear of that.

Rights are asked again when an account or a role has changed, and at least every RECHECK seconds: in slices, but of a subscriber that takes events
before its turn at once, so that nobody is told of a commit that came after the change. Definitions are compared with each commit and once a
second. Whoever gets another result for his query from that begins anew.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Protocol

from svc.auth.roles import rights
from svc.auth.users import User, concerns_rights
from svc.clock import Clock
from svc.errors import AccessViolation, IndexRebuilding, Overloaded, Problem
from svc.query.authorization import narrow_query
from svc.query.definition_cache import Definitions
from svc.query.nodes import Query, Select, SelectItem
from svc.query.relations import Lookups
from svc.query.select import enumerable_select
from svc.realtime.commit_feed import CommitFeed
from svc.realtime.event import EndReason
from svc.realtime.live.aggregate_result import AggregateResult
from svc.realtime.live.commits import WRITES, RecordChange, change_of, needs_snapshot
from svc.realtime.live.materialized_result import MaterializedResult
from svc.realtime.live.query_spec import STATELESS, Chain, LiveQuerySpec, concerned
from svc.realtime.live.recomputed_result import INLINE_SECONDS, RecomputedResult, ResultWorkers, TurnScheduler
from svc.realtime.live.result import LiveResult, StatelessResult
from svc.realtime.live.subscription import LiveSubscription
from svc.realtime.live.subscription_index import SubscriptionIndex
from svc.store import Database, LogEntry, Store, Table
from svc.store.env import Txn
from svc.store.system import SYSTEM

logger = logging.getLogger("svc.realtime")

MAX_SUBSCRIPTIONS = 100_000  # of one process: each takes 1-2 KB while it waits
MAX_RESULTS = 20_000  # different live queries
MAX_ROWS = 2_000_000  # whose keys are kept for all results together, about 300 bytes each
RESULTS_PER_STEP = 128  # that are told of one record between two looks at the clock
MAX_BACKLOG = 20_000  # entries that wait to be looked at, in one database
SWEEP = 1.0  # seconds between two looks at definitions
RECHECK = 60.0  # seconds between two looks at rights (realtime §1, rule 7)

NEW_SHAPE = "The table or its attributes have changed"
NEW_RIGHTS = "What may be read has changed"


class Users(Protocol):
    def get_user(self, username: str) -> User | None: ...

    def refresh(self) -> None:
        """Hear of what other processes have changed."""


class _FollowedTable:
    """What is filed for a table, and which results read it as a related one."""

    __slots__ = ("definitions", "filing", "related", "table")

    def __init__(self, table: Table) -> None:
        self.table = table
        self.definitions = Definitions(table)
        self.filing: SubscriptionIndex[LiveResult] = SubscriptionIndex(table)
        self.related: dict[LiveResult, list[Chain]] = {}

    @property
    def is_empty(self) -> bool:
        return not len(self.filing) and not self.related


class _FollowedDatabase:
    __slots__ = ("backlog", "database", "position", "tables", "waiting")

    def __init__(self, database: Database) -> None:
        self.database = database
        self.tables: dict[str, _FollowedTable] = {}
        self.backlog: deque[list[LogEntry]] = deque()
        self.waiting = 0  # entries in it
        self.position = 0  # LSN up to which everything has been looked at


class LiveQueries:
    """Used on the thread of `loop` alone."""

    def __init__(self, store: Store, feed: CommitFeed, loop: asyncio.AbstractEventLoop, clock: Clock, users: Users | None) -> None:
        """`users` None: users do not change."""
        self.store = store
        self.now = clock.monotonic
        self._feed = feed
        self._turns = TurnScheduler(loop, clock, store.slices)
        self._workers = ResultWorkers(self._turns)
        self._users = users
        self._followed: dict[Database, _FollowedDatabase] = {}
        self._results: dict[Any, LiveResult] = {}
        self._subscriptions: dict[LiveSubscription, None] = {}
        self._homeless: dict[LiveSubscription, None] = {}  # wait for an index
        self._follower: asyncio.Task[None] | None = None  # works off backlogs
        self._steps: Iterator[None] | None = None
        self._sweeper: asyncio.TimerHandle | None = None
        self._rows = 0  # that are kept for all results, at the last look
        self._checked = 0.0
        self._checks: asyncio.Task[None] | None = None
        self._checks_again = False
        self._outdated: deque[LiveResult] = deque()  # their subscribers have to ask again
        self._housing: asyncio.Task[None] | None = None
        self._listens_to_accounts = False
        self.rights_generation = 0  # grows with each change of accounts and roles
        store.on_drop.append(self._dropped)

    # -- subscribing

    def subscribe(
        self,
        query: Query,
        table: Table,
        user: User | None,
        *,
        key_prefix: str | None = None,
        allow_full_scan: bool | None = False,
        check_rights: bool = True,
    ) -> LiveSubscription:
        """Follow the result of `query`. `key_prefix`, `allow_full_scan`: see `plan_query`. `check_rights` False: application code asks.

        Raises QueryError, AccessViolation; IndexRebuilding and Overloaded (503), ClientError for what cannot be followed.
        """
        if len(self._subscriptions) >= MAX_SUBSCRIPTIONS:
            raise Overloaded(f"There are {MAX_SUBSCRIPTIONS} live queries already")
        subscription = LiveSubscription(
            query, table, user, key_prefix, self._turns.later, self._gone, allow_full_scan=allow_full_scan, checks=check_rights
        )
        subscription.rights_generation = self.rights_generation
        key, narrowed = self._what(subscription)
        self._join(subscription, key, narrowed)
        self._subscriptions[subscription] = None
        if self._sweeper is None:
            self._checked = self.now()
            self._sweeper = self._turns.loop.call_later(SWEEP, self._sweep)
        if self._users is not None and not self._listens_to_accounts and SYSTEM in self.store.databases:
            self._listens_to_accounts = True
            self._feed.add(self.store.databases[SYSTEM], self._accounts_changed)
        self._begin(subscription)
        return subscription

    def __len__(self) -> int:
        return len(self._subscriptions)

    @property
    def results(self) -> int:
        """Different queries that are followed."""
        return len(self._results)

    @property
    def is_behind(self) -> bool:
        """Whether commits wait to be looked at."""
        return self._steps is not None

    @property
    def is_idle(self) -> bool:
        """Whether everything that was committed, as far as the feed has told, has been told on."""
        return (
            not any(followed.backlog for followed in self._followed.values())
            and self._steps is None
            and self._housing is None
            and self._workers.is_idle
            and not any(
                isinstance(result, RecomputedResult) and (result.is_running or result.has_work) for result in self._results.values()
            )
        )

    def close(self) -> None:
        """End all subscriptions. Harmless when done."""
        for subscription in list(self._subscriptions):
            subscription.end(EndReason.FINISHED)
        if self._dropped in self.store.on_drop:
            self.store.on_drop.remove(self._dropped)

    def _what(self, subscription: LiveSubscription) -> tuple[Any, Query]:
        """What is asked, as far as the caller may: equal keys are one result."""
        query, table, user = subscription.query, subscription.table, subscription.user
        if subscription.checks:
            may = rights(user, table.database.name, table.name)
            if not may.read:
                raise AccessViolation(user)
            if query.select is None and query.aggregate is None:
                if table.has_enumerable:
                    query = replace(query, select=enumerable_select(table))
                elif may.attributes is not None:
                    query = replace(query, select=Select((SelectItem(("*",)),)))  # which is narrowed to what may be seen
            query = narrow_query(query, table, user)
        # The text of the nodes: as values, 1 and true are equal.
        return (id(table), subscription.prefix, subscription.allow_full_scan, repr(query)), query

    def _join(self, subscription: LiveSubscription, key: Any, query: Query) -> None:
        result = self._results.get(key)
        if result is not None and not result.asked.definitions.hold(result.table):
            self._definition_changed(result.table)
            result = self._results.get(key)
        if result is None:
            result = self._make(subscription, key, query)
        subscription.key = key
        subscription.result = result
        result.subscribers[subscription] = None

    def _begin(self, subscription: LiveSubscription) -> None:
        """Work at the result of a subscription, if nobody has done so; that may end it."""
        result = subscription.result
        if isinstance(result, RecomputedResult) and not result.is_known:
            self.work(result)

    def _make(self, subscription: LiveSubscription, key: Any, query: Query) -> LiveResult:
        if len(self._results) >= MAX_RESULTS:
            raise Overloaded(f"There are {MAX_RESULTS} different live queries already")
        if self._rows > MAX_ROWS:
            raise Overloaded(f"Live queries have {MAX_ROWS} rows already")
        table = subscription.table
        database = table.database
        asked = LiveQuerySpec(query, table, subscription.prefix, subscription.allow_full_scan, database.snapshot())
        unlogged = {read for read in (table, *[database.tables[chain[-1].target.name] for chain in asked.chains]) if not read.audit}
        if unlogged:  # what a record was is in the log only (realtime §1, rule 6)
            for read in unlogged:
                database.define_table(replace(read.definition, audit=True))
            asked = LiveQuerySpec(query, table, subscription.prefix, subscription.allow_full_scan, database.snapshot())
        result: LiveResult
        if asked.mode == STATELESS:
            result = StatelessResult(self, asked, key)
        else:
            result = AggregateResult(self, asked, key) if query.aggregate is not None else MaterializedResult(self, asked, key)
        followed = self._followed.get(database)
        if followed is None:
            followed = _FollowedDatabase(database)
            followed.position = self._feed.add(database, self._committed)
            self._followed[database] = followed
        self._table(followed, table).filing.add(result, asked.predicate)
        for chain in asked.chains:
            self._table(followed, chain[-1].target).related.setdefault(result, []).append(chain)
        self._results[key] = result
        if isinstance(result, RecomputedResult):
            result.position = followed.position
        return result

    @staticmethod
    def _table(followed: _FollowedDatabase, table: Any) -> _FollowedTable:
        found = followed.tables.get(table.name)
        if found is None:
            found = followed.tables[table.name] = _FollowedTable(table)
        return found

    def left(self, result: LiveResult) -> None:
        """A subscriber of a result has gone."""
        if not result.subscribers:
            self._end(result)

    def _gone(self, subscription: LiveSubscription) -> None:
        """A subscription has ended."""
        self._subscriptions.pop(subscription, None)
        self._homeless.pop(subscription, None)
        self._rest()

    def _end(self, result: LiveResult) -> None:
        if self._results.get(result.key) is result:
            del self._results[result.key]
        result.close()
        if isinstance(result, RecomputedResult):
            self._workers.forget(result)
        database = result.table.database
        followed = self._followed.get(database)
        if followed is None:
            return
        for name, table in list(followed.tables.items()):
            table.filing.remove(result)
            table.related.pop(result, None)
            if table.is_empty:
                del followed.tables[name]
        if not followed.tables:
            del self._followed[database]
            self._feed.remove(database, self._committed)

    def _rest(self) -> None:
        """Nobody is there any more: nothing is to be done now and then."""
        if not self._subscriptions:
            if self._sweeper is not None:
                self._sweeper.cancel()
                self._sweeper = None
            if self._listens_to_accounts:
                self._listens_to_accounts = False
                database = self.store.databases.get(SYSTEM)
                if database is not None:
                    self._feed.remove(database, self._accounts_changed)

    def work(self, result: RecomputedResult) -> None:
        """Bring a result up to date."""
        self._workers.work(result)

    def work_later(self, result: RecomputedResult) -> None:
        """The same in the next turn."""
        self._turns.later(lambda: self._workers.work(result))

    # -- commits

    def position(self, database: Database) -> int:
        """The LSN up to which everything that was told has been looked at."""
        followed = self._followed.get(database)
        return 0 if followed is None else followed.position

    @contextmanager
    def newest(self, database: Database) -> Iterator[Txn]:
        """A snapshot for some work now that has all that was told of."""
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

    def _committed(self, database: Database, entries: list[LogEntry]) -> None:
        followed = self._followed.get(database)
        if followed is None:
            return
        if followed.waiting + len(entries) > MAX_BACKLOG and followed.backlog:
            logger.warning("live queries of %s begin anew: more than %d log entries wait for them", database.name, MAX_BACKLOG)
            self._lose(followed, entries[-1].lsn)
            return
        if len(entries) == 1 and self._steps is None and self._tell_single(followed, entries[0]):
            return
        followed.backlog.append(entries)
        followed.waiting += len(entries)
        if self._steps is None:
            self._steps = self._follow()
        elif self._follower is not None:
            return
        if not self._advance(self.now() + INLINE_SECONDS):
            self._follower = self._turns.spawn(self._follow_on())

    def _advance(self, end: float) -> bool:
        """Work off backlogs until `end`; True when there is nothing left."""
        now, steps = self.now, self._steps
        assert steps is not None
        for _ in steps:
            if now() >= end:
                return False
        self._steps = None
        return True

    async def _follow_on(self) -> None:
        slices = self._turns.slices
        while self._steps is not None and not self._advance(await slices.take()):
            pass
        self._follower = None
        if any(followed.backlog for followed in self._followed.values()) and self._steps is None:
            self._steps = self._follow()
            self._follower = self._turns.spawn(self._follow_on())

    def _lose(self, followed: _FollowedDatabase, lsn: int) -> None:
        """Too much waits: tell nothing of it but that."""
        followed.backlog.clear()
        followed.waiting = 0
        followed.position = lsn
        results = {result for table in followed.tables.values() for result in (*table.filing, *table.related)}
        for result in results:
            result.lose()
            result.finish(lsn)

    def _follow(self) -> Generator[None, None, None]:
        """Work off what was committed, in steps."""
        while True:
            followed = next((followed for followed in self._followed.values() if followed.backlog), None)
            if followed is None:
                return
            entries = followed.backlog.popleft()
            followed.waiting -= len(entries)
            try:
                yield from self._tell(followed, entries)
            except Exception as error:
                self._tell_failed(followed, entries[-1].lsn, error)
            yield

    def _tell_failed(self, followed: _FollowedDatabase, lsn: int, error: Exception) -> None:
        """Nothing is lost in silence."""
        why = error.message if isinstance(error, Problem) else "a defect"
        logger.error(
            "live queries of %s begin anew: %s", followed.database.name, why, exc_info=None if isinstance(error, Problem) else error
        )
        self._lose(followed, lsn)

    def _tell_single(self, followed: _FollowedDatabase, entry: LogEntry) -> bool:
        """The frequent commit, of one record that few queries may concern, in one go; False if it is another one. Half the cost of `_tell`."""
        lsn = entry.lsn
        table = followed.tables.get(entry.table)
        if table is not None and entry.kind in WRITES and table.table.number == entry.table_number:
            filing = table.filing
            if table.related or filing.always > RESULTS_PER_STEP or not table.definitions.hold(table.table):
                return False
            try:
                change = self._change_of(table.table, entry, entry)
                if not change.is_known:
                    return False
                found = self._concerned_by(filing, change, entry.changed)
                if len(found) > RESULTS_PER_STEP:
                    return False
                for result in found:
                    result.change(change)
                followed.position = max(followed.position, lsn)
                for result in found:
                    if not result.is_closed:
                        result.finish(lsn)
            except Exception as error:
                self._tell_failed(followed, lsn, error)
        followed.position = max(followed.position, lsn)
        return True

    def _change_of(self, table: Table, first: LogEntry, last: LogEntry) -> RecordChange:
        if not needs_snapshot(last):
            return change_of(table, first, last, None)
        with self.newest(table.database) as txn:
            return change_of(table, first, last, txn)

    @staticmethod
    def _concerned_by(
        filing: SubscriptionIndex[LiveResult], change: RecordChange, changed: tuple[str, ...] | None
    ) -> dict[LiveResult, None]:
        """The results that a change may concern. `changed`: the attributes that differ, None if that is not known."""
        found: dict[LiveResult, None] = {}
        filing.find_always(found)
        filing.find_by_key(change.key, found)
        raws = change.raws
        if len(raws) == 2 and changed is not None and not filing.reads(changed):
            del raws[0]  # it would be found in the same places
        for raw in raws:
            filing.find_by_values(raw, found)
        return found

    def _tell(self, followed: _FollowedDatabase, entries: list[LogEntry]) -> Generator[None, None, None]:
        """One commit, or a piece of a long one."""
        tables = followed.tables
        records: dict[tuple[int, bytes], tuple[LogEntry, LogEntry]] = {}  # the first and the last entry of each record
        for entry in entries:
            if entry.table in tables and entry.kind in WRITES:
                place = (entry.table_number, entry.key)
                known = records.pop(place, None)
                records[place] = (entry if known is None else known[0], entry)
        for name in {entry.table for _, entry in records.values()}:
            table = tables.get(name)
            if table is not None and not table.definitions.hold(table.table):
                self._definition_changed(table.table)
        concerned_results: dict[LiveResult, None] = {}
        for first, last in records.values():
            table = tables.get(last.table)
            if table is None or table.table.number != last.table_number:
                continue
            yield from self._tell_record(table, first, last, concerned_results)
            yield
        lsn = entries[-1].lsn
        followed.position = max(followed.position, lsn)
        for result in concerned_results:
            if not result.is_closed:
                result.finish(lsn)
                yield

    def _tell_record(
        self, followed: _FollowedTable, first: LogEntry, last: LogEntry, told: dict[LiveResult, None]
    ) -> Generator[None, None, None]:
        table = followed.table
        change = self._change_of(table, first, last)
        filing = followed.filing
        if len(filing):
            found = self._concerned_by(filing, change, None) if change.is_known else dict.fromkeys(filing)
            told.update(found)
            for at, result in enumerate(found, 1):
                if not result.is_closed:
                    result.change(change)
                if not at % RESULTS_PER_STEP:
                    yield
        for result, chains in list(followed.related.items()):
            if result.is_closed:
                continue
            told[result] = None
            if not change.is_known or not isinstance(result, MaterializedResult):
                result.concern(None)
                continue
            with self.newest(table.database) as txn:
                lookups = Lookups(txn)
                for chain in chains:
                    result.concern(concerned(chain, change.raws, lookups))
            yield

    # -- what else may change

    def _accounts_changed(self, database: Database, entries: list[LogEntry]) -> None:
        if self._users is not None:
            self._users.refresh()  # it may be a sibling's commit
        if any(concerns_rights(entry) for entry in entries):
            self.rights_generation += 1
            self._turns.later(self._check_soon)

    def _sweep(self) -> None:
        """About once a second, while anybody is subscribed."""
        self._sweeper = None
        self._rows = sum([result.size for result in self._results.values() if isinstance(result, RecomputedResult)])
        for followed in list(self._followed.values()):
            for table in list(followed.tables.values()):
                if not table.definitions.hold(table.table):
                    self._definition_changed(table.table)
        self._house_soon()
        if self.now() - self._checked >= RECHECK:
            self._check_soon()
        if self._subscriptions and self._sweeper is None:
            self._sweeper = self._turns.loop.call_later(SWEEP, self._sweep)

    def _dropped(self, table: Table) -> None:
        followed = self._followed.get(table.database)
        known = None if followed is None else followed.tables.get(table.name)
        if known is not None and known.table is table:
            self._ask_again([*known.filing, *known.related])

    def _definition_changed(self, table: Table) -> None:
        followed = self._followed.get(table.database)
        known = None if followed is None else followed.tables.get(table.name)
        if known is not None:
            self._ask_again([*known.filing, *known.related])

    def _ask_again(self, results: list[LiveResult]) -> None:
        """End these results. What they were asked for is asked again, in slices."""
        for result in results:
            if not result.is_closed:
                result.close()
                self._results.pop(result.key, None)
                self._outdated.append(result)
        self._house_soon()

    def _unhouse(self, subscription: LiveSubscription, reason: str) -> None:
        """Take a subscription from its result."""
        result = subscription.result
        if result is not None:
            subscription.reset(reason)
            subscription.result = None
            result.subscribers.pop(subscription, None)
        self._homeless[subscription] = None

    def _house_soon(self) -> None:
        if (self._homeless or self._outdated) and self._housing is None:
            self._housing = self._turns.spawn(self._house_all())

    async def _house_all(self) -> None:
        try:
            await self._turns.slices.exhaust(self._house_each())
        finally:
            self._housing = None

    def _house_each(self) -> Iterator[None]:
        while self._outdated:
            result = self._outdated.popleft()
            for subscription in list(result.subscribers):
                self._unhouse(subscription, NEW_SHAPE)
                yield
            self._end(result)
            yield
        for subscription in list(self._homeless):
            if subscription in self._homeless:
                self._house(subscription)
            yield

    def _house(self, subscription: LiveSubscription) -> None:
        """Ask again for what was asked. While an index is being built there is no result, and another time this is tried again."""
        table = subscription.table
        try:
            if table.database.tables.get(table.name) is not table:
                subscription.end(EndReason.DROPPED)
                return
            key, query = self._what(subscription)
            self._join(subscription, key, query)
        except AccessViolation:
            subscription.end(EndReason.REVOKED)
            return
        except (IndexRebuilding, Overloaded):
            subscription.wake()
            return
        except Problem:  # an attribute or a related table is gone
            subscription.end(EndReason.DROPPED)
            return
        del self._homeless[subscription]
        self._begin(subscription)
        subscription.wake()

    def _check_soon(self) -> None:
        """Look at everybody's rights, in slices."""
        if self._checks is not None:
            self._checks_again = True
            return
        self._checked = self.now()
        self._checks = self._turns.spawn(self._check_all())

    async def _check_all(self) -> None:
        try:
            await self._turns.slices.exhaust(self._check_each())
            while self._checks_again:
                self._checks_again = False
                await self._turns.slices.exhaust(self._check_each())
        finally:
            self._checks = None

    def _check_each(self) -> Iterator[None]:
        for subscription in list(self._subscriptions):
            if subscription.ended is None and subscription.checks:
                self.check_rights(subscription)
            yield

    def check_rights(self, subscription: LiveSubscription) -> None:
        """End a subscription whose user may not read any more, and give it another result if the user may see more or less now."""
        subscription.rights_generation = self.rights_generation
        user = subscription.user
        if user is not None and self._users is not None:
            current = self._users.get_user(user.username)
            if current is None or not current.active or current.login_id != user.login_id:
                subscription.end(EndReason.NO_LOGIN)  # gone, or its logins have ended
                return
            subscription.user = current
        try:
            key, _ = self._what(subscription)
        except AccessViolation:
            subscription.end(EndReason.REVOKED)
            return
        except Problem:
            return  # a definition has changed, which is seen to elsewhere
        if key != subscription.key:
            old = subscription.result
            self._unhouse(subscription, NEW_RIGHTS)
            self._house(subscription)
            if old is not None and not old.subscribers:
                self._end(old)
