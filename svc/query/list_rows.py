"""From the few records of a list to its rows, made once for all queries of a shape (`compiled_lists`): selections, and orders.

All records are decoded in one call, to the objects that are then written, so what `select` and `functions` make of the same records is written the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from math import isfinite
from operator import attrgetter, itemgetter, methodcaller
from typing import Any

from msgspec import UnsetType

from svc.query.compiled_plan import shape_of
from svc.query.links import Link, Links
from svc.query.nodes import Select, SelectItem, SortKey
from svc.query.relations import Lookups
from svc.query.select import enumerable_select, is_own_property
from svc.query.steps import SteppedFunction
from svc.query.tables import AnyTable
from svc.store.values.keys import encode_key, storage_key
from svc.store.values.records import (
    DAMAGE,
    MISSING,
    are_plain,
    decode_joined,
    decode_joined_strictly,
    join_plain,
    joined_decoder,
    struct_decoder,
)

MOST_BYTES = 1 << 17  # of the records that are read of one table: they are decoded and encoded in well under a slice
_WIDE = 64  # names of a selection that are worth a type of their own

Rows = Callable[[list[bytes], Any], list[Any] | None]
"""From records, all of which are `are_plain`, to rows in their order; None: it declines. The second argument is the transaction, for what is read of other
tables."""

_NO_LOOKUPS = Lookups(None)
_LINK = str | int | float | None | UnsetType  # the values of a foreign key that lead to one record, or to none
_NULL: frozenset[type] = frozenset((type(None),))
_TEXT: frozenset[type] = frozenset((str,))
_INTEGER: frozenset[type] = frozenset((int,))
_SORTED_TYPES: dict[str, frozenset[type]] = {
    "ID": _TEXT, "String": _TEXT, "Int": _INTEGER, "Long": _INTEGER, "BigInt": _INTEGER, "Float": frozenset((int, float)),
    "Boolean": frozenset((bool,)), "Date": frozenset((datetime,)),
}  # fmt: skip
"""By declared type, the types of values that Python orders as `store.values.keys` does."""


def are_few(raws: Sequence[bytes]) -> bool:
    """Whether they have no more than MOST_BYTES together."""
    return sum(map(len, raws)) <= MOST_BYTES


def whole(raws: list[bytes], txn: Any) -> list[Any] | None:
    """Records as JSON has them."""
    return _decode_few(raws, decode_joined)


def whole_with(name: str, text: str, passing: Callable[[list[bytes]], list[bytes]]) -> Rows:
    """As `whole`, of the records that `passing` gives: those in which this attribute is the text, or a list with it. Usually one decoding tells both."""

    def rows(raws: list[bytes], txn: Any) -> list[Any] | None:
        joined = join_plain(raws)
        if len(joined) > MOST_BYTES:
            return None
        try:
            found = decode_joined_strictly(joined)
        except DAMAGE:  # in JSON a date is text, too
            return whole(passing(raws), txn)
        equal = [row for row in found if row.get(name) == text]
        if len(equal) == len(found):
            return found
        return [row for row in found if (value := row.get(name)) == text or (type(value) is list and text in value)]

    return rows


def _decode_few(raws: list[bytes], decode: Callable[[bytes], list[Any]]) -> list[Any] | None:
    """All in one call; None: they are more than MOST_BYTES, or damaged."""
    joined = join_plain(raws)
    if len(joined) > MOST_BYTES:
        return None
    try:
        return decode(joined)
    except DAMAGE:
        return None


def as_stored(raws: list[bytes], txn: Any) -> list[Any] | None:
    return raws if are_few(raws) else None


# selections


def selecting(select: Select, table: AnyTable) -> Rows | None:
    """The rows of a selection, in JSON form. None: it leads through several relationships, or to more than one record."""
    items = select.items
    names = [item.name for item in items]
    relations = [item for item in items if _is_relation(item, table)]
    is_usual = select.shape == "object" and not select.nulls and len(items) <= _WIDE and len(set(names)) == len(names)
    if is_usual and all(item.alias is None and (item in relations or is_own_property(item, table)) for item in items):
        if relations:
            return _relating(names, relations[0], table) if len(relations) == 1 else None
        own = _own(names)
        if own is not None:
            return own
    if relations:
        return None
    shape, links = shape_of(select, table, (), True)
    if len(links) or type(shape) is SteppedFunction:
        return None
    return lambda raws, txn: shape(raws, _NO_LOOKUPS) if are_few(raws) else None


def _is_relation(item: SelectItem, table: AnyTable) -> bool:
    attribute = table.attributes.get(item.path[0])
    return attribute is not None and attribute.relationship is not None


def _own(names: list[str]) -> Rows | None:
    decode = joined_decoder(tuple([(f"f{number}", name, Any) for number, name in enumerate(names)]))
    if decode is None:
        return None

    return lambda raws, txn: _decode_few(raws, decode)


def _relating(names: list[str], relation: SelectItem, table: AnyTable) -> Rows | None:
    """Rows with the record that a relationship leads to. The foreign key is read with the rest, and left out if it was not asked for."""
    link = Links().link(table, table.attributes[relation.path[0]])
    related = _related(relation, link)
    is_hidden = link.source not in names
    wanted = [*names, link.source] if is_hidden else names
    field_of = {relation.path[0]: "target", link.source: "source"}
    if related is None or len(field_of) < 2:
        return None
    decode = joined_decoder(
        tuple([(field_of.get(name, f"f{number}"), name, _LINK if name == link.source else Any) for number, name in enumerate(wanted)])
    )
    if decode is None:
        return None

    def rows(raws: list[bytes], txn: Any) -> list[Any] | None:
        found = _decode_few(raws, decode)
        if found is None:
            return None
        row_of = related({row.source for row in found}, txn)
        if row_of is None:
            return None
        if is_hidden:
            for row in found:
                row.target = row_of.get(row.source, MISSING)
                row.source = MISSING
        else:
            for row in found:
                row.target = row_of.get(row.source, MISSING)
        return found

    return rows


def _related(item: SelectItem, link: Link) -> Callable[[set[Any], Any], dict[Any, Any] | None] | None:
    """From values of the foreign key to the rows of the records that they lead to."""
    target = link.target
    is_by_key = link.relationship.to is None or link.relationship.to == target.primary_key
    if link.many or not is_by_key or item.query is not None or len(item.path) > 1 or target.definition.split_segments:
        return None
    nested = item.nested if item.nested is not None else enumerable_select(target, related=True)
    rows = whole if nested is None else selecting(nested, target)
    if rows is None or target.computed:
        return None

    def related(values: set[Any], txn: Any) -> dict[Any, Any] | None:
        stored = {storage_key(encode_key(value)): value for value in values if value is not None and value is not MISSING}
        raws = target.get_many_plain(stored, txn)
        if raws is not None:
            keys = stored.keys()
        else:  # one is not there, or has another form
            found = dict(target.get_many(stored, txn))
            raws, keys = list(found.values()), found.keys()
            if not are_plain(raws):
                return None
        shown = rows(raws, txn)
        return None if shown is None else {stored[key]: row for key, row in zip(keys, shown, strict=True)}

    return related


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
    # The last key first: each sort keeps what those before it have done.
    steps = [(key.path[0], f"f{number}", types[number], key.descending) for number, key in enumerate(keys)][::-1]

    def sorted_before(raws: list[bytes], txn: Any) -> list[Any] | None:
        values = read(raws) if are_few(raws) else None
        if values is None:
            return None
        pairs = list(zip(values, raws, strict=True))
        for _, field, kinds, descending in steps:
            if not _sort(pairs, partial(_of_pair, attrgetter(field)), kinds, descending):
                return None
        return rows([raw for _, raw in pairs], txn)

    if rows is not whole or _SORTED_TYPES["Date"] in types:
        return sorted_before
    decode = decode_joined_strictly if _TEXT in types else decode_joined  # in JSON a date is text, too

    def sorted_after(raws: list[bytes], txn: Any) -> list[Any] | None:
        """The same in one decoding."""
        joined = join_plain(raws)
        if len(joined) > MOST_BYTES:
            return None
        try:
            found = decode(joined)
        except DAMAGE:
            return sorted_before(raws, txn)
        for name, _, kinds, descending in steps:
            try:
                is_sorted = _sort(found, itemgetter(name), kinds, descending)
            except KeyError:  # of a record that has none
                is_sorted = _sort(found, methodcaller("get", name), kinds, descending)
            if not is_sorted:
                return None
        return found

    return sorted_after


def _of_pair(value_of: Callable[[Any], Any], pair: tuple[Any, bytes]) -> Any:
    return value_of(pair[0])


def _sort(rows: list[Any], value_of: Callable[[Any], Any], kinds: frozenset[type], descending: bool) -> bool:
    """Sort rows by a value; null comes first, descending last. False: there are values of other types than these."""
    values = list(map(value_of, rows))
    found = set(map(type, values))
    has_gaps = not found <= kinds
    if (has_gaps and not found <= kinds | _NULL) or (float in found and not _are_finite(values)):
        return False
    if has_gaps:
        rows.sort(key=lambda row: ((value := value_of(row)) is not None, value), reverse=descending)
    else:
        rows.sort(key=value_of, reverse=descending)
    return True


def _are_finite(numbers: list[Any]) -> bool:
    """False also for what is too much to be known: what is not a number has no place in an order."""
    try:
        return isfinite(sum(filter(None, numbers)))
    except OverflowError:
        return False
