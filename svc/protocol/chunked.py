"""The chunked transfer coding, on its way in (RFC 9112 §7.1): a buffer of bytes -> the data in it.

    chunk           size in hexadecimal [; extension] CRLF, so many bytes, CRLF
    last chunk      size 0 [; extension] CRLF
    trailer section field lines, an empty line

A proxy in front of us and we must never disagree on where a chunk ends, so a size line is read strictly: digits and nothing before them, at most 64 bits,
CRLF at its end and neither CR, LF nor another control character before that. Extensions mean nothing to us and are dropped. Field lines of the trailer
section are not looked into here, only where they end.

Nothing but an incomplete line or trailer section stays in the buffer, and of that no more than LINE_MAX bytes: one byte more is an error. Neither what is
returned nor what is refused depends on how the bytes were cut.
"""

from __future__ import annotations

import re

from svc.errors import PeerError

LINE_MAX = 1024  # bytes of a size line, and of the trailer section, with their line ends

_SIZE_LINE = re.compile(rb"([0-9A-Fa-f]{1,16})(?:;[\t\x20-\x7e\x80-\xff]*)?[\t ]*\r\n")
_BLANK_LINE = re.compile(rb"\n\r?\n")
_MORE_THAN_64_BITS = re.compile(rb"[0-9A-Fa-f]{17}")
_EXTENSION = re.compile(rb"[0-9A-Fa-f]+;")


class ChunkedReader:
    """Of one body. `trailer_section`: the bytes of it, blank line included, once the body is complete; None before that."""

    __slots__ = ("_expects_end", "_left", "_limit", "_room", "trailer_section")

    def __init__(self, limit: int) -> None:
        """`limit`: bytes of the body, coding removed."""
        self._limit = limit
        self._room = limit  # bytes that may still be announced
        self._left = 0  # bytes to come of the chunk under way; -1: of the trailer section
        self._expects_end = False  # the CRLF behind a chunk comes next
        self.trailer_section: bytes | None = None

    def read(self, buffer: bytearray) -> bytes:
        """Take what the buffer holds of the body out of it; b"" if more bytes are needed. Raises PeerError, after all data before the fault.
        Behind the end of the body nothing is taken."""
        if self.trailer_section is not None:
            return b""
        data = bytes(buffer)
        pieces: list[bytes] = []
        position, end = 0, len(data)
        try:
            while position < end:
                if self._left > 0:
                    piece = data[position : position + self._left]
                    pieces.append(piece)
                    position += len(piece)
                    self._left -= len(piece)
                    self._expects_end = not self._left
                elif self._expects_end:
                    ending = data[position : position + 2]
                    if ending != b"\r\n":
                        if ending == b"\r":
                            break
                        raise PeerError("A chunk is not followed by CRLF")
                    position += 2
                    self._expects_end = False
                elif self._left == 0:
                    stop = data.find(b"\n", position, position + LINE_MAX) + 1
                    if not stop:
                        if end - position >= LINE_MAX:
                            raise _too_long()
                        break
                    self._begin_chunk(data[position:stop])
                    position = stop
                else:
                    stop = _end_of_trailers(data, position)
                    if stop - position > LINE_MAX or (not stop and end - position >= LINE_MAX):
                        raise _too_long()
                    if stop:
                        self.trailer_section = data[position:stop]
                        position = stop
                    break
        except PeerError:
            if not pieces:
                raise
            # What is wrong stays in the buffer and is found again.
        del buffer[:position]
        return b"".join(pieces)

    def _begin_chunk(self, line: bytes) -> None:
        found = _SIZE_LINE.fullmatch(line)
        if found is None:
            if _MORE_THAN_64_BITS.match(line):
                raise PeerError("A chunk size of more than 64 bits")
            if _EXTENSION.match(line) and line.endswith(b"\r\n"):
                raise PeerError("Control character in a chunk extension")
            raise PeerError("Malformed chunk size line")
        size = int(found[1], 16)
        if size > self._room:
            raise PeerError(f"The body is longer than {self._limit} bytes", 413)
        self._room -= size
        self._left = size or -1


def _end_of_trailers(data: bytes, start: int) -> int:
    """The position after the blank line that ends the section at `start`; 0 if it is not there yet."""
    if data.startswith(b"\r\n", start):
        return start + 2
    if data.startswith(b"\n", start):
        return start + 1
    found = _BLANK_LINE.search(data, start)
    return found.end() if found else 0


def _too_long() -> PeerError:
    return PeerError(f"A chunk size line or the trailer section is longer than {LINE_MAX} bytes", 431)
