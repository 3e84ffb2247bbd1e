"""The names of all metrics with a row in `svc_analytics`, and the newest row of each (spec: operations §14).

The table has no index on the name. So the rows are read once, a slice at a time, and from then on only those that the transaction log has: rows of other nodes
come later than their ids say.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from itertools import islice
from weakref import WeakKeyDictionary

from svc.store import Store, Table
from svc.store.system import ANALYTICS_TABLE, SYSTEM
from svc.store.values.records import projection

_STEP = 64  # rows or entries read between two polls of the clock
_metric = projection(("metric",))


class MetricNames:
    def __init__(self, store: Store) -> None:
        self._newest: dict[str, bytes] = {}  # name -> stored key of the newest row
        self._table: Table | None = None
        self._read_to = 0  # LSN up to which rows were read
        self._slices = store.slices
        self._lock = asyncio.Lock()

    async def catch_up(self, table: Table) -> Mapping[str, bytes]:
        """Name -> stored key of the newest row, with all rows there are now."""
        async with self._lock:
            if table is not self._table:
                self._newest, self._read_to, self._table = {}, 0, table
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
        log = table.database.log
        if self._read_to and (self._read_to + 1 >= log.first_lsn(table.database.snapshot())):
            yield from self._read_log(table)
        if self._read_to < log.newest_lsn(table.database.snapshot()):
            yield from self._read_all(table)

    def _read_log(self, table: Table) -> Iterator[None]:
        """Up to its end, or to what it does not have any more."""
        database = table.database
        while entries := list(islice(database.log.read(snapshot := database.snapshot(), self._read_to + 1), _STEP)):
            for entry in entries:
                if not entry.table_number or entry.lsn != self._read_to + 1:
                    return
                self._read_to = entry.lsn
                raw = table.get_by(entry.key, snapshot) if entry.table_number == table.number else None
                if raw is not None:
                    self._add(entry.key, raw)
            yield

    def _read_all(self, table: Table) -> Iterator[None]:
        self._read_to = table.database.log.newest_lsn(table.database.snapshot())
        last: bytes | None = None
        while rows := list(islice(table.scan(table.database.snapshot(), last, behind=last), _STEP)):
            for stored, raw in rows:
                self._add(stored, raw)
            last = rows[-1][0]
            yield

    def _add(self, stored: bytes, raw: bytes) -> None:
        name = _metric(raw)[0]
        if type(name) is str:
            self._newest[name] = max(self._newest.get(name, b""), stored)


def metric_names_of(store: Store) -> MetricNames:
    found = _of_store.get(store)
    if found is None:
        found = _of_store[store] = MetricNames(store)
    return found


def analytics_table(store: Store) -> Table:
    return store.databases[SYSTEM].tables[ANALYTICS_TABLE]


_of_store: WeakKeyDictionary[Store, MetricNames] = WeakKeyDictionary()
