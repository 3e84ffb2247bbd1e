"""A client of MQTT, in a test of an application: `app.mqtt("sensor")` (spec: testing §2)."""

from __future__ import annotations

import json
from typing import Any

from svc.connection.tunnel import TunnelAcceptor
from svc.protocol.mqtt import PacketReader, ack, encode
from svc.protocol.mqtt_packets import (
    V3,
    V5,
    Ack,
    Connack,
    Connect,
    Disconnect,
    Packet,
    Ping,
    Publish,
    Suback,
    Subscribe,
    Subscription,
    Unsuback,
    Unsubscribe,
    Will,
)
from svc.protocol.mqtt_properties import (
    CONTENT_TYPE,
    NO_PROPERTIES,
    PUBACK,
    PUBCOMP,
    PUBREC,
    PUBREL,
    REASON_STRING,
    TOPIC_ALIAS,
    USER_PROPERTY,
    Properties,
)
from svc.testing.instance import ENDED, Instance
from svc.testing.wire import MemorySocket

PEER = "192.0.2.1"  # no address of this machine, whose callers need no credentials


class Message:
    """A message that has come. `topic`; `payload`: bytes; `qos`, `retain`, `dup`: of the packet; `content_type` and `user_properties`: of version 5."""

    def __init__(self, packet: Publish) -> None:
        self.topic = packet.topic
        self.payload = packet.payload
        self.qos = packet.qos
        self.retain = packet.retain
        self.dup = packet.dup
        self.packet_id = packet.packet_id
        self.properties = packet.properties
        self.content_type: str | None = packet.properties.get(CONTENT_TYPE)
        self.user_properties: list[tuple[str, str]] = packet.properties.get(USER_PROPERTY, [])

    @property
    def json(self) -> Any:
        """The payload as JSON. Raises AssertionError if it is none."""
        try:
            return json.loads(self.payload)
        except ValueError:
            raise AssertionError(f"the payload is no JSON: {self.payload[:100]!r}") from None

    def __eq__(self, other: object) -> bool:
        """Also to (topic, payload), where the payload is bytes or a value of JSON."""
        if isinstance(other, Message):
            return (self.topic, self.payload, self.retain) == (other.topic, other.payload, other.retain)
        if isinstance(other, tuple) and len(other) == 2:
            return self.topic == other[0] and (self.payload == other[1] if isinstance(other[1], bytes) else self.json == other[1])
        return NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<Message {self.topic} {self.payload[:100]!r}{' retained' if self.retain else ''}>"


class MqttClient(list[Message]):
    """The messages that have come, as a list that grows. `session_present`: the server knew the session. `reason`: why the connection has ended, a code of
    version 5; None while it is open, or where the server has not said."""

    def __init__(self, instance: Instance, packet: Connect, *, acknowledges: bool = True) -> None:
        """`acknowledges`: messages at QoS 1 and 2 are answered at once. Raises AssertionError if CONNECT is refused."""
        super().__init__()
        if instance.is_closed:
            raise RuntimeError(ENDED)
        self._instance = instance
        self._acknowledges = acknowledges
        self._reader = PacketReader(version=packet.version)
        self._last_id = 0
        self._answers: dict[int, Packet] = {}  # by packet identifier
        # Received at QoS 2 and not released: a session that goes on keeps them at both ends.
        self._known: set[int] = set() if packet.clean else instance.mqtt_known.setdefault(packet.client_id, set())
        self._aliases: dict[int, str] = {}
        self.version = packet.version
        self.client_id = packet.client_id
        self.is_open = True
        self.reason: int | None = None
        self.reason_string = ""
        self.connack: Connack | None = None
        self.packets: list[Packet] = []
        self._sock = MemorySocket(instance.loop)
        self._sock.client = self
        instance.sockets.add(self._sock)
        server = instance.server
        acceptor = TunnelAcceptor(server.application_port.connections, server.interfaces.mqtt_link)
        acceptor.accept(self._sock, PEER, "mqtt")  # type: ignore[arg-type]  # it has the interface of one
        self._send(packet)
        self._wait(lambda: self.connack is not None or not self.is_open, "CONNACK")
        if self.connack is None or self.connack.reason:
            why = "the connection was closed" if self.connack is None else f"code {self.connack.reason:#04x}"
            raise AssertionError(f"CONNECT is refused: {why} {self.reason_string}".rstrip())

    @property
    def session_present(self) -> bool:
        return self.connack is not None and self.connack.session_present

    # --- what the server sends -----------------------------------------------------------------------------------------------------------

    def receive(self, data: bytes) -> None:
        self._reader.feed(data)
        while (packet := self._reader.next_packet()) is not None:
            self.packets.append(packet)
            if isinstance(packet, Publish):
                self._message(packet)
            elif isinstance(packet, Connack):
                self.connack = packet
                if not packet.session_present:
                    self._known.clear()
                self.reason_string = packet.properties.get(REASON_STRING, "")
            elif isinstance(packet, Disconnect):
                self.reason = packet.reason
                self.reason_string = packet.properties.get(REASON_STRING, "")
            elif isinstance(packet, Ack) and packet.kind == PUBREL:
                self._known.discard(packet.packet_id)
                self._deliver(ack(PUBCOMP, packet.packet_id))
            elif isinstance(packet, Ack | Suback | Unsuback):
                self._answers[packet.packet_id] = packet
                if isinstance(packet, Ack) and packet.kind == PUBREC and packet.reason < 0x80:
                    del self._answers[packet.packet_id]
                    self._deliver(ack(PUBREL, packet.packet_id))

    def closed(self) -> None:
        self.is_open = False

    def _message(self, packet: Publish) -> None:
        alias = packet.properties.get(TOPIC_ALIAS)
        if alias is not None:
            if packet.topic:
                self._aliases[alias] = packet.topic
            packet.topic = self._aliases[alias]
        if packet.qos == 2 and packet.packet_id in self._known:
            self._deliver(ack(PUBREC, packet.packet_id))
            return
        self.append(Message(packet))
        if packet.qos == 2:
            self._known.add(packet.packet_id)
        if packet.qos and self._acknowledges:
            self._deliver(ack(PUBACK if packet.qos == 1 else PUBREC, packet.packet_id))

    # --- what the client sends -----------------------------------------------------------------------------------------------------------

    def subscribe(
        self,
        filter: str,
        qos: int = 0,
        *,
        no_local: bool = False,
        retain_as_published: bool = False,
        retain_handling: int = 0,
        properties: Properties = NO_PROPERTIES,
    ) -> int:
        """Subscribe to `filter` at `qos`; the QoS that is granted, or the code of the refusal. `no_local`, `retain_as_published`,
        `retain_handling` (0 to 2) and `properties`: of version 5."""
        packet_id = self._next_id()
        subscription = Subscription(filter, qos, no_local, retain_as_published, retain_handling)
        answer = self._ask(Subscribe(packet_id, [subscription], properties), packet_id)
        assert isinstance(answer, Suback)
        return answer.reasons[0]

    def unsubscribe(self, filter: str) -> int:
        """The code of the answer for `filter`; 0 in version 3.1.1."""
        packet_id = self._next_id()
        answer = self._ask(Unsubscribe(packet_id, [filter]), packet_id)
        assert isinstance(answer, Unsuback)
        return answer.reasons[0] if answer.reasons else 0

    def publish(self, topic: str, payload: Any = b"", qos: int = 0, *, retain: bool = False, properties: Properties = NO_PROPERTIES) -> int:
        """Publish `payload` to `topic` at `qos`: bytes, a text, or a value that is sent as JSON; `retain`: as the record there. Returns the code of the answer,
        when all of the exchange is over. `properties`: of version 5."""
        if isinstance(payload, str):
            payload = payload.encode()
        elif not isinstance(payload, bytes | bytearray):
            payload = json.dumps(payload).encode()
        packet_id = self._next_id() if qos else 0
        packet = Publish(topic, bytes(payload), qos, retain, False, packet_id, properties)
        if not qos:
            self._send(packet)
            return 0
        answer = self._ask(packet, packet_id)
        assert isinstance(answer, Ack)
        return answer.reason

    def ping(self) -> None:
        """PINGREQ; returns with its answer."""
        before = sum(type(packet) is Ping for packet in self.packets)
        self._send(Ping())
        self._wait(lambda: sum(type(packet) is Ping for packet in self.packets) > before, "PINGRESP")

    def acknowledge(self, message: Message) -> None:
        """Answer `message`, for a client that does not do so at once."""
        self._deliver(ack(PUBACK if message.qos == 1 else PUBREC, message.packet_id))
        self._instance.rest()

    def disconnect(self, reason: int = 0, properties: Properties = NO_PROPERTIES) -> None:
        """DISCONNECT with `reason` and `properties`: the will is not published, but with another reason than 0."""
        self._send(Disconnect(reason, properties))
        self.cancel()

    def cancel(self) -> None:
        """The client goes away without a word."""
        self.is_open = False
        self._instance.sockets.discard(self._sock)
        if not self._instance.is_closed:
            self._instance.loop.hang_up(self._sock)
            self._instance.rest()

    def take(self) -> list[Message]:
        """What is there, which is removed from the list."""
        taken = list(self)
        self.clear()
        return taken

    def _send(self, packet: Packet) -> None:
        """Send any packet."""
        self._deliver(encode(packet, self.version))
        self._instance.rest()

    def _deliver(self, data: bytes) -> None:
        self._instance.loop.deliver(self._sock, data)

    def _next_id(self) -> int:
        self._last_id = self._last_id % 0xFFFF + 1
        return self._last_id

    def _ask(self, packet: Packet, packet_id: int) -> Packet:
        self._answers.pop(packet_id, None)
        self._send(packet)
        self._wait(lambda: packet_id in self._answers or not self.is_open, f"the answer to {type(packet).__name__}")
        if packet_id not in self._answers:
            raise AssertionError(f"the connection was closed: {self.reason} {self.reason_string}".rstrip())
        return self._answers.pop(packet_id)

    def _wait(self, is_done: Any, what: str) -> None:
        """Let the server work until it is so; for what code of the application waits for, time passes. Raises AssertionError."""
        for number in range(130):
            if is_done():
                return
            if number < 10:
                self._instance.settle()
            else:
                self._instance.advance(0.1)
        raise AssertionError(f"{what} does not come")


def connect_packet(
    client_id: str,
    version: int,
    clean: bool,
    username: str | None,
    password: str | None,
    keep_alive: int,
    will: Any,
    properties: Properties,
) -> Connect:
    """`will`: (topic, payload) with QoS, RETAIN and properties behind, or None."""
    found = None
    if will is not None:
        topic, payload, *rest = will
        found = Will(topic, payload if isinstance(payload, bytes) else json.dumps(payload).encode(), *rest)
    secret = None if password is None else password.encode()
    return Connect(version, client_id, clean, keep_alive, username, secret, found, properties)


__all__ = ["V3", "V5", "Message", "MqttClient", "connect_packet"]
