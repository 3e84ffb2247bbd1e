"""The index of live queries: finds those that a changed record may concern, so that a write tests only these.

A query is indexed under the most selective condition of its AND: the primary key, an equality, a range with two ends, an open range; an OR under one
condition of each member. A record is looked up with the keys that it has in an index of those attributes, so this index and the filters agree exactly
as far as indexes and filters do: what is found includes everything that matches. Queries whose conditions have no keys (`contains`, `!=`, properties
of nested objects, other tables) are unindexed: they are found for each record.

A changed record is looked up twice, as before and as after the change: it may have left the result.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from math import isqrt
from typing import Generic, NamedTuple, TypeVar

from svc.errors import BadValue
from svc.query.access_paths import key_access_path, range_ends
from svc.query.functions import values_reader
from svc.query.matching import CLOSED_RANGES
from svc.query.nodes import Comparator
from svc.query.plan import AllOf, AnyOf, Comparison, KeyRange, Never, Nothing, Predicate
from svc.query.tables import AnyTable
from svc.store.values.keys import NULL_KEY, NUMBER, encode_key, index_key, index_keys, index_prefix_range
from svc.store.values.records import MISSING

Item = TypeVar("Item")

MAX_INTERVALS = 64  # of one query: with more, from a long OR, it is unindexed

KEY, EQUAL, CLOSED, OPEN, COARSE = range(5)  # ranks of intervals: few records are expected in the first, many in the last

_ABOVE_ALL = bytes((NUMBER,)) + b"\xff" * 9  # the key of integers that are too large for an index
_BELOW_ALL = bytes((NUMBER,))


class KeyInterval(NamedTuple):
    """Keys of one attribute: one key if `high` is None, else a range. `name` "" is the primary key, as the log has it."""

    rank: int
    name: str
    low: bytes
    high: bytes | None = None


def intervals_of(predicate: Predicate | None, table: AnyTable) -> list[KeyInterval] | None:
    """The intervals to index a query under; None: it is unindexed. An empty list: no record can match."""
    match predicate:
        case Comparison():
            try:
                return _intervals_of_comparison(predicate, table)
            except BadValue:
                return None
        case Never():
            return []
        case AllOf():
            best: list[KeyInterval] | None = None
            for member in predicate.members:
                intervals = intervals_of(member, table)
                if intervals is not None and (best is None or _selectivity(intervals) < _selectivity(best)):
                    best = intervals
            return best
        case AnyOf():
            joined: list[KeyInterval] = []
            for member in predicate.members:
                intervals = intervals_of(member, table)
                if intervals is None or len(joined) + len(intervals) > MAX_INTERVALS:
                    return None
                joined += intervals
            return joined
        case _:
            return None


def _selectivity(intervals: list[KeyInterval]) -> tuple[int, int]:
    return max([interval.rank for interval in intervals], default=-1), len(intervals)


def _intervals_of_comparison(test: Comparison, table: AnyTable) -> list[KeyInterval] | None:
    comparator, value, name = test.comparator, test.value, test.path[0]
    if len(test.path) > 1 or comparator is Comparator.NOT_EQUAL:
        return None
    if name == table.primary_key:
        if comparator is Comparator.EQUALS:
            return [] if value is None or isinstance(value, bool) else [KeyInterval(KEY, "", encode_key(value))]
        path = key_access_path(test)
        if path is None:
            return None
        access = path.access
        if isinstance(access, Nothing):
            return []
        assert isinstance(access, KeyRange)
        return None if access.low is None or access.high is None else [KeyInterval(_rank(comparator), "", access.low, access.high)]
    if isinstance(value, (list, tuple)) and comparator not in CLOSED_RANGES:
        return None  # a whole list has no key
    if comparator is Comparator.EQUALS:
        return [KeyInterval(COARSE if value is None or isinstance(value, bool) else EQUAL, name, index_key(value))]
    if comparator is Comparator.STARTS_WITH:
        assert isinstance(value, str)
        return [KeyInterval(CLOSED if value else OPEN, name, *index_prefix_range(value))]
    ends = range_ends(test)
    if ends is None:
        return None
    low, high, _ = ends
    return [KeyInterval(_rank(comparator), name, low, high)] if low < high else []


def _rank(comparator: Comparator) -> int:
    return CLOSED if comparator in CLOSED_RANGES or comparator in (Comparator.STARTS_WITH, Comparator.PREFIX) else OPEN


class _AttributeIndex(Generic[Item]):
    """The items by keys of one attribute."""

    __slots__ = ("equal", "ranges")

    def __init__(self) -> None:
        self.equal: dict[bytes, dict[Item, None]] = {}
        self.ranges: RangeIndex[Item] = RangeIndex()

    def find(self, key: bytes, found: dict[Item, None]) -> None:
        items_here = self.equal.get(key)
        if items_here is not None:
            found.update(items_here)
        if self.ranges:
            self.ranges.find(key, found)

    def add(self, interval: KeyInterval, item: Item) -> None:
        if interval.high is None:
            self.equal.setdefault(interval.low, {})[item] = None
        else:
            self.ranges.add(interval.low, interval.high, item)

    def remove(self, interval: KeyInterval, item: Item) -> None:
        if interval.high is not None:
            self.ranges.remove(interval.low, interval.high, item)
            return
        items_here = self.equal.get(interval.low)
        if items_here is not None:
            items_here.pop(item, None)
            if not items_here:
                del self.equal[interval.low]

    @property
    def is_empty(self) -> bool:
        return not self.equal and not len(self.ranges)


class SubscriptionIndex(Generic[Item]):
    """Items by the conditions of their queries, for one table with one definition."""

    __slots__ = ("_by_name", "_intervals", "_keys", "_names", "_read", "_unindexed", "table")

    def __init__(self, table: AnyTable) -> None:
        self.table = table
        self._unindexed: dict[Item, None] = {}
        self._keys: _AttributeIndex[Item] = _AttributeIndex()
        self._by_name: dict[str, _AttributeIndex[Item]] = {}
        self._intervals: dict[Item, list[KeyInterval] | None] = {}
        self._compile_reader()

    def __len__(self) -> int:
        return len(self._intervals)

    def __iter__(self) -> Iterator[Item]:
        return iter(list(self._intervals))

    def add(self, item: Item, predicate: Predicate | None) -> None:
        intervals = self._intervals[item] = intervals_of(predicate, self.table)
        if intervals is None:
            self._unindexed[item] = None
            return
        known = len(self._by_name)
        for interval in intervals:
            (self._by_name.setdefault(interval.name, _AttributeIndex()) if interval.name else self._keys).add(interval, item)
        if len(self._by_name) != known:
            self._compile_reader()

    def remove(self, item: Item) -> None:
        """Harmless if it is not there."""
        intervals = self._intervals.pop(item, None)
        self._unindexed.pop(item, None)
        emptied = False
        for interval in intervals or ():
            if not interval.name:
                self._keys.remove(interval, item)
                continue
            under = self._by_name.get(interval.name)
            if under is not None:
                under.remove(interval, item)
                if under.is_empty:
                    del self._by_name[interval.name]
                    emptied = True
        if emptied:
            self._compile_reader()

    @property
    def unindexed(self) -> int:
        """The number of items found for each record."""
        return len(self._unindexed)

    def reads(self, changed: tuple[str, ...]) -> bool:
        """Whether an item is indexed under one of these attributes, or under a computed one."""
        computed = self.table.computed
        return any(name in changed or name in computed for name in self._by_name)

    def find_unindexed(self, found: dict[Item, None]) -> None:
        """Add the unindexed items to `found`."""
        if self._unindexed:
            found.update(self._unindexed)

    def find_by_key(self, key: bytes, found: dict[Item, None]) -> None:
        """Add the items indexed under an encoded primary key."""
        self._keys.find(key, found)

    def find_by_values(self, raw: bytes, found: dict[Item, None]) -> None:
        """Add the items indexed under the values of a raw record."""
        if not self._names:
            return
        for (_, intervals), value in zip(self._names, self._read(raw), strict=True):
            if type(value) is str:
                intervals.find(index_key(value), found)
            elif value is None or value is MISSING:
                intervals.find(NULL_KEY, found)
            else:
                for key in index_keys(value) if type(value) is float else keys_of(value):
                    intervals.find(key, found)

    def _compile_reader(self) -> None:
        self._names = list(self._by_name.items())
        self._read = values_reader(self.table, tuple(self._by_name))


def keys_of(value: object) -> list[bytes]:
    """The keys that a value has items_here: those of an index, and for integers that are too large for one the end of the numbers.

    >>> keys_of([1, 10**400]) == [encode_key(1), _ABOVE_ALL]
    True
    """
    found = list(index_keys(value))
    elements = value if isinstance(value, (list, tuple, set)) else (value,)
    for element in elements:
        if type(element) is int and not -_LARGE < element < _LARGE:
            try:
                encode_key(element)
            except BadValue:
                found.append(_ABOVE_ALL if element > 0 else _BELOW_ALL)
    return found


_LARGE = 1 << 1000


Range = tuple[bytes, bytes]  # from the first, to before the second

FEW = 32  # ranges that may be outside the tree however small it is
BUILD_COST = 10  # cost of a new tree for each range, in ranges scanned


class RangeIndex(Generic[Item]):
    """Items by range of keys: finds the ranges that contain a key.

    A segment tree over the ranges, sorted by their low end, that knows for each node the largest high end below it. The ranges that begin at or
    before a key are a prefix of that order; in the prefix the tree is walked only where a high end lies behind the key. So a lookup takes O(log n)
    for each range that it finds, and O(log n) if it finds none.

    A tree does not change. New ranges wait in a list that is scanned, until there are many, or scanning them has cost as much as a new tree does;
    a range without items stays in the tree until then. Equal ranges are one.
    """

    __slots__ = ("_highest", "_items", "_lows", "_passed", "_recent", "_size", "_tree", "_tree_set")

    def __init__(self) -> None:
        self._items: dict[Range, dict[Item, None]] = {}
        self._tree: list[Range] = []
        self._tree_set: set[Range] = set()
        self._lows: list[bytes] = []
        self._highest: list[bytes] = []
        self._size = 1  # leaves of the tree, a power of two
        self._recent: list[Range] = []
        self._passed = 0  # ranges scanned since the tree was made

    def __len__(self) -> int:
        return len(self._items)

    def add(self, low: bytes, high: bytes, item: Item) -> None:
        interval = (low, high)
        items = self._items.get(interval)
        if items is not None:
            items[item] = None
            return
        self._items[interval] = {item: None}
        if interval not in self._tree_set:
            self._recent.append(interval)
            if len(self._recent) > FEW + 4 * isqrt(len(self._tree)):
                self._build()

    def remove(self, low: bytes, high: bytes, item: Item) -> None:
        """Harmless if it is not there."""
        interval = (low, high)
        items = self._items.get(interval)
        if items is None or item not in items:
            return
        del items[item]
        if items:
            return
        del self._items[interval]
        if interval not in self._tree_set:
            self._recent.remove(interval)
        elif len(self._tree) > FEW and len(self._tree) > 2 * len(self._items):
            self._build()

    def find(self, key: bytes, found: dict[Item, None]) -> None:
        """Add the items whose range contains `key` to `found`."""
        if self._recent:
            self._scan_recent(key, found)
        end = bisect_right(self._lows, key)
        if not end:
            return
        highest, size, tree, items = self._highest, self._size, self._tree, self._items
        # The nodes that together are the first `end` leaves; of these, and of the nodes below them, only those with a range that ends behind the key.
        waiting: list[int] = []
        left, right = size, size + end
        while left < right:
            if left & 1:  # only the root is odd on the left side
                if highest[left] > key:
                    waiting.append(left)
                break
            if right & 1:
                right -= 1
                if highest[right] > key:
                    waiting.append(right)
            left >>= 1
            right >>= 1
        while waiting:
            node = waiting.pop()
            if node < size:
                node += node
                if highest[node] > key:
                    waiting.append(node)
                if highest[node + 1] > key:
                    waiting.append(node + 1)
                continue
            items_here = items.get(tree[node - size])
            if items_here is not None:
                found.update(items_here)

    def _scan_recent(self, key: bytes, found: dict[Item, None]) -> None:
        """Scan the ranges that are not in the tree, or build a new tree with them when scanning has cost as much."""
        self._passed += len(self._recent)
        if self._passed > BUILD_COST * len(self._items):
            self._build()
        for interval in self._recent:
            if interval[0] <= key < interval[1]:
                found.update(self._items[interval])

    def _build(self) -> None:
        tree = self._tree = sorted(self._items)
        self._tree_set = set(tree)
        self._recent = []
        self._passed = 0
        self._lows = [low for low, _ in tree]
        size = 1
        while size < len(tree):
            size *= 2
        self._size = size
        highest = [b""] * size + [high for _, high in tree] + [b""] * (size - len(tree))
        for node in range(size - 1, 0, -1):
            one, other = highest[2 * node], highest[2 * node + 1]
            highest[node] = one if one > other else other
        self._highest = highest
