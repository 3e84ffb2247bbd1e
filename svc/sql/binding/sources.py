"""What stands behind FROM, as names find it: sources, and their columns.

    TableSource     a table; or rows that the caller of `bind_query` gives
    RelationSource  a sub-select, a common table expression
    FunctionSource  json_each, json_tree
    NestedSource    joins in parentheses, which become a sub-select with the columns that are used

Each source has a label, its alias in the SQL that is printed, which no other source of the statement has. So a printed column is never one of another
source, whatever aliases the statement uses.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from svc.sql.binding.bound_nodes import BoundCall, ResolvedColumn
from svc.sql.catalogue import PLAIN_TYPES, ColumnType, ColumnView, TableView
from svc.sql.functions import FUNCTIONS
from svc.sql.nodes import Call, Case, Expression, In, Literal


class AmbiguousName(Exception):
    """More than one column has the name, its argument. Never leaves binding."""


class SourceColumn:
    """A column that a statement may name. `type`: None for a value that SQLite computes; `table`: stands for one use of a table, None for none of its
    columns; `is_key`: a record of that table is known by it."""

    __slots__ = ("is_key", "is_shown", "name", "table", "type")

    def __init__(
        self, name: str, column_type: ColumnType | None, *, is_shown: bool = True, is_key: bool = False, table: object = None
    ) -> None:
        self.name = name
        self.type = column_type
        self.is_shown = is_shown
        self.is_key = is_key
        self.table = table

    def expression(self, at: int = -1, end: int = -1) -> Expression:
        """Its value, as statements compute with it."""
        raise NotImplementedError

    def exact(self) -> Expression | None:
        """Its value as it is stored (`Decoding.EXACT`), None if that is lost."""
        raise NotImplementedError

    def innermost(self) -> SourceColumn:
        """The column that it is one more name of, or itself."""
        return self


class TableColumn(SourceColumn):
    __slots__ = ("_label", "_view")

    def __init__(self, view: ColumnView, label: str, table: object) -> None:
        super().__init__(view.name, view.type, is_shown=view.is_shown, is_key=view.is_key, table=table)
        self._view = view
        self._label = label

    def expression(self, at: int = -1, end: int = -1) -> Expression:
        return ResolvedColumn(self._view.sql_name, self._label, at=at, end=end, column=self)

    def exact(self) -> Expression:
        view = self._view
        return ResolvedColumn(view.exact_name, self._label, column=self if view.type in PLAIN_TYPES else None)


class PlainColumn(SourceColumn):
    """A column of json_each."""

    __slots__ = ("_label",)

    def __init__(self, name: str, column_type: ColumnType | None, label: str) -> None:
        super().__init__(name, column_type)
        self._label = label

    def expression(self, at: int = -1, end: int = -1) -> Expression:
        return ResolvedColumn(self.name, self._label, at=at, end=end, column=self)

    def exact(self) -> Expression | None:
        return self.expression()


class JsonValue(PlainColumn):
    """The column `value` of json_each: 1 for true, JSON text for objects and lists, which only the column `type` tells from numbers and texts."""

    __slots__ = ()

    def __init__(self, name: str, label: str) -> None:
        super().__init__(name, None, label)

    def as_json(self) -> Expression:
        value, kind = self.expression(), ResolvedColumn("type", self._label)
        are_themselves: Expression = In(kind, (Literal("object"), Literal("array")))
        are_named: Expression = In(kind, (Literal("true"), Literal("false")))
        return Case(None, ((are_themselves, value), (are_named, kind)), Call("JSON_QUOTE", (value,)))


class MergedColumn(SourceColumn):
    """A column of a FULL JOIN with USING: the first of its parts that is not null."""

    __slots__ = ("parts",)

    def __init__(self, parts: Sequence[SourceColumn]) -> None:
        types = {part.type for part in parts}
        super().__init__(parts[0].name, types.pop() if len(types) == 1 else ColumnType.ANY)
        self.parts = parts

    def expression(self, at: int = -1, end: int = -1) -> Expression:
        return _coalesce([part.expression(at, end) for part in self.parts], at)

    def exact(self) -> Expression | None:
        found = [face for part in self.parts if (face := part.exact()) is not None]
        return _coalesce(found, -1) if len(found) == len(self.parts) else None


def _coalesce(values: list[Expression], at: int) -> Expression:
    function = FUNCTIONS["COALESCE"]
    return BoundCall(function.sqlite, tuple(values), at=at, function=function)


class Source(Protocol):
    """`alias`: "" if it has none. `label`: its alias in SQLite. Without `is_exact` upper and lower case are the same."""

    alias: str
    label: str

    def find(self, name: str, is_exact: bool) -> SourceColumn | None:
        """The column of this name. Raises AmbiguousName."""

    def called(self, table: str, database: str, is_exact: bool) -> Sequence[Source]:
        """Itself, if it is called so; of joins in parentheses those that are."""

    def shown(self) -> Sequence[SourceColumn]:
        """The columns that `*` stands for."""

    def names(self) -> Sequence[str]:
        """Of all columns, for hints."""

    def views(self) -> Sequence[TableView]:
        """The tables in which a name may be looked for that may not be read."""


class _PlainSource:
    """A source that is no join: its columns are known by name."""

    __slots__ = ("_folded", "alias", "database", "label")

    def __init__(self, alias: str, label: str, database: str = "") -> None:
        self.alias = alias
        self.label = label
        self.database = database
        self._folded: dict[str, list[str]] | None = None

    def called(self, table: str, database: str, is_exact: bool) -> Sequence[Source]:
        if is_exact:
            is_called = table == self.alias and (not database or database == self.database)
        else:
            is_called = table.casefold() == self.alias.casefold() and (not database or database.casefold() == self.database.casefold())
        return (self,) if is_called else ()

    def find(self, name: str, is_exact: bool) -> SourceColumn | None:
        if is_exact:
            return self.column(name)
        if self._folded is None:
            self._folded = {}
            for known in self.names():
                self._folded.setdefault(known.casefold(), []).append(known)
        found = self._folded.get(name.casefold())
        if found is None:
            return None
        if len(found) > 1:
            raise AmbiguousName(name)
        return self.column(found[0])

    def column(self, name: str) -> SourceColumn | None:
        raise NotImplementedError

    def names(self) -> Sequence[str]:
        raise NotImplementedError

    def shown(self) -> Sequence[SourceColumn]:
        raise NotImplementedError

    def views(self) -> Sequence[TableView]:
        return ()


class TableSource(_PlainSource):
    """A table; `view` None: rows that the caller gives."""

    __slots__ = ("_columns", "_known", "view")

    def __init__(self, alias: str, label: str, columns: tuple[ColumnView, ...], view: TableView | None = None) -> None:
        super().__init__(alias, label, "" if view is None else view.table.database.name)
        self.view = view
        self._columns = columns
        self._known: dict[str, SourceColumn | None] = {}

    def column(self, name: str) -> SourceColumn | None:
        known = self._known
        if name not in known:
            view = (
                self.view.by_name.get(name) if self.view is not None else next((each for each in self._columns if each.name == name), None)
            )
            if view is None:
                return None
            known[name] = TableColumn(view, self.label, self)
        return known[name]

    def names(self) -> Sequence[str]:
        return [column.name for column in self._columns]

    def shown(self) -> Sequence[SourceColumn]:
        found = [self.column(column.name) for column in self._columns if column.is_shown]
        return [column for column in found if column is not None]

    def views(self) -> Sequence[TableView]:
        return () if self.view is None else (self.view,)

    def key(self) -> SourceColumn | None:
        """The column of the primary key, None if it may not be read."""
        return next((self.column(column.name) for column in self._columns if column.is_key), None)


class ColumnsSource(_PlainSource):
    """A source whose columns are given: of a relation, of a function."""

    __slots__ = ("_by_name", "_columns")

    def __init__(self, alias: str, label: str, columns: Sequence[SourceColumn]) -> None:
        super().__init__(alias, label)
        self._columns = columns
        self._by_name = {column.name: column for column in columns}

    def column(self, name: str) -> SourceColumn | None:
        return self._by_name.get(name)

    def names(self) -> Sequence[str]:
        return list(self._by_name)

    def shown(self) -> Sequence[SourceColumn]:
        return [column for column in self._columns if column.is_shown]
