"""The jobs of one server instance: timers and runs (spec: components §3).

    idle --a moment has come--> claiming --claimed--> running --ends--> idle
              ^                     |                    |
              '---taken elsewhere---'                    '-- at most the last moment that has come meanwhile is taken next

Every instance watches the clock for all jobs of its applications, and the one that claims a moment first runs it (`claims`).

Timers are set for the next moment, and for no longer than a second: a clock that is set is noticed. Whatever happens between two looks at it, at most
the last moment of each job is taken.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import traceback
from collections.abc import Callable, Sequence
from dataclasses import replace
from math import inf
from typing import Any

from svc.awaitables import is_waiting, settled
from svc.clock import Clock
from svc.errors import ClientError, NotFound, Overloaded, Problem
from svc.loop import is_ours
from svc.scheduler.claims import Claims, Handler, ScheduledJob
from svc.scheduler.job import JobRun, JobSpec
from svc.scheduler.job_state import FAILED, INTERRUPTED, MAX_ERROR, RUNNING, SUCCEEDED, JobState, JobTables, Outcome
from svc.store import Store

logger = logging.getLogger("svc.applications")

LOOK = 1.0  # seconds between two looks at the clock, at most
HEARTBEAT = 60.0  # seconds between two signs of life of a run
CHECK = 15.0  # seconds between two looks at a run of another process, and after a failure of the store
AT_ONCE = 20  # runs that begin in one turn of the loop

Report = Callable[[str, str, str], None]
"""(application, level, text) -> logged."""


class Scheduler:
    """The jobs of all applications of one instance."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        loop: asyncio.AbstractEventLoop,
        owner: str,
        is_alive: Callable[[str], bool],
        *,
        report: Report = lambda application, level, text: None,
    ) -> None:
        """`owner`: identity of this process, other than that of any other on the data directory. `is_alive`: whether the process of that identity
        lives."""
        self.look = LOOK
        """Seconds between two looks at the clock, at most."""
        self.may_begin: Callable[[], bool] = lambda: True
        """Whether runs may begin: not while the server is about to stop."""
        self._clock = clock
        self._loop = loop
        self._report = report
        self._tables = JobTables(store)
        self._claims = Claims(clock, owner, is_alive, lambda job: job.key in self._running)
        self._jobs: dict[tuple[str, str], ScheduledJob] = {}
        self._leaving: dict[tuple[str, str], ScheduledJob] = {}  # withdrawn in this turn: perhaps for a newer version of the application
        self._running: dict[tuple[str, str], ScheduledJob] = {}
        self._busy: dict[asyncio.Task[None], ScheduledJob | None] = {}  # what claims or runs a job, or gives signs of life
        self._timer: asyncio.TimerHandle | None = None
        self._arming: asyncio.Handle | None = None
        self._is_started = self._is_stopped = False
        self._beat_at = 0.0

    # --- the jobs of applications --------------------------------------------------------------------------------------------------------

    def set(self, application: str, jobs: Sequence[tuple[JobSpec, Handler]]) -> None:
        """From now on these are the jobs of an application, in place of those it had. A job of the same name and schedule goes on where it was, with the
        new function; a run under way ends as it began."""
        before = self._leaving
        self._leaving = {key: job for key, job in before.items() if key[0] != application}
        for key in [key for key in self._jobs if key[0] == application]:
            before[key] = self._jobs.pop(key)
        now = self._now()
        for spec, handler in jobs:
            key = (application, spec.name)
            job = before.get(key)
            if job is None:
                self._jobs[key] = ScheduledJob(application, spec, handler, now)
                continue
            self._jobs[key] = job
            if job.spec.schedule.text != spec.schedule.text:
                job.known, job.since_ms, job.look_at = None, now, 0.0
            job.spec, job.handler = spec, handler
        self._arm()

    def remove(self, application: str) -> None:
        """The application has no jobs any more, unless it gets others within the turn. A run under way goes on to its end."""
        for key in [key for key in self._jobs if key[0] == application]:
            self._leaving[key] = self._jobs.pop(key)
        if not self._loop.is_closed():
            self._loop.call_soon(self._forget_leaving)
        self._arm()

    def _forget_leaving(self) -> None:
        self._leaving.clear()

    def start(self) -> None:
        """From now on jobs run."""
        self._is_started = True
        self._arm()

    async def stop(self) -> None:
        """The instance ends: no more runs begin, those under way are cancelled and recorded as interrupted."""
        self._is_stopped = True
        for handle in (self._timer, self._arming):
            if handle is not None:
                handle.cancel()
        busy = list(self._busy)
        for task in busy:
            task.cancel()
        if busy:
            await asyncio.wait(busy, timeout=LOOK)

    def owner_left(self, owner: str) -> None:
        """The process of this identity has ended: what it ran is over, and its next time may have come."""
        for job in self._jobs.values():
            state = self._tables.read(job.application, job.spec.name)
            if state is not None and state.status == RUNNING and state.owner == owner:
                job.known, job.look_at = None, 0.0
        self._arm()

    def jobs(self) -> list[dict[str, Any]]:
        """What is known of each job, by application and name; the last run as the newest record has it."""
        found = []
        for (application, name), job in sorted(self._jobs.items()):
            state = self._tables.read(application, name) or JobState(application, name, job.spec.schedule.text, job.since_ms)
            found.append(
                {
                    "application": application,
                    "job": name,
                    "schedule": job.spec.schedule.text,
                    "handler": job.spec.handler,
                    "next": self._next_ms(job),
                    "status": state.status,
                    "scheduled_at": state.started if state.by_hand else state.claimed,
                    "by_hand": state.by_hand,
                    "started": state.started,
                    "ended": state.ended,
                    "duration": state.duration,
                    "error": state.error,
                    "number": state.number,
                }
            )
        return found

    def _next_ms(self, job: ScheduledJob) -> int | None:
        """When it is due, by the clock as it is now."""
        if job.next_ms is None or job.due == inf:
            return job.next_ms
        return min(job.next_ms, self._now() + max(int((job.due - self._clock.monotonic()) * 1000), 0))

    def __len__(self) -> int:
        """The number of jobs."""
        return len(self._jobs)

    @property
    def running(self) -> int:
        """The number of jobs that run just now."""
        return len(self._running)

    @property
    def is_idle(self) -> bool:
        """Whether nothing is claimed or run just now."""
        return not self._busy

    async def settle(self) -> None:
        """Wait until what has begun is over."""
        while self._busy:
            await asyncio.wait(list(self._busy))

    def find(self, application: str | None, name: str) -> ScheduledJob:
        """The job of this name. `application`: None for a name that only one has. Raises NotFound, and ClientError 400 for a name that several have."""
        found = [job for (owner, each), job in self._jobs.items() if each == name and application in (None, owner)]
        if not found:
            names = sorted({each for owner, each in self._jobs if application in (None, owner)})
            raise NotFound(f"There is no job '{name}'" + (f"; there is {', '.join(names[:10])}" if names else ""))
        if len(found) > 1:
            owners = ", ".join(sorted(job.application for job in found))
            raise ClientError(f"Several applications have a job '{name}': {owners}. Name one of them")
        return found[0]

    async def run_now(self, application: str | None, name: str) -> JobState:
        """Run a job that is not due, once, as if a moment of it had come; its moments stay what they are. Returns its record when the run has ended.

        Raises what `find` does, and ClientError 409 while it runs, here or elsewhere.
        """
        job = self.find(application, name)
        if not self.may_begin() or self._is_stopped:
            raise Overloaded("The service is about to stop")
        running = ClientError(f"The job '{name}' is running", 409, "CONFLICT")
        if job.task is not None:
            raise running
        before = self._tables.read(job.application, name)
        job.task = task = self._start(self._take(job, by_hand=True), job)
        await asyncio.shield(task)
        after = self._tables.read(job.application, name)
        if after is None or not after.by_hand or (before is not None and after.number == before.number):
            raise running
        return after

    # --- time ----------------------------------------------------------------------------------------------------------------------------

    def _now(self) -> int:
        return int(self._clock.wall() * 1000)

    def _arm(self) -> None:
        """Set the timer, once in a turn however many jobs have changed."""
        if self._arming is None and self._is_started and not self._is_stopped and not self._loop.is_closed():
            self._arming = self._loop.call_soon(self._set_timer)

    def _set_timer(self) -> None:
        self._arming = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self._is_stopped and (self._jobs or self._running):
            now, monotonic = self._now(), self._clock.monotonic()
            waiting = [job for job in self._jobs.values() if job.task is None and job.look_at <= monotonic]
            delays = [min((job.next_ms - now) / 1000, job.due - monotonic) for job in waiting if job.next_ms is not None]
            delays += [0.0 for job in waiting if job.known is None]
            delay = max(min([self.look, *delays]), 0) if self.may_begin() else self.look
            self._timer = self._loop.call_later(delay, self._look)

    def _look(self) -> None:
        self._timer = None
        try:
            self.tick()
        finally:
            self._arm()

    def tick(self) -> None:
        """Begin what is due by now, AT_ONCE at most. Called by timers; by tests when they have moved the clock."""
        if self._is_stopped or not self._is_started:
            return
        now, monotonic = self._now(), self._clock.monotonic()
        if monotonic - self._beat_at >= HEARTBEAT:
            self._beat_at = monotonic
            if self._running:
                self._start(self._beat())
        if not self.may_begin():
            return
        begun = 0
        for job in self._jobs.values():
            if job.task is not None:
                self._tell_long(job, now, monotonic)
                continue
            if monotonic < job.look_at:
                continue
            if job.known is None:
                job.task = self._start(self._begin(job), job)
            elif job.is_ahead(now):
                job.task = self._start(self._start_over(job), job)
            elif job.has_come(now, monotonic):
                job.task = self._start(self._take(job), job)
            else:
                continue
            begun += 1
            if begun == AT_ONCE:
                break

    def _tell_long(self, job: ScheduledJob, now: int, monotonic: float) -> None:
        """Say once of a run that its job's next time has come."""
        if job.has_come(now, monotonic) and not job.is_told and job.key in self._running:
            job.is_told = True
            started = 0 if job.known is None or job.known.started is None else job.known.started
            text = f"has been running for {(now - started) / 1000:.0f} s, and its next time has come: that waits until it ends"
            self._report(job.application, "warn", f"scheduler: job {job.spec.name} {text}")

    def _start(self, work: Any, job: ScheduledJob | None = None) -> asyncio.Task[None]:
        # A context of its own: code of the application is outside of any call, and of any transaction.
        task: asyncio.Task[None] = self._loop.create_task(work, context=contextvars.Context())
        self._busy[task] = job
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        job = self._busy.pop(task, None)
        if job is not None and job.task is task:
            job.task = None
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("the scheduler has failed", exc_info=error)
            if job is not None:
                job.look_at = self._clock.monotonic() + CHECK
        self._arm()

    # --- the record of a job -------------------------------------------------------------------------------------------------------------

    async def _begin(self, job: ScheduledJob) -> None:
        """Find the record of a job, or make one."""
        await self._change(job, lambda before: self._claims.begin(job, before))

    async def _start_over(self, job: ScheduledJob) -> None:
        """Let the moments of a job count from now on: its last one lies far ahead."""
        job.since_ms = min(job.since_ms, self._now())
        outcome = await self._change(job, self._claims.start_over)
        if outcome is not None and outcome.is_changed:
            text = "the clock was set back by more than a day; the times of the job count from now on"
            self._report(job.application, "warn", f"scheduler: job {job.spec.name}: {text}")

    async def _change(self, job: ScheduledJob, change: Callable[[JobState | None], JobState | None]) -> Outcome | None:
        """Change the record; None if that failed, and is to be tried again later."""
        try:
            outcome = await self._tables.change(job.application, job.spec.name, change)
        except Problem as problem:
            job.look_at = self._clock.monotonic() + CHECK
            self._report(job.application, "error", f"scheduler: job {job.spec.name}: its record cannot be written: {problem.message}")
            return None
        if outcome is None:
            job.known = None  # removed meanwhile
        else:
            self._note(job, outcome.state)
        return outcome

    def _note(self, job: ScheduledJob, state: JobState) -> None:
        if not job.note(state, self._now(), self._clock.monotonic()):
            job.look_at = self._clock.monotonic() + CHECK

    # --- a run ---------------------------------------------------------------------------------------------------------------------------

    async def _take(self, job: ScheduledJob, *, by_hand: bool = False) -> None:
        """Claim the last moment that has come, and run it. `by_hand`: run it without a moment."""
        began = self._clock.monotonic()
        known = self._tables.read(job.application, job.spec.name)
        if not by_hand and known is not None and known.since != (job.known and job.known.since):  # another instance was faster
            self._note(job, known)
            return
        run: JobRun | None = None

        def claim(before: JobState | None) -> JobState | None:
            nonlocal run
            run = None
            if self._jobs.get(job.key) is not job:
                return before
            state, run = (self._claims.claim_by_hand if by_hand else self._claims.claim)(job, before)
            return state

        outcome = await self._change(job, claim)
        if outcome is None or run is None:
            if outcome is not None and job.has_come(self._now(), self._clock.monotonic()):  # it runs elsewhere
                job.look_at = self._clock.monotonic() + CHECK
            return
        self._running[job.key] = job
        job.is_told = False
        try:
            await self._run(job, job.handler, run, outcome.state, began)
        finally:
            del self._running[job.key]

    async def _run(self, job: ScheduledJob, handler: Handler, run: JobRun, state: JobState, began: float) -> None:
        """Call the function, and record how that went."""
        status, error = SUCCEEDED, None
        cancelled: asyncio.CancelledError | None = None
        try:
            result = settled(handler(run))
            while is_waiting(result):  # a handler may return a call
                result = settled(await result)
        except BaseException as problem:
            if not is_ours(problem):
                status, error = FAILED, _told(problem)
            elif isinstance(problem, asyncio.CancelledError):
                cancelled, status, error = problem, INTERRUPTED, "the service was stopped"
            else:
                raise
        duration = self._clock.monotonic() - began
        if status == FAILED:
            self._report(job.application, "error", f"scheduler: job {job.spec.name} has failed: {error}")
        ended = self._now()
        number = state.number

        def end(before: JobState | None) -> JobState | None:
            if before is None or not self._claims.is_own(before, number):
                return before  # another process has taken over
            return replace(before, status=status, ended=ended, duration=round(max(duration, 0.0), 3), error=error and error[:MAX_ERROR])

        await self._change(job, end)
        if cancelled is not None:
            raise cancelled

    async def _beat(self) -> None:
        """A sign of life of all runs."""
        for job in list(self._running.values()):
            await self._change(job, self._claims.keep)


def _told(error: BaseException) -> str:
    """The exception with its traceback, from the application's own code on."""
    lines = traceback.format_exception(type(error), error, _own_part(error), limit=-30)
    text = "".join(lines).strip()
    return text if len(text) <= 4 * MAX_ERROR else f"{text[: 2 * MAX_ERROR]}\n...\n{text[-2 * MAX_ERROR :]}"


def _own_part(error: BaseException) -> Any:
    step = error.__traceback__
    while step is not None and step.tb_frame.f_code.co_filename == __file__:
        step = step.tb_next
    return step
