"""Request bodies to values (contract: http §7)."""

from __future__ import annotations

from typing import Any

import msgspec

from svc.errors import BadBody, ClientError

MAX_EXACT = 2**53  # beyond it a whole float is not one integer


def _number(literal: str) -> int | float:
    """A JSON number with a fraction or an exponent. `1.0` and `1` are one number (http §7.2)."""
    value = float(literal)
    if value.is_integer() and -MAX_EXACT <= value <= MAX_EXACT:
        return int(value)
    if value - value != 0.0:  # overflowed to an infinity
        raise ValueError(f"{literal[:40]} is out of range")
    return value


_decode = msgspec.json.Decoder(float_hook=_number).decode


def decode_json(body: bytes) -> Any:
    """A JSON document. Raises BadBody with the decoder's message, which names the position."""
    try:
        return _decode(body)
    except msgspec.MsgspecError as error:
        raise BadBody(f"Invalid JSON: {error}") from None
    except UnicodeDecodeError as error:
        raise BadBody(f"Invalid JSON: not UTF-8 at byte {_offset_of(body, error)}") from None
    except RecursionError:
        raise BadBody("Invalid JSON: nested too deeply") from None
    except ValueError as error:
        raise BadBody(f"Invalid JSON: {error}") from None


def _offset_of(body: bytes, error: UnicodeDecodeError) -> int:
    """The decoder counts within one string; the caller wants the place in the body."""
    try:
        body.decode()
    except UnicodeDecodeError as whole:
        return whole.start
    return error.start


def media_type_of(content_type: str | None) -> str:
    return "" if content_type is None else content_type.partition(";")[0].strip().lower()


def is_json(media_type: str) -> bool:
    return media_type == "application/json" or (media_type.startswith("application/") and media_type.endswith("+json"))


def looks_like_json(body: bytes) -> bool:
    """A body without Content-Type is JSON when it begins like an object or a list (http §7.4)."""
    return body[:1] in (b"{", b"[")


STRUCTURED_TYPES = frozenset(
    {
        "application/cbor",
        "application/msgpack",
        "application/ndjson",
        "application/x-msgpack",
        "application/x-ndjson",
        "application/x-www-form-urlencoded",
        "text/csv",
    }
)
PATCH_TYPES = ("application/merge-patch+json", "application/json-patch+json")
ACCEPT_PATCH = ("Accept-Patch", "application/json")


def decode_body(content_type: str | None, body: bytes, method: str) -> Any:
    """The value of a body. Raises BadBody (400) or 415."""
    media_type = media_type_of(content_type)
    if not body:
        raise BadBody(f"{method} needs a body")
    if method == "PATCH" and media_type in PATCH_TYPES:
        raise ClientError(f"{media_type} is not supported: PATCH merges top-level properties", 415, headers=(ACCEPT_PATCH,))
    if is_json(media_type):
        return decode_json(body)
    if not media_type and looks_like_json(body):
        return decode_json(body)
    if media_type in STRUCTURED_TYPES:
        # Kept as raw content they would not be what their sender meant: refused until they can be read.
        raise ClientError(f"{media_type} cannot be read by this version; send application/json", 415)
    return raw_content(content_type, media_type, body)


def raw_content(content_type: str | None, media_type: str, body: bytes) -> dict[str, Any]:
    """A body of a type without structure, as the record `{contentType, data}` (http §7.4): text for `text/*`, else bytes."""
    if not media_type:
        return {"contentType": "application/octet-stream", "data": body}
    kept, charset = split_charset(content_type or "")
    if not media_type.startswith("text/"):
        return {"contentType": kept, "data": body}
    try:
        return {"contentType": kept, "data": body.decode(charset)}
    except LookupError:
        raise BadBody(f"Unknown charset: {charset[:40]}") from None
    except (UnicodeError, ValueError):
        raise BadBody(f"The body is not valid {charset[:40]} text") from None


def split_charset(content_type: str) -> tuple[str, str]:
    """(the type with its parameters but without charset, the charset in lower case, default utf-8)."""
    charset = "utf-8"
    kept = []
    for part in content_type.split(";"):
        name, _, value = part.strip().partition("=")
        if name.lower() == "charset":
            charset = value.strip().strip('"').lower() or charset
        elif part.strip():
            kept.append(part.strip())
    return "; ".join(kept), charset
