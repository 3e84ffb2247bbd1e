"""Clients of the simulation: requests over connections that are kept, and followers of event streams. Both may read slowly."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
from typing import Any

from fuzz.simulation.model import Operation
from fuzz.simulation.server import AUTHORIZATION, CrashableServer
from svc.testing.requests import PEER
from svc.testing.streams import Event, EventReader, follow_rows
from svc.testing.wire import AnswerReader, MemorySocket

Answered = Callable[[int, dict[str, str], bytes], None]


class Connection:
    """`is_open`; `sock`: the server's end. All that comes goes into `digest`."""

    def __init__(self, server: CrashableServer, digest: Any, room: float) -> None:
        self._server = server
        self._digest = digest
        self.room = room
        self.sock: MemorySocket | None = None
        self.waiting: list[bytes] = []
        """Pieces that are to be sent."""
        self.reader: AnswerReader | None = None

    def connect(self) -> None:
        instance = self._server.instance
        self.sock = sock = MemorySocket(instance.loop)
        sock.room = self.room
        sock.client = self
        instance.sockets.add(sock)
        instance.server.application_port.connections.accept(sock, PEER)  # type: ignore[arg-type]  # it has the interface of one

    def receive(self, data: bytes) -> None:
        self._digest.update(data)
        if self.reader is not None:
            self.reader.receive(data)

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
        reader, self.reader = self.reader, None
        if reader is not None:
            reader.closed()

    def send_piece(self) -> None:
        if self.sock is not None and self.waiting:
            self._server.instance.loop.deliver(self.sock, self.waiting.pop(0))

    def read_on(self, size: float) -> None:
        if self.sock is not None and self.sock.room < inf:
            self._server.instance.loop.give_room(self.sock, size)

    def read_all(self) -> None:
        """Everything that is sent from now on is read at once."""
        self.room = inf
        self.read_on(inf)


class Client(Connection):
    """`operation`: under way, None without."""

    operation: Operation | None = None

    def ask(self, operation: Operation, pieces: Sequence[bytes], method: str, answered: Answered) -> None:
        if self.sock is None:
            self.connect()
        self.operation = operation
        self.waiting = list(pieces)
        reader = self.reader = AnswerReader(self._server.instance.loop, method)

        def on_end() -> None:
            self.operation = None
            self.reader = None
            if reader.end.exception() is None:
                status, fields = reader.head.result()
                answered(status, {name.lower(): value for name, value in fields}, reader.end.result())

        reader.on_end = on_end


class Follower(Connection):
    """Follows `target`. `rows`: what its events make, by their ids. Connected again it goes on behind the last event that it knows."""

    def __init__(self, server: CrashableServer, digest: Any, room: float, target: str) -> None:
        super().__init__(server, digest, room)
        self.target = target
        self._is_live = "live()" in target
        self._rows: list[Any] = []
        self._ids: list[Any] = []
        self._last: str | None = None
        self.statuses: list[int] = []

    @property
    def rows(self) -> dict[str, Any]:
        return dict(zip(self._ids, self._rows, strict=True))

    @property
    def order(self) -> list[str]:
        return list(self._ids)

    def follow(self) -> None:
        self.connect()
        fields = f"Host: localhost\r\nAuthorization: {AUTHORIZATION}\r\nAccept: text/event-stream\r\n"
        if self._last is None:
            self._rows.clear()
            self._ids.clear()
        else:
            fields += f"Last-Event-ID: {self._last}\r\n"
        self.reader = reader = AnswerReader(self._server.instance.loop, "GET", EventReader(self._on_event).receive)
        reader.on_head = lambda fields: None
        reader.head.add_done_callback(lambda head: self.statuses.append(head.result()[0]) if head.exception() is None else None)
        self.waiting = [f"GET {self.target} HTTP/1.1\r\n{fields}\r\n".encode()]

    def _on_event(self, event: Event) -> None:
        if event.id is not None:
            self._last = event.id
        data = event.data
        if self._is_live:
            follow_rows(self._rows, self._ids, data)
            return
        if data["id"] in self._ids:
            place = self._ids.index(data["id"])
            del self._ids[place], self._rows[place]
        if data["type"] == "put":
            self._ids.append(data["id"])
            self._rows.append(data["value"])
