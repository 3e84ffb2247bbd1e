"""Shared subscriptions: each message of `$share/<group>/<filter>` goes to one of the members (spec: mqtt §4; MQTT 5 §4.8.2).

A group has one source for all its members, and gives each event to the next of them that has room. What a member has not acknowledged at QoS 1 when its
connection ends is given to another; what is under way at QoS 2 stays with its session. How far a group has got, which lasts as long as one of its members'
sessions, is a row of `$mqtt`: `g`, then 16 bytes of a hash of its name and filter.
"""

from __future__ import annotations

from collections import deque
from hashlib import sha256
from typing import Any, Protocol

import msgspec

from svc.errors import NotFound, Problem
from svc.http.event_pump import HIGH_WATER
from svc.loop import contained
from svc.mqtt.code_sources import decides_reading, makes_events
from svc.mqtt.delivery import SENT_TYPES, Delivery, DeliveryParts, request_for
from svc.mqtt.session import Flight, Session, SessionDelivery
from svc.protocol.mqtt_packets import Subscription
from svc.protocol.mqtt_topics import SHARE, split_share
from svc.realtime.changes import View
from svc.realtime.event import EndReason
from svc.realtime.subscription import Subscription as Source
from svc.store import Database
from svc.store.side_rows import SideRows
from svc.store.writing.applied_batch import OnDone

GROUP = b"g"
BATCH = 64  # events taken at a time


class GroupRow(msgspec.Struct, gc=False, array_like=True):
    """`name`: `$share/<group>/<filter>`. `given`: LSN up to which everything was given out; `open`: LSNs of those at QoS 1 that were not acknowledged.
    `members`: numbers of the sessions that last, by client id."""

    name: str
    given: int
    open: list[int]
    members: dict[str, bytes]


_encode_row = msgspec.msgpack.Encoder().encode
_decode_row = msgspec.msgpack.Decoder(GroupRow).decode


def group_key(name: str) -> bytes:
    return GROUP + sha256(name.encode()).digest()[:16]


def decode_group(data: bytes) -> GroupRow:
    return _decode_row(data)


def encode_group(row: GroupRow) -> bytes:
    return _encode_row(row)


class GroupParts(DeliveryParts, Protocol):
    """What groups share: the broker. `groups`: by name."""

    groups: dict[str, SharedGroup]

    def rows_of(self, database: Database) -> SideRows: ...
    def is_session(self, client_id: str, number: bytes) -> bool: ...
    def report(self, error: BaseException) -> None: ...


class SharedGroup:
    """`name`: `$share/<group>/<filter>`. `members`: those with a connection, the next one first. `lasting`: numbers of the sessions that last, by client id."""

    def __init__(self, name: str, parts: GroupParts, first: SharedMember) -> None:
        self.name = name
        self._parts = parts
        self._database = first.table.database
        self._request = request_for(first.found, None, keeps_all=True)
        self._request.check_rights = False
        self._realtime = first.realtime
        self._source: Source | None = None
        self._again: deque[Any] = deque()  # events whose members have left, to be given out first
        self._queue: deque[Any] = deque()  # others
        self._open: dict[int, None] = {}  # LSNs of messages at QoS 1 that are not acknowledged
        self._is_giving = False
        self.members: dict[SharedMember, None] = {}
        self.lasting: dict[str, bytes] = {}
        self._given = self._given_before = first.start
        self._open_before: set[int] = set()
        self._written = b""
        self._restore()

    def _restore(self) -> None:
        data = self._database.snapshot().get(group_key(self.name), None, self._database.mqtt_rows)
        row = None if data is None else decode_group(data)
        if data is not None and row is not None and row.name == self.name:
            self._written = data
            self.lasting = {client_id: number for client_id, number in row.members.items() if self._parts.is_session(client_id, number)}
            if self.lasting:
                self._given = self._given_before = row.given
                self._open_before = set(row.open)

    # --- members -------------------------------------------------------------------------------------------------------------------------

    def join(self, member: SharedMember) -> None:
        """A member has a connection. Raises Problem."""
        if self._source is None:
            log, txn = self._database.log, self._database.snapshot()
            newest = log.newest_lsn(txn)
            position = min([self._given, *(lsn - 1 for lsn in self._open_before)])
            self._request.after = min(max(position, log.first_lsn(txn) - 1), newest)
            self._source = self._realtime.subscribe(self._request)
            self._source.on_ready = self.give
        self.members[member] = None

    def leave(self, member: SharedMember, flights: list[Flight]) -> None:
        """It has none any more. `flights`: what it has not acknowledged at QoS 1, for others."""
        if member not in self.members:
            return
        del self.members[member]
        for flight in flights:
            self._open.pop(flight.lsn, None)
        self._again.extendleft(flight.event for flight in reversed(flights))
        if self.members:
            self.give()
            return
        self.note(self._drop)
        source, self._source = self._source, None
        if source is not None:
            source.close()
        self._queue.clear()
        self._given_before = self._given

    def _drop(self, problem: Problem | None) -> None:
        """Where it has got is on the disk: it need not be in memory."""
        if not self.members and self._parts.groups.get(self.name) is self:
            del self._parts.groups[self.name]

    def keep(self, client_id: str, number: bytes | None) -> None:
        """The session of a client lasts, and has subscribed; or with None: it has not any more."""
        if number is None:
            self.lasting.pop(client_id, None)
        else:
            self.lasting[client_id] = number
        self.note()

    def note(self, on_done: OnDone | None = None) -> None:
        """Write how far it has got, if it is to last. `on_done`: called when that is on the disk."""
        rows = self._parts.rows_of(self._database)
        source = self._source
        if self._queue:
            self._given = self._queue[0].change.lsn - 1
        elif source is not None and source.ended is None:
            self._given = source.resume_after or self._given
        if self.lasting:
            left = sorted({*self._open, *self._open_before, *(event.change.lsn for event in self._again)})
            data = encode_group(GroupRow(self.name, self._given, left, self.lasting))
            if data != self._written or on_done is not None:
                self._written = data
                rows.put(group_key(self.name), data, on_done)
            return
        if self._written:
            self._written = b""
            rows.delete(group_key(self.name))
        if on_done is not None:
            on_done(None)

    # --- messages ------------------------------------------------------------------------------------------------------------------------

    def give(self) -> None:
        """Give out what there is, as long as a member has room."""
        if self._is_giving:
            return
        self._is_giving = True
        touched: dict[SharedMember, None] = {}
        is_noted = False
        try:
            while self._again or self._queue or self._fill():
                member = self._next()
                if member is None:
                    break
                event = self._again.popleft() if self._again else self._take()
                if event is not None:
                    touched[member] = None
                    is_noted |= self._give_to(member, event) == 2
        except BaseException as error:
            self._parts.report(contained(error))
        finally:
            self._is_giving = False
        if is_noted:
            self.note()  # in the commit that has the rows of the messages
        for member in touched:
            member.flush()

    def _fill(self) -> bool:
        source = self._source
        if source is None:
            return False
        self._queue.extend(source.take(BATCH))
        if not self._queue and source.ended is EndReason.TOO_SLOW:  # the log was cut: go on with what is left of it
            self._source = None
            source.close()
            for member in list(self.members):
                self.join(member)
        return bool(self._queue)

    def _next(self) -> SharedMember | None:
        for member in list(self.members):
            del self.members[member]
            self.members[member] = None
            if member.is_ready:
                return member
        return None

    def _take(self) -> Any:
        """The next event; None: it is not sent, or was given out before the source was opened."""
        event = self._queue.popleft()
        lsn = event.change.lsn
        if lsn <= self._given_before:
            if lsn not in self._open_before:
                return None
            self._open_before.discard(lsn)
        return event if event.type in SENT_TYPES else None

    def _give_to(self, member: SharedMember, event: Any) -> int:
        """Returns the QoS."""
        shown = event.with_view(member.view)
        qos = member.qos_of(shown)
        if qos is None:
            return 0
        if qos == 1:
            self._open[event.change.lsn] = None
        member.send(shown, qos)
        return qos

    def acknowledged(self, lsn: int) -> None:
        """A message at QoS 1 is."""
        self._open.pop(lsn, None)


class SharedMember(Delivery):
    """The subscription of one session to `$share/<group>/<filter>`."""

    __slots__ = ("_group", "_groups", "_view", "_view_of")

    is_shared = True

    def __init__(self, session: Session, subscription: Subscription, parts: GroupParts, identifier: int) -> None:
        super().__init__(session, subscription, parts, identifier, with_records=False)
        self._groups = parts
        self._group: SharedGroup | None = None
        self._view: View | None = None
        self._view_of: Any = None  # the user whose it is, and the generation of rights

    def _find(self, text: str) -> Any:
        split = split_share(text)
        if split is None:
            raise NotFound("There is no such topic")
        found = super()._find(split[1])
        if makes_events(found.resource) or decides_reading(found.resource):
            raise NotFound("What code of an application gives to each of its subscribers is not shared")
        return found

    def open(self, before: SessionDelivery | None = None) -> None:
        self.close()
        self._filter = self._find(self.subscription.filter)
        database = self.table.database
        if self.database != database.name:
            self.database, self.start = database.name, database.log.newest_lsn(database.snapshot())
        assert self.view is not None
        name = self.subscription.filter
        group = self._groups.groups.get(name)
        if group is None:
            group = self._groups.groups[name] = SharedGroup(name, self._groups, self)
        group.join(self)
        self._group = group

    def close(self) -> None:
        group, self._group = self._group, None
        if group is not None:
            group.leave(self, self._session.take_back(self))

    @property
    def reached(self) -> int | None:
        return None

    @property
    def view(self) -> View:
        """What its user may see of the table now. Raises AccessViolation."""
        user, hub = self._session.sender.user, self.realtime.hub
        if self._view is None or (user, hub.generation) != self._view_of:
            self._view = hub.view(request_for(self.found, user, keeps_all=True), user)
            self._view_of = (user, hub.generation)
        return self._view

    @property
    def is_ready(self) -> bool:
        """Whether it can take a message."""
        session = self._session
        link = session.link
        if link is None or self.is_held:
            return False
        if (self.subscription.qos and not session.sent.has_room) or link.pending >= HIGH_WATER:
            session.waiting[self] = None
            return False
        try:
            return self.view is not None
        except Problem:
            return False

    def qos_of(self, event: Any) -> int | None:
        """At which a message comes; None: it does not."""
        link = self._session.link
        assert link is not None
        qos = self.message(event, link)[0]
        return None if qos < 0 or self._left(event) == 0 else qos

    def send(self, event: Any, qos: int) -> None:
        session = self._session
        if qos:
            session.send(self, event, qos, event.change.lsn, None)
        elif session.link is not None:
            self.write(session.link, event, 0)

    def flush(self) -> None:
        if self._session.link is not None:
            self._session.link.flush()

    def run(self) -> None:
        self._session.waiting.pop(self, None)
        if self._group is not None:
            self._group.give()

    def over(self, flight: Flight) -> None:
        if self._group is not None and flight.qos == 1:
            self._group.acknowledged(flight.lsn)

    def recall(self, lsn: int, key: bytes | None) -> Any:
        try:
            view = self.view
        except Problem:
            return None
        txn = self.table.database.snapshot()
        entry = self.table.database.log.get(txn, lsn)
        if entry is None or entry.table_number != self.table.number:
            return None
        return self.realtime.hub.change(self.table, entry, txn).event(view)

    def keep(self, number: bytes | None) -> None:
        """The session lasts, and has subscribed; or with None: it has not any more."""
        if self._group is not None:
            self._group.keep(self._session.client_id, number)


def delivery_of(session: Session, subscription: Subscription, parts: GroupParts, identifier: int, *, with_records: bool = True) -> Delivery:
    """The subscription to a filter, which may be shared."""
    if subscription.filter.startswith(SHARE):
        return SharedMember(session, subscription, parts, identifier)
    return Delivery(session, subscription, parts, identifier, with_records=with_records)
