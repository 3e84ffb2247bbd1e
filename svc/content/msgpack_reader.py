"""MessagePack -> values (spec: http §7.2; https://github.com/msgpack/msgpack/blob/master/spec.md).

    ext -1     timestamp -> datetime, cut to whole ms
    ext 42     integer beyond 64 bits: two's complement, big-endian
    ext 73     set: one MessagePack array
    other ext  refused

msgspec decodes; it never allocates what a document claims but does not contain. Where it would build a large map it is given less at a time:
a document above `SMALL` bytes is split into its elements, and maps of that size must have strings as keys (`hashable` says why).

A long document is read in slices: the structure is scanned item by item (2 million of them a second), and members of a container are decoded
together, as many as make a slice. A member with more than LARGE items is read in slices itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterable, Iterator
from struct import Struct
from typing import Any

import msgspec
from msgspec.msgpack import Decoder

from svc.content.content_type import SLICE_BYTES, Slices
from svc.content.hashable import as_set
from svc.errors import BadBody
from svc.store.values.conversion import MAX_BITS

EXT_INTEGER = 0x42
EXT_SET = 0x73

SMALL = SLICE_BYTES
MAX_SPLITS = 32  # levels at which parts above SMALL may be nested: each is looked over once for every level around it
MAX_SETS = 8  # levels of sets within sets
MAX_LOOKED_AT = 20_000  # items, when a fault is looked for
LARGE = 500  # items of a member of a long container, beyond which it is read in slices itself
MAX_VALUES = 20_000_000  # items of a document that is read in slices
MAX_EXTENSION = 1 << 19  # bytes of a set, which is read at one time
EXACT = 1 << 19  # bytes: an invalid document up to this length is decoded again as a whole for its error message

REFUSED = (msgspec.MsgspecError, ValueError, TypeError, OverflowError, RecursionError)

_array_header = Struct(">BI").pack
_split_array = Decoder(list[msgspec.Raw]).decode
_split_map = Decoder(dict[str, msgspec.Raw]).decode


def decode_msgpack(body: bytes) -> Any:
    """The one value of a document. Raises BadBody."""
    try:
        return _value(body, 0, 0)
    except REFUSED as error:
        raise _bad_body(body, error, (_fault(body),)) from None


def decode_msgpack_slices(body: bytes) -> Slices:
    """`decode_msgpack` in slices: a generator that pauses between the members of long arrays and maps."""
    if len(body) <= SMALL or not (_is_array(body[0]) or _is_map(body[0])):
        return decode_msgpack(body)
    reading = MsgpackReading(body, _decoders[0], _decode_map)
    try:
        value, end = yield from reading.container(0, 0)
        if end != len(body):
            raise ValueError(f"more than one value, the second at byte {end}")
    except REFUSED as error:
        if len(body) <= EXACT:
            return decode_msgpack(body)  # which reports the offset
        raise _bad_body(body, error, (_fault(body),)) from None
    return value


class MsgpackReading:
    """Reads a long document in slices. `decode_list`, `decode_map`: of documents that are one array or map."""

    __slots__ = ("_body", "_decode_list", "_decode_map", "_items")

    def __init__(self, body: bytes, decode_list: Callable[[bytes], Any], decode_map: Callable[[bytes], Any]) -> None:
        self._body = body
        self._decode_list = decode_list
        self._decode_map = decode_map
        self._items = 0

    def container(self, start: int, depth: int) -> Generator[None, None, tuple[Any, int]]:
        """The array or map at `start`, and the position behind it."""
        body = self._body
        count, first = _header_at(body, start)
        is_map = not _is_array(body[start])
        value: Any = {} if is_map else []
        offset = run = first
        members = 0  # from `run` to `offset`
        for _ in range(count):
            key_end = self._end(offset, 1) if is_map else offset
            end = self._end(key_end, LARGE)
            if end and (end - key_end <= SMALL or not (_is_array(body[key_end]) or _is_map(body[key_end]))):
                members += 1
            else:
                self._take(value, run, offset, members)
                key = _decode_text(body[offset:key_end]) if is_map else None
                member, end = yield from self.container(key_end, _deeper(depth))
                if is_map:
                    value[key] = member
                else:
                    value.append(member)
                run, members = end, 0
            offset = end
            if offset - run > SLICE_BYTES or members > LARGE:
                self._take(value, run, offset, members)
                run, members = offset, 0
                yield
        self._take(value, run, offset, members)
        return value, offset

    def _end(self, offset: int, most: int) -> int:
        """The end of the value at `offset`; 0 if it has more than `most` items. Raises ValueError."""
        self._items += 1
        if self._items > MAX_VALUES:
            raise ValueError(f"more than {MAX_VALUES} values")
        end, fault = end_of(self._body, offset, most)
        if fault is not None:
            raise ValueError("truncated, or not MessagePack")
        return end

    def _take(self, value: Any, start: int, end: int, members: int) -> None:
        """Decode the members between two positions into their container."""
        if not members:
            return
        if type(value) is list:
            value += self._decode_list(_array_header(0xDD, members) + self._body[start:end])
        else:
            value.update(self._decode_map(_array_header(0xDF, members) + self._body[start:end]))


def _header_at(body: bytes, start: int) -> tuple[int, int]:
    """(number of members, position of the first one) of the array or map at `start`."""
    kind = body[start]
    if kind <= 0x9F:
        return kind & 0x0F, start + 1
    width = _COUNTED[kind][0]
    return int.from_bytes(body[start + 1 : start + 1 + width], "big"), start + 1 + width


def decode_sequence(body: bytes) -> Slices:
    """All values of a concatenation. Raises BadBody."""
    values = []
    reading = MsgpackReading(body, _decoders[0], _decode_map)
    start = paused = 0
    while start < len(body):
        if start - paused > SLICE_BYTES // 8:  # the longest small values are read no faster
            paused = start
            yield
        end, fault = end_of(body, start, LARGE)
        try:
            if fault is not None:
                raise ValueError("truncated, or not MessagePack")
            if end:
                value = _value(body[start:end], 0, 0)
            else:
                value, end = yield from reading.container(start, 0)
            values.append(value)
        except REFUSED as error:
            raise _bad_body(body, error, (fault,)) from None
        start = end
    return values


def _value(data: bytes | memoryview | msgspec.Raw, sets: int, splits: int) -> Any:
    """`sets`, `splits`: levels around it."""
    view = memoryview(data)
    if len(view) > SMALL:
        kind = view[0]
        if _is_array(kind):
            return _elements(_split_array(view), sets, _deeper(splits))
        if _is_map(kind):
            members = _split_map(view)
            return dict(zip(members, _elements(members.values(), sets, _deeper(splits)), strict=True))
    return _decoders[sets](view)


def _is_map(kind: int) -> bool:
    return 0x80 <= kind <= 0x8F or kind in (0xDE, 0xDF)


def _is_array(kind: int) -> bool:
    return 0x90 <= kind <= 0x9F or kind in (0xDC, 0xDD)


def _deeper(splits: int) -> int:
    if splits >= MAX_SPLITS:
        raise ValueError("nested too deeply for its size")
    return splits + 1


def _elements(parts: Iterable[msgspec.Raw], sets: int, splits: int) -> list[Any]:
    """The values of parts. As many as fit SMALL are decoded at once."""
    values: list[Any] = []
    for group in _groups(parts):
        values += _group(group, sets) if len(group) > 1 else [_value(group[0], sets, splits)]
    return values


def _groups(parts: Iterable[msgspec.Raw]) -> Iterator[list[msgspec.Raw]]:
    """Consecutive parts, together no longer than a slice, or one that is."""
    group: list[msgspec.Raw] = []
    size = 0
    for part in parts:
        length = len(memoryview(part))
        if group and size + length > SLICE_BYTES:
            yield group
            group, size = [], 0
        group.append(part)
        size += length
    if group:
        yield group


def _group(parts: list[msgspec.Raw], sets: int) -> list[Any]:
    return _decoders[sets](_array_header(0xDD, len(parts)) + b"".join(parts)) if parts else []


def _make_hook(sets: int) -> Callable[[int, memoryview], Any]:
    def from_extension(code: int, data: memoryview) -> Any:
        if code == EXT_INTEGER:
            if not 0 < len(data) <= MAX_BITS // 8 + 1:
                raise ValueError(f"an integer of {8 * len(data)} bits")
            return int.from_bytes(data, "big", signed=True)
        if code == EXT_SET:
            if len(data) > MAX_EXTENSION:
                raise ValueError(f"a set of more than {MAX_EXTENSION} bytes")
            if sets + 1 >= MAX_SETS:
                raise ValueError("sets are nested too deeply")
            elements = _value(data, sets + 1, 0)
            if type(elements) is not list:
                raise ValueError("a set must be an array")
            return as_set(elements)
        raise ValueError(f"extension type {code} is not known")

    return from_extension


# --- times -------------------------------------------------------------------------------------------------------------------------------
#
# msgspec rounds the nanoseconds of a timestamp to microseconds, half a microsecond up. Dates have whole ms and are cut (spec: http §7.2), so the last half
# microsecond of each ms would be the next ms. Those timestamps are found by their bytes, which may also be part of something else; only where one is,
# the document is walked through.

_NS_IN_MS = 1_000_000
_ROUNDED_UP = _NS_IN_MS - 500  # ns of a ms from which on it would be the next
_SEARCHED = 1 << 20  # bytes
MAX_CANDIDATES = 1000  # checked before the document is walked through
_TIMESTAMPS = ((b"\xd7\xff", 2), (b"\xc7\x0c\xff", 3))  # 64 and 96 bits: the bytes before the time

_STARTS = tuple(start for start, _ in _TIMESTAMPS)


def _cutting(decode: Callable[[bytes], Any]) -> Callable[[bytes | memoryview], Any]:
    """A decoder whose dates are cut to whole ms."""

    def cutting(data: bytes | memoryview) -> Any:
        body = bytes(data)
        return decode(_with_whole_ms(body) if _may_be_rounded_up(body) else body)

    return cutting


def _nanoseconds(data: bytes, at: int, before: int) -> int:
    """Of the time at `at`; 0 if it is not all there."""
    if before == 2:
        return int.from_bytes(data[at : at + 8], "big") >> 34 if at + 8 <= len(data) else 0
    return int.from_bytes(data[at : at + 4], "big") if at + 12 <= len(data) else 0


def _may_be_rounded_up(data: bytes) -> bool:
    """False: it has no such timestamp. Long data is one long string or binary: skipping it takes no time, searching it would."""
    if len(data) > _SEARCHED:
        return True
    looked_at = 0
    for start, before in _TIMESTAMPS:
        offset = data.find(start)
        while offset >= 0:
            looked_at += 1
            if looked_at > MAX_CANDIDATES or _nanoseconds(data, offset + before, before) % _NS_IN_MS >= _ROUNDED_UP:
                return True
            offset = data.find(start, offset + 1)
    return False


def _with_whole_ms(data: bytes) -> bytes:
    """The same document, its timestamps cut to whole ms. An invalid document is left unchanged from the first error on."""
    changed: bytearray | None = None
    offset, size = 0, len(data)
    while offset < size:
        offset = _run_of_items(data, offset).end()  # type: ignore[union-attr]  # it matches anywhere
        if offset >= size:
            break
        kind = data[offset]
        if data.startswith(_STARTS, offset):
            changed = bytearray(data) if changed is None else changed
            _cut_timestamp(data, offset, changed)
        fixed = _FIXED.get(kind)
        if fixed is not None:
            offset += 1 + fixed[0]
        elif kind in _COUNTED:
            width, extra, factor = _COUNTED[kind]
            count = int.from_bytes(data[offset + 1 : offset + 1 + width], "big")
            offset += 1 + width + extra + (0 if factor else count)
        else:
            break
    return data if changed is None else bytes(changed)


def _cut_timestamp(data: bytes, offset: int, changed: bytearray) -> None:
    """Cut the extension at `offset` in `changed`, if it is a timestamp."""
    for start, before in _TIMESTAMPS:
        if data.startswith(start, offset):
            at = offset + before
            ns = _nanoseconds(data, at, before)
            if 0 < ns < 1_000_000_000:  # others are refused
                cut = ns - ns % _NS_IN_MS
                if before == 2:
                    seconds = int.from_bytes(data[at : at + 8], "big") & (1 << 34) - 1
                    changed[at : at + 8] = (cut << 34 | seconds).to_bytes(8, "big")
                else:
                    changed[at : at + 4] = cut.to_bytes(4, "big")


_decoders: list[Callable[[Any], Any]] = [_cutting(Decoder(ext_hook=_make_hook(sets)).decode) for sets in range(MAX_SETS)]
_decode_map = _cutting(Decoder(dict[str, Any], ext_hook=_make_hook(0)).decode)
_decode_text = Decoder(str).decode


# --- where it went wrong -----------------------------------------------------------------------------------------------------------------


def _bad_body(body: bytes, error: Exception, places: tuple[int | None, ...]) -> BadBody:
    what = "nested too deeply" if isinstance(error, RecursionError) else str(error).removeprefix("MessagePack data is malformed: ")
    if isinstance(error, UnicodeDecodeError):
        what = "a string that is not UTF-8"
    if "hashable" in what:
        what = "a set or an object cannot be a key"
    offset = "".join([f" at byte {offset}" for offset in places if offset is not None])
    return BadBody(f"Invalid MessagePack: {what.partition(' (byte ')[0].rstrip()}{offset}")


def _fault(body: bytes) -> int | None:
    end, fault = end_of(body, 0, MAX_LOOKED_AT)
    return fault if fault is not None else end if 0 < end < len(body) else None


def end_of(body: bytes, start: int, items: int) -> tuple[int, int | None]:
    """(end of the value at `start`, None), or (0, offset of the first invalid item); (0, None) if it has more than `items` of them.

    Only the structure is checked: containers are not entered but counted, so there is no depth.
    """
    offset, size = start, len(body)
    missing = 1  # items still to come
    while missing:
        items -= 1
        if items < 0:
            return 0, None
        missing -= 1
        if offset >= size:
            return 0, size
        kind = body[offset]
        if kind <= 0x7F or kind >= 0xE0:
            offset += 1
            continue
        fixed = _FIXED.get(kind)
        if fixed is not None:
            length, children = fixed
            end = offset + 1 + length
        else:
            if kind not in _COUNTED:
                return 0, offset
            width, extra, factor = _COUNTED[kind]
            count = int.from_bytes(body[offset + 1 : offset + 1 + width], "big")
            children = count * factor
            end = offset + 1 + width + extra + (0 if factor else count)
        if end > size or children > size:
            return 0, offset
        if _is_text(kind) and not _is_utf8(body, offset, end):
            return 0, offset
        offset = end
        missing += children
    return offset, None


# First byte -> (bytes that follow, items that follow).
_FIXED: dict[int, tuple[int, int]] = (
    {0x80 + count: (0, 2 * count) for count in range(16)}
    | {0x90 + count: (0, count) for count in range(16)}
    | {0xA0 + length: (length, 0) for length in range(32)}
    | {0xC0: (0, 0), 0xC2: (0, 0), 0xC3: (0, 0), 0xCA: (4, 0), 0xCB: (8, 0)}
    | {0xCC: (1, 0), 0xCD: (2, 0), 0xCE: (4, 0), 0xCF: (8, 0), 0xD0: (1, 0), 0xD1: (2, 0), 0xD2: (4, 0), 0xD3: (8, 0)}
    | {0xD4: (2, 0), 0xD5: (3, 0), 0xD6: (5, 0), 0xD7: (9, 0), 0xD8: (17, 0)}
)
# First byte -> (bytes of the count, further bytes, items for each that is counted; 0: bytes are counted).
_COUNTED: dict[int, tuple[int, int, int]] = {
    0xC4: (1, 0, 0), 0xC5: (2, 0, 0), 0xC6: (4, 0, 0), 0xC7: (1, 1, 0), 0xC8: (2, 1, 0), 0xC9: (4, 1, 0),
    0xD9: (1, 0, 0), 0xDA: (2, 0, 0), 0xDB: (4, 0, 0), 0xDC: (2, 0, 1), 0xDD: (4, 0, 1), 0xDE: (2, 0, 2), 0xDF: (4, 0, 2),
}  # fmt: skip


def _items_pattern() -> bytes:
    """A run of items whose length follows from their first byte, without those that may be timestamps. Of objects and lists the headers; the members follow."""
    kinds: dict[int, list[int]] = {}
    for kind, (length, _) in (dict.fromkeys((*range(128), *range(224, 256)), (0, 0)) | _FIXED).items():
        if kind != 0xD7:
            kinds.setdefault(length, []).append(kind)
    each = [b"[%b].{%d}" % (b"".join([b"\\x%02x" % kind for kind in those]), length) for length, those in kinds.items()]
    return b"(?s:%b)*+" % b"|".join(each)


_run_of_items = re.compile(_items_pattern()).match


def _is_text(kind: int) -> bool:
    return 0xA0 <= kind <= 0xBF or 0xD9 <= kind <= 0xDB


def _is_utf8(body: bytes, start: int, end: int) -> bool:
    header = 1 if body[start] < 0xC0 else {0xD9: 2, 0xDA: 3, 0xDB: 5}[body[start]]
    try:
        body[start + header : end].decode()
    except UnicodeDecodeError:
        return False
    return True
