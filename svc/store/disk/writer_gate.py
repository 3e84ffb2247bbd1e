"""Which process may open a database's write transaction: many that keep it for a turn, or one that keeps it for longer.

LMDB lets one writer in at a time, and stops the thread of every other until it is done. That is right for the writers of turns, which take
a few milliseconds. Behind one that lasts for seconds a loop must not stop: its other work would stand still, and two processes that each
hold one database and wait for the other's would wait for ever. So a writer passes this gate first, which never makes it wait.

Two files are locked with flock(2), which the kernel undoes when a process ends:

    room   shared by the writers of turns while they write; exclusive to a long writer
    door   shared for the moment in which the writer of a turn enters the room; exclusive to a long writer from when it wants to come in, so
           that those of turns, coming one after the other, cannot keep it out for ever

One gate is used by one thread. What is closed by a process is open to that process itself.
"""

from __future__ import annotations

import os
from errno import EBADF
from fcntl import LOCK_EX, LOCK_NB, LOCK_SH, LOCK_UN, flock
from pathlib import Path

DOOR, ROOM = "door.lock", "room.lock"


class Gate:
    """The gate of the database in the directory `path`. Raises OSError if the directory cannot be written to."""

    __slots__ = ("_closed", "_door", "_entered", "_has_door", "_room")

    def __init__(self, path: Path) -> None:
        self._door = os.open(path / DOOR, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            self._room = os.open(path / ROOM, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError:
            os.close(self._door)
            raise
        self._entered = 0
        self._has_door = False
        self._closed = False

    def enter(self) -> bool:
        """Pass, to write for a short time; False if another process has closed the gate. May be nested.

        Between `try_close` and `open` too: then through the door that is kept, which a lock of another kind would give up.
        """
        if not self._entered and not self._closed:
            if not self._has_door and not _lock(self._door, LOCK_SH):
                return False
            entered = _lock(self._room, LOCK_SH)
            if not self._has_door:
                flock(self._door, LOCK_UN)
            if not entered:
                return False
        self._entered += 1
        return True

    def leave(self) -> None:
        """The other end of `enter`."""
        self._entered -= 1
        if not self._entered and not self._closed:
            flock(self._room, LOCK_UN)

    def try_close(self) -> bool:
        """Keep all others out, to write for a long time; False if one is still inside, and then nobody else comes in: ask again soon.

        Not after `enter`. End it with `open`, also if it was in vain.
        """
        assert not self._entered, "the gate cannot be closed from inside"
        self._has_door = self._has_door or _lock(self._door, LOCK_EX)
        self._closed = self._has_door and _lock(self._room, LOCK_EX)
        return self._closed

    def open(self) -> None:
        """The other end of `try_close`."""
        if self._closed:
            self._closed = False
            flock(self._room, LOCK_UN)
        if self._has_door:
            self._has_door = False
            flock(self._door, LOCK_UN)

    def close(self) -> None:
        """Give up the files, and with them all locks. Harmless when done."""
        if self._door >= 0:
            os.close(self._door)
            os.close(self._room)
        self._door = self._room = -1
        self._entered = 0
        self._has_door = self._closed = False


def _lock(descriptor: int, kind: int) -> bool:
    if descriptor < 0:
        raise OSError(EBADF, "the gate is closed for good")
    try:
        flock(descriptor, kind | LOCK_NB)
    except BlockingIOError:
        return False
    return True
