"""The jobs of one server instance: timers, claims, runs (spec: components §3).

    idle --a moment has come--> claiming --claimed--> running --ends--> idle
              ^                     |                    |
              '---taken elsewhere---'                    '-- at most the last moment that has come meanwhile is taken next

Every instance watches the clock for all jobs of its applications, and the one that claims a moment first runs it (`job_state`). A job whose run goes on,
here or elsewhere, is left alone. A run whose process has ended, or gives no sign of life for LEASE, is over: its job goes on with the next moment.

Timers are set for the next moment, and for no longer than a second: a clock that is set is noticed. Whatever happens between two looks at it, at most
the last moment of each job is taken. An interval is a duration as well: where the clock is set back, so that its next moment moves away, the moment is
when the time has passed on the monotonic clock, and the following ones count from there.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import os
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from math import inf
from typing import Any

from svc.awaitables import is_waiting, settled
from svc.clock import Clock
from svc.errors import ClientError, NotFound, Overloaded, Problem
from svc.loop import is_ours
from svc.scheduler.job import JobRun, JobSpec
from svc.scheduler.job_state import FAILED, GONE, INTERRUPTED, MAX_ERROR, RUNNING, SUCCEEDED, JobState, JobTables, Outcome
from svc.scheduler.schedules import Interval
from svc.store import Store

logger = logging.getLogger("svc.applications")

LOOK = 1.0  # seconds between two looks at the clock, at most
ON_TIME_MS = 60_000  # a run that begins later than this makes up for its moment
HEARTBEAT = 60.0  # seconds between two signs of life of a run
LEASE = 300.0  # seconds without one after which a run counts as ended
CHECK = 15.0  # seconds between two looks at a run of another process, and after a failure of the store
AT_ONCE = 20  # runs that begin in one turn of the loop
STEP_BACK_MS = 86_400_000  # a clock that is set back by more than this was wrong before

Handler = Callable[[JobRun], Any]
Report = Callable[[str, str, str], None]
"""(application, level, text) -> logged."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(eq=False)
class _Job:
    """A job of this instance. `known`: its record as it was seen last; None: not yet. `next_ms`: the next moment, None: there is none. `since_ms`: when this
    instance took it up. `task`: what claims or runs it. `look_at`: monotonic; not before."""

    application: str
    spec: JobSpec
    handler: Handler
    since_ms: int
    known: JobState | None = None
    next_ms: int | None = None
    due: float = inf  # monotonic: when the interval has passed, whatever the clock says; of `cron` never
    task: asyncio.Task[None] | None = None
    look_at: float = 0.0
    is_on_time: bool = False  # nothing has hindered a run at `next_ms`
    is_told: bool = False  # that its run lasts beyond its next time
    seen: tuple[Any, float] | None = None  # a sign of life of another's run, and since when there is no other


class Scheduler:
    """The jobs of all applications of one instance."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        loop: asyncio.AbstractEventLoop,
        *,
        report: Report = lambda application, level, text: None,
        owner: str = "",
        is_alive: Callable[[str], bool] | None = None,
    ) -> None:
        """`owner`: name of this instance, other than that of any other on the data directory. `is_alive`: whether the process of the instance of that
        name runs."""
        self.look = LOOK
        """Seconds between two looks at the clock, at most."""
        self.may_begin: Callable[[], bool] = lambda: True
        """Whether runs may begin: not while the server is about to stop."""
        self._clock = clock
        self._loop = loop
        self._report = report
        self._tables = JobTables(store)
        self._given_owner = owner
        self._is_alive = is_alive or _is_alive
        self._jobs: dict[tuple[str, str], _Job] = {}
        self._leaving: dict[tuple[str, str], _Job] = {}  # withdrawn in this turn: perhaps for a newer version of the application
        self._running: dict[tuple[str, str], _Job] = {}
        self._busy: dict[asyncio.Task[None], _Job | None] = {}  # what claims or runs a job, or gives signs of life
        self._timer: asyncio.TimerHandle | None = None
        self._arming: asyncio.Handle | None = None
        self._is_started = self._is_stopped = False
        self._beat_at = 0.0

    @cached_property
    def _owner(self) -> str:
        return self._given_owner or _own_name()

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
                self._jobs[key] = _Job(application, spec, handler, now)
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

    def _next_ms(self, job: _Job) -> int | None:
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

    def find(self, application: str | None, name: str) -> _Job:
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
            elif job.due == inf and self._since(job, job.known) - now > STEP_BACK_MS:
                job.task = self._start(self._start_over(job), job)
            elif _has_come(job, now, monotonic):
                job.task = self._start(self._take(job), job)
            else:
                continue
            begun += 1
            if begun == AT_ONCE:
                break

    def _tell_long(self, job: _Job, now: int, monotonic: float) -> None:
        """Say once of a run that its job's next time has come."""
        if _has_come(job, now, monotonic) and not job.is_told and (job.application, job.spec.name) in self._running:
            job.is_told = True
            started = 0 if job.known is None or job.known.started is None else job.known.started
            text = f"has been running for {(now - started) / 1000:.0f} s, and its next time has come: that waits until it ends"
            self._report(job.application, "warn", f"scheduler: job {job.spec.name} {text}")

    def _start(self, work: Any, job: _Job | None = None) -> asyncio.Task[None]:
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

    async def _begin(self, job: _Job) -> None:
        """Find the record of a job, or make one."""

        def change(before: JobState | None) -> JobState:
            state = self._of_schedule(job, before)
            if state.status == RUNNING and not self._is_held(job, state):
                return replace(state, status=INTERRUPTED, error=GONE)
            return state

        await self._change(job, change)

    def _of_schedule(self, job: _Job, before: JobState | None) -> JobState:
        """The record of the job, new if there is none; with a new schedule its moments count from now on."""
        text = job.spec.schedule.text
        if before is None:
            return JobState(job.application, job.spec.name, text, job.since_ms)
        if before.schedule != text:
            return replace(before, schedule=text, anchor=self._now(), claimed=None)
        return before

    async def _start_over(self, job: _Job) -> None:
        """The clock was wrong when the last moment was taken, or when the job was taken up: that lies far ahead."""
        job.since_ms = min(job.since_ms, self._now())

        def change(before: JobState | None) -> JobState | None:
            now = self._now()
            if before is None or before.since - now <= STEP_BACK_MS:
                return before
            return replace(before, anchor=now, claimed=None)

        outcome = await self._change(job, change)
        if outcome is not None and outcome.is_changed:
            text = "the clock was set back by more than a day; the times of the job count from now on"
            self._report(job.application, "warn", f"scheduler: job {job.spec.name}: {text}")

    async def _change(self, job: _Job, change: Callable[[JobState | None], JobState | None]) -> Outcome | None:
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

    def _note(self, job: _Job, state: JobState) -> None:
        schedule = job.spec.schedule
        if state.schedule != schedule.text:  # an instance with another version of the application has it, or this one has a new one
            job.known = job.next_ms = None
            job.look_at = self._clock.monotonic() + CHECK
            return
        before, job.known = job.known, state
        now = self._now()
        job.next_ms = schedule.next_after(self._since(job, state), state.anchor)
        job.is_on_time = job.next_ms is None or job.next_ms >= now
        if isinstance(schedule, Interval) and job.next_ms is not None:
            due = self._clock.monotonic() + min(max(job.next_ms - now, 0), schedule.ms) / 1000
            job.due = min(due, job.due) if before is not None and before.since == state.since else due
        else:
            job.due = inf

    @staticmethod
    def _since(job: _Job, state: JobState) -> int:
        """Moments up to this one are not to be taken."""
        return state.since if job.spec.schedule.is_made_up else max(state.since, job.since_ms)

    # --- a moment ------------------------------------------------------------------------------------------------------------------------

    async def _take(self, job: _Job, *, by_hand: bool = False) -> None:
        """Claim the last moment that has come, and run it. `by_hand`: run it without a moment."""
        began = self._clock.monotonic()
        known = self._tables.read(job.application, job.spec.name)
        if not by_hand and known is not None and known.since != (job.known and job.known.since):  # another instance was faster
            self._note(job, known)
            return
        claimed: list[JobRun] = []

        def claim(before: JobState | None) -> JobState | None:
            claimed.clear()
            state, spec = self._of_schedule(job, before), job.spec
            if self._jobs.get((job.application, spec.name)) is not job:
                return before
            if state.status == RUNNING and self._is_held(job, state):
                return state
            now, expected, schedule = self._now(), job.next_ms, spec.schedule
            last = schedule.last_until(now, state.anchor)
            if isinstance(schedule, Interval) and not by_hand:
                if job.since_ms > now:
                    job.since_ms, expected = 0, last  # the clock was ahead when it was taken up
                is_current = before is not None and job.known is not None and before.since == job.known.since
                is_over = is_current and self._clock.monotonic() >= job.due
                if is_over and (last is None or last <= self._since(job, state)):  # the clock was set back
                    last = expected = now
                    state = replace(state, anchor=now - schedule.ms, claimed=None)
            if by_hand:
                last, catch_up = state.claimed, False
            elif last is None or last <= self._since(job, state):
                return state
            else:
                catch_up = last != expected or not job.is_on_time or now - last > ON_TIME_MS
            moment = now if by_hand or last is None else last
            claimed.append(JobRun(spec.name, _EPOCH + timedelta(milliseconds=moment), catch_up))
            return replace(
                state,
                claimed=last,
                status=RUNNING,
                owner=self._owner,
                heartbeat=now,
                catch_up=catch_up,
                started=now,
                ended=None,
                duration=None,
                error=None,
                number=state.number + 1,
                by_hand=by_hand,
            )

        outcome = await self._change(job, claim)
        if outcome is None or not claimed:
            if outcome is not None and _has_come(job, self._now(), self._clock.monotonic()):  # it runs elsewhere
                job.look_at = self._clock.monotonic() + CHECK
            return
        key = (job.application, job.spec.name)
        self._running[key] = job
        job.is_told = False
        try:
            await self._run(job, job.handler, claimed[0], outcome.state, began)
        finally:
            del self._running[key]

    def _is_held(self, job: _Job, state: JobState) -> bool:
        """Whether the run of another instance goes on, as far as can be told."""
        if state.owner == self._owner:
            return (job.application, job.spec.name) in self._running  # else its end could not be written
        if not self._is_alive(state.owner):
            return False
        sign, now = (state.owner, state.number, state.heartbeat), self._clock.monotonic()
        if job.seen is None or job.seen[0] != sign:
            job.seen = (sign, now)
        return now - job.seen[1] < LEASE

    async def _run(self, job: _Job, handler: Handler, run: JobRun, state: JobState, began: float) -> None:
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
            if before is None or before.owner != self._owner or before.number != number:
                return before  # another process has taken over
            return replace(before, status=status, ended=ended, duration=round(max(duration, 0.0), 3), error=error and error[:MAX_ERROR])

        await self._change(job, end)
        if cancelled is not None:
            raise cancelled

    async def _beat(self) -> None:
        """A sign of life of all runs."""
        for job in list(self._running.values()):
            await self._change(job, self._alive)

    def _alive(self, before: JobState | None) -> JobState | None:
        if before is None or before.owner != self._owner or before.status != RUNNING:
            return before
        return replace(before, heartbeat=self._now())


def _has_come(job: _Job, now: int, monotonic: float) -> bool:
    """Whether its next time has."""
    return job.next_ms is not None and (now >= job.next_ms or monotonic >= job.due)


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


def _own_name() -> str:
    import psutil

    process = psutil.Process()
    return f"{process.pid}:{process.create_time():.2f}:{os.urandom(4).hex()}"


def _is_alive(owner: str) -> bool:
    """Whether the process of an instance runs. One that has the id of this process was here before a restart in place."""
    import psutil

    try:
        pid, created, _ = owner.split(":")
        return int(pid) != os.getpid() and f"{psutil.Process(int(pid)).create_time():.2f}" == created
    except psutil.AccessDenied:
        return True
    except (ValueError, psutil.Error):
        return False
