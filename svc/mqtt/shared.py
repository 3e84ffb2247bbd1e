"""Shared subscriptions: each message of `$share/<group>/<filter>` goes to one of the members (spec: mqtt §4, §7; MQTT 5 §4.8.2).

A group has one source in each process that has members, and gives each event to the next of them that has room. What a member has not acknowledged at QoS 1
when its connection ends is given to another; what is under way at QoS 2 stays with its session. How far a group has got is a row of `$mqtt` (`group_rows`).

    alone      no other process has members: what is given is noted about once a second, if the sessions of members last
    claiming   perhaps others have: a message is given when the row that says so is on the disk. Each process takes those that are meant for it, and the
               others when nobody has taken them for a while

Where rules on rows narrow what members may read, each gets what it may (spec: rows §1.3). What only members without room may read waits for them, up to HELD
messages; what no member may read goes nowhere, and beside other processes is left to those.

A process in which a group begins asks all others to claim from now on, and begins when they have noted how far they have got. Of one that hangs counts what
it has noted. What a process had taken that has ended is `open` again.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from svc.errors import NotFound, Problem
from svc.http.event_pump import HIGH_WATER
from svc.loop import contained
from svc.mqtt.code_sources import decides_reading, makes_events
from svc.mqtt.delivery import SENT_TYPES, Delivery, DeliveryParts, request_for
from svc.mqtt.group_rows import ENTER, FREE, GroupRow, decode_group, encode_group, group_key
from svc.mqtt.session import Flight, Session, SessionDelivery
from svc.protocol.mqtt_packets import Subscription
from svc.protocol.mqtt_topics import SHARE, split_share
from svc.realtime.changes import View
from svc.realtime.event import EndReason
from svc.realtime.subscription import Subscription as Source
from svc.siblings import Siblings
from svc.store import Database
from svc.store.side_rows import SideRows
from svc.store.writing.applied_batch import OnDone

BATCH = 64  # events taken at a time
HELD = 256  # messages that wait for members without room while others have some
GRACE = 0.1  # seconds after which a message is taken that is meant for another process
SECONDS = 2.0  # for which a process that hangs is waited for


class GroupParts(DeliveryParts, Protocol):
    """What groups share: the broker. `groups`: by name. `identity`: of this process."""

    groups: dict[str, SharedGroup]
    siblings: Siblings
    is_alive: Callable[[str], bool]

    @property
    def identity(self) -> str: ...
    def rows_of(self, database: Database) -> SideRows: ...
    def is_session(self, client_id: str, number: bytes) -> bool: ...
    def report(self, error: BaseException) -> None: ...
    def spawn(self, work: Any) -> None: ...


class SharedGroup:
    """`name`: `$share/<group>/<filter>`. `members`: those with a connection here, the next one first. `lasting`: numbers of the sessions that last, by client
    id, as far as they are known here. `is_claiming`: see above."""

    def __init__(self, name: str, parts: GroupParts, first: SharedMember) -> None:
        self.name = name
        self._parts = parts
        self._database = first.table.database
        self._table = first.table
        self._request = request_for(first.found, None, keeps_all=True)
        self._request.check_rights = False
        self._realtime = first.realtime
        self._source: Source | None = None
        self._again: deque[Any] = deque()  # events that are taken, to be given out first
        self._queue: deque[Any] = deque()  # others
        self._open: dict[int, None] = {}  # LSNs of messages at QoS 1 that are not acknowledged
        self._is_giving = False
        self.members: dict[SharedMember, None] = {}
        self.lasting: dict[str, bytes] = {}
        self._kept: dict[str, bytes | None] = {}  # changes of `lasting` that are not stored
        self._given = first.start
        self._is_known = False  # a row of this group was read, or it has begun anew
        self._noted: tuple[Any, ...] = ()
        self.is_claiming = parts.siblings.has_others
        self._is_entering = False
        self._has_entered = not self.is_claiming
        self._is_new_to_others = False  # it is to be noted how far it has got here, where others begin
        self._taking: list[Any] = []  # events, until it is on the disk that they are taken
        self._is_taking = False
        self._takes_all = False
        self._released: set[int] = set()  # LSNs of those that others are to have
        self._refused: set[int] = set()  # ... because no member here may read them
        self._begins_at = 0  # LSN behind which `_queue` and the source have everything
        self._is_cut = False  # the log did not reach back to that
        self._later: asyncio.TimerHandle | None = None
        if self._has_entered:
            self._restore()

    def _restore(self) -> None:
        """Begin where the group has got."""
        row = self._stored()
        self._given = row.given
        self.lasting = {**row.members, **self.lasting}
        if not self.is_claiming:
            events = [self._recall(lsn) for lsn in row.open]
            self._again.extend(event for event in events if event is not None)
            if row.is_needed:
                self._noted = (row.given, tuple(row.open))

    def _stored(self) -> GroupRow:
        return self._read(self._database.snapshot().get(group_key(self.name), None, self._database.mqtt_rows))

    def _read(self, data: bytes | None) -> GroupRow:
        """The row of this group: without what has died, and another one if it is of a group that has ended."""
        row = None if data is None else decode_group(bytes(data))
        if row is not None and row.name == self.name:
            row.release_dead(self._parts.is_alive)
            if not self._is_known and not row.weights:
                row.members = {each: number for each, number in row.members.items() if self._parts.is_session(each, number)}
            if row.is_needed or self._is_known:
                self._is_known = True
                return row
        self._is_known = True
        return GroupRow(self.name, self._given, [], {}, {}, {})

    # --- members -------------------------------------------------------------------------------------------------------------------------

    def join(self, member: SharedMember) -> None:
        """A member has a connection. Raises Problem."""
        if not self._has_entered:
            self.members[member] = None
            if not self._is_entering:
                self._is_entering = True
                self._parts.spawn(self._enter())
            return
        if self._source is None:
            self._open_source()
        self.members[member] = None
        if self.is_claiming:
            self.note()

    async def _enter(self) -> None:
        """Begin beside other processes."""
        await self._parts.siblings.ask(ENTER, self.name, SECONDS)
        self._is_entering = False
        self._has_entered = True
        try:
            self._restore()
            if self.members:
                self._open_source()
        except Problem as problem:
            self._parts.report(problem)
        self.note(self._left)

    async def claim(self) -> bool:
        """Another process is about to have members. Returns when it is on the disk how far the group has got here."""
        if not self.is_claiming:
            self._note_position()
            self.is_claiming = self._is_new_to_others = True
        if self._has_entered:
            noted = asyncio.Event()
            self.note(lambda problem: noted.set())
            await noted.wait()
        return True

    def _open_source(self) -> None:
        log, txn = self._database.log, self._database.snapshot()
        oldest = log.first_lsn(txn) - 1
        self._is_cut = self._given < oldest
        self._request.after = self._begins_at = min(max(self._given, oldest), log.newest_lsn(txn))
        self._source = self._realtime.subscribe(self._request)
        self._source.on_ready = self.give

    def _close_source(self) -> None:
        source, self._source = self._source, None
        if source is not None:
            source.close()

    def leave(self, member: SharedMember, flights: list[Flight]) -> None:
        """It has none any more. `flights`: what it has not acknowledged at QoS 1, for others."""
        if member not in self.members:
            return
        del self.members[member]
        for flight in flights:
            self._open.pop(flight.lsn, None)
        if self.is_claiming:
            self._released.update(flight.lsn for flight in flights)
        else:
            self._again.extendleft(flight.event for flight in reversed(flights))
        if not self._has_entered:
            return
        if self.members and not self.is_claiming:
            self.give()
            return
        self.note(self._left)
        if self.members:
            return
        self._close_source()
        if self._later is not None:
            self._later.cancel()
            self._later = None
        self._queue.clear()

    def _left(self, problem: Problem | None) -> None:
        """Where it has got is on the disk."""
        if self.is_claiming:
            self._parts.siblings.tell(FREE, self.name)
        if self.members:
            self.give()
        elif self._parts.groups.get(self.name) is self:
            del self._parts.groups[self.name]  # it need not be in memory

    def keep(self, client_id: str, number: bytes | None) -> None:
        """The session of a client lasts, and has subscribed; or with None: it has not any more."""
        if number is None:
            self.lasting.pop(client_id, None)
        else:
            self.lasting[client_id] = number
        self._kept[client_id] = number
        self.note()

    # --- its row -------------------------------------------------------------------------------------------------------------------------

    def note(self, on_done: OnDone | None = None) -> None:
        """Write how far it has got, if it is to last. `on_done`: called when that is on the disk."""
        if not self._has_entered:
            return  # when it has
        if not self.is_claiming:
            self._note_position()
            if not (self.lasting or self._noted):
                self._kept.clear()
                if on_done is not None:
                    on_done(None)
                return
        noted = self._state()
        if noted == self._noted and not (self._kept or self._released or self._refused or on_done):
            return
        self._noted = noted if self.lasting or self.is_claiming else ()
        self._parts.rows_of(self._database).update(group_key(self.name), self._noting, on_done)

    def _note_position(self) -> None:
        source = self._source
        if self._queue:
            self._given = self._queue[0].change.lsn - 1
        elif source is not None and source.ended is None:
            self._given = source.resume_after or self._given

    def _state(self) -> tuple[Any, ...]:
        """What the row has of this process."""
        return (0 if self.is_claiming else self._given, tuple(self._own()))

    def _own(self) -> list[int]:
        """LSNs of what this process has taken."""
        return sorted({*self._open, *(event.change.lsn for event in (*self._again, *self._taking))})

    def _noting(self, data: bytes | None) -> bytes | None:
        identity = self._parts.identity
        row = self._read(data)
        for client_id, number in self._kept.items():
            if number is None:
                row.members.pop(client_id, None)
            else:
                row.members[client_id] = number
        self._kept.clear()
        if row.weights.keys() - {identity}:
            self.is_claiming = True  # also if this process has not heard of others because it was stopped
        elif not self.is_claiming or self._is_new_to_others:
            row.given, row.open = self._given, []
        self._is_new_to_others = False
        row.open = sorted({*row.open, *self._released})
        self._released.clear()
        row.refuse(self._refused, identity)
        self._refused.clear()
        row.taken[identity] = self._own()
        if not self.members:
            row.release(identity)
            if self.is_claiming:
                self._again.clear()
        elif self.is_claiming:
            row.weights[identity] = sum(member.is_ready for member in self.members)
        self.lasting = row.members
        return encode_group(row)

    # --- messages ------------------------------------------------------------------------------------------------------------------------

    def give(self) -> None:
        """Give out what there is, as long as a member has room."""
        if self._is_giving or not self._has_entered:
            return
        self._is_giving = True
        touched: dict[SharedMember, None] = {}
        is_noted = False
        try:
            held: list[Any] = []  # only members without room may read them
            while len(held) < HELD and (self._again or (not self.is_claiming and (self._queue or self._fill()))):
                event = self._again.popleft() if self._again else self._queue.popleft()
                if event.type not in SENT_TYPES:
                    continue
                found = self._receiver_of(event)
                if found is not None:
                    touched[found[0]] = None
                    is_noted |= self._give_to(*found) == 2
                elif self._is_for_none(event):
                    is_noted |= self._refuse(event)
                elif any(member.is_ready for member in list(self.members)):
                    held.append(event)
                else:
                    self._again.appendleft(event)
                    break
            if self.is_claiming and self.members:
                if self._again:
                    self._released.update(event.change.lsn for event in self._again)
                    self._again.clear()
                    is_noted = True
                self._again.extendleft(reversed(held))
                self._look()
            else:
                self._again.extendleft(reversed(held))
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
        found = source.take(BATCH)
        self._queue.extend(found)
        if not found and source.ended is EndReason.TOO_SLOW:  # the log was cut: go on with what is left of it
            self._close_source()
            self._open_source()
        return bool(found)

    def _receiver_of(self, event: Any) -> tuple[SharedMember, Any] | None:
        """The next member that has room, and what it gets: rather the whole than that it may not read the record any more. None: there is none."""
        second: tuple[SharedMember, Any] | None = None
        for member in list(self.members):
            del self.members[member]
            self.members[member] = None
            if not member.is_ready:
                continue
            shown = event.seen_in(member.view)
            if shown is not None:
                if shown.type != "delete" or event.type == "delete":
                    return member, shown
                second = second or (member, shown)
        if second is None or any(_sees(member, event, whole=True) for member in self.members):
            return None
        return second

    def _is_for_none(self, event: Any) -> bool:
        """Whether no member may read a message; False if that is known of none of them."""
        known = [seen for member in self.members if (seen := _sees(member, event)) is not None]
        return bool(known) and not any(known)

    def _refuse(self, event: Any) -> bool:
        """No member here may read a message. True: that is to be noted, for other processes."""
        if not (self.is_claiming and self.members):
            return False
        self._released.add(event.change.lsn)
        self._refused.add(event.change.lsn)
        return True

    def _give_to(self, member: SharedMember, shown: Any) -> int:
        """Returns the QoS."""
        qos = member.qos_of(shown)
        if qos is None:
            return 0
        if qos == 1:
            self._open[shown.change.lsn] = None
        member.send(shown, qos)
        return qos

    def acknowledged(self, lsn: int) -> None:
        """A message at QoS 1 is."""
        self._open.pop(lsn, None)

    def _recall(self, lsn: int) -> Any:
        """The event of an entry of the log; None: it is gone."""
        txn = self._database.snapshot()
        entry = self._database.log.get(txn, lsn)
        if entry is None or entry.table_number != self._table.number:
            return None
        hub = self._realtime.hub
        return hub.change(self._table, entry, txn).event(hub.view(self._request, None))

    # --- beside other processes ----------------------------------------------------------------------------------------------------------

    def sweep(self) -> None:
        """About once a second."""
        self.note()
        if self.is_claiming:
            self.give()

    def someone_left(self) -> None:
        """A process has ended, which may have had members."""
        if self.is_claiming:
            self._takes_all = True
            self.give()

    def _look(self) -> None:
        """See what nobody has taken yet; take of it what is for this process."""
        if self._is_taking or len(self._again) >= HELD:
            return
        row = self._stored()
        self._given = row.given
        self._drop_taken(row)
        while len(self._queue) < BATCH and self._fill():
            self._drop_taken(row)
        identity = self._parts.identity
        left = [lsn for lsn in {*row.open, *(event.change.lsn for event in self._queue)} if not row.has_refused(lsn, identity)]
        if not left or not self._room():
            return
        if self._takes_all or any(row.is_for(lsn, identity) for lsn in left):
            self._is_taking = True
            self._parts.rows_of(self._database).update(group_key(self.name), self._take, self._taken)
        elif self._later is None:
            self._later = self._parts.loop.call_later(GRACE, self._take_rest)

    def _take_rest(self) -> None:
        self._later = None
        self.someone_left()

    def _drop_taken(self, row: GroupRow) -> None:
        opened = {*row.open}
        self._queue = deque(event for event in self._queue if event.change.lsn > row.given or event.change.lsn in opened)

    def _room(self) -> int:
        """How many messages its members can take."""
        return min(sum(member.room for member in list(self.members) if member.is_ready), BATCH)

    def _take(self, data: bytes | None) -> bytes | None:
        identity, room = self._parts.identity, self._room()
        row = self._read(data)
        if not self.members or (row.given < self._begins_at and not self._is_cut):
            return data  # another process has begun behind what is known here: see `_taken`
        self._drop_taken(row)
        held = {event.change.lsn: event for event in self._queue}
        row.given = max([row.given, *held])
        opened = {*row.open, *held}
        for lsn in sorted(opened):
            if len(self._taking) >= room:
                break
            if not row.has_refused(lsn, identity) and (self._takes_all or row.is_for(lsn, identity)):
                event = held[lsn] if lsn in held else self._recall(lsn)
                opened.discard(lsn)
                if event is not None:
                    self._taking.append(event)
        self._queue = deque(event for lsn, event in held.items() if lsn in opened)
        self._takes_all = False
        row.open = sorted(opened)
        row.taken[identity] = self._own()
        row.weights[identity] = min(sum(member.is_ready for member in self.members), room - len(self._taking))
        row.refuse((), identity)
        self.lasting = row.members
        self._noted = self._state()
        return encode_group(row)

    def _taken(self, problem: Problem | None) -> None:
        """What was taken is on the disk, or nothing is."""
        taking, self._taking = self._taking, []
        self._is_taking = False
        if problem is not None:
            self._queue.extendleft(reversed(taking))
            return  # until it is swept
        self._again.extend(taking)
        if not self.members:
            self._released.update(event.change.lsn for event in self._again)
            self._again.clear()
            self.note(self._left)
            return
        given = self._stored().given
        if given < self._begins_at and not self._is_cut:
            self._given = given
            self._queue.clear()
            self._close_source()
            self._open_source()
        self.give()


def _sees(member: SharedMember, event: Any, *, whole: bool = False) -> bool | None:
    """Whether its user may read a message, now or when it has room; None: the user may not have any more. `whole`: and not only that the record is not there
    any more."""
    try:
        shown = event.seen_in(member.view)
    except Problem:
        return None
    return shown is not None and (not whole or shown.type != "delete" or event.type == "delete")


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
    def room(self) -> int:
        """How many messages it can take, if it is ready."""
        sent = self._session.sent
        return sent.window - len(sent) if self.subscription.qos else BATCH

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
