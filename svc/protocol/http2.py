"""HTTP/2, the server's side of one connection (RFC 9113): bytes -> events, answers -> bytes. The home of h2.

h2 knows the frames, the windows, and which frame may follow which; what it finds ends the connection or resets a stream. Around it:

- `http2_frames` cuts the input and counts what a peer may not do too often;
- `http2_fields` codes fields faster, `http2_head` says what those of a request mean, `http2_requests` reports it. What is wrong with one request fails
  that request (`RequestFailed`), not the connection, which others may share through a proxy; therefore h2's own checks of fields are off;
- answers wait in `http2_output` for the peer's windows;
- the windows for bodies open as these are consumed: a stream that is paused (`pause`) is acknowledged no more, and so held back by what it has left;
- GOAWAY frames are written and read here, since for h2 each is the end of the connection: we announce a drain before it (RFC 9113 §6.8), and a peer
  that announces its own still wants its answers.

As with HTTP/1, requests come in two lanes. The *express lane* takes the request that is complete in one HEADERS frame, as almost all are: nothing can
follow on its stream but RST_STREAM and WINDOW_UPDATE, so h2 is not told of it; for h2 it is a stream that has been and gone. The *h2 lane* gets
everything else. What a peer sees must not depend on the lane, which a fuzz target checks.

Of a stream that is gone (reset, or answered) nobody needs to know here: what is said to it is dropped.

Priorities are accepted and ignored, which SETTINGS_NO_RFC7540_PRIORITIES tells the peer; we answer in the order in which answers are ready.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from h2.config import H2Configuration
from h2.connection import ConnectionInputs, H2Connection
from h2.events import DataReceived as H2DataReceived
from h2.events import PingAckReceived, RemoteSettingsChanged, StreamEnded, StreamReset, TrailersReceived, WindowUpdated
from h2.events import RequestReceived as H2RequestReceived
from h2.exceptions import ProtocolError
from h2.settings import SettingCodes, Settings

from svc.errors import PeerError
from svc.messages import HeaderPairs
from svc.protocol.events import (
    Event,
    PeerClosed,
    ProtocolFailed,
)
from svc.protocol.http1 import Limits
from svc.protocol.http2_fields import CONTENT_LENGTH, DATE, DecodedFields, FieldDecoder, FieldEncoder
from svc.protocol.http2_frames import (
    ACK,
    CANCEL,
    CONTINUATION,
    DATA,
    EMPTY_DATA,
    END_HEADERS,
    END_STREAM,
    ENHANCE_YOUR_CALM,
    FLOW_CONTROL_ERROR,
    FRAME_SIZE_ERROR,
    GOAWAY,
    HEAD_SIZE,
    HEADERS,
    INTERNAL_ERROR,
    LARGEST_WINDOW,
    NO_ERROR,
    OUR_RESET,
    PADDED,
    PREFACE,
    PROTOCOL_ERROR,
    REFUSED_STREAM,
    RST_STREAM,
    SETTINGS,
    STREAM_CLOSED,
    UNKNOWN,
    WINDOW_UPDATE,
    WINDOW_UPDATES_PER_FRAME,
    WITH_PRIORITY,
    ConnectionFault,
    Frame,
    FrameRateLimiter,
    FrameReader,
    encode_goaway,
    encode_reset,
    encode_settings,
)
from svc.protocol.http2_output import Output
from svc.protocol.http2_requests import RequestReader
from svc.protocol.http2_stream import ANSWERED, ANSWERING, UNANSWERED, Stream

MAX_STREAMS = 100  # requests at a time, the least that RFC 9113 recommends: each may hold its body and its answer
STREAM_WINDOW = 65535  # bytes a body may be ahead of whoever takes it, to begin with: the default of the standard
BODY_WINDOW = 1 << 20  # ... once it has shown that it is taken: at 64 KiB a round trip, uploads over long lines are slow
CONNECTION_WINDOW = 4 << 20  # ... of all bodies of a connection together
HEADER_BLOCK_MAX = 128 * 1024  # compressed bytes of one header block. More can only be padding, or an attack
HEADER_LIST_MAX = 64 * 1024  # decoded bytes of one, as RFC 9113 §6.5.2 counts, beyond which the connection ends; below, the stream gets 431
BUFFER_MAX = 16 << 20  # bytes of answers waiting for windows, beyond which new requests are refused

_LAST_STREAM_ID = (1 << 31) - 1
_DRAIN_PING = b"drain-ok"
_NO_RFC7540_PRIORITIES = 9  # RFC 9218 §2.1
_WHOLE = END_STREAM | END_HEADERS

_CONFIG = H2Configuration(
    client_side=False,
    header_encoding=None,
    validate_inbound_headers=False,
    normalize_inbound_headers=False,
    validate_outbound_headers=False,
    normalize_outbound_headers=False,
)


class _H2Connection(H2Connection):
    MAX_CLOSED_STREAMS = 1000  # how closed streams ended; h2 would keep 65,536 of them, 10 MB a connection


class Http2:
    """The driver. `stream_id` is HTTP/2's own.

    Raises ValueError as `Http1` does: for a status, field name or field value that cannot be sent, before anything of that answer is written.
    """

    __slots__ = (
        "_acknowledge",
        "_answers",
        "_block_size",
        "_conn",
        "_decoder",
        "_encoder",
        "_express",
        "_express_first",
        "_express_last",
        "_frame_rates",
        "_initial_window",
        "_is_draining",
        "_is_over",
        "_last_stream_id",
        "_limits",
        "_max_streams",
        "_output",
        "_peer_is_going",
        "_reader",
        "_requests",
        "_saw_settings",
        "_streams",
        "finished",
    )  # fmt: skip

    def __init__(self, limits: Limits, express: bool = True, *, max_streams: int = MAX_STREAMS) -> None:
        self._limits = limits
        self._express = express
        self._express_first = 0  # all streams from here to the next were requests of the express lane
        self._express_last = -1
        self._max_streams = max_streams
        self._reader = FrameReader()
        self._frame_rates = FrameRateLimiter()
        self._requests = RequestReader(limits, self._frame_rates)
        self._streams: dict[int, Stream] = {}
        self._acknowledge: dict[int, Stream] = {}  # have received something to acknowledge with the next output
        self.finished: list[int] = []  # streams whose answer is complete in the output; for the caller to take
        self._answers = 0  # answers complete since the last `data_to_send`
        self._block_size = 0  # of the header block that is coming in pieces; 0: none is
        self._saw_settings = False
        self._initial_window = STREAM_WINDOW  # for the answer on a new stream
        self._is_over = False  # nothing more is read or answered
        self._peer_is_going = False  # the peer sent GOAWAY
        self._is_draining = False
        self._last_stream_id: int | None = None  # the last stream that will be answered, once that is said
        conn = self._conn = _H2Connection(_CONFIG)
        conn.local_settings = _local_settings(max_streams)
        self._decoder = conn.decoder = FieldDecoder(max(HEADER_LIST_MAX, 2 * limits.max_header_size))
        self._encoder = FieldEncoder()
        conn.encoder = self._encoder  # type: ignore[assignment]
        conn.initiate_connection()
        conn.clear_outbound_data_buffer()
        conn.receive_data(PREFACE)  # the peer's is checked by the reader
        conn.state_machine.process_input(ConnectionInputs.RECV_HEADERS)  # so that it lets us answer though it has not seen a request
        self._output = Output(conn, self._encoder)
        self._output.write(
            encode_settings(
                {
                    SettingCodes.MAX_CONCURRENT_STREAMS: max_streams,
                    SettingCodes.MAX_HEADER_LIST_SIZE: limits.max_header_size,
                    SettingCodes.ENABLE_CONNECT_PROTOCOL: 1,
                    _NO_RFC7540_PRIORITIES: 1,
                }
            )
        )
        conn.increment_flow_control_window(CONNECTION_WINDOW - STREAM_WINDOW)
        self._output.from_h2 = True

    # --- input ---------------------------------------------------------------------------------------------------------------------

    def receive_data(self, data: bytes) -> list[Event]:
        """Bytes from the peer, the preface first."""
        events: list[Event] = []
        if self._is_over:
            return events
        reader = self._reader
        reader.receive(data)
        try:
            while (frame := reader.next()) is not None:
                self._on_frame(frame, events)
        except ConnectionFault as fault:
            self._conn.close_connection(fault.code, str(fault).encode())
            self._fail(str(fault), events)
        except ProtocolError as error:  # for which h2 has written a GOAWAY
            self._fail(f"HTTP/2 was broken: {type(error).__name__}", events)
        self._requests.report_fresh(events)
        return events

    def receive_eof(self) -> list[Event]:
        """The peer's FIN. Requests that are complete can still be answered, as far as the windows allow."""
        if self._is_over:
            return []
        self._peer_is_going = True
        return [PeerClosed()]

    def _fail(self, message: str, events: list[Event]) -> None:
        self._requests.report_fresh(events)
        self._end()
        events.append(ProtocolFailed(PeerError(message)))

    def _on_frame(self, frame: Frame, events: list[Event]) -> None:
        """Count the frame, and give it to h2 unless we know what it means or h2 would take it wrongly. Raises ConnectionFault or ProtocolError."""
        kind = frame.type
        if kind > HEADERS:
            self._on_other_frame(frame)
            if kind in (GOAWAY, UNKNOWN):
                return
        elif not self._saw_settings:
            raise ConnectionFault(PROTOCOL_ERROR, "The first frame is not SETTINGS")
        elif self._block_size:
            raise ConnectionFault(PROTOCOL_ERROR, "A frame within a header block")
        elif kind == HEADERS and self._begin_headers(frame, events):
            return
        stream = self._streams.get(frame.stream_id)
        if stream is not None and stream.window is not None and self._on_express_frame(frame, stream, events):
            return
        self._output.from_h2 = True
        for event in self._conn.receive_data(frame.raw):
            handler = _HANDLERS.get(type(event))
            if handler is not None:
                handler(self, event, events)

    def _on_other_frame(self, frame: Frame) -> None:
        """Any frame but DATA and HEADERS."""
        kind = frame.type
        if not self._saw_settings:
            if kind != SETTINGS or frame.flags & ACK:
                raise ConnectionFault(PROTOCOL_ERROR, "The first frame is not SETTINGS")
            self._saw_settings = True
        if kind == WINDOW_UPDATE and self._output.full_frames:
            self._frame_rates.refill(WINDOW_UPDATE, WINDOW_UPDATES_PER_FRAME * self._output.full_frames)
            self._output.full_frames = 0
        self._frame_rates.consume(kind)
        if kind == CONTINUATION:
            if not self._block_size:
                raise ConnectionFault(PROTOCOL_ERROR, "CONTINUATION without a header block")
            self._block_size += len(frame.raw)
            if self._block_size > HEADER_BLOCK_MAX:
                raise ConnectionFault(ENHANCE_YOUR_CALM, f"A header block of more than {HEADER_BLOCK_MAX} bytes")
            if frame.flags & END_HEADERS:
                self._block_size = 0
        elif self._block_size:
            raise ConnectionFault(PROTOCOL_ERROR, "A frame within a header block")
        elif kind == RST_STREAM:
            if frame.stream_id > self._conn.highest_inbound_stream_id:
                raise ConnectionFault(PROTOCOL_ERROR, "RST_STREAM for a stream that never was")
        elif kind == SETTINGS:
            if frame.flags & ACK and frame.size:
                raise ConnectionFault(FRAME_SIZE_ERROR, "An acknowledgement of settings with settings")
        elif kind == GOAWAY:
            if frame.stream_id or frame.size < 8:
                raise ConnectionFault(PROTOCOL_ERROR, "A malformed GOAWAY")
            self._peer_is_going = True

    def _begin_headers(self, frame: Frame, events: list[Event]) -> bool:
        """HEADERS. True: the express lane has taken it."""
        flags, stream_id = frame.flags, frame.stream_id
        if not flags & END_HEADERS:
            self._block_size = len(frame.raw)
        known = self._streams.get(stream_id)
        if known is not None and known.is_ended:
            raise ConnectionFault(STREAM_CLOSED, "HEADERS after the end of a request")
        if known is None and stream_id & 1 and self._express_first <= stream_id <= self._express_last:
            raise ConnectionFault(STREAM_CLOSED, "HEADERS on a closed stream")  # for h2 it never was
        conn = self._conn
        if not self._express or flags & (_WHOLE | PADDED) != _WHOLE or not stream_id & 1 or stream_id <= conn.highest_inbound_stream_id:
            return False
        start = HEAD_SIZE
        if flags & WITH_PRIORITY:
            start += 5
            if len(frame.raw) < start or int.from_bytes(frame.raw[HEAD_SIZE : HEAD_SIZE + 4], "big") & _LAST_STREAM_ID == stream_id:
                return False  # wrong
        try:
            fields = self._decoder.decode(frame.raw[start:])[0][1]
        except ProtocolError as error:
            raise ConnectionFault(int(error.error_code), str(error)) from None
        conn.highest_inbound_stream_id = stream_id
        if stream_id != self._express_last + 2:
            self._express_first = stream_id
        self._express_last = stream_id
        self._on_head(stream_id, fields, True, self._initial_window, events)
        return True

    def _on_express_frame(self, frame: Frame, stream: Stream, events: list[Event]) -> bool:
        """A frame for a stream of the express lane. False: h2 shall say what is wrong with it, or ignore it."""
        kind = frame.type
        if kind == WINDOW_UPDATE and frame.size == 4:
            increment = int.from_bytes(frame.raw[HEAD_SIZE:], "big") & LARGEST_WINDOW
            if not increment:
                return False
            if not self._output.enlarge(stream, increment):
                self._lose(stream, FLOW_CONTROL_ERROR, events)
            return True
        if kind == RST_STREAM and frame.size == 4:
            self._cancel(stream, events)
            return True
        if kind == DATA:
            # After the end of the request. h2 resets the stream for it, and gives the bytes back to the connection's window.
            self._frame_rates.consume(OUR_RESET)
            self._cancel(stream, events)
        return False

    # --- requests ------------------------------------------------------------------------------------------------------------------

    def _on_request(self, event: H2RequestReceived, events: list[Event]) -> None:
        fields: DecodedFields = event.headers[0][1]  # type: ignore[assignment]
        self._on_head(event.stream_id, fields, event.stream_ended is not None, None, events)

    def _on_head(self, stream_id: int, fields: DecodedFields, is_ended: bool, window: int | None, events: list[Event]) -> None:
        """`window`: not None in the express lane."""
        if not self._refuses(stream_id):
            self._streams[stream_id] = self._requests.begin(stream_id, fields, is_ended, window, events)
            return
        self._frame_rates.consume(OUR_RESET)
        if window is None:
            self._conn.reset_stream(stream_id, REFUSED_STREAM)
        else:
            self._output.write(encode_reset(stream_id, REFUSED_STREAM))

    def _refuses(self, stream_id: int) -> bool:
        """No more requests now, or ever: the peer may try again, perhaps elsewhere (RFC 9113 §8.7).

        Answers that the peer cannot have seen yet count as under way: who sends requests without waiting gets no more at one time than others.
        """
        return (
            len(self._streams) + self._answers >= self._max_streams
            or self._output.buffered > BUFFER_MAX
            or (self._last_stream_id is not None and stream_id > self._last_stream_id)
        )

    def _on_data(self, event: H2DataReceived, events: list[Event]) -> None:
        stream = self._streams.get(event.stream_id)
        if not event.data and event.stream_ended is None:
            self._frame_rates.consume(EMPTY_DATA)
        if stream is None:
            self._conn.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            return
        stream.unacknowledged += event.flow_controlled_length
        self._acknowledge[stream.id] = stream
        if event.data:
            self._requests.on_data(stream, event.data, events)

    def _on_trailers(self, event: TrailersReceived, events: list[Event]) -> None:
        stream = self._streams.get(event.stream_id)
        if stream is not None:
            fields: DecodedFields = event.headers[0][1]  # type: ignore[assignment]
            self._requests.on_trailers(stream, fields, events)

    def _on_stream_ended(self, event: StreamEnded, events: list[Event]) -> None:
        """After DATA; heads and trailers that end their stream are done with."""
        stream = self._streams.get(event.stream_id)
        if stream is not None and not stream.is_ended:
            self._requests.on_end(stream, [], events)

    def _on_reset(self, event: StreamReset, events: list[Event]) -> None:
        """The peer gave the request up, or h2 reset it because of what the peer did."""
        if not event.remote_reset:
            self._frame_rates.consume(OUR_RESET)
        stream = self._streams.get(event.stream_id)
        if stream is not None:
            self._cancel(stream, events)

    def _cancel(self, stream: Stream, events: list[Event]) -> None:
        self._forget(stream)
        self._requests.cancel(stream, events)

    def _lose(self, stream: Stream, code: int, events: list[Event]) -> None:
        """The peer broke a rule on this stream."""
        self._frame_rates.consume(OUR_RESET)
        self._output.reset(stream, code)
        self._cancel(stream, events)

    def _on_window(self, event: WindowUpdated, events: list[Event]) -> None:
        self._output.on_window(event.stream_id)

    def _on_settings(self, event: RemoteSettingsChanged, events: list[Event]) -> None:
        changed = event.changed_settings.get(SettingCodes.INITIAL_WINDOW_SIZE)
        if changed is None:
            return
        # h2 does the same for the streams it knows (RFC 9113 §6.9.2).
        difference = changed.new_value - self._initial_window
        self._initial_window = changed.new_value
        for stream in self._streams.values():
            if stream.window is not None:
                stream.window += difference
                if stream.window > LARGEST_WINDOW:
                    raise ConnectionFault(FLOW_CONTROL_ERROR, "A window of more than 2^31-1 bytes")
        self._output.on_window(0)

    def _on_ping_ack(self, event: PingAckReceived, events: list[Event]) -> None:
        if event.ping_data == _DRAIN_PING and self._is_draining:
            self.finish_drain()

    # --- bodies on their way in ----------------------------------------------------------------------------------------------------

    def pause(self, stream_id: int) -> None:
        """Hold this stream's body back: no more than its window now allows will come."""
        stream = self._streams.get(stream_id)
        if stream is not None:
            stream.is_paused = True

    def resume(self, stream_id: int) -> None:
        stream = self._streams.get(stream_id)
        if stream is not None and stream.is_paused:
            stream.is_paused = False
            self._acknowledge[stream_id] = stream

    def is_paused(self, stream_id: int) -> bool:
        stream = self._streams.get(stream_id)
        return stream is not None and stream.is_paused

    def _acknowledge_bodies(self) -> None:
        """Once a turn, when it is known who was paused."""
        conn = self._conn
        self._output.from_h2 = True
        waiting, self._acknowledge = self._acknowledge, {}
        for stream in waiting.values():
            if stream.is_paused or not stream.unacknowledged:
                continue
            conn.acknowledge_received_data(stream.unacknowledged, stream.id)
            stream.unacknowledged = 0
            if not stream.is_wide and stream.received > STREAM_WINDOW // 2 and not stream.is_ended:
                stream.is_wide = True
                conn.increment_flow_control_window(BODY_WINDOW - STREAM_WINDOW, stream.id)

    # --- answers -------------------------------------------------------------------------------------------------------------------

    def send_continue(self, stream_id: int) -> None:
        """100 Continue, if the peer still waits for it."""
        stream = self._streams.get(stream_id)
        if stream is not None and stream.waits_for_continue and stream.answer == UNANSWERED:
            stream.waits_for_continue = False
            self._output.send_head(stream, 100, [], False)

    def send_informational(self, stream_id: int, status: int, pairs: HeaderPairs) -> None:
        """103 Early Hints and the like. Nothing is sent after the head of the answer."""
        if not 102 <= status <= 199:
            raise ValueError(f"not an informational status to send: {status}")
        stream = self._streams.get(stream_id)
        if stream is not None and stream.answer == UNANSWERED:
            fields, _ = self._encoder.check(pairs)
            self._output.send_head(stream, status, fields, False)

    def respond(self, stream_id: int, status: int, pairs: HeaderPairs, body: bytes, date: str) -> None:
        """The whole answer, with the meaning it has in `Http1`."""
        stream = self._begin_answer(stream_id, status)
        if stream is None:
            return
        pairs, own = self._encoder.check(pairs)
        silent = stream.is_head or status == 204 or status == 304
        if own is None and not silent:
            fields = [*pairs, (DATE, date), (CONTENT_LENGTH, str(len(body)))]
        else:
            own = own or {}
            length = None if status == 304 and not body else len(body)
            if silent and not body:
                length = _numeral(own.get("content-length")) or length
            fields = [*pairs, (DATE, own.get("date", date))]
            if length is not None and status != 204:
                fields.append((CONTENT_LENGTH, str(length)))
        stream.answer = ANSWERED
        output = self._output
        if silent or not body:
            output.send_head(stream, status, fields, not stream.reset_code)
            self._finish(stream)
            return
        output.send_head(stream, status, fields, False)
        if output.send_whole_body(stream, body):
            self._finish(stream)
        else:
            output.put(stream, body)

    def begin_response(self, stream_id: int, status: int, pairs: HeaderPairs, date: str, length: int | None = None) -> None:
        """The head of an answer whose body follows in `send_body`. `length`: of the body in bytes, if it is known."""
        stream = self._begin_answer(stream_id, status)
        if stream is None:
            return
        pairs, own = self._encoder.check(pairs)
        own = own or {}
        if length is None:
            length = _numeral(own.get("content-length"))
        fields = [*pairs, (DATE, own.get("date", date))]
        if length is not None and status != 204:
            fields.append((CONTENT_LENGTH, str(length)))
        stream.answer = ANSWERING
        stream.is_silent = stream.is_head or status == 204 or status == 304
        stream.to_send = None if stream.is_silent else length
        self._output.send_head(stream, status, fields, False)

    def accept_tunnel(self, stream_id: int, pairs: HeaderPairs, date: str) -> None:
        """200 for an extended CONNECT: from here on `send_body` and DataReceived are the other protocol's (RFC 8441 §5)."""
        stream = self._streams.get(stream_id)
        if stream is not None:
            assert stream.is_tunnel
            stream.is_accepted = True
            self.begin_response(stream_id, 200, pairs, date)

    def send_body(self, stream_id: int, data: bytes) -> None:
        """A piece of the answer's body. Raises ValueError, and sends nothing, if the announced length is exceeded."""
        stream = self._streams.get(stream_id)
        if stream is None or not data or stream.is_silent:
            return
        assert stream.answer == ANSWERING, "no answer has begun"
        if stream.to_send is not None:
            if len(data) > stream.to_send:
                raise ValueError(f"{len(data) - stream.to_send} bytes more than the announced Content-Length")
            stream.to_send -= len(data)
        self._output.put(stream, data)

    def end_response(self, stream_id: int, trailers: HeaderPairs | tuple[()] = ()) -> None:
        """The answer's body is complete.

        Raises ValueError for what cannot be a trailer, and if the announced length is not reached; the stream is then reset, which tells the peer.
        """
        stream = self._streams.get(stream_id)
        if stream is None:
            return
        assert stream.answer == ANSWERING, "no answer has begun"
        if stream.to_send:
            missing = stream.to_send
            self.reset(stream_id, INTERNAL_ERROR)
            raise ValueError(f"{missing} bytes less than the announced Content-Length")
        if trailers and not stream.is_silent:
            stream.trailers, own = self._encoder.check(list(trailers))
            if own:
                raise ValueError(f"not allowed in trailers: {', '.join(own)}")
        stream.answer = ANSWERED
        self._output.queue(stream)

    def fail(self, stream_id: int, error: PeerError, pairs: HeaderPairs, body: bytes, date: str) -> None:
        """Answer with `error` if nothing of a final answer was sent, and end the stream: after RequestFailed, or when time is up."""
        stream = self._streams.get(stream_id)
        if stream is None:
            return
        if stream.answer == UNANSWERED:
            # RFC 9113 §8.1.1: a malformed request may be answered before its stream is reset for it. Then the answer does not end the stream: of one
            # that both sides have ended nothing may be said any more.
            stream.reset_code = PROTOCOL_ERROR if error.status_code == 400 else NO_ERROR
            self.respond(stream_id, error.status_code, pairs, body, date)
        elif stream.answer == ANSWERING:
            self.reset(stream_id, PROTOCOL_ERROR)

    def reset(self, stream_id: int, code: int = CANCEL) -> None:
        """Give the stream up; what is not sent is lost."""
        stream = self._streams.get(stream_id)
        if stream is not None:
            self._output.reset(stream, code)
            self._forget(stream)

    def pending(self, stream_id: int) -> int:
        """Bytes of the answer's body that wait for the peer's windows or for their turn."""
        stream = self._streams.get(stream_id)
        return 0 if stream is None else stream.buffered

    @property
    def buffered(self) -> int:
        """... of all answers."""
        return self._output.buffered

    def sent(self, stream_id: int) -> int:
        """Bytes of the answer's body that did not have to wait any more. Grows as long as the peer reads."""
        stream = self._streams.get(stream_id)
        return 0 if stream is None else stream.sent

    def _begin_answer(self, stream_id: int, status: int) -> Stream | None:
        if status < 200 or status > 999:
            raise ValueError(f"not a final status: {status}")
        stream = self._streams.get(stream_id)
        assert stream is None or stream.answer == UNANSWERED, "answered twice"
        return stream

    def _finish(self, stream: Stream) -> None:
        """The answer is complete in the output. What is still to come of the request nobody wants (RFC 9113 §8.1), or it was malformed."""
        stream_id = stream.id
        del self._streams[stream_id]
        self.finished.append(stream_id)
        self._answers += 1
        if stream.reset_code or (not stream.is_ended and not stream.is_accepted):  # the peer ends its half of a tunnel by itself
            self._output.reset(stream, stream.reset_code)
        self._settle(stream)

    def _forget(self, stream: Stream) -> None:
        """It was reset."""
        del self._streams[stream.id]
        self._output.forget(stream)
        self._settle(stream)

    def _settle(self, stream: Stream) -> None:
        """Give back to the connection's window what the stream held of it."""
        if stream.unacknowledged:
            self._acknowledge.pop(stream.id, None)
            self._conn.acknowledge_received_data(stream.unacknowledged, stream.id)
            self._output.from_h2 = True
            stream.unacknowledged = 0

    # --- output --------------------------------------------------------------------------------------------------------------------

    def data_to_send(self) -> bytes:
        """Output since the last call, `http2_output.OUTPUT_MAX` of bodies at most; `wants_to_send` says whether there is more that could go."""
        output = self._output
        if self._acknowledge:
            self._acknowledge_bodies()
        if output.is_ready:
            output.pump()
            finished = output.finished
            if finished:
                for stream in finished:
                    self._finish(stream)
                finished.clear()
        self._answers = 0
        return output.collect()

    @property
    def wants_to_send(self) -> bool:
        """Some answers were only cut short by OUTPUT_MAX, or have just been given."""
        return self._output.is_ready

    # --- end -----------------------------------------------------------------------------------------------------------------------

    def drain(self) -> None:
        """Graceful stop, first part: say that it comes. Requests that are on their way are still answered.

        `finish_drain` follows when the peer has seen this, which the answer to a PING tells, or when the caller has waited long enough.
        """
        if not self._is_draining and not self._is_over:
            self._is_draining = True
            self._output.write(encode_goaway(_LAST_STREAM_ID, NO_ERROR))
            self._conn.ping(_DRAIN_PING)
            self._output.from_h2 = True

    def finish_drain(self) -> None:
        """Second part: no request but those received is answered. `should_close` when all are."""
        if self._last_stream_id is None and not self._is_over:
            self._is_draining = True
            self._last_stream_id = self._conn.highest_inbound_stream_id
            self._output.write(encode_goaway(self._last_stream_id, NO_ERROR))

    def close(self, code: int = NO_ERROR) -> None:
        """Say goodbye; whatever is under way is lost."""
        if not self._is_over:
            self._conn.close_connection(code)
            self._end()

    def _end(self) -> None:
        self._is_over = True
        self._streams.clear()
        self._acknowledge.clear()
        self._output.forget_all()
        self._output.from_h2 = True

    def tick(self, seconds: int) -> None:
        """So much time has passed: what a peer may do only so often in some time it may do again."""
        self._frame_rates.tick(seconds)

    @property
    def should_close(self) -> bool:
        """Close the connection once all output is sent."""
        return self._is_over or (not self._streams and (self._peer_is_going or self._last_stream_id is not None))

    @property
    def idle(self) -> bool:
        """No request is under way."""
        return not self._streams

    @property
    def reading_head(self) -> bool:
        """Something that has to be complete soon has begun: the preface, a header block, a frame other than DATA."""
        return bool(self._block_size) or self._reader.waits_in_headers

    def check(self) -> None:
        """Assert what holds between two calls."""
        streams = self._streams
        self._output.check(streams)
        assert len(streams) <= self._max_streams, self
        assert sum(stream.unacknowledged for stream in streams.values()) <= CONNECTION_WINDOW, self
        for stream in streams.values():
            assert stream.fresh is None and stream.pieces is None, stream
            assert stream.window is None or stream.is_ended, stream

    def __repr__(self) -> str:
        state = "over" if self._is_over else "draining" if self._is_draining else "open"
        return f"<Http2 {state} streams {len(self._streams)} buffered {self.buffered}>"


_HANDLERS: dict[type, Any] = {
    H2RequestReceived: Http2._on_request,
    H2DataReceived: Http2._on_data,
    StreamEnded: Http2._on_stream_ended,
    TrailersReceived: Http2._on_trailers,
    StreamReset: Http2._on_reset,
    WindowUpdated: Http2._on_window,
    RemoteSettingsChanged: Http2._on_settings,
    PingAckReceived: Http2._on_ping_ack,
}


@cache
def _local_settings(max_streams: int) -> Settings:
    """What h2 is told of our settings. Shared by all connections, for none changes them and each would take 5 KB.

    h2 ends the connection of a peer with too many streams. It is only let do so far beyond what we refuse, stream by stream.
    """
    return Settings(client=False, initial_values={SettingCodes.MAX_CONCURRENT_STREAMS: 2 * max_streams + 100})


def _numeral(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdigit() else None
