"""Other nodes: the registry and the routes (spec: operations §12).

The registry and the routes are real on a node of its own as well; nothing is copied, and `cluster_status` says so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from inspect import isawaitable
from typing import Any

from svc.errors import ClientError, NotFound, Problem, Refusal
from svc.operations.call import Call, find_database
from svc.operations.cluster_nodes import (
    MAX_SHARD,
    checked_subscriptions,
    is_nats,
    merged_subscriptions,
    node_of,
    nodes_of_routes,
    record_of,
)
from svc.operations.cluster_routes import cluster_delete_routes, cluster_get_routes, cluster_set_routes, read_routes
from svc.operations.fields import DATABASE, Field, bad_request, read_fields
from svc.operations.node import Node
from svc.operations.node_exchange import (
    ExchangeOutcome,
    NodeEntry,
    check_entry,
    delete_certificate,
    exchange,
    put_certificate,
    store_exchange,
)
from svc.operations.operation import NEVER_GRANTED, SUPER_USER, Operation
from svc.operations.replication_control import ReplicationControl
from svc.store import Table, Transaction
from svc.store.system import NODE_TABLE, SYSTEM
from svc.store.values.records import decode
from svc.store.writing.write_set import Decide

_UPSERT = 3  # of `store.log.OPERATIONS`
MAX_NODES = 1000  # of the registry
NETWORK_SECONDS = 5.0  # for which `cluster_network` waits for the others
MAX_NETWORK_MS = 60_000.0


# --- the registry -------------------------------------------------------------------------------------------------------------------------


def _table(node: Node) -> Table:
    return node.store.databases[SYSTEM].tables[NODE_TABLE]


def known_nodes(node: Node) -> list[dict[str, Any]]:
    """The records of the registry by name, this node's own left out."""
    table = _table(node)
    records = (decode(raw) for _, raw in table.scan(table.database.snapshot()))
    return [record for record in records if isinstance(record.get("name"), str) and record["name"] != node.name]


def _known_name(node: Node, name: str) -> str | None:
    """The name of a known node as the registry writes it; None: it is not known."""
    if _table(node).get_raw(name) is not None:
        return name
    return next((each["name"] for each in known_nodes(node) if each["name"].lower() == name.lower()), None)


def _put(call: Call, transaction: Transaction, record: dict[str, Any], decide: Decide | None = None) -> None:
    table = _table(call.node)
    if record["name"].lower() == call.node.name.lower():
        raise bad_request(f"'{record['name']}' is this node")
    transaction.put(table, record["name"], record if decide is not None else table.validator.record(record), decide=decide)


def _check_size(node: Node, more: int) -> None:
    table = _table(node)
    if table.entry_count(table.database.snapshot()) + more > MAX_NODES:
        raise bad_request(f"A cluster has at most {MAX_NODES} nodes")


def _where(call: Call) -> str:
    return "manifest" if is_nats(call.body) else "cluster"


def add_node(call: Call) -> Any:
    def done(name: str) -> str:
        return f"Successfully added '{name}' to {_where(call)}"

    if _is_exchanged(call.node, call.arguments):
        return _exchange(call, done)
    record = record_of(call.arguments)
    _check_size(call.node, 1)
    transaction = call.begin(_UPSERT)
    if call["certificate"] is not None:
        check_entry(call.node, NodeEntry(record["name"], record["url"], call["certificate"]))
        put_certificate(call.node.store, transaction, record["name"], call["certificate"])
    _put(call, transaction, record)
    return call.commit(transaction, lambda: done(record["name"]))


def update_node(call: Call) -> Any:
    if _is_exchanged(call.node, call.arguments):
        return _exchange(call, lambda name: f"Successfully updated '{name}'", moves=True)
    record = record_of(call.arguments)
    return _update(call, record["name"], lambda known: record, call["certificate"])


def _is_exchanged(node: Node, arguments: Mapping[str, Any]) -> bool:
    """Whether the other node is asked, and told of this one."""
    return node.replication is not None and arguments.get("authorization") is not None


async def _exchange(call: Call, done: Callable[[str], str], *, moves: bool = False) -> Any:
    _check_size(call.node, 1)
    found = await exchange(call, call.arguments, moves=moves)
    try:
        transaction = call.begin(_UPSERT)
        store_exchange(call.node, transaction, found.other, found.record)
        answer = call.commit(transaction, lambda: done(found.record["name"]))
        return await answer if isawaitable(answer) else answer
    except BaseException:
        await found.exchange.undo()
        raise


def set_node_replication(call: Call) -> Any:
    name, url = node_of(call.arguments)
    given = checked_subscriptions(call["subscriptions"])

    def changed(known: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "name": name,
            "url": known.get("url") or url,
            "subscriptions": merged_subscriptions(known.get("subscriptions") or (), given),
        }

    return _update(call, name, changed)


def _update(call: Call, name: str, changed: Callable[[Mapping[str, Any]], dict[str, Any]], certificate: str | None = None) -> Any:
    """Change what is known of a node when it is written. `changed`: the new properties, given the record that is there, empty if there is none."""
    known_name = _known_name(call.node, name)
    if known_name is None:
        _check_size(call.node, 1)
    name = known_name or name
    table = _table(call.node)

    def decide(record: dict[str, Any], stored: Mapping[str, Any] | None) -> dict[str, Any]:
        known = stored or {}
        merged = {**known, **changed(known), "name": name}
        if call["url"] is None and "url" in known:
            merged["url"] = known["url"]
        return table.validator.record(merged)

    transaction = call.begin(_UPSERT)
    if certificate is not None:
        check_entry(call.node, NodeEntry(name, "", certificate), moves=True)
        put_certificate(call.node.store, transaction, name, certificate)
    _put(call, transaction, {"name": name}, decide)
    return call.commit(transaction, lambda: f"Successfully updated '{name}'")


def remove_node(call: Call) -> Any:
    wanted, _ = node_of(call.arguments)
    return _removed(call, wanted) if call.node.replication is None else _remove_unless_routed(call, wanted)


async def _remove_unless_routed(call: Call, wanted: str) -> Any:
    routes = await call.on_helper(partial(read_routes, call.node.config))
    if any(each["name"].lower() == wanted.lower() for each in nodes_of_routes(routes)):
        raise ClientError(
            f"'{wanted}' is in 'replication.routes', by which it is known too: first delete that route ('cluster_delete_routes')", 409
        )
    return _removed(call, wanted)


def _removed(call: Call, wanted: str) -> Any:
    name = _known_name(call.node, wanted)
    if name is None:
        raise NotFound(f"Node '{wanted}' was not found")
    transaction = call.begin()
    _remove(call, transaction, name)
    return call.commit(transaction, lambda: f"Successfully removed '{name}' from {_where(call)}")


def _remove(call: Call, transaction: Transaction, name: str) -> None:
    """A node with what vouches for it: it is cut off as soon as this is on the disk."""
    if call.node.replication is not None and name.lower() == call.node.name.lower():
        raise bad_request(f"'{name}' is this node: remove it from the others")
    transaction.delete(_table(call.node), name)
    delete_certificate(call.node, transaction, name)


def configure_cluster(call: Call) -> Any:
    if len(call["connections"]) > MAX_NODES:
        raise bad_request(f"A cluster has at most {MAX_NODES} nodes")
    bodies: dict[str, dict[str, Any]] = {}
    exchanged: list[tuple[str, dict[str, Any]]] = []
    for number, body in enumerate(call["connections"]):
        prefix = f"'connections[{number}]': "
        try:
            arguments = read_fields(body, NODE_FIELDS)
            record = record_of(arguments, prefix)
        except ClientError as error:
            raise bad_request(error.message if error.message.startswith(prefix) else prefix + error.message) from error
        if _is_exchanged(call.node, arguments):
            exchanged.append((prefix, arguments))
        elif record["name"] in bodies:
            raise bad_request(f"{prefix}'{record['name']}' is named twice")
        else:
            bodies[record["name"]] = arguments
    return _configure(call, bodies, exchanged) if exchanged else _replace(call, bodies, [], [])


async def _configure(call: Call, bodies: Mapping[str, dict[str, Any]], given: list[tuple[str, dict[str, Any]]]) -> Any:
    """With nodes that are asked first: those that fail keep the entry they have."""
    failed: list[dict[str, str]] = []
    done: list[ExchangeOutcome] = []
    kept: list[str] = []
    for prefix, arguments in given:
        name = node_of(arguments, prefix)[0]
        try:
            outcome = await exchange(call, arguments, prefix, moves=True)
        except Problem as error:
            failed.append({"node": name, "error": error.message.removeprefix(prefix)})
            kept.append(name)
        else:
            done.append(outcome)
    try:
        answer = _replace(call, bodies, done, kept)
        message = await answer if isawaitable(answer) else answer
    except BaseException:
        for outcome in done:
            await outcome.exchange.undo()
        raise
    return {"message": message, "failed": failed}


def _replace(call: Call, bodies: Mapping[str, dict[str, Any]], done: Sequence[ExchangeOutcome], kept: Sequence[str]) -> Any:
    """These become all that the registry has, with this node's own entry and those that are `kept`."""
    node = call.node
    wanted = {name.lower() for name in (*bodies, *(outcome.record["name"] for outcome in done), *kept, node.name)}
    transaction = call.begin(_UPSERT)
    for record in known_nodes(node):
        if record["name"].lower() not in wanted:
            _remove(call, transaction, record["name"])
    for name, arguments in bodies.items():
        if arguments["certificate"] is not None:
            check_entry(node, NodeEntry(name, "", arguments["certificate"]), moves=True)
            put_certificate(node.store, transaction, name, arguments["certificate"])
        _put(call, transaction, record_of(arguments))
    for outcome in done:
        store_exchange(node, transaction, outcome.other, outcome.record, with_others=False)
    return call.commit(transaction, lambda: "Cluster successfully configured.")


def cluster_status(call: Call) -> Any:
    if call.node.replication is not None:
        return _status(call.node, call.node.replication)
    node = call.node
    databases = [name for name in node.store.databases if name != SYSTEM]
    connections = []
    for record in known_nodes(node):
        sockets = [{"database": name, "connected": False} for name in databases]
        connections.append({**_connection(record, replicates=False), "database_sockets": sockets})
    return {"type": "cluster-status", "node_name": node.name, "is_enabled": False, "connections": connections}


def _connection(record: Mapping[str, Any], *, replicates: Any) -> dict[str, Any]:
    """What the registry has of a node."""
    found: dict[str, Any] = {
        "replicateByDefault": True,
        "replicates": replicates,
        "url": record.get("url"),
        "name": record["name"],
        "subscriptions": record.get("subscriptions"),
    }
    if record.get("shard") is not None:
        found["shard"] = record["shard"]
    return found


async def _status(node: Node, replication: ReplicationControl) -> Any:
    states = await replication.status()
    records = {record["name"]: record for record in known_nodes(node)}
    connections = []
    for name in sorted(records.keys() | states.keys()):
        record = records.get(name, {"name": name})
        state = states.get(name) or {"connected": False, "reason": "its address is not known", "database_sockets": []}
        given = record.get("replicates")
        connections.append({**_connection(record, replicates=True if given is None else given), **state})
    return {"type": "cluster-status", "node_name": node.name, "is_enabled": True, "connections": connections}


async def cluster_network(call: Call) -> Any:
    routes = await call.on_helper(partial(read_routes, call.node.config))
    replication = call.node.replication
    if replication is None:
        return {"nodes": [{"name": call.node.name, "response_time": 0, "connected_nodes": [], "routes": routes}]}
    seconds = NETWORK_SECONDS if call["timeout"] is None else min(call["timeout"], MAX_NETWORK_MS) / 1000
    others = await replication.network(seconds)
    own = {"name": call.node.name, "response_time": 0, "connected_nodes": await replication.connected_nodes(), "routes": routes}
    return {"nodes": [own, *others]}


def purge_stream(call: Call) -> Any:
    replication = call.node.replication
    if replication is None:
        raise Refusal({"error": "Streams are not available"}, 501)
    if call["table"] is not None:
        raise bad_request("'table' cannot be given: messages of a stream hold whole transactions, of all tables of a database")
    if find_database(call.node, call["database"]).name == SYSTEM:
        raise bad_request(f"The stream of '{SYSTEM}' is not shortened: it has which nodes there are")
    options = call["options"] or {}
    keep, seq = options.get("keep"), options.get("seq")
    if not all(value is None or (type(value) is int and value >= 0) for value in (keep, seq)) or None not in (keep, seq):
        raise bad_request(
            "'options' may have 'keep', the number of newest messages that stay, or 'seq', the number of the first that stays"
        )
    return _purge(replication, call["database"], keep, seq)


async def _purge(replication: ReplicationControl, database: str, keep: int | None, seq: int | None) -> Any:
    answer = await replication.purge(database, keep, seq)
    return f"Successfully purged the stream of database '{database}'" if answer is None else answer


# --- rows ---------------------------------------------------------------------------------------------------------------------------------


def _authorization(value: Any, field: Field) -> str | None:
    if isinstance(value, str):
        return None if value else "is not allowed to be empty"
    if isinstance(value, dict) and all(isinstance(value.get(name), str) for name in ("username", "password")):
        return None
    return "must be a string, or an object with 'username' and 'password'"


def _start_time(value: Any, field: Field) -> str | None:
    return None if isinstance(value, str | int | float) and not isinstance(value, bool) else "must be a date"


_NAMES = (
    Field("hostname", "string", "Name of the other node."),
    Field("url", "string", "Its address, such as `wss://server-two:9933`; default: made from the name."),
    Field("node_name", "string", "Its name, in the vocabulary of NATS."),
)
NODE_FIELDS = (
    *_NAMES,
    Field("verify_tls", "bool", "Check the certificate of its operations.", default=True),
    Field(
        "authorization",
        "any",
        "`username` and `password`, or the value of a header: to log in there. With them both nodes learn of each other.",
        secret=True,
        check=_authorization,
    ),
    Field("retain_authorization", "bool", "Keep these credentials in the registry.", default=False),
    Field("certificate", "string", "Its certificate, PEM, and that of its authority: to make it known without credentials."),
    Field("revoked_certificates", "strings", "Serial numbers of certificates that are no longer trusted."),
    Field("shard", "integer", "Number of its shard.", low=0, high=MAX_SHARD),
    Field("start_time", "any", "Replicate only newer entries: an ISO date, or ms.", check=_start_time),
    Field("subscriptions", "objects", "Subscriptions: `database`, `table`, `subscribe`, `publish`. Default: everything."),
)
_ROUTES = (
    Field("routes", "non-empty list", "Host names, or objects with `hostname` and `port`.", required=True),
    Field("server", "choice", "Accepted and without effect.", choices=("hub", "leaf")),
)
_ALONE = "Without a `replication` section in the configuration this node replicates nothing: the entry is kept for when it does."

OPERATIONS: tuple[Operation, ...] = (
    Operation(
        name="add_node",
        aliases=("set_node",),
        category="clustering",
        summary="Enter another node into the registry; one of the same name is replaced.",
        permission=NEVER_GRANTED,
        handler=add_node,
        fields=NODE_FIELDS,
        returns="A message.",
        notes=f"One of `hostname`, `url`, `node_name` is required. {_ALONE}",
        example={"hostname": "server-two"},
        example_answer={"message": "Successfully added 'server-two' to cluster"},
    ),
    Operation(
        name="update_node",
        category="clustering",
        summary="Change the entry of another node; it is added if it is unknown.",
        permission=NEVER_GRANTED,
        handler=update_node,
        fields=NODE_FIELDS,
        returns="A message.",
        notes="Fields that are not given stay unchanged.",
        example={"hostname": "server-two", "shard": 2},
        example_answer={"message": "Successfully updated 'server-two'"},
    ),
    Operation(
        name="set_node_replication",
        category="clustering",
        summary="Set the subscriptions of another node; its other subscriptions stay.",
        permission=NEVER_GRANTED,
        handler=set_node_replication,
        fields=(*_NAMES, Field("subscriptions", "objects", "As of `add_node`.", required=True)),
        returns="A message.",
        example={"node_name": "server-two", "subscriptions": [{"database": "data", "table": "Visit", "subscribe": True, "publish": False}]},
        example_answer={"message": "Successfully updated 'server-two'"},
    ),
    Operation(
        name="remove_node",
        category="clustering",
        summary="Remove another node from the registry.",
        permission=SUPER_USER,
        handler=remove_node,
        fields=(*_NAMES[:2], Field("node_name", "string", "Its name, in the vocabulary of NATS.", aliases=("name",))),
        returns="A message.",
        notes="The data on both stay. 404 if it is unknown.",
        example={"hostname": "server-two"},
        example_answer={"message": "Successfully removed 'server-two' from cluster"},
    ),
    Operation(
        name="configure_cluster",
        category="clustering",
        summary="Replace the whole registry.",
        permission=NEVER_GRANTED,
        handler=configure_cluster,
        fields=(Field("connections", "objects", "Bodies of `add_node`; an empty list removes all nodes.", required=True),),
        returns="A message; with `authorization` also `failed`, a list of `node` and `error`.",
        notes="Nodes with `authorization` are asked, as by `add_node`; one that fails keeps the entry it has. The entry of this node stays.",
        example={"connections": [{"hostname": "server-two"}, {"hostname": "server-three"}]},
        example_answer={"message": "Cluster successfully configured."},
    ),
    Operation(
        name="cluster_status",
        category="clustering",
        summary="The nodes of the registry and the state of the replication with them.",
        permission=SUPER_USER,
        handler=cluster_status,
        returns="`node_name`, `is_enabled` (whether anything is replicated) and `connections`.",
        example={},
        example_answer={"type": "cluster-status", "node_name": "localhost", "is_enabled": False, "connections": []},
    ),
    Operation(
        name="cluster_set_routes",
        category="clustering",
        summary="Add addresses of other nodes to the configuration.",
        permission=NEVER_GRANTED,
        handler=cluster_set_routes,
        fields=_ROUTES,
        returns="`message`, `set`, and `skipped`: those that were there.",
        notes="They are kept in `replication.routes`. That alone does not switch replication on: another key of the section does, such as `hostname`.",
        example={"routes": ["server-two"]},
        example_answer={"message": "cluster routes successfully set", "set": ["server-two"], "skipped": []},
    ),
    Operation(
        name="cluster_get_routes",
        category="clustering",
        summary="The addresses of other nodes in the configuration.",
        permission=SUPER_USER,
        handler=cluster_get_routes,
        returns="A list.",
        example={},
        example_answer=["server-two"],
    ),
    Operation(
        name="cluster_delete_routes",
        category="clustering",
        summary="Remove addresses of other nodes from the configuration.",
        permission=SUPER_USER,
        handler=cluster_delete_routes,
        fields=_ROUTES,
        returns="`message`, `deleted`, and `skipped`: those that were not there.",
        example={"routes": ["server-two"]},
        example_answer={"message": "cluster routes successfully deleted", "deleted": ["server-two"], "skipped": []},
    ),
    Operation(
        name="cluster_network",
        category="clustering",
        summary="Which nodes reach which.",
        permission=SUPER_USER,
        handler=cluster_network,
        fields=(
            Field("timeout", "number", "How long to wait for answers, in ms.", low=0),
            Field("connected_nodes", "any", "Accepted and without effect."),
            Field("routes", "any", "Accepted and without effect."),
        ),
        returns="`nodes`: `name`, `response_time`, `connected_nodes`, `routes`.",
        example={},
        example_answer={"nodes": [{"name": "localhost", "response_time": 0, "connected_nodes": [], "routes": []}]},
    ),
    Operation(
        name="purge_stream",
        category="clustering",
        summary="Shorten the stream in which this node keeps what it has written to a database for the others.",
        permission=SUPER_USER,
        handler=purge_stream,
        fields=(
            DATABASE,
            Field("table", "any", "Refused: messages hold whole transactions."),
            Field(
                "options",
                "object",
                "`keep`: how many of the newest messages stay; or `seq`: number of the first that stays. Without either only the last one stays.",
            ),
        ),
        returns="A message.",
        notes="Nodes that have not read what is removed copy the database. Without a `replication` section: 501.",
        example={"database": "data", "options": {"keep": 1000}},
    ),
)
