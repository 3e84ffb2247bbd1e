"""Counts and groups that indexes answer without records (spec: sql §9).

    SELECT brand, COUNT(*) FROM item GROUP BY brand    reads a table with a row for each brand, and its count: `GroupsView`
    SELECT COUNT(*), MIN(price), MAX(price) FROM item  becomes three sub-selects, each of which one look at an index answers

A row of such a table stands for as many records that are equal in the one attribute that the query names. So conditions and groups stay as they are, and
COUNT adds up the numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from svc.sql.binding.bound_nodes import BoundCall, BoundTable, ResolvedColumn
from svc.sql.binding.figures import Figures
from svc.sql.binding.relations import BoundSelect, Relation
from svc.sql.binding.walking import substituted, walk
from svc.sql.catalogue import ColumnView
from svc.sql.nodes import Binary, Call, Expression, IsNull, Literal, OrderTerm, SelectItem, Subquery, Unary
from svc.sql.tables.index_only import CountView, GroupsView

_ENDS = frozenset(("MIN", "MAX"))
VALUE, EXACT_VALUE, NUMBER = "value", "exact", "n"  # columns of these tables


def count_by_indexes(relation: Relation, select: BoundSelect, figures: Figures) -> list[GroupsView | CountView]:
    """Changes `select`, a member of `relation`, if indexes can answer it. Returns the tables that it then reads."""
    table, scope = select.source, select.scope
    if not isinstance(table, BoundTable) or table.view.is_narrowed or scope is None or not select.is_grouped or scope.has_windows:
        return []
    aggregates = scope.aggregates
    columns: dict[str, ColumnView] = {}
    calls: dict[int, BoundCall] = {}
    made: dict[int, Expression] = {}

    def enters(node: Any) -> bool:
        return not (id(node) in aggregates and _counts_records(node, table))

    terms = tuple([term.expression for term in relation.order_by])
    for node in walk((select.items, select.where, select.group_by, select.having, terms), enters):
        if isinstance(node, Relation) or _is_other(node, aggregates):
            return []
        if isinstance(node, ResolvedColumn):
            column = table.column(node)
            if column is not None:
                columns[column.name] = column
                made[id(node)] = ResolvedColumn(VALUE if node.name == column.sql_name else EXACT_VALUE, node.table)
        elif isinstance(node, BoundCall) and id(node) in aggregates:
            calls[id(node)] = node
    if not select.group_by and select.where is None and (len(calls) > 1 or any(_name(call) in _ENDS for call in calls.values())):
        alone = _each_alone(list(calls.values()), table, figures)
        if alone:
            # There is one row: HAVING leaves it or not.
            select.source, select.where, select.having = None, substituted(select.having, alone), None
            _substitute(relation, select, alone)
            return [figures.count(table.view)] if any(_counts_records(call, table) for call in calls.values()) else []
    counted = [call for call in calls.values() if _name(call) == "COUNT" and not call.is_distinct]
    if len(columns) > 1 or not (counted or select.group_by) or not all(map(_adds_up, calls.values())):
        return []
    if not columns and (select.group_by or len(counted) < len(calls)):  # the row of the count is there, even if it stands for no record
        return []
    view = figures.groups(table.view, next(iter(columns))) if columns else figures.count(table.view)
    if view is None:
        return []
    made |= {id(call): substituted(_sum_of_counts(call, table), made) for call in counted}
    select.source = replace(table, name=view.sql_name)
    select.where, select.having = substituted(select.where, made), substituted(select.having, made)
    _substitute(relation, select, made)
    return [view]


def _substitute(relation: Relation, select: BoundSelect, made: dict[int, Expression]) -> None:
    select.items, select.group_by = substituted(select.items, made), substituted(select.group_by, made)
    relation.order_by = substituted(relation.order_by, made)


def _is_other(node: Any, aggregates: Mapping[int, Expression]) -> bool:
    """Whether it is an aggregate over other rows, or has another value for each record."""
    if not isinstance(node, BoundCall) or node.function is None:
        return False
    function = node.function
    return function.name == "RANDOM" or (function.is_aggregate(len(node.args or ())) and id(node) not in aggregates)


def _name(call: BoundCall) -> str:
    return "" if call.function is None else call.function.name


def _counts_records(node: BoundCall, table: BoundTable) -> bool:
    """COUNT(*), COUNT(key)"""
    return _name(node) == "COUNT" and not node.is_distinct and node.where is None and not _counts_values(node, table)


def _counts_values(node: BoundCall, table: BoundTable) -> bool:
    """Whether a COUNT has to look whether there is a value: COUNT(x)"""
    view = table.column(node.args[0]) if node.args else None
    return bool(node.args) and (view is None or not view.is_key)


def _adds_up(call: BoundCall) -> bool:
    """Whether it can be computed from values and their counts."""
    return _name(call) in _ENDS | {"COUNT"} and not call.order_by


def _sum_of_counts(call: BoundCall, table: BoundTable) -> Expression:
    condition = call.where
    if call.args and _counts_values(call, table):
        is_there = IsNull(call.args[0], True)
        condition = is_there if condition is None else Binary("AND", is_there, condition)
    total = Call("SUM", (ResolvedColumn(NUMBER, table.alias),), where=condition)
    return Call("COALESCE", (total, Literal(0)))


def _each_alone(calls: list[BoundCall], table: BoundTable, figures: Figures) -> dict[int, Expression]:
    """A sub-select for each aggregate over all records, nothing if one of them would need records."""
    made: dict[int, Expression] = {}
    for call in calls:
        if _counts_records(call, table):
            number = SelectItem(Unary("+", ResolvedColumn(NUMBER, table.alias)))  # an aggregate has no affinity
            select = BoundSelect((number,), replace(table, name=figures.count(table.view).sql_name))
            made[id(call)] = _subquery(select)
        elif _name(call) in _ENDS and call.where is None and call.args and _is_indexed(call.args[0], table, figures):
            # Of MIN itself, SQLite does not ask a virtual table for the first row in order.
            value = call.args[0]
            select = BoundSelect((SelectItem(Unary("+", value)),), table, IsNull(value, True))
            made[id(call)] = _subquery(select, (OrderTerm(value, _name(call) == "MAX"),), Literal(1))
        else:
            return {}
    return made


def _subquery(select: BoundSelect, order_by: tuple[OrderTerm, ...] = (), limit: Expression | None = None) -> Subquery:
    return Subquery(Relation(select, order_by=order_by, limit=limit, names=[""], sql_names=[""], types=[None]))


def _is_indexed(node: Expression, table: BoundTable, figures: Figures) -> bool:
    view = table.column(node)
    return view is not None and (view.is_key or figures.groups(table.view, view.name) is not None)
