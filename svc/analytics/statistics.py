"""The arithmetic of analytics: entries of raw rows, bins, percentiles (spec: analytics §2 rules 4-6, §2.1). Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import isfinite
from typing import Any

Key = tuple[str, str | None, str | None, str | None]  # metric, path, method, type
Bin = tuple[float, int]  # value, how many up to it

# Shares at which a distribution is cut, in thousandths: integers, because `floor(n * q)` of a float is off by one now and then.
_CUTS = (10, 100, 250, 500, 750, 900, 950, 990, 999, 1000)

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


def numeric_entry(key: Key, values: list[float]) -> dict[str, Any] | None:
    """The entry of a numeric group. Sorts `values`. What is not finite does not count; None if nothing is left."""
    total = sum(values)
    if not isfinite(total):
        values = [value for value in values if isfinite(value)]
        total = sum(values)
    count = len(values)
    if not count or not isfinite(total):
        return None
    values.sort()
    entry = labels(key)
    entry["median"] = whole(values[count // 2])
    entry["mean"] = whole(total / count)
    entry["p95"] = whole(values[min(count - 1, count * 95 // 100)])
    entry["p90"] = whole(values[min(count - 1, count * 90 // 100)])
    entry["count"] = count
    entry["distribution"] = [whole(value) if size == 1 else {"value": whole(value), "count": size} for value, size in distribution(values)]
    return entry


def yes_no_entry(key: Key, total: int, count: int) -> dict[str, Any]:
    """`total` times yes among `count` events."""
    entry = labels(key)
    entry["total"] = total
    entry["count"] = count
    entry["mean"] = whole(total / count)
    return entry


def distribution(values: Sequence[float]) -> list[Bin]:
    """Sorted values in at most ten bins; each represents the values after the bin before, up to its own.

    >>> distribution([1, 2, 2, 9])
    [(1, 1), (2, 2), (9, 1)]
    """
    bins: list[Bin] = []
    last = 0
    count = len(values)
    for cut in _CUTS:
        up_to = count * cut // 1000
        if up_to > last:
            value = values[up_to - 1]
            if bins and bins[-1][0] == value:
                bins[-1] = (value, bins[-1][1] + up_to - last)
            else:
                bins.append((value, up_to - last))
            last = up_to
    return bins


def read_bins(stored: Iterable[Any]) -> list[Bin]:
    """The bins of a stored entry's `distribution`."""
    return [(item["value"], item["count"]) if isinstance(item, dict) else (item, 1) for item in stored]


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
