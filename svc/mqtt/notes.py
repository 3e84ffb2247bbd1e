"""What a message says beside its topic and payload, as its entry in the log keeps it for its receivers (spec: mqtt §5, schema-and-store §13).

offset  size
0       1     QoS it was published with; 4 is added with RETAIN
1       8     number of the session that sent it
9             properties of version 5 that are passed on, with their length, as in a packet
"""

from __future__ import annotations

from typing import Any

from svc.mqtt.rows import NUMBER_BYTES
from svc.protocol.mqtt_packets import Publish
from svc.protocol.mqtt_properties import (
    CORRELATION_DATA,
    MESSAGE_EXPIRY,
    PAYLOAD_FORMAT,
    PUBLISH,
    RESPONSE_TOPIC,
    USER_PROPERTY,
    Properties,
    encode_properties,
    read_properties,
)

PASSED_ON = (PAYLOAD_FORMAT, MESSAGE_EXPIRY, RESPONSE_TOPIC, CORRELATION_DATA, USER_PROPERTY)
_RETAIN = 4
_PROPERTIES_AT = 1 + NUMBER_BYTES


class Note:
    """Of one message. `expiry`: seconds that it is of use, None: for good."""

    __slots__ = ("expiry", "properties", "qos", "retain", "session")

    def __init__(self, data: bytes) -> None:
        self.qos = data[0] & 3
        self.retain = data[0] & _RETAIN != 0
        self.session = data[1:_PROPERTIES_AT]
        found, _ = read_properties(data, _PROPERTIES_AT, len(data), PUBLISH)
        self.properties: Properties = found
        self.expiry: int | None = found.get(MESSAGE_EXPIRY)


def make_note(packet: Publish, session: bytes) -> bytes:
    given = packet.properties
    kept: dict[int, Any] = {key: given[key] for key in PASSED_ON if key in given} if given else {}
    return bytes((packet.qos | (_RETAIN if packet.retain else 0),)) + session + encode_properties(kept)


def note_of(event: Any) -> Note | None:
    """That of an event, made once; None: it was not published over MQTT, or is a current record."""
    if event.is_current:
        return None
    memo = event.memo
    found = memo.get("mqtt.note", False)
    if found is False:
        data = event.change.mqtt
        found = memo["mqtt.note"] = None if data is None else Note(data)
    return found  # type: ignore[no-any-return]
