"""The writers of one database stand in line while a long write is under way (contract: schema-and-store §8.10, http §14).

Usually nobody does: the writes of a turn go into the turn's writer and wait for nothing but its commit. A long write needs the database for
itself, over many turns. Whoever comes meanwhile waits here, in the order of coming: ordinary writers that stand next to each other are let in
together, and their writes share a commit as always; a long one is let in alone.

Nobody waits without end. `check` refuses a writer when those before it will take too long, as far as past long writes tell, or when
something stands here that has waited for too long already.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from svc.clock import Clock
from svc.errors import Overloaded

if TYPE_CHECKING:
    from svc.store.env import Environment

FIRST_PACE = 100e-6  # seconds that one write of a long one takes, its share of commit included: until it is known
PACE_FROM = 1000  # writes from which on a long write tells the pace: what a shorter one takes is mostly its commit, and chance
_FOREIGN_PAUSE = 0.005  # seconds between two looks at what another process does


@dataclass(frozen=True, slots=True)
class QueueLimits:
    """Seconds: that a writer would have to wait; that something has been waiting."""

    wait: float = 20.0
    age: float = 45.0


@dataclass(slots=True, eq=False)
class _Place:
    """`size`: number of writes of a long one, 0 for an ordinary writer. `since`: when it came, monotonic. `turn`: its turn has come."""

    size: int
    since: float
    turn: asyncio.Future[None] | None = None


class WriteQueue:
    """The line in front of one database."""

    def __init__(self, env: Environment, clock: Clock, limits: QueueLimits) -> None:
        self._env = env
        self._now = clock.monotonic
        self._limits = limits
        self._inside: _Place | None = None  # a long write, or another process' one
        self._called: _Place | None = None  # a long write whose turn has come, and which has not come in yet
        self._waiting: deque[_Place] = deque()
        self._started = 0.0  # when the one inside came in
        self._pace = FIRST_PACE

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def is_taken(self) -> bool:
        """Whether a long write has the database for itself, or another process."""
        return self._inside is not None

    @property
    def has_long_write(self) -> bool:
        """Whether a long write of this process is inside."""
        return self._inside is not None and self._inside.size > 0

    def check(self) -> None:
        """Raise Overloaded if one more writer would have to wait for too long."""
        oldest = min((place.since for place in (self._inside, self._called, *self._waiting) if place is not None), default=None)
        if oldest is not None:
            if self._now() - oldest > self._limits.age:
                raise Overloaded("Service unavailable, the outstanding write queue is too long")
            if self.expected_wait() > self._limits.wait:
                raise Overloaded

    def expected_wait(self) -> float:
        """Seconds until one more writer would come in."""
        writes = sum(place.size for place in (self._called, *self._waiting) if place is not None)
        inside = self._inside
        under_way = 0.0 if inside is None else max(inside.size * self._pace - (self._now() - self._started), 0.0)
        return writes * self._pace + under_way

    async def wait(self) -> None:
        """Wait until ordinary writers may come in, in their order. Raises Overloaded."""
        self.check()
        if self._inside is None and not self._env.is_open_to_writers():
            self._watch_others()
        if self._inside is not None or self._waiting:
            await self._stand(_Place(0, self._now()))

    async def enter(self, size: int) -> None:
        """Wait until a long write of `size` writes may begin; it has the database for itself until `leave`. Raises Overloaded."""
        self.check()
        place = _Place(size, self._now())
        if self._inside is not None or self._called is not None or self._waiting:
            try:
                await self._stand(place)
            except BaseException:
                if self._called is place:
                    self._called = None
                    self._call()
                raise
            self._called = None
        self._inside = place
        self._started = self._now()

    def leave(self) -> None:
        """The long write inside has ended: the next ones come in."""
        inside, self._inside = self._inside, None
        if inside is not None and inside.size >= PACE_FROM:
            self._pace = (self._pace + (self._now() - self._started) / inside.size) / 2
        self._call()

    async def _stand(self, place: _Place) -> None:
        place.turn = asyncio.get_running_loop().create_future()
        self._waiting.append(place)
        try:
            await place.turn
        except asyncio.CancelledError:
            if place in self._waiting:
                self._waiting.remove(place)
            raise

    def _call(self) -> None:
        """Let in the ordinary writers in front, then call the long one behind them. They come in the next turn, in this order."""
        while self._waiting and self._called is None and self._inside is None:
            place = self._waiting.popleft()
            assert place.turn is not None
            if not place.turn.done():
                place.turn.set_result(None)
                if place.size:
                    self._called = place

    def _watch_others(self) -> None:
        """Another process has the database: it stands for one inside, until it is seen to be gone."""
        self._inside = _Place(0, self._now())
        asyncio.get_running_loop().call_later(_FOREIGN_PAUSE, self._look)

    def _look(self) -> None:
        if self._env.is_open_to_writers():
            self.leave()
        else:
            asyncio.get_running_loop().call_later(_FOREIGN_PAUSE, self._look)
