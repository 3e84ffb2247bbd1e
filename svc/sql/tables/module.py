"""The tables of svc as virtual tables of SQLite, read-only (spec: sql §9).

A connection has a schema for each database, and in it a virtual table for each table that a statement has named. What is declared is a *declarable*: a view of
a table, or what `index_only` and `given` make.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import apsw

from svc.errors import QueryTooLarge
from svc.sql.catalogue import ColumnView, StatementSource, TableView
from svc.sql.tables.access import choose
from svc.sql.tables.cursors import TableCursor
from svc.sql.tables.finding import PlanRun
from svc.sql.tables.given import GivenRows
from svc.sql.tables.plans import read_plan
from svc.sql.tables.read_state import ReadState
from svc.sql.tables.shape import TableShape, quoted

MODULE = "svc"
MOST_SCHEMAS = 100  # databases that a connection has attached; SQLite of apsw allows 125
MOST_RUNS = 512  # plans of a table that are remembered


class Declarable(Protocol):
    """`schema`, `sql_name`: of the virtual table. Two that are equal are the same table."""

    @property
    def schema(self) -> str: ...

    @property
    def sql_name(self) -> str: ...


class SpecialTable(Declarable, Protocol):
    """A table that is not one of the store."""

    def connect(self, modules: TableModules) -> tuple[str, Any]:
        """(its declaration, its `VTTable`)"""


class TableModules:
    """What one connection, which belongs to one running statement at a time, has of the tables of svc.

    `source`: set by whoever prepares and runs a statement; `is_plain`: of that statement (`comparing`). `on_rows`: is told how many records or index
    entries were looked at, before SQLite has them; it may raise.
    """

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self._source: StatementSource | None = None
        self._declared: dict[tuple[str, str], Declarable] = {}
        self._schemas: dict[str, None] = {}  # that are attached, the one used last at the end
        self.state: ReadState | None = None
        self.is_plain = False
        self.on_rows: Callable[[int], object] = _nobody_counts
        module: Any = _Module(self)
        connection.create_module(MODULE, module, use_bestindex_object=True, iVersion=2, read_only=True)

    @property
    def source(self) -> StatementSource | None:
        return self._source

    @source.setter
    def source(self, source: StatementSource | None) -> None:
        if source is not self._source:
            self._source = source
            self.state = None if source is None else ReadState(source)

    def declare(self, *tables: TableView | SpecialTable) -> None:
        """Make all tables of a statement known to SQLite. Nothing for those that are. While no statement runs.

        Raises QueryTooLarge for too many databases, or a table with too many columns.
        """
        schemas = dict.fromkeys([table.schema for table in tables])
        if len(schemas) > MOST_SCHEMAS:
            raise QueryTooLarge(f"A statement can read {MOST_SCHEMAS} databases, not {len(schemas)}", budget="databases")
        for schema in schemas:
            self._attach(schema)
        for table in tables:
            self._declare(table)

    def declare_given(self, name: str, columns: tuple[ColumnView, ...]) -> None:
        """Make rows that are given to each statement known as a table `main."name"`: its cursors ask the source for `rows(name)`."""
        self.declare(GivenRows(name, columns))

    def connect(self, schema: str, name: str) -> tuple[str, Any]:
        """For SQLite: (declaration, table)."""
        table = self._declared[schema, name]
        if not isinstance(table, TableView):
            return table.connect(self)  # type: ignore[attr-defined, no-any-return]
        shape = TableShape(table)
        return shape.declaration(), VirtualTable(self, shape)

    def _declare(self, table: Declarable) -> None:
        place = table.schema, table.sql_name
        known = self._declared.get(place)
        if known == table:
            return
        name = f"{quoted(table.schema)}.{quoted(table.sql_name)}"
        if known is not None:
            self._connection.execute(f"DROP TABLE {name}")
        self._declared[place] = table
        try:
            self._connection.execute(f"CREATE VIRTUAL TABLE {name} USING {MODULE}")
        except BaseException:
            del self._declared[place]
            raise

    def _attach(self, schema: str) -> None:
        if schema in self._schemas:
            del self._schemas[schema]
        elif schema != "main":
            if len(self._schemas) >= MOST_SCHEMAS:
                self._detach(next(iter(self._schemas)))
            self._connection.execute(f"ATTACH ':memory:' AS {quoted(schema)}")
        self._schemas[schema] = None

    def _detach(self, schema: str) -> None:
        self._connection.execute(f"DETACH {quoted(schema)}")
        del self._schemas[schema]
        for place in [place for place in self._declared if place[0] == schema]:
            del self._declared[place]


def _nobody_counts(number: int) -> None:
    pass


class _Module:
    """apsw's VTModule."""

    def __init__(self, modules: TableModules) -> None:
        self._modules = modules

    def Connect(self, connection: apsw.Connection, module: str, schema: str, name: str, *args: str) -> tuple[str, Any]:
        return self._modules.connect(schema, name)

    Create = Connect


class VirtualTable:
    """apsw's VTTable of a view."""

    def __init__(self, modules: TableModules, shape: TableShape) -> None:
        self._modules = modules
        self._runs: dict[str, PlanRun] = {}
        self.shape = shape
        self.is_narrowed = shape.view.is_narrowed

    @property
    def state(self) -> ReadState:
        state = self._modules.state
        assert state is not None, "a statement runs without a source"
        return state

    def count(self, number: int) -> None:
        self._modules.on_rows(number)

    def run_of(self, text: str) -> PlanRun:
        """What the text of a plan stands for."""
        known = self._runs.get(text)
        if known is None:
            if len(self._runs) >= MOST_RUNS:
                self._runs.clear()
            known = self._runs[text] = PlanRun(read_plan(text), self.shape)
        return known

    # -- for SQLite

    def BestIndexObject(self, info: Any) -> bool:
        choose(info, self.shape, self._modules.state, self._modules.is_plain)
        return True

    def Open(self) -> TableCursor:
        return TableCursor(self)

    def Disconnect(self) -> None:
        pass

    Destroy = Disconnect
