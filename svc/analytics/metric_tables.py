"""The two tables of analytics: ids, writing, reading back, retention (spec: analytics §1, §2.2)."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from itertools import islice
from math import ceil, inf, nextafter
from typing import Any
from zlib import crc32

from svc.analytics.statistics import whole
from svc.errors import Problem, RecordExists
from svc.store import Store, Table
from svc.store.system import ANALYTICS_TABLE, NODE_TABLE, RAW_ANALYTICS_TABLE, SYSTEM
from svc.store.values.keys import encode_key
from svc.store.values.records import decode, projection

# Ids of one millisecond differ by this fraction of a millisecond: exact in a double until the year 2248.
ID_STEP = 1 / 1024
_HIGHEST_ID = encode_key(2.0**43)  # in 2248; what is beyond was not written here
NODE_PARTS = 256  # of the fractions of a millisecond: the lowest bits tell nodes apart, and leave four ids in each millisecond

RAW_RETENTION_MS = 3600 * 1000
AGGREGATE_RETENTION_MS = 365 * 86400 * 1000

WRITTEN_AT_ONCE = 20  # aggregate rows: about 0.5 ms
_DELETED_AT_ONCE = 50
_LOOK = 5000  # rows of other nodes that are passed in search of an own one
_AHEAD_MS = 3600 * 1000.0  # an own row is hardly further ahead of the clock

_log = logging.getLogger("svc.analytics")

_moment = projection(("time", "id"))
_names = projection(("name",))
_node = projection(("node",))

Row = dict[str, Any]


class RowIds:
    """The ids of one instance in both tables: the time of writing in ms, strictly increasing, also when the clock goes back and over a restart.

    So a row of one table is older than a row of the other exactly if its id is lower.
    """

    def __init__(self, last: float, thread_id: int = 0) -> None:
        """`last`: the highest id there is. `thread_id`: instances that write in the same millisecond begin with ids of their own."""
        self._last = last
        self._fraction = thread_id * ID_STEP

    def next(self, now_ms: float, part: int | None = None) -> float:
        """`part`: the number of this node, which its id then has in the fraction: see `node_parts`."""
        # `nextafter`: at a time that is far beyond 2248 the step is too small to count.
        row_id = max(now_ms // 1 + self._fraction, self._last + ID_STEP, nextafter(self._last, inf))
        if part is not None:
            steps = ceil(row_id / ID_STEP)
            row_id = max(row_id, (steps + (part - steps) % NODE_PARTS) * ID_STEP)
        self._last = row_id
        return int(row_id) if row_id.is_integer() else row_id


def node_parts(names: Iterable[str]) -> dict[str, int]:
    """A number for each node, by which its ids differ from those of the others. All who know the same nodes find the same numbers, and a node that comes
    changes that of another one only if it wants the same. Of more than NODE_PARTS nodes some have the same.

    >>> parts = node_parts(f"node-{number}" for number in range(NODE_PARTS))
    >>> sorted(parts.values()) == list(range(NODE_PARTS)), node_parts(["node-7"])["node-7"] == parts["node-7"]
    (True, False)
    """
    found: dict[str, int] = {}
    taken: set[int] = set()
    for name in sorted(names):
        part = crc32(name.encode()) % NODE_PARTS
        while part in taken and len(taken) < NODE_PARTS:
            part = (part + 1) % NODE_PARTS
        taken.add(part)
        found[name] = part
    return found


def part_of(store: Store, node: str) -> int:
    """The number of this node among those of the registry."""
    table = store.databases[SYSTEM].tables[NODE_TABLE]
    names = (_names(raw)[0] for _, raw in table.scan(table.database.snapshot()))
    return node_parts({node, *(name for name in names if type(name) is str)})[node]


class MetricTable:
    """One of the tables, in the order of ids. A row's `time` is lower than its id, perhaps by years, when the clock has gone back before."""

    def __init__(self, store: Store, table_name: str, retention_ms: float, node: str | None = None) -> None:
        """`node`: other nodes may have written rows as well, those of this one have its name; None: all rows are its own."""
        self._store = store
        self._table_name = table_name
        self._retention_ms = retention_ms
        self._node = node

    @property
    def table(self) -> Table:
        return self._store.databases[SYSTEM].tables[self._table_name]

    def iter_write(self, rows: list[Row], ids: RowIds, now_ms: float, part: int | None = None) -> Iterator[None]:
        """Give the rows their ids and store them, some at a time. Rows that the store cannot take now are dropped: these are only metrics. `part`: as of
        `RowIds.next`."""
        table = self.table
        start = 0
        while start < len(rows):
            transaction = self._store.begin()
            for row in rows[start : start + WRITTEN_AT_ONCE]:
                row_id = ids.next(now_ms, part)
                transaction.create(table, row_id, {"id": row_id, **{name: whole(value) for name, value in row.items()}})
            try:
                transaction.apply()
                start += WRITTEN_AT_ONCE
            except RecordExists:
                pass  # another process has it, perhaps one with the same number, in whose place this one is put: the next ids are higher
            except Problem as problem:
                _log.warning("rows of %s could not be stored: %s", self._table_name, problem.message)
                return
            yield

    def newest(self, now_ms: float) -> Row | None:
        """Of this node."""
        return next(self._iter_newest(now_ms), None)

    def newest_since(self, id: float, skip: frozenset[str], now_ms: float) -> Row | None:
        """The newest row of this node with at least this id whose metric is not in `skip`."""
        return next((row for row in self._iter_newest(now_ms, id) if row.get("metric") not in skip), None)

    def place_of(self, time_ms: float) -> bytes | None:
        """Stored key of the newest row of this time. Reads times only, from the newest row on."""
        for stored, raw in self.table.scan(self._snapshot(), None, _HIGHEST_ID, reverse=True):
            if _time_of(raw) == time_ms:
                return stored
        return None

    def maybe_next(self, place: bytes | None) -> tuple[bytes, Row] | None:
        """Stored key and row of the first one behind this place."""
        found = next(self.table.scan(self._snapshot(), place, _HIGHEST_ID, behind=place), None)
        return None if found is None else (found[0], decode(found[1]))

    def iter_expire(self, now_ms: float) -> Iterator[None]:
        """Remove the rows that are older than the retention, some at a time; also those that are as far ahead: the clock was wrong when they were written.

        It ends at the first row that is neither, so rows behind it stay for at most twice as long. Each node does so for itself, and tells no other.
        """
        low, high = now_ms - self._retention_ms, now_ms + self._retention_ms
        place: bytes | None = None  # what is removed is to be seen until the turn's commit
        while True:
            table = self.table
            rows: list[tuple[bytes, bytes]] = []
            for stored, raw in table.scan(self._snapshot(), place, behind=place):
                if low <= _time_of(raw) <= high:
                    break
                place = stored
                rows.append((stored, raw))
                if len(rows) == _DELETED_AT_ONCE:
                    break
            if not rows:
                return
            transaction = self._store.begin()
            for stored, raw in rows:
                transaction.expire(table, stored, raw)
            try:
                transaction.apply()
            except Problem as problem:
                _log.warning("old rows of %s could not be removed: %s", self._table_name, problem.message)
                return
            if len(rows) < _DELETED_AT_ONCE:
                return
            yield

    def _iter_newest(self, now_ms: float, since: float = 0.0) -> Iterator[Row]:
        """The rows of this node. Other nodes may have very many that are newer, if their clocks are ahead: then those before about now are looked at."""
        low, snapshot = encode_key(since), self._snapshot()
        if self._node is None:
            yield from (decode(raw) for _, raw in self.table.scan(snapshot, low, _HIGHEST_ID, reverse=True))
            return
        for high in (_HIGHEST_ID, encode_key(now_ms + _AHEAD_MS)):
            for _, raw in islice(self.table.scan(snapshot, low, high, reverse=True), _LOOK):
                if _node(raw)[0] == self._node:
                    yield decode(raw)

    def _snapshot(self) -> Any:
        return self.table.database.snapshot()


def maybe_time(row: Row) -> float | None:
    """None for a row that a super user has written without a time."""
    time = row.get("time")
    return time if isinstance(time, (int, float)) else None


def _time_of(raw: bytes) -> float:
    """That of its id, if it has none."""
    time, row_id = _moment(raw)
    return float(time if isinstance(time, (int, float)) else row_id)


def raw_rows(store: Store) -> MetricTable:
    return MetricTable(store, RAW_ANALYTICS_TABLE, RAW_RETENTION_MS)


def aggregate_rows(store: Store, node: str | None) -> MetricTable:
    return MetricTable(store, ANALYTICS_TABLE, AGGREGATE_RETENTION_MS, node)
