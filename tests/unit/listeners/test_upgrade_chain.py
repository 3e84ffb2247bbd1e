"""Chains of listeners: the order of calls, and what the client gets."""

from __future__ import annotations

import asyncio
import inspect
import struct
from collections.abc import Iterator
from typing import Any

import pytest

from svc.errors import AccessViolation, ClientError, NotFound, Problem
from svc.listeners.options import ListenerOptions
from svc.listeners.routes import make_route
from svc.listeners.step import DEFAULT_UPGRADE, Step
from svc.listeners.upgrade_chain import UpgradeChain
from svc.messages import Request, Upgrade
from svc.protocol.websocket import MAX_PAYLOAD
from svc.websocket import WebSocket, encode_frame
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


class Case:
    def __init__(self) -> None:
        self.world = World()
        self.handler = Handler()
        self.chain = UpgradeChain(self.world.sockets)
        self._steps = [Step(DEFAULT_UPGRADE)]
        self._websockets: list[Step] = []

    def serve(self) -> Case:
        self.chain.serve_with(self.handler)
        return self

    def add(self, listener: Any, *, run_first: bool = False) -> None:
        self._steps.insert(0 if run_first else len(self._steps), Step("upgrade", listener))
        self.chain.use(self._steps, self._websockets)

    def add_ws(self, listener: Any, *, run_first: bool = False, max_payload: int = MAX_PAYLOAD) -> None:
        step = Step("ws", listener, options=ListenerOptions(max_payload=max_payload))
        self._websockets.insert(0 if run_first else len(self._websockets), step)
        self.chain.use(self._steps, self._websockets)

    def answer(self, request: Request, refusal: Problem | None = None) -> Any:
        """The answer, awaited if it has to be."""
        answer = self.chain.handle(request, refusal)
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
def case() -> Iterator[Case]:
    made = Case()
    yield made
    made.world.close()
    assert [error for _, error in made.world.errors if not isinstance(error, LookupError)] == []


# --- resources alone: plain calls --------------------------------------------------------------------------------------------------


def test_a_resource_is_answered_by_a_plain_call(case: Case) -> None:
    case.serve()
    request = handshake_request("/echo")
    answer = case.chain.handle(request)
    assert type(answer) is Upgrade
    assert request.upgraded is True
    assert getattr(request, "__service_request_upgraded") is True
    assert not case.world.sockets._tasks
    assert case.connect("/echo").send(text("a")) == [(0x81, b"a")]


@pytest.mark.parametrize(("target", "error"), [("/none", NotFound), ("/bad", ClientError), ("/defect", KeyError)])
def test_a_missing_resource_is_refused_with_a_status(case: Case, target: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        case.serve().answer(handshake_request(target))
    assert case.connects() == (0, 1)


def test_missing_rights_are_a_close_code(case: Case) -> None:
    wire = case.serve().connect("/secret")
    assert wire.tunnel.frames() == [closing(3000, "Must login")]
    wire = case.connect("/echo", Problem("Login failed", 401))
    assert wire.tunnel.frames() == [closing(3000, "Login failed")]
    assert case.handler.found == ["/secret"]
    assert case.connects() == (0, 2)


def test_a_wrong_handshake_is_refused(case: Case) -> None:
    with pytest.raises(ClientError) as caught:
        case.serve().answer(handshake_request("/echo", {"sec-websocket-version": "7"}))
    assert caught.value.status_code == 426
    assert case.connects() == (0, 1)
    assert case.handler.found == []


def test_a_request_without_a_websocket_offer_is_not_taken(case: Case) -> None:
    case.serve()
    other = handshake_request("/echo")
    other.offers = "h2c"
    assert case.answer(other) is None
    assert case.answer(handshake_request("/echo", method="POST")) is None
    assert case.connects() == (0, 0)


def test_without_anybody_there_are_no_websockets(case: Case) -> None:
    with pytest.raises(NotFound):
        case.answer(handshake_request("/echo"))


def test_an_upgraded_request_is_left_alone(case: Case) -> None:
    request = handshake_request("/echo")
    request.upgraded = True
    assert case.serve().answer(request) is None


def test_over_http2(case: Case) -> None:
    bare = {"connection": "", "upgrade": "", "sec-websocket-key": ""}
    case.serve().add(lambda *ignored: pytest.fail("there is no socket to give"))
    wire = case.connect("/echo", fields=bare, http_version="2")
    assert wire.send(text("a")) == [(0x81, b"a")]


# --- WebSocket listeners -------------------------------------------------------------------------------------------------------------


async def chat(socket: WebSocket, request: Request, chain_completion: Any, next: Any) -> Any:
    if request.pathname != "/chat":
        return await next(socket, request, chain_completion)
    await chain_completion
    async for message in socket:
        await socket.send(f"you said {message!s}")
    return None


def test_a_listener_takes_what_it_wants_and_passes_on_the_rest(case: Case) -> None:
    case.serve().add_ws(chat)
    assert case.connect("/chat").send(text("a")) == [(0x81, b"you said a")]
    assert case.handler.found == []
    assert case.connect("/echo").send(text("a")) == [(0x81, b"a")]
    assert case.connect("/later").send(text("a")) == [(0x81, b"a"), closing(1000)]
    with pytest.raises(NotFound):
        case.answer(handshake_request("/none"))
    assert case.connect("/secret").tunnel.frames() == [closing(3000, "Must login")]
    assert case.connects() == (3, 5)
    assert case.world.errors == []


def test_wrong_credentials_are_raised_by_the_completion(case: Case) -> None:
    case.serve().add_ws(chat)
    for target in ("/chat", "/echo"):
        assert case.connect(target, Problem("Login failed", 401)).tunnel.frames() == [closing(3000, "Login failed")]


def test_the_completion_may_be_awaited_again_and_again(case: Case) -> None:
    seen: list[object] = []

    async def listener(socket: WebSocket, request: Request, chain_completion: Any, next: Any) -> None:
        for _ in range(3):
            try:
                seen.append(await chain_completion)
            except Problem as problem:
                seen.append(problem.message)
        await socket.send("hello")

    case.add_ws(listener)
    case.connect("/chat")
    case.connect("/chat", Problem("no", 401))
    assert seen == [None, None, None, "no", "no", "no"]


def test_order_of_listeners(case: Case) -> None:
    order: list[str] = []

    def listener(name: str) -> Any:
        async def listen(socket: WebSocket, request: Request, chain_completion: Any, next: Any) -> None:
            order.append(name)
            await next(socket, request, chain_completion)
            order.append(f"/{name}")

        return listen

    case.serve()
    case.add_ws(listener("one"))
    case.add_ws(listener("two"))
    case.add_ws(listener("first"), run_first=True)
    case.connect("/echo")
    assert order == ["first", "one", "two", "/two", "/one", "/first"]


def test_a_listener_that_keeps_the_socket_for_later(case: Case) -> None:
    clients: list[WebSocket] = []

    async def keep(socket: WebSocket, request: Request, chain_completion: Any, next: Any) -> None:
        clients.append(socket)

    case.add_ws(keep)
    wire = case.connect("/anything")
    clients[0].send_frame(encode_frame("news"))
    assert wire.tunnel.frames() == [(0x81, b"news")]


@pytest.mark.parametrize("target", ["/chat", "/none"])
def test_errors_of_a_listener(case: Case, target: str) -> None:
    async def listener(socket: WebSocket, request: Request, chain_completion: Any, next: Any) -> None:
        if request.pathname == "/chat":
            raise NotFound("mine")
        try:
            await next(socket, request, chain_completion)
        except NotFound:
            await socket.send("not there, but here I am")

    case.serve().add_ws(listener)
    frames = case.connect(target).tunnel.frames()
    assert frames == ([closing(1011, "mine")] if target == "/chat" else [(0x81, b"not there, but here I am")])


def test_an_unexpected_error_of_a_listener(case: Case) -> None:
    async def listener(socket: WebSocket, request: Request, chain_completion: Any, next: Any) -> None:
        raise KeyError("secret")

    case.add_ws(listener)
    assert case.connect("/chat").tunnel.frames() == [closing(1011, "Internal Server Error")]
    assert [type(error) for _, error in case.world.errors] == [KeyError]


def test_each_listener_has_its_limit(case: Case) -> None:
    case.serve().add_ws(chat, max_payload=100)
    wire = case.connect("/chat")
    assert wire.send(binary(b"x" * 101)) == [closing(1009, "A message may have 100 bytes")]
    wire = case.connect("/echo")
    assert wire.send(binary(b"x" * 101)) == [(0x82, b"x" * 101)]
    assert wire.socket._driver._max_payload == MAX_PAYLOAD


def test_the_client_goes_away_before_it_is_answered(case: Case) -> None:
    cancelled: list[bool] = []

    async def slow(socket: WebSocket, request: Request, chain_completion: Any, next: Any) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.append(True)

    case.add_ws(slow)
    answer = case.chain.handle(handshake_request("/chat"))
    assert inspect.isawaitable(answer)

    async def wait() -> Any:
        return await answer

    task = case.world.loop.create_task(wait())
    case.world.turn()
    task.cancel()
    case.world.turn()
    assert cancelled == [True] and task.cancelled()
    assert not case.world.sockets._tasks


def test_a_listener_of_a_path_sees_the_rest_of_it_and_others_the_whole(case: Case) -> None:
    seen: list[tuple[str, str]] = []

    def listener(name: str) -> Any:
        async def listen(socket: WebSocket, request: Request, completion: Any, next: Any) -> None:
            seen.append((name, request.pathname))
            await next(socket, request, completion)
            seen.append((name, request.pathname))

        return listen

    case.serve()
    case.chain.use(
        [Step(DEFAULT_UPGRADE)],
        [
            Step("other", listener("other"), make_route(None, "/other")),
            Step("path", listener("path"), make_route(None, "/ech%6f")),
            Step("all", listener("all")),
        ],
    )
    assert case.connect("/echo").send(text("a")) == [(0x81, b"a")]
    assert seen == [("path", "/"), ("all", "/echo"), ("all", "/echo"), ("path", "/echo")]
    assert case.handler.found == ["/echo"]


def test_a_listener_of_upgrades_of_a_path(case: Case) -> None:
    seen: list[str] = []

    def listener(request: Request, socket: Any, head: bytes, next: Any) -> Any:
        seen.append(request.pathname)
        return next(request, socket, head)

    case.serve()
    case.chain.use([Step("path", listener, make_route(None, "/echo")), Step("all", listener), Step(DEFAULT_UPGRADE)], [])
    assert type(case.answer(handshake_request("/echo"))) is Upgrade
    assert seen == ["/", "/echo"]
    seen.clear()
    with pytest.raises(NotFound):
        case.answer(handshake_request("/other"))
    assert seen == ["/other"] and case.handler.found == ["/echo", "/other"]


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


def test_an_upgrade_listener_speaks_a_protocol_of_its_own(case: Case) -> None:
    case.serve().add(line)
    upgrade = case.answer(line_request())
    assert type(upgrade) is Upgrade and upgrade.protocol == ""
    tunnel = FakeTunnel()
    receiver = upgrade.receiver
    receiver.start(tunnel)
    receiver.on_data(b"abcdef")
    case.world.turn()
    assert tunnel.written == [b"HTTP/1.1 101 Switching Protocols\r\n\r\n", b"ABCD", b"EF"]
    receiver.on_eof()
    case.world.turn()
    assert tunnel.written[-1] == b"bye" and tunnel.ended == "close"
    receiver.on_closed()
    assert case.connect("/echo").send(text("a")) == [(0x81, b"a")]


def test_the_peer_of_a_raw_socket_is_held_back(case: Case) -> None:
    sockets: list[Any] = []

    def keep(request: Request, socket: Any, head: bytes, next: Any) -> None:
        sockets.append(socket)

    case.add(keep)
    upgrade = case.answer(line_request())
    tunnel = FakeTunnel()
    upgrade.receiver.start(tunnel)
    while tunnel.is_reading:
        upgrade.receiver.on_data(b"x" * 10_000)
    read = case.world.loop.run_until_complete(sockets[0].read(200_000))
    assert len(read) == 200_000 and tunnel.is_reading
    tunnel.is_stuck = True
    sockets[0].write(b"y" * 1_000_000)
    drained = case.world.loop.create_task(sockets[0].drain())
    case.world.turn()
    assert not drained.done()
    upgrade.receiver.on_closed()
    case.world.turn()
    assert isinstance(drained.exception(), ConnectionResetError)
    assert case.world.loop.run_until_complete(sockets[0].read()) != b""
    assert case.world.loop.run_until_complete(sockets[0].read()) == b""
    case.world.loop.run_until_complete(sockets[0].wait_closed())
    sockets[0].write(b"nowhere")
    assert sockets[0].is_closing()


def test_listeners_around_the_default_step(case: Case) -> None:
    seen: list[tuple[str, bool]] = []

    def note(name: str) -> Any:
        def listener(request: Request, socket: Any, head: bytes, next: Any) -> Any:
            seen.append((name, request.upgraded))
            return next(request, socket, head)

        return listener

    case.serve()
    case.add(note("after"))
    case.add(note("before"), run_first=True)
    case.add(note("first"), run_first=True)
    assert type(case.answer(handshake_request("/echo"))) is Upgrade
    assert seen == [("first", False), ("before", False), ("after", True)]


def test_a_listener_may_take_websockets_itself(case: Case) -> None:
    def own(request: Request, socket: Any, head: bytes, next: Any) -> Any:
        request.upgraded = True
        socket.write(b"mine")
        return next(request, socket, head)

    case.serve().add(own, run_first=True)
    upgrade = case.answer(handshake_request("/echo"))
    assert upgrade.protocol == "" and case.handler.found == []


def test_no_listener_takes_it(case: Case) -> None:
    case.serve().add(line)
    other = line_request()
    other.offers = "h2c"
    assert case.answer(other) is None


def test_refusals_pass_through_upgrade_listeners(case: Case) -> None:
    case.serve().add(line)
    case.add_ws(chat)
    with pytest.raises(NotFound):
        case.answer(handshake_request("/none"))
    assert case.connects() == (0, 1)
    assert case.connect("/chat").send(text("a"), close(1000))[0] == (0x81, b"you said a")


@pytest.mark.parametrize("is_late", [False, True])
@pytest.mark.parametrize("is_async", [False, True])
def test_errors_of_an_upgrade_listener(case: Case, is_late: bool, is_async: bool) -> None:
    def plain(request: Request, socket: Any, head: bytes, next: Any) -> None:
        if is_late:
            socket.write(b"HTTP/1.1 101")
        raise KeyError("mine")

    async def later(request: Request, socket: Any, head: bytes, next: Any) -> None:
        await asyncio.sleep(0)
        plain(request, socket, head, next)

    case.add(later if is_async else plain)
    if not is_late:
        with pytest.raises(KeyError):
            case.answer(line_request())
        return
    upgrade = case.answer(line_request())
    tunnel = FakeTunnel()
    upgrade.receiver.start(tunnel)
    case.world.turn()
    assert tunnel.written == [b"HTTP/1.1 101"] and tunnel.ended == "close"
    assert [type(error) for _, error in case.world.errors] == [KeyError]


def test_an_ordinary_answer_is_not_for_listeners_to_give(case: Case) -> None:
    """What is no upgrade is refused by raising."""

    def refuse(request: Request, socket: Any, head: bytes, next: Any) -> None:
        raise ClientError("Not here", 403)

    case.serve().add(refuse, run_first=True)
    with pytest.raises(ClientError, match="Not here"):
        case.answer(handshake_request("/echo"))
