"""What `/metrics` shows of replication (spec: analytics §10), read at the time of the request. Only the process that replicates has it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol

from svc.analytics.exposition import COUNTER, GAUGE, Counter, Family, Gauge, Series, label_text
from svc.cluster.positions import Lag, OwnLog
from svc.errors import Problem
from svc.store.writing.remote_write import MergeFigures


class ReadLog(Protocol):
    """`inbox.Inbox`."""

    reason: str
    needs_copy: bool
    figures: MergeFigures


class ReadNode(Protocol):
    """`peer.Peer`."""

    @property
    def is_connected(self) -> bool: ...
    @property
    def inboxes(self) -> Mapping[str, ReadLog]: ...


class Lags(Protocol):
    """`positions.Positions`."""

    def lag(self, node: str, database: str) -> tuple[Lag, Lag]: ...


class PublishedLog(OwnLog, Protocol):
    """`outbox.Outbox`."""

    reason: str


def replication_families(logs: Mapping[str, PublishedLog], nodes: Mapping[str, ReadNode], lags: Lags, refused: int) -> list[Family]:
    """`logs`: of this node by database, `nodes`: the others. `refused`: connections to the own engine that were."""
    connected: list[Series] = []
    reading: list[Series] = []
    writes: list[Series] = []
    conflicts: list[Series] = []
    entries: list[Series] = []
    seconds: list[Series] = []
    for node, other in nodes.items():
        connected.append(Gauge(label_text([("node", node)]), int(other.is_connected)))
        for database, log in other.inboxes.items():
            names = [("node", node), ("database", database)]
            labels = label_text(names)
            reading.append(Gauge(labels, int(other.is_connected and not log.reason and not log.needs_copy)))
            figures = log.figures
            in_order = figures.writes - figures.late
            for outcome, count in (("in_order", in_order), ("merged", figures.late - figures.void), ("void", figures.void)):
                writes.append(Counter(f'{labels},outcome="{outcome}"', None, max(count, 0)))
            conflicts.append(Counter(labels, None, figures.conflicts))
            for direction, lag in zip(("received", "sent"), lags.lag(node, database), strict=True):
                if lag.entries is not None and lag.seconds is not None:
                    entries.append(Gauge(f'{labels},direction="{direction}"', lag.entries))
                    seconds.append(Gauge(f'{labels},direction="{direction}"', lag.seconds))
    found = [(label_text([("database", name)]), log) for name, log in logs.items()]
    publishing: list[Series] = [Gauge(labels, int(log.published >= 0 and not log.reason)) for labels, log in found]
    backlog: list[Series] = [Gauge(labels, count) for labels, log in found for count in _backlog(log)]
    return [
        Family("svc_replication_connected", GAUGE, "1 while there is a connection to the engine of a node.", connected),
        Family("svc_replication_reading", GAUGE, "1 while what a node writes to a database can be read.", reading),
        Family("svc_replication_publishing", GAUGE, "1 while what this node writes to a database can be published.", publishing),
        Family("svc_replication_lag_entries", GAUGE, "Log entries of a node that are not applied here, or of this one there.", entries),
        Family("svc_replication_lag_seconds", GAUGE, "For how long some have been missing.", seconds, "seconds"),
        Family("svc_replication_backlog_entries", GAUGE, "Log entries that have not been looked at for publishing.", backlog),
        Family("svc_replication_applied_writes", COUNTER, "Writes of a node that were applied, by what became of them.", writes),
        Family("svc_replication_unique_conflicts", COUNTER, "Values of unique attributes that two records have got.", conflicts),
        Family(
            "svc_replication_refused_connections", COUNTER, "Connections to the own engine that were refused.", [Counter("", None, refused)]
        ),
    ]


def _backlog(log: PublishedLog) -> Iterator[int]:
    """Nothing of a database that cannot be read."""
    if log.published >= 0:
        try:
            yield max(log.database.log.newest_lsn(log.database.snapshot()) - log.published, 0)
        except Problem:
            pass
