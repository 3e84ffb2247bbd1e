"""How replication with each node stands: what `cluster_status` shows, and nodes tell each other (spec: replication-nodes §4)."""

from __future__ import annotations

from email.utils import formatdate
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from svc.cluster.inbox import Inbox
    from svc.cluster.peer import Peer
    from svc.cluster.replication import Replication
    from svc.store.database import Database


class DatabaseState(msgspec.Struct, frozen=True):
    """Of a database on the node that tells: `newest`: LSN of the last entry of its log. `published`: up to where its stream has all of it. `incarnation`:
    hexadecimal digits. `applied`: of the node that asks, up to where its entries are applied here, by name of the origin."""

    incarnation: str
    newest: int
    published: int


class NodeState(msgspec.Struct, frozen=True):
    """`databases`: by name. `connected_nodes`: names."""

    databases: dict[str, DatabaseState]
    connected_nodes: list[str]
    routes: list[Any]


def connected_nodes(replication: Replication) -> list[str]:
    return sorted(name for name, peer in replication.peers.items() if peer.link.connection is not None)


def database_states(replication: Replication) -> dict[str, DatabaseState]:
    return {name: _state(outbox.database, outbox.published) for name, outbox in replication.outboxes.items()}


def _state(database: Database, published: int) -> DatabaseState:
    assert database.replication is not None
    snapshot = database.snapshot()
    return DatabaseState(database.replication.incarnation(snapshot).hex(), database.log.newest_lsn(snapshot), published)


def status_of(replication: Replication, peer: Peer, state: NodeState | None, latency: float | None) -> dict[str, Any]:
    """`connected`, `reason` and `database_sockets`. `state`: what the node says of itself now, None: it says nothing. `latency`: seconds."""
    connected = peer.link.connection is not None
    found: dict[str, Any] = {
        "connected": connected,
        "database_sockets": [_socket(replication, peer, inbox, state, latency) for _, inbox in sorted(peer.inboxes.items())],
    }
    if not connected:
        found["reason"] = peer.link.fault or "it is being connected"
    return found


def _socket(replication: Replication, peer: Peer, inbox: Inbox, state: NodeState | None, latency: float | None) -> dict[str, Any]:
    name = inbox.database.name
    connected = peer.link.connection is not None
    found: dict[str, Any] = {
        "database": name,
        "connected": connected and not inbox.reason,
        "latency": None if latency is None else round(latency * 1000, 3),
        "thread_id": 0,
        "nodes": [peer.name],
        "lastReceivedRemoteTime": _http_date(inbox.committed_ms),
        "lastReceivedLocalTime": _http_date(inbox.received_ms),
    }
    outbox = replication.outboxes.get(name)
    found["lastSendTime"] = _http_date(0.0 if outbox is None else outbox.sent_ms)
    reason = peer.link.fault if not connected else inbox.reason
    if reason:
        found["reason"] = reason
    if inbox.needs_copy:
        found["needsCopy"] = True
    there = None if state is None else state.databases.get(name)
    if there is not None and there.incarnation == inbox.incarnation:
        found["behind"] = max(there.newest - inbox.applied, 0)
    return found


def _http_date(ms: float) -> str | None:
    """None: never."""
    return formatdate(ms / 1000, usegmt=True) if ms else None
