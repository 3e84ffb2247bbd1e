"""Locks on a database's directory: which processes have it open, and which keep its blob files from being removed.

They are locks on files in the directory (flock(2)); the kernel releases them when a process ends.

open.lock   shared by processes that have the database open; exclusive while its files are replaced. Its content is how often one has come, in 8 bytes
keep.lock   shared by backups that read the files of its blobs and restores that add some; exclusive while such files are removed
"""

from __future__ import annotations

import os
from fcntl import LOCK_EX, LOCK_NB, LOCK_SH, LOCK_UN, flock, lockf
from mmap import mmap
from pathlib import Path

LOCK_FILE = "open.lock"
KEEP_LOCK = "keep.lock"
_NUMBER = 8  # bytes


class DatabaseInUse(Exception):
    """Another process has the database open, or is replacing its files."""


class OpenLock:
    """The lock on the database in the directory `path`. Raises DatabaseInUse, or OSError if the directory cannot be written to."""

    __slots__ = ("_arrivals", "_descriptor")

    def __init__(self, path: Path, *, alone: bool = False) -> None:
        self._arrivals: mmap | None = None
        self._descriptor = os.open(path / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            flock(self._descriptor, (LOCK_EX if alone else LOCK_SH) | LOCK_NB)
        except BlockingIOError:
            self.close()
            raise DatabaseInUse(path) from None

    def take_alone(self) -> bool:
        """Make it exclusive. False: other processes have the database open. `share` is to follow in any case."""
        try:
            flock(self._descriptor, LOCK_EX | LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def share(self) -> None:
        """Make it shared again. Raises DatabaseInUse if another process has taken it meanwhile."""
        try:
            flock(self._descriptor, LOCK_SH | LOCK_NB)
        except BlockingIOError as error:
            raise DatabaseInUse from error

    def arrive(self) -> None:
        """Tell the other processes that this one has the database open now. Raises OSError."""
        lockf(self._descriptor, LOCK_EX, _NUMBER)
        try:
            number = int.from_bytes(os.pread(self._descriptor, _NUMBER, 0)) + 1
            os.pwrite(self._descriptor, number.to_bytes(_NUMBER), 0)
        finally:
            lockf(self._descriptor, LOCK_UN, _NUMBER)
        self._arrivals = mmap(self._descriptor, _NUMBER)

    def arrivals(self) -> bytes:
        """How often a process has come, as a number that has another value each time. A look into memory."""
        return b"" if self._arrivals is None else self._arrivals[:]

    def close(self) -> None:
        """Give it up. Harmless when done."""
        if self._arrivals is not None:
            self._arrivals.close()
            self._arrivals = None
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


class BlobFilesLock:
    """While this shared lock is held no file of a blob is removed from the database in this directory."""

    def __init__(self, path: Path, *, alone: bool = False) -> None:
        """`alone`: the exclusive lock, for removing files. Raises BlockingIOError if it is held."""
        self._descriptor = os.open(path / KEEP_LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            # Removing takes milliseconds, so the shared lock waits for it; a backup may take hours, so removing does not wait for that.
            flock(self._descriptor, LOCK_EX | LOCK_NB if alone else LOCK_SH)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
