"""The index rule: which queries are refused because no index would bound what they read (spec: query §6, §11.8-§11.9).

It looks at definitions only, never at figures: a query that is refused is refused whatever the table holds. The messages are those of
http §5; in parentheses they name the attribute to index.
"""

from __future__ import annotations

from svc.errors import IndexRebuilding, QueryError
from svc.query.nodes import Comparator, SortKey
from svc.query.plan import AllOf, AnyOf, Comparison, Never, Predicate, RelatedCondition
from svc.query.tables import AnyTable

UNINDEXABLE = frozenset((Comparator.CONTAINS, Comparator.ENDS_WITH, Comparator.NOT_EQUAL))
_OPERATOR_NAMES = {Comparator.CONTAINS: "contains", Comparator.ENDS_WITH: "ends_with", Comparator.NOT_EQUAL: "not_equal"}
_COMBINE = "combine it with a condition on an indexed attribute"

LIVE_HINT = "it is for subscriptions: open a WebSocket, or ask for text/event-stream"

Fault = QueryError | IndexRebuilding


def check_indexed(predicate: Predicate, table: AnyTable) -> None:
    """Raise unless the predicate is index-backed."""
    fault = _fault(predicate, table)
    if fault is not None:
        try:
            raise fault
        finally:
            # This frame is in the traceback: a variable that names the fault would make a reference cycle of both.
            del fault


def live_refusal() -> QueryError:
    """The error for a live query where there is one answer."""
    return QueryError(f"live() cannot be used here, this request has one answer ({LIVE_HINT})", code="QUERY_SYNTAX")


def check_sort(sort: tuple[SortKey, ...], table: AnyTable, allow_full_scan: bool | None) -> None:
    """A sort without any condition needs an index, or the primary key."""
    if not sort or allow_full_scan:
        return
    path = sort[0].path
    if path == (table.primary_key,):
        return
    index = table.indexes.get(path[0]) if len(path) == 1 else None
    if index is None:
        hint = f"add @indexed to {path[0]}, or a condition" if _can_be_indexed(path, table) else "add a condition on an indexed attribute"
        raise QueryError(f"{'.'.join(path)} is not indexed and not combined with any other conditions ({hint})", code="NOT_INDEXED")
    if not index.ready:
        raise IndexRebuilding(path[0])


def _fault(predicate: Predicate, table: AnyTable) -> Fault | None:
    """Why the predicate is not index-backed, None if it is. Of several reasons: an index that is being built, else the first."""
    match predicate:
        case Never():
            return None
        case Comparison():
            return _test_fault(predicate, table)
        case RelatedCondition():
            return _related_fault(predicate, table)
        case AllOf():
            first: Fault | None = None
            for member in predicate.members:
                fault = _fault(member, table)
                if fault is None:
                    return None
                if first is None or (isinstance(fault, IndexRebuilding) and not isinstance(first, IndexRebuilding)):
                    first = fault
            return first
        case AnyOf():
            faults = [fault for member in predicate.members if (fault := _fault(member, table)) is not None]
            return next((fault for fault in faults if isinstance(fault, QueryError)), faults[0] if faults else None)


def _test_fault(test: Comparison, table: AnyTable) -> Fault | None:
    name = ".".join(test.path)
    index = None
    if test.path != (table.primary_key,):
        index = table.indexes.get(test.path[0]) if len(test.path) == 1 else None
        if index is None:
            return _not_indexed(name, f"add @indexed to {name}, or {_COMBINE}" if _can_be_indexed(test.path, table) else _COMBINE)
    if test.comparator in UNINDEXABLE and not (test.comparator is Comparator.NOT_EQUAL and test.value is None):
        return QueryError(
            f"Can not use {_OPERATOR_NAMES[test.comparator]} operator without combining with a condition that uses an index, "
            f"can not search for attribute {name}",
            code="NOT_INDEXED",
        )
    return IndexRebuilding(name) if index is not None and not index.ready else None


def _related_fault(related: RelatedCondition, table: AnyTable) -> Fault | None:
    """Backed by the index on the last attribute, or by the one on the foreign key: then the related table is scanned once."""
    relationship = related.relationship
    holder, key = (related.target, relationship.to) if relationship.to is not None else (table, relationship.from_ or "")
    index = holder.indexes.get(key)
    if key == holder.primary_key or (index is not None and index.ready):
        return None
    if related.where is not None:
        fault = _fault(related.where, related.target)
        if not isinstance(fault, QueryError) or not fault.message.startswith('"'):
            return fault
    return _not_indexed(_path_of(related), f"add @indexed to {holder.name}.{key}, or {_COMBINE}")


def _path_of(related: RelatedCondition) -> str:
    """The names of the first condition on the related records, as the query has them."""
    inner: Predicate | None = related.where
    while isinstance(inner, (AllOf, AnyOf)):
        inner = inner.members[0]
    if isinstance(inner, RelatedCondition):
        return f"{related.name}.{_path_of(inner)}"
    return related.name if inner is None else ".".join((related.name, *inner.path))


def _can_be_indexed(path: tuple[str, ...], table: AnyTable) -> bool:
    """An index is on an attribute, not on what is inside its objects, nor on a relationship."""
    attribute = table.attributes.get(path[0])
    return len(path) == 1 and (attribute is None or attribute.relationship is None)


def _not_indexed(name: str, hint: str) -> QueryError:
    return QueryError(f'"{name}" is not indexed, can not search for this attribute ({hint})', code="NOT_INDEXED")
