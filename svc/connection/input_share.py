"""The share of a turn that input may take: one for all connections of an instance, whatever they speak (architecture §2).

A client whose socket is readable is served at once, until the requests of this turn have taken SLICE. From then on, and after BATCH requests of its own, it
waits in line, and its socket is not polled from the end of the turn on. The end of each turn serves those in line for another SLICE, a batch each, in order.

So a client that asks for little waits for one turn at most, however much others have sent, and those who have sent much take turns.

A line that does not become empty is a queue: after STANDING it is one that does not go away by itself (`is_standing`), which `load_shedding` acts upon.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Protocol

SLICE = 0.005  # seconds of a turn for those served at once, and again for those in line
BATCH = 4  # requests of one connection before it is the turn of others
STANDING = (
    0.1  # seconds of turns that all leave somebody in line, without what the first of them took: a single long turn leaves no such queue
)
FEW = 16  # so many in line are no overload: clients that wait for their answers before they go on, as a loader with some connections does


class InputTaker(Protocol):
    """Something whose input waits: a connection, or a WebSocket with messages left."""

    def take_turn(self) -> None:
        """Take up to a batch of input. It may join the line again. Never raises."""


class Parkable(Protocol):
    """A connection in line."""

    def park(self) -> None:
        """The turn ends, and it has not had its turn."""


class InputShare:
    """What takes input looks at `is_over` before, and calls `charge` after it, or does the same with a time that it has anyway."""

    __slots__ = ("_now", "_pace", "_served_at", "_since", "deadline", "is_over", "is_standing", "joined", "line", "on_served")

    def __init__(self, now: Callable[[], float]) -> None:
        """`now`: of a monotonic clock."""
        self._now = now
        self.deadline = 0.0  # of the slice; 0: nothing has been taken in this turn yet
        self.is_over = False  # the slice is used up: join the line
        self.line: deque[InputTaker] = deque()
        self.joined: list[Parkable] = []  # connections that have joined the line in this turn
        self.is_standing = False  # the line has not been empty for STANDING
        self.on_served: Callable[[], None] = lambda: None
        """Called when some of those in line have been served."""
        self._since: float | None = None  # ... at the end of which turn it was first left
        self._served_at = 0.0  # when it was served last
        self._pace = 0.0  # seconds that each in line has taken of late, all other work of the turns included

    def charge(self) -> None:
        """Some input has been taken."""
        now = self._now()
        if now >= self.deadline:
            if self.deadline:
                self.is_over = True
            else:
                self.deadline = now + SLICE

    def serve(self) -> None:
        """At the end of a turn: serve those in line. At least one has its turn. The sockets of those that are left are not polled."""
        now, line = self._now, self.line
        end = now() + SLICE
        served = 0
        time = end
        while line:
            self.deadline, self.is_over = end, False
            line.popleft().take_turn()
            served += 1
            time = now()
            if time >= end:
                break
        for each in self.joined:
            each.park()
        self.joined.clear()
        self.on_served()
        self._note_line(served, time)

    def _note_line(self, served: int, now: float) -> None:
        if not self.line:
            self._since, self.is_standing = None, False
            return
        if self._since is None:
            self._since, self._pace = now, SLICE / served
        else:
            self._pace += ((now - self._served_at) / served - self._pace) / 8
            self.is_standing = now - self._since >= STANDING and len(self.line) > FEW
        self._served_at = now

    @property
    def wait(self) -> float:
        """Seconds that whoever joins the line now will wait, as far as can be told."""
        return len(self.line) * self._pace

    def end_turn(self) -> bool:
        """Serve those in line, and begin with a new slice. True: some were served, and may have made tasks, which a poll must not wait for."""
        serves = bool(self.joined or self.line)
        if serves:
            self.serve()
        self.deadline, self.is_over = 0.0, False
        return serves
