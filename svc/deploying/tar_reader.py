"""The members of a tar archive that another has made, read once from front to end, within limits.

`tarfile` reads the headers. What it reads goes through `_Content`, which knows only the way forward, gives a header no more than HEADER_BYTES, and
counts what was decompressed: so neither a header that claims gigabytes, nor a sparse map without an end, nor 100 GB of zeros cost more than
the limits say.
"""

from __future__ import annotations

import gzip
import tarfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO, Any

import zstandard

from svc.errors import ClientError

PIECE = 1 << 16  # bytes read at a time
HEADER_BYTES = 1 << 17  # of one member with all its extensions: names have at most 1000 characters
MOST_DIGITS = 20  # of the length of a record of a pax header
WINDOW = 1 << 27  # bytes of memory that a frame of Zstandard may ask for

_TYPE = 156  # where a header says what it is of
_PAX = (b"x", b"g", b"X")
_EXTENSIONS = (*_PAX, b"L", b"K")
_GZIP, _ZSTANDARD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"


class BadArchive(ClientError):
    """An archive that is damaged, or whose content is refused; the message names the member."""

    code = "BAD_ARCHIVE"


class TarReader:
    """`for member in reader`, and in between `reader.data(member)` for its content."""

    def __init__(self, file: IO[bytes], most_bytes: int) -> None:
        """`file`: the archive, also compressed. `most_bytes`: of it when it is decompressed. Raises BadArchive."""
        self._content = _Content(_decompressed(file), most_bytes)
        with self._translated():
            self._content.begin_header()
            # UTF-8 whatever the locale; strict: names that are not UTF-8 are refused.
            self._tar = tarfile.TarFile(fileobj=self._content, mode="r", encoding="utf-8", errors="strict")  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[tarfile.TarInfo]:
        while True:
            with self._translated():
                self._content.begin_header()
                member = self._tar.next()
                self._tar.members = []  # type: ignore[attr-defined]  # else it keeps them all
                if member is None:
                    self._content.check_end()
            if member is None:
                return
            yield member

    def data(self, member: tarfile.TarInfo) -> Iterator[bytes]:
        """The content of a member, which is the last one that was given, in pieces."""
        with self._translated():
            self._content.seek(member.offset_data)
            left = member.size
            while left:
                piece = self._content.read_data(min(left, PIECE))
                if not piece:
                    raise BadArchive("The archive ends within a file: it is not complete")
                left -= len(piece)
                yield piece

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except (tarfile.TarError, UnicodeError, OverflowError) as error:
            raise BadArchive(f"The archive cannot be read: {_sentence(error)}") from None
        except (EOFError, gzip.BadGzipFile, zlib.error, zstandard.ZstdError) as error:
            raise BadArchive(f"The archive cannot be decompressed: {_sentence(error)}") from None


class _Content:
    """The decompressed archive, for `tarfile`."""

    def __init__(self, read: Callable[[int], bytes], most_bytes: int) -> None:
        self._read = read
        self._position = 0
        self._most = most_bytes
        self._header_left = 0
        self._block = b""  # what was read last
        self._extension = b""  # the kind of the header before, if more of it follows

    def begin_header(self) -> None:
        """The next reads are of a member's headers."""
        self._extension = b""
        self._header_left = HEADER_BYTES

    def read(self, size: int = -1) -> bytes:
        if size < 0 or size > self._header_left:
            raise BadArchive(f"The archive has a header of more than {HEADER_BYTES} bytes")
        self._header_left -= size
        data = self.read_data(size)
        if self._extension in _PAX:
            _check_pax(data)
        kind = data[_TYPE : _TYPE + 1]
        self._extension = kind if not self._extension and kind in _EXTENSIONS else b""
        self._block = data
        return data

    def check_end(self) -> None:
        """Raises BadArchive unless the last block that was read ends the archive. What follows is decompressed, for its checksum."""
        if self._block.strip(b"\0"):
            raise BadArchive(f"The archive is damaged before byte {self._position}")
        while self.read_data(PIECE):
            pass

    def read_data(self, size: int) -> bytes:
        pieces: list[bytes] = []
        left = size
        while left:
            piece = self._read(left)
            if not piece:
                break
            left -= len(piece)
            pieces.append(piece)
        self._position += size - left
        if self._position > self._most:
            raise BadArchive(f"The archive has more than {self._most} bytes when it is unpacked")
        return b"".join(pieces)

    def seek(self, position: int, whence: int = 0) -> int:
        if whence or position < self._position:
            raise BadArchive("The archive cannot be read: a header points back")
        while position > self._position:
            if not self.read_data(min(position - self._position, PIECE)):
                break
        return self._position

    def tell(self) -> int:
        return self._position

    def close(self) -> None:
        """The file is the caller's."""


def _check_pax(data: bytes) -> None:
    """Raises BadArchive unless these are records `length keyword=value`: some releases of `tarfile` take quadratic time for others."""
    position = 0
    while position < len(data) and data[position]:
        digits, blank, _ = data[position : position + MOST_DIGITS + 1].partition(b" ")
        length = int(digits) if blank and digits.isdigit() else 0
        record = data[position : position + length]
        if len(record) != length or length <= len(digits) + 2 or b"=" not in record or record[-1:] != b"\n":
            raise BadArchive("The archive has a damaged header")
        position += length


def _decompressed(file: IO[bytes]) -> Callable[[int], bytes]:
    """What reads the tar archive in a file."""
    begin = file.read(4)
    file.seek(0)
    if begin[:2] == _GZIP:
        return gzip.GzipFile(fileobj=file).read
    if begin == _ZSTANDARD:
        reader: Any = zstandard.ZstdDecompressor(max_window_size=WINDOW).stream_reader(file, read_across_frames=True, closefd=False)
        return reader.read  # type: ignore[no-any-return]
    return file.read


def _sentence(error: BaseException) -> str:
    return str(error) or type(error).__name__
