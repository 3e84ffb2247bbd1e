"""The real server records what it serves (spec: analytics §3)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from svc.store import Store
from svc.store.values.records import decode
from tests.integration.conftest import Process
from tests.support.waiting import wait_until

pytestmark = pytest.mark.programs


def test_requests_and_sockets_are_in_the_raw_rows(tmp_path: Path) -> None:
    server = Process(tmp_path / "root").start()
    try:
        with server.client() as client:
            client.put("/Product/1", json={"name": "x"})
            for _ in range(5):
                assert client.get("/Product/1").status_code == 200
            assert client.get("/Product/none").status_code == 404
            assert client.head("/Product/1").status_code == 200
            assert client.get("/no-resource/1").status_code == 404
            assert server.operate("describe_all").status_code == 200
            for name in ("no_such_operation", "another"):
                assert server.operate(name).status_code >= 400
            assert server.operate("describe_all", auth=("admin", "wrong")).status_code == 401
            with client.stream("GET", "/Product/1", headers={"accept": "text/event-stream"}) as events:
                assert "data" in next(chunk for chunk in events.iter_text() if "data" in chunk)
            wait_until(lambda: min(_socket_bytes(server).values()) > 500, lambda: _socket_bytes(server), pause=0.1)  # counted once a second
        assert server.stop() == 0
    finally:
        server.kill()
    store = Store(tmp_path / "root" / "database")
    table = store.databases["system"].tables["svc_raw_analytics"]
    rows = [decode(raw) for _, raw in table.scan(table.database.snapshot())]
    store.close()
    assert [row["id"] for row in rows] == sorted({row["id"] for row in rows})

    def entries(metric: str, **labels: str) -> list[dict[str, Any]]:
        found = [entry for row in rows for entry in row["metrics"] if entry["metric"] == metric]
        return [entry for entry in found if all(entry.get(name) == value for name, value in labels.items())]

    def count(metric: str, **labels: str) -> int:
        return sum(e["count"] for e in entries(metric, **labels))

    assert count("duration", path="Product", method="GET") == 7  # with the stream of events
    successes = entries("success", path="Product", method="GET")
    assert (sum(e["count"] for e in successes), sum(e["total"] for e in successes)) == (7, 6)
    assert (count("response_200", path="Product", method="GET"), count("response_404", path="Product", method="GET")) == (6, 1)
    assert count("duration", method="HEAD") == 1 and not entries("bytes-sent", method="HEAD") and not entries("transfer", method="HEAD")
    assert [entry.get("path") for entry in entries("response_404", method="GET") if entry.get("path") != "Product"] == [None]
    of_operations = {
        (e["metric"], e.get("path"), e.get("type")) for e in entries("duration") + entries("transfer") if e.get("method") == "operation"
    }
    names = ("describe_all", "search_by_conditions", "unknown")
    assert of_operations == {(metric, name, None) for metric in ("duration", "transfer") for name in names}
    assert count("duration", path="unknown", method="operation") == 2
    assert count("response_401", method="POST") == 1
    assert {e["type"] for e in entries("transfer", path="Product")} == {"operation"}
    assert sum(e["count"] for e in entries("duration", path="Product", method="PUT")) == 1
    assert count("bytes-sent", path="Product", method="GET") == 7
    accepted = entries("socket-routed")
    assert sum(e["count"] for e in accepted) >= 1
    assert all(e["total"] == e["count"] for e in accepted)
    assert entries("utilization")
    assert entries("memory")


def _socket_bytes(server: Process) -> dict[str, float]:
    """The bytes that connections have received and sent, as the rows say so far."""
    found = {"received": 0.0, "sent": 0.0}
    for row in server.operate("search_by_conditions", schema="system", table="svc_raw_analytics", query="").json():
        for entry in row["metrics"]:
            if entry["metric"] == "socket-bytes":
                found[entry["type"]] += entry["mean"] * entry["count"]
    return found
