"""The express lane of WebSocket: recognise the plain frame that almost all traffic is, or decline (architecture §3).

A frame is plain if it is here as a whole and

1. its first byte is FIN with text, binary, ping or pong and no reserved bit;
2. it is masked, and its length is written in the shortest way: in the second byte, or (messages only) in the two bytes after it;
3. the payload of a text is UTF-8.

Declining is always safe: wsproto then decides. Whether a message may come here at all is for the driver to know.
"""

from __future__ import annotations

from svc.protocol.websocket_frames import SHORT_MAX, unmask

_TEXT = 0x81
_BINARY = 0x82
_PING = 0x89
_PONG = 0x8A

_MASKED_TWO_BYTES = 0x80 | 126
_SHORT_HEADER = 6
_LONG_HEADER = 8


def recognise_message(data: bytes, position: int, max_payload: int) -> tuple[str | bytes, int] | None:
    """The message whose only frame begins at `position`, and the position after it. None: not plain."""
    end = len(data)
    if end - position < _SHORT_HEADER:
        return None
    first = data[position]
    if first != _TEXT and first != _BINARY:
        return None
    second = data[position + 1]
    if second < 0x80 or second > _MASKED_TWO_BYTES:
        return None
    if second == _MASKED_TWO_BYTES:
        length = data[position + 2] << 8 | data[position + 3]
        if length <= SHORT_MAX:
            return None
        start = position + _LONG_HEADER
    else:
        length = second - 0x80
        start = position + _SHORT_HEADER
    stop = start + length
    if stop > end or length > max_payload:
        return None
    payload = unmask(data[start:stop], data[start - 4 : start])
    if first == _BINARY:
        return payload, stop
    try:
        return payload.decode(), stop
    except UnicodeDecodeError:
        return None


def recognise_ping(data: bytes, position: int) -> tuple[int, bytes, int] | None:
    """The ping or pong at `position`: its opcode, its payload and the position after it. None: not plain."""
    end = len(data)
    if end - position < _SHORT_HEADER:
        return None
    first = data[position]
    if first != _PING and first != _PONG:
        return None
    length = data[position + 1] - 0x80
    start = position + _SHORT_HEADER
    stop = start + length
    if not 0 <= length <= SHORT_MAX or stop > end:
        return None
    return first & 0x0F, unmask(data[start:stop], data[position + 2 : start]), stop
