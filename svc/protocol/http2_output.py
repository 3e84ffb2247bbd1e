"""The output of an HTTP/2 connection: answers wait here for the peer's windows and leave in turns of one frame.

Frames of streams that h2 knows are made by h2. Those of the express lane (`http2`) are made here, with h2's accounting of the connection's window
and of the HPACK table, so both are sent in the order in which they were made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from svc.messages import HeaderPairs
from svc.protocol.http2_fields import FieldEncoder
from svc.protocol.http2_frames import (
    DATA,
    END_STREAM,
    FRAME_SIZE_MAX,
    LARGEST_WINDOW,
    encode_frame,
    encode_headers,
    encode_reset,
    encode_window_update,
)
from svc.protocol.http2_stream import ANSWERED, Stream

if TYPE_CHECKING:
    from svc.protocol.http2_setup import ServerConnection

OUTPUT_MAX = 256 * 1024  # bytes of bodies framed in one call, so that a small answer does not wait for a large one

_INFORMATIONAL = [(b":status", b"100")]  # tells h2 that the answer follows later; the encoder writes the real status


class Output:
    """Frames made and not yet collected, and the streams that wait to send, of one connection."""

    __slots__ = ("_blocked", "_conn", "_encoder", "_out", "_ready", "buffered", "finished", "from_h2", "full_frames")

    def __init__(self, conn: ServerConnection, encoder: FieldEncoder) -> None:
        self._conn = conn
        self._encoder = encoder
        self._out: list[bytes] = []
        self.from_h2 = True  # h2 may have made frames that are not in `_out` yet
        self._ready: list[Stream] = []  # with something to send; a deque would take 0.7 KB of each idle connection, and this is never long
        self._blocked: dict[int, Stream] = {}  # ... and no window for it
        self.buffered = 0  # bytes of all answers that wait for windows, or their turn
        self.finished: list[Stream] = []  # their answers are complete
        self.full_frames = 0  # DATA frames made, without those that the peer's windows cut short

    # --- frames --------------------------------------------------------------------------------------------------------------------

    def write(self, frame: bytes) -> None:
        """A frame that is not h2's, after all that h2 has made so far."""
        if self.from_h2:
            self.from_h2 = False
            self._out.append(self._conn.data_to_send())
        self._out.append(frame)

    def send_head(self, stream: Stream, status: int, pairs: HeaderPairs, is_last: bool) -> None:
        """`pairs`: checked by the encoder. `status` 0: trailers."""
        self._encoder.load(status, pairs)
        if stream.window is None:
            self._conn.send_headers(stream.id, _INFORMATIONAL if 0 < status < 200 else (), is_last)
            self.from_h2 = True
        else:
            self.write(encode_headers(stream.id, self._encoder.encode(()), is_last))

    def send_whole_body(self, stream: Stream, body: bytes) -> bool:
        """The body in one frame, after the head, if the windows allow it now and no other stream is queued."""
        size = len(body)
        if self._ready or size > FRAME_SIZE_MAX or size > self._room(stream):
            return False
        self.full_frames += 1
        self._send_data(stream, body, not stream.reset_code)
        return True

    def reset(self, stream: Stream, code: int) -> None:
        if stream.window is None:
            self._conn.reset_stream(stream.id, code)
            self.from_h2 = True
        else:
            self.write(encode_reset(stream.id, code))
            self._conn.note_reset(stream.id)

    def give_back(self, stream: Stream, size: int, is_over: bool) -> None:
        """`size` bytes of a request's body are used, padding included: open the connection's window, and the stream's unless it `is_over`.

        A window is announced when half of it is used, as h2 does, so that a small body costs no frame.
        """
        if stream.window is None:
            self._conn.acknowledge_received_data(size, stream.id)
            self.from_h2 = True
            return
        if increment := self._conn.give_back_window(size):
            self.write(encode_window_update(0, increment))
        window = stream.intake_window
        if window is not None and not is_over and not stream.is_ended and (opened := window.process_bytes(size)):
            self.write(encode_window_update(stream.id, opened))

    def widen(self, stream: Stream, increment: int) -> None:
        """Make the window for the body of a stream larger."""
        if stream.window is None:
            self._conn.increment_flow_control_window(increment, stream.id)
            self.from_h2 = True
        elif stream.intake_window is not None:
            stream.intake_window.window_opened(increment)
            self.write(encode_window_update(stream.id, increment))

    def _room(self, stream: Stream) -> int:
        window = stream.window
        if window is None:
            return self._conn.local_flow_control_window(stream.id)
        return min(window, self._conn.outbound_flow_control_window)

    def _send_data(self, stream: Stream, data: bytes, is_last: bool) -> None:
        if stream.window is None:
            self._conn.send_data(stream.id, data, is_last)
            self.from_h2 = True
        else:
            stream.window -= len(data)
            self._conn.outbound_flow_control_window -= len(data)
            self.write(encode_frame(DATA, END_STREAM if is_last else 0, stream.id, data))

    # --- waiting -------------------------------------------------------------------------------------------------------------------

    def put(self, stream: Stream, data: bytes) -> None:
        stream.put(data)
        self.buffered += len(data)
        self.queue(stream)

    def queue(self, stream: Stream) -> None:
        """Queue a stream that has something to send, if only its end."""
        if not stream.is_queued and stream.id not in self._blocked:
            stream.is_queued = True
            self._ready.append(stream)

    @property
    def is_ready(self) -> bool:
        return bool(self._ready)

    def pump(self) -> None:
        """One frame of each stream in turn, until there is enough output or no window. Complete streams go to `finished`."""
        ready = self._ready
        room = OUTPUT_MAX
        while ready and room > 0:
            stream = ready.pop(0)
            stream.is_queued = False
            if stream.buffered:
                size = min(self._room(stream), FRAME_SIZE_MAX)
                if size <= 0:
                    self._blocked[stream.id] = stream
                    continue
                data = stream.take(size)
                self.buffered -= len(data)
                room -= len(data)
                is_last = stream.answer == ANSWERED and not stream.buffered and not stream.trailers
                if is_last or len(data) >= FRAME_SIZE_MAX // 2:
                    self.full_frames += 1
                self._send_data(stream, data, is_last and not stream.reset_code)
                if is_last:
                    self.finished.append(stream)
                    continue
                if stream.buffered:
                    self.queue(stream)
                    continue
            if stream.answer != ANSWERED:
                continue
            if stream.trailers:
                self.send_head(stream, 0, stream.trailers, True)
            elif not stream.reset_code:
                self._send_data(stream, b"", True)
            self.finished.append(stream)

    def forget(self, stream: Stream) -> None:
        """Forget a stream that was reset: `pump` skips it."""
        self._blocked.pop(stream.id, None)
        self.buffered -= stream.buffered
        stream.buffered = 0
        stream.chunks = None
        stream.answer = -1

    def forget_all(self) -> None:
        self._ready.clear()
        self._blocked.clear()
        self.buffered = 0

    # --- windows of the peer ---------------------------------------------------------------------------------------------------------

    def on_window(self, stream_id: int) -> None:
        """The window of this stream, or (0) of the connection, has grown."""
        blocked = self._blocked
        if stream_id:
            stream = blocked.pop(stream_id, None)
            if stream is not None:
                self.queue(stream)
        elif blocked:
            self._blocked = {}
            for stream in blocked.values():
                self.queue(stream)

    def enlarge(self, stream: Stream, increment: int) -> bool:
        """WINDOW_UPDATE of a stream in the express lane. False: the window would exceed 2^31-1."""
        assert stream.window is not None
        if stream.window + increment > LARGEST_WINDOW:
            return False
        stream.window += increment
        self.on_window(stream.id)
        return True

    # --- for the driver ------------------------------------------------------------------------------------------------------------

    def collect(self) -> bytes:
        """All frames since the last call."""
        out = self._out
        if self.from_h2:
            self.from_h2 = False
            data = self._conn.data_to_send()
            if not out:
                return data
            out.append(data)
        if not out:
            return b""
        data = out[0] if len(out) == 1 else b"".join(out)
        out.clear()
        return data

    def is_waiting(self, stream: Stream) -> bool:
        return stream.is_queued or stream.id in self._blocked

    def check(self, streams: dict[int, Stream]) -> None:
        """Assert what holds between two calls."""
        for stream in self._blocked.values():
            assert streams.get(stream.id) is stream, stream
        assert not self.finished
        buffered = 0
        for stream in streams.values():
            buffered += stream.buffered
            assert stream.buffered == sum(map(len, stream.chunks or ())) - stream.offset, stream
            assert self.is_waiting(stream) or not (stream.buffered or stream.answer == ANSWERED), stream
        assert self.buffered == buffered, self.buffered
