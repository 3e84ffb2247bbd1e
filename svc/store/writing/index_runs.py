"""Index entries of many new records, collected in sorted runs that are merged at the end (for `batch_write`, `copied_inserts`)."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any

from svc.errors import BadValue
from svc.store.values.keys import index_key, index_keys

if TYPE_CHECKING:
    from svc.store.indexes.index import Index
    from svc.store.writing.write_set import WriteSet


_RUN = 1000  # index entries that are sorted at once
_ENTRIES = 100  # that are written in one step
_LENGTHS = [length.to_bytes(2, "big") for length in range(512)]
_TEXTS = 10_000  # that are remembered with their index key


class IndexRuns:
    """The entries of new records, in sorted runs that are merged at the end: to sort all of them at once would take too long.

    An entry is one bytes object, as in `cache.IndexCache`: it is compared in a third of the time of a pair, and the garbage collector need not look
    at it, which otherwise stops everything for several milliseconds.
    """

    __slots__ = ("_last", "_runs", "_texts", "index")

    def __init__(self, index: Index) -> None:
        self.index = index
        self._last: list[bytes] = []
        self._runs: list[list[bytes]] = []
        self._texts: dict[str, bytes] = {}  # texts that repeat are encoded once

    def add(self, records: list[tuple[bytes, dict[str, Any]]]) -> None:
        name, texts, entries, computed = self.index.attribute, self._texts, self._last, self.index.computed
        if computed is not None:
            entries += [key + stored + _LENGTHS[len(stored)] for stored, record in records for key in index_keys(computed(record))]
        else:
            for stored, record in records:
                value: Any = record.get(name)
                kind = type(value)
                if kind is str:
                    key = texts.get(value)
                    if key is None:
                        if len(texts) >= _TEXTS:
                            texts.clear()
                        key = texts[value] = index_key(value)
                    entries.append(key + stored + _LENGTHS[len(stored)])
                elif kind is float or kind is int or value is None:
                    try:
                        entries.append(index_key(value) + stored + _LENGTHS[len(stored)])
                    except BadValue:  # see `index_keys`
                        continue
                else:
                    entries += [key + stored + _LENGTHS[len(stored)] for key in index_keys(value)]
        if len(entries) >= _RUN:
            entries.sort()
            self._runs.append(entries)
            self._last = []

    def merged(self) -> Generator[None, None, list[bytes]]:
        """All that have come since the last call, sorted; in short steps."""
        self._last.sort()
        runs, self._runs, self._last = [*self._runs, self._last], [], []
        return merge_runs(runs)


def write_run(write_set: WriteSet, run: IndexRuns) -> Generator[None, None, None]:
    """Write the entries, and note them for the caches; in short steps."""
    entries = yield from run.merged()
    index = run.index
    cursor = write_set.txn.cursor(index.handle)
    for start in range(0, len(entries), _ENTRIES):
        pairs = list(map(split_entry, entries[start : start + _ENTRIES]))
        cursor.putmulti(pairs)
        if index.cache is not None or not write_set.is_long:
            write_set.index_changes += [(index, key, stored, True) for key, stored in pairs]
        else:
            write_set.uncached.add(index)
        yield


def split_entry(entry: bytes) -> tuple[bytes, bytes]:
    """(index key, stored key)."""
    end = -2 - (entry[-2] << 8 | entry[-1])
    return entry[:end], entry[end:-2]


def merge_runs(runs: list[list[bytes]]) -> Generator[None, None, list[bytes]]:
    """One sorted list of sorted ones, which are used up. In steps, each of which takes as long as to merge two of them."""
    while len(runs) > 1:
        merged = []
        for first, second in zip(runs[::2], runs[1::2], strict=False):
            first += second
            first.sort()  # finds that these are two runs, and merges them
            merged.append(first)
            yield
        if len(runs) % 2:
            merged.append(runs[-1])
        runs = merged
    return runs[0] if runs else []
