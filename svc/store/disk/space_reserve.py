"""Space that a database keeps for operations that free space, when its volume becomes full.

Deleting needs pages too, for the copies of those it changes, so on a volume that is full to the last byte no client could free space. The data file is
therefore allocated ahead of the pages that LMDB uses, and a second file, the reserve, only takes space. When the volume has no more, `is_low` is set;
writes that add records then have to check first that enough pages are free inside the file (`Database.require_space`). The tail that is left is for
operations that free space, and when they have used it up, the space of the reserve.
"""

from __future__ import annotations

import logging
import os
from math import ceil
from pathlib import Path

import lmdb

from svc.store.disk.faults import NO_SPACE_ERRORS

log = logging.getLogger("svc.store")

RESERVE_BYTES = 1 << 20  # how much of the file is kept allocated behind the pages in use; at times twice that
RESERVE_FILE = "reserve"  # as large, and 1/256 of the database: to drop a table LMDB writes down the number of each of its pages, 8 bytes
_RESERVE_SHARE = 8  # bits


def deletions_at_once(entry_bytes: float, pages_touched: int, page_bytes: int) -> int:
    """How many records can be deleted in one transaction on a full volume, with a log entry of so many bytes for each, and pages of other stores."""
    pages = ceil(entry_bytes / page_bytes) + pages_touched
    return max(RESERVE_BYTES // (pages * page_bytes), 1)


class SpaceReserve:
    """The reserve of the database in the directory `path`. `is_low`: the volume or the map has no more space."""

    __slots__ = ("_allocated", "_env", "_page_bytes", "_path", "is_low")

    def __init__(self, env: lmdb.Environment, path: Path, page_bytes: int) -> None:
        self._env = env
        self._path = path
        self._page_bytes = page_bytes
        self._allocated = 0  # bytes of the data file that are known to be allocated on the volume
        self.is_low = False

    def refill(self) -> None:
        """Keep RESERVE_BYTES of the file allocated behind the pages in use, and the reserve; set `is_low` if the volume or the map has no more."""
        info = self._env.info()
        used = (info["last_pgno"] + 1) * self._page_bytes
        has_tail = self._allocated - used >= RESERVE_BYTES
        if has_tail and not self.is_low:
            return
        wanted = used + 2 * RESERVE_BYTES
        if wanted > info["map_size"]:
            self.is_low = used + RESERVE_BYTES > info["map_size"]
            return
        try:
            if not has_tail:
                _allocate(self._path / "data.mdb", wanted, self._allocated)
                self._allocated = wanted
                has_tail = True
            _allocate(self._path / RESERVE_FILE, RESERVE_BYTES + (used >> _RESERVE_SHARE))
            self.is_low = False
        except OSError as error:
            was_low, self.is_low = self.is_low, error.errno in NO_SPACE_ERRORS
            if self.is_low and not was_low:
                log.critical("database %s: no space left on its volume for %d more bytes; free space there", self._path, wanted - used)
            if self.is_low and not has_tail:
                self._use_reserve(wanted)

    def _use_reserve(self, wanted: int) -> None:
        """Give the space of the reserve to the data file."""
        data, reserve = self._path / "data.mdb", self._path / RESERVE_FILE
        try:
            room = reserve.stat().st_blocks * 512
            if not room:
                return
            os.truncate(reserve, 0)
            log.critical("database %s: no space left on its volume, the reserve for operations that free space is in use", self._path)
            wanted = min(wanted, data.stat().st_size + room)
            _allocate(data, wanted)
            self._allocated = wanted
        except OSError as error:
            log.error("database %s: its reserve cannot be used: %s", self._path, error)


def _allocate(path: Path, size: int, done: int = 0) -> None:
    """Have this many bytes of the file on the volume, of which the first `done` are; it is made if it is missing. Raises OSError."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.posix_fallocate(descriptor, done, size - done)  # the system looks at each part of it
    finally:
        os.close(descriptor)
