"""Which moment of a job is taken next, and by which instance (spec: components §3). No timers and no tasks: the scheduler writes what is decided here.

An instance claims the last moment that has come, inside the transaction that changes the record of the job (`job_state`); those before it are missed and
made up for by that one run. While a run goes on, as far as can be told, nobody claims: one whose process has ended, or gives no sign of life for LEASE, is
over.

An interval is a duration as well: where the clock is set back, so that its next moment moves away, the moment is when the time has passed on the
monotonic clock, and the following ones count from there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from math import inf
from typing import Any

from svc.clock import Clock
from svc.scheduler.job import JobRun, JobSpec
from svc.scheduler.job_state import GONE, INTERRUPTED, RUNNING, JobState
from svc.scheduler.schedules import Interval

ON_TIME_MS = 60_000  # a run that begins later than this makes up for its moment
LEASE = 300.0  # seconds without a sign of life after which a run counts as ended
STEP_BACK_MS = 86_400_000  # a clock that is set back by more than this was wrong before

Handler = Callable[[JobRun], Any]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(eq=False)
class ScheduledJob:
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

    @property
    def key(self) -> tuple[str, str]:
        return self.application, self.spec.name

    def has_come(self, now: int, monotonic: float) -> bool:
        """Whether its next time has."""
        return self.next_ms is not None and (now >= self.next_ms or monotonic >= self.due)

    def since(self, state: JobState) -> int:
        """Moments up to this one are not to be taken."""
        return state.since if self.spec.schedule.is_made_up else max(state.since, self.since_ms)

    def is_ahead(self, now: int) -> bool:
        """Whether the clock was wrong when the last moment was taken, or when the job was taken up: that lies far ahead."""
        return self.known is not None and self.due == inf and self.since(self.known) - now > STEP_BACK_MS

    def note(self, state: JobState, now: int, monotonic: float) -> bool:
        """Take over its record. False if that is of another schedule: an instance with another version of the application has it, or this one has a new
        one."""
        schedule = self.spec.schedule
        if state.schedule != schedule.text:
            self.known = self.next_ms = None
            return False
        before, before_due, self.known = self.known, self.due, state
        self.next_ms = schedule.next_after(self.since(state), state.anchor)
        self.is_on_time = self.next_ms is None or self.next_ms >= now
        self.due = inf
        if isinstance(schedule, Interval) and self.next_ms is not None:
            due = monotonic + min(max(self.next_ms - now, 0), schedule.ms) / 1000
            self.due = min(due, before_due) if before is not None and before.since == state.since else due
        return True


class Claims:
    """The claims of one instance."""

    def __init__(self, clock: Clock, owner: str, is_alive: Callable[[str], bool], is_running: Callable[[ScheduledJob], bool]) -> None:
        """`owner`: identity of this process. `is_alive`: whether the process of that identity lives. `is_running`: whether this instance runs a job just
        now."""
        self._clock = clock
        self.owner = owner
        self._is_alive = is_alive
        self._is_running = is_running

    def _now(self) -> int:
        return int(self._clock.wall() * 1000)

    def of_schedule(self, job: ScheduledJob, before: JobState | None) -> JobState:
        """The record of the job, new if there is none; with a new schedule its moments count from now on."""
        text = job.spec.schedule.text
        if before is None:
            return JobState(job.application, job.spec.name, text, job.since_ms)
        if before.schedule != text:
            return replace(before, schedule=text, anchor=self._now(), claimed=None)
        return before

    def begin(self, job: ScheduledJob, before: JobState | None) -> JobState:
        """The record of a job that this instance takes up: a run that nobody carries on is over."""
        state = self.of_schedule(job, before)
        if state.status == RUNNING and not self.is_held(job, state):
            return replace(state, status=INTERRUPTED, error=GONE)
        return state

    def start_over(self, before: JobState | None) -> JobState | None:
        """The record, with moments that count from now on if its last one lies far ahead."""
        now = self._now()
        if before is None or before.since - now <= STEP_BACK_MS:
            return before
        return replace(before, anchor=now, claimed=None)

    def claim(self, job: ScheduledJob, before: JobState | None) -> tuple[JobState, JobRun | None]:
        """(the record, the run that this instance has to begin): of the last moment that has come. None: none has, or a run goes on."""
        state = self.of_schedule(job, before)
        if state.status == RUNNING and self.is_held(job, state):
            return state, None
        now, expected, schedule = self._now(), job.next_ms, job.spec.schedule
        last = schedule.last_until(now, state.anchor)
        if isinstance(schedule, Interval):
            if job.since_ms > now:
                job.since_ms, expected = 0, last  # the clock was ahead when it was taken up
            is_current = before is not None and job.known is not None and before.since == job.known.since
            is_over = is_current and self._clock.monotonic() >= job.due
            if is_over and (last is None or last <= job.since(state)):  # the clock was set back
                last = expected = now
                state = replace(state, anchor=now - schedule.ms, claimed=None)
        if last is None or last <= job.since(state):
            return state, None
        catch_up = last != expected or not job.is_on_time or now - last > ON_TIME_MS
        return self._started(job, state, last, last, catch_up)

    def claim_by_hand(self, job: ScheduledJob, before: JobState | None) -> tuple[JobState, JobRun | None]:
        """The same for a run without a moment; its moments stay what they are."""
        state = self.of_schedule(job, before)
        if state.status == RUNNING and self.is_held(job, state):
            return state, None
        return self._started(job, state, self._now(), state.claimed, catch_up=False, by_hand=True)

    def _started(
        self, job: ScheduledJob, state: JobState, moment: int, claimed: int | None, catch_up: bool, by_hand: bool = False
    ) -> tuple[JobState, JobRun]:
        now = self._now()
        state = replace(
            state,
            claimed=claimed,
            status=RUNNING,
            owner=self.owner,
            heartbeat=now,
            catch_up=catch_up,
            started=now,
            ended=None,
            duration=None,
            error=None,
            number=state.number + 1,
            by_hand=by_hand,
        )
        return state, JobRun(job.spec.name, _EPOCH + timedelta(milliseconds=moment), catch_up)

    def is_held(self, job: ScheduledJob, state: JobState) -> bool:
        """Whether a run goes on, as far as can be told."""
        if state.owner == self.owner:
            return self._is_running(job)  # else its end could not be written
        if not self._is_alive(state.owner):
            return False
        sign, now = (state.owner, state.number, state.heartbeat), self._clock.monotonic()
        if job.seen is None or job.seen[0] != sign:
            job.seen = (sign, now)
        return now - job.seen[1] < LEASE

    def is_own(self, state: JobState, number: int) -> bool:
        """Whether the run of this number, which this instance has claimed, is the one that the record is about."""
        return state.owner == self.owner and state.number == number

    def keep(self, before: JobState | None) -> JobState | None:
        """The record with a sign of life, if the run is this instance's."""
        if before is None or before.owner != self.owner or before.status != RUNNING:
            return before
        return replace(before, heartbeat=self._now())
