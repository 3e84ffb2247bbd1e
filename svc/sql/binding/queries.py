"""Queries: SELECT and what UNION joins, with WITH before it, ORDER BY and LIMIT behind it (spec: sql §2).

Names are looked for as SQLite does it: result columns may name the columns of sources only; WHERE, ON, GROUP BY and HAVING besides these an alias that is no
column; ORDER BY asks for aliases first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from svc.errors import QueryError
from svc.query.hints import did_you_mean
from svc.sql.binding.bound_nodes import BoundTable, ResolvedColumn
from svc.sql.binding.common_tables import CommonTableEntry, CommonTables, State
from svc.sql.binding.conditions import column_served, conditions_of, is_equality
from svc.sql.binding.expressions import ExpressionBinder
from svc.sql.binding.faces import common_type, type_of
from svc.sql.binding.faults import misuse
from svc.sql.binding.from_clause import FromBinder
from svc.sql.binding.grouping import check_groups
from svc.sql.binding.names import Names, names_for_sqlite, numbered
from svc.sql.binding.relations import BoundSelect, Relation
from svc.sql.binding.result_items import ResultItem, merged_with_stars
from svc.sql.binding.scopes import Scope
from svc.sql.binding.shapes import Shapes
from svc.sql.binding.sources import AmbiguousName, SourceColumn, TableSource
from svc.sql.binding.statement import MAX_RELATIONS, Statement
from svc.sql.binding.walking import is_small, position_of, walk
from svc.sql.catalogue import ColumnType
from svc.sql.errors import StatementTooLarge, ambiguous_column, unknown_column
from svc.sql.limits import MAX_COLUMNS
from svc.sql.names import expression_name
from svc.sql.nodes import (
    Collate,
    Column,
    CommonTable,
    Expression,
    Literal,
    OrderTerm,
    Query,
    Select,
    SelectItem,
    Star,
    Values,
)

_MAX_NAMED = 100  # nodes of an expression that a column of a sub-select is named by


class QueryBinder:
    def __init__(self, statement: Statement) -> None:
        self._statement = statement
        self._expressions = ExpressionBinder(statement, lambda node, scope: self.query(node, scope, scope.tables))
        self._sources = FromBinder(statement, self._expressions, self)

    def query(
        self,
        node: Query,
        outer: Scope | None,
        tables: CommonTables | None,
        entry: CommonTableEntry | None = None,
        *,
        is_result: bool = False,
    ) -> Relation:
        """`outer`: whose names it may use, besides those of its own sources. `entry`: the table of WITH that it is. `is_result`: it makes the result."""
        own = CommonTables(node.tables, tables, outer, self._statement.table_labels) if node.tables else None
        tables = own or tables
        for each in own.in_order() if own is not None else ():
            self._common_table(each)
        limit = self._limit(node, tables)
        first, names = self._member(node.first, outer, tables, entry, is_result)
        bound_tables = [each.bound for each in own.entries() if each.bound is not None] if own is not None else []
        relation = Relation(first, tables=tuple(bound_tables), is_recursive=node.is_recursive)
        self._statement.relations.append(relation)
        _name(relation, names, entry)
        relation.types = _types_of(first, len(names))
        alternatives = [names]
        if entry is not None:
            entry.relation = relation
        for operator, member in node.others:
            bound, other_names = self._member(member, outer, tables, entry, is_result)
            if len(other_names) != len(names):
                raise misuse(f"the sides of {operator} have {len(names)} and {len(other_names)} columns", member.at)
            self._check_recursion(relation, operator, bound, entry, member.at)
            relation.others = (*relation.others, (operator, bound))
            alternatives.append(other_names)
        if relation.others:
            types = [_types_of(member, len(names)) for member in relation.members]
            relation.types = [common_type(list(each)) for each in zip(*types, strict=True)]
            relation.order_by = tuple([self._compound_term(term, relation, alternatives) for term in node.order_by])
        elif isinstance(first, BoundSelect):
            relation.order_by = self._order_by(node.order_by, first)
        scopes = [member.scope for member in relation.members if isinstance(member, BoundSelect)]
        relation.depth = 1 + max([scope.depth for scope in scopes if scope is not None], default=0)
        if relation.depth > MAX_RELATIONS:
            raise StatementTooLarge(f"more than {MAX_RELATIONS} sub-selects and tables of WITH are each built on the next", node.first.at)
        relation.limit = limit
        relation.offset = self._constant(node.offset, tables, "OFFSET")
        if (is_result or limit is not None) and not relation.order_by and not relation.others:
            relation.order_by = _key_order(first)
        return relation

    def _common_table(self, entry: CommonTableEntry) -> None:
        entry.state = State.BINDING
        relation = self.query(entry.node.query, entry.outer, entry.tables, entry)
        entry.state = State.BOUND
        entry.bound = relation.table = CommonTable(entry.label, relation, tuple(relation.sql_names), entry.node.is_materialized)

    def _check_recursion(self, relation: Relation, operator: str, member: Select | Values, entry: CommonTableEntry | None, at: int) -> None:
        if entry is None:
            return
        if not entry.uses:
            if entry.is_recursive:
                raise misuse("what a recursive table begins with stands before what names the table itself", at)
            return
        entry.uses = 0
        entry.is_recursive = True
        if operator not in ("UNION", "UNION ALL"):
            raise misuse(f"a recursive table is made by UNION or UNION ALL, not by {operator}", at)
        if isinstance(member, BoundSelect) and (member.is_grouped or (member.scope is not None and member.scope.has_windows)):
            raise misuse("what names the recursive table itself has no aggregates, groups and windows", at)

    # --- SELECT, VALUES -------------------------------------------------------------------------------------------------------------------

    def _member(
        self, node: Select | Values, outer: Scope | None, tables: CommonTables | None, entry: CommonTableEntry | None, is_result: bool
    ) -> tuple[BoundSelect | Values, list[str]]:
        """(what SQLite evaluates, the names of its columns)"""
        scope = Scope(outer, tables)
        if entry is not None:
            entry.member = scope
        if isinstance(node, Select):
            return self._select(node, scope, is_result)
        scope.no_aggregates = scope.no_windows = "VALUES"
        rows = tuple([tuple([self._expressions.bind(value, scope) for value in row]) for row in node.rows])
        return Values(rows, node.at), [f"column{number}" for number in range(1, len(rows[0]) + 1)]

    def _select(self, node: Select, scope: Scope, is_result: bool) -> tuple[BoundSelect, list[str]]:
        expressions = self._expressions
        select = BoundSelect((), is_distinct=node.is_distinct, at=node.at, scope=scope)
        clause = None if node.source is None else self._sources.from_clause(node.source, scope)
        self._windows(node, select, scope)
        items = self._items(node, scope, is_result)
        if is_result and len(items) > len(node.items):
            items = merged_with_stars(items)
        if len(items) > MAX_COLUMNS:
            raise StatementTooLarge(f"more than {MAX_COLUMNS} columns", node.at)
        select.items = tuple([SelectItem(item.expression) for item in items])
        for index, item in enumerate(items):
            if item.alias:
                scope.aliases.add(item.alias, item.expression)
            if item.alias or item.is_of_star:
                scope.positions.add(item.name, index + 1)
        scope.no_windows = scope.no_aggregates = "ON"
        if clause is not None:
            self._sources.complete(clause, scope)
            select.source = clause.source
        scope.no_windows = scope.no_aggregates = "WHERE"
        select.where = expressions.maybe(node.where, scope)
        scope.no_windows = scope.no_aggregates = "GROUP BY"
        select.group_by = tuple([self._group_term(term, select, scope) for term in node.group_by])
        if node.having is not None:
            if not select.is_grouped:
                raise misuse("HAVING chooses groups: it needs GROUP BY or an aggregate", position_of(node.having))
            scope.no_windows, scope.no_aggregates = "HAVING", ""
            select.having = expressions.bind(node.having, scope)
        if select.is_grouped:
            check_groups(select, (select.items, select.having, select.windows))
        return select, [item.name for item in items]

    def _windows(self, node: Select, select: BoundSelect, scope: Scope) -> None:
        scope.no_windows = "WINDOW"
        windows = []
        for name, window in node.windows:
            if scope.windows.get(name) is not None:
                raise misuse(f"there are two windows of the name {name[:100]}", node.at)
            windows.append((name, self._expressions.window(window, scope, node.at)))
            scope.windows.add(name, name)
        select.windows = tuple(windows)
        scope.no_windows = ""

    def _name_of(self, expression: Expression, is_result: bool) -> str:
        # Of a query in a query in a query each would print all that is in it.
        return expression_name(expression, self._statement.text) if is_result or is_small(expression, _MAX_NAMED) else "expression"

    def _items(self, node: Select, scope: Scope, is_result: bool) -> list[ResultItem]:
        items: list[ResultItem] = []
        for item in node.items:
            if isinstance(item, Star):
                columns = self._columns_of_star(item, scope)
                items.extend([ResultItem(column.name, column.expression(item.at), "", column, True) for column in columns])
                continue
            value = self._expressions.bind(item.expression, scope)
            column = value.column if isinstance(value, ResolvedColumn) else None
            name = item.alias or (column.name if column is not None else self._name_of(item.expression, is_result))
            items.append(ResultItem(name, value, item.alias, column))
        return items

    def _columns_of_star(self, node: Star, scope: Scope) -> Sequence[SourceColumn]:
        try:
            columns = self._named_by_star(node, scope)
        except AmbiguousName as fault:
            raise ambiguous_column(fault.args[0], node.at if node.at >= 0 else None) from None
        if not columns:
            raise misuse("* stands for no column here", node.at)
        self._statement.count_columns(len(columns), node.at)
        return columns

    def _named_by_star(self, node: Star, scope: Scope) -> Sequence[SourceColumn]:
        if node.table:
            sources = scope.called(node.table, node.database)
            if not sources:
                hint = did_you_mean(node.table, [source.alias for source in scope.sources() if source.alias])
                raise unknown_column(f"{node.table[:100]}.*", hint, node.at if node.at >= 0 else None)
            return [column for source in sources for column in source.shown()]
        if not scope.entries:
            raise misuse("* needs FROM", node.at)
        return scope.shown()

    # --- GROUP BY, ORDER BY, LIMIT --------------------------------------------------------------------------------------------------------

    def _group_term(self, term: Expression, select: BoundSelect, scope: Scope) -> Expression:
        index = _position(term)
        if index is None:
            value = self._expressions.bind(term, scope)
        else:
            value = select.values[_checked(index, len(select.items), "GROUP BY", term)]
            for part in walk(value):
                if id(part) in scope.aggregates:
                    raise misuse("the rows of a group make an aggregate: it is nothing to GROUP BY", position_of(term))
        return Literal("") if isinstance(value, Literal) else value  # a number would be a position

    def _order_by(self, terms: tuple[OrderTerm, ...], select: BoundSelect) -> tuple[OrderTerm, ...]:
        scope = select.scope
        if not terms or scope is None:
            return ()
        scope.no_windows, scope.no_aggregates = "", "" if select.is_grouped else "ORDER BY"
        found = tuple([replace(term, expression=self._order_term(term.expression, select, scope)) for term in terms])
        if select.is_grouped:
            check_groups(select, found)
        return found

    def _order_term(self, node: Expression, select: BoundSelect, scope: Scope) -> Expression:
        """An expression, or the number of a column as a Literal."""
        if isinstance(node, Collate):
            return self._expressions.collated(self._order_term(node.operand, select, scope), node)
        if isinstance(node, Column) and not node.table:
            position = scope.positions.get(node.name)
            if position is not None:
                return Literal(position, at=node.at)
        index = _position(node)
        if index is not None:
            return Literal(_checked(index, len(select.items), "ORDER BY", node) + 1)
        value = self._expressions.bind(node, scope)
        return Literal("") if isinstance(value, Literal) else value

    def _compound_term(self, term: OrderTerm, relation: Relation, alternatives: list[list[str]]) -> OrderTerm:
        return replace(term, expression=self._compound_position(term.expression, relation, alternatives))

    def _compound_position(self, node: Expression, relation: Relation, alternatives: list[list[str]]) -> Expression:
        """The number of a column, which is all that ORDER BY may name behind a UNION."""
        if isinstance(node, Collate):
            return self._expressions.collated(self._compound_position(node.operand, relation, alternatives), node)
        index = _position(node)
        if index is not None:
            return Literal(_checked(index, len(relation.names), "ORDER BY", node) + 1)
        for names, member in zip(alternatives, relation.members, strict=True):
            found = self._position_in(node, names, member)
            if found is not None:
                return Literal(found + 1)
        hint = did_you_mean(node.name, relation.names) if isinstance(node, Column) else ""
        raise misuse(
            "behind UNION, INTERSECT and EXCEPT only columns of the result can be ordered by" + (f" ({hint})" if hint else ""),
            position_of(node),
        )

    def _position_in(self, node: Expression, names: list[str], member: Select | Values) -> int | None:
        if isinstance(node, Column) and not node.table:
            known: Names[int] = Names()
            for index, name in enumerate(names):
                known.add(name, index)
            found = known.get(node.name)
            if found is not None:
                return found
        if not isinstance(member, BoundSelect) or member.scope is None:
            return None
        self._statement.count_columns(len(member.items), -1)
        member.scope.no_windows, member.scope.no_aggregates = "", "" if member.is_grouped else "ORDER BY"
        try:
            value = self._expressions.bind(node, member.scope)
        except QueryError:
            return None
        shapes = Shapes()
        wanted = shapes.of(value)
        return next((index for index, each in enumerate(member.values) if shapes.of(each) == wanted), None)

    def _limit(self, node: Query, tables: CommonTables | None) -> Expression | None:
        for member in (node.first, *[member for _, member in node.others]):
            if isinstance(member, Select) and member.top is not None:
                if node.others:
                    raise misuse("TOP is not possible beside UNION, INTERSECT and EXCEPT: use LIMIT", member.at)
                return self._constant(member.top, tables, "TOP")
        return self._constant(node.limit, tables, "LIMIT")

    def _constant(self, node: Expression | None, tables: CommonTables | None, clause: str) -> Expression | None:
        if node is None:
            return None
        scope = Scope(None, tables)
        scope.no_aggregates = scope.no_windows = clause
        return self._expressions.bind(node, scope)


def _name(relation: Relation, names: list[str], entry: CommonTableEntry | None) -> None:
    if entry is not None and entry.node.columns:
        if len(entry.node.columns) != len(names):
            raise misuse(
                f"the table {entry.node.name[:100]} of WITH has {len(names)} columns, and {len(entry.node.columns)} names for them",
                entry.node.at,
            )
        names = list(entry.node.columns)
    relation.names = numbered(names)
    is_values = isinstance(relation.first, Values) and entry is None
    relation.sql_names = names if is_values else names_for_sqlite(relation.names)


def _types_of(member: BoundSelect | Select | Values, count: int) -> list[ColumnType | None]:
    if isinstance(member, BoundSelect):
        return [type_of(value) for value in member.values]
    assert isinstance(member, Values)
    return [common_type([type_of(row[index]) for row in member.rows]) for index in range(count)]


def _position(node: Expression) -> int | None:
    is_number = isinstance(node, Literal) and isinstance(node.value, int) and not isinstance(node.value, bool)
    return node.value if is_number and isinstance(node, Literal) else None


def _checked(position: int, count: int, clause: str, node: Expression) -> int:
    if not 1 <= position <= count:
        raise misuse(f"{clause} {str(position)[:20]}: there are {count} columns", position_of(node))
    return position - 1


def _key_order(select: Select | Values) -> tuple[OrderTerm, ...]:
    """The order of the primary key, for rows of one table; nothing where they have it anyway, or where it cannot be asked for."""
    if not isinstance(select, BoundSelect) or select.scope is None or select.is_grouped or select.is_distinct:
        return ()
    table, sources = select.source, select.scope.sources()
    key = sources[0].key() if isinstance(table, BoundTable) and isinstance(sources[0], TableSource) else None
    if key is None or not isinstance(table, BoundTable):
        return ()
    served = [(each, view) for each in conditions_of(select) if (view := column_served(each, table)) is not None]
    if any(view.is_key and is_equality(each) for each, view in served):
        return ()  # there is one record at most
    return (OrderTerm(key.expression()),)
