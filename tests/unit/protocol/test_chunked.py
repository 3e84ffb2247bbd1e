"""Chunks on their way out; their way in is in `test_http1` and its fuzz target."""

from __future__ import annotations

from svc.protocol import chunked
from svc.protocol.chunked import KEPT_MAX, ChunkedReader, encode_chunk


def test_receivers_of_one_event_share_its_chunk() -> None:
    first, second = b"x" * 300, b"y" * 300
    chunk = encode_chunk(first)
    assert encode_chunk(first) is chunk
    assert encode_chunk(second) == b"12c\r\n%b\r\n" % second
    assert encode_chunk(first) == chunk == b"12c\r\n%b\r\n" % first


def test_a_large_chunk_is_not_kept() -> None:
    large = b"x" * (KEPT_MAX + 1)
    assert encode_chunk(large) == encode_chunk(large)
    assert chunked._last == (b"", b"")


def test_a_buffer_that_changes_is_encoded_again() -> None:
    """An application may fill one bytearray for each piece of its body."""
    buffer = bytearray(b"abc")
    assert encode_chunk(buffer) == b"3\r\nabc\r\n"
    buffer[:] = b"xyz"
    assert encode_chunk(buffer) == b"3\r\nxyz\r\n"


def test_what_is_encoded_can_be_read() -> None:
    for data in (b"x", b"\r\n", b"0\r\n\r\n", bytes(5000)):
        buffer = bytearray(encode_chunk(data) + b"0\r\n\r\n")
        reader = ChunkedReader(10_000)
        assert reader.read(buffer) == data
        assert reader.trailer_section == b"\r\n"
