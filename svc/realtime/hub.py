"""All subscriptions to records, and the delivery of each commit to them (spec: realtime §1).

The hub follows the log through the feed as long as there are subscriptions to tables of a database. For each log entry the index of its table finds
the groups that it may concern; each group makes one event, which is appended to the queues of its subscriptions. When all entries that came together
are delivered, each subscription that was waiting is notified once.

Subscriptions that are not live read tables and the log in slices, one after the other: `schedule_read` queues one.

Rights are checked again when users or roles have changed, and every RECHECK seconds. For changes by siblings the system database is followed too.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from typing import Any

from svc.auth.roles import rights
from svc.auth.users import User, UserDirectory, concerns_rights
from svc.clock import Clock
from svc.errors import AccessViolation, ClientError, NotFound, Problem
from svc.query.authorization import narrow_query
from svc.query.narrowing import is_narrowed
from svc.query.nodes import Query
from svc.query.refusals import check_indexed
from svc.query.select import enumerable_select, validate_select
from svc.realtime.changes import Change, View
from svc.realtime.commit_feed import CommitFeed
from svc.realtime.event import EndReason
from svc.realtime.followed_database import FollowedDatabase
from svc.realtime.history import MAX_PAST_EVENTS, LogReplay, Progress
from svc.realtime.resume import first_stage
from svc.realtime.rights_watch import RightsWatch
from svc.realtime.shared_replay import SharedReplay
from svc.realtime.subscriber_group import Member, SubscriberGroup, event_predicate
from svc.realtime.subscription import Subscription
from svc.realtime.subscription_request import SubscriptionRequest
from svc.realtime.targets import Target, target_of
from svc.store import Database, LogEntry, Store, Table
from svc.store.env import Txn
from svc.store.slices import SLICE
from svc.store.system import SYSTEM

logger = logging.getLogger("svc.realtime")

RECHECK = 60.0  # seconds (spec: realtime §1 rule 7)
CACHED_CHANGES = 1000  # changes read from the log, shared by subscriptions that read the same entries
CACHED_BYTES = 4 << 20
NOTIFY_BATCH = 32  # consumers notified between two readings of the clock


class Hub:
    """All subscriptions of one server instance. Used on the thread of `loop` alone."""

    def __init__(self, store: Store, feed: CommitFeed, loop: asyncio.AbstractEventLoop, clock: Clock, users: UserDirectory) -> None:
        self.loop = loop
        self.now: Callable[[], float] = clock.monotonic
        self._store = store
        self._feed = feed
        self._users = users
        self._generation = users.generation  # as of the last check of rights
        self._followed: dict[Database, FollowedDatabase] = {}
        self._watches: dict[RightsWatch, None] = {}
        self._to_recheck: deque[RightsWatch] = deque()  # those of `_watches` that are still to be asked for again
        self._recheck_scheduled = False  # a slice is scheduled
        self._checks: set[asyncio.Task[None]] = set()  # answers that are waited for
        self._follows_accounts = False
        self._recheck_timer: asyncio.TimerHandle | None = None
        self._read_queue: deque[Subscription] = deque()  # subscriptions that are to read
        self._replays: dict[Database, SharedReplay] = {}  # of those that read the log
        self._slice_scheduled = False  # a slice is scheduled
        self._pending_notify: deque[Member] = deque()  # subscriptions whose consumers are to be notified
        self._is_notifying = False  # a slice is scheduled
        self._changes: dict[tuple[Table, int], Change] = {}
        self._changes_bytes = 0
        store.on_drop.append(self._table_dropped)

    def __len__(self) -> int:
        return sum(len(followed.subscriptions) for followed in self._followed.values())

    # -- subscribing

    def subscribe(self, request: SubscriptionRequest, listener: Callable[[Any], Any] | None = None) -> Subscription:
        """`listener`: called with each event, instead of taking or iterating.

        Raises AccessViolation, NotFound, QueryError and other Problems.
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
        view = self.view(request, request.user)
        followed = self._follow(database)
        group = None
        try:
            group = followed.group(table, target, request.where, view)
            subscription = Subscription(self, request, group)
            subscription.stages.append(first_stage(subscription, request, target))
            if not table.audit:
                table.keep_images()
        except BaseException:
            if group is not None and not group.members:
                followed.remove_group(group, (target, request.where, view))
            self._release(database, followed)
            raise
        subscription.group.members += 1
        followed.subscriptions[subscription] = None
        self._watch_rights()
        # A short read is done at once.
        progress = self._read(subscription, self.now() + SLICE) if target.is_record or request.omit_current else Progress.MORE
        if progress is Progress.MORE or progress is Progress.URGENT:
            self.schedule_read(subscription)
        if listener is not None:
            subscription.on("data", listener)
        return subscription

    def view(self, request: SubscriptionRequest, user: User | None) -> View:
        """The view of the request for this user. Raises AccessViolation."""
        table = request.table
        select = request.select
        if select is None and not request.raw_events and table.has_enumerable:
            select = enumerable_select(table)
        visible = None
        viewpoint = None
        if (request.check_rights or request.check_rows) and is_narrowed(user, table):
            from svc.realtime.viewpoint import viewpoint_of

            viewpoint = viewpoint_of(user, table, follows=select is not None)
        if request.check_rights:
            may = rights(user, table)
            if not may.read:
                raise AccessViolation(user)
            visible = may.readable
            if request.where is not None or select is not None:
                select = narrow_query(Query(request.where, select), table, user).select
        return View(table, select, visible, raw=request.raw_events, transactions=request.supports_transactions, viewpoint=viewpoint)

    @staticmethod
    def _leave_group(followed: FollowedDatabase, group: SubscriberGroup, request: SubscriptionRequest) -> None:
        group.members -= 1
        if not group.members:
            followed.remove_group(group, (group.target, request.where, group.view))

    # -- following databases

    def _follow(self, database: Database) -> FollowedDatabase:
        followed = self._followed.get(database)
        if followed is None:
            position = self._feed.add(database, self._committed)
            followed = self._followed[database] = FollowedDatabase(
                database, position, self.now, self.loop.call_soon_threadsafe, self._on_delivered, self._recheck_database
            )
        return followed

    def _release(self, database: Database, followed: FollowedDatabase) -> None:
        """Stop following a database without subscriptions."""
        if not followed.subscriptions and self._followed.get(database) is followed:
            del self._followed[database]
            self._feed.remove(database, self._committed)
        if not self._followed and not self._watches:
            self._stop_watching()

    def remove_subscription(self, subscription: Subscription) -> None:
        """A subscription has ended."""
        database = subscription.table.database
        followed = self._followed.get(database)
        if followed is None or subscription not in followed.subscriptions:
            return
        del followed.subscriptions[subscription]
        group = subscription.group
        group.live.pop(subscription, None)
        group.behind.pop(subscription, None)
        self._leave_group(followed, group, subscription.request)
        self._release(database, followed)

    def position(self, database: Database) -> int:
        """LSN up to which live subscriptions have got everything; -1: there are none."""
        followed = self._followed.get(database)
        return -1 if followed is None else followed.position

    def has_delivered(self, database: Database, lsn: int) -> bool:
        """Whether live subscriptions have got everything up to this entry and no more; what is committed by now is delivered first."""
        followed = self._followed.get(database)
        if followed is None:
            return False
        if followed.heard < lsn:
            self._feed.catch_up(database)
        return followed.is_up_to_date and followed.position == lsn

    # -- commits

    def _committed(self, database: Database, entries: list[LogEntry]) -> None:
        followed = self._followed.get(database)
        if followed is not None:
            followed.committed(entries)

    def _on_delivered(self, ready: list[Member], full: list[Member]) -> None:
        if ready:
            self._notify_later(ready)
        for subscription in dict.fromkeys(full):
            subscription.keep_within_limits()

    def _notify_later(self, ready: Iterable[Member]) -> None:
        self._pending_notify.extend(ready)
        if not self._is_notifying:
            self._notify()

    def _notify(self) -> None:
        """Notify waiting consumers, for the length of a slice; the rest in the next turn. What they take is sent at the end of the turn, which takes
        as long again."""
        self._is_notifying = False
        pending, end = self._pending_notify, self.now() + SLICE
        while pending:
            for _ in range(min(len(pending), NOTIFY_BATCH)):
                pending.popleft().notify()
            if pending and self.now() >= end:
                self._is_notifying = True
                self.loop.call_soon_threadsafe(self._notify)
                return

    # -- reading

    def schedule_read(self, subscription: Subscription) -> None:
        """Let a subscription that is not live read on, when its turn in the read queue comes."""
        stage = subscription.stages[0] if subscription.stages else None
        if isinstance(stage, LogReplay) and stage.is_shared:
            if stage.reader is None:
                self._replay_of(subscription.table.database).add(subscription, stage)
        elif not subscription.is_in_read_queue:
            subscription.is_in_read_queue = True
            self._read_queue.append(subscription)
        self._schedule_slice()

    def _replay_of(self, database: Database) -> SharedReplay:
        """That of a database, which is to be read."""
        replay = self._replays.get(database)
        if replay is None:
            replay = self._replays[database] = SharedReplay(self, database)
        return replay

    def _read_shared(self) -> None:
        """One slice for those that read the log together."""
        for database, replay in list(self._replays.items()):
            progress = Progress.DONE
            touched: dict[Subscription, None] = {}
            try:
                progress, touched = replay.read(self.now() + SLICE)
            except Exception as error:
                message = error.message if isinstance(error, Problem) else ""
                logger.error("subscriptions to %s end: %s", database.name, message, exc_info=None if message else error)
                replay.fail()
            if progress is Progress.DONE:
                del self._replays[database]
            ready = [each for each in touched if each.waiting and each.has_events]
            if ready:
                self._notify_later(ready)

    def _schedule_slice(self) -> None:
        if not self._slice_scheduled and (self._read_queue or self._replays):
            self._slice_scheduled = True
            self.loop.call_soon_threadsafe(self._read_slice)

    def _read_slice(self) -> None:
        """One slice for the subscriptions in the read queue."""
        self._slice_scheduled = False
        for followed in list(self._followed.values()):
            followed.check_rules()
        if self._replays:
            self._read_shared()
        end = self.now() + SLICE
        while self._read_queue:
            subscription = self._read_queue.popleft()
            subscription.is_in_read_queue = False
            progress = self._read(subscription, end)
            if progress is Progress.MORE:
                self.schedule_read(subscription)
            elif progress is Progress.URGENT:
                subscription.is_in_read_queue = True
                self._read_queue.appendleft(subscription)
            if self.now() >= end:
                break
        self._schedule_slice()

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
        if subscription.waiting and subscription.has_events:
            subscription.notify()
        return progress

    def change(self, table: Table, entry: LogEntry, txn: Txn) -> Change:
        """The change of a log entry: subscriptions that read the same part of the log share events, and their encoded forms."""
        key = (table, entry.lsn)
        change = self._changes.get(key)
        if change is None:
            change = Change(table, entry, txn)
            self._changes_bytes += change.size
            if len(self._changes) >= CACHED_CHANGES or self._changes_bytes > CACHED_BYTES:
                self._changes.clear()
                self._changes_bytes = change.size
            self._changes[key] = change
        return change

    # -- rights

    def _watch_rights(self) -> None:
        if not self._follows_accounts:
            self._follows_accounts = True
            self._generation = self._users.generation
            self._feed.add(self._store.databases[SYSTEM], self._accounts_changed)
        if self._recheck_timer is None:
            self._recheck_timer = self.loop.call_later(RECHECK, self._recheck_periodically)

    def _stop_watching(self) -> None:
        if self._follows_accounts:
            self._follows_accounts = False
            self._feed.remove(self._store.databases[SYSTEM], self._accounts_changed)
        if self._recheck_timer is not None:
            self._recheck_timer.cancel()
            self._recheck_timer = None

    def _accounts_changed(self, database: Database, entries: list[LogEntry]) -> None:
        self._users.refresh()  # it may be a sibling's commit
        if any(concerns_rights(entry) for entry in entries):
            self.recheck()

    def _recheck_periodically(self) -> None:
        self._recheck_timer = None
        self.recheck()
        if self._followed or self._watches:
            self._recheck_timer = self.loop.call_later(RECHECK, self._recheck_periodically)

    def recheck(self) -> None:
        """End the subscriptions of users who may not read any more, and give the others the view that they may have now."""
        self._generation = self._users.generation
        for followed in list(self._followed.values()):
            self._recheck_database(followed)
        self._to_recheck = deque(self._watches)
        self._recheck_watches()

    def _recheck_database(self, followed: FollowedDatabase) -> None:
        for subscription in list(followed.subscriptions):
            if subscription.request.check_rights or subscription.request.check_rows:
                self._recheck_one(followed, subscription)

    @property
    def generation(self) -> int:
        """Of the users and roles: another one after each change."""
        return self._users.generation

    def watch(self, watch: RightsWatch) -> None:
        """From now on ask again for these rights, whenever those of subscriptions are checked. May be called again."""
        if watch in self._watches or watch.is_over:
            return
        self._watches[watch] = None
        self._watch_rights()
        if watch.generation != self._users.generation:  # they have changed since the right was asked for
            self._recheck_watch(watch)

    def unwatch(self, watch: RightsWatch) -> None:
        self._watches.pop(watch, None)
        if not self._followed and not self._watches:
            self._stop_watching()

    def _recheck_watch(self, watch: RightsWatch) -> None:
        if watch.is_over or watch.has_ended():
            self.unwatch(watch)
            return
        if watch.is_asking:  # when the answer is there, it is asked for once more
            return
        generation = watch.generation = self._users.generation
        user = None if watch.user is None else self._users.current(watch.user)
        if user is None and watch.user is not None:
            watch.finish(EndReason.NO_LOGIN)
            self.unwatch(watch)
            return
        waiting = watch.recheck(user)
        if watch.is_over:
            self.unwatch(watch)
        elif waiting is not None:
            task = self.loop.create_task(self._answered(watch, generation, waiting))
            self._checks.add(task)
            task.add_done_callback(self._checks.discard)

    async def _answered(self, watch: RightsWatch, generation: int, waiting: Awaitable[None]) -> None:
        await waiting
        if watch.is_over:
            self.unwatch(watch)
        elif generation != self._users.generation:
            self._recheck_watch(watch)

    def _recheck_watches(self) -> None:
        """Ask code of applications, for the length of a slice; the rest in the next turn."""
        end = self.now() + SLICE
        while self._to_recheck:
            self._recheck_watch(self._to_recheck.popleft())
            if self._to_recheck and self.now() >= end:
                if not self._recheck_scheduled:
                    self._recheck_scheduled = True
                    self.loop.call_soon_threadsafe(self._recheck_on)
                return

    def _recheck_on(self) -> None:
        self._recheck_scheduled = False
        self._recheck_watches()

    def _recheck_one(self, followed: FollowedDatabase, subscription: Subscription) -> None:
        request = subscription.request
        user = None if request.user is None else self._users.current(request.user)
        if user is None and request.user is not None:
            if request.check_rights:
                subscription.finish(EndReason.NO_LOGIN)
                return
            user = request.user  # whom code of an application has let in
        try:
            view = self.view(request, user)
        except AccessViolation:
            subscription.finish(EndReason.NO_LOGIN if user is None else EndReason.REVOKED)
            return
        except Problem as problem:  # an attribute it selects by is gone
            logger.error("a subscription to %s ends: %s", request.table.name, problem.message)
            subscription.finish(EndReason.FAILED)
            return
        before = subscription.group
        if view != before.view:
            followed.finish_entry()  # that both groups get, or none
            group = followed.group(request.table, before.target, request.where, view)
            group.members += 1
            subscription.move_to_group(group)
            followed.leave_in_transaction(before, group)
            self._leave_group(followed, before, request)
        if user is not request.user:
            subscription.request = replace(request, user=user)

    # -- ends

    def _table_dropped(self, table: Table) -> None:
        followed = self._followed.get(table.database)
        if followed is not None:
            for subscription in [each for each in followed.subscriptions if each.table is table]:
                subscription.finish(EndReason.DROPPED)

    def close(self) -> None:
        """The server stops: end all subscriptions."""
        for followed in list(self._followed.values()):
            for subscription in list(followed.subscriptions):
                subscription.finish(EndReason.FINISHED)
        if self._table_dropped in self._store.on_drop:
            self._store.on_drop.remove(self._table_dropped)


def _check_options(request: SubscriptionRequest, target: Target) -> None:
    """Raise ClientError for options that exclude each other."""
    count = request.previous_count
    if count is not None:
        if type(count) is not int or count < 0:
            raise ClientError("previous_count must be a number of events")
        if count > MAX_PAST_EVENTS:
            raise ClientError(f"previous_count can be {MAX_PAST_EVENTS} at most")
        if request.start_time is not None and not target.is_record:
            raise ClientError("start_time and previous_count together are possible for a single record only")
