"""The ranges of a request (RFC 9110 §14): which bytes they mean, and several of them as one body (§14.6).

Overlapping ranges, and those that are closer than what separates the parts of an answer costs, become one. A field with more than RANGES_MAX ranges is ignored,
which the RFC allows: those are attacks, or clients that had better ask for the whole.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Generator, Iterator
from typing import Protocol

RANGES_MAX = 32
GAP = 100  # bytes: about what the head of a part has

Ranges = list[tuple[int, int]]
"""(first, end), end exclusive, ascending, with gaps between them."""

_ONE = re.compile(r"[ \t]*([0-9]{0,20})-([0-9]{0,20})[ \t]*")


def parse_ranges(text: str, size: int) -> Ranges | None:
    """The satisfiable ranges of a `Range` field for a content of `size` bytes, [] if there is none. None: the field is to be ignored.

    >>> parse_ranges("bytes=0-4", 1000), parse_ranges("bytes=-3", 1000), parse_ranges("bytes=990-2000", 1000)
    ([(0, 5)], [(997, 1000)], [(990, 1000)])
    >>> parse_ranges("bytes=500-599,0-9,550-700", 1000), parse_ranges("bytes=1000-", 1000), parse_ranges("bytes=9-1", 1000)
    ([(0, 10), (500, 701)], [], None)
    """
    unit, equals, rest = text.partition("=")
    if not equals or unit.strip().lower() != "bytes":
        return None
    found: Ranges = []
    asked = 0
    for part in rest.split(","):
        if not part.strip():
            continue  # RFC 9110 §5.6.1: empty members of a list are forgiven
        match = _ONE.fullmatch(part)
        asked += 1
        if match is None or asked > RANGES_MAX:
            return None
        first, last = match.groups()
        if first:
            if last and int(last) < int(first):
                return None
            start, end = int(first), min(int(last) + 1, size) if last else size
        elif last:
            start, end = max(size - int(last), 0), size
        else:
            return None
        if start < end:
            found.append((start, end))
    if not asked:
        return None
    return coalesce(found)


def coalesce(ranges: Ranges) -> Ranges:
    """
    >>> coalesce([(0, 10), (5, 20), (60, 70), (5000, 5001)])
    [(0, 70), (5000, 5001)]
    """
    joined: Ranges = []
    for start, end in sorted(ranges):
        if joined and start - joined[-1][1] < GAP:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined


class Slices(Protocol):
    """A content of which parts are taken: pieces of the bytes from `start` to before `end`."""

    def __call__(self, start: int, end: int, /) -> Iterator[bytes]: ...


class MultipartRanges:
    """Several ranges as the body `multipart/byteranges`: an iterator of pieces, whose length is known. `close` is that of the source."""

    def __init__(self, ranges: Ranges, size: int, content_type: str, slices: Slices, close: Callable[[], None] | None = None) -> None:
        boundary = secrets.token_hex(16)
        self.content_type = f"multipart/byteranges; boundary={boundary}"
        self._heads = [
            f"\r\n--{boundary}\r\nContent-Type: {content_type}\r\nContent-Range: bytes {start}-{end - 1}/{size}\r\n\r\n".encode("latin-1")
            for start, end in ranges
        ]
        self._tail = f"\r\n--{boundary}--\r\n".encode("latin-1")
        self.length = sum(map(len, self._heads)) + sum(end - start for start, end in ranges) + len(self._tail)
        self._pieces = self._iterate(ranges, slices)
        self._close = close

    def _iterate(self, ranges: Ranges, slices: Slices) -> Generator[bytes, None, None]:
        for head, (start, end) in zip(self._heads, ranges, strict=True):
            yield head
            yield from slices(start, end)
        yield self._tail

    def __iter__(self) -> MultipartRanges:
        return self

    def __next__(self) -> bytes:
        try:
            return next(self._pieces)
        except StopIteration:
            self.close()
            raise

    def close(self) -> None:
        self._pieces.close()
        close, self._close = self._close, None
        if close is not None:
            close()
