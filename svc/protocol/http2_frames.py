"""Frames of HTTP/2: cutting the input into frames, and encoding those that h2 does not write (RFC 9113 §4, §6).

h2 gets its input frame by frame from `FrameReader`, because some decisions come before h2: it would buffer a frame of 16 MiB before it refuses its
length, it takes a GOAWAY of the peer for the end of the connection, and it does not count frames (`http2_flood_limits`).
"""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"  # RFC 9113 §3.4
FRAME_SIZE_MAX = 16384  # bytes of a frame's content, both ways: the default of SETTINGS_MAX_FRAME_SIZE (RFC 9113 §4.2)

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
UNKNOWN = 10  # any other type: ignored (RFC 9113 §4.1), PRIORITY_UPDATE of RFC 9218 among them
END_STREAM, ACK, END_HEADERS, PADDED, WITH_PRIORITY = 0x1, 0x1, 0x4, 0x8, 0x20  # flags

# Codes of RST_STREAM and GOAWAY (RFC 9113 §7).
NO_ERROR, PROTOCOL_ERROR, INTERNAL_ERROR, FLOW_CONTROL_ERROR = 0x0, 0x1, 0x2, 0x3
STREAM_CLOSED, FRAME_SIZE_ERROR, REFUSED_STREAM, CANCEL, ENHANCE_YOUR_CALM, HTTP_1_1_REQUIRED = 0x5, 0x6, 0x7, 0x8, 0xB, 0xD

LARGEST_WINDOW = (1 << 31) - 1

_HEAD = Struct(">HBBBL")  # length (24 bits in two parts), type, flags, stream
HEAD_SIZE = 9
_STREAM_BITS = 0x7FFFFFFF
_PRIORITY_SIZE = 5


class ConnectionFault(Exception):
    """A protocol error of the peer that ends the connection (GOAWAY with `code`)."""

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

    @property
    def content(self) -> bytes | None:
        """Of DATA, HEADERS and CONTINUATION: its data or its piece of a block, without padding and priority. None: these have no room."""
        raw = self.raw
        start, end = HEAD_SIZE, len(raw)
        if self.flags & PADDED and self.type != CONTINUATION:
            if start == end or raw[start] >= end - start:
                return None
            end -= raw[start]
            start += 1
        if self.flags & WITH_PRIORITY and self.type == HEADERS:
            start += _PRIORITY_SIZE
            if start > len(raw):
                return None
        return raw[start:end]

    def clear_reserved_bit(self) -> None:
        """Of WINDOW_UPDATE: the receiver has to ignore the bit (RFC 9113 §6.9), and h2 takes it for a part of the increment."""
        raw = self.raw
        if len(raw) > HEAD_SIZE and raw[HEAD_SIZE] & 0x80:
            self.raw = raw[:HEAD_SIZE] + bytes((raw[HEAD_SIZE] & 0x7F,)) + raw[HEAD_SIZE + 1 :]

    @property
    def depends_on_itself(self) -> bool:
        """Of HEADERS whose content is not None."""
        if not self.flags & WITH_PRIORITY:
            return False
        start = HEAD_SIZE + bool(self.flags & PADDED)
        return int.from_bytes(self.raw[start : start + 4], "big") & _STREAM_BITS == self.stream_id


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


def encode_answer(stream_id: int, block: bytes, body: bytes) -> bytes:
    """HEADERS and DATA, each in one frame. `body`: of a length that one has room for; b"": there is no DATA."""
    length, size = len(block), len(body)
    if not size or length > FRAME_SIZE_MAX:
        head = encode_headers(stream_id, block, not size)
        return head + encode_frame(DATA, END_STREAM, stream_id, body) if size else head
    head = _HEAD.pack(length >> 8, length & 0xFF, HEADERS, END_HEADERS, stream_id)
    return b"%b%b%b%b" % (head, block, _HEAD.pack(size >> 8, size & 0xFF, DATA, END_STREAM, stream_id), body)


def encode_reset(stream_id: int, code: int) -> bytes:
    return encode_frame(RST_STREAM, 0, stream_id, code.to_bytes(4, "big"))


def encode_window_update(stream_id: int, increment: int) -> bytes:
    """`stream_id` 0: of the connection."""
    return encode_frame(WINDOW_UPDATE, 0, stream_id, increment.to_bytes(4, "big"))


def encode_settings(values: dict[int, int]) -> bytes:
    return encode_frame(SETTINGS, 0, 0, b"".join(code.to_bytes(2, "big") + value.to_bytes(4, "big") for code, value in values.items()))


def encode_goaway(last_stream_id: int, code: int) -> bytes:
    return encode_frame(GOAWAY, 0, 0, last_stream_id.to_bytes(4, "big") + code.to_bytes(4, "big"))


class FrameReader:
    """Cuts the input into frames. Holds at most one incomplete frame."""

    __slots__ = ("_data", "_position", "_preface")

    def __init__(self) -> None:
        self._data = b""
        self._position = 0
        self._preface = len(PREFACE)  # bytes of it still to come

    def receive(self, data: bytes) -> None:
        """Add input. The caller then calls `next` until it returns None."""
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
        """The buffer holds the beginning of a frame that must be complete soon: any but DATA, which may be as slow as the peer."""
        if self._preface:
            return True
        held = len(self._data) - self._position
        return held > 0 and (held < 4 or self._data[self._position + 3] != DATA)
