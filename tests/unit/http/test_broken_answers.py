"""Answers of application code that cannot be sent, or break while they are: the client and the server go on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from svc.errors import ClientError
from svc.messages import Abort, HeaderBlock, Request, Response
from tests.support.node import Node


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    made = Node(tmp_path)
    yield made
    made.close()


class Raises:
    """An iterator whose first piece is an exception."""

    def __init__(self, error: BaseException) -> None:
        self._error = error

    def __iter__(self) -> Raises:
        return self

    def __next__(self) -> bytes:
        raise self._error


async def later(error: BaseException) -> AsyncIterator[bytes]:
    yield b"begun"
    raise error


async def pieces(*found: Any) -> AsyncIterator[Any]:
    for piece in found:
        yield piece


def answers(make: Callable[[], Any], *, wait: bool) -> Any:
    def at_once(request: Request, next: Any) -> Any:
        return make() if request.pathname == "/broken" else next(request)

    async def waiting(request: Request, next: Any) -> Any:
        await asyncio.sleep(0)
        return make() if request.pathname == "/broken" else await next(request)

    return waiting if wait else at_once


BROKEN: dict[str, Callable[[], Any]] = {
    "strings of the announced length": lambda: Response(iter(["abc"]), headers={"Content-Length": "3"}),  # type: ignore[arg-type]
    "strings in a generator that waits": lambda: Response(pieces("abc"), headers={"Content-Length": "3"}),
    "numbers": lambda: Response(iter([3])),  # type: ignore[arg-type]
    "a cancellation": lambda: Response(Raises(asyncio.CancelledError())),
    "an exit": lambda: Response(Raises(SystemExit(1))),
    "a cancellation later": lambda: Response(later(asyncio.CancelledError())),
    "an exit later": lambda: Response(later(SystemExit(1))),
    "no length": lambda: Response(iter([b"abc"]), headers={"Content-Length": "abc"}),
    "no field": lambda: Response(b"abc", pairs=[("X-A", "b\r\nX-B: c")]),
}


@pytest.mark.parametrize("wait", [False, True])
@pytest.mark.parametrize("what", BROKEN)
def test_it_ends_the_connection_and_nothing_else(node: Node, what: str, wait: bool) -> None:
    node.server.http(answers(BROKEN[what], wait=wait), run_first=True)
    wire = node.connect()
    wire.send(b"GET /broken HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert wire.connection.closed
    assert node.errors
    node.errors.clear()
    assert node.connect().ask("PUT", "/Product/1", b"{}")[0] == 204
    assert node.connect().ask("GET", "/Product/1")[0] == 200


@pytest.mark.parametrize("wait", [False, True])
def test_a_length_that_is_repeated_is_one(node: Node, wait: bool) -> None:
    def make() -> Response:
        response = Response(iter([b"ab", bytearray(b"c")]))  # type: ignore[list-item]
        response.headers.append("Content-Length", "3")
        response.headers.append("Content-Length", "3")
        return response

    node.server.http(answers(make, wait=wait), run_first=True)
    status, fields, body = node.connect().ask("GET", "/broken")
    assert (status, fields["content-length"], body) == (200, "3", b"abc")


@pytest.mark.parametrize("wait", [False, True])
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_a_generator_that_fails_at_its_end(node: Node, wait: bool, method: str) -> None:
    def endless() -> Iterator[bytes]:
        try:
            while True:
                yield b"x" * 100_000
        finally:
            raise ValueError("at the end")

    node.server.http(answers(lambda: Response(endless()), wait=wait), run_first=True)
    wire = node.connect()
    wire.sock.room = 1000
    wire.send(f"{method} /broken HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    wire.connection.close_now()
    node.settle()
    assert wire.sock.closed
    node.check_that_nothing_is_left()
    assert [str(error) for _, error in node.errors] == (["at the end"] if method == "GET" else [])
    node.errors.clear()


@pytest.mark.parametrize("wait", [False, True])
@pytest.mark.parametrize("error", [SystemExit(1), asyncio.CancelledError()])
def test_what_a_listener_raises_is_answered(node: Node, error: BaseException, wait: bool) -> None:
    def fail() -> Any:
        raise error

    node.server.http(answers(fail, wait=wait), run_first=True)
    assert node.connect().ask("GET", "/broken")[0] == 500
    node.errors.clear()
    assert node.connect().ask("GET", "/Product/none")[0] == 404


@pytest.mark.parametrize("response", [Response(b"x", 101), Response(b"x", 99), Response({"a": 1})])  # type: ignore[arg-type]
def test_an_abort_with_what_cannot_be_sent(node: Node, response: Response) -> None:
    status = node.dispatcher.failure(Abort(response), Request("GET", "/", HeaderBlock([("host", "localhost")]))).status
    assert status == 500
    node.errors.clear()


def test_an_exception_without_a_text(node: Node) -> None:
    class Silent(Exception):
        status = 409

        def __str__(self) -> str:
            raise ClientError("no text")

    def fail() -> Any:
        raise Silent

    node.server.http(answers(fail, wait=True), run_first=True)
    assert node.connect().ask("GET", "/broken")[0] == 409


async def hold(request: Request, next: Any) -> Any:
    response = await next(request)
    await asyncio.sleep(1000)
    return response


async def swallow(request: Request, next: Any) -> Any:
    response = await next(request)
    try:
        await asyncio.sleep(1000)
    except asyncio.CancelledError:
        pass
    return response


@pytest.mark.parametrize("listener", [hold, swallow])
@pytest.mark.parametrize("leaves", [True, False])
def test_a_stream_of_events_that_is_held_back_ends_with_its_client(node: Node, listener: Any, leaves: bool) -> None:
    node.server.http(listener, run_first=True)
    wire = node.connect()
    wire.send(b"GET /Product/ HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n")
    assert node.realtime.hub._followed
    if leaves:
        wire.connection.close_now()
        node.settle()
    else:
        node.pass_time(130)
        assert wire.sock.sent.startswith(b"HTTP/1.1 503")
    assert not node.realtime.hub._followed
