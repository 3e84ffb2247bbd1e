"""Everything that follows commits in one server: subscriptions to records, live queries, and the commit feed below both."""

from __future__ import annotations

import asyncio

from svc.auth.users import User, UserDirectory
from svc.clock import Clock
from svc.query.nodes import Query
from svc.realtime.commit_feed import CommitFeed
from svc.realtime.hub import Hub
from svc.realtime.live import LiveQueries, LiveSubscription
from svc.realtime.resume import RECONNECTED
from svc.realtime.subscription import Subscription
from svc.realtime.subscription_request import SubscriptionRequest
from svc.store import Store, Table


class Realtime:
    """Used on the thread of `loop` alone. Resources get this object; servers create and close it."""

    def __init__(self, store: Store, loop: asyncio.AbstractEventLoop, clock: Clock, users: UserDirectory) -> None:
        self.feed = CommitFeed(store, loop, clock)
        self.hub = Hub(store, self.feed, loop, clock, users)
        self.live = LiveQueries(store, self.feed, loop, clock, users)

    def subscribe(self, request: SubscriptionRequest) -> Subscription:
        """Follow a record, the keys below a prefix, or a table. Raises what `Hub.subscribe` raises."""
        return self.hub.subscribe(request)

    def subscribe_to_query(
        self, query: Query, table: Table, user: User | None, *, key_prefix: str | None, allow_full_scan: bool, reconnected: bool
    ) -> LiveSubscription:
        """Follow the result of `query`. `reconnected`: the client has rows of an earlier connection, so its events begin with `reset`.

        Raises what `LiveQueries.subscribe` raises.
        """
        subscription = self.live.subscribe(query, table, user, key_prefix=key_prefix, allow_full_scan=allow_full_scan)
        if reconnected:
            subscription.reset_reason = RECONNECTED
        return subscription

    def close(self) -> None:
        """End all subscriptions: the server stops."""
        self.live.close()
        self.hub.close()
        self.feed.close()
