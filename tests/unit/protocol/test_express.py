"""The express lane: what it takes, and that it declines everything else."""

from __future__ import annotations

import pytest

from svc.protocol.express import BLOCK_MAX, METHODS, BlockCache, parse_block, recognise

PLAIN = b"GET /Product/42?a=1 HTTP/1.1\r\nHost: localhost:9926\r\nAccept: application/json\r\n\r\n"


def found(head: bytes, blocks: BlockCache | None = None) -> tuple[object, ...] | None:
    result = recognise(head, head.find(b"\r\n\r\n") + 4, blocks or BlockCache())
    if result is None:
        return None
    method, target, parsed = result
    return method, target, parsed.block.pairs, parsed.content_length, parsed.keep_alive


def test_recognises_a_plain_request() -> None:
    assert found(PLAIN) == ("GET", "/Product/42?a=1", [("host", "localhost:9926"), ("accept", "application/json")], 0, True)


@pytest.mark.parametrize("method", sorted(METHODS))
def test_knows_the_methods(method: str) -> None:
    assert found(PLAIN.replace(b"GET", method.encode())) is not None


def test_what_follows_the_head_is_not_looked_at() -> None:
    assert recognise(PLAIN + b"\0\r\nanything", len(PLAIN), BlockCache()) is not None


@pytest.mark.parametrize(
    ("fields", "pairs", "length", "keep_alive"),
    [
        (b"HOST:\t a \t\r\n", [("host", "a")], 0, True),
        (b"Host:\r\n", [("host", "")], 0, True),
        (b"Host: [::1]:80\r\n", [("host", "[::1]:80")], 0, True),
        (b"Host: a\r\nX: b c\td\r\nx:\r\n", [("host", "a"), ("x", "b c\td"), ("x", "")], 0, True),
        (b"Host: a\r\nContent-Length: 0012\r\n", [("host", "a"), ("content-length", "0012")], 12, True),
        (b"Host: a\r\nConnection: Close\r\n", [("host", "a"), ("connection", "Close")], 0, False),
        (b"Host: a\r\nConnection: keep-alive\r\n", [("host", "a"), ("connection", "keep-alive")], 0, True),
    ],
)
def test_plain_blocks(fields: bytes, pairs: list[tuple[str, str]], length: int, keep_alive: bool) -> None:
    assert found(b"PUT / HTTP/1.1\r\n" + fields + b"\r\n") == ("PUT", "/", pairs, length, keep_alive)


@pytest.mark.parametrize(
    "line",
    [
        b"", b"GET", b"GET /", b"GET / HTTP/1.1 ", b" GET / HTTP/1.1", b"GET  / HTTP/1.1", b"GET /  HTTP/1.1", b"GET\t/ HTTP/1.1", b"GET /a b HTTP/1.1",
        b"GET / HTTP/1.0", b"GET / HTTP/1.2", b"GET / HTTP/2.0", b"GET / http/1.1", b"GET / HTTP/1.1\r", b"GET / HTTP/1.1\n", b"GET /\n HTTP/1.1",
        b"get / HTTP/1.1", b"TRACE / HTTP/1.1", b"CONNECT a:1 HTTP/1.1", b"OPTIONS * HTTP/1.1", b"GET http://a/ HTTP/1.1", b"GET a HTTP/1.1",
        b"GET  HTTP/1.1", b"GET /\xe9 HTTP/1.1", b"GET /\x01 HTTP/1.1", b"GET /\x7f HTTP/1.1", b"GET /\0 HTTP/1.1", b"G\xcbT / HTTP/1.1",
        b"GET /\x85 HTTP/1.1", b"GET /\xa0 HTTP/1.1",
    ],
)  # fmt: skip
def test_declines_odd_request_lines(line: bytes) -> None:
    assert found(line + b"\r\nHost: a\r\n\r\n") is None


@pytest.mark.parametrize(
    "fields",
    [
        b"", b"X: y\r\n", b"Host: a\r\nHost: a\r\n", b"Host: a, b\r\n", b"Host: a/b\r\n", b"Host: a b\r\n", b"Host: u@a\r\n", b"Host : a\r\n",
        b"Host: a\r\n: x\r\n", b"Host: a\r\nX\r\n", b"Host: a\r\nX y: z\r\n", b"Host: a\r\n folded\r\n", b"Host: a\r\n\tfolded\r\n", b" Host: a\r\n",
        b"Host: a\nX: y\r\n", b"Host: a\rX: y\r\n", b"Host: a\r\r\n", b"Host: a\r\nX: \0\r\n", b"Host: a\r\nX: \x01\r\n", b"Host: a\r\nX: \x0b\r\n",
        b"Host: a\r\nX: \x7f\r\n", b"Host: a\r\nX: \xe9\r\n", b"Host: a\r\nX\xe9: y\r\n", b"Host: a\r\nX[]: y\r\n",
        b"Host: a\r\nTransfer-Encoding: chunked\r\n", b"Host: a\r\ntransfer-encoding:\r\n", b"Host: a\r\nExpect: 100-continue\r\n",
        b"Host: a\r\nUpgrade: websocket\r\n", b"Host: a\r\nConnection: upgrade\r\n", b"Host: a\r\nConnection: close, x\r\n", b"Host: a\r\nConnection:\r\n",
        b"Host: a\r\nConnection: close\r\nConnection: close\r\n", b"Host: a\r\nContent-Length: 1\r\nContent-Length: 1\r\n",
        b"Host: a\r\nContent-Length: 1, 1\r\n", b"Host: a\r\nContent-Length: +1\r\n", b"Host: a\r\nContent-Length: -1\r\n",
        b"Host: a\r\nContent-Length: 0x1\r\n", b"Host: a\r\nContent-Length: 1_0\r\n", b"Host: a\r\nContent-Length:\r\n", b"Host: a\r\nContent-Length: 1 1\r\n",
        b"Host: a\r\nContent-Length: \xb2\r\n", b"Host: a\r\nContent-Length: 1234567890123456\r\n",
    ],
)  # fmt: skip
def test_declines_odd_blocks(fields: bytes) -> None:
    blocks = BlockCache()
    assert found(b"PUT / HTTP/1.1\r\n" + fields + b"\r\n", blocks) is None
    assert len(blocks) == 0


def test_a_block_is_whole_lines() -> None:
    assert parse_block(b"Host: a\r\nX: y") is None


def test_a_repeated_block_is_found_again() -> None:
    blocks = BlockCache()
    first = recognise(PLAIN, len(PLAIN), blocks)
    again = recognise(PLAIN.replace(b"GET", b"DELETE"), len(PLAIN) + 3, blocks)
    assert first is not None and again is not None
    assert first[2] is again[2]
    assert len(blocks) == 1


def block(number: int) -> bytes:
    return b"Host: a\r\nX: %d\r\n" % number


def test_a_block_in_use_survives_a_flood() -> None:
    blocks = BlockCache(max_entries=10)
    kept = blocks.find(block(0))
    for number in range(1, 1000):
        blocks.find(block(number))
        if number % 9 == 0:
            assert (blocks.young.get(block(0)) or blocks.find(block(0))) is kept
        assert len(blocks) <= 20


def test_a_block_not_in_use_is_forgotten() -> None:
    blocks = BlockCache(max_entries=10)
    first = blocks.find(block(0))
    for number in range(1, 30):
        blocks.find(block(number))
    assert blocks.find(block(0)) is not first


def test_memory_is_bounded_by_weight() -> None:
    blocks = BlockCache(max_entries=1000, max_weight=100_000)
    for number in range(1000):
        blocks.find(b"Host: a\r\n" + b"a:\r\n" * 200 + b"X: %d\r\n" % number)
    assert len(blocks) <= 4


def test_long_blocks_are_not_kept() -> None:
    blocks = BlockCache()
    assert blocks.find(b"Host: a\r\nX: " + b"y" * BLOCK_MAX + b"\r\n") is not None
    assert len(blocks) == 0
