"""Which nodes there are: records of the registry and of certificates, and the routes of the configuration (spec: replication-nodes §1)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from math import inf
from typing import Any

import msgspec

from svc.cluster.exchange import Exchange, exchange_of
from svc.cluster.identity import KnownNode, Trust, serial_numbers
from svc.errors import ClientError
from svc.store import Database, Store, Table, Transaction
from svc.store.log.entries import DELETE
from svc.store.system import CERTIFICATE_TABLE, NODE_TABLE, SYSTEM, node_certificate_name
from svc.store.values.keys import encode_key, storage_key
from svc.store.values.records import decode, lsn_of
from svc.store.writing.write_set import RemovalReason

_LOOK = 1000  # entries of a record's history
_NEVER = (-inf, "")
_LOCAL = frozenset(("127.0.0.1", "::1"))


class NodeAddress(msgspec.Struct, frozen=True):
    """Of a node's engine."""

    host: str
    port: int


class Registry:
    """As it is now, each time it is asked. `routes`: nodes that are known by the configuration, records as of the registry, whose own counts where it has one
    of that name. `public`: PEM of the public authorities, "" if they are not accepted."""

    def __init__(self, store: Store, node: str, address_of: Callable[[Mapping[str, Any]], NodeAddress | None], *, is_plain: bool) -> None:
        """`node`: the own name. `address_of`: of a record; None: it has no usable address. `is_plain`: nodes are known by their addresses."""
        self.routes: tuple[Mapping[str, Any], ...] = ()
        self.public = ""
        self._store = store
        self._node = node
        self._address_of = address_of
        self._is_plain = is_plain

    def trust(self) -> Trust:
        nodes = self._nodes()
        found = trust_of(self._node, nodes.values(), self._records(CERTIFICATE_TABLE), public=self.public)
        if not self._is_plain:
            return found
        known = dict(found.nodes)
        for name, (address, _) in self._reached(nodes).items():
            known[name] = replace(known[name], addresses=_LOCAL if address.host == "localhost" else frozenset((address.host,)))
        return replace(found, nodes=known)

    def reached(self) -> dict[str, tuple[NodeAddress, Exchange]]:
        """The other nodes that have an address, by name, and what is exchanged with them."""
        return self._reached(self._nodes())

    def _reached(self, nodes: Mapping[str, Mapping[str, Any]]) -> dict[str, tuple[NodeAddress, Exchange]]:
        found = {}
        for name, record in nodes.items():
            address = self._address_of(record) if name != self._node else None
            if address is not None:
                found[name] = address, exchange_of(record)
        return found

    def _nodes(self) -> dict[str, Mapping[str, Any]]:
        """All that is known of nodes, by name: what the registry does not say of one, its route may say. A route may have an address for a name."""
        found: dict[str, Mapping[str, Any]] = {record["name"]: record for record in self._records(NODE_TABLE)}
        taken = [self._address_of(record) for record in found.values()]
        for route in self.routes:
            record = found.get(route["name"])
            if record is not None:
                found[route["name"]] = {**route, **{name: value for name, value in record.items() if value is not None}}
            elif self._address_of(route) not in taken:
                found[route["name"]] = route
        return found

    def _records(self, table: str) -> list[dict[str, Any]]:
        """Those that can be of use: others have written them too."""
        database = self._store.databases[SYSTEM]
        records = (decode(raw) for _, raw in database.tables[table].scan(database.snapshot()))
        return [record for record in records if isinstance(record.get("name"), str)]


def names_brought_back(database: Database, own: str, names: Iterable[str] | None = None) -> list[str]:
    """Of these nodes, or of all but the own one, those that were removed, and of which since then only they themselves have written the record: they had not
    heard of it, or did not want to know."""
    table, snapshot = database.tables[NODE_TABLE], database.snapshot()
    if names is None:
        names = [name for _, raw in table.scan(snapshot) if type(name := table.key_of(raw)) is str]
    return [name for name in names if name != own and _is_brought_back(table, name, snapshot)]


def _is_brought_back(table: Table, name: str, snapshot: Any) -> bool:
    raw = table.get_raw(name, snapshot)
    if raw is None:
        return False
    removed = others = _NEVER
    history = table.database.log.read_record_history(snapshot, table.number, encode_key(name), lsn_of(raw))
    for entry in islice(history, _LOOK):
        if entry.is_copied:
            break
        stamp = entry.version, entry.node
        if entry.kind == DELETE:
            removed = max(removed, stamp)
        elif entry.node != name:
            others = max(others, stamp)
    return removed > others


def remove_again(tables: Mapping[str, Table], transaction: Transaction, name: str) -> None:
    """Collect the removal of what is there of a node now: who adds it before that is applied has decided otherwise."""
    for table, key in ((tables[NODE_TABLE], name), (tables[CERTIFICATE_TABLE], node_certificate_name(name))):
        raw = table.get_raw(key)
        if raw is not None:
            unchanged = RemovalReason(lsn_of(raw), lambda stored, raw: False)
            transaction.delete_stored(table, storage_key(encode_key(key)), raw, unchanged)


def trust_of(node: str, nodes: Iterable[Mapping[str, Any]], certificates: Sequence[Mapping[str, Any]], *, public: str) -> Trust:
    """Who is known by records of the registry and of certificates. `public`: PEM of the public authorities, "" if they are not accepted."""
    known: dict[str, KnownNode] = {}
    for record in nodes:
        name = record["name"]
        if name == node:
            continue
        revoked = _serials(record.get("revoked_certificates"))
        own = tuple(each["certificate"] for each in certificates if each.get("is_authority") is not True and _is_of(each, name))
        known[name] = KnownNode(name, own, revoked, frozenset(), may_read=exchange_of(record).sends)
    authorities = tuple(each["certificate"] for each in certificates if each.get("is_authority") is True and _has_text(each))
    return Trust(node, known, authorities, public)


def _serials(given: Any) -> frozenset[int]:
    """Those that are serial numbers: one that is none leaves the others in force."""
    found: set[int] = set()
    for text in given if isinstance(given, list | tuple) else ():
        try:
            found |= serial_numbers((text,))
        except ClientError:
            continue
    return frozenset(found)


def _is_of(certificate: Mapping[str, Any], name: str) -> bool:
    hosts = certificate.get("hosts")
    is_named = certificate["name"] in (name, node_certificate_name(name))
    return _has_text(certificate) and (is_named or (isinstance(hosts, list) and name in hosts))


def _has_text(certificate: Mapping[str, Any]) -> bool:
    return isinstance(certificate.get("certificate"), str) and certificate["certificate"] != ""
