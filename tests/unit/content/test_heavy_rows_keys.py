"""Objects with keys that are no text are the same in pieces and as a whole (spec: http §7)."""

from __future__ import annotations

from svc.content.cbor_type import CborType
from svc.content.heavy_rows import PIECE_ROWS, row_pieces


def test_an_object_with_other_keys_keeps_its_tag() -> None:
    row = {"a": {1: "x", 2: "y"}}
    style = CborType.style
    assert style is not None
    assert b"".join(row_pieces(row, lambda value: PIECE_ROWS + 1 if type(value) is dict else 1, style)) == style.encode(row)
