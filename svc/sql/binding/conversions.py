"""What SQLite converts before it compares, which depends on both sides (see `svc.sql.tables.comparing`)."""

from __future__ import annotations

from svc.sql.binding.bound_nodes import ResolvedColumn
from svc.sql.binding.relations import BoundSelect, Relation, RelationColumn
from svc.sql.binding.sources import TableColumn, TableSource
from svc.sql.binding.walking import walk
from svc.sql.catalogue import ColumnType
from svc.sql.nodes import Binary, Collate, Expression, In, Literal, Parameter, RowValue, Unary

_NUMBERS = frozenset((ColumnType.INTEGER, ColumnType.REAL, ColumnType.BOOLEAN))
_TEXTS = frozenset((ColumnType.TEXT, ColumnType.DATE))
_MOST = 100  # sub-selects that hand on a column


def is_plain(relation: Relation) -> bool:
    """Whether each column of texts is tested for equality with parameters, literals and other columns of texts only."""
    for node in walk(relation):
        if isinstance(node, RowValue):
            return False
        if isinstance(node, Binary) and node.operator == "=":
            if any(_may_be_text(one) and not _is_text(other) for one, other in ((node.left, node.right), (node.right, node.left))):
                return False
        elif isinstance(node, In) and isinstance(node.items, tuple) and _may_be_text(node.operand) and not all(map(_is_text, node.items)):
            return False
    return True


def looked_for(operand: Expression, query: Relation) -> Expression:
    """The operand of `operand IN (query)`.

    Where SQLite looks for the values of the query in a virtual table, it tests the rows that it gets as if the values came from nowhere. So what would be
    converted because of the column that a value comes from must not be looked for: `+column` is the same to a comparison, if not to the choice of a way.
    """
    member = query.members[-1]  # by which SQLite converts
    items = operand.items if isinstance(operand, RowValue) else (operand,)
    values = member.values if isinstance(member, BoundSelect) else [None] * len(items)
    found = tuple([Unary("+", item) if _is_converted(item, value) else item for item, value in zip(items, values, strict=True)])
    return RowValue(found) if isinstance(operand, RowValue) else found[0]


def _is_converted(item: Expression, value: Expression | None) -> bool:
    affinity = _affinity(item)
    if affinity == "number" or not isinstance(_without_collation(item), ResolvedColumn):
        return False
    if value is None or not isinstance(_without_collation(value), ResolvedColumn):
        return False
    other = _affinity(value)
    return other == "number" or (other == "" and affinity != "")


def _affinity(node: Expression) -> str | None:
    """`number`, `text`, "" for none; None if it is not known, or a column of texts may have others."""
    for _ in range(_MOST):
        node = _without_collation(node)
        if not isinstance(node, ResolvedColumn):
            return ""
        column = node.column
        if isinstance(column, TableColumn):
            if column.type in _NUMBERS:
                return "number"
            if column.type not in _TEXTS:
                return ""
            source = column.table
            return (
                "text" if isinstance(source, TableSource) and source.view is not None and column.name not in source.view.doubtful else None
            )
        if not isinstance(column, RelationColumn) or column.relation.others or not isinstance(column.relation.first, BoundSelect):
            return None
        node = column.relation.first.values[column.index]
    return None


def _may_be_text(node: Expression) -> bool:
    node = _without_collation(node)
    return isinstance(node, ResolvedColumn) and _affinity(node) in ("text", None)


def _is_text(node: Expression) -> bool:
    """Whether it is compared as a text with a column of texts."""
    return isinstance(node, (Literal, Parameter)) or _affinity(node) == "text"


def _without_collation(node: Expression) -> Expression:
    while isinstance(node, Collate):
        node = node.operand
    return node
