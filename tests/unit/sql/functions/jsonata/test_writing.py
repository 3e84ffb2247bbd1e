"""Values as text."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from svc.clock import FakeClock
from svc.errors import QueryTooLarge
from svc.sql.functions.jsonata.values import UNDEFINED, Callback, Fault, Work
from svc.sql.functions.jsonata.writing import number_text, text_of
from svc.sql.functions.meter import WorkMeter


def work() -> Work:
    return Work(WorkMeter(FakeClock()), 0)


@pytest.mark.parametrize(
    ("number", "expected"),
    [(0, "0"), (-0.0, "0"), (5.0, "5"), (-1.5, "-1.5"), (1 / 3, "0.333333333333333"), (0.1 + 0.2, "0.3"), (1e20, "100000000000000000000"), (1e21, "1e+21"),
     (1.25e300, "1.25e+300"), (1e-6, "0.000001"), (1e-7, "1e-7"), (-2.5e-10, "-2.5e-10"), (2**70, "1180591620717411303424"),
     (123456789.125, "123456789.125")],
)  # fmt: skip
def test_numbers(number: float, expected: str) -> None:
    assert number_text(number) == expected


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_numbers_are_read_as_nearly_what_they_were(number: float) -> None:
    assert float(number_text(number)) == pytest.approx(number, rel=1e-14, abs=5e-324)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20
)


@given(JSON)
def test_containers_are_json(value: Any) -> None:
    assert text_of(value, work()) == value if isinstance(value, str) else json.loads(text_of(value, work())) == value


def test_what_is_no_json() -> None:
    function = Callback(len, 1)
    assert text_of(function, work()) == text_of(UNDEFINED, work()) == ""
    assert text_of([function, UNDEFINED, b"\0"], work()) == '["",null,"AA=="]'


def test_bounds() -> None:
    shared: Any = []
    for _ in range(60):
        shared = [shared, shared]
    with pytest.raises(QueryTooLarge):
        text_of(shared, work())
    deep: Any = []
    for _ in range(300):
        deep = [deep]
    with pytest.raises(Fault, match="200 levels"):
        text_of(deep, work())
