"""The server's side of one MQTT connection: packets in their order, topic aliases, and what each version is told (sans-IO; MQTT 5 §3, §4).

    connection.receive_data(data)
    while (packet := connection.next_packet()) is not None: ...
    sock.send(connection.data_to_send())

`next_packet` raises PacketError for what a client may not send; `fail` says it to the client, and `data_to_send` has the last bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from svc.protocol.mqtt import PacketReader, encode
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
    Unsuback,
    Unsubscribe,
)
from svc.protocol.mqtt_properties import (
    MAXIMUM_PACKET_SIZE,
    NO_PROPERTIES,
    REASON_STRING,
    RECEIVE_MAXIMUM,
    REQUEST_PROBLEM_INFORMATION,
    SUBSCRIPTION_ID,
    TOPIC_ALIAS,
    TOPIC_ALIAS_MAXIMUM,
    Properties,
)
from svc.protocol.mqtt_states import CONNECTION, ConnectionInput, ConnectionState
from svc.protocol.mqtt_values import (
    ALIAS_INVALID,
    BAD_CREDENTIALS,
    BANNED,
    CLIENT_ID_INVALID,
    LARGEST,
    NOT_AUTHORIZED,
    PROTOCOL_ERROR,
    TOO_LARGE,
    UNSUPPORTED_VERSION,
    PacketError,
)

Answer = Connack | Ack | Suback | Unsuback | Disconnect

ALIASES: Final = 64  # in either direction

_V3_CODES: Final = {UNSUPPORTED_VERSION: 1, CLIENT_ID_INVALID: 2, BAD_CREDENTIALS: 4, NOT_AUTHORIZED: 5, BANNED: 5}
_V3_UNAVAILABLE: Final = 3
_FROM_CLIENTS: Final = frozenset((Publish, Ack, Subscribe, Unsubscribe, Ping, Disconnect, Auth))
_PONG: Final = encode(Ping(True), V3)


class MqttConnection:
    """`version`: 4 (MQTT 3.1.1) or 5, as CONNECT says. `keep_alive`: seconds, 0: none. `receive_maximum`, `largest_sent`: what the client takes.
    `on_answer`: called with the bytes of each packet that is sent and is no message."""

    __slots__ = (
        "_aliases",
        "_out",
        "_reader",
        "_sent_aliases",
        "_tells_reasons",
        "alias_maximum",
        "keep_alive",
        "largest_sent",
        "on_answer",
        "receive_maximum",
        "state",
        "version",
    )

    def __init__(self, largest: int = LARGEST) -> None:
        """`largest`: bytes of a packet that is read."""
        self.state = ConnectionState.EXPECTING
        self.version = V3
        self.keep_alive = 0
        self.receive_maximum = 0xFFFF
        self.largest_sent = LARGEST + 5
        self.alias_maximum = 0
        self._tells_reasons = True
        self.on_answer: Callable[[bytes], None] | None = None
        self._reader = PacketReader(largest)
        self._out: list[bytes] = []
        self._aliases: list[str] | None = None  # of the client: topic by alias - 1, "" for one that it has not set
        self._sent_aliases: dict[str, int] | None = None

    # --- reading -------------------------------------------------------------------------------------------------------------------------

    def receive_data(self, data: bytes) -> None:
        """All packets before must have been taken, but while CONNECT is not answered."""
        if self.state is not ConnectionState.CLOSED:
            self._reader.feed(data)

    @property
    def is_between(self) -> bool:
        """Whether the next byte is the first one of a packet, which may be any."""
        return self.state is ConnectionState.OPEN and self._reader.is_between

    def next_packet(self) -> Packet | None:
        """The next packet; its topic is there even if it came as an alias. None: more is to come, or CONNECT is to be answered first. Raises PacketError."""
        if self.state in (ConnectionState.DECIDING, ConnectionState.CLOSED):
            return None
        packet = self._reader.next_packet()
        if packet is None:
            return None
        if self.state is ConnectionState.EXPECTING:
            self._connect(packet)
            return packet
        kind = type(packet)
        if kind not in _FROM_CLIENTS or (kind is Ping and packet.is_answer):  # type: ignore[union-attr]
            raise PacketError(PROTOCOL_ERROR, f"{kind.__name__} is not for a client to send" if kind is not Connect else "a second CONNECT")
        if kind is Publish and packet.properties:  # type: ignore[union-attr]
            self._resolve_alias(packet)  # type: ignore[arg-type]
        return packet

    def _connect(self, packet: Packet) -> None:
        assert isinstance(packet, Connect)  # the reader takes nothing else
        self.version = packet.version
        self.keep_alive = packet.keep_alive
        properties = packet.properties
        self.receive_maximum = properties.get(RECEIVE_MAXIMUM, 0xFFFF)
        self.largest_sent = properties.get(MAXIMUM_PACKET_SIZE, LARGEST + 5)
        self.alias_maximum = min(properties.get(TOPIC_ALIAS_MAXIMUM, 0), ALIASES)
        self._tells_reasons = properties.get(REQUEST_PROBLEM_INFORMATION, 1) == 1
        self.state = CONNECTION[self.state][ConnectionInput.CONNECT]

    def _resolve_alias(self, packet: Publish) -> None:
        properties = packet.properties
        if SUBSCRIPTION_ID in properties:
            raise PacketError(PROTOCOL_ERROR, "a client has sent a Subscription Identifier with a message")
        alias = properties.get(TOPIC_ALIAS)
        if alias is None:
            return
        if alias > ALIASES:
            raise PacketError(ALIAS_INVALID, f"Topic Alias {alias}: at most {ALIASES}")
        if self._aliases is None:
            self._aliases = []
        aliases = self._aliases
        if packet.topic:
            aliases.extend([""] * (alias - len(aliases)))
            aliases[alias - 1] = packet.topic
        elif alias > len(aliases) or not aliases[alias - 1]:
            raise PacketError(PROTOCOL_ERROR, f"Topic Alias {alias} has no topic")
        else:
            packet.topic = aliases[alias - 1]

    # --- writing -------------------------------------------------------------------------------------------------------------------------

    def accept(self, *, session_present: bool = False, properties: Properties = NO_PROPERTIES) -> None:
        """CONNECT is answered; what follows it can be read."""
        self.state = CONNECTION[self.state][ConnectionInput.ACCEPT]
        self._put(encode(Connack(session_present, 0, properties), self.version))

    def refuse(self, reason: int, message: str = "") -> None:
        """CONNECT is refused with a code of version 5; 3.1.1 is told the nearest of its own. The connection ends."""
        code = reason if self.version == V5 else _V3_CODES.get(reason, _V3_UNAVAILABLE)
        self._say_last(Connack(False, code, {REASON_STRING: message} if message else NO_PROPERTIES))

    def fail(self, error: PacketError) -> None:
        """Say what was wrong, if the version has words for it. The connection ends. A wrong first packet gets no answer but of the version."""
        if self.state is ConnectionState.EXPECTING:
            if error.reason == UNSUPPORTED_VERSION:
                self._put(encode(Connack(False, 1), V3))
            self._end()
        elif self.state is ConnectionState.DECIDING:
            self.refuse(error.reason, str(error))
        else:
            # The code of another version is one of CONNACK alone: here it is of a second CONNECT.
            self.disconnect(PROTOCOL_ERROR if error.reason == UNSUPPORTED_VERSION else error.reason, str(error))

    def disconnect(self, reason: int, message: str = "", properties: Properties = NO_PROPERTIES) -> None:
        """End the connection: version 5 is told why, 3.1.1 is only closed."""
        if self.state is ConnectionState.OPEN and self.version == V5:
            self._say_last(Disconnect(reason, {**properties, REASON_STRING: message} if message else properties))
        else:
            self._end()

    def closed(self) -> None:
        """The client has sent DISCONNECT, or is gone."""
        self._out.clear()
        self._end()

    def _say_last(self, packet: Connack | Disconnect) -> None:
        try:
            self._put(self.answer(packet))
        except PacketError:
            pass  # it takes less than a code
        self._end()

    def _end(self) -> None:
        self.state = CONNECTION[self.state][ConnectionInput.END]

    def answer(self, packet: Answer) -> bytes:
        """The bytes of an answer. Its reason string is left out if the packet would be too large, or if the client does not want it (but in CONNACK and
        DISCONNECT: MQTT-3.1.2-29). Raises PacketError: it is too large all the same."""
        data = encode(packet, self.version)
        kept = self._tells_reasons or type(packet) is Connack or type(packet) is Disconnect
        if REASON_STRING in packet.properties and (not kept or len(data) > self.largest_sent):
            packet.properties = {key: value for key, value in packet.properties.items() if key != REASON_STRING}
            data = encode(packet, self.version)
        if len(data) > self.largest_sent:
            raise PacketError(TOO_LARGE, f"an answer of {len(data)} bytes: the client takes at most {self.largest_sent}")
        return data

    def send(self, packet: Answer) -> None:
        """Raises PacketError: see `answer`."""
        self.say(self.answer(packet))

    def pong(self) -> None:
        self.say(_PONG)

    def say(self, data: bytes) -> None:
        """Bytes of an acknowledgement that was encoded before. Nothing follows the last packet."""
        if self.state is not ConnectionState.CLOSED:
            self._put(data)

    def _put(self, data: bytes) -> None:
        self._out.append(data)
        if self.on_answer is not None:
            self.on_answer(data)

    def write(self, data: bytes) -> None:
        """Bytes of a message, which was encoded before, for many receivers. Nothing follows the last packet."""
        if self.state is not ConnectionState.CLOSED:
            self._out.append(data)

    def alias_of(self, topic: str) -> tuple[int, bool]:
        """(alias, whether the topic has to be sent with it) for a topic that we send; alias 0: none. The first topics have them, for good."""
        known = self._sent_aliases
        if known is None:
            if not self.alias_maximum:
                return 0, True
            known = self._sent_aliases = {}
        alias = known.get(topic)
        if alias is not None:
            return alias, False
        if len(known) >= self.alias_maximum:
            return 0, True
        alias = known[topic] = len(known) + 1
        return alias, True

    def forget_alias(self, topic: str) -> None:
        """The message with the newest alias, that of `topic`, is not sent: the client does not know it."""
        if self._sent_aliases is not None:
            del self._sent_aliases[topic]

    def data_to_send(self) -> bytes:
        out = self._out
        if len(out) == 1:
            return out.pop()
        data = b"".join(out)
        out.clear()
        return data
