"""WebSocket frames (RFC 6455 §5): encoding, and the length of a frame that is read. Pure functions; wsproto validates the input.

     0               1               2 ...
    +-+-+-+-+-------+-+-------------+------------------------------+-------------+---------+
    |F|R|R|R| opcode|M| length      | longer length: 2 bytes (126) | masking key | payload |
    |I|S|S|S|  (4)  |A|    (7)      |                8 bytes (127) | 4 bytes, if |         |
    |N|V|V|V|       |S|             | in network order             | M(ASK) = 1  |         |
    +-+-+-+-+-------+-+-------------+------------------------------+-------------+---------+

A server's frames are not masked, so one frame's bytes can be sent to many peers.
"""

from __future__ import annotations

from typing import Final

CONTINUATION: Final = 0x0
TEXT: Final = 0x1
BINARY: Final = 0x2
CLOSE: Final = 0x8
PING: Final = 0x9
PONG: Final = 0xA

FIN: Final = 0x80
RSV1: Final = 0x40  # the message is compressed (RFC 7692)
MASK: Final = 0x80

SHORT_MAX: Final = 125  # bytes of payload whose number fits into the second byte; more are not allowed in a control frame
TWO_BYTES: Final = 126
EIGHT_BYTES: Final = 127
HEADER_MAX: Final = 14  # bytes of the longest header

NO_STATUS: Final = 1005  # a close frame without a code; never on the wire
LOST: Final = 1006  # no close frame came; never on the wire
REASON_MAX: Final = SHORT_MAX - 2

# Codes that may be sent (RFC 6455 §7.4 and the IANA registry): 1004 is undefined, 1005, 1006 and 1015 are never sent, 1010 is a client's.
_SENDABLE: Final = frozenset((1000, 1001, 1002, 1003, 1007, 1008, 1009, 1011, 1012, 1013, 1014))

_TEXT_HEADS: Final = [bytes((FIN | TEXT, length)) for length in range(SHORT_MAX + 1)]
_BINARY_HEADS: Final = [bytes((FIN | BINARY, length)) for length in range(SHORT_MAX + 1)]
_TRANSLATIONS: Final = [bytes(byte ^ key for byte in range(256)) for key in range(256)]
_SMALL: Final = 1024  # bytes up to which exclusive or of two integers is faster than four translations: measured


def encode_frame(message: str | bytes) -> bytes:
    """A message as one frame, complete, for any number of receivers. Raises UnicodeEncodeError for a string with lone surrogates.

    >>> encode_frame("Hello"), encode_frame(b"")
    (b'\\x81\\x05Hello', b'\\x82\\x00')
    """
    if type(message) is str:
        payload = message.encode()
        if len(payload) <= SHORT_MAX:
            return _TEXT_HEADS[len(payload)] + payload
        return encode_head(FIN | TEXT, len(payload)) + payload
    if isinstance(message, str):
        return encode_frame(str(message))
    length = len(message)
    return (_BINARY_HEADS[length] if length <= SHORT_MAX else encode_head(FIN | BINARY, length)) + message


def encode_head(first: int, length: int) -> bytes:
    """The header of a frame that is not masked. `first`: its first byte.

    >>> encode_head(0x82, 126), encode_head(0x82, 65536)
    (b'\\x82~\\x00~', b'\\x82\\x7f\\x00\\x00\\x00\\x00\\x00\\x01\\x00\\x00')
    """
    if length <= SHORT_MAX:
        return bytes((first, length))
    if length < 1 << 16:
        return bytes((first, TWO_BYTES)) + length.to_bytes(2)
    return bytes((first, EIGHT_BYTES)) + length.to_bytes(8)


def encode_control(opcode: int, payload: bytes = b"") -> bytes:
    if len(payload) > SHORT_MAX:
        raise ValueError(f"{len(payload)} bytes do not fit into a control frame")
    return bytes((FIN | opcode, len(payload))) + payload


def encode_close(code: int, reason: str = "") -> bytes:
    """A close frame; NO_STATUS: one without a code. A longer reason is cut at a character. Raises ValueError for a code that is never sent.

    >>> encode_close(1000, "done"), encode_close(1005)
    (b'\\x88\\x06\\x03\\xe8done', b'\\x88\\x00')
    """
    if code == NO_STATUS:
        return encode_control(CLOSE)
    if not is_sendable(code):
        raise ValueError(f"{code} is not a code to close a WebSocket with: give 1000 or another registered one, or one from 3000 to 4999")
    return encode_control(CLOSE, code.to_bytes(2) + cut(reason))


def is_sendable(code: int) -> bool:
    return code in _SENDABLE or 3000 <= code <= 4999


def cut(reason: str) -> bytes:
    """As much of a reason as fits into a close frame, in UTF-8, cut between characters. Half characters become question marks.

    >>> len(cut("x" * 200)), cut("é" * 100) == ("é" * 61).encode()
    (123, True)
    """
    return reason[:REASON_MAX].encode(errors="replace")[:REASON_MAX].decode(errors="ignore").encode()


def maybe_read_head(data: bytes, position: int) -> tuple[int, int] | None:
    """(bytes of the header at `position`, bytes of the payload after it); None: not all of the header is here. Judges nothing."""
    here = len(data) - position
    if here < 2:
        return None
    second = data[position + 1]
    size = 6 if second & MASK else 2
    length = second & 0x7F
    if length == TWO_BYTES:
        size += 2
    elif length == EIGHT_BYTES:
        size += 8
    if here < size:
        return None
    if length == TWO_BYTES:
        length = int.from_bytes(data[position + 2 : position + 4])
    elif length == EIGHT_BYTES:
        length = int.from_bytes(data[position + 2 : position + 10])
    return size, length


def unmask(payload: bytes, key: bytes) -> bytes:
    """Apply a masking key of 4 bytes; applied again, it undoes that (RFC 6455 §5.3).

    >>> unmask(bytes.fromhex("7f9f4d5158"), bytes.fromhex("37fa213d"))
    b'Hello'
    """
    length = len(payload)
    if length <= _SMALL:
        keys = (key * ((length >> 2) + 1))[:length]
        return (int.from_bytes(payload, "little") ^ int.from_bytes(keys, "little")).to_bytes(length, "little")
    data = bytearray(payload)
    for index, byte in enumerate(key):
        data[index::4] = data[index::4].translate(_TRANSLATIONS[byte])
    return bytes(data)
