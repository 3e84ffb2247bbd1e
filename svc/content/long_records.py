"""Long stored records, decoded and written a slice at a time: 60,000 objects in one record would hold the loop for 20 to 60 ms.

A string is decoded and written in one call, however long it is.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any

from svc.content.content_type import ContentType
from svc.content.heavy_rows import PIECE_ROWS, row_pieces
from svc.content.msgpack_reader import REFUSED, MsgpackReading, end_of
from svc.store.values.records import decode, decode_json, payload_size, raw_payload, stored_decoders

LONG = 1 << 16  # bytes of the payload of a record; a shorter one is decoded and written within a slice
MANY = 5000  # values of a record; fewer are, too, however long they are
_CHARACTERS = 64  # of a string, or bytes, that count as one more value


def is_long(raw: bytes) -> bool:
    """Whether a stored record has so many values that it takes more than a slice. Quickly where it is short."""
    if payload_size(raw) <= LONG:
        return False
    return end_of(raw_payload(raw), 0, MANY) == (0, None)


def decode_record_slices(raw: bytes, *, native: bool) -> Generator[None, None, dict[str, Any]]:
    """`decode`, or `decode_json` if not `native`, pausing between the members of long lists and objects."""
    decode_list, decode_map = stored_decoders(json=not native)
    try:
        value, _ = yield from MsgpackReading(raw_payload(raw), decode_list, decode_map).container(0, 0)
    except REFUSED:  # nested deeper than is read in slices, or damaged, which this says
        return decode(raw) if native else decode_json(raw)
    return value  # type: ignore[no-any-return]


def count_values(value: object) -> int:
    """The number of values in a value, about, as a weight for `row_pieces`; PIECE_ROWS + 1 for any more."""
    count, waiting = 0, [value]
    while waiting:
        each = waiting.pop()
        count += 1
        if isinstance(each, str | bytes):
            count += len(each) // _CHARACTERS
        elif isinstance(each, dict | list):
            if len(each) > PIECE_ROWS:
                return PIECE_ROWS + 1
            waiting += each.values() if isinstance(each, dict) else each
        if count > PIECE_ROWS:
            return PIECE_ROWS + 1
    return count


def record_pieces(raw: bytes, kind: ContentType, visible: frozenset[str] | None) -> Iterator[bytes]:
    """A long stored record as one document of a type with a `style`, to be pulled by a connection; b"" while nothing is to be sent yet.
    `visible`: the attributes that are written, None: all."""
    value = yield from _empty_while(decode_record_slices(raw, native=kind.native))
    if visible is not None:
        value = {name: member for name, member in value.items() if name in visible}
    assert kind.style is not None
    yield from row_pieces(value, count_values, kind.style)


def _empty_while(steps: Generator[None, None, Any]) -> Generator[bytes, None, Any]:
    while True:
        try:
            next(steps)
        except StopIteration as done:
            return done.value
        yield b""
