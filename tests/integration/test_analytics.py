"""The real server records what it serves (spec: analytics §3)."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from svc.store import Store
from svc.store.values.records import decode
from tests.integration.conftest import Process


def test_requests_and_sockets_are_in_the_raw_rows(tmp_path: Path) -> None:
    server = Process(tmp_path / "root").start()
    try:
        with server.client() as client:
            client.put("/Product/1", json={"name": "x"})
            for _ in range(5):
                assert client.get("/Product/1").status_code == 200
            assert client.get("/Product/none").status_code == 404
        time.sleep(2.5)  # rows are written once a second
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

    assert sum(e["count"] for e in entries("duration", path="Product", method="GET")) == 6
    successes = entries("success", path="Product", method="GET")
    assert (sum(e["count"] for e in successes), sum(e["total"] for e in successes)) == (6, 5)
    assert sum(e["count"] for e in entries("duration", path="Product", method="PUT")) == 1
    assert sum(e["count"] for e in entries("bytes-sent", path="Product", method="GET")) == 6
    accepted = entries("socket-routed")
    assert sum(e["count"] for e in accepted) >= 1
    assert all(e["total"] == e["count"] for e in accepted)
    assert sum(e["mean"] * e["count"] for e in entries("socket-bytes", type="received")) > 500
    assert sum(e["mean"] * e["count"] for e in entries("socket-bytes", type="sent")) > 500
    assert entries("utilization")
    assert entries("memory")
