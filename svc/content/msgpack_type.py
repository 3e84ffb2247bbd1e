"""`application/x-msgpack`, `application/msgpack` (spec: http §7.1, §7.2).

A collection is one array, so its length must be known first; `;sequence=true` makes it the concatenation of its values instead. Stored records
are MessagePack already (svc.store.values.records): records without extensions are sent as stored, others are decoded and encoded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import date
from struct import Struct
from typing import Any

import msgspec
from msgspec.msgpack import Decoder, Encoder, Ext

from svc.content.content_type import ANY_SHAPE, ContentType, Shape, Slices, run
from svc.content.heavy_rows import Weight, row_pieces
from svc.content.msgpack_reader import EXT_INTEGER, EXT_SET, decode_msgpack, decode_msgpack_slices, decode_sequence
from svc.content.values import Form, as_datetime, in_order, is_blob, make_form, replace_lone_surrogates, to_plain, unencodable
from svc.store.schema import Attribute
from svc.store.values import records

EXT_TIMESTAMP = -1

_encode = Encoder().encode
_EXTENSIONS = bytes((0xC7, 0xC8, 0xC9, 0xD4, 0xD5, 0xD6, 0xD7, 0xD8))  # first bytes of them
_REMEMBERED = 1024

_pack_32 = Struct(">I").pack
_pack_64 = Struct(">Q").pack
_pack_96 = Struct(">Iq").pack
_unpack_ms = Struct(">q").unpack


def header(count: int, fix: int, most: int, wide: int) -> bytes:
    """Of an array (0x90, 15, 0xDC) or a map (0x80, 15, 0xDE)."""
    if count <= most:
        return bytes((fix + count,))
    return bytes((wide,)) + count.to_bytes(2, "big") if count < 1 << 16 else bytes((wide + 1,)) + count.to_bytes(4, "big")


def array_header(count: int) -> bytes:
    return header(count, 0x90, 15, 0xDC)


def timestamp(ms: int) -> Ext:
    """The shortest of the three forms of a timestamp."""
    seconds, rest = divmod(ms, 1000)
    if not rest and 0 <= seconds < 1 << 32:
        return Ext(EXT_TIMESTAMP, _pack_32(seconds))
    if 0 <= seconds < 1 << 34:
        return Ext(EXT_TIMESTAMP, _pack_64(rest * 1_000_000 << 34 | seconds))
    return Ext(EXT_TIMESTAMP, _pack_96(rest * 1_000_000, seconds))


def encode_msgpack(value: Any) -> bytes:
    """The MessagePack of any value that `values` knows. Raises TypeError."""
    try:
        try:
            return _encode(_form(value))
        except (OverflowError, UnicodeEncodeError):  # an integer beyond 64 bits, a lone surrogate
            return _encode(_careful_form(value))
    except RecursionError:
        raise unencodable(value, "application/x-msgpack") from None


def _leaf(value: Any, form: Form) -> Any:
    if isinstance(value, date):
        return timestamp(records.to_ms(as_datetime(value)))
    if isinstance(value, set | frozenset):
        return Ext(EXT_SET, _encode([form(element) for element in in_order(value)]))
    return value.binary_form() if is_blob(value) else form(to_plain(value))


def _careful_leaf(value: Any, form: Form) -> Any:
    kind = type(value)
    if kind is str:
        return replace_lone_surrogates(value)
    if kind is int:
        if -(1 << 63) <= value < 1 << 64:
            return value
        return Ext(EXT_INTEGER, value.to_bytes(value.bit_length() // 8 + 1, "big", signed=True))
    return _leaf(value, form)


def _mapping(value: Mapping[Any, Any], form: Form) -> Any:
    parts = [header(len(value), 0x80, 15, 0xDE)]
    for key, member in value.items():
        parts.append(_encode(form(key)))
        parts.append(_encode(form(member)))
    return msgspec.Raw(b"".join(parts))


_PLAIN: frozenset[type] = frozenset((str, int, float, bool, type(None), bytes))
_form = make_form(_PLAIN, _leaf, _mapping)
_careful_form = make_form(_PLAIN - {str, int}, _careful_leaf, _mapping, key_types=frozenset())


# --- stored records ------------------------------------------------------------------------------------------------------------------------

_timestamps: dict[bytes, Ext] = {}


def _from_stored(code: int, data: memoryview) -> Any:
    """A stored extension as one of the wire. Sets and integers have the same code in both; the elements of a set are converted again."""
    if code == records.EXT_DATE:
        packed = data.tobytes()
        known = _timestamps.get(packed)
        if known is None:
            if len(_timestamps) >= _REMEMBERED:
                _timestamps.clear()
            known = _timestamps[packed] = timestamp(_unpack_ms(packed)[0])
        return known
    if code == records.EXT_INTEGER:
        return Ext(EXT_INTEGER, data.tobytes())
    if code == records.EXT_SET:
        return Ext(EXT_SET, _encode(_decode_stored(data)))
    if code == records.EXT_MAP:
        pairs = _decode_stored(data)
        return msgspec.Raw(header(len(pairs) // 2, 0x80, 15, 0xDE) + b"".join(map(_encode, pairs)))
    raise ValueError("to be decoded by the store")


_decode_many = Decoder(list[dict], ext_hook=_from_stored).decode  # type: ignore[type-arg]
_decode_stored = Decoder(ext_hook=_from_stored).decode


def _may_have_extensions(payload: bytes) -> bool:
    """Such a byte may also be part of a string or a number, which then takes the slow path. (A regular expression takes 30 times as long.)"""
    return len(payload.translate(None, _EXTENSIONS)) != len(payload)


def stored_to_wire(raw: bytes) -> bytes:
    """The MessagePack of a stored record."""
    payload = records.raw_payload(raw)
    if not _may_have_extensions(payload):
        return payload
    try:
        return _encode(_decode_stored(payload))
    except (ValueError, TypeError, OverflowError, RecursionError):
        # A blob, or damage, which is named there.
        return encode_msgpack(records.decode(raw))


def many_to_wire(raws: list[bytes]) -> bytes:
    """The MessagePack of stored records, one after the other: `stored_to_wire` of each, but looked over, decoded and encoded together."""
    payloads = [raw[records.PAYLOAD_AT :] if raw[0] == records.FORMAT else records.raw_payload(raw) for raw in raws]
    joined = b"".join(payloads)
    if not _may_have_extensions(joined):
        return joined
    count = array_header(len(raws))
    try:
        return _encode(_decode_many(count + joined))[len(count) :]
    except (ValueError, TypeError, OverflowError, RecursionError):
        return b"".join(map(stored_to_wire, raws))


class MsgpackStyle:
    """How MessagePack writes containers (`heavy_rows`)."""

    comma = end_list = end_object = b""

    def encode(self, value: Any) -> bytes:
        return encode_msgpack(value)

    def begin_list(self, length: int) -> bytes:
        return array_header(length)

    def elements(self, values: list[Any]) -> bytes:
        return encode_msgpack(values)[len(array_header(len(values))) :]

    def begin_object(self, length: int) -> bytes:
        return header(length, 0x80, 15, 0xDE)

    def name(self, name: Any) -> bytes:
        return encode_msgpack(name)


_STYLE = MsgpackStyle()


class MsgpackType(ContentType):
    """One handler for both names; `named` by either."""

    name = content_type = "application/x-msgpack"
    q = 0.9
    style = _STYLE
    native = True
    needs_count = True

    def as_sequence(self) -> ContentType:
        return MsgpackSequenceType(self.name)

    def encode(self, value: Any) -> bytes:
        return encode_msgpack(value)

    def encode_stored(self, raw: bytes) -> bytes:
        return stored_to_wire(raw)

    def row_writer(self, shape: Shape = ANY_SHAPE, count: int | None = None) -> MsgpackRows:
        return MsgpackRows(count)

    def decode(self, body: bytes, parameters: Mapping[str, str], attributes: Mapping[str, Attribute] | None = None) -> Any:
        return run(decode_sequence(body)) if is_sequence(parameters) else decode_msgpack(body)

    def decode_slices(self, body: bytes, parameters: Mapping[str, str], attributes: Mapping[str, Attribute] | None = None) -> Slices:
        return decode_sequence(body) if is_sequence(parameters) else decode_msgpack_slices(body)


def is_sequence(parameters: Mapping[str, str]) -> bool:
    return parameters.get("sequence", "").lower() == "true"


class MsgpackSequenceType(MsgpackType):
    """`;sequence=true`: the values one after the other."""

    needs_count = False

    def __init__(self, name: str) -> None:
        self.name = name
        self.content_type = f"{name};sequence=true"

    def encode(self, value: Any) -> bytes:
        return b"".join(map(encode_msgpack, value)) if isinstance(value, list | tuple) else encode_msgpack(value)

    def row_writer(self, shape: Shape = ANY_SHAPE, count: int | None = None) -> MsgpackRows:
        return SequenceRows()


class MsgpackRows:
    """An array of `count` elements. Without a count it is held back until its end is known."""

    __slots__ = ("_count", "_held", "_written")

    def __init__(self, count: int | None) -> None:
        self._count = count
        self._written = 0
        self._held: list[bytes] | None = [] if count is None else None

    def begin(self) -> bytes:
        return b"" if self._count is None else array_header(self._count)

    def rows(self, batch: list[Any]) -> bytes:
        return self._elements(len(batch), encode_msgpack(batch)[len(array_header(len(batch))) :])

    values = rows

    def raw(self, batch: list[bytes]) -> bytes:
        return self._elements(len(batch), many_to_wire(batch))

    def pieces(self, row: Any, weight: Weight) -> Iterator[bytes] | None:
        if self._held is not None:
            return None
        self._written += 1
        return row_pieces(row, weight, _STYLE)

    def failure(self, error: dict[str, Any]) -> bytes | None:
        return None

    def end(self) -> bytes:
        """Raises RuntimeError if there were not as many rows as said: the array is not whole then."""
        if self._held is not None:
            return array_header(self._written) + b"".join(self._held)
        if self._written != self._count:
            raise RuntimeError(f"{self._written} rows were found where {self._count} had been counted")
        return b""

    def _elements(self, count: int, encoded: bytes) -> bytes:
        self._written += count
        if self._held is None:
            return encoded
        self._held.append(encoded)
        return b""


class SequenceRows(MsgpackRows):
    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(0)

    def begin(self) -> bytes:
        return b""

    def end(self) -> bytes:
        return b""
