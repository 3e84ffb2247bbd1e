"""The lock between processes for a database's write transaction: shared by the writers of turns, exclusive for a long writer.

LMDB allows one writer at a time and blocks the thread of every other. A loop must not block for the seconds of a long writer: its other work would stop, and
two processes that each write to one database and wait for the other's would deadlock. So a writer acquires this lock first, and acquiring it never blocks.

The writers of turns take a few milliseconds each, most of them the flush of the disk. Whoever has something else to do meanwhile looks whether their *place* is
taken, and has a thread wait for it then. It is a sign and no more: who cannot do without a writer now takes it if it is free, and waits for LMDB if it is not.
Nobody blocks on it but such threads, so a place that is kept for a while makes no deadlock.

Four files are locked with flock(2); the kernel releases the locks when a process ends:

    writer.lock          shared by the writers of turns while they write; exclusive for a long writer
    writer-intent.lock   shared while the writer of a turn acquires writer.lock; exclusive for a long writer from when it wants writer.lock, so
                         that a sequence of writers of turns cannot keep it out forever
    writer-turn.lock     exclusive for the writer of a turn, if it was free: the place
    writer-wait.lock     shared while writers of turns wait until a long writer has ended, so that a sequence of long writers cannot keep them out: the
                         second looks whether it is free

A `WriterGate` is used by one thread, and by its own. The process that holds the exclusive lock may acquire the shared one too.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from errno import EBADF
from fcntl import LOCK_EX, LOCK_NB, LOCK_SH, LOCK_UN, flock
from pathlib import Path
from queue import SimpleQueue
from threading import Thread

INTENT_LOCK, WRITER_LOCK, TURN_LOCK, WAIT_LOCK = "writer-intent.lock", "writer.lock", "writer-turn.lock", "writer-wait.lock"


class WriterGate:
    """The writer lock of the database in the directory `path`. Raises OSError if the directory cannot be written to."""

    __slots__ = (
        "_has_intent",
        "_has_place",
        "_intent",
        "_is_exclusive",
        "_shared",
        "_turn",
        "_wait",
        "_waiting",
        "_writer",
        "is_announced",
    )

    def __init__(self, path: Path) -> None:
        opened: list[int] = []
        try:
            for name in (INTENT_LOCK, WRITER_LOCK, TURN_LOCK, WAIT_LOCK):
                descriptor = os.open(path / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
                opened.append(descriptor)
        except OSError:
            for descriptor in opened:
                os.close(descriptor)
            raise
        self._intent, self._writer, self._turn, self._wait = opened
        self._waiting: SimpleQueue[Callable[[], object] | None] | None = None  # who wants a place, for the thread
        self._shared = 0  # how often `acquire_shared` has succeeded
        self._has_place = False
        self.is_announced = False  # between `announce` and `withdraw`
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
        """Release one `acquire_shared`; with the last, the place."""
        self._shared -= 1
        if not self._shared:
            if not self._is_exclusive:
                flock(self._writer, LOCK_UN)
            self.leave_place()

    def announce(self) -> None:
        """Writers of turns wait here, from now on until `withdraw`."""
        self.is_announced = self.is_announced or _lock(self._wait, LOCK_SH)

    def withdraw(self) -> None:
        """Harmless if nothing was announced."""
        if self.is_announced:
            self.is_announced = False
            flock(self._wait, LOCK_UN)

    def is_awaited(self) -> bool:
        """Whether another process has announced writers."""
        if self.is_announced:  # it cannot be told
            return False
        is_free = _lock(self._wait, LOCK_EX)
        if is_free:
            flock(self._wait, LOCK_UN)
        return not is_free

    def try_place(self) -> bool:
        """Take the place, until `leave_place`; False if another process has it."""
        self._has_place = self._has_place or _lock(self._turn, LOCK_EX)
        return self._has_place

    def leave_place(self) -> None:
        """Let others have it. Harmless without it, and while `acquire_shared` holds."""
        if self._has_place and not self._shared:
            self._has_place = False
            flock(self._turn, LOCK_UN)

    def await_place(self, on_free: Callable[[], object]) -> None:
        """Have the thread wait for the place, and call `on_free` when it has it; then call `try_place`, which takes it over."""
        if self._waiting is None:
            self._waiting = SimpleQueue()
            Thread(target=_wait_for_place, args=(os.dup(self._turn), self._waiting), name="place", daemon=True).start()
        self._waiting.put(on_free)

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
            if self._waiting is not None:
                self._waiting.put(None)
            for descriptor in (self._intent, self._writer, self._turn, self._wait):
                os.close(descriptor)
        self._intent = self._writer = self._turn = self._wait = -1
        self._shared = 0
        self._has_intent = self._is_exclusive = self._has_place = self.is_announced = False


def _wait_for_place(descriptor: int, waiting: SimpleQueue[Callable[[], object] | None]) -> None:
    """A daemon: nothing ends the call while another process that has the place is stopped. Closes the descriptor."""
    try:
        while (on_free := waiting.get()) is not None:
            try:
                flock(descriptor, LOCK_EX)
            except OSError:  # who has asked finds out
                pass
            try:
                on_free()
            except RuntimeError:  # the loop is closed
                flock(descriptor, LOCK_UN)
    finally:
        os.close(descriptor)


def _lock(descriptor: int, kind: int) -> bool:
    if descriptor < 0:
        raise OSError(EBADF, "the writer lock is closed")
    try:
        flock(descriptor, kind | LOCK_NB)
    except BlockingIOError:
        return False
    return True
