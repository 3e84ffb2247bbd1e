"""The server's side of a WebSocket after the handshake: bytes -> events, messages and control frames -> bytes (RFC 6455, RFC 7692).

Frames have two lanes, as requests have. A message that is one plain frame, and a plain ping or pong, are read by `websocket_express`. All other
frames go through wsproto: fragments, incomplete frames, compressed messages, close frames, and everything that is wrong. wsproto takes about ten times
as long for a small message, and holds some 3 KiB; it exists only while a message is being collected, so an idle connection has none.

wsproto is fed frame by frame. The driver reads each header too, but only to know where the frame ends and, before any of it is collected, whether the
message would be larger than `max_payload`. Fragments are collected in one buffer, whatever their sizes.

The work of one call is bounded by FRAMES_A_BATCH; `is_behind` says that `next_events` has more. The owner handles events later
than they are reported, so the owner decides when a ping or a close frame is answered: after the answers to the messages before it. While the peer
does not read (`holds_pongs`), only the latest ping is remembered (RFC 6455 §5.5.3).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from svc.protocol.websocket_deflate import RATIO, Agreement, DeflateOptions, Deflater, negotiate
from svc.protocol.websocket_express import recognise_message, recognise_ping
from svc.protocol.websocket_frames import (
    BINARY,
    CLOSE,
    CONTINUATION,
    FIN,
    HEADER_MAX,
    LOST,
    NO_STATUS,
    PING,
    PONG,
    TEXT,
    cut,
    encode_close,
    encode_control,
    encode_frame,
    maybe_read_head,
)
from svc.protocol.websocket_states import (
    TRANSITIONS,
    CloseReceived,
    Event,
    PingReceived,
    PongReceived,
    ProtocolFailed,
    WebSocketInput,
    WebSocketState,
)

if TYPE_CHECKING:
    from wsproto.connection import Connection

    from svc.protocol.websocket_inflate import Inflater

__all__ = [
    "LOST",
    "MAX_PAYLOAD",
    "NO_STATUS",
    "Agreement",
    "CloseReceived",
    "DeflateOptions",
    "Event",
    "PingReceived",
    "PongReceived",
    "ProtocolFailed",
    "WebSocketProtocol",
    "WebSocketState",
    "encode_frame",
    "negotiate",
]

MAX_PAYLOAD = 100 * 1024 * 1024  # bytes of a message (spec: realtime §2)
FRAMES_A_BATCH = 32  # less than a millisecond of work, and as many messages for an application
EMPTY_FRAGMENTS = 100  # of one message: they cost work without adding data
INFLATED_A_FRAME = 16 * 1024  # bytes inflated that count as one more frame of a batch
COMPRESSED_PIECE = 4 * 1024  # compressed bytes inflated in one call: at most 4 MiB of output
_PING_FRAME = encode_control(PING)

_DATA = frozenset((CONTINUATION, TEXT, BINARY))

PROTOCOL_ERROR = 1002
INVALID_DATA = 1007
POLICY = 1008
TOO_BIG = 1009


class WebSocketProtocol:
    """The protocol of one WebSocket connection, without I/O: `receive_data`, `next_events`, `data_to_send`."""

    __slots__ = (
        "_collected", "_deflater", "_empty_fragments", "_end_code", "_end_reason", "_held", "_held_ping", "_in_frame", "_in_message",
        "_inflater", "_is_last", "_is_too_big", "_max_payload", "_out", "_payload", "_size", "_wsproto", "holds_pongs", "is_behind",
        "state",
    )  # fmt: skip

    def __init__(self, max_payload: int = MAX_PAYLOAD, deflate: Agreement | None = None) -> None:
        self._max_payload = max_payload
        self._deflater = None if deflate is None else Deflater(deflate)
        self._inflater: Inflater | None = None
        if deflate is not None:
            from svc.protocol.websocket_inflate import Inflater

            self._inflater = Inflater(deflate, max_payload)
        self._wsproto: Connection | None = None
        self.state = WebSocketState.OPEN
        self.is_behind = False  # `next_events` has more events
        self.holds_pongs = False  # set by the owner: the peer does not read its output
        self._held = b""  # input that waits for its turn, or for the rest of a header
        self._held_ping: bytes | None = None
        self._end_code = NO_STATUS  # of the peer's close frame, or of its error
        self._end_reason = ""
        self._out: list[bytes] = []
        # The frame wsproto is being fed:
        self._in_frame = False
        self._payload = 0  # bytes still to come
        self._is_last = False  # ... it ends its message
        # The message it is part of:
        self._in_message = False  # between two fragments, or in one
        self._size = 0  # bytes of payload that its headers announced so far
        self._empty_fragments = 0
        self._is_too_big = False
        self._collected = bytearray()

    @property
    def collected(self) -> int:
        """Bytes held of a message that is not complete."""
        return len(self._collected)

    def limit(self, max_payload: int) -> None:
        """The maximum size of messages from now on. Not within one."""
        self._max_payload = max_payload
        if self._inflater is not None:
            self._inflater.limit(max_payload)

    # --- input ---------------------------------------------------------------------------------------------------------------------

    def receive_data(self, data: bytes) -> list[Event]:
        """Bytes from the peer. Reports a batch; more may wait for `next_events`."""
        if self._held:
            data = self._held + data
            self._held = b""
        elif not self._in_message and not self._in_frame and self.state is WebSocketState.OPEN:
            # The fastest case of the express lane: exactly one message.
            found = recognise_message(data, 0, self._max_payload)
            if found is not None and found[1] == len(data):
                return [found[0]]
        return self._read(data)

    def next_events(self) -> list[Event]:
        """The events of the next batch of frames."""
        data, self._held = self._held, b""
        return self._read(data)

    def receive_eof(self) -> None:
        """The peer will send nothing more, or the carrier is gone."""
        self._advance(WebSocketInput.END)
        self._forget()

    def _read(self, data: bytes) -> list[Event]:
        events: list[Event] = []
        position, end = 0, len(data)
        frames = FRAMES_A_BATCH
        self.is_behind = False
        while position < end and self.state < WebSocketState.ENDING:
            if frames <= 0:
                self.is_behind = True
                break
            frames -= 1
            if not self._in_frame:
                if not self._in_message and (message := recognise_message(data, position, self._max_payload)) is not None:
                    position = message[1]
                    if self.state is WebSocketState.OPEN:
                        events.append(message[0])
                    continue
                if (ping := recognise_ping(data, position)) is not None:
                    position = ping[2]
                    self._on_ping(ping[0], ping[1], events)
                    continue
                head = maybe_read_head(data, position)
                if head is None:
                    break
                payload = position + head[0]
                self._begin_frame(data[position], head[1])
            else:
                payload = position
            # Of a frame that is too large only the header: wsproto validates it first.
            stop = payload if self._is_too_big else min(payload + self._payload, end)
            inflater = self._inflater
            if inflater is None:
                self._feed(data[position:stop], stop - payload, events)
            else:
                stop = min(stop, payload + COMPRESSED_PIECE)
                before = inflater.inflated
                self._feed(data[position:stop], stop - payload, events)
                frames -= (inflater.inflated - before) // INFLATED_A_FRAME
            position = stop
        if self.state < WebSocketState.ENDING and position < end:
            self._held = data[position:]
        return events

    def _begin_frame(self, first: int, length: int) -> None:
        """Begin a frame with this first byte and `payload` bytes."""
        self._in_frame = True
        self._payload = length
        self._is_last = False
        if first & 0x0F in _DATA:
            self._in_message = True
            self._is_last = bool(first & FIN)
            self._size += length
            self._is_too_big = self._size > self._max_payload
            if not length:
                self._empty_fragments += 1
        if self._wsproto is None:
            from wsproto.connection import Connection, ConnectionType  # as below: most peers send what the express lane takes

            self._wsproto = Connection(ConnectionType.SERVER, None if self._inflater is None else [self._inflater])

    def _feed(self, data: bytes, payload: int, events: list[Event]) -> None:
        """Give wsproto some of the current frame, its header as a whole. `payload`: how many of these bytes are payload."""
        from wsproto.connection import ConnectionState
        from wsproto.events import BytesMessage, CloseConnection, Ping, Pong, TextMessage

        wsproto = self._wsproto
        assert wsproto is not None
        self._payload -= payload
        wsproto.receive_data(data)
        for event in wsproto.events():
            kind = type(event)
            if kind is TextMessage or kind is BytesMessage:
                self._on_piece(event.data, event.message_finished, events)  # type: ignore[attr-defined]
            elif kind is Ping:
                self._on_ping(PING, bytes(event.payload), events)  # type: ignore[attr-defined]
            elif kind is Pong:
                self._on_ping(PONG, bytes(event.payload), events)  # type: ignore[attr-defined]
            elif kind is CloseConnection:
                code, reason = int(event.code), event.reason or ""  # type: ignore[attr-defined]
                if wsproto.state is ConnectionState.OPEN:  # wsproto reports a protocol error this way
                    self._fail(code, reason, events)
                else:
                    self._on_close(code, reason, events)
                return
        if self._is_too_big:
            self._fail(TOO_BIG, "", events)
        elif not self._payload:
            self._in_frame = False
            if self._is_last:
                self._in_message = self._is_last = False
                self._size = self._empty_fragments = 0
            elif self._empty_fragments > EMPTY_FRAGMENTS:
                self._fail(POLICY, "Too many empty fragments", events)
            if not self._in_message:
                self._wsproto = None

    # --- what wsproto found ----------------------------------------------------------------------------------------------------------

    def _on_piece(self, data: str | bytes, is_complete: bool, events: list[Event]) -> None:
        if self.state is not WebSocketState.OPEN:
            return
        collected = self._collected
        if is_complete and not collected:
            events.append(data)
            return
        # As bytes, also for text messages: pieces of a string may take far more memory.
        collected += data.encode() if isinstance(data, str) else data
        if is_complete:
            events.append(collected.decode() if isinstance(data, str) else bytes(collected))
            self._collected = bytearray()

    def _on_ping(self, opcode: int, payload: bytes, events: list[Event]) -> None:
        events.append(PongReceived(payload) if opcode == PONG else PingReceived(payload))

    def _on_close(self, code: int, reason: str, events: list[Event]) -> None:
        self._end_code, self._end_reason = code, ""
        self._advance(WebSocketInput.HEAR_CLOSE)
        self._forget()
        events.append(CloseReceived(code, reason))

    def _fail(self, code: int, reason: str, events: list[Event]) -> None:
        # The same reason, wherever the error was found and however the input was cut.
        if code == TOO_BIG:
            reason = f"A message may have {self._max_payload} bytes"
            if self._inflater is not None:
                reason += f", a compressed one {RATIO} for each that is sent"
        elif code == INVALID_DATA:
            reason = "Invalid data"
        self.fail(code, reason)
        events.append(ProtocolFailed(code, reason))

    def _forget(self) -> None:
        """Stop reading."""
        self._wsproto = None
        self._in_frame = self._in_message = self._is_too_big = False
        self._payload = 0
        self._held = b""
        self._collected = bytearray()
        self.is_behind = False

    def _advance(self, input: WebSocketInput) -> None:
        self.state = TRANSITIONS[self.state].get(input, WebSocketState.ERROR)
        assert self.state is not WebSocketState.ERROR, input

    # --- output --------------------------------------------------------------------------------------------------------------------

    def encode(self, message: str | bytes) -> bytes:
        """The frame of a message for this peer, compressed if that was agreed upon. Others may get `encode_frame` as well."""
        return encode_frame(message) if self._deflater is None else self._deflater.encode(message)

    @property
    def can_send(self) -> bool:
        """Whether messages may still be sent."""
        return self.state is WebSocketState.OPEN or self.state is WebSocketState.ENDING

    def ping(self) -> None:
        if self.state is WebSocketState.OPEN:
            self._out.append(_PING_FRAME)

    def release_pongs(self) -> None:
        """The peer reads its output again."""
        self.holds_pongs = False
        payload, self._held_ping = self._held_ping, None
        if payload is not None:
            self.pong(payload)

    def pong(self, payload: bytes) -> None:
        """Answer a ping."""
        if self.can_send:
            if self.holds_pongs:
                self._held_ping = payload
            else:
                self._out.append(encode_control(PONG, payload))

    def close(self, code: int = 1000, reason: str = "") -> None:
        """Send a close frame. Only while the peer has sent none, and broke nothing. Raises ValueError for a code that is never sent."""
        frame = encode_close(code, reason)
        self._advance(WebSocketInput.SAY_CLOSE)
        self._out.append(frame)
        self._collected = bytearray()

    def answer_close(self) -> None:
        """Send the close frame that answers the peer's, with its code, or that reports its error."""
        frame = (
            encode_control(CLOSE)
            if self._end_code == NO_STATUS
            else encode_control(CLOSE, self._end_code.to_bytes(2) + cut(self._end_reason))
        )
        self._advance(WebSocketInput.SAY_CLOSE)
        self._out.append(frame)

    def fail(self, code: int, reason: str) -> None:
        """The peer broke the protocol, or exceeded a limit: stop reading."""
        self._end_code, self._end_reason = code, reason
        self._advance(WebSocketInput.FAULT)
        self._forget()

    def data_to_send(self) -> bytes:
        """The output since the last call: pongs, pings, the close frame. The owner writes messages itself."""
        out = self._out
        if not out:
            return b""
        data = out[0] if len(out) == 1 else b"".join(out)
        out.clear()
        return data

    def check(self) -> None:
        """Assert the invariants between two calls."""
        assert self._in_frame or self._payload == 0
        assert self.state is WebSocketState.OPEN or not self._collected
        assert len(self._collected) <= self._max_payload
        if self.state >= WebSocketState.ENDING:
            assert not self._held and not self._in_frame and self._wsproto is None and not self.is_behind
        elif not self._in_frame and not self._in_message:
            assert self._wsproto is None and self._size == 0 and not self._collected
        assert self.is_behind or self._in_frame or len(self._held) < HEADER_MAX

    def __repr__(self) -> str:
        return f"<WebSocketProtocol {self.state.name}{' in a message' if self._in_message else ''}>"
