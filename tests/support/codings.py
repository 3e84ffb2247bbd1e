"""Content codings in tests: a body decoded in one call."""

from __future__ import annotations

import sys
from collections.abc import Coroutine
from typing import Any, cast

from svc.http.decoding import RequestDecoder


def decode_coding(header_value: str, body: bytes, max_bytes: int) -> bytes:
    """The decoded body, with all slices of `RequestDecoder` run at once. Raises as that does."""
    decoded = RequestDecoder(max_bytes, sys.maxsize).decode(header_value, body)
    if isinstance(decoded, bytes):
        return decoded
    slices = cast("Coroutine[Any, Any, bytes]", decoded)
    while True:
        try:
            slices.send(None)
        except StopIteration as done:
            return cast(bytes, done.value)
