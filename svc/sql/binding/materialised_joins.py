"""Joins of a large table with small ones (spec: sql §9).

For each row of the outer table SQLite looks the inner one up, which takes microseconds with virtual tables. Where the outer table is read as a whole, and has
more records than the inner one, that becomes a MATERIALIZED table of WITH, with the columns that are used: for it SQLite makes an index of its own.
"""

from __future__ import annotations

from collections.abc import Iterator

from svc.sql.binding.bound_nodes import BoundTable, ResolvedColumn
from svc.sql.binding.conditions import column_served, conditions_of
from svc.sql.binding.figures import Figures
from svc.sql.binding.names import Labels
from svc.sql.binding.relations import BoundSelect, Relation
from svc.sql.binding.walking import substituted, walk
from svc.sql.nodes import Binary, CommonTable, Expression, Join, Literal, SelectItem, Source, TableRef

MANY_ROWS = 2_000  # of the outer table, below which looking up costs little
MOST_BYTES = 8 << 20  # of the records of an inner table: what is used of them is held in memory
TIMES = 2  # as many rows the outer table has at least


def materialise_inner_tables(relation: Relation, select: BoundSelect, figures: Figures, labels: Labels) -> list[CommonTable]:
    """The tables to be put into WITH. Changes `select`, a member of `relation`, so that it names them."""
    tables = list(_joined_tables(select.source))
    if len(tables) < 2 or any(column_served(each, table) is not None for table in tables for each in conditions_of(select)):
        return []
    counts = {table.alias: figures.record_count(table.view) for table in tables}
    outer = max(tables, key=lambda table: counts[table.alias])
    most = counts[outer.alias]
    if most < MANY_ROWS or _ends_early(relation, select, outer):
        return []
    found = []
    made: dict[int, object] = {}
    for table in tables:
        count = counts[table.alias]
        if (
            count * TIMES <= most
            and figures.size(table.view) <= MOST_BYTES
            and any(_is_lookup(each, table) for each in conditions_of(select))
        ):
            label = labels.label(table.name)
            found.append(_common_table(relation, table, label))
            made[id(table)] = TableRef(label, "", table.alias)
    select.source = substituted(select.source, made)
    return found


def _joined_tables(source: Source | None) -> Iterator[BoundTable]:
    while isinstance(source, Join):
        if isinstance(source.right, BoundTable):
            yield source.right
        source = source.left
    if isinstance(source, BoundTable):
        yield source


def _is_lookup(condition: Expression, table: BoundTable) -> bool:
    """Whether it is `column of the table = column of another`."""
    if not isinstance(condition, Binary) or condition.operator != "=":
        return False
    sides = (condition.left, condition.right)
    return all(isinstance(side, ResolvedColumn) for side in sides) and sum(table.column(side) is not None for side in sides) == 1


def _ends_early(relation: Relation, select: BoundSelect, outer: BoundTable) -> bool:
    """Whether a LIMIT may make an end of it after a few rows."""
    if relation.limit is None or select.is_grouped or select.is_distinct:
        return False
    terms = [select.values[term.expression.value - 1] if isinstance(term.expression, Literal) and type(term.expression.value) is int else term.expression
             for term in relation.order_by]  # fmt: skip
    return all(outer.column(term) is not None for term in terms)


def _common_table(relation: Relation, table: BoundTable, label: str) -> CommonTable:
    used = [part.name for part in walk(relation) if isinstance(part, ResolvedColumn) and part.table == table.alias]
    names = list(dict.fromkeys(used)) or [table.view.columns[0].sql_name]
    select = BoundSelect(tuple([SelectItem(ResolvedColumn(name, table.alias)) for name in names]), table)
    return CommonTable(label, Relation(select, names=names, sql_names=names, types=[None] * len(names)), tuple(names), True)
