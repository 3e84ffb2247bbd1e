"""One request on a stream of HTTP/2, and its answer: the `Carrier` of itself, so that an error ends the stream, not the connection.

waits for                      deadline
the rest of its body           timeout, else 408; a sink that takes it renews it with each piece, one that is full in time answers 503
the application                timeout, else 503
the peer to open its windows   timeout without progress, else reset; nothing unsent: none
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from svc.connection.base import report_defect
from svc.connection.bodies import HIGH_WATER, LOW_WATER, StreamedBody, streamed_body, take_length
from svc.connection.exchange import Application, Carrier, Exchange, drop_response
from svc.connection.http2_tunnel import StreamTunnel, TunnelCarrier
from svc.connection.intake import BodyIntake
from svc.errors import Overloaded, PeerError, Problem, ServerError
from svc.loop import contained
from svc.messages import HeaderPairs, Request, Response, Upgrade
from svc.protocol.http2_frames import CANCEL, HTTP_1_1_REQUIRED, INTERNAL_ERROR

ANSWERS_LIMIT = 4 << 20  # bytes of answers that may wait for windows on one connection; with more, a further long one becomes 503
NOT_READ = "Too much of other answers is not read yet; if the request has changed something, that is done"
BUFFERED_HIGH_WATER = 4 << 20  # ... at which only streamed answers go on of which nothing waits


class StreamCarrier(TunnelCarrier, Protocol):
    """The connection of an exchange: `http2.Http2Connection`."""

    date: Callable[[], str]

    @property
    def application(self) -> Application: ...
    def begin(self, exchange: Http2Exchange) -> None: ...
    def fail(self, exchange: Http2Exchange, error: PeerError) -> None: ...
    def lose(self, exchange: Http2Exchange) -> None: ...
    def watch(self, exchange: Http2Exchange) -> None: ...
    def offer(self) -> None: ...
    def request_deadline(self) -> float: ...


class Http2Exchange(Exchange):
    """One request and its answer; also the `Carrier` that its body and answer use."""

    __slots__ = ("_http2", "_sent_before", "deadline", "intake", "sending", "tunnel")

    def __init__(self, http2: StreamCarrier, stream_id: int, request: Request, deadline: float) -> None:
        self._http2 = http2
        super().__init__(self, stream_id, request)
        self.deadline = deadline  # `on_deadline` follows when it has passed
        self.intake: BodyIntake | None = None  # of the request's body, until all of it is here
        self.sending: StreamedBody | None = None
        self.tunnel: StreamTunnel | None = None
        self._sent_before = -1  # bytes of the answer that were framed when the deadline last passed

    @property
    def connection(self) -> Carrier:  # no attribute: a reference to itself would wait for the garbage collector
        return self

    @connection.setter
    def connection(self, value: Carrier) -> None:
        pass

    @property
    def application(self) -> Application:
        return self._http2.application

    # --- answering -----------------------------------------------------------------------------------------------------------------

    def answer(self, exchange: Exchange, response: Response) -> None:
        if self.status or self.abandoned:
            drop_response(response)
            return
        http2 = self._http2
        status = self.status = response.status
        if status == 101:
            assert isinstance(response, Upgrade)
            self._accept(response)
            return
        body = response.body
        if body is None:
            body = b""
        elif type(body) is str:
            body = body.encode()
        try:
            if type(body) is bytes:
                if (
                    len(body) > LOW_WATER and http2.protocol.buffered > ANSWERS_LIMIT
                ):  # short ones are always taken: most of those to writes are
                    http2.offer()
                    if self.abandoned:
                        return
                if len(body) > LOW_WATER and http2.protocol.buffered > ANSWERS_LIMIT:
                    # Many requests were begun before any of them was answered, for example when each had to wait.
                    response = self.application.error_response(Overloaded(NOT_READ), self.request)
                    status, body = response.status, response.body
                    assert type(body) is bytes
                    self.status = status
                http2.protocol.respond(self.stream_id, status, response.pairs, body, http2.date())
                if body and self.request.method != "HEAD" and status != 304:
                    self.body_bytes = len(body)
            else:
                self._begin_stream(response, body)
        except BaseException as error:
            self.defect(contained(error))
            return
        if self.intake is not None:
            self._drop_intake()
        http2.touch()

    def _begin_stream(self, response: Response, body: Any) -> None:
        http2 = self._http2
        length = take_length(response)
        self.sending = sending = streamed_body(http2.shared, self, body)
        http2.protocol.begin_response(self.stream_id, response.status, response.pairs, http2.date(), length)
        http2.watch(self)
        sending.start()

    def _accept(self, upgrade: Upgrade) -> None:
        """Make the stream a tunnel for another protocol (RFC 8441)."""
        http2 = self._http2
        if not upgrade.protocol:  # its receiver would write to the socket
            upgrade.receiver.on_closed()
            http2.protocol.reset(self.stream_id, HTTP_1_1_REQUIRED)
            http2.lose(self)
            return
        self.tunnel = StreamTunnel(http2, self.stream_id, upgrade.receiver)
        http2.protocol.accept_tunnel(self.stream_id, upgrade.pairs, http2.date())
        self.deadline = http2.request_deadline()
        http2.watch(self)
        self.application.sent(self, http2.shared.now())
        self.request.exchange = None

    def send_informational(self, exchange: Exchange, status: int, pairs: HeaderPairs) -> None:
        self._http2.protocol.send_informational(self.stream_id, status, pairs)
        self._http2.touch()

    # --- the body on its way in ----------------------------------------------------------------------------------------------------

    def send_continue(self, exchange: Exchange) -> None:
        self._http2.protocol.send_continue(self.stream_id)
        self._http2.touch()

    def handle(self, exchange: Exchange) -> None:
        self.intake = None
        self._http2.begin(self)

    def handle_early(self, exchange: Exchange) -> None:
        self._http2.begin(self)

    def on_body_taken(self, exchange: Exchange) -> None:
        self.intake = None

    def on_body_end(self, exchange: Exchange) -> None:
        self.deadline = self._http2.request_deadline()

    def on_body_progress(self, exchange: Exchange) -> None:
        self.deadline = self._http2.request_deadline()

    def pause_body(self, exchange: Exchange) -> None:
        self._http2.protocol.pause(self.stream_id)

    def resume_body(self, exchange: Exchange) -> None:
        self._http2.protocol.resume(self.stream_id)
        self._http2.touch()

    def _drop_intake(self) -> None:
        intake, self.intake = self.intake, None
        if intake is not None:
            intake.drop()

    # --- the body on its way out ---------------------------------------------------------------------------------------------------

    def pending_of(self, exchange: Exchange) -> int:
        http2 = self._http2
        own = http2.protocol.pending(self.stream_id)
        if own and http2.protocol.buffered > BUFFERED_HIGH_WATER:
            return max(own, HIGH_WATER)
        return own + http2.unsent_bytes

    def send_body(self, exchange: Exchange, data: bytes) -> None:
        self._http2.protocol.send_body(self.stream_id, data)
        self._http2.touch()

    def end_body(self, exchange: Exchange) -> None:
        if not self.abandoned:
            self.sending = None
            self._http2.protocol.end_response(self.stream_id)
            self._http2.touch()

    def touch(self) -> None:
        self._http2.touch()

    def on_flushed(self) -> None:
        """All output that could be sent is with the socket."""
        tunnel, sending = self.tunnel, self.sending
        try:
            if tunnel is not None:
                tunnel.on_flushed()
            elif sending is not None:
                pending = self.pending_of(self)
                if not pending:
                    sending.on_sent()
                elif pending <= LOW_WATER:
                    sending.on_room()
        except BaseException as error:
            self.defect(contained(error))

    # --- time and end --------------------------------------------------------------------------------------------------------------

    def on_deadline(self) -> None:
        http2 = self._http2
        application = self.application
        intake = self.intake
        self.deadline = http2.request_deadline()
        if self.status:
            pending = http2.protocol.pending(self.stream_id)
            sent = http2.protocol.sent(self.stream_id)
            if pending and sent == self._sent_before:
                http2.protocol.reset(self.stream_id, CANCEL)
                http2.lose(self)
            self._sent_before = sent
        elif intake is not None and intake.is_coming and not (intake.has_sink and http2.protocol.is_paused(self.stream_id)):
            http2.fail(self, PeerError("The request's body did not arrive in time", 408))
        else:
            # With a full sink, the sink is slow, not the peer.
            stores = intake is not None and intake.is_coming
            what = "The body could not be stored in time" if stores else "The request was not answered in time"
            error: Problem = ServerError(what, 503, "TIMEOUT")
            response = application.error_response(error, self.request)
            application.cancelled(self)
            if intake is not None:
                intake.drop_sink()
            self.answer(self, response)

    def defect(self, error: Exception) -> None:
        """An unexpected exception: log it and end this stream."""
        http2 = self._http2
        report_defect(http2.shared, http2.peer, error)
        http2.protocol.reset(self.stream_id, INTERNAL_ERROR)
        http2.lose(self)

    def give_up(self, now: float) -> None:
        """The peer closed, or reset the stream."""
        sending, self.sending = self.sending, None
        tunnel, self.tunnel = self.tunnel, None
        if tunnel is None:
            self.abandon(now)
        else:
            self.abandoned = True
            tunnel.on_closed()
        if sending is not None:
            sending.close()
        self._drop_intake()
        self.request.exchange = None
