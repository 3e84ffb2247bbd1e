"""What one write costs the hub: from the committed entries to the queues of those who follow the table.

    python -m bench.micro_hub

Not included: the commit, encoding, sockets. A consumer is an `on_ready` that notes that it was called, and takes at the end of the turn.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path

from svc.auth.users import UserDirectory
from svc.clock import SYSTEM_CLOCK
from svc.query.nodes import Comparator, Condition
from svc.realtime.commit_feed import CommitFeed
from svc.realtime.hub import Hub
from svc.realtime.subscription import Subscription
from svc.realtime.subscription_request import SubscriptionRequest
from svc.store import LogEntry, Store, StoreSettings
from svc.store.schema import Attribute, TableDefinition
from svc.store.system import ensure_system

SUBSCRIBERS = 1000
WRITES = 300
PRODUCT = TableDefinition(
    "Product", attributes=(Attribute("id", "ID", primary_key=True), Attribute("name", "String"), Attribute("price", "Float", indexed=True))
)


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        store = Store(Path(directory), StoreSettings(write_async=True))
        ensure_system(store)
        table = store.open_database("data").define_table(PRODUCT)
        loop = asyncio.new_event_loop()
        feed = CommitFeed(store, loop, SYSTEM_CLOCK)
        hub = Hub(store, feed, loop, SYSTEM_CLOCK, UserDirectory(store))
        number = 0

        def committed() -> list[LogEntry]:
            nonlocal number
            number += 1
            transaction = store.begin()
            transaction.put(table, f"p{number % 1000}", {"name": f"Product {number}", "price": number % 100})
            transaction.apply()
            database = table.database
            entries = database.commit()
            store.commit_turn()
            return entries

        now = SYSTEM_CLOCK.monotonic

        def measure(name: str, request: Callable[[int], SubscriptionRequest], concerned: int) -> None:
            woken: list[Subscription] = []
            subscriptions = []
            for at in range(SUBSCRIBERS):
                subscription = hub.subscribe(request(at))
                subscription.on_ready = lambda subscription=subscription: woken.append(subscription)  # type: ignore[misc]
                subscriptions.append(subscription)
            loop.run_until_complete(asyncio.sleep(0.01))
            for subscription in subscriptions:
                assert subscription.take(10) == []
            spent: list[float] = []
            taking: list[float] = []
            for _ in range(WRITES):
                entries = committed()
                began = now()
                hub._committed(table.database, entries)
                spent.append(now() - began)
                began = now()
                for subscription in woken:
                    subscription.take(100)
                    subscription.take(100)
                taking.append(now() - began)
                woken.clear()
            each = max(concerned, 1)
            quartiles = [1e6 * value / each for value in statistics.quantiles(spent, n=4)]
            taken = 1e6 * statistics.median(taking) / each
            print(
                f"{name:34} {1e6 * statistics.median(spent):8.1f} us a write   {quartiles[1]:6.2f} us a subscriber "
                f"({quartiles[0]:.2f} to {quartiles[2]:.2f})   take {taken:.2f} us"
            )
            for subscription in subscriptions:
                subscription.close()

        condition = Condition(("price",), Comparator.GREATER_THAN_EQUAL, 0)
        print(f"{SUBSCRIBERS} subscribers, {WRITES} writes, medians")
        measure("whole table", lambda at: SubscriptionRequest(table, omit_current=True, check_rights=False), SUBSCRIBERS)
        measure(
            "whole table, one condition",
            lambda at: SubscriptionRequest(table, where=condition, omit_current=True, check_rights=False),
            SUBSCRIBERS,
        )
        measure(
            "whole table, 1000 conditions",
            lambda at: SubscriptionRequest(
                table, where=Condition(("price",), Comparator.GREATER_THAN_EQUAL, -1.0 - at), omit_current=True, check_rights=False
            ),
            SUBSCRIBERS,
        )
        measure("a record each", lambda at: SubscriptionRequest(table, key=f"p{at}", omit_current=True, check_rights=False), 1)
        measure("records that nobody writes", lambda at: SubscriptionRequest(table, key=f"q{at}", omit_current=True, check_rights=False), 0)
        store.close()
        loop.close()


if __name__ == "__main__":
    main()
