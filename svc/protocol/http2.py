"""HTTP/2, the server's side of one connection (RFC 9113): bytes -> events, answers -> bytes.

h2 knows the frames, the windows, and which frame may follow which; an error that it finds ends the connection or resets a stream. Around it:

- `http2_setup` makes the h2 connection; `http2_frames` cuts the input into frames; `http2_flood_limits` limits how many a peer may send;
- `http2_fields` codes fields (HPACK) faster, `http2_head` interprets those of a request, `http2_requests` reports it. An error in one request fails
  that request (`RequestFailed`), not the connection, which others may share through a proxy; therefore h2's own checks of fields are off;
- `http2_responses` takes the answers, which wait in `http2_output` for the peer's windows;
- `http2_bodies` has the bodies of requests and the windows for them;
- GOAWAY frames are written and read here, since for h2 each is the end of the connection: we announce a drain before it (RFC 9113 §6.8), and a peer
  that announces its own still wants its answers.

As with HTTP/1, requests come in two lanes. The *express lane* takes the request whose fields are in one HEADERS frame, as almost all are, and its body.
h2 does not see it; for h2 it is a stream that is already closed, so h2 reports what is wrong on it and ignores the rest. The *h2 lane* gets everything
else, tunnels among it. What a peer sees must not depend on the lane, which a fuzz target checks.

Priorities are accepted and ignored, which SETTINGS_NO_RFC7540_PRIORITIES announces; answers go out in the order in which they are ready.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from h2.events import DataReceived as H2DataReceived
from h2.events import PingAckReceived, RemoteSettingsChanged, StreamEnded, StreamReset, TrailersReceived, WindowUpdated
from h2.events import RequestReceived as H2RequestReceived
from h2.exceptions import ProtocolError
from h2.settings import SettingCodes

from svc.errors import PeerError
from svc.protocol.events import Event, PeerClosed, ProtocolFailed
from svc.protocol.http1 import Limits
from svc.protocol.http2_bodies import Http2Bodies
from svc.protocol.http2_fields import DecodedFields, FieldDecoder, FieldEncoder
from svc.protocol.http2_flood_limits import (
    BUFFER_MAX,
    HEADER_BLOCK_MAX,
    HEADER_LIST_MAX,
    MAX_STREAMS,
    OUR_RESET,
    WINDOW_UPDATES_PER_FRAME,
)
from svc.protocol.http2_frames import (
    ACK,
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    ENHANCE_YOUR_CALM,
    FLOW_CONTROL_ERROR,
    FRAME_SIZE_ERROR,
    FRAME_SIZE_MAX,
    GOAWAY,
    HEAD_SIZE,
    HEADERS,
    LARGEST_WINDOW,
    NO_ERROR,
    PROTOCOL_ERROR,
    REFUSED_STREAM,
    RST_STREAM,
    SETTINGS,
    STREAM_CLOSED,
    UNKNOWN,
    WINDOW_UPDATE,
    ConnectionFault,
    Frame,
    FrameReader,
    encode_answer,
    encode_goaway,
    encode_reset,
)
from svc.protocol.http2_setup import BODY_WINDOW, CONNECTION_WINDOW, STREAM_WINDOW, ServerConnection, first_settings
from svc.protocol.http2_stream import Stream
from svc.protocol.request_head import FieldTuple
from svc.protocol.response_head import RepeatedHead

_LAST_STREAM_ID = (1 << 31) - 1
_DRAIN_PING = b"drain-ok"
_CONNECT = (b":method", b"CONNECT")

AnswerPlain = Callable[[bytes, FieldTuple], bool]
"""Asked about a request that is complete with its head, by its path and its other fields, before these are checked: whether it has called `answer_plain`."""


class Http2(Http2Bodies):
    """The driver of one connection: bytes in and events out here, answers in `Http2Responses`. `stream_id` is HTTP/2's own."""

    __slots__ = (
        "_block_size", "_express", "_express_first", "_express_last", "_initial_window", "_is_draining", "_is_over", "_last_stream_id", "_max_streams",
        "_peer_is_going", "_plain", "_plain_id", "_reader", "_saw_settings", "batch", "is_behind",
    )  # fmt: skip

    def __init__(self, limits: Limits, express: bool = True, *, max_streams: int = MAX_STREAMS) -> None:
        decoder = FieldDecoder(max(HEADER_LIST_MAX, 2 * limits.max_header_size))
        encoder = FieldEncoder()
        conn = ServerConnection(decoder, encoder, max_streams)
        super().__init__(conn, decoder, encoder, limits)
        self._express = express
        self.batch = 1 << 30  # events of one `receive_data`, at which it ends
        self.is_behind = False  # it has ended there; or set by `plain`: it ends behind that request
        self._plain: AnswerPlain | None = None
        self._plain_id = 0  # the stream that it is asked about
        self._express_first = 0  # all streams from here to the next were requests of the express lane
        self._express_last = -1
        self._max_streams = max_streams
        self._reader = FrameReader()
        self._block_size = 0  # bytes so far of the header block that comes in several frames; 0: no such block
        self._saw_settings = False
        self._initial_window = STREAM_WINDOW  # for the answer on a new stream
        self._is_over = False  # nothing more is read or answered
        self._peer_is_going = False  # the peer sent GOAWAY
        self._is_draining = False
        self._last_stream_id: int | None = None  # the last stream that will be answered, once GOAWAY has named it
        self._output.write(first_settings(max_streams, limits.max_header_size))
        conn.increment_flow_control_window(CONNECTION_WINDOW - STREAM_WINDOW)
        self._output.from_h2 = True

    # --- input ---------------------------------------------------------------------------------------------------------------------

    def receive_data(self, data: bytes, plain: AnswerPlain | None = None) -> list[Event]:
        """Bytes from the peer, the preface first. Reports a batch; while `is_behind` there is more, which b"" asks for. `plain` is asked before anything is
        reported: requests are not answered in another order than they come."""
        events: list[Event] = []
        self.is_behind = False
        if self._is_over:
            return events
        reader = self._reader
        reader.receive(data)
        self._plain = plain
        batch = self.batch
        try:
            while (frame := reader.next()) is not None:
                self._on_frame(frame, events)
                if self.is_behind or (len(events) >= batch and not self._requests.has_fresh):
                    self.is_behind = True
                    break
        except ConnectionFault as fault:
            self._conn.close_connection(fault.code, str(fault).encode())
            self._fail(str(fault), events)
        except ProtocolError as error:  # for which h2 has written a GOAWAY
            self._fail(f"HTTP/2 was broken: {type(error).__name__}", events)
        finally:
            self._plain = None
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
        """Count the frame, and pass it to h2 unless it is handled here. Raises ConnectionFault or ProtocolError."""
        kind = frame.type
        if kind > HEADERS:
            self._on_other_frame(frame)
            if kind in (GOAWAY, UNKNOWN):
                return
            if kind == CONTINUATION and self._trailers is not None:
                self._continue_trailers(frame, self._trailers, events)
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
            self._on_continuation(frame)
        elif self._block_size:
            raise ConnectionFault(PROTOCOL_ERROR, "A frame within a header block")
        elif kind == RST_STREAM:
            if frame.stream_id > self._conn.highest_inbound_stream_id:
                raise ConnectionFault(PROTOCOL_ERROR, "RST_STREAM for an idle stream")
        elif kind == WINDOW_UPDATE:
            frame.clear_reserved_bit()
        elif kind == SETTINGS:
            if frame.flags & ACK and frame.size:
                raise ConnectionFault(FRAME_SIZE_ERROR, "An acknowledgement of settings with settings")
        elif kind == GOAWAY:
            if frame.stream_id or frame.size < 8:
                raise ConnectionFault(PROTOCOL_ERROR, "A malformed GOAWAY")
            self._peer_is_going = True

    def _on_continuation(self, frame: Frame) -> None:
        if not self._block_size:
            raise ConnectionFault(PROTOCOL_ERROR, "CONTINUATION without a header block")
        self._block_size += len(frame.raw)
        if self._block_size > HEADER_BLOCK_MAX:
            raise ConnectionFault(ENHANCE_YOUR_CALM, f"A header block of more than {HEADER_BLOCK_MAX} bytes")
        if frame.flags & END_HEADERS:
            self._block_size = 0

    def _begin_headers(self, frame: Frame, events: list[Event]) -> bool:
        """HEADERS. True: the express lane has taken it."""
        flags, stream_id = frame.flags, frame.stream_id
        if not flags & END_HEADERS:
            self._block_size = len(frame.raw)
        known, conn = self._streams.get(stream_id), self._conn
        if known is not None:
            if known.is_ended:
                raise ConnectionFault(STREAM_CLOSED, "HEADERS after the end of a request")
            if known.window is not None:
                self._begin_trailers(frame, events)
                return True
            return False
        if stream_id & 1 and self._express_first <= stream_id <= self._express_last and not conn.was_reset(stream_id):
            raise ConnectionFault(STREAM_CLOSED, "HEADERS on a closed stream")  # h2 has never seen it
        if not self._express or not flags & END_HEADERS or not stream_id & 1 or stream_id <= conn.highest_inbound_stream_id:
            return False
        block = frame.content
        if block is None or frame.depends_on_itself:
            return False  # h2 reports the error
        is_ended = bool(flags & END_STREAM)
        plain = self._plain
        if plain is not None and is_ended and not events and not self._output.buffered and not self._refuses(stream_id):
            self._plain_id = stream_id
            if plain(*self._decode_request(block)):
                self._note_express(stream_id)
                return True
            fields = self._decoder.request()
        else:
            fields = self._decode(block)
        if not is_ended and _CONNECT in fields.pairs:
            self._decoder.keep(fields)
            return False
        self._note_express(stream_id)
        self._on_head(stream_id, fields, is_ended, self._initial_window, events)
        return True

    def _note_express(self, stream_id: int) -> None:
        """The express lane has taken the request of this stream."""
        self._conn.highest_inbound_stream_id = stream_id
        if stream_id != self._express_last + 2:
            self._express_first = stream_id
        self._express_last = stream_id

    def answer_plain(self, head: RepeatedHead, tag: bytes, timing: tuple[str, str], date: str, body: bytes) -> bool:
        """The whole answer to the request that `plain` is asked about, as `respond` makes it. False: the peer has no window for it now, or it does not fit into
        a frame, and nothing has happened."""
        conn, output, size = self._conn, self._output, len(body)
        if size > self._initial_window or size > conn.outbound_flow_control_window or size > FRAME_SIZE_MAX:
            return False
        conn.outbound_flow_control_window -= size
        output.full_frames += size > 0
        self._answers += 1
        block = self._encoder.encode_repeated(head, tag, timing, date, size)
        output.write(encode_answer(self._plain_id, block, body))
        return True

    def _on_express_frame(self, frame: Frame, stream: Stream, events: list[Event]) -> bool:
        """A frame for a stream of the express lane. False: h2 handles it: an error, or a frame to ignore."""
        kind = frame.type
        if kind == WINDOW_UPDATE and frame.size == 4:
            increment = int.from_bytes(frame.raw[HEAD_SIZE:], "big") & LARGEST_WINDOW
            if not increment:
                return False
            if not self._output.enlarge(stream, increment):
                self._lose(stream, FLOW_CONTROL_ERROR, events)
            return True
        if kind == RST_STREAM and frame.size == 4:
            self._conn.note_reset(stream.id)
            self._cancel(stream, events)
            return True
        if kind == DATA:
            if not stream.is_ended:
                return self._on_express_data(frame, stream, events)
            # After the end of the request. h2 resets the stream for it, and acknowledges the bytes.
            self._frame_rates.consume(OUR_RESET)
            self._conn.note_reset(stream.id)
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
            self._conn.note_reset(stream_id)

    def _refuses(self, stream_id: int) -> bool:
        """Whether a new request is refused; the peer may retry it, perhaps elsewhere (RFC 9113 §8.7).

        Answers that the peer cannot have seen yet count as in progress, so that pipelining does not raise the limit.
        """
        return (
            len(self._streams) + self._answers >= self._max_streams
            or self._output.buffered > BUFFER_MAX
            or (self._last_stream_id is not None and stream_id > self._last_stream_id)
        )

    def _on_data(self, event: H2DataReceived, events: list[Event]) -> None:
        stream = self._streams.get(event.stream_id)
        if stream is None:
            self._count_empty(event.data, event.stream_ended is not None)
            self._conn.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            return
        self._on_content(stream, event.data, event.flow_controlled_length, event.stream_ended is not None, events)

    def _on_trailers(self, event: TrailersReceived, events: list[Event]) -> None:
        stream = self._streams.get(event.stream_id)
        if stream is not None:
            fields: DecodedFields = event.headers[0][1]  # type: ignore[assignment]
            self._requests.on_trailers(stream, fields, events)

    def _on_stream_ended(self, event: StreamEnded, events: list[Event]) -> None:
        """After DATA; the end of heads and trailers is handled with them."""
        stream = self._streams.get(event.stream_id)
        if stream is not None and not stream.is_ended:
            self._requests.on_end(stream, [], events)

    def _on_reset(self, event: StreamReset, events: list[Event]) -> None:
        """The peer reset the stream, or h2 did because of an error of the peer."""
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
        """There is output beyond OUTPUT_MAX, or answers given since the last `data_to_send`."""
        return self._output.is_ready

    # --- end -----------------------------------------------------------------------------------------------------------------------

    def drain(self) -> None:
        """Graceful stop, first part: announce it with GOAWAY. Requests that are already sent are still answered.

        `finish_drain` follows when the peer has seen this, which the answer to a PING shows, or when the caller has waited long enough.
        """
        if not self._is_draining and not self._is_over:
            self._is_draining = True
            self._output.write(encode_goaway(_LAST_STREAM_ID, NO_ERROR))
            self._conn.ping(_DRAIN_PING)
            self._output.from_h2 = True

    def finish_drain(self) -> None:
        """Second part: no request but those received is answered. `should_close` follows when all are."""
        if self._last_stream_id is None and not self._is_over:
            self._is_draining = True
            self._last_stream_id = self._conn.highest_inbound_stream_id
            self._output.write(encode_goaway(self._last_stream_id, NO_ERROR))

    def close(self, code: int = NO_ERROR) -> None:
        """Send GOAWAY and end the connection; requests in progress are dropped."""
        if not self._is_over:
            self._conn.close_connection(code)
            self._end()

    def _end(self) -> None:
        self._is_over = True
        self.is_behind = False
        self._streams.clear()
        self._acknowledge.clear()
        self._output.forget_all()
        self._output.from_h2 = True

    def tick(self, seconds: int) -> None:
        """Refill the token buckets of `http2_flood_limits` for `seconds` that have passed."""
        self._frame_rates.tick(seconds)

    @property
    def should_close(self) -> bool:
        """Close the connection once all output is sent."""
        return self._is_over or (not self._streams and (self._peer_is_going or self._last_stream_id is not None))

    @property
    def idle(self) -> bool:
        """No request is in progress."""
        return not self._streams

    @property
    def reading_head(self) -> bool:
        """A part with a deadline has begun: the preface, a header block, a frame other than DATA."""
        return bool(self._block_size) or self._reader.waits_in_headers

    def check(self) -> None:
        """Assert what holds between two calls."""
        streams = self._streams
        self._output.check(streams)
        assert len(streams) <= self._max_streams, self
        unacknowledged = 0
        for stream in streams.values():
            unacknowledged += stream.unacknowledged
            assert stream.fresh is None and stream.pieces is None, stream
            assert stream.intake_window is None or 0 <= stream.intake_window.current_window_size <= BODY_WINDOW, stream
        assert unacknowledged <= CONNECTION_WINDOW, self

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
