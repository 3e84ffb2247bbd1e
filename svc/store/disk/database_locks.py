"""Locks on a database's directory: which processes have it open, and which keep its blob files from being removed.

They are locks on files in the directory (flock(2)); the kernel releases them when a process ends.

open.lock   shared by processes that have the database open; exclusive while its files are replaced
keep.lock   shared by backups that read the files of its blobs and restores that add some; exclusive while such files are removed
"""

from __future__ import annotations

import os
from fcntl import LOCK_EX, LOCK_NB, LOCK_SH, flock
from pathlib import Path

LOCK_FILE = "open.lock"
KEEP_LOCK = "keep.lock"


class DatabaseInUse(Exception):
    """Another process has the database open, or is replacing its files."""


class OpenLock:
    """The lock on the database in the directory `path`. Raises DatabaseInUse, or OSError if the directory cannot be written to."""

    __slots__ = ("_descriptor",)

    def __init__(self, path: Path, *, alone: bool = False) -> None:
        self._descriptor = os.open(path / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            flock(self._descriptor, (LOCK_EX if alone else LOCK_SH) | LOCK_NB)
        except BlockingIOError:
            self.close()
            raise DatabaseInUse(path) from None

    def close(self) -> None:
        """Give it up. Harmless when done."""
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
