"""Listeners of upgrades: the order of calls, and what the client gets."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

import pytest

from svc.errors import ClientError, NotFound
from svc.listeners.routes import make_route
from svc.listeners.step import DEFAULT_UPGRADE, Step
from svc.messages import Request, Upgrade
from tests.support.upgrades import Case, chat
from tests.support.web_socket import FakeTunnel, handshake_request
from tests.support.websocket_frames import close, text


def test_a_request_without_a_websocket_offer_is_not_taken(case: Case) -> None:
    case.serve()
    other = handshake_request("/echo")
    other.offers = "h2c"
    assert case.answer(other) is None
    assert case.answer(handshake_request("/echo", method="POST")) is None
    assert case.connects() == (0, 0)


def test_an_upgraded_request_is_left_alone(case: Case) -> None:
    request = handshake_request("/echo")
    request.upgraded = True
    assert case.serve().answer(request) is None


def test_over_http2(case: Case) -> None:
    bare = {"connection": "", "upgrade": "", "sec-websocket-key": ""}
    case.serve().add(lambda *ignored: pytest.fail("there is no socket to give"))
    wire = case.connect("/echo", fields=bare, http_version="2")
    assert wire.send(text("a")) == [(0x81, b"a")]


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
