"""Request bodies with a content coding (spec: http §8; RFC 9110 §8.4)."""

from __future__ import annotations

import asyncio
import gzip
import random
import tracemalloc
import zlib
from collections.abc import Callable

import brotli
import pytest
import zstandard

from svc.errors import BadBody, ClientError, Overloaded, Problem
from svc.http.decoding import FREE, MAX_MEMBERS, RATIO, SLICE, STEP, RequestDecoder
from tests.support.codings import decode_coding

MIB = 1 << 20
NOISE = random.Random(3).randbytes(100_000)


def raw_deflate(body: bytes) -> bytes:
    stream = zlib.compressobj(6, zlib.DEFLATED, -15)
    return stream.compress(body) + stream.flush()


def stream_zstd(body: bytes) -> bytes:
    """Without its length in the head, with a checksum."""
    stream = zstandard.ZstdCompressor(write_checksum=True).compressobj()
    return stream.compress(body) + stream.flush()


ENCODERS: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "gzip": ("gzip", gzip.compress),
    "x-gzip": ("X-Gzip", gzip.compress),
    "deflate": ("deflate", zlib.compress),
    "raw deflate": ("deflate", raw_deflate),
    "stored deflate": ("deflate", lambda body: zlib.compress(body, 0)),
    "br": ("br", lambda body: brotli.compress(body, quality=4)),
    "zstd": ("zstd", zstandard.compress),
    "streamed zstd": ("zstd", stream_zstd),
}
EACH = pytest.mark.parametrize(("name", "encode"), ENCODERS.values(), ids=ENCODERS)


def fault(header: str, body: bytes, limit: int = MIB) -> Problem:
    with pytest.raises(Problem) as caught:
        decode_coding(header, body, limit)
    return caught.value


@EACH
@pytest.mark.parametrize("body", [b"", b"{}", b"a" * 300_000, NOISE], ids=["empty", "short", "repeated", "noise"])
def test_what_clients_send(name: str, encode: Callable[[bytes], bytes], body: bytes) -> None:
    assert decode_coding(name, encode(body), MIB) == body


@EACH
def test_no_content_needs_no_decoding(name: str, encode: Callable[[bytes], bytes]) -> None:
    assert decode_coding(name, b"", MIB) == b""


def test_several_in_a_row_are_undone_from_the_last() -> None:
    body = brotli.compress(gzip.compress(b"twice"))
    assert decode_coding("gzip, br", body, MIB) == b"twice"
    assert decode_coding(" identity ,GZIP,, Br", body, MIB) == b"twice"
    assert decode_coding("identity", b"as it is", MIB) == b"as it is"
    assert decode_coding("", b"as it is", MIB) == b"as it is"
    error = fault("gzip, gzip, gzip, gzip, gzip", b"x")
    assert error.status_code == 415
    assert error.headers == (("Accept-Encoding", "br, zstd, gzip, deflate"),)


@pytest.mark.parametrize("name", ["compress", "gzip;q=1", "aes128gcm", "gzip br", "x" * 500])
def test_an_unknown_coding_is_415_and_tells_what_is_known(name: str) -> None:
    error = fault(f"gzip, {name}", b"x")
    assert error.status_code == 415
    assert error.headers == (("Accept-Encoding", "br, zstd, gzip, deflate"),)
    assert len(error.message) < 100


# --- limits ----------------------------------------------------------------------------------------------------------------------------


@EACH
def test_the_limit_counts_decoded_bytes(name: str, encode: Callable[[bytes], bytes]) -> None:
    coded = encode(b"a" * 100_000)
    assert len(decode_coding(name, coded, 100_000)) == 100_000
    error = fault(name, coded, 99_999)
    assert (error.status_code, error.code) == (413, "PAYLOAD_TOO_LARGE")
    assert fault(name, coded, 0).status_code == 413


def test_the_limit_counts_undecoded_bytes_too() -> None:
    assert fault("identity", b"abc", 2).status_code == 413
    assert fault("gzip, identity", gzip.compress(NOISE), 1000).status_code == 413


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("gzip", lambda: gzip.compress(bytes(32 * MIB), 1)),
        ("deflate", lambda: raw_deflate(bytes(32 * MIB))),
        ("br", lambda: brotli.compress(bytes(32 * MIB), quality=1)),
        ("zstd", lambda: zstandard.compress(bytes(128 * MIB), 1)),
        ("gzip, gzip", lambda: gzip.compress(gzip.compress(bytes(32 * MIB), 1))),
    ],
    ids=["gzip", "deflate", "br", "zstd", "twice"],
)
def test_a_bomb_takes_no_memory(name: str, make: Callable[[], bytes]) -> None:
    bomb = make()
    tracemalloc.start()
    try:
        assert fault(name, bomb, MIB).status_code == 413
        assert tracemalloc.get_traced_memory()[1] < 12 * MIB
    finally:
        tracemalloc.stop()


def test_zstd_windows_are_bounded() -> None:
    parameters = zstandard.ZstdCompressionParameters(window_log=24)
    stream = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    wide = stream.compress(bytes(20 * MIB)) + stream.flush()
    assert fault("zstd", wide, 100 * MIB).code == "BAD_BODY"


# --- damage ----------------------------------------------------------------------------------------------------------------------------


@EACH
def test_cut_off_anywhere_is_400(name: str, encode: Callable[[bytes], bytes]) -> None:
    coded = encode(b"some text " * 30 + NOISE[:200])
    for length in range(1, len(coded)):
        error = fault(name, coded[:length])
        assert (type(error), error.status_code, error.code) == (BadBody, 400, "BAD_BODY")


@EACH
@pytest.mark.parametrize("body", [b"{}", bytes(STEP), NOISE], ids=["short", "a step", "noise"])
@pytest.mark.parametrize("rest", [b"\0", b"garbage", bytes(20_000)], ids=["zero", "text", "zeros"])
def test_something_behind_the_end_is_400(name: str, encode: Callable[[bytes], bytes], body: bytes, rest: bytes) -> None:
    assert fault(name, encode(body) + rest).code == "BAD_BODY"


@EACH
def test_damage_is_400(name: str, encode: Callable[[bytes], bytes]) -> None:
    assert fault(name, b"not coded at all").code == "BAD_BODY"


def test_a_wrong_checksum_is_400() -> None:
    for name, coded in (("gzip", gzip.compress(b"{}")), ("deflate", zlib.compress(b"{}")), ("zstd", stream_zstd(b"{}"))):
        place = -8 if name == "gzip" else -1
        damaged = bytearray(coded)
        damaged[place] ^= 1
        assert fault(name, bytes(damaged)).code == "BAD_BODY"


# --- the ratio -------------------------------------------------------------------------------------------------------------------------


@EACH
def test_what_is_decoded_is_no_more_than_a_hundred_times_what_was_sent(name: str, encode: Callable[[bytes], bytes]) -> None:
    bomb = encode(bytes(8 * MIB))
    if len(bomb) * RATIO > 8 * MIB:
        bomb = gzip.compress(bomb)  # it was stored, not compressed
        name += ", gzip"
    error = fault(name, bomb, 64 * MIB)
    assert (error.status_code, error.message) == (413, "The decoded body is more than 100 times as long as the body that was sent")


@EACH
def test_below_a_mebibyte_the_ratio_is_free(name: str, encode: Callable[[bytes], bytes]) -> None:
    assert decode_coding(name, encode(bytes(FREE)), 64 * MIB) == bytes(FREE)


def test_the_codings_of_a_body_share_the_ratio() -> None:
    body = NOISE + bytes(4 * MIB)
    once = gzip.compress(body)
    assert decode_coding("gzip", once, 64 * MIB) == body
    twice = gzip.compress(gzip.compress(bytes(1000 * MIB // 10), 1))
    assert len(twice) < 10_000
    assert fault("gzip, gzip", twice, 1000 * MIB).status_code == 413


# --- members and frames ----------------------------------------------------------------------------------------------------------------


def test_several_members_and_frames_are_one_body() -> None:
    assert decode_coding("gzip", gzip.compress(b"a") + gzip.compress(b"") + gzip.compress(NOISE), MIB) == b"a" + NOISE
    skipped = b"\x50\x2a\x4d\x18\x04\0\0\0skip"
    assert decode_coding("zstd", skipped + zstandard.compress(b"a") + skipped + stream_zstd(NOISE), MIB) == b"a" + NOISE


@pytest.mark.parametrize(("name", "member"), [("gzip", gzip.compress(b"")), ("zstd", zstandard.compress(b""))], ids=["gzip", "zstd"])
def test_empty_members_are_counted(name: str, member: bytes) -> None:
    assert decode_coding(name, member * 2000, MIB) == b""
    assert fault(name, member * (MAX_MEMBERS + 1)).code == "BAD_BODY"


# --- in slices -------------------------------------------------------------------------------------------------------------------------


@EACH
def test_a_short_body_is_decoded_at_once_and_a_long_one_in_turns(name: str, encode: Callable[[bytes], bytes]) -> None:
    decoder = RequestDecoder(100 * MIB, 100 * MIB)
    assert decoder.decode(name, encode(b"{}")) == b"{}"
    body = random.Random(4).randbytes(20 * SLICE)

    async def run() -> int:
        turns = 0

        def count() -> None:
            nonlocal turns
            turns += 1
            asyncio.get_running_loop().call_soon(count)

        pending = decoder.decode(name, encode(body))
        assert not isinstance(pending, bytes)
        count()
        assert await pending == body
        return turns

    assert asyncio.run(run()) >= 10  # a step of zstd may be several slices
    assert decoder.held == 0


def test_faults_of_long_bodies_are_raised_when_they_are_met() -> None:
    decoder = RequestDecoder(MIB, 100 * MIB)

    async def run(body: bytes) -> None:
        pending = decoder.decode("gzip", body)
        assert not isinstance(pending, bytes)
        await pending

    for body, status in ((gzip.compress(bytes(2 * MIB)), 413), (gzip.compress(bytes(MIB))[:-1], 400)):
        with pytest.raises(ClientError) as caught:
            asyncio.run(run(body))
        assert caught.value.status_code == status
        assert decoder.held == 0


def test_all_bodies_together_have_a_limit() -> None:
    decoder = RequestDecoder(8 * MIB, 10 * MIB)
    coded = zlib.compress(random.Random(5).randbytes(6 * MIB), 1)

    async def run() -> list[object]:
        return await asyncio.gather(*[decoder.decode("deflate", coded) for _ in range(2)], return_exceptions=True)  # type: ignore[arg-type]

    first, second = asyncio.run(run())
    assert sorted((type(first), type(second)), key=lambda kind: kind.__name__) == [Overloaded, bytes]
    assert decoder.held == 0


def test_a_client_that_goes_away_frees_its_share() -> None:
    decoder = RequestDecoder(100 * MIB, 100 * MIB)

    async def run() -> None:
        pending = decoder.decode("br", brotli.compress(random.Random(6).randbytes(8 * MIB), quality=1))
        assert not isinstance(pending, bytes)
        task = asyncio.ensure_future(pending)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert decoder.held > 0
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert decoder.held == 0

    asyncio.run(run())


def test_the_largest_body_gives_way_to_the_one_that_comes_last() -> None:
    async def run() -> None:
        decoder = RequestDecoder(64 * MIB, 3 * MIB)
        large, small = (gzip.compress(random.Random(1).randbytes(size), 1) for size in (8 * MIB, MIB))
        first = decoder.decode("gzip", large)
        assert not isinstance(first, bytes)
        task = asyncio.ensure_future(first)
        for _ in range(1 + 5 * MIB // (2 * SLICE)):
            await asyncio.sleep(0)
        assert 0 < decoder.held < 3 * MIB
        last = decoder.decode("gzip", small)
        assert not isinstance(last, bytes)
        assert len(await last) == MIB
        with pytest.raises(Overloaded):
            await task
        assert decoder.held == 0

    asyncio.run(run())
