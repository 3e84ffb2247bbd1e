"""Request bodies with a content coding (spec: http §8; RFC 9110 §8.4, §15.5.16).

A short body may decode to a very long one (decompression bomb), so every coding is decoded in steps of bounded output, and the limit is checked after each:

    gzip, deflate   at most STEP bytes a step
    br              at most STEP bytes and one block of the library's buffer (256 KiB)
    zstd            the library has no limit. A block is at most 128 KiB and takes at least 4 bytes, so that ZSTD_STEP bytes of input give at most 4 MiB

The decoded body may be RATIO times as long as the body that was sent, above FREE bytes: ordinary text shrinks by 3 to 20, so more is an attack. All codings
of a body together count, so that a chain of them cannot expand further than one.

A body that takes more than one SLICE of work is decoded on the loop, a slice a turn. A helper thread would have to wait for the interpreter lock after
each step, up to 5 ms on a busy server. Measured, as time of the processor: a slice of rows takes 1.4 ms (zstd) to 2.3 ms (gzip). Where the result grows
beyond some MiB the C library may move it, which took up to 15 ms at 32 MiB, beyond which it is mapped and not moved.
"""

from __future__ import annotations

import zlib
from asyncio import sleep
from collections.abc import Awaitable, Callable, Generator
from io import BytesIO

import brotli
import zstandard

from svc.errors import BadBody, ClientError, Overloaded

MAX_CODINGS = 4  # in a row, identity included
MAX_MEMBERS = 100_000  # gzip members or zstd frames of one body: each costs some microseconds, and may be empty
STEP = 64 * 1024  # bytes of output a step of gzip, deflate and br
INPUT_STEP = 16 * 1024  # bytes of input a step; what a step leaves over is copied by zlib
ZSTD_STEP = 128
MEMBER_WORK = 4 * 1024  # what beginning a gzip member or a zstd frame counts for, in bytes
SLICE = 512 * 1024  # bytes of input and output decoded in one turn: 2 ms with gzip, the slowest
RATIO = 100  # decoded bytes for each byte sent ...
FREE = 1 << 20  # ... beyond so many
MAX_WINDOW = 8 * 1024 * 1024  # of zstd as a content coding (RFC 9659)

ACCEPT_ENCODING = ("Accept-Encoding", "br, zstd, gzip, deflate")

Steps = Generator[int, None, None]  # yields after each step the work it took, in bytes


def parse_codings(header_value: str) -> list[str]:
    """The codings in the order in which they were applied, without identity. Raises 415."""
    names = [name.strip().lower() for name in header_value.split(",")]
    for name in names:
        if name and name != "identity" and name not in _DECODERS:
            raise _unsupported(f"The content coding {name[:40]} is not supported")
    if len(names) > MAX_CODINGS:
        raise _unsupported(f"More than {MAX_CODINGS} content codings")
    return [name for name in names if name and name != "identity"]


def _unsupported(message: str) -> ClientError:
    return ClientError(message, 415, headers=(ACCEPT_ENCODING,))


class _DecodedOutput:
    """The bytes decoded so far; the buffer becomes the result without a copy."""

    __slots__ = ("_buffer", "_limit", "_max_bytes", "size")

    def __init__(self, max_bytes: int, sent: int) -> None:
        """`sent`: the length of the coded body."""
        self._max_bytes = max_bytes
        self._limit = min(max_bytes, max(FREE, RATIO * sent))
        self._buffer = BytesIO()
        self.size = 0

    @property
    def room(self) -> int:
        return self._limit - self.size

    def add(self, data: bytes) -> None:
        self.size += len(data)
        if self.size > self._limit:
            if self._limit < self._max_bytes:
                raise ClientError(f"The decoded body is more than {RATIO} times as long as the body that was sent", 413)
            raise ClientError(f"The decoded body is longer than {self._max_bytes} bytes", 413)
        self._buffer.write(data)

    def value(self) -> bytes:
        return self._buffer.getvalue()


def _faulty(coding: str) -> BadBody:
    return BadBody(f"The body is not valid {coding}")


def _truncated(coding: str) -> BadBody:
    return BadBody(f"The body ends before its {coding} data does")


def _decode_gzip(body: bytes, output: _DecodedOutput) -> Steps:
    """One member or several (RFC 1952 §2.2)."""
    rest = memoryview(body)
    members = 0
    while rest:
        members += 1
        if members > MAX_MEMBERS:
            raise BadBody(f"More than {MAX_MEMBERS} gzip members")
        yield MEMBER_WORK
        rest = yield from _inflate(rest, output, 16 + zlib.MAX_WBITS, "gzip")


def _decode_deflate(body: bytes, output: _DecodedOutput) -> Steps:
    """zlib's format, as RFC 9110 §8.4.1.2 says, or bare deflate data, as some clients send. These cannot begin like the former: it would be a stored
    block with bits set in its padding."""
    bits = zlib.MAX_WBITS if body[0] & 15 == 8 and int.from_bytes(body[:2], "big") % 31 == 0 else -zlib.MAX_WBITS
    rest = yield from _inflate(memoryview(body), output, bits, "deflate")
    if rest:
        raise BadBody("More data follows the deflate data")


def _inflate(body: memoryview, output: _DecodedOutput, bits: int, coding: str) -> Generator[int, None, memoryview]:
    """Decode one zlib stream; returns what follows it."""
    stream = zlib.decompressobj(bits)
    position = 0
    while not stream.eof:
        piece: bytes | memoryview = body[position : position + INPUT_STEP]
        if not piece:
            raise _truncated(coding)
        position += len(piece)
        while piece and not stream.eof:
            try:
                # One byte more than there is room for shows that the limit is passed.
                data = stream.decompress(piece, min(STEP, output.room + 1))
            except zlib.error:
                raise _faulty(coding) from None
            output.add(data)
            yield len(piece) - len(stream.unconsumed_tail) + len(data)
            piece = stream.unconsumed_tail
    return body[position - len(stream.unused_data) :]


def _decode_br(body: bytes, output: _DecodedOutput) -> Steps:
    stream = brotli.Decompressor()
    rest = memoryview(body)
    while rest:
        if stream.is_finished():
            raise BadBody("More data follows the br data")
        piece: bytes | memoryview = rest[:INPUT_STEP]
        rest = rest[INPUT_STEP:]
        while True:
            try:
                data = stream.process(piece, output_buffer_limit=min(STEP, output.room + 1))
            except brotli.error:
                raise _faulty("br") from None
            output.add(data)
            yield len(piece) + len(data)
            # `can_accept_more_data` is about input only: output may still be pending.
            if not data or stream.is_finished():
                break
            piece = b""
    if not stream.is_finished():
        raise _truncated("br")


def _decode_zstd(body: bytes, output: _DecodedOutput) -> Steps:
    """One frame or several (RFC 8878 §3.1)."""
    decompressor = zstandard.ZstdDecompressor(max_window_size=MAX_WINDOW)
    rest = memoryview(body)
    frames = 0
    while rest:
        frames += 1
        if frames > MAX_MEMBERS:
            raise BadBody(f"More than {MAX_MEMBERS} zstd frames")
        yield MEMBER_WORK
        stream = decompressor.decompressobj()
        position = 0
        while not stream.eof:
            piece = rest[position : position + ZSTD_STEP]
            if not piece:
                raise _truncated("zstd")
            position += len(piece)
            try:
                data = stream.decompress(piece)
            except zstandard.ZstdError:
                raise _faulty("zstd") from None
            output.add(data)
            yield len(piece) + len(data)
        rest = rest[position - len(stream.unused_data) :]


_DECODERS: dict[str, Callable[[bytes, _DecodedOutput], Steps]] = {
    "br": _decode_br,
    "deflate": _decode_deflate,
    "gzip": _decode_gzip,
    "x-gzip": _decode_gzip,
    "zstd": _decode_zstd,
}


class _BodyDecoding:
    """One body on its way through its codings."""

    __slots__ = ("_output", "_sent", "_steps", "gives_way", "result")

    def __init__(self, header_value: str, body: bytes, max_bytes: int) -> None:
        self.result = body
        self.gives_way = False  # there is no room for it any more
        self._sent = len(body)
        self._output = _DecodedOutput(max_bytes, self._sent)
        self._steps = self._run(parse_codings(header_value), max_bytes)

    def _run(self, names: list[str], max_bytes: int) -> Steps:
        for name in reversed(names):
            if not self.result:
                return  # no content is no content in any coding
            self._output = _DecodedOutput(max_bytes, self._sent)
            yield from _DECODERS[name](self.result, self._output)
            self.result = self._output.value()
        if len(self.result) > max_bytes:
            raise ClientError(f"The body is longer than {max_bytes} bytes", 413)

    @property
    def held(self) -> int:
        """Bytes decoded so far."""
        return self._output.size

    def advance(self) -> bool:
        """One slice. True: `result` is the body."""
        work = 0
        for step in self._steps:
            work += step
            if work >= SLICE:
                return False
        return True


class RequestDecoder:
    """Decodes the bodies of a server's requests. `max_bytes`: of one; `max_total`: of all that are being decoded at one time."""

    def __init__(self, max_bytes: int, max_total: int) -> None:
        self._max_bytes = max_bytes
        self._max_total = max_total
        self.held = 0  # bytes decoded by those that are not finished
        self._unfinished: set[_BodyDecoding] = set()

    def decode(self, header_value: str, body: bytes, max_bytes: int | None = None) -> bytes | Awaitable[bytes]:
        """The body without its codings, which `Content-Encoding` names. If that takes more than a slice, an awaitable, which works a slice a turn.

        Raises 415 for an unknown coding, 413 above the limit or RATIO, BadBody (400) for data that is damaged, truncated or followed by other data;
        the awaitable also Overloaded. `max_bytes`: a lower limit for this body.
        """
        decoding = _BodyDecoding(header_value, body, self._max_bytes if max_bytes is None else min(max_bytes, self._max_bytes))
        if decoding.advance():
            return decoding.result
        return self._go_on(decoding)

    async def _go_on(self, decoding: _BodyDecoding) -> bytes:
        held = 0
        self._unfinished.add(decoding)
        try:
            while True:
                self.held += decoding.held - held
                held = decoding.held
                if self.held > self._max_total:  # the largest has to give way, not the one that comes last
                    max(self._unfinished, key=lambda each: each.held).gives_way = True
                if not decoding.gives_way:
                    await sleep(0)
                if decoding.gives_way:
                    raise Overloaded("Too many request bodies at one time")
                if decoding.advance():
                    return decoding.result
        finally:
            self.held -= held
            self._unfinished.discard(decoding)
