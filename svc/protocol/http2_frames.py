"""Bytes -> frames of HTTP/2, and how many frames that ask for nothing a peer may send.

h2 gets its input frame by frame from here, because some things have to be decided before it: it would hold a frame of 16 MiB before it refuses its
length, it takes a GOAWAY of the peer for the end of the connection, and it does not count what costs us work and the peer nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"  # RFC 9113 §3.4
FRAME_SIZE_MAX = 16384  # bytes of a frame's content, both ways: what everybody may send unless told more (RFC 9113 §4.2)

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
UNKNOWN = 10  # of whatever type we do not know: to be ignored (RFC 9113 §4.1), PRIORITY_UPDATE of RFC 9218 among them
END_STREAM, ACK, END_HEADERS, PADDED, WITH_PRIORITY = 0x1, 0x1, 0x4, 0x8, 0x20  # flags

# Codes of RST_STREAM and GOAWAY (RFC 9113 §7).
NO_ERROR, PROTOCOL_ERROR, INTERNAL_ERROR, FLOW_CONTROL_ERROR = 0x0, 0x1, 0x2, 0x3
STREAM_CLOSED, FRAME_SIZE_ERROR, REFUSED_STREAM, CANCEL, ENHANCE_YOUR_CALM, HTTP_1_1_REQUIRED = 0x5, 0x6, 0x7, 0x8, 0xB, 0xD

LARGEST_WINDOW = (1 << 31) - 1

_HEAD = Struct(">HBBBL")  # length (24 bits in two parts), type, flags, stream
HEAD_SIZE = 9
_STREAM_BITS = 0x7FFFFFFF


class ConnectionFault(Exception):
    """The peer broke the protocol in a way that ends the connection."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(slots=True)
class Frame:
    type: int  # UNKNOWN for all the standard does not name
    flags: int
    stream_id: int
    raw: bytes  # with its head of nine bytes

    @property
    def size(self) -> int:
        """Bytes of its content."""
        return len(self.raw) - HEAD_SIZE


def encode_frame(type_: int, flags: int, stream_id: int, content: bytes) -> bytes:
    """
    >>> encode_frame(RST_STREAM, 0, 5, bytes(4)).hex(" ")
    '00 00 04 03 00 00 00 00 05 00 00 00 00'
    """
    size = len(content)
    return _HEAD.pack(size >> 8, size & 0xFF, type_, flags, stream_id) + content


def encode_headers(stream_id: int, block: bytes, is_last: bool) -> bytes:
    """HEADERS, and CONTINUATION where one frame is too small for the block."""
    ending = END_STREAM if is_last else 0
    if len(block) <= FRAME_SIZE_MAX:
        return encode_frame(HEADERS, END_HEADERS | ending, stream_id, block)
    pieces = [block[start : start + FRAME_SIZE_MAX] for start in range(0, len(block), FRAME_SIZE_MAX)]
    frames = [encode_frame(HEADERS, ending, stream_id, pieces[0])]
    frames += [encode_frame(CONTINUATION, 0, stream_id, piece) for piece in pieces[1:-1]]
    frames.append(encode_frame(CONTINUATION, END_HEADERS, stream_id, pieces[-1]))
    return b"".join(frames)


def encode_reset(stream_id: int, code: int) -> bytes:
    return encode_frame(RST_STREAM, 0, stream_id, code.to_bytes(4, "big"))


def encode_settings(values: dict[int, int]) -> bytes:
    return encode_frame(SETTINGS, 0, 0, b"".join(code.to_bytes(2, "big") + value.to_bytes(4, "big") for code, value in values.items()))


def encode_goaway(last_stream_id: int, code: int) -> bytes:
    return encode_frame(GOAWAY, 0, 0, last_stream_id.to_bytes(4, "big") + code.to_bytes(4, "big"))


class FrameReader:
    """Holds at most one incomplete frame."""

    __slots__ = ("_data", "_position", "_preface")

    def __init__(self) -> None:
        self._data = b""
        self._position = 0
        self._preface = len(PREFACE)  # bytes of it still to come

    def receive(self, data: bytes) -> None:
        """More input. Whoever calls this then takes `next` until it returns None."""
        self._data = self._data[self._position :] + data if self._position < len(self._data) else data
        self._position = 0

    def next(self) -> Frame | None:
        """The next frame, or None if more bytes are needed. Raises ConnectionFault."""
        data, position = self._data, self._position
        if self._preface:
            return self._read_preface()
        content = position + HEAD_SIZE
        if content > len(data):
            return None
        high, low, type_, flags, stream_id = _HEAD.unpack_from(data, position)
        size = high << 8 | low
        if size > FRAME_SIZE_MAX:
            raise ConnectionFault(FRAME_SIZE_ERROR, f"A frame of {size} bytes, {FRAME_SIZE_MAX} are allowed")
        end = content + size
        if end > len(data):
            return None
        self._position = end
        return Frame(type_ if type_ < UNKNOWN else UNKNOWN, flags, stream_id & _STREAM_BITS, data[position:end])

    def _read_preface(self) -> Frame | None:
        expected = PREFACE[len(PREFACE) - self._preface :]
        found = self._data[: self._preface]
        if not expected.startswith(found):
            raise ConnectionFault(PROTOCOL_ERROR, "The connection does not begin with the preface of HTTP/2")
        self._position = len(found)
        self._preface -= len(found)
        return None if self._preface else self.next()

    @property
    def waits_in_headers(self) -> bool:
        """What it holds began a frame that must be complete soon: all but DATA, which may be as slow as the peer is."""
        if self._preface:
            return True
        held = len(self._data) - self._position
        return held > 0 and (held < 4 or self._data[self._position + 3] != DATA)


# --- floods -----------------------------------------------------------------------------------------------------------------------------

EMPTY_DATA = 11  # DATA without data that does not end its stream
OUR_RESET = 12  # a stream that the peer made us reset (CVE-2025-8671)


@dataclass(frozen=True)
class Allowance:
    """So many frames at once, and so many more with each second that passes."""

    burst: int
    per_second: int
    name: str


# What a well-behaved peer stays far below. Each of these costs us work, and some an answer, without asking for anything.
ALLOWANCES = {
    PRIORITY: Allowance(1000, 100, "PRIORITY"),
    RST_STREAM: Allowance(300, 30, "RST_STREAM"),  # a page given up cancels all that it asked for; CVE-2023-44487 sent thousands a second
    SETTINGS: Allowance(100, 5, "SETTINGS"),
    PUSH_PROMISE: Allowance(1, 0, "PUSH_PROMISE"),
    PING: Allowance(200, 10, "PING"),  # some clients send one with every WINDOW_UPDATE to measure the line
    GOAWAY: Allowance(10, 1, "GOAWAY"),
    WINDOW_UPDATE: Allowance(2000, 100, "WINDOW_UPDATE"),  # and WINDOW_UPDATES_PER_FRAME with each DATA frame of ours
    CONTINUATION: Allowance(200, 20, "CONTINUATION"),  # CVE-2024-27316
    UNKNOWN: Allowance(1000, 100, "unknown"),
    EMPTY_DATA: Allowance(200, 10, "empty DATA"),
    OUR_RESET: Allowance(300, 30, "refused"),
}
WINDOW_UPDATES_PER_FRAME = 2  # a simple client answers each DATA frame with one for the stream and one for the connection


class FrameRateLimiter:
    """How many frames of each kind the peer may still send. DATA with data and HEADERS are not counted here."""

    __slots__ = ("_left",)

    def __init__(self) -> None:
        self._left = [ALLOWANCES[kind].burst if kind in ALLOWANCES else 0 for kind in range(OUR_RESET + 1)]

    def consume(self, kind: int) -> None:
        """One frame of this kind. Raises ConnectionFault if it is one too many."""
        left = self._left[kind] = self._left[kind] - 1
        if left < 0:
            raise ConnectionFault(ENHANCE_YOUR_CALM, f"Too many {ALLOWANCES[kind].name} frames")

    def refill(self, kind: int, count: int) -> None:
        self._left[kind] = min(self._left[kind] + count, ALLOWANCES[kind].burst)

    def tick(self, seconds: int) -> None:
        """Time has passed."""
        for kind, allowance in ALLOWANCES.items():
            self.refill(kind, allowance.per_second * seconds)
