"""Values of MQTT packets (MQTT 5 §1.5): strings, binary data, variable byte integers; and what is raised for a packet that is wrong."""

from __future__ import annotations

from typing import Final

from svc.errors import PeerError

SUCCESS: Final = 0x00
UNSPECIFIED: Final = 0x80
MALFORMED: Final = 0x81
PROTOCOL_ERROR: Final = 0x82
IMPLEMENTATION: Final = 0x83
UNSUPPORTED_VERSION: Final = 0x84
CLIENT_ID_INVALID: Final = 0x85
BAD_CREDENTIALS: Final = 0x86
NOT_AUTHORIZED: Final = 0x87
UNAVAILABLE: Final = 0x88
BUSY: Final = 0x89
BANNED: Final = 0x8A
BAD_AUTHENTICATION_METHOD: Final = 0x8C
KEEP_ALIVE_TIMEOUT: Final = 0x8D
TAKEN_OVER: Final = 0x8E
FILTER_INVALID: Final = 0x8F
TOPIC_INVALID: Final = 0x90
ID_IN_USE: Final = 0x91
ID_NOT_FOUND: Final = 0x92
RECEIVE_MAXIMUM_EXCEEDED: Final = 0x93
ALIAS_INVALID: Final = 0x94
TOO_LARGE: Final = 0x95
QUOTA_EXCEEDED: Final = 0x97
PAYLOAD_INVALID: Final = 0x99

CONNACK_REASONS: Final = frozenset((0, 0x80, *range(0x81, 0x8B), 0x8C, 0x90, 0x95, 0x97, 0x99, 0x9A, 0x9B, 0x9C, 0x9D, 0x9F))
"""Of version 5."""

LARGEST: Final = 268_435_455  # that a variable byte integer can tell


class PacketError(PeerError):
    """A packet that the peer must not send. `reason`: the code of DISCONNECT (MQTT 5 §2.4); 3.1.1 only closes."""

    def __init__(self, reason: int, message: str) -> None:
        super().__init__(message)
        self.reason = reason


def read_variable(data: bytes, at: int, end: int) -> tuple[int, int]:
    """A variable byte integer at `at`, and where it ends. Raises PacketError: cut short at `end`, longer than four bytes or than needed.

    >>> read_variable(b"\\x80\\x01", 0, 2)
    (128, 2)
    """
    value = shift = 0
    while at < end:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if not byte and shift:
                raise PacketError(MALFORMED, "a length in more bytes than it needs")
            return value, at
        shift += 7
        if shift > 21:
            raise PacketError(MALFORMED, "a length of more than four bytes")
    raise PacketError(MALFORMED, "a length is cut short")


def variable(value: int) -> bytes:
    """
    >>> variable(0), variable(127), variable(128), variable(268435455)
    (b'\\x00', b'\\x7f', b'\\x80\\x01', b'\\xff\\xff\\xff\\x7f')
    """
    if value < 0x80:
        return bytes((value,))
    if not value <= LARGEST:
        raise ValueError(f"{value} is too large for a variable byte integer")
    made = bytearray()
    while value > 0x7F:
        made.append(value & 0x7F | 0x80)
        value >>= 7
    made.append(value)
    return bytes(made)


def read_binary(data: bytes, at: int, end: int) -> tuple[bytes, int]:
    """Binary data with its length in two bytes in front, and where it ends. Raises PacketError."""
    start = at + 2
    if start <= end:
        stop = start + (data[at] << 8 | data[at + 1])
        if stop <= end:
            return data[start:stop], stop
    raise PacketError(MALFORMED, "a string or binary data is cut short")


def read_string(data: bytes, at: int, end: int) -> tuple[str, int]:
    """The same as text. Raises PacketError also for what is no UTF-8 and for U+0000 (MQTT-1.5.4-1, -2)."""
    raw, at = read_binary(data, at, end)
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        raise PacketError(MALFORMED, "a string that is not UTF-8") from None
    if "\0" in text:
        raise PacketError(MALFORMED, "a string with U+0000")
    return text, at


def binary(value: bytes) -> bytes:
    """Raises ValueError for more than 65,535 bytes."""
    if len(value) > 0xFFFF:
        raise ValueError(f"{len(value)} bytes are too long for a string or binary data of MQTT")
    return len(value).to_bytes(2) + value


def string(value: str) -> bytes:
    """Raises ValueError for one that is too long, has U+0000 or an unpaired surrogate.

    >>> string("aä")
    b'\\x00\\x03a\\xc3\\xa4'
    """
    if "\0" in value:
        raise ValueError("a string of MQTT cannot have U+0000")
    return binary(value.encode())
