"""Expressions: each name in them becomes a column of SQLite, and what the language has beside SQLite's becomes SQLite's (spec: sql §2)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from svc.sql.binding import dialect
from svc.sql.binding.bound_nodes import BoundCall
from svc.sql.binding.calls import CallBinder
from svc.sql.binding.conversions import looked_for
from svc.sql.binding.faults import misuse, no_column, not_unique
from svc.sql.binding.scopes import Scope, column_of
from svc.sql.binding.sources import AmbiguousName, MergedColumn, SourceColumn
from svc.sql.binding.statement import Statement
from svc.sql.binding.walking import position_of, walk
from svc.sql.nodes import (
    Between,
    Binary,
    Call,
    Case,
    Cast,
    Collate,
    Column,
    Exists,
    Expression,
    In,
    IsNull,
    Literal,
    Match,
    OrderTerm,
    Parameter,
    Query,
    RowValue,
    Select,
    SelectItem,
    Star,
    Subquery,
    Unary,
    Window,
)

if TYPE_CHECKING:
    from svc.sql.binding.relations import Relation

COLLATIONS = frozenset(("BINARY", "NOCASE", "RTRIM"))


class ExpressionBinder:
    """Expressions of a statement are bound in a scope: the names that they may use. A tree is at most `limits.MAX_DEPTH` deep, so methods may recurse."""

    def __init__(self, statement: Statement, bind_query: Callable[[Query, Scope], Relation]) -> None:
        """`bind_query`: binds a query that stands in an expression."""
        self.statement = statement
        self._query = bind_query
        self._calls = CallBinder(self)
        self._binders: dict[type, Callable[[Any, Scope], Expression]] = {
            Literal: self._itself,
            Parameter: self._itself,
            Column: self._column,
            Unary: self._unary,
            Binary: self._binary,
            Match: self._match,
            Between: self._between,
            In: self._in,
            IsNull: self._is_null,
            Exists: self._exists,
            Subquery: self._subquery,
            Case: self._case,
            Cast: self._calls.cast,
            Collate: self._collate,
            RowValue: self._row_value,
            Call: self._calls.call,
        }

    def bind(self, node: Expression, scope: Scope) -> Expression:
        """A single value. Raises QueryError for a row of them."""
        found = self._binders[type(node)](node, scope)
        width = width_of(found)
        if width != 1:
            raise misuse(f"{width} values where there can be one", position_of(node))
        return found

    def bind_row(self, node: Expression, scope: Scope) -> Expression:
        """A value, or a row of them."""
        return self._binders[type(node)](node, scope)

    def maybe(self, node: Expression | None, scope: Scope) -> Expression | None:
        return None if node is None else self.bind(node, scope)

    def terms(self, terms: tuple[OrderTerm, ...], scope: Scope) -> tuple[OrderTerm, ...]:
        return tuple([replace(term, expression=self.bind(term.expression, scope)) for term in terms])

    # --- names ----------------------------------------------------------------------------------------------------------------------------

    def _column(self, node: Column, scope: Scope) -> Expression:
        around: Scope | None = scope
        while around is not None:
            found = self.find_column(node, around)
            if found is not None:
                self._calls.note(around)
                if isinstance(found, MergedColumn):
                    self.statement.count_columns(len(found.parts), node.at)
                return found.expression(node.at, node.end)
            if not node.table:
                alias = around.aliases.get(node.name)
                if alias is not None:
                    self._check_alias(node, alias, around)
                    self.statement.count_copy(node.name, alias, node.at)
                    return alias
            around = around.outer
        raise no_column(self.statement.catalogue, scope, node)

    def find_column(self, node: Column, scope: Scope) -> SourceColumn | None:
        """The column in this scope. Raises QueryError if there are several."""
        try:
            if not node.table:
                return scope.column(node.name)
            sources = scope.called(node.table, node.database)
            return column_of(sources, node.name) if sources else None
        except AmbiguousName:
            raise not_unique(node) from None

    def _check_alias(self, node: Column, value: Expression, scope: Scope) -> None:
        """Whether what a result column is computed from can stand where its alias does."""
        for part in walk(value):
            if isinstance(part, BoundCall) and part.function is not None:
                name = part.function.name
                if scope.no_aggregates and id(part) in scope.aggregates:
                    raise self._calls.no_aggregate(name, scope.no_aggregates, node.at)
                if scope.no_windows and part.over is not None:
                    raise self._calls.no_window(name, scope.no_windows, node.at)
        self._calls.note(scope)

    # --- operators ------------------------------------------------------------------------------------------------------------------------

    def _itself(self, node: Expression, scope: Scope) -> Expression:
        return node

    def _unary(self, node: Unary, scope: Scope) -> Expression:
        return Unary(node.operator, self.bind(node.operand, scope))

    def _binary(self, node: Binary, scope: Scope) -> Expression:
        if node.operator not in dialect.COMPARISONS:
            return Binary(node.operator, self.bind(node.left, scope), self.bind(node.right, scope), node.at)
        left, right = self.bind_row(node.left, scope), self.bind_row(node.right, scope)
        self._check_widths(left, right, node)
        return dialect.comparison(node.operator, left, right, node.at)

    def _check_widths(self, left: Expression, right: Expression, node: Expression) -> None:
        one, other = width_of(left), width_of(right)
        if one != other:
            raise misuse(f"{one} values are compared with {other}", position_of(node))

    def _match(self, node: Match, scope: Scope) -> Expression:
        if node.operator == "REGEXP":
            return self._calls.match(node, scope)
        left, right = self.bind(node.left, scope), self.bind(node.right, scope)
        return Match(node.operator, left, right, self.maybe(node.escape, scope), node.is_negated, node.at)

    def _between(self, node: Between, scope: Scope) -> Expression:
        operand = self.bind_row(node.operand, scope)
        ends = [self.bind_row(end, scope) for end in (node.low, node.high)]
        for end in ends:
            self._check_widths(operand, end, node)
        low, high = self._compared_with(operand, ends)
        return Between(operand, low, high, node.is_negated)

    def _compared_with(self, operand: Expression | None, values: list[Expression]) -> list[Expression]:
        column_type = None if operand is None else dialect.type_of_column(operand)
        if column_type is None:
            return values
        return [dialect.literal_for(value, column_type) if isinstance(value, Literal) else value for value in values]

    def _in(self, node: In, scope: Scope) -> Expression:
        operand = self.bind_row(node.operand, scope)
        if isinstance(node.items, Query):
            query = self._query(node.items, scope)
            if len(query.names) != width_of(operand):
                raise misuse(f"{width_of(operand)} values are looked for among rows of {len(query.names)}", position_of(node))
            return In(looked_for(operand, query), query, node.is_negated)
        items = [self.bind_row(item, scope) for item in node.items]
        for item in items:
            self._check_widths(operand, item, item)
        return In(operand, dialect.items_for(operand, tuple(items)), node.is_negated)

    def _is_null(self, node: IsNull, scope: Scope) -> Expression:
        return IsNull(self.bind(node.operand, scope), node.is_negated)

    def _exists(self, node: Exists, scope: Scope) -> Expression:
        return Exists(self._query(_without_columns(node.query), scope), node.at)

    def _subquery(self, node: Subquery, scope: Scope) -> Expression:
        return Subquery(self._query(node.query, scope), node.at)

    def _case(self, node: Case, scope: Scope) -> Expression:
        operand = None if node.operand is None else self.bind(node.operand, scope)
        conditions = self._compared_with(operand, [self.bind(condition, scope) for condition, _ in node.whens])
        values = [self.bind(value, scope) for _, value in node.whens]
        return Case(operand, tuple(zip(conditions, values, strict=True)), self.maybe(node.otherwise, scope), node.at)

    def _collate(self, node: Collate, scope: Scope) -> Expression:
        return self.collated(self.bind(node.operand, scope), node)

    def window(self, node: Window, scope: Scope, at: int) -> Window:
        return self._calls.window(node, scope, at)

    def collated(self, operand: Expression, node: Collate) -> Expression:
        """`node` with another operand."""
        name = node.name.upper()
        if name not in COLLATIONS:
            raise misuse(f"unknown collation {node.name[:100]}: there are BINARY, NOCASE and RTRIM", position_of(node))
        return Collate(operand, name)

    def _row_value(self, node: RowValue, scope: Scope) -> Expression:
        return RowValue(tuple([self.bind(item, scope) for item in node.items]))


def width_of(node: Expression) -> int:
    """How many values a bound expression has."""
    if isinstance(node, RowValue):
        return len(node.items)
    if isinstance(node, Subquery):
        names: list[str] = getattr(node.query, "names", [""])
        return len(names)
    return 1


def _without_columns(query: Query) -> Query:
    """`SELECT 1` for the `SELECT *` of EXISTS, which asks for no value of a row."""
    first = query.first
    if query.others or query.order_by or not isinstance(first, Select) or first.group_by or first.having is not None or first.is_distinct:
        return query
    if not all(isinstance(item, Star) and not item.table for item in first.items) or first.source is None:
        return query
    return replace(query, first=replace(first, items=(SelectItem(Literal(1)),)))
