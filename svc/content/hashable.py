"""Keys and elements of sets that come from a body: allowed types, and how many (spec: http §7.2).

Hash flooding: hashes of numbers are not salted, so a sender can choose numbers that all collide in a hash table: n of them take n² steps. Strings
and bytes have salted hashes and are not limited. Numbers are so many that the worst choice costs a few milliseconds for the kilobytes
sent; lists and integers beyond 64 bits, of which whole hashes can be made equal, are far fewer.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Any

MAX_NUMBERS = 10_000
MAX_COMPOUND = 256
MAX_WITHOUT_CHECK = 256  # keys: fewer are harmless

_SALTED = frozenset((str, bytes))
_SIMPLE = frozenset((int, float, bool, type(None), datetime))


def as_key(value: Any) -> Any:
    """The value as a key: lists become tuples, sets frozensets. Raises ValueError for an object."""
    kind = type(value)
    if kind in _SALTED or kind in _SIMPLE:
        return value
    if kind is list or kind is tuple:
        return tuple([as_key(element) for element in value])
    if kind is set or kind is frozenset:
        return frozenset(value)
    raise ValueError("an object cannot be a key or an element of a set")


def as_set(elements: Collection[Any]) -> set[Any]:
    """Raises ValueError for elements that cannot be in a set, and for too many of them."""
    keys = [as_key(element) for element in elements]
    check_number(keys)
    return set(keys)


def check_number(keys: Collection[Any]) -> None:
    """Raises ValueError if there are too many keys of the kinds that could be chosen to collide. Hashes none of them."""
    if len(keys) <= MAX_WITHOUT_CHECK:
        return
    simple = compound = 0
    for key in keys:
        kind = type(key)
        if kind in _SIMPLE:
            if kind is int and not -(1 << 64) <= key < 1 << 64:
                compound += 1
            else:
                simple += 1
        elif kind not in _SALTED:
            compound += 1
    if simple > MAX_NUMBERS:
        raise ValueError(f"more than {MAX_NUMBERS} keys or elements of a set that are not text")
    if compound > MAX_COMPOUND:
        raise ValueError(f"more than {MAX_COMPOUND} keys or elements of a set that are lists, sets or integers beyond 64 bits")
