"""Clients of the simulation, over connections in memory that are kept: those that ask. All may read slowly, and what they send is cut anywhere."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Any

from fuzz.simulation.model import Operation, Violation
from fuzz.simulation.requests import UNKNOWN, Port, Request
from fuzz.simulation.server import CrashableServer
from svc.connection.tunnel import TunnelAcceptor
from svc.protocol.mqtt import PacketReader, encode
from svc.protocol.mqtt_packets import V5, Ack, Connack, Connect
from svc.protocol.mqtt_properties import PUBACK, SESSION_EXPIRY
from svc.testing.prepared import SUPER_USER
from svc.testing.requests import PEER
from svc.testing.wire import AnswerReader, MemorySocket

NEVER = 0xFFFFFFFF  # seconds after which a session expires
Cut = Callable[[bytes], list[bytes]]


class Surroundings:
    """What all clients of a simulation have in common. `cut`: bytes into the pieces that are sent. `violations`: found while the server sends, where nothing
    may be raised. `ended`: an operation and its outcome, or UNKNOWN."""

    def __init__(self, server: CrashableServer, digest: Any, cut: Cut, ended: Callable[[Operation, Any], None]) -> None:
        self.server = server
        self.digest = digest
        self.cut = cut
        self.ended = ended
        self.violations: list[Violation] = []


class Connection:
    """`sock`: the server's end; None while there is no connection. `waiting`: pieces that are to be sent. All that comes goes into the digest."""

    def __init__(self, surroundings: Surroundings, room: float, name: str) -> None:
        """`room`: bytes that it takes before it reads on."""
        self._all = surroundings
        self._server = surroundings.server
        self.room = room
        self.name = name
        self.sock: MemorySocket | None = None
        self.waiting: list[bytes] = []

    def connect(self) -> None:
        instance = self._server.instance
        self.sock = sock = MemorySocket(instance.loop)
        sock.room = self.room
        sock.client = self
        instance.sockets.add(sock)
        self._accept(sock)

    def _accept(self, sock: Any) -> None:
        self._server.instance.server.application_port.connections.accept(sock, PEER)

    def _accept_mqtt(self, sock: Any) -> None:
        server = self._server.instance.server
        TunnelAcceptor(server.application_port.connections, server.interfaces.mqtt_link).accept(sock, PEER, "mqtt")

    def send(self, data: bytes) -> None:
        self.waiting += self._all.cut(data)

    def receive(self, data: bytes) -> None:
        self._all.digest.update(data)
        try:
            self._read(data)
        except Violation as violation:
            self._all.violations.append(violation)
        except Exception as error:
            self._all.violations.append(Violation(f"{self.name}: {type(error).__name__}: {error}"))

    def _read(self, data: bytes) -> None:
        raise NotImplementedError

    def closed(self) -> None:
        """By the server."""
        self._drop()

    def lose(self) -> None:
        """The server is no more."""
        if self.sock is not None:
            self.sock.client = None
        self._drop()

    def hang_up(self) -> None:
        if self.sock is not None:
            self._server.instance.loop.hang_up(self.sock)
        self._drop()

    def _drop(self) -> None:
        if self.sock is not None:
            self._server.instance.sockets.discard(self.sock)
        self.sock = None
        self.waiting.clear()

    def send_piece(self) -> None:
        if self.sock is not None and self.waiting:
            self._server.instance.loop.deliver(self.sock, self.waiting.pop(0))

    def read_on(self, size: float) -> None:
        if self.sock is not None and self.sock.room < inf:
            self._server.instance.loop.give_room(self.sock, size)

    def read_all(self) -> None:
        """Everything that is sent from now on is read at once."""
        self.read_on(inf)

    def read_slowly(self) -> None:
        """As before `read_all`."""
        if self.sock is not None:
            self.sock.room = self.room


class HttpConnection(Connection):
    def __init__(self, surroundings: Surroundings, room: float, name: str, port: Port = "application") -> None:
        super().__init__(surroundings, room, name)
        self.port = port
        self.reader: AnswerReader | None = None

    def _accept(self, sock: Any) -> None:
        server = self._server.instance.server
        port = server.application_port if self.port == "application" else server.operations_port
        port.connections.accept(sock, PEER)

    def _read(self, data: bytes) -> None:
        if self.reader is not None:
            self.reader.receive(data)

    def _drop(self) -> None:
        super()._drop()
        reader, self.reader = self.reader, None
        if reader is not None:
            reader.closed()


class Client(HttpConnection):
    """`operation`: under way, None without."""

    operation: Operation | None = None

    def ask(self, request: Request) -> None:
        if self.sock is not None and self.port != request.port:
            self.hang_up()
        self.port = request.port
        if self.sock is None:
            self.connect()
        operation = self.operation = request.operation
        self.send(request.encode())
        reader = self.reader = AnswerReader(self._server.instance.loop, request.method)

        def on_end() -> None:
            self.operation = self.reader = None
            if reader.end.exception() is None:
                status, fields = reader.head.result()
                named = {name.lower(): value for name, value in fields}
                try:
                    outcome = request.read(status, named, reader.end.result())
                except (Violation, LookupError, ValueError, TypeError) as error:
                    raise Violation(f"{operation.shown}: {status} {error}: {reader.end.result()[:300]!r}") from None
                self._all.ended(operation, outcome)

        reader.on_end = on_end


class Publisher(Connection):
    """Writes over MQTT, at QoS 1. `operation`: under way, None without."""

    operation: Operation | None = None

    def __init__(self, surroundings: Surroundings, room: float, name: str) -> None:
        super().__init__(surroundings, room, name)
        self._packets = PacketReader(version=V5)
        self._last_id = 0

    def connect(self) -> None:
        super().connect()
        self._packets = PacketReader(version=V5)
        self.send(connect_packet(self.name, clean=True))

    def _accept(self, sock: Any) -> None:
        self._accept_mqtt(sock)

    def ask(self, publish: Callable[[int], tuple[Operation, bytes]]) -> None:
        """`publish`: an operation, and its packet with such an identifier."""
        if self.sock is None:
            self.connect()
        self._last_id = self._last_id % 0xFFFF + 1
        self.operation, packet = publish(self._last_id)
        self.send(packet)

    def _read(self, data: bytes) -> None:
        self._packets.feed(data)
        while (packet := self._packets.next_packet()) is not None:
            if isinstance(packet, Connack) and packet.reason:
                raise Violation(f"CONNECT is refused: {packet}")
            if isinstance(packet, Ack) and packet.kind == PUBACK:
                operation, self.operation = self.operation, None
                if operation is None or packet.packet_id != self._last_id:
                    raise Violation(f"an acknowledgement of nothing: {packet}")
                if packet.reason not in (0, OTHER_REASON):
                    raise Violation(f"{operation.shown}: {packet}")
                self._all.ended(operation, UNKNOWN if packet.reason else "done")

    def _drop(self) -> None:
        super()._drop()
        self.operation = None


OTHER_REASON = 0x80  # such as a 503: a defect would be in the log


def connect_packet(client_id: str, *, clean: bool) -> bytes:
    properties = {} if clean else {SESSION_EXPIRY: NEVER}
    return encode(Connect(V5, client_id, clean, 0, SUPER_USER, b"", None, properties), V5)
