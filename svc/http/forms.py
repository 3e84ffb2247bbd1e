"""Bodies of `multipart/form-data`: decoded in memory, or written to files as they arrive (spec: http §7.5)."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from functools import partial
from typing import Any

from svc.content.multipart import FormPart, MultipartReader, becomes_blob, form_record, in_part, part_value
from svc.errors import BadBody, ClientError, Problem
from svc.http.media_types import blob_type
from svc.store.blobs import Blob, Upload, create_blob
from svc.store.schema import Attribute

FEED = 32 << 10  # bytes that are read in one step

AttributeOf = Callable[[str], Attribute | None]


def _ignore(error: BaseException | None) -> None:
    """The default of `on_change`: do nothing."""


class Form:
    """The parts of a form whose files are on disk."""

    __slots__ = ("parts",)

    def __init__(self, parts: list[FormPart]) -> None:
        self.parts = parts

    def record(self, attributes: Mapping[str, Attribute] | None) -> dict[str, Any]:
        return form_record(self.parts, attributes)

    def only_value(self, attribute: Attribute) -> Any:
        """The value of a form sent to the address of one property: its single part, whatever its name."""
        if len(self.parts) != 1:
            raise BadBody(f"A form for one property must have one part, it has {len(self.parts)}")
        return part_value(self.parts[0], attribute)


class _Pieces:
    """The content of a file in memory."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []

    def write(self, data: bytes) -> None:
        self._pieces.append(data)

    def blob(self, type_: str | None) -> Blob:
        return create_blob(b"".join(self._pieces), type=type_)


def read_form(content_type: str, body: bytes, attribute_of: AttributeOf) -> Generator[None, None, Form]:
    """Decode a complete body; its files are blobs in memory. In short steps. Raises BadBody, 413, and BadValue for an invalid type."""
    reader = MultipartReader(content_type, lambda part: _Pieces() if becomes_blob(part, attribute_of(part.name)) else None)
    for start in range(0, len(body), FEED):
        reader.feed(body[start : start + FEED])
        yield
    reader.end()
    reader.close()
    for part in reader.parts:
        if part.content is not None:
            try:
                part.content = part.content.blob(blob_type(part.content_type))
            except ClientError as error:
                raise in_part(error, part) from None
    return Form(reader.parts)


class _File:
    """The content of a file on its way into a blob."""

    __slots__ = ("_form", "upload")

    def __init__(self, form: FormUpload, upload: Upload) -> None:
        self._form = form
        self.upload = upload

    def write(self, data: bytes) -> None:
        if not self.upload.write(data):
            self._form.is_full = True


class FormUpload:
    """A sink for the body of a form (`connection.exchange.BodySink`): its files are written while they come, its fields are kept."""

    def __init__(self, content_type: str, attribute_of: AttributeOf, open_upload: Callable[[str | None], Upload]) -> None:
        """`open_upload`: of a file with this type. Raises BadBody for a type without boundary."""
        self._attribute_of = attribute_of
        self._open_upload = open_upload
        self._reader = MultipartReader(content_type, self._open, self._finish_part)
        self._uploads: list[Upload] = []
        self._unfinished = 0
        self._error: BaseException | None = None
        self._is_discarded = False
        self._done: Callable[[Form | None, BaseException | None], None] | None = None
        self.is_full = False
        self.on_change: Callable[[BaseException | None], None] = _ignore

    def write(self, data: bytes) -> bool:
        if self._error is not None or self._is_discarded:
            return True
        try:
            self._reader.feed(data)
        except Problem as error:
            self._fail(error)
        return not self.is_full

    def _open(self, part: FormPart) -> _File | None:
        if not becomes_blob(part, self._attribute_of(part.name)):
            return None
        upload = self._open_upload(part.content_type)
        upload.on_change = self._on_upload_change
        self._uploads.append(upload)
        self._unfinished += 1
        return _File(self, upload)

    def _finish_part(self, part: FormPart) -> None:
        part.content.upload.finish(partial(self._on_finished, part))

    def _on_upload_change(self, error: BaseException | None) -> None:
        if error is not None:
            self._fail(error)
        elif self.is_full:
            self.is_full = False
            self.on_change(None)

    def _on_finished(self, part: FormPart, blob: Blob | None, error: BaseException | None) -> None:
        if self._is_discarded or self._error is not None:
            return
        if error is not None:
            self._fail(error)
            return
        self._unfinished -= 1
        part.content = blob
        if self._done is not None and not self._unfinished:
            self._complete(self._done)

    def _complete(self, done: Callable[[Form | None, BaseException | None], None]) -> None:
        form = Form(self._reader.parts)
        self._reader.parts = []  # the reader is part of cycles, and the files of a form that is refused now go with the last reference to them
        self._release()
        done(form, None)

    def _release(self) -> list[Upload]:
        """Forget the uploads: their files go with the last reference to them, and these would be part of cycles."""
        self._reader.close()
        uploads, self._uploads = self._uploads, []
        for upload in uploads:
            upload.on_change = _ignore
        return uploads

    def _fail(self, error: BaseException) -> None:
        if self._error is not None:
            return
        self._error = error
        self._drop()
        if self._done is not None:
            self._done(None, error)
        else:
            self.on_change(error)

    def finish(self, done: Callable[[Form | None, BaseException | None], None]) -> None:
        """The body is complete: `done` gets the form, once its files are on disk, or the exception."""
        if self._error is not None:
            done(None, self._error)
            return
        self._done = done
        try:
            self._reader.end()
        except Problem as error:
            self._fail(error)
            return
        if not self._unfinished:
            self._complete(done)

    def discard(self) -> None:
        """Drop the form and its files."""
        self._is_discarded = True
        self._drop()

    def _drop(self) -> None:
        for upload in self._release():
            upload.discard()
        for part in self._reader.parts:
            part.content = None
