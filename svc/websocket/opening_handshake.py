"""The opening handshake of a WebSocket (RFC 6455 §4.2; over HTTP/2 RFC 8441 §5)."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re

from svc.errors import ClientError
from svc.messages import HeaderPairs, Request

PROTOCOL = "websocket"
VERSION = "13"
_GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_NONCE_BYTES = 16
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


def check(request: Request) -> HeaderPairs:
    """Check a handshake. Returns the response fields that accept it, without sub-protocol and extensions.

    Raises ClientError: 426 for another version of the protocol, 400 for anything else that is wrong.
    """
    fields = request.block.fields
    over_http2 = request.http_version[:1] == "2"
    if request.method != "GET":  # as which an extended CONNECT is reported, too
        raise ClientError(f"A WebSocket handshake is a GET, not a {request.method}")
    if request.offers != PROTOCOL or not (
        over_http2 or (_has_token(fields, "upgrade", PROTOCOL) and _has_token(fields, "connection", "upgrade"))
    ):
        raise ClientError("A WebSocket handshake needs 'Connection: Upgrade' and 'Upgrade: websocket'")
    version = fields.get("sec-websocket-version")
    if version != VERSION:
        raise ClientError(
            f"Sec-WebSocket-Version must be {VERSION}", 426, headers=(("Sec-WebSocket-Version", VERSION), ("Upgrade", PROTOCOL))
        )
    if over_http2:
        return []
    key = fields.get("sec-websocket-key")
    if key is None or not _is_nonce(key):
        raise ClientError("Sec-WebSocket-Key must be 16 bytes in base64")
    return [("Sec-WebSocket-Accept", accept_token(key))]


def accept_token(key: str) -> str:
    """
    >>> accept_token("dGhlIHNhbXBsZSBub25jZQ==")
    's3pPLMBiTxaQ9kYGzzhZRbK+xOo='
    """
    return base64.b64encode(hashlib.sha1((key + _GUID).encode(), usedforsecurity=False).digest()).decode()


def offered_protocols(request: Request) -> list[str]:
    """The sub-protocols that the client offers, the preferred one first."""
    return [
        name for part in request.block.fields.get("sec-websocket-protocol", "").split(",") if _TOKEN.fullmatch(name := part.strip(" \t"))
    ]


def _is_nonce(key: str) -> bool:
    try:
        return len(base64.b64decode(key, validate=True)) == _NONCE_BYTES
    except (binascii.Error, ValueError):
        return False


def _has_token(fields: dict[str, str], name: str, token: str) -> bool:
    return token in [part.strip(" \t").lower() for part in fields.get(name, "").split(",")]
