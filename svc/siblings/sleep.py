"""Whether a process sleeps and is to be woken by the next commit of a sibling: a number that all of them see, in the file of that process (`presence`).

It is 0 while the process works or follows nothing, and another number each time that it sleeps: so a sibling that has woken it does not do so again, and to
one that works nothing is sent. The process sets it and then looks once more for what is committed; a sibling commits and then looks at it. So one of the
two sees what the other has done; if ever none does, the process looks by itself a second later.
"""

from __future__ import annotations

import os
from mmap import ACCESS_READ, ACCESS_WRITE, mmap
from pathlib import Path

_BYTES = 8


class SleepNumber:
    """At the place `offset`, a multiple of 8, of the file `path`."""

    def __init__(self, path: Path, offset: int, *, own: bool) -> None:
        """`own`: it may be set. Raises OSError, and ValueError if the file is too short."""
        descriptor = os.open(path, (os.O_RDWR if own else os.O_RDONLY) | os.O_CLOEXEC)
        try:
            self._map = mmap(descriptor, offset + _BYTES, access=ACCESS_WRITE if own else ACCESS_READ)
        finally:
            os.close(descriptor)
        self._numbers = memoryview(self._map).cast("Q")  # of which one is read and written at once
        self._place = offset // _BYTES
        self._last = 0

    def sleep(self) -> None:
        self._last += 1
        self._numbers[self._place] = self._last

    def wake(self) -> None:
        self._numbers[self._place] = 0

    def is_new(self) -> bool:
        """Whether it sleeps, and has not been woken since."""
        found = self._numbers[self._place]
        if found == self._last:
            return False
        self._last = found
        return found != 0

    def close(self) -> None:
        self._numbers.release()
        self._map.close()
