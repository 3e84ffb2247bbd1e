"""Whether each column of a query with groups has one value in a group (spec: sql §4, operations §15.3).

It has if the query is grouped by it, by an expression of which it is a part, or by the primary key of the table whose column it is. For others SQLite takes
the value of some row of the group; here they are an error.
"""

from __future__ import annotations

from typing import Any

from svc.errors import QueryError
from svc.sql.binding.bound_nodes import ResolvedColumn
from svc.sql.binding.relations import BoundSelect
from svc.sql.binding.shapes import Shapes
from svc.sql.binding.walking import walk
from svc.sql.nodes import Call


def check_groups(select: BoundSelect, computed: tuple[object, ...]) -> None:
    """Raises QueryError for a column in `computed`, trees of that query, that may have several values in a group."""
    scope = select.scope
    assert scope is not None
    shapes = Shapes()
    keys = {shapes.of(key) for key in select.group_by}
    key_columns = [
        key.column for key in select.group_by if isinstance(key, ResolvedColumn) and key.column is not None and key.column.is_key
    ]
    tables = {id(column.table) for column in key_columns if column.table is not None}
    labels = {source.label for source in scope.sources()}

    def is_constant(node: Any) -> bool:
        return (isinstance(node, Call) and id(node) in scope.aggregates) or shapes.of(node) in keys

    for node in walk(computed, lambda node: not is_constant(node)):
        if isinstance(node, ResolvedColumn) and node.table in labels and node.column is not None and not is_constant(node):
            table = node.column.table
            if table is None or id(table) not in tables:
                position = node.at if node.at >= 0 else None
                raise QueryError(f"select column '{node.column.name}' must be in group by", code="QUERY_SYNTAX", position=position)
