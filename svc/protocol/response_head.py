"""Status, fields and framing of an HTTP/1 response -> bytes. Nothing gets through that could end a line early (response splitting)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from svc.errors import REASONS

# Fields that the driver writes. Those of a handler are not sent; `begin_answer` in http1 uses their values (date, length, close).
OWN_FIELDS = frozenset({"date", "content-length", "transfer-encoding", "connection", "keep-alive"})
STATUS_LINES = {status: f"HTTP/1.1 {status} {reason}\r\n" for status, reason in REASONS.items()}
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_FIELD_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")

# Names known to be tokens and not in OWN_FIELDS: one look-up instead of a match. Bounded, because applications may use any names.
_PLAIN_NAMES: set[str] = set()
_PLAIN_NAMES_MAX = 1024


class RepeatedHead(NamedTuple):
    """The fields of an answer that repeats but for its entity tag, `Server-Timing`, date and length, which are sent in this order. All are valid."""

    status: int
    before: list[tuple[str, str]]  # in front of the entity tag
    has_tag: bool
    behind: list[tuple[str, str]]  # ... and behind it; without a tag there are none
    has_length: bool  # there is a Content-Length


def status_line(status: int) -> str:
    """With its CRLF; a status without a reason of its own gets an empty one. Raises ValueError."""
    line = STATUS_LINES.get(status)
    if line is None:
        if not 100 <= status <= 999:
            raise ValueError(f"not a status: {status!r}")
        line = f"HTTP/1.1 {status:d} \r\n"
    return line


def encode_fields(pairs: Iterable[tuple[str, str]]) -> tuple[str, dict[str, str] | None]:
    """(the field lines, the OWN_FIELDS among `pairs` by lower-case name or None if there are none). Raises ValueError for an invalid field.

    >>> encode_fields([("Allow", "GET"), ("Connection", "close")])
    ('Allow: GET\\r\\n', {'connection': 'close'})
    """
    lines = ""
    own: dict[str, str] | None = None
    for name, value in pairs:
        if not value.isprintable() and _FIELD_VALUE.fullmatch(value) is None:
            raise ValueError(f"not a field value: {name}: {value!r}")
        if name not in _PLAIN_NAMES and _is_own(name):
            if own is None:
                own = {}
            own[name.lower()] = value
            continue
        lines += f"{name}: {value}\r\n"
    return lines, own


def encode_trailers(pairs: Iterable[tuple[str, str]]) -> bytes:
    """Trailer lines. Raises ValueError, also for fields that frame a message (RFC 9110 §6.5.1)."""
    lines, own = encode_fields(pairs)
    if own:
        raise ValueError(f"not allowed in trailers: {', '.join(own)}")
    return lines.encode("latin-1")


def is_field_name(name: str) -> bool:
    return _TOKEN.fullmatch(name) is not None


def is_field_value(value: str) -> bool:
    """Whether it can be sent: latin-1 without control characters but the tab."""
    return (value.isascii() and value.isprintable()) or _FIELD_VALUE.fullmatch(value) is not None


def _is_own(name: str) -> bool:
    if name.lower() in OWN_FIELDS:
        return True
    if not is_field_name(name):
        raise ValueError(f"not a field name: {name!r}")
    if len(_PLAIN_NAMES) < _PLAIN_NAMES_MAX:
        _PLAIN_NAMES.add(name)
    return False
