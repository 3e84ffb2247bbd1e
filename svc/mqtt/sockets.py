"""MQTT over WebSocket (MQTT 5 §6): binary messages carry the bytes, packets may begin and end anywhere in them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from svc.messages import Request
from svc.mqtt.broker import Broker
from svc.mqtt.link import Link
from svc.websocket import Socket, encode_frame

SUBPROTOCOL = "mqtt"
NOT_BINARY = 1003


class MqttSockets:
    """What serves the WebSockets with the sub-protocol `mqtt`, at any path. `broker`: makes the broker."""

    subprotocol = SUBPROTOCOL

    def __init__(self, broker: Callable[[], Broker]) -> None:
        self._broker = broker

    def find(self, request: Request) -> Callable[[Socket], None]:
        broker = self._broker()

        def serve(socket: Socket) -> None:
            SocketTunnel(socket, broker, request)

        return serve


class SocketTunnel:
    """A WebSocket as the tunnel of a link."""

    def __init__(self, socket: Socket, broker: Broker, request: Request) -> None:
        self._socket = socket
        self._broker = broker
        self._resumed: asyncio.Future[None] | None = None
        self.peer = request.peer
        self.scheme = request.scheme
        self.link = link = Link(broker, request.peer_certificate, request)
        link.start(self)
        broker.swept.add(link)
        socket.on("message", self._on_message)
        socket.on("sent", link.on_sent)
        socket.on("close", self._on_close)

    def _on_message(self, message: str | bytes) -> Any:
        if isinstance(message, str):
            self._socket.close_soon(NOT_BINARY, "MQTT is sent in binary messages")
            return None
        self.link.on_data(message)
        return self._resumed  # while it is there, the next message waits

    def _on_close(self, code: int, reason: str) -> None:
        self._broker.swept.discard(self.link)
        self.resume_reading()
        self.link.on_closed()

    # --- tunnel --------------------------------------------------------------------------------------------------------------------------

    @property
    def pending(self) -> int:
        return self._socket.pending

    @property
    def is_overdue(self) -> bool:
        return False  # that was asked of its handshake

    def write(self, data: bytes) -> None:
        self._socket.send_frame(encode_frame(data))

    def close(self) -> None:
        self._socket.close_soon()

    abort = close

    def pause_reading(self) -> None:
        if self._resumed is None:
            self._resumed = self._broker.loop.create_future()

    def resume_reading(self) -> None:
        resumed, self._resumed = self._resumed, None
        if resumed is not None and not resumed.done():
            resumed.set_result(None)
