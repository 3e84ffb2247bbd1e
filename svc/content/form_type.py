"""`application/x-www-form-urlencoded`, both ways (spec: http §7.1; https://url.spec.whatwg.org/#application/x-www-form-urlencoded).

A body is a flat object: a name that occurs more than once, or is declared as a list, has a list of values.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from itertools import chain
from typing import Any
from urllib.parse import quote_plus, unquote_to_bytes

from svc.content.content_type import ANY_SHAPE, SLICE_BYTES, ContentType, Shape, Slices, run, split_windows
from svc.content.heavy_rows import Weight
from svc.content.json_type import decode_json, encode_json
from svc.content.texts import charset_of, converter
from svc.content.values import json_form, replace_lone_surrogates
from svc.errors import BadBody
from svc.store.schema import SCALAR_TYPES, Attribute
from svc.store.values.records import decode_json_many as decode_stored_many

SLICE_FIELDS = 1000  # fields read in one step
MAX_FIELD = 1 << 16  # bytes of a field, beyond which its escapes are counted
MAX_ESCAPES = 200_000  # percent-encoded bytes of one field: they are decoded at one time, 10 ms
VALUE_NAME = "value"  # the field of values that are not objects

_IS_JSON = "The form is JSON, or its only field has a name that begins so: send it with Content-Type: application/json"
_bad_escape = re.compile(rb"%(?![0-9A-Fa-f]{2})").search


def decode_form(body: bytes, parameters: Mapping[str, str], attributes: Mapping[str, Attribute] | None = None) -> Slices:
    """Raises BadBody, or BadValue for a string that its attribute's type cannot take.

    >>> run(decode_form(b"a=1&b=x+y%26&a=2", {}))
    {'a': ['1', '2'], 'b': 'x y&'}
    """
    charset = charset_of(parameters)
    if body[:1] in (b"{", b"[") and len(body) <= SLICE_BYTES and _is_json(body):
        raise BadBody(_IS_JSON)
    fields: dict[str, Any] = {}
    empty: list[str] = []  # lists whose first field is empty
    following = 0
    for number, part in enumerate(chain.from_iterable(split_windows(body, b"&")), 1):
        if number % SLICE_FIELDS == 0:
            yield
        offset, following = following, following + len(part) + 1
        if not part:
            continue
        bad = _bad_escape(part)
        if bad is not None:
            raise BadBody(f"Invalid form: bad percent-encoding at byte {offset + bad.start()}")
        if len(part) > MAX_FIELD and part.count(b"%") > MAX_ESCAPES:
            raise BadBody(f"Invalid form: the field at byte {offset} has more than {MAX_ESCAPES} percent-encoded bytes; send it as a file")
        raw_name, _, raw_value = part.partition(b"=")
        try:
            name, text = _text(raw_name, charset), _text(raw_value, charset)
        except UnicodeError:
            raise BadBody(f"Invalid form: the field at byte {offset} is not valid {charset.replace('_', '-')}") from None
        attribute = None if attributes is None else attributes.get(name)
        value = _converted(text, attribute)
        known = fields.get(name, fields)
        if known is fields:
            fields[name] = [value] if attribute is not None and attribute.elements else value
            if value is None and attribute is not None and attribute.elements:
                empty.append(name)
        elif type(known) is list:
            known.append(value)
        else:
            fields[name] = [known, value]
    if len(fields) == 1 and next(iter(fields))[:1] in ("{", "["):
        raise BadBody(_IS_JSON)
    for name in empty:
        if fields[name] == [None]:
            fields[name] = []
    return fields


def _is_json(body: bytes) -> bool:
    try:
        decode_json(body)
    except BadBody:
        return False
    return True


def _text(raw: bytes, charset: str) -> str:
    return unquote_to_bytes(raw.replace(b"+", b" ")).decode(charset)


def _converted(text: str, attribute: Attribute | None) -> Any:
    """By the declared type; each field of a list is one element. Undeclared fields stay strings."""
    if attribute is None:
        return text
    if attribute.elements and attribute.type in SCALAR_TYPES:
        attribute = replace(attribute, elements=False)
    function = converter(attribute)
    return text if function is None else function(text)


def encode_form(value: Any) -> bytes:
    """A list of objects is all their fields, one object after the other. Raises TypeError."""
    form = json_form(value)
    if isinstance(form, list | tuple) and form and all(isinstance(element, dict) for element in form):
        return b"&".join([row for row in map(encode_form, form) if row])
    pairs = []
    for name, member in form.items() if isinstance(form, dict) else ((VALUE_NAME, form),):
        pairs += [(name, text) for text in field_texts(member)]
    return "&".join([f"{quote_plus(replace_lone_surrogates(name))}={quote_plus(text)}" for name, text in pairs]).encode()


def field_texts(value: Any) -> list[str]:
    """The fields of one name that a value is written as. An empty list is one empty field, as in HTML: without any field the property would be absent."""
    form = json_form(value)
    return [_field(element) for element in form] or [""] if isinstance(form, list | tuple) else [_field(form)]


def _field(form: Any) -> str:
    if form is None or form != form:
        return ""
    return replace_lone_surrogates(form) if type(form) is str else encode_json(form).decode().strip('"')


class FormType(ContentType):
    name = content_type = "application/x-www-form-urlencoded"
    q = 0.1

    def encode(self, value: Any) -> bytes:
        return encode_form(value)

    def row_writer(self, shape: Shape = ANY_SHAPE, count: int | None = None) -> FormRows:
        return FormRows(shape)

    def decode(self, body: bytes, parameters: Mapping[str, str], attributes: Mapping[str, Attribute] | None = None) -> Any:
        return run(decode_form(body, parameters, attributes))

    def decode_slices(self, body: bytes, parameters: Mapping[str, str], attributes: Mapping[str, Attribute] | None = None) -> Slices:
        return decode_form(body, parameters, attributes)


class FormRows:
    """All rows in one object: each name has the list of its values."""

    __slots__ = ("_empty", "_shape")

    def __init__(self, shape: Shape) -> None:
        self._empty = True
        self._shape = shape

    def begin(self) -> bytes:
        return b""

    def rows(self, batch: list[Any]) -> bytes:
        columns = self._shape.columns
        if self._shape.form == "value" and columns:
            batch = [{columns[0]: row} for row in batch]
        elif self._shape.form == "array":
            batch = [dict(zip(columns, row, strict=False)) for row in batch]
        body = b"&".join([row for row in map(encode_form, batch) if row])
        if not body or self._empty:
            self._empty = self._empty and not body
            return body
        return b"&" + body

    values = rows

    def raw(self, batch: list[bytes]) -> bytes:
        return self.rows(decode_stored_many(batch))

    def pieces(self, row: Any, weight: Weight) -> None:
        return None

    def failure(self, error: dict[str, Any]) -> bytes | None:
        return None

    def end(self) -> bytes:
        return b""
