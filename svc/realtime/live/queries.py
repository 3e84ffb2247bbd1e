"""Live queries: the subscriptions, the results they share, and what replaces the result of a subscription.

Equal queries of callers who may read the same share one result. `commit_dispatcher` notifies results of commits.

Rights are checked again when an account or a role has changed, and at least every RECHECK seconds: in slices, but at once for a subscriber that takes
events before its turn, so that no subscriber gets a commit that came after the change. Definitions are compared with each commit and once a second.
A subscription that gets another result by that is reset.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol, cast

from svc.auth.roles import rights
from svc.auth.users import User, concerns_rights
from svc.clock import Clock
from svc.errors import AccessViolation, IndexRebuilding, Overloaded, Problem
from svc.query.authorization import narrow_query
from svc.query.narrowing import is_narrowed
from svc.query.nodes import Query, Select, SelectItem
from svc.query.select import enumerable_select
from svc.realtime.commit_feed import CommitFeed
from svc.realtime.event import EndReason
from svc.realtime.live.aggregate_result import AggregateResult
from svc.realtime.live.commit_dispatcher import CommitDispatcher
from svc.realtime.live.materialized_result import MaterializedResult
from svc.realtime.live.query_spec import STATELESS, LiveQuerySpec
from svc.realtime.live.recomputed_result import RecomputedResult, ResultWorkers, TurnScheduler
from svc.realtime.live.result import LiveResult, StatelessResult
from svc.realtime.live.result_moves import ResultMoves
from svc.realtime.live.subscription import LiveSubscription
from svc.realtime.live.viewer_changes import ViewerChanges
from svc.store import Database, LogEntry, Store, Table
from svc.store.system import SYSTEM

if TYPE_CHECKING:
    from svc.realtime.viewpoint import Viewpoint

MAX_SUBSCRIPTIONS = 100_000  # of one process: each takes 1-2 KB while it waits
MAX_RESULTS = 20_000  # different live queries
MAX_ROWS = 2_000_000  # whose keys are kept for all results together, about 300 bytes each
SWEEP = 1.0  # seconds between two checks of definitions
RECHECK = 60.0  # seconds between two checks of rights (spec: realtime §1, rule 7)

MOVING = 0.005  # seconds within which subscribers go on by other rules: the others begin anew

NEW_SHAPE = "The table or its attributes have changed"
NEW_RIGHTS = "What may be read has changed"


class Users(Protocol):
    def current(self, user: User) -> User | None: ...

    def refresh(self) -> None:
        """Read what other processes have changed."""


class LiveQueries:
    """Used on the thread of `loop` alone."""

    def __init__(self, store: Store, feed: CommitFeed, loop: asyncio.AbstractEventLoop, clock: Clock, users: Users | None) -> None:
        """`users` None: users do not change."""
        self.store = store
        self.now = clock.monotonic
        self._feed = feed
        self._scheduler = TurnScheduler(loop, clock, store.slices)
        self._workers = ResultWorkers(self._scheduler)
        self._viewers = ViewerChanges(store, feed, self._scheduler)
        self._dispatcher = CommitDispatcher(feed, self._scheduler, self._definition_changed)
        self._moves = ResultMoves(self, self._dispatcher, self._viewers)
        self.position = self._dispatcher.position
        self.newest = self._dispatcher.newest
        self.update = self._workers.update
        self._users = users
        self._results: dict[Any, LiveResult] = {}
        self._subscriptions: dict[LiveSubscription, None] = {}
        self._awaiting_index: dict[LiveSubscription, None] = {}  # have no result until an index is built
        self._outdated: deque[LiveResult] = deque()  # closed: their subscribers get other results
        self._reattach_task: asyncio.Task[None] | None = None
        self._sweeper: asyncio.TimerHandle | None = None
        self._rows = 0  # kept for all results, at the last sweep
        self._checked_at = 0.0  # rights
        self._check_task: asyncio.Task[None] | None = None
        self._checks_again = False
        self._follows_accounts = False
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
        check_rows: bool = False,
    ) -> LiveSubscription:
        """Follow the result of `query`. `key_prefix`, `allow_full_scan`: see `plan_query`. `check_rights` False: application code subscribes; `check_rows`:
        rules on rows hold for `user` all the same.

        Raises QueryError, AccessViolation; IndexRebuilding and Overloaded (503), ClientError for queries that cannot be followed.
        """
        if len(self._subscriptions) >= MAX_SUBSCRIPTIONS:
            raise Overloaded(f"There are {MAX_SUBSCRIPTIONS} live queries already")
        subscription = LiveSubscription(
            query,
            table,
            user,
            key_prefix,
            self._scheduler.call_next_turn,
            self._subscription_ended,
            allow_full_scan=allow_full_scan,
            checks_rights=check_rights,
        )
        subscription.checks_rows |= check_rows
        subscription.rights_generation = self.rights_generation
        self._attach(subscription, *self.result_key(subscription))
        self._subscriptions[subscription] = None
        if self._sweeper is None:
            self._checked_at = self.now()
            self._sweeper = self._scheduler.loop.call_later(SWEEP, self._sweep)
        if self._users is not None and not self._follows_accounts and SYSTEM in self.store.databases:
            self._follows_accounts = True
            self._feed.add(self.store.databases[SYSTEM], self._accounts_changed)
        self._start_result(subscription)
        return subscription

    def __len__(self) -> int:
        return len(self._subscriptions)

    @property
    def results(self) -> int:
        """Different queries that are followed."""
        return len(self._results)

    @property
    def is_behind(self) -> bool:
        """Whether commits wait to be processed."""
        return self._dispatcher.is_behind

    @property
    def is_idle(self) -> bool:
        """Whether every commit that the feed has reported is in the queues of the subscriptions."""
        return (
            self._dispatcher.is_idle
            and self._reattach_task is None
            and self._workers.is_idle
            and self._viewers.is_idle
            and not any(
                isinstance(result, RecomputedResult) and (result.is_running or result.has_work) for result in self._results.values()
            )
        )

    def close(self) -> None:
        """End all subscriptions. Harmless when done."""
        for subscription in list(self._subscriptions):
            subscription.finish(EndReason.FINISHED)
        if self._dropped in self.store.on_drop:
            self.store.on_drop.remove(self._dropped)

    # -- results

    def result_key(self, subscription: LiveSubscription) -> tuple[Any, Query, Viewpoint | None]:
        """(key of the result, query narrowed to what the user may read, whose eyes records are seen with). Equal keys share one result. Raises
        AccessViolation, QueryError."""
        query, table, user = subscription.query, subscription.table, subscription.user
        if subscription.checks_rights:
            may = rights(user, table)
            if not may.read:
                raise AccessViolation(user)
            if query.select is None and query.aggregate is None:
                if table.has_enumerable:
                    query = replace(query, select=enumerable_select(table))
                elif may.readable is not None:
                    query = replace(query, select=Select((SelectItem(("*",)),)))  # which is narrowed to what may be read
            query = narrow_query(query, table, user)
        viewpoint = None
        if subscription.checks_rows:
            leads = any(attribute.relationship is not None for attribute in table.attributes.values())
            if is_narrowed(user, table):
                from svc.realtime.viewpoint import viewpoint_of

                viewpoint = viewpoint_of(user, table, follows=leads)
        # The repr of the nodes: as values, 1 and true are equal.
        return (id(table), subscription.prefix, subscription.allow_full_scan, repr(query), viewpoint), query, viewpoint

    def _attach(self, subscription: LiveSubscription, key: Any, query: Query, viewpoint: Viewpoint | None) -> None:
        result = self._results.get(key)
        if result is not None and not result.spec.definitions.hold(result.table):
            self._definition_changed(result.table)
            result = self._results.get(key)
        if result is None:
            result = self._make_result(subscription, key, query, viewpoint)
        subscription.key = key
        subscription.result = result
        result.subscribers[subscription] = None

    def _start_result(self, subscription: LiveSubscription) -> None:
        """Compute the result of a subscription if that has not been done; that may end the subscription."""
        result = subscription.result
        if isinstance(result, RecomputedResult) and not result.is_known:
            self.update(result)

    def _make_result(self, subscription: LiveSubscription, key: Any, query: Query, viewpoint: Viewpoint | None) -> LiveResult:
        if len(self._results) >= MAX_RESULTS:
            raise Overloaded(f"There are {MAX_RESULTS} different live queries already")
        if self._rows > MAX_ROWS:
            raise Overloaded(f"Live queries have {MAX_ROWS} rows already")
        table = subscription.table
        database = table.database
        spec = LiveQuerySpec(query, table, subscription.prefix, subscription.allow_full_scan, database.snapshot(), viewpoint)
        unlogged = {read for read in (table, *[database.tables[chain[-1].target.name] for chain in spec.chains]) if not read.audit}
        if unlogged:  # what a record was before a change is in the log only (spec: realtime §1, rule 6)
            for read in unlogged:
                database.define_table(replace(read.definition, audit=True))
            spec = LiveQuerySpec(query, table, subscription.prefix, subscription.allow_full_scan, database.snapshot(), viewpoint)
        result: LiveResult
        if spec.mode == STATELESS:
            result = StatelessResult(self, spec, key)
        else:
            result = AggregateResult(self, spec, key) if query.aggregate is not None else MaterializedResult(self, spec, key)
        position = self._dispatcher.add(result)
        self._results[key] = result
        if isinstance(result, RecomputedResult):
            result.position = position
            self._viewers.add(result)
        return result

    def subscriber_left(self, result: LiveResult) -> None:
        """A subscriber of a result has ended: close the result if it was the last one."""
        if not result.subscribers:
            self.close_result(result)

    def close_result(self, result: LiveResult) -> None:
        if self._results.get(result.key) is result:
            del self._results[result.key]
        result.close()
        if isinstance(result, RecomputedResult):
            self._workers.discard(result)
            self._viewers.discard(result)
        self._dispatcher.remove(result)

    def _subscription_ended(self, subscription: LiveSubscription) -> None:
        self._subscriptions.pop(subscription, None)
        self._awaiting_index.pop(subscription, None)
        if not self._subscriptions:
            self._stop_timers()

    def _stop_timers(self) -> None:
        if self._sweeper is not None:
            self._sweeper.cancel()
            self._sweeper = None
        if self._follows_accounts:
            self._follows_accounts = False
            database = self.store.databases.get(SYSTEM)
            if database is not None:
                self._feed.remove(database, self._accounts_changed)

    def keep_result(self, result: LiveResult, key: Any) -> None:
        """A result goes on under another key, or, if that has a result, without one: for its subscribers alone."""
        if self._results.get(result.key) is result:
            del self._results[result.key]
        result.key = key if key not in self._results else (key, object())
        self._results[result.key] = result

    def conditions_changed(self, result: LiveResult) -> None:
        """Rules on rows have made other conditions of a result."""
        self._dispatcher.find_anew(result)

    def replace_result(self, result: LiveResult) -> None:
        """Close a result that cannot be followed as it is: its subscribers get another one."""
        self._replace_results([result])

    def update_next_turn(self, result: RecomputedResult) -> None:
        """Bring a result up to date in the next turn; `update(result)` does so now."""
        self._scheduler.call_next_turn(lambda: self.update(result))

    # -- definitions

    def _sweep(self) -> None:
        """About once a second, while there are subscriptions."""
        self._sweeper = None
        self._rows = sum([result.size for result in self._results.values() if isinstance(result, RecomputedResult)])
        self._dispatcher.check_definitions()
        self._reattach_soon()
        self._viewers.time_has_passed()
        if self.now() - self._checked_at >= RECHECK:
            self._check_soon()
        if self._subscriptions and self._sweeper is None:
            self._sweeper = self._scheduler.loop.call_later(SWEEP, self._sweep)

    def _dropped(self, table: Table) -> None:
        self._replace_results(self._dispatcher.readers_of_same(table))

    def _definition_changed(self, table: Table) -> None:
        outdated = []
        end = self.now() + MOVING
        for result in self._dispatcher.readers(table):
            definitions = result.spec.definitions
            if definitions.hold(result.table):
                continue  # it has changed with those of another table
            if self.now() >= end or not (definitions.differ_in_rules(result.table) and self._rules_changed(result, end)):
                outdated.append(result)
        self._dispatcher.know_definitions(table)
        self._replace_results(outdated)

    def _rules_changed(self, result: LiveResult, end: float) -> bool:
        """Let the subscribers of a result go on by the rules of now. False: not all of them can, before the clock is at `end`."""
        for subscription in list(result.subscribers):
            if subscription.result is not result or result.spec.definitions.hold(result.table):
                continue  # it has moved with another one
            if not subscription.checks_rows or self.now() >= end:
                return False
            try:
                if not self._moves.move(subscription, self.result_key(subscription)):
                    return False
            except Problem:
                return False
        return True

    def _replace_results(self, results: list[LiveResult]) -> None:
        """Close these results. Their subscribers get other ones, in slices."""
        for result in results:
            if not result.is_closed:
                result.close()
                self._results.pop(result.key, None)
                self._outdated.append(result)
        self._reattach_soon()

    def _detach(self, subscription: LiveSubscription, reason: str) -> None:
        """Take a subscription from its result."""
        result = subscription.result
        if result is not None:
            subscription.reset(reason)
            subscription.result = None
            result.subscribers.pop(subscription, None)
        self._awaiting_index[subscription] = None

    def _reattach_soon(self) -> None:
        if (self._awaiting_index or self._outdated) and self._reattach_task is None:
            self._reattach_task = self._scheduler.spawn(self._reattach_all())

    async def _reattach_all(self) -> None:
        try:
            await self._scheduler.slices.exhaust(self._reattach_each())
        finally:
            self._reattach_task = None

    def _reattach_each(self) -> Iterator[None]:
        while self._outdated:
            result = self._outdated.popleft()
            for subscription in list(result.subscribers):
                self._detach(subscription, NEW_SHAPE)
                yield
            self.close_result(result)
            yield
        for subscription in list(self._awaiting_index):
            if subscription in self._awaiting_index:
                self._reattach(subscription)
            yield

    def _reattach(self, subscription: LiveSubscription) -> None:
        """Give a subscription without a result one, or end it. While an index is being built there is none, and the next sweep tries again."""
        table = subscription.table
        try:
            if table.database.tables.get(table.name) is not table:
                subscription.finish(EndReason.DROPPED)
                return
            self._attach(subscription, *self.result_key(subscription))
        except AccessViolation:
            subscription.finish(EndReason.REVOKED)
            return
        except (IndexRebuilding, Overloaded):
            subscription.wake()
            return
        except Problem:  # an attribute or a related table is gone
            subscription.finish(EndReason.DROPPED)
            return
        del self._awaiting_index[subscription]
        self._start_result(subscription)
        subscription.wake()

    # -- rights

    def _accounts_changed(self, database: Database, entries: list[LogEntry]) -> None:
        if self._users is not None:
            self._users.refresh()  # it may be a sibling's commit
        if any(concerns_rights(entry) for entry in entries):
            self.rights_generation += 1
            self._scheduler.call_next_turn(self._check_soon)

    def _check_soon(self) -> None:
        """Check the rights of all subscribers, in slices."""
        if self._check_task is not None:
            self._checks_again = True
            return
        self._checked_at = self.now()
        self._check_task = self._scheduler.spawn(self._check_all())

    async def _check_all(self) -> None:
        try:
            await self._scheduler.slices.exhaust(self._check_each())
            while self._checks_again:
                self._checks_again = False
                await self._scheduler.slices.exhaust(self._check_each())
        finally:
            self._check_task = None

    def _check_each(self) -> Iterator[None]:
        for subscription in list(self._subscriptions):
            if subscription.ended is None and (subscription.checks_rights or subscription.checks_rows):
                self.check_rights(subscription)
            yield

    def check_rights(self, subscription: LiveSubscription) -> None:
        """End a subscription whose user may not read any more, and give it another result if the user may see more or less now."""
        subscription.rights_generation = self.rights_generation
        user = subscription.user
        if user is not None and self._users is not None:
            current = self._users.current(user)
            if current is not None:
                subscription.user = current
            elif subscription.checks_rights:
                subscription.finish(EndReason.NO_LOGIN)  # the user is gone, or its logins have ended
                return
        try:
            target = self.result_key(subscription)
        except AccessViolation:
            subscription.finish(EndReason.NO_LOGIN if user is None else EndReason.REVOKED)
            return
        except Problem:
            return  # a definition has changed: `_sweep` sees that
        if target[0] != subscription.key and not self._moves.move(subscription, target):
            old = cast("LiveResult | None", subscription.result)
            self._detach(subscription, NEW_RIGHTS)
            self._reattach(subscription)
            if old is not None and not old.subscribers:
                self.close_result(old)
