"""A server of WebSockets and nothing else, as a process: the real loop, connections, listeners and sockets, without store and applications.

    python -m tests.support.socket_server [--deflate] [--takeover] [--min-size N] [--listeners] [--ping SECONDS] [--silence SECONDS]

Prints its port. What a WebSocket does follows from its path: see SERVICES. SIGTERM drains it; then it prints its figures as JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import sys
import traceback
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from svc.analytics import Recorder
from svc.clock import SYSTEM_CLOCK
from svc.connection import Connections, Exchange, Timeouts
from svc.connection.input_share import InputShare
from svc.connection.listener import Listener
from svc.connection.listening import ListeningSockets, listen_on
from svc.errors import AccessViolation, NotFound, Problem
from svc.listeners.options import ListenerOptions
from svc.listeners.step import DEFAULT_UPGRADE, Step
from svc.listeners.upgrade_chain import UpgradeChain
from svc.loop import new_loop
from svc.messages import Request, Response
from svc.protocol.http1 import Limits
from svc.reactor import Reactor
from svc.websocket import DeflateOptions, Service, WebSocket, WebSocketRegistry, encode_frame, web_socket

SWEEP_SECONDS = 1.0
DRAIN_SECONDS = 10.0
FLOOD_FRAME = encode_frame(b"x" * 65536)


def echo(socket: WebSocket) -> None:
    """By a callback, without a task."""
    send = socket.send_frame
    socket.on("message", lambda message: send(encode_frame(message)))


async def iterate(socket: WebSocket) -> None:
    async for message in socket:
        await socket.send(message)


def wait(socket: WebSocket) -> None:
    """By a callback that waits."""

    async def answer(message: str | bytes) -> None:
        await asyncio.sleep(0)
        await socket.send(message)

    socket.on("message", answer)


async def silent(socket: WebSocket) -> None:
    """Takes no messages, until it is told to by the end of the WebSocket."""
    over = asyncio.Event()
    socket.on("close", lambda *ignored: over.set())
    await over.wait()


async def fill(socket: WebSocket) -> None:
    """Sends as much as is taken, for ever."""
    while True:
        await socket.send(b"x" * 65536)


def flood(socket: WebSocket) -> None:
    """Sends and never looks whether it is taken."""

    def more() -> None:
        if not socket.closed:
            socket.send_frame(FLOOD_FRAME)
            asyncio.get_running_loop().call_soon(more)

    more()


async def broken(socket: WebSocket) -> None:
    await socket.send("before")
    raise KeyError("not for the client")


async def forbidden(socket: WebSocket) -> None:
    raise Problem("You may not", 403)


async def once(socket: WebSocket) -> None:
    """One message, and the end."""
    async for message in socket:
        await socket.send(message)
        return


def figures(socket: WebSocket) -> None:
    """What the server holds, asked with any message."""
    shared = socket._shared

    def tell(message: str | bytes) -> None:
        others = [other for other in shared.open if other is not socket]
        pending = max((other.pending for other in others), default=0)
        socket.send_frame(encode_frame(json.dumps({"open": len(others), "pending": pending, "held": shared._collected})))

    socket.on("message", tell)


SERVICES: dict[str, Service] = {
    "/figures": figures,
    "/echo": echo,
    "/iterate": iterate,
    "/wait": wait,
    "/silent": silent,
    "/fill": fill,
    "/flood": flood,
    "/broken": broken,
    "/forbidden": forbidden,
    "/once": once,
}


class Handler:
    def find(self, request: Request) -> Service:
        if request.pathname == "/stranger":
            raise AccessViolation()
        service = SERVICES.get(request.pathname)
        if service is None:
            raise NotFound("Not found")
        request.handler_path = request.pathname[1:]
        return service

    def subprotocol(self, request: Request) -> str | None:
        return None


async def chat(socket: WebSocket, request: Request, chain_completion: Any, next: Callable[..., Awaitable[Any]]) -> Any:
    """A listener of an application."""
    if request.pathname != "/chat":
        return await next(socket, request, chain_completion)
    await chain_completion
    await socket.send("welcome")
    async for message in socket:
        await socket.send(f"you said {message!r}")
    return None


async def line(request: Request, socket: Any, head: bytes, next: Callable[..., Any]) -> Any:
    """An upgrade listener that speaks a protocol of its own."""
    if request.offers != "line":
        result = next(request, socket, head)
        return await result if asyncio.iscoroutine(result) else result
    socket.write(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: line\r\n\r\n")
    while data := await socket.read():
        socket.write(data.upper())
        await socket.drain()
    socket.close()
    return None


class Application:
    """Answers 404 to everything but upgrades."""

    def __init__(self, listeners: UpgradeChain, loop: asyncio.AbstractEventLoop) -> None:
        self._listeners = listeners
        self._loop = loop

    def receive(self, exchange: Exchange) -> None:
        return None

    def handle(self, exchange: Exchange) -> Response:
        return Response(b"", 404)

    def upgrade(self, exchange: Exchange) -> Response | None:
        try:
            answer = self._listeners.handle(exchange.request)
        except Problem as problem:
            return self.error_response(problem, None)
        if answer is None or isinstance(answer, Response):
            return answer or Response(b"", 404)
        exchange.task = self._loop.create_task(self._answer(exchange, answer))
        return None

    async def _answer(self, exchange: Exchange, awaited: Awaitable[Response | None]) -> None:
        try:
            answer = await awaited
        except Problem as problem:
            answer = self.error_response(problem, None)
        exchange.respond(answer or Response(b"", 404))

    def error_response(self, error: BaseException, request: Request | None) -> Response:
        assert isinstance(error, Problem), error
        return Response(error.message.encode(), error.status_code, pairs=list(error.headers))

    def decode_content(self, request: Request) -> None:
        return None

    def sent(self, exchange: Exchange, now: float) -> None:
        pass

    def cancelled(self, exchange: Exchange) -> None:
        pass


def log_error(where: str, error: BaseException | None) -> None:
    print(where, file=sys.stderr)
    if error is not None:
        traceback.print_exception(error, file=sys.stderr)
    sys.stderr.flush()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--deflate", action="store_true", help="agree to permessage-deflate")
    parser.add_argument("--takeover", action="store_true", help="... with context takeover")
    parser.add_argument("--min-size", type=int, default=256, help="... for messages of so many bytes")
    parser.add_argument("--listeners", action="store_true", help="with listeners of an application")
    parser.add_argument("--ping", type=float, default=web_socket.PING_SECONDS, help="seconds between two pings")
    parser.add_argument("--silence", type=float, default=web_socket.SILENCE_SECONDS, help="seconds after which a silent peer is given up")
    options = parser.parse_args()
    web_socket.PING_SECONDS, web_socket.SILENCE_SECONDS = options.ping, options.silence
    web_socket.CLOSE_SECONDS = min(web_socket.CLOSE_SECONDS, options.silence)
    sweep_seconds = min(SWEEP_SECONDS, options.ping / 2)

    loop, selector = new_loop()
    deflate = None
    if options.deflate or options.takeover:
        deflate = DeflateOptions(context_takeover=options.takeover, min_size=options.min_size)
    recorder = Recorder()
    share = InputShare(SYSTEM_CLOCK.monotonic)
    sockets = WebSocketRegistry(loop, SYSTEM_CLOCK, recorder, log_error, input=share, per_message_deflate=deflate)
    listeners = UpgradeChain(sockets)
    if options.listeners:
        listeners.use([Step(DEFAULT_UPGRADE), Step("line", line)], [Step("chat", chat, options=ListenerOptions(max_payload=1000))])
    listeners.serve_with(Handler())
    application = Application(listeners, loop)
    connections = Connections(
        application,
        Reactor(loop, SYSTEM_CLOCK, ThreadPoolExecutor(1), log_error),
        limits=Limits(),
        timeouts=Timeouts(),
        date=lambda: "Thu, 01 Jan 2026 00:00:00 GMT",
        input=share,
    )

    def end_turn() -> bool:
        share.end_turn()
        return connections.end_turn()

    selector.end_turn = end_turn

    def sweep() -> None:
        loop.call_later(sweep_seconds, sweep)
        connections.sweep(SYSTEM_CLOCK.monotonic())

    (sock,) = listen_on(0, ("127.0.0.1",))
    listener = Listener(ListeningSockets((sock,)), connections, loop, lambda at_once: None, lambda text: print(text, file=sys.stderr))
    listener.start()
    loop.call_later(sweep_seconds, sweep)

    def stop() -> None:
        listener.stop()
        connections.drain()
        end = SYSTEM_CLOCK.monotonic() + DRAIN_SECONDS

        def look() -> None:
            if connections.open and SYSTEM_CLOCK.monotonic() < end:
                loop.call_later(0.02, look)
            else:
                loop.stop()

        look()

    loop.add_signal_handler(signal.SIGTERM, stop)
    print(listener.port, flush=True)
    loop.run_forever()
    period = recorder.close()
    entries = [] if period is None else [entry for entry in period.iter_entries() if entry is not None]
    print(json.dumps({"open": len(sockets.open), "held": sockets._collected, "entries": entries}), flush=True)


if __name__ == "__main__":
    main()
