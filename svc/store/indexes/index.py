"""Secondary indexes: a durable LMDB store for each (architecture §4; spec: schema-and-store §10).

The durable index is a store with duplicates: index key (`keys.index_key` of the value) -> stored primary key, sorted by both. It changes
in the transaction of the record, so it never disagrees with it. It answers all scans: finding a value and reading 20 entries takes 8 us
from LMDB, and no less from a sorted list in memory. It also answers the count of one value, which LMDB knows: 2 us.

The cache (`cache`) is a sorted copy of the same entries, and answers the count of a range of values with two bisections, where LMDB would
have to be asked about each value.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from itertools import islice
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from svc.errors import IndexRebuilding
from svc.store.disk.faults import LmdbError, store_problem
from svc.store.env import Environment, Handle, Txn, store_bytes
from svc.store.indexes.cache import LENGTHS, IndexCache, IndexCaches
from svc.store.values.keys import after

if TYPE_CHECKING:
    from svc.store.schema import Attribute
    from svc.store.values.computed import ComputedAttribute

Entry = tuple[bytes, bytes]  # index key, stored primary key

COUNT_CAP = 10_000  # entries, after which the count of a range without cache stops; 10,000 steps take 3 ms


COUNTED = 500  # entries that are loaded in the time that a count of a range takes
_FIRST_TAKE = 24  # entries
_key_of = itemgetter(0)


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
        "_caches", "_counts_between", "_store_name", "attribute", "cache", "computed", "counts_due", "env", "handle", "is_deferred", "multi", "progress",
        "refused", "shape", "unique", "waiting",
    )  # fmt: skip

    def __init__(self, env: Environment, caches: IndexCaches, attribute: Attribute, store_name: str, handle: Handle) -> None:
        self.env = env
        self._caches = caches
        self._store_name = store_name
        self.attribute = attribute.name
        self.shape = attribute.type, attribute.elements
        self.unique = False  # no two records have a value in common: `writing.constraints`
        self.multi = attribute.elements or attribute.type == "Any"
        self.computed: ComputedAttribute | None = None  # where the values come from, if they are not in the records
        self.handle = handle
        self.progress: bytes | None = None  # while it is built: the stored primary key up to which it is done; None = ready
        self.is_deferred = False  # a load of this process leaves it out, and will build it: the background builder waits
        self.cache: IndexCache | None = None
        self.waiting = False  # for its cache to be loaded
        self.refused = 0  # entries it had when it did not fit the memory budget
        self.counts_due = 0  # that are made without a cache before one is loaded
        self._counts_between = 0

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
                some = list(islice(items, count if high is None or count < _FIRST_TAKE else _FIRST_TAKE))
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

    def few(self, txn: Txn, low: bytes, high: bytes | None, most: int) -> list[bytes] | None:
        """The stored primary keys of `scan`, if there are no more than `most`: in one go, which costs half of `primaries`. `high` None: of the one index key
        `low`."""
        if self.progress is not None:
            raise IndexRebuilding(self.attribute)
        try:
            cursor = txn.cursor(self.handle)
            if high is None:
                found = list(islice(cursor.iternext_dup(), most + 1)) if cursor.set_key(low) else []
            else:
                found = []
                append = found.append
                for key, primary in islice(cursor.iternext(), most + 1) if cursor.set_range(low) else ():
                    if key >= high:
                        break
                    append(primary)
        except LmdbError as error:
            raise store_problem(error, self.env.path) from error
        return found if len(found) <= most else None

    def count_of(self, txn: Txn, key: bytes) -> int:
        """The number of entries of one index key."""
        if self.progress is not None:
            raise IndexRebuilding(self.attribute)
        try:
            cursor = txn.cursor(self.handle)
            return cursor.count() if cursor.set_key(key) else 0
        except LmdbError as error:
            raise store_problem(error, self.env.path) from error

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

    def exact_count(self, txn: Txn, low: bytes | None = None, high: bytes | None = None, most: int = COUNT_CAP) -> int | None:
        """The same if that is no lower bound, else None."""
        count, is_exact = self._count(txn, low, high, most)
        return count if is_exact else None

    def _count(self, txn: Txn, low: bytes | None, high: bytes | None, most: int) -> tuple[int, bool]:
        if self.progress is not None:
            raise IndexRebuilding(self.attribute)
        if low is None and high is None:
            return txn.stat(self.handle)["entries"], True
        if low is not None and high == after(low):
            return self.count_of(txn, low), True
        cache = self._cache_for(txn)
        if cache is not None:
            return cache.count(low, high), True
        return self.count_stored(txn, low, high, most)

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

    def count_stored(self, txn: Txn, low: bytes | None, high: bytes | None, most: int = COUNT_CAP) -> tuple[int, bool]:
        """(entries in the range, whether these are all), without the cache: one step of LMDB for each value in the range. `most`: counted entries."""
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
        cache.merged_unasked = 0
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

    def outdate_cache(self) -> None:
        """The cache is void: of what another process has changed not all is known. That may go on, so it is not loaded again at once, but after as many counts
        as take about as long."""
        if self.cache is not None:
            self._counts_between = max(self._counts_between, len(self.cache.entries) // COUNTED)
        self.counts_due = self._counts_between
        if self.cache is not None or self.waiting:
            self._caches.drop(self)

    def cache_is_full(self) -> None:
        """As many changes as it may hold wait in the cache."""
        self._caches.full(self)

    def check_cache(self, txn: Txn) -> None:
        """Assert that the cache, as far as it is loaded, has exactly the entries of the durable index. Reads both."""
        if self.cache is not None and self.env.is_current(txn):
            self.cache.check([key + primary + LENGTHS[len(primary)] for key, primary in self.scan_built(txn)])


IndexChange = tuple["Index", bytes, bytes, bool]  # index key, stored primary key; True = added, False = removed
