"""`SET a = x, (b, c) = (y, z)`: what becomes of a record (spec: sql §5)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from svc.errors import QueryError
from svc.sql.binding.walking import walk
from svc.sql.nodes import Assignment, Column, CommonTable, Expression, Query, RowValue, Select, SelectItem, Star, Subquery, TableRef
from svc.sql.writing.context import WriteContext
from svc.sql.writing.targets import WriteTarget, WrittenColumn
from svc.sql.writing.values import NO_CONSTANT, constant_of

_ROW = "\x1drow"  # a query whose columns are assigned


class Assignments:
    """`columns`: that are set. `items`: what has to be computed for each record; the other values are constants."""

    def __init__(self, assignments: Sequence[Assignment], target: WriteTarget, context: WriteContext, right: str) -> None:
        pairs = [pair for assignment in assignments for pair in _pairs(assignment)]
        self.columns = target.columns([name for name, _ in pairs], right)
        self._constants: dict[str, Any] = {}
        self._computed: list[WrittenColumn] = []
        items: list[SelectItem] = []
        for column, (_, expression) in zip(self.columns, pairs, strict=True):
            if column.is_key:
                raise QueryError(
                    f"the primary key {column.name} cannot be set: a record with another key is another record", code="BAD_VALUE"
                )
            if column.is_time:
                continue
            value = constant_of(expression, context.parameter)
            if value is NO_CONSTANT:
                self._computed.append(column)
                items.append(SelectItem(expression))
            else:
                self._constants[column.name] = value if column.convert is None else column.convert(value)
        self.items = tuple(items)

    def values(self, computed: Sequence[Any]) -> dict[str, Any]:
        """Attribute -> value, of the values of `items`."""
        found = self._constants.copy()
        for column, value in zip(self._computed, computed, strict=True):
            found[column.name] = value if column.convert is None else column.convert(value)
        return found


def _pairs(assignment: Assignment) -> Iterator[tuple[str, Expression]]:
    """Each column with its value."""
    columns, value = assignment.columns, assignment.value
    if len(columns) == 1:
        yield columns[0], value
    elif isinstance(value, RowValue):
        if len(value.items) != len(columns):
            raise _uneven(assignment, len(value.items))
        yield from zip(columns, value.items, strict=True)
    elif isinstance(value, Subquery):
        count = _width(value.query)
        if count is not None and count != len(columns):
            raise _uneven(assignment, count)
        names = tuple([f"{_ROW}{number}" for number in range(len(columns))])
        for column, name in zip(columns, names, strict=True):
            table = CommonTable(_ROW, value.query, names)
            yield column, Subquery(Query(Select((SelectItem(Column(name)),), TableRef(_ROW)), tables=(table,)))
    else:
        raise _uneven(assignment, 1)


def _width(query: Query) -> int | None:
    """How many columns a query has; None: that is known when its names are resolved."""
    first = query.first
    if not isinstance(first, Select):
        return len(first.rows[0])
    return None if any(isinstance(item, Star) for item in first.items) else len(first.items)


def _uneven(assignment: Assignment, count: int) -> QueryError:
    values = "1 value" if count == 1 else f"{count} values"
    return QueryError(f"{len(assignment.columns)} columns are set to {values}", code="QUERY_SYNTAX", position=assignment.at)


class ReadNames:
    """The attributes of a table that trees may use. They are looked for when they are asked for."""

    __slots__ = ("_target", "_trees", "_value")

    def __init__(self, trees: object, target: WriteTarget) -> None:
        self._trees = trees
        self._target = target
        self._value: tuple[frozenset[str] | None] | None = None

    @property
    def value(self) -> frozenset[str] | None:
        """None: any."""
        if self._value is None:
            self._value = (self._find(),)
        return self._value[0]

    def _find(self) -> frozenset[str] | None:
        names: set[str] = set()
        target = self._target
        for node in walk(self._trees):
            if isinstance(node, Column):
                attribute = target.table.attributes.get(target.resolved(node.name))
                if attribute is not None and not attribute.stored:
                    return None
                if attribute is not None:
                    names.add(attribute.name)
        return frozenset(names)
