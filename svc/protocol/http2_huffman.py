"""Huffman-coded texts of HPACK, decoded byte by byte (RFC 7541, appendix B).

hpack's table has a step for each of its states and half a byte; two of them in a row are one step here, made when a text takes it for the first time. So both
decode the same, this one in a third of the time, and nothing of the code is written down again.
"""

from __future__ import annotations

from typing import Any

from hpack.exceptions import HPACKDecodingError
from hpack.huffman_table import HUFFMAN_COMPLETE, HUFFMAN_EMIT_SYMBOL, HUFFMAN_FAIL, HUFFMAN_TABLE

STEPS_MAX = 16_384  # that are kept: 2 MB. There are four times as many, and texts of ASCII take a few thousand

_NUMBER = -1  # key of a state: its number in hpack's table
State = dict[int, Any]
"""By the next byte: the state after it, and the text that it completes. (Plain dicts, which the interpreter looks into fastest.)"""

_STATES: list[State] = [{_NUMBER: number} for number in range(len(HUFFMAN_TABLE) // 16)]
_FINAL = frozenset(number for number, flags, _ in HUFFMAN_TABLE if flags & HUFFMAN_COMPLETE)  # a text may end there
_kept = 0  # steps, of all states


def decode_huffman(coded: bytes) -> bytes:
    """The text. Raises HPACKDecodingError.

    >>> decode_huffman(bytes.fromhex("f1e3c2e5f23a6ba0ab90f4ff"))
    b'www.example.com'
    """
    text = ""
    state = _STATES[0]
    for byte in coded:
        try:
            state, piece = state[byte]
        except KeyError:
            state, piece = _step(state, byte)
        text += piece
    if state[_NUMBER] not in _FINAL:
        raise HPACKDecodingError("Incomplete Huffman string")
    return text.encode("latin-1")


def _step(state: State, byte: int) -> tuple[State, str]:
    global _kept
    number, text = state[_NUMBER], ""
    for half in (byte >> 4, byte & 0x0F):
        number, flags, symbol = HUFFMAN_TABLE[number * 16 + half]
        if flags & HUFFMAN_FAIL:
            raise HPACKDecodingError("Invalid Huffman string")
        if flags & HUFFMAN_EMIT_SYMBOL:
            text += chr(symbol)
    step = _STATES[number], text
    if _kept < STEPS_MAX:
        _kept += 1
        state[byte] = step
    return step
