"""Tables of a store as SQLite sees them, beside tables of SQLite itself that have the same values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import apsw

from svc.clock import FakeClock
from svc.sql.catalogue import ColumnView, TableView
from svc.sql.tables.module import TableModules
from svc.sql.tables.plans import explained
from svc.sql.tables.shape import affinity, quoted
from svc.sql.tables.values import column_value
from svc.sql.tables.views import table_view
from svc.store import Store, Table
from svc.store.schema import Attribute, TableDefinition
from tests.support.prepared import open_with

Records = Sequence[dict[str, Any]]
Row = tuple[Any, ...]

TYPED = TableDefinition(
    "Typed",
    attributes=(
        Attribute("id", "ID", primary_key=True),
        Attribute("s", "String", indexed=True),
        Attribute("i", "Int", indexed=True),
        Attribute("f", "Float", indexed=True),
        Attribute("b", "Boolean", indexed=True),
        Attribute("d", "Date", indexed=True),
        Attribute("y", "Bytes", indexed=True),
        Attribute("g", "BigInt", indexed=True),
        Attribute("tags", "String", elements=True, indexed=True),
        Attribute("a", "Any", indexed=True),
        Attribute("plain", "Any"),
    ),
)
LOOSE = TableDefinition(
    "Loose", attributes=(Attribute("id", "Any", primary_key=True), Attribute("a", "Any", indexed=True), Attribute("x", "Any", indexed=True))
)
NUMBERED = TableDefinition(
    "Numbered",
    attributes=(
        Attribute("id", "Int", primary_key=True),
        Attribute("s", "String", indexed=True),
        Attribute("f", "Float", indexed=True),
        Attribute("u", "Int", indexed=True, unique=True),
    ),
)


class Source:
    """A `StatementSource` over one transaction."""

    def __init__(self, txn: Any, wall_ms: float, rows: Mapping[str, Sequence[Sequence[Any]]] | None = None) -> None:
        self.wall_ms = wall_ms
        self._txn = txn
        self._rows = rows or {}

    def txn(self, table: Table) -> Any:
        return self._txn

    def rows(self, name: str) -> Sequence[Sequence[Any]]:
        return self._rows[name]


class SqlTables:
    """A store with tables, and two connections: `ours` over its records, `native` over copies of them in `"@data"`."""

    def __init__(self, path: Path, definitions: Iterable[TableDefinition]) -> None:
        self.clock = FakeClock()
        self.store: Store = open_with(path, clock=self.clock)
        self.database = self.store.open_database("data")
        self.ours = apsw.Connection(":memory:")
        self.native = apsw.Connection(":memory:")
        self.native.execute("ATTACH ':memory:' AS \"@data\"")
        self.modules = TableModules(self.ours)
        self.views: dict[str, TableView] = {}
        self.rows: list[int] = []  # what `on_rows` was told
        self.modules.on_rows = self.rows.append
        for definition in definitions:
            self.define(definition)

    def define(self, definition: TableDefinition) -> Table:
        """Make a table, or give it another definition."""
        table = self.database.define_table(definition)
        self.view(table)
        return table

    def view(self, table: Table, readable: frozenset[str] | None = None) -> TableView:
        """Have the present definition of a table declared in both connections."""
        view = self.views[table.name] = table_view(table, readable)
        self.modules.declare(view)
        name = f'"@data".{quoted(table.name)}'
        self.native.execute(f"DROP TABLE IF EXISTS {name}")
        columns = ", ".join([f"{quoted(column.sql_name)} {affinity(column.type)}" for column in view.columns])
        self.native.execute(f"CREATE TABLE {name} ({columns})")
        return view

    def table(self, name: str) -> Table:
        return self.database.tables[name]

    def fill(self, records: Mapping[str, Records], expires_at: Mapping[Any, float] | None = None) -> None:
        """Replace all records. `expires_at`: ms, by primary key."""
        transaction = self.store.begin()
        for name, rows in records.items():
            table = self.table(name)
            for stored, raw in list(table.scan(self.database.snapshot())):
                transaction.delete_stored(table, stored, raw)
            for row in rows:
                key = row[table.primary_key]
                record = table.validator.record({each: value for each, value in row.items() if each != table.primary_key}, source="native")
                transaction.put(table, key, record, expires_at=(expires_at or {}).get(key))
        self.store.commit_now(transaction)
        for name, rows in records.items():
            self.fill_native(name, rows)
        self.read()

    def fill_native(self, name: str, rows: Records) -> None:
        columns = self.views[name].columns
        self.native.execute(f'DELETE FROM "@data".{quoted(name)}')
        for row in rows:
            values = [face(column, row.get(column.name)) for column in columns]
            self.native.execute(f'INSERT INTO "@data".{quoted(name)} VALUES ({", ".join("?" * len(values))})', values)

    def read(self, txn: Any = None, rows: Mapping[str, Sequence[Sequence[Any]]] | None = None) -> None:
        """Statements read this transaction, by default what is committed."""
        if txn is None:
            self.store.end_turn()
            txn = self.database.snapshot()
        self.modules.source = Source(txn, self.clock.wall() * 1000, rows)

    def ask(self, statement: str, parameters: Sequence[Any] = ()) -> list[Row]:
        return list(self.ours.execute(statement, tuple(parameters)))

    def expect(self, statement: str, parameters: Sequence[Any] = ()) -> list[Row]:
        return list(self.native.execute(statement, tuple(parameters)))

    def explain(self, statement: str, parameters: Sequence[Any] = ()) -> str:
        """Of the tables, one in a line."""
        rows = self.ours.execute(f"EXPLAIN QUERY PLAN {statement}", tuple(parameters))
        return "\n".join([explained(row[3]) for row in rows])

    def close(self) -> None:
        self.ours.close()
        self.native.close()
        self.store.close()


def face(column: ColumnView, value: Any) -> Any:
    """What SQLite computes with."""
    return column_value(column.type, value)
