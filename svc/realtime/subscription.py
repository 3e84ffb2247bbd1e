"""One subscription: its queue, and the source of its events (spec: realtime §1).

The states, and what puts events into the queue:

    READING    stages are left: the hub lets them read, a slice at a time, while there is room
    LIVE       no stage is left: the group appends what is committed
    BEHIND     the queue was too long and was dropped. Events are counted, and `LogReplay` reads them from the log when there is room again
    ended

    READING --end of the log--> LIVE --queue full--> BEHIND --end of the log--> LIVE
    any --end, rights gone, table dropped, 10,000 events missed--> ended
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from svc.realtime.changes import Change, LogEvent
from svc.realtime.delivery_queue import DeliveryQueue
from svc.realtime.event import EndReason
from svc.realtime.history import LogReplay, Progress, Stage
from svc.realtime.limits import MAX_MISSED, MAX_REPLAY_EVENTS, MAX_REPLAY_WEIGHT, MAX_WEIGHT, MIN_EVENT_WEIGHT
from svc.realtime.subscriber_group import SubscriberGroup
from svc.realtime.subscription_request import SubscriptionRequest

if TYPE_CHECKING:
    from svc.realtime.targets import Target
    from svc.store import Database, LogEntry, Table
    from svc.store.env import Txn


class SubscriptionHub(Protocol):
    """What a subscription needs of `Hub`."""

    loop: asyncio.AbstractEventLoop
    now: Callable[[], float]

    def schedule_read(self, subscription: Any) -> None: ...

    def position(self, database: Database) -> int: ...

    def has_delivered(self, database: Database, lsn: int) -> bool: ...

    def change(self, table: Table, entry: LogEntry, txn: Txn) -> Change: ...

    def remove_subscription(self, subscription: Any) -> None: ...


class Subscription(DeliveryQueue):
    """An `event.EventSource` of the events of a target, and of the items that application code sends.

    `queue`, `weight`, `waiting`, `missed` are also changed by `SubscriberGroup.deliver`. `missed`: events that are in the log and not in the queue.
    """

    __slots__ = (
        "_last_put", "_live_since", "group", "hub", "is_in_read_queue", "missed", "now", "queue", "request", "stages", "table", "target", "weight",
    )  # fmt: skip

    def __init__(self, hub: SubscriptionHub, request: SubscriptionRequest, group: SubscriberGroup) -> None:
        super().__init__(hub.loop)
        self.hub = hub
        self.request = request
        self.group = group
        self.table: Table = request.table
        self.target: Target = group.target
        self.now = hub.now
        self.queue: list[LogEvent] = []
        self.weight = 0
        self.missed = 0
        self.stages: list[Stage] = []
        self.is_in_read_queue = False  # it is in the read queue of the hub
        self._live_since = 0  # LSN behind which queued events came from the group
        self._last_put: Change | None = None  # the last one queued, of a transaction whose end is still to be queued

    def __repr__(self) -> str:
        state = "ended" if self.ended else "reading" if self.stages else "live"
        return f"<Subscription to {self.table!r}, {state}, {len(self.queue)} queued>"

    # -- called by the consumer

    def take(self, limit: int) -> list[Any]:
        """See `EventSource`. Besides events it returns the items that `send` was called with."""
        if self._sent:
            return self._take_mixed(limit)
        queue = self.queue
        if not queue:
            self._wait_for_more()
            return []
        if len(queue) <= limit:
            events = list(queue)
            queue.clear()
            self.weight = 0
            if len(events) < limit and not self.stages and self.ended is None:
                self.waiting = True
        else:
            events = queue[:limit]
            del queue[:limit]
            for event in events:
                self.weight -= max(event.size, MIN_EVENT_WEIGHT)
        if self.stages and self.wants_more:
            self.hub.schedule_read(self)
        return events

    def _wait_for_more(self) -> None:
        if self.ended is None:
            self.waiting = True
            if self.stages:
                self.hub.schedule_read(self)

    def _take_mixed(self, limit: int) -> list[Any]:
        """Take events, and the items sent between them."""
        found: list[Any] = []
        queue, sent = self.queue, self._sent
        while len(found) < limit:
            if sent and (self._is_past(sent[0][0]) if not queue else (queue[0].position or 0) > sent[0][0]):
                found.append(sent.pop(0)[1])
            elif queue:
                event = queue.pop(0)
                self.weight -= max(event.size, MIN_EVENT_WEIGHT)
                found.append(event)
            else:
                break
        if not found:
            self._wait_for_more()
        elif self.stages and self.wants_more:
            self.hub.schedule_read(self)
        return found

    def _is_past(self, lsn: int) -> bool:
        """Whether no more events up to this LSN follow."""
        if not self.stages or self.ended is not None:
            return True
        stage = self.stages[0]
        return type(stage) is LogReplay and stage.position >= lsn

    def _send_position(self) -> int:
        return self.hub.position(self.table.database)

    @property
    def resume_after(self) -> int | None:
        """The LSN behind which a later subscription goes on where the consumer is; None: it has not taken all of the current records."""
        if self.queue:
            first = self.queue[0]
            return None if first.is_current else first.change.lsn - 1
        if not self.stages:
            return self.hub.position(self.table.database)
        stage = self.stages[0]
        return stage.position if type(stage) is LogReplay else None

    # -- called by stages

    @property
    def wants_more(self) -> bool:
        """Whether the queue is short enough to read more."""
        return len(self.queue) < MAX_REPLAY_EVENTS // 2 and self.weight < MAX_REPLAY_WEIGHT

    @property
    def is_full(self) -> bool:
        return len(self.queue) >= MAX_REPLAY_EVENTS or self.weight >= MAX_REPLAY_WEIGHT

    @property
    def room(self) -> int:
        """Bytes."""
        return MAX_REPLAY_WEIGHT - self.weight

    def put(self, change: Change, coalesced: int = 1) -> None:
        """Queue a change from the log, if it concerns the subscription."""
        group = self.group
        begins = False
        if group.view.transactions:
            begins = self._last_put is None or self._last_put.transaction != change.transaction
        event = group.event(change, begin_txn=begins, coalesced=coalesced)
        if event is None:
            return
        if begins:
            self.put_end_of_transaction()
        if group.view.transactions:
            self._last_put = change
        self.missed = max(self.missed - coalesced, 0)
        self._append(event)

    def put_current(self, change: Change, position: int | None) -> None:
        """Queue a current record. `position`: in the log, to resume from behind it; None: there is none yet."""
        self._append(change.snapshot_event(self.group.view, position))

    def put_end_of_transaction(self) -> None:
        """Queue the end of the transaction of the event queued last."""
        if self._last_put is not None:
            self._append(self._last_put.end(self.group.view))
            self.missed = max(self.missed - 1, 0)
            self._last_put = None

    def _append(self, event: LogEvent) -> None:
        self.queue.append(event)
        self.weight += max(event.size, MIN_EVENT_WEIGHT)

    def end_stage(self, stage: Stage) -> None:
        """A stage is over that others have carried out."""
        stage.close()
        if self.stages and self.stages[0] is stage:
            del self.stages[0]

    def go_live(self, position: int) -> bool:
        """Everything up to this LSN, the end of the log, is queued. True if the subscription is live now."""
        if not self.hub.has_delivered(self.table.database, position) or self.ended is not None:
            return False
        group = self.group
        group.behind.pop(self, None)
        group.live[self] = None
        self.missed = 0
        self._live_since = position
        return True

    # -- called by the hub

    def read(self, end: float) -> Progress:
        """Let the stages read, until the queue is full or the clock is at `end`."""
        while self.stages and self.ended is None:
            stage = self.stages[0]
            progress = stage.read(end)
            if progress is Progress.DONE:
                stage.close()
                if self.stages:
                    del self.stages[0]
            else:
                return progress
        return Progress.DONE

    @property
    def has_events(self) -> bool:
        return bool(self.queue or self.ended is not None or (self._sent and self._is_past(self._sent[0][0])))

    def keep_within_limits(self) -> None:
        """Fall behind with too much in the queue; end with too much missed."""
        falls = self.weight > MAX_WEIGHT and self.missed <= MAX_MISSED and self.ended is None
        if falls:
            self._fall_behind()
        if self.missed > MAX_MISSED and not self.request.keeps_all:
            self.finish_too_slow()
        elif falls and self.waiting:
            self.hub.schedule_read(self)

    def _fall_behind(self) -> None:
        """The queue is too long: drop it, and read the log when there is room. Events queued before it became live stay: they are few, and the log
        does not have them."""
        queue, group = self.queue, self.group
        kept = sum(event.change.lsn <= self._live_since for event in queue)
        first = queue[kept]
        change = first.change
        self._last_put = None
        if group.view.transactions:
            if first.type == "end_txn":
                self._last_put = change
            elif not first.begin_txn:
                self._last_put = change  # of the same transaction as the event before it
        position = change.lsn if first.type == "end_txn" else change.lsn - 1
        self.missed = len(queue) - kept
        while len(queue) > kept:
            queue.pop()
        self.weight = sum(max(event.size, MIN_EVENT_WEIGHT) for event in queue)
        group.live.pop(self, None)
        group.behind[self] = None
        self.stages.append(LogReplay(self, position, coalesces=not self.request.keeps_all))

    def move_to_group(self, group: SubscriberGroup) -> None:
        """The rights have changed: queued events are shown in the new view too."""
        before, self.group = self.group, group
        if self in before.live:
            del before.live[self]
            group.live[self] = None
        elif self in before.behind:
            del before.behind[self]
            group.behind[self] = None
        queue, self.queue, self.weight = self.queue, [], 0
        for event in queue:
            seen = event.seen_in(group.view)
            if seen is not None:
                self._append(seen)

    def finish(self, why: EndReason) -> None:
        """End it, once."""
        if self.ended is not None:
            return
        for stage in self.stages:
            stage.close()
        self.stages.clear()
        self.hub.remove_subscription(self)
        super().finish(why)

    def _drop_items(self) -> None:
        super()._drop_items()
        self.queue.clear()
        self.weight = 0
