"""The threads of statements work in turns, one at a time: a short statement does not wait for the end of long ones (spec: sql §8).

Most of what they do needs the interpreter, of which there is one; and what SQLite holds in memory can be said to be of one statement.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

SLICE = 0.02  # seconds that one works while others wait
_LOOKS = 0.02  # seconds between two looks of a waiting thread at whether it should end


class RunSlot:
    """Those who wait get it in the order in which they came."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_free = True
        self._waiting: deque[threading.Event] = deque()

    @property
    def is_wanted(self) -> bool:
        """Whether somebody waits for it."""
        return bool(self._waiting)

    def take(self, is_left: Callable[[], bool]) -> bool:
        """On a thread: wait for it. False: nobody waits for the result any more, so it was not taken."""
        with self._lock:
            if self._is_free:
                self._is_free = False
                return True
            ready = threading.Event()
            self._waiting.append(ready)
        while not ready.wait(_LOOKS):
            if is_left():
                with self._lock:
                    if not ready.is_set():
                        self._waiting.remove(ready)
                        return False
        return True

    def give_back(self) -> None:
        with self._lock:
            if self._waiting:
                self._waiting.popleft().set()
            else:
                self._is_free = True


class RunTurn:
    """The turn of one thread."""

    __slots__ = ("_end", "_has_slot", "_is_left", "_now", "_slot")

    def __init__(self, slot: RunSlot, now: Callable[[], float], is_left: Callable[[], bool]) -> None:
        """`now`: monotonic, s. `is_left`: whether nobody waits for the result any more."""
        self._slot = slot
        self._now = now
        self._is_left = is_left
        self._end = 0.0
        self._has_slot = False

    def begin(self) -> None:
        self._has_slot = self._slot.take(self._is_left)
        self._end = self._now() + SLICE

    def let_others(self) -> float:
        """Let others have their turn, if they wait and this one has lasted long enough; the seconds that it took."""
        now = self._now()
        if now < self._end or not self._slot.is_wanted:
            return 0.0
        self.end()
        self.begin()
        return self._now() - now

    def end(self) -> None:
        if self._has_slot:
            self._has_slot = False
            self._slot.give_back()
