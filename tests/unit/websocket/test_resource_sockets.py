"""WebSockets on resources, without connections (spec: realtime §2)."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import cbor2
import msgspec
import pytest

from svc.content.registry import ContentTypes
from svc.errors import AccessViolation, ClientError, MethodNotAllowed, NotAcceptable, NotFound, Problem, ServerError
from svc.http.event_pump import HIGH_WATER, MAX_BATCH
from svc.messages import HeaderBlock, Request
from svc.realtime.event import EndReason
from svc.resources import RequestTarget, Resource, Resources
from svc.websocket.resource_sockets import CLOSE_CODES, ResourceSockets
from tests.support.events import FakeEvent, FakeSource, FakeWebSocket


class Talk(Resource):
    """Connects to whatever `answer` makes."""

    name = "Talk"
    verbs = frozenset({"connect"})
    answer: Callable[[RequestTarget, Any], Any]
    refuse: Problem | None = None

    @classmethod
    def authorize(cls, verb: str, target: RequestTarget, data: Any, request: Request) -> None:
        if cls.refuse is not None:
            raise cls.refuse

    @classmethod
    def on_connect(cls, target: RequestTarget, incoming: Any, request: Request) -> Any:
        return cls.answer(target, incoming)


class Deaf(Resource):
    name = "Deaf"
    verbs = frozenset({"get"})


class Ends:
    """One server's end, as the listeners' chain would use it."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.types = ContentTypes.built_in()
        self.reports: list[BaseException] = []
        self.resources = Resources()
        self.resources.set("Talk", Talk)
        self.resources.set("Deaf", Deaf)
        self.resources.set("Quiet", Talk, {"ws": False})
        self.handler = ResourceSockets(self.resources, self.types, self.loop, self.reports.append)
        self.failures: list[BaseException] = []

    def find(self, target: str = "/Talk/1", **fields: str) -> Any:
        block = HeaderBlock([(name.replace("_", "-").lower(), value) for name, value in fields.items()])
        request = Request("GET", target, block)
        request.offers = "websocket"
        return self.handler.find(request)

    def open(self, answer: Any, target: str = "/Talk/1", **fields: str) -> FakeWebSocket:
        """`answer`: what `connect` returns, or a function of (target, incoming) that makes it."""
        Talk.answer = staticmethod(answer if inspect.isfunction(answer) else lambda target, incoming: answer)
        service = self.find(target, **fields)
        socket = FakeWebSocket()
        result = service(socket)
        if result is not None:
            self.loop.create_task(self._serve(socket, result))
        self.run()
        return socket

    async def _serve(self, socket: FakeWebSocket, result: Any) -> None:
        try:
            await result
        except Exception as error:
            self.failures.append(error)
            socket.close_soon(1011)
        else:
            socket.close_soon(1000)

    def run(self) -> None:
        for _ in range(50):
            self.loop.call_soon(self.loop.stop)
            self.loop.run_forever()


@pytest.fixture
def ends() -> Iterator[Ends]:
    Talk.refuse = None
    made = Ends()
    yield made
    made.run()
    left = asyncio.all_tasks(made.loop)
    for task in left:
        task.cancel()
    made.run()
    made.loop.close()
    assert not left


# --- the handshake -----------------------------------------------------------------------------------------------------------------------


def test_an_unknown_address_refuses_the_handshake(ends: Ends) -> None:
    for target in ("/Nothing", "/Quiet/1", "/"):
        with pytest.raises(NotFound):
            ends.find(target)


def test_a_resource_without_events_refuses_the_handshake(ends: Ends) -> None:
    with pytest.raises(MethodNotAllowed) as refused:
        ends.find("/Deaf")
    assert refused.value.status_code == 405
    assert refused.value.message == "The Deaf does not have a connect method implemented to handle HTTP method GET"


def test_permission_is_asked_for_in_the_handshake(ends: Ends) -> None:
    Talk.refuse = AccessViolation()
    with pytest.raises(AccessViolation):
        ends.find()


def test_a_fault_of_the_address_is_the_server_s(ends: Ends) -> None:
    ends.resources["Talk"].fault = "Conflicting paths for Talk"
    with pytest.raises(ServerError):
        ends.find()


def test_a_type_that_is_not_there_refuses_the_handshake(ends: Ends) -> None:
    for accept in ("image/png", "text/event-stream", "application/json;q=0"):
        with pytest.raises(NotAcceptable):
            ends.find(accept=accept)


@pytest.mark.parametrize("offered", ["mqtt", "chat, mqtt", " mqtt,x"])
def test_mqtt_is_not_here_yet(ends: Ends, offered: str) -> None:
    with pytest.raises(Problem) as refused:
        ends.find(sec_websocket_protocol=offered)
    assert refused.value.status_code == 501


def test_other_protocols_are_the_application_s(ends: Ends) -> None:
    ends.find(sec_websocket_protocol="mqttish, chat")


def test_the_figures_know_the_address(ends: Ends) -> None:
    request = Request("GET", "/Talk/1", HeaderBlock([]))
    ends.handler.find(request)
    assert request.handler_path == "Talk"


# --- outgoing ----------------------------------------------------------------------------------------------------------------------------


def source(*positions: int) -> FakeSource:
    return FakeSource(*[FakeEvent(position, {"n": position}) for position in positions])


def test_events_are_json_texts_by_default(ends: Ends) -> None:
    events = source(1)
    socket = ends.open(events)
    events.push(FakeEvent(2, "two"))
    assert [json.loads(message) for message in socket.messages] == [
        {"type": "put", "id": "k", "value": {"n": 1}, "localTime": 1},
        {"type": "put", "id": "k", "value": "two", "localTime": 2},
    ]
    assert all(isinstance(message, str) for message in socket.messages)
    assert socket.ignores


@pytest.mark.parametrize(
    ("accept", "is_text", "decode"),
    [
        ("application/json", True, json.loads),
        ("application/x-ndjson", True, json.loads),
        ("text/yaml", True, None),
        ("text/csv", True, None),
        ("text/plain", True, json.loads),
        ("application/cbor", False, cbor2.loads),
        ("application/x-msgpack", False, msgspec.msgpack.decode),
        ("application/msgpack", False, msgspec.msgpack.decode),
        ("application/json;q=0.1, application/cbor", False, cbor2.loads),
    ],
)
def test_types(ends: Ends, accept: str, is_text: bool, decode: Any) -> None:
    [message] = ends.open(source(1), accept=accept).messages
    assert isinstance(message, str) == is_text
    if decode is not None:
        assert decode(message) == {"type": "put", "id": "k", "value": {"n": 1}, "localTime": 1}
    else:
        assert "put" in str(message)


def test_an_extension_beats_accept(ends: Ends) -> None:
    [message] = ends.open(source(1), "/Talk/1.cbor", accept="application/json").messages
    assert isinstance(message, bytes) and cbor2.loads(message)["id"] == "k"


def test_frames_are_made_once_for_each_type(ends: Ends) -> None:
    event = FakeEvent(1)
    sockets = [
        ends.open(FakeSource(event), accept=accept) for accept in ("application/json", "*/*", "application/cbor", "application/cbor")
    ]
    frames = [socket.frames[0] for socket in sockets]
    assert frames[0] is frames[1] and frames[2] is frames[3] and frames[0] != frames[2]
    assert event.made == 2


@pytest.mark.parametrize("why", list(EndReason))
def test_the_end_of_a_source_has_a_code(ends: Ends, why: EndReason) -> None:
    events = source(1)
    socket = ends.open(events)
    events.end(why)
    assert socket.closing == (CLOSE_CODES[why], why.value)
    assert len(socket.messages) == 1 and events.closed == 1


def test_the_codes_are_those_of_the_specification() -> None:
    assert CLOSE_CODES == {
        EndReason.FINISHED: 1000,
        EndReason.NO_LOGIN: 3000,
        EndReason.REVOKED: 3003,
        EndReason.TOO_SLOW: 1013,
        EndReason.DROPPED: 1011,
        EndReason.FAILED: 1011,
    }


def test_the_source_is_closed_when_the_client_goes(ends: Ends) -> None:
    events = source(1)
    socket = ends.open(events)
    socket.close_soon(1001)
    assert events.closed == 1 and socket.closing == (1001, "")


def test_a_client_that_does_not_read_gets_no_more(ends: Ends) -> None:
    events = FakeSource(*[FakeEvent(n, "x" * 1000) for n in range(200)])
    socket = ends.open(events)
    got = len(socket.frames)
    assert HIGH_WATER <= socket.pending < HIGH_WATER + MAX_BATCH * 1100 and got < 200
    for _ in range(10):
        socket.read()
    assert len(socket.frames) == 200


# --- handlers of their own ---------------------------------------------------------------------------------------------------------------


async def numbers(target: RequestTarget, incoming: Any) -> AsyncIterator[Any]:
    for number in (1, 2):
        yield {"n": number}


def test_an_iterator_is_sent_and_its_end_is_1000(ends: Ends) -> None:
    socket = ends.open(numbers)
    assert socket.messages == ['{"n":1}', '{"n":2}']
    assert socket.closing == (1000, "")


def test_an_awaited_iterator(ends: Ends) -> None:
    async def later(target: RequestTarget, incoming: Any) -> Any:
        await asyncio.sleep(0)
        return numbers(target, incoming)

    assert ends.open(later).messages == ['{"n":1}', '{"n":2}']


def test_an_awaited_source(ends: Ends) -> None:
    events = source(1)

    async def later(target: RequestTarget, incoming: Any) -> Any:
        await asyncio.sleep(0)
        return events

    socket = ends.open(later)
    events.push(FakeEvent(2))
    assert len(socket.messages) == 2 and not socket.closed
    events.end(EndReason.REVOKED)
    ends.run()
    assert socket.closing == (3003, "Access denied")


@pytest.mark.parametrize(
    ("item", "message"),
    [
        ({"contentType": "text/html", "data": "<p>ä</p>"}, "<p>ä</p>"),
        ({"contentType": "image/png", "data": b"\x89PNG"}, b"\x89PNG"),
        ({"contentType": "text/plain", "data": "half \ud800"}, "half \ufffd"),
        ({"contentType": None, "data": "x"}, '{"contentType":null,"data":"x"}'),
        ({"contentType": "x", "data": None}, '{"contentType":"x","data":null}'),
        ({"contentType": "x", "data": {"a": 1}}, '{"contentType":"x","data":{"a":1}}'),
        ("text", '"text"'),
        (0, "0"),
        (None, "null"),
        (FakeEvent(7, "v"), '{"type":"put","id":"k","value":"v","localTime":7}'),
    ],
)
def test_items(ends: Ends, item: Any, message: str | bytes) -> None:
    async def one(target: RequestTarget, incoming: Any) -> AsyncIterator[Any]:
        yield item

    assert ends.open(one).messages == [message]


def test_plain_text_goes_out_as_it_is(ends: Ends) -> None:
    async def one(target: RequestTarget, incoming: Any) -> AsyncIterator[Any]:
        yield "text"

    assert ends.open(one, accept="text/plain").messages == ["text"]


def test_an_iterator_is_closed_when_the_client_goes(ends: Ends) -> None:
    closed = []

    async def waiting(target: RequestTarget, incoming: Any) -> AsyncIterator[Any]:
        try:
            yield 1
            await asyncio.get_running_loop().create_future()
        finally:
            closed.append(True)

    socket = ends.open(waiting)
    assert not closed
    socket.close_soon(1001)
    ends.run()
    assert closed and not ends.failures and socket.closing == (1001, "")


def test_an_iterator_waits_for_a_slow_reader(ends: Ends) -> None:
    given = []

    async def much(target: RequestTarget, incoming: Any) -> AsyncIterator[Any]:
        for number in range(100):
            given.append(number)
            yield "x" * 10_000

    socket = ends.open(much)
    assert len(given) < 10
    for _ in range(20):
        socket.read()
        ends.run()
    assert len(socket.messages) == 100 and socket.closing == (1000, "")


@pytest.mark.parametrize("failure", [RuntimeError("x"), ClientError("no"), AccessViolation("somebody")])
def test_a_failure_is_left_to_the_caller(ends: Ends, failure: Exception) -> None:
    async def failing(target: RequestTarget, incoming: Any) -> AsyncIterator[Any]:
        yield 1
        raise failure

    socket = ends.open(failing)
    assert socket.messages == ["1"] and ends.failures == [failure]


def test_nothing_to_send_is_the_end(ends: Ends) -> None:
    assert ends.open(None).closing == (1000, "")


def test_a_result_that_is_not_an_iterator_is_a_defect(ends: Ends) -> None:
    ends.open([1])
    assert isinstance(ends.failures[0], TypeError)


def test_a_type_of_the_application_may_take_its_time(ends: Ends) -> None:
    async def serialize(data: Any) -> str:
        await asyncio.sleep(0)
        return f"<{data if isinstance(data, int) else data['value']}>"

    ends.types["application/x-own+xml"] = {"serialize": serialize}
    assert ends.open(numbers_only, accept="application/x-own+xml").messages == ["<1>", "<2>"]
    events = FakeSource(FakeEvent(1, "a"))
    socket = ends.open(events, accept="application/x-own+xml")
    events.push(FakeEvent(2, "b"))
    ends.run()
    assert socket.messages == ["<a>", "<b>"] and not socket.closed
    events.end(EndReason.TOO_SLOW)
    ends.run()
    assert socket.close_code == 1013 and events.closed == 1


async def numbers_only(target: RequestTarget, incoming: Any) -> AsyncIterator[Any]:
    yield 1
    yield 2


# --- incoming ----------------------------------------------------------------------------------------------------------------------------


async def echo(target: RequestTarget, incoming: Any) -> AsyncIterator[Any]:
    async for message in incoming:
        yield repr(message)


@pytest.mark.parametrize(
    ("said", "heard"),
    [
        ('{"a":1}', {"a": 1}),
        ("12", 12),
        ("null", None),
        ("hello", "hello"),
        ("{half", "{half"),
        ("", ""),
        (b"\x01\x02", b"\x01\x02"),
        (b'{"a":1}', b'{"a":1}'),
    ],
)
def test_messages_without_a_type(ends: Ends, said: str | bytes, heard: Any) -> None:
    socket = ends.open(echo, accept="text/plain")
    socket.say(said)
    ends.run()
    assert socket.messages == [repr(heard)]
    socket.close_soon()


@pytest.mark.parametrize(
    ("content_type", "said", "heard"),
    [
        ("application/json", '{"a":1}', {"a": 1}),
        ("application/json; charset=utf-8", b'{"a":1}', {"a": 1}),
        ("application/cbor", cbor2.dumps({"a": 1}), {"a": 1}),
        ("application/x-ndjson", "1\n2\n", [1, 2]),
        ("application/x-www-form-urlencoded", "a=1", {"a": "1"}),
        ("text/plain", "12", 12),  # a type without a structure says nothing
    ],
)
def test_messages_of_a_type(ends: Ends, content_type: str, said: str | bytes, heard: Any) -> None:
    socket = ends.open(echo, accept="text/plain", content_type=content_type)
    socket.say(said)
    ends.run()
    assert socket.messages == [repr(heard)]
    socket.close_soon()


def test_an_extension_is_the_type_of_messages_too(ends: Ends) -> None:
    socket = ends.open(echo, "/Talk/1.cbor")
    socket.say(cbor2.dumps([1]))
    ends.run()
    assert cbor2.loads(socket.messages[0]) == "[1]"  # type: ignore[arg-type]
    socket.close_soon()


@pytest.mark.parametrize("answer", [echo, "source"])
def test_a_message_of_another_type_ends_it(ends: Ends, answer: Any) -> None:
    socket = ends.open(source() if answer == "source" else answer, content_type="application/json")
    socket.say("{half")
    ends.run()
    assert socket.close_code == 1007 and "JSON" in socket.close_reason


def test_a_source_does_not_look_at_messages_without_a_type(ends: Ends) -> None:
    assert ends.open(source()).ignores
    assert not ends.open(source(), content_type="application/json").ignores


def test_messages_may_be_had_by_a_callback(ends: Ends) -> None:
    heard: list[Any] = []
    events = source()

    def listening(target: RequestTarget, incoming: Any) -> Any:
        incoming.on("data", heard.append)
        incoming.on("close", lambda: heard.append("closed"))
        with pytest.raises(ValueError, match="data and close"):
            incoming.on("drain", print)
        return events

    socket = ends.open(listening)
    assert not socket.ignores
    socket.say('{"a":1}')
    socket.say(b"x")
    socket.close_soon()
    assert heard == [{"a": 1}, b"x", "closed"]


def test_a_long_message_is_read_in_slices(ends: Ends) -> None:
    rows = [{"id": n, "text": "x" * 50} for n in range(5000)]
    heard: list[Any] = []

    async def listening(target: RequestTarget, incoming: Any) -> AsyncIterator[Any]:
        async for message in incoming:
            heard.append(message)
            yield len(message)

    socket = ends.open(listening, content_type="application/json")
    socket.say(json.dumps(rows))
    ends.run()
    assert heard == [rows] and socket.messages == ["5000"]
    socket.close_soon()


def test_incoming_ends_with_the_socket(ends: Ends) -> None:
    ended = []

    async def listening(target: RequestTarget, incoming: Any) -> AsyncIterator[Any]:
        try:
            async for message in incoming:
                yield message
        finally:
            ended.append(True)

    socket = ends.open(listening)
    socket.close_soon(1001)
    ends.run()
    assert ended
