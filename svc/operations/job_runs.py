"""Running jobs: work that goes on after its response (spec: operations §4.1).

A job belongs to the process that took it and ends with it. The first process that notices reports it as interrupted: `JobRecords.recover`.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Iterator, Mapping
from typing import Any, Protocol
from uuid import uuid4

from svc.errors import BadValue, NotFound, Overloaded, Problem, Refusal
from svc.operations.job import COMPLETE, CREATED, ERROR, IN_PROGRESS, TRANSITIONS, Job, JobFailed, Work
from svc.operations.job_records import CANCEL_JOB, INTERRUPTED, JobNode, JobRecords
from svc.operations.operation import Operation
from svc.store import Transaction, WriterBusy
from svc.store.values.records import iso_text

# What a request brings to be stored elsewhere, too large for the record of a job.
BULKY = frozenset({"data", "records", "payload"})
_SECRET = re.compile(r"secret|password|passphrase|token|authorization|cookie|credential|private|header|access_key", re.IGNORECASE)
_ADDRESS = re.compile(r"([a-z][a-z0-9+.-]*://)(?:[^/@\s]*@)?([^?#\s]*)\S*", re.IGNORECASE)
_LONGEST_TEXT = 1000  # characters of a value
_MOST_ITEMS = 50  # of an object or a list
_DEEPEST = 4


def kept_request(body: Mapping[str, Any], secrets: frozenset[str]) -> dict[str, Any]:
    """What is stored of a request: neither secrets nor what is bulky; long texts are cut.

    >>> kept_request({"operation": "csv_data_load", "data": "id\\n1", "s3": {"aws_secret_access_key": "x", "key": "a.csv"}}, frozenset())
    {'operation': 'csv_data_load', 's3': {'key': 'a.csv'}}
    >>> kept_request({"csv_url": "https://me:word@example.com/a.csv?signature=1"}, frozenset())
    {'csv_url': 'https://example.com/a.csv'}
    """
    return {
        str(name): _kept(value, 0)
        for name, value in body.items()
        if name not in secrets and name not in BULKY and not _SECRET.search(str(name))
    }


def _kept(value: Any, depth: int) -> Any:
    if isinstance(value, str):
        if "://" in value:
            value = _ADDRESS.sub(r"\1\2", value)
        return value[:_LONGEST_TEXT]
    if isinstance(value, dict):
        if depth > _DEEPEST:
            return None
        return {str(name): _kept(item, depth + 1) for name, item in list(value.items())[:_MOST_ITEMS] if not _SECRET.search(str(name))}
    if isinstance(value, list | tuple):
        return None if depth > _DEEPEST else [_kept(item, depth + 1) for item in value[:_MOST_ITEMS]]
    return value if isinstance(value, int | float | bool) or value is None else str(value)[:_LONGEST_TEXT]


logger = logging.getLogger("svc.operations")

RUNNING = 4  # jobs at one time: more would only share the same disk
WAITING = 100  # that wait for a place; then 503
ANSWER_SECONDS = 5.0  # that other processes have to say whether a job is theirs
RETRY_PAUSE = 5.0  # seconds until the end of a job is written once more, after the store could not take it

UNEXPECTED = "There was an error processing your request. Check logs and try again."

_NEVER_SHOWN = frozenset({"request", "instance", "owner", "root", "after_restart"})


class JobCall(Protocol):
    """The parts of `call.Call` that jobs use."""

    operation: Operation
    body: Mapping[str, Any]

    @property
    def username(self) -> str | None: ...


class Jobs:
    """The jobs that this process has taken."""

    def __init__(self, node: JobNode) -> None:
        self._node = node
        self.records = JobRecords(node)
        self._jobs: dict[str, Job] = {}  # not ended
        self._places = asyncio.Semaphore(RUNNING)

    def __len__(self) -> int:
        return len(self._jobs)

    # -- taking and running

    def start(self, call: JobCall, work: Work, *, kind: str | None = None, frees: bool = False) -> Any:
        """Take a job. An awaitable of the 200 body, which comes when the record is on the disk; then the work begins, whether or not the client still waits.

        `kind`: the type of the record, default the name of the operation. `frees`: it frees space, so it may begin on a full volume.
        Raises Overloaded if too many wait already.
        """
        if len(self._jobs) >= RUNNING + WAITING:
            raise Overloaded("Too many jobs are waiting, try again later")
        job = Job(
            self,
            {
                "id": str(uuid4()),
                "type": kind or call.operation.name,
                "status": CREATED,
                "user": call.username,
                "created_datetime": self.records.now_ms(),
                "instance": self._node.siblings.number,
                "owner": self._node.siblings.identity,
                "request": kept_request(call.body, call.operation.secrets),
            },
        )
        self._jobs[job.id] = job
        begun: asyncio.Future[None] = self._node.loop.create_future()
        job.task = self._node.loop.create_task(self._run(job, work, begun, frees), name=f"job {job.id}")
        return _answer(job.id, begun)

    async def _run(self, job: Job, work: Work, begun: asyncio.Future[None], frees: bool) -> None:
        try:
            try:
                await self.records.create(job.record, frees)
            except Exception as error:
                _settle(begun, error)
                return
            job.is_stored = True
            _settle(begun)
            message: Any
            try:
                async with self._places:
                    await self._patch(job, job.enter(IN_PROGRESS, start_datetime=self.records.now_ms()))
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
        changes: dict[str, Any] = {"end_datetime": self.records.now_ms(), "message": message}
        if result is not None:
            changes["result"] = result
        level = logging.INFO if status == COMPLETE else logging.WARNING
        logger.log(level, "job %s (%s) of %s ended: %s, %s", job.id, job.record["type"], job.record["user"], status, message)
        changes = job.enter(status, **changes)
        while True:
            try:
                await self._patch(job, changes)
                break
            except BadValue:  # a string that cannot be stored, from a file or a peer
                changes["message"] = UNEXPECTED
                changes.pop("result", None)
                changes.pop("faults", None)
            except Problem as problem:
                logger.error("the end of job %s could not be written: %s", job.id, problem.message)
                await asyncio.sleep(RETRY_PAUSE)
        self.records.maybe_prune()

    async def stop(self) -> None:
        """End all of them, reported as interrupted. For the end of the server, while its loop still turns."""
        tasks = [job.task for job in self._jobs.values() if job.task is not None]
        tasks += [task for task in (self.records.prune_task, self.records.recovery) if task is not None]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _patch(self, job: Job, changes: dict[str, Any]) -> None:
        await self.records.patch(job.record, changes)

    async def note_restart(self, job: Job, message: str) -> None:
        changes = self.records.restarting(message)
        job.record |= changes
        await self._patch(job, changes)

    def maybe_write_progress(self, job: Job) -> None:
        """Write the progress if it is due; not awaited, and nothing is lost if it cannot be written now."""
        changes = job.unwritten_progress(self._node.clock.monotonic())
        if not changes:
            return
        transaction = Transaction(self._node.store, job.record["user"])
        transaction.patch(self.records.table, job.id, changes)
        try:
            transaction.apply(wait=False)
        except WriterBusy:
            return
        except Problem as problem:
            logger.warning("the progress of job %s could not be written: %s", job.id, problem.message)

    # -- cancelling

    async def cancel(self, job_id: str, user: str) -> bool:
        """Cancel a job, in whichever process it is; False if it has ended. Raises NotFound, and 503 if its process does not answer."""
        if self.cancel_here(job_id, user):
            return True
        if job_id in self._jobs:
            return False
        record = self.records.stored(job_id)
        if record is None:
            raise NotFound(f"Job '{job_id[:250]}' does not exist")
        if not TRANSITIONS[record["status"]]:
            return False
        siblings, owner = self._node.siblings, record.get("owner", "")
        answer = next((each for each in await siblings.ask(CANCEL_JOB, [job_id, user], ANSWER_SECONDS) if each.identity == owner), None)
        if answer is not None and answer.error is None:
            return answer.value is True
        if not siblings.is_alive(owner):
            await self.records.recover()
            return False
        raise Overloaded(f"The process that runs job '{job_id}' does not answer, try again later")

    def cancel_here(self, job_id: str, user: str) -> bool:
        """Cancel a job of this process; False if it has ended, or is none of them."""
        job = self._jobs.get(job_id)
        if job is None or not TRANSITIONS[job.status]:
            return False
        if job.cancelled_by is None:
            job.cancelled_by = user
            if job.is_stored and job.task is not None:  # else it notices by itself, once its caller has been answered
                job.task.cancel()
        return True

    # -- reading

    def find(self, job_id: str) -> dict[str, Any] | None:
        """The record as it is shown; None if it does not exist."""
        record = self.records.stored(job_id)
        return None if record is None else self._shown(record)

    def iter_between(self, from_ms: float, to_ms: float) -> Iterator[dict[str, Any] | None]:
        """The records of jobs taken in this time, both ends included, oldest first, as they are shown. A step gives one of them or None."""
        for record in self.records.iter_between(from_ms, to_ms):
            yield None if record is None else self._shown(record)

    def _shown(self, record: dict[str, Any]) -> dict[str, Any]:
        job = self._jobs.get(record["id"])
        if job is not None and record["status"] == IN_PROGRESS:
            record |= job.record
        shown = {name: value for name, value in record.items() if name not in _NEVER_SHOWN}
        for name in ("start_datetime", "end_datetime"):
            if shown.get(name) is not None:
                shown[f"{name}_converted"] = iso_text(int(shown[name]))
        return shown


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
