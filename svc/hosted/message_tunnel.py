"""The tunnel of a WebSocket whose frames a host reads and writes: messages on one side, frames on the other (spec: asgi §2.4).

What serves WebSockets here speaks frames. Those it writes are taken apart into messages; messages of the client become frames, complete, and masked
with a key of zeros, since a client's have to be masked. Pings are answered on the spot, and so is a close frame: the host looks after the connection.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from svc.hosted.outgoing import Outgoing
from svc.loop import contained
from svc.messages import Receiver, Request
from svc.protocol.websocket import LOST, NO_STATUS
from svc.protocol.websocket_frames import (
    BINARY,
    CLOSE,
    EIGHT_BYTES,
    FIN,
    MASK,
    PING,
    PONG,
    SHORT_MAX,
    TEXT,
    TWO_BYTES,
    encode_close,
    is_sendable,
    maybe_read_head,
)
from svc.websocket.close_codes import INTERNAL_ERROR, NORMAL

if TYPE_CHECKING:
    from svc.hosted.http_serving import Port
    from svc.mounted.messages import Message, Receive, Send

_NO_KEY = bytes(4)
_CONTROL_HEAD = 2  # bytes of the header of a control frame that is not masked


def client_frame(opcode: int, payload: bytes) -> bytes:
    """A client's frame. Masked with zeros its payload is as it is.

    >>> client_frame(1, b"Hello")
    b'\\x81\\x85\\x00\\x00\\x00\\x00Hello'
    """
    length = len(payload)
    if length <= SHORT_MAX:
        head = bytes((FIN | opcode, MASK | length))
    elif length < 1 << 16:
        head = bytes((FIN | opcode, MASK | TWO_BYTES)) + length.to_bytes(2)
    else:
        head = bytes((FIN | opcode, MASK | EIGHT_BYTES)) + length.to_bytes(8)
    return head + _NO_KEY + payload


class MessageTunnel:
    """A `messages.Tunnel`, from `run` to its end."""

    def __init__(self, port: Port, receiver: Receiver, request: Request, receive: Receive, send: Send) -> None:
        self.peer = request.peer
        self.scheme = request.scheme
        self._port = port
        self._receiver = receiver
        self._receive = receive
        self._send = send
        self._outgoing: Outgoing[Message] = Outgoing()
        self._unparsed = b""
        self._may_read = asyncio.Event()
        self._may_read.set()
        self._is_closing = False  # the receiver writes nothing more
        self._is_over = False
        self._has_left = False  # the client

    async def run(self) -> None:
        """Until the WebSocket is closed by either side."""
        port, receiver = self._port, self._receiver
        reading = port.loop.create_task(self._read())
        port.shared.lasting.add(receiver)
        try:
            receiver.start(self)
            port.request_turn()
            await self._write()
        except BaseException as error:
            port.log_error(f"WebSocket from {self.peer}", contained(error))
        finally:
            self._is_over = True
            reading.cancel()
            port.shared.lasting.discard(receiver)
            receiver.on_closed()
            port.request_turn()

    # --- Tunnel ------------------------------------------------------------------------------------------------------------------------

    @property
    def pending(self) -> int:
        return self._outgoing.pending

    def write(self, data: bytes) -> None:
        if self._is_closing:
            return
        data = self._unparsed + data
        position = 0
        while (head := maybe_read_head(data, position)) is not None and len(data) - position >= sum(head):
            opcode, start = data[position] & 0x0F, position + head[0]
            position = start + head[1]
            self._write_frame(opcode, data[start:position])
        self._unparsed = data[position:]

    def close(self) -> None:
        self._is_closing = True
        self._outgoing.end()

    def abort(self) -> None:
        self._is_closing = True
        self._outgoing.drop()
        self._put_close(INTERNAL_ERROR, "")
        self._outgoing.end()

    def pause_reading(self) -> None:
        self._may_read.clear()

    def resume_reading(self) -> None:
        self._may_read.set()

    # --- out ---------------------------------------------------------------------------------------------------------------------------

    def _write_frame(self, opcode: int, payload: bytes) -> None:
        if opcode == TEXT:
            self._outgoing.put({"type": "websocket.send", "text": payload.decode()}, len(payload))
        elif opcode == BINARY:
            self._outgoing.put({"type": "websocket.send", "bytes": payload}, len(payload))
        elif opcode == PING:
            self._answer(client_frame(PONG, payload))
        elif opcode == CLOSE:
            self._put_close(int.from_bytes(payload[:2]) if payload else NORMAL, payload[2:].decode())
            self._answer(client_frame(CLOSE, payload))

    def _put_close(self, code: int, reason: str) -> None:
        if not self._has_left:
            self._outgoing.put({"type": "websocket.close", "code": code, "reason": reason}, 0)

    def _answer(self, frame: bytes) -> None:
        """As the client would: never inside a call of the receiver's own."""
        self._port.loop.call_soon(self._on_data, frame)

    def _on_data(self, frame: bytes) -> None:
        if not self._is_closing and not self._is_over:
            self._receiver.on_data(frame)
            self._port.request_turn()

    async def _write(self) -> None:
        outgoing = self._outgoing
        while messages := await outgoing.take():
            for message, size in messages:
                if outgoing.is_gone:
                    return
                await self._send(message)
                if outgoing.taken(size) and size and not self._is_closing:
                    self._receiver.on_sent()
            self._port.request_turn()

    # --- in ----------------------------------------------------------------------------------------------------------------------------

    async def _read(self) -> None:
        try:
            while True:
                await self._may_read.wait()
                message = await self._receive()
                if message["type"] != "websocket.receive":
                    break
                text = message.get("text")
                self._on_data(client_frame(BINARY, message["bytes"]) if text is None else client_frame(TEXT, text.encode()))
            self._has_left = True
            code = message.get("code", LOST)
            if code != LOST:
                sent = code if is_sendable(code) else NO_STATUS
                self._on_data(client_frame(CLOSE, encode_close(sent, message.get("reason") or "")[_CONTROL_HEAD:]))
        except Exception as error:
            self._port.log_error(f"WebSocket from {self.peer}", error)
        self._outgoing.give_up()
