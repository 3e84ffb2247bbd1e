"""Listeners of WebSockets: the order of calls, and what the client gets."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

import pytest

from svc.errors import ClientError, NotFound, Problem
from svc.listeners.routes import make_route
from svc.listeners.step import DEFAULT_UPGRADE, Step
from svc.messages import Request, Upgrade
from svc.protocol.websocket import MAX_PAYLOAD
from svc.websocket import WebSocket, encode_frame
from tests.support.upgrades import Case, chat, closing
from tests.support.web_socket import handshake_request
from tests.support.websocket_frames import binary, text

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


def test_without_anybody_there_are_no_websockets(case: Case) -> None:
    with pytest.raises(NotFound):
        case.answer(handshake_request("/echo"))


# --- WebSocket listeners -------------------------------------------------------------------------------------------------------------


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
