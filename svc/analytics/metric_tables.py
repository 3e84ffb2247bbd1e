"""The two tables of analytics: ids, writing, reading back, retention (spec: analytics §1, §2.2)."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

from svc.analytics.statistics import whole
from svc.errors import Problem
from svc.store import Store, Table
from svc.store.system import ANALYTICS_TABLE, RAW_ANALYTICS_TABLE, SYSTEM
from svc.store.values.keys import encode_key
from svc.store.values.records import decode

# Ids of one millisecond differ by this fraction of a millisecond: exact in a double until the year 2248.
ID_STEP = 1 / 1024

RAW_RETENTION_MS = 3600 * 1000
AGGREGATE_RETENTION_MS = 365 * 86400 * 1000

_DELETED_AT_ONCE = 100
_WRITTEN_AT_ONCE = 100

_log = logging.getLogger("svc.analytics")

Row = dict[str, Any]


class MetricTable:
    """One of the tables. Ids are the time of writing in ms, strictly increasing."""

    def __init__(self, store: Store, table_name: str, retention_ms: float, thread_id: int = 0) -> None:
        """`thread_id` makes the fraction of this instance's ids its own."""
        self._store = store
        self._table_name = table_name
        self._retention_ms = retention_ms
        self._fraction = thread_id * ID_STEP
        newest = next(self._iter_newest(), None)
        self._last_id = 0.0 if newest is None else float(newest["id"])

    @property
    def table(self) -> Table:
        return self._store.databases[SYSTEM].tables[self._table_name]

    def iter_write(self, rows: list[Row], now_ms: float) -> Iterator[None]:
        """Give the rows their ids and store them, some at a time. Rows that the store cannot take now are dropped: these are only metrics."""
        table = self.table
        for start in range(0, len(rows), _WRITTEN_AT_ONCE):
            transaction = self._store.begin()
            for row in rows[start : start + _WRITTEN_AT_ONCE]:
                row_id = self._new_id(now_ms)
                transaction.put(table, row_id, {"id": row_id, **{name: whole(value) for name, value in row.items()}})
            try:
                transaction.apply()
            except Problem as problem:
                _log.warning("rows of %s could not be stored: %s", self._table_name, problem.message)
                return
            yield

    def newest_time(self, since_ms: float, skip: frozenset[str]) -> float | None:
        """Time of the newest row since then whose metric is not in `skip`."""
        for row in self._iter_newest(since_ms):
            if row["metric"] not in skip:
                return float(row["time"])
        return None

    def first_after(self, time_ms: float) -> Row | None:
        for _, raw in self.table.scan(self._snapshot(), encode_key(time_ms)):
            row = decode(raw)
            if row["time"] > time_ms:
                return row
        return None

    def iter_between(self, after_ms: float, until_ms: float) -> Iterator[Row]:
        """The rows with `after_ms` < time <= `until_ms`. May be pulled over many turns: each row is read in the turn that asks for it."""
        # A row's id is its time or, after a step of the clock, a little more.
        low = encode_key(after_ms)
        while True:
            found = next(self.table.scan(self._snapshot(), low), None)
            if found is None:
                return
            row = decode(found[1])
            if row["time"] > until_ms:
                return
            if row["time"] > after_ms:
                yield row
            low = found[0] + b"\0"  # the least key after this one

    def iter_expire(self, now_ms: float) -> Iterator[None]:
        """Remove the rows that are older than the retention, some at a time."""
        high = encode_key(now_ms - self._retention_ms)
        while True:
            table = self.table
            keys: list[Any] = []
            for _, raw in table.scan(self._snapshot(), None, high):
                keys.append(table.key_of(raw))
                if len(keys) == _DELETED_AT_ONCE:
                    break
            if not keys:
                return
            transaction = self._store.begin()
            for key in keys:
                transaction.delete(table, key)
            try:
                transaction.apply()
            except Problem as problem:
                _log.warning("old rows of %s could not be removed: %s", self._table_name, problem.message)
                return
            if len(keys) < _DELETED_AT_ONCE:
                return
            yield

    def _iter_newest(self, since_ms: float = 0.0) -> Iterator[Row]:
        return (decode(raw) for _, raw in self.table.scan(self._snapshot(), encode_key(since_ms), reverse=True))

    def _snapshot(self) -> Any:
        return self.table.database.snapshot()

    def _new_id(self, now_ms: float) -> float:
        row_id = max(now_ms // 1 + self._fraction, self._last_id + ID_STEP)
        self._last_id = row_id
        return int(row_id) if row_id.is_integer() else row_id


def raw_rows(store: Store, thread_id: int = 0) -> MetricTable:
    return MetricTable(store, RAW_ANALYTICS_TABLE, RAW_RETENTION_MS, thread_id)


def aggregate_rows(store: Store) -> MetricTable:
    return MetricTable(store, ANALYTICS_TABLE, AGGREGATE_RETENTION_MS)
