"""Joins in parentheses as a source: `a LEFT JOIN (b JOIN c ON ...) ON ...`.

SQLite makes a sub-select with all columns of such joins. Here it gets those that are used: they are added to it when a name means one.
"""

from __future__ import annotations

from collections.abc import Sequence

from svc.sql.binding.bound_nodes import ResolvedColumn
from svc.sql.binding.scopes import Scope
from svc.sql.binding.sources import Source, SourceColumn
from svc.sql.catalogue import TableView
from svc.sql.nodes import Expression, Literal, Select, SelectItem


class NestedSource:
    __slots__ = ("_columns", "_scope", "_select", "alias", "label")

    def __init__(self, scope: Scope, select: Select, label: str) -> None:
        """`scope`: of the joins, `select`: has them behind FROM, and no items yet."""
        self.alias = ""
        self._scope = scope
        self._select = select
        self.label = label
        self._columns: dict[int, NestedColumn] = {}
        select.items = (SelectItem(Literal(1), "1"),)

    def find(self, name: str, is_exact: bool) -> SourceColumn | None:
        found = self._scope.find(name, is_exact)
        return None if found is None else self.outer(found)

    def called(self, table: str, database: str, is_exact: bool) -> Sequence[Source]:
        return [NestedPart(self, part) for source in self._scope.sources() for part in source.called(table, database, is_exact)]

    def shown(self) -> Sequence[SourceColumn]:
        return [self.outer(column) for column in self._scope.shown()]

    def names(self) -> Sequence[str]:
        return [name for source in self._scope.sources() for name in source.names()]

    def views(self) -> Sequence[TableView]:
        return [view for source in self._scope.sources() for view in source.views()]

    def outer(self, column: SourceColumn) -> SourceColumn:
        """`column` of the joins as a column of this source."""
        found = self._columns.get(id(column))
        if found is None:
            found = self._columns[id(column)] = NestedColumn(column, self)
        return found

    def select(self, expression: Expression, wanted: str) -> ResolvedColumn:
        """A column that has the value of `expression`."""
        items = self._select.items
        name = f"{wanted}:{len(items)}"  # is another one even for those who take upper and lower case as equal
        self._select.items = (*items, SelectItem(expression, name))
        return ResolvedColumn(name, self.label)


class NestedPart:
    """One of the sources that are joined."""

    __slots__ = ("_nested", "_part", "alias", "label")

    def __init__(self, nested: NestedSource, part: Source) -> None:
        self.alias = part.alias
        self.label = nested.label
        self._nested = nested
        self._part = part

    def find(self, name: str, is_exact: bool) -> SourceColumn | None:
        found = self._part.find(name, is_exact)
        return None if found is None else self._nested.outer(found)

    def called(self, table: str, database: str, is_exact: bool) -> Sequence[Source]:
        return [NestedPart(self._nested, part) for part in self._part.called(table, database, is_exact)]

    def shown(self) -> Sequence[SourceColumn]:
        return [self._nested.outer(column) for column in self._part.shown()]

    def names(self) -> Sequence[str]:
        return self._part.names()

    def views(self) -> Sequence[TableView]:
        return self._part.views()


class NestedColumn(SourceColumn):
    __slots__ = ("_exact", "_expression", "_inner", "_nested")

    def __init__(self, inner: SourceColumn, nested: NestedSource) -> None:
        super().__init__(inner.name, inner.type, is_key=inner.is_key, table=inner.table)
        self._inner = inner
        self._nested = nested
        self._expression: ResolvedColumn | None = None
        self._exact: ResolvedColumn | None = None

    def expression(self, at: int = -1, end: int = -1) -> Expression:
        if self._expression is None:
            self._expression = self._nested.select(self._inner.expression(), self.name)
        return ResolvedColumn(self._expression.name, self._expression.table, at=at, end=end, column=self)

    def innermost(self) -> SourceColumn:
        return self._inner.innermost()

    def exact(self) -> Expression | None:
        if self._exact is None:
            inner = self._inner.exact()
            if inner is None:
                return None
            self._exact = self._nested.select(inner, self.name)
        return self._exact
