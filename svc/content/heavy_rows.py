"""A row that holds very many related records, encoded in pieces: it may take megabytes, and as long as thousands of other rows.

The weight of a value is the number of records that it shows (`svc.query.relations.Lookups.weigh`). Values up to PIECE_ROWS are encoded in
one call; lists and objects that weigh more are written member by member.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol

PIECE_ROWS = 1000  # records encoded in one call, in well under a millisecond
PIECE_BYTES = 1 << 15  # sent together

Weight = Callable[[object], int]


class ContainerStyle(Protocol):
    """How a format writes containers."""

    def encode(self, value: Any) -> bytes: ...

    def begin_list(self, length: int) -> bytes: ...

    def elements(self, values: list[Any]) -> bytes:
        """Consecutive elements of a list, without the brackets."""

    def begin_object(self, length: int) -> bytes: ...

    def name(self, name: Any) -> bytes:
        """The name of a member, with the separator before its value."""

    comma: bytes
    end_list: bytes
    end_object: bytes


def row_pieces(row: Any, weight: Weight, style: ContainerStyle) -> Iterator[bytes]:
    """The encoding of a row, some kilobytes at a time."""
    gathered: list[bytes] = []
    size = 0
    for part in _parts(row, weight, style):
        gathered.append(part)
        size += len(part)
        if size >= PIECE_BYTES:
            yield b"".join(gathered)
            gathered.clear()
            size = 0
    if gathered:
        yield b"".join(gathered)


def _parts(value: Any, weight: Weight, style: ContainerStyle) -> Iterator[bytes]:
    if weight(value) <= PIECE_ROWS:
        yield style.encode(value)
    elif type(value) is dict and all(type(name) is str for name in value):  # other keys need what only `encode` writes: in CBOR a tag
        yield style.begin_object(len(value))
        before = b""
        for name, member in value.items():
            yield before + style.name(name)
            yield from _parts(member, weight, style)
            before = style.comma
        yield style.end_object
    elif type(value) is list:
        yield style.begin_list(len(value))
        yield from _list_parts(value, weight, style)
        yield style.end_list
    else:
        yield style.encode(value)


def _list_parts(values: list[Any], weight: Weight, style: ContainerStyle) -> Iterator[bytes]:
    before = b""
    group: list[Any] = []
    grouped = 0
    for value in values:
        heavy = weight(value)
        if group and grouped + heavy > PIECE_ROWS:
            yield before + style.elements(group)
            before = style.comma
            group, grouped = [], 0
        if heavy > PIECE_ROWS:
            yield before
            yield from _parts(value, weight, style)
            before = style.comma
        else:
            group.append(value)
            grouped += heavy
    if group:
        yield before + style.elements(group)
