"""A client of HTTP/2 for tests without descriptors: h2 on its side of a fake socket."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    InformationalResponseReceived,
    ResponseReceived,
    StreamEnded,
    StreamReset,
    TrailersReceived,
)
from h2.exceptions import StreamClosedError
from hpack import HeaderTuple, NeverIndexedHeaderTuple

from svc.messages import HeaderPairs
from tests.support.fakes import FakeSocket
from tests.support.node import Node


@dataclass
class Answer:
    """What has come on one stream."""

    status: int = 0
    pairs: HeaderPairs = field(default_factory=list)
    body: bytes = b""
    trailers: HeaderPairs = field(default_factory=list)
    early: list[tuple[int, HeaderPairs]] = field(default_factory=list)
    is_complete: bool = False
    reset: int | None = None

    @property
    def fields(self) -> dict[str, str]:
        joined: dict[str, str] = {}
        for name, value in self.pairs:
            joined[name] = f"{joined[name]}, {value}" if name in joined else value
        return joined


class ClientEnd:
    """The state of a client: frames to send, answers received. Knows no socket."""

    def __init__(self, *, window: int | None = None, reads: bool = True, checks: bool = False, keeps_paths: bool = True) -> None:
        """`window`: for each answer, instead of 65535. `reads`: gives windows back. `checks`: refuses to send what no client should. `keeps_paths`: puts them
        into the table of fields, as hpack does by itself; most clients do not."""
        config = H2Configuration(
            client_side=True, header_encoding="latin-1", validate_outbound_headers=checks, normalize_outbound_headers=checks
        )
        self.h2 = H2Connection(config)
        if window is not None:
            self.h2.local_settings.initial_window_size = window
            self.h2.local_settings.acknowledge()
        self.h2.initiate_connection()
        self.reads = reads
        self._path_type = HeaderTuple if keeps_paths else NeverIndexedHeaderTuple
        self.answers: dict[int, Answer] = {}
        self.goodbyes: list[ConnectionTerminated] = []
        self._bodies: dict[int, tuple[bytes, bool]] = {}  # what the server's windows do not allow yet, and whether more follows

    def request(
        self,
        method: str,
        target: str,
        fields: HeaderPairs | dict[str, str] | None = None,
        body: bytes | None = None,
        *,
        is_open: bool = False,
    ) -> int:
        """Queue a request; its stream. `is_open`: more of its body follows."""
        pairs = list(fields.items() if isinstance(fields, dict) else fields or [])
        stream_id = self.h2.get_next_available_stream_id()
        head = [(":method", method), (":scheme", "http"), (":authority", "localhost"), self._path_type(":path", target)]
        self.h2.send_headers(stream_id, [*head, *((name.lower(), value) for name, value in pairs)], end_stream=body is None and not is_open)
        if body is not None:
            self.send_body(stream_id, body, is_open=is_open)
        self.answers[stream_id] = Answer()
        return stream_id

    def send_body(self, stream_id: int, body: bytes, *, is_open: bool = False) -> None:
        """A piece of a body, as soon as the server's windows allow."""
        self._bodies[stream_id] = (self._bodies.get(stream_id, (b"", True))[0] + body, is_open)

    def data_to_send(self) -> bytes:
        for stream_id, (body, is_open) in list(self._bodies.items()):
            try:
                while body:
                    room = min(self.h2.local_flow_control_window(stream_id), self.h2.max_outbound_frame_size)
                    if room <= 0:
                        break
                    self.h2.send_data(stream_id, body[:room])
                    body = body[room:]
                if not body and not is_open:
                    self.h2.end_stream(stream_id)
            except StreamClosedError:  # the server has reset it
                body = b""
            if body:
                self._bodies[stream_id] = (body, is_open)
            else:
                del self._bodies[stream_id]
        return self.h2.data_to_send()

    def receive(self, data: bytes) -> None:
        for event in self.h2.receive_data(data):
            if isinstance(event, ConnectionTerminated):
                self.goodbyes.append(event)
                continue
            answer: Any = self.answers.get(getattr(event, "stream_id", 0))
            if answer is None:
                continue
            if isinstance(event, ResponseReceived):
                pairs = list(event.headers)
                answer.status = int(pairs[0][1])
                answer.pairs = [(name, value) for name, value in pairs[1:]]
            elif isinstance(event, InformationalResponseReceived):
                pairs = list(event.headers)
                answer.early.append((int(pairs[0][1]), [(name, value) for name, value in pairs[1:]]))
            elif isinstance(event, DataReceived):
                answer.body += event.data
                if self.reads:
                    self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            elif isinstance(event, TrailersReceived):
                answer.trailers = [(name, value) for name, value in event.headers]
            elif isinstance(event, StreamEnded):
                answer.is_complete = True
            elif isinstance(event, StreamReset):
                answer.reset = int(event.error_code)

    @property
    def server_settings(self) -> dict[int, int]:
        return {int(code): value for code, value in self.h2.remote_settings.items()}


class Client(ClientEnd):
    """... of a node."""

    def __init__(self, node: Node, **options: Any) -> None:
        super().__init__(**options)
        self._node = node
        self.sock = FakeSocket()
        node.connections.accept(self.sock, "127.0.0.1")  # type: ignore[arg-type]
        self._loop: Any = node.connections.loop
        self.exchange_bytes()

    def send(self, data: bytes) -> None:
        """As one readable event; what is answered is received."""
        if self.sock in self._loop.readers:
            self.sock.incoming.append(data)
            self._loop.readers[self.sock]()
        self.settle()

    def settle(self) -> None:
        self._node.settle()
        data, self.sock.sent = self.sock.sent, b""
        if data:
            self.receive(data)

    def exchange_bytes(self) -> None:
        """Send what is queued, and what the answers ask for, until nobody has anything to say."""
        rounds = 0
        while data := self.data_to_send():
            self.send(data)
            rounds += 1
            assert rounds < 10_000, "the conversation does not end"
        self.settle()

    def ask(self, method: str, target: str, body: bytes = b"", fields: dict[str, str] | None = None) -> tuple[int, dict[str, str], bytes]:
        """One request, as `node.Wire.ask`: (status, fields, body)."""
        given = {"Content-Type": "application/json"} if fields is None else fields
        stream_id = self.request(method, target, {**given, "Content-Length": str(len(body))}, body or None)
        self.exchange_bytes()
        answer = self.answers[stream_id]
        is_malformed = answer.status == 400 and answer.reset == ErrorCodes.PROTOCOL_ERROR  # which is answered before its stream is reset
        assert answer.is_complete or is_malformed, answer
        return answer.status, answer.fields, answer.body
