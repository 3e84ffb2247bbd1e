"""The archive in a long body is not decoded on the loop: it is cut out, and what remains is a small body (spec: operations §7).

    {"operation": "deploy_component", "project": "shop", "payload": "<100 MB>"}
    {"operation": "deploy_component", "project": "shop", "payload": "<mark>"}     this one is decoded

The mark is random, so if it is the value of `payload` in what was decoded, then what was cut out is, too. Everything else is decoded as any body is.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from secrets import token_hex
from typing import Any

from svc.deploying.payloads import Payload
from svc.errors import BadBody

HEAD = 1 << 16  # bytes in which the payload begins, and in which what follows it must have room
STEP = 1 << 20  # bytes that are searched at a time

OPERATIONS = frozenset(("deploy_component", "deploy_custom_function_project", "add_upload"))


@dataclass(frozen=True, slots=True)
class _Cut:
    """`start`, `end`: of the payload; `begin`: of it with the head in front that tells its length. `mark`: what stands in the place of both, encoded.
    `is_text`: whether it is base64."""

    begin: int
    start: int
    end: int
    mark: bytes
    is_text: bool


def without_payload(body: bytes, media_type: str, decode: Callable[[bytes], Any]) -> Generator[None, None, Any]:
    """The value of a long body with a `Payload`, in steps; None if it is no such body. `decode` may raise BadBody."""
    token = token_hex(16)
    cut = yield from _json_cut(body, token) if media_type == "application/json" else _binary_cut(body, token, media_type)
    if cut is None or len(body) - cut.end > HEAD:
        return None
    try:
        value = decode(body[: cut.begin] + cut.mark + body[cut.end :])
    except BadBody:  # its place is another one in the whole body
        return None
    if not isinstance(value, dict) or value.get("operation") not in OPERATIONS or value.get("payload") not in (token, token.encode()):
        return None
    value["payload"] = Payload(memoryview(body)[cut.start : cut.end], cut.is_text)
    return value


def _json_cut(body: bytes, token: str) -> Generator[None, None, _Cut | None]:
    at = body.find(b'"payload"', 0, HEAD)
    if at < 0:
        return None
    head = body[at + 9 : at + 9 + 1000]
    before = len(head) - len(head.lstrip(b" \t\r\n:"))
    start = at + 9 + before + 1
    if head[:before].count(b":") != 1 or body[start - 1 : start] != b'"':
        return None
    position = start
    while position < len(body):
        end = body.find(b'"', position, position + STEP)
        if body.find(b"\\", position, position + STEP if end < 0 else end) >= 0:
            return None
        if end >= 0:
            return _Cut(start, start, end, token.encode(), True)
        position += STEP
        yield
    return None


_BINARY = {
    "application/cbor": (
        b"\x67payload",
        {0x58: 1, 0x59: 2, 0x5A: 4, 0x5B: 8},
        {0x78: 1, 0x79: 2, 0x7A: 4, 0x7B: 8},
        b"\x58\x20",
        b"\x78\x20",
    ),
    "application/msgpack": (b"\xa7payload", {0xC4: 1, 0xC5: 2, 0xC6: 4}, {0xD9: 1, 0xDA: 2, 0xDB: 4}, b"\xc4\x20", b"\xd9\x20"),
}
"""Media type -> the key, the first bytes of bytes and of texts with the number of bytes of their length, and the head of the mark as either."""
_BINARY["application/x-msgpack"] = _BINARY["application/msgpack"]


def _binary_cut(body: bytes, token: str, media_type: str) -> Generator[None, None, _Cut | None]:
    yield
    row = _BINARY.get(media_type)
    if row is None:
        return None
    name, of_bytes, of_texts, bytes_head, text_head = row
    at = body.find(name, 0, HEAD)
    if at < 0 or at + len(name) >= len(body):
        return None
    kind = body[at + len(name)]
    width = of_bytes.get(kind) or of_texts.get(kind)
    if width is None:
        return None
    begin = at + len(name)
    start = begin + 1 + width
    end = start + int.from_bytes(body[begin + 1 : start], "big")
    if end > len(body):
        return None
    is_text = kind in of_texts
    return _Cut(begin, start, end, (text_head if is_text else bytes_head) + token.encode(), is_text)
