"""Request bodies to values (spec: http §2.5, §7, §8)."""

from __future__ import annotations

import inspect
from asyncio import sleep
from collections.abc import Callable, Generator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from svc.awaitables import then
from svc.connection.exchange import BodyLimit
from svc.content.content_type import ContentType, run
from svc.content.json_type import decode_json, decode_json_slices, without_mark
from svc.content.msgpack_type import is_sequence
from svc.content.registry import ContentTypes
from svc.content.texts import charset_of
from svc.content.unchanged import Restore, restore_cells, restore_of
from svc.content.values import is_blob
from svc.errors import BadBody, ClientError
from svc.http.decoding import RequestDecoder
from svc.http.media_types import blob_type, check_content_type, media_type_of, parameters_of, split_charset
from svc.http.raw_content import is_raw_content
from svc.messages import HeaderBlock, Request
from svc.resources import Resource, TableResource
from svc.store.blobs import create_blob
from svc.store.schema import Attribute
from svc.store.slices import Slices
from svc.store.values.records import decode, decode_payload_json, encode_payload

if TYPE_CHECKING:
    from svc.http.forms import AttributeOf, Form

PATCH_DIALECTS = ("application/merge-patch+json", "application/json-patch+json")
LONG_BODY = 1 << 17  # bytes: a longer one takes more than a slice to decode
QUERY_MAX = 8 << 20  # bytes of the body of QUERY, of a GraphQL document with its variables, and of methods whose bodies mean nothing
BINARY_TYPE = "application/octet-stream"
MULTIPART = "multipart/form-data"
TABULAR = "text/csv"  # a body of this type is always a list of rows
LINES = frozenset(("application/x-ndjson", "application/ndjson"))  # bodies of these types are always lists, too
_FOR_PATCH = ("application/json", "application/cbor", "application/x-msgpack")


def accept_patch(types: ContentTypes) -> tuple[str, str]:
    return "Accept-Patch", ", ".join([name for name in _FOR_PATCH if types.reader(name) is not None])


class BodyType:
    """What the header fields say of a body. Kept in the memo of the header block, as long as the content types are the same."""

    __slots__ = ("content_type", "generation", "media_type", "parameters", "reader", "restore")

    def __init__(self, block: HeaderBlock, types: ContentTypes) -> None:
        """Raises BadBody for a `Content-Type` that is malformed, or there twice."""
        self.content_type = content_type = block.get("content-type")
        if content_type:
            check_content_type(content_type)
        self.media_type = media_type_of(content_type)
        self.parameters: Mapping[str, str] = parameters_of(content_type or "")
        self.reader = types.reader(self.media_type) if self.media_type else None
        self.restore = restore_of(self.reader)  # JSON's without a type
        self.generation = types.generation


def body_type(block: HeaderBlock, types: ContentTypes) -> BodyType:
    """Raises BadBody for a `Content-Type` that is malformed, or there twice."""
    known: BodyType | None = block.memo.get("body")
    if known is None or known.generation != types.generation:
        known = block.memo["body"] = BodyType(block, types)
    return known


def query_limit(request: Request, size: int = QUERY_MAX) -> BodyLimit:
    """How a body is collected that is not to be stored."""
    return BodyLimit(size, ClientError(f"The body of {request.method[:40]} is longer than {size} bytes, the limit here", 413))


class Bodies:
    """Reads the bodies of requests. A long body returns an awaitable of its value."""

    def __init__(self, types: ContentTypes, decoder: RequestDecoder) -> None:
        self.types = types
        self._decoder = decoder

    def read(self, request: Request, resource: type[Resource] | None = None, max_bytes: int | None = None) -> Any:
        """The value of the body. Raises BadBody (400), 413 or 415. `max_bytes`: limit of a decoded body, if lower than the general one.

        Sets `request.native_body`: its values have types of their own, dates need not be parsed from strings; and `request.restore`.
        """
        if request.upload is not None:
            upload, request.upload = request.upload, None
            request.restore = restore_cells
            return upload.record(resource.table.attributes if resource is not None and issubclass(resource, TableResource) else None)
        if not request.content:
            raise BadBody(f"{request.method} needs a body")
        if resource is None or not issubclass(resource, TableResource):
            return self._decoded(request, lambda: self._value(request, None), max_bytes)
        if "content-encoding" not in request.block.fields:
            return self._value(request, resource.table.attributes, resource.store.slices)
        return self._decoded(request, lambda: self._value(request, resource.table.attributes, resource.store.slices), max_bytes)

    def read_property(self, request: Request, attribute: Attribute) -> Any:
        """The value that is uploaded as one property: bytes stay bytes where the attribute holds them (spec: http §2.5)."""
        known = body_type(request.block, self.types)
        content_type = known.content_type
        if attribute.type == "Blob" and not attribute.elements:
            request.restore = partial(_refuse_shown, self.types.named(known.media_type), attribute.name)
        if request.upload is not None:
            upload, request.upload = request.upload, None  # else the files of a refused upload would live as long as the connection
            if is_form(content_type, self.types):
                request.restore = restore_cells
            return upload.only_value(attribute) if is_form(content_type, self.types) else upload
        if holds_raw_bytes(attribute, content_type, self.types):
            if attribute.type == "Blob" and not attribute.elements:
                return self._decoded(request, lambda: create_blob(request.content, type=blob_type(content_type)))
            return self._decoded(request, lambda: request.content)
        if not request.content:
            raise BadBody("PUT needs a body")
        if is_form(content_type, self.types):
            return self._decoded(
                request, lambda: self._form(request, lambda name: attribute, lambda form: form.only_value(attribute), None)
            )
        return self._decoded(request, lambda: self._value(request, {attribute.name: attribute}, name=attribute.name))

    def _form(self, request: Request, attribute_of: AttributeOf, value_of: Callable[[Form], Any], slices: Slices | None) -> Any:
        """The result of `value_of` for a complete form."""
        from svc.http.forms import read_form  # imported at the first form: few servers get any

        content_type = request.block.get("content-type") or ""
        request.restore = restore_cells

        def steps() -> Generator[None, None, Any]:
            return value_of((yield from read_form(content_type, request.content, attribute_of)))

        return _in_slices(steps(), slices) if len(request.content) > LONG_BODY else run(steps())

    def _decoded(self, request: Request, value: Callable[[], Any], max_bytes: int | None = None) -> Any:
        """The result of `value()` after the content coding is removed; an awaitable of it for a long body."""
        coding = request.block.fields.get("content-encoding")
        if coding is None or not request.content or request.is_decoded:
            return value()

        def go_on(content: bytes) -> Any:
            request.content, request.is_decoded = content, True
            return value()

        return then(self._decoder.decode(coding, request.content, max_bytes), go_on)

    def _value(
        self, request: Request, attributes: Mapping[str, Attribute] | None, slices: Slices | None = None, name: str | None = None
    ) -> Any:
        """`attributes`: of the table that the value is for; None: it is for a resource's own code. `name`: of the attribute whose value it is; None:
        it is a record.

        `slices`: in which a long body is decoded; None: one step a turn.
        """
        types, body = self.types, request.content
        known = request.block.memo.get("body")
        if known is None or known.generation != types.generation:
            known = request.block.memo["body"] = BodyType(request.block, types)  # as `body_type`: a call less
        content_type, media_type, reader, restore = known.content_type, known.media_type, known.reader, known.restore
        if not body:
            raise BadBody(f"{request.method} needs a body")
        if request.method == "PATCH" and media_type in PATCH_DIALECTS:
            raise ClientError(f"{media_type} is not supported: PATCH merges top-level properties", 415, headers=(accept_patch(types),))
        # A property may be shown in a form that its type reads as another value: an empty cell of CSV as no value.
        writer = types.named(media_type) if reader is None or name is not None else None
        request.restore = partial(_restore_shown, restore, content_type, body, writer, name) if attributes is not None else restore
        is_long = len(body) > LONG_BODY
        if not media_type and without_mark(body)[:1] in (b"{", b"["):
            if is_long:
                return _untyped(body, slices)
            try:
                return decode_json(body)
            except BadBody:
                return raw_content(content_type, media_type, body)  # without a type it is JSON only if it parses (spec: http §7.4)
        if reader is not None:
            request.native_body = reader.native and not reader.text_bodies
            if is_long:
                return _in_slices(reader.decode_slices(body, known.parameters, attributes), slices)
            return reader.decode(body, known.parameters, attributes)
        if request.method == "QUERY":
            raise ClientError(f"{media_type or 'A body without a type'} cannot hold a query; send application/json", 415)
        if is_form(content_type, types):
            attribute_of = (lambda name: None) if attributes is None else attributes.get
            return self._form(request, attribute_of, lambda form: form.record(attributes), slices)
        if attributes is None and media_type == BINARY_TYPE:
            return body
        if attributes is None and media_type == "text/plain":
            return raw_content(content_type, media_type, body)["data"]
        return raw_content(content_type, media_type, body)


def is_form(content_type: str | None, types: ContentTypes) -> bool:
    """Whether a body is a form with parts, and no application reads such bodies in its own way."""
    return content_type is not None and media_type_of(content_type) == MULTIPART and types.reader(MULTIPART) is None


def holds_raw_bytes(attribute: Attribute, content_type: str | None, types: ContentTypes) -> bool:
    """Whether an upload to this attribute is stored as raw bytes, without decoding. What is uploaded to a Blob is a file of whatever type it says."""
    media_type = media_type_of(content_type)
    if media_type == MULTIPART:
        return False
    if attribute.type == "Blob" and not attribute.elements:
        return True
    return media_type == BINARY_TYPE or (attribute.type in ("Bytes", "Blob") and (not media_type or types.reader(media_type) is None))


async def _in_slices(steps: Generator[object, None, Any], slices: Slices | None) -> Any:
    """Run a generator of short steps in slices, without `slices` a step in each turn; its result."""
    result = await (_in_turns(steps) if slices is None else slices.result(steps))
    return await result if inspect.isawaitable(result) else result


async def _in_turns(steps: Generator[object, None, Any]) -> Any:
    while True:
        try:
            next(steps)
        except StopIteration as done:
            return done.value
        await sleep(0)


def _restore_shown(
    restore: Restore,
    content_type: str | None,
    body: bytes,
    writer: ContentType | None,
    name: str | None,
    new: dict[str, Any],
    old: Mapping[str, Any] | None,
) -> dict[str, Any]:
    """A `Restore` after `partial` of the first arguments: returns the stored value if GET of the record, or of its property `name`, answers with this
    body; else the result of `restore`."""
    if old is None:
        return new
    if name is None:
        if (writer is not None or "contentType" in old) and _is_shown_as(old, content_type, body, writer):
            return dict(old)
    elif name in old and _is_shown_as(old[name], content_type, body, writer):
        return {name: old[name]}
    return restore(new, old)


def _refuse_shown(writer: ContentType | None, name: str, new: dict[str, Any], old: Mapping[str, Any] | None) -> dict[str, Any]:
    """A `Restore` after `partial` of the first arguments, for content of the blob `name`. Raises BadBody for what is no content, but what the stored one is
    shown as in the type of `writer`, as at `/Photo/a.image.json`: a client that puts back what it got there does not mean to replace the file."""
    was: Any = None if old is None else old.get(name)
    given: Any = new.get(name)
    if writer is not None and is_blob(was) and is_blob(given):
        form = writer.encode(was if writer.native else decode_payload_json(encode_payload(was)))
        if given.has_content(form) and not was.has_content(form):
            raise BadBody(f"The body is what {name} is shown as in {writer.name}, and not the content of a file")
    return new


def _is_shown_as(value: Any, content_type: str | None, body: bytes, writer: ContentType | None) -> bool:
    """Whether GET of a stored value answers with this body, because the value is raw content (spec: http §7.4), or because `writer` makes it of the value.
    `writer`: of a type that is written and not read, where a body is raw content; for a property of any type."""
    if type(value) is dict and "contentType" in value and is_raw_content(value):
        if split_charset(value["contentType"])[0] != split_charset(content_type or BINARY_TYPE)[0]:
            return False
        data = value["data"]
        return bool(data.has_content(body) if is_blob(data) else (data.encode() if isinstance(data, str) else data) == body)
    if is_blob(value) and split_charset(value.type)[0] == split_charset(content_type or BINARY_TYPE)[0] and value.has_content(body):
        return True
    if writer is None:
        return False
    return bool(writer.encode(value if writer.native else decode_payload_json(encode_payload(value))) == body)


async def _untyped(body: bytes, slices: Slices | None) -> Any:
    try:
        return await _in_slices(decode_json_slices(body), slices)
    except BadBody:
        return raw_content(None, "", body)


def one_row(request: Request, data: list[Any], resource: type[Resource], key: Any) -> Any:
    """The record in a CSV body for the address of one record, which must have one row (spec: http §7.3); for a table's record also that of other types whose
    bodies are always lists. Other lists as they are. `key`: of the record, whose own content the body may be (spec: http §7.4)."""
    content_type = request.block.get("content-type")
    media_type = media_type_of(content_type)
    is_rows = media_type == TABULAR
    if issubclass(resource, TableResource):
        is_rows = is_rows or media_type in LINES or is_sequence(parameters_of(content_type or ""))
        raw = resource.table.get_raw(key) if is_rows else None
        if raw is not None:
            stored = decode(raw)
            if "contentType" in stored and _is_shown_as(stored, content_type, request.content, None):
                return raw_content(content_type, media_type, request.content)
    if not is_rows:
        return data
    if len(data) != 1:
        raise BadBody(f"{media_type} for one record must have one row of values, it has {len(data)}")
    return data[0]


def raw_content(content_type: str | None, media_type: str, body: bytes) -> dict[str, Any]:
    """A body of a type without structure, as the record `{contentType, data}` (spec: http §7.4): a string for `text/*`, else bytes."""
    if not media_type:
        return {"contentType": BINARY_TYPE, "data": body}
    kept, charset = split_charset(content_type or "")
    if not media_type.startswith("text/"):
        return {"contentType": kept, "data": body}
    try:
        return {"contentType": kept, "data": body.decode(charset_of({"charset": charset}))}
    except UnicodeError:
        raise BadBody(f"The body is not valid {charset[:40]} text") from None
