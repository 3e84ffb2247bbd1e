"""Results that have most of a record (spec: sql §9).

Each value that goes through SQLite costs as much as reading it does. So where a row of the result has most of the columns of a table, SQLite hands on one
value, the record as it is stored, and the columns are read from that.
"""

from __future__ import annotations

from svc.sql.binding.bound_nodes import BoundTable, ResolvedColumn
from svc.sql.binding.relations import BoundSelect, Relation, by_value
from svc.sql.bound import RecordColumn
from svc.sql.catalogue import RECORD, ColumnView
from svc.sql.nodes import Expression, Join, SelectItem, Source

FEWEST = 4  # columns of a table for which its record is handed on
SHARE = 2  # one of so many columns of the table, at least


def hand_on_records(relation: Relation) -> tuple[int | RecordColumn, ...]:
    """For each column of the result the place of its value among SQLite's columns, or in a record; none if each has its own place. Changes the query of a
    whole statement."""
    select = relation.first
    if relation.others or not isinstance(select, BoundSelect) or select.is_distinct or select.is_grouped:
        return ()
    values = select.values
    found: dict[str, dict[int, ColumnView]] = {}  # label of a table -> columns of the result
    columns = {table.alias: _stored_columns(table) for table in _tables(select.source)}
    for place, value in enumerate(values):
        if isinstance(value, ResolvedColumn):
            view = columns.get(value.table, {}).get(value.name)
            if view is not None:
                found.setdefault(value.table, {})[place] = view
    replaced = {label: places for label, places in found.items() if _is_most(set(places.values()), set(columns[label].values()))}
    if not replaced:
        return ()
    relation.order_by = tuple([by_value(term, dict(enumerate(values, 1))) for term in relation.order_by])
    items: list[Expression] = [ResolvedColumn(RECORD, label) for label in replaced]
    layout: list[int | RecordColumn] = []
    for place, value in enumerate(values):
        for record, places in enumerate(replaced.values()):
            if place in places:
                layout.append(RecordColumn(record, places[place].name))
                break
        else:
            layout.append(len(items))
            items.append(value)
    select.items = tuple(map(SelectItem, items))
    return tuple(layout)


def _is_most(used: set[ColumnView], columns: set[ColumnView]) -> bool:
    return len(used) >= FEWEST and len(used) * SHARE >= len(columns)


def _stored_columns(table: BoundTable) -> dict[str, ColumnView]:
    """By the names of both faces; without those whose values are not as the definition says, which are converted."""
    view = table.view
    stored = [column for column in view.columns if not column.is_computed and column.name not in view.doubtful]
    return {name: column for column in stored for name in (column.sql_name, column.exact_name)}


def _tables(source: Source | None) -> list[BoundTable]:
    found = []
    while source is not None:
        right = source.right if isinstance(source, Join) else source
        if isinstance(right, BoundTable):
            found.append(right)
        source = source.left if isinstance(source, Join) else None
    return found
