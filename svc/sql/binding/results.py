"""The columns of the result, with their values as they are stored (spec: sql §3, §4).

A column of a table is read by its exact face where no group and no DISTINCT stands between. Else a value whose type is known is decoded by that, and one of
type `Any`, or of several types, is read exactly all the same if a row of the group, or of those that are equal, can say it.
"""

from __future__ import annotations

from svc.sql.binding.bound_nodes import BoundCall, ResolvedColumn
from svc.sql.binding.faces import DECODINGS, exact_of
from svc.sql.binding.relations import BoundSelect, Relation, RelationColumn, by_value, value_of
from svc.sql.binding.sources import JsonValue
from svc.sql.bound import Decoding, ResultColumn
from svc.sql.catalogue import PLAIN_TYPES, ColumnType
from svc.sql.nodes import Expression, SelectItem, SubqueryRef, Values


def exact_result(relation: Relation, label: str) -> tuple[Relation, tuple[ResultColumn, ...]]:
    """(the query with exact values, its columns). Changes `relation`. `label`: of a source that may have to be made."""
    is_uncertain = ColumnType.ANY in relation.types
    if relation.others and is_uncertain and all(operator == "UNION ALL" for operator, _ in relation.others):
        relation = _wrapped(relation, label)
    first = relation.first
    if not relation.others and isinstance(first, BoundSelect):
        decodings = _exact_select(relation, first)
    elif not relation.others and isinstance(first, Values) and is_uncertain:
        decodings = _exact_values(relation, first)
    else:
        decodings = [_decoding(each) for each in relation.types]
    return relation, tuple(map(ResultColumn, relation.names, decodings))


def _exact_select(relation: Relation, select: BoundSelect) -> list[Decoding]:
    is_grouped = select.is_grouped
    if select.is_distinct and ColumnType.ANY in relation.types:
        select.group_instead_of_distinct()
    is_free = not (select.is_distinct or select.group_by or is_grouped)
    values = select.values
    found: list[Expression] = []
    decodings = []
    for value, column_type in zip(values, relation.types, strict=True):
        face, decoding = _exact_item(value, column_type, is_free, select.is_distinct)
        found.append(face)
        decodings.append(decoding)
    changed = {number: value for number, (value, face) in enumerate(zip(values, found, strict=True), 1) if value is not face}
    if changed:
        select.items = tuple([SelectItem(face) for face in found])
        select.group_by = tuple([value_of(term, changed) for term in select.group_by])
        relation.order_by = tuple([by_value(term, changed) for term in relation.order_by])
    return decodings


def _exact_item(value: Expression, column_type: ColumnType | None, is_free: bool, is_distinct: bool) -> tuple[Expression, Decoding]:
    """`is_free`: each row is one of the result; `is_distinct`: rows are told apart by the value."""
    if isinstance(value, ResolvedColumn) and isinstance(value.column, JsonValue) and is_free:
        return value.column.as_json(), Decoding.JSON
    if column_type is None or column_type in PLAIN_TYPES or is_distinct:
        return value, _decoding(column_type)
    is_exact_call = isinstance(value, BoundCall) and value.function is not None and bool(value.function.exact)
    if column_type is ColumnType.ANY or is_exact_call or (is_free and isinstance(value, ResolvedColumn)):
        face = exact_of(value)
        if face is not None:
            return face, Decoding.EXACT
    return value, _decoding(column_type)


def _exact_values(relation: Relation, values: Values) -> list[Decoding]:
    columns: list[list[Expression]] = []
    decodings = []
    for index, column_type in enumerate(relation.types):
        column = [row[index] for row in values.rows]
        faces = [face for face in map(exact_of, column) if face is not None] if column_type is ColumnType.ANY else []
        is_exact = len(faces) == len(column)
        columns.append(faces if is_exact else column)
        decodings.append(Decoding.EXACT if is_exact else _decoding(column_type))
    values.rows = tuple(zip(*columns, strict=True))
    return decodings


def _wrapped(relation: Relation, label: str) -> Relation:
    """The rows of a UNION ALL as a sub-select, which the query around it orders: then exact faces take no part in that."""
    relation.name_columns()
    columns = [RelationColumn(relation, index, label).expression() for index in range(len(relation.names))]
    order_by = tuple([by_value(term, dict(enumerate(columns, 1))) for term in relation.order_by])
    select = BoundSelect(tuple(map(SelectItem, columns)), SubqueryRef(relation, label))
    limit, offset = relation.limit, relation.offset
    relation.order_by, relation.limit, relation.offset = (), None, None
    return Relation(
        select, order_by=order_by, limit=limit, offset=offset, names=relation.names, sql_names=relation.sql_names, types=relation.types
    )


def _decoding(column_type: ColumnType | None) -> Decoding:
    return Decoding.NONE if column_type is None else DECODINGS.get(column_type, Decoding.NONE)
