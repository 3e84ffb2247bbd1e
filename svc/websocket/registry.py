"""All open WebSockets of a server, what they share, and their figures (spec: analytics §4)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from svc.connection.room import heaviest
from svc.messages import Request, Upgrade
from svc.protocol.websocket import MAX_PAYLOAD, DeflateOptions, negotiate
from svc.websocket import opening_handshake
from svc.websocket.web_socket import SUBPROTOCOL, WebSocket

if TYPE_CHECKING:
    from svc.clock import Clock
    from svc.connection.input_share import InputShare
    from svc.websocket.handler import Service

MAX_COLLECTED = 1 << 30  # bytes of incomplete messages that may be in memory at one time


class SocketRecorder(Protocol):
    """Records figures: `analytics.Recorder`."""

    def bucket(
        self, metric: str, path: str | None = None, method: str | None = None, type: str | None = None
    ) -> Callable[[float], None]: ...

    def yes_no(
        self, metric: str, path: str | None = None, method: str | None = None, type: str | None = None
    ) -> Callable[[bool], None]: ...

    def gauge(
        self,
        function: Callable[[], Mapping[str, Any] | None],
        metric: str,
        path: str | None = None,
        method: str | None = None,
        type: str | None = None,
    ) -> None: ...


class WebSocketRegistry:
    """Accepts handshakes, and holds what the WebSockets of a port share: loop, clock, recorder, the limit of memory for incomplete messages."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        recorder: SocketRecorder,
        log_error: Callable[[str, BaseException | None], None],
        *,
        input: InputShare,
        per_message_deflate: DeflateOptions | None = None,
        max_collected: int = MAX_COLLECTED,
    ) -> None:
        """`input`: of the connections that carry the WebSockets. `per_message_deflate`: options agreed to if a client offers them
        (RFC 7692); None: no compression."""
        self.loop = loop
        self.now = clock.monotonic
        self.log_error = log_error
        self.input = input
        self.open: set[WebSocket] = set()
        self._recorder = recorder
        self.answered = recorder.yes_no("connection", None, "connect", "ws")
        self._ended = recorder.yes_no("connection", None, "disconnect", "ws")
        # address of a resource -> recorders of the bytes sent and received
        self._recorded: dict[str, tuple[Callable[[float], None], Callable[[float], None]]] = {}
        self._deflate = per_message_deflate
        self._max_collected = max_collected
        self._collected = 0
        self._tasks: set[asyncio.Task[None]] = set()  # asyncio itself holds only weak references to tasks
        recorder.gauge(self._measure, "ws-connections")

    # --- the handshake ---------------------------------------------------------------------------------------------------------------

    def accept(
        self,
        request: Request,
        serve: Service | None = None,
        *,
        max_payload: int = MAX_PAYLOAD,
        deflate: DeflateOptions | None = None,
        subprotocol: str | None = None,
    ) -> Upgrade:
        """The answer that makes the connection a WebSocket, which is passed to `serve` when it is open. Raises ClientError 400 or 426.

        `deflate`: instead of `per_message_deflate`. `subprotocol`: one of those offered, default the first one.
        """
        pairs = opening_handshake.check(request)
        offered = opening_handshake.offered_protocols(request)
        if subprotocol is None:
            subprotocol = offered[0] if offered else None
        elif subprotocol not in offered:
            raise ValueError(f"the client does not offer {subprotocol!r}, but {offered}")
        if subprotocol is not None:
            pairs.append((SUBPROTOCOL, subprotocol))
        options = deflate or self._deflate
        agreement = None
        if options is not None:
            offers = request.block.fields.get("sec-websocket-extensions")
            agreement = None if offers is None else negotiate(offers, options)
            if agreement is not None:
                pairs.append(("Sec-WebSocket-Extensions", agreement.answer))
        socket = WebSocket(self, request, max_payload, agreement, subprotocol, serve, pairs)
        return Upgrade(opening_handshake.PROTOCOL, socket, pairs)

    # --- for the sockets -------------------------------------------------------------------------------------------------------------

    def opened(self, socket: WebSocket) -> tuple[Callable[[float], None], Callable[[float], None]]:
        """Returns the functions that record the size of each message sent, and received."""
        self.open.add(socket)
        path = socket.request.handler_path
        found = self._recorded.get(path)
        if found is None:
            bucket = self._recorder.bucket
            found = self._recorded[path] = (
                bucket("bytes-sent", path or None, "message", "ws"),
                bucket("bytes-received", path or None, "message", "ws"),
            )
        return found

    def closed(self, socket: WebSocket, orderly: bool) -> None:
        self.open.discard(socket)
        self._ended(orderly)

    def hold(self, size: int) -> None:
        """Change the number of bytes held of incomplete messages by `size`. If that is too much, the largest of the caller who holds most give way."""
        self._collected += size
        while self._collected > self._max_collected and size > 0:
            socket = heaviest(self.open, lambda socket: socket.request, lambda socket: socket.collected)
            if not socket.collected:
                return
            socket.give_way()

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        self.keep(self.loop.create_task(work))

    def keep(self, task: asyncio.Task[None]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def wake(self) -> None:
        """Wake the loop: something is ready, perhaps at the end of a turn, when the loop has already decided how long to wait (`svc.loop`)."""
        self.loop.call_soon_threadsafe(_nothing)

    def _measure(self) -> Mapping[str, int] | None:
        return {"connections": len(self.open)} if self.open else None


def _nothing() -> None:
    pass
