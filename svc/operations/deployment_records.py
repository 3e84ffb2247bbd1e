"""Records of deployments in `system.svc_deployment` (spec: operations §7)."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

from svc.auth.writes import write
from svc.deploying.deployment import PREPARE, DeploymentRequest
from svc.deploying.references import shown
from svc.errors import BadValue
from svc.operations.threads import in_thread
from svc.store import Table, Transaction
from svc.store.system import DEPLOYMENT_TABLE, SYSTEM
from svc.store.values.records import decode

if TYPE_CHECKING:
    from svc.operations.node import Node

PENDING, SUCCESS, FAILED, ROLLED_BACK = "pending", "success", "failed", "rolled_back"
STATUSES = (PENDING, SUCCESS, FAILED, ROLLED_BACK)
MAX_EVENTS = 200
MAX_EVENT = 300  # characters
MAX_ERROR = 4000
KEPT_RECORDS = 500

INTERRUPTED = "interrupted by restart"

_FIELDS = (
    "deployment_id", "project", "package_identifier", "status", "phase", "event_log", "peer_results", "payload_hash", "payload_size",
    "started_at", "completed_at", "user", "rollback_of", "error",
)  # fmt: skip


_HIDDEN = ("owner", "root", "loads")
"""Of a record, besides: the process that deploys, its root of components, and whether the version is loaded when it is there."""


class DeploymentRecords:
    """The table of deployments."""

    def __init__(self, node: Node) -> None:
        self._node = node

    @property
    def table(self) -> Table:
        return self._node.store.databases[SYSTEM].tables[DEPLOYMENT_TABLE]

    def now_ms(self) -> int:
        return int(self._node.clock.wall() * 1000)

    def new(self, wish: DeploymentRequest, package: str | None, user: str | None, *, loads: bool = False) -> dict[str, Any]:
        """A record that is not written yet. `loads`: whether the version is loaded when it is there."""
        return {
            "deployment_id": wish.deployment_id,
            "project": wish.project,
            "package_identifier": None if package is None else shown(package),
            "status": PENDING,
            "phase": PREPARE,
            "event_log": [],
            "peer_results": [],
            "payload_hash": None,
            "payload_size": None,
            "started_at": self.now_ms(),
            "completed_at": None,
            "user": user,
            "rollback_of": None,
            "error": None,
            "owner": self._node.siblings.identity,
            "root": self._root,
            "loads": loads,
        }

    @property
    def _root(self) -> str:
        return str(self._node.deployments.layout.root.resolve())

    def note(self, record: dict[str, Any], phase: str, text: str) -> None:
        """Add an event; the first ones stay, and of the others the latest."""
        record["phase"] = phase
        events = record["event_log"]
        events.append({"time": self.now_ms(), "phase": phase, "message": text[:MAX_EVENT]})
        if len(events) > MAX_EVENTS:
            del events[MAX_EVENTS // 4]

    def shown(self, record: Mapping[str, Any]) -> dict[str, Any]:
        return {name: record.get(name) for name in _FIELDS}

    async def write(self, record: Mapping[str, Any]) -> None:
        """Returns when it is on the disk."""
        stored = {**self.shown(record), **{name: record[name] for name in _HIDDEN if name in record}}
        stored["error"] = None if stored["error"] is None else stored["error"][:MAX_ERROR]
        transaction = Transaction(self._node.store, record["user"])
        transaction.may_use_reserve = record["status"] != PENDING
        transaction.put(self.table, record["deployment_id"], stored)
        await write(transaction)

    def get(self, deployment_id: str) -> dict[str, Any] | None:
        try:
            raw = self.table.get_raw(deployment_id)
        except BadValue:
            return None
        return None if raw is None else self.shown(decode(raw))

    async def select(self, wanted: Callable[[dict[str, Any]], bool], *, whole: bool = False) -> list[dict[str, Any]]:
        """The records that are wanted, the newest first. `whole`: with what is never shown."""
        return cast(list[dict[str, Any]], await self._node.store.slices.result(self._steps(wanted, whole)))

    def _steps(self, wanted: Callable[[dict[str, Any]], bool], whole: bool) -> Generator[object, None, list[dict[str, Any]]]:
        found: list[dict[str, Any]] = []
        held = self._node.store.snapshots.hold(self.table.database)
        try:
            for _, raw in held.read(self.table.scan):
                record = decode(raw)
                if wanted(shown := self.shown(record)):
                    found.append(record if whole else shown)
                yield None
        finally:
            held.abort()
        return sorted(found, key=lambda record: -(record["started_at"] or 0))

    async def recover(self, decided: frozenset[str]) -> list[str]:
        """End the records of deployments whose process has ended. `decided`: those whose version is served. Returns the projects of those that were to be
        loaded then."""
        found: list[str] = []
        deployments = self._node.deployments
        for record in await self.select(lambda record: record["status"] == PENDING, whole=True):
            owner, project = record.get("owner"), record["project"]
            if record.get("root", self._root) != self._root or (owner is not None and self._node.siblings.is_alive(owner)):
                continue
            if not deployments.maybe_take(project):  # another process does this
                continue
            try:
                if await self._end_interrupted(record, decided) and record.get("loads"):
                    found.append(project)
            finally:
                deployments.release(project)
        return found

    async def _end_interrupted(self, record: dict[str, Any], decided: frozenset[str]) -> bool:
        """Returns whether it was this process that did, and the version is served."""
        is_success = await in_thread(lambda: record["deployment_id"] in decided or self._is_served(record))
        now = self.get(record["deployment_id"])
        if now is None or now["status"] != PENDING:
            return False
        self.note(record, record["phase"] or PREPARE, INTERRUPTED)
        record |= {"status": SUCCESS if is_success else FAILED, "completed_at": self.now_ms()}
        record["error"] = None if is_success else INTERRUPTED
        if is_success:
            with suppress(OSError):  # deployed by a reference, there is none
                record["payload_size"] = self._node.deployments.layout.payload(record["deployment_id"]).stat().st_size
        await self.write(record)
        return is_success

    def _is_served(self, record: Mapping[str, Any]) -> bool:
        layout = self._node.deployments.layout
        served = layout.served(record["project"])
        return served is not None and served == layout.version(record["project"], record["deployment_id"]).resolve()

    async def remove_old(self, project: str, kept_payloads: int) -> tuple[list[str], list[str]]:
        """Remove the oldest records of too many. Returns their ids, and those of records of a project whose payload is not kept any longer."""
        records = await self.select(lambda record: record["status"] != PENDING)
        surplus = [record["deployment_id"] for record in records[KEPT_RECORDS:]]
        if surplus:
            transaction = Transaction(self._node.store)
            for key in surplus:
                transaction.delete(self.table, key)
            await write(transaction)
        own = [record["deployment_id"] for record in records if record["project"] == project and record["payload_size"] is not None]
        return surplus, own[kept_payloads:]
