"""The machine, the process, and their restart (spec: operations §9)."""

from __future__ import annotations

import inspect
from asyncio import gather
from collections.abc import Callable, Generator
from copy import deepcopy
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from svc.analytics import process
from svc.analytics.collector import load_fields
from svc.awaitables import then
from svc.errors import ServerError
from svc.operations.call import Call
from svc.operations.fields import REPLICATED, Field, bad_request
from svc.operations.job import JobFailed
from svc.operations.node import Node
from svc.operations.operation import SUPER_USER, Operation
from svc.operations.rolling import restart_others
from svc.operations.row_rules import is_narrowed
from svc.operations.system_information import PARTS
from svc.store.record_counts import count_records
from svc.store.system import SYSTEM

if TYPE_CHECKING:
    from svc.operations.job import Job

RESTARTING = "Restarting svc. This may take up to 60 seconds."
SERVICES = ("svc", "http", "http_workers", "custom_functions", "custom functions")

# --- system_information -------------------------------------------------------------------------------------------------------------------

Steps = Generator[object, None, Any]


def _table_sizes(node: Node) -> Steps:
    """A row per table of the users' databases; the log is one per database, its size is shared among them by their entries."""
    rows: list[dict[str, Any]] = []
    for name, database in list(node.store.databases.items()):
        if name == SYSTEM:
            continue
        log = database.log
        yield from log.counts.catch_up()
        for table in list(database.tables.values()):
            count, _ = yield from count_records(table)
            txn = database.snapshot()
            entries, all_entries = log.counts.of(table.number), log.count(txn)
            rows.append(
                {
                    "schema": name,
                    "table": table.name,
                    "table_size": table.size(txn),
                    "record_count": count,
                    "transaction_log_size": round(log.size(txn) * entries / all_entries) if all_entries else 0,
                    "transaction_log_record_count": entries,
                }
            )
            yield None
    return rows


def _metrics(node: Node) -> Steps:
    found: dict[str, Any] = {}
    for name, database in list(node.store.databases.items()):
        tables: dict[str, Any] = {}
        for table in list(database.tables.values()):
            txn = database.snapshot()
            tables[table.name] = {"entryCount": table.entry_count(txn), "size": table.size(txn)}
            yield None
        txn = database.snapshot()
        found[name] = {
            "audit": {"entryCount": database.log.count(txn), "size": database.log.size(txn)},
            "readers": [],
            "tables": tables,
        }
    return found


def _threads(node: Node) -> Any:
    """This instance. Shares of time are those since it started."""
    analytics = node.analytics
    row: dict[str, Any] = {"threadId": node.instance, "name": "http", **process.memory(node.store.caches.used)}
    del row["rss"]
    row["sinceLastUpdate"] = 0
    if analytics is not None:
        row.update(load_fields((0.0, 0.0), analytics.load))
    return [row]


async def _replication(node: Node) -> dict[str, dict[str, Any]]:
    """By database, then by node: how far what it has written is not applied here, and whether it is read now."""
    found: dict[str, dict[str, Any]] = {}
    try:
        nodes = {} if node.replication is None else await node.replication.status()
    except ServerError:  # no instance replicates at this moment
        return {}
    for name, status in nodes.items():
        for each in status["database_sockets"]:
            lag = each.get("lag") or {}
            found.setdefault(each["database"], {})[name] = {"lag_ms": lag.get("ms"), "connected": each["connected"]}
    return found


STORE_PARTS: dict[str, Callable[[Node], Any]] = {
    "table_size": _table_sizes,
    "metrics": _metrics,
    "database_metrics": _metrics,
    "threads": _threads,
    "replication": _replication,
}
"""The parts that are not about the machine; long ones are generators of short steps."""

TOPIC = "operations.system_information"  # how siblings ask, with names of OF_EACH
OF_EACH = ("threads", "svc_processes", "network")
"""The parts that have rows of each process."""

ALL_PARTS = (*PARTS, *(name for name in STORE_PARTS if name != "database_metrics"))


def system_information(call: Call) -> Any:
    wanted = call["attributes"] or ALL_PARTS
    return _collect(call, [name for name in dict.fromkeys(wanted) if name in PARTS or name in STORE_PARTS])


async def _collect(call: Call, wanted: list[str]) -> dict[str, Any]:
    found: dict[str, Any]
    asked = [name for name in wanted if name in OF_EACH]
    if not asked:
        return _visible(call, await _collect_own(call.node, wanted))
    found, answers = await gather(_collect_own(call.node, wanted), call.node.ask_others(TOPIC, asked))
    for answer in answers:
        told = answer.value or {}
        if "threads" in found:
            found["threads"] += told.get("threads", [{"threadId": answer.number, "name": "http", "error": answer.error}])
        if "svc_processes" in found:
            known = {each["pid"] for each in found["svc_processes"]["core"]}  # they have one parent, or several
            core = told.get("svc_processes", [{"pid": answer.pid, "name": "svc", "error": answer.error}])
            found["svc_processes"]["core"] += [each for each in core if each["pid"] not in known]
        if "connections" in found.get("network", ()):
            found["network"]["connections"] += told.get("connections", [])
    return _visible(call, found)


def _visible(call: Call, found: dict[str, Any]) -> dict[str, Any]:
    """Without what tells how many records there are in databases whose records are narrowed for the caller."""
    databases = call.node.store.databases
    narrowed = [] if call.is_super_user else [name for name, database in list(databases.items()) if is_narrowed(call, database)]
    if narrowed:
        if "table_size" in found:
            found["table_size"] = [row for row in found["table_size"] if row["schema"] not in narrowed]
        for part in ("metrics", "database_metrics"):
            if part in found:
                found[part] = {name: figures for name, figures in found[part].items() if name not in narrowed}
    return found


async def answer_sibling(node: Node, wanted: list[str]) -> dict[str, Any]:
    """What this process tells of itself to one that is asked about all: rows of these parts."""
    found = await _collect_own(node, [name for name in wanted if name in OF_EACH])
    told = {name: found[name] for name in ("threads",) if name in found}
    if "svc_processes" in found:
        told["svc_processes"] = found["svc_processes"].get("core", [])
    if "network" in found:
        told["connections"] = found["network"].get("connections", [])
    return told


async def _collect_own(node: Node, wanted: list[str]) -> dict[str, Any]:
    machine: dict[str, Any] = {}
    if any(name in PARTS for name in wanted):
        machine = await node.loop.run_in_executor(node.executor, partial(node.machine.collect, wanted))
        machine = deepcopy(machine)  # which keeps what it has found
    found: dict[str, Any] = {}
    for name in wanted:
        value: Any = machine[name] if name in PARTS else STORE_PARTS[name](node)
        if inspect.isgenerator(value):
            value = await node.store.slices.result(cast(Steps, value))
        found[name] = await value if inspect.isawaitable(value) else value
    return found


# --- restart ------------------------------------------------------------------------------------------------------------------------------


def restart(call: Call) -> Any:
    call.node.end_statuses()  # without a parent nobody else does
    call.node.restart(False)
    return RESTARTING


def restart_service(call: Call) -> Any:
    service = call["service"]
    if service not in SERVICES:
        raise bad_request("Invalid service")
    return _start(call, service)


def _start(call: Call, service: str) -> Any:
    async def work(job: Job) -> str:
        failed = await call.node.reload()
        if failed:
            raise JobFailed("; ".join(failed))
        await restart_others(call, job, service)
        return f"Restarted {service}"

    return then(call.node.jobs.start(call, work), lambda answer: {**answer, "message": f"Restarting {service}"})


OPERATIONS: tuple[Operation, ...] = (
    Operation(
        name="system_information",
        category="system",
        summary="Figures of the machine, of the processes of this node, and of its tables.",
        permission=SUPER_USER,
        handler=system_information,
        fields=(Field("attributes", "strings", f"Parts: {', '.join(f'`{name}`' for name in ALL_PARTS)}; default all. Unknown ones are ignored."),),
        returns="An object with the parts.",
        notes=(
            "Sizes are bytes, those of processes KiB, speeds of the CPU GHz, shares percent. Values that the platform does not provide are left out. Figures"
            " are up to three seconds old; loads of the CPU are those since they were last asked for. `disk` and `network` are `{}` where"
            " `operationsApi.sysInfo` says so; `latency` always is, because no other host is probed. `threads`, `svc_processes` and `connections`"
            " are of all instances, whichever is asked, `memory` has figures of that one; an instance that does not answer within a second has an `error` in"
            " place of figures. `database_metrics` is another name of `metrics`. `replication` has the other nodes of each database that is replicated:"
            " `lag_ms`, for how long something that the node has written is missing here, and `connected`."
        ),
        example={"attributes": ["threads", "replication"]},
        example_answer={
            "threads": [
                {
                    "threadId": 0, "name": "http", "heapTotal": 41943040, "heapUsed": 40894464, "external": 21000000, "arrayBuffers": 0,
                    "sinceLastUpdate": 0, "idle": 59000, "active": 1000, "utilization": 0.016667,
                }
            ],
            "replication": {},
        },
    ),
    Operation(
        name="restart",
        category="system",
        summary="Restart the node, with the configuration and the applications as they are now.",
        permission=SUPER_USER,
        handler=restart,
        returns="A message; then the connection is closed.",
        notes=(
            "Another process serves before this one ends; requests under way are finished. With `SVC_EXIT_ON_RESTART` in its environment the server ends"
            " with status 0 instead, for a supervisor to start it again."
        ),
        example={},
        example_answer={"message": RESTARTING},
        closes=True,
    ),
    Operation(
        name="restart_service",
        category="system",
        summary="Load all applications again, in place.",
        permission=SUPER_USER,
        handler=restart_service,
        fields=(
            Field("service", "string", f"One of {', '.join(f'`{name}`' for name in SERVICES[:-1])}; all mean the same here.", required=True),
            REPLICATED,
        ),
        returns="`message` and `job_id`.",
        notes=(
            "No connection is closed, and requests under way end with the version they began with. Applications that were added below `componentsRoot` are"
            " loaded, those that were removed are withdrawn. The job ends with `ERROR` and the reasons if one cannot be loaded: its version before goes on."
            " Settings take effect at a `restart` only."
        ),
        example={"service": "http_workers"},
        example_answer={"message": "Restarting http_workers", "job_id": "0b1f7e0c-5d43-4a0e-9a4e-2f7b0a3d6c11"},
        starts_job=True,
    ),
)  # fmt: skip
