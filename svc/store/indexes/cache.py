"""Index caches: the entries of an index in memory, to count ranges of values.

An entry is one bytes object, which takes 60 bytes instead of 146 for a pair:

    index key, primary key, length of the primary key (2 bytes, big-endian)

No index key is the beginning of another (`keys`, invariant 2), so these bytes sort as the pairs do. Results never depend on a cache:

1. A complete cache holds exactly the entries of the durable index as of the last commit that this process has seen: those of `entries`, changed
   by `pending` in its order. `pending` grows after that commit, never before. What another process has committed is found in the log (`replay`); if not
   all of it is, the cache is dropped.
2. A cache that is still being loaded holds exactly the entries up to and including `loaded`. Changes behind that point are left out,
   for the rest is read later, from a newer snapshot.
3. Only counts on the turn's own snapshot use it, and only until a commit in the middle of the turn leaves that behind.

A write only appends its changes to `pending`: to enter one into the sorted entries takes 3 us. A count merges up to MERGED of them and tests the
others one by one. When MAX_PENDING wait, each write merges a few until UNASKED of them have been merged for no count: then the cache is dropped. So
is one that nothing has counted with for UNUSED_SECONDS.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, Protocol

from sortedcontainers import SortedList

from svc.store.env import Environment, Handle, Txn
from svc.store.values.keys import is_cut, split

AT_ONCE = 4_000  # entries: a smaller index is loaded at the first count of a range, within 5 ms; a larger one by `IndexCaches.load`
MAX_PENDING = 4_096  # changes
MERGED = 512  # changes that one count merges, in 2 ms
MERGED_BY_WRITE = 128  # changes that one write merges when MAX_PENDING wait
UNASKED = 4_096  # changes that writes merge for a cache that nothing counts with
UNUSED_SECONDS = 600.0
_CHUNK = 500  # entries loaded between two readings of the clock
_FREED = 1_000  # entries of a dropped cache freed between two readings of the clock
_OVERHEAD = 33 + 10  # bytes: an empty bytes object; its place in a list that is on average 80 % full
_PENDING_BYTES = 200  # of a change: its tuple, an index key and a primary key
_SHRUNK = 0.8  # a refused index is tried again when it has shrunk to this share
LENGTHS = [length.to_bytes(2, "big") for length in range(512)]

Change = tuple["CachedIndex", bytes, bytes, bool]  # index key, stored primary key; True = added, False = removed


class CachedIndex(Protocol):
    """What a cache needs of its index. `waiting`: for its cache to be loaded. `refused`: entries it had when it did not fit the memory budget. `counts_due`:
    how many more counts are made without one before it is loaded.
    """

    env: Environment
    handle: Handle
    cache: IndexCache | None
    waiting: bool
    refused: int
    counts_due: int

    def size(self, txn: Txn) -> int: ...

    def load(self, txn: Txn, limit: int) -> bool: ...

    def drop_cache(self) -> None: ...

    def cache_is_full(self) -> None:
        """MAX_PENDING changes wait."""


class IndexCache:
    """The entries of one index in memory. See the head of this module for what it promises."""

    __slots__ = ("_size", "complete", "entries", "is_used", "loaded", "merged_unasked", "pending")

    def __init__(self) -> None:
        self.entries: SortedList = SortedList()
        self.pending: list[Change] = []  # committed, and not yet in `entries`
        self._size = 0  # bytes of `entries`, estimated
        self.loaded = b""
        self.complete = False
        self.is_used = True  # since `IndexCaches.drop_unused` was last called
        self.merged_unasked = 0  # changes merged by writes since the last count

    @property
    def size(self) -> int:
        """Bytes, estimated."""
        return self._size + _PENDING_BYTES * len(self.pending)

    def extend(self, pairs: Iterator[tuple[bytes, bytes]], limit: int) -> bool:
        """Load up to `limit` more entries, which follow `loaded`; False when there were fewer."""
        loaded = [key + primary + LENGTHS[len(primary)] for key, primary in islice(pairs, limit)]
        if loaded:
            self.entries.update(loaded)
            self._size += sum(map(len, loaded)) + _OVERHEAD * len(loaded)
            self.loaded = loaded[-1]
        self.complete = len(loaded) < limit
        return not self.complete

    def holds(self, key: bytes, primary: bytes) -> bool:
        """Whether an entry is in the part that has been loaded."""
        return self.complete or key + primary + LENGTHS[len(primary)] <= self.loaded

    def merge(self, limit: int) -> None:
        """Enter the first `limit` pending changes into the entries."""
        pending = self.pending
        some = pending[:limit]
        del pending[:limit]
        changes: dict[bytes, bool] = {}
        for _, key, primary, added in some:
            entry = key + primary + LENGTHS[len(primary)]
            if changes.setdefault(entry, added) is not added:
                del changes[entry]  # added and removed again, or removed and added again
        entries = self.entries
        for entry, added in sorted(changes.items()):
            if added:
                entries.add(entry)
                self._size += len(entry) + _OVERHEAD
            else:
                entries.remove(entry)
                self._size -= len(entry) + _OVERHEAD

    def count(self, low: bytes | None, high: bytes | None) -> int:
        """The number of entries with low <= index key < high."""
        self.merged_unasked = 0
        self.is_used = True
        if self.pending:
            self.merge(MERGED)
        entries = self.entries
        first = 0 if low is None else entries.bisect_left(bound_of(low))
        end = len(entries) if high is None else entries.bisect_left(bound_of(high))
        if low is not None and high is not None and high <= low:
            return 0
        for _, key, _, added in self.pending:
            if (low is None or low <= key) and (high is None or key < high):
                end += 1 if added else -1
        return end - first

    def check(self, stored: list[bytes]) -> None:
        """Assert that the cache, as far as it is loaded, has exactly these entries, and is sorted."""
        if not self.complete:
            stored = stored[: bisect_left(stored, self.loaded + b"\0")]
        entries = list(self.entries)
        assert entries == sorted(set(entries)), "the entries are not sorted"
        assert self._size == sum(map(len, entries)) + _OVERHEAD * len(entries), "the size of the cache is wrong"
        found = set(entries)
        for _, key, primary, added in self.pending:
            entry = key + primary + LENGTHS[len(primary)]
            assert (entry in found) is not added, "an entry is added twice, or removed without being there"
            found ^= {entry}
        assert sorted(found) == stored, "the cache differs from the index"


def bound_of(key: bytes) -> bytes:
    """Where entries whose index key is >= `key` begin.

    That is `key` itself, unless it continues a whole index key, as `keys.after` does: then it comes after all entries of that one.
    """
    if key[-1:] == b"\0" and is_cut(key[:-1] or b"\0"):
        return key[:-1] + b"\xff"
    try:
        whole, rest = split(key)
    except ValueError:
        return key
    return whole + b"\xff" if rest else key


def enter_changes(changes: list[Any]) -> None:
    """Note in the index caches what has been committed."""
    for change in changes:
        cache = change[0].cache
        if cache is not None:
            pending = cache.pending
            if cache.complete or cache.holds(change[1], change[2]):
                pending.append(change)
                if len(pending) >= MAX_PENDING:
                    change[0].cache_is_full()


class IndexCaches:
    """The memory budget that all index caches of a store share; the least recently used one goes first.

    A small index is loaded when it is first asked for; larger ones wait in a queue for `load`, which works in slices.
    """

    def __init__(self, budget: int) -> None:
        self.budget = budget  # bytes
        self._recent: dict[CachedIndex, None] = {}  # least recently used first
        self._queue: list[CachedIndex] = []
        self._discarded: list[SortedList] = []  # large ones of dropped caches, freed in slices

    @property
    def used(self) -> int:
        """Bytes, estimated."""
        return sum(index.cache.size for index in self._recent if index.cache is not None)

    @property
    def has_work(self) -> bool:
        return bool(self._queue or self._discarded)

    def touch(self, index: CachedIndex) -> None:
        recent = self._recent
        del recent[index]
        recent[index] = None

    def ask(self, index: CachedIndex, txn: Txn) -> IndexCache | None:
        """The cache of an index that has none: loaded now if it is small, else put in the queue; None for now or for good."""
        if index.counts_due:
            index.counts_due -= 1
            return None
        entries = txn.stat(index.handle)["entries"]
        if index.refused:
            if entries > index.refused * _SHRUNK:
                return None
            index.refused = 0
        # LMDB fills its pages to between a half and the whole, so the pages of an index bound what its entries take here.
        if index.size(txn) // 2 + entries * _OVERHEAD > self.budget:
            index.refused = entries
            return None
        if entries > AT_ONCE:
            index.waiting = True
            self._queue.append(index)
            return None
        index.cache = cache = IndexCache()
        self._recent[index] = None
        index.load(txn, entries + 1)
        self._make_room(index)
        return index.cache and cache

    def load(self, may_go_on: Callable[[], bool]) -> bool:
        """Load what waits, from the turn's snapshots, and free what was dropped, as long as `may_go_on()`; True if something still waits."""
        while self._discarded:
            discarded = self._discarded[-1]
            for _ in range(min(len(discarded), _FREED)):
                discarded.pop()
            if not discarded:
                self._discarded.pop()
            if not may_go_on():
                return self.has_work
        while self._queue:
            index = self._queue[0]
            txn = index.env.snapshot()
            if not index.waiting:
                continue  # another process had committed: its caches were dropped, and with them what waits
            if index.env.caches_are_behind:
                break
            if index.cache is None:
                index.cache = IndexCache()
                self._recent[index] = None
            while index.load(txn, _CHUNK):
                if not may_go_on():
                    break
            self._make_room(index)
            if index.cache is None or index.cache.complete:
                self._forget_waiting(index)
            if not may_go_on():
                break
        return self.has_work

    def full(self, index: CachedIndex) -> None:
        """MAX_PENDING changes wait in the cache of an index: merge some, or drop it if nothing counts with it."""
        cache = index.cache
        assert cache is not None
        cache.merged_unasked += MERGED_BY_WRITE
        if cache.merged_unasked > UNASKED or len(cache.entries) <= AT_ONCE:
            self.drop(index)
        else:
            cache.merge(MERGED_BY_WRITE)

    def drop_unused(self) -> None:
        """Drop the caches that nothing has counted with since the last call."""
        for index in list(self._recent):
            cache = index.cache
            if cache is not None and cache.complete:
                if not cache.is_used:
                    self.drop(index)
                cache.is_used = False

    def drop(self, index: CachedIndex) -> None:
        """Give up the cache of an index, loaded or waiting."""
        cache, index.cache = index.cache, None
        if cache is not None and len(cache.entries) > AT_ONCE:
            self._discarded.append(cache.entries)
        self._recent.pop(index, None)
        if index.waiting:
            self._forget_waiting(index)

    def _forget_waiting(self, index: CachedIndex) -> None:
        index.waiting = False
        self._queue.remove(index)

    def _make_room(self, index: CachedIndex) -> None:
        """Evict others, and in the end `index` itself, until the budget is kept."""
        while self.used > self.budget:
            oldest = next(iter(self._recent))
            if oldest is index and len(self._recent) > 1:
                self.touch(index)
                continue
            if oldest is index and index.cache is not None:
                index.refused = len(index.cache.entries)
            self.drop(oldest)
