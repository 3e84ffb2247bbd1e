"""Bodies of requests over HTTP/2: DATA and trailers of the express lane, and the windows of both lanes (RFC 9113 §5.2, §6.1, §8.1).

A window opens as its body is used: a stream that is paused is acknowledged no more, so the peer stops at its window.
"""

from __future__ import annotations

from dataclasses import dataclass

from h2.exceptions import FlowControlError, ProtocolError
from h2.frame_buffer import CONTINUATION_BACKLOG
from h2.windows import WindowManager

from svc.protocol.events import Event
from svc.protocol.http1 import Limits
from svc.protocol.http2_fields import DecodedFields, FieldDecoder, FieldEncoder
from svc.protocol.http2_flood_limits import EMPTY_DATA, FrameRateLimiter
from svc.protocol.http2_frames import END_HEADERS, END_STREAM, FLOW_CONTROL_ERROR, PROTOCOL_ERROR, ConnectionFault, Frame
from svc.protocol.http2_requests import RequestReader
from svc.protocol.http2_responses import Http2Responses
from svc.protocol.http2_setup import BODY_WINDOW, STREAM_WINDOW, ServerConnection
from svc.protocol.http2_stream import Stream
from svc.protocol.request_head import FieldTuple


@dataclass(slots=True)
class TrailerBlock:
    """Trailers on their way: one HEADERS frame, and CONTINUATION frames behind it."""

    stream_id: int
    is_wrong: bool  # it does not end the stream, or depends on it
    pieces: list[bytes]


class Http2Bodies(Http2Responses):
    """The driver's part for the bodies of requests. A base class as `Http2Responses` is."""

    __slots__ = ("_decoder", "_frame_rates", "_requests", "_trailers")

    def __init__(self, conn: ServerConnection, decoder: FieldDecoder, encoder: FieldEncoder, limits: Limits) -> None:
        super().__init__(conn, encoder)
        self._decoder = decoder
        self._frame_rates = FrameRateLimiter()
        self._requests = RequestReader(limits, self._frame_rates)
        self._trailers: TrailerBlock | None = None  # of a stream in the express lane, incomplete

    # --- the express lane ------------------------------------------------------------------------------------------------------------

    def _on_express_data(self, frame: Frame, stream: Stream, events: list[Event]) -> bool:
        """DATA of a request that has not ended. False: malformed, which h2 reports. Raises ConnectionFault."""
        data = frame.content
        if data is None:
            return False
        size, is_last = frame.size, frame.flags & END_STREAM
        try:
            self._conn.consume_window(size)
            if stream.intake_window is not None:
                stream.intake_window.window_consumed(size)
            elif not is_last:  # the only frame of a body always fits
                stream.intake_window = WindowManager(STREAM_WINDOW)
                stream.intake_window.window_consumed(size)
        except FlowControlError as error:
            raise ConnectionFault(FLOW_CONTROL_ERROR, str(error)) from None
        self._on_content(stream, data, size, bool(is_last), events)
        if is_last:
            self._requests.on_end(stream, [], events)
        return True

    def _on_content(self, stream: Stream, data: bytes, size: int, is_last: bool, events: list[Event]) -> None:
        """`data` of a body came in a frame of `size` bytes, padding included."""
        self._count_empty(data, is_last)
        stream.unacknowledged += size
        self._acknowledge[stream.id] = stream
        if data:
            self._requests.on_data(stream, data, events)

    def _count_empty(self, data: bytes, is_last: bool) -> None:
        """Raises ConnectionFault if too many frames ask for nothing."""
        if not data and not is_last:
            self._frame_rates.consume(EMPTY_DATA)

    def _begin_trailers(self, frame: Frame, events: list[Event]) -> None:
        """HEADERS on the stream of a request that has not ended. Raises ConnectionFault or ProtocolError."""
        content = frame.content
        if content is None:
            raise ConnectionFault(PROTOCOL_ERROR, "A malformed HEADERS frame")
        self._trailers = TrailerBlock(frame.stream_id, not frame.flags & END_STREAM or frame.depends_on_itself, [content])
        if frame.flags & END_HEADERS:
            self._end_trailers(events)

    def _continue_trailers(self, frame: Frame, trailers: TrailerBlock, events: list[Event]) -> None:
        """CONTINUATION behind `_begin_trailers`. Raises ConnectionFault or ProtocolError."""
        if frame.stream_id != trailers.stream_id or len(trailers.pieces) >= CONTINUATION_BACKLOG:
            raise ConnectionFault(PROTOCOL_ERROR, "CONTINUATION on another stream, or too many")
        trailers.pieces.append(frame.content or b"")
        if frame.flags & END_HEADERS:
            self._end_trailers(events)

    def _end_trailers(self, events: list[Event]) -> None:
        trailers, self._trailers = self._trailers, None
        assert trailers is not None
        fields = self._decode(b"".join(trailers.pieces))
        if trailers.is_wrong:
            raise ConnectionFault(PROTOCOL_ERROR, "Trailers that do not end their stream, or depend on it")
        stream = self._streams.get(trailers.stream_id)
        if stream is not None:  # or it was reset meanwhile
            self._requests.on_trailers(stream, fields, events)

    def _decode(self, block: bytes) -> DecodedFields:
        """Raises ConnectionFault."""
        try:
            fields: DecodedFields = self._decoder.decode(block)[0][1]
        except ProtocolError as error:
            raise ConnectionFault(int(error.error_code), str(error)) from None
        return fields

    def _decode_request(self, block: bytes) -> tuple[bytes, FieldTuple]:
        """Raises ConnectionFault."""
        try:
            return self._decoder.decode_request(block)
        except ProtocolError as error:
            raise ConnectionFault(int(error.error_code), str(error)) from None

    # --- windows ---------------------------------------------------------------------------------------------------------------------

    def pause(self, stream_id: int) -> None:
        """Stop acknowledging this stream's body: the peer can send no more than its window now allows."""
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
        """Open the windows of bodies that are not paused. Once a turn."""
        output = self._output
        waiting, self._acknowledge = self._acknowledge, {}
        for stream in waiting.values():
            if stream.is_paused or not stream.unacknowledged:
                continue
            output.give_back(stream, stream.unacknowledged, is_over=False)
            stream.unacknowledged = 0
            if not stream.is_wide and stream.received > STREAM_WINDOW // 2 and not stream.is_ended:
                stream.is_wide = True
                output.widen(stream, BODY_WINDOW - STREAM_WINDOW)
