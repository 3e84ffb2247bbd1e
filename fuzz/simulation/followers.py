"""Clients that follow the table: over event streams, WebSockets, subscriptions of GraphQL and durable sessions of MQTT. What they have at rest is the table."""

from __future__ import annotations

import json
from typing import Any

from fuzz.simulation.clients import Connection, HttpConnection, Surroundings, connect_packet
from fuzz.simulation.model import State, Violation
from fuzz.simulation.requests import AUTHORIZATION, GROUPS, KEYS, OTHER, found_record, state_of
from svc.protocol.mqtt import PacketReader, ack, encode
from svc.protocol.mqtt_packets import V5, Connack, Publish, Suback, Subscribe, Subscription
from svc.protocol.mqtt_properties import PUBACK
from svc.protocol.websocket_frames import CLOSE, FIN, MASK, PING, PONG, TEXT, encode_head, maybe_read_head
from svc.testing.sockets import HANDSHAKE
from svc.testing.streams import Event, EventReader, follow_rows
from svc.testing.wire import AnswerReader

FILTER = "Item/#"


class History:
    """What the table's log is known to have, by position: no two followers are told different things of one, before a crash or after it."""

    def __init__(self) -> None:
        self._told: dict[int, tuple[str, str, Any]] = {}

    def note(self, data: Any) -> None:
        """Raises Violation."""
        value = None if data["value"] is None else found_record(data["value"])
        told = (data["type"], data["id"], value)
        before = self._told.setdefault(data["localTime"], told)
        if before != told:
            raise Violation(f"the event at {data['localTime']} is {before} and {told}")


class Follower(Connection):
    """`rows`: what it has been told, by id."""

    rows: dict[str, Any]

    def follow(self) -> None:
        """Connect."""
        raise NotImplementedError

    def check(self, state: State) -> None:
        """At rest. Raises Violation."""
        if (seen := state_of(self.rows)) != state:
            raise Violation(f"{self.name} has {seen}; the table has {state}")


class HttpFollower(HttpConnection, Follower):
    """Follows `target`."""

    target = "/Item/"

    def _get(self, fields: dict[str, str], on_data: Any, content: bytes | None = None) -> None:
        self.connect()
        self.reader = reader = AnswerReader(self._server.instance.loop, "GET", on_data)

        def check_status(head: Any) -> None:
            status = None if head.exception() is not None else head.result()[0]
            if status not in {None, 101, 200, *OTHER}:
                self._all.violations.append(Violation(f"{self.name} was answered with {status}"))

        reader.head.add_done_callback(check_status)
        lines = [f"{'GET' if content is None else 'POST'} {self.target} HTTP/1.1", "Host: localhost", f"Authorization: {AUTHORIZATION}"]
        lines += [f"{name}: {value}" for name, value in fields.items()]
        self.send(("\r\n".join(lines) + "\r\n\r\n").encode() + (content or b""))


class EventFollower(HttpFollower):
    """Over an event stream. Connected again it goes on behind the last event that it knows."""

    def __init__(self, surroundings: Surroundings, room: float, name: str, history: History) -> None:
        super().__init__(surroundings, room, name)
        self._history = history
        self._last: int | None = None
        self.rows = {}

    def follow(self) -> None:
        fields = {"Accept": "text/event-stream"}
        if self._last is None:
            self.rows.clear()
        else:
            fields["Last-Event-ID"] = str(self._last)
        self._get(fields, EventReader(self._on_event).receive)

    def _on_event(self, event: Event) -> None:
        """Of the current records only the last has an id: from where the log is followed."""
        data = event.data
        position = data["localTime"]
        if self._last is not None:
            self._history.note(data)
            if event.id is None or position <= self._last:
                raise Violation(f"{self.name}: the event at {position} with the id {event.id} comes behind {self._last}")
        if event.id is not None:
            self._last = position
            if int(event.id) != position:
                raise Violation(f"{self.name}: the event at {position} has the id {event.id}")
        note_event(self.rows, data)


class LiveFollower(HttpFollower):
    """A live query, in the order of `number`."""

    target = "/Item/?sort(-number)&live()"

    def __init__(self, surroundings: Surroundings, room: float, name: str) -> None:
        super().__init__(surroundings, room, name)
        self._rows: list[Any] = []
        self._ids: list[Any] = []

    def follow(self) -> None:
        self._rows.clear()
        self._ids.clear()
        self._get({"Accept": "text/event-stream"}, EventReader(lambda event: follow_rows(self._rows, self._ids, event.data)).receive)

    def check(self, state: State) -> None:
        self.rows = dict(zip(self._ids, self._rows, strict=True))
        super().check(state)
        numbers = [row["number"] for row in self._rows]
        if numbers != sorted(numbers, reverse=True):
            raise Violation(f"{self.name} has them in the order {numbers}")


class SocketFollower(HttpFollower):
    """Over a WebSocket. Connected again it begins anew."""

    def __init__(self, surroundings: Surroundings, room: float, name: str, history: History) -> None:
        super().__init__(surroundings, room, name)
        self._history = history
        self._last: int | None = None  # known once the current records are
        self._raw = b""
        self.rows = {}

    def follow(self) -> None:
        self.rows.clear()
        self._last = None
        self._raw = b""
        self._get(dict(HANDSHAKE), self._on_data)

    def _on_data(self, data: bytes) -> None:
        self._raw += data
        while (head := maybe_read_head(self._raw, 0)) is not None and len(self._raw) >= sum(head):
            opcode, payload = self._raw[0] & 0x0F, self._raw[head[0] : sum(head)]
            self._raw = self._raw[sum(head) :]
            if opcode == TEXT:
                message = json.loads(payload)
                if self._last is not None:
                    self._history.note(message)
                    if message["localTime"] <= self._last:
                        raise Violation(f"{self.name}: the event at {message['localTime']} comes behind {self._last}")
                    self._last = message["localTime"]
                note_event(self.rows, message)
            elif opcode in (PING, CLOSE):
                answer = bytearray(encode_head(FIN | (PONG if opcode == PING else CLOSE), len(payload)))
                answer[1] |= MASK
                self.send(bytes(answer) + bytes(4) + payload)

    def check(self, state: State) -> None:
        super().check(state)
        if self._last is None:
            self._last = 0


class GraphQLFollower(HttpFollower):
    """A subscription to one group."""

    target = "/graphql"

    def __init__(self, surroundings: Surroundings, room: float, name: str) -> None:
        super().__init__(surroundings, room, name)
        self.rows = {}
        self.group = 0

    def follow(self) -> None:
        self.rows = {}
        self.group = (self.group + 1) % GROUPS
        text = f"subscription {{ Item(group: {self.group}) {{ id number group stock text }} }}"
        content = json.dumps({"query": text}).encode()
        fields = {"Accept": "text/event-stream", "Content-Type": "application/json", "Content-Length": str(len(content))}
        self._get(fields, EventReader(self._on_event).receive, content)

    def _on_event(self, event: Event) -> None:
        if event.name == "next":
            self.rows = {row["id"]: row for row in event.data["data"]["Item"]}

    def check(self, state: State) -> None:
        super().check(tuple(each if each is not None and each[1] == self.group else None for each in state))


class SessionFollower(Follower):
    """A session of MQTT that lasts, at QoS 1. What it has acknowledged does not come again."""

    def __init__(self, surroundings: Surroundings, room: float, name: str) -> None:
        super().__init__(surroundings, room, name)
        self._packets = PacketReader(version=V5)
        self._is_subscribed = False
        self._unacknowledged: dict[int, tuple[str, bytes]] = {}
        self.rows = {}

    def follow(self) -> None:
        self.connect()
        self._packets = PacketReader(version=V5)
        self._unacknowledged.clear()
        self.send(connect_packet(self.name, clean=False))

    def _accept(self, sock: Any) -> None:
        self._accept_mqtt(sock)

    def _read(self, data: bytes) -> None:
        self._packets.feed(data)
        while (packet := self._packets.next_packet()) is not None:
            if isinstance(packet, Connack):
                if packet.reason or (self._is_subscribed and not packet.session_present):
                    raise Violation(f"{self.name}: its session is not there: {packet}")
                if not self._is_subscribed:
                    self.rows.clear()
                    self.send(encode(Subscribe(1, [Subscription(FILTER, 1)]), V5))
            elif isinstance(packet, Suback):
                self._is_subscribed = True
            elif isinstance(packet, Publish):
                self._on_message(packet)

    def _on_message(self, packet: Publish) -> None:
        if packet.packet_id in self._unacknowledged:
            raise Violation(f"{self.name}: {packet.packet_id} comes again on its connection")
        self._unacknowledged[packet.packet_id] = packet.topic, packet.payload
        key = packet.topic.removeprefix("Item/")
        value = json.loads(packet.payload) if packet.payload else None
        note_event(self.rows, {"type": "delete" if value is None else "put", "id": key, "value": value})
        self.send(ack(PUBACK, packet.packet_id))

    def send_piece(self) -> None:
        super().send_piece()
        if not self.waiting:
            self._unacknowledged.clear()


def note_event(rows: dict[str, Any], data: Any) -> None:
    """Raises Violation."""
    if data["id"] not in KEYS:
        raise Violation(f"an event of a record that nobody has written: {data}")
    if data["type"] in ("put", "delete"):
        rows.pop(data["id"], None)
    if data["type"] == "put":
        rows[data["id"]] = data["value"]
