"""Whether a statement compares texts with what can only be compared as a text (see `svc.sql.tables.comparing`)."""

from __future__ import annotations

from svc.sql.binding.bound_nodes import ResolvedColumn
from svc.sql.binding.relations import Relation
from svc.sql.binding.sources import TableColumn, TableSource
from svc.sql.binding.walking import walk
from svc.sql.catalogue import ColumnType
from svc.sql.nodes import Binary, Collate, Expression, In, Literal, Parameter, Query, RowValue


def has_plain_texts(relation: Relation) -> bool:
    """Whether each column of texts is tested for equality with parameters, literals and other columns of texts only."""
    pairs: list[tuple[Expression, Expression | Query]]
    for node in walk(relation):
        if isinstance(node, RowValue):
            return False
        if isinstance(node, Binary) and node.operator == "=":
            pairs = [(node.left, node.right), (node.right, node.left)]
        elif isinstance(node, In):
            pairs = [(node.operand, item) for item in ((node.items,) if isinstance(node.items, Query) else node.items)]
        else:
            continue
        if any(_may_be_text(one) and not _is_text(other) for one, other in pairs):
            return False
    return True


def _may_be_text(node: Expression) -> bool:
    """Whether it is a column of texts, perhaps."""
    while isinstance(node, Collate):
        node = node.operand
    return isinstance(node, ResolvedColumn) and (node.column is None or node.column.type in (ColumnType.TEXT, None))


def _is_text(node: Expression | Query) -> bool:
    """Whether it is compared as a text with a text."""
    if isinstance(node, (Literal, Parameter)):
        return True
    if not isinstance(node, ResolvedColumn) or not isinstance(node.column, TableColumn) or node.column.type is not ColumnType.TEXT:
        return False
    source = node.column.table
    return isinstance(source, TableSource) and source.view is not None and node.column.name not in source.view.doubtful
