"""The invariant of `fuzz/fuzz_http1.py`, for bytes that Hypothesis makes up and shrinks."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fuzz.fuzz_http1 import CORPUS, TOKENS, check_cut

LINES = (
    "GET / HTTP/1.1\r\n",
    "PUT /a HTTP/1.1\r\n",
    "POST http://b/c HTTP/1.1\r\n",
    "HEAD / HTTP/1.0\r\n",
    "OPTIONS * HTTP/1.1\r\n",
    "GET /\n",
)

cuts = st.lists(st.integers(0, 4000), max_size=8)
fields = st.lists(st.sampled_from([t for t in TOKENS if t.endswith(b"\r\n") and b":" in t]), max_size=4).map(b"".join)
bodies = st.lists(st.one_of(st.sampled_from(TOKENS), st.binary(max_size=20)), max_size=4).map(b"".join)
requests = st.builds(
    lambda line, more, host, end, body: line.encode() + (b"Host: a\r\n" if host else b"") + more + end + body,
    st.sampled_from(LINES),
    fields,
    st.integers(0, 9).map(bool),
    st.sampled_from((b"\r\n", b"\r\n", b"\r\n", b"\n", b"")),
    st.one_of(st.just(b""), bodies),
)


@given(st.lists(requests, min_size=1, max_size=3).map(b"".join), cuts)
@example(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: raw\r\n\r\nrest", [60, 61])
@example(b"\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", [2])
def test_requests(data: bytes, cuts: list[int]) -> None:
    check_cut(data, cuts)


@given(st.binary(max_size=200), cuts)
@example(b"\r", [])
@example(b"\r\n\r\n", [1, 2, 3])
def test_any_bytes(data: bytes, cuts: list[int]) -> None:
    check_cut(data, cuts)


@pytest.mark.parametrize("path", sorted(CORPUS.iterdir()), ids=lambda path: path.name)
def test_corpus(path: Path) -> None:
    data = path.read_bytes()
    check_cut(data, [])
    check_cut(data, range(len(data)))
    check_cut(data + b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", [len(data) - 1, len(data) + 3])
