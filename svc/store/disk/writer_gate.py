"""The lock between processes for a database's write transaction: shared by the writers of turns, exclusive for a long writer.

LMDB allows one writer at a time and blocks the thread of every other. That suits the writers of turns, which take a few milliseconds. A loop
must not block for the seconds of a long writer: its other work would stop, and two processes that each write to one database and wait for the
other's would deadlock. So a writer acquires this lock first, and acquiring it never blocks.

Two files are locked with flock(2); the kernel releases the locks when a process ends:

    writer.lock          shared by the writers of turns while they write; exclusive for a long writer
    writer-intent.lock   shared while the writer of a turn acquires writer.lock; exclusive for a long writer from when it wants writer.lock, so
                         that a sequence of writers of turns cannot keep it out forever

A `WriterGate` is used by one thread. The process that holds the exclusive lock may acquire the shared one too.
"""

from __future__ import annotations

import os
from errno import EBADF
from fcntl import LOCK_EX, LOCK_NB, LOCK_SH, LOCK_UN, flock
from pathlib import Path

INTENT_LOCK, WRITER_LOCK = "writer-intent.lock", "writer.lock"


class WriterGate:
    """The writer lock of the database in the directory `path`. Raises OSError if the directory cannot be written to."""

    __slots__ = ("_has_intent", "_intent", "_is_exclusive", "_shared", "_writer")

    def __init__(self, path: Path) -> None:
        self._intent = os.open(path / INTENT_LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            self._writer = os.open(path / WRITER_LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError:
            os.close(self._intent)
            raise
        self._shared = 0  # how often `acquire_shared` has succeeded
        self._has_intent = False
        self._is_exclusive = False

    def acquire_shared(self) -> bool:
        """Lock, to write for a short time; False if another process holds the exclusive lock. May be nested.

        Between `try_acquire_exclusive` and `release_exclusive` too: then the intent lock that is held is not replaced by one of another kind.
        """
        if not self._shared and not self._is_exclusive:
            if not self._has_intent and not _lock(self._intent, LOCK_SH):
                return False
            acquired = _lock(self._writer, LOCK_SH)
            if not self._has_intent:
                flock(self._intent, LOCK_UN)
            if not acquired:
                return False
        self._shared += 1
        return True

    def release_shared(self) -> None:
        """Release one `acquire_shared`."""
        self._shared -= 1
        if not self._shared and not self._is_exclusive:
            flock(self._writer, LOCK_UN)

    def try_acquire_exclusive(self) -> bool:
        """Lock out all others, to write for a long time; False if another process holds the lock. No new one gets it then: try again soon.

        Not after `acquire_shared`. End it with `release_exclusive`, also if it failed.
        """
        assert not self._shared, "the exclusive writer lock cannot be acquired while the shared one is held"
        self._has_intent = self._has_intent or _lock(self._intent, LOCK_EX)
        self._is_exclusive = self._has_intent and _lock(self._writer, LOCK_EX)
        return self._is_exclusive

    def release_exclusive(self) -> None:
        """Release what `try_acquire_exclusive` has locked. Harmless if that is nothing."""
        if self._is_exclusive:
            self._is_exclusive = False
            flock(self._writer, LOCK_UN)
        if self._has_intent:
            self._has_intent = False
            flock(self._intent, LOCK_UN)

    def close(self) -> None:
        """Close the files, which releases all locks. Harmless when closed."""
        if self._intent >= 0:
            os.close(self._intent)
            os.close(self._writer)
        self._intent = self._writer = -1
        self._shared = 0
        self._has_intent = self._is_exclusive = False


def _lock(descriptor: int, kind: int) -> bool:
    if descriptor < 0:
        raise OSError(EBADF, "the writer lock is closed")
    try:
        flock(descriptor, kind | LOCK_NB)
    except BlockingIOError:
        return False
    return True
