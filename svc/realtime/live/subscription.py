"""One subscription to a live query: its queue, and what happens when the client does not take events fast enough.

    BEGIN ----------> SNAPSHOT ----------> FOLLOWING
      ^  the result     |  all its rows        |
      |  is known       |  are taken           |
      +-----------------+----------------------+
        reset: the queue is too long, or the subscription gets another result

From SNAPSHOT on changes are queued, behind the rows of the snapshot. The queue is bounded. When it is full, events that later ones make needless are
removed; when that does not help, all of it is dropped, and the client gets `reset` and a new snapshot. So nothing is lost silently, and a client that
is slow for a while sees fewer states, each of them whole. A client that does not even get through a snapshot, several times, is ended as too slow.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from svc.errors import SnapshotLost
from svc.realtime.event import EndReason
from svc.realtime.limits import MAX_QUEUED, MAX_QUEUED_BYTES, MAX_RESETS, BoundedSource
from svc.realtime.live.events import LiveEvent, NoticeEvent, RowEvent, Snapshot

if TYPE_CHECKING:
    from svc.auth.users import User
    from svc.query.nodes import Query
    from svc.store import Table

logger = logging.getLogger("svc.realtime")


NOT_READ = "The snapshot was not read fast enough"


class RightsChecker(Protocol):
    """Checks the rights of subscribers: `LiveQueries`."""

    rights_generation: int

    def check_rights(self, subscription: LiveSubscription) -> None: ...


class SharedResult(Protocol):
    """What a subscription needs of its `LiveResult`."""

    is_closed: bool
    subscribers: dict[LiveSubscription, None]

    @property
    def owner(self) -> RightsChecker: ...

    def start_snapshot(self, subscription: LiveSubscription) -> Snapshot | None: ...

    def detach(self, subscription: LiveSubscription) -> None: ...

    def remove(self, subscription: LiveSubscription) -> None: ...


class LiveSubscription(BoundedSource):
    """An `EventSource`. `query`, `table`, `prefix`, `allow_full_scan`, `checks_rights`, `checks_rows`: as subscribed.

    `result` None: there is none at present, because a definition changed and an index is still being built.
    """

    __slots__ = (
        "_bytes",
        "_call_next_turn",
        "_on_end",
        "_queue",
        "_resets",
        "_snapshot",
        "allow_full_scan",
        "checks_rights",
        "checks_rows",
        "ended",
        "final_reason",
        "floor",
        "key",
        "on_ready",
        "position",
        "prefix",
        "query",
        "reset_reason",
        "result",
        "rights_generation",
        "state",
        "table",
        "user",
        "waiting",
    )

    def __init__(
        self,
        query: Query,
        table: Table,
        user: User | None,
        prefix: str | None,
        call_next_turn: Callable[[Callable[[], None]], object],
        on_end: Callable[[LiveSubscription], None],
        *,
        allow_full_scan: bool | None,
        checks_rights: bool,
    ) -> None:
        """`call_next_turn(callback)` calls `callback` in the next turn. `on_end(self)` is called once, at the end."""
        self.query = query
        self.table = table
        self.user = user
        self.prefix = prefix
        self.allow_full_scan = allow_full_scan
        self.checks_rights = checks_rights
        self.checks_rows = checks_rights  # the rules on rows, also where code lets a caller in
        self.result: SharedResult | None = None
        self.key: Any = None  # of the result
        self.position = 0  # LSN that the snapshot is of
        self.rights_generation = 0  # `LiveQueries.rights_generation` at the last check of the rights of `user`
        self.floor = -1  # events with this LSN or an earlier one are in the snapshot
        self.on_ready: Callable[[], None] = _nothing
        self.ended: EndReason | None = None
        self.state = BEGIN
        self.reset_reason: str | None = None  # of a reset to be sent first
        self.final_reason: str | None = None  # ... and nothing follows it
        self._call_next_turn = call_next_turn
        self._on_end = on_end
        self._queue: deque[LiveEvent] = deque()
        self._bytes = 0
        self._resets = 0
        self._snapshot: Snapshot | None = None
        self.waiting = False  # the last `take` returned nothing

    def __repr__(self) -> str:
        return f"<LiveSubscription {self.table!r} {self.state}>"

    # -- called by the consumer

    def take(self, limit: int) -> list[LiveEvent]:
        """The next events, at most `limit`. [] means that `on_ready` is called when there are more, or that it has `ended`."""
        found: list[LiveEvent] = []
        self.waiting = False
        if (
            self.result is not None
            and (self.checks_rights or self.checks_rows)
            and self.rights_generation != self.result.owner.rights_generation
        ):
            self.result.owner.check_rights(self)  # before it gets commits that came after the change of rights
        if self.ended is not None or limit <= 0:
            return found
        if self.final_reason is not None:
            found.append(NoticeEvent("reset", reason=self.final_reason))
            self._end(EndReason.FINISHED)
            return found
        if self.reset_reason is not None:
            found.append(NoticeEvent("reset", reason=self.reset_reason))
            self.reset_reason = None
        if self.state == BEGIN:
            self._begin()
        if self.state == SNAPSHOT and len(found) < limit:
            self._take_snapshot(found, limit)
        if self.state == FOLLOWING and len(found) < limit:
            self._take_queued(found, limit)
        self.waiting = not found and self.ended is None
        return found

    def close(self) -> None:
        self._end(EndReason.FINISHED)

    def _begin(self) -> None:
        if self.result is not None and not self.result.is_closed:
            snapshot = self.result.start_snapshot(self)
            if snapshot is not None:
                self._snapshot = snapshot
                self.state = SNAPSHOT

    def _take_snapshot(self, found: list[LiveEvent], limit: int) -> None:
        assert self._snapshot is not None
        try:
            rows = self._snapshot.take(limit - len(found))
        except SnapshotLost:
            self.reset(NOT_READ)
            self.reset_reason = None
            found.append(NoticeEvent("reset", reason=NOT_READ))
            return
        if rows is None:
            found.append(NoticeEvent("ready", self.position, count=self._snapshot.count))
            self._snapshot.close()
            self._snapshot = None
            self.state = FOLLOWING
            self._resets = 0
        elif rows:
            found += rows
        else:
            self._call_next_turn(self.wake)  # it works in slices

    def _take_queued(self, found: list[LiveEvent], limit: int) -> None:
        queue = self._queue
        count = min(limit - len(found), len(queue))
        taken = [queue.popleft() for _ in range(count)]
        self._bytes = self._bytes - sum([event.size for event in taken]) if queue else 0
        found += taken

    @property
    def is_up_to_date(self) -> bool:
        """Whether the client has taken all that its result has pushed."""
        return self.state == FOLLOWING and not self._queue

    # -- called by the result

    def push(self, events: list[RowEvent], size: int) -> None:
        """Queue the changes of one commit, or some of them. `size`: of all of them, in bytes."""
        if events[0].local_time is not None and events[0].local_time <= self.floor:
            events = [event for event in events if event.local_time is None or event.local_time > self.floor]
            if not events:
                return
            size = sum([event.size for event in events])
        self._queue += events
        self._bytes += size
        if len(self._queue) > MAX_QUEUED or self._bytes > MAX_QUEUED_BYTES:
            self._compact()
        if self.waiting:
            self.wake()

    def wake(self) -> None:
        """Notify the consumer that there may be something to take."""
        if self.waiting:
            self.waiting = False
            try:
                self.on_ready()
            except Exception:
                logger.exception("a subscriber of a live query failed")
                self._end(EndReason.FAILED)

    def reset(self, reason: str) -> None:
        """Drop the queue: a new snapshot follows. The client gets a `reset` unless it has not got anything yet."""
        if self.ended is not None:
            return
        if self.state != BEGIN:
            self.reset_reason = reason
        if self.result is not None:
            self.result.detach(self)
        self._drop()

    def reject(self, reason: str) -> None:
        """The result cannot be followed: send the reason, and end."""
        self.final_reason = reason
        self._drop()
        if self.result is not None:
            self.result.detach(self)
        self.wake()

    def finish(self, why: EndReason) -> None:
        """End it, once. Events in the queue are dropped."""
        if self.ended is None:
            self._end(why)
            self.wake()

    def _end(self, why: EndReason) -> None:
        if self.ended is not None:
            return
        self.ended = why
        self._drop()
        result, self.result = self.result, None
        if result is not None:
            result.remove(self)
        self._on_end(self)

    def _drop(self) -> None:
        self.state = BEGIN
        self._queue.clear()
        self._bytes = 0
        if self._snapshot is not None:
            self._snapshot.close()
            self._snapshot = None

    def _compact(self) -> None:
        """Remove events that later ones make needless; if more than half is left, drop all of them."""
        compacted = compact(self._queue)
        size = sum([event.size for event in compacted])
        if len(compacted) <= MAX_QUEUED // 2 and size <= MAX_QUEUED_BYTES // 2:
            self._queue = deque(compacted)
            self._bytes = size
            return
        self._resets += 1
        if self._resets > MAX_RESETS:
            self.finish_too_slow()
        else:
            self.reset(EndReason.TOO_SLOW.value)


BEGIN, SNAPSHOT, FOLLOWING = "begin", "snapshot", "following"


def compact(queue: deque[LiveEvent]) -> list[LiveEvent]:
    """Fewer events with the same effect. Of a row without an index the last event is kept, with the type that fits a client which knows the row as
    it was before the first; a row in order loses those updates that did not move it and that later ones follow."""
    kept: list[LiveEvent] = []
    if not any(type(event) is RowEvent and event.index is not None for event in queue):
        first: dict[Any, str] = {}
        last: dict[Any, RowEvent] = {}
        for event in queue:
            assert type(event) is RowEvent
            key = _hashable(event.id)
            first.setdefault(key, event.type)
            last.pop(key, None)
            last[key] = event
        for key, row in last.items():
            # A row that entered and left becomes a `leave`: the client may know the row, from a life that has ended before.
            type_ = "leave" if row.type == "leave" else "enter" if first[key] == "enter" else "update"
            kept.append(row if row.type == type_ else row.renamed(type_))
        return kept
    seen: set[Any] = set()
    for event in reversed(queue):
        assert type(event) is RowEvent
        key = _hashable(event.id)
        if not (key in seen and event.type == "update" and event.was_at == event.index):
            kept.append(event)
        seen.add(key)
    kept.reverse()
    return kept


def _hashable(id_: Any) -> Any:
    """An id as the key of a dict, with its type: 1 is not True."""
    return (str, id_) if type(id_) is str else (type(id_), repr(id_))


def _nothing() -> None:
    pass
