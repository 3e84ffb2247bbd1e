"""Entries of the transaction log: one change of one record, and how it is encoded (spec: schema-and-store §13).

An entry is one byte of format and what that format says. Format 2 is format 1 with the trace id of the request behind it, 16 bytes: the image
ends before them. Format 3 has that, or zeros, then what a message of MQTT said beside its payload, and the length of that in 4 bytes. Entries without
either are of format 1, numbers big-endian:

    offset  size
    0       1     format: 1 to 3; + 4 if value and image are packed, see below
    1       1     kind: 1 put, 2 patch, 3 delete, 4 message, 5 invalidate, 6 relocate, 7 expire
    2       1     flags: 1 a user is given, 2 a value is given, 4 an image is given; packed: 8 the value is a copy of what a source has;
                  16 it was merged: the record after it is more than the entry says, see `MergedEntry`;
                  32 the record was copied from another node, see `is_copied`; 64 an own write that is here again, see `is_repeated`
    3       1     operation that asked for it: 0 none, 1 insert, 2 update, 3 upsert
    4       4     number of the table; numbers are not reused, so a table dropped and made again has a history of its own
    8       8     transaction: LSN of the first entry of the same transaction
    16      8     LSN of the entry before it in the same chain, 0 if none is known
    24      8     wall time of the commit, double, ms since the epoch
    32      8     version, double, ms since the epoch; the same for all entries of a transaction
    40      1     length of the table's name
    41      1     length of the node's name
    42      2     length of the user's name
    44      2     length of the key
    46      4     length of the names
    50      4     length of the value
    54            name of the table, name of the origin node, name of the user: UTF-8
                  key: the primary key as `keys` encodes it, whole
                  names: MessagePack array of the attributes that changed
                  value: a record as `records` encodes it. put: the new record; patch: the changed attributes only, increments as
                  {"__op__": "add", "value": n}; message: any value in place of a record; delete, expire, invalidate: none
                  image: the record before the change, to the end of the entry (format 2, 3: to the trace id); left out for new records and
                  with `@table(audit: false)`

Formats 5, 6 and 7 are 1, 2 and 3 with value and image packed: in their place is one frame of Zstandard (RFC 8878) with the size of its content, which is
the value and, right behind it, the image. All lengths are those of the entry that is not packed. So a frame needs no other entry to be read, and what a
change leaves as it was is kept once.

LMDB keeps two or more entries in a page of 4,096 bytes; one above IN_LEAF has whole pages for itself. So those are packed, if they take fewer pages then:
a record of 2 kB that replaces another would take two, and takes one, or a half of one. Others would take longer to be packed than to be written.

A patch that meets no record makes one: it is logged as a patch, so that a merge elsewhere keeps what other nodes know of that record. It then has
all properties of the record, the key among them; what was incremented is an increment there too, not what it resulted in.
`expire` removes what its expiry had made invisible before; no request caused it, so it has no user.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from hashlib import blake2b
from struct import Struct as Layout
from threading import local
from typing import ClassVar

import msgspec
from zstandard import ZstdCompressor, ZstdDecompressor, ZstdError, frame_content_size

from svc.errors import StoreFailure
from svc.store.values.keys import Key, decode_key, encode_key
from svc.store.values.records import COMPRESSED, IS_COPY
from svc.trace_context import TRACE_ID_BYTES

PUT, PATCH, DELETE, MESSAGE, INVALIDATE, RELOCATE, EXPIRE = range(1, 8)
KINDS = ("", "put", "patch", "delete", "message", "invalidate", "relocate", "expire")
NOTES = frozenset((MESSAGE, INVALIDATE))  # change no record
REMOVALS = frozenset((DELETE, EXPIRE))
OPERATIONS = ("", "insert", "update", "upsert")
FORMAT = 1
FORMAT_WITH_TRACE = 2
FORMAT_WITH_MESSAGE = 3
PACKED = 4  # added to one of these
FORMATS = frozenset((FORMAT, FORMAT_WITH_TRACE, FORMAT_WITH_MESSAGE, *range(PACKED | FORMAT, (PACKED | FORMAT_WITH_MESSAGE) + 1)))
_NO_TRACE = bytes(TRACE_ID_BYTES)
HAS_USER, HAS_VALUE, _IMAGE, _COPY, _MERGED, _COPIED, REPEATED = 1, 2, 4, 8, 16, 32, 64
_ANY_TYPE = _MERGED | _COPIED | REPEATED
_TYPES_AT = 4  # bits of the flags before those that tell the type
_PAGE = 4096  # bytes; of systems with larger pages no more is packed than this says
_PAGE_HEADER = 16
IN_LEAF = 2022  # bytes of the largest entry that shares a page: half of one, without its header, that of the entry, and the LSN
PACK_TO = 1 << 16  # bytes of value and image that are packed, in 0.2 ms, and the most that a frame may unpack to
_LEVELS = -6, 1  # tried in this order: what repeats itself, then also how often each byte is there. For 4 kB 6 to 11, and 10 to 23 us
HEADER = Layout(">BBBBIQQddBBHHII")
TABLE = Layout(">I")
_pack_header, _unpack_header, HEADER_SIZE = HEADER.pack, HEADER.unpack_from, HEADER.size
TABLE_OFFSET = 4
_NOTED = 1 << 31  # in the number of a table: see `note_key`
_WHOLE_KEY = 495
_KEPT_KEY = 483
_SIZES = Layout(">HII")  # of key, names and value: the end of the header
_SIZES_OFFSET = 44
LENGTHS = Layout(">BBHH")  # of table, node, user and key
LENGTHS_OFFSET = 40
_NAMES_SIZE = Layout(">I")
_NAMES_SIZE_OFFSET = 46
_VALUE_SIZE_OFFSET = 50
_pack_sizes = _SIZES.pack
_NAMES = 1000  # lists of changed attributes that an encoder of a batch remembers
_encode_names = msgspec.msgpack.Encoder().encode
_decode_names = msgspec.msgpack.Decoder(tuple[str, ...]).decode


class _Codecs(local):
    """Of one thread. Each does one thing at a time, and gives up the interpreter lock for it; entries are read on other threads too."""

    def __init__(self) -> None:
        self.compress = [ZstdCompressor(level=level).compress for level in _LEVELS]
        self.decompress = ZstdDecompressor().decompress


_codecs = _Codecs()


class LogEntry(msgspec.Struct, gc=False):
    """One change of one record. `key`, `value` and `image` are as stored: `keys.decode_key`, `records.decode`."""

    lsn: int
    transaction: int  # LSN of the first entry of the same transaction
    wall_ms: float
    version: float
    table: str
    table_number: int
    key: bytes
    kind: int
    user: str | None
    node: str
    previous: int  # LSN, 0 = none known
    value: bytes | None
    changed: tuple[str, ...]
    image: bytes | None
    operation: int = 0
    trace_id: bytes | None = None  # 16 bytes: of the trace that the writing request was part of
    mqtt: bytes | None = None  # of a message of MQTT: see `mqtt.notes`
    is_merged: ClassVar[bool] = False
    is_copied: ClassVar[bool] = (
        False  # the record was put in place as another node has it, `value`: what is before in its chain plays no part in merging
    )
    is_repeated: ClassVar[bool] = False  # an own write that came back with a copy, or was carried out on one: it was sent when it was made

    @property
    def id(self) -> Key | None:
        """The primary key; None: the whole table is meant."""
        return decode_key(self.key) if self.key else None  # type: ignore[return-value]


class MergedEntry(LogEntry, gc=False):
    """A write of another node that came when newer ones were known, or that did not mean the record that is here: what it says is not what it changed.

    The record after it is found where the next entry of its chain has its image, or stored. `version` and `node` are those of the write. A deletion that
    was merged has left a record: of what newer patches set.
    """

    is_merged: ClassVar[bool] = True


class CopiedEntry(MergedEntry, gc=False):
    is_copied: ClassVar[bool] = True


class CopiedRemoval(LogEntry, gc=False):
    is_copied: ClassVar[bool] = True


class RepeatedEntry(LogEntry, gc=False):
    is_repeated: ClassVar[bool] = True


class RepeatedMergedEntry(MergedEntry, gc=False):
    is_repeated: ClassVar[bool] = True


_TYPES: tuple[type[LogEntry], ...] = (
    LogEntry,
    MergedEntry,
    CopiedRemoval,
    CopiedEntry,
    RepeatedEntry,
    RepeatedMergedEntry,
    LogEntry,
    LogEntry,
)
TYPE_FLAGS = {made: number << _TYPES_AT for number, made in reversed(tuple(enumerate(_TYPES)))}


def log_bytes(entries: Iterable[LogEntry]) -> int:
    """About how much space they take, names left out."""
    return sum(HEADER_SIZE + len(entry.value or b"") + len(entry.image or b"") for entry in entries)


def encode_entry(entry: LogEntry) -> bytes:
    """The bytes of an entry; the LSN is not among them, it is the entry's key."""
    table, node, key, user, value, image = entry.table.encode(), entry.node.encode(), entry.key, entry.user, entry.value, entry.image
    names = _encode_names(entry.changed)
    flags = 0
    if user is None:
        user_name = b""
    else:
        flags = HAS_USER
        user_name = user.encode()
    if value is None:
        value = b""
    else:
        flags |= HAS_VALUE
    if image is None:
        image = b""
    else:
        flags |= _IMAGE
    trace = entry.trace_id
    message = entry.mqtt
    if message is not None:
        trace = (trace or _NO_TRACE) + message + len(message).to_bytes(4)
    header = _pack_header(
        FORMAT if trace is None else FORMAT_WITH_TRACE if message is None else FORMAT_WITH_MESSAGE,
        entry.kind,
        flags,
        entry.operation,
        entry.table_number,
        entry.transaction,
        entry.previous,
        entry.wall_ms,
        entry.version,
        len(table),
        len(node),
        len(user_name),
        len(key),
        len(names),
        len(value),
    )
    data = b"".join((header, table, node, user_name, key, names, value, image, trace or b""))
    return data if len(data) <= IN_LEAF else pack(data)


def encode_any(entry: LogEntry) -> bytes:
    """`encode_entry` for entries that may be of one of the other types: no local write has to be asked."""
    data = encode_entry(entry)
    flags = TYPE_FLAGS[type(entry)]
    return b"".join((data[:2], bytes((data[2] | flags,)), data[3:])) if flags else data


def entry_encoder(
    *,
    kind: int,
    operation: int,
    table: str,
    table_number: int,
    transaction: int,
    wall_ms: float,
    version: float,
    node: str,
    user: str | None,
    trace_id: bytes | None = None,
    names_of: dict[tuple[str, ...], bytes] | None = None,
) -> Callable[[bytes, int, bytes, tuple[str, ...], bytes | None], bytes]:
    """`encode_entry` for the many entries of a batch: a function of (key, previous, value, changed, image). It takes half the time.
    `names_of`: what it remembers, to be shared by several."""
    table_name, node_name, user_name = table.encode(), node.encode(), b"" if user is None else user.encode()
    flags = HAS_VALUE | (0 if user is None else HAS_USER)
    names_between = table_name + node_name + user_name
    sizes = len(table_name), len(node_name), len(user_name)
    if names_of is None:
        names_of = {}
    entry_format, trace = (FORMAT, b"") if trace_id is None else (FORMAT_WITH_TRACE, trace_id)

    def head(flags: int, previous: int) -> bytes:
        return HEADER.pack(entry_format, kind, flags, operation, table_number, transaction, previous, wall_ms, version, *sizes, 0, 0, 0)[
            :_SIZES_OFFSET
        ]

    new = head(flags, 0)

    def encode(key: bytes, previous: int, value: bytes, changed: tuple[str, ...], image: bytes | None) -> bytes:
        names = names_of.get(changed)
        if names is None:
            if len(names_of) >= _NAMES:
                names_of.clear()
            names = names_of[changed] = _encode_names(changed)
        lengths = _pack_sizes(len(key), len(names), len(value))
        if image is None:
            data = b"".join((head(flags, previous) if previous else new, lengths, names_between, key, names, value, trace))
        else:
            data = b"".join((head(flags | _IMAGE, previous), lengths, names_between, key, names, value, image, trace))
        return data if len(data) <= IN_LEAF else pack(data)

    return encode


def pack(data: bytes) -> bytes:
    """An entry of format 1 to 3, packed if it takes fewer pages then."""
    size, value_at, end = len(data), _value_at(data), _records_end(data)
    content = data[value_at:end]
    whole_pages = (size + _PAGE_HEADER - 1) // _PAGE
    most = (whole_pages * _PAGE - _PAGE_HEADER if whole_pages else IN_LEAF) - (size - len(content))  # bytes of a frame that is worthwhile
    if most <= 0 or len(content) > PACK_TO:
        return data
    image_at = int.from_bytes(data[_VALUE_SIZE_OFFSET:HEADER_SIZE])
    if content[0] & COMPRESSED or (image_at < len(content) and content[image_at] & COMPRESSED):
        return data
    for compress in _codecs.compress:
        frame: bytes = compress(content)
        if len(frame) <= most:
            flags = data[2] | _COPY if is_entry_of_copy(data) else data[2]
            return b"".join((bytes((data[0] | PACKED, data[1], flags)), data[3:value_at], frame, data[end:]))
    return data


def _unpack(lsn: int, data: bytes) -> bytes:
    """The entry that `pack` took. Raises StoreFailure if it is damaged."""
    value_at, end = _value_at(data), _records_end(data)
    frame = data[value_at:end]
    try:
        content = _codecs.decompress(frame, allow_extra_data=False) if frame_content_size(frame) <= PACK_TO else b""
    except ZstdError:
        content = b""
    if len(content) < max(int.from_bytes(data[_VALUE_SIZE_OFFSET:HEADER_SIZE]), 1):
        raise StoreFailure(f"Entry {lsn} of the transaction log is damaged")
    return b"".join((bytes((data[0] & ~PACKED, data[1], data[2] & ~_COPY)), data[3:value_at], content, data[end:]))


def _value_at(data: bytes) -> int:
    """Where the value begins, or the frame."""
    table_size, node_size, user_size, key_size = LENGTHS.unpack_from(data, LENGTHS_OFFSET)
    (names_size,) = _NAMES_SIZE.unpack_from(data, _NAMES_SIZE_OFFSET)
    value_at: int = HEADER_SIZE + table_size + node_size + user_size + key_size + names_size
    return value_at


def _records_end(data: bytes) -> int:
    """Where the image ends, or the frame."""
    entry_format = data[0] & ~PACKED
    if entry_format == FORMAT:
        return len(data)
    if entry_format == FORMAT_WITH_TRACE:
        return len(data) - TRACE_ID_BYTES
    return len(data) - 4 - int.from_bytes(data[-4:]) - TRACE_ID_BYTES


def decode_head(lsn: int, data: bytes) -> LogEntry:
    """`decode_entry` for those who need neither value nor image: if these are packed, they are None, and may be damaged."""
    if PACKED < data[0] <= PACKED | FORMAT_WITH_MESSAGE:
        data = b"".join(
            (
                bytes((data[0] & ~PACKED, data[1], data[2] & (HAS_USER | _MERGED | _COPIED | REPEATED))),
                data[3 : _value_at(data)],
                data[_records_end(data) :],
            )
        )
    return decode_entry(lsn, data)


def open_entry(lsn: int, data: bytes) -> tuple[bytes, int, bytes | None, bytes | None]:
    """An encoded entry of any format for those who read its parts by `HEADER`: (the same, not packed; where its image ends; trace id; what a message of
    MQTT said). Raises as `decode_entry`.
    """
    if PACKED < data[0] <= PACKED | FORMAT_WITH_MESSAGE:
        data = _unpack(lsn, data)
    if data[0] == FORMAT:
        return data, len(data), None, None
    if data[0] == FORMAT_WITH_TRACE:
        end = len(data) - TRACE_ID_BYTES
        return data, end, data[end:], None
    if data[0] == FORMAT_WITH_MESSAGE:
        message_at = len(data) - 4 - int.from_bytes(data[-4:])
        end = message_at - TRACE_ID_BYTES
        trace = data[end:message_at]
        return data, end, None if trace == _NO_TRACE else trace, data[message_at:-4]
    raise StoreFailure(f"The transaction log holds an entry of format {data[0]}: it was written by a newer version")


def decode_entry(lsn: int, data: bytes) -> LogEntry:
    """The entry that `encode_entry` made. Raises StoreFailure for a format this version does not know, and if a packed one is damaged."""
    if data[0] == FORMAT:  # saves most a call
        end, trace, message = len(data), None, None
    else:
        data, end, trace, message = open_entry(lsn, data)
    (
        _,
        kind,
        flags,
        operation,
        table_number,
        transaction,
        previous,
        wall_ms,
        version,
        table_size,
        node_size,
        user_size,
        key_size,
        names_size,
        value_size,
    ) = _unpack_header(data)
    node_at = HEADER_SIZE + table_size
    user_at = node_at + node_size
    key_at = user_at + user_size
    names_at = key_at + key_size
    value_at = names_at + names_size
    image_at = value_at + value_size
    return (_TYPES[flags >> _TYPES_AT & 7] if flags & _ANY_TYPE else LogEntry)(
        lsn,
        transaction,
        wall_ms,
        version,
        data[HEADER_SIZE:node_at].decode(),
        table_number,
        data[key_at:names_at],
        kind,
        data[user_at:key_at].decode() if flags & HAS_USER else None,
        data[node_at:user_at].decode(),
        previous,
        data[value_at:image_at] if flags & HAS_VALUE else None,
        _decode_names(data[names_at:value_at]),
        data[image_at:end] if flags & _IMAGE else None,
        operation,
        trace,
        message,
    )


def placeholder(entry: LogEntry) -> LogEntry:
    """What holds the place of the newest entry when that is removed: nothing of its content is left."""
    return LogEntry(entry.lsn, entry.lsn, entry.wall_ms, entry.version, "", 0, encode_key(""), MESSAGE, None, entry.node, 0, None, (), None)


def is_entry_of_copy(data: bytes) -> bool:
    """Whether an encoded entry wrote a copy of what a source has."""
    if data[0] & PACKED:
        return bool(data[2] & _COPY)
    return bool(data[2] & HAS_VALUE and data[_value_at(data)] & IS_COPY)


def is_merged(data: bytes) -> bool:
    """Whether an encoded entry is a `MergedEntry`."""
    return bool(data[2] & _MERGED)


def key_of(data: bytes) -> bytes:
    """The key in an encoded entry."""
    tables, nodes, users, size = LENGTHS.unpack_from(data, LENGTHS_OFFSET)
    at: int = HEADER_SIZE + tables + nodes + users
    return data[at : at + size]


def table_number_of(data: bytes) -> int | None:
    """The number of the table in an encoded entry; None if that is too short to be one."""
    return None if len(data) < HEADER_SIZE else int.from_bytes(data[TABLE_OFFSET : TABLE_OFFSET + 4], "big")


def record_key(table_number: int, key: bytes) -> bytes:
    """The key of a record in `$deleted`."""
    if len(key) > _WHOLE_KEY:
        key = key[:_KEPT_KEY] + blake2b(key, digest_size=16).digest()
    return TABLE.pack(table_number) + key


def note_key(table_number: int, key: bytes) -> bytes:
    """The key in `$deleted` of what was said of a record."""
    return record_key(table_number | _NOTED, key)
