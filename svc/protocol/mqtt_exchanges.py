"""The exchanges of one session at QoS 1 and 2: which packet identifiers are in use, and what comes next for each (MQTT 5 §2.2.1, §4.3, §4.9).

They know neither sockets nor a store: each call returns the `Action` that the caller carries out. `mqtt_states` has the tables.
"""

from __future__ import annotations

from collections.abc import Iterator

from svc.protocol.mqtt_states import RECEIVED, SENT, Action, Input, Received, Sent
from svc.protocol.mqtt_values import PROTOCOL_ERROR, PacketError

IDS = 0xFFFF
WINDOW = 100  # exchanges that we begin before one of them has ended (spec: mqtt §7)


class ReceivedExchanges:
    """Of messages that the client sends at QoS 2."""

    __slots__ = ("_states", "_unsettled")

    def __init__(self, received: Iterator[int] | tuple[int, ...] = ()) -> None:
        """`received`: the identifiers that are stored, for a session that goes on after a restart."""
        self._states: dict[int, Received] = dict.fromkeys(received, Received.RECEIVED)
        self._unsettled: set[int] = set()  # whose commit is waited for: few of perhaps 65,535

    def __len__(self) -> int:
        return len(self._states)

    def __contains__(self, packet_id: int) -> bool:
        return packet_id in self._states

    @property
    def is_settled(self) -> bool:
        """Whether no commit is waited for."""
        return not self._unsettled

    def on(self, packet_id: int, what: Input) -> Action:
        """PUBLISH, PUBREL, COMMITTED or FAILED. Raises PacketError for what the client may not send now."""
        before = self._states.get(packet_id, Received.FREE)
        found = RECEIVED.get((before, what))
        if found is None:
            raise PacketError(PROTOCOL_ERROR, f"{what.name} of message {packet_id}, which is {before.name}")
        action, after = found
        if after is not before:
            if after is Received.FREE:
                del self._states[packet_id]
            else:
                self._states[packet_id] = after
            if after is Received.FREE or after is Received.RECEIVED:
                self._unsettled.discard(packet_id)
            else:
                self._unsettled.add(packet_id)
        return action

    def resume(self) -> None:
        """The session goes on over a new connection, where the client repeats what it has no answer to."""
        for packet_id in self._unsettled:
            self._states[packet_id] = RECEIVED[self._states[packet_id], Input.RESUMED][1]


class SentExchanges:
    """Of messages that we send at QoS 1 and 2, in the order of their first PUBLISH."""

    __slots__ = ("_last", "_reserved", "_states", "window")

    def __init__(self, window: int = WINDOW) -> None:
        """`window`: how many may be under way; the client's Receive Maximum, if that is less. Another connection may bring another one."""
        self.window = window
        self._states: dict[int, Sent] = {}
        self._reserved: dict[int, None] = {}  # a third of the size of an empty set
        self._last = 0

    def __len__(self) -> int:
        return len(self._states)

    @property
    def has_room(self) -> bool:
        return len(self._states) < self.window

    def begin(self, qos: int) -> int:
        """A packet identifier that is not in use. At QoS 2 PUBLISH follows `on(..., COMMITTED)`; at QoS 1 it may be sent at once."""
        packet_id = self._last
        while True:
            packet_id = packet_id + 1 if packet_id < IDS else 1
            if packet_id not in self._states and packet_id not in self._reserved:
                break
        self._last = packet_id
        self._states[packet_id] = Sent.UNCONFIRMED if qos == 1 else Sent.STORED
        return packet_id

    def reserve(self, packet_id: int) -> None:
        """The exchange is over, but its identifier is not to be used again for now."""
        self._reserved[packet_id] = None

    def unreserve(self, packet_id: int) -> None:
        self._reserved.pop(packet_id, None)

    def state(self, packet_id: int) -> Sent:
        return self._states.get(packet_id, Sent.FREE)

    @property
    def is_settled(self) -> bool:
        """Whether no commit is waited for."""
        return Sent.STORED not in self._states.values() and Sent.CONFIRMED not in self._states.values()

    def restore(self, packet_id: int, state: Sent) -> None:
        """An exchange that is stored: SENT or RELEASED; or UNCONFIRMED. In the order in which they began."""
        self._states[packet_id] = state
        self._last = packet_id

    def on(self, packet_id: int, what: Input) -> Action:
        """PUBACK, PUBREC, PUBREC_REFUSED, PUBCOMP, COMMITTED or FAILED. Raises PacketError for what the client may not send now."""
        before = self._states.get(packet_id, Sent.FREE)
        found = SENT.get((before, what))
        if found is None:
            raise PacketError(PROTOCOL_ERROR, f"{what.name} of message {packet_id}, which is {before.name}")
        action, after = found
        if after is not before:
            if after is Sent.FREE:
                del self._states[packet_id]
            else:
                self._states[packet_id] = after
        return action

    def resume(self) -> Iterator[tuple[int, Action]]:
        """What is to be sent again over a new connection, in the order of the first time: PUBLISH_AGAIN or PUBREL."""
        for packet_id, state in list(self._states.items()):
            action, _ = SENT[state, Input.RESUMED]
            if action is not Action.NOTHING:
                yield packet_id, action
