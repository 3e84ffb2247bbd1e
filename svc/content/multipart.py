"""`multipart/form-data` (spec: http §7.5; RFC 7578): a form whose parts are attributes of one record, files among them.

python-multipart finds the parts; their values are made here. The content of a file is written to an object of the caller as it arrives, so that only
fields are in memory, at most `MAX_FIELDS` bytes of them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from svc.content.json_type import decode_json
from svc.content.texts import convert, decode_text
from svc.errors import BadBody, ClientError
from svc.store.blobs import Blob
from svc.store.schema import Attribute
from svc.store.values.conversion import printable, shown

MAX_PARTS = 500
MAX_NAME = 250  # characters of the name of a part that is told
MAX_FIELDS = 4 << 20  # bytes of all parts that are not files, which are kept in memory

logging.getLogger("python_multipart.multipart").setLevel(
    logging.CRITICAL
)  # errors in a body are reported to the client, and are not events of the server


class PartContent(Protocol):
    """A writer for the content of a file."""

    def write(self, data: bytes, /) -> object: ...


@dataclass(slots=True)
class FormPart:
    """A part of a form. `content_type`: None without one. `data`: of a field, complete once it has ended; `content`: the writer of a file's content."""

    name: str
    content_type: str | None
    is_file: bool
    data: bytes = b""
    content: Any = None


OpenContent = Callable[[FormPart], PartContent | None]
"""Returns the writer for the content of a part; None: it is a field, kept in memory."""


class MultipartReader:
    """`feed` the body, then `end`. Both raise BadBody and 413. `on_part_end`: called with each part that has a content of its own when that is all."""

    def __init__(self, content_type: str, open_content: OpenContent, on_part_end: Callable[[FormPart], None] | None = None) -> None:
        boundary = parse_options_header(content_type)[1].get(b"boundary", b"")
        if not boundary:
            raise BadBody("multipart/form-data needs a boundary in the Content-Type")
        self.parts: list[FormPart] = []
        self._open = open_content
        self._on_part_end = _ignore if on_part_end is None else on_part_end
        self._names: set[str] = set()
        self._part: FormPart | None = None
        self._is_untouched = False  # the part has an empty file name, and no bytes so far
        self._field: list[bytes] = []  # data of the part that is being read
        self._kept = 0  # bytes of fields
        self._count = 0
        self._fed = 0
        self._first = b"\n--" + boundary
        self._preamble: bytes | None = b"\n"  # the end of what precedes the first boundary, which begins a line; None: it has come
        self._is_complete = False
        self._headers: dict[bytes, bytes] = {}
        self._header_name = self._header_value = b""
        try:
            self._parser = MultipartParser(
                boundary,
                {
                    "on_part_begin": self._begin,
                    "on_header_field": self._name_piece,
                    "on_header_value": self._value_piece,
                    "on_header_end": self._header_end,
                    "on_headers_finished": self._head,
                    "on_part_data": self._data,
                    "on_part_end": self._end_part,
                    "on_end": self._complete,
                },
            )
        except FormParserError as error:
            raise _invalid(str(error)) from None

    def feed(self, data: bytes) -> None:
        if self._preamble is not None:
            data = self._after_preamble(self._preamble + data)
        try:
            self._parser.write(data)
        except FormParserError as error:
            at = getattr(error, "offset", -1)
            raise _invalid(f"malformed at byte {self._fed + at}" if at >= 0 else "malformed") from None
        self._fed += len(data)

    def _after_preamble(self, data: bytes) -> bytes:
        """What of `data` the parser is to read: it does not know that any text may stand before the first boundary (RFC 2046 §5.1.1)."""
        start = data.find(self._first)
        if start >= 0:
            self._preamble = None
            self._fed += start  # that of the line feed which was put in front is the one of which `start` is short
            return data[start + 1 :]
        self._preamble = data[-len(self._first) :]
        self._fed += len(data) - len(self._preamble)
        return b""

    def end(self) -> None:
        if self._preamble is not None:
            raise _invalid("none of its lines begins with its boundary")
        if not self._is_complete:
            raise _invalid("it ends before its last boundary")

    def close(self) -> None:
        """Give back what refers to the reader and to which it refers, so that nothing waits for the garbage collector."""
        self._parser.callbacks = {}
        self._open, self._on_part_end = _open_nothing, _ignore

    # what the parser finds

    def _begin(self) -> None:
        self._count += 1
        if self._count > MAX_PARTS:
            raise ClientError(f"The form has more than {MAX_PARTS} parts", 413)
        self._headers = {}
        self._header_name = self._header_value = b""

    def _name_piece(self, data: bytes, start: int, end: int) -> None:
        self._header_name += data[start:end]

    def _value_piece(self, data: bytes, start: int, end: int) -> None:
        self._header_value += data[start:end]

    def _header_end(self) -> None:
        self._headers[self._header_name.lower()] = self._header_value
        self._header_name = self._header_value = b""

    def _head(self) -> None:
        kind, options = parse_options_header(self._headers.get(b"content-disposition", b""))
        try:
            name = options.get(b"name", b"").decode()
            content_type = self._headers[b"content-type"].decode("ascii").strip() if b"content-type" in self._headers else None
        except UnicodeDecodeError:
            raise _invalid(f"part {self._count} has a head that is not UTF-8") from None
        if kind != b"form-data" or not name:
            raise _invalid(f"part {self._count} has no name")
        if name in self._names:
            raise _invalid(f"part {self._count} is a second one with the name {shown(name)}")
        self._names.add(name)
        self._part = FormPart(name, content_type or None, b"filename" in options)
        # What a browser sends for a file field in which no file was chosen: no content is not an empty file (HTML, constructing the entry list).
        self._is_untouched = options.get(b"filename") == b""
        if not self._is_untouched:
            self._begin_content(self._part)

    def _begin_content(self, part: FormPart) -> None:
        self._is_untouched = False
        try:
            part.content = self._open(part)
        except ClientError as error:
            raise in_part(error, part) from None
        self.parts.append(part)
        self._field = []

    def _data(self, data: bytes, start: int, end: int) -> None:
        part = self._part
        assert part is not None
        if self._is_untouched and start < end:
            self._begin_content(part)
        if part.content is not None:
            part.content.write(data[start:end])
            return
        self._kept += end - start
        if self._kept > MAX_FIELDS:
            raise ClientError(
                f"The parts of the form that are not files are longer than {MAX_FIELDS} bytes, at part {printable(part.name)}", 413
            )
        self._field.append(data[start:end])

    def _end_part(self) -> None:
        part, self._part = self._part, None
        if part is None:
            raise _invalid(f"part {self._count} has no name")
        if self._is_untouched:
            return
        if part.content is None:
            part.data, self._field = b"".join(self._field), []
        else:
            self._on_part_end(part)

    def _complete(self) -> None:
        self._is_complete = True


def in_part(error: ClientError, part: FormPart) -> ClientError:
    """The error of a part, with its name."""
    error.message = f"Part {shown(part.name)}: {error.message}"
    error.faults = ({"attribute": part.name[:MAX_NAME], "message": error.message},)
    return error


def _open_nothing(part: FormPart) -> PartContent | None:
    return None


def _ignore(part: FormPart) -> None:
    pass


def _invalid(what: str) -> BadBody:
    return BadBody(f"Invalid multipart/form-data: {what}")


def becomes_blob(part: FormPart, attribute: Attribute | None) -> bool:
    """Whether the content of a part is a blob: a file where nothing else is declared, and whatever is sent for a `Blob`."""
    if attribute is None:
        return part.is_file
    return attribute.type == "Blob" or (part.is_file and attribute.type == "Any" and attribute.stored and not attribute.elements)


def part_value(part: FormPart, attribute: Attribute | None, *, typed: bool = True) -> Any:
    """The value of a part that has ended. `typed`: texts are converted, as cells of CSV; else they stay text.

    Raises BadBody, and BadValue for a text that its attribute's type cannot take, with the name of the part.
    """
    try:
        return _part_value(part, attribute, typed)
    except ClientError as error:
        raise in_part(error, part) from None


def _part_value(part: FormPart, attribute: Attribute | None, typed: bool) -> Any:
    if isinstance(part.content, Blob):
        return [part.content] if attribute is not None and attribute.elements else part.content
    if part.is_file and attribute is not None and attribute.type == "Bytes" and not attribute.elements:
        return part.data
    media_type, parameters = _type_of(part)
    if media_type == "application/json":
        return decode_json(part.data)
    text = decode_text(part.data, parameters)
    return convert(text, attribute) if typed else text


def _type_of(part: FormPart) -> tuple[str, Mapping[str, str]]:
    kind, options = parse_options_header(part.content_type or "text/plain")
    return kind.decode(), {"charset": options[b"charset"].decode("latin-1")} if b"charset" in options else {}


def form_record(parts: list[FormPart], attributes: Mapping[str, Attribute] | None) -> dict[str, Any]:
    """The record that a form is; `attributes` None: nothing is declared. An empty field is an absent property, as an empty cell of CSV."""
    record = {}
    try:
        for part in parts:
            if part.data or part.content is not None or part.is_file or attributes is None:
                record[part.name] = part_value(
                    part, None if attributes is None else attributes.get(part.name), typed=attributes is not None
                )
    except BaseException:
        # Files go with the last reference to them: not when the traceback does, but now.
        record.clear()
        for part in parts:
            part.content = None
        raise
    return record
