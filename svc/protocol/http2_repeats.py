"""Header blocks of requests that differ in their path alone, as most of one connection do: read by comparing bytes (RFC 7541).

    82 87 04 | 8b 62 6d ... | c1 c0 bf
     before     the path      behind

What a block means depends on its bytes and on the table it is read with. A client that keeps its paths out of the table, as most do, leaves that as it is: what
is before the path and behind it then means what it meant before. One that puts them in (the byte in front of the path is 0x44) moves all other entries on by
one: so if all else of the block is indexes of one byte, those of the table are expected to be one more in the next block, as long as the entries are there.
"""

from __future__ import annotations

from typing import NamedTuple

from hpack.exceptions import InvalidTableIndex
from hpack.table import HeaderTable

from svc.protocol.http2_huffman import decode_huffman
from svc.protocol.request_head import FieldTuple

RawPairs = list[tuple[bytes, bytes]]

PATH = b":path"
AROUND_MAX = 1024  # bytes, beyond which a block is not remembered
LONG = 0x7F  # in place of a length or an index that takes more bytes
STATIC_COUNT = len(HeaderTable.STATIC_TABLE)
_TO_TABLE = (0x44, 0x45)  # a field follows that goes into the table, with the name `:path`
_INDEXES = bytes(range(0x80, 0x80 | LONG))  # whole fields, in one byte
_FIRST = 0x80 | STATIC_COUNT + 1  # that of the newest entry
_MOVED_ON = bytes([*range(_FIRST), *range(_FIRST + 1, 0x100), 0xFF])


class PathPlace(NamedTuple):
    """Where a block has its path: the value, with its length."""

    start: int
    end: int
    is_entry: bool  # it has been put into the table


class RepeatedBlock:
    """A block that has been decoded. `read` expects the next one, of the table as it is since then; when that changes otherwise, this ends."""

    __slots__ = ("_before", "_behind", "_behind_depth", "_depth", "_left", "_position", "_size", "_size_of_fields", "fields", "is_entry")

    def __init__(self, block: bytes, place: PathPlace, pairs: RawPairs, size: int) -> None:
        """`pairs`: the fields of the block, one of them the path; their `size`: as RFC 9113 §6.5.2 counts."""
        before = self._before = block[: place.start]
        self._behind = block[place.end :]
        self._position, self.fields = cut_path(pairs)
        self._size = len(before) + 1 + len(self._behind)
        self._size_of_fields = size - len(pairs[self._position][1])
        self.is_entry = place.is_entry  # each path is put into the table
        self._left = 0  # blocks that can follow, until an index takes more bytes
        self._depth = self._behind_depth = 0  # in the table, of what is before the path, and behind it; 0: no entry
        if self.is_entry:
            self._depth, self._behind_depth = _deepest(before[:-1]), _deepest(self._behind)
            self._move_on()
            self._left = LONG - STATIC_COUNT - max(self._depth, self._behind_depth)

    def read(self, block: bytes, table: HeaderTable) -> bytes | None:
        """The path of a block that has the same fields but for it, which is then decoded. None: it may be another, and nothing has happened.

        Raises HPACKError.
        """
        before = self._before
        length = len(block) - self._size
        if not 0 <= length < LONG or not block.startswith(before) or not block.endswith(self._behind):
            return None
        start = len(before)
        first = block[start]
        if first & LONG != length:
            return None
        entries = table.dynamic_entries
        if self.is_entry and (self._left <= 0 or self._depth > len(entries)):
            return None
        start += 1
        path = block[start : start + length]
        if first >= 0x80:
            path = decode_huffman(path)
        if self.is_entry:
            table.add(PATH, path)
            if self._behind_depth > len(entries):
                raise InvalidTableIndex("A field whose entry has just left the table")
            self._left -= 1
            self._move_on()
        return path

    def _move_on(self) -> None:
        """The table has a new entry."""
        self._before = self._before.translate(_MOVED_ON)
        self._behind = self._behind.translate(_MOVED_ON)
        if self._depth:
            self._depth += 1
        if self._behind_depth:
            self._behind_depth += 1

    def all_fields(self, path: bytes) -> tuple[RawPairs, int]:
        """The fields, with this path, and their size."""
        pairs = list(self.fields)
        pairs.insert(self._position, (PATH, path))
        return pairs, self._size_of_fields + len(path)


def repeated_block(block: bytes, place: PathPlace | None, pairs: RawPairs, size: int) -> RepeatedBlock | None:
    """What to expect after a block that has just been decoded to these fields. `place`: None if it changes the table, but by its path. None: nothing."""
    if place is None or len(block) > AROUND_MAX or not cut_path(pairs)[1] or [name for name, _ in pairs].count(PATH) > 1:
        return None
    if place.is_entry and (
        block[place.start - 1] not in _TO_TABLE or (block[: place.start - 1] + block[place.end :]).translate(None, _INDEXES)
    ):
        return None
    return RepeatedBlock(block, place, pairs, size)


def cut_path(pairs: RawPairs) -> tuple[int, FieldTuple]:
    """The index of the path among the fields of a request, and all others. (-1, ()): there is none, or it is where none may be.

    >>> cut_path([(b":method", b"GET"), (b":path", b"/x"), (b"accept", b"*/*")])
    (1, ((b':method', b'GET'), (b'accept', b'*/*')))
    """
    for position, (name, _) in enumerate(pairs):
        if name == PATH:
            if position and pairs[position - 1][0][:1] != b":":
                break
            return position, (*pairs[:position], *pairs[position + 1 :])
    return -1, ()


def _deepest(indexes: bytes) -> int:
    return max(max(indexes, default=0) - _FIRST + 1, 0)
