"""Queries that are bound: what their columns are called, what they are, and how their values are had as they are stored.

A query that stands behind FROM has the columns that it says. If the query around it gives one of them to the caller as it is, the query gets a further,
hidden column with the exact face of that value (`Relation.exact_name`), so that what is a boolean is one again although it went through a sub-select as 1.
Comparisons, groups, order and DISTINCT go by the values that statements compute with: no exact face takes part in them.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from svc.sql.binding.bound_nodes import BoundCall, ResolvedColumn
from svc.sql.binding.faces import exact_of, exact_or_value
from svc.sql.binding.scopes import Scope
from svc.sql.binding.sources import SourceColumn
from svc.sql.binding.walking import PARTS, walk
from svc.sql.catalogue import EXACT, PLAIN_TYPES, ColumnType
from svc.sql.nodes import (
    Call,
    Case,
    Collate,
    CommonTable,
    Expression,
    Literal,
    OrderTerm,
    Query,
    Select,
    SelectItem,
    Subquery,
    Values,
)


@dataclass(slots=True)
class BoundSelect(Select):
    """Its items are all `SelectItem`. `scope` None: binding has made it."""

    scope: Scope | None = field(default=None, compare=False, repr=False)

    @property
    def is_grouped(self) -> bool:
        return bool(self.group_by) or (self.scope is not None and bool(self.scope.aggregates))

    @property
    def values(self) -> list[Expression]:
        return [item.expression for item in self.items if isinstance(item, SelectItem)]

    def group_instead_of_distinct(self) -> bool:
        """Make DISTINCT a GROUP BY all items, by their numbers, so that further items make no row different. Returns whether that can be done."""
        if self.is_grouped or (self.scope is not None and self.scope.has_windows):
            return False
        self.group_by = tuple([Literal(number) for number, value in enumerate(self.values, 1) if not isinstance(value, Literal)])
        self.is_distinct = not self.group_by
        return not self.is_distinct


@dataclass(slots=True)
class Relation(Query):
    """`names`: of its columns, each once; `sql_names`: what SQLite calls them; `types`: of their values. `table`: the one of WITH that it is. `depth`:
    how many relations are built each on the next, this one included.

    A term of `order_by` that is the number of a column means that column, as in SQLite.
    """

    names: list[str] = field(default_factory=list, compare=False)
    sql_names: list[str] = field(default_factory=list, compare=False)
    types: list[ColumnType | None] = field(default_factory=list, compare=False)
    table: CommonTable | None = field(default=None, compare=False, repr=False)
    depth: int = field(default=1, compare=False, repr=False)
    _exact_names: dict[int, str | None] = field(default_factory=dict, compare=False, repr=False)

    @property
    def members(self) -> list[Select | Values]:
        return [self.first, *[member for _, member in self.others]]

    def name_columns(self) -> None:
        """Let SQLite call the columns as `sql_names` says, for a query that stands behind FROM."""
        if isinstance(self.first, BoundSelect):
            self.first.items = tuple([SelectItem(value, name) for value, name in zip(self.first.values, self.sql_names, strict=True)])

    def exact_name(self, index: int) -> str | None:
        """The column, for SQLite, that has the exact face of the column number `index`; None if that cannot be had."""
        waiting = [(self, index)]
        begun: set[tuple[int, int]] = set()
        while waiting:
            relation, number = waiting[-1]
            if relation._is_settled(number):
                waiting.pop()
            elif (id(relation), number) in begun:
                waiting.pop()
                relation._settle(number)
            else:  # first those that it hands on: there may be more of them in a row than methods can recurse
                begun.add((id(relation), number))
                waiting += [each for each in relation._handed_on(number) if (id(each[0]), each[1]) not in begun]
        return self.sql_names[index] if self._is_plain(index) else self._exact_names[index]

    def _is_plain(self, index: int) -> bool:
        return self.types[index] in PLAIN_TYPES or self.types[index] is None

    def _is_settled(self, index: int) -> bool:
        return index in self._exact_names or self._is_plain(index)

    def _handed_on(self, index: int) -> list[tuple[Relation, int]]:
        """Columns of relations that this column may hand on, and perhaps some that it computes with."""
        parts = walk(tuple(self._values(index)), lambda node: type(node) in _HANDING_ON)
        columns = [part.column.innermost() for part in parts if isinstance(part, ResolvedColumn) and part.column is not None]
        return [(column.relation, column.index) for column in columns if isinstance(column, RelationColumn)]

    def _values(self, index: int) -> list[Expression]:
        found: list[Expression] = []
        for member in self.members:
            if isinstance(member, Values):
                found += [row[index] for row in member.rows]
            elif isinstance(member, BoundSelect):
                found.append(member.values[index])
        return found

    def _settle(self, index: int) -> None:
        # A recursive table hands on its own column: it has to have a name before it is there.
        self._exact_names[index] = self._next_name(index)
        if not self._add_exact(index):
            self._exact_names[index] = None

    def _next_name(self, index: int) -> str:
        if self.table is None and isinstance(self.first, Values):
            return f"column{len(self.first.rows[0]) + 1}"
        name = EXACT + self.sql_names[index]
        while name in self.sql_names:
            name += EXACT
        return name

    def _add_exact(self, index: int) -> bool:
        if any(operator != "UNION ALL" for operator, _ in self.others) or all(exact_of(value) is None for value in self._values(index)):
            return False
        faces: list[list[Expression]] = []
        for member in self.members:
            if isinstance(member, BoundSelect):
                if member.is_distinct and not member.group_instead_of_distinct():
                    return False
                values = [member.values[index]]
            else:
                assert isinstance(member, Values)
                values = [row[index] for row in member.rows]
            faces.append([exact_or_value(value) for value in values])
        name = self._exact_names[index] or ""
        for member, found in zip(self.members, faces, strict=True):
            if isinstance(member, Values):
                member.rows = tuple([(*row, face) for row, face in zip(member.rows, found, strict=True)])
            else:
                member.items = (*member.items, SelectItem(found[0], name))
        if self.table is not None:
            self.table.columns = (*self.table.columns, name)
        return True

    def with_exact_value(self) -> Relation | None:
        """The same query, of one column, with exact values; None if there is none, or if it has others in it: each of them would stand there twice, and
        what is in them four times."""
        if self.others or not isinstance(self.first, BoundSelect) or self.first.is_distinct:
            return None
        if any(isinstance(part, Relation) for part in walk((self.first, self.tables))):
            return None
        value = self.first.values[0]
        face = exact_of(value)
        if face is None:
            return None
        order_by = tuple([by_value(term, {1: value}) for term in self.order_by])
        return replace(self, first=replace(self.first, items=(SelectItem(face),)), order_by=order_by)


PARTS[BoundSelect] = PARTS[Select]
PARTS[Relation] = PARTS[Query]


class RelationColumn(SourceColumn):
    """A column of a sub-select or a common table, whose alias is `label`."""

    __slots__ = ("_label", "index", "relation")

    def __init__(self, relation: Relation, index: int, label: str) -> None:
        super().__init__(relation.names[index], relation.types[index])
        self.relation = relation
        self.index = index
        self._label = label

    def expression(self, at: int = -1, end: int = -1) -> Expression:
        return ResolvedColumn(self.relation.sql_names[self.index], self._label, at=at, end=end, column=self)

    def exact(self) -> Expression | None:
        name = self.relation.exact_name(self.index)
        return None if name is None else ResolvedColumn(name, self._label)


_HANDING_ON = frozenset((Case, Call, BoundCall, Collate, Subquery, Relation, BoundSelect, SelectItem))


def by_value(term: OrderTerm, values: dict[int, Expression]) -> OrderTerm:
    """A term of ORDER BY that names none of these columns by its number, from 1, but says how it is computed."""
    return replace(term, expression=value_of(term.expression, values))


def value_of(node: Expression, values: dict[int, Expression]) -> Expression:
    if isinstance(node, Collate):
        return Collate(value_of(node.operand, values), node.name)
    if isinstance(node, Literal) and type(node.value) is int:
        return values.get(node.value, node)
    return node
