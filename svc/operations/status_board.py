"""The statuses of the node, which do not survive a restart, and what waits for one (spec: operations §9)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from svc.clock import Clock
from svc.operations.held_loop import HeldLoop

MAX_FILES = 10  # of one application that are named
EDITED = "the configuration file was edited"
"""Told to other processes with the path of the file: other settings may wait for a restart."""
IDS = ("primary", "maintenance", "availability")
CHANGES = "operations.statuses"  # how siblings tell of statuses, as `change` takes them
RECORDS = "operations.status_records"  # how one that begins asks for them


class Restarts(Protocol):
    """What a node that can be restarted in place knows of that: `parent.Link`."""

    @property
    def restarts(self) -> int:
        """How often since it was started."""

    @property
    def is_restarting(self) -> bool:
        """Instances are still to be replaced."""

    @property
    def begins_restart(self) -> bool:
        """This is the first instance of one."""

    @property
    def not_restarted(self) -> str | None:
        """Why the last one was given up."""


class StatusBoard:
    """The statuses that operators have set since this node started, and what takes effect at its next restart."""

    def __init__(self, clock: Clock, held_loop: HeldLoop | None = None) -> None:
        """`held_loop`: what has held the loop, of an instance that looks for it."""
        self.held_loop = held_loop
        self.restarts: Restarts | None = None
        self._clock = clock
        self._records: dict[str, dict[str, Any]] = {}
        self._settings: tuple[str, ...] = ()
        self._components: dict[str, list[str]] = {}  # name -> the files that wait, as far as they are known
        self.started_ms = int(clock.wall() * 1000)
        self.started = clock.monotonic()

    def set(self, id_: str, status: str) -> dict[str, Any]:
        """Set a status; the creation time of the first one under this id is kept. Returns the record."""
        now_ms = int(self._clock.wall() * 1000)
        before = self._records.get(id_)
        created_ms = now_ms if before is None else before["__createdtime__"]
        record = {"id": id_, "status": status, "__createdtime__": created_ms, "__updatedtime__": now_ms}
        self._records[id_] = record
        return dict(record)

    def get(self, id_: str) -> dict[str, Any] | None:
        """A copy of the record, None if no status is set."""
        record = self._records.get(id_)
        return None if record is None else dict(record)

    def clear(self, id_: str) -> bool:
        """Remove a status. Returns whether there was one."""
        return self._records.pop(id_, None) is not None

    def change(self, changes: Iterable[dict[str, Any]]) -> None:
        """What another instance has set or cleared: records, of those that it has cleared the `id` alone."""
        for record in changes:
            if "status" in record:
                self._records[record["id"]] = record
            else:
                self.clear(record["id"])

    def records(self) -> list[dict[str, Any]]:
        """Copies of all records, in the order of IDS."""
        return [dict(self._records[id_]) for id_ in IDS if id_ in self._records]

    @property
    def is_unavailable(self) -> bool:
        """Whether an operator took this node out of service for load balancers."""
        record = self._records.get("availability")
        return record is not None and record["status"] == "Unavailable"

    def settings_changed(self, names: Iterable[str]) -> None:
        """Store the names of all settings whose value in the file is not the one in effect."""
        self._settings = tuple(names)

    def component_changed(self, name: str) -> None:
        """An application has another version than the one that is loaded."""
        self._components.setdefault(name, [])

    def component_loaded(self, name: str) -> None:
        """The version that is there is loaded."""
        self._components.pop(name, None)

    def files_changed(self, name: str, files: Sequence[str]) -> None:
        """Store what of an application is not in effect: all its files of that kind, or "added", "removed" or "deployed"."""
        self._components[name] = list(files)

    @property
    def restart_reasons(self) -> list[str]:
        """The settings that take effect at the next restart, and the applications that were changed."""
        return [*self._settings, *(_component(name, files) for name, files in sorted(self._components.items()))]

    @property
    def restart_required(self) -> bool:
        return bool(self._settings or self._components)


def _component(name: str, files: Sequence[str]) -> str:
    """
    >>> _component("shop", ["a.py", "b.py"]), _component("blog", [])
    ('component shop: a.py, b.py', 'component blog')
    """
    left_out = len(files) - MAX_FILES
    named = ", ".join(files[:MAX_FILES]) + (f" and {left_out} more" if left_out > 0 else "")
    return f"component {name}: {named}" if named else f"component {name}"
