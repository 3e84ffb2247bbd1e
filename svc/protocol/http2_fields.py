"""Header compression of HTTP/2 (RFC 7541): the codecs that replace those of an `h2` connection.

They speak hpack's interface, use its tables, and agree with it byte for byte (tests hold them against each other). They add
a cache: of the 60 us that h2 takes for a small request on our machines, more than half was decoding and encoding the same fields.

`FieldDecoder` remembers what a block decoded to while its table stays as it is. h2 passes on what a decoder returns unchanged once its own
checks of fields are off, so a block reaches the driver as one object: `[(b"fields", DecodedFields)]`.

`FieldEncoder` gets the fields of the next block from the driver directly (`load`), for h2 would copy and scan them five times on their way.
Fields that repeat go into the table; those that seldom do (`ETag`, lengths, locations) never do, so that they cannot push the others out.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any

from h2.errors import ErrorCodes
from h2.exceptions import DenialOfServiceError, ProtocolError
from hpack import Decoder, HPACKError, OversizedHeaderListError
from hpack.exceptions import HPACKDecodingError, InvalidTableIndex, InvalidTableSizeError
from hpack.hpack import decode_integer
from hpack.table import HeaderTable

from svc.messages import HeaderPairs
from svc.protocol.http2_huffman import decode_huffman
from svc.protocol.http2_repeats import LONG, PATH, STATIC_COUNT, PathPlace, RawPairs, RepeatedBlock, cut_path, repeated_block
from svc.protocol.request_head import FieldTuple
from svc.protocol.response_head import OWN_FIELDS, RepeatedHead, is_field_name, is_field_value

TABLE_SIZE = 4096  # bytes of the table we encode with, if the peer allows that much: the default of the standard
KNOWN_BLOCKS_MAX = 64  # blocks that a decoder remembers; a client repeats a handful
KNOWN_BLOCK_SIZE_MAX = 256  # bytes of one; fields that repeat take one byte each
KNOWN_TEXTS_MAX = 2048  # Huffman-coded strings that are remembered, for all connections
KNOWN_TEXT_SIZE_MAX = 64

_STATIC = HeaderTable.STATIC_TABLE
_ENTRY_OVERHEAD = 32  # RFC 7541 §4.1

# Not sent: they belong to a connection of HTTP/1 (RFC 9113 §8.2.2).
CONNECTION_FIELDS = frozenset({"connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"})
_UNSENT = OWN_FIELDS | CONNECTION_FIELDS
# Different in nearly every answer: in the table they would only evict fields that repeat.
_UNINDEXED = frozenset({"content-range", "etag", "last-modified", "location"})
_SECRET = frozenset({"set-cookie"})  # kept out of the tables of intermediaries too (RFC 7541 §7.1.3)

# The names under which the driver gives its own fields to `load`. No application can: they are not valid field names.
DATE = "\0date"
CONTENT_LENGTH = "\0content-length"

_TO_TABLE, _LITERAL, _NEVER = range(3)
_FIRST_BYTE = {_TO_TABLE: (0x40, 6), _LITERAL: (0x00, 4), _NEVER: (0x10, 4)}  # pattern, bits left for the index of the name


class CompressionFailed(ProtocolError):
    """A block that cannot be decoded. h2 would call it PROTOCOL_ERROR; RFC 9113 §4.3 wants another code."""

    error_code = ErrorCodes.COMPRESSION_ERROR


class DecodedFields:
    """One block, decoded. Shared by all requests that repeat it, so never changed except `memo`, which the driver sets."""

    __slots__ = ("memo", "pairs", "size")

    def __init__(self, pairs: RawPairs, size: int) -> None:
        self.pairs = pairs
        self.size = size  # as RFC 9113 §6.5.2 counts: names, values and 32 bytes a field
        self.memo: Any = None


class FieldDecoder(Decoder):
    """`max_header_list_size`: a block beyond it is an attack, for its bytes are few and its fields many."""

    def __init__(self, max_header_list_size: int) -> None:
        super().__init__(max_header_list_size)
        self._known: dict[bytes, DecodedFields] = {}
        self._decoded: DecodedFields | None = None
        self._repeated: RepeatedBlock | None = None  # what to expect of the next request
        self._place: PathPlace | None = None  # in the block decoded last, of its path, unless that block changes the table otherwise
        self._request: DecodedFields | bytes = b""  # what `decode_request` has read: all, or the path of what was expected

    def decode(self, data: bytes, raw: bool = False) -> Any:
        """`[(b"fields", DecodedFields)]`. Raises CompressionFailed or DenialOfServiceError, both the end of the connection."""
        fields = self._decoded or self._known.get(data)
        self._decoded = None
        if fields is None:
            try:
                fields = self._decode(data)
            except OversizedHeaderListError as error:
                raise DenialOfServiceError(str(error)) from None
            except HPACKError as error:
                raise CompressionFailed(str(error)) from None
        return [(b"fields", fields)]

    def keep(self, fields: DecodedFields) -> None:
        """The next block is the one that has just been decoded to `fields`: a second time it could mean something else."""
        self._decoded = fields

    def decode_request(self, data: bytes) -> tuple[bytes, FieldTuple]:
        """Path and other fields of a request, as `cut_path` finds them; `request` gives all. Raises what `decode` does."""
        fields = self._known.get(data)
        if fields is None:
            repeated = self._repeated
            if repeated is not None:
                try:
                    path = repeated.read(data, self.header_table)
                except HPACKError as error:
                    raise CompressionFailed(str(error)) from None
                if path is not None:
                    if repeated.is_entry:
                        self._known.clear()
                    self._request = path
                    return path, repeated.fields
            fields = self.decode(data)[0][1]
            if self._place is not None and 2 * fields.size <= self.max_header_list_size:  # so that no other path makes it too long
                self._repeated = repeated_block(data, self._place, fields.pairs, fields.size)
        self._request = fields
        position, others = cut_path(fields.pairs)
        return (fields.pairs[position][1] if others else b""), others

    def request(self) -> DecodedFields:
        """What `decode_request` has read."""
        request, repeated = self._request, self._repeated
        if not isinstance(request, bytes):
            return request
        assert repeated is not None
        return DecodedFields(*repeated.all_fields(request))

    def _decode(self, data: bytes) -> DecodedFields:
        table = self.header_table
        dynamic = table.dynamic_entries
        limit = self.max_header_list_size
        pairs: RawPairs = []
        size = entries = 0
        resized = False
        place = None
        position, end = 0, len(data)
        while position < end:
            first = data[position]
            if first >= 0x80:
                index = first & 0x7F
                position += 1
                if index == 0x7F:
                    index, position = _integer(data, position - 1, 7)
                pair = _entry(dynamic, index)
            elif first & 0xE0 == 0x20:
                if pairs:
                    raise HPACKDecodingError("A change of the table's size after a field")
                new_size, position = _integer(data, position, 5)
                if new_size > self.max_allowed_table_size:
                    raise InvalidTableSizeError("A table larger than allowed")
                self.header_table_size = new_size
                resized = True
                continue
            else:
                bits = 6 if first & 0x40 else 4
                index = first & ((1 << bits) - 1)
                position += 1
                if index == 0:
                    name, position = _text(data, position)
                else:
                    if index == (1 << bits) - 1:
                        index, position = _integer(data, position - 1, bits)
                    name = _entry(dynamic, index)[0]
                start = position
                value, position = _text(data, start)
                pair = (name, value)
                if bits == 6:
                    table.add(name, value)
                    entries += 1
                if name == PATH:
                    place = PathPlace(start, position, bits == 6)
            pairs.append(pair)
            size += len(pair[0]) + len(pair[1]) + _ENTRY_OVERHEAD
            if size > limit:
                raise OversizedHeaderListError(f"A header list of more than {limit} bytes")
        fields = DecodedFields(pairs, size)
        self._place = place if place is not None and entries == place.is_entry and not resized else None
        if entries or resized:
            self._known.clear()
            self._repeated = None
        elif end <= KNOWN_BLOCK_SIZE_MAX and len(self._known) < KNOWN_BLOCKS_MAX:
            self._known[data] = fields
        return fields


def _entry(dynamic: deque[tuple[bytes, bytes]], index: int) -> tuple[bytes, bytes]:
    if 0 < index <= STATIC_COUNT:
        return _STATIC[index - 1]
    if not STATIC_COUNT < index <= STATIC_COUNT + len(dynamic):
        raise InvalidTableIndex(f"No field has the index {index}")
    return dynamic[index - STATIC_COUNT - 1]


def _integer(data: bytes, position: int, bits: int) -> tuple[int, int]:
    """(the integer whose prefix is the low `bits` of the byte at `position`, the position after it)."""
    value, used = decode_integer(data[position : position + 8], bits)
    return value, position + used


_TEXTS: dict[bytes, bytes] = {}  # Huffman-coded -> plain: hpack takes 0.2 us a byte


def _text(data: bytes, position: int) -> tuple[bytes, int]:
    """A string literal, and the position after it."""
    if position >= len(data):
        raise HPACKDecodingError("A field without its value")
    first = data[position]
    length = first & 0x7F
    if length == 0x7F:
        length, position = _integer(data, position, 7)
    else:
        position += 1
    end = position + length
    if end > len(data):
        raise HPACKDecodingError("A string longer than its block")
    coded = data[position:end]
    if first < 0x80:
        return coded, end
    text = _TEXTS.get(coded)
    if text is None:
        text = decode_huffman(coded)
        if length <= KNOWN_TEXT_SIZE_MAX:
            if len(_TEXTS) >= KNOWN_TEXTS_MAX:
                _TEXTS.clear()
            _TEXTS[coded] = text
    return text, end


class FieldEncoder:
    """Replaces `hpack.Encoder`. The fields given to `load` are encoded by the next `encode`, which h2 calls when it sends headers."""

    def __init__(self) -> None:
        self._repeated: tuple[RepeatedHead, str, bytes, bytes, int] | None = None  # what `_repeat` has found, of the table as it is
        self._first = b""
        self._pairs: HeaderPairs = []
        self._numbers: dict[tuple[str, str], int] = {}  # fields in the table -> how many went in before them
        self._names: dict[bytes, int] = {}  # names in the table -> the same, of the field that came last
        self._entries: list[tuple[tuple[str, str], int]] = []  # (field, size), the oldest first; never long
        self._added = 0  # fields that ever went in
        self._size = 0
        self._table_size = TABLE_SIZE
        self._smallest: int | None = None  # table sizes to announce: the smallest since the last block, then the current one

    @property
    def header_table_size(self) -> int:
        return self._table_size

    @header_table_size.setter
    def header_table_size(self, value: int) -> None:
        """The peer's SETTINGS_HEADER_TABLE_SIZE, as h2 passes it on. More than TABLE_SIZE is not used."""
        value = min(value, TABLE_SIZE)
        if value != self._table_size:
            self._smallest = value if self._smallest is None else min(value, self._smallest)
            self._table_size = value
            self._repeated = None
            self._make_room(0)

    def check(self, pairs: HeaderPairs) -> tuple[HeaderPairs, dict[str, str] | None]:
        """(the fields to send, the OWN_FIELDS and CONNECTION_FIELDS among `pairs` by lower-case name or None).

        Raises ValueError for an invalid field. Nothing of `load` and `encode` can fail after this.
        """
        numbers = self._numbers
        own: dict[str, str] | None = None
        for pair in pairs:
            if pair in numbers:
                continue
            name, value = pair
            if not is_field_value(value):
                raise ValueError(f"not a field value: {name}: {value!r}")
            if (_NAMES.get(name) or _learn(name))[3]:
                own = own or {}
                own[name.lower()] = value
        if own is not None:
            pairs = [pair for pair in pairs if pair[0].lower() not in _UNSENT]
        return pairs, own

    def load(self, status: int, pairs: HeaderPairs) -> None:
        """The next block. `status` 0: trailers. `pairs`: checked."""
        self._first = _STATUS_BYTES.get(status) or (b"\x08\x03%d" % status if status else b"")
        self._pairs = pairs

    def encode(self, headers: Iterable[Any], huffman: bool = True) -> bytes:
        """The block of the loaded fields; `headers` is ignored."""
        out = bytearray()
        if self._smallest is not None:
            for size in (self._smallest, self._table_size) if self._smallest < self._table_size else (self._table_size,):
                _put_integer(out, size, 0x20, 5)
            self._smallest = None
        out += self._first
        numbers = self._numbers
        for pair in self._pairs:
            number = numbers.get(pair)
            if number is None:
                self._encode_new(pair, out)
                continue
            index = STATIC_COUNT + self._added - number
            if index < LONG:
                out.append(0x80 | index)
            else:
                _put_integer(out, index, 0x80, 7)
        self._pairs = []
        return bytes(out)

    def encode_repeated(self, head: RepeatedHead, tag: bytes, timing: tuple[str, str], date: str, size: int) -> bytes:
        """The block of an answer, as `load` and `encode` make it. `tag`: without its quotes. `size`: of the body in bytes."""
        repeated = self._repeated
        if repeated is None or repeated[0] is not head or repeated[1] != date:
            repeated = self._repeated = self._repeat(head, date)
        if repeated is not None and (number := self._numbers.get(timing)) is not None:
            index = 0x80 | STATIC_COUNT + self._added - number
            if index < 0x80 | LONG:
                _, _, before, behind, of_date = repeated
                if head.has_tag:
                    before = b'%b%c"%b"%b' % (before, len(tag) + 2, tag, behind)
                block = b"%b%c%c" % (before, index, of_date)
                if head.has_length:
                    length = b"%d" % size
                    return b"%b%b%c%b" % (block, _LENGTH_NAME, len(length), length)
                return block
        pairs = [*head.before, ("ETag", f'"{tag.decode()}"'), *head.behind] if head.has_tag else head.before
        last = [(CONTENT_LENGTH, str(size))] if head.has_length else []
        self.load(head.status, [*pairs, timing, (DATE, date), *last])
        return self.encode(())

    def _repeat(self, head: RepeatedHead, date: str) -> tuple[RepeatedHead, str, bytes, bytes, int] | None:
        """What a head is in the table as it is: the bytes in front of the entity tag, those behind it, and that of the date. None: not all of it is in there,
        at places that one byte can say."""
        if self._smallest is not None:
            return None
        pieces = []
        for pairs in (head.before, head.behind, [(DATE, date)]):
            numbers = [self._numbers.get(pair) for pair in pairs]
            indexes = [LONG if number is None else STATIC_COUNT + self._added - number for number in numbers]
            if max(indexes, default=0) >= LONG:
                return None
            pieces.append(bytes([0x80 | index for index in indexes]))
        before, behind, of_date = pieces
        first = _STATUS_BYTES[head.status]
        return head, date, first + before + (_TAG_NAME if head.has_tag else b""), behind, of_date[0]

    def _encode_new(self, pair: tuple[str, str], out: bytearray) -> None:
        name, index, way, _ = _NAMES.get(pair[0]) or _learn(pair[0])
        value = pair[1].encode("latin-1")
        size = len(name) + len(value) + _ENTRY_OVERHEAD
        if way == _TO_TABLE and size > self._table_size // 4:
            way = _LITERAL
        if index == 0 and (number := self._names.get(name)) is not None:
            index = STATIC_COUNT + self._added - number
        pattern, bits = _FIRST_BYTE[way]
        _put_integer(out, index, pattern, bits)
        if index == 0:
            _put_integer(out, len(name), 0, 7)
            out += name
        _put_integer(out, len(value), 0, 7)
        out += value
        if way == _TO_TABLE:
            self._repeated = None
            self._make_room(size)
            self._entries.append((pair, size))
            self._numbers[pair] = self._names[name] = self._added
            self._added += 1
            self._size += size

    def _make_room(self, size: int) -> None:
        """Evict the oldest fields as the peer does, until `size` bytes more fit."""
        while self._entries and self._size + size > self._table_size:
            pair, freed = self._entries.pop(0)
            self._size -= freed
            number = self._numbers.pop(pair)
            name = (_NAMES.get(pair[0]) or _learn(pair[0]))[0]
            if self._names.get(name) == number:
                del self._names[name]


def _put_integer(out: bytearray, value: int, pattern: int, bits: int) -> None:
    """RFC 7541 §5.1, with `pattern` in the bits before its prefix."""
    most = (1 << bits) - 1
    if value < most:
        out.append(pattern | value)
        return
    out.append(pattern | most)
    value -= most
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


_STATUS_BYTES = {int(value): bytes((0x80 | index,)) for index, (name, value) in enumerate(_STATIC, 1) if name == b":status"}
_STATIC_NAMES = {name: index for index, (name, _) in reversed(list(enumerate(_STATIC, 1)))}
_TAG_NAME, _LENGTH_NAME = (bytes((0x0F, _STATIC_NAMES[name] - 0x0F)) for name in (b"etag", b"content-length"))  # of literals

# Name as given -> (name to send, its index in the static table or 0, how it is encoded, whether applications may not send it).
# Bounded, because applications may use any names.
_NAMES: dict[str, tuple[bytes, int, int, bool]] = {
    DATE: (b"date", _STATIC_NAMES[b"date"], _TO_TABLE, False),
    CONTENT_LENGTH: (b"content-length", _STATIC_NAMES[b"content-length"], _LITERAL, False),
}
_NAMES_MAX = 1024


def _learn(name: str) -> tuple[bytes, int, int, bool]:
    """Look up a field name and cache the result. Raises ValueError for an invalid one."""
    if not is_field_name(name):
        raise ValueError(f"not a field name: {name!r}")
    lower = name.lower()
    raw = lower.encode("ascii")
    way = _LITERAL if lower in _UNINDEXED else _NEVER if lower in _SECRET else _TO_TABLE
    learned = (raw, _STATIC_NAMES.get(raw, 0), way, lower in _UNSENT)
    if len(_NAMES) < _NAMES_MAX:
        _NAMES[name] = learned
    return learned
