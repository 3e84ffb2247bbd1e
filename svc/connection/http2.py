"""HTTP/2 on one socket: many requests at a time; drives one `protocol.http2.Http2` (architecture §1-§3).

Each request is a `Http2Exchange`, with a deadline of its own. Of the connection as a whole:

    waits for                                     deadline
    the preface, a header block, a small frame    headersTimeout, else GOAWAY and the end
    a request, while none is under way            keepAliveTimeout, else GOAWAY and the end
    the peer to read what the socket holds        timeout without progress, else closed
    its end, when another process takes over      RETIRE_SECONDS until a moment without requests, then the next
    the answer to the PING that announces a stop  DRAIN_SECONDS, then without it
    the peer's FIN, after it broke the protocol   LINGER_SECONDS, discarding, else closed

Nothing is read while more than UNSENT_MAX bytes of output wait for the socket, since requests make more output. While more than ANSWERS_MAX bytes of
answers wait for the peer's windows, further requests wait until there is room, or until their deadline.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any

from svc.connection.base import READ_SIZE, UNSENT_MAX, SocketConnection
from svc.connection.bodies import HIGH_WATER, LOW_WATER
from svc.connection.http2_exchange import Http2Exchange
from svc.connection.input_share import BATCH, SLICE
from svc.connection.intake import BodyIntake
from svc.errors import PeerError
from svc.loop import contained
from svc.messages import Request
from svc.protocol.events import (
    DataReceived,
    Event,
    PeerClosed,
    ProtocolFailed,
    RequestCancelled,
    RequestEnded,
    RequestFailed,
    RequestReceived,
)
from svc.protocol.http2 import Http2

if TYPE_CHECKING:
    from svc.connection.shared import SharedState

PreparedAnswer = tuple[Callable[[float, int, int, float], None], float, int, int, float]
"""For the statistics: who takes them, milliseconds that the answer took, its status, bytes of its body, and when it was made."""

PIECE = 24 * 1024  # bytes that are taken apart in one step: a whole frame and the head before it, or 4 ms of the smallest frames
ANSWERS_MAX = 4 << 20  # bytes of answers waiting for windows, beyond which no further request is begun
DRAIN_SECONDS = 1.0  # for a peer to learn that we are stopping
RETIRE_SECONDS = 10.0  # for a connection to be without requests
LINGER_SECONDS = 2.0  # for a peer to read a GOAWAY that was sent while it was sending


class Http2Connection(SocketConnection):
    """An HTTP/2 connection and its exchanges, one for each open stream."""

    __slots__ = (
        "_drain_deadline",
        "_events",
        "_exchanges",
        "_head_deadline",
        "_idle_deadline",
        "_is_lingering",
        "_losing",
        "_rest",
        "_retire_deadline",
        "_since",
        "_stall_deadline",
        "_ticked",
        "_timeout",
        "_unread",
        "_unsent",
        "_waiting",
        "_watched",
        "answered",
        "date",
        "prepared",
        "protocol",
        "shared",
    )  # fmt: skip

    def __init__(self, shared: SharedState, sock: socket.socket, peer: str, scheme: str) -> None:
        now = shared.now()
        super().__init__(shared, sock, peer, scheme, now + shared.timeouts.headers)
        self.shared = shared
        self.date = shared.date
        self.protocol = Http2(shared.limits)
        self.protocol.batch = 2 * BATCH
        self._timeout = shared.timeouts.request
        self._events: list[Event] = []  # have come and wait in line
        self._rest = memoryview(b"")  # bytes that have come behind them
        self._exchanges: dict[int, Http2Exchange] = {}  # by stream, until their answers are in `_out`
        self._waiting: list[Http2Exchange] = []  # ... that are complete and not begun
        self._watched: dict[int, Http2Exchange] = {}  # ... to notify when there is room
        self._unsent: list[Http2Exchange] = []  # answers not yet taken by the socket
        self._losing: list[int] = []  # streams to end at the end of the turn
        self.prepared: Any = None  # of `svc.prepared`: what has answered the last request that was
        self.answered: list[PreparedAnswer] = []  # ... answers that the socket has not taken yet
        self._since = now  # when what is being handled was read, or was received if it has waited in the socket
        self._head_deadline = inf
        self._idle_deadline = self.deadline
        self._stall_deadline = inf
        self._drain_deadline = inf
        self._retire_deadline = inf
        self._ticked = now  # time of the last `protocol.tick`
        self._unread = False  # the connection ends while the peer may still be sending
        self._is_lingering = False

    # --- reading -------------------------------------------------------------------------------------------------------------------

    def on_readable(self, has_turn: bool = False) -> None:
        if self._shared.input.is_over and not has_turn:
            self._join_line()
            return
        try:
            data = self.sock.recv(READ_SIZE)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            self.close_now()
            return
        if data:
            self._shared.bytes_received += len(data)
            self.receive(data)
            return
        self._stop_reading()
        self._ended = True
        if self._is_lingering:
            self.close_now()
            return
        try:
            self._on_events(self.protocol.receive_eof())
        except BaseException as error:
            self.defect(contained(error))
        self.touch()

    def receive(self, data: bytes) -> None:
        """Bytes from the socket, the preface first."""
        if self._is_lingering:
            return
        try:
            self._receive(data)
        except BaseException as error:
            self.defect(contained(error))

    def _receive(self, data: bytes) -> None:
        shared, protocol = self._shared, self.protocol
        now = self._since = shared.now()
        if self._parked and shared.shedder is not None:
            self._since -= shared.shedder.look(self.sock)[0]
        if now - self._ticked >= 1.0:
            seconds = int(now - self._ticked)
            self._ticked += seconds
            protocol.tick(seconds)
        if len(data) <= PIECE:
            if self._take(data):
                self._head_deadline = inf
                return
            if protocol.is_behind:
                self._join_line()
        else:
            self._rest = memoryview(data)
            self._take_rest()
        if not protocol.reading_head:
            self._head_deadline = inf
        elif self._head_deadline == inf:
            self._head_deadline = now + shared.timeouts.headers
            self.deadline = min(self.deadline, self._head_deadline)
        self.touch()

    def _take_rest(self) -> None:
        """Take what has come apart, piece by piece, as long as it is our turn."""
        share = self._shared.input
        while True:
            piece, self._rest = self._rest[:PIECE], self._rest[PIECE:]
            self._take(bytes(piece))
            share.charge()
            if self._events or share.is_over or self.protocol.is_behind:
                if self._rest or self.protocol.is_behind:
                    self._join_line()
                return
            if not self._rest:
                return

    def _take(self, data: bytes) -> bool:
        """Answer what is prepared of the input, and handle the events of the rest. True: there is no rest, and all is sent."""
        shared, protocol = self._shared, self.protocol
        plain = None
        if (
            shared.prepared is not None
            and self.peer_certificate is None
            and not (self._out or self._events or self._waiting or (self._parked and self._is_late) or self._retire_deadline != inf)
        ):
            plain = partial(shared.prepared.answer_stream, self, shared)
        events = protocol.receive_data(data, plain)
        if (
            plain is None
            or events
            or not self.answered
            or self._exchanges
            or self._flush_queued
            or protocol.is_behind
            or protocol.should_close
        ):
            self._on_events(events)
            return False
        self._send_answers()
        return not protocol.reading_head

    def _send_answers(self) -> None:
        """All that is to be sent are prepared answers, and nothing is under way: send them at once."""
        data = self.protocol.data_to_send()
        try:
            sent = self.sock.send(data)
        except (BlockingIOError, InterruptedError):
            sent = 0
        except OSError:
            self.close_now()
            return
        shared = self._shared
        shared.bytes_sent += sent
        if sent < len(data):
            self._out.append(memoryview(data)[sent:])
            self._pending = len(data) - sent
            self.touch()
            return
        now = shared.now()
        self._report_answered(now)
        self._idle_deadline = now + shared.timeouts.keep_alive
        if self._idle_deadline < self.deadline:
            self.deadline = self._idle_deadline

    def _report_answered(self, now: float) -> None:
        for record, milliseconds, status, size, answered in self.answered:
            record(milliseconds, status, size, (now - answered) * 1000.0)
        self.answered.clear()

    def _on_events(self, events: list[Event]) -> None:
        """Handle a batch of events; the rest waits in line."""
        share = self._shared.input
        requests = handled = 0
        if self._events:
            events = self._events + events
        later: list[Event] = []
        self._events = later
        for event in events:
            kind = type(event)
            if later or requests == BATCH or (share.is_over and handled):
                later.append(event)
                continue
            handled += 1
            if kind is RequestReceived:
                requests += 1
                self._on_request(event)  # type: ignore[arg-type]  # mypy does not narrow by `kind`, and cast() is a call
            elif kind is ProtocolFailed:
                self._unread = True
                self._give_up_all()
            elif kind is PeerClosed:
                self._on_peer_closed()
            else:
                exchange = self._exchanges.get(event.stream_id)  # type: ignore[union-attr]
                if kind is RequestFailed:
                    if exchange is not None:
                        self.fail(exchange, event.error)  # type: ignore[union-attr]
                    else:
                        self._refuse(event.stream_id, event.error, None)  # type: ignore[union-attr]
                    requests += 1
                    share.charge()
                elif exchange is None:
                    pass
                elif kind is RequestCancelled:
                    self.lose(exchange)
                else:
                    self._on_body(exchange, event)  # type: ignore[arg-type]
                    share.charge()
                    requests += exchange.tunnel is not None
        if later:
            self._join_line()

    @property
    def _is_late(self) -> bool:
        """What is being handled has waited in line, and may be refused."""
        shared = self._shared
        return shared.shedder is not None and shared.shedder.is_old(shared.now() - self._since)

    def _serve(self) -> None:
        protocol, shedder = self.protocol, self._shared.shedder
        if shedder is not None and self._parked and shedder.has_left(self.sock):
            self.close_now()
            return
        if self._events:
            self._on_events([])
        elif protocol.is_behind:
            self._take(b"")
            self._shared.input.charge()
            self.touch()
        elif self._rest:
            self._take_rest()
            self.touch()
        elif self._waiting and self.protocol.buffered <= ANSWERS_MAX:
            self._begin_waiting()
        else:
            super()._serve()
        if protocol.is_behind or self._rest:
            self._join_line()
        elif not protocol.reading_head:
            self._head_deadline = inf

    def _on_request(self, event: RequestReceived) -> None:
        shared = self._shared
        body = event.body
        request = Request(event.method, event.target, event.block, b"" if body is None else body, "2")
        request.peer = self.peer
        request.scheme = self.scheme
        request.arrived = now = shared.now()
        share = shared.input
        if now >= share.deadline:  # as `charge`, which would be a call of every request
            if share.deadline:
                share.is_over = True
            else:
                share.deadline = now + SLICE
        if self.peer_certificate is not None:
            request.peer_certificate = self.peer_certificate
        deadline = now + self._timeout
        if deadline < self.deadline:
            self.deadline = deadline
        exchange = self._exchanges[event.stream_id] = Http2Exchange(self, event.stream_id, request, deadline)
        if self._parked and shared.shedder is not None and (refusal := shared.shedder.refusal_of(request, now - self._since)) is not None:
            exchange.answer(exchange, refusal)
            return
        if body is None:
            exchange.intake = BodyIntake(shared, exchange)
            exchange.intake.begin()
            return
        if event.upgrade:
            request.offers = event.upgrade
            response = shared.application.upgrade(exchange)
            if response is not None:
                exchange.answer(exchange, response)
            return
        self.begin(exchange)

    def begin(self, exchange: Http2Exchange) -> None:
        """Pass a complete request to the application, now or when there is room for its answer."""
        if self._waiting or self.protocol.buffered > ANSWERS_MAX:
            self._waiting.append(exchange)
            return
        response = self._shared.application.handle(exchange)
        if response is not None:
            exchange.answer(exchange, response)

    def _begin_waiting(self) -> None:
        waiting, self._waiting = self._waiting, []
        share = self._shared.input
        begun = 0
        while waiting and self.protocol.buffered <= ANSWERS_MAX and begun < BATCH and not share.is_over:
            exchange = waiting.pop(0)
            if not exchange.abandoned and not exchange.status:
                self.begin(exchange)
                share.charge()
                begun += 1
        self._waiting = waiting + self._waiting
        self.touch()  # for the rest

    @staticmethod
    def _on_body(exchange: Http2Exchange, event: DataReceived | RequestEnded) -> None:
        tunnel, intake = exchange.tunnel, exchange.intake
        try:
            if tunnel is not None:
                if type(event) is DataReceived:
                    tunnel.on_data(event.data)
                else:
                    tunnel.on_eof()
            elif intake is not None:
                if type(event) is DataReceived:
                    intake.on_data(event.data)
                else:
                    intake.on_end()
        except BaseException as error:
            exchange.defect(contained(error))

    def _on_peer_closed(self) -> None:
        """The peer closed its half and may still read: requests that are answered in this turn are, others are given up then (`_is_deserted`)."""
        for exchange in list(self._exchanges.values()):
            intake, sending = exchange.intake, exchange.sending
            if exchange.tunnel is not None or (intake is not None and intake.is_coming) or (sending is not None and sending.lasts):
                self.protocol.reset(exchange.stream_id)
                self.lose(exchange)

    # --- the end of one exchange ---------------------------------------------------------------------------------------------------

    def fail(self, exchange: Http2Exchange, error: PeerError) -> None:
        """End a request because of an error or a timeout of the peer; answer it if that is still possible."""
        stream_id, request = exchange.stream_id, exchange.request
        self.lose(exchange)
        self._refuse(stream_id, error, request)

    def _refuse(self, stream_id: int, error: PeerError, request: Request | None) -> None:
        if request is None:
            request = self._request_of(error.head)
        response = self._shared.application.error_response(error, request)
        body = response.body if isinstance(response.body, bytes) else b""
        self.protocol.fail(stream_id, error, response.pairs, body, self.date())
        self.touch()

    def lose(self, exchange: Http2Exchange) -> None:
        """Drop an exchange: its stream is over, or its answer is not needed any more."""
        stream_id = exchange.stream_id
        if self._exchanges.get(stream_id) is exchange:
            del self._exchanges[stream_id]
            self._watched.pop(stream_id, None)
            exchange.give_up(self._shared.now())
            self.touch()

    def lose_soon(self, stream_id: int) -> None:
        self._losing.append(stream_id)
        self.touch()

    def _give_up_all(self) -> None:
        exchanges, self._exchanges = self._exchanges, {}
        self._events = []
        self._rest = memoryview(b"")
        self._watched.clear()
        self._waiting.clear()
        now = self._shared.now()
        for exchange in exchanges.values():
            exchange.give_up(now)
        self._report_sent(now)

    # --- for exchanges -------------------------------------------------------------------------------------------------------------

    def watch(self, exchange: Http2Exchange) -> None:
        """Call `on_flushed` or `on_room` of this exchange when there is room."""
        self._watched[exchange.stream_id] = exchange

    def offer(self) -> None:
        """Send what the peer takes now, in the middle of a turn."""
        self._collect()
        if self._out and not self._writing:
            self._send()

    def request_deadline(self) -> float:
        deadline = self._shared.now() + self._timeout
        if deadline < self.deadline:
            self.deadline = deadline
        return deadline

    @property
    def unsent_bytes(self) -> int:
        """Bytes that the socket has not taken yet."""
        return self._pending

    # --- writing -------------------------------------------------------------------------------------------------------------------

    def _is_deserted(self) -> bool:
        for exchange in list(self._exchanges.values()):
            if exchange.tunnel is None and (not exchange.status or exchange.sending is not None):
                self.protocol.reset(exchange.stream_id)
                self.lose(exchange)
        return False

    def _collect(self) -> None:
        protocol = self.protocol
        for stream_id in self._losing:
            if (exchange := self._exchanges.get(stream_id)) is not None:
                self.lose(exchange)
        self._losing.clear()
        if self._pending >= HIGH_WATER:
            return  # the rest stays with the protocol, which interleaves the streams fairly
        data = protocol.data_to_send()
        if self._retire_deadline != inf and protocol.idle:
            protocol.finish_drain()
            data += protocol.data_to_send()
        if data:
            self._out.append(data)
            self._pending += len(data)
        finished = protocol.finished
        if finished:
            exchanges, watched = self._exchanges, self._watched
            for stream_id in finished:
                exchange = exchanges.pop(stream_id, None)
                if exchange is None:
                    continue
                watched.pop(stream_id, None)
                if exchange.tunnel is None:
                    self._unsent.append(exchange)
                else:
                    exchange.give_up(self._shared.now())
            finished.clear()
        held = self._pending + protocol.buffered
        if held != self._held:
            self._hold(held)

    def _on_unsent(self) -> None:
        self._hold(self._pending + self.protocol.buffered)

    def _send(self) -> bool:
        earliest = self.deadline
        if not super()._send():
            return False
        if self._out:
            self._stall_deadline = self.deadline  # the deadline for the peer to read; other deadlines stay
            self.deadline = min(self.deadline, earliest)
            if self._pending > UNSENT_MAX:
                self._stop_reading()
        return True

    def _on_all_sent(self, now: float) -> None:
        self._stall_deadline = inf
        self._hold(self.protocol.buffered)
        self._report_sent(now)
        if not self._exchanges:
            self._idle_deadline = now + self._shared.timeouts.keep_alive
            self.deadline = min(self.deadline, self._idle_deadline)

    def _report_sent(self, now: float) -> None:
        if self.answered:
            self._report_answered(now)
        application = self._shared.application
        for exchange in self._unsent:
            application.sent(exchange, now)
            exchange.request.exchange = None  # a cycle, as in `http1`
        self._unsent.clear()

    def _on_flushed(self) -> None:
        protocol = self.protocol
        if self._is_lingering:
            return
        if self._waiting and protocol.buffered <= ANSWERS_MAX:
            self._join_line()
        if protocol.wants_to_send:
            self.touch()
        self._read_again()
        for exchange in list(self._watched.values()):
            exchange.on_flushed()
        if (self._closing or protocol.should_close) and not self._flush_queued and not self.closed:
            self._end()

    def _on_room(self) -> None:
        if self._pending <= LOW_WATER:
            self.touch()
            for exchange in list(self._watched.values()):
                if exchange.sending is not None and exchange.pending_of(exchange) <= LOW_WATER:
                    exchange.sending.on_room()

    def _end(self) -> None:
        """Everything is sent and nothing follows. To close while the peer is still sending would reset the connection, and the peer could
        lose what it was sent last: so close our half, and wait a little for the peer's FIN."""
        if not self._unread or self._ended:
            self.close_now()
            return
        self._is_lingering = True
        self.deadline = self._shared.now() + LINGER_SECONDS
        try:
            self.sock.shutdown(socket.SHUT_WR)
        except OSError:
            self.close_now()

    # --- time and end --------------------------------------------------------------------------------------------------------------

    def on_deadline(self) -> None:
        now = self._shared.now()
        if self._is_lingering or self._stall_deadline <= now:
            self.close_now()
            return
        if not self._in_line and (self._head_deadline <= now or (self._is_idle and self._idle_deadline <= now)):
            self.protocol.close()
            self._unread = self._head_deadline <= now
            self._give_up_all()
            self._head_deadline = self._idle_deadline = inf
            self.close_soon()
        if self._retire_deadline <= now:
            self._retire_deadline = inf
            self._end_requests()
        if self._drain_deadline <= now:
            self._drain_deadline = inf
            self.protocol.finish_drain()
            self.touch()
        for exchange in [e for e in self._exchanges.values() if e.deadline <= now]:
            exchange.on_deadline()
        deadlines = [self._head_deadline, self._stall_deadline, self._drain_deadline, self._retire_deadline]
        deadlines += [exchange.deadline for exchange in self._exchanges.values()]
        if self._is_idle:
            deadlines.append(self._idle_deadline)
        self.deadline = min(deadlines)

    @property
    def _is_idle(self) -> bool:
        return not self._exchanges and not self._out

    def drain(self) -> None:
        """Announce the stop first (GOAWAY), so that the peer sends its next requests elsewhere; those already sent are answered.

        Answers that are complete go before, and nothing but one GOAWAY follows them: some clients (httpx 0.28) ignore frames after it.
        """
        while self._rest or self.protocol.is_behind:
            if self.protocol.is_behind:
                self._on_events(self.protocol.receive_data(b""))
            else:
                self._take_rest()
        if self._reading and self.protocol.idle:
            self.on_readable(True)  # requests that have just arrived are still answered
        if self.closed:
            return
        self._collect()
        self._end_requests()

    def _end_requests(self) -> None:
        if self.protocol.idle:
            self.protocol.finish_drain()
        else:
            self.protocol.drain()
            self._drain_deadline = self._shared.now() + DRAIN_SECONDS
            self.deadline = min(self.deadline, self._drain_deadline)
        self.touch()

    def retire(self) -> None:
        """Say GOAWAY right behind an answer, when none is left to be given: who waits for one can still read it, which h2 cannot behind a GOAWAY (its client
        httpx loses the request), and who sends nothing before it has read all has nothing on its way."""
        self._retire_deadline = self._shared.now() + RETIRE_SECONDS
        self.deadline = min(self.deadline, self._retire_deadline)

    def _on_close(self) -> None:
        self._give_up_all()

    def __repr__(self) -> str:
        return f"<Http2Connection {self.peer} {'CLOSED' if self.closed else f'{len(self._exchanges)} requests'}>"
