"""svc.realtime.realtime: one commit feed below subscriptions and live queries."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from svc.auth.roles import Role
from svc.auth.users import User, UserDirectory
from svc.clock import FakeClock
from svc.query import parse_query
from svc.realtime.event import EndReason
from svc.realtime.realtime import Realtime
from svc.realtime.resume import RECONNECTED
from svc.realtime.subscription_request import SubscriptionRequest
from svc.store import Store, StoreSettings, Table
from svc.store.schema import Attribute, TableDefinition
from svc.store.system import ensure_system


class World:
    def __init__(self, path: Path) -> None:
        self.store = Store(path, StoreSettings(write_async=True), clock=FakeClock())
        ensure_system(self.store)
        self.loop = asyncio.new_event_loop()
        self.realtime = Realtime(self.store, self.loop, self.store.clock, UserDirectory(self.store))
        definition = TableDefinition("T", attributes=(Attribute("id", "ID", primary_key=True), Attribute("a", "Int")))
        self.table: Table = self.store.open_database("data").define_table(definition)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.realtime.close()
    made.loop.run_until_complete(asyncio.sleep(0))
    made.loop.close()
    made.store.close()


@pytest.mark.parametrize("reconnected", [False, True])
def test_both_follow_one_commit_and_only_a_reconnected_client_is_reset(world: World, reconnected: bool) -> None:
    records = world.realtime.subscribe(SubscriptionRequest(world.table, omit_current=True, check_rights=False))
    query = parse_query("live()")
    user = User("ann", True, Role("r", "r", {"super_user": True}))
    rows = world.realtime.subscribe_to_query(query, world.table, user, key_prefix=None, allow_full_scan=True, reconnected=reconnected)
    world.loop.run_until_complete(asyncio.sleep(0))
    notices = [event.members(True) for _ in range(3) for event in rows.take(10)]
    assert (notices[0] == {"type": "reset", "reason": RECONNECTED}) is reconnected
    assert notices[-1]["type"] == "ready"
    transaction = world.store.begin()
    transaction.put(world.table, "x", {"a": 1})
    transaction.apply()
    world.store.commit_turn()
    world.loop.run_until_complete(asyncio.sleep(0))
    assert [event.type for event in records.take(10)] == ["put"]
    assert [event.type for event in rows.take(10)] == ["enter"]
    world.realtime.close()
    assert records.ended is rows.ended is EndReason.FINISHED and not world.table.database.on_commit
