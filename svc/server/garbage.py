"""When the interpreter looks for garbage, which is what only cycles of references keep, while a server serves.

A collection stops everything for half a microsecond for each object that it visits, and the interpreter begins one when there are so many more objects than
at the last one. That says little about how many it will visit: where new objects take the place of others there are no more of them, until a collection finds
a million. So a server has rules of its own:

young   Behind a turn, once turns have worked for YOUNG_SECONDS since. What can be made in that time takes not much longer to visit.
middle  What a young collection has found in use has taken as long to visit as a second look at it will take. At MIDDLE_SECONDS of that, it is visited once
        more, and what is still in use is frozen: no collection visits it again. (`gc.freeze` takes no time: it joins lists.)
growth  In the middle of a turn, and on threads, the interpreter begins young collections as it always does, at GROWTH more objects. After a call that has made
        more than MANY at once they are frozen without a look.
all     Only a collection of all objects finds a cycle that was frozen before it became garbage. It takes 0.1 s after a start, and 0.5 s with a million objects
        more. svc leaves none (tests/integration/test_garbage.py); code of applications may, and so does a version of it that another one has replaced.
        Therefore it comes in the first idle minute after such a change, or after memory has grown; and at once when memory has more than doubled.

Of the collectors of Python, those of 3.11 to 3.13 and from 3.14.5 on have three generations. That of 3.14.0 to 3.14.4 has two, and with each young collection
visits a part of the old one: but what is frozen is not in it.
"""

from __future__ import annotations

import gc
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from svc.loop import Turns

YOUNG_SECONDS = 0.01  # of work
MIDDLE_SECONDS = 0.003  # of young collections
LONG_SECONDS = 0.1  # of work in one turn, after which all that it has left is frozen
GROWTH = 10_000  # objects
MANY = 50_000  # objects
NEVER = 2**31 - 1

IDLE_SECONDS = 60.0
IDLE_SHARE = 0.05  # of a second that is worked in an idle one
LOOK_SECONDS = 10.0  # between two looks at the size of the memory
MUCH_MEMORY = 32 << 20  # bytes that it has grown by, and also by half
VERY_MUCH_MEMORY = 256 << 20  # ... and also by as much as it was


def private_memory() -> int:
    """Bytes of this process that are not of files: the mapped database is not in it."""
    try:
        _, resident, shared, *_ = map(int, Path("/proc/self/statm").read_bytes().split())
    except OSError:  # not Linux
        import psutil

        return int(psutil.Process().memory_info().rss)
    return (resident - shared) * os.sysconf("SC_PAGE_SIZE")


class Garbage:
    """`due`: of `Turns.active`, from which on `collect` is to be called at the end of a turn. `has_replaced`: code has been replaced since the last
    collection of all objects."""

    def __init__(
        self, turns: Turns, now: Callable[[], float], on_pause: Callable[[str], None], memory: Callable[[], int] = private_memory
    ) -> None:
        """`on_pause`: called with a line for the log after a collection that did not wait for an idle minute."""
        self.due = math.inf
        self.has_replaced = False
        self._turns = turns
        self._now = now
        self._on_pause = on_pause
        self._memory = memory
        self._began = 0.0  # the collection that runs
        self._looked = 0.0  # seconds that young collections have taken since the last one of the middle generation
        self._base = 0  # memory behind the last collection of all objects
        self._worked = 0.0  # `Turns.active` at the last sweep
        self._idle_since = self._look_at = math.inf

    def begin(self) -> None:
        """The server has started: what there is now stays until the end."""
        gc.freeze()
        gc.set_threshold(GROWTH, NEVER, NEVER)
        gc.callbacks.append(self._follow)
        self.due = self._worked = self._turns.active
        self.has_replaced = False
        self._base = self._memory()
        self._idle_since = now = self._now()
        self._look_at = now + LOOK_SECONDS

    def end(self) -> None:
        """Its thresholds stay."""
        self.due = math.inf
        if self._follow in gc.callbacks:
            gc.callbacks.remove(self._follow)

    def collect(self) -> None:
        """The end of a turn, and `due` is reached."""
        active = self._turns.active
        if active - self.due > LONG_SECONDS:
            self._freeze()
        elif self._looked > MIDDLE_SECONDS:
            gc.collect(1)
            self._freeze()
        else:
            gc.collect(0)
        self.due = active + YOUNG_SECONDS

    def _freeze(self) -> None:
        gc.freeze()
        self._looked = 0.0

    def _follow(self, phase: str, information: dict[str, Any]) -> None:
        """Called by the interpreter around each collection."""
        if phase == "start":
            if gc.get_count()[0] > MANY and information["generation"] < 2:
                self._freeze()
            self._began = self._now()
            return
        self._looked += self._now() - self._began
        if self._looked > 2 * MIDDLE_SECONDS:  # in the middle of a turn that makes very many
            self._freeze()

    def sweep(self, now: float) -> None:
        """Once a second: whether all objects are to be visited."""
        if self.due == math.inf:
            return
        worked, self._worked = self._turns.active - self._worked, self._turns.active
        if worked > IDLE_SHARE:
            self._idle_since = now
        is_idle = now - self._idle_since >= IDLE_SECONDS
        if now < self._look_at and not (is_idle and self.has_replaced):
            return
        self._look_at = now + LOOK_SECONDS
        memory, base = self._memory(), self._base
        if is_idle and (self.has_replaced or memory > base + max(base // 2, MUCH_MEMORY)):
            self._collect_all()
        elif memory > base + max(base, VERY_MUCH_MEMORY):
            took = self._collect_all()
            left = f"{self._base >> 20} MiB are left" if self._base < memory else "it was all in use"
            self._on_pause(f"memory has grown from {base >> 20} to {memory >> 20} MiB: to look for garbage took {took:.1f} s, and {left}")

    def _collect_all(self) -> float:
        """Returns how long it took, in seconds."""
        began = self._now()
        gc.unfreeze()
        gc.collect()
        self._freeze()
        self.has_replaced = False
        self._base = self._memory()
        self._idle_since = now = self._now()
        return now - began
