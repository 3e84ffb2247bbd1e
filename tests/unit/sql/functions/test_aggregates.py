"""Aggregates over rows, groups and windows, and what they hold."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from statistics import median as expected_median
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from svc.clock import FakeClock
from svc.errors import QueryError, QueryTooLarge
from svc.sql.functions import FUNCTIONS, WorkMeter
from svc.sql.functions.aggregates import median
from svc.sql.functions.exact import exact_face
from svc.store.values.records import decode_payload
from tests.unit.sql.functions.conftest import Value

Rows = Callable[..., list[Any]]
METER = WorkMeter(FakeClock())


def faces(values: list[Any]) -> tuple[str, list[Any]]:
    """A table of exact faces: the text of a source, and its parameters."""
    return "(values " + ", ".join(["(?)"] * len(values)) + ")", [exact_face(value) for value in values]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1, 2, 2, None], [1, 2, 2, None]),
        ([True, 1, 1.5, "a", [1, {"b": False}]], [True, 1, 1.5, "a", [1, {"b": False}]]),
        ([2**70, -(2**63)], [2**70, -(2**63)]),
        ([datetime(2024, 1, 5, tzinfo=UTC)], ["2024-01-05T00:00:00.000Z"]),
        ([b"\x00\xff"], ["AP8="]),
        (["\0", "ä"], ["\0", "ä"]),
    ],
)
def test_arrays_have_what_is_stored(rows: Rows, values: list[Any], expected: list[Any]) -> None:
    source, parameters = faces(values)
    text, exact = rows(f"select ARRAY(column1), svc_array_exact(column1) from {source}", *parameters)[0]
    assert json.loads(text) == expected
    found = decode_payload(exact)
    assert found == values and list(map(type, found)) == list(map(type, values))


def test_long_arrays(rows: Rows) -> None:
    """Longer than what is encoded at a time."""
    found = rows("select ARRAY(value), svc_array_exact(value) from json_each(?)", json.dumps(list(range(12_345))))[0]
    assert json.loads(found[0]) == decode_payload(found[1]) == list(range(12_345))


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1, 2, 1, 2.0, "1", True, 1], [1, 2, "1", True]),
        ([[1], [1], {"a": 1}, {"a": 1}, None, None], [[1], {"a": 1}, None]),
        ([3, 1, 2], [3, 1, 2]),
    ],
)
def test_distinct_elements(value: Value, rows: Rows, values: list[Any], expected: list[Any]) -> None:
    source, parameters = faces([2 if value == 2.0 and type(value) is float else value for value in values])
    text, exact = rows(
        f"select DISTINCT_ARRAY(svc_array_exact(column1)), svc_distinct_array_exact(svc_array_exact(column1)) from {source}", *parameters
    )[0]
    assert json.loads(text) == decode_payload(exact) == expected
    assert json.loads(value("DISTINCT_ARRAY(?)", json.dumps(values))) == expected


@pytest.mark.parametrize(
    ("face", "expected"),
    [(None, None), ("[]", "[]"), ("x", '["x"]'), (5, "[5]"), ("[1", '["[1"]'), (exact_face([]), "[]"), (exact_face({1}), "[1]")],
)
def test_distinct_of_other_values(value: Value, face: object, expected: object) -> None:
    assert value("DISTINCT_ARRAY(?)", face) == expected


@pytest.mark.parametrize(
    ("call", "values", "expected"),
    [
        ("MODE", [1, 2, 2, 3], 2), ("MODE", [2, 1], 1), ("MODE", ["b", "a", "b"], "b"), ("MODE", ["a", 1], 1), ("MODE", [None, None, 5], 5),
        ("MODE", [1, 1.0, 2], 1),
        ("PROD", [2, 3, 4], 24), ("PROD", [2, 0.5], 1.0), ("PROD", [None, 7], 7), ("PROD", [2**62, 4], 2.0**64), ("PROD", [1e308, 10], None),
        ("PROD", [0, -5], 0),
        ("MAD", [1, 2, 3, 4, 100], 1), ("MAD", [1, 1, 2, 2, 4, 6, 9], 1), ("MAD", [1, 2], 0.5), ("MAD", [5], 0), ("MAD", [1.5, None, 2.5], 0.5),
        ("MEAN", [1, 2, None], 1.5), ("MEDIAN", [1, 2, 10], 2), ("MEDIAN", [1, 2], 1.5), ("GROUP_CONCAT", ["a", None, 1], "a,1"), ("SUM", [1, 2], 3),
        ("COUNT", [1, None], 1), ("MIN", ["b", "a"], "a"), ("MAX", [1, 2], 2),
    ],
)  # fmt: skip
def test_results(rows: Rows, call: str, values: list[Any], expected: object) -> None:
    source = "(values " + ", ".join(["(?)"] * len(values)) + ")"
    found = rows(f"select {call}(column1) from {source}", *values)[0]
    assert found == expected and (type(found) is type(expected) or isinstance(found, float))


@pytest.mark.parametrize("call", ["ARRAY", "MODE", "PROD", "MAD", "MEAN", "MEDIAN", "GROUP_CONCAT", "SUM", "MIN", "MAX"])
def test_no_values_give_null(rows: Rows, call: str) -> None:
    assert rows(f"select {call}(value) from json_each('[]')") == [None]
    if call != "ARRAY":
        assert rows(f"select {call}(value) from json_each('[null]')") == [None]


@pytest.mark.parametrize("call", ["PROD", "MAD"])
@pytest.mark.parametrize("odd", ["x", "12", b"\x01"])
def test_numbers_are_needed(rows: Rows, call: str, odd: object) -> None:
    with pytest.raises(QueryError, match=f"{call} needs numbers, not "):
        rows(f"select {call}(column1) from (values (1), (?))", odd)


def test_groups(rows: Rows) -> None:
    assert rows("select value % 2, ARRAY(value), MODE(value) from json_each('[1,2,3,4,4]') group by 1") == [
        (0, "[2,4,4]", 4),
        (1, "[1,3]", 1),
    ]


@pytest.mark.parametrize("call", ["ARRAY", "MODE", "PROD", "MAD"])
@pytest.mark.parametrize(
    ("frame", "first", "last"),
    [
        ("rows between 2 preceding and current row", -2, 1),
        ("rows between current row and 1 following", 0, 2),
        ("rows between 1 following and 2 following", 1, 3),
    ],
)
def test_windows_give_what_their_rows_give(rows: Rows, call: str, frame: str, first: int, last: int) -> None:
    values = [3, None, 1, 3, 2, 1.5, 1, None, None, None, 7, 7]
    found = rows(f"select {call}(value) over (order by key {frame}) from json_each(?)", json.dumps(values))
    expected = [
        rows(f"select {call}(value) from json_each(?)", json.dumps(values[max(0, at + first) : max(0, at + last)]))[0]
        for at in range(len(values))
    ]
    assert found == expected


@given(st.lists(st.integers(-5, 5) | st.floats(-10, 10), min_size=1, max_size=200), st.integers(1, 300))
def test_median_of_many_numbers(values: list[float], times: int) -> None:
    many = values * times
    assert median(many, METER) == pytest.approx(expected_median(many))


@pytest.mark.parametrize(
    "many", [[1.0] * 50_000, [float(number) for number in range(50_000)], [float(number % 7) for number in range(50_001)]]
)
def test_median_without_sorting(many: list[float]) -> None:
    assert median(many, METER) == expected_median(many)


@pytest.mark.parametrize("name", ["svc_array", "svc_array_exact", "svc_mode", "svc_prod", "svc_mad"])
def test_what_they_hold_is_bounded_and_released(rows: Rows, meter: WorkMeter, name: str) -> None:
    source = json.dumps(list(range(1000)))
    assert rows(f"select {name}(value) from json_each(?)", source)[0] is not None or name == "svc_prod"
    assert rows(f"select {name}(value) over (rows between 3 preceding and current row) from json_each(?)", source)
    assert meter.held == 0
    meter.begin(0, 1.0, 5000)
    with pytest.raises(QueryTooLarge, match=r"more than 5000 bytes"):
        rows(f"select {name}(value) from json_each(?)", source)


def test_arrays_that_are_too_long(rows: Rows, meter: WorkMeter) -> None:
    meter.max_length = 1000
    with pytest.raises(QueryTooLarge, match="makes a value of more than 1000 bytes"):
        rows("select ARRAY(value) from json_each(?)", json.dumps(["x" * 100] * 20))


def test_late_results_are_none(rows: Rows, meter: WorkMeter, clock: FakeClock) -> None:
    clock.advance(11.0)
    for name in ("ARRAY", "MODE", "PROD", "MAD"):
        assert FUNCTIONS[name].kind == "aggregate"
        with pytest.raises(QueryTooLarge, match="maxTime"):
            rows(f"select {name}(value) from json_each('[1]')")
