"""What a form of ours has sent: fields and files by name. They are collected in memory, so what is long goes to the address of a property instead."""

from __future__ import annotations

from asyncio import sleep
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import unquote_to_bytes

from svc.connection.exchange import BodyLimit
from svc.errors import BadBody, ClientError
from svc.http.media_types import media_type_of
from svc.messages import Request

if TYPE_CHECKING:
    from svc.store.blobs import Blob

MOST_BYTES = 64 << 20  # of a form with its files
MOST_FIELDS = 2000
_STEP = 16 << 10  # bytes that are percent-decoded in one turn
_UNREADABLE = f"The form cannot be read: it is no UTF-8, or has more than {MOST_FIELDS} fields"
URLENCODED, MULTIPART = "application/x-www-form-urlencoded", "multipart/form-data"


@dataclass(slots=True)
class SentForm:
    """`fields`: of several values with one name the first. `files`: that were chosen, with their types."""

    fields: dict[str, str] = field(default_factory=dict)
    files: dict[str, Blob] = field(default_factory=dict)

    def text(self, name: str) -> str:
        """A field; "" without it."""
        return self.fields.get(name, "")


def form_limit() -> BodyLimit:
    """How the body of a form is collected."""
    return BodyLimit(MOST_BYTES, ClientError(f"A form may have {MOST_BYTES >> 20} MiB, files included", 413))


async def sent_form(request: Request) -> SentForm:
    """Raises ClientError 400, 413 or 415."""
    body, content_type = request.content, request.block.get("content-type") or ""
    if len(body) > MOST_BYTES:
        raise ClientError(f"A form may have {MOST_BYTES >> 20} MiB, files included", 413)
    kind = media_type_of(content_type)
    if kind == MULTIPART:
        return await _of_parts(content_type, body)
    if kind != URLENCODED:
        raise ClientError(f"Forms are sent as {URLENCODED} or {MULTIPART}", 415)
    return await _of_pairs(body)


async def _of_pairs(body: bytes) -> SentForm:
    form = SentForm()
    if body.count(b"&") >= MOST_FIELDS:
        raise BadBody(_UNREADABLE)
    try:
        for pair in body.split(b"&"):
            if pair:
                name, _, value = pair.partition(b"=")
                form.fields.setdefault((await _unquoted(name)).decode(), (await _unquoted(value)).decode())
    except UnicodeDecodeError:
        raise BadBody(_UNREADABLE) from None
    return form


async def _unquoted(raw: bytes) -> bytes:
    """Percent-decoded; a long text in steps, with other requests served in between."""
    raw = raw.replace(b"+", b" ")
    if len(raw) <= _STEP or b"%" not in raw:
        return unquote_to_bytes(raw)
    found, at = [], 0
    while at < len(raw):
        end = at + _STEP
        cut = raw.rfind(b"%", end - 2, end)  # no escape is torn
        end = end if cut < 0 else cut
        found.append(unquote_to_bytes(raw[at:end]))
        at = end
        await sleep(0)
    return b"".join(found)


async def _of_parts(content_type: str, body: bytes) -> SentForm:
    from svc.http.forms import read_form  # few servers get forms

    steps = read_form(content_type, body, lambda name: None)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            parts = end.value.parts
            break
        await sleep(0)
    form = SentForm()
    for part in parts:
        if part.content is not None:
            form.files.setdefault(part.name, part.content)
        else:
            try:
                form.fields.setdefault(part.name, part.data.decode())
            except UnicodeDecodeError:
                raise BadBody(f'The field "{part.name[:100]}" is no UTF-8') from None
    return form
