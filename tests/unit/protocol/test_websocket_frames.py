"""Frames as bytes: what we write, and how masks come off."""

from __future__ import annotations

import random

import pytest

from svc.protocol.websocket_frames import cut, encode_close, encode_control, encode_frame, maybe_read_head, unmask
from tests.support.websocket_frames import binary, frame, parse, text


@pytest.mark.parametrize("size", [0, 1, 125, 126, 127, 65535, 65536, 200_000])
def test_messages_are_framed(size: int) -> None:
    assert parse(encode_frame("x" * size)) == [(0x81, b"x" * size)]
    assert parse(encode_frame(b"x" * size)) == [(0x82, b"x" * size)]


def test_the_length_of_a_text_is_that_of_its_bytes() -> None:
    for message in ("é" * 62, "é" * 63, "€" * 21845, "€" * 21846, "😀"):
        assert parse(encode_frame(message)) == [(0x81, message.encode())]


def test_a_text_may_be_of_a_class_of_its_own() -> None:
    class Named(str):
        pass

    assert parse(encode_frame(Named("a"))) == [(0x81, b"a")]


def test_half_characters_are_no_text() -> None:
    with pytest.raises(UnicodeEncodeError):
        encode_frame("\ud800")


@pytest.mark.parametrize("size", [0, 1, 2, 3, 4, 5, 7, 8, 125, 1023, 1024, 1025, 1026, 1027, 1028, 70_001])
@pytest.mark.parametrize("key", [b"\0\0\0\0", b"\1\2\3\4", b"\xff\xff\xff\xff"])
def test_masks_come_off(size: int, key: bytes) -> None:
    payload = random.Random(size).randbytes(size)
    masked = bytes(byte ^ key[place % 4] for place, byte in enumerate(payload))
    assert unmask(masked, key) == payload


@pytest.mark.parametrize(("form", "size"), [(0, 125), (2, 126), (2, 3), (8, 65536), (8, 4)])
@pytest.mark.parametrize("key", [None, b"abcd"])
def test_a_header_tells_where_its_frame_ends(form: int, size: int, key: bytes | None) -> None:
    sent = b"??" + frame(2, b"x" * size, form=form, key=key)
    assert maybe_read_head(sent, 2) == (len(sent) - size - 2, size)
    for here in range(2, len(sent) - size):
        assert maybe_read_head(sent[:here], 2) is None


def test_a_control_frame_is_short() -> None:
    assert parse(encode_control(9, b"x" * 125)) == [(0x89, b"x" * 125)]
    with pytest.raises(ValueError, match="126 bytes"):
        encode_control(9, b"x" * 126)


@pytest.mark.parametrize(
    "reason", ["", "x" * 123, "x" * 124, "é" * 62, "x" + "é" * 62, "€" * 42, "😀" * 31, "\ud800" * 130, "x" * 122 + "\ud800"]
)
def test_a_reason_is_cut_between_characters(reason: str) -> None:
    said = cut(reason)
    assert len(said) <= 123
    whole = reason.encode(errors="replace")
    assert whole.startswith(said) and said.decode() is not None
    assert len(whole) <= 123 or len(said) > 119
    assert len(encode_close(4000, reason)) <= 127


def test_our_frames_are_what_clients_are_tested_with() -> None:
    """The helper of the tests masks, as the RFC shows (§5.7)."""
    assert text("Hello") == bytes.fromhex("81 85 37 fa 21 3d 7f 9f 4d 51 58")
    assert binary(b"x" * 256)[:4] == bytes.fromhex("82 fe 01 00")
    assert binary(b"x" * 65536)[:10] == bytes.fromhex("82 ff 00 00 00 00 00 01 00 00")
