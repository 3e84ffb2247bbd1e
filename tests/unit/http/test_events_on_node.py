"""Event streams and WebSockets of a whole node on fake sockets (spec: realtime §1-§3, http §14, analytics §3)."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from svc.auth.users import UserDirectory
from svc.connection import Timeouts
from svc.errors import ClientError, ValidationError
from svc.http.event_pump import HIGH_WATER, MAX_BATCH
from svc.messages import HeaderBlock, Request
from svc.realtime.event import EndReason
from svc.resources import RequestTarget, Resource, parse_target
from tests.support.events import FakeEvent, FakeSource, parse_stream
from tests.support.node import Node, Wire

SCHEMA = "type Note @table @export { id: ID @primaryKey  text: String }"


class Feed(Resource):
    """Anybody may connect to what `answer` makes."""

    name = "Feed"
    verbs = frozenset({"get", "connect"})
    answer: Callable[[RequestTarget, Any, Request], Any]

    @classmethod
    def authorize(cls, verb: str, target: RequestTarget, data: Any, request: Request) -> None:
        return None

    @classmethod
    def on_get(cls, target: RequestTarget, data: Any, request: Request) -> Any:
        return {"plain": True}

    @classmethod
    def on_connect(cls, target: RequestTarget, incoming: Any, request: Request) -> Any:
        return cls.answer(target, incoming, request)


class Closed(Resource):
    name = "Closed"
    verbs = frozenset({"connect"})


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    app: Path = tmp_path_factory.mktemp("app")
    (app / "schema.graphql").write_text(SCHEMA)
    node = Node(tmp_path_factory.mktemp("store"), app)
    node.resources.set("Feed", Feed)
    node.resources.set("Closed", Closed)
    node.resources.set("Silent", Feed, {"sse": False, "ws": False})
    node.resources.set("Only", Feed, {"rest": False})
    yield node
    assert not node.errors
    node.close()


@pytest.fixture
def node(shared: Node) -> Iterator[Node]:
    yield shared
    for connection in list(shared.connections.open):
        connection.close_now()
    shared.settle()
    assert not shared.connections.lasting


@contextmanager
def strangers(node: Node) -> Iterator[None]:
    """All requests are anonymous."""
    before = node.dispatcher._identify
    node.as_user(None)
    yield
    node.dispatcher._identify = before  # type: ignore[method-assign]


def answers(result: Any) -> None:
    Feed.answer = staticmethod(result if callable(result) else lambda target, incoming, request: result)


class Stream:
    """A client of an event stream."""

    def __init__(self, node: Node, target: str = "/Feed/1", method: str = "GET", version: str = "1.1", **fields: str) -> None:
        self.node = node
        self.wire = node.connect()
        lines = {"Host": "localhost", "Accept": "text/event-stream"} | {name.replace("_", "-"): value for name, value in fields.items()}
        head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        self.wire.send(f"{method} {target} HTTP/{version}\r\n{head}\r\n".encode())

    @property
    def head(self) -> tuple[int, dict[str, str]]:
        lines = self.wire.sock.sent.partition(b"\r\n\r\n")[0].decode().split("\r\n")
        return int(lines[0].split()[1]), {name.lower(): value for name, _, value in (line.partition(": ") for line in lines[1:])}

    @property
    def raw(self) -> bytes:
        return self.wire.sock.sent.partition(b"\r\n\r\n")[2]

    @property
    def body(self) -> str:
        """Without its chunks."""
        if "transfer-encoding" not in self.head[1]:
            return self.raw.decode()
        rest, found = self.raw, b""
        while rest:
            size, _, rest = rest.partition(b"\r\n")
            found += rest[: int(size, 16)]
            rest = rest[int(size, 16) + 2 :]
        return found.decode()

    @property
    def events(self) -> list[Any]:
        return [json.loads(event["data"]) for event in parse_stream(self.body)]

    @property
    def ended(self) -> bool:
        return self.raw.endswith(b"0\r\n\r\n") or self.wire.sock.closed

    def read(self, size: int = 1 << 30) -> None:
        self.wire.sock.room = size
        write = self.node.connections.loop.writers.get(self.wire.sock)  # type: ignore[attr-defined]
        if write is not None:
            write()
        self.node.settle()

    def leave(self) -> None:
        self.wire.send(b"")


def push(node: Node, source: FakeSource, *events: Any) -> None:
    source.push(*events)
    node.settle()


def test_the_head_goes_out_before_there_is_an_event(node: Node) -> None:
    answers(FakeSource())
    stream = Stream(node, Accept_Encoding="gzip, br")
    status, fields = stream.head
    assert status == 200
    assert fields["content-type"] == "text/event-stream" and fields["cache-control"] == "no-store" and fields["x-accel-buffering"] == "no"
    assert "content-encoding" not in fields and "content-length" not in fields
    assert fields["transfer-encoding"] == "chunked" and "server-timing" in fields and "date" in fields
    assert stream.body == "retry: 3000\n\n"


def test_events_are_sent_in_the_turn_in_which_they_happen(node: Node) -> None:
    source = FakeSource(FakeEvent(1, "a"))
    answers(source)
    stream = Stream(node)
    push(node, source, FakeEvent(2, "b"), FakeEvent(3, "c"))
    assert [event["localTime"] for event in stream.events] == [1, 2, 3]
    assert not stream.ended


def test_http_1_0_gets_it_without_chunks(node: Node) -> None:
    source = FakeSource(FakeEvent(1))
    answers(source)
    stream = Stream(node, version="1.0")
    assert stream.raw.startswith(b"retry: 3000\n\nid: 1\n")
    source.end(EndReason.FINISHED)
    node.settle()
    assert stream.wire.sock.half_closed or stream.wire.sock.closed


def test_head_answers_as_get_without_a_body(node: Node) -> None:
    source = FakeSource(FakeEvent(1))
    answers(source)
    stream = Stream(node, method="HEAD")
    status, fields = stream.head
    assert (status, fields["content-type"], stream.raw) == (200, "text/event-stream", b"")
    assert source.closed == 1
    stream.wire.sock.sent = b""
    stream.wire.send(b"GET /Feed/1 HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert b'{"plain":true}' in stream.wire.sock.sent  # the connection goes on


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "QUERY"])
def test_other_methods_ask_for_no_stream(node: Node, method: str) -> None:
    answers(FakeSource())
    assert Stream(node, "/Note/", method, Content_Length="0").head[1].get("content-type") != "text/event-stream"


@pytest.mark.parametrize(
    "accept", ["*/*", "application/json", "text/event-stream;q=0.1, application/json", "text/event-stream, application/json"]
)
def test_another_preferred_type_is_sent(node: Node, accept: str) -> None:
    answers(FakeSource())
    stream = Stream(node, Accept=accept)
    assert stream.head[1]["content-type"] == "application/json"


def test_errors_before_the_first_byte_are_ordinary(node: Node) -> None:
    def refuse(target: RequestTarget, incoming: Any, request: Request) -> Any:
        assert incoming is None
        raise ClientError("not so")

    answers(refuse)
    for target, status in (("/Feed/1", 400), ("/Nothing", 404), ("/Feed//1", 400), ("/Feed/%zz", 400)):
        stream = Stream(node, target)
        assert (stream.head[0], stream.head[1]["content-type"]) == (status, "application/problem+json"), target


def test_strangers_are_sent_away(node: Node) -> None:
    with strangers(node):
        stream = Stream(node, "/Closed")
        assert stream.head[0] == 401 and "www-authenticate" in stream.head[1]


def test_a_resource_that_cannot_be_connected_to(node: Node) -> None:
    Feed.verbs = frozenset({"get"})
    try:
        stream = Stream(node)
        assert stream.head[0] == 405 and stream.head[1]["allow"] == "GET, HEAD, OPTIONS"
    finally:
        Feed.verbs = frozenset({"get", "connect"})


def test_export_flags(node: Node) -> None:
    answers(FakeSource())
    assert Stream(node, "/Silent").head[0] == 406
    assert Stream(node, "/Silent", Accept="text/event-stream, */*;q=0.1").head[1]["content-type"] == "application/json"
    assert Stream(node, "/Only").head[1]["content-type"] == "text/event-stream"
    assert Stream(node, "/Only", Accept="application/json").head[0] == 404
    assert Stream(node, "/Only", method="POST", Content_Length="0").head[0] == 404


def test_a_comment_keeps_it_alive_and_no_deadline_ends_it(node: Node) -> None:
    answers(FakeSource())
    stream = Stream(node)
    node.pass_time(int(Timeouts().request) * 3)
    assert not stream.ended
    assert stream.body.count(": keep-alive\n\n") == Timeouts().request * 3 // 16


def test_a_client_that_does_not_read_is_cut_off(node: Node) -> None:
    source = FakeSource()
    answers(source)
    stream = Stream(node)
    stream.wire.sock.room = 0
    push(node, source, FakeEvent(1))
    node.pass_time(int(Timeouts().request) + 2)
    assert stream.wire.sock.closed and source.closed == 1


def test_a_slow_reader_costs_no_more_than_the_high_water(node: Node) -> None:
    source = FakeSource()
    answers(source)
    stream = Stream(node)
    stream.wire.sock.room = 0
    push(node, source, *[FakeEvent(n, "x" * 1000) for n in range(1000)])
    assert len(source.events) > 1000 - 2 * (HIGH_WATER // 1000) - MAX_BATCH
    before = len(source.events)
    push(node, source, FakeEvent(1000))
    assert len(source.events) == before + 1
    for _ in range(20):
        stream.read(100_000)
    stream.read()
    assert [event["localTime"] for event in stream.events] == list(range(1001))


def test_the_source_is_closed_when_the_client_leaves(node: Node) -> None:
    source = FakeSource()
    answers(source)
    stream = Stream(node)
    stream.leave()
    assert source.closed == 1


@pytest.mark.parametrize("why", list(EndReason))
def test_the_end_of_the_source_ends_the_answer(node: Node, why: EndReason) -> None:
    source = FakeSource(FakeEvent(1))
    answers(source)
    stream = Stream(node)
    source.end(why)
    node.settle()
    assert stream.ended and len(stream.events) == 1
    stream.wire.sock.sent = b""
    stream.wire.send(b"GET /Feed/1 HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert b'{"plain":true}' in stream.wire.sock.sent  # the connection goes on


def test_an_iterator_of_the_application(node: Node) -> None:
    async def ticks(target: RequestTarget, incoming: Any, request: Request) -> AsyncIterator[Any]:
        yield {"data": {"id": target.id}, "event": "tick"}
        yield 0

    answers(ticks)
    stream = Stream(node, "/Feed/7")
    node.settle()
    assert stream.body == 'retry: 3000\n\nevent: tick\ndata: {"id":"7"}\n\ndata: 0\n\n' and stream.ended


def test_an_awaited_connect(node: Node) -> None:
    source = FakeSource(FakeEvent(1))

    async def later(target: RequestTarget, incoming: Any, request: Request) -> Any:
        return source

    answers(later)
    stream = Stream(node)
    node.settle()
    assert len(stream.events) == 1


def test_other_results_of_connect_are_ordinary_responses(node: Node) -> None:
    answers({"status": 418, "headers": {"X-Tea": "1"}, "body": "tea"})
    stream = Stream(node)
    assert stream.head[0] == 418 and stream.raw == b"tea"
    answers(lambda target, incoming, request: None)
    assert Stream(node).head[0] == 404


def test_sent_bytes_are_counted_at_the_end(node: Node) -> None:
    counted: list[tuple[Any, ...]] = []
    original = node.dispatcher._request_done
    node.dispatcher._request_done = lambda *figures: counted.append(figures)
    try:
        source = FakeSource(FakeEvent(1))
        answers(source)
        stream = Stream(node)
        assert not counted
        body = len(stream.body)
        stream.leave()
    finally:
        node.dispatcher._request_done = original
    [(path, method, _, status, body_bytes, _)] = counted
    assert (path, method, status, body_bytes) == ("Feed", "GET", 200, body)


@pytest.mark.parametrize("code", [1001, 1012])
def test_a_stop_ends_streams_and_sockets(tmp_path: Path, code: int) -> None:
    """1012: another process serves in the place of this one."""
    app = tmp_path / "app"
    app.mkdir()
    (app / "schema.graphql").write_text(SCHEMA)
    node = Node(tmp_path / "store", app)
    node.resources.set("Feed", Feed)
    source = FakeSource()
    answers(source)
    stream = Stream(node)
    other = FakeSource()
    answers(other)
    socket = Socket(node)
    if code == 1001:
        node.connections.drain()
    else:
        node.connections.retire()
        node.connections.send_away()
    node.settle()
    assert stream.ended and source.closed == 1
    assert socket.closing == (code, "")
    socket.say(8, b"\x03\xe9")
    assert other.closed == 1
    node.close()


def publish(node: Node, address: str, message: Any) -> None:
    """As an application, or another protocol, does it."""
    resource = node.resources["Note"].resource
    target = parse_target(address, None, resource.properties)
    resource.bind(target)
    request = Request("PUBLISH", f"/Note{address}", HeaderBlock([]))
    request.user = UserDirectory(node.store).get_user("admin")
    assert resource.handle("publish", target, message, request) is None
    node.settle()


def test_messages_reach_subscriptions_to_the_record_or_the_table(node: Node) -> None:
    record, table, other = Stream(node, "/Note/m1"), Stream(node, "/Note/"), Stream(node, "/Note/m2")
    publish(node, "/m1", {"text": "hello", "more": [1]})
    publish(node, "/m1", "plain")
    publish(node, "/", None)
    assert [(event["type"], event["id"], event["value"]) for event in record.events] == [
        ("message", "m1", {"text": "hello", "more": [1]}),
        ("message", "m1", "plain"),
    ]
    assert [(event["id"], event["value"]) for event in table.events][-1] == (None, None) and len(table.events) == 3
    assert not other.events
    assert node.connect().ask("GET", "/Note/m1")[0] == 404  # no record has changed


def test_messages_have_the_types_of_the_table(node: Node) -> None:
    with pytest.raises(ValidationError):
        publish(node, "/m1", {"text": 5})


# --- WebSockets --------------------------------------------------------------------------------------------------------------------------


class Socket:
    """A client of a WebSocket."""

    def __init__(self, node: Node, target: str = "/Feed/1", **fields: str) -> None:
        self.node = node
        self.wire = node.connect()
        lines = {
            "Host": "localhost",
            "Upgrade": "websocket",
            "Connection": "Upgrade",
            "Sec-WebSocket-Version": "13",
            "Sec-WebSocket-Key": base64.b64encode(b"0123456789abcdef").decode(),
        } | {name.replace("_", "-"): value for name, value in fields.items()}
        head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        self.wire.send(f"GET {target} HTTP/1.1\r\n{head}\r\n".encode())

    @property
    def status(self) -> int:
        return int(self.wire.sock.sent.split(b" ", 2)[1])

    @property
    def received(self) -> list[tuple[int, bytes]]:
        """(opcode, payload) of each frame."""
        rest = self.wire.sock.sent.partition(b"\r\n\r\n")[2]
        found = []
        while rest:
            size, begin = rest[1], 2
            if size == 126:
                size, begin = int.from_bytes(rest[2:4], "big"), 4
            found.append((rest[0] & 15, rest[begin : begin + size]))
            rest = rest[begin + size :]
        return found

    @property
    def closing(self) -> tuple[int, str] | None:
        opcode, payload = self.received[-1] if self.received else (0, b"")
        return (int.from_bytes(payload[:2], "big"), payload[2:].decode()) if opcode == 8 else None

    def say(self, opcode: int, payload: bytes) -> None:
        self.wire.send(bytes((0x80 | opcode, 0x80 | len(payload), 0, 0, 0, 0)) + payload)


def test_events_are_frames(node: Node) -> None:
    source = FakeSource(FakeEvent(1, "a"))
    answers(source)
    socket = Socket(node)
    push(node, source, FakeEvent(2, "b"))
    assert socket.status == 101
    assert [(opcode, json.loads(payload)["value"]) for opcode, payload in socket.received] == [(1, "a"), (1, "b")]


def test_an_echo(node: Node) -> None:
    async def echo(target: RequestTarget, incoming: Any, request: Request) -> AsyncIterator[Any]:
        yield {"hello": target.id}
        async for message in incoming:
            yield {"echo": message}

    answers(echo)
    socket = Socket(node)
    socket.say(1, b'{"n":1}')
    socket.say(1, b"text")
    node.settle()
    assert [payload for _, payload in socket.received] == [b'{"hello":"1"}', b'{"echo":{"n":1}}', b'{"echo":"text"}']
    socket.say(8, b"\x03\xe8")
    node.settle()
    assert socket.closing == (1000, "") and socket.wire.sock.half_closed


@pytest.mark.parametrize(
    ("target", "fields", "status"),
    [
        ("/Nothing", {}, 404),
        ("/Silent", {}, 404),
        ("/Feed//x", {}, 400),
        ("/Feed/1", {"Accept": "image/png"}, 406),
        ("/Feed/1", {"Sec-WebSocket-Protocol": "mqtt"}, 501),
        ("/Feed/1", {"Sec-WebSocket-Version": "8"}, 426),
    ],
)
def test_refused_handshakes(node: Node, target: str, fields: dict[str, str], status: int) -> None:
    answers(FakeSource())
    socket = Socket(node, target, **fields)
    assert socket.status == status
    assert b"application/problem+json" in socket.wire.sock.sent


def test_strangers_are_let_in_to_be_sent_away(node: Node) -> None:
    with strangers(node):
        socket = Socket(node, "/Closed")
        assert socket.status == 101 and socket.closing == (3000, "Must login")


def test_bad_credentials_close_it(node: Node) -> None:
    socket = Socket(node, "/Feed/1", Authorization="Bearer nonsense")
    assert socket.status == 101 and socket.closing is not None and socket.closing[0] == 3000


@pytest.mark.parametrize("why", list(EndReason))
def test_the_end_of_the_source_closes_it(node: Node, why: EndReason) -> None:
    source = FakeSource()
    answers(source)
    socket = Socket(node)
    source.end(why)
    node.settle()
    assert socket.closing is not None and socket.closing[1] == why.value


def test_a_socket_to_a_slow_reader(node: Node) -> None:
    source = FakeSource()
    answers(source)
    socket = Socket(node)
    socket.wire.sock.room = 0
    push(node, source, *[FakeEvent(n, "x" * 1000) for n in range(1000)])
    assert len(source.events) > 1000 - 2 * (HIGH_WATER // 1000) - MAX_BATCH
    socket.wire.sock.room = 1 << 30
    node.connections.loop.writers[socket.wire.sock]()  # type: ignore[attr-defined]
    node.settle()
    assert [json.loads(payload)["localTime"] for _, payload in socket.received] == list(range(1000))


def test_the_source_is_closed_when_the_client_of_a_socket_leaves(node: Node) -> None:
    source = FakeSource()
    answers(source)
    socket = Socket(node)
    socket.wire.send(b"")
    node.settle()
    assert source.closed == 1


def test_the_first_protocol_that_is_offered_is_echoed(node: Node) -> None:
    answers(FakeSource())
    socket = Socket(node, Sec_WebSocket_Protocol="chat, superchat")
    assert b"\r\nSec-WebSocket-Protocol: chat\r\n" in socket.wire.sock.sent


def test_one_encoding_for_streams_and_sockets(node: Node) -> None:
    event = FakeEvent(1, {"a": 1})
    sources = [FakeSource() for _ in range(4)]
    clients: list[Wire] = []
    for position, source in enumerate(sources):
        answers(source)
        clients.append((Stream(node) if position % 2 else Socket(node)).wire)
    for source in sources:
        push(node, source, event)
    assert event.made == 1
