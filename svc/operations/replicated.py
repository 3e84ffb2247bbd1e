"""Operations that run on the other nodes too, with `replicated: true` (spec: replication-nodes §5).

    here                                   the others, at the same time
    it runs; a failure ends it     ->      they run it as a call of their own, with every right, in the name of that user
    the answer gains `replicated`  <-      what each of them answers

Only super users may ask for it. What may run there are whole operations that say so with a field `replicated`; what writes records is not among them, because
records are replicated anyway.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from svc.auth.users import User
from svc.deploying.payloads import Payload
from svc.errors import AccessViolation, ClientError
from svc.logs.redact import redacted
from svc.operations.operation import Operation
from svc.operations.registry import by_name
from svc.operations.rolling import is_rolling, other_names, restart_deployed
from svc.store.writing.commit import wait_committed

if TYPE_CHECKING:
    from svc.operations.call import Call
    from svc.operations.service import Operations

FIELD = "replicated"
_NOT_SENT = (FIELD, "impersonate")
_ASKED = frozenset(("get_job",))  # that nodes may ask for beside


def runs_elsewhere(operation: Operation) -> bool:
    """Whether it may run on other nodes."""
    return operation.category != "records" and any(field.name == FIELD for field in operation.fields)


def check_replicated(call: Call) -> None:
    """Whether a call with `replicated: true` may run. Raises 400, 403."""
    if call.node.replication is None or call.operation.category == "records":
        return
    if not runs_elsewhere(call.operation):
        raise ClientError(f"'{call.name}' does not run on other nodes: call it on each of them, without 'replicated'", code="VALIDATION")
    if not call.is_super_user:
        raise AccessViolation(call.user, "Only a super user may run operations on other nodes")


async def with_others(call: Call, body: Mapping[str, Any], result: Any) -> Any:
    """What the caller gets: `result`, of this node, and what the others have answered to `body`."""
    replication = call.node.replication
    assert replication is not None
    if call.pending_commit is not None:
        await wait_committed(call.pending_commit)  # a local failure ends it
    rolling = type(result) is dict and is_rolling(call)
    if rolling and call.operation.name == "restart_service":  # its job goes on with the others
        followers = [
            {"node": name, "status": "success", "message": f"follows in job {result['job_id']}"} for name in other_names(call.node)
        ]
        return result | {FIELD: followers}
    answers = await replication.run_on_others(_sent({**body, "restart": False} if rolling else body), call.username)
    if rolling:
        result = result | {"restartJobId": await restart_deployed(call, result["restartJobId"])}
    if type(result) is list:
        for answer in answers:
            rows = answer.get("result")
            if isinstance(rows, list):
                result += [{**row, "node": answer["node"]} if isinstance(row, dict) else row for row in rows]
            else:
                result.append({"node": answer["node"], "error": answer.get("error", "it has not answered with a list")})
        return result
    return result | {FIELD: [_outcome(answer) for answer in answers]} if type(result) is dict else result


def _sent(body: Mapping[str, Any]) -> dict[str, Any]:
    """A body as other nodes get it."""
    found = {name: value for name, value in body.items() if name not in _NOT_SENT}
    for name, value in found.items():
        if isinstance(value, Payload):
            found[name] = str(value.data, "ascii") if value.is_text else bytes(value.data)
    return found


def _outcome(answer: Mapping[str, Any]) -> dict[str, Any]:
    node = answer["node"]
    if "error" in answer:
        return {"node": node, "status": "failed", "error": answer["error"]}
    result = answer.get("result")
    if isinstance(result, Mapping):
        return {**result, "node": node, "status": "success"}
    return {"node": node, "status": "success", "message": result}


async def run_for_node(operations: Operations, body: Mapping[str, Any], node: str, user: str | None) -> Any:
    """An operation that another node has asked for. Raises Problem."""
    name = body.get("operation")
    row = by_name().get(name) if isinstance(name, str) else None
    if row is None:
        raise ClientError(f"Operation '{str(name)[:250]}' not found: this node may have another version of svc")
    if not runs_elsewhere(row) and name not in _ASKED:
        raise ClientError(f"'{name}' is not run for other nodes", 403)
    body = {key: value for key, value in body.items() if key not in _NOT_SENT}
    operations.node.logs.logger.with_tag("operation").info({**redacted(body, row.secrets), "user": user, "node": node})
    return await operations.perform(body, None if user is None else User(user))
