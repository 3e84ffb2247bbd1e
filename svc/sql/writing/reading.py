"""The queries that a write asks while it is decided, and what they are read from (spec: sql §5).

What decides a write is a generator of steps: it yields a `Reading` for each query that it needs answered, and None where it may pause. `run_now` takes the
steps within the turn, `run_in_slices` in as many turns as they take, with the queries read by a thread.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Generator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from svc.sql.bound import BoundQuery
from svc.sql.catalogue import ColumnView, TableView
from svc.sql.row_filters import RowFilters
from svc.store import Database, Store, Table
from svc.store.env import Txn

T = TypeVar("T")

Row = tuple[Any, ...]
"""Values as records have them."""


class TooLong(Exception):
    """It takes longer than the loop may be held: it has to be begun again, in slices."""


Columns = Mapping[str, tuple[ColumnView, ...]]
"""Of tables whose rows are given when a query is run, by their names."""


@dataclass(slots=True)
class Reading:
    """A query. `receive` gets its rows in their order, some at a time, on the loop. `columns`: of the tables with which the query was bound, `given`: their
    rows, as records have values."""

    query: BoundQuery
    receive: Callable[[list[Row]], None]
    columns: Columns = field(default_factory=dict)
    given: Mapping[str, Sequence[Row]] = field(default_factory=dict)


Steps = Generator[Reading | None, None, T]


class SharedSource(Protocol):
    """What queries read: one state of each database. `is_shared`: others read the same transactions, so it is read on the loop, some rows at a time.
    `filters`: what the caller may see of narrowed tables."""

    is_shared: bool
    filters: RowFilters | None

    def txn(self, table: Table) -> Any: ...


class Reader(Protocol):
    """Who answers queries: the engine. `parameters`: of the statement. Both raise the Problem that prevents it, and close what they have opened."""

    def read_now(self, reading: Reading, parameters: Any, source: SharedSource) -> list[Row]:
        """All rows. Raises TooLong."""

    def read(self, reading: Reading, parameters: Any, source: SharedSource) -> AsyncGenerator[list[Row]]:
        """The rows, some at a time, read by a thread while the loop goes on."""


class WriteSource:
    """What the queries of one write read: of the database that it writes to `txn`, of others what is committed."""

    is_shared = False

    def __init__(self, database: Database, txn: Txn, filters: RowFilters | None = None) -> None:
        self.filters = filters
        self._txns: dict[Database, Txn] = {database: txn}
        self._opened: list[Database] = []

    def cover(self, tables: Sequence[TableView]) -> None:
        """Before these are read; on the loop."""
        if self.filters is not None:
            self.filters.cover(tables)
        for view in tables:
            database = view.table.database
            if database not in self._txns:
                self._txns[database] = database.open_snapshot()
                self._opened.append(database)

    def replace(self, database: Database, txn: Txn) -> None:
        """From now on read this one."""
        self._txns[database] = txn

    def txn(self, table: Table) -> Txn:
        return self._txns[table.database]

    def close(self) -> None:
        """End the snapshots that it has opened itself."""
        opened, self._opened = self._opened, []
        for database in opened:
            self._txns.pop(database).abort()


class CoveringSource(SharedSource, Protocol):
    """A source that is told what is read next."""

    def cover(self, tables: Sequence[TableView]) -> None: ...


def run_now(steps: Steps[T], reader: Reader, parameters: Any, source: CoveringSource) -> T:
    """What the steps return. Raises TooLong."""
    try:
        while True:
            reading = next(steps)
            if reading is not None:
                source.cover(reading.query.tables)
                reading.receive(reader.read_now(reading, parameters, source))
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]
    finally:
        steps.close()


async def run_in_slices(steps: Steps[T], reader: Reader, parameters: Any, source: CoveringSource, store: Store) -> T:
    """The same, beside other work."""
    now, take = store.clock.monotonic, store.slices.take
    try:
        end = await take()
        while True:
            reading = next(steps)
            if reading is not None:
                source.cover(reading.query.tables)
                async with aclosing(reader.read(reading, parameters, source)) as answer:
                    async for rows in answer:
                        reading.receive(rows)
                end = await take()
            elif now() >= end:
                end = await take()
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]
    finally:
        steps.close()
