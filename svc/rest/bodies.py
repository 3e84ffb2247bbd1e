"""Request bodies to values (contract: http §2.5, §7, §8)."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from svc.content.json_type import decode_json, decode_json_slices
from svc.content.registry import ContentTypes
from svc.content.texts import charset_of
from svc.errors import BadBody, ClientError
from svc.messages import Request
from svc.resources import Resource, TableResource
from svc.rest.decoding import RequestDecoder
from svc.store.blobs import create_blob
from svc.store.schema import Attribute
from svc.store.slices import Slices

PATCH_DIALECTS = ("application/merge-patch+json", "application/json-patch+json")
LONG_BODY = 1 << 17  # bytes: a longer one takes more than a slice to decode
BINARY_TYPE = "application/octet-stream"
TABULAR = "text/csv"  # always a list of rows
_FOR_PATCH = ("application/json", "application/cbor", "application/x-msgpack")


def accept_patch(types: ContentTypes) -> tuple[str, str]:
    return "Accept-Patch", ", ".join([name for name in _FOR_PATCH if types.reader(name) is not None])


class Bodies:
    """Reads the bodies of requests. What takes longer than a turn may is an awaitable of the value."""

    def __init__(self, types: ContentTypes, decoder: RequestDecoder) -> None:
        self._types = types
        self._decoder = decoder

    def read(self, request: Request, resource: type[Resource] | None = None) -> Any:
        """The value of the body. Raises BadBody (400), 413 or 415.

        Sets `request.native_body`: its values have types of their own, dates need not be read from text.
        """
        if not request.content:
            raise BadBody(f"{request.method} needs a body")
        if resource is None or not issubclass(resource, TableResource):
            return self._decoded(request, lambda: self._value(request, None))
        return self._decoded(request, lambda: self._value(request, resource.table.attributes, resource.store.slices))

    def read_property(self, request: Request, attribute: Attribute) -> Any:
        """The value that is uploaded as one property: bytes stay bytes where the attribute holds them (http §2.5)."""
        content_type = request.block.get("content-type")
        if holds_raw_bytes(attribute, content_type, self._types):
            if attribute.type == "Blob" and not attribute.elements:
                return self._decoded(request, lambda: create_blob(request.content, type=content_type))
            return self._decoded(request, lambda: request.content)
        if not request.content:
            raise BadBody("PUT needs a body")
        return self._decoded(request, lambda: self._value(request, {attribute.name: attribute}))

    def _decoded(self, request: Request, value: Callable[[], Any]) -> Any:
        """`value()` once the content coding is removed."""
        coding = request.block.fields.get("content-encoding")
        if coding is None or not request.content or request.is_decoded:
            return value()
        content = self._decoder.decode(coding, request.content)
        if isinstance(content, bytes):
            request.content, request.is_decoded = content, True
            return value()
        return _later(request, content, value)

    def _value(self, request: Request, attributes: Mapping[str, Attribute] | None, slices: Slices | None = None) -> Any:
        """`attributes`: of the table that the value is for; None: it is for a resource's own code. `slices`: in which a long body is decoded."""
        types, body = self._types, request.content
        content_type = request.block.get("content-type")
        media_type = media_type_of(content_type)
        if not body:
            raise BadBody(f"{request.method} needs a body")
        if request.method == "PATCH" and media_type in PATCH_DIALECTS:
            raise ClientError(f"{media_type} is not supported: PATCH merges top-level properties", 415, headers=(accept_patch(types),))
        is_long = len(body) > LONG_BODY
        if not media_type and body[:1] in (b"{", b"["):
            if slices is not None and is_long:
                return _untyped(body, slices)
            try:
                return decode_json(body)
            except BadBody:
                return raw_content(content_type, media_type, body)  # without a type it is JSON only if it parses (http §7.4)
        reader = types.reader(media_type) if media_type else None
        if reader is not None:
            request.native_body = reader.native and not reader.text_bodies
            parameters = parameters_of(content_type or "")
            if slices is not None and is_long:
                return slices.result(reader.decode_slices(body, parameters, attributes))
            return reader.decode(body, parameters, attributes)
        if request.method == "QUERY":
            raise ClientError(f"{media_type or 'A body without a type'} cannot hold a query; send application/json", 415)
        if attributes is None and media_type == BINARY_TYPE:
            return body
        if attributes is None and media_type == "text/plain":
            return raw_content(content_type, media_type, body)["data"]
        return raw_content(content_type, media_type, body)


def holds_raw_bytes(attribute: Attribute, content_type: str | None, types: ContentTypes) -> bool:
    """Whether what is uploaded to this attribute is taken as it comes, whatever its bytes mean."""
    media_type = media_type_of(content_type)
    return media_type == BINARY_TYPE or (attribute.type in ("Bytes", "Blob") and (not media_type or types.reader(media_type) is None))


async def _untyped(body: bytes, slices: Slices) -> Any:
    try:
        return await slices.result(decode_json_slices(body))
    except BadBody:
        return raw_content(None, "", body)


async def _later(request: Request, content: Awaitable[bytes], value: Callable[[], Any]) -> Any:
    request.content, request.is_decoded = await content, True
    result = value()
    return await result if inspect.isawaitable(result) else result


def one_row(request: Request, data: list[Any]) -> Any:
    """The record in a CSV body for the address of one record, which must have one row (http §7.3); other lists as they are."""
    if media_type_of(request.block.get("content-type")) != TABULAR:
        return data
    if len(data) != 1:
        raise BadBody(f"CSV for one record must have one row of values, it has {len(data)}")
    return data[0]


def media_type_of(content_type: str | None) -> str:
    return "" if content_type is None else content_type.partition(";")[0].strip().lower()


def parameters_of(content_type: str) -> dict[str, str]:
    """The parameters of a media type, names in lower case, without quotes.

    >>> parameters_of('text/csv; Charset="utf-8"; header=present')
    {'charset': 'utf-8', 'header': 'present'}
    """
    found = {}
    for part in content_type.split(";")[1:]:
        name, mark, value = part.partition("=")
        if mark:
            found[name.strip().lower()] = value.strip().strip('"')
    return found


def raw_content(content_type: str | None, media_type: str, body: bytes) -> dict[str, Any]:
    """A body of a type without structure, as the record `{contentType, data}` (http §7.4): text for `text/*`, else bytes."""
    if not media_type:
        return {"contentType": BINARY_TYPE, "data": body}
    kept, charset = split_charset(content_type or "")
    if not media_type.startswith("text/"):
        return {"contentType": kept, "data": body}
    try:
        return {"contentType": kept, "data": body.decode(charset_of({"charset": charset}))}
    except UnicodeError:
        raise BadBody(f"The body is not valid {charset[:40]} text") from None


def split_charset(content_type: str) -> tuple[str, str]:
    """(the type with its parameters but without charset, the charset in lower case, default utf-8)."""
    charset = "utf-8"
    kept = []
    for part in content_type.split(";"):
        name, _, value = part.strip().partition("=")
        if name.lower() == "charset":
            charset = value.strip().strip('"').lower() or charset
        elif part.strip():
            kept.append(part.strip())
    return "; ".join(kept), charset
