"""What a subscription is about, and who is concerned by a key (contract: realtime §1 rule 1, applications §9).

    target                        concerned by
    a record                      its key
    a record and what is below    its key, and the keys below
    what is below a prefix        text keys that begin with "a/b/"; with @splitSegments the longer lists that begin with a, b
    a table                       every key, and what is said of the table as a whole

With `only_children` only keys one level below, and not the target itself.

A write asks `TargetIndex.concerned` once. It looks up the key, and one prefix for each level of the key: what it costs does not depend on how many
subscriptions there are to other records.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Generic, TypeVar

from svc.errors import ClientError
from svc.query.access_paths import collection_below
from svc.query.plan import Comparison
from svc.realtime.subscription_request import SubscriptionRequest
from svc.store import Table
from svc.store.values.keys import after, decode_key, encode_primary, list_prefix_range, prefix_range

T = TypeVar("T")

Beginning = str | tuple[Any, ...]  # of the keys below something
Range = tuple[bytes | None, bytes | None]  # of encoded keys, from (inclusive) to (exclusive)


class Target:
    """`key`: encoded, None if no single record is meant. `beginning`: of the keys below, None if none are; with neither it is the whole table.

    Equal targets are one target: they are keys of what is shared.
    """

    __slots__ = ("_hash", "beginning", "key", "only_children")

    def __init__(self, key: bytes | None, beginning: Beginning | None, only_children: bool = False) -> None:
        self.key = key
        self.beginning = beginning
        self.only_children = only_children
        self._hash = hash((key, beginning, only_children))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return type(other) is Target and (self.key, self.beginning, self.only_children) == (other.key, other.beginning, other.only_children)

    @property
    def is_table(self) -> bool:
        return self.key is None and self.beginning is None

    @property
    def is_record(self) -> bool:
        """Whether it is one record and nothing else."""
        return self.key is not None and self.beginning is None

    def ranges(self) -> list[Range]:
        """Where its records are, in key order."""
        if self.is_table:
            return [(None, None)]
        found: list[Range] = []
        if self.key is not None:
            found.append((self.key, after(self.key)))
        if self.beginning is not None:
            found.append(_range_below(self.beginning))
        return found

    def covers(self, key: bytes) -> bool:
        """Whether it is about this key; b"": about what is said of the table as a whole."""
        if self.is_table:
            return not self.only_children or (bool(key) and is_child(decode_key(key), None))
        if key == self.key:
            return True
        if self.beginning is None or not key:
            return False
        low, high = _range_below(self.beginning)
        return low <= key < high and (not self.only_children or is_child(decode_key(key), self.beginning))


def _range_below(beginning: Beginning) -> tuple[bytes, bytes]:
    return prefix_range(beginning) if isinstance(beginning, str) else list_prefix_range(beginning)


def is_child(key: Any, beginning: Beginning | None) -> bool:
    """Whether a key is one level below; None: below the table.

    >>> is_child("a/b", "a/"), is_child("a/b/c", "a/"), is_child("a/", "a/"), is_child(("a", 1), ("a",)), is_child(("a", 1, 2), ("a",))
    (True, False, False, True, False)
    >>> is_child("a", None), is_child("a/b", None), is_child(5, None), is_child(("a", 1), None)
    (True, False, True, False)
    """
    if isinstance(key, tuple):
        return isinstance(beginning, tuple) and len(key) == len(beginning) + 1
    if isinstance(key, str) and not isinstance(beginning, tuple):
        rest = key if beginning is None else key[len(beginning) :]
        return "/" not in rest and bool(rest or beginning is None)
    return beginning is None


def beginnings(key: Any) -> Iterator[Beginning]:
    """What a key is below of, from the top.

    >>> list(beginnings("a/b/c")), list(beginnings(("a", 1, "c"))), list(beginnings(5)), list(beginnings("a/"))
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
    children = request.only_children
    if request.key is not None:
        if request.prefix is not None:
            raise ClientError("A subscription is to a record or to what is below a prefix, not to both")
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


def _below(key: Any, table: Table) -> Beginning:
    if table.definition.split_segments:
        return key if isinstance(key, tuple) else (key,)
    return f"{key}/"


class TargetIndex(Generic[T]):
    """Things by their target: those of one table."""

    __slots__ = ("_all", "_by_beginning", "_by_key")

    def __init__(self) -> None:
        self._all: list[T] = []
        self._by_key: dict[bytes, list[T]] = {}
        self._by_beginning: dict[Beginning, list[T]] = {}

    def add(self, target: Target, thing: T) -> None:
        if target.is_table:
            self._all.append(thing)
        if target.key is not None:
            self._by_key.setdefault(target.key, []).append(thing)
        if target.beginning is not None:
            self._by_beginning.setdefault(target.beginning, []).append(thing)

    def remove(self, target: Target, thing: T) -> None:
        if target.is_table:
            self._all.remove(thing)
        if target.key is not None:
            _remove(self._by_key, target.key, thing)
        if target.beginning is not None:
            _remove(self._by_beginning, target.beginning, thing)

    def __bool__(self) -> bool:
        return bool(self._all or self._by_key or self._by_beginning)

    def concerned(self, key: bytes) -> list[T]:
        """Those whose target may cover this key: all but `only_children` has been looked at. Not to be changed."""
        by_key = self._by_key.get(key)
        if not self._by_beginning or not key:
            return self._all if by_key is None else [*self._all, *by_key]
        found = [*self._all, *(by_key or ())]
        for beginning in beginnings(decode_key(key)):
            below = self._by_beginning.get(beginning)
            if below is not None:
                found += below
        return found


def _remove(index: dict[Any, list[T]], place: Any, thing: T) -> None:
    things = index[place]
    things.remove(thing)
    if not things:
        del index[place]
