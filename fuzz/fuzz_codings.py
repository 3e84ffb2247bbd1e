"""Content codings of request bodies: any bytes in any chain of codings are decoded or refused, in steps of bounded output.

Invariant, for any bytes (an input is the numbers of the codings, a zero, and the body):

1. Decoding returns bytes or raises a Problem with status 400, 413 or 415. Nothing else.
2. No more than the limit is returned, and no step gives more than MOST_PER_STEP bytes.
3. What the whole decoder of each library returns, for data that it takes to the last byte, is what we return.
4. Decoded or refused is the same with a larger limit, but for 413.
"""

from __future__ import annotations

import gzip
import random
import sys
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import brotli
import zstandard

from fuzz.runner import mutate, run
from svc.errors import Problem
from svc.http import decoding

CORPUS = Path(__file__).parent / "corpus" / "codings"
LIMIT = 1 << 20
MOST_PER_STEP = 5 << 20
NAMES = ("gzip", "deflate", "br", "zstd", "identity")

TOKENS = (
    gzip.compress(b"", mtime=0), gzip.compress(b"a", mtime=0), zlib.compress(b""), zlib.compress(b"a"), brotli.compress(b""), brotli.compress(b"a"),
    zstandard.compress(b""), zstandard.compress(b"a"), b"\x1f\x8b\x08", b"\x28\xb5\x2f\xfd", b"\x50\x2a\x4d\x18\x04\0\0\0skip",
    b"\x02\0\x10x", b"\x03\0\x10x", b"\x78\x9c", b"\x01\0\0\xff\xff", b"\0\0\0\xff\xff", b"\xff\xff\xff\xff", b"\0\0\0\0",
)  # fmt: skip


def _raw_deflate(body: bytes) -> bytes:
    stream = zlib.compressobj(9, zlib.DEFLATED, -15)
    return stream.compress(body) + stream.flush()


def _frame(body: bytes) -> bytes:
    stream = zstandard.ZstdCompressor(write_checksum=True).compressobj()
    return stream.compress(body) + stream.flush()


ENCODERS: dict[str, Sequence[Callable[[bytes], bytes]]] = {
    "gzip": (
        lambda body: gzip.compress(body, mtime=0),
        lambda body: gzip.compress(body[:5], mtime=0) + gzip.compress(body[5:], 0, mtime=0),
    ),
    "deflate": (zlib.compress, _raw_deflate),
    "br": (lambda body: brotli.compress(body, quality=1), lambda body: brotli.compress(body, quality=5, lgwin=10)),
    "zstd": (zstandard.compress, _frame, lambda body: _frame(body[:5]) + zstandard.compress(body[5:])),
    "identity": (lambda body: body,),
}


def reference(name: str, body: bytes) -> bytes | None:
    """What the library makes of the whole body at once; None if it has something against it, or we cannot tell."""
    try:
        match name:
            case "gzip":
                return gzip.decompress(body)
            case "br":
                return brotli.decompress(body)
            case "deflate":
                for bits in (15, -15):
                    stream = zlib.decompressobj(bits)
                    try:
                        decoded = stream.decompress(body, 4 * LIMIT)
                    except zlib.error:
                        continue
                    return decoded if stream.eof and not stream.unused_data else None
                return None
            case "zstd":
                stream = zstandard.ZstdDecompressor(max_window_size=decoding.MAX_WINDOW).decompressobj()
                decoded = stream.decompress(body)
                return decoded if stream.eof and not stream.unused_data else None
            case _:
                return body
    except (OSError, EOFError, zlib.error, brotli.error, zstandard.ZstdError):
        return None


def decode(header: str, body: bytes, limit: int) -> bytes | int:
    """The body, or the status of the refusal."""
    try:
        work = decoding._BodyDecoding(header, body, limit)
        for step in work._steps:
            assert step <= MOST_PER_STEP, f"a step of {step} bytes"
    except Problem as problem:
        assert problem.status_code in (400, 413, 415), problem
        assert problem.message
        return problem.status_code
    assert len(work.result) <= limit
    return work.result


def check(data: bytes) -> None:
    """The whole invariant."""
    chain, _, body = data.partition(b"\0")
    names = [NAMES[number % len(NAMES)] for number in chain[:5]]
    header = ", ".join(names)
    decoded = decode(header, body, LIMIT)
    small = decode(header, body, 1000)
    assert small == decoded or small == 413
    if len(names) == 1 and body and decoded != 413:
        expected = reference(names[0], body)
        # gzip's own reader skips zeros behind the last member.
        assert expected is None or decoded == expected or (names[0] == "gzip" and body.endswith(b"\0") and decoded == 400), (
            names,
            expected,
            decoded,
        )


def generate(source: random.Random, corpus: Sequence[bytes]) -> bytes:
    if corpus and source.random() < 0.2:
        return mutate(source, source.choice(corpus), TOKENS)
    numbers = [source.randrange(1, 1 + len(NAMES)) for _ in range(source.choice((1, 1, 1, 1, 2, 3, 5)))]
    unit = source.randbytes(source.randrange(40))
    body = unit * source.choice((1, 1, 20, 3000)) + source.randbytes(source.choice((0, 0, 5, 400)))
    for number in numbers:
        body = source.choice(ENCODERS[NAMES[number % len(NAMES)]])(body)
    if source.random() < 0.7:
        body = mutate(source, body, TOKENS)
    return bytes(numbers) + b"\0" + body


if __name__ == "__main__":
    sys.exit(run("codings", generate, check, CORPUS))
