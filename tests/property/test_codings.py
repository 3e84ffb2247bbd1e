"""Content codings: what is compressed is read again, however cut; any bytes in any coding give bytes or a Problem."""

from __future__ import annotations

import asyncio
import gzip
import zlib
from collections.abc import AsyncIterator, Callable

import brotli
import zstandard
from hypothesis import example, given
from hypothesis import strategies as st

from svc.errors import Problem
from svc.http.compression import Compression, choose_coding
from svc.http.decoding import RequestDecoder
from svc.http.encoders import BLOCK, BR, GZIP, ZSTD, AsyncCompressedBody, Coding, CompressedBody
from svc.messages import HeaderBlock, Request, Response
from tests.support.codings import decode_coding

LIMIT = 1 << 24
codings = st.sampled_from([BR, GZIP, ZSTD])
# Pieces up to some blocks long, made of few bytes so that they are found quickly.
pieces = st.lists(
    st.one_of(
        st.binary(max_size=200),
        st.builds(lambda unit, count: unit * count, st.binary(max_size=40), st.sampled_from([1, 30, 4000, BLOCK // 20])),
    ),
    max_size=12,
)
encoders: dict[str, Callable[[bytes], bytes]] = {
    "gzip": lambda body: gzip.compress(body, mtime=0),
    "deflate": zlib.compress,
    "br": lambda body: brotli.compress(body, quality=5),
    "zstd": zstandard.compress,
}
names = st.sampled_from(sorted(encoders))


@given(pieces, codings)
def test_streams(given_pieces: list[bytes], coding: Coding) -> None:
    coded = b"".join(CompressedBody(iter(given_pieces), coding))
    assert decode_coding(coding.name, coded, LIMIT) == b"".join(given_pieces)


@given(pieces, codings, st.lists(st.booleans(), min_size=12, max_size=12))
def test_asynchronous_streams(given_pieces: list[bytes], coding: Coding, waits: list[bool]) -> None:
    async def rows() -> AsyncIterator[bytes]:
        for piece, wait in zip(given_pieces, waits, strict=False):
            if wait:
                await asyncio.sleep(0)
            yield piece

    async def read() -> bytes:
        return b"".join([piece async for piece in AsyncCompressedBody(rows(), coding)])

    assert decode_coding(coding.name, asyncio.run(read()), LIMIT) == b"".join(given_pieces)


@given(st.binary(max_size=3000), codings, st.integers(0, 3000))
def test_answers(body: bytes, coding: Coding, threshold: int) -> None:
    request = Request("GET", "/", HeaderBlock([("accept-encoding", coding.name)]))
    response = Compression(threshold).apply(request, Response(body, pairs=[("Content-Type", "application/json")]))
    assert isinstance(response.body, bytes)
    assert len(response.body) <= len(body)
    assert decode_coding(response.headers.get("Content-Encoding", ""), response.body, LIMIT) == body  # type: ignore[arg-type]


@given(st.text(alphabet="gzipbrstdenty*;q=01. ,x-", max_size=60))
def test_any_accept_encoding_gives_a_choice(text: str) -> None:
    choice = choose_coding(text)
    assert choice.coding in (None, BR, GZIP, ZSTD)


@given(st.lists(names, max_size=4), st.binary(max_size=2000))
def test_codings_in_a_row(chain: list[str], body: bytes) -> None:
    coded = body
    for name in chain:
        coded = encoders[name](coded)
    assert decode_coding(", ".join(chain), coded, LIMIT) == body or not body


def decodes_or_fails(header: str, body: bytes, limit: int) -> None:
    try:
        decoded = decode_coding(header, body, limit)
    except Problem as problem:
        assert problem.status_code in (400, 413, 415)
    else:
        assert len(decoded) <= limit
        assert RequestDecoder(limit, limit).decode(header, body) == decoded


@given(st.lists(names, max_size=3), st.binary(max_size=300), st.sampled_from([0, 1, 100, 10_000]))
@example(["zstd"], b"\x28\xb5\x2f\xfd\x00\x58" + b"\x03\x00\x10x" * 20, 10_000)
@example(["deflate"], b"x", 100)
def test_any_bytes_give_bytes_or_a_problem(chain: list[str], body: bytes, limit: int) -> None:
    decodes_or_fails(",".join(chain), body, limit)


@given(names, st.binary(max_size=400), st.integers(0, 2**16), st.integers(0, 255), st.sampled_from([0, 300, 10_000]))
def test_damaged_bodies_give_bytes_or_a_problem(name: str, body: bytes, place: int, value: int, limit: int) -> None:
    coded = bytearray(encoders[name](body))
    coded[place % len(coded)] = value
    decodes_or_fails(name, bytes(coded), limit)


@given(st.text(max_size=40))
def test_any_content_encoding_is_understood_or_refused(header: str) -> None:
    decodes_or_fails(header, b"{}", 100)
