"""Which formats are read. Databases of earlier ones: tests/integration/test_formats.py."""

from __future__ import annotations

import pytest

from svc.store.store_format import OLDEST, REPLICATED_FORMAT, encode_format, format_problem


@pytest.mark.parametrize("number", range(OLDEST, REPLICATED_FORMAT + 1))
def test_known(number: int) -> None:
    assert format_problem(encode_format(number)) is None


@pytest.mark.parametrize("found", [None, b"", b"-1", b"0", b"1 ", b"\xff", encode_format(REPLICATED_FORMAT + 1)])
def test_unknown(found: bytes | None) -> None:
    assert "and this version of svc reads 1 to 3" in str(format_problem(found))
