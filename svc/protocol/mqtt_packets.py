"""The packets of MQTT 3.1.1 and 5, as the codec reads and writes them (MQTT 5 §3).

Version 3.1.1 has no properties, and reason codes only in CONNACK and SUBACK: there they are 0 and empty. Flat classes, not changed after they are made.
"""

from __future__ import annotations

from msgspec import Struct

from svc.protocol.mqtt_properties import NO_PROPERTIES, Properties

V3: int = 4  # protocol level of MQTT 3.1.1
V5: int = 5


class Will(Struct, gc=False):
    topic: str
    payload: bytes
    qos: int = 0
    retain: bool = False
    properties: Properties = NO_PROPERTIES


class Connect(Struct, gc=False):
    """`clean`: Clean Session of 3.1.1, Clean Start of 5. `keep_alive`: seconds, 0: none."""

    version: int
    client_id: str
    clean: bool = True
    keep_alive: int = 0
    username: str | None = None
    password: bytes | None = None
    will: Will | None = None
    properties: Properties = NO_PROPERTIES

    def __repr__(self) -> str:
        """Without the password, for logs."""
        shown = (f"{name}={getattr(self, name)!r}" for name in self.__struct_fields__ if name != "password")
        return f"Connect({', '.join(shown)}, password={None if self.password is None else '***'})"


class Connack(Struct, gc=False):
    """`reason`: a return code of 3.1.1 (0 to 5), a reason code of 5."""

    session_present: bool
    reason: int
    properties: Properties = NO_PROPERTIES


class Publish(Struct, gc=False):
    """`packet_id`: 0 at QoS 0."""

    topic: str
    payload: bytes
    qos: int = 0
    retain: bool = False
    dup: bool = False
    packet_id: int = 0
    properties: Properties = NO_PROPERTIES


class Ack(Struct, gc=False):
    """`kind`: PUBACK, PUBREC, PUBREL or PUBCOMP."""

    kind: int
    packet_id: int
    reason: int = 0
    properties: Properties = NO_PROPERTIES


class Subscription(Struct, gc=False, frozen=True):
    """A filter of SUBSCRIBE with its options. `retain_handling`: 0 current records are sent, 1 only for a new subscription, 2 never."""

    filter: str
    qos: int = 0
    no_local: bool = False
    retain_as_published: bool = False
    retain_handling: int = 0


class Subscribe(Struct, gc=False):
    packet_id: int
    subscriptions: list[Subscription]
    properties: Properties = NO_PROPERTIES


class Suback(Struct, gc=False):
    """`reasons`: for each filter the QoS that is granted, or why not."""

    packet_id: int
    reasons: list[int]
    properties: Properties = NO_PROPERTIES


class Unsubscribe(Struct, gc=False):
    packet_id: int
    filters: list[str]
    properties: Properties = NO_PROPERTIES


class Unsuback(Struct, gc=False):
    """`reasons`: for each filter; none in 3.1.1."""

    packet_id: int
    reasons: list[int]
    properties: Properties = NO_PROPERTIES


class Ping(Struct, gc=False):
    """PINGREQ, or with `is_answer` PINGRESP."""

    is_answer: bool = False


class Disconnect(Struct, gc=False):
    reason: int = 0
    properties: Properties = NO_PROPERTIES


class Auth(Struct, gc=False):
    """Only in version 5."""

    reason: int = 0
    properties: Properties = NO_PROPERTIES


Packet = Connect | Connack | Publish | Ack | Subscribe | Suback | Unsubscribe | Unsuback | Ping | Disconnect | Auth
