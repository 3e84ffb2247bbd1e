"""Where rows come from: one class for each way to reach records (`plan.Access`).

A source is pulled: `take(n)` looks at no more than about n entries and returns what it found, (stored primary key, raw record) pairs. An
empty list means nothing unless `done` is set: so a caller can stop between any two calls, and no call takes long. There are no generators
between the store's iterators and the caller, only lists.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, Protocol

from svc.query.tables import AnyIndex, AnyTable
from svc.store.keys import after, is_cut

Pair = tuple[bytes, bytes]  # stored primary key, raw record

LONG_RUN = 64  # entries of one index key: longer runs are not gathered backwards but read forwards


class Source(Protocol):
    done: bool

    def take(self, limit: int) -> list[Pair]: ...


class EmptySource:
    __slots__ = ("done",)

    def __init__(self) -> None:
        self.done = True

    def take(self, limit: int) -> list[Pair]:
        return []


class ScanSource:
    """A range of primary keys, in key order or backwards."""

    __slots__ = ("_rows", "done")

    def __init__(self, rows: Iterator[Pair]) -> None:
        self._rows = rows
        self.done = False

    def take(self, limit: int) -> list[Pair]:
        found = list(islice(self._rows, limit))
        self.done = len(found) < limit
        return found


class KeySource:
    """The records of given keys that exist, in the order of the keys."""

    __slots__ = ("_keys", "_table", "_txn", "done")

    def __init__(self, table: AnyTable, txn: Any, keys: tuple[bytes, ...]) -> None:
        self._table = table
        self._txn = txn
        self._keys = iter(keys)
        self.done = False

    def take(self, limit: int) -> list[Pair]:
        keys = list(islice(self._keys, limit))
        self.done = len(keys) < limit
        return self._table.get_many(keys, self._txn)


class IndexSource:
    """The records of index entries, in their order; with `distinct` each once, at its first entry."""

    __slots__ = ("_entries", "_seen", "_table", "_txn", "done")

    def __init__(self, table: AnyTable, txn: Any, entries: Iterator[Pair], *, distinct: bool) -> None:
        self._table = table
        self._txn = txn
        self._entries = entries
        self._seen: set[bytes] | None = set() if distinct else None
        self.done = False

    def take(self, limit: int) -> list[Pair]:
        entries = list(islice(self._entries, limit))
        self.done = len(entries) < limit
        seen = self._seen
        if seen is None:
            # The record of an entry is missing only if it has expired and is not yet removed.
            return self._table.get_many([key for _, key in entries], self._txn)
        new = dict.fromkeys(key for _, key in entries if key not in seen)
        seen.update(new)
        return self._table.get_many(new, self._txn)


class OrderedSource:
    """An index range in sort order: ties come by ascending primary key, also when the sort descends.

    Entries with the same index key are a *run*. A run is sorted by `sort_key` if there are further sort keys, or if the index key was cut, so
    that the index does not know the order of its values. Otherwise an ascending run is in order as it is, and a descending one has
    to be turned round: a short one is gathered, a long one is read once more, forwards.
    """

    __slots__ = (
        "_descending",
        "_entries",
        "_forwards",
        "_index",
        "_low",
        "_ready",
        "_run",
        "_run_key",
        "_sort_all",
        "_sort_key",
        "_table",
        "_txn",
        "done",
    )

    def __init__(
        self,
        table: AnyTable,
        index: AnyIndex,
        txn: Any,
        low: bytes | None,
        high: bytes | None,
        *,
        descending: bool,
        sort_key: Callable[[Pair], bytes],
        sort_all: bool,
    ) -> None:
        self._table = table
        self._index = index
        self._txn = txn
        self._low = low
        self._descending = descending
        self._sort_key = sort_key
        self._sort_all = sort_all
        self._entries = index.scan(txn, low, high, reverse=descending)
        self._forwards: Iterator[Pair] | None = None  # a long run that is being read forwards
        self._run: list[bytes] = []  # stored primary keys of the run that is being gathered
        self._run_key = b""
        self._ready: list[Pair] = []
        self.done = False

    def take(self, limit: int) -> list[Pair]:
        if self._forwards is not None:
            return self._take_forwards(limit)
        limit += 1  # a run ends with the first entry of the next one
        found: list[Pair] = []
        self._ready = found
        run_key = self._run_key
        entries = list(islice(self._entries, limit))
        for key, primary in entries:
            if key != run_key:
                self._finish_run()
                self._run_key = run_key = key
            elif len(self._run) == LONG_RUN and self._descending and not self._must_sort(key):
                # Start this run again from its beginning; behind it, go on below its key.
                self._run = []
                self._forwards = self._index.scan(self._txn, key, after(key))
                return found
            self._run.append(primary)
        if len(entries) < limit:
            self._finish_run()
            self.done = True
        elif not self._descending and not self._must_sort(run_key):
            self._finish_run()
        return found

    def _take_forwards(self, limit: int) -> list[Pair]:
        assert self._forwards is not None
        entries = list(islice(self._forwards, limit))
        if len(entries) < limit:
            self._forwards = None
            self._entries = self._index.scan(self._txn, self._low, self._run_key, reverse=True)
            self._run_key = b""
        return self._fetch([primary for _, primary in entries])

    def _finish_run(self) -> None:
        run = self._run
        if not run:
            return
        self._run = []
        if self._must_sort(self._run_key):
            self._ready += sorted(self._fetch(run), key=self._sort_key)
        else:
            if self._descending:
                run.reverse()
            self._ready += self._fetch(run)

    def _must_sort(self, key: bytes) -> bool:
        return self._sort_all or is_cut(key or b"\0")

    def _fetch(self, keys: list[bytes]) -> list[Pair]:
        return self._table.get_many(keys, self._txn)


class FilteredSource:
    """What passes `test` of what another source finds."""

    __slots__ = ("_source", "_test", "done")

    def __init__(self, source: Source, test: Callable[[bytes], bool]) -> None:
        self._source = source
        self._test = test
        self.done = source.done

    def take(self, limit: int) -> list[Pair]:
        source, test = self._source, self._test
        found = [pair for pair in source.take(limit) if test(pair[1])]
        self.done = source.done
        return found


class UnionSource:
    """Several sources one after the other, each record at its first occurrence."""

    __slots__ = ("_current", "_seen", "_sources", "done")

    def __init__(self, sources: Iterator[Source]) -> None:
        self._sources = sources
        self._current: Source | None = None
        self._seen: set[bytes] = set()
        self.done = False

    def take(self, limit: int) -> list[Pair]:
        current = self._current
        if current is None or current.done:
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


class JoinSource:
    """The records that `lead_back` finds from each record of another table, each once."""

    __slots__ = ("_inner", "_lead_back", "_seen", "done")

    def __init__(self, inner: Source, lead_back: Callable[[bytes], list[Pair]]) -> None:
        self._inner = inner
        self._lead_back = lead_back
        self._seen: set[bytes] = set()
        self.done = inner.done

    def take(self, limit: int) -> list[Pair]:
        inner, lead_back, seen = self._inner, self._lead_back, self._seen
        found: list[Pair] = []
        for _, related in inner.take(limit):
            for pair in lead_back(related):
                if pair[0] not in seen:
                    seen.add(pair[0])
                    found.append(pair)
        self.done = inner.done
        return found
