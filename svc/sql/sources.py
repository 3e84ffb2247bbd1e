"""What statements read: one state of each database (spec: sql §8)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from svc.sql.catalogue import TableView
from svc.sql.row_filters import RowFilter, RowFilters
from svc.store import Database, Store, Table
from svc.store.overlay_txn import Overlay
from svc.store.snapshots import HeldSnapshot

Given = Mapping[str, Sequence[Sequence[Any]]]
"""The rows of tables that are given for one statement, by their names, as records have values."""


Lost = Callable[[], Callable[[], object] | None]
"""A weak reference to a function."""


class ReadsTables(Protocol):
    def txn(self, table: Table) -> Any: ...


class StateHasMoved(Exception):
    """A private transaction would read another state than the source does."""


class TurnSource:
    """What `below` reads, by default the snapshots of the turn. To be read on the loop, or wherever `below` may."""

    def __init__(
        self, wall_ms: float, below: ReadsTables | None = None, given: Given | None = None, filters: RowFilters | None = None
    ) -> None:
        """`filters`: of the caller, for views that are narrowed."""
        self.wall_ms = wall_ms
        self._filters = filters
        self._below = below
        self._given = given or {}

    def txn(self, table: Table) -> Any:
        return table.database.snapshot() if self._below is None else self._below.txn(table)

    def row_filter(self, view: TableView) -> RowFilter:
        assert self._filters is not None
        return self._filters.of(view)

    def rows(self, name: str) -> Sequence[Sequence[Any]]:
        return self._given[name]

    def begin(self) -> None:
        """See `PrivateSource`."""

    def end(self) -> None: ...

    def on_lost(self, callback: Lost) -> None: ...

    def close(self) -> None: ...


class PrivateSource:
    """Read transactions of its own, which a thread may read while the loop goes on: between `begin` and `end`, both on the loop.

    They are held like those of streamed answers, and given up by the same rules, but while they are being read.
    """

    def __init__(
        self,
        store: Store,
        tables: Iterable[TableView],
        reader: str,
        wall_ms: float,
        below: ReadsTables | None = None,
        given: Given | None = None,
        filters: RowFilters | None = None,
    ) -> None:
        """`below`: what is to be read, if it is not what is committed by now: its state, and what a transaction has written on top of it. `filters`: of the
        caller, for views that are narrowed. Raises StateHasMoved if that state is not the newest."""
        self.wall_ms = wall_ms
        self._filters = filters
        self._given = given or {}
        self._held: dict[Database, HeldSnapshot] = {}
        self._written: dict[Database, Overlay] = {}
        self._txns: dict[Database, Any] = {}
        try:
            for view in tables:
                database = view.table.database
                if database in self._held:
                    continue
                held = self._held[database] = store.snapshots.hold(database, reader=reader, is_private=True)
                if below is not None:
                    state = below.txn(view.table)
                    if state.id() != held.use().id():
                        raise StateHasMoved
                    if isinstance(state, Overlay):
                        self._written[database] = state
        except BaseException:
            self.close()
            raise

    def begin(self) -> None:
        """Raises SnapshotLost."""
        for database, held in self._held.items():
            txn = held.use()
            held.is_kept = True
            written = self._written.get(database)
            self._txns[database] = txn if written is None else written.over(txn)

    def end(self) -> None:
        self._txns.clear()
        for held in self._held.values():
            held.is_kept = False

    def on_lost(self, callback: Lost) -> None:
        """What is called when one of the transactions has been given up: nothing may refer to it then."""

        def lose() -> None:
            function = callback()
            if function is not None:
                function()

        for held in self._held.values():
            held.on_lost = lose

    def txn(self, table: Table) -> Any:
        return self._txns[table.database]

    def row_filter(self, view: TableView) -> RowFilter:
        assert self._filters is not None
        return self._filters.of(view)

    def rows(self, name: str) -> Sequence[Sequence[Any]]:
        return self._given[name]

    def close(self) -> None:
        self._txns.clear()
        self._written.clear()
        while self._held:
            self._held.popitem()[1].abort()
