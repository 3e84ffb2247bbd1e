"""Everybody who follows records, and what they get to know of each commit (contract: realtime §1).

The hub hears of the log through the feed as long as there are subscriptions to tables of a database. For each entry it asks the index of its
table which audiences it may concern; each of these makes one event, which is appended to the queues of its subscriptions. When the entries that
came together are through, each subscription that had been waiting is told once.

Subscriptions that are not live are read for in slices, one after the other: `read_soon` puts one in line.

Rights are looked at again when users or roles have changed, and every RECHECK seconds. For changes by siblings the system database is followed too.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from svc.auth.roles import rights
from svc.auth.users import User, UserDirectory, concerns_rights
from svc.clock import Clock
from svc.errors import AccessViolation, ClientError, NotFound, Problem
from svc.query.authorization import narrow_query
from svc.query.nodes import Query
from svc.query.refusals import check_indexed
from svc.query.select import enumerable_select, validate_select
from svc.realtime.changes import Change, View
from svc.realtime.commit_feed import CommitFeed
from svc.realtime.event import EndReason
from svc.realtime.history import MAX_PAST_EVENTS, Progress
from svc.realtime.resume import first_stage
from svc.realtime.subscriber_group import MAX_MISSED, MAX_WEIGHT, SubscriberGroup, event_predicate
from svc.realtime.subscription import Subscription
from svc.realtime.subscription_request import SubscriptionRequest
from svc.realtime.targets import Target, TargetIndex, target_of
from svc.store import Database, LogEntry, Store, Table
from svc.store.env import Txn
from svc.store.slices import SLICE
from svc.store.system import SYSTEM

logger = logging.getLogger("svc.realtime")

RECHECK = 60.0  # seconds (realtime §1 rule 7)
CACHED_CHANGES = 1000  # that were read from the log, for the next subscription that reads the same
CACHED_BYTES = 4 << 20
NOTIFY_BATCH = 32  # consumers between two looks at the clock


class _Followed:
    """The subscriptions to tables of one database. `indexes`: by number of the table. `unfinished`: who is still to be told the end of a transaction.
    `position`: LSN up to which the live ones have got everything."""

    __slots__ = ("audiences", "indexes", "position", "subscriptions", "tables", "unfinished")

    def __init__(self) -> None:
        self.position = 0
        self.indexes: dict[int, TargetIndex[SubscriberGroup]] = {}
        self.tables: dict[int, Table] = {}
        self.audiences: dict[tuple[Target, Any, View], SubscriberGroup] = {}
        self.subscriptions: dict[Subscription, None] = {}
        self.unfinished: dict[SubscriberGroup, None] = {}


class Hub:
    """All subscriptions of one server instance. Used on the thread of `loop` alone."""

    def __init__(self, store: Store, feed: CommitFeed, loop: asyncio.AbstractEventLoop, clock: Clock, users: UserDirectory) -> None:
        self.loop = loop
        self.now: Callable[[], float] = clock.monotonic
        self._store = store
        self._feed = feed
        self._users = users
        self._generation = users.generation  # as of the last look at rights
        self._followed: dict[Database, _Followed] = {}
        self._follows_accounts = False
        self._rechecking: asyncio.TimerHandle | None = None
        self._line: deque[Subscription] = deque()  # of those that are to be read for
        self._reading = False  # a slice is scheduled
        self._to_tell: deque[Subscription] = deque()  # have something to take since their consumers last looked
        self._is_telling = False  # a slice is scheduled
        self._changes: dict[tuple[Table, int], Change] = {}
        self._changes_bytes = 0
        store.on_drop.append(self._dropped)

    def __len__(self) -> int:
        return sum(len(followed.subscriptions) for followed in self._followed.values())

    # -- subscribing

    def subscribe(self, request: SubscriptionRequest, listener: Callable[[Any], Any] | None = None) -> Subscription:
        """`listener`: called with each event, in place of whoever takes or iterates.

        Raises AccessViolation, NotFound, QueryError and other Problems for what cannot be subscribed to.
        """
        table = request.table
        database = table.database
        if database.tables.get(table.name) is not table:
            raise NotFound(f"Table '{database.name}.{table.name}' does not exist")
        target = target_of(request)
        _check_options(request, target)
        if request.where is not None:
            predicate = event_predicate(request.where, table)
            if not request.allow_full_scan and target.is_table:
                check_indexed(predicate, table)
        if request.select is not None:
            validate_select(request.select, table)
        view = self._view(request, request.user)
        followed = self._follow(database)
        try:
            subscription = Subscription(self, request, self._audience(followed, table, target, request, view))
            subscription.stages.append(first_stage(subscription, request, target))
            if not table.audit:
                table.keep_images()
        except BaseException:
            self._tidy(database, followed)
            raise
        subscription.audience.members += 1
        followed.subscriptions[subscription] = None
        self._watch_rights()
        # What is little comes with the first look.
        progress = self._read(subscription, self.now() + SLICE) if target.is_record or request.omit_current else Progress.MORE
        if progress is Progress.MORE or progress is Progress.HASTE:
            self.read_soon(subscription)
        if listener is not None:
            subscription.on("data", listener)
        return subscription

    def _view(self, request: SubscriptionRequest, user: User | None) -> View:
        """How this user may see what was asked for. Raises AccessViolation."""
        table = request.table
        select = request.select
        if select is None and not request.raw_events and table.has_enumerable:
            select = enumerable_select(table)
        visible = None
        if request.check_rights:
            may = rights(user, table.database.name, table.name)
            if not may.read:
                raise AccessViolation(user)
            visible = None if may.attributes is None else may.readable
            if request.where is not None or select is not None:
                select = narrow_query(Query(request.where, select), table, user).select
        return View(table, select, visible, raw=request.raw_events, transactions=request.supports_transactions)

    def _audience(self, followed: _Followed, table: Table, target: Target, request: SubscriptionRequest, view: View) -> SubscriberGroup:
        place = (target, request.where, view)
        audience = followed.audiences.get(place)
        if audience is None:
            audience = SubscriberGroup(target, request.where, view)
            followed.audiences[place] = audience
            index = followed.indexes.get(table.number)
            if index is None:
                index = followed.indexes[table.number] = TargetIndex()
                followed.tables[table.number] = table
            index.add(target, audience)
        return audience

    def _leave(self, followed: _Followed, audience: SubscriberGroup, request: SubscriptionRequest) -> None:
        audience.members -= 1
        if not audience.members:
            self._remove(followed, audience, (audience.target, request.where, audience.view))

    @staticmethod
    def _remove(followed: _Followed, audience: SubscriberGroup, place: tuple[Target, Any, View]) -> None:
        del followed.audiences[place]
        followed.unfinished.pop(audience, None)
        number = audience.view.table.number
        index = followed.indexes[number]
        index.remove(audience.target, audience)
        if not index:
            del followed.indexes[number], followed.tables[number]

    # -- following databases

    def _follow(self, database: Database) -> _Followed:
        followed = self._followed.get(database)
        if followed is None:
            position = self._feed.add(database, self._told)
            followed = self._followed[database] = _Followed()
            followed.position = position
        return followed

    def _tidy(self, database: Database, followed: _Followed) -> None:
        """Stop following a database without subscriptions; audiences that nobody joined go."""
        for place, audience in list(followed.audiences.items()):
            if not audience.members:
                self._remove(followed, audience, place)
        if not followed.subscriptions and self._followed.get(database) is followed:
            del self._followed[database]
            self._feed.remove(database, self._told)
        if not self._followed:
            self._stop_watching()

    def forget(self, subscription: Subscription) -> None:
        """It has ended."""
        database = subscription.table.database
        followed = self._followed.get(database)
        if followed is None or subscription not in followed.subscriptions:
            return
        del followed.subscriptions[subscription]
        audience = subscription.audience
        audience.live.pop(subscription, None)
        audience.behind.pop(subscription, None)
        self._leave(followed, audience, subscription.request)
        self._tidy(database, followed)

    def position(self, database: Database) -> int:
        """LSN up to which live subscriptions have got everything."""
        return self._feed.position(database)

    def has_told(self, database: Database, lsn: int) -> bool:
        """Whether what live subscriptions have got ends with this entry; what is committed by now is told first."""
        position = self._feed.position(database)
        if position < lsn:
            self._feed.catch_up(database)
            position = self._feed.position(database)
        return position == lsn

    # -- what is committed

    def _told(self, database: Database, entries: list[LogEntry]) -> None:
        followed = self._followed.get(database)
        if followed is None:
            return
        if entries[0].lsn != followed.position + 1 or entries[-1].lsn - entries[0].lsn >= len(entries):
            self._lost(database, followed)
        followed.position = entries[-1].lsn
        indexes = followed.indexes
        ready: list[Subscription] = []
        full: list[Subscription] = []
        unfinished = followed.unfinished
        for entry in entries:
            index = indexes.get(entry.table_number)
            if index is None:
                continue
            audiences = index.concerned(entry.key)
            if not audiences:
                continue
            change = Change(followed.tables[entry.table_number], entry, database.snapshot())
            for audience in audiences:
                if audience.view.transactions:
                    self._tell_in_transaction(audience, change, ready, full)
                    unfinished[audience] = None
                    continue
                event = audience.event(change)
                if event is not None:
                    audience.spread(event, ready, full)
        if unfinished:
            self._end_transactions(database, entries[-1], unfinished, ready, full)
        if ready:
            self._to_tell.extend(ready)
            if not self._is_telling:
                self._tell()
        for subscription in dict.fromkeys(full):
            if subscription.missed > MAX_MISSED:
                subscription.finish(EndReason.TOO_SLOW)
            elif subscription.weight > MAX_WEIGHT and subscription.ended is None:
                subscription.fall_behind()

    @staticmethod
    def _lost(database: Database, followed: _Followed) -> None:
        """What a sibling had written was removed from the log before it was read: nobody can say whom that concerned."""
        logger.warning("entries of the log of %s were removed before they were told, live subscriptions end", database.name)
        for audience in list(followed.audiences.values()):
            for subscription in list(audience.live):
                subscription.finish(EndReason.TOO_SLOW)

    def _tell(self) -> None:
        """Tell those who wait that there is something to take, for the length of a slice; the rest in the next turn. What they take they send at
        the end of the turn, which takes as long again."""
        self._is_telling = False
        line, end = self._to_tell, self.now() + SLICE
        while line:
            for _ in range(min(len(line), NOTIFY_BATCH)):
                line.popleft().signal()
            if line and self.now() >= end:
                self._is_telling = True
                self.loop.call_soon_threadsafe(self._tell)
                return

    @staticmethod
    def _tell_in_transaction(audience: SubscriberGroup, change: Change, ready: list[Subscription], full: list[Subscription]) -> None:
        before = audience.unfinished
        begins = before is None or before.transaction != change.transaction
        event = audience.event(change, begin_txn=begins)
        if event is None:
            return
        if begins and before is not None:
            audience.spread(before.end(audience.view), ready, full)
        audience.unfinished = change
        audience.spread(event, ready, full)

    @staticmethod
    def _end_transactions(
        database: Database, last: LogEntry, audiences: dict[SubscriberGroup, None], ready: list[Subscription], full: list[Subscription]
    ) -> None:
        """Of a long commit this may be a piece: the log knows whether the transaction goes on."""
        snapshot = database.env.open_snapshot()  # that of the turn may be older
        following = database.log.get(snapshot, last.lsn + 1)
        snapshot.abort()
        going_on = following is not None and following.transaction == last.transaction
        for audience in list(audiences):
            change = audience.unfinished
            if change is None:
                del audiences[audience]
            elif not (going_on and change.transaction == last.transaction):
                del audiences[audience]
                audience.unfinished = None
                audience.spread(change.end(audience.view), ready, full)

    # -- reading

    def read_soon(self, subscription: Subscription) -> None:
        """Let a subscription that is not live read on, when it is its turn."""
        if not subscription.is_reading:
            subscription.is_reading = True
            self._line.append(subscription)
        self._schedule()

    def _schedule(self) -> None:
        if not self._reading and self._line:
            self._reading = True
            self.loop.call_soon_threadsafe(self._read_line)

    def _read_line(self) -> None:
        """One slice for those in the line."""
        self._reading = False
        end = self.now() + SLICE
        while self._line:
            subscription = self._line.popleft()
            subscription.is_reading = False
            progress = self._read(subscription, end)
            if progress is Progress.MORE or progress is Progress.HASTE:
                subscription.is_reading = True
                if progress is Progress.MORE:
                    self._line.append(subscription)
                else:
                    self._line.appendleft(subscription)
            if self.now() >= end:
                break
        self._schedule()

    def _read(self, subscription: Subscription, end: float) -> Progress:
        progress = Progress.DONE
        try:
            progress = subscription.read(end)
        except Problem as problem:
            logger.error("a subscription to %s ends: %s", subscription.table.name, problem.message)
            subscription.finish(EndReason.FAILED)
        except Exception:
            logger.exception("a subscription to %s ends", subscription.table.name)
            subscription.finish(EndReason.FAILED)
        if subscription.waiting and subscription.has_something:
            subscription.signal()
        return progress

    def change(self, table: Table, entry: LogEntry, txn: Txn) -> Change:
        """The change of an entry that was read: those who read the same part of the log share events, and their encoded forms."""
        place = (table, entry.lsn)
        change = self._changes.get(place)
        if change is None:
            change = Change(table, entry, txn)
            self._changes_bytes += change.size
            if len(self._changes) >= CACHED_CHANGES or self._changes_bytes > CACHED_BYTES:
                self._changes.clear()
                self._changes_bytes = change.size
            self._changes[place] = change
        return change

    # -- rights

    def _watch_rights(self) -> None:
        if not self._follows_accounts:
            self._follows_accounts = True
            self._generation = self._users.generation
            self._feed.add(self._store.databases[SYSTEM], self._accounts_told)
        if self._rechecking is None:
            self._rechecking = self.loop.call_later(RECHECK, self._recheck_again)

    def _stop_watching(self) -> None:
        if self._follows_accounts:
            self._follows_accounts = False
            self._feed.remove(self._store.databases[SYSTEM], self._accounts_told)
        if self._rechecking is not None:
            self._rechecking.cancel()
            self._rechecking = None

    def _accounts_told(self, database: Database, entries: list[LogEntry]) -> None:
        self._users.refresh()  # it may be a sibling's commit
        if any(concerns_rights(entry) for entry in entries):
            self.recheck()

    def _recheck_again(self) -> None:
        self._rechecking = None
        self.recheck()
        if self._followed:
            self._rechecking = self.loop.call_later(RECHECK, self._recheck_again)

    def recheck(self) -> None:
        """End the subscriptions of those who may not read any more, and show the others what they may see now."""
        self._generation = self._users.generation
        users: dict[str, User | None] = {}
        for followed in list(self._followed.values()):
            for subscription in list(followed.subscriptions):
                if subscription.request.check_rights:
                    self._recheck_one(followed, subscription, users)

    def _recheck_one(self, followed: _Followed, subscription: Subscription, users: dict[str, User | None]) -> None:
        request = subscription.request
        name = request.user.username if request.user is not None else ""
        if name not in users:
            users[name] = self._users.get_user(name)
        user = users[name]
        if user is None or not user.active or (request.user is not None and user.login_id != request.user.login_id):
            subscription.finish(EndReason.NO_LOGIN)  # gone, or its logins have ended
            return
        try:
            view = self._view(request, user)
        except AccessViolation:
            subscription.finish(EndReason.REVOKED)
            return
        except Problem as problem:  # an attribute it selects by is gone
            logger.error("a subscription to %s ends: %s", request.table.name, problem.message)
            subscription.finish(EndReason.FAILED)
            return
        before = subscription.audience
        if view != before.view:
            audience = self._audience(followed, request.table, before.target, request, view)
            audience.members += 1
            subscription.see_as(audience)
            if before.unfinished is not None and audience.unfinished is None:
                audience.unfinished = before.unfinished
                followed.unfinished[audience] = None
            self._leave(followed, before, request)
        if user is not request.user:
            subscription.request = replace(request, user=user)

    # -- ends

    def _dropped(self, table: Table) -> None:
        followed = self._followed.get(table.database)
        if followed is not None:
            for subscription in [each for each in followed.subscriptions if each.table is table]:
                subscription.finish(EndReason.DROPPED)

    def close(self) -> None:
        """The server stops: end all subscriptions."""
        for followed in list(self._followed.values()):
            for subscription in list(followed.subscriptions):
                subscription.finish(EndReason.FINISHED)
        if self._dropped in self._store.on_drop:
            self._store.on_drop.remove(self._dropped)


def _check_options(request: SubscriptionRequest, target: Target) -> None:
    """Raise ClientError for what makes no sense together."""
    count = request.previous_count
    if count is not None:
        if type(count) is not int or count < 0:
            raise ClientError("previous_count must be a number of events")
        if count > MAX_PAST_EVENTS:
            raise ClientError(f"previous_count can be {MAX_PAST_EVENTS} at most")
        if request.start_time is not None and not target.is_record:
            raise ClientError("start_time and previous_count together are possible for a single record only")
