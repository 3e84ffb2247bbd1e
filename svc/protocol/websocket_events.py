"""What a WebSocket's peer did. A message is its own event: `str` for text, `bytes` for binary, complete and decompressed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class PingReceived:
    """The driver has answered it, or will."""

    payload: bytes


@dataclass(slots=True)
class PongReceived:
    payload: bytes


@dataclass(slots=True)
class CloseReceived:
    """The peer's close frame. If ours was not sent before, `close` answers it. `code` 1005: it had none. No event follows."""

    code: int
    reason: str


@dataclass(slots=True)
class Failed:
    """The peer broke the protocol, or a limit; the driver has said so in a close frame, if it may still say anything. No event follows."""

    code: int
    reason: str


Event = str | bytes | PingReceived | PongReceived | CloseReceived | Failed
