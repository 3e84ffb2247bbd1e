"""Chains of listeners: the order of calls, and what the client gets."""

from __future__ import annotations

import asyncio
import inspect
import struct
from collections.abc import Iterator
from typing import Any

import pytest

from svc.errors import AccessViolation, ClientError, NotFound, Problem
from svc.messages import Request, Upgrade
from svc.protocol.websocket import MAX_PAYLOAD
from svc.websocket import UpgradeListeners, WebSocket, WsListeners, encode_frame
from tests.support.web_socket import FakeTunnel, Wire, World, handshake_request
from tests.support.websocket_frames import binary, close, text


def closing(code: int, reason: str = "") -> tuple[int, bytes]:
    return 0x88, struct.pack("!H", code) + reason.encode()


class Handler:
    """The resources: /echo, /later, and /secret that no user may read."""

    def __init__(self) -> None:
        self.found: list[str] = []

    def subprotocol(self, request: Request) -> str | None:
        return "second" if "second" in request.block.fields.get("sec-websocket-protocol", "") else None

    def find(self, request: Request) -> Any:
        self.found.append(request.pathname)
        if request.pathname == "/echo":
            return self.echo
        if request.pathname == "/later":
            return self.later
        if request.pathname == "/secret":
            raise AccessViolation()
        if request.pathname == "/bad":
            raise ClientError("bad query")
        if request.pathname == "/defect":
            raise KeyError("defect")
        raise NotFound("Not found")

    def echo(self, socket: WebSocket) -> None:
        socket.on("message", lambda message: socket.send_frame(encode_frame(message)))

    async def later(self, socket: WebSocket) -> None:
        async for message in socket:
            await socket.send(message)
            return


class LiveQuerySpec:
    def __init__(self) -> None:
        self.world = World()
        self.handler = Handler()
        self.listeners = UpgradeListeners(WsListeners(self.world.sockets))

    def serve(self) -> LiveQuerySpec:
        self.listeners.serve_with(self.handler)
        return self

    def answer(self, request: Request, refusal: Problem | None = None) -> Any:
        """The answer, awaited if it has to be."""
        answer = self.listeners.handle(request, refusal)
        if inspect.isawaitable(answer):

            async def wait() -> Any:
                return await answer

            return self.world.loop.run_until_complete(asyncio.wait_for(wait(), 5))
        return answer

    def connect(self, target: str, refusal: Problem | None = None, **options: Any) -> Wire:
        upgrade = self.answer(handshake_request(target, **options), refusal)
        assert type(upgrade) is Upgrade and isinstance(upgrade.receiver, WebSocket)
        wire = Wire(self.world, upgrade.receiver)
        wire.start()
        return wire

    def connects(self) -> tuple[int, int]:
        """How many handshakes succeeded, of how many."""
        entry = self.world.entries().get(("connection", None, "connect"), {"total": 0, "count": 0})
        return entry["total"], entry["count"]


@pytest.fixture
def asked() -> Iterator[LiveQuerySpec]:
    made = LiveQuerySpec()
    yield made
    made.world.close()
    assert [error for _, error in made.world.errors if not isinstance(error, LookupError)] == []


# --- resources alone: plain calls --------------------------------------------------------------------------------------------------


def test_a_resource_is_answered_by_a_plain_call(asked: LiveQuerySpec) -> None:
    asked.serve()
    request = handshake_request("/echo")
    answer = asked.listeners.handle(request)
    assert type(answer) is Upgrade
    assert request.upgraded is True
    assert getattr(request, "__service_request_upgraded") is True
    assert not asked.world.sockets._tasks
    assert asked.connect("/echo").send(text("a")) == [(0x81, b"a")]


@pytest.mark.parametrize(("target", "error"), [("/none", NotFound), ("/bad", ClientError), ("/defect", KeyError)])
def test_a_missing_resource_is_refused_with_a_status(asked: LiveQuerySpec, target: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        asked.serve().answer(handshake_request(target))
    assert asked.connects() == (0, 1)


def test_missing_rights_are_a_close_code(asked: LiveQuerySpec) -> None:
    wire = asked.serve().connect("/secret")
    assert wire.tunnel.frames() == [closing(3000, "Must login")]
    wire = asked.connect("/echo", Problem("Login failed", 401))
    assert wire.tunnel.frames() == [closing(3000, "Login failed")]
    assert asked.handler.found == ["/secret"]
    assert asked.connects() == (0, 2)


def test_a_wrong_handshake_is_refused(asked: LiveQuerySpec) -> None:
    with pytest.raises(ClientError) as caught:
        asked.serve().answer(handshake_request("/echo", {"sec-websocket-version": "7"}))
    assert caught.value.status_code == 426
    assert asked.connects() == (0, 1)
    assert asked.handler.found == []


def test_a_request_without_a_websocket_offer_is_not_taken(asked: LiveQuerySpec) -> None:
    asked.serve()
    other = handshake_request("/echo")
    other.offers = "h2c"
    assert asked.answer(other) is None
    assert asked.answer(handshake_request("/echo", method="POST")) is None
    assert asked.connects() == (0, 0)


def test_without_anybody_there_are_no_websockets(asked: LiveQuerySpec) -> None:
    with pytest.raises(NotFound):
        asked.answer(handshake_request("/echo"))


def test_an_upgraded_request_is_left_alone(asked: LiveQuerySpec) -> None:
    request = handshake_request("/echo")
    request.upgraded = True
    assert asked.serve().answer(request) is None


def test_over_http2(asked: LiveQuerySpec) -> None:
    bare = {"connection": "", "upgrade": "", "sec-websocket-key": ""}
    asked.serve().listeners.add(lambda *ignored: pytest.fail("there is no socket to give"))
    wire = asked.connect("/echo", fields=bare, http_version="2")
    assert wire.send(text("a")) == [(0x81, b"a")]


# --- WebSocket listeners -------------------------------------------------------------------------------------------------------------


async def chat(socket: WebSocket, request: Request, chain_completion: Any, next: Any) -> Any:
    if request.pathname != "/chat":
        return await next(socket, request, chain_completion)
    await chain_completion
    async for message in socket:
        await socket.send(f"you said {message!s}")
    return None


def test_a_listener_takes_what_it_wants_and_passes_on_the_rest(asked: LiveQuerySpec) -> None:
    asked.serve().listeners.add_ws(chat)
    assert asked.connect("/chat").send(text("a")) == [(0x81, b"you said a")]
    assert asked.handler.found == []
    assert asked.connect("/echo").send(text("a")) == [(0x81, b"a")]
    assert asked.connect("/later").send(text("a")) == [(0x81, b"a"), closing(1000)]
    with pytest.raises(NotFound):
        asked.answer(handshake_request("/none"))
    assert asked.connect("/secret").tunnel.frames() == [closing(3000, "Must login")]
    assert asked.connects() == (3, 5)
    assert asked.world.errors == []


def test_wrong_credentials_are_raised_by_the_completion(asked: LiveQuerySpec) -> None:
    asked.serve().listeners.add_ws(chat)
    for target in ("/chat", "/echo"):
        assert asked.connect(target, Problem("Login failed", 401)).tunnel.frames() == [closing(3000, "Login failed")]


def test_the_completion_may_be_awaited_again_and_again(asked: LiveQuerySpec) -> None:
    seen: list[object] = []

    async def listener(socket: WebSocket, request: Request, chain_completion: Any, next: Any) -> None:
        for _ in range(3):
            try:
                seen.append(await chain_completion)
            except Problem as problem:
                seen.append(problem.message)
        await socket.send("hello")

    asked.listeners.add_ws(listener)
    asked.connect("/chat")
    asked.connect("/chat", Problem("no", 401))
    assert seen == [None, None, None, "no", "no", "no"]


def test_order_of_listeners(asked: LiveQuerySpec) -> None:
    order: list[str] = []

    def listener(name: str) -> Any:
        async def listen(socket: WebSocket, request: Request, chain_completion: Any, next: Any) -> None:
            order.append(name)
            await next(socket, request, chain_completion)
            order.append(f"/{name}")

        return listen

    asked.serve()
    asked.listeners.add_ws(listener("one"))
    asked.listeners.add_ws(listener("two"))
    asked.listeners.add_ws(listener("first"), run_first=True)
    asked.connect("/echo")
    assert order == ["first", "one", "two", "/two", "/one", "/first"]


def test_a_listener_that_keeps_the_socket_for_later(asked: LiveQuerySpec) -> None:
    clients: list[WebSocket] = []

    async def keep(socket: WebSocket, request: Request, chain_completion: Any, next: Any) -> None:
        clients.append(socket)

    asked.listeners.add_ws(keep)
    wire = asked.connect("/anything")
    clients[0].send_frame(encode_frame("news"))
    assert wire.tunnel.frames() == [(0x81, b"news")]


@pytest.mark.parametrize("target", ["/chat", "/none"])
def test_errors_of_a_listener(asked: LiveQuerySpec, target: str) -> None:
    async def listener(socket: WebSocket, request: Request, chain_completion: Any, next: Any) -> None:
        if request.pathname == "/chat":
            raise NotFound("mine")
        try:
            await next(socket, request, chain_completion)
        except NotFound:
            await socket.send("not there, but here I am")

    asked.serve().listeners.add_ws(listener)
    frames = asked.connect(target).tunnel.frames()
    assert frames == ([closing(1011, "mine")] if target == "/chat" else [(0x81, b"not there, but here I am")])


def test_an_unexpected_error_of_a_listener(asked: LiveQuerySpec) -> None:
    async def listener(socket: WebSocket, request: Request, chain_completion: Any, next: Any) -> None:
        raise KeyError("secret")

    asked.listeners.add_ws(listener)
    assert asked.connect("/chat").tunnel.frames() == [closing(1011, "Internal Server Error")]
    assert [type(error) for _, error in asked.world.errors] == [KeyError]


def test_each_listener_has_its_limit(asked: LiveQuerySpec) -> None:
    asked.serve().listeners.add_ws(chat, max_payload=100)
    wire = asked.connect("/chat")
    assert wire.send(binary(b"x" * 101)) == [closing(1009, "A message may have 100 bytes")]
    wire = asked.connect("/echo")
    assert wire.send(binary(b"x" * 101)) == [(0x82, b"x" * 101)]
    assert wire.socket._driver._max_payload == MAX_PAYLOAD


def test_the_client_goes_away_before_it_is_answered(asked: LiveQuerySpec) -> None:
    cancelled: list[bool] = []

    async def slow(socket: WebSocket, request: Request, chain_completion: Any, next: Any) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.append(True)

    asked.listeners.add_ws(slow)
    answer = asked.listeners.handle(handshake_request("/chat"))
    assert inspect.isawaitable(answer)

    async def wait() -> Any:
        return await answer

    task = asked.world.loop.create_task(wait())
    asked.world.turn()
    task.cancel()
    asked.world.turn()
    assert cancelled == [True] and task.cancelled()
    assert not asked.world.sockets._tasks


# --- upgrade listeners ---------------------------------------------------------------------------------------------------------------


async def line(request: Request, socket: Any, head: bytes, next: Any) -> Any:
    """A protocol of its own."""
    if request.offers != "line":
        result = next(request, socket, head)
        return await result if inspect.isawaitable(result) else result
    socket.write(b"HTTP/1.1 101 Switching Protocols\r\n\r\n")
    while data := await socket.read(4):
        socket.write(data.upper())
        await socket.drain()
    socket.write(b"bye")
    socket.close()
    return None


def line_request() -> Request:
    request = handshake_request("/line", {"upgrade": "line"})
    request.offers = "line"
    return request


def test_an_upgrade_listener_speaks_a_protocol_of_its_own(asked: LiveQuerySpec) -> None:
    asked.serve().listeners.add(line)
    upgrade = asked.answer(line_request())
    assert type(upgrade) is Upgrade and upgrade.protocol == ""
    tunnel = FakeTunnel()
    receiver = upgrade.receiver
    receiver.start(tunnel)
    receiver.on_data(b"abcdef")
    asked.world.turn()
    assert tunnel.written == [b"HTTP/1.1 101 Switching Protocols\r\n\r\n", b"ABCD", b"EF"]
    receiver.on_eof()
    asked.world.turn()
    assert tunnel.written[-1] == b"bye" and tunnel.ended == "close"
    receiver.on_closed()
    assert asked.connect("/echo").send(text("a")) == [(0x81, b"a")]


def test_the_peer_of_a_raw_socket_is_held_back(asked: LiveQuerySpec) -> None:
    sockets: list[Any] = []

    def keep(request: Request, socket: Any, head: bytes, next: Any) -> None:
        sockets.append(socket)

    asked.listeners.add(keep)
    upgrade = asked.answer(line_request())
    tunnel = FakeTunnel()
    upgrade.receiver.start(tunnel)
    while tunnel.is_reading:
        upgrade.receiver.on_data(b"x" * 10_000)
    read = asked.world.loop.run_until_complete(sockets[0].read(200_000))
    assert len(read) == 200_000 and tunnel.is_reading
    tunnel.is_stuck = True
    sockets[0].write(b"y" * 1_000_000)
    drained = asked.world.loop.create_task(sockets[0].drain())
    asked.world.turn()
    assert not drained.done()
    upgrade.receiver.on_closed()
    asked.world.turn()
    assert isinstance(drained.exception(), ConnectionResetError)
    assert asked.world.loop.run_until_complete(sockets[0].read()) != b""
    assert asked.world.loop.run_until_complete(sockets[0].read()) == b""
    asked.world.loop.run_until_complete(sockets[0].wait_closed())
    sockets[0].write(b"nowhere")
    assert sockets[0].is_closing()


def test_the_default_handler_is_there_since_the_first_websocket_listener(asked: LiveQuerySpec) -> None:
    seen: list[tuple[str, bool]] = []

    def note(name: str) -> Any:
        def listener(request: Request, socket: Any, head: bytes, next: Any) -> Any:
            seen.append((name, request.upgraded))
            return next(request, socket, head)

        return listener

    asked.listeners.add(note("before"))
    asked.serve()
    asked.listeners.add(note("after"))
    asked.listeners.add(note("first"), run_first=True)
    assert type(asked.answer(handshake_request("/echo"))) is Upgrade
    assert seen == [("first", False), ("before", False), ("after", True)]


def test_a_listener_may_take_websockets_itself(asked: LiveQuerySpec) -> None:
    def own(request: Request, socket: Any, head: bytes, next: Any) -> Any:
        request.upgraded = True
        socket.write(b"mine")
        return next(request, socket, head)

    asked.serve().listeners.add(own, run_first=True)
    upgrade = asked.answer(handshake_request("/echo"))
    assert upgrade.protocol == "" and asked.handler.found == []


def test_no_listener_takes_it(asked: LiveQuerySpec) -> None:
    asked.serve().listeners.add(line)
    other = line_request()
    other.offers = "h2c"
    assert asked.answer(other) is None


def test_refusals_pass_through_upgrade_listeners(asked: LiveQuerySpec) -> None:
    asked.serve().listeners.add(line)
    asked.listeners.add_ws(chat)
    with pytest.raises(NotFound):
        asked.answer(handshake_request("/none"))
    assert asked.connects() == (0, 1)
    assert asked.connect("/chat").send(text("a"), close(1000))[0] == (0x81, b"you said a")


@pytest.mark.parametrize("is_late", [False, True])
@pytest.mark.parametrize("is_async", [False, True])
def test_errors_of_an_upgrade_listener(asked: LiveQuerySpec, is_late: bool, is_async: bool) -> None:
    def plain(request: Request, socket: Any, head: bytes, next: Any) -> None:
        if is_late:
            socket.write(b"HTTP/1.1 101")
        raise KeyError("mine")

    async def later(request: Request, socket: Any, head: bytes, next: Any) -> None:
        await asyncio.sleep(0)
        plain(request, socket, head, next)

    asked.listeners.add(later if is_async else plain)
    if not is_late:
        with pytest.raises(KeyError):
            asked.answer(line_request())
        return
    upgrade = asked.answer(line_request())
    tunnel = FakeTunnel()
    upgrade.receiver.start(tunnel)
    asked.world.turn()
    assert tunnel.written == [b"HTTP/1.1 101"] and tunnel.ended == "close"
    assert [type(error) for _, error in asked.world.errors] == [KeyError]


def test_an_ordinary_answer_is_not_for_listeners_to_give(asked: LiveQuerySpec) -> None:
    """What is no upgrade is refused by raising."""

    def refuse(request: Request, socket: Any, head: bytes, next: Any) -> None:
        raise ClientError("Not here", 403)

    asked.serve().listeners.add(refuse, run_first=True)
    with pytest.raises(ClientError, match="Not here"):
        asked.answer(handshake_request("/echo"))
