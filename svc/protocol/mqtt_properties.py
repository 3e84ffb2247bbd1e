"""Properties of MQTT 5 packets (MQTT 5 §2.2.2): bytes <-> mapping, and which property may be in which packet.

A mapping has the identifiers below as keys. A User Property has a list of (name, value), a Subscription Identifier a list of numbers, since one PUBLISH
may have several; all others have one value.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from svc.protocol.mqtt_values import (
    MALFORMED,
    PROTOCOL_ERROR,
    PacketError,
    binary,
    read_binary,
    read_string,
    read_variable,
    string,
    variable,
)

PAYLOAD_FORMAT: Final = 1
MESSAGE_EXPIRY: Final = 2  # seconds
CONTENT_TYPE: Final = 3
RESPONSE_TOPIC: Final = 8
CORRELATION_DATA: Final = 9
SUBSCRIPTION_ID: Final = 11
SESSION_EXPIRY: Final = 17  # seconds; NEVER: it does not expire
ASSIGNED_CLIENT_ID: Final = 18
SERVER_KEEP_ALIVE: Final = 19  # seconds
AUTHENTICATION_METHOD: Final = 21
AUTHENTICATION_DATA: Final = 22
REQUEST_PROBLEM_INFORMATION: Final = 23
WILL_DELAY: Final = 24  # seconds
REQUEST_RESPONSE_INFORMATION: Final = 25
RESPONSE_INFORMATION: Final = 26
SERVER_REFERENCE: Final = 28
REASON_STRING: Final = 31
RECEIVE_MAXIMUM: Final = 33
TOPIC_ALIAS_MAXIMUM: Final = 34
TOPIC_ALIAS: Final = 35
MAXIMUM_QOS: Final = 36
RETAIN_AVAILABLE: Final = 37
USER_PROPERTY: Final = 38
MAXIMUM_PACKET_SIZE: Final = 39  # bytes
WILDCARD_AVAILABLE: Final = 40
SUBSCRIPTION_IDS_AVAILABLE: Final = 41
SHARED_AVAILABLE: Final = 42

NEVER: Final = 0xFFFFFFFF

CONNECT: Final = 1
CONNACK: Final = 2
PUBLISH: Final = 3
PUBACK: Final = 4
PUBREC: Final = 5
PUBREL: Final = 6
PUBCOMP: Final = 7
SUBSCRIBE: Final = 8
SUBACK: Final = 9
UNSUBSCRIBE: Final = 10
UNSUBACK: Final = 11
PINGREQ: Final = 12
PINGRESP: Final = 13
DISCONNECT: Final = 14
AUTH: Final = 15
WILL: Final = 16  # no packet: the will's properties in CONNECT

Properties = Mapping[int, Any]
NO_PROPERTIES: Properties = MappingProxyType({})

BYTE, TWO, FOUR, VARIABLE, STRING, BINARY, PAIR = range(7)  # forms of a value

_ACKS = (PUBACK, PUBREC, PUBREL, PUBCOMP, SUBACK, UNSUBACK)

TABLE: Final[dict[int, tuple[int, str, tuple[int, ...]]]] = {
    PAYLOAD_FORMAT: (BYTE, "Payload Format Indicator", (PUBLISH, WILL)),
    MESSAGE_EXPIRY: (FOUR, "Message Expiry Interval", (PUBLISH, WILL)),
    CONTENT_TYPE: (STRING, "Content Type", (PUBLISH, WILL)),
    RESPONSE_TOPIC: (STRING, "Response Topic", (PUBLISH, WILL)),
    CORRELATION_DATA: (BINARY, "Correlation Data", (PUBLISH, WILL)),
    SUBSCRIPTION_ID: (VARIABLE, "Subscription Identifier", (PUBLISH, SUBSCRIBE)),
    SESSION_EXPIRY: (FOUR, "Session Expiry Interval", (CONNECT, CONNACK, DISCONNECT)),
    ASSIGNED_CLIENT_ID: (STRING, "Assigned Client Identifier", (CONNACK,)),
    SERVER_KEEP_ALIVE: (TWO, "Server Keep Alive", (CONNACK,)),
    AUTHENTICATION_METHOD: (STRING, "Authentication Method", (CONNECT, CONNACK, AUTH)),
    AUTHENTICATION_DATA: (BINARY, "Authentication Data", (CONNECT, CONNACK, AUTH)),
    REQUEST_PROBLEM_INFORMATION: (BYTE, "Request Problem Information", (CONNECT,)),
    WILL_DELAY: (FOUR, "Will Delay Interval", (WILL,)),
    REQUEST_RESPONSE_INFORMATION: (BYTE, "Request Response Information", (CONNECT,)),
    RESPONSE_INFORMATION: (STRING, "Response Information", (CONNACK,)),
    SERVER_REFERENCE: (STRING, "Server Reference", (CONNACK, DISCONNECT)),
    REASON_STRING: (STRING, "Reason String", (CONNACK, *_ACKS, DISCONNECT, AUTH)),
    RECEIVE_MAXIMUM: (TWO, "Receive Maximum", (CONNECT, CONNACK)),
    TOPIC_ALIAS_MAXIMUM: (TWO, "Topic Alias Maximum", (CONNECT, CONNACK)),
    TOPIC_ALIAS: (TWO, "Topic Alias", (PUBLISH,)),
    MAXIMUM_QOS: (BYTE, "Maximum QoS", (CONNACK,)),
    RETAIN_AVAILABLE: (BYTE, "Retain Available", (CONNACK,)),
    USER_PROPERTY: (PAIR, "User Property", (CONNECT, CONNACK, PUBLISH, WILL, *_ACKS, SUBSCRIBE, UNSUBSCRIBE, DISCONNECT, AUTH)),
    MAXIMUM_PACKET_SIZE: (FOUR, "Maximum Packet Size", (CONNECT, CONNACK)),
    WILDCARD_AVAILABLE: (BYTE, "Wildcard Subscription Available", (CONNACK,)),
    SUBSCRIPTION_IDS_AVAILABLE: (BYTE, "Subscription Identifier Available", (CONNACK,)),
    SHARED_AVAILABLE: (BYTE, "Shared Subscription Available", (CONNACK,)),
}
"""Identifier -> (form, name, the packets it may be in)."""

_NOT_ZERO = frozenset((RECEIVE_MAXIMUM, MAXIMUM_PACKET_SIZE, SUBSCRIPTION_ID))
_FORMS = {(packet, key): form for key, (form, _, packets) in TABLE.items() for packet in packets}


def read_properties(data: bytes, at: int, end: int, packet: int) -> tuple[Properties, int]:
    """The properties at `at`, with the length in front, of a packet that goes up to `end`; and where they end.

    Raises PacketError for one that is unknown, may not be in this packet, comes twice, or has a value that is not allowed.
    """
    if at < end and not data[at]:
        return NO_PROPERTIES, at + 1
    length, at = read_variable(data, at, end)
    stop = at + length
    if stop > end:
        raise PacketError(MALFORMED, "properties are longer than the packet")
    found: dict[int, Any] = {}
    while at < stop:
        key = data[at]
        form = _FORMS.get((packet, key))
        if form is None:
            raise PacketError(MALFORMED, _refusal(key, packet))
        value, at = _read_value(data, at + 1, stop, form)
        if form == PAIR or (key == SUBSCRIPTION_ID and packet == PUBLISH):
            found.setdefault(key, []).append(value)
        elif key in found:
            raise PacketError(PROTOCOL_ERROR, f"{TABLE[key][1]} comes twice")
        else:
            found[key] = [value] if key == SUBSCRIPTION_ID else value
        if (form == BYTE and value > 1) or (value == 0 and key in _NOT_ZERO):
            raise PacketError(PROTOCOL_ERROR, f"{TABLE[key][1]} {value}")
    if AUTHENTICATION_DATA in found and AUTHENTICATION_METHOD not in found:
        raise PacketError(PROTOCOL_ERROR, "Authentication Data without a method")
    return found, at


def _refusal(key: int, packet: int) -> str:
    return f"property {key} is unknown" if key not in TABLE else f"{TABLE[key][1]} cannot be in a packet of type {packet}"


def _read_value(data: bytes, at: int, end: int, form: int) -> tuple[Any, int]:
    if form == STRING:
        return read_string(data, at, end)
    if form == BINARY:
        return read_binary(data, at, end)
    if form == PAIR:
        name, at = read_string(data, at, end)
        value, at = read_string(data, at, end)
        return (name, value), at
    if form == VARIABLE:
        return read_variable(data, at, end)
    size = 1 if form == BYTE else 2 if form == TWO else 4
    if at + size > end:
        raise PacketError(MALFORMED, "a property is cut short")
    return int.from_bytes(data[at : at + size]), at + size


def encode_properties(properties: Properties) -> bytes:
    """With their length in front.

    >>> encode_properties({TOPIC_ALIAS: 3, USER_PROPERTY: [("a", "b")]}), encode_properties({})
    (b'\\n#\\x00\\x03&\\x00\\x01a\\x00\\x01b', b'\\x00')
    """
    if not properties:
        return b"\0"
    parts: list[bytes] = []
    for key, value in properties.items():
        form = TABLE[key][0]
        for each in value if form == PAIR or key == SUBSCRIPTION_ID else (value,):
            parts.append(bytes((key,)))
            parts.append(_encode_value(each, form))
    body = b"".join(parts)
    return variable(len(body)) + body


def _encode_value(value: Any, form: int) -> bytes:
    if form == STRING:
        return string(value)
    if form == BINARY:
        return binary(value)
    if form == PAIR:
        return string(value[0]) + string(value[1])
    if form == VARIABLE:
        return variable(value)
    return int(value).to_bytes(1 if form == BYTE else 2 if form == TWO else 4)
