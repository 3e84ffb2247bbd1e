"""A WebSocket of a test: the messages of the server as a list that grows (RFC 6455, the client's side).

The connection is in memory, so masking has no purpose: the key is 0, with which the payload stays as it is.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from svc.protocol.websocket_frames import BINARY, CLOSE, FIN, LOST, MASK, NO_STATUS, PING, PONG, TEXT, encode_head, maybe_read_head
from svc.testing.requests import PendingRequest, Wire
from svc.testing.streams import decoded
from svc.testing.tracebacks import is_hidden

__tracebackhide__ = is_hidden

HANDSHAKE: Mapping[str, str] = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
}
_KEY = bytes(4)


class Socket(list[Any]):
    """Messages: of a text what it is as JSON, or the text; bytes. `close_code`, `close_reason`: of the server's close frame, 1006 without one; None while it is
    open. `subprotocol`: that the server has chosen."""

    def __init__(self, wire: Wire, shown: str) -> None:
        """Raises AssertionError if the handshake is refused."""
        super().__init__()
        self._wire = wire
        self._raw = b""
        self._parts: list[bytes] = []
        self._kind = TEXT
        self.close_code: int | None = None
        self.close_reason = ""
        reader = wire.reader
        reader.on_data = self._receive
        reader.on_end = self._lose
        instance = wire.instance
        instance.wait_for(reader.head, f"the answer to {shown}")
        try:
            status, fields = reader.head.result()
        except ConnectionError as error:
            raise AssertionError(f"{shown}: {error}") from None
        if status != 101:
            raise AssertionError(f"the handshake is refused: {PendingRequest(wire, shown).answer()!r}")
        self.subprotocol = next((value for name, value in fields if name.lower() == "sec-websocket-protocol"), None)
        instance.rest()

    @property
    def is_open(self) -> bool:
        return self.close_code is None

    def send(self, message: Any) -> None:
        """Send `message`: a text or bytes as they are, anything else as JSON. Raises RuntimeError if the WebSocket is closed."""
        if not self.is_open:
            raise RuntimeError(f"the WebSocket is closed: {self.close_code} {self.close_reason}".rstrip())
        if isinstance(message, bytes | bytearray | memoryview):
            self._send(BINARY, bytes(message))
        else:
            self._send(TEXT, (message if isinstance(message, str) else json.dumps(message)).encode())
        self._wire.instance.rest()

    def close(self, code: int = 1000, reason: str = "") -> None:
        """Close it as a client does, with `code` and `reason` in the close frame."""
        if self.is_open:
            self._send(CLOSE, code.to_bytes(2) + reason.encode())
            self._wire.instance.rest()
        self._wire.hang_up()
        self._wire.instance.rest()

    def cancel(self) -> None:
        """The client goes away without a word."""
        self._wire.hang_up()
        self._wire.instance.rest()

    def take(self) -> list[Any]:
        """What is there, which is removed from the list."""
        taken = list(self)
        self.clear()
        return taken

    def _send(self, opcode: int, payload: bytes) -> None:
        head = bytearray(encode_head(FIN | opcode, len(payload)))
        head[1] |= MASK
        self._wire.send(bytes(head) + _KEY + payload)

    def _lose(self) -> None:
        if self.close_code is None:
            self.close_code = LOST

    def _receive(self, data: bytes) -> None:
        self._raw += data
        while (head := maybe_read_head(self._raw, 0)) is not None and len(self._raw) >= sum(head):
            first, payload = self._raw[0], self._raw[head[0] : sum(head)]
            self._raw = self._raw[sum(head) :]
            self._on_frame(first & 0x0F, bool(first & FIN), payload)

    def _on_frame(self, opcode: int, is_last: bool, payload: bytes) -> None:
        if opcode == PING:
            self._send(PONG, payload)
        elif opcode == CLOSE:
            self.close_code = int.from_bytes(payload[:2]) if payload else NO_STATUS
            self.close_reason = payload[2:].decode(errors="replace")
            self._send(CLOSE, payload[:2])
        elif opcode != PONG:
            self._kind = opcode or self._kind
            self._parts.append(payload)
            if is_last:
                whole = b"".join(self._parts)
                self._parts.clear()
                self.append(decoded(whole.decode(errors="replace")) if self._kind == TEXT else whole)
