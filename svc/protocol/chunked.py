"""The chunked transfer coding (RFC 9112 §7.1): `encode_chunk` for its way out, and for its way in a buffer of bytes -> the data in it.

    chunk           size in hexadecimal [; extension] CRLF, so many bytes, CRLF
    last chunk      size 0 [; extension] CRLF
    trailer section field lines, an empty line; each ends in CRLF

A proxy in front of us and we must never disagree on where a chunk ends (request smuggling), so a size line is read strictly: digits and nothing before
them, at most 64 bits, CRLF at its end and neither CR, LF nor another control character before that. Extensions are ignored. Of the trailer section only
the line ends are checked here: a bare LF is an error.

Only an incomplete line or trailer section stays in the buffer, at most LINE_MAX bytes of it: one byte more is an error. Neither the data returned nor the
errors raised depend on how the input was cut.
"""

from __future__ import annotations

import re

from svc.errors import PeerError

KEPT_MAX = 64 * 1024  # bytes of data whose chunk is kept
LINE_MAX = 1024  # bytes of a size line, and of the trailer section, with their line ends

_SIZE_LINE = re.compile(rb"([0-9A-Fa-f]{1,16})(?:;[\t\x20-\x7e\x80-\xff]*)?[\t ]*\r\n")
_BARE_LF = re.compile(rb"(?<!\r)\n")
_MORE_THAN_64_BITS = re.compile(rb"[0-9A-Fa-f]{17}")
_EXTENSION = re.compile(rb"[0-9A-Fa-f]+;")


_last = b"", b""  # data, and its chunk


def encode_chunk(data: bytes) -> bytes:
    """`data`, not empty, as one chunk. The last one is kept: an event goes out on many connections, one after the other.

    >>> encode_chunk(b"hello")
    b'5\\r\\nhello\\r\\n'
    """
    global _last
    known, chunk = _last
    if known is not data:
        chunk = b"%x\r\n%b\r\n" % (len(data), data)
        is_kept = type(data) is bytes and len(data) <= KEPT_MAX  # other buffers may change
        _last = (data, chunk) if is_kept else (b"", b"")
    return chunk


class ChunkedReader:
    """Decodes one chunked body. `trailer_section`: its bytes with the empty line, once the body is complete; None before that."""

    __slots__ = ("_expects_end", "_left", "_limit", "_room", "trailer_section")

    def __init__(self, limit: int) -> None:
        """`limit`: bytes of the body, coding removed."""
        self._limit = limit
        self._room = limit  # bytes that may still be announced
        self._left = 0  # bytes still to come of the current chunk; -1: reading the trailer section
        self._expects_end = False  # the CRLF behind a chunk comes next
        self.trailer_section: bytes | None = None

    def read(self, buffer: bytearray) -> bytes:
        """Remove the next bytes of the body from the buffer and return their data; b"" if more bytes are needed. Raises PeerError, after all data
        before the error has been returned. Bytes after the end of the body stay in the buffer."""
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
            # The wrong bytes stay in the buffer: the next call raises.
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
    """The offset after the empty line that ends the trailer section at `start`; 0 if that line is still to come. Raises PeerError."""
    if data.startswith(b"\r\n", start):
        return start + 2
    stop = data.find(b"\r\n\r\n", start) + 4
    if stop < 4:
        stop = 0
    if _BARE_LF.search(data, start, min(stop or len(data), start + LINE_MAX)):
        raise PeerError("A line of the trailer section does not end in CRLF")
    return stop


def _too_long() -> PeerError:
    return PeerError(f"A chunk size line or the trailer section is longer than {LINE_MAX} bytes", 431)
