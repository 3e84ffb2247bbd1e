"""Responses that code of an application has made: whether they can be sent (spec: http §12.1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from svc.content.values import is_blob
from svc.http.media_types import encode_text, parameters_of
from svc.messages import Feed, Response


def check_response(response: Response) -> None:
    """Raise TypeError or ValueError for a response that cannot be sent."""
    status = response.status
    if type(status) is not int or not 200 <= status <= 599:
        raise ValueError(f"a response must have a status from 200 to 599, not {status!r}")
    body: Any = response.body
    if body is None or isinstance(body, (bytes, Feed)) or is_blob(body):
        return
    if isinstance(body, str):
        content_type = response.headers.get("Content-Type") or ""
        response.body, corrected = encode_text(body, content_type)
        if "charset" in parameters_of(content_type) and corrected != content_type:
            response.headers.set("Content-Type", corrected)
    elif isinstance(body, (bytearray, memoryview)):
        response.body = bytes(body)
    elif hasattr(body, "__anext__") or hasattr(body, "__next__"):
        return
    elif hasattr(body, "__aiter__"):
        response.body = aiter(body)
    elif hasattr(body, "__iter__") and not isinstance(body, (Mapping, list, tuple, set)) and not hasattr(body, "keys"):
        response.body = iter(body)
    else:
        raise TypeError(
            f"the body of a response must be bytes, a string, an iterator of bytes or a Blob, not {type(body).__name__}; see `data`"
        )
