"""Restarts of one node after the other (spec: replication-nodes §6).

A job of the node that was asked: it has restarted itself by then. The next node follows when the one before it has ended its own restart, is connected, and has
applied what the others had written by then.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from svc.errors import Problem
from svc.operations.job import COMPLETE, ERROR, Job, JobFailed
from svc.store.system import NODE_TABLE, SYSTEM
from svc.store.values.records import decode

if TYPE_CHECKING:
    from svc.operations.call import Call
    from svc.operations.node import Node
    from svc.operations.replication_control import ReplicationControl

NODE_SECONDS = 900.0  # that one node may take
_PAUSE = 0.25


def is_rolling(call: Call) -> bool:
    """Whether other nodes restart after this one, in the job of this call."""
    if call.node.replication is None or call.body.get("replicated") is not True:
        return False
    return call.operation.name == "restart_service" or (call.operation.name == "deploy_component" and call["restart"] == "rolling")


def other_names(node: Node) -> list[str]:
    """Of the known nodes, but for this one."""
    table = node.store.databases[SYSTEM].tables[NODE_TABLE]
    names = [decode(raw).get("name") for _, raw in table.scan(table.database.snapshot())]
    return sorted(name for name in names if isinstance(name, str) and name != node.name)


async def restart_deployed(call: Call, first: str) -> str:
    """Restart the others when they all have a new version of an application, and the job `first` has loaded it here. Returns the job that does it."""

    async def work(job: Job) -> str:
        record: dict[str, Any] = {}
        while True:
            record = call.node.jobs.find(first) or {"status": ERROR, "message": "the job of this node is not there any more"}
            if record["status"] in (COMPLETE, ERROR):
                break
            await asyncio.sleep(_PAUSE)
        if record["status"] == ERROR:
            raise JobFailed(str(record.get("message")))
        await restart_others(call, job, "http_workers")
        return str(record.get("message"))

    started = await call.node.jobs.start(call, work, kind="restart_service")
    job_id: str = started["job_id"]
    return job_id


async def restart_others(call: Call, job: Job, service: str) -> None:
    """Restart a service on all other nodes, if the call asks for that. Raises JobFailed: those behind the one that failed are as they were."""
    replication = call.node.replication
    if replication is None or not is_rolling(call):
        return
    names = other_names(call.node)
    for number, name in enumerate(names):
        job.check_cancelled()
        await job.progress(number, len(names), f"restarting {name}")
        try:
            async with asyncio.timeout(NODE_SECONDS):
                await _restart(replication, name, service, call.username)
        except TimeoutError:
            raise JobFailed(f"The node {name} has not come back within {NODE_SECONDS:g} s") from None
        except Problem as error:
            raise JobFailed(f"The node {name} was not restarted: {error.message}") from None


async def _restart(replication: ReplicationControl, name: str, service: str, user: str | None) -> None:
    answer = await replication.run_on(name, {"operation": "restart_service", "service": service}, user)
    job_id = answer.get("job_id") if isinstance(answer, dict) else None
    status: Any = None
    while status != COMPLETE:
        await asyncio.sleep(_PAUSE)
        try:
            found = await replication.run_on(name, {"operation": "get_job", "id": job_id}, user)
        except Problem:
            continue  # while it is away
        record = found[0] if isinstance(found, list) and found and isinstance(found[0], dict) else {}
        status = record.get("status")
        if status == ERROR:
            raise JobFailed(f"The node {name} was not restarted: {record.get('message')}")
    while True:
        if await replication.has_caught_up(name):
            return
        await asyncio.sleep(_PAUSE)
