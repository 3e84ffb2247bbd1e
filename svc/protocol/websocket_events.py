"""Events of a WebSocket's peer. A message is its own event: `str` for text, `bytes` for binary, complete and decompressed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class PingReceived:
    """Is answered with `pong`, in its turn."""

    payload: bytes


@dataclass(slots=True)
class PongReceived:
    payload: bytes


@dataclass(slots=True)
class CloseReceived:
    """The peer's close frame. If ours was not sent before, `answer_close` is to follow. `code` 1005: it had none. No event follows."""

    code: int
    reason: str


@dataclass(slots=True)
class ProtocolFailed:
    """The peer broke the protocol, or a limit. If we have not sent a close frame before, `answer_close` is to follow. No event follows."""

    code: int
    reason: str


Event = str | bytes | PingReceived | PongReceived | CloseReceived | ProtocolFailed
