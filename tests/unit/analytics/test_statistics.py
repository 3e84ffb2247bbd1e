"""The arithmetic against hand-made numbers (spec: analytics §2 rules 4-6, §2.1)."""

import random
from typing import Any

import pytest

from svc.analytics.statistics import distribution, iter_numeric_entry, labels, percentiles, read_bins, value_at, yes_no_entry

KEY = ("duration", "Seat", "GET", None)


def numeric_entry(key: Any, values: list[float]) -> dict[str, Any] | None:
    steps = iter_numeric_entry(key, values)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            entry: dict[str, Any] | None = end.value
            return entry


def test_numeric_entry_of_the_worked_example() -> None:
    entry = numeric_entry(KEY, [9, 2, 4])
    assert entry == {
        "metric": "duration", "path": "Seat", "method": "GET", "median": 4, "mean": 5, "p95": 9, "p90": 9, "count": 3, "distribution": [2, 4, 9],
    }  # fmt: skip


def test_ranks_are_exact_where_floats_are_not() -> None:
    """p95 of n values is v[floor(0.95 n)], for every n."""
    for count in range(1, 400):
        entry = numeric_entry(KEY, [float(v) for v in range(count)])
        assert entry is not None
        assert entry["p95"] == min(count - 1, 95 * count // 100)
        assert entry["p90"] == min(count - 1, 9 * count // 10)
        assert entry["median"] == count // 2


def test_what_is_not_finite_does_not_count() -> None:
    entry = numeric_entry(KEY, [1.0, float("nan"), 3.0, float("inf")])
    assert entry is not None and entry["count"] == 2 and entry["mean"] == 2
    assert numeric_entry(KEY, [float("nan")]) is None
    assert numeric_entry(KEY, [1e308, 1e308]) is None


def test_whole_numbers_are_integers() -> None:
    entry = numeric_entry(KEY, [1.0, 3.0])
    assert entry is not None and type(entry["mean"]) is int and type(entry["distribution"][0]) is int


def test_yes_no_entry() -> None:
    entry = yes_no_entry(("success", None, None, None), 2, 3)
    assert entry == {"metric": "success", "total": 2, "count": 3, "mean": 2 / 3}


def test_labels_leave_out_what_is_absent() -> None:
    assert labels(("m", None, "GET", "t")) == {"metric": "m", "method": "GET", "type": "t"}


def test_distribution_of_many_values() -> None:
    bins = distribution(list(range(1, 1001)), 1000)
    assert bins == [(10, 10), (100, 90), (250, 150), (500, 250), (750, 250), (900, 150), (950, 50), (990, 40), (999, 9), (1000, 1)]
    assert sum(size for _, size in bins) == 1000


def test_equal_neighbours_are_joined() -> None:
    assert distribution([7] * 500, 500) == [(7, 500)]
    entry = numeric_entry(KEY, [7.0] * 500)
    assert entry is not None and entry["distribution"] == [{"value": 7, "count": 500}]


def test_bins_survive_storage() -> None:
    assert read_bins([2, {"value": 4.5, "count": 3}]) == [(2, 1), (4.5, 3)]


def test_percentiles_of_single_values_interpolate() -> None:
    found = percentiles([(2, 1), (4, 1), (9, 1)])
    assert found["median"] == 4
    assert abs(found["p90"] - 8) < 1e-9
    assert abs(found["p95"] - 8.5) < 1e-9


def test_percentiles_of_one_value() -> None:
    assert set(percentiles([(5, 1)]).values()) == {5}
    assert set(percentiles([(5, 100)]).values()) == {5}


def test_percentiles_stay_within_the_values_and_ascend() -> None:
    found = list(percentiles([(value, 1 + value % 7) for value in range(50)]).values())
    assert found == sorted(found)
    assert found[0] >= 0 and found[-1] <= 49


@pytest.mark.parametrize("kind", ["random", "equal", "few", "ascending", "descending", "not finite"])
def test_many_values_are_counted_as_few_are(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = random.Random(kind)
    count = 997
    values = [draw.random() for _ in range(count)]
    if kind == "equal":
        values = [2.0] * count
    elif kind == "few":
        values = [float(draw.randrange(3)) for _ in range(count)]
    elif kind != "random":
        values.sort(reverse=kind == "descending")
    if kind == "not finite":
        values[::10] = [float("nan")] * len(values[::10])
    whole = numeric_entry(KEY, values[:])
    assert whole is not None
    monkeypatch.setattr("svc.analytics.statistics._SORTED_AT_ONCE", 50)
    steps = list(iter_numeric_entry(KEY, values[:]))
    assert len(steps) > 20
    parts = numeric_entry(KEY, values)
    assert parts is not None and parts.pop("mean") == pytest.approx(whole.pop("mean"))
    assert parts == whole


def test_values_stay_what_they_are_however_many() -> None:
    """`totals` counts them afterwards."""
    for count in (5, 5000):
        values = [float(number * 7919 % 1000) for number in range(count)]
        values[count // 2] = float("inf")
        expected = sorted(values)
        list(iter_numeric_entry(("duration", None, None, None), values))
        assert sorted(values) == expected


def test_each_place_of_runs() -> None:
    draw = random.Random(1)
    runs = [sorted(draw.randrange(20) for _ in range(size)) for size in (1, 7, 30, 2)]
    assert [value_at(runs, rank) for rank in range(40)] == sorted(value for run in runs for value in run)


@pytest.mark.parametrize("stored", [[{"value": 1}], ["x"], [{"value": 1, "count": 0}], [{"value": float("nan"), "count": 1}], [None]])
def test_what_is_no_bin_is_refused(stored: list[Any]) -> None:
    with pytest.raises((KeyError, TypeError, ValueError)):
        read_bins(stored)
