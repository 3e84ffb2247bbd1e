"""Secondary indexes: a durable LMDB store per index, and a sorted copy of it in memory (design §4; contract: schema-and-store §10).

The durable index is a store with duplicates: index key (`keys.index_key` of the value) -> stored primary key, sorted by both. It changes
in the transaction of the record, so it never disagrees with it. It answers all scans: finding a value and reading 20 entries takes 8 us
from LMDB, and 6 us (entries as pairs) to 13 us (as one object) from a `SortedList`, for which every write would have to pay. It also
answers the count of one value, which LMDB knows: 2 us.

The cache is a `SortedList` of the same entries, and answers the count of a range of values with two bisections, 6 us, where LMDB would
have to be asked about each value. Each entry is one bytes object, which takes 60 bytes instead of 146 for a pair:

    index key, primary key, length of the primary key (2 bytes, big-endian)

No index key is the beginning of another (`keys`, invariant 2), so these bytes sort as the pairs do. Results never depend on the cache:

1. A complete cache holds exactly the entries of the durable index as of the last commit that this process has seen. It changes after
   that commit, never before; when another process has committed it is dropped.
2. A cache that is still being loaded holds exactly the entries up to and including `loaded`. Changes behind that point are left out,
   for the rest is read later, from a newer snapshot.
3. Only counts on the turn's own snapshot use it, and only until a commit in the middle of the turn leaves that behind.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from itertools import islice
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from sortedcontainers import SortedList

from svc.errors import IndexRebuilding
from svc.store.disk.faults import LmdbError, store_problem
from svc.store.env import Environment, Handle, Txn, store_bytes
from svc.store.values.keys import after, is_cut, split

if TYPE_CHECKING:
    from svc.store.schema import Attribute
    from svc.store.values.computed import ComputedAttribute

Entry = tuple[bytes, bytes]  # index key, stored primary key

COUNT_CAP = 10_000  # entries, after which the count of a range without cache stops; 10,000 steps take 3 ms
AT_ONCE = 4_000  # entries: a smaller index is loaded at the first count of a range, within 5 ms; a larger one by `IndexCaches.load`
_CHUNK = 500  # entries loaded between two looks at the clock
_OVERHEAD = 33 + 10  # bytes: an empty bytes object; its place in a list that is on average 80 % full
_SHRUNK = 0.8  # a refused index is tried again when it has shrunk to this share
_LENGTHS = [length.to_bytes(2, "big") for length in range(512)]


_LOOK = 24  # entries
_key_of = itemgetter(0)


class IndexCache:
    """The entries of one index in memory. See the head of this module for what it promises."""

    __slots__ = ("complete", "entries", "loaded", "size")

    def __init__(self) -> None:
        self.entries: SortedList = SortedList()
        self.size = 0  # bytes, estimated
        self.loaded = b""
        self.complete = False

    def extend(self, pairs: Iterator[tuple[bytes, bytes]], limit: int) -> bool:
        """Load up to `limit` more entries, which follow `loaded`; False when there were fewer."""
        loaded = [key + primary + _LENGTHS[len(primary)] for key, primary in islice(pairs, limit)]
        if loaded:
            self.entries.update(loaded)
            self.size += sum(map(len, loaded)) + _OVERHEAD * len(loaded)
            self.loaded = loaded[-1]
        self.complete = len(loaded) < limit
        return not self.complete

    def add(self, key: bytes, primary: bytes) -> None:
        entry = key + primary + _LENGTHS[len(primary)]
        if self.complete or entry <= self.loaded:
            entries = self.entries
            entries.add(entry)
            self.size += len(entry) + _OVERHEAD

    def remove(self, key: bytes, primary: bytes) -> None:
        entry = key + primary + _LENGTHS[len(primary)]
        if self.complete or entry <= self.loaded:
            self.entries.remove(entry)
            self.size -= len(entry) + _OVERHEAD

    def count(self, low: bytes | None, high: bytes | None) -> int:
        entries = self.entries
        first: int = 0 if low is None else entries.bisect_left(_bound(low))
        end: int = len(entries) if high is None else entries.bisect_left(_bound(high))
        return max(end - first, 0)


def _bound(key: bytes) -> bytes:
    """Where entries whose index key is >= `key` begin.

    That is `key` itself, unless it continues a whole index key, as `keys.after` does: then it stands behind all entries of that one.
    """
    if key[-1:] == b"\0" and is_cut(key[:-1] or b"\0"):
        return key[:-1] + b"\xff"
    try:
        whole, rest = split(key)
    except ValueError:
        return key
    return whole + b"\xff" if rest else key


def _from_key(cursor: Any, low: bytes | None) -> bool:
    """Go to the first entry whose key is >= `low`; False if there is none."""
    return bool(cursor.first() if low is None else cursor.set_range(low))


def _before_key(cursor: Any, high: bytes | None) -> bool:
    """Go to the last entry whose key is < `high`; False if there is none."""
    # set_range stands on the first duplicate of its key: one step back leaves the key.
    return bool(cursor.last() if high is None or not cursor.set_range(high) else cursor.prev())


def _after(cursor: Any, key: bytes, primary: bytes) -> bool:
    """Go to the first entry behind this one, which need not exist; False if there is none."""
    if cursor.set_range_dup(key, primary):
        return bool(cursor.next()) if cursor.item() == (key, primary) else True
    # No such key, or none of its entries is as high: the next key.
    return bool(cursor.set_range(key) and (cursor.key() != key or cursor.next_nodup()))


def _before(cursor: Any, key: bytes, primary: bytes) -> bool:
    """Go to the last entry before this one, which need not exist; False if there is none."""
    if cursor.set_range_dup(key, primary):
        return bool(cursor.prev())
    # No such key, or all its entries are lower.
    if not cursor.set_range(key):
        return bool(cursor.last())
    return bool(cursor.last_dup() if cursor.key() == key else cursor.prev())


class Index:
    """One secondary index of a table.

    `ready` is False until it has been built; then a scan raises IndexRebuilding. `multi`: the attribute holds, or may hold, lists, so a
    primary key may occur several times. Scans and counts include the entries of records that have expired but are not yet removed.
    """

    __slots__ = (
        "_caches", "_store_name", "attribute", "cache", "computed", "env", "handle", "multi", "progress", "refused", "shape", "waiting",
    )  # fmt: skip

    def __init__(self, env: Environment, caches: IndexCaches, attribute: Attribute, store_name: str, handle: Handle) -> None:
        self.env = env
        self._caches = caches
        self._store_name = store_name
        self.attribute = attribute.name
        self.shape = attribute.type, attribute.elements
        self.multi = attribute.elements or attribute.type == "Any"
        self.computed: ComputedAttribute | None = None  # where the values come from, if they are not in the records
        self.handle = handle
        self.progress: bytes | None = None  # while it is built: the stored primary key up to which it is done; None = ready
        self.cache: IndexCache | None = None
        self.waiting = False  # for its cache to be loaded
        self.refused = 0  # entries it had when it did not fit the memory budget

    def __repr__(self) -> str:
        state = "ready" if self.ready else "being built"
        return f"<Index {self._store_name}, {state}{', cached' if self.cache is not None else ''}>"

    @property
    def ready(self) -> bool:
        return self.progress is None

    @property
    def has_values(self) -> bool:
        """Whether the values of records are known: False until the application has set the function that computes them."""
        return self.computed is None or self.computed.is_set

    def scan(
        self,
        txn: Txn,
        low: bytes | None = None,
        high: bytes | None = None,
        *,
        reverse: bool = False,
        behind: Entry | None = None,
    ) -> Iterator[Entry]:
        """(index key, stored primary key) with low <= index key < high, in order of both; `reverse` reverses both.

        `behind`: an entry with low <= index key < high, there or not any more; the scan goes on behind it, in its own direction.
        """
        if self.progress is not None:
            raise IndexRebuilding(self.attribute)
        return self.scan_built(txn, low, high, reverse=reverse, behind=behind)

    def primaries(
        self,
        txn: Txn,
        low: bytes | None = None,
        high: bytes | None = None,
        *,
        reverse: bool = False,
        behind: Entry | None = None,
    ) -> Callable[[int], list[bytes]]:
        """The stored primary keys of `scan`, as a function that gives the next n of them, fewer at the end: no generator runs for each entry."""
        if self.progress is not None:
            raise IndexRebuilding(self.attribute)
        if reverse or behind is not None or low is None:
            entries = self.scan_built(txn, low, high, reverse=reverse, behind=behind)
            return lambda count: [primary for _, primary in islice(entries, count)]
        try:
            cursor = txn.cursor(self.handle)
            if high is not None and len(high) == len(low) + 1 and high == after(low):
                found = cursor.set_key(low)
                keys = cursor.iternext_dup() if found else iter(())
                high = None
            else:
                found = cursor.set_range(low)
                keys = None
            items = cursor.iternext() if found else iter(())
        except LmdbError as error:
            raise store_problem(error, self.env.path) from error

        def take(count: int) -> list[bytes]:
            try:
                if keys is not None:
                    return list(islice(keys, count))
                # The end of a range is noticed behind it: most ranges that have one are short, so the first look is.
                some = list(islice(items, count if high is None or count < _LOOK else _LOOK))
                while high is not None and some and some[-1][0] < high and len(some) < count:
                    more = list(islice(items, min(len(some), count - len(some))))
                    if not more:
                        break
                    some += more
            except LmdbError as error:
                raise store_problem(error, self.env.path) from error
            if high is not None and some and some[-1][0] >= high:
                del some[bisect_left(some, high, key=_key_of) :]
            return [primary for _, primary in some]

        return take

    def values(self, txn: Txn, low: bytes | None = None, high: bytes | None = None) -> Iterator[tuple[bytes, int]]:
        """(index key, number of its entries) with low <= index key < high, in order. One step for each different key."""
        if self.progress is not None:
            raise IndexRebuilding(self.attribute)
        try:
            cursor = txn.cursor(self.handle)
            found = _from_key(cursor, low)
            while found:
                key = cursor.key()
                if high is not None and key >= high:
                    return
                yield key, cursor.count()
                found = cursor.next_nodup()
        except LmdbError as error:
            raise store_problem(error, self.env.path) from error

    def count(self, txn: Txn, low: bytes | None = None, high: bytes | None = None, most: int = COUNT_CAP) -> int:
        """The number of entries with low <= index key < high. O(log n) for one value or with the cache, and exact.

        For a range without the cache the counting stops after `most` entries: what it returns is then a lower bound.
        """
        return self._count(txn, low, high, most)[0]

    def exact_count(self, txn: Txn, low: bytes | None = None, high: bytes | None = None) -> int | None:
        """The same if that is no lower bound, else None."""
        count, is_exact = self._count(txn, low, high, COUNT_CAP)
        return count if is_exact else None

    def _count(self, txn: Txn, low: bytes | None, high: bytes | None, most: int) -> tuple[int, bool]:
        if self.progress is not None:
            raise IndexRebuilding(self.attribute)
        if low is None and high is None:
            return txn.stat(self.handle)["entries"], True
        if low is None or high is None or high != after(low):
            cache = self._cache_for(txn)
            if cache is not None:
                return cache.count(low, high), True
        return self._count_stored(txn, low, high, most)

    def scan_built(
        self,
        txn: Txn,
        low: bytes | None = None,
        high: bytes | None = None,
        *,
        reverse: bool = False,
        behind: Entry | None = None,
    ) -> Iterator[Entry]:
        """`scan`, without asking whether the index is complete."""
        try:
            cursor = txn.cursor(self.handle)
            if reverse:
                if not (_before_key(cursor, high) if behind is None else _before(cursor, *behind)):
                    return
                for item in cursor.iterprev():
                    if low is not None and item[0] < low:
                        return
                    yield item
            else:
                if not (_from_key(cursor, low) if behind is None else _after(cursor, *behind)):
                    return
                for item in cursor.iternext():
                    if high is not None and item[0] >= high:
                        return
                    yield item
        except LmdbError as error:
            raise store_problem(error, self.env.path) from error

    def count_stored(self, txn: Txn, low: bytes | None = None, high: bytes | None = None) -> int:
        """`count` from LMDB: one step for each value in the range."""
        return self._count_stored(txn, low, high, COUNT_CAP)[0]

    def _count_stored(self, txn: Txn, low: bytes | None, high: bytes | None, most: int) -> tuple[int, bool]:
        try:
            cursor = txn.cursor(self.handle)
            found = cursor.first() if low is None else cursor.set_range(low)
            total = 0
            while found and (high is None or cursor.key() < high):
                if total >= most:
                    return total, False
                total += cursor.count()
                found = cursor.next_nodup()
            return total, True
        except LmdbError as error:
            raise store_problem(error, self.env.path) from error

    def size(self, txn: Txn) -> int:
        """Bytes of its pages."""
        return store_bytes(txn, self.handle)

    def _cache_for(self, txn: Txn) -> IndexCache | None:
        if not self.env.is_current(txn):
            return None
        cache = self.cache
        if cache is None:
            if self.waiting:
                return None
            return self._caches.ask(self, txn)
        if cache.complete:
            self._caches.touch(self)
            return cache
        return None

    def load(self, txn: Txn, limit: int) -> bool:
        """Load up to `limit` more entries of the turn's snapshot into the cache; False when it is complete."""
        cache = self.cache
        assert cache is not None and self.env.is_current(txn)
        cursor = txn.cursor(self.handle)
        if cache.loaded:
            primary_at = -2 - (cache.loaded[-2] << 8 | cache.loaded[-1])
            found = _after(cursor, cache.loaded[:primary_at], cache.loaded[primary_at:-2])
        else:
            found = cursor.first()
        return cache.extend(cursor.iternext() if found else iter(()), limit)

    def drop_cache(self) -> None:
        self._caches.drop(self)

    def check_cache(self, txn: Txn) -> None:
        """Assert that the cache, as far as it is loaded, has exactly the entries of the durable index. Reads both."""
        cache = self.cache
        if cache is None or not self.env.is_current(txn):
            return
        stored = [key + primary + _LENGTHS[len(primary)] for key, primary in self.scan_built(txn)]
        if not cache.complete:
            stored = stored[: bisect_left(stored, cache.loaded + b"\0")]
        assert list(cache.entries) == stored, f"the cache of {self._store_name} differs from the index"
        assert cache.size == sum(map(len, stored)) + _OVERHEAD * len(stored), f"the size of the cache of {self._store_name} is wrong"


class IndexCaches:
    """The memory budget that all index caches of a store share; the least recently used one goes first.

    A small index is loaded when it is first asked for; larger ones wait in a queue for `load`, which works in slices.
    """

    def __init__(self, budget: int) -> None:
        self.budget = budget  # bytes
        self._recent: dict[Index, None] = {}  # least recently used first
        self._queue: list[Index] = []

    @property
    def used(self) -> int:
        """Bytes, estimated."""
        return sum(index.cache.size for index in self._recent if index.cache is not None)

    @property
    def has_work(self) -> bool:
        return bool(self._queue)

    def touch(self, index: Index) -> None:
        recent = self._recent
        del recent[index]
        recent[index] = None

    def ask(self, index: Index, txn: Txn) -> IndexCache | None:
        """The cache of an index that has none: loaded now if it is small, else put in the queue; None for now or for good."""
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
        """Load what waits, from the turn's snapshots, as long as `may_go_on()`; True if something still waits."""
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
        return bool(self._queue)

    def drop(self, index: Index) -> None:
        """Give up the cache of an index, loaded or waiting."""
        index.cache = None
        self._recent.pop(index, None)
        if index.waiting:
            self._forget_waiting(index)

    def _forget_waiting(self, index: Index) -> None:
        index.waiting = False
        self._queue.remove(index)

    def _make_room(self, index: Index) -> None:
        """Evict others, and in the end `index` itself, until the budget is kept."""
        while self.used > self.budget:
            oldest = next(iter(self._recent))
            if oldest is index and len(self._recent) > 1:
                self.touch(index)
                continue
            if oldest is index and index.cache is not None:
                index.refused = len(index.cache.entries)
            self.drop(oldest)


IndexChange = tuple["Index", bytes, bytes, bool]  # index key, stored primary key; True = added, False = removed
