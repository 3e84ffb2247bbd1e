"""One subscription: its queue, and where what comes into it comes from (contract: realtime §1; applications §9).

The states, and who puts events into the queue:

    READING    stages are left: `hub` lets them read, a slice at a time, while there is room
    LIVE       no stage is left: the audience appends what is committed
    BEHIND     too much was in the queue: it was forgotten. What comes is counted, and `LogReplay` reads it from the log when there is room again
    ended

    READING --end of the log--> LIVE --queue full--> BEHIND --end of the log--> LIVE
    any --end, rights gone, table dropped, 10,000 events missed--> ended
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from svc.realtime.changes import Change, LogEvent
from svc.realtime.delivery_queue import DeliveryQueue
from svc.realtime.event import EndReason
from svc.realtime.history import LogReplay, Progress, Stage
from svc.realtime.subscriber_group import MAX_MISSED, MAX_WEIGHT, MIN_EVENT_WEIGHT, SubscriberGroup
from svc.realtime.subscription_request import SubscriptionRequest

if TYPE_CHECKING:
    from svc.realtime.hub import Hub
    from svc.realtime.targets import Target
    from svc.store import Table

MAX_REPLAY_EVENTS = 100  # events from history that wait (realtime §1 rule 8)
MAX_REPLAY_WEIGHT = MAX_WEIGHT // 2


class Subscription(DeliveryQueue):
    """An `event.EventSource` of the events of a target, and of what is sent in between.

    `queue`, `weight`, `waiting`, `missed` belong to `SubscriberGroup.spread` as well. `missed`: events that are in the log and not in the queue.
    """

    __slots__ = (
        "_given", "_live_from", "audience", "hub", "is_reading", "missed", "now", "queue", "request", "stages", "table", "target", "weight",
    )  # fmt: skip

    def __init__(self, hub: Hub, request: SubscriptionRequest, audience: SubscriberGroup) -> None:
        super().__init__(hub.loop)
        self.hub = hub
        self.request = request
        self.audience = audience
        self.table: Table = request.table
        self.target: Target = audience.target
        self.now = hub.now
        self.queue: deque[LogEvent] = deque()
        self.weight = 0
        self.missed = 0
        self.stages: deque[Stage] = deque()
        self.is_reading = False  # the hub has it in line
        self._live_from = 0  # LSN behind which what is queued came from the audience
        self._given: Change | None = None  # the last one put into the queue, of a transaction whose end is still to be told

    def __repr__(self) -> str:
        state = "ended" if self.ended else "reading" if self.stages else "live"
        return f"<Subscription to {self.table!r}, {state}, {len(self.queue)} queued>"

    # -- what a consumer calls

    def take(self, limit: int) -> list[Any]:
        """See `EventSource`. Besides events it gives the items that `send` was called with."""
        if self._sent:
            return self._take_mixed(limit)
        queue = self.queue
        if not queue:
            self._want_more()
            return []
        if len(queue) <= limit:
            events = list(queue)
            queue.clear()
            self.weight = 0
        else:
            events = [queue.popleft() for _ in range(limit)]
            for event in events:
                self.weight -= max(event.size, MIN_EVENT_WEIGHT)
        if self.stages and self.has_room:
            self.hub.read_soon(self)
        return events

    def _want_more(self) -> None:
        if self.ended is None:
            self.waiting = True
            if self.stages:
                self.hub.read_soon(self)

    def _take_mixed(self, limit: int) -> list[Any]:
        """The same with items in between."""
        found: list[Any] = []
        queue, sent = self.queue, self._sent
        while len(found) < limit:
            if sent and (self._is_past(sent[0][0]) if not queue else (queue[0].local_time or 0) > sent[0][0]):
                found.append(sent.popleft()[1])
            elif queue:
                event = queue.popleft()
                self.weight -= max(event.size, MIN_EVENT_WEIGHT)
                found.append(event)
            else:
                break
        if not found:
            self._want_more()
        elif self.stages and self.has_room:
            self.hub.read_soon(self)
        return found

    def _is_past(self, lsn: int) -> bool:
        """Whether no event up to this LSN is to come any more."""
        if not self.stages or self.ended is not None:
            return True
        stage = self.stages[0]
        return type(stage) is LogReplay and stage.position >= lsn

    def _place(self) -> int:
        return self.hub.position(self.table.database)

    # -- what stages call

    @property
    def has_room(self) -> bool:
        """Whether it is worth while to read more."""
        return len(self.queue) < MAX_REPLAY_EVENTS // 2 and self.weight < MAX_REPLAY_WEIGHT

    @property
    def is_full(self) -> bool:
        return len(self.queue) >= MAX_REPLAY_EVENTS or self.weight >= MAX_REPLAY_WEIGHT

    @property
    def room(self) -> int:
        """Bytes."""
        return MAX_REPLAY_WEIGHT - self.weight

    def put(self, change: Change, stands_for: int = 1) -> None:
        """A change from the log, if it concerns us."""
        audience = self.audience
        begins = False
        if audience.view.transactions:
            begins = self._given is None or self._given.transaction != change.transaction
        event = audience.event(change, begin_txn=begins, coalesced=stands_for)
        if event is None:
            return
        if begins:
            self.put_end_of_transaction()
        if audience.view.transactions:
            self._given = change
        self.missed = max(self.missed - stands_for, 0)
        self._append(event)

    def put_current(self, change: Change, local_time: int | None) -> None:
        """A record as it is now. `local_time`: from where to go on when it has been handled; None: there is no such position yet."""
        self._append(change.snapshot_event(self.audience.view, local_time))

    def put_end_of_transaction(self) -> None:
        """What was put last ends its transaction."""
        if self._given is not None:
            self._append(self._given.end(self.audience.view))
            self.missed = max(self.missed - 1, 0)
            self._given = None

    def _append(self, event: LogEvent) -> None:
        self.queue.append(event)
        self.weight += max(event.size, MIN_EVENT_WEIGHT)

    def go_live(self, position: int) -> bool:
        """Everything up to this LSN is in the queue, and that was the end of the log: True if the audience takes over from here."""
        if not self.hub.has_told(self.table.database, position) or self.ended is not None:
            return False
        audience = self.audience
        audience.behind.pop(self, None)
        audience.live[self] = None
        self.missed = 0
        self._live_from = position
        return True

    # -- what the hub calls

    def read(self, end: float) -> Progress:
        """Go through the stages, until the queue is full or the clock is at `end`."""
        while self.stages and self.ended is None:
            stage = self.stages[0]
            progress = stage.read(end)
            if progress is Progress.DONE:
                stage.close()
                if self.stages:
                    self.stages.popleft()
            else:
                return progress
        return Progress.DONE

    @property
    def has_something(self) -> bool:
        return bool(self.queue or self.ended is not None or (self._sent and self._is_past(self._sent[0][0])))

    def fall_behind(self) -> None:
        """Too much waits in the queue: forget it, and read the log when there is room. What was queued before it became live stays: it is little,
        and the log does not have it."""
        queue, audience = self.queue, self.audience
        kept = sum(event.change.lsn <= self._live_from for event in queue)
        first = queue[kept]
        change = first.change
        self._given = None
        if audience.view.transactions:
            if first.type == "end_txn":
                self._given = change
            elif not first.begin_txn:
                self._given = change  # of the same transaction as the event before it
        position = change.lsn if first.type == "end_txn" else change.lsn - 1
        self.missed = len(queue) - kept
        while len(queue) > kept:
            queue.pop()
        self.weight = sum(max(event.size, MIN_EVENT_WEIGHT) for event in queue)
        audience.live.pop(self, None)
        audience.behind[self] = None
        self.stages.append(LogReplay(self, position, coalesces=True))
        if self.missed > MAX_MISSED:
            self.finish(EndReason.TOO_SLOW)
        elif self.waiting:
            self.hub.read_soon(self)

    def see_as(self, audience: SubscriberGroup) -> None:
        """The rights have changed: what waits is seen in the new way too."""
        before, self.audience = self.audience, audience
        if self in before.live:
            del before.live[self]
            audience.live[self] = None
        elif self in before.behind:
            del before.behind[self]
            audience.behind[self] = None
        for at, event in enumerate(self.queue):
            self.queue[at] = event.seen_as(audience.view)

    def finish(self, why: EndReason) -> None:
        """End it, once."""
        if self.ended is not None:
            return
        for stage in self.stages:
            stage.close()
        self.stages.clear()
        self.hub.forget(self)
        super().finish(why)

    def _forget(self) -> None:
        super()._forget()
        self.queue.clear()
        self.weight = 0
