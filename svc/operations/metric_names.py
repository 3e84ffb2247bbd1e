"""The names of all metrics with a row in `svc_analytics`, and the newest row of each (spec: operations §14).

The table has no index on the name. So the rows are read once, a slice at a time, and from then on only what came after: ids grow with time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from weakref import WeakKeyDictionary

from svc.store import Store, Table
from svc.store.system import ANALYTICS_TABLE, SYSTEM
from svc.store.values.records import projection

_STEP = 64  # rows read between two polls of the clock


class MetricNames:
    def __init__(self, store: Store) -> None:
        self._newest: dict[str, bytes] = {}  # name -> stored key of the newest row
        self._table: Table | None = None
        self._last: bytes | None = None  # stored key of the last row read
        self._slices = store.slices
        self._lock = asyncio.Lock()

    async def catch_up(self, table: Table) -> Mapping[str, bytes]:
        """Name -> stored key of the newest row, with all rows there are now."""
        async with self._lock:
            if table is not self._table:
                self._newest, self._last, self._table = {}, None, table
            await self._slices.exhaust(self._steps(table))
            # Rows are removed after their time: a name whose newest one is gone has none.
            first = next(table.scan(table.database.snapshot()), None)
            if first is None:
                self._newest.clear()
            else:
                self._newest = {name: key for name, key in self._newest.items() if key >= first[0]}
        return self._newest

    def _steps(self, table: Table) -> Iterator[None]:
        """Each is taken in a turn of its own: nothing is kept from one to the next but the place."""
        metric_of = projection(("metric",))
        newest = self._newest
        while True:
            count = 0
            for stored, raw in table.scan(table.database.snapshot(), self._last, behind=self._last):
                name = metric_of(raw)[0]
                if type(name) is str:
                    newest[name] = stored
                self._last = stored
                count += 1
                if count == _STEP:
                    break
            if count < _STEP:
                return
            yield


def metric_names_of(store: Store) -> MetricNames:
    found = _of_store.get(store)
    if found is None:
        found = _of_store[store] = MetricNames(store)
    return found


def analytics_table(store: Store) -> Table:
    return store.databases[SYSTEM].tables[ANALYTICS_TABLE]


_of_store: WeakKeyDictionary[Store, MetricNames] = WeakKeyDictionary()
