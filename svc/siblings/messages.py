"""What processes over one data directory send each other: msgpack, with its length in front (4 bytes, big-endian).

One that connects begins with `Hello`. `Ask` and `Tell` go the way of the connection, `Reply` comes back.
"""

from __future__ import annotations

from typing import Any

import msgspec

MAX_MESSAGE = 8 << 20  # bytes
_HEAD = 4  # bytes of the length


class Hello(msgspec.Struct, array_like=True, tag=0):
    identity: str


class Ask(msgspec.Struct, array_like=True, tag=1):
    id: int
    topic: str
    value: Any


class Tell(msgspec.Struct, array_like=True, tag=2):
    topic: str
    value: Any


class Reply(msgspec.Struct, array_like=True, tag=3):
    """`error`: why there is no value."""

    id: int
    value: Any
    error: str | None


Message = Hello | Ask | Tell | Reply

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(Message)


def encode_message(message: Message) -> bytes:
    """Raises ValueError for one that is too large, TypeError for a value that msgpack has no form for."""
    body = _encoder.encode(message)
    if len(body) > MAX_MESSAGE:
        raise ValueError(f"a message of {len(body)} bytes: at most {MAX_MESSAGE} can be sent to other processes")
    return len(body).to_bytes(_HEAD) + body


class MessageReader:
    """Bytes as they come -> messages."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def receive_data(self, data: bytes) -> list[Message]:
        """The messages that are complete now. Raises ValueError for what is none."""
        buffer = self._buffer
        buffer += data
        found: list[Message] = []
        start = 0
        while len(buffer) - start >= _HEAD:
            end = start + _HEAD + int.from_bytes(buffer[start : start + _HEAD])
            if end - start - _HEAD > MAX_MESSAGE:
                raise ValueError("a message that is too large")
            if len(buffer) < end:
                break
            with memoryview(buffer) as view:
                found.append(_decoder.decode(view[start + _HEAD : end]))  # msgspec.DecodeError is a ValueError
            start = end
        del buffer[:start]
        return found
