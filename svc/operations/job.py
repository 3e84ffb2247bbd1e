"""A job: its states, its record, its progress (spec: operations §4.1).

CREATED       the record is on disk, the caller has the id; waits for one of RUNNING places
IN_PROGRESS   the work runs, beside requests and at most RUNNING - 1 others
COMPLETE      it is done; `message`, and `result` if it has one
ERROR         it has failed, or was cancelled; `message` says why

CREATED -> IN_PROGRESS -> COMPLETE
   '------------'-------> ERROR
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

CREATED, IN_PROGRESS, COMPLETE, ERROR = "CREATED", "IN_PROGRESS", "COMPLETE", "ERROR"
TRANSITIONS: Mapping[str, tuple[str, ...]] = {
    CREATED: (IN_PROGRESS, ERROR),
    IN_PROGRESS: (COMPLETE, ERROR),
    COMPLETE: (),
    ERROR: (),
}

PROGRESS_PAUSE = 1.0  # seconds between two writes of a job's progress

Work = Callable[["Job"], Awaitable[Any]]
"""The work of a job. Returns the final message, `(message, result)`, or None for the usual message."""


class JobFailed(Exception):
    """A job ends as ERROR with this message: a text, or the object of the role check."""

    def __init__(self, message: str | dict[str, Any]) -> None:
        super().__init__(str(message))
        self.message = message


class JobWriter(Protocol):
    """Writes the changes of a job: `job_runs.Jobs`."""

    async def note_restart(self, job: Job, message: str) -> None: ...

    def maybe_write_progress(self, job: Job) -> None: ...


class Job:
    """A job that waits or runs. `record`: as in the table, except for progress that is not written yet.

    `result`: a work may set it instead of returning it. `cancelled_by`: username; may be read on any thread.
    """

    __slots__ = ("_jobs", "_next_write", "_written", "cancelled_by", "id", "is_stored", "record", "result", "task")

    def __init__(self, jobs: JobWriter, record: dict[str, Any]) -> None:
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

    def check_cancelled(self) -> None:
        """Raise CancelledError if the job was cancelled. Not for other threads: they read `cancelled_by`."""
        if self.cancelled_by is not None:
            raise asyncio.CancelledError

    async def progress(self, done: int, total: int | None = None, message: str = "", counts: Mapping[str, int] | None = None) -> None:
        """Report the progress: cheap, written about once a second. `counts`: what became of what is done. Raises CancelledError as `check_cancelled`
        does."""
        self.check_cancelled()
        self.note_progress(done, total, message, counts)

    async def restart(self, begin: Callable[[], object], message: str) -> None:
        """Restart the service: `begin` starts that, and the job is COMPLETE with this message when the new process answers. Does not return.

        The record, with what it is to become, is on the disk before the restart begins.
        """
        await self._jobs.note_restart(self, message)
        self.check_cancelled()
        begin()
        await asyncio.get_running_loop().create_future()  # until the end of this process cancels it

    def note_faults(self, faults: list[dict[str, Any]]) -> None:
        """What of the work's input is wrong so far: written with the progress, and at the end."""
        if faults:
            self.record["faults"] = faults

    def note_progress(self, done: int, total: int | None = None, message: str = "", counts: Mapping[str, int] | None = None) -> None:
        """The same for callbacks on the loop."""
        self.record["progress"] = {"done": done, "total": total, **(counts or {})}
        if message:
            self.record["message"] = message
        self._jobs.maybe_write_progress(self)

    def enter(self, status: str, **changes: Any) -> dict[str, Any]:
        """Change the state; returns the changes to write."""
        assert status in TRANSITIONS[self.status], f"a job went from {self.status} to {status}"
        changes["status"] = status
        changes.update((name, self.record[name]) for name in ("progress", "faults") if name in self.record)
        self.record.update(changes)
        return changes

    def unwritten_progress(self, now: float) -> dict[str, Any]:
        """The changes of its progress that are due to be written; empty if it is too soon."""
        if now < self._next_write or self.status != IN_PROGRESS:
            return {}
        changes: dict[str, Any] = {name: self.record[name] for name in ("progress", "faults", "message") if name in self.record}
        if changes == self._written:
            return {}
        self._next_write = now + PROGRESS_PAUSE
        self._written = changes
        return dict(changes)
