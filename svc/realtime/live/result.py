"""The result of a live query, shared by all subscriptions with equal queries, and the simplest kind: one that keeps no rows."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Protocol

from svc.query.compiled_plan import compiled_plan
from svc.query.execution import execute
from svc.query.relations import Lookups
from svc.realtime.live.events import Read, RowEvent, RunSnapshot, Snapshot, id_of, read_record
from svc.realtime.live.query_spec import LiveQuerySpec
from svc.realtime.live.record_change import RecordChange
from svc.realtime.live.subscription import LiveSubscription
from svc.store import Database, Store
from svc.store.env import Txn
from svc.store.values.records import encode_payload, payload_at

_NO_LOOKUPS = Lookups(None)


class ResultOwner(Protocol):
    """What results need of `LiveQueries`."""

    rights_generation: int

    @property
    def store(self) -> Store: ...

    @property
    def now(self) -> Callable[[], float]: ...

    @property
    def position(self) -> Callable[[Database], int]: ...

    @property
    def newest(self) -> Callable[[Database], AbstractContextManager[Txn]]: ...

    @property
    def update(self) -> Callable[[Any], None]: ...

    def update_next_turn(self, result: Any) -> None: ...

    def subscriber_left(self, result: Any) -> None: ...

    def conditions_changed(self, result: Any) -> None: ...

    def replace_result(self, result: Any) -> None: ...

    def check_rights(self, subscription: LiveSubscription) -> None: ...


class LiveResult:
    """The base class: the subscribers, and the events that they get at the end of a commit."""

    def __init__(self, owner: ResultOwner, spec: LiveQuerySpec, key: Any) -> None:
        self.owner = owner
        self.spec = spec
        self.table = spec.table
        self.key = key
        self.subscribers: dict[LiveSubscription, None] = {}
        self.is_closed = False
        self._attached: dict[LiveSubscription, None] = {}
        self._pending: list[RowEvent] = []  # waits for the end of the commit

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.table!r} {len(self.subscribers)}>"

    # -- subscriptions

    def start_snapshot(self, subscription: LiveSubscription) -> Snapshot | None:
        """The rows as of now, for a new subscriber; None: they are not known yet."""
        raise NotImplementedError

    def attach(self, subscription: LiveSubscription, position: int, floor: int) -> None:
        """From here on push events to `subscription`. `position`: LSN of the snapshot. `floor`: events with this LSN or an earlier one are in the snapshot."""
        subscription.position = position
        subscription.floor = floor
        self._attached[subscription] = None

    def detach(self, subscription: LiveSubscription) -> None:
        self._attached.pop(subscription, None)

    def remove(self, subscription: LiveSubscription) -> None:
        self._attached.pop(subscription, None)
        self.subscribers.pop(subscription, None)
        self.owner.subscriber_left(self)

    def reset(self, reason: str) -> None:
        """Reset all subscribers: they get a new snapshot, of another result or of this one."""
        self._pending.clear()
        for subscription in list(self.subscribers):
            subscription.reset(reason)
            subscription.wake()

    def wake(self) -> None:
        """The rows are known now: notify the subscribers."""
        for subscription in list(self.subscribers):
            subscription.wake()

    def close(self) -> None:
        """The last subscriber has left, or the definition of the table has changed."""
        self.is_closed = True
        self._pending.clear()

    # -- changes

    def record_changed(self, change: RecordChange) -> None:
        """A record of the table has changed that the result may contain."""
        raise NotImplementedError

    def related_changed(self, stored: list[bytes] | None) -> None:
        """A related record has changed. `stored`: stored keys of the records that lead to it; None: they are too many."""
        raise NotImplementedError

    def invalidate(self) -> None:
        """Changes were dropped, because there were too many at once: reset, or run the query again."""
        raise NotImplementedError

    def end_commit(self, lsn: int) -> None:
        """The changes of a commit, up to this LSN, are complete: push their events."""
        events = self._pending
        if events:
            self._pending = []
            self._push(events)

    def _push(self, events: list[RowEvent]) -> None:
        size = sum([event.size for event in events])
        for subscription in list(self._attached):
            subscription.push(events, size)


class StatelessResult(LiveResult):
    """Conditions on the record itself, and no order: the event follows from the record before and after a change, and no rows are kept."""

    def __init__(self, owner: ResultOwner, spec: LiveQuerySpec, key: Any) -> None:
        super().__init__(owner, spec, key)
        shape = spec.shape
        self._shape = shape
        self._test = spec.test
        self.read: Read = read_record if shape is None else shape_reader(spec)

    def start_snapshot(self, subscription: LiveSubscription) -> Snapshot:
        held = self.owner.store.snapshots.hold(self.table.database, fresh=True)
        newest = self.table.database.log.newest(held.use())
        position = 0 if newest is None else newest.lsn
        self.attach(subscription, position, position)
        run = execute(self.spec.plan, held.use())
        held.on_lost = run.let_go
        return RunSnapshot(held, run, self.read, self.table.key_of, self.owner.now)

    def record_changed(self, change: RecordChange) -> None:
        before, after = change.before, change.after
        was_there = before is not None and self._matches(change.stored, before)
        if after is not None and self._matches(change.stored, after):
            if was_there and before is not None and self._shows_same(before, after):
                return
            type_ = "update" if was_there or not change.is_known else "enter"
            self._pending.append(RowEvent(type_, id_of(change.key), after, self.read, None, change.lsn))
        elif was_there or not change.is_known or (change.ended is not None and self._matches(change.stored, change.ended)):
            self._pending.append(RowEvent("leave", id_of(change.key), None, self.read, None, change.lsn))

    def related_changed(self, stored: list[bytes] | None) -> None:
        raise AssertionError("this result reads no other table")

    def invalidate(self) -> None:
        self.reset("There were too many changes at once")

    def _matches(self, stored: bytes, raw: bytes) -> bool:
        return self._test is None or bool(self._test([(stored, raw)], _NO_LOOKUPS))

    def _shows_same(self, before: bytes, after: bytes) -> bool:
        if self._shape is None:
            return content_of(before) == content_of(after)
        one, other = self._shape([before, after], _NO_LOOKUPS)
        return encode_payload(one) == encode_payload(other)  # as values, 1 would be True


def shape_reader(spec: LiveQuerySpec) -> Read:
    """Reads the selection of a record that needs no related records."""
    plan = spec.plan

    def read(raw: bytes, native: bool) -> Any:
        shape = compiled_plan(plan, not native).shape
        assert shape is not None
        return shape([raw], _NO_LOOKUPS)[0]

    return read


def content_of(raw: bytes) -> bytes:
    """The payload of a raw record: equal payloads show the same, whenever they were written."""
    return raw[payload_at(raw) :]
