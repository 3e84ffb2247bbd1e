"""The lifecycle of the server's side of a WebSocket, after the handshake (RFC 6455 §5.5.1, §7).

            SAY_CLOSE              HEAR_CLOSE, FAULT
      OPEN -----------> CLOSING ------------------+
       |                                          v
       |  HEAR_CLOSE, FAULT         SAY_CLOSE   CLOSED      any of them --END--> CLOSED
       +---------------> ENDING -----------------^

OPEN     messages go both ways
CLOSING  our close frame is sent, so nothing else may be; what the peer still says is checked and dropped
ENDING   the peer has sent its close frame, or broke the protocol, and is not read any more; answers to what it said before may still go, then our
         close frame
CLOSED   nothing is read or written
ERROR    this object was misused
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


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


class WebSocketState(IntEnum):
    OPEN = 0
    CLOSING = 1
    ENDING = 2
    CLOSED = 3
    ERROR = 4


class WebSocketInput(IntEnum):
    SAY_CLOSE = 0
    HEAR_CLOSE = 1
    FAULT = 2  # the peer broke the protocol
    END = 3  # the peer will send nothing more, or the carrier is gone


TRANSITIONS: dict[WebSocketState, dict[WebSocketInput, WebSocketState]] = {
    WebSocketState.OPEN: {
        WebSocketInput.SAY_CLOSE: WebSocketState.CLOSING,
        WebSocketInput.HEAR_CLOSE: WebSocketState.ENDING,
        WebSocketInput.FAULT: WebSocketState.ENDING,
        WebSocketInput.END: WebSocketState.CLOSED,
    },
    WebSocketState.CLOSING: {
        WebSocketInput.HEAR_CLOSE: WebSocketState.CLOSED,
        WebSocketInput.FAULT: WebSocketState.CLOSED,
        WebSocketInput.END: WebSocketState.CLOSED,
    },
    WebSocketState.ENDING: {WebSocketInput.SAY_CLOSE: WebSocketState.CLOSED, WebSocketInput.END: WebSocketState.CLOSED},
    WebSocketState.CLOSED: {WebSocketInput.END: WebSocketState.CLOSED},
    WebSocketState.ERROR: {},
}
