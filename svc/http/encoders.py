"""Content codings of responses: whole bodies, and streams compressed while they are sent (RFC 9110 §8.4, RFC 7932, RFC 8878).

Levels, measured on JSON rows of about 400 bytes (20,000 different ones; speed of one core of the development machine, input per second):

    coding   level        ratio   MB/s   memory of a stream    tried besides
    zstd     2             3.0     320    0.8 MiB               1: 2.65, 390 MB/s; 3: 3.1, 210 MB/s, 1.3 MiB
    br       1             2.5     280    0.1 MiB               0: 2.2, 350 MB/s; 2: 2.9, 150 MB/s
    gzip     1             2.3     105    0.3 MiB               2: 2.35, 95 MB/s; 6: 2.5, 55 MB/s

A stream is compressed in blocks of BLOCK bytes: brotli at this level finds repetitions only inside what it is given at once (4 KiB at a time: 1.9,
64 KiB: 2.4, 128 KiB: 2.5, 256 KiB: 2.7). Each block is flushed, so what a peer has received it can decode. Flushed early are the first pieces, so that the
first rows arrive at once, and all pending output when the source has nothing to send now.

Windows are small: JSON rows repeat within a few rows, and the peer needs as much memory as the window.
"""

from __future__ import annotations

import types
import zlib
from asyncio import CancelledError, sleep
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import brotli
import zstandard

BLOCK = 128 * 1024  # bytes of input compressed and flushed at one time: at most about 1.3 ms, with gzip
EAGER = 1024  # bytes of input before which each piece is sent at once: the beginning of an array may be a piece of its own
WINDOW_BITS = 18  # of br and zstd
BROTLI_QUALITY = 1
GZIP_LEVEL = 1
GZIP_FORMAT = 16 + zlib.MAX_WBITS  # zlib's way to ask for gzip's header and trailer
ZSTD_LEVEL = 2
SPARE_COMPRESSORS = 4  # kept for reuse


class Encoder(Protocol):
    """The compressor of one stream. After `finish` or `release` it is not used again."""

    def compress(self, data: bytes | memoryview) -> bytes: ...
    def flush(self) -> bytes: ...
    def finish(self) -> bytes: ...
    def release(self) -> None: ...


class _Brotli:
    __slots__ = ("compress", "finish", "flush")

    def __init__(self) -> None:
        compressor = brotli.Compressor(quality=BROTLI_QUALITY, lgwin=WINDOW_BITS)
        self.compress: Callable[[bytes | memoryview], bytes] = compressor.process
        self.flush: Callable[[], bytes] = compressor.flush
        self.finish: Callable[[], bytes] = compressor.finish

    def release(self) -> None:
        pass


class _Gzip:
    __slots__ = ("_flush", "compress", "finish")

    def __init__(self) -> None:
        compressor = zlib.compressobj(GZIP_LEVEL, zlib.DEFLATED, GZIP_FORMAT)
        self.compress: Callable[[bytes | memoryview], bytes] = compressor.compress
        self._flush = compressor.flush
        self.finish: Callable[[], bytes] = compressor.flush

    def flush(self) -> bytes:
        return self._flush(zlib.Z_SYNC_FLUSH)

    def release(self) -> None:
        pass


class _Zstd:
    """Takes one of the spare compressors, which are expensive to create and large, and returns it. A compressor serves one stream at a time."""

    __slots__ = ("_compressor", "_flush", "compress")

    _parameters = zstandard.ZstdCompressionParameters.from_level(ZSTD_LEVEL, window_log=WINDOW_BITS)
    _spare: ClassVar[list[zstandard.ZstdCompressor]] = []

    def __init__(self) -> None:
        spare = self._spare
        self._compressor: zstandard.ZstdCompressor | None = (
            spare.pop() if spare else zstandard.ZstdCompressor(compression_params=self._parameters)
        )
        stream = self._compressor.compressobj()
        self.compress: Callable[[bytes | memoryview], bytes] = stream.compress
        self._flush = stream.flush

    def flush(self) -> bytes:
        return self._flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)

    def finish(self) -> bytes:
        data = self._flush()
        self.release()
        return data

    def release(self) -> None:
        compressor, self._compressor = self._compressor, None
        if compressor is not None and len(self._spare) < SPARE_COMPRESSORS:
            self._spare.append(compressor)


def _compress_br(body: bytes) -> bytes:
    # A window larger than the body wastes memory.
    coded: bytes = brotli.compress(body, quality=BROTLI_QUALITY, lgwin=min(WINDOW_BITS, max(10, len(body).bit_length())))
    return coded


def _compress_gzip(body: bytes) -> bytes:
    compressor = zlib.compressobj(GZIP_LEVEL, zlib.DEFLATED, GZIP_FORMAT)
    return compressor.compress(body) + compressor.flush()


@dataclass(frozen=True, slots=True)
class Coding:
    """`compress`: a whole body at once; `stream`: a new Encoder."""

    name: str
    compress: Callable[[bytes], bytes]
    stream: Callable[[], Encoder]


BR = Coding("br", _compress_br, _Brotli)
ZSTD = Coding("zstd", zstandard.ZstdCompressor(level=ZSTD_LEVEL).compress, _Zstd)
GZIP = Coding("gzip", _compress_gzip, _Gzip)


class _Blocks:
    """Pieces of any size -> coded blocks. Holds at most BLOCK bytes of input besides the piece in work."""

    __slots__ = ("_coding", "_encoder", "_gathered", "_hold", "_rest", "_size")

    def __init__(self, coding: Coding) -> None:
        self._coding = coding
        self._encoder: Encoder | None = None  # made with the first output: the answer to HEAD needs none
        self._gathered: list[bytes] = []
        self._size = 0
        self._hold = EAGER  # while positive, nothing is held back
        self._rest: memoryview | None = None  # of a piece larger than a block

    @property
    def has_rest(self) -> bool:
        """A large piece is not used up: call `next_of_rest` before the source."""
        return self._rest is not None

    def take(self, piece: bytes) -> bytes:
        """The output after this piece; mostly empty."""
        if not piece:
            return self.flush()
        if len(piece) > BLOCK:
            coded = self.flush()
            self._rest = memoryview(piece)
            return coded or self.next_of_rest()
        self._gathered.append(piece)
        self._size += len(piece)
        if self._hold <= 0 and self._size < BLOCK:
            return b""
        self._hold -= len(piece)
        return self.flush()

    def next_of_rest(self) -> bytes:
        rest = self._rest
        assert rest is not None
        self._rest = rest[BLOCK:] if len(rest) > BLOCK else None
        return self._encode(rest[:BLOCK])

    def flush(self) -> bytes:
        """The pending input as a block that the peer can decode; `b""` without any."""
        if not self._gathered:
            return b""
        data = self._gathered[0] if len(self._gathered) == 1 else b"".join(self._gathered)
        self._gathered.clear()
        self._size = 0
        return self._encode(data)

    def _encode(self, data: bytes | memoryview) -> bytes:
        encoder = self._encoder
        if encoder is None:
            encoder = self._encoder = self._coding.stream()
        return encoder.compress(data) + encoder.flush()

    def finish(self) -> bytes:
        """The last bytes of the stream."""
        encoder = self._encoder or self._coding.stream()
        self._encoder = None
        last = encoder.compress(b"".join(self._gathered)) if self._gathered else b""
        self._gathered.clear()
        return last + encoder.finish()

    def release(self) -> None:
        """Drop the stream; without its end the peer detects that it is incomplete."""
        encoder, self._encoder = self._encoder, None
        self._gathered.clear()
        self._rest = None
        if encoder is not None:
            encoder.release()


class CompressedBody:
    """A streamed body, compressed as it is pulled. One step compresses at most BLOCK bytes; `b""` means: nothing to send yet.

    Exceptions of the source are raised, and the coded stream gets no end.
    """

    __slots__ = ("_blocks", "_done", "_source")

    def __init__(self, source: Iterator[bytes], coding: Coding) -> None:
        self._source = source
        self._blocks = _Blocks(coding)
        self._done = False

    def __iter__(self) -> CompressedBody:
        return self

    def __next__(self) -> bytes:
        if self._done:
            raise StopIteration
        blocks = self._blocks
        if blocks.has_rest:
            return blocks.next_of_rest()
        try:
            piece = next(self._source)
        except StopIteration:
            self._done = True
            return blocks.finish()
        return blocks.take(piece)

    def close(self) -> None:
        """Close the source and release the encoder."""
        self._done = True
        self._blocks.release()
        close = getattr(self._source, "close", None)
        if close is not None:
            close()


class AsyncCompressedBody:
    """A streamed body with an asynchronous source, compressed as it is awaited. Pending output is flushed before a source is awaited.

    Also lets the loop run after each block, for a source that never waits would block it: only large output pauses it.
    """

    __slots__ = ("_blocks", "_done", "_given", "_source", "_step", "_waits_for")

    def __init__(self, source: AsyncIterator[bytes], coding: Coding) -> None:
        self._source = source
        self._blocks = _Blocks(coding)
        self._given = 0  # bytes since the loop ran
        self._step: Any = None  # of the source, begun and waiting
        self._waits_for: Any = None  # what that step handed to the loop
        self._done = False

    def __aiter__(self) -> AsyncCompressedBody:
        return self

    async def __anext__(self) -> bytes:
        if self._done:
            raise StopAsyncIteration
        blocks = self._blocks
        if self._given >= BLOCK:
            self._given = 0
            await sleep(0)
        if blocks.has_rest:
            self._given += BLOCK
            return blocks.next_of_rest()
        try:
            if self._step is None:
                step = self._source.__anext__().__await__()
                try:
                    waits_for = next(step)
                except StopIteration as ready:
                    return self._take(ready.value)
                self._step, self._waits_for = step, waits_for
                coded = blocks.flush()
                if coded:
                    return coded
            step, self._step = self._step, None
            piece = await _go_on(step, self._waits_for)
            self._given = 0
            return self._take(piece)
        except StopAsyncIteration:
            self._done = True
            return blocks.finish()

    def _take(self, piece: bytes) -> bytes:
        self._given += min(len(piece), BLOCK)
        return self._blocks.take(piece)

    async def aclose(self) -> None:
        """Close the source and release the encoder. A waiting step of the source is cancelled."""
        self._done = True
        self._blocks.release()
        step, self._step = self._step, None
        if step is not None:
            # As a task does it: cancel the awaited future, or else the step itself.
            cancelled = self._waits_for is not None and self._waits_for.cancel()
            try:
                await _go_on(step, self._waits_for, None if cancelled else CancelledError())
            except (CancelledError, StopAsyncIteration):
                pass
        close = getattr(self._source, "aclose", None)
        if close is not None:
            await close()


@types.coroutine
def _go_on(step: Any, waits_for: Any, error: BaseException | None = None) -> Generator[Any, Any, Any]:
    """Await the rest of an awaitable's iterator that has yielded `waits_for`, or raise `error` where it waits."""
    sent = None
    try:
        while True:
            if error is None:
                try:
                    sent = yield waits_for
                except GeneratorExit:
                    step.close()
                    raise
                except BaseException as thrown:
                    error = thrown
            if error is None:
                waits_for = next(step) if sent is None else step.send(sent)
            else:
                given, error = error, None
                waits_for = step.throw(given)
    except StopIteration as done:
        return done.value
