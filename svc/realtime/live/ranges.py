"""Which of many ranges a key lies in: the index of subscriptions for conditions with two ends.

A segment tree over the ranges, sorted by their low end, that knows for each node the largest high end below it. Those that begin at or before a key
are a prefix of that order; in the prefix the tree is walked only where a high end lies behind the key. So a look-up takes O(log n) for
each range that it finds, and O(log n) if it finds none.

A tree does not change. New ranges wait in a list that is looked through, until there are many, or looking through them has cost as much as a new tree
does; a range that nobody has any more stays in the tree until then, without items. Equal ranges are one.
"""

from __future__ import annotations

from bisect import bisect_right
from math import isqrt
from typing import Generic, TypeVar

Item = TypeVar("Item")
Range = tuple[bytes, bytes]  # from the first, to before the second

FEW = 32  # ranges that may wait however small the tree is
BUILD_COST = 10  # for each range of a new tree, in ranges that are looked through


class Ranges(Generic[Item]):
    """Items under ranges of keys."""

    __slots__ = ("_highest", "_items", "_lows", "_passed", "_recent", "_size", "_tree", "_tree_set")

    def __init__(self) -> None:
        self._items: dict[Range, dict[Item, None]] = {}
        self._tree: list[Range] = []
        self._tree_set: set[Range] = set()
        self._lows: list[bytes] = []
        self._highest: list[bytes] = []
        self._size = 1  # leaves of the tree, a power of two
        self._recent: list[Range] = []
        self._passed = 0  # ranges that were looked through since the last tree was made

    def __len__(self) -> int:
        return len(self._items)

    def add(self, low: bytes, high: bytes, item: Item) -> None:
        place = (low, high)
        items = self._items.get(place)
        if items is not None:
            items[item] = None
            return
        self._items[place] = {item: None}
        if place not in self._tree_set:
            self._recent.append(place)
            if len(self._recent) > FEW + 4 * isqrt(len(self._tree)):
                self._build()

    def remove(self, low: bytes, high: bytes, item: Item) -> None:
        """Harmless if it is not there."""
        place = (low, high)
        items = self._items.get(place)
        if items is None or item not in items:
            return
        del items[item]
        if items:
            return
        del self._items[place]
        if place not in self._tree_set:
            self._recent.remove(place)
        elif len(self._tree) > FEW and len(self._tree) > 2 * len(self._items):
            self._build()

    def find(self, key: bytes, found: dict[Item, None]) -> None:
        """Add the items whose range holds `key` to `found`."""
        items = self._items
        if self._recent:
            self._passed += len(self._recent)
            if self._passed > BUILD_COST * len(items):
                self._build()
            for place in self._recent:
                if place[0] <= key < place[1]:
                    found.update(items[place])
        end = bisect_right(self._lows, key)
        if not end:
            return
        highest, size, tree = self._highest, self._size, self._tree
        # The nodes that together are the first `end` leaves; of these, and of what is below them, only those that reach behind the key.
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
            here = items.get(tree[node - size])
            if here is not None:
                found.update(here)

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
