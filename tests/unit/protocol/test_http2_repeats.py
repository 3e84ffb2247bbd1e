"""Blocks that differ in their path alone: which of them are expected (what they mean is a matter of `tests/property/test_http2.py`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import hpack
import pytest
from h2.exceptions import ProtocolError

from svc.protocol.http2_fields import FieldDecoder
from svc.protocol.http2_frames import FRAME_SIZE_MAX
from svc.protocol.http2_repeats import AROUND_MAX

AUTHORIZATION = ("authorization", "Basic " + "x" * 50)


class Pair:
    """A client's encoder, and our decoder. `taken_apart`: blocks that were."""

    def __init__(self, *, keeps_paths: bool) -> None:
        self.decoder, self.encoder = FieldDecoder(FRAME_SIZE_MAX), hpack.Encoder()
        self._type = hpack.HeaderTuple if keeps_paths else hpack.NeverIndexedHeaderTuple
        self.taken_apart = 0
        decode: Callable[[bytes], Any] = self.decoder._decode

        def counted(data: bytes) -> Any:
            self.taken_apart += 1
            return decode(data)

        self.decoder._decode = counted  # type: ignore[method-assign]

    def send(self, path: str, *more: tuple[str, str]) -> None:
        fields = [(":method", "GET"), (":scheme", "http"), (":authority", "a"), self._type(":path", path), ("accept", "*/*"), *more]
        found, others = self.decoder.decode_request(self.encoder.encode(fields))
        assert (found, len(others)) == (path.encode(), 4 + len(more))
        assert self.decoder.request().pairs == [(name.encode(), value.encode()) for name, value in fields]


@pytest.mark.parametrize("keeps_paths", [False, True])
def test_the_third_is_expected(keeps_paths: bool) -> None:
    """The first puts its fields into the table."""
    pair = Pair(keeps_paths=keeps_paths)
    for number in range(40):
        pair.send(f"/Product/{number * 7919 % 1000}")
    assert pair.taken_apart == 2


def test_fields_that_are_in_no_table() -> None:
    pair = Pair(keeps_paths=False)
    secret = hpack.NeverIndexedHeaderTuple(*AUTHORIZATION)
    for number in range(10):
        pair.send(f"/Product/{number}", secret)  # type: ignore[arg-type]
    assert pair.taken_apart == 2
    pair.send("/Product/1", hpack.NeverIndexedHeaderTuple("authorization", "another"))  # type: ignore[arg-type]
    assert pair.taken_apart == 3


def test_paths_that_push_the_others_out() -> None:
    """The client sends each field anew once it has left the table."""
    pair = Pair(keeps_paths=True)
    for number in range(500):
        pair.send(f"/Product/{number}" + "y" * (number % 60), AUTHORIZATION)
    assert 2 < pair.taken_apart < 100


def test_longer_paths_and_blocks_are_taken_apart() -> None:
    pair = Pair(keeps_paths=False)
    for number in range(4):
        pair.send("/" + f"{number}" * 300)
    assert pair.taken_apart == 4
    for _ in range(4):
        pair.send(f"/{pair.taken_apart}", hpack.NeverIndexedHeaderTuple("x", "~" * AROUND_MAX))  # type: ignore[arg-type]
    assert pair.taken_apart == 8


def test_a_block_that_repeats_is_found_by_its_bytes() -> None:
    pair = Pair(keeps_paths=False)
    for _ in range(5):
        pair.send("/Product/1")
    assert pair.taken_apart == 2


SMALL = b"\x3f\x31"  # a table of 80 bytes: for the field, or a path, and another path
FIELD = b"\x40\x02:x\x01b"  # into the table


@pytest.mark.parametrize(
    ("first", "blocks"),
    [(FIELD, [b"\x44\x02/1\xbf", b"\x44\x02/2\xc0"]), (FIELD, [b"\xbe\x44\x02/1", b"\xbf\x44\x02/2", b"\xc0\x44\x02/3"])],
)
def test_a_path_that_pushes_out_what_the_block_refers_to(first: bytes, blocks: list[bytes]) -> None:
    """Behind the path at once, before it in the next block."""
    decoder = FieldDecoder(FRAME_SIZE_MAX)
    decoder.decode(SMALL + first)
    for block in blocks[:-1]:
        decoder.decode_request(block)
    with pytest.raises(ProtocolError):
        decoder.decode_request(blocks[-1])


@pytest.mark.parametrize(("before", "behind"), [(b"", b"\xbe"), (b"\xbe", b"")])
def test_an_index_of_two_bytes(before: bytes, behind: bytes) -> None:
    """The last that fits into one is 0xFE; 0xFF begins a longer one, which does not end here."""
    decoder = FieldDecoder(FRAME_SIZE_MAX)
    decoder.decode(FIELD)
    for index in range(0xBE if before else 0xBF, 0xFF):
        decoder.decode_request(before.replace(b"\xbe", bytes((index,))) + b"\x44\x01/" + behind.replace(b"\xbe", bytes((index,))))
    with pytest.raises(ProtocolError):
        decoder.decode_request(before.replace(b"\xbe", b"\xff") + b"\x44\x01/" + behind.replace(b"\xbe", b"\xff"))


def test_a_block_that_changes_the_table() -> None:
    """It changes it each time."""
    decoder, theirs = FieldDecoder(FRAME_SIZE_MAX), hpack.Decoder()
    for number in range(4):
        data = b"\x82\x04\x02/%d\x40\x01a\x01b" % number
        decoder.decode_request(data)
        theirs.decode(data)
        assert decoder.header_table.dynamic_entries == theirs.header_table.dynamic_entries
