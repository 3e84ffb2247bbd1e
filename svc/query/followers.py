"""Finds the records that a relationship leads to: by key, by the index of the attribute at the other end, or by reading the other table once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Protocol

from svc.errors import BadValue
from svc.freeing import free_later
from svc.query.budget import PAIR_BYTES, Budget
from svc.query.matching import sort_bytes
from svc.query.steps import STEP, Steps, batches
from svc.query.tables import AnyTable
from svc.store.values.conversion import key_from_text
from svc.store.values.keys import after, encode_key, index_key, is_cut, storage_key
from svc.store.values.records import MISSING, projection

Pair = tuple[bytes, bytes]  # stored primary key, raw record

MEMO_BYTES = 4 << 20  # of related records remembered within one execution
_SHORT = 120  # characters of a string whose encoding is stored whole
_STRINGS = {str}


class Follower(Protocol):
    """Finds the related records in the target of a link."""

    def pairs(self, values: Sequence[object]) -> Steps[list[list[Pair]]]:
        """For each value of the attribute in which the link starts, the records it leads to."""

    def each(self, value: object) -> Iterator[list[Pair]]:
        """The same for one value, some at a time, for callers that may stop early."""

    def stored(self, value: object) -> Iterable[bytes]:
        """The stored keys of these records; some may have no record."""


class RelatedReads:
    """Reading of related records in one execution: its transaction and what was read so far.

    It refers to nothing that refers to it. An LMDB reader slot is free when the last reference to its transaction goes, so a reference cycle
    that holds a transaction would hold its slot until a garbage collection.
    """

    __slots__ = ("budget", "examined", "txn")

    def __init__(self, txn: Any, budget: Budget) -> None:
        self.txn = txn
        self.budget = budget
        self.examined = 0  # related records

    def add(self, count: int) -> None:
        """Count related records that are read."""
        self.examined += count
        self.budget.read(count)

    def fetch(self, target: AnyTable, keys: Sequence[bytes]) -> list[Pair]:
        """The records of these stored keys that exist, in their order."""
        pairs = target.get_many(keys, self.txn)
        self.budget.hold(sum([len(raw) for _, raw in pairs]) + PAIR_BYTES * len(pairs))
        return pairs


class FollowerByKey:
    __slots__ = ("_definition", "_memo", "_reads", "_size", "_split", "_target")

    def __init__(self, target: AnyTable, reads: RelatedReads) -> None:
        self._target = target
        self._reads = reads
        self._definition = target.definition
        self._split = target.definition.split_segments
        self._memo: dict[bytes, bytes | None] = {}
        self._size = 0

    def firsts(self, values: Sequence[object]) -> list[Pair | None]:
        if not self._split and set(map(type, values)) == _STRINGS:
            keys: list[bytes | None] = [encode_key(v) if len(v) < _SHORT else storage_key(encode_key(v)) for v in values]  # type: ignore[arg-type]
        else:
            stored = [self.stored(value) for value in values]
            if any(len(some) > 1 for some in stored):
                return [next((pairs[0] for pairs in self.each(value) if pairs), None) for value in values]
            keys = [some[0] if some else None for some in stored]
        memo = self._known(keys)
        return [None if key is None or (raw := memo[key]) is None else (key, raw) for key in keys]

    def pairs(self, values: Sequence[object]) -> Steps[list[list[Pair]]]:
        found: list[list[Pair]] = []
        looked_up = 0
        for value in values:
            some: list[Pair] = []
            for keys in batches(self._iter_stored(value)):
                memo = self._known(keys)
                some += [(key, raw) for key in keys if (raw := memo[key]) is not None]
                self._reads.budget.hold(PAIR_BYTES * len(keys))
                looked_up += len(keys)
                if looked_up > STEP:
                    looked_up = 0
                    yield
            found.append(some)
        return found

    def each(self, value: object) -> Iterator[list[Pair]]:
        for keys in batches(self._iter_stored(value), 64):
            memo = self._known(keys)
            yield [(key, raw) for key in keys if (raw := memo[key]) is not None]

    def stored(self, value: object) -> list[bytes]:
        """The stored keys that a value names."""
        return list(self._iter_stored(value))

    def _iter_stored(self, value: object) -> Iterator[bytes]:
        if isinstance(value, list | set):
            return (self._stored(element) for element in value if element is not None)
        return iter(() if value is None or value is MISSING else (self._stored(value),))

    def _stored(self, value: object) -> bytes:
        if self._split and type(value) is str and "/" in value:
            try:
                return storage_key(encode_key(key_from_text(self._definition, value)))
            except BadValue:
                return b"\xff"
        return storage_key(sort_bytes(value))

    def _known(self, keys: Iterable[bytes | None]) -> dict[bytes, bytes | None]:
        """The memo, with all of these keys in it."""
        memo = self._memo
        if self._size > MEMO_BYTES:
            free_later(memo)
            memo = self._memo = {}
            self._size = 0
        missing = {key for key in keys if key is not None and key not in memo}
        if missing:
            found = self._target.get_many(sorted(missing), self._reads.txn)
            memo.update(dict.fromkeys(missing))
            memo.update(found)
            self._size += sum([len(raw) for _, raw in found]) + 100 * len(missing)
            self._reads.add(len(missing))
        return memo


class FollowerByIndex:
    __slots__ = ("_name", "_reads", "_target", "_value_of")

    def __init__(self, name: str, target: AnyTable, reads: RelatedReads) -> None:
        self._target = target
        self._reads = reads
        self._name = name
        self._value_of = projection((name,))

    def pairs(self, values: Sequence[object]) -> Steps[list[list[Pair]]]:
        lists: list[list[Pair]] = []
        waiting: list[tuple[list[Pair], list[bytes]]] = []  # keys whose records are not read yet, with the lists that get them
        count = 0
        for value in values:
            stored = iter(self.stored(value))
            lists.append([])
            while some := list(islice(stored, STEP)):
                self._reads.add(len(some))
                waiting.append((lists[-1], some))
                count += len(some)
                if count >= STEP:
                    self._fetch(waiting)
                    waiting, count = [], 0
                    yield
        self._fetch(waiting)
        return lists

    def _fetch(self, waiting: list[tuple[list[Pair], list[bytes]]]) -> None:
        reads = self._reads
        pairs = self._target.get_many(sorted({key for _, keys in waiting for key in keys}), reads.txn)
        raws = dict(pairs)
        reads.budget.hold(sum([len(raw) for _, raw in pairs]) + PAIR_BYTES * sum([len(keys) for _, keys in waiting]))
        for found, keys in waiting:
            found += [(key, raw) for key in keys if (raw := raws.get(key)) is not None]

    def each(self, value: object) -> Iterator[list[Pair]]:
        stored = iter(self.stored(value))
        count = 8
        while keys := list(islice(stored, count)):
            self._reads.add(len(keys))
            yield self._target.get_many(keys, self._reads.txn)
            count = 64

    def stored(self, value: object) -> Iterator[bytes]:
        """The stored keys of the records whose attribute is, or contains, one of the value's elements: each key once."""
        elements = _elements(value)
        if len(elements) == 1:
            return self._entries(elements[0])
        return _each_once(key for element in elements for key in self._entries(element))

    def _entries(self, element: object) -> Iterator[bytes]:
        encoded = sort_bytes(element)
        if encoded == b"\xff":
            return
        low = index_key(element)
        entries = self._target.indexes[self._name].scan(self._reads.txn, low, after(low))
        if not is_cut(low):
            for _, stored in entries:
                yield stored
            return
        for _, stored in entries:  # several values share the key: the records tell
            raw = self._target.get_by(stored, self._reads.txn)
            if raw is not None and encoded in _encoded(self._value_of(raw)[0]):
                yield stored


class FollowerByScan:
    __slots__ = ("_is_ready", "_keys", "_reads", "_target", "_value_of")

    def __init__(self, name: str, target: AnyTable, reads: RelatedReads) -> None:
        self._target = target
        self._reads = reads
        self._value_of = projection((name,))
        self._keys: dict[bytes, list[bytes]] = {}
        self._is_ready = False

    def prepare(self, at_once: int = 512) -> Iterator[None]:
        """Read the table, once: a query can follow one relationship in its conditions, its sort and its selection."""
        if self._is_ready:
            return
        self._keys.clear()
        rows = self._target.scan(self._reads.txn)
        value_of, keys = self._value_of, self._keys
        size = 0
        while batch := list(islice(rows, at_once)):
            for stored, raw in batch:
                some = set(_encoded(value_of(raw)[0]))
                for encoded in some:
                    keys.setdefault(encoded, []).append(stored)
                size += PAIR_BYTES // 2 * len(some)
            self._reads.add(len(batch))
            self._reads.budget.keep(size)
            size = 0
            yield
        self._is_ready = True

    def pairs(self, values: Sequence[object]) -> Steps[list[list[Pair]]]:
        found: list[list[Pair]] = []
        looked_up = 0
        for value in values:
            some: list[Pair] = []
            for keys in batches(self.stored(value)):
                self._reads.budget.read(len(keys))
                some += self._reads.fetch(self._target, keys)
                looked_up += len(keys)
                if looked_up > STEP:
                    looked_up = 0
                    yield
            found.append(some)
        return found

    def each(self, value: object) -> Iterator[list[Pair]]:
        for keys in batches(self.stored(value), 64):
            self._reads.budget.read(len(keys))
            yield self._target.get_many(keys, self._reads.txn)

    def stored(self, value: object) -> Iterable[bytes]:
        for _ in self.prepare():
            pass
        encodings = _encoded(value)
        if len(encodings) == 1:
            return self._keys.get(encodings[0], ())
        return _each_once(key for encoded in encodings for key in self._keys.get(encoded, ()))

    def free(self) -> None:
        for keys in self._keys.values():
            free_later(keys)
        free_later(self._keys)


def _each_once(keys: Iterable[bytes]) -> Iterator[bytes]:
    seen: set[bytes] = set()
    try:
        for key in keys:
            if key not in seen:
                seen.add(key)
                yield key
    finally:
        free_later(seen)


def _elements(value: object) -> list[object]:
    """The values that can lead somewhere: null never does."""
    if isinstance(value, list | set):
        return [element for element in value if element is not None]
    return [] if value is None or value is MISSING else [value]


def _encoded(value: object) -> list[bytes]:
    """The encodings of the elements that have a place in the order."""
    return [encoded for element in _elements(value) if (encoded := sort_bytes(element)) != b"\xff"]
