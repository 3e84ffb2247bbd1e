"""Patterns of keys with wildcards, and the index that finds those which cover a key: `+` is one level, `#` at the end any that follow, or none.

The index is a tree of levels. To find the patterns of a key takes one step for each level, and two where there is a `+` beside a literal: its cost does
not depend on how many patterns there are for other keys. What was found is remembered, since the same keys are written again and again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Generic, TypeVar

T = TypeVar("T")

Pattern = tuple[str, ...]
REMEMBERED = 4096  # keys
REMEMBERED_ITEMS = 100_000  # what was found for them, together
STEP = 200  # nodes of the tree that are looked at in a few microseconds


def levels_of(key: Any) -> Pattern:
    """
    >>> levels_of("a/b"), levels_of(("a", 5)), levels_of(5)
    (('a', 'b'), ('a', '5'), ('5',))
    """
    if type(key) is str:
        return tuple(key.split("/"))
    if type(key) is tuple:
        return tuple("/".join(map(str, key)).split("/"))
    return (str(key),)


def covers(pattern: Pattern, levels: Pattern) -> bool:
    """
    >>> covers(("+", "b"), ("a", "b")), covers(("a", "+", "#"), ("a", "b")), covers(("a", "+", "#"), ("a",)), covers(("+",), ("a", "b"))
    (True, True, False, False)
    """
    if pattern[-1] == "#":
        pattern = pattern[:-1]
        if len(levels) < len(pattern):
            return False
    elif len(levels) != len(pattern):
        return False
    return all(wanted == "+" or wanted == level for wanted, level in zip(pattern, levels, strict=False))


class _Node(Generic[T]):
    __slots__ = ("any", "below", "deep", "items")

    def __init__(self) -> None:
        self.below: dict[str, _Node[T]] = {}
        self.any: _Node[T] | None = None  # below `+`
        self.items: list[T] = []  # of patterns that end here
        self.deep: list[T] = []  # ... with `#` behind

    def __bool__(self) -> bool:
        return bool(self.below or self.any is not None or self.items or self.deep)


class PatternIndex(Generic[T]):
    """Items by their pattern."""

    __slots__ = ("_items", "_known", "_root")

    def __init__(self) -> None:
        self._root: _Node[T] = _Node()
        self._known: dict[bytes, list[T]] = {}
        self._items = 0  # in `_known`

    def __bool__(self) -> bool:
        return bool(self._root)

    def add(self, pattern: Pattern, item: T) -> None:
        self._forget()
        node = self._root
        for level in pattern:
            if level == "#":
                node.deep.append(item)
                return
            if level == "+":
                if node.any is None:
                    node.any = _Node()
                node = node.any
            else:
                node = node.below.setdefault(level, _Node())
        node.items.append(item)

    def remove(self, pattern: Pattern, item: T) -> None:
        self._forget()
        path: list[tuple[_Node[T], str]] = []
        node = self._root
        for level in pattern:
            if level == "#":
                break
            path.append((node, level))
            following = node.any if level == "+" else node.below[level]
            assert following is not None
            node = following
        (node.deep if pattern[-1] == "#" else node.items).remove(item)
        while path and not node:
            node, level = path.pop()
            if level == "+":
                node.any = None
            else:
                del node.below[level]

    def find(self, key: bytes, levels: Pattern) -> Iterable[T | None]:
        """The items whose pattern covers the key, with None after each STEP nodes. A list is not to be changed. `key`: encoded, by which they are
        remembered."""
        found = self._known.get(key)
        return self._find(key, levels) if found is None else found

    def _find(self, key: bytes, levels: Pattern) -> Iterator[T | None]:
        found: list[T] = []
        known = self._known
        nodes = [self._root]
        for level in levels:
            following: list[_Node[T]] = []
            for number, node in enumerate(nodes, 1):
                if not number % STEP:
                    yield None
                found += node.deep
                literal = node.below.get(level)
                if literal is not None:
                    following.append(literal)
                if node.any is not None:
                    following.append(node.any)
            nodes = following
        for number, node in enumerate(nodes, 1):
            if not number % STEP:
                yield None
            found += node.deep
            found += node.items
        if known is self._known and len(found) <= REMEMBERED_ITEMS:  # else patterns have come or gone meanwhile
            if len(known) >= REMEMBERED or self._items + len(found) > REMEMBERED_ITEMS:
                self._forget()
            self._known[key] = found
            self._items += len(found)
        yield from found

    def _forget(self) -> None:
        self._known = {}
        self._items = 0
