"""Totals since the start, from the periods of a recorder (spec: analytics §10)."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from svc.analytics.exposed import NUMBERS, OPEN_CONNECTIONS, RESPONSES, YES_NO
from svc.analytics.exposition import iter_text
from svc.analytics.recorder import Recorder
from svc.analytics.totals import Names, Totals

WALL = 1_770_000_000.5


class Recorded:
    """A recorder and its totals."""

    def __init__(self, **options: Any) -> None:
        self.recorder = Recorder()
        self.totals = Totals(lambda: WALL, **options)

    def request(self, duration_ms: float, success: bool, size: int) -> None:
        record = self.recorder.record
        record(duration_ms, "duration", "Seat", "GET")
        record(success, "success", "Seat", "GET")
        if size:
            record(size, "bytes-sent", "Seat", "GET")
            record(1.0, "transfer", "Seat", "GET", "operation")

    def close(self) -> int:
        """Returns the number of steps."""
        period = self.recorder.close()
        assert period is not None
        list(period.iter_entries())
        return len(list(self.totals.iter_add(period)))

    def read(self, **labels: str) -> dict[str, float]:
        """Name of each sample with exactly these labels -> value; both formats say the same."""
        families = list(self.totals.families())
        found = {
            sample.name: sample.value
            for family in parse_openmetrics(b"".join(iter_text(families, True)).decode())
            for sample in family.samples
            if sample.labels == labels
        }
        text = {
            sample.name: sample.value
            for family in parse_text(b"".join(iter_text(families, False)).decode())
            for sample in family.samples
            if sample.labels == labels
        }
        assert text == {name: value for name, value in found.items() if not name.endswith("_created")}
        return found


def test_requests() -> None:
    recorded = Recorded()
    for duration, success, size in ((2.0, True, 100), (4.0, True, 120), (9.0, False, 30)):
        recorded.request(duration, success, size)
    recorded.close()
    recorded.request(1.0, True, 0)
    recorded.close()
    found = recorded.read(path="Seat", method="GET")
    assert found["svc_request_duration_seconds_count"] == 4
    assert found["svc_request_duration_seconds_sum"] == pytest.approx(0.016)
    assert found["svc_sent_bytes_total"] == 250
    assert found["svc_response_transfer_seconds_count"] == 3
    assert found["svc_request_duration_seconds_created"] == WALL
    assert recorded.read(path="Seat", method="GET", success="true")["svc_requests_total"] == 3
    assert recorded.read(path="Seat", method="GET", success="false")["svc_requests_total"] == 1


def test_answers_by_status() -> None:
    recorded = Recorded()
    for metric in ("response_404", "response_404", "response_200", "response_x", "response_4040"):
        recorded.recorder.record(True, metric, "Seat", "GET")
    recorded.close()
    assert recorded.read(path="Seat", method="GET", status="404")["svc_responses_total"] == 2
    assert recorded.read(path="Seat", method="GET", status="200")["svc_responses_total"] == 1
    assert recorded.read(path="Seat", method="GET", value="true").keys() >= {
        "svc_custom_response_x_total",
        "svc_custom_response_4040_total",
    }


def test_counters_never_go_down() -> None:
    recorded = Recorded()
    record = recorded.recorder.record
    before: dict[str, float] = {}
    for value in (5, -7, 1e300, -1e300, 0, -1):
        record(value, "bytes-sent", "a")
        record(value, "socket-bytes", "b", "c", "sent")
        record(value, "duration", "a")
        record(value, "own", "a")
        record(value > 0, "success", "a")
        recorded.close()
        now = recorded.read(path="a") | recorded.read(direction="sent")
        for name, earlier in before.items():
            assert now.get(name, earlier) >= earlier, name
        before = now
    assert before["svc_sent_bytes_total"] == before["svc_socket_bytes_total"] == 1e300
    assert "svc_custom_own_sum" not in before


def test_every_row_has_a_name_and_labels_of_its_own() -> None:
    rows = [*NUMBERS.values(), *YES_NO.values(), *RESPONSES.values(), *OPEN_CONNECTIONS.values()]
    assert len({row.name for row in rows}) == len(rows)
    for row in rows:
        labels = [name for name in (*row.labels, row.yes) if name]
        assert len(set(labels)) == len(labels)
        assert not row.unit or row.name.endswith(f"_{row.unit}")
    assert all(row.yes for row in YES_NO.values())


def test_labels_that_are_the_same_to_a_reader_are_one_series() -> None:
    recorded = Recorded()
    for path in (None, ""):
        recorded.recorder.record(1.0, "own", path)
    recorded.recorder.record(1.0, "socket-bytes", "ignored", None, "sent")
    recorded.recorder.record(2.0, "socket-bytes", None, None, "sent")
    recorded.recorder.record(1.0, "own", "\ud800")
    recorded.recorder.record(1.0, "own", "\udfff")
    recorded.close()
    assert recorded.read()["svc_custom_own_count"] == 2
    assert recorded.read(path="?")["svc_custom_own_count"] == 2
    assert recorded.read(direction="sent")["svc_socket_bytes_total"] == 3


def test_the_lag_of_replication_is_no_own_metric() -> None:
    recorded = Recorded()
    recorded.recorder.gauge(lambda: {"ms": 5, "entries": 1}, "replication-lag", "b.data", "replication", "ingress")
    recorded.recorder.record(1.0, "own")
    recorded.close()
    assert [name for name in recorded.read(path="b.data") if name.startswith("svc_custom")] == []


def test_own_metrics_of_every_kind() -> None:
    recorded = Recorded()
    record = recorded.recorder.record
    record(120.5, "pricing-time", "Quote", "POST", "rush")
    record(True, "priced", "Quote")
    record(False, "priced", "Quote")
    record(lambda: {"waiting": 3, "open": True, "name": "x", "rate": float("nan"), 5: 5}, "queue", "mail")
    recorded.close()
    assert recorded.read(path="Quote", method="POST", type="rush")["svc_custom_pricing_time_sum"] == 120.5
    assert recorded.read(path="Quote", value="true")["svc_custom_priced_total"] == 1
    assert recorded.read(path="Quote", value="false")["svc_custom_priced_total"] == 1
    assert recorded.read(path="mail") == {"svc_custom_queue_waiting": 3, "svc_custom_queue_open": 1}
    record(lambda: {"waiting": 1}, "queue", "mail")
    recorded.close()
    assert recorded.read(path="mail")["svc_custom_queue_waiting"] == 1


def test_a_function_does_not_overwrite_the_labels() -> None:
    recorded = Recorded()
    for index, fields in enumerate(({"metric": 5, "n": 1}, {"path": ["x"], "n": 1}, {"type": {}, "n": 1}, {"metric": "other", "n": 2})):
        recorded.recorder.record(lambda fields=fields: fields, f"own{index}")
    recorded.close()
    assert {name for name in recorded.read() if "custom" in name} == {f"svc_custom_own{index}_n" for index in range(4)}


def test_names_that_become_the_same_stay_two_metrics() -> None:
    recorded = Recorded()
    for metric in ("a-b", "a_b", "a.b", "ä", "ö", "x" * 250, "x" * 249 + "y"):
        recorded.recorder.record(1.0, metric)
    recorded.recorder.record(True, "a-b")  # one name for two kinds
    recorded.recorder.record(lambda: {"count": 7, "sum": 7, "total": 7}, "a_b")  # ... and names that are those of samples
    recorded.recorder.record(True, "a_b_total")
    recorded.close()
    found = recorded.read()
    assert sum(name.endswith("_count") and value == 1 for name, value in found.items()) == 7
    assert sum(value == 7 for value in found.values()) == 3
    assert len([name for name in recorded.read(value="true") if name.endswith("_total")]) == 2


def test_names_are_found_however_many_are_alike() -> None:
    names = Names()
    assert len({names.new("!", "gauge") for _ in range(50)}) == 50


def test_open_connections_are_none_when_no_entry_says_otherwise() -> None:
    recorded = Recorded()
    count = 2
    recorded.recorder.gauge(lambda: {"connections": count} if count else None, "ws-connections")
    recorded.recorder.record(True, "connection", None, "connect", "ws")
    recorded.close()
    assert recorded.read()["svc_websocket_connections"] == 2
    count = 0
    recorded.recorder.record(True, "connection", None, "disconnect", "ws")
    recorded.close()
    assert recorded.read()["svc_websocket_connections"] == 0
    assert recorded.read(event="disconnect", protocol="ws", ok="true")["svc_connection_events_total"] == 1


def test_the_number_of_label_sets_is_limited(caplog: pytest.LogCaptureFixture) -> None:
    recorded = Recorded(max_label_sets=3)
    with caplog.at_level(logging.WARNING):
        for index in range(5):
            recorded.recorder.record(1.0, "own", f"path-{index}")
        recorded.recorder.record(True, "success", "a", "GET")
        for index in range(100):
            recorded.recorder.record(1.0, f"new-{index}")
        recorded.close()
        recorded.recorder.record(1.0, "own", "path-4")
        recorded.recorder.record(1.0, "own", "path-0")
        recorded.close()
    assert recorded.read(path="path-0")["svc_custom_own_count"] == 2
    assert recorded.read(path="path-4") == {}
    assert recorded.read(path="other", method="other", type="other")["svc_custom_own_count"] == 3
    assert recorded.read(path="other", method="other", type="other", success="true")["svc_requests_total"] == 1
    found = recorded.read()
    assert found["svc_metrics_label_sets"] == 3
    assert found["svc_metrics_overflow_total"] == 2 + 1 + 100 + 1
    assert not [name for name in found if "new" in name]
    assert len(caplog.records) == 1


def test_many_values_are_added_in_steps() -> None:
    recorded = Recorded()
    for index in range(50_000):
        recorded.recorder.record(index / 100, "duration", "a", "GET")
    assert recorded.close() >= 25
    assert recorded.read(path="a", method="GET")["svc_request_duration_seconds_count"] == 50_000


def test_a_period_may_be_added_while_the_text_is_made() -> None:
    recorded = Recorded()
    for index in range(30):
        recorded.recorder.record(1.0, "own", f"path-{index}")
    recorded.recorder.record(True, "yes")
    recorded.close()
    pieces = []
    for step, piece in enumerate(iter_text(recorded.totals.families(), True)):
        pieces.append(piece)
        recorded.recorder.record(1.0, "own", f"later-{step}")
        recorded.recorder.record(1.0, f"new-{step}")
        recorded.recorder.record(True, f"newer-{step}")
        recorded.recorder.request_done(f"Path{step}", "GET", 1.0, 200, 1, 1.0)
        recorded.close()
    assert {family.name for family in parse_openmetrics(b"".join(pieces).decode())} >= {"svc_custom_own", "svc_custom_yes"}
