"""FileRange, a body that is a part of an open file: read in pieces, or handed to the socket by the kernel (`bodies.FileBody`)."""

from __future__ import annotations

import os
from typing import Protocol

PIECE = 64 * 1024  # bytes read at one time: a cold disk holds the loop no longer than for these


class OpenFile(Protocol):
    """A file that several answers may be reading: `static.opening.OpenFile`."""

    @property
    def descriptor(self) -> int: ...

    def release(self) -> None:
        """One of them is done."""


class FileCut(Exception):
    """The file has become shorter than it was when its answer began: the connection ends, the only way to tell the client."""


class FileRange:
    """The bytes from `position` to before `end` of a file. An iterator of them; its owner closes it, once or more often.

    `position` is changed by who sends the file without reading it.
    """

    __slots__ = ("_file", "end", "position")

    def __init__(self, file: OpenFile, start: int, end: int) -> None:
        self._file: OpenFile | None = file
        self.position = start
        self.end = end

    @property
    def descriptor(self) -> int:
        """Raises FileCut after `close`."""
        if self._file is None:
            raise FileCut("the file is closed")
        return self._file.descriptor

    @property
    def remaining(self) -> int:
        return self.end - self.position

    def __iter__(self) -> FileRange:
        return self

    def __next__(self) -> bytes:
        size = min(PIECE, self.end - self.position)
        if size <= 0 or self._file is None:
            self.close()
            raise StopIteration
        data = os.pread(self._file.descriptor, size, self.position)
        if not data:
            raise self.cut()
        self.position += len(data)
        return data

    def cut(self) -> FileCut:
        """What says that nothing is left to read although something was to follow."""
        return FileCut(f"a file has become shorter while it was sent: {self.remaining} bytes of it are missing")

    def close(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            file.release()

    def __del__(self) -> None:
        self.close()  # of an answer that nothing has sent

    def __repr__(self) -> str:
        return f"<FileRange {self.position}-{self.end}{' closed' if self._file is None else ''}>"
