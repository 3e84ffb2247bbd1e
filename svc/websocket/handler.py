"""The interface of a WebSocket for the code that serves it, and of the handler for those that no listener takes (spec: realtime §2, architecture §11)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Protocol

from svc.messages import Request


class Socket(Protocol):
    """A WebSocket as a service sees it: implemented by `WebSocket`, and by fakes in tests.

    Messages are taken by iterating, or by a callback of `on("message", ...)`; as long as they are not taken, the peer is not read. To discard them
    call `ignore_messages`.
    """

    request: Request
    login_code: int  # it is closed with this code when the login of the caller ends

    @property
    def closed(self) -> bool:
        """Nothing more can be sent: closed or being closed, by either side."""

    @property
    def close_code(self) -> int | None:
        """The code of the side that closed it first (1005: the peer, without a code); 1006: the connection was lost. None: it is open."""

    @property
    def close_reason(self) -> str: ...

    @property
    def pending(self) -> int:
        """Bytes written and not yet sent. Writing more while this is large keeps them in memory: see `on("sent", ...)`."""

    def __aiter__(self) -> AsyncIterator[str | bytes]:
        """Text and binary messages; ends with the WebSocket."""

    async def send(self, message: str | bytes) -> None:
        """Send one message, when there is room for it. Raises WebSocketClosed after the end; services need not catch it."""

    def send_frame(self, frame: bytes) -> None:
        """Send what `encode_frame` made, now: the bytes may be shared by all receivers. After the end: does nothing."""

    def limit(self, max_payload: int) -> None:
        """The maximum size of messages in bytes, in place of 100 MiB: a larger one closes it with 1009, by its header. Called before the first one."""

    def ignore_messages(self) -> None:
        """Discard all messages of the peer."""

    async def close(self, code: int = 1000, reason: str = "") -> None:
        """Send a close frame, and wait until the WebSocket is closed."""

    def close_soon(self, code: int = 1000, reason: str = "") -> None:
        """Send a close frame without waiting. `reason` is cut to what fits."""

    def login_ended(self) -> None:
        """What let the caller in has ended: close with `login_code`."""

    def fail(self, error: BaseException) -> None:
        """Close with the code and the reason of an exception: 3000 for a 401, 3003 for a 403, else 1011. Exceptions other than Problem are logged."""

    def on(self, name: str, callback: Callable[..., Any]) -> None:
        """Call `callback` (plain or async) on `message` (with the message), `close` (code, reason), `error` (exception) and `sent`
        (everything written has been sent). Exceptions of callbacks are logged."""


Service = Callable[[Any], Awaitable[None] | None]
"""Serves an open WebSocket, its only argument. When an awaitable that it returns is done the WebSocket is closed, with 1000 or as by `fail`; a service that
returns None has registered callbacks and closes it itself."""


class SocketHandler(Protocol):
    """Finds the service of WebSockets that no listener takes: the resources."""

    def find(self, request: Request) -> Service:
        """Raises Problem: 401 and 403 open the WebSocket and close it with 3000 or 3003, any other refuses the handshake with that status."""

    def subprotocol(self, request: Request) -> str | None:
        """The sub-protocol of a WebSocket at this address, if the client offers it; None: the first one that is offered."""

    def knows(self, request: Request) -> bool:
        """Whether it serves WebSockets at this address, if only with a refusal."""
