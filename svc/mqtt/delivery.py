"""One subscription of a session: events of a source become PUBLISH packets, no faster than the client takes them (spec: mqtt §4, §6).

The bytes of an event are made once for all receivers with the same version, type and address, and kept in its memo: only the packet identifier is each
receiver's own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from svc.content.content_type import ContentType
from svc.errors import NotFound, Problem
from svc.http.event_pump import HIGH_WATER
from svc.loop import contained
from svc.mqtt.addresses import Addresses, Filter
from svc.mqtt.metrics import MqttMetrics
from svc.mqtt.notes import Note, note_of
from svc.mqtt.payloads import Payloads
from svc.mqtt.session import Session, SessionLink
from svc.protocol.mqtt import publish_parts
from svc.protocol.mqtt_packets import V5, Publish, Subscription
from svc.protocol.mqtt_properties import CONTENT_TYPE, MESSAGE_EXPIRY, NO_PROPERTIES, SUBSCRIPTION_ID, TOPIC_ALIAS, Properties
from svc.protocol.mqtt_states import Input
from svc.realtime.event import EndReason
from svc.realtime.subscription import Subscription as Source
from svc.realtime.subscription_request import SubscriptionRequest
from svc.resources import TableResource

BATCH = 64  # events taken at a time
SENT_TYPES = frozenset(("put", "message", "delete"))


class DeliveryParts(Protocol):
    """What deliveries share: the broker."""

    addresses: Addresses
    payloads: Payloads
    metrics: MqttMetrics
    wall: Callable[[], float]


class Sent:
    """A message at QoS 1 or 2 that is not acknowledged yet."""

    __slots__ = ("delivery", "event")

    def __init__(self, delivery: Delivery, event: Any) -> None:
        self.delivery = delivery
        self.event = event

    def send_again(self, link: SessionLink, packet_id: int) -> None:
        self.delivery.write(link, self.event, packet_id, dup=True)


class Delivery:
    """`identifier`: the Subscription Identifier that the client has given, 0 without one. `position`: in the log of its database, up to which all was taken,
    while it is not open; None: the current records were not."""

    __slots__ = (
        "_filter",
        "_parts",
        "_session",
        "_source",
        "_without_records",
        "identifier",
        "position",
        "subscription",
    )

    def __init__(
        self, session: Session, subscription: Subscription, parts: DeliveryParts, identifier: int, *, without_records: bool
    ) -> None:
        """`without_records`: what is there is not sent first. Raises NotFound: there is nothing that the filter could cover."""
        self._session = session
        self._parts = parts
        self._filter = self._find(subscription.filter)
        self._source: Source | None = None
        self._without_records = without_records
        self.subscription = subscription
        self.identifier = identifier
        self.position: int | None = None

    def _find(self, text: str) -> Filter:
        found = self._parts.addresses.find_filter(text)
        if found is None or not issubclass(found.resource, TableResource):
            raise NotFound("There is no such topic")
        return found

    def open(self) -> None:
        """Follow what the filter covers, from `position` on. Raises Problem: the user may not read it, or it cannot be subscribed to."""
        self.close()
        self._filter = self._find(self.subscription.filter)  # the application may have been loaded again
        source = self._source = self._subscribe()
        source.on_ready = self.run

    def _subscribe(self) -> Source:
        found, sender = self._filter, self._session.sender
        resource = found.resource
        assert issubclass(resource, TableResource)
        realtime = resource.realtime
        if realtime is None:
            raise resource.not_allowed("subscribe")
        return realtime.subscribe(
            SubscriptionRequest(
                resource.table,
                Addresses.key_of(found),  # type: ignore[arg-type]
                user=sender.user,
                after=self.position,
                omit_current=self._without_records or found.is_root,
                only_children=found.has_children,
                only_root=found.is_root,
                pattern=found.pattern,
                keeps_all=self.subscription.qos > 0,
                include_descendants=found.is_deep and bool(found.text),
                allow_full_scan=True,
            )
        )

    def close(self) -> None:
        source, self._source = self._source, None
        if source is not None:
            if source.ended is None:
                self.position = source.resume_after
            source.close()

    def run(self) -> None:
        """Send what there is, while there is room."""
        source, session = self._source, self._session
        link = session.link
        if source is None or link is None:
            return
        qos = self.subscription.qos
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
                    if event.type in SENT_TYPES:
                        self._send(link, event, qos)
        except BaseException as error:
            link.report(contained(error))
            self.close()
        link.flush()

    def _send(self, link: SessionLink, event: Any, qos: int) -> None:
        if self._filter.topic_of(event) is None:
            return
        session = self._session
        note = note_of(event)
        if note is not None:
            qos = min(qos, note.qos)
            if (self.subscription.no_local and note.session == session.number) or self._left(event, note) == 0:
                return
        if not qos:
            self.write(link, event, 0)
            return
        packet_id = session.sent.begin(qos)
        session.flying[packet_id] = Sent(self, event)
        if qos == 2:
            session.sent.on(packet_id, Input.COMMITTED)
        self.write(link, event, packet_id)

    def write(self, link: SessionLink, event: Any, packet_id: int, *, dup: bool = False) -> None:
        """A message too large for the client counts as delivered (MQTT-3.1.2-25)."""
        qos = self.subscription.qos
        version = link.connection.version
        note = note_of(event)
        if note is not None:
            qos = min(qos, note.qos)
        shared = note is None or note.expiry is None
        parts = None
        if shared and not dup and not self.identifier and not link.connection.alias_maximum:
            key = ("mqtt", version, link.kind, self._filter.registration.path, qos, self.subscription.retain_as_published)
            parts = event.memo.get(key)
            if parts is None:
                parts = event.memo[key] = publish_parts(self._packet(event, version, link.kind, qos, False), version)
        else:
            packet = self._packet(event, version, link.kind, qos, dup)
            alias, is_new = link.connection.alias_of(packet.topic)
            if alias:
                packet.properties = {**packet.properties, TOPIC_ALIAS: alias}
                if not is_new:
                    packet.topic = ""
            parts = publish_parts(packet, version)
        head, tail = parts
        if len(head) + len(tail) + 2 > link.connection.largest_sent:
            if qos:
                self._session.sent.on(packet_id, Input.PUBACK if qos == 1 else Input.PUBREC_REFUSED)
                del self._session.flying[packet_id]
            return
        data = b"".join((head, packet_id.to_bytes(2), tail)) if qos else head + tail
        self._parts.metrics.sent(self._filter.registration.path, qos)(len(data))
        link.connection.write(data)

    def _packet(self, event: Any, version: int, kind: ContentType, qos: int, dup: bool) -> Publish:
        topic = self._filter.topic_of(event)
        assert topic is not None
        try:
            payload, content_type = self._parts.payloads.encode(event, kind, self._filter.is_free)
        except Problem:
            payload, content_type = b"", ""
        note = note_of(event)
        retain = event.is_current or (note is not None and note.retain and self.subscription.retain_as_published)
        properties: Properties = NO_PROPERTIES
        if version == V5:
            found: dict[int, Any] = {}
            if note is not None:
                found.update(note.properties)
                if note.expiry is not None:
                    found[MESSAGE_EXPIRY] = self._left(event, note)
            if content_type:
                found[CONTENT_TYPE] = content_type
            if self.identifier:
                found[SUBSCRIPTION_ID] = [self.identifier]
            properties = found
        return Publish(topic, payload, qos, retain, dup, 0, properties)

    def _left(self, event: Any, note: Note) -> int:
        """Seconds that a message is still of use, at least 0; 1 if it is for good."""
        if note.expiry is None:
            return 1
        left = note.expiry - (self._parts.wall() - event.version / 1000)
        return max(0, round(float(left)))

    def _ended(self, why: EndReason) -> None:
        """The source has ended by itself. One at QoS 0 whose client was too slow goes on from now, without what that has missed."""
        self.close()
        if why is EndReason.TOO_SLOW:
            self._without_records, self.position = True, None
            try:
                self.open()
            except Problem:
                pass
