"""WebSockets that an ASGI application serves."""

from __future__ import annotations

import asyncio
import inspect
import struct
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from svc.listeners.step import DEFAULT_UPGRADE, Step
from svc.listeners.upgrade_chain import UpgradeChain
from svc.messages import Abort, Response, Upgrade
from svc.mounted import MountedApplication, websocket_call
from svc.mounted.messages import ClientDisconnected
from svc.websocket import WebSocket
from tests.support.mounted import RecordingLog, without_lifespan
from tests.support.web_socket import Wire, World, handshake_request
from tests.support.websocket_frames import binary, close, text

ACCEPT = {"type": "websocket.accept"}
CLOSE = {"type": "websocket.close"}


def closing(code: int, reason: str = "") -> tuple[int, bytes]:
    return 0x88, struct.pack("!H", code) + reason.encode()


class Case:
    """Handshakes for one mounted application."""

    def __init__(self, app: Any) -> None:
        self.world = World()
        self.log = RecordingLog()
        self.mounted = MountedApplication(without_lifespan(app), "/app", loop=self.world.loop, log=self.log)
        self.listeners = UpgradeChain(self.world.sockets)
        self.listeners.use([Step(DEFAULT_UPGRADE)], [Step("app", self.mounted.websocket)])

    def answer(self, fields: dict[str, str] | None = None) -> Response:
        """The answer to a handshake."""
        answer = self.listeners.handle(handshake_request("/app/chat", fields))
        assert answer is not None and inspect.isawaitable(answer)
        try:
            return self.run(answer)
        except Abort as abort:
            return abort.response

    def run(self, awaitable: Any) -> Any:
        async def wait() -> Any:
            return await awaitable

        return self.world.loop.run_until_complete(asyncio.wait_for(wait(), 5))

    def open(self, fields: dict[str, str] | None = None) -> Wire:
        upgrade = self.answer(fields)
        assert isinstance(upgrade, Upgrade) and isinstance(upgrade.receiver, WebSocket)
        wire = Wire(self.world, upgrade.receiver)
        wire.start()
        return wire

    @property
    def tasks(self) -> int:
        return len(self.mounted._tasks)

    def close(self) -> None:
        self.run(self.mounted.stop(0.01))
        self.world.close()
        assert [error for _, error in self.world.errors] == []


Make = Callable[[Any], Case]


@pytest.fixture
def serve() -> Iterator[Make]:
    made: list[Case] = []

    def make(app: Any) -> Case:
        made.append(Case(app))
        return made[-1]

    yield make
    for case in made:
        case.close()


def test_messages_both_ways(serve: Make) -> None:
    got: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        assert scope["type"] == "websocket" and scope["path"] == "/app/chat" and scope["root_path"] == "/app"
        got.append(await receive())
        await send(ACCEPT)
        got.extend([await receive(), await receive()])
        await send({"type": "websocket.send", "text": "é"})
        await send({"type": "websocket.send", "bytes": b"\x00", "text": None})
        got.append(await receive())

    case = serve(app)
    wire = case.open()
    assert wire.send(text("a"), binary(b"b")) == [(0x81, "é".encode()), (0x82, b"\x00")]
    wire.send(close(4001, "bye"))
    assert got == [
        {"type": "websocket.connect"},
        {"type": "websocket.receive", "text": "a"},
        {"type": "websocket.receive", "bytes": b"b"},
        {"type": "websocket.disconnect", "code": 4001, "reason": "bye"},
    ]
    assert not case.tasks and not case.log.errors


def test_subprotocol_and_fields_of_the_answer(serve: Make) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        assert scope["subprotocols"] == ["a", "b"]
        await receive()
        await send(ACCEPT | {"subprotocol": "b", "headers": [(b"x-room", b"7"), (b"sec-websocket-accept", b"forged")]})
        await receive()

    case = serve(app)
    answer = case.answer({"sec-websocket-protocol": "a, b"})
    fields = dict(answer.pairs)
    assert fields["Sec-WebSocket-Protocol"] == "b" and fields["x-room"] == "7"
    assert not any(value == "forged" for value in fields.values()) and len(answer.pairs) == 3
    assert isinstance(answer, Upgrade)
    answer.receiver.on_closed()


def test_no_subprotocol_unless_the_application_names_one(serve: Make) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send(ACCEPT)

    answer = serve(app).answer({"sec-websocket-protocol": "a, b"})
    assert "Sec-WebSocket-Protocol" not in dict(answer.pairs)
    assert isinstance(answer, Upgrade)
    answer.receiver.on_closed()


def test_a_subprotocol_that_was_not_offered(serve: Make) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send(ACCEPT | {"subprotocol": "c"})

    case = serve(app)
    assert case.answer({"sec-websocket-protocol": "a"}).status == 500
    assert "does not offer the subprotocol 'c'" in case.log.text


def test_a_close_before_accept_is_403(serve: Make) -> None:
    got: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send(CLOSE)
        got.append(await receive())

    case = serve(app)
    assert (case.answer().status, got[0]["type"]) == (403, "websocket.disconnect")
    assert not case.log.errors


def test_a_denial_with_a_response(serve: Make) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        assert "websocket.http.response" in scope["extensions"]
        await send({"type": "websocket.http.response.start", "status": 429, "headers": [(b"retry-after", b"7")]})
        await send({"type": "websocket.http.response.body", "body": b"too ", "more_body": True})
        await send({"type": "websocket.http.response.body", "body": b"many"})

    case = serve(app)
    answer = case.answer()
    assert (answer.status, answer.body, answer.pairs) == (429, b"too many", [("retry-after", "7")])
    assert not case.log.errors


@pytest.mark.parametrize(
    ("messages", "told"),
    [
        ([], "ended without an answer to the handshake"),
        ([{"type": "websocket.send", "text": "a"}], "'websocket.send' is not expected before 'websocket.accept'"),
        ([{"type": "websocket.http.response.body"}], "is not expected before"),
        ([{"type": "http.response.start", "status": 200}], "is not expected before"),
        ([{"type": "websocket.http.response.start", "status": 403}], "ended without an answer"),
        ([{"type": "websocket.http.response.start", "status": 403}, ACCEPT], "is not expected after 'websocket.http.response.start'"),
        ([{"type": "websocket.http.response.start", "status": 101}], "status is an integer from 200"),
        ([ACCEPT | {"headers": [(b"a", b"\n")]}], "not a header field"),
        ([None], "a message is a mapping"),
        (
            [
                {"type": "websocket.http.response.start", "status": 403},
                {"type": "websocket.http.response.body", "body": bytes((1 << 20) + 1)},
            ],
            "more than 1048576 bytes",
        ),
    ],
)
def test_what_goes_wrong_before_the_answer_is_a_500(serve: Make, messages: list[Any], told: str) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        for message in messages:
            await send(message)

    case = serve(app)
    answer = case.answer()
    assert (answer.status, answer.body) == (500, b"Internal Server Error")
    assert told in case.log.text and "WebSocket /app/chat" in case.log.text


@pytest.mark.parametrize(
    ("message", "told"),
    [
        (ACCEPT, "'websocket.accept' is not expected while the WebSocket is open"),
        ({"type": "websocket.send"}, "either text is a str, or bytes is bytes"),
        ({"type": "websocket.send", "text": "a", "bytes": b"b"}, "either text"),
        ({"type": "websocket.send", "text": b"a"}, "either text"),
        (CLOSE | {"code": 1005}, "not a close code: 1005"),
        (CLOSE | {"code": 99}, "not a close code: 99"),
        (CLOSE | {"code": "1000"}, "not a close code"),
    ],
)
def test_what_goes_wrong_later_closes_with_1011(serve: Make, message: Any, told: str) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send(ACCEPT)
        await receive()
        await send(message)

    case = serve(app)
    wire = case.open()
    case.world.turn()
    assert wire.tunnel.frames() == [closing(1011, "Internal Server Error")]
    assert told in case.log.text


def test_a_close_by_the_application_and_its_end(serve: Make) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send(ACCEPT)
        await receive()
        if (await receive())["text"] == "close":
            await send(CLOSE | {"code": 4000, "reason": "enough"})
            with pytest.raises(RuntimeError, match="after the WebSocket is closed"):
                await send({"type": "websocket.send", "text": "more"})

    case = serve(app)
    assert case.open().send(text("close")) == [closing(4000, "enough")]
    assert case.open().send(text("end")) == [closing(1000)]
    assert not case.log.errors


def test_send_after_the_client_has_gone_is_an_os_error(serve: Make) -> None:
    told: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send(ACCEPT)
        await receive()
        told.append(await receive())
        try:
            await send({"type": "websocket.send", "text": "x"})
        except OSError as error:
            told.append(type(error))
            raise

    case = serve(app)
    wire = case.open()
    wire.socket.on_closed()
    case.world.turn()
    assert told == [{"type": "websocket.disconnect", "code": 1006, "reason": ""}, ClientDisconnected]
    assert not case.log.errors and not case.tasks


def test_a_client_that_does_not_read_holds_send_back(serve: Make) -> None:
    sent = 0

    async def app(scope: Any, receive: Any, send: Any) -> None:
        nonlocal sent
        await receive()
        await send(ACCEPT)
        await receive()
        for _ in range(100):
            await send({"type": "websocket.send", "bytes": bytes(50_000)})
            sent += 1

    case = serve(app)
    wire = case.open()
    wire.tunnel.is_stuck = True
    wire.send(text("go"))
    assert sent < 10
    for _ in range(30):
        wire.release()
    assert sent == 100


def test_a_client_that_leaves_before_the_answer(serve: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(websocket_call, "GRACE", 0.0)
    told: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        told.append(await receive())
        with pytest.raises(OSError, match="disconnected"):
            await send(ACCEPT)
        try:
            await asyncio.Event().wait()
        finally:
            told.append("cancelled")

    case = serve(app)
    answer: Any = case.listeners.handle(handshake_request("/app/chat"))

    async def leave() -> None:
        task = asyncio.ensure_future(answer)
        await asyncio.sleep(0.001)
        task.cancel()
        await asyncio.wait({task})

    case.run(leave())
    while case.tasks:
        case.run(asyncio.sleep(0))
    assert told == [{"type": "websocket.disconnect", "code": 1006, "reason": ""}, "cancelled"] and not case.log.errors


_STEPS = st.lists(
    st.sampled_from(
        [
            ACCEPT,
            CLOSE,
            CLOSE | {"code": 4000},
            {"type": "websocket.send", "text": "a"},
            {"type": "websocket.send"},
            {"type": "websocket.http.response.start", "status": 400},
            {"type": "websocket.http.response.body", "body": b"x"},
            {"type": "http.response.start", "status": 200},
            "receive",
            "raise",
            "catch",
        ]
    ),
    max_size=7,
)


@given(_STEPS)
def test_any_order_of_messages_is_answered_and_ends(steps: list[Any]) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        catches = False
        for step in steps:
            if step == "receive":
                await asyncio.wait_for(receive(), 0.001)
            elif step == "raise":
                raise KeyError
            elif step == "catch":
                catches = True
            else:
                try:
                    await send(step)
                except Exception:
                    if not catches:
                        raise

    case = Case(app)
    answer = case.answer()
    assert answer.status in (101, 400, 403, 500)
    if isinstance(answer, Upgrade):
        assert isinstance(answer.receiver, WebSocket)
        wire = Wire(case.world, answer.receiver)
        wire.start()
    for _ in range(2000):
        if not case.tasks:
            break
        case.run(asyncio.sleep(0.0005))
    assert not case.tasks
    if isinstance(answer, Upgrade):
        case.world.turn()
        assert wire.tunnel.frames()[-1][0] == 0x88
        wire.socket.on_closed()
    case.close()
