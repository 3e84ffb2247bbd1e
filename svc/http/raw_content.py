"""Raw content in responses: whole or one range (spec: http §7.4; RFC 9110 §13.1.5, §14).

One range is answered with 206. Several are answered with the whole content: a client can request ranges one by one, and `multipart/byteranges` is
mostly used for attacks. An invalid `Range` is ignored, as the RFC requires.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from svc.content.values import is_blob
from svc.errors import ClientError
from svc.http.conditional import parse_date
from svc.messages import BodyStream, HeaderPairs, Request, Response

if TYPE_CHECKING:
    from svc.store.blobs import Blob

VARY = ("Vary", "Accept-Encoding")
VARY_RAW = ("Vary", "Accept-Encoding, Authorization, Cookie")  # of a record, which depends on who asks
NOSNIFF = ("X-Content-Type-Options", "nosniff")
SANDBOX = ("Content-Security-Policy", "sandbox")
"""Of stored content: a browser shows it without scripts and as of an origin of its own, so who has stored it cannot act as the user who opens it."""
UNCONFINED = "application/pdf"  # runs nothing of its page, and browsers show none that is in a sandbox
ACCEPT_RANGES = ("Accept-Ranges", "bytes")
DEFAULT_TYPE = "application/octet-stream"

_RANGE = re.compile(r"bytes=[ \t]*([0-9]{0,20})-([0-9]{0,20})[ \t]*", re.IGNORECASE)


def is_raw_content(value: Any) -> bool:
    """Whether a value is `{contentType, data}` (spec: http §7.4)."""
    if not isinstance(value, dict):
        return False
    content_type = value.get("contentType")
    return (
        isinstance(content_type, str)
        and content_type.isascii()
        and content_type.isprintable()
        and (isinstance(value.get("data"), str | bytes) or is_blob(value.get("data")))
    )


def raw_response(
    request: Request,
    content_type: str | None,
    body: bytes | Blob,
    pairs: HeaderPairs,
    *,
    vary: tuple[str, str] = VARY,
    sandbox: bool = False,
) -> Response:
    """The answer to GET or HEAD whose body is this content. `pairs`: validators and the like; `content_type`: None = the blob's own. `sandbox`: what
    it is, users have stored.

    Raises ClientError 416 for a range after the end. The file of a large blob is opened here, so that one that is missing is still an
    error of its own; it is read as the peer takes it. A blob that is still arriving is sent as it comes.
    """
    if content_type is None:
        content_type = DEFAULT_TYPE if isinstance(body, bytes) else body.type
    if content_type == "text/plain":
        content_type = "text/plain; charset=utf-8"
    pairs = [("Content-Type", content_type), *pairs, vary, NOSNIFF]
    if sandbox and content_type.partition(";")[0].strip().lower() != UNCONFINED:
        pairs.append(SANDBOX)
    if isinstance(body, bytes):
        content: bytes | None = body
        size: int | None = len(body)
    else:
        content, size = body.inline, body.size
        if content is None and (size is None or body.is_arriving):
            return Response(iter(()) if request.method == "HEAD" else body.stream(), 200, pairs=pairs)
    assert size is not None
    pairs.append(ACCEPT_RANGES)
    status, start, end = 200, 0, size
    if "range" in request.block.fields and request.method == "GET" and _still_applies(request, pairs):
        found = parse_range(request.block.fields["range"], size)
        if found is not None:
            start, end = found
            if start >= end:
                raise ClientError(
                    f"The range begins after the end of the content, at {size}", 416, headers=(("Content-Range", f"bytes */{size}"),)
                )
            status = 206
            pairs.append(("Content-Range", f"bytes {start}-{end - 1}/{size}"))
    if content is not None:
        return Response(content if status == 200 else content[start:end], status, pairs=pairs)
    pairs.append(("Content-Length", str(end - start)))
    stream: BodyStream = iter(()) if request.method == "HEAD" else body.chunks(start, end)  # type: ignore[union-attr]  # bytes are content
    return Response(stream, status, pairs=pairs)


def blob_response(request: Request, response: Response, blob: Blob) -> Response:
    """A handler's response whose body is a blob; the fields that the handler has set win (architecture §11)."""
    content_type = response.headers.get("Content-Type")
    kept = [pair for pair in response.pairs if pair[0].lower() not in ("content-type", "content-length")]
    if response.status == 200 and request.method in ("GET", "HEAD"):
        return raw_response(request, content_type, blob, kept)
    body = blob.inline
    return Response(blob.stream() if body is None else body, response.status, pairs=[("Content-Type", content_type or blob.type), *kept])


def parse_range(text: str, size: int) -> tuple[int, int] | None:
    """(first, end) of the one range in a `Range` field, end exclusive; an empty one cannot be satisfied. None: the field is to be ignored.

    >>> parse_range("bytes=0-4", 10), parse_range("bytes=5-", 10), parse_range("bytes=-3", 10), parse_range("bytes=8-99", 10)
    ((0, 5), (5, 10), (7, 10), (8, 10))
    >>> parse_range("bytes=10-", 10), parse_range("bytes=-0", 10), parse_range("bytes=4-3", 10), parse_range("bytes=0-1,4-5", 10)
    ((10, 10), (10, 10), None, None)
    """
    match = _RANGE.fullmatch(text)
    if match is None:
        return None
    first, last = match.groups()
    if not first:
        if not last:
            return None
        suffix = int(last)
        if suffix and not size:
            return None  # satisfiable, but 206 has no way to say "the empty part"
        return max(size - suffix, 0), size
    start = int(first)
    if last and int(last) < start:
        return None
    return min(start, size), min(int(last) + 1, size) if last else size


def _still_applies(request: Request, pairs: HeaderPairs) -> bool:
    """`If-Range`: whether the client's part is of the current content. True without the field."""
    condition = request.block.fields.get("if-range")
    if condition is None:
        return True
    wanted = condition.strip()
    if wanted[:1] == '"' or wanted[:2] == "W/":  # a weak tag never compares as strong
        return any(name == "ETag" and value == wanted for name, value in pairs)
    date = parse_date(wanted)
    return date is not None and any(name == "Last-Modified" and parse_date(value) == date for name, value in pairs)
