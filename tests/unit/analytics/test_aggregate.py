"""Raw rows to aggregate rows (spec: analytics §2.1)."""

from typing import Any

from svc.analytics.aggregate import Aggregation


def aggregate(*rows: dict[str, Any]) -> dict[tuple[str, str | None], dict[str, Any]]:
    aggregation = Aggregation()
    for row in rows:
        for _ in aggregation.iter_add(row):
            pass
    return {(row["metric"], row.get("path")): row for row in aggregation.iter_rows()}


def row(time: int, *metrics: dict[str, Any], thread: int = 0) -> dict[str, Any]:
    return {"time": time, "metrics": list(metrics), "threadId": thread}


def test_counts_add_up_and_means_are_weighted() -> None:
    found = aggregate(
        row(
            1000, {"metric": "duration", "mean": 2, "median": 2, "p90": 2, "p95": 2, "count": 3, "distribution": [{"value": 2, "count": 3}]}
        ),
        row(2000, {"metric": "duration", "mean": 6, "median": 6, "p90": 6, "p95": 6, "count": 1, "distribution": [6]}),
    )["duration", None]
    assert (found["count"], found["mean"], found["median"]) == (4, 3, 2)
    # Sorted bins 2 x 3, 6 x 1; t = 3 * 0.95 = 2.85 falls in the second: 6 - 4 * (3 - 2.85)
    assert abs(found["p95"] - 5.4) < 1e-9
    assert "distribution" not in found


def test_yes_no() -> None:
    found = aggregate(
        row(1, {"metric": "success", "path": "a", "total": 1, "count": 2, "mean": 0.5}),
        row(2, {"metric": "success", "path": "a", "total": 2, "count": 2, "mean": 1}),
    )["success", "a"]
    assert found == {"metric": "success", "path": "a", "total": 3, "count": 4, "ratio": 0.75, "mean": 0.75}


def test_gauges_are_last_values_summed_over_instances() -> None:
    found = aggregate(
        row(1, {"metric": "memory", "threadId": 0, "rss": 100}),
        row(2, {"metric": "memory", "threadId": 0, "rss": 110}),
        row(2, {"metric": "memory", "threadId": 1, "rss": 50}, thread=1),
    )["memory", None]
    assert found == {"metric": "memory", "rss": 160, "count": 2}


def test_plain_entries_are_averaged() -> None:
    found = aggregate(
        row(1, {"metric": "utilization", "idle": 900, "active": 100, "utilization": 0.1}),
        row(2, {"metric": "utilization", "idle": 700, "active": 300, "utilization": 0.3}),
    )["utilization", None]
    assert found == {"metric": "utilization", "idle": 800, "active": 200, "utilization": 0.2, "count": 2}


def test_time_is_that_of_the_last_row() -> None:
    aggregation = Aggregation()
    assert aggregation.time is None
    for time in (5, 9, 7):
        list(aggregation.iter_add(row(time)))
    assert aggregation.time == 7  # the clock has gone back
