r"""Records <-> bytes (spec: schema-and-store §5, §6.11; http §4.1, §7.2).

A stored record ("raw") is a small header and a MessagePack map, the payload:

    raw[0]       format and flags: 10 = this format; + 01 = an expiry follows the LSN; + 02 = the payload is compressed, a frame of
                 Zstandard (RFC 8878) with the size of its content; + 04 = it refers to blob files; + 08 = a copy of what a source has
                 (`store.caching`): the time of its last refresh follows; + 20 = of such a copy no more is here than the key and what
                 indexes are made of; + 40 = a write of another node that is older than the version has changed it: see `entity_tags`
    raw[1:9]     version: ms since the epoch, double, big-endian. The ETag is made of these 8 bytes alone
    raw[9:17]    LSN of the log entry that wrote it, 64 bits, big-endian
    raw[17:25]   if flagged: expiry, ms since the epoch, double, big-endian
    8 bytes      if flagged: when a copy was fetched or confirmed last, ms since the epoch, double, big-endian
    then         the payload: properties in the order in which the client sent them

What MessagePack has no type for are extensions, so that nothing that can be stored changes its type on the way:

    01           date: ms since the epoch, signed 64 bits, big-endian. MessagePack's own timestamp is not used: with it msgspec always
                 makes datetimes, but most records are read to become JSON, where a date is text
    42           integer beyond 64 bits: two's complement, big-endian
    62           blob: its content, or a reference to the file that has it (`blobs.blob`)
    6d           object with keys that are not all text: MessagePack array k1, v1, k2, v2 ...
    73           set: MessagePack array

Values of plain types (`_PLAIN`) at the top level are the fast path: msgspec takes the record as it is. Anything else is rewritten first.
Measured on a record of 8 attributes and 360 bytes: encode 0.6 us, decode 0.45 us, two attributes by `projection` 0.25 us.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import repeat
from operator import itemgetter
from struct import Struct
from struct import error as StructError
from sys import maxsize
from threading import local
from typing import Any, Final

import msgspec
from msgspec.msgpack import Decoder, Encoder, Ext
from zstandard import ZstdCompressor, ZstdDecompressor, ZstdError, frame_content_size

from svc.errors import BadValue, StoreFailure
from svc.store.blobs import Blob, BlobDescription

Record = dict[str, Any]

FORMAT = 0x10
HAS_EXPIRY = 0x01
COMPRESSED = 0x02
HAS_FILES = 0x04
IS_COPY = 0x08
IS_PARTIAL = 0x20
IS_MERGED = 0x40
FORMAT_WITH_EXPIRY = FORMAT | HAS_EXPIRY
PAYLOAD_AT = 17
PAYLOAD_AT_WITH_EXPIRY = 25
_FLAGS = HAS_EXPIRY | COMPRESSED | HAS_FILES | IS_COPY | IS_PARTIAL | IS_MERGED

COMPRESS_ABOVE = 4096  # bytes of a payload, by default
NEVER = maxsize  # bytes: no payload is larger
_COMPRESSION_LEVEL = 1  # takes about as long as the encoding; higher ones save little more
_WORTHWHILE = 0.9  # share of its size that a payload may keep

EXT_DATE = 0x01
EXT_INTEGER = 0x42
EXT_BLOB = 0x62
EXT_MAP = 0x6D
EXT_SET = 0x73

MISSING: Final = msgspec.UNSET  # false; stands for a property that a record does not have

_pack_header = Struct(">BdQ").pack
_pack_header_with_expiry = Struct(">BdQd").pack
_pack_double = Struct(">d").pack
_unpack_double = Struct(">d").unpack_from
_unpack_lsn = Struct(">Q").unpack_from
_ARRAY_HEADER = Struct(">BI").pack  # MessagePack array of 32-bit length
_pack_ms = Struct(">q").pack
_unpack_ms = Struct(">q").unpack

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_PLAIN = frozenset((str, int, float, bool, bytes, type(None)))
_PLAIN_FIRST, _PLAIN_BEHIND = bytes((FORMAT,)), bytes((FORMAT + 1,))
_PAYLOAD = itemgetter(slice(PAYLOAD_AT, None))  # of a plain record; half the time of a slice
_REMEMBERED = 1024  # entries of each of the memos below; when one is full, it is cleared

# What reading damaged bytes may raise, the conversions of extensions included.
DAMAGE = (msgspec.MsgspecError, StructError, ZstdError, ValueError, TypeError, OverflowError, IndexError, RecursionError, MemoryError)

_encode_msgpack = Encoder().encode
_compress = ZstdCompressor(level=_COMPRESSION_LEVEL).compress
_decompressors = (
    local()
)  # a decompressor does one thing at a time, and gives up the interpreter lock for it: statements of SQL are read on threads


def version_of(raw: bytes) -> float:
    """Ms since the epoch, with a fraction."""
    return _unpack_double(raw, 1)[0]  # type: ignore[no-any-return]


def lsn_of(raw: bytes) -> int:
    return _unpack_lsn(raw, 9)[0]  # type: ignore[no-any-return]


def expiry_of(raw: bytes) -> float | None:
    """Ms since the epoch, None if the record stays."""
    return _unpack_double(raw, 17)[0] if raw[0] & HAS_EXPIRY else None


def refreshed_of(raw: bytes) -> float | None:
    """When a copy of what a source has was fetched or confirmed last, ms since the epoch; None: it is not a copy."""
    if not raw[0] & IS_COPY:
        return None
    return _unpack_double(raw, 25 if raw[0] & HAS_EXPIRY else 17)[0]  # type: ignore[no-any-return]


def is_copy(raw: bytes) -> bool:
    """Whether it is a copy of what a source has: past its expiry it is stale, not gone."""
    return bool(raw[0] & IS_COPY)


def without_refresh(raw: bytes) -> bytes:
    """A copy of what a source has, as a record that is none.

    >>> without_refresh(frame(b"x", 1.0, 2, 3.0, 0, 4.0)) == frame(b"x", 1.0, 2, 3.0)
    True
    """
    at = payload_at(raw)
    return bytes((raw[0] & ~IS_COPY,)) + raw[1 : at - 8] + raw[at:]


def is_partial(raw: bytes) -> bool:
    """Whether no more is left of it than its key and what indexes are made of: the source has the rest."""
    return bool(raw[0] & IS_PARTIAL)


def payload_at(raw: bytes) -> int:
    """Where the payload begins, compressed or not."""
    flags = raw[0]
    return (PAYLOAD_AT_WITH_EXPIRY if flags & HAS_EXPIRY else PAYLOAD_AT) + (8 if flags & IS_COPY else 0)


def encode(
    record: Record,
    version: float,
    lsn: int,
    expiry: float | None,
    compress_above: int = NEVER,
    refreshed: float | None = None,
    *,
    partial: bool = False,
) -> bytes:
    """Raises BadValue for what cannot be stored: values of foreign types, text with half a surrogate pair.

    Tuples become lists; dates lose what is finer than a millisecond, and without zone they are UTC. `record` is not changed.
    Its blobs must have been saved. `compress_above`: bytes of a payload from which on it is compressed, if that makes it smaller.
    `refreshed`: makes it a copy, see `refreshed_of`; `partial`: see `is_partial`.
    """
    files: list[Blob] = []
    payload = _encode_payload(record, files)
    if expiry is None and len(payload) <= compress_above and not files and refreshed is None:
        return _pack_header(FORMAT, version, lsn) + payload  # the common case, which saves a call
    flags = HAS_FILES if files else 0
    if len(payload) > compress_above:
        compressed = _compress(payload)
        if len(compressed) <= _WORTHWHILE * len(payload):
            payload, flags = compressed, flags | COMPRESSED
    return frame(payload, version, lsn, expiry, flags | IS_PARTIAL if partial else flags, refreshed)


def frame(payload: bytes, version: float, lsn: int, expiry: float | None, flags: int = 0, refreshed: float | None = None) -> bytes:
    """A raw record around a payload: `raw_payload` is the way back. `flags`: without those that the arguments imply."""
    if refreshed is not None:
        flags |= IS_COPY
        payload = _pack_double(refreshed) + payload
    if expiry is None:
        return _pack_header(FORMAT | flags, version, lsn) + payload
    return _pack_header_with_expiry(FORMAT_WITH_EXPIRY | flags, version, lsn, expiry) + payload


def encode_payload(value: object) -> bytes:
    """The MessagePack form of a record, a patch, a message: of any value."""
    return _encode_payload(value, [])


def _encode_payload(value: object, files: list[Blob]) -> bytes:
    """`files` gets the blobs in it whose content is in files."""
    try:
        # Checking the types of all values costs 0.2 us; it is what keeps dates and sets from being stored as something else.
        if type(value) is dict and _PLAIN.issuperset(map(type, value.values())):
            return _encode_msgpack(value)
        return _encode_msgpack(_storable_value(value, False, files))
    except OverflowError:
        return _encode_msgpack(_storable_value(value, True, files))
    except UnicodeEncodeError:
        raise BadValue("A string with an unpaired surrogate cannot be stored")
    except RecursionError:
        raise BadValue("A value nested this deep cannot be stored")


def are_plain_values(record: Record) -> bool:
    """Whether MessagePack has types for all of its values, none of which has parts."""
    return _PLAIN.issuperset(map(type, record.values()))


def has_files(raw: bytes) -> bool:
    """Whether the content of some of its blobs is in files."""
    return bool(raw[0] & HAS_FILES)


def raw_payload(raw: bytes) -> bytes:
    """The payload of a raw record, for the log and for `decode_payload`."""
    flags = raw[0]
    if flags == FORMAT:
        return raw[PAYLOAD_AT:]
    if flags & ~_FLAGS != FORMAT:
        raise StoreFailure("A stored record has a format that this version cannot read: a newer version of svc wrote it, or it is damaged")
    start = PAYLOAD_AT_WITH_EXPIRY if flags & HAS_EXPIRY else PAYLOAD_AT
    payload = raw[start + 8 :] if flags & IS_COPY else raw[start:]
    if not flags & COMPRESSED:
        return payload
    try:
        try:
            decompress = _decompressors.decompress
        except AttributeError:
            decompress = _decompressors.decompress = ZstdDecompressor().decompress
        return decompress(payload)  # type: ignore[no-any-return]
    except (ZstdError, MemoryError):
        raise _damaged()


def payload_size(raw: bytes) -> int:
    """Bytes of the payload of a raw record, once it is not compressed any more. A damaged one counts as it is."""
    if not raw[0] & COMPRESSED:
        return len(raw)
    try:
        return frame_content_size(raw[payload_at(raw) :])
    except ZstdError:
        return len(raw)


def decode(raw: bytes) -> Record:
    """Python values: dates as aware datetimes in UTC. Raises StoreFailure if the bytes are damaged."""
    # The common format is tested here, which saves a call: a tenth of the whole.
    try:
        return _decode_record(raw[PAYLOAD_AT:] if raw[0] == FORMAT else raw_payload(raw))
    except DAMAGE:
        raise _damaged()


def decode_json(raw: bytes) -> Record:
    """The same, ready for `msgspec.json.encode`: dates as ISO text with ms and Z, sets as lists, keys of objects as text."""
    try:
        return _decode_record_json(raw[PAYLOAD_AT:] if raw[0] == FORMAT else raw_payload(raw))
    except DAMAGE:
        raise _damaged()


def decode_json_many(raws: list[bytes]) -> list[Record]:
    """`decode_json` of each, in one call of the decoder: a quarter less for small records."""
    try:
        if are_plain(raws):
            return decode_joined(join_plain(raws))
    except DAMAGE:
        pass
    # One by one: some have another header, or one is damaged, and this says so.
    return [decode_json(raw) for raw in raws]


def are_plain(raws: Sequence[bytes]) -> bool:
    """Whether all of them have the header of most: no expiry, nothing that is compressed, in files, or a copy. TypeError if one is None."""
    return not raws or (min(raws) >= _PLAIN_FIRST and max(raws) < _PLAIN_BEHIND)  # less than to look at each


def join_plain(raws: Sequence[bytes]) -> bytes:
    """The payloads of records that `are_plain`, as one array, for `decode_joined` and `joined_decoder`, which raise DAMAGE as it is."""
    return _ARRAY_HEADER(0xDD, len(raws)) + b"".join(map(_PAYLOAD, raws))


def decode_payload(payload: bytes) -> Any:
    """The value that `encode_payload` took."""
    try:
        return _decode_value(payload)
    except DAMAGE:
        raise _damaged()


def decode_payload_json(payload: bytes) -> Any:
    """The value that `encode_payload` took, as `decode_json` gives it."""
    try:
        return _decode_value_json(payload)
    except DAMAGE:
        raise _damaged()


def stored_decoders(*, json: bool) -> tuple[Callable[[bytes], Any], Callable[[bytes], Any]]:
    """What decodes parts of payloads, which are an array or a map, to Python values or ready for JSON. Raises what msgspec raises."""
    return (_decode_value_json, _decode_record_json) if json else (_decode_value, _decode_record)


def projection(names: tuple[str, ...], json: bool = False, default: Any = MISSING) -> Callable[[bytes], tuple[Any, ...]]:
    """A function raw -> the values of these top-level properties in this order, `default` for those the record does not have.

    It decodes nothing else: 2 of 8 properties cost half of the whole record. Made once for each set of names, and remembered.
    """
    known = _projections.get((names, json, default))
    if known is None:
        if len(_projections) >= _REMEMBERED:
            _projections.clear()
        known = _projections[names, json, default] = _make_projection(names, json, default)
    return known


def json_selector(
    names: tuple[str, ...], given: tuple[int, ...] = (), default: Any = MISSING
) -> Callable[[list[bytes], list[list[Any]]], list[Record]] | None:
    """A function (raws, columns) -> for each record an object of these different properties in this order, ready for JSON; what a record does
    not have is `default`, or left out if that is MISSING. For the places `given` in `names` the values come from `columns`, a list for each place.

    The records are decoded in one call, and nothing of them but these properties: a third of the time of `projection` and a dict for each.
    None if msgspec cannot read properties of these names. Made once for each set of names, and remembered.
    """
    key = (names, given, default)
    try:
        return _selectors[key]
    except KeyError:
        if len(_selectors) >= _REMEMBERED:
            _selectors.clear()
        made = _selectors[key] = _make_selector(names, given, default)
        return made


def projections(names: tuple[str, ...]) -> Callable[[Sequence[bytes]], list[tuple[Any, ...]]]:
    """A function raws -> the values of these properties for each, in one call of the decoder. What a record lacks is None."""
    project = projection(names, default=None)
    decode_all = struct_decoder(tuple([(f"f{number}", name, Any) for number, name in enumerate(names)]))
    as_tuple = msgspec.structs.astuple

    def project_all(raws: Sequence[bytes]) -> list[tuple[Any, ...]]:
        if decode_all is None or len(raws) < 3:  # for a few, one by one is faster
            return list(map(project, raws))
        return list(map(as_tuple, decode_all(raws) or ()))

    return project_all


def struct_decoder(fields: tuple[tuple[str, str, Any], ...]) -> Callable[[Sequence[bytes]], list[Any] | None] | None:
    """A function raws -> for each a Struct with these fields, (field, property, type), in one call of the decoder. What a record lacks is None.

    A type is what msgspec knows; a value of `msgspec.Raw` refers to all records of the call. The function returns None if a value is of another type.
    None if msgspec cannot read properties of these names. Made once for each set of fields, and remembered.
    """
    try:
        return _struct_decoders[fields]
    except KeyError:
        if len(_struct_decoders) >= _REMEMBERED:
            _struct_decoders.clear()
        made = _struct_decoders[fields] = _make_struct_decoder(fields)
        return made


def joined_decoder(fields: tuple[tuple[str, str, Any], ...]) -> Callable[[bytes], list[Any]] | None:
    """What decodes joined records (`join_plain`): for each a Struct with these fields, (field, property, type), in this order, ready for JSON, which leaves out
    what is MISSING.

    A type is `Any`, or what msgspec knows; dates and other extensions are values of `Any` alone. A value of another type raises DAMAGE. None if msgspec
    cannot read properties of these names. Made once for each set of fields, and remembered.
    """
    try:
        return _joined_decoders[fields]
    except KeyError:
        if len(_joined_decoders) >= _REMEMBERED:
            _joined_decoders.clear()
        made = _joined_decoders[fields] = _make_joined_decoder(fields)
        return made


def iso_text(ms: int) -> str:
    """The JSON form of a date.

    >>> iso_text(1704485247955), iso_text(-1)
    ('2024-01-05T20:07:27.955Z', '1969-12-31T23:59:59.999Z')
    """
    # Dates of records cluster: the text of a minute is formatted once (and 0.3 us instead of 1 us from then on).
    minute, rest = divmod(ms, 60_000)
    text = _minutes.get(minute)
    if text is None:
        if len(_minutes) >= _REMEMBERED:
            _minutes.clear()
        moment = _EPOCH + timedelta(minutes=minute)
        text = _minutes[minute] = f"{moment.year:04}-{moment.month:02}-{moment.day:02}T{moment.hour:02}:{moment.minute:02}:"
    seconds, rest = divmod(rest, 1000)
    return f"{text}{seconds:02}.{rest:03}Z"


def to_ms(moment: datetime) -> int:
    """Whole ms since the epoch, rounded down; without zone it is UTC."""
    return ((moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)) - _EPOCH) // _MILLISECOND


def from_ms(ms: int) -> datetime:
    return _EPOCH + ms * _MILLISECOND


_projections: dict[tuple[tuple[str, ...], bool, Any], Callable[[bytes], tuple[Any, ...]]] = {}
_selectors: dict[tuple[tuple[str, ...], tuple[int, ...], Any], Callable[[list[bytes], list[list[Any]]], list[Record]] | None] = {}
_joined_decoders: dict[tuple[tuple[str, str, Any], ...], Callable[[bytes], list[Any]] | None] = {}
_struct_decoders: dict[tuple[tuple[str, str, Any], ...], Callable[[Sequence[bytes]], list[Any] | None] | None] = {}
_minutes: dict[int, str] = {}
_iso_texts: dict[bytes, str] = {}


def _make_projection(names: tuple[str, ...], json: bool, default: Any) -> Callable[[bytes], tuple[Any, ...]]:
    different = tuple(dict.fromkeys(names))
    # Property names may be anything, field names must be identifiers.
    fields = {f"f{number}": name for number, name in enumerate(different)}
    try:
        struct = msgspec.defstruct("Projection", [(field, Any, default) for field in fields], rename=fields, gc=False)
    except ValueError:
        # msgspec takes no quotes, backslashes or control characters in names.
        whole = decode_json if json else decode
        return lambda raw: tuple(map(whole(raw).get, names, repeat(default)))
    decode_struct = Decoder(struct, ext_hook=_from_extension_json if json else _from_extension).decode
    as_tuple = msgspec.structs.astuple

    def project(raw: bytes) -> tuple[Any, ...]:
        try:
            return as_tuple(decode_struct(raw[PAYLOAD_AT:] if raw[0] == FORMAT else raw_payload(raw)))
        except DAMAGE:
            raise _damaged()

    if different == names:
        return project
    places = [different.index(name) for name in names]

    def project_repeated(raw: bytes) -> tuple[Any, ...]:
        values = project(raw)
        return tuple([values[place] for place in places])

    return project_repeated


def _make_selector(
    names: tuple[str, ...], given: tuple[int, ...], default: Any
) -> Callable[[list[bytes], list[list[Any]]], list[Record]] | None:
    fields = [f"f{number}" for number in range(len(names))]
    try:
        struct = msgspec.defstruct(
            "Selection", [(field, Any, default) for field in fields], rename=dict(zip(fields, names, strict=True)), gc=False
        )
    except ValueError:
        return None
    decode_structs = Decoder(list[struct], ext_hook=_from_extension_json).decode  # type: ignore[valid-type]
    to_builtins = msgspec.to_builtins
    given_fields = [fields[place] for place in given]
    given_names = [names[place] for place in given]

    def select(raws: list[bytes], columns: list[list[Any]]) -> list[Record]:
        try:
            payloads = [raw[PAYLOAD_AT:] if raw[0] == FORMAT else raw_payload(raw) for raw in raws]
            structs = decode_structs(_ARRAY_HEADER(0xDD, len(raws)) + b"".join(payloads))
        except DAMAGE:
            raise _damaged()
        if not given_fields:
            return to_builtins(structs, builtin_types=(bytes,))  # type: ignore[no-any-return]
        # What is given keeps its place while the structs become objects, and is put there afterwards: it would be copied, at any depth.
        for field, column in zip(given_fields, columns, strict=True):
            for found, value in zip(structs, column, strict=True):
                setattr(found, field, MISSING if value is MISSING else True)
        records: list[Record] = to_builtins(structs, builtin_types=(bytes,))
        for name, column in zip(given_names, columns, strict=True):
            for record, value in zip(records, column, strict=True):
                if value is not MISSING:
                    record[name] = value
        return records

    return select


def _make_struct_decoder(fields: tuple[tuple[str, str, Any], ...]) -> Callable[[Sequence[bytes]], list[Any] | None] | None:
    try:
        struct = msgspec.defstruct(
            "Selection",
            [(field, kind, None) for field, _, kind in fields],
            rename={field: name for field, name, _ in fields},
            gc=False,
        )
    except ValueError:
        return None
    decode_structs: Callable[[bytes], list[Any]] = Decoder(list[struct], ext_hook=_from_extension).decode  # type: ignore[valid-type]

    def read(raws: Sequence[bytes]) -> list[Any] | None:
        try:
            payloads = [raw[PAYLOAD_AT:] if raw[0] == FORMAT else raw_payload(raw) for raw in raws]
            return decode_structs(_ARRAY_HEADER(0xDD, len(raws)) + b"".join(payloads))
        except msgspec.ValidationError:
            return None
        except DAMAGE:
            raise _damaged()

    return read


def _make_joined_decoder(fields: tuple[tuple[str, str, Any], ...]) -> Callable[[bytes], list[Any]] | None:
    try:
        struct = msgspec.defstruct(
            "Selection",
            [(field, kind, MISSING) for field, _, kind in fields],
            rename={field: name for field, name, _ in fields},
            gc=False,
        )
    except ValueError:
        return None
    decode: Callable[[bytes], list[Any]] = Decoder(list[struct], ext_hook=_from_extension_json).decode  # type: ignore[valid-type]
    return decode


def _storable_value(value: Any, big: bool, files: list[Blob]) -> Any:
    """`_storable`, but an object stays a map whatever its keys are: the payload of a record always is one."""
    if isinstance(value, dict):
        return {name: _storable(element, big, files) for name, element in value.items()}
    return _storable(value, big, files)


def _storable(value: Any, big: bool, files: list[Blob]) -> Any:
    """A copy that msgspec encodes as this module defines. `big`: it contains integers beyond 64 bits. `files` gets the blobs that are in files."""
    kind = type(value)
    if kind in _PLAIN:
        return _big_integer(value) if big and kind is int and not -(1 << 63) <= value < 1 << 64 else value
    if kind is datetime:
        return Ext(EXT_DATE, _pack_ms(to_ms(value)))
    if kind is Blob:
        if value.number is not None:
            files.append(value)
        return Ext(EXT_BLOB, value.reference())
    if kind is list and not big and _PLAIN.issuperset(map(type, value)):
        return value
    if isinstance(value, dict):
        if all(isinstance(key, str) for key in value):
            return {str(key): _storable(element, big, files) for key, element in value.items()}
        return Ext(EXT_MAP, _encode_payload([part for pair in value.items() for part in pair], files))
    if isinstance(value, (list, tuple)):
        return [_storable(element, big, files) for element in value]
    if isinstance(value, (set, frozenset)):
        # In an order that does not depend on the process: equal sets are equal bytes.
        return Ext(
            EXT_SET, _encode_msgpack([msgspec.Raw(element) for element in sorted(_encode_payload(element, files) for element in value)])
        )
    if isinstance(value, int):
        return _storable(int(value), big, files)
    return _storable_subclass(value)


def _storable_subclass(value: Any) -> Any:
    """A value of another library's type as the plain value it is: enumerations, numbers, strings, bytes, dates. Raises BadValue for others."""
    if isinstance(value, datetime):
        return Ext(EXT_DATE, _pack_ms(to_ms(value)))
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, float):
        return float(value)
    if type(value) is BlobDescription:
        raise value.refusal()
    raise BadValue(f"A value of type {type(value).__name__} cannot be stored")


def _big_integer(value: int) -> Ext:
    return Ext(EXT_INTEGER, value.to_bytes(value.bit_length() // 8 + 1, "big", signed=True))


def _from_extension(code: int, data: memoryview) -> Any:
    if code == EXT_DATE:
        return from_ms(_unpack_ms(data)[0])
    if code == EXT_INTEGER:
        return int.from_bytes(data, "big", signed=True)
    if code == EXT_BLOB:
        return Blob.from_reference(data)
    if code == EXT_MAP:
        parts = _decode_value(data)
        return dict(zip(map(_hashable, parts[::2]), parts[1::2], strict=True))
    if code == EXT_SET:
        return set(map(_hashable, _decode_value(data)))
    raise ValueError(f"unknown extension {code}")


def _from_extension_json(code: int, data: memoryview) -> Any:
    if code == EXT_DATE:
        packed = data.tobytes()
        text = _iso_texts.get(packed)
        if text is None:
            if len(_iso_texts) >= _REMEMBERED:
                _iso_texts.clear()
            text = _iso_texts[packed] = iso_text(_unpack_ms(packed)[0])
        return text
    if code == EXT_INTEGER:
        return int.from_bytes(data, "big", signed=True)
    if code == EXT_BLOB:
        return Blob.from_reference(data).json_form()
    if code == EXT_MAP:
        parts = _decode_value_json(data)
        return dict(zip(map(_text_key, parts[::2]), parts[1::2], strict=True))
    if code == EXT_SET:
        return _decode_value_json(data)
    raise ValueError(f"unknown extension {code}")


def _hashable(value: Any) -> Any:
    """Lists are stored where a set or the keys of an object had tuples or frozensets."""
    if isinstance(value, list):
        return tuple(map(_hashable, value))
    return frozenset(value) if isinstance(value, set) else value


def _text_key(key: Any) -> str:
    return key if isinstance(key, str) else msgspec.json.encode(key).decode().strip('"')


def _damaged() -> StoreFailure:
    return StoreFailure("A stored record is damaged")


_decode_record: Callable[[bytes], Record] = Decoder(dict, ext_hook=_from_extension).decode
_decode_record_json: Callable[[bytes], Record] = Decoder(dict, ext_hook=_from_extension_json).decode
_decode_records_json: Callable[[bytes], list[Record]] = Decoder(list[Record], ext_hook=_from_extension_json).decode


def _refuse_extension(code: int, data: memoryview) -> Any:
    raise ValueError("an extension")


decode_joined = _decode_records_json
"""Decodes joined records (`join_plain`) as `decode_json_many` does."""
decode_joined_strictly: Callable[[bytes], list[Record]] = Decoder(list[Record], ext_hook=_refuse_extension).decode
"""The same if text is all that text in the result can be; raises ValueError where there are dates, or other values that MessagePack has no type for."""
_decode_value: Callable[[Any], Any] = Decoder(ext_hook=_from_extension).decode
_decode_value_json: Callable[[Any], Any] = Decoder(ext_hook=_from_extension_json).decode
