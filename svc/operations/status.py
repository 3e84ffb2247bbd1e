"""Status texts of the node, which do not survive a restart, and what waits for one (contract: operations §9).

The texts are for load balancers and operators: they change nothing in the service itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from svc.clock import Clock
from svc.errors import NotFound
from svc.operations.call import Call
from svc.operations.fields import Field, bad_request
from svc.operations.operation import SUPER_USER, Operation

if TYPE_CHECKING:
    from svc.apps import App

IDS = ("primary", "maintenance", "availability")
AVAILABILITY = ("Available", "Unavailable")
MAX_STATUS = 512  # characters


class StatusBoard:
    """What operators have written about this node since it started, and the changes that take effect at its next restart."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._records: dict[str, dict[str, Any]] = {}
        self._awaited: dict[str, None] = {}  # in the order in which they came
        self._settings: tuple[str, ...] = ()
        self.started_ms = int(clock.wall() * 1000)

    def set(self, id_: str, status: str) -> dict[str, Any]:
        """Write a text; the time of the first one under this id is kept. Returns the record."""
        now_ms = int(self._clock.wall() * 1000)
        before = self._records.get(id_)
        created_ms = now_ms if before is None else before["__createdtime__"]
        record = {"id": id_, "status": status, "__createdtime__": created_ms, "__updatedtime__": now_ms}
        self._records[id_] = record
        return dict(record)

    def get(self, id_: str) -> dict[str, Any] | None:
        """A copy of the record, None if nothing is written there."""
        record = self._records.get(id_)
        return None if record is None else dict(record)

    def clear(self, id_: str) -> bool:
        """Remove a text. Returns whether there was one."""
        return self._records.pop(id_, None) is not None

    def records(self) -> list[dict[str, Any]]:
        """Copies of all records, in the order of IDS."""
        return [dict(self._records[id_]) for id_ in IDS if id_ in self._records]

    def require_restart(self, *reasons: str) -> None:
        """Something has changed that a restart will take over; `reasons` name it: settings, components."""
        for reason in reasons:
            self._awaited[reason] = None

    @property
    def is_unavailable(self) -> bool:
        """Whether an operator took this node out of service for load balancers."""
        record = self._records.get("availability")
        return record is not None and record["status"] == "Unavailable"

    def components_reloaded(self) -> None:
        """Applications were loaded again without a new process: only settings still wait."""
        self._awaited.clear()

    def settings_changed(self, names: Iterable[str]) -> None:
        """All settings whose value in the file is not the one in effect; none, if the file says again what it said at the start."""
        self._settings = tuple(names)

    @property
    def restart_reasons(self) -> list[str]:
        """What waits for a restart, each once."""
        return list(dict.fromkeys((*self._settings, *self._awaited)))

    @property
    def restart_required(self) -> bool:
        return bool(self._settings or self._awaited)


def component_statuses(apps: Iterable[App], checked_ms: int, instance: int) -> list[dict[str, Any]]:
    """How each entry of each application's configuration was loaded. `checked_ms`: when."""
    found: list[dict[str, Any]] = []
    for app in apps:
        for key, entry in app.entries.items():
            status: dict[str, Any] = {
                "name": f"{app.name}.{key}",
                "componentName": app.name,
                "status": entry.status,
                "lastChecked": {"workers": {str(instance): checked_ms}},
            }
            if entry.messages:
                status["latestMessage"] = entry.messages[-1]
            if entry.status == "error":
                status["error"] = "; ".join(entry.messages)
            found.append(status)
    return found


# --- handlers -----------------------------------------------------------------------------------------------------------------------------


def _status_length(value: Any, field: Field) -> str | None:
    return f"length must be less than or equal to {MAX_STATUS} characters long" if len(value) > MAX_STATUS else None


def set_status(call: Call) -> Any:
    if call["id"] == "availability" and call["status"] not in AVAILABILITY:
        raise bad_request(f'Status "availability" only accepts these values: {", ".join(AVAILABILITY)}')
    return call.node.status.set(call["id"], call["status"])


def get_status(call: Call) -> Any:
    board, node = call.node.status, call.node
    if call["id"] is not None:
        record = board.get(call["id"])
        if record is None:
            raise NotFound(f"Status '{call['id'][:MAX_STATUS]}' is not set")
        return record
    found: dict[str, Any] = {
        "systemStatus": board.records(),
        "componentStatus": component_statuses(node.apps, board.started_ms, node.instance),
        "restartRequired": board.restart_required,
    }
    if board.restart_required:
        found["restartReasons"] = board.restart_reasons
    return found


def clear_status(call: Call) -> Any:
    call.node.status.clear(call["id"])
    return "Status successfully cleared"


_ID = Field("id", "choice", "Which text: `primary`, `maintenance`, or `availability` for load balancers.", choices=IDS)

OPERATIONS: tuple[Operation, ...] = (
    Operation(
        name="set_status",
        category="system",
        summary="Write a status text about this node.",
        permission=SUPER_USER,
        handler=set_status,
        fields=(
            _ID.but(default="primary"),
            Field("status", "string", f"The text, up to {MAX_STATUS} characters.", required=True, check=_status_length),
        ),
        returns="The record: `id`, `status`, `__createdtime__`, `__updatedtime__` (ms).",
        notes="`availability` takes `Available` or `Unavailable` only. Texts do not survive a restart, and change nothing in the service itself.",
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
        summary="Read the status texts, how applications were loaded, and whether a restart is needed.",
        permission=SUPER_USER,
        handler=get_status,
        fields=(Field("id", "string", "Only this text."),),
        returns="`systemStatus`, `componentStatus`, `restartRequired`; with `id` that one record.",
        notes=(
            "`restartRequired`: the configuration or an application was changed, and the change takes effect at the next restart; "
            "then `restartReasons` names what was changed. With an `id` under which nothing is set: 404."
        ),
        example={},
        example_answer={"systemStatus": [], "componentStatus": [], "restartRequired": False},
    ),
    Operation(
        name="clear_status",
        category="system",
        summary="Remove a status text.",
        permission=SUPER_USER,
        handler=clear_status,
        fields=(_ID.but(required=True),),
        returns="A message, also when nothing was set.",
        example={"id": "availability"},
        example_answer={"message": "Status successfully cleared"},
    ),
)
