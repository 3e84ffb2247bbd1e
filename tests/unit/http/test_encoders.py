"""Streams that are compressed while they are sent (spec: http §8)."""

from __future__ import annotations

import asyncio
import random
import zlib
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import brotli
import pytest
import zstandard

from svc.http.encoders import BLOCK, BR, EAGER, GZIP, SPARE_COMPRESSORS, ZSTD, AsyncCompressedBody, Coding, CompressedBody, _Zstd

CODINGS = pytest.mark.parametrize("coding", [BR, GZIP, ZSTD], ids=lambda coding: coding.name)
ROW = b'{"name":"Keyboard","price":49.5,"brandId":"b1","id":"42"},'
NOISE = random.Random(7).randbytes(3 * BLOCK + 17)


class Reader:
    """A peer that decodes what it has received so far."""

    def __init__(self, coding: Coding) -> None:
        self._zlib = zlib.decompressobj(31)
        self._zstd = zstandard.ZstdDecompressor().decompressobj()
        self._brotli = brotli.Decompressor()
        self.name = coding.name
        self.decode: Callable[[bytes], bytes] = {
            "gzip": self._zlib.decompress,
            "zstd": self._zstd.decompress,
            "br": self._decode_br,
        }[coding.name]

    def _decode_br(self, data: bytes) -> bytes:
        """The library's object keeps back what is more than 32 KiB until it is asked again."""
        pieces = [self._brotli.process(data)]
        while pieces[-1]:
            pieces.append(self._brotli.process(b""))
        return b"".join(pieces)

    @property
    def ended(self) -> bool:
        return bool({"gzip": self._zlib.eof, "zstd": self._zstd.eof, "br": self._brotli.is_finished()}[self.name])


class Source:
    """Gives pieces, raising those that are exceptions."""

    def __init__(self, *pieces: bytes | Exception) -> None:
        self._pieces = iter(pieces)
        self.asked = 0
        self.closed = 0

    def __iter__(self) -> Source:
        return self

    def __next__(self) -> bytes:
        self.asked += 1
        piece = next(self._pieces)
        if isinstance(piece, Exception):
            raise piece
        return piece

    def close(self) -> None:
        self.closed += 1


@CODINGS
@pytest.mark.parametrize("body", [b"", b"x", ROW * 100, NOISE], ids=["empty", "one byte", "rows", "noise"])
def test_whole_bodies(coding: Coding, body: bytes) -> None:
    reader = Reader(coding)
    assert reader.decode(coding.compress(body)) == body
    assert reader.ended


@CODINGS
@pytest.mark.parametrize(
    "pieces",
    [
        [],
        [b""],
        [b"x"],
        [b"", b"", ROW, b""],
        [ROW] * 5000,
        [NOISE],
        [b"[", NOISE, b"]"],
        [ROW, NOISE[:BLOCK], NOISE[: BLOCK + 1], b"", NOISE[:5]],
        [b"x" * EAGER, b"y" * (BLOCK - 1), b"z", b"end"],
    ],
    ids=["none", "nothing yet", "one byte", "pauses", "many", "large", "large between small", "mixed", "borders"],
)
def test_the_peer_reads_what_went_in(coding: Coding, pieces: list[bytes]) -> None:
    reader = Reader(coding)
    decoded = b"".join([reader.decode(coded) for coded in CompressedBody(iter(pieces), coding) if coded])
    assert decoded == b"".join(pieces)
    assert reader.ended


@CODINGS
def test_the_first_rows_arrive_at_once(coding: Coding) -> None:
    body, reader = CompressedBody(iter([b"[", ROW * 50, ROW, ROW]), coding), Reader(coding)
    assert reader.decode(next(body)) == b"["
    assert reader.decode(next(body)) == ROW * 50
    assert next(body) == b""


@CODINGS
def test_a_source_that_has_nothing_yet_gets_its_rows_sent(coding: Coding) -> None:
    body, reader = CompressedBody(iter([b"x" * EAGER, ROW, ROW, b"", b"", ROW]), coding), Reader(coding)
    reader.decode(next(body))
    assert [next(body), next(body)] == [b"", b""]
    assert reader.decode(next(body)) == ROW * 2
    assert next(body) == b""  # nothing new: no empty blocks


@CODINGS
def test_no_more_than_a_block_is_held_back_and_worked_on_at_once(coding: Coding) -> None:
    pieces = [b"x" * EAGER] + [NOISE[:1000]] * 1000 + [NOISE]
    source = Source(*pieces)
    body, reader = CompressedBody(source, coding), Reader(coding)
    decoded = 0
    for coded in body:
        new = len(reader.decode(coded)) if coded else 0
        assert new <= BLOCK + 1000
        decoded += new
        assert sum(map(len, pieces[: source.asked])) - decoded <= BLOCK + len(NOISE) * (source.asked > 1001)
    assert decoded == sum(map(len, pieces))


@CODINGS
def test_a_failure_goes_through_and_the_stream_has_no_end(coding: Coding) -> None:
    body, reader = CompressedBody(Source(ROW, ROW * 1000, RuntimeError("broken")), coding), Reader(coding)
    for coded in (next(body), next(body)):
        reader.decode(coded) if coded else None
    with pytest.raises(RuntimeError, match="broken"):
        next(body)
    body.close()
    with pytest.raises(StopIteration):
        next(body)
    assert not reader.ended


@CODINGS
def test_close_closes_the_source(coding: Coding) -> None:
    for steps in range(3):
        source = Source(ROW, ROW)
        body = CompressedBody(source, coding)
        for _ in range(steps):
            next(body)
        body.close()
        assert source.closed == 1
        assert list(body) == []
    CompressedBody(iter((ROW,)), coding).close()  # a source without close()


def test_nothing_is_made_for_a_stream_that_is_not_read() -> None:
    def stream() -> Any:
        raise AssertionError("an encoder for HEAD")

    CompressedBody(Source(ROW), Coding("br", BR.compress, stream)).close()


def test_zstd_compressors_are_used_again_and_never_by_two() -> None:
    _Zstd._spare.clear()
    bodies = [CompressedBody(iter([ROW] * 3), ZSTD) for _ in range(SPARE_COMPRESSORS + 3)]
    readers = [Reader(ZSTD) for _ in bodies]
    firsts = [reader.decode(next(body)) for body, reader in zip(bodies, readers, strict=True)]  # all under way at one time
    assert firsts == [ROW] * len(bodies)
    bodies.pop().close()
    readers.pop()
    assert len(_Zstd._spare) == 1  # given back half-way
    bodies.append(CompressedBody(iter([ROW]), ZSTD))
    readers.append(Reader(ZSTD))
    for body, reader in zip(bodies, readers, strict=True):
        for coded in body:
            reader.decode(coded) if coded else None
        assert reader.ended
        body.close()
    assert len(_Zstd._spare) == SPARE_COMPRESSORS
    assert len({id(compressor) for compressor in _Zstd._spare}) == SPARE_COMPRESSORS


# --- asynchronous sources --------------------------------------------------------------------------------------------------------------


@CODINGS
@pytest.mark.parametrize("pieces", [[], [b"", ROW, b"", ROW], [ROW] * 5000, [b"[", NOISE, b"]"]], ids=["none", "pauses", "many", "large"])
@pytest.mark.parametrize("waiting", [False, True], ids=["ready", "waiting"])
def test_asynchronous_sources(coding: Coding, pieces: list[bytes], waiting: bool) -> None:
    async def rows() -> AsyncIterator[bytes]:
        for piece in pieces:
            if waiting:
                await asyncio.sleep(0)
            yield piece

    async def read() -> bytes:
        decoded = [reader.decode(coded) async for coded in AsyncCompressedBody(rows(), coding) if coded]
        return b"".join(decoded)

    reader = Reader(coding)
    assert asyncio.run(read()) == b"".join(pieces)
    assert reader.ended


@CODINGS
def test_before_a_source_waits_its_rows_are_sent(coding: Coding) -> None:
    async def run() -> None:
        more = asyncio.Event()

        async def rows() -> AsyncIterator[bytes]:
            yield b"x" * EAGER
            yield ROW
            yield ROW
            await more.wait()
            yield b"late"

        body, reader = AsyncCompressedBody(rows(), coding), Reader(coding)
        reader.decode(await anext(body))
        assert [await anext(body), await anext(body)] == [b"", b""]
        assert reader.decode(await anext(body)) == ROW * 2
        more.set()  # before the wait is taken up again
        assert await anext(body) == b""
        assert reader.decode(await anext(body)) == b"late"
        with pytest.raises(StopAsyncIteration):
            await anext(body)
        with pytest.raises(StopAsyncIteration):
            await anext(body)

    asyncio.run(run())


def test_a_source_that_never_waits_lets_the_loop_run() -> None:
    async def run() -> None:
        turns = 0

        def count() -> None:
            nonlocal turns
            turns += 1
            asyncio.get_running_loop().call_soon(count)

        async def zeros() -> AsyncIterator[bytes]:
            for _ in range(100):
                yield bytes(BLOCK // 4)
            yield bytes(BLOCK * 10)

        count()
        async for _ in AsyncCompressedBody(zeros(), ZSTD):
            pass
        assert turns >= 30

    asyncio.run(run())


@CODINGS
def test_aclose_ends_a_source_wherever_it_is(coding: Coding) -> None:
    async def run(steps: int) -> None:
        ends: list[str] = []
        never = asyncio.get_running_loop().create_future()

        async def rows() -> AsyncIterator[bytes]:
            try:
                yield b"x" * EAGER
                yield ROW
                await never
                yield ROW
            except asyncio.CancelledError:
                ends.append("cancelled")
                raise
            finally:
                await asyncio.sleep(0)  # what a source may do to clean up
                ends.append("closed")

        body = AsyncCompressedBody(rows(), coding)
        for _ in range(steps):
            await anext(body)
        await body.aclose()
        await body.aclose()
        assert ends == [[], ["closed"], ["closed"], ["cancelled", "closed"]][steps]
        assert never.cancelled() is (steps == 3)

    for steps in range(4):
        asyncio.run(run(steps))


def test_aclose_raises_where_a_source_has_only_given_way() -> None:
    async def run() -> None:
        ends: list[str] = []

        async def rows() -> AsyncIterator[bytes]:
            try:
                yield b"x" * EAGER
                yield ROW
                await asyncio.sleep(0)
                yield ROW
            except asyncio.CancelledError:
                ends.append("cancelled")

        body = AsyncCompressedBody(rows(), GZIP)
        for _ in range(3):
            await anext(body)
        await body.aclose()
        assert ends == ["cancelled"]

    asyncio.run(run())


def test_cancelling_the_reader_cancels_the_source() -> None:
    async def run() -> None:
        ends: list[str] = []

        async def rows() -> AsyncIterator[bytes]:
            try:
                yield b"x" * EAGER
                yield ROW
                await asyncio.get_running_loop().create_future()
            except asyncio.CancelledError:
                ends.append("cancelled")
                raise

        async def read() -> None:
            async for _ in body:
                pass

        body = AsyncCompressedBody(rows(), BR)
        task = asyncio.create_task(read())
        for _ in range(5):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await body.aclose()
        assert ends == ["cancelled"]

    asyncio.run(run())


@CODINGS
def test_an_asynchronous_failure_goes_through(coding: Coding) -> None:
    async def run() -> None:
        async def rows() -> AsyncIterator[bytes]:
            yield ROW
            await asyncio.sleep(0)
            raise RuntimeError("broken")

        body, reader = AsyncCompressedBody(rows(), coding), Reader(coding)
        reader.decode(await anext(body))
        with pytest.raises(RuntimeError, match="broken"):
            await anext(body)
        await body.aclose()
        assert not reader.ended

    asyncio.run(run())


def test_sources_that_are_no_generators() -> None:
    class Rows:
        def __init__(self) -> None:
            self.left = 3

        def __aiter__(self) -> Rows:
            return self

        async def __anext__(self) -> bytes:
            self.left -= 1
            if self.left < 0:
                raise StopAsyncIteration
            await asyncio.sleep(0)
            return ROW

    async def read() -> bytes:
        body = AsyncCompressedBody(Rows(), GZIP)
        coded = b"".join([piece async for piece in body])
        await body.aclose()
        return coded

    assert zlib.decompress(asyncio.run(read()), 31) == ROW * 3


def test_a_generator_is_a_source() -> None:
    closed: list[bool] = []

    def rows() -> Iterator[bytes]:
        try:
            yield ROW
            yield ROW
        finally:
            closed.append(True)

    body = CompressedBody(rows(), BR)
    next(body)
    body.close()
    assert closed == [True]
