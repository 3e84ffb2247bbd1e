"""A store with live queries and no server: commits, turns of the loop, and clients that follow the rules in `svc.realtime.live.events`."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

from svc.clock import FakeClock
from svc.query import plan_query
from svc.query.execution import execute
from svc.query.nodes import Query, SortKey
from svc.query.select import enumerable_select
from svc.realtime.commit_feed import CommitFeed
from svc.realtime.event import EndReason
from svc.realtime.live import LiveQueries, LiveSubscription
from svc.store import Store, StoreSettings, Table
from svc.store.values.records import decode, encode_payload

TURNS = 100_000  # of the loop, after which something never comes to rest


class TickingClock(FakeClock):
    """Time passes with each look at it, so that slices are as short as one wants. `tick`: seconds of one look."""

    def __init__(self, tick: float = 0.0) -> None:
        super().__init__()
        self.tick = tick

        def look() -> float:
            self._monotonic += self.tick
            return self._monotonic

        self.monotonic = look


class LiveStore:
    """One process: store, feed, live queries, and a loop that runs on demand."""

    def __init__(self, path: Path, *, users: Any = None) -> None:
        self.clock = TickingClock()
        self.store = Store(path, StoreSettings(write_async=True), clock=self.clock)
        self.loop = asyncio.new_event_loop()
        self.feed = CommitFeed(self.store, self.loop, self.clock)
        self.live = LiveQueries(self.store, self.feed, self.loop, self.clock, users)

    def close(self) -> None:
        self.live.close()
        self.feed.close()
        self.turns(3)
        self.loop.close()
        self.store.close()

    def turns(self, count: int) -> None:
        for _ in range(count):
            self.loop.run_until_complete(asyncio.sleep(0))

    def write(self, *writes: tuple[Any, ...]) -> None:
        """One transaction: ("put", table, record, expires_at=None), ("patch", table, key, changes), ("delete", table, key)."""
        transaction = self.store.begin()
        for kind, table, *rest in writes:
            if kind == "put":
                record, expires_at = (*rest, None)[:2]
                transaction.put(table, record[table.primary_key], dict(record), expires_at=expires_at)
            elif kind == "patch":
                transaction.patch(table, *rest)
            else:
                transaction.delete(table, *rest)
        transaction.apply()

    def commit(self) -> None:
        self.store.commit_turn()

    def expire(self) -> None:
        """Remove what has expired, as the background work does when its time has come."""
        for database in self.store.databases.values():
            for table in database.tables.values():
                table.next_scan = self.clock.wall() - 1
        while self.store.maintenance(1.0):
            pass
        self.commit()

    def settle(self) -> None:
        """Run until everything committed is in the queues of the subscriptions."""
        for _ in range(TURNS):
            if self.live.is_idle:
                return
            self.turns(1)
        raise AssertionError("live queries do not come to rest")


class LiveClient:
    """What a client makes of its events. It checks that they make sense: `strict`, that nothing enters twice or leaves without being there."""

    def __init__(self, source: LiveSubscription, *, strict: bool = True) -> None:
        self.source = source
        self.strict = strict
        self.rows: list[tuple[Any, Any]] = []
        self.values: dict[Any, Any] = {}
        self.in_order: bool | None = None
        self.is_ready = False
        self.resets: list[str] = []
        self.seen: list[dict[str, Any]] = []
        self.calls = 0
        self.last = -1
        source.on_ready = self._on_ready

    def _on_ready(self) -> None:
        self.calls += 1

    def take(self, limit: int = 1 << 30) -> int:
        """Take once; the number of events."""
        events = self.source.take(limit)
        assert len(events) <= limit
        for event in events:
            assert event.size > 0
            members = event.members(True)
            self.seen.append(members)
            self.apply(members)
        return len(events)

    def drain(self, limit: int = 1 << 30) -> None:
        while self.take(limit):
            pass

    def apply(self, event: dict[str, Any]) -> None:
        kind = event["type"]
        if kind == "reset":
            self.rows, self.values, self.is_ready, self.last = [], {}, False, -1
            self.resets.append(event["reason"])
            return
        if kind == "ready":
            assert not self.is_ready
            assert event["count"] == (len(self.rows) if self.in_order else len(self.values))
            self.is_ready = True
            self.last = event["localTime"]
            return
        assert self.is_ready == (kind != "snapshot"), event
        key = place(event["id"])
        if self.in_order is None:
            self.in_order = "index" in event
        assert self.in_order == ("index" in event)
        if kind != "snapshot":
            assert event["localTime"] >= self.last
            self.last = event["localTime"]
        known = key in self.values
        if self.strict:
            assert known == (kind in ("update", "leave")), (event, self.values)
        if kind == "leave":
            assert event["value"] is None
            self.values.pop(key, None)
            if self.in_order:
                assert self.rows[event["index"]][0] == key, (event, self.rows)
                del self.rows[event["index"]]
            return
        self.values[key] = event["value"]
        if self.in_order:
            self.rows = [row for row in self.rows if row[0] != key]
            assert 0 <= event["index"] <= len(self.rows), event
            self.rows.insert(event["index"], (key, event["value"]))


def place(id_: Any) -> bytes:
    return encode_payload(id_)


def expected(query: Query, table: Table, prefix: str | None = None) -> list[tuple[bytes, Any]] | dict[bytes, Any]:
    """What the query gives now: rows in order if they have one, else by id."""
    query = replace(query, live=False)
    txn = table.database.open_snapshot()
    try:
        if query.aggregate is not None:
            return _aggregated(query, table, prefix, txn)
        if query.select is None:
            select = enumerable_select(table) if table.has_enumerable else None
            query = replace(query, select=select)
        in_order = bool(query.sort) or query.limit is not None or query.offset > 0
        if in_order and not query.sort:
            query = replace(query, sort=(SortKey((table.primary_key,)),))
        plan = plan_query(query, table, txn, allow_full_scan=True, key_prefix=prefix)
        pairs = _pairs(plan, txn)
        values = _rows(plan, txn) if query.select is not None else [decode(raw) for _, raw in pairs]
        found = []
        for (_, raw), value in zip(pairs, values, strict=True):
            key = table.key_of(raw)
            found.append((place(list(key) if isinstance(key, tuple) else key), value))
        return found if in_order else dict(found)
    finally:
        txn.abort()


def _pairs(plan: Any, txn: Any) -> list[Any]:
    rows = execute(plan, txn)
    found = []
    while not rows.done:
        found += rows.step_pairs(7)
    return found


def _rows(plan: Any, txn: Any) -> list[Any]:
    rows = execute(plan, txn)
    found = []
    while not rows.done:
        found += rows.step(7)
    return found


def _aggregated(query: Query, table: Table, prefix: str | None, txn: Any) -> list[tuple[bytes, Any]] | dict[bytes, Any]:
    from svc.query.aggregate import row_names
    from svc.query.grouping import json_form

    aggregate = query.aggregate
    assert aggregate is not None
    names = row_names(aggregate)[: len(aggregate.keys)]
    found = []
    for row in _rows(plan_query(query, table, txn, allow_full_scan=True, key_prefix=prefix), txn):
        values = [row[name] for name in names]
        id_ = None if not values else json_form(values[0] if aggregate.kind == "facet" else values)
        found.append((place(id_), row))
    return dict(found) if aggregate.kind == "count" else found


def same(found: Any, wanted: Any) -> bool:
    """Equal, and of the same types."""
    return found == wanted and encode_payload(_plain(found)) == encode_payload(_plain(wanted))


def _plain(rows: Any) -> Any:
    return [list(row) for row in (sorted(rows.items()) if isinstance(rows, dict) else rows)]


def check(client: LiveClient, query: Query, prefix: str | None = None) -> None:
    """What the client has is what the query gives."""
    assert client.source.ended in (None, EndReason.FINISHED), client.source.ended
    wanted = expected(query, client.source.table, prefix)
    has = client.rows if isinstance(wanted, list) else client.values
    assert client.is_ready
    assert same(has, wanted), (query, has, wanted)


__all__ = ["LiveClient", "LiveStore", "TickingClock", "check", "expected", "place", "same"]
