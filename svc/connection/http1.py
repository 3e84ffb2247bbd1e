"""HTTP/1.1 on one socket: reads, answers, limits and deadlines; drives one `protocol.http1.Http1` (architecture §1-§3).

The connection knows bytes and time, the protocol knows their meaning, the application (`Application`) knows the answer.

    state      waits for                            deadline
    HEAD       the rest of a request head           headersTimeout, else the connection answers 408
    BODY       the rest of a request body           timeout, else 408
    HANDLING   the application                      timeout, else 503
    SENDING    the peer to read                     timeout without progress, else closed; none while nothing is unsent
    IDLE       the next request                     keepAliveTimeout, else closed
    LINGERING  the peer's FIN, discarding        LINGER_SECONDS, else closed

While more than UNSENT_MAX of output waits for the peer nothing is read, and nothing pipelined is answered.

A peer that ends its half counts as gone at the end of the turn: what is not answered by then is cancelled, and so are streams, but for files.

An answer may hand the socket to another protocol: `tunnel.Upgrade`.
"""

from __future__ import annotations

import os
import socket
from enum import IntEnum
from math import inf
from typing import TYPE_CHECKING, Any

from svc.connection.base import READ_SIZE, UNSENT_MAX, SocketConnection
from svc.connection.bodies import LOW_WATER, FileBody, StreamedBody, streamed_body, take_length
from svc.connection.exchange import Exchange, WaitingRequest, drop_response
from svc.connection.file_range import FileRange
from svc.connection.input_share import BATCH, SLICE
from svc.connection.intake import READ_AHEAD, BodyIntake
from svc.connection.listener import SECURE
from svc.connection.load_shedding import ADMITTED, LEFT_AGE
from svc.connection.tunnel import TunnelConnection
from svc.errors import PeerError, Problem, ServerError
from svc.loop import contained
from svc.messages import HeaderPairs, Request, Response, Upgrade
from svc.protocol.events import DataReceived, Event, PeerClosed, ProtocolFailed, RequestEnded, RequestReceived, SwitchTo
from svc.protocol.http1 import Http1

if TYPE_CHECKING:
    from svc.connection.shared import SharedState

READ_SIZE_HEAD = 24 * 1024  # bytes a recv asks for: they are taken apart in one step, and what they hold may be small
READ_SIZE_BODY = 512 * 1024  # ... while a large body with a length is arriving
PEEK_SIZE = 2048  # ... that are looked at to refuse a request: longer ones wait in line
LINGER_SECONDS = 2.0  # for a peer to read an answer that came before it had sent its whole request


class ConnectionState(IntEnum):
    HEAD = 0
    BODY = 1
    HANDLING = 2
    SENDING = 3
    IDLE = 4
    LINGERING = 5


# The members of an enumeration are slow to get at by its name.
_HEAD, _BODY, _HANDLING, _SENDING, _IDLE, _LINGERING = ConnectionState


class Http1Connection(SocketConnection):
    """An HTTP/1.1 connection: the `Carrier` of one exchange at a time."""

    __slots__ = (
        "_ahead",
        "_current",
        "_holds_back",
        "_intake",
        "_is_behind",
        "_sending",
        "_unread",
        "_unsent",
        "_waiting",
        "prepared",
        "protocol",
        "state",
    )

    def __init__(self, shared: SharedState, sock: socket.socket, peer: str, scheme: str) -> None:
        super().__init__(shared, sock, peer, scheme, shared.now() + shared.timeouts.headers)
        self.protocol = Http1(shared.limits, prior_knowledge=shared.http2)
        self.state = _HEAD
        self.prepared: Any = None  # what has answered the last request beside the protocol, for `svc.prepared`
        self._current: Exchange | None = None
        self._waiting: WaitingRequest | None = None  # in place of an exchange
        self._unsent: list[Exchange] = []  # answered, but not yet taken by the socket
        self._intake: BodyIntake | None = None  # of the current request's body, until all of it is here
        self._sending: StreamedBody | None = None
        self._ahead = 0  # bytes read while an earlier request was being answered
        self._holds_back = False  # nothing is read until the peer has taken its answers
        self._is_behind = False  # the protocol may have a complete request, which waits in line
        self._unread = False  # an answer ends the connection while the peer may still be sending

    # --- reading -------------------------------------------------------------------------------------------------------------------

    def on_readable(self, has_turn: bool = False) -> None:
        shared = self._shared
        if shared.input.is_over and not has_turn:
            self._wait_in_line()
            return
        try:
            if self._intake is None or not (remaining := self.protocol.body_remaining):
                data = self.sock.recv(READ_SIZE_HEAD)
            else:
                data = self.sock.recv(READ_SIZE if remaining < READ_SIZE else READ_SIZE_BODY)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            self.close_now()
            return
        try:
            if data:
                shared.bytes_received += len(data)
                state = self.state
                if state is _IDLE or state is _HEAD:
                    if has_turn and self._parked and self._is_refused(data):
                        return
                    if (
                        shared.prepared is not None
                        and not self._flush_queued
                        and not self._out
                        and self.peer_certificate is None
                        and self.protocol.takes_any()
                        and shared.prepared.answer(self, shared, data)
                    ):
                        if state is _HEAD:
                            self.protocol.begin()
                        return
                    if state is _IDLE:
                        self._enter(_HEAD, shared.timeouts.headers)
                elif state is _LINGERING:
                    return
                elif state is _HANDLING or state is _SENDING:
                    if self._unread:
                        return  # the rest of a body that is not needed; nothing can follow it
                    if self._waiting is not None:
                        self.make_exchange()
                    self._ahead += len(data)
                    if self._ahead > READ_AHEAD:
                        self._stop_reading()
                events = self.protocol.receive_data(data)
                if events:
                    self._on_events(events)
                else:
                    shared.input.charge()
            else:
                self._on_eof()
        except BaseException as error:
            self.defect(contained(error))

    def _on_eof(self) -> None:
        if self._waiting is not None:
            self.make_exchange()
        self._stop_reading()
        self._ended = True
        if self.state is _LINGERING:
            self.close_now()
            return
        if self.state is _SENDING:
            self.deadline = self._shared.now() + self._shared.timeouts.request
        self._on_events(self.protocol.receive_eof())
        self.touch()

    def _on_events(self, events: list[Event]) -> None:
        answered = 0
        while events:
            for event in events:
                kind = type(event)
                if kind is RequestReceived:
                    self._on_request(event)  # type: ignore[arg-type]  # mypy does not narrow by `kind`, and cast() is a call
                elif kind is DataReceived:
                    if self._intake is not None:
                        self._intake.on_data(event.data)  # type: ignore[union-attr]
                    self._shared.input.charge()
                elif kind is RequestEnded:
                    if self._intake is not None:
                        self._intake.on_end()
                elif kind is ProtocolFailed:
                    self._on_failure(event.error)  # type: ignore[union-attr]
                    return
                elif kind is PeerClosed:
                    self._stop_reading()
                    self._ended = True
                elif kind is SwitchTo:
                    self._shared.begin_http2(self, event.trailing)  # type: ignore[union-attr]
                    return
            # A pipelined request follows only when its predecessor is answered, and the rest of a long pipeline waits in line.
            answered += 1
            if self._current is not None:
                if not self.protocol.has_failed:
                    return
            elif self._closing or (answered > 1 and self._pending + self.protocol.unsent > UNSENT_MAX):
                return
            elif (answered == BATCH or self._shared.input.is_over) and not self.protocol.idle:
                self._is_behind = True
                self._join_line()
                return
            events = self.protocol.next_events()

    def _on_request(self, event: RequestReceived) -> None:
        shared = self._shared
        body = event.body
        request = Request(event.method, event.target, event.block, b"" if body is None else body, event.http_version)
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
        exchange = self._current = Exchange(self, event.stream_id, request)
        self.deadline = now + shared.timeouts.request
        if self._parked and shared.shedder is not None and (refusal := shared.shedder.refusal(request, self.sock)) is not None:
            self._unread = body is None
            self.answer(exchange, refusal)
            return
        if body is not None:
            self.state = _HANDLING
            if event.upgrade:
                request.offers = event.upgrade
                response = shared.application.upgrade(exchange)
            else:
                response = shared.application.handle(exchange)
            if response is not None:
                self.answer(exchange, response)
            return
        self.state = _BODY
        self._intake = BodyIntake(shared, exchange)
        self._intake.begin()

    def handle(self, exchange: Exchange) -> None:
        self._intake = None
        response = self._shared.application.handle(exchange)
        if response is not None:
            self.answer(exchange, response)

    def handle_early(self, exchange: Exchange) -> None:
        response = self._shared.application.handle(exchange)
        if response is not None:
            self.answer(exchange, response)

    def on_body_taken(self, exchange: Exchange) -> None:
        self._intake = None

    def send_continue(self, exchange: Exchange) -> None:
        self.protocol.send_continue()
        self.touch()

    def on_body_end(self, exchange: Exchange) -> None:
        self._enter(_HANDLING, self._shared.timeouts.request)

    def on_body_progress(self, exchange: Exchange) -> None:
        self.deadline = self._shared.now() + self._shared.timeouts.request

    def pause_body(self, exchange: Exchange) -> None:
        self._stop_reading()

    def resume_body(self, exchange: Exchange) -> None:
        self._read_again()

    def _drop_intake(self) -> None:
        intake, self._intake = self._intake, None
        if intake is not None:
            intake.drop()

    def _on_failure(self, error: PeerError) -> None:
        """The peer broke the protocol: answer while that is possible, then close."""
        exchange, self._current = self._current, None
        if exchange is not None:
            self._abandon(exchange)
        self._drop_intake()
        request = exchange.request if exchange is not None else self._request_of(error.head)
        response = self._shared.application.error_response(error, request)
        body = response.body if isinstance(response.body, bytes) else b""
        self.protocol.fail(error, response.pairs, body, self._shared.date())
        self._unread = True
        self.close_soon()

    # --- overload ------------------------------------------------------------------------------------------------------------------

    def _wait_in_line(self) -> None:
        if not (self._shared.input.is_standing and self._is_refused_early()):
            self._join_line()

    def _is_refused_early(self) -> bool:
        """It would have to wait for too long. Through TLS the request cannot be seen without taking it."""
        shedder = self._shared.shedder
        if shedder is None or self.scheme != "http" or not self._is_untouched:
            return False
        try:
            data = self.sock.recv(PEEK_SIZE, socket.MSG_PEEK)
            refusal = shedder.ready_refusal(data, self.peer, self._shared.input.wait / ADMITTED)
            if refusal is None:
                return False
            self.sock.recv(len(data))
        except OSError:
            return False  # it is found again in its turn
        self._shared.bytes_received += len(data)
        self._send_refusal(refusal)
        return True

    def _is_refused(self, data: bytes) -> bool:
        """A connection that has waited in line has received this: whether that was for too long, or for nobody."""
        shedder = self._shared.shedder
        if shedder is None:
            return False
        age, has_left = shedder.look(self.sock)
        if has_left and age > LEFT_AGE:
            self.close_now()
            return True
        if not self._is_untouched:
            return False
        refusal = shedder.ready_refusal(data, self.peer, age)
        if refusal is None:
            return False
        self._send_refusal(refusal)
        return True

    @property
    def _is_untouched(self) -> bool:
        """A request that comes now can be answered beside the protocol."""
        state = self.state
        return (state is _IDLE or state is _HEAD) and not self._out and not self._flush_queued and self.protocol.takes_any()

    def _send_refusal(self, refusal: bytes) -> None:
        if self.state is _HEAD:
            self.protocol.begin()
        self.send_at_once(refusal)

    # --- answering -----------------------------------------------------------------------------------------------------------------

    def answer(self, exchange: Exchange, response: Response) -> None:
        shared = self._shared
        if self._current is not exchange:
            drop_response(response)
            return
        status = exchange.status = response.status
        if status == 101:
            assert isinstance(response, Upgrade)
            self._switch(exchange, response)
            return
        body = response.body
        if body is None:
            body = b""
        elif type(body) is str:
            body = body.encode()
        if type(body) is bytes:
            self.protocol.respond(exchange.stream_id, status, response.pairs, body, shared.date())
            if body and exchange.request.method != "HEAD" and status != 304:
                exchange.body_bytes = len(body)
            if self._intake is None and not self._ahead:
                # What `_finish` does, for the usual case.
                self._current = None
                self._unsent.append(exchange)
                self.state = _IDLE
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
        self._sending = None
        self._unsent.append(exchange)
        self.state = _IDLE  # its deadline follows when all is sent
        self._refuse_body()
        if self._ahead:
            self._ahead = 0
            self._read_again()
        self.touch()

    def _refuse_body(self) -> None:
        """The request is answered: the rest of its body is not needed."""
        if self._intake is not None:
            self._unread = self._unread or self._intake.is_coming
            self._drop_intake()

    def _begin_stream(self, exchange: Exchange, response: Response, body: Any) -> None:
        shared = self._shared
        length = take_length(response)
        if self._intake is not None:
            self._refuse_body()
            self._read_again()  # its sink may have been full
        sending: StreamedBody
        if type(body) is FileRange and length is not None and exchange.request.method != "HEAD" and isinstance(self.sock, socket.socket):
            sending = FileBody(shared, exchange, self, body)
        else:
            sending = streamed_body(shared, exchange, body)
        self.protocol.begin_response(exchange.stream_id, response.status, response.pairs, shared.date(), length)
        self._collect()  # the head; the pieces of the body are put behind it by `send_body`
        self._sending = sending
        self._enter(_SENDING, shared.timeouts.request)
        self.touch()
        sending.start()

    def _switch(self, exchange: Exchange, upgrade: Upgrade) -> None:
        """Replace this connection by a tunnel for another protocol."""
        shared = self._shared
        pairs = [("Upgrade", upgrade.protocol), *upgrade.pairs] if upgrade.protocol else None
        switch = self.protocol.switch_protocol(exchange.stream_id, pairs)
        self._current = None
        tunnel = TunnelConnection(shared, self.sock, self.peer, self.scheme, upgrade.receiver, switch.trailing)
        self.hand_over(tunnel)
        self._unsent.append(exchange)
        self._forget_unsent()

    def send_informational(self, exchange: Exchange, status: int, pairs: HeaderPairs) -> None:
        self.protocol.send_informational(status, pairs)
        self.touch()

    # --- streamed bodies -----------------------------------------------------------------------------------------------------------

    def pending_of(self, exchange: Exchange) -> int:
        return self._pending

    def send_body(self, exchange: Exchange, data: bytes) -> None:
        piece = self.protocol.body_piece(exchange.stream_id, data)
        if piece:
            self._out.append(piece)
            self._pending += len(piece)
            if not self._flush_queued:
                self._flush_queued = True
                self._shared.to_flush.append(self)

    def send_file(self, exchange: Exchange, file: FileRange, size: int) -> bool:
        if self._out and (self._writing or not self._send() or self._out):  # the head
            return False
        shared = self._shared
        try:
            sent = os.sendfile(self.sock.fileno(), file.descriptor, file.position, size)
        except (BlockingIOError, InterruptedError):
            sent = -1
        except ConnectionError:
            self.close_now()
            return False
        if sent == 0:
            raise file.cut()
        if sent > 0:
            file.position += sent
            exchange.body_bytes += sent
            shared.bytes_sent += sent
            self.protocol.count_body(exchange.stream_id, sent)
            if sent == size:
                return True
        self.deadline = shared.now() + shared.timeouts.request
        self._writing = True
        shared.loop.add_writer(self.sock, self._on_room_for_file)
        return False

    def _on_room_for_file(self) -> None:
        self._writing = False
        shared = self._shared
        shared.loop.remove_writer(self.sock)
        if self._sending is not None:
            # The peer takes what is sent: how long the disk needs is not its time. As in `_on_all_sent`.
            self.deadline = shared.now() + shared.timeouts.request if self._ended else inf
            self._sending.on_room()

    def end_body(self, exchange: Exchange) -> None:
        if self._current is exchange:
            self.protocol.end_response(exchange.stream_id)
            self._finish(exchange)

    # --- writing -------------------------------------------------------------------------------------------------------------------

    def _is_deserted(self) -> bool:
        if self._current is None or type(self._sending) is FileBody:  # all that is left is to send
            return False
        self.close_now()
        return True

    def _collect(self) -> None:
        data = self.protocol.data_to_send()
        if data:
            self._out.append(data)
            self._pending += len(data)

    def _on_all_sent(self, now: float) -> None:
        shared = self._shared
        for exchange in self._unsent:
            shared.application.sent(exchange, now)
            exchange.request.exchange = None  # a cycle: without it nothing of a request waits for the garbage collector
        self._unsent.clear()
        if self._holds_back:
            self._holds_back = False
            self._read_again()
        if self.state is _IDLE:
            self.deadline = now + shared.timeouts.keep_alive
        elif self._sending is not None:
            # The peer has taken all output. If it has ended its half it may have closed entirely, which only a further write would show.
            self.deadline = now + shared.timeouts.request if self._ended else inf

    def _on_unsent(self) -> None:
        if self._pending > UNSENT_MAX and self._reading:
            self._holds_back = True
            self._stop_reading()

    def _on_flushed(self) -> None:
        """Continue the streamed body, or the pipelined requests."""
        if self._unsent:  # the last piece was sent before its body was known to be complete
            self._on_all_sent(self._shared.now())
        if self._sending is not None:
            try:
                self._sending.on_sent()
            except BaseException as error:
                self.defect(contained(error))
        elif self._current is not None:
            pass
        elif self._closing:
            self._end()
        elif not self.protocol.idle:
            if self.protocol.should_close:
                self._end()
            else:
                self._is_behind = True
                self._join_line()
        elif self._ended:
            self._go_on()

    def send_at_once(self, data: bytes) -> float:
        """Send a whole answer to a request that the protocol has not seen, between two others. Returns the time behind it."""
        shared = self._shared
        try:
            sent = self.sock.send(data)
        except (BlockingIOError, InterruptedError):
            sent = 0
        except OSError:
            self.close_now()
            return shared.now()
        now = shared.now()
        shared.bytes_sent += sent
        self.state = _IDLE
        if sent == len(data):
            self.deadline = now + shared.timeouts.keep_alive
        else:
            self._wait_for_room(data, sent, now)
        return now

    def wait_for(self, waiting: WaitingRequest) -> None:
        """A whole request that the protocol has not seen is answered later: with `answer_waiting`, or, when `make_exchange` has been called, as others are."""
        self._waiting = waiting
        self.state = _HANDLING
        self.deadline = waiting.arrived + self._shared.timeouts.request

    def answer_waiting(self, data: bytes) -> float:
        """Send the answer to it. Returns the time behind that."""
        self._waiting = None
        return self.send_at_once(data)

    def make_exchange(self) -> Exchange:
        """Have the protocol see the request that waits, as the next one. From here on it is handled as others are."""
        waiting, self._waiting = self._waiting, None
        assert waiting is not None
        (event,) = self.protocol.receive_data(waiting.data)
        assert type(event) is RequestReceived and event.body is not None
        request = waiting.request
        if request is None:
            request = self._request_of(event)
            assert request is not None
            request.content, request.arrived = event.body, waiting.arrived
        exchange = self._current = Exchange(self, event.stream_id, request)
        waiting.adopt(exchange)
        return exchange

    def _serve(self) -> None:
        if self._is_behind:
            shedder = self._shared.shedder
            if shedder is not None and self._parked and shedder.has_left(self.sock):
                self.close_now()
                return
            self._go_on()
        else:
            super()._serve()

    def _on_room(self) -> None:
        if self._sending is not None and self._pending <= LOW_WATER:
            self._sending.on_room()

    def _go_on(self) -> None:
        """After all answers are sent: begin the next pipelined request, wait for the rest of a head, or close."""
        self._is_behind = False
        try:
            self._on_events(self.protocol.next_events())
        except BaseException as error:
            self.defect(contained(error))
            return
        if self._ended and self._current is not None:
            self.touch()  # which gives it up if it is not answered in this turn
        if self._current is None and not self._flush_queued and not self.closed:
            if self._ended:
                self.close_now()
            elif self.protocol.reading_head and self.state is _IDLE:
                self._enter(_HEAD, self._shared.timeouts.headers)

    def _end(self) -> None:
        """Everything is sent and nothing follows. To close while the peer is still sending would reset the connection, and the peer
        could lose the answer it was sent (RFC 9112 §9.6): so close our half, and wait a little for the peer's FIN."""
        if not self._unread or self._ended:
            self.close_now()
            return
        self._unread = False
        self._read_again()
        self._enter(_LINGERING, LINGER_SECONDS)
        try:
            self.sock.shutdown(socket.SHUT_WR)
        except OSError:
            self.close_now()

    # --- time and end --------------------------------------------------------------------------------------------------------------

    def _enter(self, state: ConnectionState, seconds: float) -> None:
        self.state = state
        self.deadline = self._shared.now() + seconds

    def on_deadline(self) -> None:
        state = self.state
        application = self._shared.application
        if self._waiting is not None:
            self.make_exchange()
        if self._in_line and not self._out:
            return  # what it waits for may be here
        if self._out or state in (_SENDING, _IDLE, _LINGERING):
            self.close_now()
        elif state is _HANDLING:
            exchange = self._current
            assert exchange is not None
            error: Problem = ServerError("The request was not answered in time", 503, "TIMEOUT")
            response = application.error_response(error, exchange.request)
            application.cancelled(exchange)
            if self._intake is not None:
                self._intake.drop_sink()
            self.answer(exchange, response)
        elif self._intake is not None and self._intake.has_sink and not self._reading:
            # The sink is slow, not the peer.
            assert self._current is not None
            error = ServerError("The body could not be stored in time", 503, "TIMEOUT")
            self._intake.drop_sink()
            application.cancelled(self._current)
            self.answer(self._current, application.error_response(error, self._current.request))
        elif state is _HEAD and not self.protocol.reading_head:
            self.close_now()  # connected and sent nothing
        else:
            what = "headers" if state is _HEAD else "body"
            self._on_failure(PeerError(f"The request's {what} did not arrive in time", 408))

    def drain(self) -> None:
        if self._waiting is not None:
            self.make_exchange()
        self.protocol.drain()
        if self._is_behind:
            self._go_on()
        if self._waits_for_request and self._reading:
            self.on_readable(True)  # requests that have just arrived are still answered
        if self._waits_for_request:
            self.close_soon()
        elif self.state is _SENDING:
            self._closing = True  # the head of this answer has been sent without `Connection: close`

    def retire(self) -> None:
        if self.scheme in SECURE:  # the state of TLS cannot be given away
            self.protocol.drain()

    def give(self) -> socket.socket | None:
        is_quiet = not (self._out or self._unsent or self._flush_queued or self._in_line or self._ended or self._closing)
        if self.scheme in SECURE or not (is_quiet and self._waits_for_request and self.protocol.idle and self._reading):
            return None
        self._leave()
        return self.sock

    @property
    def _waits_for_request(self) -> bool:
        return self.state is _IDLE or (self.state is _HEAD and not self.protocol.reading_head)

    def _abandon(self, exchange: Exchange) -> None:
        sending, self._sending = self._sending, None
        exchange.abandon(self._shared.now())
        if sending is not None:
            sending.close()

    def _on_close(self) -> None:
        if self._waiting is not None:
            self.make_exchange()
        exchange, self._current = self._current, None
        if exchange is not None:
            self._abandon(exchange)
        self._forget_unsent()
        self._drop_intake()

    def _forget_unsent(self) -> None:
        """Report the unsent answers as sent, even if the last bytes are lost."""
        now = self._shared.now()
        for exchange in self._unsent:
            self._shared.application.sent(exchange, now)
            exchange.request.exchange = None
        self._unsent.clear()

    def __repr__(self) -> str:
        return f"<Http1Connection {self.peer} {'CLOSED' if self.closed else self.state.name}>"
