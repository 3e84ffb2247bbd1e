"""svc.cluster.figures: what `/metrics` shows of replication."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from svc.analytics.exposition import iter_text
from svc.cluster.figures import replication_families
from svc.cluster.positions import Lag
from svc.store import Store
from svc.store.writing.remote_write import MergeFigures


def test_families(tmp_path: Path) -> None:
    store = Store(tmp_path, node="a")
    database = store.open_database("data")
    log: Any = SimpleNamespace(database=database, published=-1, sent=-1, incarnation=b"", reason="")
    figures = MergeFigures(writes=10, late=4, void=1, conflicts=2, found=[])
    b: Any = SimpleNamespace(is_connected=True, inboxes={"data": SimpleNamespace(reason="", needs_copy=False, figures=figures)})
    c: Any = SimpleNamespace(
        is_connected=False, inboxes={"data": SimpleNamespace(reason="", needs_copy=False, figures=MergeFigures(found=[]))}
    )
    lags: Any = SimpleNamespace(
        lag=lambda node, database: (Lag(3, 1.5), Lag(0, 0.0)) if node == "b" else (Lag(None, None), Lag(None, None))
    )

    def lines() -> list[str]:
        families = replication_families({"data": log}, {"b": b, "c": c}, lags, 7)
        return b"".join(iter_text(families, openmetrics=False)).decode().split("\n")

    found = lines()
    for line in (
        'svc_replication_connected{node="b"} 1',
        'svc_replication_connected{node="c"} 0',
        'svc_replication_reading{node="b",database="data"} 1',
        'svc_replication_reading{node="c",database="data"} 0',
        'svc_replication_publishing{database="data"} 0',
        'svc_replication_lag_entries{node="b",database="data",direction="received"} 3',
        'svc_replication_lag_seconds{node="b",database="data",direction="received"} 1.5',
        'svc_replication_lag_entries{node="b",database="data",direction="sent"} 0',
        'svc_replication_applied_writes_total{node="b",database="data",outcome="in_order"} 6',
        'svc_replication_applied_writes_total{node="b",database="data",outcome="merged"} 3',
        'svc_replication_applied_writes_total{node="b",database="data",outcome="void"} 1',
        'svc_replication_unique_conflicts_total{node="b",database="data"} 2',
        "svc_replication_refused_connections_total 7",
    ):
        assert line in found, line
    assert not [line for line in found if "lag" in line and 'node="c"' in line], "nothing was heard of it"
    assert not [line for line in found if line.startswith("svc_replication_backlog_entries{")]
    log.published = 0
    b.inboxes["data"].needs_copy = True
    found = lines()
    assert f'svc_replication_backlog_entries{{database="data"}} {database.log.last_lsn}' in found
    assert 'svc_replication_publishing{database="data"} 1' in found and 'svc_replication_reading{node="b",database="data"} 0' in found
    store.close()
