"""`application/json` (spec: http §7.1, §7.2; RFC 8259). All digits of integers both ways; `1.0` and `1` are one number."""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from typing import Any

import msgspec

from svc.content.content_type import ANY_SHAPE, SLICE_BYTES, ContentType, Shape, Slices
from svc.content.heavy_rows import Weight, row_pieces
from svc.content.json_pieces import decode_in_pieces, decode_member_in_pieces
from svc.content.values import json_form, unencodable, without_lone_surrogates
from svc.errors import BadBody
from svc.store.schema import Attribute
from svc.store.values.records import decode_json as decode_stored
from svc.store.values.records import decode_json_many as decode_stored_many
from svc.store.values.records import stored_decoders

MAX_EXACT = 2**53  # beyond it a whole float is not one integer

encode_plain = msgspec.json.Encoder().encode  # of values in JSON form


def _number(literal: str) -> int | float:
    """A JSON number with a fraction or an exponent. `1.0` and `1` are one number (spec: http §7.2)."""
    value = float(literal)
    if value.is_integer() and -MAX_EXACT <= value <= MAX_EXACT:
        return int(value)
    if value - value != 0.0:  # overflowed to an infinity
        raise ValueError(f"{literal[:40]} is out of range")
    return value


_LONE_SURROGATE = re.compile(
    rb"(?<!\\)(?:\\\\)*(\\u(?:d[89ab][0-9a-f]{2}(?!\\ud[c-f][0-9a-f]{2})|(?<!\\ud[89ab][0-9a-f]{2}\\u)d[c-f][0-9a-f]{2}))", re.IGNORECASE
)
_decode = msgspec.json.Decoder(float_hook=_number).decode


def decode_json(body: bytes) -> Any:
    """A JSON document. Raises BadBody with the decoder's message, which names the position."""
    try:
        return _decode(body)  # a byte order mark is a fault, and rare: it is looked for then
    except msgspec.MsgspecError as error:
        if body[:3] == BOM_UTF8 and body[3:6] != BOM_UTF8:
            return decode_json(body[3:])
        raise BadBody(f"Invalid JSON: {_lone_surrogate(body, str(error)) or error}") from None
    except UnicodeDecodeError as error:
        raise BadBody(f"Invalid JSON: not UTF-8 at byte {_offset_of(body, error)}") from None
    except RecursionError:
        raise BadBody("Invalid JSON: nested too deeply") from None
    except ValueError as error:
        raise BadBody(f"Invalid JSON: {error}") from None


def decode_json_slices(body: bytes) -> Slices:
    """A long document is decoded a few elements at a time."""
    body = without_mark(body)
    if len(body) <= SLICE_BYTES:
        return decode_json(body)
    return (yield from decode_in_pieces(body, decode_json))


def decode_json_object_slices(body: bytes, member: str) -> Slices:
    """An object is decoded a few elements of its array `member` at a time, or else a few of its members."""
    body = without_mark(body)
    if len(body) <= SLICE_BYTES:
        return decode_json(body)
    return (yield from decode_member_in_pieces(body, member, decode_json))


def without_mark(body: bytes) -> bytes:
    """A body without its byte order mark, which some programs write, though RFC 8259 §8.1 forbids it."""
    return body[3:] if body[:3] == BOM_UTF8 else body


def _lone_surrogate(body: bytes, what: str) -> str:
    """Of the escape of an unpaired surrogate the decoder says that the document is truncated, or malformed: the plain words; "" without one."""
    found = _LONE_SURROGATE.search(body) if "truncated" in what or "surrogate" in what else None
    return "" if found is None else f"{found[1].decode()} is an unpaired surrogate, which is no character (byte {found.start(1)})"


def _offset_of(body: bytes, error: UnicodeDecodeError) -> int:
    """The offset in the body: the decoder counts within one string."""
    try:
        body.decode()
    except UnicodeDecodeError as whole:
        return whole.start
    return error.start


def encode_json(value: Any) -> bytes:
    """The JSON of any value that `values` knows. Raises TypeError."""
    try:
        form = json_form(value)
        try:
            return encode_plain(form)
        except UnicodeEncodeError:
            return encode_plain(without_lone_surrogates(form))
    except RecursionError:
        raise unencodable(value, "application/json") from None
    except ValueError as error:  # an integer of more digits than Python writes
        raise TypeError(f"the value has no JSON: {error}") from None


class JsonStyle:
    """How JSON writes containers (`heavy_rows`). Values are in JSON form."""

    comma = b","
    end_list = b"]"
    end_object = b"}"

    def encode(self, value: Any) -> bytes:
        return encode_plain(value)

    def begin_list(self, length: int) -> bytes:
        return b"["

    def elements(self, values: list[Any]) -> bytes:
        return encode_plain(values)[1:-1]

    def begin_object(self, length: int) -> bytes:
        return b"{"

    def name(self, name: Any) -> bytes:
        return encode_plain(name) + b":"


JSON_STYLE = JsonStyle()


class JsonType(ContentType):
    name = content_type = "application/json"
    q = 0.8
    style = JSON_STYLE

    def encode(self, value: Any) -> bytes:
        return encode_json(value)

    def encode_stored(self, raw: bytes) -> bytes:
        return encode_plain(decode_stored(raw))

    def plain_steps(self) -> tuple[Callable[[bytes], Any], Callable[[Any], bytes]]:
        return stored_decoders(json=True)[1], encode_plain

    def row_writer(self, shape: Shape = ANY_SHAPE, count: int | None = None) -> JsonRows:
        return JsonRows()

    def decode(self, body: bytes, parameters: Mapping[str, str], attributes: Mapping[str, Attribute] | None = None) -> Any:
        return decode_json(body)

    def decode_slices(self, body: bytes, parameters: Mapping[str, str], attributes: Mapping[str, Attribute] | None = None) -> Slices:
        return decode_json_slices(body)


class JsonRows:
    """An array, element by element: each batch is encoded as one array, whose brackets are left out."""

    __slots__ = ("_empty",)

    def __init__(self) -> None:
        self._empty = True

    def begin(self) -> bytes:
        return b"["

    def rows(self, batch: list[Any]) -> bytes:
        return self._elements(encode_plain(batch))

    def values(self, batch: list[Any]) -> bytes:
        return self._elements(encode_json(batch))

    def raw(self, batch: list[bytes]) -> bytes:
        return self._elements(encode_plain(decode_stored_many(batch)))

    def pieces(self, row: Any, weight: Weight) -> Iterator[bytes]:
        before = b"" if self._empty else b","
        self._empty = False
        return chain((before,), row_pieces(row, weight, JSON_STYLE))

    def failure(self, error: dict[str, Any]) -> bytes | None:
        return self._elements(encode_json([error]))

    def end(self) -> bytes:
        return b"]"

    def _elements(self, array: bytes) -> bytes:
        if self._empty:
            self._empty = False
            return array[1:-1]
        return b"," + array[1:-1]
