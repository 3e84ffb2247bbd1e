"""Steps of hpack's table, two at a time: bounded, and the same when none is kept (`tests/property/test_http2.py` has the texts)."""

from __future__ import annotations

import random

import pytest
from hpack.exceptions import HPACKDecodingError
from hpack.huffman_table import decode_huffman as hpack_decode

from svc.protocol import http2_huffman
from svc.protocol.http2_huffman import STEPS_MAX, decode_huffman


def told(decode: object, coded: bytes) -> object:
    try:
        return decode(coded)  # type: ignore[operator]
    except HPACKDecodingError as error:
        return str(error)


def steps() -> int:
    return sum([len(state) - 1 for state in http2_huffman._STATES])


@pytest.mark.parametrize("most", [0, 50])
def test_steps_are_bounded(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    monkeypatch.setattr(http2_huffman, "STEPS_MAX", http2_huffman._kept + most)
    before = steps()
    source = random.Random(1)
    for _ in range(300):
        coded = source.randbytes(30)
        assert told(decode_huffman, coded) == told(hpack_decode, coded)
    assert steps() == http2_huffman._kept <= STEPS_MAX and steps() - before <= most
