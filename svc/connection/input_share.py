"""The share of a turn that input may take: one for all connections of an instance, whatever they speak (architecture §2).

A client whose socket is readable is served at once, until the requests of this turn have taken SLICE. From then on, and after BATCH requests of its own, it
waits in line, and its socket is not polled from the end of the turn on. The end of each turn serves those in line for another SLICE, a batch each, in order.

So a client that asks for little waits for one turn at most, however much others have sent, and those who have sent much take turns.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Protocol

SLICE = 0.005  # seconds of a turn for those served at once, and again for those in line
BATCH = 4  # requests of one connection before it is the turn of others


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

    __slots__ = ("_now", "deadline", "is_over", "joined", "line")

    def __init__(self, now: Callable[[], float]) -> None:
        """`now`: of a monotonic clock."""
        self._now = now
        self.deadline = 0.0  # of the slice; 0: nothing has been taken in this turn yet
        self.is_over = False  # the slice is used up: join the line
        self.line: deque[InputTaker] = deque()
        self.joined: list[Parkable] = []  # connections that have joined the line in this turn

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
        while line:
            self.deadline, self.is_over = end, False
            line.popleft().take_turn()
            if now() >= end:
                break
        for each in self.joined:
            each.park()
        self.joined.clear()

    def end_turn(self) -> bool:
        """Serve those in line, and begin with a new slice. True: some were served, and may have made tasks, which a poll must not wait for."""
        serves = bool(self.joined or self.line)
        if serves:
            self.serve()
        self.deadline, self.is_over = 0.0, False
        return serves
