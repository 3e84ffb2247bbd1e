"""Conditions that all rows of a query fulfil, and which of them an index may serve (spec: sql §9)."""

from __future__ import annotations

from collections.abc import Iterator

from svc.sql.binding.bound_nodes import BoundTable, ResolvedColumn
from svc.sql.binding.walking import walk
from svc.sql.catalogue import ColumnView
from svc.sql.nodes import Between, Binary, Expression, In, Join, Match, Query, Select

EQUALITIES = frozenset(("=", "IS"))
_RANGES = frozenset(("<", "<=", ">", ">="))


def conditions_of(select: Select) -> Iterator[Expression]:
    """Of WHERE and ON: those between which there is AND."""
    waiting = [] if select.where is None else [select.where]
    source = select.source
    while isinstance(source, Join):
        if source.on is not None:
            waiting.append(source.on)
        source = source.left
    while waiting:
        condition = waiting.pop()
        if isinstance(condition, Binary) and condition.operator == "AND":
            waiting += (condition.right, condition.left)
        else:
            yield condition


def column_served(condition: Expression, table: BoundTable) -> ColumnView | None:
    """The indexed column, or the primary key, by which those records of the table can be found that fulfil the condition, if there is one."""
    if isinstance(condition, Binary) and condition.operator in EQUALITIES | _RANGES:
        sides = [condition.left, condition.right]
    elif isinstance(condition, (In, Between)):
        sides = [condition.operand]
    elif isinstance(condition, Match):
        sides = [condition.left]
    else:
        return None
    for side in sides:
        view = table.column(side)
        if view is not None and (view.is_key or view.is_indexed):
            others = [part for part in walk(condition, lambda node: not isinstance(node, Query)) if isinstance(part, ResolvedColumn)]
            return view if len(others) == 1 else None
    return None


def is_equality(condition: Expression) -> bool:
    return isinstance(condition, Binary) and condition.operator in EQUALITIES
