"""The records of jobs in `system.svc_job`: written, read, recovered after a restart, removed when they are old (spec: operations §4.1).

Every change of a record is a patch, because another instance may set `cancelled_by` in it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

from svc.clock import Clock
from svc.config import Config
from svc.errors import BadValue, Problem
from svc.operations.job import COMPLETE, CREATED, ERROR, IN_PROGRESS, TRANSITIONS
from svc.store import Store, Table, Transaction
from svc.store.system import JOB_TABLE, SYSTEM
from svc.store.values.keys import encode_key, index_key
from svc.store.values.records import decode
from svc.store.writing.commit import wait_committed

logger = logging.getLogger("svc.operations")

KEPT_SECONDS = 30 * 86400.0  # that records of ended jobs are kept
KEPT_JOBS = 10_000  # ... and how many of them
PRUNE_PAUSE = 3600.0  # seconds between two removals of old records
_BATCH = 40  # records removed in one transaction

INTERRUPTED = "interrupted by restart"


class JobNode(Protocol):
    """The parts of `node.Node` that jobs use."""

    store: Store
    config: Config
    clock: Clock
    loop: asyncio.AbstractEventLoop
    instance: int


class JobRecords:
    """The table of jobs."""

    def __init__(self, node: JobNode) -> None:
        self._node = node
        self._next_prune = 0.0  # monotonic
        self.prune_task: asyncio.Task[None] | None = None

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

    # -- at the start of an instance

    def recover(self) -> int:
        """Report the jobs that an earlier run of this instance has left as interrupted; returns how many. At the start, before any is taken.

        Instance 0 does it also for instances that there are no more.
        """
        node = self._node
        table = self.table
        snapshot = table.database.snapshot()
        transaction = Transaction(node.store)
        found = 0
        for status in (CREATED, IN_PROGRESS):
            for stored, _ in list(_entries(table, "status", index_key(status), index_key(status) + b"\0", snapshot)):
                raw = table.get_by(stored, snapshot)
                if raw is None:
                    continue
                record = decode(raw)
                if "after_restart" in record:
                    continue  # `end_restarts`, once this process answers
                instance = record.get("instance", 0)
                if instance == node.instance or (node.instance == 0 and instance >= node.config.instances):
                    transaction.patch(
                        table, record["id"], {"status": ERROR, "message": INTERRUPTED, "end_datetime": max(self.now_ms(), _began(record))}
                    )
                    found += 1
        if found:
            transaction.apply()
            node.store.commit_turn()
            problem = transaction.outcome and transaction.outcome[0]
            if problem is not None:
                raise problem
            logger.warning("%d jobs were interrupted by the end of the service", found)
        return found

    def end_restarts(self) -> None:
        """Report the jobs that have restarted the service as done. When it answers. Raises Problem."""
        table = self.table
        snapshot = table.database.snapshot()
        transaction = Transaction(self._node.store)
        for stored, _ in list(_entries(table, "status", index_key(IN_PROGRESS), index_key(IN_PROGRESS) + b"\0", snapshot)):
            raw = table.get_by(stored, snapshot)
            record = {} if raw is None else decode(raw)
            if "after_restart" in record and record.get("instance", 0) == self._node.instance:
                ended = max(self.now_ms(), _began(record))
                transaction.patch(table, record["id"], {"status": COMPLETE, "message": record["after_restart"], "end_datetime": ended})
        if transaction.has_writes:
            transaction.apply()
            self._node.store.commit_turn()
            problem = transaction.outcome and transaction.outcome[0]
            if problem is not None:
                raise problem

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
