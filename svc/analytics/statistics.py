"""The arithmetic of analytics: entries of raw rows, bins, percentiles (spec: analytics §2 rules 4-6, §2.1). Pure."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Generator, Iterable, Mapping, Sequence
from math import inf, isfinite
from typing import Any

Key = tuple[str, str | None, str | None, str | None]  # metric, path, method, type
LABELS = frozenset({"metric", "path", "method", "type"})
Bin = tuple[float, int]  # value, how many up to it

# Shares at which a distribution is cut, in thousandths: integers, because `floor(n * q)` of a float is off by one now and then.
_CUTS = (10, 100, 250, 500, 750, 900, 950, 990, 999, 1000)

_SORTED_AT_ONCE = 2000  # values: about 0.3 ms

# Names of the percentiles of an aggregate row, ascending.
_PERCENTILES = (
    ("p1", 0.01), ("p10", 0.1), ("p25", 0.25), ("median", 0.5), ("p75", 0.75), ("p90", 0.9), ("p95", 0.95), ("p99", 0.99), ("p999", 0.999),
)  # fmt: skip


def whole(value: Any) -> Any:
    """The form in which the store keeps a number: whole floats as integers. Other values as they are.

    >>> whole(5.0), whole(5.5)
    (5, 5.5)
    """
    return int(value) if type(value) is float and value.is_integer() else value


def labels(key: Key) -> dict[str, Any]:
    """The fields that name a group; absent labels are left out.

    >>> labels(("duration", "Seat", None, None))
    {'metric': 'duration', 'path': 'Seat'}
    """
    metric, path, method, kind = key
    found: dict[str, Any] = {"metric": metric}
    if path is not None:
        found["path"] = path
    if method is not None:
        found["method"] = method
    if kind is not None:
        found["type"] = kind
    return found


def iter_numeric_entry(key: Key, values: list[float]) -> Generator[None, None, dict[str, Any] | None]:
    """The entry of a numeric group, in short steps however many values there are. What is not finite does not count; None if nothing is left.

    Sorts `values`. Many are sorted in runs, each in its place, of which only the values at the places that the entry shows are found: merging them would
    cost ten times as much.
    """
    runs: list[list[float]] = []
    total = 0.0
    count = 0
    for start in range(0, len(values), _SORTED_AT_ONCE):
        run = values if len(values) <= _SORTED_AT_ONCE else values[start : start + _SORTED_AT_ONCE]
        sum_of_run = _sum_of(run)
        if not isfinite(sum_of_run):
            run = [value for value in run if isfinite(value)]
            sum_of_run = _sum_of(run)
            run.sort()
        else:
            run.sort()
            values[start : start + _SORTED_AT_ONCE] = run  # who reads them in runs of this length has nothing to sort
        if run:
            runs.append(run)
            total += sum_of_run
            count += len(run)
        yield
    if not count or not isfinite(total):
        return None
    ordered: Sequence[float] | Mapping[int, float]
    median, p95, p90 = count // 2, min(count - 1, count * 95 // 100), min(count - 1, count * 90 // 100)
    if len(runs) == 1:
        ordered = runs[0]
    else:
        ordered = {}
        for rank in {median, p95, p90, *(up_to - 1 for up_to in _cuts(count))}:
            ordered[rank] = value_at(runs, rank)
            yield
    entry = labels(key)
    entry["median"] = whole(ordered[median])
    entry["mean"] = whole(total / count)
    entry["p95"] = whole(ordered[p95])
    entry["p90"] = whole(ordered[p90])
    entry["count"] = count
    bins = distribution(ordered, count)
    entry["distribution"] = [whole(value) if size == 1 else {"value": whole(value), "count": size} for value, size in bins]
    return entry


def _sum_of(values: Iterable[float]) -> float:
    """Infinite where it does not fit into a float."""
    try:
        return float(sum(values))
    except OverflowError:  # of integers
        return inf


def value_at(runs: Sequence[Sequence[float]], rank: int) -> float:
    """The value at this place, from 0, of what all the sorted runs hold together. O(r log n log r n): no more than some hundred bisections.

    >>> value_at([[1, 4, 9], [2, 2, 7]], 3)
    4
    """
    lows = [0] * len(runs)
    highs = [len(run) for run in runs]
    while True:
        # The value is in one of the parts that are left; the middle of the longest one halves at least that one.
        longest = max(range(len(runs)), key=lambda index: highs[index] - lows[index])
        pivot = runs[longest][(lows[longest] + highs[longest]) // 2]
        before = [bisect_left(run, pivot, low, high) for run, low, high in zip(runs, lows, highs, strict=True)]
        behind = [bisect_right(run, pivot, low, high) for run, low, high in zip(runs, before, highs, strict=True)]
        if rank < sum(before):
            highs = before
        elif rank >= sum(behind):
            lows = behind
        else:
            return pivot


def yes_no_entry(key: Key, total: int, count: int) -> dict[str, Any]:
    """`total` times yes among `count` events."""
    entry = labels(key)
    entry["total"] = total
    entry["count"] = count
    entry["mean"] = whole(total / count)
    return entry


def _cuts(count: int) -> list[int]:
    """How many of so many values each bin ends behind, ascending."""
    return sorted({count * cut // 1000 for cut in _CUTS} - {0})


def distribution(values: Sequence[float] | Mapping[int, float], count: int) -> list[Bin]:
    """So many sorted values in at most ten bins; each represents the values after the bin before, up to its own.

    >>> distribution([1, 2, 2, 9], 4)
    [(1, 1), (2, 2), (9, 1)]
    """
    bins: list[Bin] = []
    last = 0
    for up_to in _cuts(count):
        value = values[up_to - 1]
        if bins and bins[-1][0] == value:
            bins[-1] = (value, bins[-1][1] + up_to - last)
        else:
            bins.append((value, up_to - last))
        last = up_to
    return bins


def read_bins(stored: Iterable[Any]) -> list[Bin]:
    """The bins of a stored entry's `distribution`. Raises KeyError, TypeError or ValueError for what is none."""
    bins = [(item["value"], item["count"]) if isinstance(item, dict) else (item, 1) for item in stored]
    for value, size in bins:
        if not isfinite(value) or size < 1:
            raise ValueError("a bin has a value and a count")
    return bins


def percentiles(bins: list[Bin]) -> dict[str, float]:
    """All percentiles of an aggregate row, from the joined bins of its raw entries. Sorts `bins`, of which there is at least one.

    For bins of one value each this is linear interpolation between the values:

    >>> found = percentiles([(value, 1) for value in (1, 2, 3, 4, 5)])
    >>> found["median"], round(found["p90"], 9), round(found["p95"], 9)
    (3, 4.6, 4.8)
    """
    bins.sort()
    found: dict[str, float] = {}
    steps = sum(size for _, size in bins) - 1
    at = 0
    value, size = bins[0]
    previous = value
    passed = size - 1  # the first bin counts one less: N values have N - 1 gaps
    for name, share in _PERCENTILES:
        target = steps * share
        while passed < target and at + 1 < len(bins):
            at += 1
            previous = value
            value, size = bins[at]
            passed += size
        # Rounding may put the target a hair beyond the last bin: then it is the last value.
        found[name] = whole(value - (value - previous) * max(0.0, passed - target) / size)
    return found
