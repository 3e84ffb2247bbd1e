"""Rows of analytics as figures of spans (spec: console §4, analytics §2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from svc.analytics.aggregate import Aggregation
from svc.analytics.statistics import iter_numeric_entry, percentiles, read_bins
from svc.console.charts.figures import MOST_BINS, MOST_PATHS, Gathering, Selection, joined
from svc.console.charts.series import charts_of, top_paths

ALL = Selection()
_PATHS, _METHODS = ("Seat", "Row", ""), ("GET", "PUT")
_REQUESTS = st.lists(
    st.tuples(st.sampled_from(_PATHS), st.sampled_from(_METHODS), st.floats(0.01, 1000), st.booleans()), min_size=1, max_size=60
)


def entries_of(requests: list[tuple[str, str, float, bool]]) -> list[dict[str, Any]]:
    """The entries that analytics makes of one second with these requests."""
    found: list[dict[str, Any]] = []
    for path in _PATHS:
        for method in _METHODS:
            own = [(ms, is_fine) for wanted, its, ms, is_fine in requests if (wanted, its) == (path, method)]
            if not own:
                continue
            steps = iter_numeric_entry(("duration", path or None, method, None), [ms for ms, _ in own])
            while True:
                try:
                    next(steps)
                except StopIteration as done:
                    found.append(done.value)
                    break
            labels = {"metric": "success", "method": method, **({"path": path} if path else {})}
            found.append({**labels, "total": sum(is_fine for _, is_fine in own), "count": len(own), "mean": 0.5})
    return found


def gathered(rows: Sequence[Mapping[str, Any]], selection: Selection = ALL, covered_ms: float | None = 10_000) -> Any:
    gathering = Gathering(selection)
    for row in rows:
        gathering.add_raw(row)
    return gathering.finish(covered_ms)


@given(st.lists(_REQUESTS, min_size=1, max_size=4), st.sampled_from((None, *_PATHS)), st.sampled_from((None, *_METHODS)))
def test_sums_and_percentiles_are_those_of_what_was_recorded(
    seconds: list[list[tuple[str, str, float, bool]]], path: str | None, method: str | None
) -> None:
    rows: list[dict[str, Any]] = [{"threadId": number % 2, "metrics": entries_of(requests)} for number, requests in enumerate(seconds)]
    found = gathered(rows, Selection(path, method))
    wanted = [each for requests in seconds for each in requests if path in (None, each[0]) and method in (None, each[1])]
    assert found.requests == found.answered == len(wanted)
    assert found.successes == sum(each[3] for each in wanted)
    for (its_path, its_method), figures in found.paths.items():
        own = [each for requests in seconds for each in requests if each[:2] == (its_path, its_method)]
        assert figures.requests == len(own) and abs(figures.milliseconds - sum(each[2] for each in own)) < 1e-6 * (1 + len(own) * 1000)
    bins = [
        each
        for row in rows
        for entry in row["metrics"]
        if entry["metric"] == "duration" and path in (None, entry.get("path", "")) and method in (None, entry["method"])
        for each in read_bins(entry["distribution"])
    ]
    if not bins:
        assert found.latency is None
    else:
        values = percentiles(bins)
        assert found.latency == (values["median"], values["p90"], values["p95"])


@given(_REQUESTS)
def test_one_aggregate_stands_for_itself(requests: list[tuple[str, str, float, bool]]) -> None:
    """Of several rows an estimate between the values of each; counts are exact."""
    aggregation = Aggregation()
    for _ in aggregation.iter_add({"id": 1, "time": 1, "metrics": entries_of(requests)}):
        pass
    rows = [{"id": 2, "time": 1, "period": 60_000, "node": "x", **fields} for fields in aggregation.iter_rows()]
    gathering = Gathering(Selection())
    for row in rows:
        gathering.add_aggregate(row)
    found = gathering.finish()
    assert found.requests == len(requests) and found.successes == sum(each[3] for each in requests)
    assert found.covered_ms == 60_000
    durations = [row for row in rows if row["metric"] == "duration"]
    assert found.latency is not None
    assert min(row["p1"] for row in durations) <= found.latency[0] <= found.latency[2] <= max(row["p999"] for row in durations)
    if len(durations) == 1:
        assert found.latency == tuple([durations[0][name] for name in ("median", "p90", "p95")])


def test_time_is_covered_by_what_rows_of_resources_say() -> None:
    gathering = Gathering(Selection())
    gathering.add_aggregate({"metric": "duration", "time": 5, "period": 60_000, "count": 30, "mean": 1, "median": 1, "p90": 1, "p95": 1})
    gathering.add_aggregate({"metric": "resource-usage", "time": 9, "period": 90_000})
    gathering.add_aggregate({"metric": "resource-usage", "time": 99, "period": 60_000})
    found = gathering.finish()
    assert found.covered_ms == 150_000 and found.requests == 30
    [requests] = [chart for chart in charts_of([found, None], [0, 1]) if chart.key == "requests"]
    assert requests.lines[0].values == [0.2, None]


def test_gauges_by_instance() -> None:
    def row(instance: int, rss: int, active: int) -> dict[str, Any]:
        metrics = [
            {"metric": "memory", "rss": rss, "heapUsed": rss // 2},
            {"metric": "utilization", "active": active, "idle": 1000 - active},
            {"metric": "ws-connections", "connections": 3},
        ]
        return {"threadId": instance, "metrics": metrics}

    found = gathered([row(0, 100, 100), row(1, 200, 500), row(0, 110, 300)])
    assert found.resident == {0: 110, 1: 200} and found.heap == {0: 55, 1: 100}
    assert found.busy == {0: 0.2, 1: 0.5} and found.open == {"ws": 6}
    names = {chart.key: [line.name for line in chart.lines] for chart in charts_of([found], [0])}
    assert names["utilization"] == ["instance 0", "instance 1"] and names["open"] == ["WebSocket"]


def test_the_highest_lag_of_each_stream() -> None:
    rows = [
        {"metrics": [{"metric": "replication-lag", "path": f"b.{name}", "ms": ms, "entries": 1}]}
        for name, ms in (("x", 5), ("y", 1), ("x", 2))
    ]
    found = gathered(rows)
    assert found.lags == {"b.x": 5, "b.y": 1} and "lag" in [chart.key for chart in charts_of([found], [0])]


def test_own_metrics() -> None:
    numbers = {"metric": "price", "count": 4, "median": 2, "distribution": [1, {"value": 2, "count": 3}]}
    values = percentiles([(1, 1), (2, 3)])
    wanted = {name: values[name] for name in ("median", "p90", "p95")}
    assert gathered([{"metrics": [numbers]}], Selection(metric="price")).own == {**wanted, "per second": 0.4}
    flags = {"metric": "hit", "count": 4, "total": 3, "mean": 0.75}
    assert gathered([{"metrics": [flags]}], Selection(metric="hit")).own == {"share": 0.75, "per second": 0.4}
    given_fields = {"metric": "queue", "waiting": 3, "note": "x", "done": True, "path": "p"}
    assert gathered([{"metrics": [given_fields] * 2}], Selection(metric="queue")).own == {"waiting": 3}


_JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.just(10**400),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(["metric", "count", "total", "distribution", "value"]), inner)
    ),
    max_leaves=8,
)
_ENTRY = st.fixed_dictionaries(
    {"metric": st.sampled_from(["duration", "success", "memory", "utilization", "ws-connections", "socket-routed", "own"])},
    optional=dict.fromkeys(
        (
            "count",
            "total",
            "mean",
            "median",
            "p95",
            "distribution",
            "path",
            "method",
            "rss",
            "heapUsed",
            "active",
            "idle",
            "connections",
            "x",
        ),
        _JUNK,
    ),
)


@given(st.lists(_ENTRY | _JUNK, max_size=8))
def test_what_is_no_row_of_analytics_is_left_out(entries: list[Any]) -> None:
    """A super user can write anything into the tables."""
    found = gathered([{"metrics": entries, "threadId": "x"}, {"metrics": 5}], Selection(metric="own"))
    charts_of([found], [0], "own")
    gathering = Gathering(Selection(metric="own"))
    for entry in entries:
        gathering.add_aggregate(entry if isinstance(entry, dict) else {"metric": entry})
    charts_of([gathering.finish()], [0], "own")


def test_very_many_are_bounded() -> None:
    rows = [
        {"metrics": [{"metric": "duration", "path": f"p{at}", "method": "GET", "count": at + 1, "mean": 1, "distribution": [at, at + 1]}]}
        for at in range(MOST_PATHS * 3)
    ]
    found = gathered(rows)
    assert len(found.paths) == MOST_PATHS and ("p149", "GET") in found.paths and ("p0", "GET") not in found.paths
    ordered, count = top_paths([found, None, found])
    assert count == MOST_PATHS and ordered[0][0] == ("p149", "GET") and ordered[0][1].requests == 300
    bins: list[tuple[float, int]] = []
    for at in range(3 * MOST_BINS):
        bins = joined(bins, [(float(at % 1000), 1)])
        assert len(bins) <= MOST_BINS
    assert sum(size for _, size in bins) == 3 * MOST_BINS
    assert 490 <= percentiles(bins)["median"] <= 520
