"""MQTT 3.1.1 and 5: bytes <-> packets, for either side (MQTT 5 §2, §3; sans-IO).

    reader = PacketReader(largest=1 << 20)
    reader.feed(data)
    while (packet := reader.next_packet()) is not None: ...

The reader knows no state but the version, which the first CONNECT tells it. What a packet may not have by itself is refused here; what depends on those
before it, or on who has sent it, is the session's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from svc.protocol.mqtt_packets import (
    V3,
    V5,
    Ack,
    Auth,
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
    AUTH,
    CONNACK,
    CONNECT,
    DISCONNECT,
    NO_PROPERTIES,
    PINGREQ,
    PINGRESP,
    PUBACK,
    PUBCOMP,
    PUBLISH,
    PUBREC,
    PUBREL,
    RESPONSE_TOPIC,
    SUBACK,
    SUBSCRIBE,
    TOPIC_ALIAS,
    UNSUBACK,
    UNSUBSCRIBE,
    WILL,
    Properties,
    encode_properties,
    read_properties,
)
from svc.protocol.mqtt_topics import SHARE, has_wildcard
from svc.protocol.mqtt_values import (
    ALIAS_INVALID,
    CONNACK_REASONS,
    LARGEST,
    MALFORMED,
    PROTOCOL_ERROR,
    QUOTA_EXCEEDED,
    TOO_LARGE,
    TOPIC_INVALID,
    UNSUPPORTED_VERSION,
    PacketError,
    binary,
    read_binary,
    read_string,
    string,
    variable,
)

LARGEST_OTHER: Final = 1 << 18  # bytes of a packet that is no message
MOST_FILTERS: Final = 1000  # in a packet

_NAME: Final = b"\0\4MQTT"
_PINGREQ, _PINGRESP = Ping(), Ping(True)

_ACK_REASONS: Final = {
    PUBACK: frozenset((0x00, 0x10, 0x80, 0x83, 0x87, 0x90, 0x91, 0x97, 0x99)),
    PUBREL: frozenset((0x00, 0x92)),
}
_ACK_REASONS[PUBREC], _ACK_REASONS[PUBCOMP] = _ACK_REASONS[PUBACK], _ACK_REASONS[PUBREL]
_SUBACK_REASONS: Final = frozenset((0x00, 0x01, 0x02, 0x80, 0x83, 0x87, 0x8F, 0x91, 0x97, 0x9E, 0xA1, 0xA2))
_UNSUBACK_REASONS: Final = frozenset((0x00, 0x11, 0x80, 0x83, 0x87, 0x8F, 0x91))
_DISCONNECT_REASONS: Final = frozenset((0, 4, *range(0x80, 0x84), 0x87, 0x89, 0x8B, *range(0x8D, 0x91), *range(0x93, 0xA3)))
_AUTH_REASONS: Final = frozenset((0, 0x18, 0x19))


class PacketReader:
    """`largest`: bytes of a packet; `version`: None until CONNECT has been read, for a server."""

    __slots__ = ("_at", "_data", "_have", "_largest", "_need", "_parts", "version")

    def __init__(self, largest: int = LARGEST + 5, version: int | None = None) -> None:
        self.version = version
        self._largest = largest
        self._data = b""
        self._at = 0
        self._parts: list[bytes] = []  # of a packet that is longer than what has come
        self._have = 0
        self._need = 0

    def feed(self, data: bytes) -> None:
        """More from the peer. All packets before must have been taken."""
        if self._need:
            self._parts.append(data)
            self._have += len(data)
            if self._have < self._need:
                return
            data = b"".join(self._parts)
            self._parts.clear()
            self._need = self._have = 0
        elif self._at < len(self._data):
            data = self._data[self._at :] + data
        self._data, self._at = data, 0

    @property
    def is_between(self) -> bool:
        """Whether no packet has begun that is not complete."""
        return not self._need and self._at >= len(self._data)

    def next_packet(self) -> Packet | None:
        """The next one; None: more has to be fed. Raises PacketError for a wrong one, once it is complete or too large; nothing can be read then."""
        data, at = self._data, self._at
        have = len(data)
        if have - at < 2:
            if have == at and at:
                self._data, self._at = b"", 0  # a large packet is not held until the next one
            return None
        first, length = data[at], data[at + 1]
        start = at + 2
        if length > 0x7F:
            found = self._long_length(data, at + 1)
            if found is None:
                return None
            length, start = found
        end = start + length
        largest = self._largest
        if end - at > largest:
            raise PacketError(TOO_LARGE, f"a packet of {end - at} bytes: at most {largest} are taken")
        if end > have:
            if first >> 4 != PUBLISH:
                _check_other(first, end - at, self.version)
            self._parts.append(data[at:])
            self._have, self._need = have - at, end - at
            self._data, self._at = b"", 0
            return None
        self._at = end
        if first >> 4 == PUBLISH:
            return self._publish(data, start, end, first)
        return self._other(data, start, end, first)

    @staticmethod
    def _long_length(data: bytes, at: int) -> tuple[int, int] | None:
        """Remaining Length of more than one byte, and where it ends; None: it is not complete."""
        value = 0
        for number in range(4):
            if at >= len(data):
                return None
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << 7 * number
            if byte < 0x80:
                if not byte:
                    raise PacketError(MALFORMED, "a length in more bytes than it needs")
                return value, at
        raise PacketError(MALFORMED, "a length of more than four bytes")

    def _publish(self, data: bytes, at: int, end: int, first: int) -> Publish:
        version = self.version
        if version is None:
            raise PacketError(PROTOCOL_ERROR, "the first packet is not CONNECT")
        qos = first >> 1 & 3
        dup = first & 8 != 0
        if qos == 3 or (dup and not qos):
            raise PacketError(MALFORMED, "PUBLISH with QoS 3" if qos else "PUBLISH with DUP at QoS 0")
        start = at + 2
        if start > end or (at := start + (data[at] << 8 | data[at + 1])) > end:
            raise PacketError(MALFORMED, "PUBLISH is cut short")
        try:
            topic = data[start:at].decode()
        except UnicodeDecodeError:
            raise PacketError(MALFORMED, "a topic that is not UTF-8") from None
        if "\0" in topic:
            raise PacketError(MALFORMED, "a topic with U+0000")
        if "+" in topic or "#" in topic:
            raise PacketError(TOPIC_INVALID, "a message cannot be sent to a filter")
        packet_id = 0
        if qos:
            packet_id, at = _packet_id(data, at, end)
        properties = NO_PROPERTIES
        if version == V5:
            properties, at = read_properties(data, at, end, PUBLISH)
            if properties:
                _check_publish(properties)
        if not topic and TOPIC_ALIAS not in properties:
            raise PacketError(PROTOCOL_ERROR if version == V5 else MALFORMED, "PUBLISH without a topic")
        return Publish(topic, data[at:end], qos, first & 1 != 0, dup, packet_id, properties)

    def _other(self, data: bytes, at: int, end: int, first: int) -> Packet:
        kind, flags = first >> 4, first & 15
        version = self.version
        if version is None:
            if kind != CONNECT:
                raise PacketError(PROTOCOL_ERROR, "the first packet is not CONNECT")
            version = V5
        read = _READERS.get(kind)
        if read is None or flags != (2 if kind in _WITH_FLAG else 0) or (kind == AUTH and version != V5):
            raise PacketError(MALFORMED, f"a packet of type {kind} with flags {flags}")
        packet, at = read(data, at, end, version, kind)
        if at != end:
            raise PacketError(MALFORMED, f"{end - at} bytes too many in a packet of type {kind}")
        if kind == CONNECT and self.version is None:
            assert isinstance(packet, Connect)
            self.version = packet.version
        return packet


def _check_other(first: int, length: int, version: int | None) -> None:
    """Of a packet that is no message and has not come as a whole. A first packet may be of any protocol."""
    if version is None and first >> 4 != CONNECT:
        raise PacketError(PROTOCOL_ERROR, "the first packet is not CONNECT")
    if length > LARGEST_OTHER:
        raise PacketError(TOO_LARGE, f"a packet of type {first >> 4} and {length} bytes: at most {LARGEST_OTHER} are taken")


def _check_count(filters: list[Any]) -> None:
    if len(filters) >= MOST_FILTERS:
        raise PacketError(QUOTA_EXCEEDED, f"more than {MOST_FILTERS} filters in one packet")


_WITH_FLAG: Final = frozenset((PUBREL, SUBSCRIBE, UNSUBSCRIBE))


def _packet_id(data: bytes, at: int, end: int) -> tuple[int, int]:
    if at + 2 > end:
        raise PacketError(MALFORMED, "a packet identifier is cut short")
    found = data[at] << 8 | data[at + 1]
    if not found:
        raise PacketError(PROTOCOL_ERROR, "packet identifier 0")
    return found, at + 2


def _check_publish(properties: Properties) -> None:
    if properties.get(TOPIC_ALIAS) == 0:
        raise PacketError(ALIAS_INVALID, "Topic Alias 0")
    answer = properties.get(RESPONSE_TOPIC)
    if answer is not None and (not answer or has_wildcard(answer)):
        raise PacketError(PROTOCOL_ERROR, "Response Topic is not the name of a topic")


# --- readers of a packet: (data, at, end, version, kind) -> packet, and where it ends ----------------------------------------------------


def _connect(data: bytes, at: int, end: int, version: int, kind: int) -> tuple[Connect, int]:
    name, at = read_binary(data, at, end)
    if at + 4 > end:
        raise PacketError(MALFORMED, "CONNECT is cut short")
    version, flags = data[at], data[at + 1]
    if name != _NAME[2:] or version not in (V3, V5):
        raise PacketError(UNSUPPORTED_VERSION if name in (_NAME[2:], b"MQIsdp") else MALFORMED, f"protocol {name!r}, level {version}")
    keep_alive = data[at + 2] << 8 | data[at + 3]
    at += 4
    will_qos = flags >> 3 & 3
    if flags & 1 or will_qos == 3 or (not flags & 4 and flags & 0x38) or (version == V3 and flags & 0xC0 == 0x40):
        raise PacketError(MALFORMED, f"flags {flags:#04x} of CONNECT")
    properties = NO_PROPERTIES
    if version == V5:
        properties, at = read_properties(data, at, end, CONNECT)
    client_id, at = read_string(data, at, end)
    will = username = password = None
    if flags & 4:
        will_properties = NO_PROPERTIES
        if version == V5:
            will_properties, at = read_properties(data, at, end, WILL)
            _check_publish(will_properties)
        topic, at = read_string(data, at, end)
        payload, at = read_binary(data, at, end)
        if not topic or has_wildcard(topic):
            raise PacketError(TOPIC_INVALID, "the will has no topic, or a filter")
        will = Will(topic, payload, will_qos, flags & 0x20 != 0, will_properties)
    if flags & 0x80:
        username, at = read_string(data, at, end)
    if flags & 0x40:
        password, at = read_binary(data, at, end)
    return Connect(version, client_id, flags & 2 != 0, keep_alive, username, password, will, properties), at


def _connack(data: bytes, at: int, end: int, version: int, kind: int) -> tuple[Connack, int]:
    if at + 2 > end or data[at] > 1:
        raise PacketError(MALFORMED, "CONNACK is cut short, or has a reserved flag")
    present, reason = data[at] == 1, data[at + 1]
    if reason not in CONNACK_REASONS if version == V5 else reason > 5:
        raise PacketError(PROTOCOL_ERROR, f"code {reason:#04x} in CONNACK")
    properties, at = read_properties(data, at + 2, end, CONNACK) if version == V5 else (NO_PROPERTIES, at + 2)
    return Connack(present, reason, properties), at


def _ack(data: bytes, at: int, end: int, version: int, kind: int) -> tuple[Ack, int]:
    packet_id, at = _packet_id(data, at, end)
    if at == end or version != V5:
        return Ack(kind, packet_id), at
    reason = data[at]
    if reason not in _ACK_REASONS[kind]:
        raise PacketError(PROTOCOL_ERROR, f"code {reason:#04x} in a packet of type {kind}")
    at += 1
    if at == end:
        return Ack(kind, packet_id, reason), at
    properties, at = read_properties(data, at, end, kind)
    return Ack(kind, packet_id, reason, properties), at


def _subscribe(data: bytes, at: int, end: int, version: int, kind: int) -> tuple[Subscribe, int]:
    packet_id, at = _packet_id(data, at, end)
    properties, at = read_properties(data, at, end, kind) if version == V5 else (NO_PROPERTIES, at)
    found: list[Subscription] = []
    while at < end:
        topic, at = read_string(data, at, end)
        if at == end:
            raise PacketError(MALFORMED, "SUBSCRIBE is cut short")
        options = data[at]
        at += 1
        qos = options & 3
        if not topic or options & (0xC0 if version == V5 else 0xFC):
            raise PacketError(MALFORMED, f"an empty filter, or options {options:#04x}")
        if qos == 3 or options >> 4 == 3:
            raise PacketError(PROTOCOL_ERROR, f"{'QoS' if qos == 3 else 'Retain Handling'} 3")
        if options & 4 and topic.startswith(SHARE):
            raise PacketError(PROTOCOL_ERROR, "No Local on a shared subscription")
        _check_count(found)
        found.append(Subscription(topic, qos, options & 4 != 0, options & 8 != 0, options >> 4))
    if not found:
        raise PacketError(PROTOCOL_ERROR, "SUBSCRIBE without a filter")
    return Subscribe(packet_id, found, properties), at


def _unsubscribe(data: bytes, at: int, end: int, version: int, kind: int) -> tuple[Unsubscribe, int]:
    packet_id, at = _packet_id(data, at, end)
    properties, at = read_properties(data, at, end, kind) if version == V5 else (NO_PROPERTIES, at)
    found: list[str] = []
    while at < end:
        topic, at = read_string(data, at, end)
        if not topic:
            raise PacketError(MALFORMED, "an empty filter")
        _check_count(found)
        found.append(topic)
    if not found:
        raise PacketError(PROTOCOL_ERROR, "UNSUBSCRIBE without a filter")
    return Unsubscribe(packet_id, found, properties), at


def _answers(data: bytes, at: int, end: int, version: int, kind: int) -> tuple[Suback | Unsuback, int]:
    packet_id, at = _packet_id(data, at, end)
    properties, at = read_properties(data, at, end, kind) if version == V5 else (NO_PROPERTIES, at)
    reasons = list(data[at:end])
    if kind == SUBACK:
        allowed = _SUBACK_REASONS if version == V5 else (0, 1, 2, 0x80)
        if not reasons or not all(reason in allowed for reason in reasons):
            raise PacketError(PROTOCOL_ERROR, f"codes {reasons} in SUBACK")
        return Suback(packet_id, reasons, properties), end
    if version != V5:
        return Unsuback(packet_id, []), at
    if not reasons or not all(reason in _UNSUBACK_REASONS for reason in reasons):
        raise PacketError(PROTOCOL_ERROR, f"codes {reasons} in UNSUBACK")
    return Unsuback(packet_id, reasons, properties), end


def _ping(data: bytes, at: int, end: int, version: int, kind: int) -> tuple[Ping, int]:
    return (_PINGREQ if kind == PINGREQ else _PINGRESP), at


def _disconnect(data: bytes, at: int, end: int, version: int, kind: int) -> tuple[Disconnect | Auth, int]:
    if version != V5 or at == end:
        return (Disconnect() if kind == DISCONNECT else Auth()), at
    reason = data[at]
    if reason not in (_DISCONNECT_REASONS if kind == DISCONNECT else _AUTH_REASONS):
        raise PacketError(PROTOCOL_ERROR, f"code {reason:#04x} in a packet of type {kind}")
    at += 1
    properties, at = (NO_PROPERTIES, at) if at == end else read_properties(data, at, end, kind)
    return (Disconnect(reason, properties) if kind == DISCONNECT else Auth(reason, properties)), at


_READERS: Final[dict[int, Callable[[bytes, int, int, int, int], tuple[Packet, int]]]] = {
    CONNECT: _connect,
    CONNACK: _connack,
    PUBACK: _ack,
    PUBREC: _ack,
    PUBREL: _ack,
    PUBCOMP: _ack,
    SUBSCRIBE: _subscribe,
    SUBACK: _answers,
    UNSUBSCRIBE: _unsubscribe,
    UNSUBACK: _answers,
    PINGREQ: _ping,
    PINGRESP: _ping,
    DISCONNECT: _disconnect,
    AUTH: _disconnect,
}


# --- writing -----------------------------------------------------------------------------------------------------------------------------


def encode(packet: Packet, version: int) -> bytes:
    """A packet for a peer of this version; 3.1.1 leaves out what it does not have. Raises ValueError for strings and data that do not fit."""
    if type(packet) is Publish:
        head, tail = publish_parts(packet, version)
        return b"".join((head, packet.packet_id.to_bytes(2), tail)) if packet.qos else head + tail
    first, body = _BODIES[type(packet)](packet, version)
    return bytes((first,)) + variable(len(body)) + body


def publish_parts(packet: Publish, version: int) -> tuple[bytes, bytes]:
    """What is in front of the packet identifier and what is behind it, to send one message to many; at QoS 0 there is none in between."""
    topic = string(packet.topic)
    tail = encode_properties(packet.properties) + packet.payload if version == V5 else packet.payload
    length = len(topic) + len(tail) + (2 if packet.qos else 0)
    first = 0x30 | packet.dup << 3 | packet.qos << 1 | packet.retain
    return (bytes((first, length)) if length < 0x80 else bytes((first,)) + variable(length)) + topic, tail


def ack(kind: int, packet_id: int) -> bytes:
    """PUBACK, PUBREC, PUBREL or PUBCOMP that says success, in both versions.

    >>> ack(PUBACK, 10), ack(PUBREL, 10)
    (b'@\\x02\\x00\\n', b'b\\x02\\x00\\n')
    """
    return bytes((kind << 4 | (2 if kind == PUBREL else 0), 2, packet_id >> 8, packet_id & 0xFF))


def _properties(packet: Connect | Connack | Subscribe | Suback | Unsubscribe | Unsuback | Will, version: int) -> bytes:
    return encode_properties(packet.properties) if version == V5 else b""


def _connect_body(packet: Connect, version: int) -> tuple[int, bytes]:
    will = packet.will
    flags = packet.clean << 1 | (packet.password is not None) << 6 | (packet.username is not None) << 7
    parts = [_properties(packet, packet.version), string(packet.client_id)]
    if will is not None:
        flags |= 4 | will.qos << 3 | will.retain << 5
        parts += [_properties(will, packet.version), string(will.topic), binary(will.payload)]
    if packet.username is not None:
        parts.append(string(packet.username))
    if packet.password is not None:
        parts.append(binary(packet.password))
    return CONNECT << 4, b"".join((_NAME, bytes((packet.version, flags)), packet.keep_alive.to_bytes(2), *parts))


def _connack_body(packet: Connack, version: int) -> tuple[int, bytes]:
    return CONNACK << 4, bytes((packet.session_present, packet.reason)) + _properties(packet, version)


def _ack_body(packet: Ack, version: int) -> tuple[int, bytes]:
    body = packet.packet_id.to_bytes(2)
    if version == V5 and (packet.reason or packet.properties):
        body += bytes((packet.reason,))
        if packet.properties:
            body += encode_properties(packet.properties)
    return packet.kind << 4 | (2 if packet.kind == PUBREL else 0), body


def _subscribe_body(packet: Subscribe, version: int) -> tuple[int, bytes]:
    parts = [packet.packet_id.to_bytes(2), _properties(packet, version)]
    for each in packet.subscriptions:
        options = each.qos
        if version == V5:
            options |= each.no_local << 2 | each.retain_as_published << 3 | each.retain_handling << 4
        parts += [string(each.filter), bytes((options,))]
    return SUBSCRIBE << 4 | 2, b"".join(parts)


def _unsubscribe_body(packet: Unsubscribe, version: int) -> tuple[int, bytes]:
    return UNSUBSCRIBE << 4 | 2, b"".join((packet.packet_id.to_bytes(2), _properties(packet, version), *map(string, packet.filters)))


def _answers_body(packet: Suback | Unsuback, version: int) -> tuple[int, bytes]:
    kind = SUBACK if type(packet) is Suback else UNSUBACK
    reasons = packet.reasons if kind == SUBACK or version == V5 else ()
    return kind << 4, packet.packet_id.to_bytes(2) + _properties(packet, version) + bytes(reasons)


def _ping_body(packet: Ping, version: int) -> tuple[int, bytes]:
    return (PINGRESP if packet.is_answer else PINGREQ) << 4, b""


def _disconnect_body(packet: Disconnect | Auth, version: int) -> tuple[int, bytes]:
    body = b""
    if version == V5 and (packet.reason or packet.properties):
        body = bytes((packet.reason,))
        if packet.properties:
            body += encode_properties(packet.properties)
    return (DISCONNECT if type(packet) is Disconnect else AUTH) << 4, body


_BODIES: Final[dict[type, Callable[..., tuple[int, bytes]]]] = {
    Connect: _connect_body,
    Connack: _connack_body,
    Ack: _ack_body,
    Subscribe: _subscribe_body,
    Suback: _answers_body,
    Unsubscribe: _unsubscribe_body,
    Unsuback: _answers_body,
    Ping: _ping_body,
    Disconnect: _disconnect_body,
    Auth: _disconnect_body,
}
