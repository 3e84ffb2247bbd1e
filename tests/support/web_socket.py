"""A WebSocket on a tunnel that is not there, with a clock that stands still and a real loop that turns on demand."""

from __future__ import annotations

import asyncio
from typing import Any

from svc.analytics import Recorder
from svc.clock import FakeClock
from svc.connection.input_share import InputShare
from svc.messages import HeaderBlock, Request
from svc.protocol.websocket import DeflateOptions
from svc.websocket import Service, WebSocket, WebSocketRegistry
from svc.websocket.registry import MAX_COLLECTED
from tests.support.websocket_frames import parse

KEY = "dGhlIHNhbXBsZSBub25jZQ=="


class FakeTunnel:
    """Takes everything, unless `is_stuck`; then it is `pending` until `release`."""

    peer = "127.0.0.1"
    scheme = "http"

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.is_stuck = False
        self.pending = 0
        self.is_reading = True
        self.ended = ""  # "close" or "abort"

    def write(self, data: bytes) -> None:
        if not self.ended:
            self.written.append(data)
            if self.is_stuck:
                self.pending += len(data)

    def close(self) -> None:
        self.ended = self.ended or "close"

    def abort(self) -> None:
        self.ended = "abort"
        self.pending = 0

    @property
    def is_overdue(self) -> bool:
        return False

    def pause_reading(self) -> None:
        assert self.is_reading
        self.is_reading = False

    def resume_reading(self) -> None:
        assert not self.is_reading
        self.is_reading = True

    def frames(self) -> list[tuple[int, bytes]]:
        """What was written since the last call: (first byte, payload)."""
        written, self.written = self.written, []
        return parse(b"".join(written))


def handshake_request(
    target: str = "/chat", fields: dict[str, str] | None = None, method: str = "GET", http_version: str = "1.1"
) -> Request:
    given = {
        "host": "localhost",
        "connection": "keep-alive, Upgrade",
        "upgrade": "websocket",
        "sec-websocket-version": "13",
        "sec-websocket-key": KEY,
        **(fields or {}),
    }
    request = Request(method, target, HeaderBlock([(name, value) for name, value in given.items() if value]), http_version=http_version)
    request.offers = "websocket"
    return request


class World:
    """The `WebSockets` of a server."""

    def __init__(self, deflate: DeflateOptions | None = None, max_collected: int = MAX_COLLECTED) -> None:
        self.loop = asyncio.new_event_loop()
        self.clock = FakeClock()
        self.recorder = Recorder()
        self.errors: list[tuple[str, BaseException | None]] = []
        self.sockets = WebSocketRegistry(
            self.loop,
            self.clock,
            self.recorder,
            lambda where, error: self.errors.append((where, error)),
            input=InputShare(self.clock.monotonic),
            per_message_deflate=deflate,
            max_collected=max_collected,
        )

    def open(self, serve: Service | None = None, request: Request | None = None, **options: Any) -> Wire:
        upgrade = self.sockets.accept(request or handshake_request(), serve, **options)
        assert isinstance(upgrade.receiver, WebSocket)
        wire = Wire(self, upgrade.receiver)
        wire.start()
        return wire

    def turn(self, times: int = 5) -> None:
        for _ in range(times):
            self.loop.call_soon(self.loop.stop)
            self.loop.run_forever()
            self.sockets.input.end_turn()

    def entries(self) -> dict[tuple[str, str | None, str | None], dict[str, Any]]:
        """What was recorded since the last call: by metric, path and method."""
        period = self.recorder.close()
        found = [] if period is None else list(period.iter_entries())
        return {(entry["metric"], entry.get("path"), entry.get("method")): entry for entry in found if entry is not None}

    def close(self) -> None:
        for task in asyncio.all_tasks(self.loop):
            task.cancel()
        self.turn()
        self.loop.close()


class Wire:
    """The client's end."""

    def __init__(self, world: World, socket: WebSocket) -> None:
        self.world = world
        self.socket = socket
        self.tunnel = FakeTunnel()

    def start(self) -> None:
        self.socket.start(self.tunnel)
        self.world.turn()

    def send(self, *pieces: bytes) -> list[tuple[int, bytes]]:
        """Each piece is one recv. Returns what was written up to now."""
        for piece in pieces:
            assert self.tunnel.is_reading or self.tunnel.ended
            self.socket.on_data(piece)
            self.world.turn()
        return self.tunnel.frames()

    def release(self) -> None:
        """The peer has taken everything."""
        self.tunnel.pending = 0
        self.socket.on_sent()
        self.world.turn()

    def pass_time(self, seconds: float, step: float = 1.0) -> None:
        while seconds > 0:
            self.world.clock.advance(min(step, seconds))
            seconds -= step
            self.socket.sweep(self.world.clock.monotonic())
        self.world.turn()
