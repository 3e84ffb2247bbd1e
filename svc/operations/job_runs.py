"""Work that goes on after its answer, and the record that reports on it (contract: operations §4.1).

    CREATED       the record is on the disk, the caller has the id; waits for a place among those that run
    IN_PROGRESS   the work runs, beside requests and at most RUNNING - 1 others
    COMPLETE      it is done; `message`, and `result` if it has one
    ERROR         it has failed, or was cancelled; `message` says why

    CREATED -> IN_PROGRESS -> COMPLETE
       '------------'-------> ERROR

A job belongs to the instance that took it and ends with it: `recover`, at the next start, reports those that were cut off. Every change of
its record is a patch, because another instance may leave `cancelled_by` there.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from svc.errors import BadValue, NotFound, Overloaded, Problem, Refusal
from svc.operations.job_requests import kept_request
from svc.store import Table, Transaction, WriterBusy
from svc.store.system import JOB_TABLE, SYSTEM
from svc.store.table import new_uuid
from svc.store.values.keys import encode_key, index_key
from svc.store.values.records import decode, iso_text

if TYPE_CHECKING:
    from svc.operations.call import Call
    from svc.operations.node import Node

logger = logging.getLogger("svc.operations")

CREATED, IN_PROGRESS, COMPLETE, ERROR = "CREATED", "IN_PROGRESS", "COMPLETE", "ERROR"
TRANSITIONS: Mapping[str, tuple[str, ...]] = {
    CREATED: (IN_PROGRESS, ERROR),
    IN_PROGRESS: (COMPLETE, ERROR),
    COMPLETE: (),
    ERROR: (),
}

RUNNING = 4  # jobs at one time: more would only share the same disk
WAITING = 100  # that wait for a place; then 503
PROGRESS_PAUSE = 1.0  # seconds between two writes of a job's progress
LOOK_PAUSE = 1.0  # seconds between two looks whether another instance has cancelled something
RETRY_PAUSE = 5.0  # seconds until the end of a job is written once more, after the store could not take it
KEPT_SECONDS = 30 * 86400.0  # that records of ended jobs are kept
KEPT_JOBS = 10_000  # ... and how many of them
PRUNE_PAUSE = 3600.0  # seconds between two removals of old records
_BATCH = 40  # records removed in one transaction

INTERRUPTED = "interrupted by restart"
UNEXPECTED = "There was an error processing your request. Check logs and try again."

_NEVER_SHOWN = frozenset({"request", "instance", "cancelled_by", "after_restart"})

Work = Callable[["Job"], Awaitable[Any]]
"""The work of a job. Returns the final message, `(message, result)`, or None for the usual message."""


class JobFailed(Exception):
    """A job ends as ERROR with this message: a text, or the object of the role check."""

    def __init__(self, message: str | dict[str, Any]) -> None:
        super().__init__(str(message))
        self.message = message


class Job:
    """One of them, while it waits or runs. `record` is what the table has, but for progress that is not written yet.

    `result`: a work may set it instead of returning it. `cancelled_by`: username; may be read on any thread.
    """

    __slots__ = ("_jobs", "_next_write", "_written", "cancelled_by", "id", "is_stored", "record", "result", "task")

    def __init__(self, jobs: Jobs, record: dict[str, Any]) -> None:
        self._jobs = jobs
        self._next_write = 0.0  # monotonic
        self._written: dict[str, Any] = {}  # progress and message as they were last written
        self.id: str = record["id"]
        self.record = record
        self.result: Any = None
        self.is_stored = False
        self.cancelled_by: str | None = None
        self.task: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        return f"<Job {self.id} {self.record['type']} {self.status}>"

    @property
    def status(self) -> str:
        return self.record["status"]  # type: ignore[no-any-return]

    @property
    def ends_after_restart(self) -> bool:
        return "after_restart" in self.record

    @property
    def is_cancelled(self) -> bool:
        return self.cancelled_by is not None

    def check_cancelled(self) -> None:
        """Raise CancelledError if somebody wants it to end. Not on another thread: ask `is_cancelled` there."""
        if self.cancelled_by is not None:
            raise asyncio.CancelledError

    async def progress(self, done: int, total: int | None = None, message: str = "") -> None:
        """Report how far it is: cheap, written about once a second. Raises CancelledError as `check_cancelled` does."""
        self.check_cancelled()
        self.note_progress(done, total, message)

    async def restart(self, begin: Callable[[], object], message: str) -> None:
        """Restart the service: `begin` starts that, and the job is COMPLETE with this message when the new process answers. Does not return.

        The record, with what it is to become, is on the disk before the restart begins.
        """
        await self._jobs.note_restart(self, message)
        self.check_cancelled()
        begin()
        await asyncio.get_running_loop().create_future()  # until the end of this process cancels it

    def note_progress(self, done: int, total: int | None = None, message: str = "") -> None:
        """The same for callbacks on the loop."""
        self.record["progress"] = {"done": done, "total": total}
        if message:
            self.record["message"] = message
        self._jobs.maybe_write_progress(self)

    def enter(self, status: str, **changes: Any) -> dict[str, Any]:
        """Change the state; returns what has to be written."""
        assert status in TRANSITIONS[self.status], f"a job went from {self.status} to {status}"
        changes["status"] = status
        if "progress" in self.record:
            changes["progress"] = self.record["progress"]
        self.record.update(changes)
        return changes

    def unwritten_progress(self, now: float) -> dict[str, Any]:
        """What is due to be written of its progress; nothing if that is too soon."""
        if now < self._next_write or self.status != IN_PROGRESS:
            return {}
        changes: dict[str, Any] = {name: self.record[name] for name in ("progress", "message") if name in self.record}
        if changes == self._written:
            return {}
        self._next_write = now + PROGRESS_PAUSE
        self._written = changes
        return dict(changes)


class Jobs:
    """The jobs that this instance has taken."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._jobs: dict[str, Job] = {}  # not ended
        self._places = asyncio.Semaphore(RUNNING)
        self._next_prune = 0.0  # monotonic
        self._prune: asyncio.Task[None] | None = None
        self._is_looking = False

    def __len__(self) -> int:
        return len(self._jobs)

    @property
    def table(self) -> Table:
        return self._node.store.databases[SYSTEM].tables[JOB_TABLE]

    # -- taking and running

    def start(self, call: Call, work: Work, *, kind: str | None = None, frees: bool = False) -> Any:
        """Take a job. An awaitable of the 200 body, which comes when the record is on the disk; then the work begins, whoever still waits.

        `kind`: the type of the record, default the name of the operation. `frees`: it frees space, so it may begin on a full volume.
        Raises Overloaded if too many wait already.
        """
        if len(self._jobs) >= RUNNING + WAITING:
            raise Overloaded("Too many jobs are waiting, try again later")
        job = Job(
            self,
            {
                "id": new_uuid(),
                "type": kind or call.operation.name,
                "status": CREATED,
                "user": call.username,
                "created_datetime": self._now_ms(),
                "instance": self._node.instance,
                "request": kept_request(call.body, call.operation.secrets),
            },
        )
        self._jobs[job.id] = job
        begun: asyncio.Future[None] = self._node.loop.create_future()
        job.task = self._node.loop.create_task(self._run(job, work, begun, frees), name=f"job {job.id}")
        self._watch()
        return _answer(job.id, begun)

    async def _run(self, job: Job, work: Work, begun: asyncio.Future[None], frees: bool) -> None:
        try:
            try:
                await self._create(job, frees)
            except Exception as error:
                _settle(begun, error)
                return
            job.is_stored = True
            _settle(begun)
            message: Any
            try:
                async with self._places:
                    await self._patch(job, job.enter(IN_PROGRESS, start_datetime=self._now_ms()))
                    job.check_cancelled()
                    message, result = _outcome(job, await work(job))
                status = COMPLETE
            except asyncio.CancelledError:
                if job.ends_after_restart and job.cancelled_by is None:
                    return
                status, message, result = ERROR, INTERRUPTED if job.cancelled_by is None else f"cancelled by {job.cancelled_by}", None
            except JobFailed as failure:
                status, message, result = ERROR, failure.message, None
            except Refusal as refusal:
                status, message, result = ERROR, refusal.body, None
            except Problem as problem:
                status, message, result = ERROR, problem.message, None
            except Exception:
                logger.exception("job %s (%s) failed", job.id, job.record["type"])
                status, message, result = ERROR, UNEXPECTED, None
            await self._end(job, status, message, result)
        finally:
            del self._jobs[job.id]
            if not begun.done():
                begun.cancel()

    async def _end(self, job: Job, status: str, message: Any, result: Any) -> None:
        """Write how it ended; as long as the store cannot take that, readers get it from here."""
        changes: dict[str, Any] = {"end_datetime": self._now_ms(), "message": message}
        if result is not None:
            changes["result"] = result
        level = logging.INFO if status == COMPLETE else logging.WARNING
        logger.log(level, "job %s (%s) of %s ended: %s, %s", job.id, job.record["type"], job.record["user"], status, message)
        changes = job.enter(status, **changes)
        while True:
            try:
                await self._patch(job, changes)
                break
            except BadValue:  # text that cannot be stored, of a file or a peer
                changes["message"] = UNEXPECTED
                changes.pop("result", None)
            except Problem as problem:
                logger.error("the end of job %s could not be written: %s", job.id, problem.message)
                await asyncio.sleep(RETRY_PAUSE)
        self._maybe_prune()

    async def stop(self) -> None:
        """End all of them, reported as interrupted. For the end of the server, while its loop still turns."""
        tasks = [job.task for job in self._jobs.values() if job.task is not None]
        if self._prune is not None:
            tasks.append(self._prune)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

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
                        table, record["id"], {"status": ERROR, "message": INTERRUPTED, "end_datetime": max(self._now_ms(), _began(record))}
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

    async def note_restart(self, job: Job, message: str) -> None:
        job.record["after_restart"] = message
        await self._patch(job, {"after_restart": message})

    def end_restarts(self) -> None:
        """Report the jobs that have restarted the service as done. When it answers. Raises Problem."""
        table = self.table
        snapshot = table.database.snapshot()
        transaction = Transaction(self._node.store)
        for stored, _ in list(_entries(table, "status", index_key(IN_PROGRESS), index_key(IN_PROGRESS) + b"\0", snapshot)):
            raw = table.get_by(stored, snapshot)
            record = {} if raw is None else decode(raw)
            if "after_restart" in record and record.get("instance", 0) == self._node.instance:
                ended = max(self._now_ms(), _began(record))
                transaction.patch(table, record["id"], {"status": COMPLETE, "message": record["after_restart"], "end_datetime": ended})
        if transaction.has_writes:
            transaction.apply()
            self._node.store.commit_turn()
            problem = transaction.outcome and transaction.outcome[0]
            if problem is not None:
                raise problem

    # -- cancelling

    async def cancel(self, job_id: str, user: str) -> bool:
        """Cancel a job, in whichever instance it is; False if it has ended. Raises NotFound."""
        job = self._jobs.get(job_id)
        if job is not None:
            return self._cancel(job, user)
        record = self._stored(job_id)
        if record is None:
            raise NotFound(f"Job '{job_id[:250]}' does not exist")
        if record["status"] not in (CREATED, IN_PROGRESS):
            return False
        await self._write(lambda transaction: transaction.patch(self.table, job_id, {"cancelled_by": user}), user)
        return True

    @staticmethod
    def _cancel(job: Job, user: str) -> bool:
        if not TRANSITIONS[job.status]:
            return False
        if job.cancelled_by is None:
            job.cancelled_by = user
            if job.is_stored and job.task is not None:  # else it notices by itself, once its caller has been answered
                job.task.cancel()
        return True

    def _watch(self) -> None:
        """Look now and then what other instances want, while there are jobs."""
        if not self._is_looking and self._node.config.instances > 1:
            self._is_looking = True
            self._node.loop.call_later(LOOK_PAUSE, self._look_again)

    def _look_again(self) -> None:
        self._is_looking = False
        if self._jobs:
            self.look()
            self._watch()

    def look(self) -> None:
        """Cancel what another instance wants to have cancelled."""
        for job in list(self._jobs.values()):
            wish = (self._stored(job.id) or {}).get("cancelled_by")
            if wish is not None:
                self._cancel(job, wish)

    # -- reading

    def find(self, job_id: str) -> dict[str, Any] | None:
        """The record as it is shown; None if there is none."""
        record = self._stored(job_id)
        return None if record is None else self._shown(record)

    def iter_between(self, from_ms: float, to_ms: float) -> Iterator[dict[str, Any] | None]:
        """The records of jobs taken in this time, both ends included, oldest first. A step gives one of them or None."""
        table = self.table
        held = self._node.store.snapshots.hold(table.database)
        try:
            entries = _entries(table, "created_datetime", encode_key(from_ms), encode_key(to_ms) + b"\0", held.use())
            for stored, _ in entries:
                raw = table.get_by(stored, held.use())
                yield None if raw is None else self._shown(decode(raw))
        finally:
            held.abort()

    def _stored(self, job_id: str) -> dict[str, Any] | None:
        try:
            raw = self.table.get_raw(job_id)
        except BadValue:  # text that no key can be
            return None
        return None if raw is None else decode(raw)

    def _shown(self, record: dict[str, Any]) -> dict[str, Any]:
        job = self._jobs.get(record["id"])
        if job is not None and record["status"] == IN_PROGRESS:
            record |= job.record
        shown = {name: value for name, value in record.items() if name not in _NEVER_SHOWN}
        for name in ("start_datetime", "end_datetime"):
            if shown.get(name) is not None:
                shown[f"{name}_converted"] = iso_text(int(shown[name]))
        return shown

    # -- writing

    async def _create(self, job: Job, frees: bool) -> None:
        def collect(transaction: Transaction) -> None:
            transaction.may_use_reserve = frees
            transaction.put(self.table, job.id, dict(job.record))

        try:
            await self._write(collect, job.record["user"])
        except BadValue:  # a request that cannot be stored can be answered all the same
            job.record["request"] = None
            await self._write(collect, job.record["user"])

    async def _patch(self, job: Job, changes: dict[str, Any]) -> None:
        def collect(transaction: Transaction) -> None:
            transaction.may_use_reserve = True  # it has begun, and its end takes little
            transaction.patch(self.table, job.id, dict(changes))

        await self._write(collect, job.record["user"])

    async def _write(self, collect: Callable[[Transaction], None], user: str | None) -> None:
        """Returns when it is on the disk. Raises the Problem that prevents it."""
        transaction = Transaction(self._node.store, user)
        collect(transaction)
        await transaction.apply_in_turn()
        await on_disk(transaction, self._node.loop)

    def maybe_write_progress(self, job: Job) -> None:
        """Nobody waits for it, and nothing is lost if it cannot be written now."""
        changes = job.unwritten_progress(self._node.clock.monotonic())
        if not changes:
            return
        transaction = Transaction(self._node.store, job.record["user"])
        transaction.patch(self.table, job.id, changes)
        try:
            transaction.apply(wait=False)
        except WriterBusy:
            return
        except Problem as problem:
            logger.warning("the progress of job %s could not be written: %s", job.id, problem.message)

    def _now_ms(self) -> int:
        return int(self._node.clock.wall() * 1000)

    # -- old records

    def _maybe_prune(self) -> None:
        now = self._node.clock.monotonic()
        table = self.table
        is_full = table.entry_count(table.database.snapshot()) > KEPT_JOBS + _BATCH
        if (is_full or now >= self._next_prune) and (self._prune is None or self._prune.done()):
            self._next_prune = now + PRUNE_PAUSE
            self._prune = self._node.loop.create_task(self._remove_old(), name="old jobs")

    async def _remove_old(self) -> None:
        """Remove records of ended jobs: those that are too old, and the oldest of too many."""
        table = self.table
        before_ms = self._now_ms() - KEPT_SECONDS * 1000
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
                await self._write(remove, None)
            except Problem as problem:
                logger.warning("old jobs could not be removed: %s", problem.message)
                return


def _entries(table: Table, attribute: str, low: bytes | None, high: bytes | None, snapshot: Any) -> Iterator[tuple[bytes, bytes]]:
    """(stored key, index key) by an attribute with an index, in its order."""
    return ((stored, key) for key, stored in table.indexes[attribute].scan(snapshot, low, high))


def _began(record: Mapping[str, Any]) -> int:
    return int(record.get("start_datetime") or record.get("created_datetime") or 0)


async def _answer(job_id: str, begun: asyncio.Future[None]) -> dict[str, str]:
    await begun
    return {"message": f"Starting job with id {job_id}", "job_id": job_id}


def _settle(begun: asyncio.Future[None], error: Exception | None = None) -> None:
    if begun.done():
        return
    if error is None:
        begun.set_result(None)
    else:
        begun.set_exception(error)


def _outcome(job: Job, returned: Any) -> tuple[Any, Any]:
    """(message, result)"""
    message, result = returned if isinstance(returned, tuple) else (returned, None)
    return (f"Successfully completed job: {job.id}" if message is None else message), job.result if result is None else result


async def on_disk(transaction: Transaction, loop: asyncio.AbstractEventLoop) -> None:
    """Wait until an applied transaction is on the disk. Raises the Problem that has undone it."""
    if transaction.outcome is None:
        done: asyncio.Future[None] = loop.create_future()

        def told(_: Problem | None) -> None:
            # It is told at the very end of a turn, when the length of the next poll is settled: only this wakes the loop from it.
            loop.call_soon_threadsafe(_settle, done)

        transaction.on_done = told
        await done
    problem = transaction.outcome[0] if transaction.outcome is not None else None
    if problem is not None:
        raise problem
