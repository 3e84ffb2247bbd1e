"""One accepted socket: reads, writes, limits and deadlines; drives one protocol object (design §1-§3, style §2).

The connection knows bytes and time, the protocol knows their meaning, the application (`Application`) knows the answer. Output is collected during a
turn and sent once at its end (`flush`). A streamed body is pulled only while the out-buffer is below HIGH_WATER, so a slow reader holds back the
scan that feeds it, and no more than STREAM_SLICE seconds a turn go to all streams together.

A body that is not here with its head is collected, unless the application, asked with the head, refuses it or names a `BodySink` that takes it as it
comes. While a sink is full the socket is not read. As long as the body moves on it may take its time.

    state      waits for                            deadline
    HEAD       the rest of a request head           headersTimeout, else the connection answers 408
    BODY       the rest of a request body           timeout, else 408
    HANDLING   the application                      timeout, else 503
    SENDING    the peer to read                     timeout without progress, else closed
    IDLE       the next request                     keepAliveTimeout, else closed
    LINGERING  the peer's FIN, discarding        LINGER_SECONDS, else closed
    CLOSED     -

A connection is never torn down inside its own call: `close_soon` marks it and the end of the turn closes it.
"""

from __future__ import annotations

import asyncio
import inspect
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from svc.errors import Overloaded, PeerError, Problem, ServerError
from svc.messages import HeaderPairs, Request, Response
from svc.protocol.events import DataReceived, Event, PeerClosed, ProtocolFailed, RequestEnded, RequestReceived
from svc.protocol.http1 import Http1, Limits

if TYPE_CHECKING:
    from svc.clock import Clock

READ_SIZE = 64 * 1024  # bytes a recv asks for
READ_SIZE_BODY = 512 * 1024  # while a large body is arriving
HIGH_WATER = 256 * 1024  # bytes of unsent output at which a stream pauses
LOW_WATER = 64 * 1024  # ... and at which it goes on
STREAM_SLICE = 0.004  # seconds of a turn that all streamed bodies together may take
PIPELINE_BATCH = 16  # pipelined requests of one connection answered in one turn
LINGER_SECONDS = 2.0  # for a peer to take note of an answer that came before it had sent everything
READ_AHEAD = 256 * 1024  # bytes a peer may send beyond the request being answered before we stop reading


class State(IntEnum):
    HEAD = 0
    BODY = 1
    HANDLING = 2
    SENDING = 3
    IDLE = 4
    LINGERING = 5
    CLOSED = 6


@dataclass(frozen=True)
class Timeouts:
    """Seconds (http §14)."""

    headers: float = 60.0
    request: float = 120.0
    keep_alive: float = 30.0


class BodySink(Protocol):
    """Takes the body of a request as it comes: `blobs.Upload`."""

    on_change: Callable[
        [BaseException | None], None
    ]  # set by the connection: there is room again, or (with an exception) no more is wanted

    def write(self, data: bytes) -> bool:
        """Take a piece. False: no more, please, until `on_change`."""

    def finish(self, done: Callable[[Any, BaseException | None], None]) -> None:
        """The body is complete: `done` gets what became of it, or what went wrong; now or later."""

    def discard(self) -> None:
        """Nobody wants it any more. Nothing is called after this."""


Decision = Response | BodySink | None


class Application(Protocol):
    """What answers requests: `dispatch.Dispatcher`."""

    def receive(self, exchange: Exchange) -> Decision | Awaitable[Decision]:
        """A head is here and its body is not: a response refuses it, None has it collected, or a sink takes it. Then follows `handle`,
        with what the sink made as `request.upload`. Asked once; never raises."""

    def handle(self, exchange: Exchange) -> Response | None:
        """The response, or None: `exchange.respond()` will be called later. Never raises."""

    def error_response(self, error: BaseException, request: Request | None) -> Response: ...

    def decode_content(self, request: Request) -> Any:
        """The body of a request as a value. Raises Problem."""

    def sent(self, exchange: Exchange, now: float) -> None:
        """The answer was handed to the socket at `now` (or the peer went away)."""

    def cancelled(self, exchange: Exchange) -> None:
        """The peer went away, or time ran out, before the application answered."""


class Exchange:
    """One request and its answer, on one connection. The handle by which a later answer finds its way back."""

    __slots__ = ("abandoned", "body_bytes", "connection", "request", "status", "stream_id", "task")

    def __init__(self, connection: Connection, stream_id: int, request: Request) -> None:
        self.connection = connection
        self.stream_id = stream_id
        self.request = request
        request.exchange = self
        self.status = 0
        self.body_bytes = 0
        self.abandoned = False
        self.task: asyncio.Task[None] | None = None

    def respond(self, response: Response) -> None:
        """Answer now (from a later turn's work than the request). After the peer went away: dropped."""
        if not self.abandoned:
            self.connection.answer(self, response)

    def decode_content(self, request: Request) -> Any:
        return self.connection.application.decode_content(request)

    def send_early_hints(self, pairs: HeaderPairs) -> None:
        if not self.abandoned and not self.status:
            self.connection.protocol.send_informational(103, pairs)
            self.connection.touch()


class Connections:
    """All connections of a server: what they share, who of them has work at the end of the turn."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        application: Application,
        clock: Clock,
        *,
        limits: Limits,
        timeouts: Timeouts,
        date: Callable[[], str],
        log_error: Callable[[str, BaseException | None], None],
        max_bodies: int = 1 << 30,
    ) -> None:
        self.loop = loop
        self.application = application
        self.now = clock.monotonic
        self.limits = limits
        self.timeouts = timeouts
        self.date = date
        self.log_error = log_error
        self.max_bodies = max_bodies  # bytes of request bodies that may be in memory at one time
        self.bodies = 0
        self.open: set[Connection] = set()
        self.to_flush: list[Connection] = []
        self.streams: list[Connection] = []  # have a streamed body to pull and room for it
        self.bytes_received = 0
        self.bytes_sent = 0
        self.woken = False  # a coroutine became ready during the end of the turn

    def accept(self, sock: socket.socket, peer: str, scheme: str = "http") -> Connection:
        """Take over a connected non-blocking socket."""
        connection = Connection(self, sock, peer, scheme)
        self.open.add(connection)
        self.loop.add_reader(sock, connection.on_readable)
        return connection

    def end_turn(self) -> bool:
        """Pull streams, send what there is, close what is done. True if a further turn has work at once."""
        if self.streams:
            self._pull_streams()
        flushing, self.to_flush = self.to_flush, []
        for connection in flushing:
            connection.flush()
        woken, self.woken = self.woken, False
        return bool(woken or self.streams or self.to_flush)

    def _pull_streams(self) -> None:
        deadline = self.now() + STREAM_SLICE
        waiting = self.streams
        self.streams = []
        for position, connection in enumerate(waiting):
            if self.now() >= deadline:
                self.streams = waiting[position:] + self.streams  # those not served go first next time
                return
            connection.pull(deadline)

    def sweep(self, now: float) -> None:
        """Act on every deadline that has passed. Called about once a second."""
        for connection in [c for c in self.open if c.deadline <= now]:
            connection.on_deadline()

    def drain(self) -> None:
        """Graceful stop: idle connections go now, the others after their current answer."""
        for connection in list(self.open):
            connection.protocol.drain()
            if connection.state is State.IDLE:
                connection.close_soon()

    def close_all(self) -> None:
        for connection in list(self.open):
            connection.close_now()


class Connection:
    """See the module's text. Not re-entrant; everything runs on the loop."""

    __slots__ = (
        "_ahead", "_body", "_body_size", "_closing", "_current", "_ended", "_flush_queued", "_is_complete", "_is_undecided", "_out", "_pending",
        "_reading", "_room", "_shared", "_sink", "_stream", "_stream_queued", "_unread", "_unsent", "_writing", "deadline", "peer", "protocol",
        "scheme", "sock", "state",
    )  # fmt: skip

    def __init__(self, shared: Connections, sock: socket.socket, peer: str, scheme: str) -> None:
        self._shared = shared
        self.sock = sock
        self.peer = peer
        self.scheme = scheme
        self.protocol = Http1(shared.limits)
        self.state = State.HEAD
        self.deadline = shared.now() + shared.timeouts.headers
        self._out: list[bytes] = []  # protocol output not yet taken by the socket
        self._pending = 0  # bytes in _out
        self._current: Exchange | None = None
        self._unsent: list[Exchange] = []  # answered, but not yet taken by the socket
        self._body: list[bytes] | None = None
        self._body_size = 0
        self._sink: BodySink | None = None  # takes the body, or has taken it and is not done
        self._is_undecided = False  # what becomes of the body, of which `_body` has what has come
        self._is_complete = False  # ... all of it
        self._stream: Iterator[bytes] | None = None
        self._room: asyncio.Future[None] | None = None  # an async body waits for the buffer to empty
        self._stream_queued = False  # in shared.streams
        self._flush_queued = False
        self._reading = True  # registered for readability
        self._writing = False  # registered for writability
        self._ahead = 0  # bytes read while an earlier request was being answered
        self._ended = False  # the peer sent its FIN
        self._unread = False  # an answer ends the connection while the peer may still be sending
        self._closing = False

    @property
    def application(self) -> Application:
        return self._shared.application

    # --- reading -------------------------------------------------------------------------------------------------------------------

    def on_readable(self) -> None:
        shared = self._shared
        try:
            data = self.sock.recv(READ_SIZE if self._body is None or self.protocol.body_remaining < READ_SIZE else READ_SIZE_BODY)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            self.close_now()
            return
        try:
            if data:
                shared.bytes_received += len(data)
                state = self.state
                if state is State.IDLE:
                    self.state = State.HEAD
                    self.deadline = shared.now() + shared.timeouts.headers
                elif state is State.LINGERING:
                    return
                elif state is State.HANDLING or state is State.SENDING:
                    self._ahead += len(data)
                    if self._ahead > READ_AHEAD:
                        self._stop_reading()
                self._on_events(self.protocol.receive_data(data))
            else:
                self._stop_reading()
                self._ended = True
                if self.state is State.LINGERING:
                    self.close_now()
                    return
                self._on_events(self.protocol.receive_eof())
                self.touch()
        except Exception as error:
            self._defect(error)

    def _on_events(self, events: list[Event]) -> None:
        answered = 0
        while events:
            for event in events:
                kind = type(event)
                if kind is RequestReceived:
                    self._on_request(event)  # type: ignore[arg-type]  # mypy does not narrow by `kind`, and cast() is a call
                elif kind is DataReceived:
                    self._on_data(event.data)  # type: ignore[union-attr]
                elif kind is RequestEnded:
                    self._on_request_ended()
                elif kind is ProtocolFailed:
                    self._on_failure(event.error)  # type: ignore[union-attr]
                    return
                elif kind is PeerClosed:
                    self._stop_reading()
                    self._ended = True
            # A pipelined request follows only when its predecessor is answered, and the rest of a long pipeline in the next turn.
            answered += 1
            if self._current is not None or self._closing or answered == PIPELINE_BATCH:
                return
            events = self.protocol.next_events()

    def _on_request(self, event: RequestReceived) -> None:
        shared = self._shared
        body = event.body
        request = Request(event.method, event.target, event.block, b"" if body is None else body, event.http_version)
        request.peer = self.peer
        request.scheme = self.scheme
        request.arrived = now = shared.now()
        exchange = self._current = Exchange(self, event.stream_id, request)
        self.deadline = now + shared.timeouts.request
        if body is not None:
            self.state = State.HANDLING
            response = shared.application.handle(exchange)
            if response is not None:
                self.answer(exchange, response)
            return
        self._body = []
        self._body_size = 0
        self._is_complete = False
        self.state = State.BODY
        decision = shared.application.receive(exchange)
        if inspect.isawaitable(decision):
            self._is_undecided = True
            exchange.task = shared.loop.create_task(self._wait_for_decision(exchange, decision))
        else:
            self._on_decision(exchange, decision)

    async def _wait_for_decision(self, exchange: Exchange, awaited: Awaitable[Decision]) -> None:
        decision = await awaited
        exchange.task = None
        if self._current is exchange:
            try:
                self._is_undecided = False
                self._on_decision(exchange, decision)
            except Exception as error:
                self._defect(error)
        elif decision is not None and not isinstance(decision, Response):
            decision.discard()

    def _on_decision(self, exchange: Exchange, decision: Decision) -> None:
        if isinstance(decision, Response):
            if self._is_complete:
                self._drop_body()  # else what is still to come is dropped when it is answered
            self.answer(exchange, decision)
            return
        self.protocol.send_continue()
        self.touch()
        self._read_again()
        if decision is not None:
            assert self._body is not None
            pieces = self._body
            self._drop_body()
            self._body = []
            self._sink = decision
            decision.on_change = partial(self._on_sink_change, exchange)
            for piece in pieces:
                self._on_data(piece)
        if self._is_complete:
            self._on_request_ended()

    def _on_sink_change(self, exchange: Exchange, error: BaseException | None) -> None:
        if self._current is not exchange:
            return
        if error is None:
            self._read_again()
        else:
            self._on_sink_done(exchange, None, error)

    def _on_sink_done(self, exchange: Exchange, made: Any, error: BaseException | None) -> None:
        if self._current is not exchange:
            return
        self._sink = None
        try:
            if error is None:
                exchange.request.upload = made
                self._handle(exchange)
            else:
                self.answer(exchange, self._shared.application.error_response(error, exchange.request))
        except Exception as defect:
            self._defect(defect)

    def _on_data(self, data: bytes) -> None:
        if self._body is None:
            return
        sink = self._sink
        if sink is not None:
            self.deadline = self._shared.now() + self._shared.timeouts.request
            if not sink.write(data) and self._sink is sink:
                self._stop_reading()
            return
        shared = self._shared
        shared.bodies += len(data)
        self._body_size += len(data)
        self._body.append(data)
        if self._is_undecided and self._body_size > READ_AHEAD:
            self._stop_reading()
        if shared.bodies > shared.max_bodies:
            exchange = self._current
            self._drop_body()
            assert exchange is not None
            self.answer(exchange, shared.application.error_response(Overloaded("Too many request bodies at one time"), exchange.request))

    def _drop_body(self) -> None:
        self._shared.bodies -= self._body_size
        self._body, self._body_size = None, 0
        self._is_undecided = False
        self._drop_sink()

    def _drop_sink(self) -> None:
        sink, self._sink = self._sink, None
        if sink is not None:
            sink.discard()

    def _on_request_ended(self) -> None:
        exchange = self._current
        if exchange is None or self._body is None:
            return
        self._enter(State.HANDLING, self._shared.timeouts.request)
        if self._is_undecided:
            self._is_complete = True
            return
        sink = self._sink
        if sink is not None:
            self._body = None
            sink.finish(partial(self._on_sink_done, exchange))
            return
        exchange.request.content = b"".join(self._body)
        self._drop_body()
        self._handle(exchange)

    def _handle(self, exchange: Exchange) -> None:
        response = self._shared.application.handle(exchange)
        if response is not None:
            self.answer(exchange, response)

    def _on_failure(self, error: PeerError) -> None:
        """The peer broke the protocol: answer while that is possible, then close."""
        exchange, self._current = self._current, None
        if exchange is not None:
            self._abandon(exchange)
        self._drop_body()
        response = self._shared.application.error_response(error, exchange.request if exchange else None)
        body = response.body if isinstance(response.body, bytes) else b""
        self.protocol.fail(error, response.pairs, body, self._shared.date())
        self._unread = True
        self.close_soon()

    # --- answering -----------------------------------------------------------------------------------------------------------------

    def answer(self, exchange: Exchange, response: Response) -> None:
        """Encode a response (or begin a streamed one) and queue it for the end of the turn."""
        shared = self._shared
        if self._current is not exchange:
            return
        status = exchange.status = response.status
        body = response.body
        if body is None:
            body = b""
        elif type(body) is str:
            body = body.encode()
        if type(body) is bytes:
            self.protocol.respond(exchange.stream_id, status, response.pairs, body, shared.date())
            if body and exchange.request.method != "HEAD" and status != 304:
                exchange.body_bytes = len(body)
            if self._body is None and not self._ahead:
                # What `_finish` does, for the usual case.
                self._current = None
                self._unsent.append(exchange)
                self.state = State.IDLE
                if not self._flush_queued:
                    self._flush_queued = True
                    shared.to_flush.append(self)
                return
            self._finish(exchange)
        else:
            self._begin_stream(exchange, response, body)

    def _finish(self, exchange: Exchange) -> None:
        """The answer is complete in the protocol's output."""
        self._current = None
        self._stream = None
        self._unsent.append(exchange)
        self.state = State.IDLE  # its deadline follows when all is sent
        if self._body is not None:  # answered before the whole body had come
            self._unread = True
            self._drop_body()
        if self._ahead:
            self._ahead = 0
            self._read_again()
        self.touch()

    def _begin_stream(self, exchange: Exchange, response: Response, body: Any) -> None:
        shared = self._shared
        length = response.headers.get("content-length")
        if length is not None:
            response.headers.delete("content-length")
        pairs = response.pairs
        if exchange.request.method == "HEAD":
            _close_iterator(body)
            body = iter(())
        self.protocol.begin_response(exchange.stream_id, response.status, pairs, shared.date(), int(length) if length is not None else None)
        self._enter(State.SENDING, shared.timeouts.request)
        if hasattr(body, "__anext__") or hasattr(body, "__aiter__"):
            exchange.task = shared.loop.create_task(self._pump(exchange, body))
        else:
            self._stream = iter(body)
            self._queue_stream()
        self.touch()

    def _queue_stream(self) -> None:
        if not self._stream_queued:
            self._stream_queued = True
            self._shared.streams.append(self)

    def pull(self, deadline: float) -> None:
        """Take chunks from the streamed body until the buffer is full, the turn's share is used up, or it ends."""
        self._stream_queued = False
        exchange, stream = self._current, self._stream
        if exchange is None or stream is None:
            return
        shared = self._shared
        try:
            while True:
                if self._pending >= HIGH_WATER:
                    break  # goes on when the socket has taken it
                try:
                    chunk = next(stream)
                except StopIteration:
                    self._end_stream(exchange)
                    return
                if chunk:
                    exchange.body_bytes += len(chunk)
                    self.protocol.send_body(exchange.stream_id, chunk)
                    self._collect()
                if shared.now() >= deadline:
                    self._queue_stream()
                    break
        except Exception as error:
            self._defect(error)
            return
        self.touch()

    async def _pump(self, exchange: Exchange, body: AsyncIterator[bytes]) -> None:
        try:
            async for chunk in body:
                while self._pending >= HIGH_WATER and not exchange.abandoned:
                    self._room = self._shared.loop.create_future()
                    await self._room
                if exchange.abandoned:
                    return
                if chunk:
                    exchange.body_bytes += len(chunk)
                    self.protocol.send_body(exchange.stream_id, chunk)
                    self._collect()
                    self.touch()
            self._end_stream(exchange)
        except Exception as error:
            self._defect(error)
        finally:
            close = getattr(body, "aclose", None)
            if close is not None:
                await close()

    def _end_stream(self, exchange: Exchange) -> None:
        self.protocol.end_response(exchange.stream_id)
        self._finish(exchange)

    # --- writing -------------------------------------------------------------------------------------------------------------------

    def touch(self) -> None:
        """Ask for a flush at the end of this turn."""
        if not self._flush_queued:
            self._flush_queued = True
            self._shared.to_flush.append(self)

    def _collect(self) -> None:
        data = self.protocol.data_to_send()
        if data:
            self._out.append(data)
            self._pending += len(data)

    def flush(self) -> None:
        """Send once. What the socket does not take waits for writability. Then go on with what was pipelined."""
        self._flush_queued = False
        if self.state is State.CLOSED:
            return
        self._collect()
        if self._out and (self._writing or not self._send() or self._out):
            return
        if self._room is not None:
            self._room.set_result(None)
            self._room = None
            self._shared.woken = True
        if self._current is not None:
            if self._stream is not None:
                self._queue_stream()
        elif self._closing:
            self._end()
        elif not self.protocol.idle or self._ended:
            self._go_on()

    def _go_on(self) -> None:
        """All is answered and sent: the end, the next pipelined request, or the rest of a head to wait for."""
        if self.protocol.should_close:
            self._end()
            return
        try:
            self._on_events(self.protocol.next_events())
        except Exception as error:
            self._defect(error)
            return
        if self._current is None and not self._flush_queued and self in self._shared.open:
            if self._ended:
                self.close_now()
            elif self.protocol.reading_head and self.state is State.IDLE:
                self._enter(State.HEAD, self._shared.timeouts.headers)

    def _end(self) -> None:
        """Everything is sent and nothing follows. To close while the peer is still sending would reset the connection, and the peer
        could lose the answer it was sent (RFC 9112 §9.6): so close our half, and wait a little for the peer's FIN."""
        if not self._unread or self._ended:
            self.close_now()
            return
        self._unread = False
        self._read_again()
        self._enter(State.LINGERING, LINGER_SECONDS)
        try:
            self.sock.shutdown(socket.SHUT_WR)
        except OSError:
            self.close_now()

    def _send(self) -> bool:
        """Offer everything to the socket, once. False: that ended the connection."""
        out = self._out
        data = out[0] if len(out) == 1 else b"".join(out)
        try:
            sent = self.sock.send(data)
        except (BlockingIOError, InterruptedError):
            sent = 0
        except OSError:
            self.close_now()
            return False
        shared = self._shared
        shared.bytes_sent += sent
        if sent == len(data):
            out.clear()
            self._pending = 0
            now = shared.now()
            for exchange in self._unsent:
                shared.application.sent(exchange, now)
                exchange.request.exchange = None  # a cycle: without it nothing of a request waits for the garbage collector
            self._unsent.clear()
            if self.state is State.IDLE:
                self.deadline = now + shared.timeouts.keep_alive
            return True
        self._out = [data[sent:]]
        self._pending = len(data) - sent
        if not self._writing:
            self._writing = True
            shared.loop.add_writer(self.sock, self.on_writable)
        self.deadline = shared.now() + shared.timeouts.request
        return True

    def on_writable(self) -> None:
        if not self._send():
            return
        if not self._out:
            self._writing = False
            self._shared.loop.remove_writer(self.sock)
            self.touch()
        if self._stream is not None and self._pending <= LOW_WATER:
            self._queue_stream()

    # --- time and end --------------------------------------------------------------------------------------------------------------

    def _enter(self, state: State, seconds: float) -> None:
        self.state = state
        self.deadline = self._shared.now() + seconds

    def on_deadline(self) -> None:
        state = self.state
        application = self._shared.application
        if self._out or state in (State.SENDING, State.IDLE, State.LINGERING):
            self.close_now()
        elif state is State.HANDLING:
            exchange = self._current
            assert exchange is not None
            error: Problem = ServerError("The request was not answered in time", 503, "TIMEOUT")
            response = application.error_response(error, exchange.request)
            application.cancelled(exchange)
            self._drop_sink()
            self.answer(exchange, response)
        elif self._sink is not None and not self._reading:
            # Not the peer is slow, but what takes its body.
            assert self._current is not None
            error = ServerError("The body could not be stored in time", 503, "TIMEOUT")
            self._drop_sink()
            self.answer(self._current, application.error_response(error, self._current.request))
        elif state is State.HEAD and not self.protocol.reading_head:
            self.close_now()  # connected and never said a word
        else:
            what = "headers" if state is State.HEAD else "body"
            self._on_failure(PeerError(f"The request's {what} did not arrive in time", 408))

    def _stop_reading(self) -> None:
        if self._reading:
            self._reading = False
            self._shared.loop.remove_reader(self.sock)

    def _read_again(self) -> None:
        if not self._reading and not self._ended:
            self._reading = True
            self._shared.loop.add_reader(self.sock, self.on_readable)

    def close_soon(self) -> None:
        """Close when everything is sent, at the end of a turn."""
        self._closing = True
        self.touch()

    def _defect(self, error: Exception) -> None:
        """An exception nobody expected: it costs this connection, not the loop."""
        self._shared.log_error(f"connection from {self.peer}", error)
        self.close_now()

    def _abandon(self, exchange: Exchange) -> None:
        exchange.abandoned = True
        if self._room is not None:
            self._room.cancel()
            self._room = None
        if exchange.task is not None:
            # Not at once: of a task that has not begun nothing would ever run, nor what it was given to await.
            exchange.task.get_loop().call_soon(exchange.task.cancel)
        if self._stream is not None:
            stream, self._stream = self._stream, None
            _close_iterator(stream)
        if exchange.status:
            self._shared.application.sent(exchange, self._shared.now())
        else:
            self._shared.application.cancelled(exchange)
        exchange.request.exchange = None

    def close_now(self) -> None:
        if self.state is State.CLOSED:
            return
        self.state = State.CLOSED
        shared = self._shared
        exchange, self._current = self._current, None
        if exchange is not None:
            self._abandon(exchange)
        for unsent in self._unsent:
            shared.application.sent(unsent, shared.now())
            unsent.request.exchange = None
        self._unsent.clear()
        self._drop_body()
        self._stop_reading()
        if self._writing:
            self._writing = False
            shared.loop.remove_writer(self.sock)
        shared.open.discard(self)
        self.sock.close()

    def __repr__(self) -> str:
        return f"<Connection {self.peer} {self.state.name}>"


def _close_iterator(body: object) -> None:
    close = getattr(body, "close", None)
    if close is not None and not inspect.iscoroutinefunction(close):
        close()
