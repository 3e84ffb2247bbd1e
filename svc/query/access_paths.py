"""Conditions -> ranges of keys: the ways to records that the primary key and the indexes offer (spec: query §3, §6).

Pure functions of predicates and definitions. A way is *exact* if it finds only what matches its conditions; else these must be tested again.
"""

from __future__ import annotations

from svc.query.matching import CLOSED_RANGES
from svc.query.nodes import Comparator
from svc.query.plan import Access, Comparison, IndexRange, KeyLookup, KeyRange, Nothing, Predicate
from svc.query.tables import AnyTable
from svc.store.values.keys import (
    FALSE_KEY,
    INDEX_CHARACTERS,
    MAX_STORED,
    NULL_KEY,
    TRUE_KEY,
    after,
    encode_key,
    index_key,
    index_prefix_range,
    is_cut,
    kind_range,
    list_prefix_range,
    prefix_range,
    storage_key,
)

SCALARS = frozenset(("ID", "String", "Int", "Long", "Float", "BigInt", "Boolean", "Date", "Bytes"))
FIXED_SIZE = frozenset(("Int", "Long", "Float", "Boolean", "Date"))  # types whose index keys are never cut
LOW_ENDS = {Comparator.GREATER_THAN: True, Comparator.GREATER_THAN_EQUAL: False}  # and whether the end is left out


class AccessPath:
    """One way to the matches of an AND: `members` are the positions of those conditions that it serves, `exact` whether it finds only their
    matches."""

    __slots__ = ("access", "exact", "members")

    def __init__(self, access: Access, exact: bool, members: tuple[int, ...] = ()) -> None:
        self.access = access
        self.exact = exact
        self.members = members

    def served(self, members: tuple[Predicate, ...]) -> tuple[Predicate, ...]:
        return tuple([members[at] for at in self.members])


def is_complete(table: AnyTable, name: str) -> bool:
    """Whether every record has exactly one entry in the index of `name`, as far as the declaration says."""
    attribute = table.attributes.get(name)
    return attribute is not None and not attribute.elements and attribute.type in SCALARS and not table.indexes[name].multi


def collection_below(table: AnyTable, key_prefix: str) -> Predicate:
    """The records below a key (spec: http §1.3): text keys that start with the text, or longer list keys."""
    path = (table.primary_key,)
    if not table.definition.split_segments:
        return Comparison(path, Comparator.STARTS_WITH, key_prefix)
    attribute = table.attributes.get(table.primary_key)
    kind = attribute.type if attribute is not None else "Any"
    segments: list[object] = []
    for segment in key_prefix.removesuffix("/").split("/"):
        if kind in ("ID", "String"):
            segments.append(segment)
        else:
            segments.append(int(segment) if segment.isascii() and segment.removeprefix("-").isdecimal() else segment)
    return Comparison(path, Comparator.PREFIX, tuple(segments))


def key_access_path(test: Comparison) -> AccessPath | None:
    """Conditions on the primary key, which is in order by itself."""
    comparator, value = test.comparator, test.value
    if comparator is Comparator.EQUALS:
        if value is None or isinstance(value, bool):
            return AccessPath(Nothing(), exact=True)
        return AccessPath(KeyLookup((storage_key(encode_key(value)),)), exact=True)
    if comparator is Comparator.NOT_EQUAL:
        return AccessPath(KeyRange(), exact=True) if value is None else None
    if comparator is Comparator.STARTS_WITH:
        assert isinstance(value, str)
        low, high = prefix_range(value)
    elif comparator is Comparator.PREFIX:
        assert isinstance(value, tuple)
        low, high = list_prefix_range(value)
    else:
        ends = range_ends(test, of_key=True)
        if ends is None:
            return None
        low, high, _ = ends
    if low >= high:
        return AccessPath(Nothing(), exact=True)
    return AccessPath(KeyRange(low, high), exact=True)


def index_access_path(test: Comparison, table: AnyTable) -> AccessPath | None:
    """A condition on an indexed attribute; None if the index cannot serve it."""
    name = test.path[0]
    index = table.indexes.get(name)
    if index is None or not index.ready:
        return None
    comparator, value = test.comparator, test.value
    if isinstance(value, (list, tuple)) and comparator not in CLOSED_RANGES:
        return None  # an index holds the elements of a list, never a list as a whole
    if comparator is Comparator.EQUALS:
        low = index_key(value)
        return AccessPath(IndexRange(name, low, after(low), single=True), exact=not is_cut(low))
    if comparator is Comparator.NOT_EQUAL:
        # Empty lists and objects are not null but in no index: only where these cannot be, the index has all records.
        if value is None and is_complete(table, name):
            return AccessPath(IndexRange(name, after(NULL_KEY), None), exact=True)
        return None
    if comparator is Comparator.STARTS_WITH:
        assert isinstance(value, str)
        low, high, exact = prefix_ends(value)
        return AccessPath(IndexRange(name, low, high, distinct=index.multi), exact)
    ends = range_ends(test)
    if ends is None:
        return None
    low, high, exact = ends
    if low >= high:
        return AccessPath(Nothing(), exact=True)
    return AccessPath(IndexRange(name, low, high, distinct=index.multi), exact)


def prefix_ends(text: str) -> tuple[bytes, bytes, bool]:
    """(low, high, exact) of the index keys of the texts that begin with this one."""
    low, high = index_prefix_range(text)
    return low, high, len(text) <= INDEX_CHARACTERS and len(low) < MAX_STORED - 1


def range_ends(test: Comparison, *, of_key: bool = False) -> tuple[bytes, bytes, bool] | None:
    """(low, high, exact) of the index keys, or encoded keys, in a range; it stays within the kind of its ends. None: it is no range."""
    comparators = CLOSED_RANGES.get(test.comparator)
    if comparators is not None:
        ends = zip(comparators, test.value, strict=True)  # type: ignore[call-overload]
    elif test.comparator in LOW_ENDS or test.comparator in (Comparator.LESS_THAN, Comparator.LESS_THAN_EQUAL):
        ends = iter([(test.comparator, test.value)])
    else:
        return None
    exact = True
    low: bytes | None = None
    high: bytes | None = None
    value: object = None
    for comparator, value in ends:
        key = encode_key(value) if of_key else index_key(value)
        cut = not of_key and is_cut(key)
        exact = exact and not cut
        if comparator in LOW_ENDS:
            low = range_end(comparator, key, cut=cut)
        else:
            high = range_end(comparator, key, cut=cut)
    if low is None or high is None:
        kind_low, kind_high = kind_ends(value)
        return kind_low if low is None else low, kind_high if high is None else high, exact
    return low, high, exact


def range_end(comparator: Comparator, key: bytes, *, cut: bool = False) -> bytes:
    """Where a range begins or ends whose end has this key. `cut`: other values have it, too."""
    if comparator in LOW_ENDS:
        return after(key) if LOW_ENDS[comparator] and not cut else key
    return after(key) if comparator is Comparator.LESS_THAN_EQUAL or cut else key


def kind_ends(value: object) -> tuple[bytes, bytes]:
    """(low, high) of the keys that a range with one end compares with it: those of its kind."""
    return (FALSE_KEY, after(TRUE_KEY)) if isinstance(value, bool) else kind_range(value)


def intersection(first: AccessPath, second: AccessPath) -> AccessPath:
    """Two ranges of one attribute that holds one value: what lies in both."""
    one, other = first.access, second.access
    if isinstance(one, Nothing):
        return AccessPath(one, exact=True, members=first.members + second.members)
    assert isinstance(one, (IndexRange, KeyRange)) and isinstance(other, (IndexRange, KeyRange))
    low = one.low if other.low is None or (one.low is not None and one.low >= other.low) else other.low
    high = one.high if other.high is None or (one.high is not None and one.high <= other.high) else other.high
    members = first.members + second.members
    exact = first.exact and second.exact
    if low is not None and high is not None and low >= high:
        return AccessPath(Nothing(), exact=True, members=members)
    if isinstance(one, KeyRange):
        return AccessPath(KeyRange(low, high), exact, members)
    single = one.single or (isinstance(other, IndexRange) and other.single)
    return AccessPath(IndexRange(one.attribute, low, high, one.distinct, single), exact, members)
