"""How replication with each node stands: what `cluster_status` shows, and nodes tell each other (spec: replication-nodes §4)."""

from __future__ import annotations

from email.utils import formatdate
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from svc.cluster.inbox import Inbox
    from svc.cluster.peer import Peer
    from svc.cluster.positions import Lag
    from svc.cluster.replication import Replication


class NodeState(msgspec.Struct, frozen=True):
    """What a node says of its connections. `connected_nodes`: names. `has_caught_up`: it has applied all that it knows others to have."""

    connected_nodes: list[str]
    routes: list[Any]
    has_caught_up: bool = True


def state_of(replication: Replication, routes: list[Any]) -> NodeState:
    return NodeState(connected_nodes(replication), routes, next(replication.positions.missing(), None) is None)


def connected_nodes(replication: Replication) -> list[str]:
    return sorted(name for name, peer in replication.peers.items() if peer.is_connected)


def status_of(replication: Replication, peer: Peer) -> dict[str, Any]:
    """Of one node: `connected`, `reason` if it is not, `version` that it has, `database_sockets`."""
    known = replication.positions.node(peer.name)
    found: dict[str, Any] = {"connected": peer.is_connected}
    if not peer.is_connected:
        found["reason"] = peer.link.fault or "it is being connected"
    if known is not None and known.version:
        found["version"] = known.version
    latency = None if known is None or known.latency is None or not peer.is_connected else round(known.latency * 1000, 3)
    found["database_sockets"] = [
        _socket(replication, peer, inbox, latency) for name, inbox in sorted(peer.inboxes.items()) if name in replication.outboxes
    ]
    return found


def _socket(replication: Replication, peer: Peer, inbox: Inbox, latency: float | None) -> dict[str, Any]:
    name = inbox.database.name
    positions = replication.positions.positions(peer.name, name)
    outbox = replication.outboxes[name]
    found: dict[str, Any] = {
        "database": name,
        "connected": peer.is_connected and inbox.is_reading,
        "latency": latency,
        "thread_id": 0,
        "nodes": [peer.name],
        "lastCommitConfirmed": _http_date(positions.confirmed_at),
        "lastReceivedRemoteTime": _http_date(positions.received_remote),
        "lastReceivedLocalTime": _http_date(positions.received_local),
        "lastSendTime": _http_date(outbox.sent_at or None),
        "lag": _lag(positions.here),
        "lagThere": _lag(positions.there),
        "uniqueConflicts": inbox.figures.conflicts,
    }
    if outbox.published >= 0 and outbox.published < outbox.database.log.newest_lsn(outbox.database.snapshot()):
        found["sendingMessage"] = True
    if peer.is_connected and not inbox.is_reading and inbox.reason:
        found["reason"] = inbox.reason
    if inbox.needs_copy:
        found["needsCopy"] = True
    database = replication.databases.get(name)
    copying = None if database is None else database.copying
    if copying is not None and copying.status is not None and copying.status.node == peer.name:
        found["copying"] = {"bytes": copying.status.done, "ofBytes": copying.status.total}
    elif inbox.needs_copy and copying is not None and copying.reason:
        found["reason"] = copying.reason
    return found


def _lag(lag: Lag) -> dict[str, Any]:
    """ms."""
    return {"entries": lag.entries, "ms": None if lag.seconds is None else round(lag.seconds * 1000, 1)}


def _http_date(seconds: float | None) -> str | None:
    """None: never."""
    return None if seconds is None else formatdate(seconds, usegmt=True)
