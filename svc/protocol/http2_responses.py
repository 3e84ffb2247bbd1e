"""The answers of an HTTP/2 connection: what the caller says about a stream -> frames in `http2_output` (RFC 9113 §8.1).

`respond` sends a whole answer; `begin_response`, `send_body` and `end_response` send one piece by piece. Calls for a stream that is gone (reset by the
peer, or answered) do nothing.
"""

from __future__ import annotations

from svc.errors import PeerError
from svc.messages import HeaderPairs
from svc.protocol.http2_fields import CONTENT_LENGTH, DATE, FieldEncoder
from svc.protocol.http2_frames import CANCEL, INTERNAL_ERROR, NO_ERROR, PROTOCOL_ERROR
from svc.protocol.http2_output import Output
from svc.protocol.http2_setup import ServerConnection
from svc.protocol.http2_stream import ANSWERED, ANSWERING, UNANSWERED, Stream


class Http2Responses:
    """The sending half of the driver; `Http2` adds the receiving half. A base class, so that no call is handed on.

    Raises ValueError as `Http1` does: for a status, field name or field value that cannot be sent, before anything of that answer is written.
    """

    __slots__ = ("_acknowledge", "_answers", "_conn", "_encoder", "_output", "_streams", "finished")

    def __init__(self, conn: ServerConnection, encoder: FieldEncoder) -> None:
        self._conn = conn
        self._encoder = encoder
        self._output = Output(conn, encoder)
        self._streams: dict[int, Stream] = {}  # not yet answered
        self._acknowledge: dict[int, Stream] = {}  # have received bytes to acknowledge with the next output
        self.finished: list[int] = []  # streams whose answer is complete in the output; the caller removes them
        self._answers = 0  # answers completed since the last `data_to_send`

    def send_continue(self, stream_id: int) -> None:
        """Send 100 Continue, if the peer still waits for it."""
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

        Raises ValueError for what cannot be a trailer, and if the announced length is not reached; the stream is then reset.
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
            # RFC 9113 §8.1.1: a malformed request may be answered before its stream is reset for it. Then the answer does not end the stream: a
            # stream that both sides have ended cannot be reset.
            stream.reset_code = PROTOCOL_ERROR if error.status_code == 400 else NO_ERROR
            self.respond(stream_id, error.status_code, pairs, body, date)
        elif stream.answer == ANSWERING:
            self.reset(stream_id, PROTOCOL_ERROR)

    def reset(self, stream_id: int, code: int = CANCEL) -> None:
        """Reset the stream; unsent bytes are discarded."""
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
        """Bytes of all answers that wait for the peer's windows or for their turn."""
        return self._output.buffered

    def sent(self, stream_id: int) -> int:
        """Bytes of the answer's body that are framed. Grows while the peer reads."""
        stream = self._streams.get(stream_id)
        return 0 if stream is None else stream.sent

    def _begin_answer(self, stream_id: int, status: int) -> Stream | None:
        if status < 200 or status > 999:
            raise ValueError(f"not a final status: {status}")
        stream = self._streams.get(stream_id)
        assert stream is None or stream.answer == UNANSWERED, "answered twice"
        return stream

    def _finish(self, stream: Stream) -> None:
        """The answer is complete in the output. The stream is reset if the rest of the request is not needed (RFC 9113 §8.1) or it was malformed."""
        stream_id = stream.id
        del self._streams[stream_id]
        self.finished.append(stream_id)
        self._answers += 1
        if stream.reset_code or (not stream.is_ended and not stream.is_accepted):  # the peer ends its half of a tunnel by itself
            self._output.reset(stream, stream.reset_code)
        self._settle(stream)

    def _forget(self, stream: Stream) -> None:
        """Remove a stream that was reset."""
        del self._streams[stream.id]
        self._output.forget(stream)
        self._settle(stream)

    def _settle(self, stream: Stream) -> None:
        """Acknowledge the bytes that the stream had not acknowledged, which opens the connection's window."""
        if stream.unacknowledged:
            self._acknowledge.pop(stream.id, None)
            self._output.give_back(stream, stream.unacknowledged, is_over=True)
            stream.unacknowledged = 0


def _numeral(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdigit() else None
