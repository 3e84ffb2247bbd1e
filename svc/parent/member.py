"""An instance, as its parent knows it."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from dataclasses import dataclass, field
from enum import StrEnum

from svc.parent.channel import Channel

_PR_SET_PDEATHSIG = 1
FIRST_PAUSE, LAST_PAUSE = 0.0, 30.0  # seconds until an instance that has ended is started again: at once, then 1 s, 2 s, ...
LONG_LIFE = 60.0  # seconds: who has lived so long begins with FIRST_PAUSE again
SHORT_LIFE = 5.0  # seconds
SHORT_LIVES_MAX = 5  # as many short lives in a row: it is given up


class State(StrEnum):
    STARTING = "starting"
    READY = "ready"
    RETIRING = "retiring"


@dataclass(slots=True)
class Member:
    """`place`: among those of this parent, from 0. `slot`: of its beats. `started`: monotonic seconds. `beat`, `beat_at`: the last one, and when it was seen.

    `is_aborted`: it has been told to end because it does nothing. `failure`: why it ends, as it says. `opened`: how often it has opened any port that is
    free, by name.
    """

    place: int
    generation: int
    pid: int
    channel: Channel
    slot: int
    started: float
    state: State = State.STARTING
    errors: int = 0
    beat: int = 0
    beat_at: float = 0.0
    is_aborted: bool = False
    failure: str = ""
    opened: dict[tuple[str, tuple[str, ...]], int] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"instance {self.place} (pid: {self.pid})"

    def signal(self, number: int) -> None:
        try:
            os.kill(self.pid, number)
        except ProcessLookupError:
            pass


@dataclass(slots=True)
class Lives:
    """How the instances of one place have lived, for the pause before the next. `pause`: seconds. `short`: short lives in a row."""

    pause: float = FIRST_PAUSE
    short: int = 0

    def ended(self, seconds: float) -> float | None:
        """One has ended after so many seconds. Returns the pause before the next; None: it is given up.

        >>> lives = Lives()
        >>> [lives.ended(1) for _ in range(5)]
        [0.0, 1.0, 2.0, 4.0, None]
        >>> lives.ended(100)
        0.0
        """
        self.short = self.short + 1 if seconds < SHORT_LIFE else 0
        if self.short >= SHORT_LIVES_MAX:
            return None
        if seconds >= LONG_LIFE:
            self.pause = FIRST_PAUSE
        pause, self.pause = self.pause, min(max(1.0, self.pause * 2), LAST_PAUSE)
        return pause


def die_with_parent(parent: int) -> None:
    """Have the kernel end this process when its parent, the process of this id, is killed (Linux; elsewhere the closed channel tells)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)  # it was killed before
