"""Messages of the WebSocket sub-protocol `graphql-transport-ws` (the protocol of the npm package graphql-ws), and its close codes."""

from __future__ import annotations

from typing import Any

from svc.content.json_type import decode_json, encode_json, encode_plain
from svc.errors import BadBody, Problem
from svc.graphql.responses import error_object
from svc.protocol.websocket_frames import FIN, TEXT, encode_head

PROTOCOL = "graphql-transport-ws"

BAD_MESSAGE = 4400
NOT_INITIALISED = 4401
FORBIDDEN = 4403
TOO_SLOW = 4408
DUPLICATE = 4409
INITIALISED_TWICE = 4429

MAX_MESSAGE = 2 << 20  # bytes: a document, and as much for its variables
MAX_ID = 200  # characters

_TYPES = frozenset(("connection_init", "ping", "pong", "subscribe", "complete"))
_WITH_ID = frozenset(("subscribe", "complete"))


class BadMessage(Exception):
    """What a client has sent is no message. `code`, `reason`: of the close frame."""

    def __init__(self, reason: str, code: int = BAD_MESSAGE) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason


class Message:
    """`id` "" where the type has none. `payload` None without one."""

    __slots__ = ("id", "payload", "type")

    def __init__(self, type_: str, id_: str, payload: dict[str, Any] | None) -> None:
        self.type = type_
        self.id = id_
        self.payload = payload


def read_message(raw: str | bytes) -> Message:
    """Raises BadMessage."""
    if isinstance(raw, bytes):
        raise BadMessage("A message is a text frame")
    try:
        value = decode_json(raw.encode("utf-8", "surrogatepass"))
    except BadBody:
        raise BadMessage("A message is a JSON object") from None
    if not isinstance(value, dict):
        raise BadMessage("A message is a JSON object")
    type_, id_, payload = value.get("type"), value.get("id"), value.get("payload")
    if not isinstance(type_, str) or type_ not in _TYPES:
        raise BadMessage("The type of the message is unknown")
    if type_ in _WITH_ID and (not isinstance(id_, str) or not 0 < len(id_) <= MAX_ID):
        raise BadMessage(f"The id of the message is a string of 1 to {MAX_ID} characters")
    if payload is not None and not isinstance(payload, dict):
        raise BadMessage("The payload of the message is an object")
    if type_ == "subscribe" and payload is None:
        raise BadMessage("subscribe has a payload with a query")
    return Message(type_, id_ if isinstance(id_, str) else "", payload)


def text_frame(message: bytes) -> bytes:
    """A message, in UTF-8, as a frame."""
    return encode_head(FIN | TEXT, len(message)) + message


ACKNOWLEDGED = text_frame(b'{"type":"connection_ack"}')


def pong(payload: dict[str, Any] | None) -> bytes:
    return text_frame(encode_json({"type": "pong"} if payload is None else {"type": "pong", "payload": payload}))


def next_head(id_: str) -> bytes:
    """What comes before the result in a message `next`; `}` follows it."""
    return b'{"id":' + encode_plain(id_) + b',"type":"next","payload":'


def error(id_: str, problem: Problem, request_id: str = "") -> bytes:
    return text_frame(encode_json({"id": id_, "type": "error", "payload": [error_object(problem, request_id)]}))


def complete(id_: str) -> bytes:
    return text_frame(encode_json({"id": id_, "type": "complete"}))
