"""Targets of subscriptions, and the index that finds the targets of a key (spec: realtime §1 rule 1, §1).

    target                        covers
    a record                      its key
    a record and what is below    its key, and the keys below
    what is below a prefix        string keys that begin with "a/b/"; with @splitSegments the longer lists that begin with a, b
    a table                       every key, and entries about the table as a whole
    messages to a table           entries about the table as a whole: the key b""
    a pattern                     keys with its levels: "+" stands for one, "#" at the end for any that follow (`patterns`)

With `only_children` only keys one level below, and not the target itself.

A write calls `TargetIndex.find` once. It looks up the key, and one prefix for each level of the key: its cost does not depend on how many
subscriptions there are to other records.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any, Generic, TypeVar

from svc.errors import ClientError
from svc.query.access_paths import collection_below
from svc.query.plan import Comparison
from svc.realtime.patterns import Pattern, PatternIndex, covers, levels_of
from svc.realtime.subscription_request import SubscriptionRequest
from svc.store import Table
from svc.store.values.keys import after, decode_key, encode_primary, list_prefix_range, prefix_range

T = TypeVar("T")

KeyPrefix = str | tuple[Any, ...]  # of the keys below something
Range = tuple[bytes | None, bytes | None]  # of encoded keys, from (inclusive) to (exclusive)


class Target:
    """`key`: encoded, None if no single record is meant. `prefix`: of the keys below, None if no keys below are meant; with neither it is the whole table.
    `pattern`: of the keys below `prefix`.

    Equal targets share one group of subscriptions.
    """

    __slots__ = ("_hash", "key", "only_children", "pattern", "prefix")

    def __init__(self, key: bytes | None, prefix: KeyPrefix | None, only_children: bool = False, pattern: Pattern | None = None) -> None:
        self.key = key
        self.prefix = prefix
        self.only_children = only_children
        self.pattern = pattern
        self._hash = hash((key, prefix, only_children, pattern))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return (
            type(other) is Target
            and (self.key, self.prefix, self.only_children) == (other.key, other.prefix, other.only_children)
            and self.pattern == other.pattern
        )

    @property
    def is_table(self) -> bool:
        return self.key is None and self.prefix is None and self.pattern is None

    @property
    def is_record(self) -> bool:
        """Whether it is one record and nothing else."""
        return bool(self.key) and self.prefix is None

    @property
    def is_within_ranges(self) -> bool:
        """Whether it covers not all keys of its ranges."""
        return self.only_children or self.pattern is not None

    def ranges(self) -> list[Range]:
        """The key ranges of its records, in key order."""
        if self.key is None and self.prefix is None:
            return [(None, None)]
        found: list[Range] = []
        if self.key is not None:
            found.append((self.key, after(self.key)))
        if self.prefix is not None:
            found.append(_range_below(self.prefix))
        return found

    def covers(self, key: bytes) -> bool:
        """Whether it covers this key; b"": an entry about the table as a whole."""
        if self.is_table:
            return not self.only_children or (bool(key) and is_child(decode_key(key), None))
        if self.pattern is not None:
            return bool(key) and covers(self.pattern, levels_of(decode_key(key)))
        if key == self.key:
            return True
        if self.prefix is None or not key:
            return False
        low, high = _range_below(self.prefix)
        return low <= key < high and (not self.only_children or is_child(decode_key(key), self.prefix))


def _range_below(prefix: KeyPrefix) -> tuple[bytes, bytes]:
    return prefix_range(prefix) if isinstance(prefix, str) else list_prefix_range(prefix)


def is_child(key: Any, prefix: KeyPrefix | None) -> bool:
    """Whether a key is one level below; None: below the table.

    >>> is_child("a/b", "a/"), is_child("a/b/c", "a/"), is_child("a/", "a/"), is_child(("a", 1), ("a",)), is_child(("a", 1, 2), ("a",))
    (True, False, False, True, False)
    >>> is_child("a", None), is_child("a/b", None), is_child(5, None), is_child(("a", 1), None)
    (True, False, True, False)
    """
    if isinstance(key, tuple):
        return isinstance(prefix, tuple) and len(key) == len(prefix) + 1
    if isinstance(key, str) and not isinstance(prefix, tuple):
        rest = key if prefix is None else key[len(prefix) :]
        return "/" not in rest and bool(rest or prefix is None)
    return prefix is None


def key_prefixes(key: Any) -> Iterator[KeyPrefix]:
    """The prefixes that a key is below of, from the shortest.

    >>> list(key_prefixes("a/b/c")), list(key_prefixes(("a", 1, "c"))), list(key_prefixes(5)), list(key_prefixes("a/"))
    (['a/', 'a/b/'], [('a',), ('a', 1)], [], ['a/'])
    """
    if isinstance(key, str):
        at = key.find("/") + 1
        while at:
            yield key[:at]
            at = key.find("/", at) + 1
    elif isinstance(key, tuple):
        for size in range(1, len(key)):
            yield key[:size]


def target_of(request: SubscriptionRequest) -> Target:
    """Raises ClientError, BadValue."""
    table = request.table
    if request.only_root:
        return Target(b"", None)
    if request.pattern is not None:
        return Target(None, _literal_prefix(request.pattern, table), pattern=request.pattern)
    children = request.only_children
    if request.key is not None:
        if request.prefix is not None:
            raise ClientError("A subscription is to a record or to the keys below a prefix, not to both")
        key = encode_primary(request.key)
        if not children and not request.include_descendants:
            return Target(key, None)
        return Target(None if children else key, _below(request.key, table), children)
    if not request.prefix:
        return Target(None, None, children)
    prefix = request.prefix if request.prefix.endswith("/") else request.prefix + "/"
    collection = collection_below(table, prefix)
    assert isinstance(collection, Comparison)
    value = collection.value
    assert isinstance(value, str | tuple)
    return Target(None, value, children)


def _literal_prefix(pattern: Pattern, table: Table) -> KeyPrefix | None:
    """What the keys of a pattern begin with, as far as it is known."""
    end = next(number for number, level in enumerate(pattern) if level in ("+", "#"))
    if not end:
        return None
    collection = collection_below(table, "/".join(pattern[:end]) + "/")
    assert isinstance(collection, Comparison)
    value = collection.value
    assert isinstance(value, str | tuple)
    return value


def _below(key: Any, table: Table) -> KeyPrefix:
    if table.definition.split_segments:
        return key if isinstance(key, tuple) else (key,)
    return f"{key}/"


class TargetIndex(Generic[T]):
    """Items by their target, of one table."""

    __slots__ = ("_all", "_by_key", "_by_prefix", "_patterns")

    def __init__(self) -> None:
        self._all: list[T] = []
        self._by_key: dict[bytes, list[T]] = {}
        self._by_prefix: dict[KeyPrefix, list[T]] = {}
        self._patterns: PatternIndex[T] = PatternIndex()

    def add(self, target: Target, item: T) -> None:
        if target.pattern is not None:
            self._patterns.add(target.pattern, item)
            return
        if target.is_table:
            self._all.append(item)
        if target.key is not None:
            self._by_key.setdefault(target.key, []).append(item)
        if target.prefix is not None:
            self._by_prefix.setdefault(target.prefix, []).append(item)

    def remove(self, target: Target, item: T) -> None:
        if target.pattern is not None:
            self._patterns.remove(target.pattern, item)
            return
        if target.is_table:
            self._all.remove(item)
        if target.key is not None:
            _remove(self._by_key, target.key, item)
        if target.prefix is not None:
            _remove(self._by_prefix, target.prefix, item)

    def __bool__(self) -> bool:
        return bool(self._all or self._by_key or self._by_prefix or self._patterns)

    def find(self, key: bytes) -> Iterable[T | None]:
        """The items whose target may cover this key: everything but `only_children` is tested. None stands for some time that was spent on looking for the
        next one. A list is not to be changed.
        """
        by_key = self._by_key.get(key)
        patterns = self._patterns
        if not key or not (self._by_prefix or patterns):
            return self._all if by_key is None else [*self._all, *by_key]
        found = [*self._all, *(by_key or ())]
        decoded = decode_key(key)
        for prefix in key_prefixes(decoded):
            below = self._by_prefix.get(prefix)
            if below is not None:
                found += below
        if not patterns:
            return found
        covering = patterns.find(key, levels_of(decoded))
        return found + covering if type(covering) is list else chain(found, covering)


def _remove(index: dict[Any, list[T]], key: Any, item: T) -> None:
    items = index[key]
    items.remove(item)
    if not items:
        del index[key]
