"""What the rows of analytics say of a span of time. Pure.

Percentiles are those of analytics §2.1, from the joined distributions of raw rows. Aggregates have no distributions: there the percentiles of each row
stand for the values between them, so that of several rows they are an estimate, and of one row its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, NamedTuple

from svc.analytics.exposed import LAG
from svc.analytics.statistics import Bin, percentiles, read_bins

MOST_PATHS = 50  # of a span that are kept, those with the most requests
MOST_NAMES = 200  # of metrics
MOST_FIELDS = 8  # of a metric whose values are given by a function
MOST_INSTANCES = 64
MOST_BINS = 4000
MOST_STREAMS = 200
RATE, SHARE = "per second", "share"  # of a chosen metric, beside its own fields
_CUTS = (
    ("p1", 10), ("p10", 100), ("p25", 250), ("median", 500), ("p75", 750), ("p90", 900), ("p95", 950), ("p99", 990), ("p999", 1000),
)  # fmt: skip
_COMMON = frozenset(
    {"id", "time", "period", "metric", "path", "method", "type", "node", "count", "total", "distribution", "threadId", "mean", "ratio"}
)
_FAULTS = (AttributeError, KeyError, TypeError, ValueError, OverflowError)


class Selection(NamedTuple):
    """Whose requests count: of one path, "" those without one, None all; of one method, None all. `metric`: one that is shown besides, "" none."""

    path: str | None = None
    method: str | None = None
    metric: str = ""


@dataclass(slots=True)
class PathFigures:
    """Requests of one path and method. `answered`: those of which success is known."""

    requests: int = 0
    milliseconds: float = 0.0
    answered: int = 0
    successes: int = 0

    def add(self, other: PathFigures) -> None:
        self.requests += other.requests
        self.milliseconds += other.milliseconds
        self.answered += other.answered
        self.successes += other.successes


@dataclass(slots=True)
class Figures:
    """Of one span. `covered_ms`: how much of it was measured. `latency`: median, p90, p95 in ms. `busy`, `resident`, `heap`: by instance, None: of all.
    `open`: connections by protocol. `accepted`: connections. `lags`: the highest of replication, in ms, by origin and database. `own`: of the chosen metric.
    `names`: of all metrics. `is_cut`: there were more rows."""

    rows: int = 0
    covered_ms: float = 0.0
    requests: int = 0
    answered: int = 0
    successes: int = 0
    latency: tuple[float, float, float] | None = None
    paths: dict[tuple[str, str], PathFigures] = field(default_factory=dict)
    busy: dict[int | None, float] = field(default_factory=dict)
    resident: dict[int | None, float] = field(default_factory=dict)
    heap: dict[int | None, float] = field(default_factory=dict)
    open: dict[str, float] = field(default_factory=dict)
    accepted: int = 0
    lags: dict[str, float] = field(default_factory=dict)
    own: dict[str, float] = field(default_factory=dict)
    names: frozenset[str] = frozenset()
    is_cut: bool = False


class Gathering:
    """Rows of one span, taken in one after the other; `finish` makes the figures. What is no row of analytics is left out."""

    def __init__(self, selection: Selection) -> None:
        self._selection = selection
        self._found = Figures()
        self._bins: list[Bin] = []
        self._exact: tuple[float, float, float] | None = None  # of the one aggregate there is
        self._names: set[str] = set()
        self._loads: dict[int | None, tuple[float, float]] = {}  # active and whole milliseconds
        self._open: dict[str, dict[int | None, float]] = {}
        self._own = _Own()
        self._measured = 0.0  # ms that rows of resources cover
        self._times: dict[float, float] = {}  # time -> period of the rows

    def add_raw(self, row: Mapping[str, Any]) -> None:
        self._found.rows += 1
        instance = row.get("threadId")
        instance = instance if type(instance) is int else 0
        entries = row.get("metrics")
        for entry in entries if isinstance(entries, list) else ():
            try:
                self._add(entry, instance)
            except _FAULTS:
                continue

    def add_aggregate(self, row: Mapping[str, Any]) -> None:
        self._found.rows += 1
        try:
            if row["metric"] == "resource-usage":
                self._measured += _finite(row["period"])
            elif "period" in row and row.get("time") is not None:
                self._times[_finite(row["time"])] = _finite(row["period"])
            self._add(row, None)
        except _FAULTS:
            return

    def finish(self, covered_ms: float | None = None) -> Figures:
        """`covered_ms`: what was measured; None: what the rows say."""
        found = self._found
        found.covered_ms = covered_ms if covered_ms is not None else self._measured or sum(self._times.values())
        if self._bins:
            values = percentiles(self._bins)
            found.latency = self._exact or (values["median"], values["p90"], values["p95"])
        if len(found.paths) > MOST_PATHS:
            found.paths = dict(sorted(found.paths.items(), key=lambda each: -each[1].requests)[:MOST_PATHS])
        found.busy = {instance: active / whole for instance, (active, whole) in self._loads.items() if whole > 0}
        found.open = {name: sum(by_instance.values()) for name, by_instance in self._open.items()}
        found.own = self._own.fields(found.covered_ms)
        found.names = frozenset(self._names)
        return found

    def _add(self, entry: Mapping[str, Any], instance: int | None) -> None:
        metric = entry["metric"]
        if type(metric) is not str:
            return
        if len(self._names) < MOST_NAMES:
            self._names.add(metric)
        if metric == "duration" or metric == "success":
            self._add_requests(entry, metric)
        elif metric == "utilization":
            if instance in self._loads or len(self._loads) < MOST_INSTANCES:
                active, idle = _finite(entry["active"]), _finite(entry["idle"])
                before = self._loads.get(instance, (0.0, 0.0))
                self._loads[instance] = before[0] + active, before[1] + active + idle
        elif metric == "memory":
            if instance in self._found.resident or len(self._found.resident) < MOST_INSTANCES:
                self._found.resident[instance], self._found.heap[instance] = _finite(entry["rss"]), _finite(entry["heapUsed"])
        elif metric in ("ws-connections", "mqtt-connections"):
            self._open.setdefault(metric.partition("-")[0], {})[instance] = _finite(entry["connections"])
        elif metric == LAG:
            name, ms = str(entry["path"]), _finite(entry["ms"])
            if name in self._found.lags or len(self._found.lags) < MOST_STREAMS:
                self._found.lags[name] = max(ms, self._found.lags.get(name, 0.0))
        elif metric == "socket-routed":
            self._found.accepted += int(_finite(entry["count"]))
        if metric == self._selection.metric:
            self._own.add(entry)

    def _add_requests(self, entry: Mapping[str, Any], metric: str) -> None:
        path, method = entry.get("path") or "", entry.get("method") or ""
        wanted = self._selection
        count = int(_finite(entry["count"]))
        if type(path) is not str or type(method) is not str or count < 1:
            return
        of_path = self._found.paths.get((path, method))
        if of_path is None:
            of_path = self._found.paths[path, method] = PathFigures()
        is_wanted = wanted.path in (None, path) and wanted.method in (None, method)
        if metric == "success":
            successes = int(_finite(entry["total"]))
            of_path.add(PathFigures(answered=count, successes=successes))
            if is_wanted:
                self._found.answered += count
                self._found.successes += successes
            return
        of_path.add(PathFigures(count, _finite(entry["mean"]) * count))
        if is_wanted:
            self._found.requests += count
            self._exact = None
            if not self._bins and "distribution" not in entry:
                self._exact = (_finite(entry["median"]), _finite(entry["p90"]), _finite(entry["p95"]))
            self._bins = joined(self._bins, bins_of(entry))


class _Own:
    """The chosen metric."""

    def __init__(self) -> None:
        self._count = 0.0
        self._total: float | None = None
        self._bins: list[Bin] = []
        self._sums: dict[str, float] = {}

    def add(self, entry: Mapping[str, Any]) -> None:
        count = _finite(entry.get("count", 1))
        if count <= 0:
            return
        if entry.get("total") is not None:
            self._total = (self._total or 0.0) + _finite(entry["total"])
        elif entry.get("median") is not None:
            self._bins = joined(self._bins, bins_of(entry))
        else:
            for name, value in entry.items():
                is_number = isinstance(value, int | float) and not isinstance(value, bool)
                if is_number and name not in _COMMON and (name in self._sums or len(self._sums) < MOST_FIELDS):
                    self._sums[name] = self._sums.get(name, 0.0) + _finite(value) * count
        self._count += count

    def fields(self, covered_ms: float) -> dict[str, float]:
        found: dict[str, float] = {}
        if self._bins:
            values = percentiles(self._bins)
            found = {name: values[name] for name in ("median", "p90", "p95")}
        elif self._total is not None:
            found[SHARE] = self._total / self._count
        elif self._sums and self._count:
            return {name: value / self._count for name, value in self._sums.items()}
        if self._count and covered_ms > 0:
            found[RATE] = self._count * 1000 / covered_ms
        return found


def bins_of(entry: Mapping[str, Any]) -> list[Bin]:
    """The values of an entry of a raw row, or of an aggregate, as a distribution. Raises KeyError, TypeError or ValueError for what is neither.

    >>> bins_of({"distribution": [1, {"value": 4, "count": 3}]})
    [(1, 1), (4, 3)]
    >>> bins_of({"count": 4, "p25": 1, "median": 2, "p75": 3, "p999": 9})
    [(1.0, 1), (2.0, 1), (3.0, 1), (9.0, 1)]
    """
    stored = entry.get("distribution")
    if stored is not None:
        return read_bins(stored)
    count = int(_finite(entry["count"]))
    bins: list[Bin] = []
    last = 0
    for name, cut in _CUTS:
        up_to = count * cut // 1000
        if up_to > last and entry.get(name) is not None:
            bins.append((_finite(entry[name]), up_to - last))
            last = up_to
    if not bins:
        bins.append((_finite(entry["median"]), count))
    return bins


def joined(bins: list[Bin], more: list[Bin]) -> list[Bin]:
    """Two distributions as one. Of very many bins neighbours become one, of the higher value: to sort them all would take long."""
    bins += more
    if len(bins) <= MOST_BINS:
        return bins
    bins.sort()
    step = 4
    return [(bins[min(at + step, len(bins)) - 1][0], sum(size for _, size in bins[at : at + step])) for at in range(0, len(bins), step)]


def _finite(value: Any) -> float:
    """Raises TypeError or ValueError for what is no number, or none that can be drawn."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError("not a number")
    number = float(value)
    if not isfinite(number):
        raise ValueError("not finite")
    return number
