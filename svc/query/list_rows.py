"""From the few records of a list to its rows, made once for all queries of a shape (`compiled_lists`): selections, and orders.

All records are decoded in one call, as the objects that are then written. What `select` and `functions` make of the same records is the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from math import isfinite
from operator import attrgetter
from typing import Any

from msgspec import UnsetType

from svc.query.compiled_plan import shape_of
from svc.query.links import Link, Links
from svc.query.nodes import Select, SelectItem, SortKey
from svc.query.relations import Lookups
from svc.query.select import Shape, enumerable_select, is_own_property
from svc.query.steps import SteppedFunction
from svc.query.tables import AnyTable
from svc.store.values.keys import encode_key, storage_key
from svc.store.values.records import (
    MISSING,
    are_plain,
    decode_json_plain,
    json_structs,
    maybe_decode_json_plain,
    struct_decoder,
)

MOST_BYTES = 1 << 17  # of the records that are read of one table: they are decoded and encoded in well under a slice
_WIDE = 64  # names of a selection that are worth a type of their own

Rows = Callable[[list[bytes], Any], list[Any] | None]
"""From records, all of which are `are_plain`, to rows in their order; None: it declines. The second argument is the transaction, for what is read of other
tables."""

_NO_LOOKUPS = Lookups(None)
_LINK = str | int | float | None | UnsetType  # the values of a foreign key that lead to one record, or to none
_NONE = type(None)
_TEXT: frozenset[type] = frozenset((str,))
_INTEGER: frozenset[type] = frozenset((int,))
_SORTED_TYPES: dict[str, frozenset[type]] = {
    "ID": _TEXT, "String": _TEXT, "Int": _INTEGER, "Long": _INTEGER, "BigInt": _INTEGER, "Float": frozenset((int, float)),
    "Boolean": frozenset((bool,)), "Date": frozenset((datetime,)),
}  # fmt: skip
"""By declared type, the types of values that Python orders as `store.values.keys` does."""


def whole(raws: list[bytes], txn: Any) -> list[Any]:
    """Records as JSON has them."""
    return decode_json_plain(raws)


def as_stored(raws: list[bytes], txn: Any) -> list[Any]:
    return raws


# selections


def selecting(select: Select, table: AnyTable) -> Rows | None:
    """The rows of a selection, in JSON form. None: it leads through relationships that are not to one record each."""
    items = select.items
    names = [item.name for item in items]
    relations = [item for item in items if _is_relation(item, table)]
    is_plain = select.shape == "object" and not select.nulls and len(items) <= _WIDE and len(set(names)) == len(names)
    if is_plain and all(item.alias is None and (item in relations or is_own_property(item, table)) for item in items):
        return _relating(names, relations, table) if relations else _own(names)
    if relations:
        return None
    shape, links = shape_of(select, table, (), True)
    if len(links) or type(shape) is SteppedFunction:
        return None
    return lambda raws, txn: shape(raws, _NO_LOOKUPS)


def _is_relation(item: SelectItem, table: AnyTable) -> bool:
    attribute = table.attributes.get(item.path[0])
    return attribute is not None and attribute.relationship is not None


def _own(names: list[str]) -> Rows | None:
    read = json_structs(tuple([(name, Any) for name in names]))
    return None if read is None else lambda raws, txn: read(raws)


def _relating(names: list[str], relations: list[SelectItem], table: AnyTable) -> Rows | None:
    """Rows with the records that relationships lead to. What leads there is read with the rest, and left out if it was not asked for."""
    links = Links()
    fields: dict[str, Any] = dict.fromkeys(names, Any)
    joined: list[tuple[str, str, _Related]] = []  # (field of the source, field of the related record, what finds it)
    for item in relations:
        link = links.link(table, table.attributes[item.path[0]])
        related = _related(item, link)
        if related is None or link.source in [other.path[0] for other in relations]:
            return None
        fields[link.source] = _LINK
        places = list(fields)
        joined.append((f"f{places.index(link.source)}", f"f{places.index(item.path[0])}", related))
    read = json_structs(tuple(fields.items()))
    if read is None:
        return None
    hidden = [f"f{number}" for number in range(len(names), len(fields))]

    def rows(raws: list[bytes], txn: Any) -> list[Any] | None:
        found = read(raws)
        if found is None:
            return None
        for source, target, related in joined:
            values = list(map(attrgetter(source), found))
            row_of = related(values, txn)
            if row_of is None:
                return None
            for row, value in zip(found, values, strict=True):
                setattr(row, target, row_of.get(value, MISSING))
        for field in hidden:
            for row in found:
                setattr(row, field, MISSING)
        return found

    return rows


_Related = Callable[[list[Any], Any], dict[Any, Any] | None]
"""From values of a foreign key to the rows of the records they lead to."""


def _related(item: SelectItem, link: Link) -> _Related | None:
    target = link.target
    is_by_key = link.relationship.to is None or link.relationship.to == target.primary_key
    if link.many or not is_by_key or item.query is not None or len(item.path) > 1 or target.definition.split_segments:
        return None
    nested = item.nested if item.nested is not None else enumerable_select(target, related=True)
    shape: Shape = _whole_related
    if nested is not None:
        shape, inner = shape_of(nested, target, (), True)
        if len(inner) or type(shape) is SteppedFunction:
            return None

    def related(values: list[Any], txn: Any) -> dict[Any, Any] | None:
        stored = {value: storage_key(encode_key(value)) for value in set(values) if value is not None and value is not MISSING}
        found = dict(target.get_many(stored.values(), txn))
        raws = list(found.values())
        if not are_plain(raws) or sum(map(len, raws)) > MOST_BYTES:
            return None
        row_of = dict(zip(found, shape(raws, _NO_LOOKUPS), strict=True))
        return {value: row_of[key] for value, key in stored.items() if key in row_of}

    return related


def _whole_related(raws: list[bytes], lookups: Lookups) -> list[Any]:
    return decode_json_plain(raws)


# orders


def sorting(keys: Sequence[SortKey], table: AnyTable, rows: Rows) -> Rows | None:
    """`rows` in the order of these keys, ties as the records come. None: values of these attributes may be of several types, or are not in the records."""
    types: list[frozenset[type]] = []
    for key in keys:
        attribute = table.attributes.get(key.path[0])
        if len(key.path) > 1 or attribute is None or not attribute.stored or attribute.elements or attribute.type not in _SORTED_TYPES:
            return None
        types.append(_SORTED_TYPES[attribute.type])
    read = struct_decoder(tuple([(f"f{number}", key.path[0], Any) for number, key in enumerate(keys)]))
    if read is None:
        return None
    names = [key.path[0] for key in keys]
    descending = [key.descending for key in keys]
    fields = [attrgetter(f"f{number}") for number in range(len(keys))]

    def sorted_before(raws: list[bytes], txn: Any) -> list[Any] | None:
        found = read(raws)
        order = None if found is None else _order(len(raws), [list(map(field, found)) for field in fields], types, descending)
        return None if order is None else rows([raws[at] for at in order], txn)

    if rows is not whole or _SORTED_TYPES["Date"] in types:
        return sorted_before
    has_text = _TEXT in types  # which in JSON is also what dates are

    def sorted_after(raws: list[bytes], txn: Any) -> list[Any] | None:
        """The same in one decoding."""
        found = maybe_decode_json_plain(raws) if has_text else decode_json_plain(raws)
        if found is None:
            return sorted_before(raws, txn)
        order = _order(len(found), [[record.get(name) for record in found] for name in names], types, descending)
        return None if order is None else [found[at] for at in order]

    return sorted_after


def _order(count: int, columns: list[list[Any]], types: Sequence[frozenset[type]], descending: Sequence[bool]) -> list[int] | None:
    """The places of rows in their order by some columns; null comes first, descending last. None: there are values of other types than these."""
    order = list(range(count))
    for column, kinds, down in zip(
        reversed(columns), reversed(types), reversed(descending), strict=True
    ):  # each sort keeps what those before it have done
        found = set(map(type, column))
        has_gaps = _NONE in found
        found.discard(_NONE)
        if not found <= kinds or (float in found and not _are_finite(column)):
            return None
        values = [(value is not None, value) for value in column] if has_gaps else column
        order.sort(key=values.__getitem__, reverse=down)
    return order


def _are_finite(numbers: list[Any]) -> bool:
    """False also for what is too much to be known: what is not a number has no place in an order."""
    try:
        return isfinite(sum(filter(None, numbers)))
    except OverflowError:
        return False
