"""Operators on values of all types."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from svc.clock import FakeClock
from svc.sql.functions.jsonata.operators import OPERATORS, as_number, order
from svc.sql.functions.jsonata.values import UNDEFINED, Fault, Work
from svc.sql.functions.meter import WorkMeter


def work() -> Work:
    return Work(WorkMeter(FakeClock()), 0)


@pytest.mark.parametrize(
    ("operator", "a", "b", "expected"),
    [
        ("+", 1, 2, 3), ("+", 2**70, 1, 2**70 + 1), ("+", 0.5, 0.5, 1), ("-", 1, 0.5, 0.5), ("*", 2**60, 2**60, 2**120), ("/", 6, 3, 2), ("/", 1, 4, 0.25),
        ("/", 2**70, 2, 2**69), ("%", -7, 3, -1), ("%", 7, -3, 1), ("%", 5.5, 2, 1.5), ("<", 1, 1.5, True), ("<", "a", "b", True), (">=", 2, 2, True),
        ("=", 1, 1.0, True), ("=", 1, True, False), ("=", 0, False, False), ("=", "1", 1, False), ("=", None, None, True), ("=", [1, [2]], [1, [2]], True),
        ("=", {"a": 1, "b": 2}, {"b": 2, "a": 1}, True), ("=", {"a": 1}, {"a": True}, False), ("=", [1], 1, False), ("!=", 1, 2, True), ("!=", 1, 1, False),
        ("in", 1, [1.0, 2], True), ("in", True, [1], False), ("in", "a", "a", True), ("in", [1], [[1]], False), ("in", 3, [], False), ("&", 1, True, "1true"),
        ("&", None, [1], "null[1]"), ("..", 1, 3, [1, 2, 3]), ("..", 2, 2, [2]),
    ],
)  # fmt: skip
def test_results(operator: str, a: Any, b: Any, expected: Any) -> None:
    found = OPERATORS[operator](a, b, work())
    assert found == expected and isinstance(found, bool) is isinstance(expected, bool)


@pytest.mark.parametrize("operator", sorted(OPERATORS))
@pytest.mark.parametrize("other", [1, UNDEFINED])
def test_what_is_undefined(operator: str, other: Any) -> None:
    expected = {"=": False, "!=": False, "in": False, "&": "" if other is UNDEFINED else "1"}.get(operator, UNDEFINED)
    for a, b in ((UNDEFINED, other), (other, UNDEFINED)):
        assert OPERATORS[operator](a, b, work()) == expected


@pytest.mark.parametrize(
    ("operator", "a", "b"),
    [
        ("+", 1, "a"), ("+", True, 1), ("+", UNDEFINED, "a"), ("-", "a", UNDEFINED), (">", None, UNDEFINED), ("..", UNDEFINED, "a"), ("-", None, 1),
        ("*", [1], 2), ("<", 1, "a"), ("<", True, False), ("<", None, 1), (">", [1], [2]), ("/", 1, 0),
        ("/", 0, 0),
        ("%", 1, 0), ("%", 1.5, 0), ("*", 1e200, 1e200), ("*", 2**900, 2**900), ("..", 1, 1.5), ("..", "a", 2), ("..", 0, 10**9), ("..", 0, 10**300),
        ("%", 10**300, 0.1e-300 * 0),
    ],
)  # fmt: skip
def test_faults(operator: str, a: Any, b: Any) -> None:
    with pytest.raises(Fault):
        OPERATORS[operator](a, b, work())


VALUES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5)
    | st.lists(st.integers(), max_size=3)
)


@given(st.sampled_from(sorted(OPERATORS)), VALUES, VALUES)
def test_any_values_give_a_value_or_a_fault(operator: str, a: Any, b: Any) -> None:
    try:
        found = OPERATORS[operator](a, b, work())
    except Fault:
        return
    assert not isinstance(found, float) or found - found == 0


@given(st.integers() | st.floats(allow_nan=False), st.integers() | st.floats(allow_nan=False))
def test_order_is_that_of_numbers(a: float, b: float) -> None:
    assert order(a, b) == -order(b, a) == (a > b) - (a < b)
    assert order(UNDEFINED, a) == -order(a, UNDEFINED) == 1 and order(UNDEFINED, UNDEFINED) == 0


def test_numbers_become_whole() -> None:
    assert type(as_number(lambda: 5.0)) is int and type(as_number(lambda: 2.0**60)) is float and type(as_number(lambda: 2**1001)) is float
    for wrong in (float("nan"), float("inf"), 1j, 2**2000):
        with pytest.raises(Fault):
            as_number(lambda wrong=wrong: wrong)  # type: ignore[misc]
