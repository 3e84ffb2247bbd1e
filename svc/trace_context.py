"""The `traceparent` header field (W3C Trace Context, section 3.2): which trace a request is part of (spec: tracing §1).

    version "-" trace-id "-" parent-id "-" trace-flags        2, 32, 16 and 2 lower-case hexadecimal digits

Fields of later versions may go on after another "-". A field that is invalid, or is there several times, is ignored: it is as if it were not there.
"""

from __future__ import annotations

import re

TRACE_ID_BYTES = 16

_TRACEPARENT = re.compile(r"[ \t]*([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}(-[^,]*)?[ \t]*", re.ASCII)
_NO_VERSION = "ff"
_CURRENT = "00"
_NO_TRACE = "0" * 32
_NO_PARENT = "0" * 16


def trace_id_of(traceparent: str) -> bytes | None:
    """The trace id in a field's value, 16 bytes; None if the value is invalid. Several fields come joined by a comma, which none may hold.

    >>> trace_id_of("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01").hex()
    '0af7651916cd43dd8448eb211c80319c'
    >>> trace_id_of("00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01")
    """
    found = _TRACEPARENT.fullmatch(traceparent)
    if found is None:
        return None
    version, trace, parent, rest = found.groups()
    if version == _NO_VERSION or trace == _NO_TRACE or parent == _NO_PARENT or (version == _CURRENT and rest is not None):
        return None
    return bytes.fromhex(trace)
