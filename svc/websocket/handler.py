"""What a WebSocket is to whoever serves it, and who serves those that no listener took (contract: realtime §2, applications §13)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Protocol

from svc.messages import Request


class Socket(Protocol):
    """A WebSocket, seen by the one who serves it: `WebSocket` is one, and tests have others.

    Messages are taken by iterating, or by a callback of `on("message", ...)`; as long as nobody takes them, the peer is held back. To ignore them
    call `ignore_messages`.
    """

    request: Request

    @property
    def closed(self) -> bool:
        """Nothing more can be sent: closed, or being closed, by whomever."""

    @property
    def close_code(self) -> int | None:
        """The code of whoever closed it first (1005: the peer, without a code); 1006: the connection was lost. None: it is open."""

    @property
    def close_reason(self) -> str: ...

    @property
    def pending(self) -> int:
        """Bytes written and not yet taken by the peer. Who writes more while this is large holds it in memory: see `on("sent", ...)`."""

    def __aiter__(self) -> AsyncIterator[str | bytes]:
        """Text and binary messages; ends with the WebSocket."""

    async def send(self, message: str | bytes) -> None:
        """Send one message, when there is room for it. Raises WebSocketClosed after the end, which nobody has to catch."""

    def send_frame(self, frame: bytes) -> None:
        """Send what `encode_frame` made, now: the bytes may be shared by all receivers. After the end: does nothing."""

    def ignore_messages(self) -> None:
        """Nobody wants what the peer says."""

    async def close(self, code: int = 1000, reason: str = "") -> None:
        """Say goodbye, and wait until it is over."""

    def close_soon(self, code: int = 1000, reason: str = "") -> None:
        """The same without waiting. `reason` is cut to what fits."""

    def fail(self, error: BaseException) -> None:
        """Close with the code and the reason of an exception: 3000 for a 401, 3003 for a 403, else 1011. What is no Problem is logged."""

    def on(self, name: str, callback: Callable[..., Any]) -> None:
        """Call `callback` (plain or async) on `message` (with the message), `close` (code, reason), `error` (exception) and `sent`
        (all that was written is with the peer). What it raises is logged."""


Service = Callable[[Any], Awaitable[None] | None]
"""Serves a WebSocket (its only argument) that is open. When what it returns has been awaited the WebSocket is closed, 1000, or as `fail` says; a
service that returns None has left callbacks behind and closes it itself."""


class SocketHandler(Protocol):
    """Who serves the WebSockets that no listener took: the resources."""

    def find(self, request: Request) -> Service:
        """Raises Problem: 401 and 403 open the WebSocket and close it with 3000 or 3003, any other refuses the handshake with that status."""
