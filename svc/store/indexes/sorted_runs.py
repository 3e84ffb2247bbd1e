"""Sorting more index entries than memory should hold: sorted runs in a file, and their merge.

An entry is one bytes object, as in `cache.IndexCache`. A run is written in blocks of a few entries, and the merge holds one block of each run: what
it needs of memory grows with the number of runs, not with that of the entries.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryFile

import msgspec

BLOCK = 512  # entries
_WRITTEN = 8  # blocks that are written at once
TAKEN = 4096  # entries that are merged at once, at most

Run = list[tuple[int, int]]
"""(place in the file, bytes) of each block."""

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[bytes]).decode


class RunFile:
    """A file without a name in `directory`: it is gone when it is closed, or with the process. All raise OSError."""

    def __init__(self, directory: Path) -> None:
        self._file = TemporaryFile(dir=directory, buffering=0)  # noqa: SIM115
        self._size = 0

    def write(self, entries: list[bytes], run: Run) -> Iterator[None]:
        """Write sorted entries, and add where they are to `run`. In short steps."""
        for start in range(0, len(entries), BLOCK * _WRITTEN):
            blocks = [_encode(entries[at : at + BLOCK]) for at in range(start, min(start + BLOCK * _WRITTEN, len(entries)), BLOCK)]
            data = b"".join(blocks)
            written = os.pwrite(self._file.fileno(), data, self._size)
            if written < len(data):
                raise OSError(f"{written} of {len(data)} bytes were written")
            for block in blocks:
                run.append((self._size, len(block)))
                self._size += len(block)
            yield

    def read(self, place: int, size: int) -> list[bytes]:
        return _decode(os.pread(self._file.fileno(), size, place))

    def close(self) -> None:
        self._file.close()


class _Reader:
    """Where the merge is in one run: `entries` from `start` on, then the blocks from `following` on."""

    __slots__ = ("entries", "following", "run", "start")

    def __init__(self, run: Run, following: int = 0, entries: list[bytes] | None = None, start: int = 0) -> None:
        self.run = run
        self.following = following
        self.entries = entries or []
        self.start = start

    @property
    def is_empty(self) -> bool:
        return self.start == len(self.entries)

    def read(self, file: RunFile) -> None:
        """The next block, if there is one."""
        if self.following < len(self.run):
            self.entries, self.start = file.read(*self.run[self.following]), 0
            self.following += 1


class Merge:
    """The entries of some runs in order."""

    def __init__(self, file: RunFile, readers: list[_Reader]) -> None:
        self._file = file
        self._readers = readers

    @classmethod
    def of(cls, file: RunFile, runs: list[Run]) -> Merge:
        return cls(file, [_Reader(run) for run in runs])

    def copy(self) -> Merge:
        """Another one that goes on from here."""
        return Merge(self._file, [_Reader(reader.run, reader.following, reader.entries, reader.start) for reader in self._readers])

    def fill(self) -> Iterator[None]:
        """Read what `take` needs. In short steps: at the beginning that is a block of each run."""
        for reader in self._readers:
            if reader.is_empty:
                reader.read(self._file)
                yield
        self._readers = [reader for reader in self._readers if not reader.is_empty]

    def take(self) -> list[bytes]:
        """The next entries, after `fill`: TAKEN of them at most, or one of each run. [] at the end."""
        found: list[bytes] = []
        if self._readers:
            ahead = max(TAKEN // len(self._readers), 1)
            last = min([reader.entries[min(reader.start + ahead, len(reader.entries)) - 1] for reader in self._readers])
            for reader in self._readers:
                end = bisect_right(reader.entries, last, reader.start)
                found += reader.entries[reader.start : end]
                reader.start = end
            found.sort()
        return found
