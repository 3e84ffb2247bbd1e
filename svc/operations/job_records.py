"""The records of jobs in `system.svc_job`: written, read, ended when their process has, removed when they are old (spec: operations §4.1).

A job belongs to the process that took it, its `owner`. Nobody else writes its record as long as that lives.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor
from typing import TYPE_CHECKING, Any, Protocol

from svc.clock import Clock
from svc.config import Config
from svc.errors import BadValue, Problem
from svc.operations.job import COMPLETE, CREATED, ERROR, IN_PROGRESS, TRANSITIONS
from svc.store import Store, Table, Transaction
from svc.store.system import JOB_TABLE, SYSTEM
from svc.store.values.keys import encode_key, index_key
from svc.store.values.records import decode
from svc.store.writing.commit import wait_committed

if TYPE_CHECKING:
    from svc.operations.uploads import Uploads
    from svc.siblings import Siblings

logger = logging.getLogger("svc.operations")

UPLOADS = "tmp", "uploads"  # below the root: files for loads that follow
CANCEL_JOB = "cancel a job"  # what a process is asked that runs it

KEPT_SECONDS = 30 * 86400.0  # that records of ended jobs are kept
KEPT_JOBS = 10_000  # ... and how many of them
PRUNE_PAUSE = 3600.0  # seconds between two removals of old records
RECOVER_PAUSE = 60.0  # seconds between two looks for jobs whose process has ended unnoticed
_BATCH = 40  # records removed in one transaction

CANCEL = "cancel a job"
"""Asked of other processes with [id, username]: whether it was theirs, and is cancelled now."""
INTERRUPTED = "interrupted by restart"


class JobNode(Protocol):
    """The parts of `node.Node` that jobs use."""

    store: Store
    config: Config
    clock: Clock
    loop: asyncio.AbstractEventLoop
    executor: Executor
    siblings: Siblings

    @property
    def uploads(self) -> Uploads: ...


class JobRecords:
    """The table of jobs."""

    def __init__(self, node: JobNode) -> None:
        self._node = node
        self._next_prune = 0.0  # monotonic; the next one, too
        self._next_recovery = node.clock.monotonic() + RECOVER_PAUSE
        self.prune_task: asyncio.Task[None] | None = None
        self.recovery: asyncio.Task[None] | None = None

    @property
    def table(self) -> Table:
        return self._node.store.databases[SYSTEM].tables[JOB_TABLE]

    def now_ms(self) -> int:
        return int(self._node.clock.wall() * 1000)

    # -- writing

    async def create(self, record: dict[str, Any], frees: bool) -> None:
        def collect(transaction: Transaction) -> None:
            transaction.may_use_reserve = frees
            transaction.put(self.table, record["id"], dict(record))

        try:
            await self.write(collect, record["user"])
        except BadValue:  # a request that cannot be stored can be answered all the same
            record["request"] = None
            await self.write(collect, record["user"])

    async def patch(self, record: Mapping[str, Any], changes: dict[str, Any]) -> None:
        def collect(transaction: Transaction) -> None:
            transaction.may_use_reserve = True  # the job has begun, and its end takes little space
            transaction.patch(self.table, record["id"], dict(changes))

        await self.write(collect, record["user"])

    async def write(self, collect: Callable[[Transaction], None], user: str | None) -> None:
        """Returns when it is on the disk. Raises the Problem that prevents it."""
        transaction = Transaction(self._node.store, user)
        collect(transaction)
        await transaction.apply_in_turn()
        await wait_committed(transaction)

    # -- jobs of processes that have ended

    async def recover(self) -> int:
        """Report the jobs of processes that do not live any more as interrupted; returns how many. Of those that have restarted the service see
        `end_restarts`. Raises Problem."""
        found = [record for record in self._left_behind() if "after_restart" not in record]
        if not found:
            return 0
        table, now_ms = self.table, self.now_ms()

        def collect(transaction: Transaction) -> None:
            transaction.may_use_reserve = True
            for record in found:
                changes = {"status": ERROR, "message": INTERRUPTED, "end_datetime": max(now_ms, _began(record))}
                transaction.update(table, record["id"], changes, decide=_unless_ended)

        await self.write(collect, None)
        logger.warning("%d jobs were interrupted by the end of the process that ran them", len(found))
        return len(found)

    def sweep(self, now: float) -> None:
        """Once a second: now and then `recover`, if this process leads."""
        if now >= self._next_recovery and self._node.siblings.is_leader:
            self._next_recovery = now + RECOVER_PAUSE
            self.recover_soon()

    def owner_left(self, owner: str) -> None:
        """The process of this identity has ended."""
        self.recover_soon()

    def recover_soon(self) -> asyncio.Task[None]:
        """`recover` as a task: what prevents it is logged, and it is tried again later."""
        if self.recovery is None or self.recovery.done():
            self.recovery = self._node.loop.create_task(self._recover(), name="interrupted jobs")
        return self.recovery

    async def _recover(self) -> None:
        try:
            await self.recover()
        except Problem as problem:
            logger.warning("interrupted jobs could not be recorded: %s", problem.message)
        if self._node.config.root.joinpath(*UPLOADS).is_dir():
            await self._node.loop.run_in_executor(self._node.executor, self._node.uploads.remove_old)

    def _left_behind(self) -> Iterator[dict[str, Any]]:
        """The records of jobs that have not ended though their process has."""
        is_alive = {"": False}  # by owner
        for record in self._unfinished():
            owner = record.get("owner", "")
            if owner not in is_alive:
                is_alive[owner] = self._node.siblings.is_alive(owner)
            if not is_alive[owner]:
                yield record

    def _unfinished(self) -> list[dict[str, Any]]:
        table = self.table
        snapshot = table.database.snapshot()
        found = []
        for status in (CREATED, IN_PROGRESS):
            for stored, _ in _entries(table, "status", index_key(status), index_key(status) + b"\0", snapshot):
                raw = table.get_by(stored, snapshot)
                if raw is not None:
                    found.append(decode(raw))
        return found

    def restarting(self, message: str) -> dict[str, Any]:
        """What the record of a job gets that restarts the service, with its message when that is done."""
        return {"after_restart": message, "root": str(self._node.config.root)}

    async def end_restarts(self) -> None:
        """Report the jobs that have restarted the service as done. When it answers. Raises Problem."""
        node, table = self._node, self.table
        instances, own = node.config.instances, node.siblings.number

        def is_done(record: Mapping[str, Any]) -> bool:
            """Whether this process has taken the place of the one that ran the job."""
            number = record.get("instance", 0)
            is_here = record.get("root", str(node.config.root)) == str(node.config.root)
            return is_here and record.get("owner") != node.siblings.identity and (number == own or number >= instances)

        found = [record for record in self._unfinished() if "after_restart" in record and is_done(record)]
        if found:
            now_ms = self.now_ms()

            def collect(transaction: Transaction) -> None:
                for record in found:
                    changes = {"status": COMPLETE, "message": record["after_restart"], "end_datetime": max(now_ms, _began(record))}
                    transaction.update(table, record["id"], changes, decide=_unless_ended)

            await self.write(collect, None)

    # -- reading

    def stored(self, job_id: str) -> dict[str, Any] | None:
        try:
            raw = self.table.get_raw(job_id)
        except BadValue:  # a string that no key can be
            return None
        return None if raw is None else decode(raw)

    def iter_between(self, from_ms: float, to_ms: float) -> Iterator[dict[str, Any] | None]:
        """The records of jobs taken in this time, both ends included, oldest first. A step gives one of them or None."""
        table = self.table
        held = self._node.store.snapshots.hold(table.database)
        try:
            low, high = encode_key(from_ms), encode_key(to_ms) + b"\0"
            for stored, _ in held.read(lambda txn: _entries(table, "created_datetime", low, high, txn)):
                raw = table.get_by(stored, held.use())
                yield None if raw is None else decode(raw)
        finally:
            held.abort()

    # -- removing old records

    def maybe_prune(self) -> None:
        now = self._node.clock.monotonic()
        table = self.table
        is_full = table.entry_count(table.database.snapshot()) > KEPT_JOBS + _BATCH
        if (is_full or now >= self._next_prune) and (self.prune_task is None or self.prune_task.done()):
            self._next_prune = now + PRUNE_PAUSE
            self.prune_task = self._node.loop.create_task(self.remove_old(), name="old jobs")

    async def remove_old(self) -> None:
        """Remove records of ended jobs: those that are too old, and the oldest of too many."""
        table = self.table
        before_ms = self.now_ms() - KEPT_SECONDS * 1000
        passed = 0  # records at the beginning that have to stay
        while True:
            await self._node.store.slices.take()
            snapshot = table.database.snapshot()
            surplus = table.entry_count(snapshot) - KEPT_JOBS
            keys: list[str] = []
            seen = 0
            for stored, _ in _entries(table, "created_datetime", None, None, snapshot):
                seen += 1
                if seen <= passed:
                    continue
                raw = table.get_by(stored, snapshot)
                record = {} if raw is None else decode(raw)
                if not (len(keys) < surplus or record.get("created_datetime", 0) < before_ms) or len(keys) == _BATCH:
                    break
                if TRANSITIONS.get(record.get("status", ERROR)):
                    passed += 1
                else:
                    keys.append(record["id"])
            if not keys:
                return

            def remove(transaction: Transaction, keys: list[str] = keys) -> None:
                for key in keys:
                    transaction.delete(table, key)

            try:
                await self.write(remove, None)
            except Problem as problem:
                logger.warning("old jobs could not be removed: %s", problem.message)
                return


def _entries(table: Table, attribute: str, low: bytes | None, high: bytes | None, snapshot: Any) -> Iterator[tuple[bytes, bytes]]:
    """(stored key, index key) by an attribute with an index, in its order."""
    return ((stored, key) for key, stored in table.indexes[attribute].scan(snapshot, low, high))


def _began(record: Mapping[str, Any]) -> int:
    return int(record.get("start_datetime") or record.get("created_datetime") or 0)


def _unless_ended(changes: dict[str, Any], stored: Mapping[str, Any] | None) -> dict[str, Any]:
    """The changes, unless the job has ended: its process has written that with its last breath, or another one was faster."""
    return changes if stored is not None and TRANSITIONS.get(stored["status"]) else {}
