"""Two nodes become known to each other: `add_node` with credentials of the other one (spec: replication-nodes §2).

    this node                                        the other one
    cluster_status                          ->       it is an svc that replicates; its name
    search_by_value svc_nodes, ..certificate ->      its address and certificate, and which nodes it knows
    all of it is checked here: nothing has been written yet
    add_node: this node's name, address, certificate -> checked there, and written
    written here; if that fails             ->       remove_node

The certificate of a node comes with that of its authority where the node has made it itself, so that a renewed one is accepted. Either vouches for that node
alone (`svc.cluster.identity`).
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from svc.errors import ClientError, Problem, ServerError
from svc.operations.cluster_nodes import node_of, record_of, same_address, split_address
from svc.operations.fields import bad_request
from svc.operations.node_client import NodeClient, NotReached, client_context, header_of, operations_address
from svc.store import Store, Table, Transaction
from svc.store.system import CERTIFICATE_TABLE, NODE_TABLE, SYSTEM, node_certificate_name
from svc.store.values.conversion import printable
from svc.store.values.records import decode

if TYPE_CHECKING:
    from svc.operations.call import Call
    from svc.operations.node import Node

REPLICATION_USE = "replication"
"""What a certificate of a node is for: no server shows it."""
_MOST = 1000  # records of the other node that are read


class NodeEntry(msgspec.Struct, frozen=True):
    """What nodes tell each other of one. `certificate`: PEM, its own first."""

    name: str
    url: str
    certificate: str


def table_of(store: Store, name: str) -> Table:
    return store.databases[SYSTEM].tables[name]


def own_entry(node: Node) -> NodeEntry:
    """Of this node. Raises 503 before it has entered itself into its registry, 501 if nodes have no certificates."""
    record = table_of(node.store, NODE_TABLE).get_raw(node.name)
    if record is None:
        raise ServerError("This node does not replicate yet; its log says why", 503)
    certificate = table_of(node.store, CERTIFICATE_TABLE).get_raw(node_certificate_name(node.name))
    if certificate is None:
        raise ServerError("Certificates are not exchanged over a plain port ('replication.port'), nor with 'replication.servers'", 501)
    return NodeEntry(node.name, decode(record)["url"], decode(certificate)["certificate"])


# --- what is checked --------------------------------------------------------------------------------------------------------------------


def check_certificate(text: str, name: str, now: float, what: str = "'certificate'") -> None:
    """That a PEM text begins with a certificate of the node `name` that is valid `now`. Raises 400."""
    from svc.tls.certificates import names_of, read_chain

    leaf = read_chain(text.encode(errors="replace"), what)[0]
    names = names_of(leaf)
    if name not in names:
        shown = ", ".join(f"'{printable(each)}'" for each in names[:3]) or "nobody"
        raise bad_request(f"{what} is of {shown}, not of the node '{name}': 'replication.hostname' has to be one of its names")
    moment = datetime.datetime.fromtimestamp(now, datetime.UTC)
    if leaf.not_valid_after_utc <= moment:
        raise bad_request(f"{what} of the node '{name}' has expired, on {leaf.not_valid_after_utc:%Y-%m-%d}")
    if leaf.not_valid_before_utc > moment:
        raise bad_request(f"{what} of the node '{name}' is not valid before {leaf.not_valid_before_utc:%Y-%m-%d}: compare the clocks")


def check_name(node: Node, name: str) -> None:
    """That another node may have this name. Raises 409."""
    if name.lower() == node.name.lower():
        raise ClientError(f"'{name}' is this node: two nodes cannot have one name", 409)


def check_entry(node: Node, entry: NodeEntry, what: str = "'certificate'", *, moves: bool = False) -> None:
    """That this node can take another one under its name. `moves`: it may have had another address. Raises 400, 409. Blocks for a millisecond."""
    check_name(node, entry.name)
    check_certificate(entry.certificate, entry.name, node.clock.wall(), what)
    raw = table_of(node.store, NODE_TABLE).get_raw(entry.name)
    known = None if raw is None else decode(raw).get("url")
    if not moves and known is not None and not same_address(known, entry.url):
        raise ClientError(f"The name '{entry.name}' is that of the node at {known}: use 'update_node' if it has moved there", 409)


# --- writing ------------------------------------------------------------------------------------------------------------------------------


def put_certificate(store: Store, transaction: Transaction, name: str, text: str) -> None:
    from svc.tls.certificates import details_of, is_self_signed, read_certificate

    leaf = read_certificate(text.encode(errors="replace"), "'certificate'")
    record = {
        "certificate": text,
        "is_authority": False,
        "is_self_signed": is_self_signed(leaf),
        "details": details_of(leaf),
        "hosts": [name],
        "uses": [REPLICATION_USE],
    }
    table, key = table_of(store, CERTIFICATE_TABLE), node_certificate_name(name)
    transaction.put(table, key, table.validator.record({"name": key, **record}))


def delete_certificate(node: Node, transaction: Transaction, name: str) -> None:
    table, key = table_of(node.store, CERTIFICATE_TABLE), node_certificate_name(name)
    if table.get_raw(key) is not None:
        transaction.delete(table, key)


# --- the exchange -------------------------------------------------------------------------------------------------------------------------


class OtherNode(msgspec.Struct):
    """What another node has said of itself and others. `of_this`: what it knows of this one. `others`: nodes that are not known here."""

    entry: NodeEntry
    of_this: NodeEntry | None
    others: list[NodeEntry]


class Exchange:
    """With one other node. Nothing is written here before `record` is stored by the caller; `undo` if it cannot be."""

    def __init__(self, node: Node, client: NodeClient) -> None:
        self._node = node
        self._client = client
        self._added = False

    @property
    def where(self) -> str:
        return str(self._client.address)

    async def look(self, wanted: str | None, url: str | None, *, moves: bool) -> OtherNode:
        """What the other node says, checked. `wanted`: the name it must have. `url`: of its exchange port, if that is known better. Raises Problem."""
        status = await self._client.operate("cluster_status")
        if not isinstance(status, Mapping) or status.get("type") != "cluster-status":
            raise NotReached(f"What answers at {self.where} is no svc")
        name = status.get("node_name")
        if status.get("is_enabled") is not True:
            raise NotReached(
                f"The node at {self.where} does not replicate: it needs a section 'replication' in its configuration, and a version that has it"
            )
        if not isinstance(name, str) or not name:
            raise NotReached(f"What answers at {self.where} has no name")
        if wanted is not None and name.lower() != wanted.lower():
            raise NotReached(
                f"The node at {self.where} is '{printable(name)}', not '{wanted}': give its name as 'hostname', its address as 'url'"
            )
        check_name(self._node, name)
        entries = await self._read_entries()
        entry = entries.pop(name, None)
        if entry is None:
            raise NotReached(
                f"The node '{printable(name)}' at {self.where} has not entered its address and certificate yet; its log says why"
            )
        if url is not None:
            entry = NodeEntry(name, url, entry.certificate)
        check = partial(check_entry, self._node, entry, f"The certificate that {self.where} shows for replication", moves=moves)
        await self._node.loop.run_in_executor(self._node.executor, check)
        own = self._node.name
        table = table_of(self._node.store, NODE_TABLE)
        others = [each for each in entries.values() if each.name.lower() != own.lower() and table.get_raw(each.name) is None]
        return OtherNode(entry, entries.get(own), others)

    async def _read_entries(self) -> dict[str, NodeEntry]:
        """The nodes that the other one knows, itself among them, as far as they have an address and a certificate."""
        urls = {record["name"]: record.get("url") for record in await self._records(NODE_TABLE)}
        certificates = {record["name"]: record.get("certificate") for record in await self._records(CERTIFICATE_TABLE)}
        found = {}
        for name, url in urls.items():
            certificate = certificates.get(node_certificate_name(name))
            if isinstance(url, str) and split_address(url) is not None and isinstance(certificate, str):
                found[name] = NodeEntry(name, url, certificate)
        return found

    async def _records(self, table: str) -> list[Mapping[str, Any]]:
        found = await self._client.operate(
            "search_by_value", database=SYSTEM, table=table, attribute="name", value="*", get_attributes=["*"], limit=_MOST
        )
        if not isinstance(found, list):
            raise NotReached(f"What answers at {self.where} is no svc")
        return [each for each in found if isinstance(each, Mapping) and isinstance(each.get("name"), str)]

    async def introduce(self, known: NodeEntry | None) -> None:
        """Tell the other node of this one. `known`: what it knows already. Raises Problem."""
        own = own_entry(self._node)
        if known == own:
            return
        operation = "add_node" if known is None else "update_node"
        await self._client.operate(operation, hostname=own.name, url=own.url, certificate=own.certificate)
        self._added = known is None

    async def undo(self) -> None:
        """Let it forget this one again, if it did not know it before."""
        if not self._added:
            return
        self._added = False
        try:
            await self._client.operate("remove_node", hostname=self._node.name)
        except Problem as error:
            self._node.logs.logger.error("the node at", self.where, "knows this one now, and this one not it:", error.message)


class ExchangeOutcome(msgspec.Struct):
    """`record`: what the registry is to have of the other node."""

    exchange: Exchange
    other: OtherNode
    record: dict[str, Any]


def _authorities(node: Node) -> list[str]:
    table = table_of(node.store, CERTIFICATE_TABLE)
    records = (decode(raw) for _, raw in table.scan(table.database.snapshot()))
    return [record["certificate"] for record in records if record.get("is_authority") and isinstance(record.get("certificate"), str)]


async def open_exchange(call: Call, arguments: Mapping[str, Any], prefix: str = "") -> Exchange:
    """With the node that a body of `add_node` names, as the user it has credentials of. Raises 400."""
    _, url = node_of(arguments, prefix)
    address = operations_address(url)
    if address is None:
        raise bad_request(f"{prefix}'url' must be https:// or wss://: credentials are not sent to another machine without TLS")
    authorization = header_of(arguments["authorization"])
    if not authorization.isprintable() or not authorization.isascii():
        raise bad_request(f"{prefix}'authorization' must be the value of a header")
    verify = arguments.get("verify_tls") is not False
    context = None
    if address.secure:
        authorities = _authorities(call.node)
        context = await call.on_helper(partial(client_context, authorities, verify=verify))
    return Exchange(call.node, NodeClient(address, context, authorization))


async def exchange(call: Call, arguments: Mapping[str, Any], prefix: str = "", *, moves: bool = False) -> ExchangeOutcome:
    """Both nodes know each other, but for what this one has to store. Raises Problem: then nothing has changed."""
    own_entry(call.node)
    found = await open_exchange(call, arguments, prefix)
    given_url = arguments.get("url")
    wanted = arguments.get("hostname") or arguments.get("node_name") or arguments.get("name")
    address = None if wanted is None else split_address(wanted)
    is_exchange = given_url is not None and given_url.lower().startswith(("wss:", "ws:"))
    other = await found.look(None if address is None else address[0], given_url if is_exchange else None, moves=moves)
    await found.introduce(other.of_this)
    record = {**record_of(arguments, prefix), "name": other.entry.name, "url": other.entry.url}
    return ExchangeOutcome(found, other, record)


def store_exchange(node: Node, transaction: Transaction, other: OtherNode, record: dict[str, Any], *, with_others: bool = True) -> None:
    """Write what `exchange` has found. `with_others`: also the nodes that the other one knows."""
    table = table_of(node.store, NODE_TABLE)
    transaction.patch(table, record["name"], record)
    put_certificate(node.store, transaction, other.entry.name, other.entry.certificate)
    for each in other.others if with_others else ():
        try:
            check_entry(node, each)
        except Problem as error:
            node.logs.logger.warn("the node", printable(each.name), "that", other.entry.name, "knows is not taken:", error.message)
            continue
        transaction.patch(table, each.name, {"name": each.name, "url": each.url})
        put_certificate(node.store, transaction, each.name, each.certificate)
