"""A mounted ASGI application behind real connections on fake sockets, and a WebSocket of it on a fake tunnel."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

from svc.clock import FakeClock
from svc.connection import Connections, Exchange, Timeouts
from svc.errors import Problem
from svc.messages import Abort, Request, Response
from svc.mounted import MountedApplication
from svc.protocol.http1 import Limits
from tests.support.fakes import FakeSocket, make_reactor
from tests.support.stepped_loop import SteppedLoop


def without_lifespan(app: Any) -> Any:
    """The application as one that knows nothing of lifespans."""

    async def guarded(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            raise ValueError("no lifespan")
        await app(scope, receive, send)

    return guarded


class RecordingLog:
    """A `logs.Logger` that keeps what it is given."""

    def __init__(self) -> None:
        self.errors: list[tuple[object, ...]] = []
        self.infos: list[tuple[object, ...]] = []

    def error(self, *messages: object) -> None:
        self.errors.append(messages)

    def info(self, *messages: object) -> None:
        self.infos.append(messages)

    @property
    def text(self) -> str:
        return "\n".join(" ".join(map(str, line)) for line in self.errors)


class Behind:
    """The `Application` of the connections: every request is for the mounted one."""

    def __init__(self, world: MountedWorld) -> None:
        self._world = world

    def receive(self, exchange: Exchange) -> Any:
        return self._world.mounted.http.body_channel(exchange.request)

    def handle(self, exchange: Exchange) -> Response | None:
        try:
            result = self._world.mounted.http(exchange.request, lambda request: None)
        except Problem as problem:
            return self.error_response(problem, exchange.request)
        exchange.task = self._world.loop.create_task(self._wait(exchange, result))
        return None

    async def _wait(self, exchange: Exchange, result: Any) -> None:
        try:
            response = await result
        except Exception as error:
            response = self.error_response(error, exchange.request)
        exchange.respond(response)

    def upgrade(self, exchange: Exchange) -> Response | None:
        return self.handle(exchange)

    def error_response(self, error: BaseException, request: Request | None) -> Response:
        if isinstance(error, Abort):
            return error.response
        assert isinstance(error, Problem), error
        return Response(error.message.encode(), error.status_code)

    def decode_content(self, request: Request) -> Any:
        raise NotImplementedError

    def sent(self, exchange: Exchange, now: float) -> None:
        pass

    def cancelled(self, exchange: Exchange) -> None:
        if exchange.task is not None and not exchange.abandoned:
            exchange.task.cancel()


class MountedWorld:
    """One application, the loop it runs on, and connections to it."""

    def __init__(self, app: Any, path: str = "/app") -> None:
        self.loop = SteppedLoop()
        self.log = RecordingLog()
        self.defects: list[BaseException | None] = []
        self.mounted = MountedApplication(app, path, loop=self.loop, log=self.log)
        self.clock = FakeClock()
        self.connections = Connections(
            Behind(self),
            make_reactor(clock=self.clock, log_error=lambda where, error: self.defects.append(error)),
            limits=Limits(max_body_size=1 << 20),
            timeouts=Timeouts(),
            date=lambda: "Thu, 01 Jan 2026 00:00:00 GMT",
        )

    def connect(self) -> Client:
        return Client(self)

    def turn(self) -> bool:
        stepped = self.loop.step()
        return self.connections.end_turn() or stepped or self.loop.is_busy

    def settle(self) -> None:
        turns = 0
        while self.turn():
            turns += 1
            assert turns < 10_000, "the turn does not end"

    def run(self, awaitable: Any) -> Any:
        assert inspect.isawaitable(awaitable)
        return self.loop.run_until_complete(asyncio.wait_for(awaitable, 5))

    @property
    def tasks(self) -> int:
        """Calls of the application that are under way."""
        return len(self.mounted._tasks)

    def close(self) -> None:
        self.connections.close_all()
        self.settle()
        self.run(self.mounted.stop(0.01))
        self.settle()
        assert not self.tasks
        left = [task for task in asyncio.all_tasks(self.loop) if not task.done()]
        self.loop.close()
        assert not left, left


class Client:
    """A client's end of one connection."""

    def __init__(self, world: MountedWorld) -> None:
        self._world = world
        self.sock = FakeSocket()
        self.connection = world.connections.accept(self.sock, "127.0.0.1")  # type: ignore[arg-type]

    def send(self, data: bytes) -> None:
        loop: Any = self._world.connections.loop
        self.sock.incoming.append(data)
        loop.readers[self.sock]()
        self._world.settle()

    def ask(self, method: str = "GET", target: str = "/app/", fields: str = "", body: bytes = b"") -> tuple[int, str, bytes]:
        """(status, head, body as it was sent)."""
        self.sock.sent = b""
        self.send(f"{method} {target} HTTP/1.1\r\nHost: shop.example\r\nContent-Length: {len(body)}\r\n{fields}\r\n".encode() + body)
        return self.answer()

    def answer(self) -> tuple[int, str, bytes]:
        head, _, rest = self.sock.sent.partition(b"\r\n\r\n")
        return int(head.split(b" ")[1]) if head else 0, head.decode("latin-1"), rest

    def take(self, room: int = 1 << 30) -> None:
        """Take so many bytes more."""
        loop: Any = self._world.connections.loop
        self.sock.room = room
        if self.sock in loop.writers:
            loop.writers[self.sock]()
        self._world.settle()

    def leave(self) -> None:
        self.connection.close_now()
        self._world.settle()
