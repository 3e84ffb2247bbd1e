"""Connections on fake sockets, a fake loop and a fake clock, with an application that answers what a test says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from svc.clock import FakeClock
from svc.connection import Connections, Exchange, Timeouts
from svc.connection.http1 import Http1Connection
from svc.errors import Problem
from svc.messages import Headers, Request, Response
from svc.protocol.http1 import Limits
from tests.support.fakes import FakeLoop, FakeSocket, make_reactor


class FakeApplication:
    """Answers with `answer(exchange)`; None = later."""

    def __init__(self) -> None:
        self.answer: Callable[[Exchange], Response | None] = lambda exchange: Response(exchange.request.target.encode())
        self.decide: Callable[[Exchange], Any] = lambda exchange: None
        self.asked: list[Exchange] = []
        self.handled: list[Exchange] = []
        self.done: list[Exchange] = []
        self.cancels: list[Exchange] = []

    def receive(self, exchange: Exchange) -> Any:
        self.asked.append(exchange)
        return self.decide(exchange)

    def handle(self, exchange: Exchange) -> Response | None:
        self.handled.append(exchange)
        return self.answer(exchange)

    def upgrade(self, exchange: Exchange) -> Response | None:
        return self.handle(exchange)

    def error_response(self, error: BaseException, request: Request | None) -> Response:
        assert isinstance(error, Problem)
        return Response(error.message.encode(), error.status_code, Headers({"Content-Type": "text/plain"}))

    def decode_content(self, request: Request) -> object:
        return request.content.decode()

    def sent(self, exchange: Exchange, now: float) -> None:
        self.done.append(exchange)

    def cancelled(self, exchange: Exchange) -> None:
        self.cancels.append(exchange)


class World:
    def __init__(self, http2: bool = False) -> None:
        self.loop, self.clock, self.application = FakeLoop(), FakeClock(), FakeApplication()
        self.errors: list[tuple[str, BaseException | None]] = []
        self.connections = Connections(
            self.application,
            make_reactor(self.loop, self.clock, log_error=lambda where, error: self.errors.append((where, error))),
            limits=Limits(max_body_size=1 << 20),
            timeouts=Timeouts(headers=10, request=20, keep_alive=5),
            date=lambda: "Thu, 01 Jan 2026 00:00:00 GMT",
            max_bodies=1000,
            http2=http2,
        )
        self.sock = FakeSocket()
        self.connection: Http1Connection = self.connections.accept(self.sock, "127.0.0.1")  # type: ignore[arg-type]

    def receive(self, *pieces: bytes | OSError) -> None:
        """One turn per piece."""
        for piece in pieces:
            self.sock.incoming.append(piece)
            if self.sock in self.loop.readers:
                self.loop.readers[self.sock]()
            self.turn()

    def turn(self) -> bool:
        return self.connections.end_turn()

    def writable(self, room: int = 1 << 30) -> None:
        self.sock.room = room
        if self.sock in self.loop.writers:
            self.loop.writers[self.sock]()

    def pass_time(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.connections.sweep(self.clock.monotonic())
        self.turn()

    def bodies(self) -> list[bytes]:
        """Bodies of the answers sent so far."""
        found, sent, place = [], self.sock.sent, 0
        while place < len(sent):
            begin = sent.index(b"\r\n\r\n", place) + 4
            fields = dict(line.lower().split(b": ", 1) for line in sent[place : begin - 4].split(b"\r\n")[1:])
            place = begin + int(fields[b"content-length"])
            found.append(sent[begin:place])
        return found
