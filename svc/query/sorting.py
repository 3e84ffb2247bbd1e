"""Merge sort in bounded pieces of work and, with a limit, in bounded memory (spec: query §11.6).

Entries are pairs of a key, which is bytes and unlike all others, and anything. They are collected in *runs* of at most RUN entries, each sorted by
itself; at the end the runs are merged as they are read. So nothing is ever sorted at once that takes longer than a slice.

With a limit only the first `keep` entries count. If these fit a run, what is collected is cut back to them again and again; else the
runs are merged into one whenever they hold twice as many, a piece at a time (`work`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import merge
from itertools import islice
from operator import itemgetter
from typing import Any

from svc.freeing import free_later

RUN = 4096  # entries, sorted in 1-2 ms
_MERGED_AT_ONCE = 2048
_SLACK = 256  # entries over what is kept before it is cut back

Entry = tuple[bytes, Any]

_key = itemgetter(0)


class Collector:
    """`add` all entries, calling `work` as long as it is `busy`; then `take` them in order."""

    __slots__ = ("_bound", "_keep", "_merged", "_merging", "_runs", "_sorted", "_unsorted", "_unsorted_most")

    def __init__(self, keep: int | None) -> None:
        """`keep`: how many of the first entries are wanted, None: all."""
        self._keep = keep
        self._unsorted: list[Entry] = []
        self._unsorted_most = RUN if keep is None or keep > RUN else 2 * keep + _SLACK
        self._runs: list[list[Entry]] = []
        self._bound: bytes | None = None  # what sorts here or behind is not wanted
        self._merging: Iterator[Entry] | None = None
        self._merged: list[Entry] = []
        self._sorted: Iterator[Entry] | None = None

    def add(self, entries: Iterable[Entry]) -> None:
        bound, unsorted = self._bound, self._unsorted
        unsorted += entries if bound is None else [entry for entry in entries if entry[0] < bound]
        if len(unsorted) > self._unsorted_most:
            self._end_run()

    @property
    def busy(self) -> bool:
        return self._merging is not None

    def work(self) -> None:
        """Go on with merging the runs into one."""
        assert self._merging is not None and self._keep is not None
        merged, keep = self._merged, self._keep
        before = len(merged)
        merged += islice(self._merging, min(_MERGED_AT_ONCE, keep - before))
        if len(merged) == keep or len(merged) == before:
            self._free_runs()
            self._runs, self._merged, self._merging = [merged], [], None
            self._bound = merged[-1][0]

    def _finish(self) -> Iterator[Entry]:
        unsorted = self._unsorted
        unsorted.sort(key=_key)
        runs = [run for run in (*self._runs, unsorted) if run]
        found = iter(runs[0]) if len(runs) == 1 else merge(*map(_drain, runs), key=_key)
        return found if self._keep is None else islice(found, self._keep)

    def free(self) -> None:
        """It is not used any more: free what it holds."""
        self._sorted = self._merging = None
        self._free_runs()
        for entries in (self._unsorted, self._merged):
            free_later(entries)

    def _free_runs(self) -> None:
        for run in self._runs:
            free_later(run)

    def take(self, count: int) -> list[Any]:
        """All has been added: the next entries, without their keys; fewer than `count` at the end."""
        if self._sorted is None:
            self._sorted = self._finish()
        return [entry[1] for entry in islice(self._sorted, count)]

    def _end_run(self) -> None:
        unsorted, keep = self._unsorted, self._keep
        unsorted.sort(key=_key)
        if keep is not None and keep <= RUN:
            if keep:
                del unsorted[keep:]
                self._bound = unsorted[-1][0]
            else:
                unsorted.clear()
            return
        self._runs.append(unsorted)
        self._unsorted = []
        if keep is not None and sum(map(len, self._runs)) >= 2 * keep:
            self._merging = merge(*self._runs, key=_key)


def _drain(run: list[Entry]) -> Iterator[Entry]:
    """The entries, each freed when it has been returned: to free very many of them at the end would take longer than a slice."""
    run.reverse()
    while run:
        yield run.pop()
