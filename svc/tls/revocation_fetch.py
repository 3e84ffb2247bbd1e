"""Fetching a list or an answer of a responder, over HTTP or HTTPS only, and no more of it than there may be."""

from __future__ import annotations

import http.client
import urllib.request
from collections.abc import Callable

from svc.tls.revocation_settings import NoAnswer

MAX_SIZE = 32 * 1024 * 1024  # bytes: the largest lists of public authorities have some
_PIECE = 64 * 1024

_opener = urllib.request.OpenerDirector()
for _handler in (
    urllib.request.HTTPHandler,
    urllib.request.HTTPSHandler,
    urllib.request.HTTPErrorProcessor,
    urllib.request.HTTPDefaultErrorHandler,
):
    _opener.add_handler(_handler())


def fetch(address: str, timeout: float, now: Callable[[], float], body: bytes | None = None, content_type: str = "") -> bytes:
    """The body of the answer. Raises NoAnswer, also if it is not complete after `timeout` seconds. Blocks."""
    if not address.lower().startswith(("http://", "https://")):
        raise NoAnswer("addresses of this kind are not fetched")
    deadline = now() + timeout
    pieces, size = [], 0
    try:
        request = urllib.request.Request(address, body, {"Content-Type": content_type} if content_type else {})
        response = _opener.open(request, timeout=timeout)
        if response is None:
            raise NoAnswer("there is nothing")
        with response:
            while piece := response.read1(_PIECE):
                pieces.append(piece)
                size += len(piece)
                if size > MAX_SIZE:
                    raise NoAnswer(f"what is there has more than {MAX_SIZE} bytes")
                if now() > deadline:
                    raise NoAnswer(f"it takes longer than {timeout:g} s")
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise NoAnswer(str(error) or type(error).__name__) from None
    return b"".join(pieces)
