"""Status texts of the node, which do not survive a restart, and what waits for one (spec: operations §9).

The texts are for load balancers and operators: they change nothing in the service itself.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from svc import __version__
from svc.apps.status import WORST_FIRST
from svc.bytecode import slow_start
from svc.errors import NotFound
from svc.operations.call import Call
from svc.operations.fields import Field, bad_request
from svc.operations.node import Node
from svc.operations.operation import SUPER_USER, Operation
from svc.operations.status_board import CHANGES, IDS

if TYPE_CHECKING:
    from svc.apps import App
    from svc.siblings.link import Answer

TOPIC = "operations.get_status"  # how siblings ask
AVAILABILITY = ("Available", "Unavailable")
MAX_STATUS = 512  # characters


def component_statuses(apps: Iterable[App], checked_ms: int, instance: int) -> list[dict[str, Any]]:
    """How each entry of each application's configuration was loaded. `checked_ms`: when, if an entry does not say."""
    found: list[dict[str, Any]] = []
    for app in apps:
        for key, entry in app.entries.items():
            status: dict[str, Any] = {
                "name": f"{app.name}.{key}",
                "componentName": app.name,
                "status": entry.status,
                "lastChecked": {"workers": {str(instance): entry.checked_ms or checked_ms}},
            }
            if entry.messages:
                status["latestMessage"] = entry.messages[-1]
            if entry.status == "error":
                status["error"] = "; ".join(entry.messages)
            found.append(status)
    return found


def _application(app: App) -> dict[str, Any]:
    found: dict[str, Any] = {"name": app.name, "directory": str(app.directory), "tables": len(app.definitions)}
    graded = [message for entry in app.entries.values() for message in entry.graded()]
    found["errors"] = [text for is_fault, text in graded if is_fault]
    found["warnings"] = [text for is_fault, text in graded if not is_fault]
    return found


# --- handlers -----------------------------------------------------------------------------------------------------------------------------


def _status_length(value: Any, field: Field) -> str | None:
    return f"length must be less than or equal to {MAX_STATUS} characters long" if len(value) > MAX_STATUS else None


def set_status(call: Call) -> Any:
    if call["id"] == "availability" and call["status"] not in AVAILABILITY:
        raise bad_request(f'Status "availability" only accepts these values: {", ".join(AVAILABILITY)}')
    record = call.node.status.set(call["id"], call["status"])
    call.node.tell_others(CHANGES, [record])
    return record


def get_status(call: Call) -> Any:
    if call["id"] is None:
        return _of_all(call.node)
    record = call.node.status.get(call["id"])
    if record is None:
        raise NotFound(f"Status '{call['id'][:MAX_STATUS]}' is not set")
    return record


async def _of_all(node: Node) -> dict[str, Any]:
    answers = await node.ask_others(TOPIC, None)
    board = node.status
    told = [own_status(node), *(answer.value for answer in answers if answer.value is not None)]
    reasons = list(dict.fromkeys(reason for each in told for reason in each["restartReasons"]))
    found: dict[str, Any] = {
        "systemStatus": board.records(),
        "componentStatus": _merged([each["componentStatus"] for each in told]),
        "restartRequired": any(each["restartRequired"] for each in told),
        "version": __version__,
        "uptime": told[0]["uptime"],
        "pid": node.main_pid,
        "instances": sorted(
            [{"number": node.instance, "pid": os.getpid(), "uptime": told[0]["uptime"]}, *map(_instance, answers)], key=itemgetter("number")
        ),
        "addresses": {name: list(found) for name, found in node.addresses().items()},
        "applications": [_application(app) for app in node.apps],
    }
    if board.restarts is not None:
        found["restarts"] = board.restarts.restarts
        if board.restarts.is_restarting:
            found["restarting"] = True
        if board.restarts.not_restarted is not None:
            found["restartFailed"] = board.restarts.not_restarted
    if reasons:
        found["restartReasons"] = reasons
    held = None if board.held_loop is None else board.held_loop.status()
    if held is not None:
        found["heldLoop"] = held
    if node.store.stopped:
        found["stoppedDatabases"] = node.store.stopped
    slow = slow_start()
    if slow is not None:
        found["slowStart"] = slow
    return found


def own_status(node: Node) -> dict[str, Any]:
    """What this process tells of itself to one that is asked about all."""
    board = node.status
    asking = [f"component {app.name}: its entry {key} asks for it" for app in node.apps for key in app.restart_wanted]
    return {
        "componentStatus": component_statuses(node.apps, board.started_ms, node.instance),
        "restartRequired": board.restart_required or bool(asking),
        "restartReasons": [*board.restart_reasons, *asking],
        "uptime": max(round(node.clock.monotonic() - board.started, 3), 0),
    }


def _instance(answer: Answer) -> dict[str, Any]:
    if answer.value is None:
        return {"number": answer.number, "pid": answer.pid, "error": answer.error}
    return {"number": answer.number, "pid": answer.pid, "uptime": answer.value["uptime"]}


def _merged(told: Sequence[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """The entries of all instances, each with when every one of them has looked; how it is, of the one where it is worst."""
    found: dict[str, dict[str, Any]] = {}
    for statuses in told:
        for status in statuses:
            known = found.setdefault(status["name"], status)
            workers = {**known["lastChecked"]["workers"], **status["lastChecked"]["workers"]}
            if WORST_FIRST.index(status["status"]) < WORST_FIRST.index(known["status"]):
                found[status["name"]] = known = status
            known["lastChecked"] = {"workers": workers}
    return list(found.values())


def clear_status(call: Call) -> Any:
    call.node.status.clear(call["id"])
    call.node.tell_others(CHANGES, [{"id": call["id"]}])
    return "Status successfully cleared"


_ID = Field("id", "choice", "Which status: `primary`, `maintenance`, or `availability` for load balancers.", choices=IDS)

OPERATIONS: tuple[Operation, ...] = (
    Operation(
        name="set_status",
        category="system",
        summary="Set a status of this node.",
        permission=SUPER_USER,
        handler=set_status,
        fields=(
            _ID.but(default="primary"),
            Field("status", "string", f"The status, up to {MAX_STATUS} characters.", required=True, check=_status_length),
        ),
        returns="The record: `id`, `status`, `__createdtime__`, `__updatedtime__` (ms).",
        notes=(
            "`availability` takes `Available` or `Unavailable` only. A status is that of all instances. Statuses are lost at a restart, and change nothing in"
            " the service itself."
        ),
        example={"id": "availability", "status": "Unavailable"},
        example_answer={
            "id": "availability",
            "status": "Unavailable",
            "__createdtime__": 1767607200000,
            "__updatedtime__": 1767607200000,
        },
    ),
    Operation(
        name="get_status",
        category="system",
        summary="Read the statuses, how applications were loaded, and whether a restart is needed.",
        permission=SUPER_USER,
        handler=get_status,
        fields=(Field("id", "string", "Only this status."),),
        returns=(
            "`systemStatus`, `componentStatus`, `restartRequired`, `version`, `uptime` (seconds), `pid` (of the parent, which signals are for), `instances`"
            " (for each `number`, `pid`, `uptime`), `addresses` (of the ports for `applications` and `operations`), `applications` (for each `name`,"
            " `directory`, number of `tables`, `errors`, `warnings`); with `id` that one record."
        ),
        notes=(
            "`restartRequired`: the configuration or an application was changed, and the change takes effect at the next restart; "
            "then `restartReasons` names the changed settings, and the files of each application. "
            "`restarts`: how often it was restarted since its process began; `restarting`: some instances are still to be replaced; "
            "`restartFailed`: why the last restart was given up. "
            "All of it is of all instances, whichever is asked; one that does not answer within a second has an `error` in `instances`. "
            "`heldLoop`, of the one that is asked, once there is something to tell: how often code has kept "
            "all requests waiting for more than 50 ms, `applications` and `service` (svc itself), and in `handlers` which function of which "
            "application, where, how often and for how long. `stoppedDatabases`: those that the one that is asked has lost after a failed disk write. "
            "`slowStart`, of a server that had to compile svc and will have to again: a sentence with "
            "the command that helps. With an `id` that is not set: 404."
        ),
        example={},
        example_answer={
            "systemStatus": [],
            "componentStatus": [],
            "restartRequired": False,
            "version": "0.1.0",
            "uptime": 93784.2,
            "pid": 1234,
            "instances": [{"number": 0, "pid": 1240, "uptime": 93784.2}],
            "addresses": {"applications": ["http://*:9926"], "operations": ["http://127.0.0.1:9925"]},
            "applications": [{"name": "shop", "directory": "/srv/shop", "tables": 3, "errors": [], "warnings": []}],
        },
    ),
    Operation(
        name="clear_status",
        category="system",
        summary="Remove a status.",
        permission=SUPER_USER,
        handler=clear_status,
        fields=(_ID.but(required=True),),
        returns="A message, also when nothing was set.",
        example={"id": "availability"},
        example_answer={"message": "Status successfully cleared"},
    ),
)
