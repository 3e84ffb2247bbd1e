"""A store, its feed and its hub, with a loop and a clock that move on demand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from svc.auth.users import User, UserDirectory
from svc.clock import FakeClock
from svc.realtime.commit_feed import CommitFeed
from svc.realtime.hub import Hub
from svc.realtime.subscription import Subscription
from svc.realtime.subscription_request import SubscriptionRequest
from svc.store import Store, StoreSettings, Table, Transaction
from svc.store.schema import Attribute, TableDefinition
from svc.store.system import ROLE_TABLE, SYSTEM, USER_TABLE, ensure_system
from tests.support.hub import StillLoop

NOTE = TableDefinition(
    "Note",
    attributes=(
        Attribute("id", primary_key=True),
        Attribute("a", indexed=True),
        Attribute("b"),
        Attribute("secret"),
    ),
)


class Scene:
    """See the module."""

    def __init__(self, path: Path) -> None:
        self.clock = FakeClock()
        self.loop = StillLoop()
        self.store = Store(path, StoreSettings(write_async=True), clock=self.clock)
        ensure_system(self.store)
        self.database = self.store.open_database("data")
        self.table: Table = self.database.define_table(NOTE)
        self.users = UserDirectory(self.store)
        self.feed = CommitFeed(self.store, self.loop.as_loop(), self.clock)
        self.hub = Hub(self.store, self.feed, self.loop.as_loop(), self.clock, self.users)

    def write(self, *works: Callable[[Transaction], object], user: str | None = "me") -> None:
        """Each is a transaction, all are of one turn."""
        for work in works:
            transaction = self.store.begin(user)
            work(transaction)
            transaction.apply()
        self.store.commit_turn()
        self.clock.advance(1)

    def put(self, key: Any, **record: Any) -> None:
        self.write(lambda transaction: transaction.put(self.table, key, record))

    def subscribe(self, **options: Any) -> Subscription:
        options.setdefault("check_rights", False)
        return self.hub.subscribe(SubscriptionRequest(options.pop("table", self.table), **options))

    def settle(self) -> None:
        self.loop.run()
        self.store.end_turn()

    def take(self, source: Any, limit: int = 1000) -> list[Any]:
        """Everything there is for it."""
        found: list[Any] = []
        for _ in range(1000):
            some = source.take(limit)
            found += some
            if not some:
                self.settle()
                some = source.take(limit)
                found += some
                if not some:
                    return found
        raise AssertionError("it never ends")

    def seen(self, source: Any) -> list[tuple[Any, ...]]:
        """(type, id, value) of everything there is for it."""
        return [(event.type, event.id, event.value) for event in self.take(source)]

    def user(self, name: str, permission: dict[str, Any], *, active: bool = True) -> User:
        system = self.store.databases[SYSTEM]
        self.write(
            lambda transaction: transaction.put(system.tables[ROLE_TABLE], name, {"role": name, "permission": permission}),
            lambda transaction: transaction.put(system.tables[USER_TABLE], name, {"role": name, "active": active}),
        )
        found = self.users.get_user(name)
        assert found is not None
        return found
