"""Whether anybody has a database open: a lock on a file in its directory (flock(2), which the kernel undoes when a process ends).

Everybody who opens the database shares the lock. Who replaces its files holds it alone.
"""

from __future__ import annotations

import os
from fcntl import LOCK_EX, LOCK_NB, LOCK_SH, flock
from pathlib import Path

LOCK_FILE = "open.lock"


class Occupied(Exception):
    """Somebody else has the database open, or is replacing its files."""


class Occupancy:
    """The lock on the database in the directory `path`. Raises Occupied, or OSError if the directory cannot be written to."""

    __slots__ = ("_descriptor",)

    def __init__(self, path: Path, *, alone: bool = False) -> None:
        self._descriptor = os.open(path / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            flock(self._descriptor, (LOCK_EX if alone else LOCK_SH) | LOCK_NB)
        except BlockingIOError:
            self.close()
            raise Occupied(path) from None

    def close(self) -> None:
        """Give it up. Harmless when done."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
