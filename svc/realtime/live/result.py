"""A result that is followed, for all who asked for the same, and the simplest kind: one that keeps nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from svc.query.execution import execute
from svc.query.executor import compiled_plan
from svc.query.relations import Lookups
from svc.realtime.live.commits import RecordChange
from svc.realtime.live.events import Read, RowEvent, RunSnapshot, id_of, read_record
from svc.realtime.live.query_spec import LiveQuerySpec
from svc.realtime.live.subscription import LiveSubscription, Snapshot
from svc.store.values.records import HAS_EXPIRY, PAYLOAD_AT, PAYLOAD_AT_WITH_EXPIRY, encode_payload

if TYPE_CHECKING:
    from svc.realtime.live.queries import LiveQueries

_NO_LOOKUPS = Lookups(None)


class LiveResult:
    """The base: subscribers, and what is told to them at the end of a commit."""

    def __init__(self, owner: LiveQueries, asked: LiveQuerySpec, key: Any) -> None:
        self.owner = owner
        self.asked = asked
        self.table = asked.table
        self.key = key
        self.subscribers: dict[LiveSubscription, None] = {}
        self.is_closed = False
        self._attached: dict[LiveSubscription, None] = {}
        self._told: list[RowEvent] = []  # waits for the end of the commit

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.table!r} {len(self.subscribers)}>"

    # -- subscriptions

    def begin(self, subscription: LiveSubscription) -> Snapshot | None:
        """The rows as of now, for a new subscriber; None: not yet."""
        raise NotImplementedError

    def attach(self, subscription: LiveSubscription, position: int, floor: int) -> None:
        """From here on push what happens. `position`: the LSN that the snapshot is of. `floor`: what has no later LSN is in the snapshot."""
        subscription.position = position
        subscription.floor = floor
        self._attached[subscription] = None

    def detach(self, subscription: LiveSubscription) -> None:
        self._attached.pop(subscription, None)

    def leave(self, subscription: LiveSubscription) -> None:
        self._attached.pop(subscription, None)
        self.subscribers.pop(subscription, None)
        self.owner.left(self)

    def reset(self, reason: str) -> None:
        """All subscribers begin anew, with another result or this one."""
        self._told.clear()
        for subscription in list(self.subscribers):
            subscription.reset(reason)
            subscription.wake()

    def wake(self) -> None:
        """There is a result now."""
        for subscription in list(self.subscribers):
            subscription.wake()

    def close(self) -> None:
        """Nobody wants it any more."""
        self.is_closed = True
        self._told.clear()

    # -- changes

    def change(self, change: RecordChange) -> None:
        """A record of the table has changed that may concern the result."""
        raise NotImplementedError

    def concern(self, stored: list[bytes] | None) -> None:
        """Records that lead to a record which changed. None: they are too many to be named."""
        raise NotImplementedError

    def lose(self) -> None:
        """Changes were not told: there were too many at once."""
        raise NotImplementedError

    def finish(self, lsn: int) -> None:
        """The commit is over, up to this LSN: tell of it."""
        events = self._told
        if events:
            self._told = []
            self._push(events)

    def _push(self, events: list[RowEvent]) -> None:
        size = sum([event.size for event in events])
        for subscription in list(self._attached):
            subscription.push(events, size)


class StatelessResult(LiveResult):
    """Conditions on the record itself, and no order: what was and what is tell what happened, and nothing is kept."""

    def __init__(self, owner: LiveQueries, asked: LiveQuerySpec, key: Any) -> None:
        super().__init__(owner, asked, key)
        shape = asked.shape
        self._shape = shape
        self._test = asked.test
        self.read: Read = read_record if shape is None else shape_reader(asked)

    def begin(self, subscription: LiveSubscription) -> Snapshot:
        held = self.owner.store.snapshots.hold(self.table.database, fresh=True)
        newest = self.table.database.log.newest(held.use())
        position = 0 if newest is None else newest.lsn
        self.attach(subscription, position, position)
        return RunSnapshot(held, execute(self.asked.plan, held.use()), self.read, self.table.key_of, self.owner.now)

    def change(self, change: RecordChange) -> None:
        before, after = change.before, change.after
        was_there = before is not None and self._matches(change.stored, before)
        if after is not None and self._matches(change.stored, after):
            if was_there and before is not None and self._shows_same(before, after):
                return
            type_ = "update" if was_there or not change.is_known else "enter"
            self._told.append(RowEvent(type_, id_of(change.key), after, self.read, None, change.lsn))
        elif was_there or not change.is_known or (change.ended is not None and self._matches(change.stored, change.ended)):
            self._told.append(RowEvent("leave", id_of(change.key), None, self.read, None, change.lsn))

    def concern(self, stored: list[bytes] | None) -> None:
        raise AssertionError("no other table is read")

    def lose(self) -> None:
        self.reset("There were too many changes at once")

    def _matches(self, stored: bytes, raw: bytes) -> bool:
        return self._test is None or bool(self._test([(stored, raw)], _NO_LOOKUPS))

    def _shows_same(self, before: bytes, after: bytes) -> bool:
        if self._shape is None:
            return content_of(before) == content_of(after)
        one, other = self._shape([before, after], _NO_LOOKUPS)
        return encode_payload(one) == encode_payload(other)  # as values, 1 would be True


def shape_reader(asked: LiveQuerySpec) -> Read:
    """The selection of a record that needs no other."""
    plan = asked.plan

    def read(raw: bytes, native: bool) -> Any:
        shape = compiled_plan(plan, not native).shape
        assert shape is not None
        return shape([raw], _NO_LOOKUPS)[0]

    return read


def content_of(raw: bytes) -> bytes:
    """What tells whether a record shows the same: all but when it was written."""
    return raw[PAYLOAD_AT_WITH_EXPIRY:] if raw[0] & HAS_EXPIRY else raw[PAYLOAD_AT:]
