"""One process at a time asks the source for a record (spec: caching §3).

`fetch.lock` in the directory of a database is a file of nothing but locks: a byte for each record, at a place that is a hash of its table and key. Two
records may share a byte; then one waits for the other, which does no harm. The locks are those of an open file (fcntl(2), F_OFD_SETLK): they end when
it is closed, however its process ends. None is ever waited for here: the loop must not stop.
"""

from __future__ import annotations

import os
from fcntl import F_OFD_SETLK, F_UNLCK, F_WRLCK, fcntl
from hashlib import blake2b
from pathlib import Path
from struct import Struct

LOCK_FILE = "fetch.lock"

_FLOCK = Struct("@hhqqi0q")  # l_type, l_whence, l_start, l_len, l_pid, which must be 0
_TABLE = Struct(">I")
_PLACES = (1 << 62) - 1


class FetchLocks:
    """Those of the database in the directory `path`. The file is opened when the first is asked for."""

    __slots__ = ("_descriptor", "_held", "_path")

    def __init__(self, path: Path) -> None:
        self._path = path / LOCK_FILE
        self._descriptor = -1
        self._held: set[int] = set()

    def try_lock(self, table_number: int, stored: bytes) -> FetchLock | None:
        """The lock of the record under this stored key; None if someone else has it, in this process or another. Raises OSError."""
        place = _place(table_number, stored)
        if place in self._held:
            return None
        if self._descriptor < 0:
            self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl(self._descriptor, F_OFD_SETLK, _FLOCK.pack(F_WRLCK, os.SEEK_SET, place, 1, 0))
        except (BlockingIOError, PermissionError):  # EAGAIN or EACCES: both mean that it is locked
            return None
        self._held.add(place)
        return FetchLock(self, place)

    def is_locked(self, table_number: int, stored: bytes) -> bool:
        """Whether someone has the lock, in this process or another. Raises OSError."""
        lock = self.try_lock(table_number, stored)
        if lock is None:
            return True
        lock.release()
        return False

    def unlock(self, place: int) -> None:
        if place in self._held:
            self._held.remove(place)
            if self._descriptor >= 0:
                fcntl(self._descriptor, F_OFD_SETLK, _FLOCK.pack(F_UNLCK, os.SEEK_SET, place, 1, 0))

    def close(self) -> None:
        """Give up all locks."""
        self._held.clear()
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


class FetchLock:
    """A lock that is held until `release`, or the end of the process."""

    __slots__ = ("_locks", "_place")

    def __init__(self, locks: FetchLocks, place: int) -> None:
        self._locks = locks
        self._place = place

    def release(self) -> None:
        """Give it up. Harmless when done."""
        self._locks.unlock(self._place)
        self._place = -1


def _place(table_number: int, stored: bytes) -> int:
    return int.from_bytes(blake2b(_TABLE.pack(table_number) + stored, digest_size=8).digest(), "big") & _PLACES
