"""Removes orphaned files of blobs: what a killed process was writing, or had not yet committed or removed.

Goes through all files of a database once after its start and now and then later, a few at a time. A file is removed if the ledger does not
have it and it is not locked. The ledger is read again under the lock, because a writer releases its lock only after its commit.
"""

from __future__ import annotations

import fcntl
import logging
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from svc.store.blobs.files import BlobFiles

logger = logging.getLogger("svc.store")

_AT_ONCE = 500  # files checked between two reads of the clock: about a millisecond


class Sweep:
    """One passage. `knows(number, fresh)`: whether the ledger has the file; `fresh`: as of now, not as of the turn's snapshot."""

    def __init__(self, files: BlobFiles, knows: Callable[[int, bool], bool]) -> None:
        self._files = files
        self._knows = knows
        self._steps = self._walk()
        self.removed = 0

    def step(self) -> bool:
        """Look at some files; False when there are none left."""
        return next(self._steps, False)

    def _walk(self) -> Iterator[bool]:
        for directory, names in self._files.walk():
            for position, name in enumerate(names, 1):
                if not position % _AT_ONCE:
                    yield True
                number = self._files.number_of(directory, name)
                if number is not None and not self._knows(number, False):
                    self._remove(directory / name, number)
            _remove_empty(directory)
            yield True
        if self.removed:
            logger.info("blobs in %s: removed %d files that no record had", self._files.roots[0], self.removed)

    def _remove(self, path: Path, number: int) -> None:
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not self._knows(number, True):
                os.unlink(path)
                self.removed += 1
        except OSError:
            return  # it is being written, or has been removed
        finally:
            os.close(descriptor)


def _remove_empty(directory: Path) -> None:
    """Remove a directory without files; a writer makes another one when it needs it."""
    for path in (directory, directory.parent):
        try:
            path.rmdir()
        except OSError:
            return
