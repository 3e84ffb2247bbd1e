"""The frames of an HTTP/2 stream -> the events of one request. An error in it fails the request, not the connection.

Head and body that come together, in one `receive_data`, are reported as one event, as `Http1` does. So a request begun there waits among the *fresh*
ones until its end has arrived or the input is used up (`report_fresh`).
"""

from __future__ import annotations

from svc.errors import PeerError
from svc.messages import HeaderPairs
from svc.protocol.events import DataReceived, Event, RequestCancelled, RequestEnded, RequestFailed, RequestReceived
from svc.protocol.http1 import Limits
from svc.protocol.http2_fields import DecodedFields
from svc.protocol.http2_flood_limits import OUR_RESET, FrameRateLimiter
from svc.protocol.http2_head import ParsedHead, interpret_head, interpret_trailers
from svc.protocol.http2_stream import Stream
from svc.protocol.request_head import FIELDS_MAX

_HTTP1_FIELD_OVERHEAD = 4  # `: ` and CRLF; HTTP/2 counts 32
_FIELD_OVERHEAD = 32


class RequestReader:
    """Reads the requests of all streams of a connection. Raises ConnectionFault if too many fail."""

    __slots__ = ("_frame_rates", "_fresh", "_limits")

    def __init__(self, limits: Limits, frame_rates: FrameRateLimiter) -> None:
        self._limits = limits
        self._frame_rates = frame_rates
        self._fresh: list[Stream] = []

    @property
    def has_fresh(self) -> bool:
        """A request is begun whose end may be in the rest of the input."""
        return bool(self._fresh) and any(stream.fresh is not None for stream in self._fresh)

    def begin(self, stream_id: int, fields: DecodedFields, is_ended: bool, window: int | None, events: list[Event]) -> Stream:
        """Begin a request with its head. `is_ended`: without a body. `window`: as in `Stream`."""
        try:
            target, head = fields.memo or self._interpret(fields)
        except PeerError as error:
            stream = Stream(stream_id, (b":method", b"HEAD") in fields.pairs, is_ended, window)
            self.fail(stream, error, events)
            return stream
        stream = Stream(stream_id, head.method == "HEAD", is_ended, window)
        if head.protocol:
            stream.is_tunnel = True
            events.append(RequestReceived(stream_id, head.method, target, head.block, "2", b"", False, head.protocol))
            if is_ended:
                events.append(RequestEnded(stream_id, []))
            return stream
        length = stream.content_length = head.content_length
        if is_ended:
            received = RequestReceived(stream_id, head.method, target, head.block, "2", b"")
            if length:
                stream.fresh = received
                self.fail(stream, PeerError("The body is shorter than its Content-Length"), events)
            else:
                events.append(received)
        else:
            stream.waits_for_continue = head.expects_continue
            stream.fresh = RequestReceived(stream_id, head.method, target, head.block, "2", None, head.expects_continue)
            if length is not None and length > self._limits.max_body_size:
                self.fail(stream, self._too_long(), events)
                return stream
            stream.pieces = []
            self._fresh.append(stream)
            events.append(stream.fresh)
        return stream

    def _interpret(self, fields: DecodedFields) -> tuple[str, ParsedHead]:
        """Raises PeerError."""
        limit = self._limits.max_header_size
        size = fields.size - (_FIELD_OVERHEAD - _HTTP1_FIELD_OVERHEAD) * len(fields.pairs)  # so that the limit is that of HTTP/1
        if size > limit:
            if any(name == b":path" and len(value) > limit for name, value in fields.pairs):
                raise PeerError(f"The request line is longer than {limit} bytes", 414)
            raise PeerError(f"The header fields are longer than {limit} bytes", 431)
        if len(fields.pairs) > FIELDS_MAX and sum(name[:1] != b":" for name, _ in fields.pairs) > FIELDS_MAX:
            raise PeerError(f"More than {FIELDS_MAX} header fields", 431)
        memo: tuple[str, ParsedHead] = interpret_head(fields.pairs)
        fields.memo = memo
        return memo

    def _too_long(self) -> PeerError:
        return PeerError(f"The body is longer than {self._limits.max_body_size} bytes", 413)

    def on_data(self, stream: Stream, data: bytes, events: list[Event]) -> None:
        if stream.has_failed:
            return
        stream.received += len(data)
        if stream.is_tunnel:
            events.append(DataReceived(stream.id, data))
        elif stream.received > self._limits.max_body_size:
            self.fail(stream, self._too_long(), events)
        elif stream.content_length is not None and stream.received > stream.content_length:
            self.fail(stream, PeerError("The body is longer than its Content-Length"), events)
        else:
            stream.waits_for_continue = False
            if stream.pieces is not None:
                stream.pieces.append(data)
            else:
                events.append(DataReceived(stream.id, data))

    def on_trailers(self, stream: Stream, fields: DecodedFields, events: list[Event]) -> None:
        stream.is_ended = True
        if stream.has_failed:
            return
        try:
            if fields.size > self._limits.max_header_size:
                raise PeerError(f"The trailers are longer than {self._limits.max_header_size} bytes", 431)
            trailers = interpret_trailers(fields.pairs)
        except PeerError as error:
            self.fail(stream, error, events)
            return
        self.on_end(stream, trailers, events)

    def on_end(self, stream: Stream, trailers: HeaderPairs, events: list[Event]) -> None:
        """The request is complete."""
        stream.is_ended = True
        if stream.has_failed:
            return
        if stream.content_length is not None and stream.received != stream.content_length:
            self.fail(stream, PeerError("The body is shorter than its Content-Length"), events)
            return
        if stream.pieces is not None and not trailers:
            assert stream.fresh is not None
            stream.fresh.body = b"".join(stream.pieces)
            stream.fresh = stream.pieces = None
            return
        self._report_body(stream, events)
        events.append(RequestEnded(stream.id, trailers))

    def fail(self, stream: Stream, error: PeerError, events: list[Event]) -> None:
        stream.has_failed = True
        if stream.fresh is not None:
            # It fails in the call that began it: no event of it is reported, so it is not answered before the error is found.
            error.head = stream.fresh
            events[:] = [event for event in events if event.stream_id != stream.id]  # type: ignore[union-attr]
        stream.fresh = stream.pieces = None
        self._frame_rates.consume(OUR_RESET)
        events.append(RequestFailed(stream.id, error))

    def cancel(self, stream: Stream, events: list[Event]) -> None:
        """The stream was reset: no answer is expected."""
        stream.fresh = stream.pieces = None
        if stream.has_failed:  # which ended it
            return
        # A request that is cancelled in the call that began it is not reported at all. `events` holds only events of streams here.
        own = [event for event in events if event.stream_id == stream.id]  # type: ignore[union-attr]
        if own:
            events[:] = [event for event in events if event.stream_id != stream.id]  # type: ignore[union-attr]
        if not any(type(event) is RequestReceived for event in own):
            events.append(RequestCancelled(stream.id))

    def report_fresh(self, events: list[Event]) -> None:
        """At the end of the input: report the incomplete bodies of fresh requests."""
        for stream in self._fresh:
            self._report_body(stream, events)
        self._fresh.clear()

    @staticmethod
    def _report_body(stream: Stream, events: list[Event]) -> None:
        pieces = stream.pieces
        stream.fresh = stream.pieces = None
        if pieces:
            events.append(DataReceived(stream.id, b"".join(pieces)))
