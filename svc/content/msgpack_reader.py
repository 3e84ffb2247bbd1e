"""MessagePack -> values (contract: http §7.2; https://github.com/msgpack/msgpack/blob/master/spec.md).

    ext -1     timestamp -> datetime
    ext 42     integer beyond 64 bits: two's complement, big-endian
    ext 73     set: one MessagePack array
    other ext  refused

msgspec decodes; it never allocates what a document claims but does not contain. Where it would build a large map it is given less at a time:
a document above `SMALL` bytes is split into its elements, and maps of that size must have text as keys (`hashable` says why).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from struct import Struct
from typing import Any

import msgspec
from msgspec.msgpack import Decoder

from svc.content.content_type import SLICE_BYTES, Slices
from svc.content.hashable import as_set
from svc.errors import BadBody
from svc.store.conversion import MAX_BITS

EXT_INTEGER = 0x42
EXT_SET = 0x73

SMALL = SLICE_BYTES
MAX_SPLITS = 32  # levels at which parts above SMALL may be nested: each is looked over once for every level around it
MAX_SETS = 8  # levels of sets within sets
MAX_LOOKED_AT = 20_000  # items, when a fault is looked for

_REFUSED = (msgspec.MsgspecError, ValueError, TypeError, OverflowError, RecursionError)

_array_header = Struct(">BI").pack
_split_array = Decoder(list[msgspec.Raw]).decode
_split_map = Decoder(dict[str, msgspec.Raw]).decode


def decode_msgpack(body: bytes) -> Any:
    """The one value of a document. Raises BadBody."""
    try:
        return _value(body, 0, 0)
    except _REFUSED as error:
        raise _bad_body(body, error, (_fault(body),)) from None


def decode_msgpack_slices(body: bytes) -> Slices:
    """The same, with pauses between the elements of a long array."""
    if len(body) <= SMALL or not _is_array(body[0]):
        return decode_msgpack(body)
    values: list[Any] = []
    try:
        for group in _groups(_split_array(body)):
            yield
            values += _group(group, 0) if len(group) > 1 else [_value(group[0], 0, 1)]
    except _REFUSED:
        return decode_msgpack(body)  # which names the place
    return values


def decode_sequence(body: bytes) -> Slices:
    """All values of a concatenation. Raises BadBody."""
    values = []
    start = paused = 0
    while start < len(body):
        if start - paused > SLICE_BYTES // 8:  # the longest small values are read no faster
            paused = start
            yield
        end, fault = _end_of(body, start, len(body))
        try:
            if fault is not None:
                raise ValueError("truncated, or not MessagePack")
            values.append(_value(body[start:end], 0, 0))
        except _REFUSED as error:
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
        if 0x80 <= kind <= 0x8F or kind in (0xDE, 0xDF):
            members = _split_map(view)
            return dict(zip(members, _elements(members.values(), sets, _deeper(splits)), strict=True))
    return _decoders[sets](view)


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
            if sets + 1 >= MAX_SETS:
                raise ValueError("sets are nested too deeply")
            elements = _value(data, sets + 1, 0)
            if type(elements) is not list:
                raise ValueError("a set that is not an array")
            return as_set(elements)
        raise ValueError(f"extension type {code} is not known")

    return from_extension


_decoders: list[Callable[[Any], Any]] = [Decoder(ext_hook=_make_hook(sets)).decode for sets in range(MAX_SETS)]


# --- where it went wrong -----------------------------------------------------------------------------------------------------------------


def _bad_body(body: bytes, error: Exception, places: tuple[int | None, ...]) -> BadBody:
    what = "nested too deeply" if isinstance(error, RecursionError) else str(error).removeprefix("MessagePack data is malformed: ")
    if "hashable" in what:
        what = "a set or an object cannot be a key"
    place = "".join([f" at byte {place}" for place in places if place is not None])
    return BadBody(f"Invalid MessagePack: {what.partition(' (byte ')[0].rstrip()}{place}")


def _fault(body: bytes) -> int | None:
    end, fault = _end_of(body, 0, MAX_LOOKED_AT)
    return fault if fault is not None else end if 0 < end < len(body) else None


def _end_of(body: bytes, start: int, items: int) -> tuple[int, int | None]:
    """(end of the value at `start`, None), or (0, place of the first item that is none); (0, None) if it has more than `items` of them.

    Only the structure is looked at: containers are not entered but counted, so there is no depth.
    """
    place, size = start, len(body)
    missing = 1  # items still to come
    while missing:
        items -= 1
        if items < 0:
            return 0, None
        missing -= 1
        if place >= size:
            return 0, size
        kind = body[place]
        if kind <= 0x7F or kind >= 0xE0:
            place += 1
            continue
        fixed = _FIXED.get(kind)
        if fixed is not None:
            length, children = fixed
            end = place + 1 + length
        else:
            if kind not in _COUNTED:
                return 0, place
            width, extra, factor = _COUNTED[kind]
            count = int.from_bytes(body[place + 1 : place + 1 + width], "big")
            children = count * factor
            end = place + 1 + width + extra + (0 if factor else count)
        if end > size or children > size:
            return 0, place
        if _is_text(kind) and not _is_utf8(body, place, end):
            return 0, place
        place = end
        missing += children
    return place, None


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


def _is_text(kind: int) -> bool:
    return 0xA0 <= kind <= 0xBF or 0xD9 <= kind <= 0xDB


def _is_utf8(body: bytes, start: int, end: int) -> bool:
    header = 1 if body[start] < 0xC0 else {0xD9: 2, 0xDA: 3, 0xDB: 5}[body[start]]
    try:
        body[start + header : end].decode()
    except UnicodeDecodeError:
        return False
    return True
