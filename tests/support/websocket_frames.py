"""FrameEncoder of a WebSocket client, right and wrong ones, made without the code they test."""

from __future__ import annotations

import struct

KEY = b"\x37\xfa\x21\x3d"


def frame(
    opcode: int, payload: bytes | str = b"", *, fin: bool = True, rsv: int = 0, key: bytes | None = KEY, form: int | None = None
) -> bytes:
    """`rsv`: the three reserved bits, 4 being RSV1; `key` None: not masked; `form`: bytes of the length field (0, 2, 8), shortest by default."""
    data = payload.encode() if isinstance(payload, str) else payload
    length = len(data)
    if form is None:
        form = 0 if length < 126 else 2 if length < 1 << 16 else 8
    first = bytes([(128 if fin else 0) | rsv << 4 | opcode])
    mask = 128 if key is not None else 0
    short = {0: length, 2: 126, 8: 127}[form]
    head = first + bytes([mask | short]) + {0: b"", 2: struct.pack("!H", length & 0xFFFF), 8: struct.pack("!Q", length)}[form]
    if key is None:
        return head + data
    return head + key + bytes(byte ^ key[place % 4] for place, byte in enumerate(data))


def text(payload: bytes | str, **options: object) -> bytes:
    return frame(1, payload, **options)  # type: ignore[arg-type]


def binary(payload: bytes, **options: object) -> bytes:
    return frame(2, payload, **options)  # type: ignore[arg-type]


def more(payload: bytes | str, **options: object) -> bytes:
    """A continuation."""
    return frame(0, payload, **options)  # type: ignore[arg-type]


def close(code: int | None = 1000, reason: bytes | str = b"", **options: object) -> bytes:
    said = reason.encode() if isinstance(reason, str) else reason
    return frame(8, b"" if code is None else struct.pack("!H", code) + said, **options)  # type: ignore[arg-type]


def ping(payload: bytes = b"", **options: object) -> bytes:
    return frame(9, payload, **options)  # type: ignore[arg-type]


def pong(payload: bytes = b"", **options: object) -> bytes:
    return frame(10, payload, **options)  # type: ignore[arg-type]


def parse(data: bytes) -> list[tuple[int, bytes]]:
    """A server's frames: (first byte, payload)."""
    frames = []
    while data:
        first, second = data[0], data[1]
        assert second < 128, "a server does not mask"
        size, length = 2, second
        if second == 126:
            size, length = 4, struct.unpack("!H", data[2:4])[0]
            assert length > 125
        elif second == 127:
            size, length = 10, struct.unpack("!Q", data[2:10])[0]
            assert length >= 1 << 16
        assert len(data) >= size + length
        frames.append((first, data[size : size + length]))
        data = data[size + length :]
    return frames
