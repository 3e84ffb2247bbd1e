"""Sources of records: one class for each kind of access (`plan.Access`).

A source is pulled: `take(n)` looks at no more than about n entries and returns what it found, (stored primary key, raw record) pairs. An
empty list means nothing unless `done` is set: so a caller can stop between any two calls, and no call takes long. There are no generators
between the store's iterators and the caller, only lists. `examined` counts the entries looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Any, Protocol

from svc.freeing import free_later
from svc.query.sorting import Collector
from svc.query.tables import AnyIndex, AnyTable
from svc.store.values.keys import after, is_cut

Pair = tuple[bytes, bytes]  # stored primary key, raw record
SortKeys = Callable[[list[Pair]], list[bytes]]

LONG_RUN = 64  # entries of one index key: longer runs are not gathered backwards but read forwards


class RowSource(Protocol):
    """`free`: of a source that is not used any more, what it remembers. Not called of one without `remembers`."""

    done: bool
    remembers: bool

    @property
    def examined(self) -> int: ...

    def take(self, limit: int) -> list[Pair]: ...

    def free(self) -> None: ...


class EmptySource:
    __slots__ = ("done", "examined")

    def __init__(self, *, done: bool = True) -> None:
        self.done = done
        self.examined = 0

    def take(self, limit: int) -> list[Pair]:
        return []

    remembers = False

    def free(self) -> None:
        pass


class ScanSource:
    """A range of primary keys, in key order or backwards."""

    __slots__ = ("_rows", "done", "examined")

    def __init__(self, rows: Iterator[Pair]) -> None:
        self._rows = rows
        self.done = False
        self.examined = 0

    def take(self, limit: int) -> list[Pair]:
        found = list(islice(self._rows, limit))
        self.examined += len(found)
        self.done = len(found) < limit
        return found

    remembers = False

    def free(self) -> None:
        pass


class KeySource:
    """The records of given keys that exist, in the order of the keys."""

    __slots__ = ("_keys", "_table", "_txn", "done", "examined")

    def __init__(self, table: AnyTable, txn: Any, keys: tuple[bytes, ...]) -> None:
        self._table = table
        self._txn = txn
        self._keys = iter(keys)
        self.done = False
        self.examined = 0

    def take(self, limit: int) -> list[Pair]:
        keys = list(islice(self._keys, limit))
        self.examined += len(keys)
        self.done = len(keys) < limit
        return self._table.get_many(keys, self._txn)

    remembers = False

    def free(self) -> None:
        pass


class IndexSource:
    """The records of index entries, in their order, one entry for each record."""

    __slots__ = ("_primaries", "_table", "_txn", "done", "examined")

    def __init__(self, table: AnyTable, txn: Any, primaries: Callable[[int], list[bytes]]) -> None:
        self._table = table
        self._txn = txn
        self._primaries = primaries
        self.done = False
        self.examined = 0

    def take(self, limit: int) -> list[Pair]:
        keys = self._primaries(limit)
        self.examined += len(keys)
        self.done = len(keys) < limit
        # The record of an entry is missing only if it has expired and is not yet removed.
        return self._table.get_many(keys, self._txn)

    remembers = False

    def free(self) -> None:
        pass


class DistinctSource:
    """The records of index entries where a record may have several, each at its first entry.

    With `behind`, that first entry may lie before the place where the source begins: then the record belongs to an earlier page.
    """

    __slots__ = ("_behind", "_entries", "_keys_of", "_low", "_seen", "_table", "_txn", "done", "examined")

    def __init__(
        self,
        table: AnyTable,
        txn: Any,
        entries: Iterator[Pair],
        *,
        low: bytes | None,
        behind: Pair | None,
        keys_of: Callable[[bytes], Sequence[bytes]],
    ) -> None:
        """`low`: where the range begins. `keys_of`: the keys that a record has in the index."""
        self._table = table
        self._txn = txn
        self._entries = entries
        self._low = low or b""
        self._behind = behind
        self._keys_of = keys_of
        self._seen: set[bytes] = set()
        self.done = False
        self.examined = 0

    def take(self, limit: int) -> list[Pair]:
        entries = list(islice(self._entries, limit))
        self.examined += len(entries)
        self.done = len(entries) < limit
        seen = self._seen
        new = dict.fromkeys(key for _, key in entries if key not in seen)
        seen.update(new)
        found = self._table.get_many(new, self._txn)
        behind = self._behind
        if behind is None:
            return found
        return [pair for pair in found if (self._first_key(pair[1]), pair[0]) > behind]

    def _first_key(self, raw: bytes) -> bytes:
        low = self._low
        return min([key for key in self._keys_of(raw) if key >= low], default=b"")

    remembers = True

    def free(self) -> None:
        free_later(self._seen)


class OrderedSource:
    """An index range in sort order: ties come by ascending primary key, also when the sort descends.

    Entries with the same index key are a *run*. A run is sorted by `sort_keys` if there are further sort keys, or if the index key was cut, so
    that the index does not know the order of its values; a long one in a collector. Otherwise an ascending run is in order as it is, and a
    descending one has to be turned round: a short one is gathered, a long one is read once more, forwards. `behind`, an entry, may lie in
    a run of the latter two kinds only.
    """

    __slots__ = (
        "_collector",
        "_descending",
        "_emitting",
        "_ended",
        "_entries",
        "_forwards",
        "_index",
        "_low",
        "_ready",
        "_run",
        "_run_key",
        "_sort_all",
        "_sort_keys",
        "_table",
        "_txn",
        "done",
        "examined",
    )

    def __init__(
        self,
        table: AnyTable,
        index: AnyIndex,
        txn: Any,
        bounds: tuple[bytes | None, bytes | None],
        *,
        descending: bool,
        sort_keys: SortKeys,
        sort_all: bool,
        behind: Pair | None = None,
    ) -> None:
        low, high = bounds
        self._table = table
        self._index = index
        self._txn = txn
        self._low = low
        self._descending = descending
        self._sort_keys = sort_keys
        self._sort_all = sort_all
        self._forwards: Iterator[Pair] | None = None  # a run that is being read forwards
        self._collector: Collector | None = None  # of a long run that is being sorted
        self._emitting: Collector | None = None  # the sorted run that is being returned
        self._ended = False  # there are no entries behind it
        self._run: list[bytes] = []  # stored primary keys of the run that is being gathered
        self._run_key = b""
        self._ready: list[Pair] = []
        self.done = False
        self.examined = 0
        self._entries: Iterator[Pair]
        if behind is not None and descending:
            self._entries = iter(())
            self._run_key = behind[0]
            self._forwards = index.scan(txn, behind[0], after(behind[0]), behind=behind)
        else:
            self._entries = index.scan(txn, low, high, reverse=descending, behind=behind)

    def take(self, limit: int) -> list[Pair]:
        if self._forwards is not None:
            return self._take_forwards(limit)
        if self._emitting is not None:
            return self._take_sorted(limit)
        limit += 1  # a run ends with the first entry of the next one
        found: list[Pair] = []
        self._ready = found
        run_key = self._run_key
        entries = list(islice(self._entries, limit))
        for at, (key, primary) in enumerate(entries):
            if key != run_key:
                if self._collector is not None:
                    self.examined += at
                    self._entries = chain(entries[at:], self._entries)
                    self._end_collected()
                    return found
                self._finish_run()
                self._run_key = run_key = key
            elif len(self._run) == LONG_RUN and self._descending and not self._must_sort(key):
                # Start this run again from its beginning; behind it, go on below its key.
                self.examined += at
                self._run = []
                self._forwards = self._index.scan(self._txn, key, after(key))
                return found
            self._run.append(primary)
        self.examined += len(entries)
        if len(entries) < limit:
            if self._collector is not None:
                self._ended = True
                self._end_collected()
                return found
            self._finish_run()
            self.done = True
        elif self._must_sort(run_key):
            if len(self._run) > LONG_RUN:
                self._collect()
        elif not self._descending:
            self._finish_run()
        return found

    def _collect(self) -> None:
        """Move the run, as far as it is known, into the collector."""
        if self._collector is None:
            self._collector = Collector(None)
        pairs = self._fetch(self._run)
        self._collector.add(zip(self._sort_keys(pairs), pairs, strict=True))
        self._run = []

    def _end_collected(self) -> None:
        self._collect()
        assert self._collector is not None
        self._emitting, self._collector = self._collector, None
        self._run_key = b""

    def _take_sorted(self, limit: int) -> list[Pair]:
        assert self._emitting is not None
        found = self._emitting.take(limit)
        if len(found) < limit:
            self._emitting = None
            self.done = self._ended
        return found

    def _take_forwards(self, limit: int) -> list[Pair]:
        assert self._forwards is not None
        keys = [primary for _, primary in islice(self._forwards, limit)]
        self.examined += len(keys)
        if len(keys) < limit:
            self._forwards = None
            self._entries = self._index.scan(self._txn, self._low, self._run_key, reverse=True)
            self._run_key = b""
        return self._fetch(keys)

    def _finish_run(self) -> None:
        run = self._run
        if not run:
            return
        self._run = []
        if self._must_sort(self._run_key):
            pairs = self._fetch(run)
            if len(pairs) > 1:
                pairs = [pair for _, pair in sorted(zip(self._sort_keys(pairs), pairs, strict=True))]
            self._ready += pairs
        else:
            if self._descending:
                run.reverse()
            self._ready += self._fetch(run)

    def _must_sort(self, key: bytes) -> bool:
        return self._sort_all or is_cut(key or b"\0")

    remembers = True

    def free(self) -> None:
        for collector in (self._collector, self._emitting):
            if collector is not None:
                collector.free()
        free_later(self._run)

    def _fetch(self, keys: list[bytes]) -> list[Pair]:
        return self._table.get_many(keys, self._txn)


class FilteredSource:
    """What passes `test` of what another source finds. A test that takes steps is in progress over calls."""

    __slots__ = ("_source", "_test", "_testing", "done")

    def __init__(self, source: RowSource, test: Callable[[list[Pair]], Generator[None, None, list[Pair]]]) -> None:
        self._source = source
        self._test = test
        self._testing: Generator[None, None, list[Pair]] | None = None
        self.done = source.done

    @property
    def examined(self) -> int:
        return self._source.examined

    def take(self, limit: int) -> list[Pair]:
        testing = self._testing
        if testing is None:
            testing = self._test(self._source.take(limit))
        try:
            next(testing)
        except StopIteration as ready:
            self._testing = None
            self.done = self._source.done
            return ready.value  # type: ignore[no-any-return]
        self._testing = testing
        return []

    remembers = False

    def free(self) -> None:
        pass


class UnionSource:
    """Several sources one after the other, each record at its first occurrence."""

    __slots__ = ("_current", "_examined", "_seen", "_sources", "done")

    def __init__(self, sources: Iterator[RowSource]) -> None:
        self._sources = sources
        self._current: RowSource | None = None
        self._examined = 0  # by those that are done
        self._seen: set[bytes] = set()
        self.done = False

    @property
    def examined(self) -> int:
        return self._examined + (0 if self._current is None else self._current.examined)

    def take(self, limit: int) -> list[Pair]:
        current = self._current
        if current is None or current.done:
            if current is not None:
                self._examined += current.examined
            self._current = current = next(self._sources, None)
            if current is None:
                self.done = True
                return []
        seen = self._seen
        found: list[Pair] = []
        for pair in current.take(limit):
            if pair[0] not in seen:
                seen.add(pair[0])
                found.append(pair)
        return found

    remembers = True

    def free(self) -> None:
        free_later(self._seen)


class JoinSource:
    """The records that lead to those of another table, each once. `lead_back` gives the stored keys of what leads to some of them."""

    __slots__ = ("_inner", "_keys", "_lead_back", "_seen", "_table", "_txn", "done", "examined_keys")

    def __init__(self, table: AnyTable, txn: Any, inner: RowSource, lead_back: Callable[[list[Pair]], Iterable[bytes]]) -> None:
        self._table = table
        self._txn = txn
        self._inner = inner
        self._lead_back = lead_back
        self._keys: Iterator[bytes] | None = None
        self._seen: set[bytes] = set()
        self.examined_keys = 0
        self.done = inner.done

    @property
    def examined(self) -> int:
        return self._inner.examined + self.examined_keys

    def take(self, limit: int) -> list[Pair]:
        if self._keys is None:
            related = self._inner.take(limit)
            self.done = self._inner.done
            if not related:
                return []
            self.done = False
            self._keys = iter(self._lead_back(related))
        keys = list(islice(self._keys, limit))
        self.examined_keys += len(keys)
        if len(keys) < limit:
            self._keys = None
            self.done = self._inner.done
        seen = self._seen
        new = dict.fromkeys(key for key in keys if key not in seen)
        seen.update(new)
        return self._table.get_many(new, self._txn)

    remembers = True

    def free(self) -> None:
        free_later(self._seen)
