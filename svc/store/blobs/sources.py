"""What the content of a blob comes from: memory, a file, a part of another blob, whatever yields bytes."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from typing import Any, Protocol, cast

from svc.errors import BadValue
from svc.store.blobs.files import CHUNK, BlobFiles


class UnsavedContent:
    """What an unsaved blob is made of. `alive`: how many there are, so that records need not be searched while there are none."""

    __slots__ = ("data", "save_before_commit")
    alive = 0

    def __init__(self, data: Any, save_before_commit: bool) -> None:
        self.data = data
        self.save_before_commit = save_before_commit
        UnsavedContent.alive += 1

    def __del__(self) -> None:
        UnsavedContent.alive -= 1

    async def pieces(self) -> AsyncIterator[bytes]:
        """The content, which can be read only once. Raises BadValue if it was, or if something else than bytes comes."""
        data = self._take()
        if hasattr(data, "__aiter__"):
            async for piece in data:
                yield _checked(piece)
        else:
            for piece in _iterate(data):
                yield piece
                await asyncio.sleep(0)  # others are served in between

    def pieces_now(self) -> Iterator[bytes]:
        """The same without a loop. Raises BadValue for what has to be awaited."""
        if hasattr(self.data, "__aiter__"):
            raise BadValue("A blob of an async iterable can only be saved while a loop is running")
        return _iterate(self._take())

    def _take(self) -> Any:
        data, self.data = self.data, _READ
        if data is _READ:
            raise BadValue("The content of this blob could be read only once, and has been")
        return data


def _iterate(data: Any) -> Iterator[bytes]:
    if type(data) is bytes:
        return iter((data,))
    if isinstance(data, Part):
        return data.chunks()
    if hasattr(data, "read"):
        return map(_checked, iter(lambda: data.read(CHUNK), b""))
    return map(_checked, data)


def _checked(piece: object) -> bytes:
    if isinstance(piece, (bytes, bytearray, memoryview)):
        return bytes(piece)
    raise BadValue(f"A blob is made of bytes, not of {type(piece).__name__}")


_READ = object()


class Chunks:
    """An iterator over a range of content. `close` it if it is not read to its end."""

    __slots__ = ("_content", "_descriptor", "_end", "_files", "_number", "_position")

    def __init__(self, source: bytes | tuple[BlobFiles, int, int], start: int, end: int) -> None:
        self._position = start
        self._end = end
        self._content = b""
        self._descriptor = -1
        if type(source) is bytes:
            self._content = source
        else:
            self._files, self._number, self._descriptor = cast(tuple[BlobFiles, int, int], source)

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        size = min(CHUNK, self._end - self._position)
        if size <= 0:
            self.close()
            raise StopIteration
        at = self._position
        piece = self._content[at : at + size] if self._descriptor < 0 else os.pread(self._descriptor, size, at)
        if not piece:
            self.close()
            raise self._files.damaged(self._number, f"ends after {at} bytes")
        self._position = at + len(piece)
        return piece

    def close(self) -> None:
        self._position = self._end
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            os.close(descriptor)

    __del__ = close


class ChunkSource(Protocol):
    """A blob whose content can be read in pieces: `Blob`."""

    def chunks(self, start: int = 0, end: int | None = None) -> Chunks: ...


class Part:
    """A range of another blob."""

    __slots__ = ("blob", "end", "start")

    def __init__(self, blob: ChunkSource, start: int, end: int | None) -> None:
        self.blob, self.start, self.end = blob, start, end

    def chunks(self, start: int = 0, end: int | None = None) -> Chunks:
        return self.blob.chunks(self.start + start, self._stop(end))

    def _stop(self, end: int | None) -> int | None:
        if end is None:
            return self.end
        return self.start + end if self.end is None else min(self.start + end, self.end)


def is_stream(value: object) -> bool:
    """Whether it yields bytes: a file, an iterator or an async iterable, but no container."""
    return hasattr(value, "read") or hasattr(value, "__aiter__") or hasattr(value, "__next__")


async def cut(pieces: AsyncIterator[bytes], start: int, end: int | None) -> AsyncIterator[bytes]:
    """The bytes from `start` to before `end` of what `pieces` yields."""
    position = 0
    async for piece in pieces:
        low, high = max(start - position, 0), len(piece) if end is None else end - position
        position += len(piece)
        if low < len(piece) and low < high:
            yield piece[low:high]
        if end is not None and position >= end:
            return
