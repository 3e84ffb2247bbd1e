"""Ranges of requests."""

from __future__ import annotations

import pytest

from svc.static.ranges import RANGES_MAX, MultipartRanges, parse_ranges


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("bytes=0-0", [(0, 1)]),
        ("BYTES = 0-0", [(0, 1)]),
        ("bytes=0-", [(0, 1000)]),
        ("bytes=-1", [(999, 1000)]),
        ("bytes=-2000", [(0, 1000)]),
        ("bytes=999-", [(999, 1000)]),
        ("bytes=0-1 , 500-501", [(0, 2), (500, 502)]),
        ("bytes=500-501,0-1", [(0, 2), (500, 502)]),
        ("bytes=,0-1,,", [(0, 2)]),
        ("bytes=0-1,2000-", [(0, 2)]),
        ("bytes=1000-", []),
        ("bytes=-0", []),
        ("bytes=-0,5000-6000", []),
        ("bytes=", None),
        ("bytes=-", None),
        ("bytes=,", None),
        ("bytes", None),
        ("0-1", None),
        ("lines=0-1", None),
        ("bytes=2-1", None),
        ("bytes=0-1,2-1", None),
        ("bytes=a-b", None),
        ("bytes=0 - 1", None),
        ("bytes=0x1-2", None),
        ("bytes=²-3", None),
        ("bytes=0-" + "9" * 30, None),
        ("bytes=+1-2", None),
        ("bytes=" + "0-0," * RANGES_MAX, [(0, 1)]),
        ("bytes=" + "0-0," * (RANGES_MAX + 1), None),
    ],
)
def test_parsed(text: str, found: object) -> None:
    assert parse_ranges(text, 1000) == found


def test_of_nothing_no_range_can_be_satisfied() -> None:
    assert parse_ranges("bytes=0-", 0) == parse_ranges("bytes=-5", 0) == []


def test_parts_have_the_length_that_is_announced() -> None:
    content = bytes(range(256))
    closed = []
    parts = MultipartRanges(
        [(0, 2), (150, 256)], 256, "text/plain", lambda start, end: iter([content[start:end]]), lambda: closed.append(1)
    )
    body = b"".join(parts)
    assert len(body) == parts.length
    assert closed == [1]
    boundary = parts.content_type.partition("boundary=")[2].encode()
    first, second, end = body.split(b"\r\n--" + boundary)[1:]
    assert first == b"\r\nContent-Type: text/plain\r\nContent-Range: bytes 0-1/256\r\n\r\n" + content[:2]
    assert second == b"\r\nContent-Type: text/plain\r\nContent-Range: bytes 150-255/256\r\n\r\n" + content[150:]
    assert end == b"--\r\n"
