"""One WebSocket: messages both ways, over whatever tunnel (contract: realtime §2, applications §13).

It reads what the driver makes of the peer's bytes, and hands messages to a callback by a plain call, or keeps them for whoever iterates. What waits is
bounded both ways, and so is the work of one turn:

in    While INCOMING_MESSAGES or INCOMING_BYTES wait for somebody to take them the peer is not read. The messages of one recv may be more than a
      turn's work; the rest waits for the next turn.
out   `send` waits while HIGH_WATER is unsent. `send_frame` does not: who uses it looks at `pending`. If nobody does, the WebSocket is cut off
      as too slow at MAX_PENDING (1013), and the same frame does not cost more for being on its way to many.
time  A ping every PING_SECONDS; closed after SILENCE_SECONDS without a byte from a peer that we were reading (an ended connection may look
      like a silent one for ever); CLOSE_SECONDS for the peer's answer to our close frame. Output the peer does not take is the tunnel's to watch.

The peer's close frame, and what it does wrong, is answered when whoever takes the messages has had all of them, and so his chance to answer those.
"""

from __future__ import annotations

import asyncio
import inspect
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from math import inf
from typing import TYPE_CHECKING, Any

from svc.auth.origin_policy import explained
from svc.errors import PeerError
from svc.messages import Request
from svc.protocol.websocket import (
    LOST,
    Agreement,
    CloseReceived,
    Event,
    Failed,
    PingReceived,
    PongReceived,
    WebSocketProtocol,
    WebSocketState,
)
from svc.websocket.close_codes import GOING_AWAY, INTERNAL_ERROR, NORMAL, TRY_AGAIN_LATER, WebSocketClosed, closing

if TYPE_CHECKING:
    from svc.messages import Tunnel
    from svc.websocket.handler import Service
    from svc.websocket.registry import WebSocketRegistry

HIGH_WATER = 256 * 1024  # bytes unsent at which `send` waits, and pings are answered only when they are sent
MAX_PENDING = 16 * 1024 * 1024  # bytes unsent at which a peer is too slow; one message may go beyond
INCOMING_MESSAGES = 128  # that nobody has taken yet
INCOMING_BYTES = 1024 * 1024  # ... and their size; one message may go beyond
PING_SECONDS = 30.0
SILENCE_SECONDS = 60.0
CLOSE_SECONDS = 10.0

Callback = Callable[..., Any]
_NAMES = ("message", "close", "error", "sent")


class WebSocket:
    """See the module's text, and `handler.Socket` for what is meant for those who serve it. A `tunnel.Receiver`."""

    __slots__ = (
        "_agreement", "_callbacks", "_close_by", "_collected", "_driver", "_heard", "_heard_at", "_incoming", "_incoming_bytes",
        "_is_behind", "_is_busy", "_is_deaf", "_is_orderly", "_is_over", "_is_paused", "_next_ping", "_on_message", "_on_sent",
        "_record_sent", "_shared", "_tunnel", "_waiters", "close_code", "close_reason", "is_open", "on_use", "request", "serve",
        "subprotocol",
    )  # fmt: skip

    def __init__(
        self,
        shared: WebSocketRegistry,
        request: Request,
        max_payload: int,
        agreement: Agreement | None = None,
        subprotocol: str | None = None,
        serve: Service | None = None,
    ) -> None:
        """`serve` is called when the handshake is answered; None: somebody has it already."""
        self._shared = shared
        self.request = request
        self.subprotocol = subprotocol
        self.close_code: int | None = None
        self.close_reason = ""
        self.is_open = False  # the handshake is answered
        self.on_use: Callable[[], None] | None = None  # called once, when somebody first wants something of it
        self.serve = serve
        self._agreement = agreement
        self._driver = WebSocketProtocol(max_payload, agreement)
        self._tunnel: Tunnel | Unanswered = Unanswered()
        self._incoming: deque[str | bytes] | None = None  # messages nobody has taken yet
        self._incoming_bytes = 0
        self._waiters: list[asyncio.Future[None]] | None = None  # of whoever iterates, sends, or waits for the end
        self._callbacks: dict[str, list[Callback]] | None = None
        self._on_message: Callback | None = None
        self._on_sent: Callback | None = None
        self._record_sent: Callable[[float], None] = _forget
        self._is_busy = False  # an async callback has a message
        self._is_deaf = False  # closed by us
        self._is_behind = False  # `_go_on` is scheduled
        self._is_paused = False  # the tunnel is
        self._is_orderly = False  # the peer has sent a close frame
        self._is_over = False
        self._collected = 0  # bytes of an incomplete message that `shared` knows of
        self._heard = False  # since the last sweep
        # Until the handshake is answered time does not count.
        self._heard_at = inf
        self._next_ping = inf
        self._close_by = inf

    # --- for whoever serves it -------------------------------------------------------------------------------------------------------

    @property
    def closed(self) -> bool:
        return not self._driver.can_send

    @property
    def pending(self) -> int:
        return self._tunnel.pending

    def __aiter__(self) -> AsyncIterator[str | bytes]:
        return self

    async def __anext__(self) -> str | bytes:
        self.use()
        while True:
            incoming = self._incoming
            if incoming:
                message = incoming.popleft()
                self._incoming_bytes -= len(message)
                if self._is_paused and not self._is_behind:
                    self._read_on()
                return message
            self._answer_close()
            if self.closed:
                raise StopAsyncIteration
            await self._changed()

    async def send(self, message: str | bytes | bytearray | memoryview) -> None:
        self.use()
        if not isinstance(message, str | bytes):
            if not isinstance(message, bytearray | memoryview):
                raise TypeError(f"a WebSocket sends str or bytes, not {type(message).__name__}")
            message = bytes(message)
        while self._tunnel.pending > HIGH_WATER and self._driver.can_send:
            await self._changed()
        if not self._driver.can_send:
            raise WebSocketClosed("the WebSocket is closed")
        self.send_frame(self._driver.encode(message))

    def send_frame(self, frame: bytes) -> None:
        if not self._driver.can_send:
            return
        tunnel = self._tunnel
        if tunnel.pending > MAX_PENDING:
            self._cut_off(TRY_AGAIN_LATER, "Too slow")
            return
        tunnel.write(frame)
        self._record_sent(len(frame))
        if not self.is_open:
            self.use()

    def ignore_messages(self) -> None:
        self.on("message", _ignore)

    def on(self, name: str, callback: Callback) -> None:
        if name not in _NAMES:
            raise ValueError(f"a WebSocket has no {name!r}: {', '.join(_NAMES)}")
        self.use()
        callbacks = self._callbacks
        if callbacks is None:
            callbacks = self._callbacks = {}
        added = callbacks.setdefault(name, [])
        added.append(callback)
        if name == "message":
            self._on_message = callback if len(added) == 1 else self._tell_all
            if self._incoming and not self._is_busy:
                self._shared.loop.call_soon(self._pump)
        elif name == "sent":
            self._on_sent = callback if len(added) == 1 else self._tell_sent

    async def close(self, code: int = NORMAL, reason: str = "") -> None:
        self.close_soon(code, reason)
        while not self._is_over:
            await self._changed()

    def close_soon(self, code: int = NORMAL, reason: str = "") -> None:
        state = self._driver.state
        if state is WebSocketState.OPEN:
            self._driver.close(code, reason)
            self.use()
            self.close_code, self.close_reason = code, reason
            if self.is_open:
                self._close_by = self._shared.now() + CLOSE_SECONDS
            self._drop_incoming()
            self._write_control()
            self._read_on()  # the peer's answer is behind what was not read
            self._wake()
        elif state is WebSocketState.ENDING:
            self._drop_incoming()
            self._answer_close()

    def fail(self, error: BaseException) -> None:
        if isinstance(error, WebSocketClosed | asyncio.CancelledError) and self.closed:
            return
        found = closing(explained(error, self.request))
        if found is None:
            self._shared.log_error(f"WebSocket {self.request.target[:200]}", error)
            found = INTERNAL_ERROR, "Internal Server Error"
        self.close_soon(*found)

    # --- for the listeners -------------------------------------------------------------------------------------------------------------

    def limit(self, max_payload: int) -> None:
        """What the next listener allows. Has no effect once the WebSocket is used."""
        if self.on_use is not None:
            self._driver = WebSocketProtocol(max_payload, self._agreement)

    def run(self, service: Service) -> None:
        """Let it be served; a service that is over ends the WebSocket."""
        try:
            result = service(self)
        except Exception as error:
            self.fail(error)
            return
        if result is not None and inspect.isawaitable(result):
            self._shared.spawn(self._served(result))

    async def _served(self, result: Awaitable[None]) -> None:
        try:
            await result
        except asyncio.CancelledError:
            self.close_soon(GOING_AWAY)
            raise
        except Exception as error:
            self.fail(error)
        else:
            self.close_soon(NORMAL)

    def use(self) -> None:
        """Somebody wants something of it, so the handshake is to be answered."""
        if self.on_use is not None:
            on_use, self.on_use = self.on_use, None
            on_use()

    # --- Receiver ----------------------------------------------------------------------------------------------------------------------

    def start(self, tunnel: Tunnel) -> None:
        shared = self._shared
        early = self._tunnel
        self.on_use = None
        if self._is_over:  # cut off while it waited
            tunnel.abort()
            return
        self._tunnel = tunnel
        self.is_open = True
        now = shared.now()
        self._heard_at = now
        self._next_ping = now + PING_SECONDS
        self._close_by = now + CLOSE_SECONDS
        self._record_sent = shared.opened(self)
        if isinstance(early, Unanswered) and early.written:
            for data in early.written:
                tunnel.write(data)
        if self.serve is not None:
            service, self.serve = self.serve, None
            self.run(service)
        shared.answered(self._driver.state is WebSocketState.OPEN)  # one that is only told why not is none
        shared.wake()

    def on_data(self, data: bytes) -> None:
        self._heard = True
        self._on_events(self._driver.receive_data(data))

    def on_eof(self) -> None:
        self._answer_close()
        self._driver.receive_eof()
        self._tunnel.close()
        self._end(LOST, "", orderly=False)

    def on_sent(self) -> None:
        if self._driver.holds_pongs:
            self._driver.release_pongs()
            self._write_control()
        if self._waiters:
            self._wake()
            self._shared.wake()  # we are at the end of a turn
        if self._on_sent is not None:
            self._call(self._on_sent)

    def on_closed(self) -> None:
        orderly = self._driver.state is WebSocketState.ENDING and self._is_orderly
        self._driver.receive_eof()
        self._tunnel = GONE
        self._end(LOST, "", orderly=orderly)
        self._shared.wake()

    def sweep(self, now: float) -> None:
        if self._heard or self._is_paused:
            self._heard = False
            self._heard_at = now
        elif now - self._heard_at >= SILENCE_SECONDS:
            self._cut_off(LOST, "")
            return
        state = self._driver.state
        if state is WebSocketState.OPEN:
            if now >= self._next_ping:
                self._next_ping = now + PING_SECONDS
                self._driver.ping()
                self._write_control()
        elif state is WebSocketState.CLOSING:
            if self._tunnel.pending:  # our close frame is not even sent: the tunnel knows how long that may take
                self._close_by = now + CLOSE_SECONDS
            elif now >= self._close_by:
                self._cut_off(LOST, "")
        elif state is WebSocketState.ENDING and now >= self._close_by:
            self._drop_incoming()
            self._answer_close()

    def drain(self) -> None:
        self.close_soon(GOING_AWAY)

    # --- what the peer did -----------------------------------------------------------------------------------------------------------

    def _on_events(self, events: list[Event]) -> None:
        driver = self._driver
        for event in events:
            kind = type(event)
            if kind is str or kind is bytes:
                if self._is_deaf:
                    continue
                if self._on_message is not None and not self._is_busy and not self._incoming:
                    self._hand_over(event)  # type: ignore[arg-type]  # mypy does not narrow by `kind`
                else:
                    self._keep(event)  # type: ignore[arg-type]
            elif kind is PingReceived:
                driver.pong(event.payload)  # type: ignore[union-attr]
                self._write_control()
            elif kind is not PongReceived:
                self._on_end(event)  # type: ignore[arg-type]
        if driver.collected or self._collected:
            self._account()
        if driver.is_behind or self._is_paused or self._incoming or self._is_busy:
            self._read_on()

    def _hand_over(self, message: str | bytes) -> None:
        """Give a message to the callback. One that waits gets the next when it is done."""
        try:
            result = self._on_message(message)  # type: ignore[misc]
        except Exception as error:
            self._log(error)
            return
        if result is not None and inspect.isawaitable(result):
            self._is_busy = True
            self._shared.spawn(self._handled(result))

    async def _handled(self, result: Awaitable[Any]) -> None:
        try:
            await result
        except Exception as error:
            self._log(error)
        finally:
            self._is_busy = False
        self._pump()

    def _pump(self) -> None:
        """Give the callback what has waited for it."""
        while self._incoming and not self._is_busy:
            message = self._incoming.popleft()
            self._incoming_bytes -= len(message)
            self._hand_over(message)
        if not self._is_busy:
            self._answer_close()
            if self._is_over:
                self._callbacks = self._on_message = self._on_sent = None
        if self._is_paused and not self._is_behind:
            self._read_on()

    def _keep(self, message: str | bytes) -> None:
        if self._incoming is None:
            self._incoming = deque()
        self._incoming.append(message)
        self._incoming_bytes += len(message)
        if self._waiters:
            self._wake()

    def _read_on(self) -> None:
        """Read if there is room: first what the driver has, in the next turn, then the peer."""
        incoming = self._incoming
        if self._is_over:
            return
        is_full = incoming is not None and (len(incoming) >= INCOMING_MESSAGES or self._incoming_bytes >= INCOMING_BYTES)
        if is_full or self._driver.is_behind:
            if not self._is_paused:
                self._is_paused = True
                self._tunnel.pause_reading()
            if not is_full and not self._is_behind:
                self._is_behind = True
                self._shared.loop.call_soon(self._go_on)
        elif self._is_paused:
            self._is_paused = False
            self._tunnel.resume_reading()

    def _go_on(self) -> None:
        self._is_behind = False
        if not self._is_over:
            self._on_events(self._driver.next_events())

    def _on_end(self, event: CloseReceived | Failed) -> None:
        """The peer's close frame, or an offence. No event follows."""
        is_orderly = type(event) is CloseReceived
        if self._driver.state is WebSocketState.CLOSED:  # ours was sent before
            self._tunnel.close()
            self._end(event.code, event.reason, orderly=is_orderly)
            return
        self._is_orderly = is_orderly
        self.close_code, self.close_reason = event.code, event.reason
        if self._incoming or self._is_busy:
            self._close_by = self._shared.now() + CLOSE_SECONDS
        else:
            self._answer_close()

    def _answer_close(self) -> None:
        """Say the last word, if that is what remains to be done."""
        if self._driver.state is not WebSocketState.ENDING:
            return
        self._driver.answer_close()
        self._write_control()
        self._tunnel.close()
        if not self._is_orderly:
            self._tell("error", PeerError(self.close_reason))
        self._end(LOST, "", orderly=self._is_orderly)

    def _account(self) -> None:
        """Tell `shared` what is held of an incomplete message; too much of all together costs the one that asks for more."""
        collected = self._driver.collected
        change, self._collected = collected - self._collected, collected
        if not self._shared.hold(change) and change > 0:
            failed = Failed(TRY_AGAIN_LATER, "Too many large messages at a time")
            self._driver.fail(failed.code, failed.reason)
            self._on_end(failed)

    # --- the end -----------------------------------------------------------------------------------------------------------------------

    def _cut_off(self, code: int, reason: str) -> None:
        """End it without another word."""
        self._drop_incoming()
        self._driver.receive_eof()
        self._tunnel.abort()
        self._end(code, reason, orderly=False)

    def _end(self, code: int, reason: str, *, orderly: bool) -> None:
        """Nothing comes any more, and nothing goes."""
        if self._is_over:
            return
        self._is_over = True
        if self.close_code is None:
            self.close_code, self.close_reason = code, reason
        if self._collected:
            self._shared.hold(-self._collected)
            self._collected = 0
        if self.is_open:
            self._shared.closed(self, orderly)
        self._wake()
        self._tell("close", self.close_code, self.close_reason)
        if not self._incoming:
            self._callbacks = self._on_message = self._on_sent = None  # they often refer to this object

    def _drop_incoming(self) -> None:
        """We have closed it, so nobody wants what is still to come."""
        self._is_deaf = True
        self._incoming = None
        self._incoming_bytes = 0

    # --- small parts -------------------------------------------------------------------------------------------------------------------

    def _write_control(self) -> None:
        data = self._driver.data_to_send()
        if data:
            tunnel = self._tunnel
            tunnel.write(data)
            if tunnel.pending > HIGH_WATER:
                self._driver.holds_pongs = True

    async def _changed(self) -> None:
        """Until a message comes, all is sent, or the WebSocket ends."""
        waiter = self._shared.loop.create_future()
        if self._waiters is None:
            self._waiters = []
        self._waiters.append(waiter)
        try:
            await waiter
        finally:
            if self._waiters and waiter in self._waiters:
                self._waiters.remove(waiter)

    def _wake(self) -> None:
        waiters, self._waiters = self._waiters, None
        for waiter in waiters or ():
            if not waiter.done():
                waiter.set_result(None)

    def _tell(self, name: str, *arguments: Any) -> None:
        for callback in list((self._callbacks or {}).get(name, ())):
            self._call(callback, *arguments)

    def _call(self, callback: Callback, *arguments: Any) -> None:
        try:
            result = callback(*arguments)
        except Exception as error:
            self._log(error)
            return
        if result is not None and inspect.isawaitable(result):
            self._shared.spawn(self._awaited(result))

    async def _awaited(self, result: Awaitable[Any]) -> None:
        try:
            await result
        except Exception as error:
            self._log(error)

    def _tell_sent(self) -> None:
        self._tell("sent")

    def _tell_all(self, message: str | bytes) -> Coroutine[Any, Any, None] | None:
        """Several callbacks for one message: those that wait are waited for one after the other."""
        waiting: list[Awaitable[Any]] = []
        for callback in (self._callbacks or {}).get("message", ()):
            try:
                result = callback(message)
            except Exception as error:
                self._log(error)
                continue
            if result is not None and inspect.isawaitable(result):
                waiting.append(result)
        return self._await_all(waiting) if waiting else None

    async def _await_all(self, waiting: list[Awaitable[Any]]) -> None:
        for result in waiting:
            await self._awaited(result)

    def _log(self, error: BaseException) -> None:
        if not isinstance(error, WebSocketClosed):
            self._shared.log_error(f"a callback of WebSocket {self.request.target[:200]}", error)

    def __repr__(self) -> str:
        return f"<WebSocket {self.request.target[:80]} {self._driver.state.name if self.is_open else 'waiting'}>"


class Unanswered:
    """In place of a tunnel before the handshake is answered, and after the tunnel is gone."""

    def __init__(self) -> None:
        self.pending = 0
        self.written: list[bytes] = []

    def write(self, data: bytes) -> None:
        self.written.append(data)
        self.pending += len(data)

    def close(self) -> None:
        pass

    abort = pause_reading = resume_reading = close


class Gone(Unanswered):
    def write(self, data: bytes) -> None:
        pass


GONE = Gone()


def _ignore(message: str | bytes) -> None:
    pass


def _forget(size: float) -> None:
    pass
