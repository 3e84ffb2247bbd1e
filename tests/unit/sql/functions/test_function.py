"""What functions make of their arguments: text, numbers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from svc.sql.functions.function import Function, number_of, text_of


@pytest.mark.parametrize(
    ("value", "expected"),
    [("a", "a"), (1, "1"), (-(2**63), "-9223372036854775808"), (1.0, "1"), (-0.0, "0"), (1.5, "1.5"), (1e16, "1e+16"), (2.0**53, "9007199254740992"),
     (float("inf"), "inf"), (b"\xc3\xa4", "ä"), (b"\xff", "�")],
)  # fmt: skip
def test_text(value: object, expected: str) -> None:
    assert text_of(value) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [(1, 1), (1.5, 1.5), ("1", 1), (" -1.5e3 ", -1500.0), ("1e999", None), ("inf", None), ("nan", None), ("", None), ("1_000", None), ("0x10", None),
     ("x", None),     ("9" * 300, int("9" * 300)), ("9" * 401, None), (None, None), (b"1", None), (float("inf"), None), (float("nan"), None)],
)  # fmt: skip
def test_numbers(value: object, expected: object) -> None:
    assert number_of(value) == expected


@given(st.text() | st.integers() | st.floats() | st.binary() | st.none())
def test_any_value_is_a_number_or_none(value: object) -> None:
    found = number_of(value)
    assert found is None or found - found == 0


def test_min_and_max_are_aggregates_of_one_argument() -> None:
    function = Function("MIN", 1, None, "aggregate")
    assert function.is_aggregate(1) and not function.is_aggregate(2)
    assert Function("GROUP_CONCAT", 1, 2, "aggregate").is_aggregate(2)
    assert not Function("ABS", 1, 1).is_aggregate(1)
