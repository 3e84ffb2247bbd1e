"""One subscription of a session: events of a source become PUBLISH packets, no faster than the client takes them (spec: mqtt §4, §6).

The bytes of an event are made once for all receivers with the same version, type and address, and kept in its memo: only the packet identifier is each
receiver's own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from svc.auth.users import User
from svc.content.content_type import ContentType
from svc.errors import NotFound, Problem
from svc.http.event_pump import HIGH_WATER, as_event_source
from svc.loop import contained
from svc.mqtt.addresses import Addresses, Filter
from svc.mqtt.code_sources import AGAIN, CodeCall, CodeOpening, CodeSource, decides_reading, makes_events
from svc.mqtt.metrics import MqttMetrics, Record
from svc.mqtt.notes import note_of
from svc.mqtt.payloads import Payloads
from svc.mqtt.session import Flight, Session, SessionDelivery, SessionLink
from svc.protocol.mqtt import publish_parts
from svc.protocol.mqtt_connection import MqttConnection
from svc.protocol.mqtt_packets import V5, Publish, Subscription
from svc.protocol.mqtt_properties import CONTENT_TYPE, MESSAGE_EXPIRY, NO_PROPERTIES, SUBSCRIPTION_ID, TOPIC_ALIAS, Properties
from svc.protocol.mqtt_states import Input
from svc.realtime.changes import Change
from svc.realtime.event import EndReason
from svc.realtime.realtime import Realtime
from svc.realtime.subscription import Subscription as Source
from svc.realtime.subscription_request import SubscriptionRequest
from svc.resources import TableResource
from svc.store import Table
from svc.store.system import SYSTEM
from svc.store.values.keys import storage_key
from svc.store.values.records import is_partial, lsn_of, version_of

BATCH = 64  # events taken at a time
SENT_TYPES = frozenset(("put", "message", "delete"))

Message = tuple[int, bytes | None, bytes, Record | None, bytes | None]
"""QoS; bytes in front of the packet identifier, None: they are not the same for all; those behind it; what records their number; number of the session that has
sent it, None: it is no message of MQTT."""

UNTOLD: Message = (-1, None, b"", None, None)


def request_for(found: Filter, user: User | None, *, keeps_all: bool) -> SubscriptionRequest:
    """The subscription to what a filter covers. `keeps_all`: see `SubscriptionRequest`. Raises ClientError."""
    resource = found.resource
    assert issubclass(resource, TableResource)
    return SubscriptionRequest(
        resource.table,
        Addresses.key_of(found),  # type: ignore[arg-type]
        user=user,
        only_children=found.has_children,
        only_root=found.is_root,
        pattern=found.pattern,
        keeps_all=keeps_all,
        include_descendants=found.is_deep and bool(found.text),
        allow_full_scan=True,
    )


class DeliveryParts(Protocol):
    """What deliveries share: the broker. `max_catch_up`: entries of the log that a session reads when it comes back."""

    addresses: Addresses
    payloads: Payloads
    metrics: MqttMetrics
    wall: Callable[[], float]
    max_catch_up: float
    loop: asyncio.AbstractEventLoop

    def report(self, error: BaseException) -> None: ...


class Delivery:
    """`identifier`: the Subscription Identifier that the client has given, 0 without one. `number`: of the subscription within its session. `database`: the
    name of the one that it reads. `begins_with_records`: with the current ones. `started`: ms, when the client has subscribed; `start`: LSN at that time.
    `position`: LSN up to which all was taken, as of the last event, or of `close`; None: the current records were not. `mark`, `mark_lsn`: see
    `SessionDelivery`. `is_held`: what it sends has to wait for an answer. `exact_until`: LSN up to which messages at QoS 2 were sent before the server ended.
    """

    __slots__ = (
        "_catches_up",
        "_filter",
        "_is_plain",
        "_key",
        "_link",
        "_opening",
        "_parts",
        "_replayed_until",
        "_session",
        "_source",
        "begins_with_records",
        "database",
        "exact_until",
        "identifier",
        "is_held",
        "mark",
        "mark_lsn",
        "number",
        "position",
        "start",
        "started",
        "subscription",
    )

    is_shared = False

    def __init__(
        self, session: Session, subscription: Subscription, parts: DeliveryParts, identifier: int, *, with_records: bool = True
    ) -> None:
        """`with_records`: what is there is sent first."""
        self._session = session
        self._parts = parts
        self._filter: Filter | None = None
        self._source: Source | CodeSource | None = None
        self._opening: CodeOpening | None = None
        self._link: SessionLink | None = None  # that `_key` and `_is_plain` are about
        self._key: tuple[Any, ...] = ()  # under which its messages are kept with an event
        self._is_plain = False  # its messages have nothing of its own but their packet identifier
        self.begins_with_records = with_records
        self._catches_up = False
        self._replayed_until = 0
        self.subscription = subscription
        self.identifier = identifier
        self.number = 0
        self.database = ""
        self.started = self.start = 0
        self.position: int | None = None
        self.mark = self.mark_lsn = self.exact_until = 0
        self.is_held = False

    @property
    def found(self) -> Filter:
        """What it was opened with."""
        assert self._filter is not None
        return self._filter

    @property
    def _path(self) -> str:
        return self.found.path

    @property
    def table(self) -> Table:
        resource = self.found.resource
        assert issubclass(resource, TableResource)
        return resource.table

    @property
    def reached(self) -> int | None:
        """The LSN up to which everything was taken; None: the current records were not."""
        source = self._source
        return self.position if source is None or source.ended is not None else source.resume_after

    def _find(self, text: str) -> Filter:
        found = self._parts.addresses.find_filter(text)
        if found is None:
            raise NotFound("There is no such topic")
        return found

    @property
    def has_log(self) -> bool:
        """Whether what is sent can be read again: it is not code of an application that makes the events."""
        return self.database != SYSTEM

    @property
    def opening(self) -> asyncio.Task[Problem | None] | None:
        """What code of an application has to answer before there is a source: see `CodeOpening`. None: it was not asked, or has answered at once."""
        return None if self._opening is None else self._opening.task

    def open(self, before: SessionDelivery | None = None) -> None:
        """Follow what the filter covers, from `position` on. `before`: a new one takes the place of that, and also sends what that has not sent yet. Raises
        Problem: the user may not read it, it cannot be subscribed to, or there is nothing that it could cover."""
        self.close()
        found = self._filter = self._find(self.subscription.filter)  # the application may have been loaded again
        if makes_events(found.resource):
            self.database, self.position = SYSTEM, None  # where the identifiers of what is under way are
            call = CodeCall(found, self._session.sender, omits_current=not self.begins_with_records)
            self._open_with(call.connect, partial(self._take_from_code, call))
        elif decides_reading(found.resource):
            call = CodeCall(found, self._session.sender, omits_current=False)
            self._open_with(lambda: call.permit(self.realtime.hub), lambda _: self._open_permitted(call, before))
        else:
            self._open_table(before=before)

    def _open_with(self, call: Callable[[], Any], go_on: Callable[[Any], None]) -> None:
        self._opening = CodeOpening(self._parts.loop, self._parts.report)
        self._opening.run(call, go_on)

    def _take_from_code(self, call: CodeCall, result: Any) -> None:
        if as_event_source(result) is None:
            raise call.not_allowed()
        self._catches_up = self.started > 0
        self._replayed_until = self.exact_until = 0
        self._source = CodeSource(result, self.found, self.subscription.filter)
        self._source.on_ready = self.run
        self.run()

    def _open_permitted(self, call: CodeCall, before: SessionDelivery | None) -> None:
        self._open_table(call, before=before)
        if isinstance(self._source, Source):
            call.watch(self._source, self.realtime.hub)
        self.run()

    def _open_table(self, call: CodeCall | None = None, *, before: SessionDelivery | None = None) -> None:
        """`call`: code of an application has let the user read."""
        database = self.table.database
        log, txn = database.log, database.snapshot()
        newest = log.newest_lsn(txn)
        if self.database and self.database != database.name:
            self.position = newest  # the table is another one
        unsent = None  # LSN behind which `before` has not sent everything
        if before is not None and before.database == database.name and before.subscription.qos and self.subscription.qos:
            unsent = before.start if before.reached is None else before.reached
        is_new = not self.database
        if is_new:
            self.start = newest if unsent is None else unsent
        elif not self.subscription.qos:
            self.position = newest  # what was not sent is lost
        self.database = database.name
        self._replayed_until = newest
        position = self.position
        # Of one that was cut short among the current records those that have not changed since it began are sent again, and then what has happened since.
        is_cut_short = position is None and self.begins_with_records and (unsent is not None or not is_new)
        if is_cut_short or unsent is not None:
            position = self.start
        self._catches_up = False
        if position is not None:
            oldest = max(log.first_lsn(txn) - 1, newest - int(min(self._parts.max_catch_up, newest)))
            self._catches_up = not oldest <= position <= newest and not is_cut_short
            position = min(max(position, oldest), newest)
        request = request_for(self.found, self._session.sender.user, keeps_all=self.subscription.qos > 0)
        request.after = position
        request.omit_current = self.found.is_root or not self.begins_with_records
        request.adds_current = (self._catches_up or is_cut_short) and not self.found.is_root
        if call is not None and call.is_opened:
            request.select, request.check_rights, request.check_rows = call.select(), False, True
        source = self._source = self.realtime.subscribe(request)
        source.on_ready = self.run

    @property
    def realtime(self) -> Realtime:
        """Raises MethodNotAllowed: the resource cannot be subscribed to."""
        realtime: Realtime | None = self.found.resource.realtime  # type: ignore[attr-defined]
        if realtime is None:
            raise self.found.resource.not_allowed("subscribe")
        return realtime

    def close(self) -> None:
        opening, self._opening = self._opening, None
        if opening is not None:
            opening.close()
        source, self._source = self._source, None
        self._link = None
        if source is not None:
            if source.ended is None:
                self.position = source.resume_after
            source.close()

    def recall(self, lsn: int, key: bytes | None) -> Any:
        """The event of a message that was sent already: of the entry `lsn` of the log, or of the record `key`. None: it is gone, or may not be read any
        more."""
        source = self._source
        if not isinstance(source, Source):
            return None
        table, group = self.table, source.group
        txn = table.database.snapshot()
        if key is None:
            entry = table.database.log.get(txn, lsn)
            return None if entry is None or entry.table_number != table.number else group.event(source.hub.change(table, entry, txn))
        stored = storage_key(key)
        raw = table.read(stored, txn)
        if raw is None or is_partial(raw) or not group.admits(stored, raw, txn):
            return None
        return Change.of_record(table, key, raw, version_of(raw), lsn_of(raw)).snapshot_event(group.view, None)

    def run(self) -> None:
        """Send what there is, while there is room."""
        source, session = self._source, self._session
        link = session.link
        if source is None or link is None or self.is_held:
            return
        qos = self.subscription.qos
        if session.waiting:
            session.waiting.pop(self, None)
        try:
            while True:
                room = min(BATCH, session.sent.window - len(session.sent)) if qos else BATCH
                if room <= 0 or link.pending >= HIGH_WATER:
                    session.waiting[self] = None
                    break
                events = source.take(room)
                if not events:
                    if source.ended is not None:
                        self._ended(source.ended)
                    break
                for event in events:
                    self._send(link, event)
                last = events[-1]
                if not last.is_current:
                    self.position = last.change.lsn
                if len(events) < room and source.waiting:
                    break
        except BaseException as error:
            link.report(contained(error))
            self.close()
        link.flush()

    def over(self, flight: Flight) -> None:
        """A message is acknowledged, or given up."""

    def _send(self, link: SessionLink, event: Any) -> None:
        message = self.message(event, link)
        qos, data, _, record, sender = message
        if qos < 0 or (sender is not None and self.subscription.no_local and sender == self._session.number):
            return
        if data is None and self._left(event) == 0:
            return
        if qos:
            change = event.change
            if event.is_current or not self.has_log:
                self._session.send(self, event, qos, change.lsn, change.key)
            elif qos == 1 or change.lsn > self.exact_until:
                self._session.send(self, event, qos, change.lsn, None)
        elif event.is_current or not self.subscription.qos or event.change.lsn > self._replayed_until:
            if data is None or record is None or not self._is_plain or len(data) > link.connection.largest_sent:
                self.write(link, event, 0)
            else:
                record(len(data))
                link.connection.write(data)

    def message(self, event: Any, link: SessionLink) -> Message:
        """What is sent of an event, made once for all receivers with the same version, type and address."""
        if link is not self._link:
            self._link = link
            self._is_plain = not (self.identifier or link.connection.alias_maximum)
            self._key = (
                "mqtt",
                link.connection.version,
                link.kind,
                self._path,
                self.subscription.qos,
                self.subscription.retain_as_published,
            )
        found = event.memo.get(self._key)
        if found is None:
            found = event.memo[self._key] = self._make(event, link)
        return found  # type: ignore[no-any-return]

    def _make(self, event: Any, link: SessionLink) -> Message:
        if event.type not in SENT_TYPES or self.found.topic_of(event) is None:
            return UNTOLD
        qos, sender = self.subscription.qos, None
        note = note_of(event)
        if note is not None:
            qos, sender = min(qos, note.qos), note.session
            if note.expiry is not None:
                return qos, None, b"", None, sender
        version = link.connection.version
        head, tail = publish_parts(self._packet(event, version, link.kind, qos, False), version)
        if not qos:
            head, tail = head + tail, b""
        return qos, head, tail, self._parts.metrics.sent(self.found.registration.path, qos), sender

    def write(self, link: SessionLink, event: Any, packet_id: int, *, dup: bool = False) -> None:
        """A message too large for the client counts as delivered (MQTT-3.1.2-25)."""
        qos, head, tail, record, _ = self.message(event, link)
        if head is None or record is None or dup or not self._is_plain:
            packet = self._packet(event, link.connection.version, link.kind, qos, dup)
            head, tail = self._parts_with_alias(link.connection, packet)
            record = self._parts.metrics.sent(self._path, qos)
        data = b"".join((head, packet_id.to_bytes(2), tail)) if qos else head + tail
        if len(data) <= link.connection.largest_sent:
            record(len(data))
            link.connection.write(data)
        elif qos:
            self._session.sent.on(packet_id, Input.PUBACK if qos == 1 else Input.PUBREC_REFUSED)
            self._session.forget(packet_id, is_refused=True)

    @staticmethod
    def _parts_with_alias(connection: MqttConnection, packet: Publish) -> tuple[bytes, bytes]:
        topic, properties = packet.topic, packet.properties
        alias, is_new = connection.alias_of(topic)
        if not alias:
            return publish_parts(packet, connection.version)
        packet.properties = {**properties, TOPIC_ALIAS: alias}
        if not is_new:
            packet.topic = ""
        parts = publish_parts(packet, connection.version)
        if _size(parts, packet.qos) > connection.largest_sent:
            if is_new:
                connection.forget_alias(topic)
            packet.topic, packet.properties = topic, properties
            parts = publish_parts(packet, connection.version)
        return parts

    def _packet(self, event: Any, version: int, kind: ContentType, qos: int, dup: bool) -> Publish:
        topic = self.found.topic_of(event)
        assert topic is not None
        try:
            payload, content_type = self._parts.payloads.encode(event, kind, self.found.is_free)
        except Problem:
            payload, content_type = b"", ""
        except TypeError as error:  # of a value that an application has made
            self._parts.report(error)
            payload, content_type = b"", ""
        note = note_of(event)
        retain = (event.is_current and not self._catches_up) or (note is not None and note.retain and self.subscription.retain_as_published)
        properties: Properties = NO_PROPERTIES
        if version == V5:
            found: dict[int, Any] = {}
            if note is not None:
                found.update(note.properties)
                if note.expiry is not None:
                    found[MESSAGE_EXPIRY] = self._left(event)
            if content_type:
                found[CONTENT_TYPE] = content_type
            if self.identifier:
                found[SUBSCRIPTION_ID] = [self.identifier]
            properties = found
        return Publish(topic, payload, qos, retain, dup, 0, properties)

    def _left(self, event: Any) -> int:
        """Seconds that a message is still of use, at least 0; 1 if it is for good."""
        note = note_of(event)
        if note is None or note.expiry is None:
            return 1
        left = note.expiry - max(0.0, float(self._parts.wall() - event.version / 1000))
        return 0 if left <= 0 else max(1, round(left))

    def _ended(self, why: EndReason) -> None:
        """The source has ended by itself. It goes on if its client was too slow: at QoS 0 from now, without what that has missed, else with what is left of the
        log, and the current records."""
        source, self._source = self._source, None
        assert source is not None
        source.close()
        if why is EndReason.TOO_SLOW:
            self._parts.loop.call_later(0 if isinstance(source, Source) else AGAIN, self._open_again)

    def _open_again(self) -> None:
        session = self._session
        if (
            self._source is None
            and (self.opening is None or self.opening.done())
            and session.link is not None
            and session.deliveries.get(self.subscription.filter) is self
        ):
            try:
                self.open()
            except Problem:
                return
            self.run()


def _size(parts: tuple[bytes, bytes], qos: int) -> int:
    """Bytes of a message: with a packet identifier between its parts, but at QoS 0."""
    head, tail = parts
    return len(head) + len(tail) + (2 if qos else 0)
