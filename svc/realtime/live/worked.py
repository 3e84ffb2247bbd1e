"""Results that take work to be known: what those that are kept (`kept`) and those of aggregates (`counted`) have in common."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Generator
from typing import TYPE_CHECKING, Any

from svc.realtime.live.asked import Asked
from svc.realtime.live.events import RowEvent
from svc.realtime.live.result import LiveResult
from svc.realtime.live.subscription import LiveSubscription, Snapshot

if TYPE_CHECKING:
    from svc.realtime.live.queries import LiveQueries

PAUSE = 0.1  # seconds between two runs of one query
LOAD = 9.0  # ... and at least so many times as long as the last one took: a tenth of the time for each

TOO_MUCH = "Too much has changed at once"


class WorkedResult(LiveResult):
    """A result that takes work to be known: it is worked at in steps, and nobody begins or hears anything while that goes on."""

    def __init__(self, owner: LiveQueries, asked: Asked, key: Any) -> None:
        super().__init__(owner, asked, key)
        self.is_known = False
        self.is_lost = True  # the query has to be run (again)
        self.is_running = False
        self.not_before = 0.0  # monotonic: of the next run
        self.position = 0  # LSN up to which changes are in the result
        self._shared: list[RowEvent] | None = None
        self._shared_until = 0.0

    @property
    def size(self) -> int:
        """Rows that are kept."""
        raise NotImplementedError

    @property
    def has_work(self) -> bool:
        return self.is_lost

    def begin(self, subscription: LiveSubscription) -> Snapshot | None:
        if not self.is_known or self.is_running:
            return None
        return self._begin(subscription)

    def finish(self, lsn: int) -> None:
        self.position = max(self.position, lsn)
        if self.has_work and not self.is_running:
            self.owner.work(self)

    def lose(self) -> None:
        self.is_lost = True

    def close(self) -> None:
        super().close()
        self._shared = None

    def steps(self) -> Generator[None, None, None]:
        """Bring the result up to now; called once at a time."""
        while self.has_work and not self.is_closed:
            yield from self._work()

    def worked(self) -> None:
        """All steps are taken."""
        self.is_running = False
        if not self.is_closed:
            super().finish(self.position)
            self.wake()

    def rest(self, began: float) -> None:
        """The query was run, from `began` until now: it is not run again too soon."""
        now = self.owner.now()
        self.not_before = now + max(PAUSE, LOAD * (now - began))

    @abstractmethod
    def _work(self) -> Generator[None, None, None]:
        """One piece of the work."""

    @abstractmethod
    def _begin(self, subscription: LiveSubscription) -> Snapshot | None: ...

    def _refuse(self, reason: str) -> None:
        self.is_lost = False
        for subscription in list(self.subscribers):
            subscription.refuse(reason)
