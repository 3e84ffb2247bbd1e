"""Narrows an access to what follows a position in its order: for pages after a cursor, and for results that continue with another snapshot."""

from __future__ import annotations

from dataclasses import replace

from svc.query.nodes import SortKey
from svc.query.plan import Access, IndexRange, KeyLookup, KeyRange, Nothing, OrderedIndex, Plan, Position
from svc.store.values.keys import after, decode_key, index_key, is_cut


def plan_behind(plan: Plan, position: Position) -> Plan | None:
    """What follows the row at `position` in the order of `plan`, by the same access; None if the access does not deliver an order."""
    order, access = plan.order, plan.access
    if order is None or plan.sort:
        return None
    left: Position | None = None
    if isinstance(access, KeyLookup):
        keys = access.keys
        access = KeyLookup(keys[keys.index(position.primary) + 1 :])
    elif isinstance(access, KeyRange):
        access = replace(access, behind=position.primary)
    elif isinstance(access, IndexRange) and order.index is not None:
        access = range_behind(access, (position.parts[0], position.primary), descending=False)
    elif isinstance(access, (IndexRange, OrderedIndex)):
        if order.keys[0].path == (plan.table.primary_key,):
            assert isinstance(access, IndexRange) and access.low is not None, "a range of one index key is in the order of the primary keys"
            access = replace(access, behind=(access.low, position.primary))
        else:
            access = ordered_behind(access, order.keys, position)
            left = None if begins_behind(access) else position
    return replace(plan, access=access, position=left, compiled={})


def begins_behind(access: Access) -> bool:
    """Whether the access itself leaves out what comes before its place: it has one, or nothing is left."""
    return isinstance(access, Nothing) or getattr(access, "behind", None) is not None


def ordered_behind(access: IndexRange | OrderedIndex, sort: tuple[SortKey, ...], position: Position) -> Access:
    """An index range in the order of `sort`, narrowed to what may come behind `position`; it begins behind it exactly if that is possible."""
    try:
        key = index_key(decode_key(position.parts[0]))
    except ValueError:  # a value without a place in the order: what sorts before or behind it is in no index
        return Nothing() if not sort[0].descending else access
    if len(sort) == 1 and not is_cut(key):
        return range_behind(access, (key, position.primary), descending=sort[0].descending)
    if sort[0].descending:
        high = after(key) if access.high is None else min(access.high, after(key))
        return replace(access, high=high) if access.low is None or access.low < high else Nothing()
    low = key if access.low is None else max(access.low, key)
    return replace(access, low=low) if access.high is None or low < access.high else Nothing()


def range_behind(access: IndexRange | OrderedIndex, entry: tuple[bytes, bytes], *, descending: bool) -> Access:
    """The part of an index range behind an entry. In a range of one key, which has no direction, an entry elsewhere has all behind it or nothing."""
    key = entry[0]
    below = access.low is not None and key < access.low
    above = access.high is not None and key >= access.high
    if below or above:
        return Nothing() if below == descending else access
    if isinstance(access, OrderedIndex) or not (access.single or access.distinct):
        # The same range, only smaller, so that its cost can be estimated. (Where the first of several keys counts, it may lie before the entry.)
        access = replace(access, high=after(key)) if descending else replace(access, low=key)
    return replace(access, behind=entry)
