"""`application/cbor` (spec: http §7.1, §7.2; RFC 8949). A collection is an array of indefinite length."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import date
from struct import Struct
from typing import Any

import cbor2
from msgspec.msgpack import Decoder

from svc.content.cbor_reader import decode_cbor, decode_cbor_slices
from svc.content.content_type import ANY_SHAPE, ContentType, Shape, Slices
from svc.content.heavy_rows import Weight, row_pieces
from svc.content.values import Form, as_datetime, in_order, is_blob, make_form, replace_lone_surrogates, to_plain, unencodable
from svc.store.schema import Attribute
from svc.store.values import records

TAG_SECONDS = 1
TAG_SET = 258
TAG_MAP = 259

_encode = cbor2.dumps
_unpack_ms = Struct(">q").unpack
_REMEMBERED = 1024


def encode_cbor(value: Any) -> bytes:
    """The CBOR of any value that `values` knows. Raises TypeError."""
    try:
        try:
            return _encode(_form(value))
        except UnicodeEncodeError:
            return _encode(_careful_form(value))
    except RecursionError:
        raise unencodable(value, "application/cbor") from None
    except cbor2.CBOREncodeError as error:
        raise TypeError(f"the value has no CBOR: {error}") from None


def _moment(ms: int) -> cbor2.CBORTag:
    return cbor2.CBORTag(TAG_SECONDS, ms / 1000 if ms % 1000 else ms // 1000)


def _leaf(value: Any, form: Form) -> Any:
    if isinstance(value, date):
        return _moment(records.to_ms(as_datetime(value)))
    if isinstance(value, set | frozenset):
        return cbor2.CBORTag(TAG_SET, [form(element) for element in in_order(value)])
    return value.binary_form() if is_blob(value) else form(to_plain(value))


def _careful_leaf(value: Any, form: Form) -> Any:
    return replace_lone_surrogates(value) if type(value) is str else _leaf(value, form)


def _mapping(value: Mapping[Any, Any], form: Form) -> Any:
    members = {_key(form(key)): form(member) for key, member in value.items()}
    return members if all(type(key) is str for key in members) else cbor2.CBORTag(TAG_MAP, members)


def _key(key: Any) -> Any:
    """A key in a hashable form."""
    if type(key) is list or type(key) is tuple:
        return tuple(map(_key, key))
    return cbor2.CBORTag(key.tag, _key(key.value)) if type(key) is cbor2.CBORTag else key


_PLAIN: frozenset[type] = frozenset((str, int, float, bool, type(None), bytes))
_form = make_form(_PLAIN, _leaf, _mapping)
_careful_form = make_form(_PLAIN - {str}, _careful_leaf, _mapping, key_types=frozenset())


# --- stored records ------------------------------------------------------------------------------------------------------------------------

_moments: dict[bytes, cbor2.CBORTag] = {}


def _from_stored(code: int, data: memoryview) -> Any:
    """A stored extension as a tag, without creating a datetime first."""
    if code == records.EXT_DATE:
        packed = data.tobytes()
        known = _moments.get(packed)
        if known is None:
            if len(_moments) >= _REMEMBERED:
                _moments.clear()
            known = _moments[packed] = _moment(_unpack_ms(packed)[0])
        return known
    if code == records.EXT_INTEGER:
        return int.from_bytes(data, "big", signed=True)
    if code == records.EXT_SET:
        return cbor2.CBORTag(TAG_SET, _decode_stored(data))
    if code == records.EXT_MAP:
        parts = _decode_stored(data)
        return cbor2.CBORTag(TAG_MAP, dict(zip(map(_key, parts[::2]), parts[1::2], strict=True)))
    raise ValueError("to be decoded by the store")


_decode_stored = Decoder(ext_hook=_from_stored).decode
_decode_record = Decoder(dict, ext_hook=_from_stored).decode


def _stored_form(raw: bytes) -> Any:
    payload = records.raw_payload(raw)
    try:
        return _decode_record(payload)
    except (ValueError, TypeError, OverflowError, RecursionError):
        # A blob, or damaged data, which raises there.
        return _form(records.decode(raw))


class CborStyle:
    """How CBOR writes containers (`heavy_rows`)."""

    comma = end_list = end_object = b""

    def encode(self, value: Any) -> bytes:
        return encode_cbor(value)

    def begin_list(self, length: int) -> bytes:
        return _header(0x80, length)

    def elements(self, values: list[Any]) -> bytes:
        return encode_cbor(values)[_header_length(len(values)) :]

    def begin_object(self, length: int) -> bytes:
        return _header(0xA0, length)

    def name(self, name: Any) -> bytes:
        return encode_cbor(name)


_STYLE = CborStyle()


class CborType(ContentType):
    name = content_type = "application/cbor"
    q = 1.0
    style = _STYLE
    native = True

    def encode(self, value: Any) -> bytes:
        return encode_cbor(value)

    def encode_stored(self, raw: bytes) -> bytes:
        return _encode(_stored_form(raw))

    def row_writer(self, shape: Shape = ANY_SHAPE, count: int | None = None) -> CborRows:
        return CborRows()

    def decode(self, body: bytes, parameters: Mapping[str, str], attributes: Mapping[str, Attribute] | None = None) -> Any:
        return decode_cbor(body)

    def decode_slices(self, body: bytes, parameters: Mapping[str, str], attributes: Mapping[str, Attribute] | None = None) -> Slices:
        return decode_cbor_slices(body)


class CborRows:
    __slots__ = ()

    def begin(self) -> bytes:
        return b"\x9f"

    def rows(self, batch: list[Any]) -> bytes:
        return encode_cbor(batch)[_header_length(len(batch)) :]

    values = rows

    def raw(self, batch: list[bytes]) -> bytes:
        return _encode([_stored_form(raw) for raw in batch])[_header_length(len(batch)) :]

    def pieces(self, row: Any, weight: Weight) -> Iterator[bytes]:
        return row_pieces(row, weight, _STYLE)

    def failure(self, error: dict[str, Any]) -> bytes | None:
        return encode_cbor(error)

    def end(self) -> bytes:
        return b"\xff"


def _header(kind: int, count: int) -> bytes:
    """Of a container with so many members. `kind`: the first byte without them."""
    length = _header_length(count)
    return bytes((kind | count,)) if length == 1 else bytes((kind | {2: 24, 3: 25, 5: 26}[length],)) + count.to_bytes(length - 1, "big")


def _header_length(count: int) -> int:
    """The length of an array's header."""
    return 1 if count < 24 else 2 if count < 1 << 8 else 3 if count < 1 << 16 else 5
