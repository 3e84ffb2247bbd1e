"""One WebSocket: messages in both directions over a tunnel (spec: realtime §2, architecture §11).

The driver turns the peer's bytes into events. Messages are passed to a callback by a plain call, or queued for iteration. Queues are bounded in both
directions, and so is the work of one turn:

in    While INCOMING_MESSAGES or INCOMING_BYTES wait to be taken the peer is not read. The messages of one recv may be more than a
      batch; the rest waits in line (`connection.input_share`). When the turn's share is used up, one message is taken a turn.
out   `send` waits while HIGH_WATER is unsent. `send_frame` does not: its caller checks `pending`. Above MAX_PENDING the WebSocket is cut off as too
      slow (1013). A frame that is sent to many peers is in memory once.
time  A ping every PING_SECONDS; closed after SILENCE_SECONDS without a byte from a peer that we were reading (an ended connection may look
      like a silent one for ever); CLOSE_SECONDS for the peer's answer to our close frame. Output the peer does not take is the tunnel's to watch.

The peer's close frame, or a protocol error, is answered when all messages before it have been taken, so that the service can still answer those.
"""

from __future__ import annotations

import asyncio
import inspect
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from math import inf
from typing import TYPE_CHECKING, Any, Protocol

from svc.auth.logins import LOGIN_ENDED
from svc.auth.origin_policy import explained
from svc.errors import PeerError
from svc.loop import contained, is_ours
from svc.messages import HeaderPairs, Request
from svc.protocol.websocket import (
    LOST,
    Agreement,
    CloseReceived,
    Event,
    PingReceived,
    PongReceived,
    ProtocolFailed,
    WebSocketProtocol,
    WebSocketState,
)
from svc.websocket.close_codes import (
    GOING_AWAY,
    INTERNAL_ERROR,
    NORMAL,
    NOT_LOGGED_IN,
    SERVICE_RESTART,
    TRY_AGAIN_LATER,
    WebSocketClosed,
    close_frame_for,
)

if TYPE_CHECKING:
    from svc.connection.input_share import InputShare
    from svc.messages import Tunnel
    from svc.websocket.handler import Service

HIGH_WATER = 256 * 1024  # bytes unsent at which `send` waits, and pings are answered only when they are sent
MAX_PENDING = 16 * 1024 * 1024  # bytes unsent at which a peer is too slow; one message may go beyond
INCOMING_MESSAGES = 128  # that have not been taken yet
INCOMING_BYTES = 1024 * 1024  # ... and their size; one message may go beyond
PING_SECONDS = 30.0
SILENCE_SECONDS = 60.0
CLOSE_SECONDS = 10.0
SUBPROTOCOL = "Sec-WebSocket-Protocol"

Callback = Callable[..., Any]
_NAMES = ("message", "close", "error", "sent")


class WebSocketContext(Protocol):
    """What a `WebSocket` needs of the `WebSocketRegistry` of its port."""

    loop: asyncio.AbstractEventLoop
    now: Callable[[], float]
    log_error: Callable[[str, BaseException | None], None]
    answered: Callable[[bool], None]
    input: InputShare

    def opened(self, socket: WebSocket) -> tuple[Callable[[float], None], Callable[[float], None]]: ...

    def closed(self, socket: WebSocket, orderly: bool) -> None: ...

    def hold(self, size: int) -> None: ...

    def spawn(self, work: Coroutine[Any, Any, None]) -> None: ...

    def wake(self) -> None: ...


class WebSocket:
    """A `tunnel.Receiver`; `handler.Socket` documents the interface for services."""

    __slots__ = (
        "__weakref__",
        "_answer",
        "_callbacks",
        "_close_by",
        "_collected",
        "_discards",
        "_driver",
        "_has_received",
        "_incoming",
        "_incoming_bytes",
        "_is_behind",
        "_is_busy",
        "_is_orderly",
        "_is_over",
        "_is_paused",
        "_next_ping",
        "_on_message",
        "_on_sent",
        "_received_at",
        "_record_received",
        "_record_sent",
        "_shared",
        "_tunnel",
        "_waiters",
        "close_code",
        "close_reason",
        "is_open",
        "login_code",
        "on_use",
        "request",
        "serve",
        "subprotocol",
    )  # fmt: skip

    def __init__(
        self,
        shared: WebSocketContext,
        request: Request,
        max_payload: int,
        agreement: Agreement | None = None,
        subprotocol: str | None = None,
        serve: Service | None = None,
        answer: HeaderPairs | None = None,
    ) -> None:
        """`serve` is called when the handshake is answered; None: a listener has it already. `answer`: the fields of that answer."""
        self._shared = shared
        self.request = request
        self.subprotocol = subprotocol
        self.close_code: int | None = None
        self.close_reason = ""
        self.is_open = False  # the handshake is answered
        self.login_code = NOT_LOGGED_IN  # closed with when the login of the caller ends
        self.on_use: Callable[[], None] | None = None  # called once, at the first use
        self.serve = serve
        self._answer = answer
        self._driver = WebSocketProtocol(max_payload, agreement)
        self._tunnel: Tunnel | EarlyOutput = EarlyOutput()
        self._incoming: deque[str | bytes] | None = None  # messages not taken yet
        self._incoming_bytes = 0
        self._waiters: list[asyncio.Future[None]] | None = None  # of iteration, `send` and `close`
        self._callbacks: dict[str, list[Callback]] | None = None
        self._on_message: Callback | None = None
        self._on_sent: Callback | None = None
        self._record_sent: Callable[[float], None] = _no_record
        self._record_received: Callable[[float], None] = _no_record
        self._is_busy = False  # an async callback has a message
        self._discards = False  # closed by us: messages are discarded
        self._is_behind = False  # waits in line for `take_turn`
        self._is_paused = False  # the tunnel is
        self._is_orderly = False  # the peer has sent a close frame
        self._is_over = False
        self._collected = 0  # bytes of an incomplete message that `shared` knows of
        self._has_received = False  # since the last sweep
        # Until the handshake is answered time does not count.
        self._received_at = inf
        self._next_ping = inf
        self._close_by = inf

    # --- for the service --------------------------------------------------------------------------------------------------------------

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
            share = self._shared.input
            if self._incoming and share.is_over:
                await asyncio.sleep(0)
            incoming = self._incoming
            if incoming:
                message = incoming.popleft()
                self._incoming_bytes -= len(message)
                share.charge()
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
        driver = self._driver
        if driver.state is not WebSocketState.OPEN and not driver.can_send:
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
            self._on_message = callback if len(added) == 1 else self._call_all
            if self._incoming and not self._is_busy:
                self._shared.loop.call_soon(self._pump)
        elif name == "sent":
            self._on_sent = callback if len(added) == 1 else self._call_sent

    async def close(self, code: int = NORMAL, reason: str = "") -> None:
        self.close_soon(code, reason)
        while not self._is_over:
            await self._changed()

    def login_ended(self) -> None:
        self.close_soon(self.login_code, LOGIN_ENDED)

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
        found = close_frame_for(explained(error, self.request))
        if found is None:
            self._shared.log_error(f"WebSocket {self.request.target[:200]}", error)
            found = INTERNAL_ERROR, "Internal Server Error"
        self.close_soon(*found)

    # --- for the listeners -------------------------------------------------------------------------------------------------------------

    def limit(self, max_payload: int) -> None:
        """The maximum size of messages from now on. Called before the first one has come."""
        self._driver.limit(max_payload)

    def answer_with(self, subprotocol: str | None, pairs: HeaderPairs) -> None:
        """Before the first use: answer the handshake with this sub-protocol, one of those offered, and with further fields."""
        if self.on_use is None or self._answer is None:
            raise RuntimeError("the handshake is answered")
        self.subprotocol = subprotocol
        self._answer[:] = [pair for pair in self._answer if pair[0] != SUBPROTOCOL] + pairs
        if subprotocol is not None:
            self._answer.append((SUBPROTOCOL, subprotocol))

    def run(self, service: Service) -> None:
        """Call a service; the WebSocket is closed when it has ended."""
        try:
            result = service(self)
        except BaseException as error:
            self.fail(contained(error))
            return
        if result is not None and inspect.isawaitable(result):
            self._shared.spawn(self._served(result))

    async def _served(self, result: Awaitable[None]) -> None:
        try:
            await result
        except BaseException as error:
            if is_ours(error):
                self.close_soon(GOING_AWAY)
                raise
            self.fail(contained(error))
        else:
            self.close_soon(NORMAL)

    def use(self) -> None:
        """First use: the handshake is to be answered."""
        if self.on_use is not None:
            on_use, self.on_use = self.on_use, None
            on_use()

    # --- Receiver ----------------------------------------------------------------------------------------------------------------------

    def start(self, tunnel: Tunnel) -> None:
        shared = self._shared
        early = self._tunnel
        self.on_use = self._answer = None
        if self._is_over:  # cut off while it waited
            tunnel.abort()
            return
        self._tunnel = tunnel
        self.is_open = True
        now = shared.now()
        self._received_at = now
        self._next_ping = now + PING_SECONDS
        self._close_by = now + CLOSE_SECONDS
        self._record_sent, self._record_received = shared.opened(self)
        if isinstance(early, EarlyOutput) and early.written:
            for data in early.written:
                tunnel.write(data)
        if self.serve is not None:
            service, self.serve = self.serve, None
            self.run(service)
        shared.answered(self._driver.state is WebSocketState.OPEN)  # one that is only sent a refusal does not count
        shared.wake()

    def on_data(self, data: bytes) -> None:
        self._has_received = True
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
            self._shared.wake()  # this may be the end of a turn
        if self._on_sent is not None:
            try:
                result = self._on_sent()
            except BaseException as error:
                self._log(contained(error))
                return
            if result is not None:
                self._await(result)

    def on_closed(self) -> None:
        orderly = self._driver.state is WebSocketState.ENDING and self._is_orderly
        self._driver.receive_eof()
        self._tunnel = CLOSED_TUNNEL
        self._end(LOST, "", orderly=orderly)
        self._shared.wake()

    def sweep(self, now: float) -> None:
        if self._has_received or self._is_paused:
            self._has_received = False
            self._received_at = now
        elif now - self._received_at >= SILENCE_SECONDS:
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

    def drain(self, is_replaced: bool = False) -> None:
        self.close_soon(SERVICE_RESTART if is_replaced else GOING_AWAY)

    # --- what the peer did -----------------------------------------------------------------------------------------------------------

    def _on_events(self, events: list[Event]) -> None:
        driver = self._driver
        for event in events:
            kind = type(event)
            if kind is str or kind is bytes:
                # `isascii` of a string takes no time: it knows.
                self._record_received(len(event if kind is bytes or event.isascii() else event.encode()))  # type: ignore[arg-type, union-attr]
                if self._discards:
                    continue
                if self._on_message is not None and not self._is_busy and not self._incoming:
                    self._pass_on(event)  # type: ignore[arg-type]  # mypy does not narrow by `kind`
                else:
                    self._queue_message(event)  # type: ignore[arg-type]
            elif kind is PingReceived:
                driver.pong(event.payload)  # type: ignore[union-attr]
                self._write_control()
            elif kind is not PongReceived:
                self._on_end(event)  # type: ignore[arg-type]
        if driver.collected or self._collected:
            self._account()
        if driver.is_behind or self._is_paused or self._incoming or self._is_busy:
            self._read_on()

    def _pass_on(self, message: str | bytes) -> None:
        """Pass a message to the callback. An async callback gets the next one when it is done."""
        try:
            result = self._on_message(message)  # type: ignore[misc]
        except BaseException as error:
            self._log(contained(error))
            return
        if result is not None and inspect.isawaitable(result):
            self._is_busy = True
            self._shared.spawn(self._handled(result))

    async def _handled(self, result: Awaitable[Any]) -> None:
        try:
            await result
        except BaseException as error:
            self._log(contained(error))
        finally:
            self._is_busy = False
        self._pump()

    def _pump(self) -> None:
        """Pass queued messages to the callback."""
        share = self._shared.input
        while self._incoming and not self._is_busy:
            message = self._incoming.popleft()
            self._incoming_bytes -= len(message)
            self._pass_on(message)
            share.charge()
            if share.is_over and self._incoming:
                self._shared.loop.call_soon(self._pump)
                return
        if not self._is_busy:
            self._answer_close()
            if self._is_over:
                self._callbacks = self._on_message = self._on_sent = None
        if self._is_paused and not self._is_behind:
            self._read_on()

    def _queue_message(self, message: str | bytes) -> None:
        if self._incoming is None:
            self._incoming = deque()
        self._incoming.append(message)
        self._incoming_bytes += len(message)
        if self._waiters:
            self._wake()

    def _read_on(self) -> None:
        """Read if there is room: first the bytes that the driver has, when it is our turn, then the peer."""
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
                self._shared.input.line.append(self)
        elif self._is_paused:
            self._is_paused = False
            self._tunnel.resume_reading()

    def take_turn(self) -> None:
        self._is_behind = False
        if not self._is_over:
            try:
                self._on_events(self._driver.next_events())
            except BaseException as error:
                error = contained(error)
                self._shared.log_error(f"WebSocket {self.request.target[:200]}", error)
                self._cut_off(LOST, "")
            self._shared.input.charge()

    def _on_end(self, event: CloseReceived | ProtocolFailed) -> None:
        """The peer's close frame, or a protocol error. No event follows."""
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
        """Answer the peer's close frame, if all messages have been taken."""
        if self._driver.state is not WebSocketState.ENDING:
            return
        self._driver.answer_close()
        self._write_control()
        self._tunnel.close()
        if not self._is_orderly:
            self._call_each("error", PeerError(self.close_reason))
        self._end(LOST, "", orderly=self._is_orderly)

    def _account(self) -> None:
        """Report the bytes held of an incomplete message."""
        collected = self._driver.collected
        change, self._collected = collected - self._collected, collected
        self._shared.hold(change)

    @property
    def collected(self) -> int:
        """Bytes held of an incomplete message."""
        return self._collected

    def give_way(self) -> None:
        """All that is held of such messages is too much: close this one."""
        failed = ProtocolFailed(TRY_AGAIN_LATER, "Too many large messages at a time")
        self._shared.hold(-self._collected)
        self._collected = 0
        if self._driver.state is WebSocketState.OPEN:
            self._driver.fail(failed.code, failed.reason)
            self._on_end(failed)
        else:
            self._cut_off(failed.code, failed.reason)

    # --- the end -----------------------------------------------------------------------------------------------------------------------

    def _cut_off(self, code: int, reason: str) -> None:
        """Close it without a close frame."""
        self._drop_incoming()
        self._driver.receive_eof()
        self._tunnel.abort()
        self._end(code, reason, orderly=False)

    def _end(self, code: int, reason: str, *, orderly: bool) -> None:
        """The end: nothing more is received or sent."""
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
        self._call_each("close", self.close_code, self.close_reason)
        if not self._incoming:
            self._callbacks = self._on_message = self._on_sent = None  # they often refer to this object

    def _drop_incoming(self) -> None:
        """Closed by us: discard what the peer still sends."""
        self._discards = True
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
        """Wait until a message comes, everything is sent, or the WebSocket ends."""
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

    def _call_each(self, name: str, *arguments: Any) -> None:
        for callback in list((self._callbacks or {}).get(name, ())):
            self._call(callback, *arguments)

    def _call(self, callback: Callback, *arguments: Any) -> None:
        try:
            result = callback(*arguments)
        except BaseException as error:
            self._log(contained(error))
            return
        if result is not None:
            self._await(result)

    def _await(self, result: Any) -> None:
        """Let what a callback has returned run on, if it is awaitable."""
        if inspect.isawaitable(result):
            self._shared.spawn(self._awaited(result))

    async def _awaited(self, result: Awaitable[Any]) -> None:
        try:
            await result
        except BaseException as error:
            self._log(contained(error))

    def _call_sent(self) -> None:
        self._call_each("sent")

    def _call_all(self, message: str | bytes) -> Coroutine[Any, Any, None] | None:
        """Call several callbacks for one message; their awaitables are awaited one after the other."""
        waiting: list[Awaitable[Any]] = []
        for callback in (self._callbacks or {}).get("message", ()):
            try:
                result = callback(message)
            except BaseException as error:
                self._log(contained(error))
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


class EarlyOutput:
    """Instead of a tunnel before the handshake is answered. Keeps what is written."""

    def __init__(self) -> None:
        self.pending = 0
        self.written: list[bytes] = []

    def write(self, data: bytes) -> None:
        self.written.append(data)
        self.pending += len(data)

    def close(self) -> None:
        pass

    abort = pause_reading = resume_reading = close


class ClosedTunnel(EarlyOutput):
    def write(self, data: bytes) -> None:
        pass


CLOSED_TUNNEL = ClosedTunnel()


def _ignore(message: str | bytes) -> None:
    pass


def _no_record(size: float) -> None:
    pass
