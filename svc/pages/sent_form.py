"""What a form of ours has sent: fields and files by name. They are collected in memory, so what is long goes to the address of a property instead."""

from __future__ import annotations

from asyncio import sleep
from codecs import getincrementaldecoder
from collections.abc import Generator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar, cast
from urllib.parse import unquote_to_bytes

from svc.connection.exchange import BodyLimit
from svc.errors import BadBody, ClientError
from svc.http.media_types import media_type_of
from svc.messages import Request

if TYPE_CHECKING:
    from svc.store.blobs import Blob

MOST_BYTES = 64 << 20  # of a form with its files
MOST_ENCODED = 16 << 20  # of one without files
MOST_FIELDS = 2000
_STEP = 8 << 10  # bytes that are percent-decoded in one turn
_UNREADABLE = f"The form cannot be read: it is no UTF-8, or has more than {MOST_FIELDS} fields"
URLENCODED, MULTIPART = "application/x-www-form-urlencoded", "multipart/form-data"


T = TypeVar("T")


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
    if len(body) > MOST_ENCODED:
        raise ClientError(f"A form without files may have {MOST_ENCODED >> 20} MiB", 413)
    return await _in_turns(_read_pairs(body))


def _read_pairs(body: bytes) -> Generator[None, None, SentForm]:
    """In steps of about `_STEP` bytes. Raises BadBody."""
    form, start, number = SentForm(), 0, 0
    reader = _Unquoting()
    while start <= len(body):
        end = body.find(b"&", start)
        end = len(body) if end < 0 else end
        number += 1
        if number > MOST_FIELDS:
            raise BadBody(_UNREADABLE)
        if end > start:
            middle = body.find(b"=", start, end)
            middle = end if middle < 0 else middle
            try:
                name = yield from reader.text(body, start, middle)
                value = yield from reader.text(body, middle + 1, end)
            except UnicodeDecodeError:
                raise BadBody(_UNREADABLE) from None
            form.fields.setdefault(name, value)
        start = end + 1
    return form


class _Unquoting:
    """Percent-decodes; gives way whenever it has read `_STEP` bytes."""

    def __init__(self) -> None:
        self._read = 0

    def text(self, body: bytes, start: int, end: int) -> Generator[None, None, str]:
        """Of a part of the body. Raises UnicodeDecodeError."""
        decode, found = getincrementaldecoder("utf-8")().decode, []
        while start < end:
            stop = min(start + _STEP, end)
            if stop < end:
                cut = body.rfind(b"%", stop - 2, stop)  # no escape is torn
                stop = stop if cut < 0 else cut
            found.append(decode(unquote_to_bytes(body[start:stop].replace(b"+", b" ")), stop == end))
            self._read += stop - start
            start = stop
            if self._read >= _STEP:
                self._read = 0
                yield
        return "".join(found)


async def _in_turns(steps: Generator[None, None, T]) -> T:
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return cast(T, end.value)
        await sleep(0)


async def _of_parts(content_type: str, body: bytes) -> SentForm:
    from svc.http.forms import read_form  # few servers get forms

    parts = (await _in_turns(read_form(content_type, body, lambda name: None))).parts
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
