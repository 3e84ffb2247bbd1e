"""svc.scheduler.claims: which moment is taken, without timers, tasks or a store."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from svc.clock import FakeClock
from svc.scheduler.claims import LEASE, STEP_BACK_MS, Claims, ScheduledJob
from svc.scheduler.job import JobRun, JobSpec
from svc.scheduler.job_state import INTERRUPTED, RUNNING, SUCCEEDED, JobState
from svc.scheduler.schedules import Schedule, read_cron, read_interval

START = 1_767_225_600  # 2026-01-01


class Instance:
    """One instance that has taken a job up, and the record that all share."""

    def __init__(self, schedule: Schedule, owner: str = "one", clock: FakeClock | None = None) -> None:
        self.clock = clock or FakeClock(wall=START)
        self.alive = {"one", "two"}
        self.runs = False
        self.claims = Claims(self.clock, owner, lambda name: name in self.alive, lambda job: self.runs)
        self.job = ScheduledJob("shop", JobSpec("a", schedule, "jobs.py", "", "run"), lambda run: None, self.now)

    @property
    def now(self) -> int:
        return int(self.clock.wall() * 1000)

    def note(self, state: JobState) -> JobState:
        assert self.job.note(state, self.now, self.clock.monotonic())
        return state

    def claim(self, state: JobState | None, *, by_hand: bool = False) -> tuple[JobState, JobRun | None]:
        return (self.claims.claim_by_hand if by_hand else self.claims.claim)(self.job, state)


def ended(state: JobState) -> JobState:
    return replace(state, status=SUCCEEDED)


def test_of_several_moments_the_last_is_taken_and_makes_up_for_the_others() -> None:
    one = Instance(read_cron("0 * * * *"))
    state = one.note(one.claims.begin(one.job, None))
    assert one.claim(state) == (state, None), "none has come"
    one.clock.advance(3 * 3600 + 10)
    state, run = one.claim(state)
    assert run == JobRun("a", datetime(2026, 1, 1, 3, tzinfo=UTC), True)
    assert (state.status, state.owner, state.number, state.claimed) == (RUNNING, "one", 1, (START + 3 * 3600) * 1000)
    assert one.claim(ended(state)) == (ended(state), None), "it is taken once"


def test_a_moment_in_time_makes_up_for_nothing() -> None:
    one = Instance(read_cron("0 * * * *"))
    state = one.note(one.claims.begin(one.job, None))
    one.clock.advance(3601)
    assert one.claim(state)[1] == JobRun("a", datetime(2026, 1, 1, 1, tzinfo=UTC), False)


def test_a_run_of_another_is_left_alone_while_it_gives_signs_of_life() -> None:
    one = Instance(read_interval(60))
    two = Instance(read_interval(60), "two", one.clock)
    two.note(state := one.note(one.claims.begin(one.job, None)))
    one.clock.advance(61)
    state, run = one.claim(state)
    assert run is not None and two.claim(state) == (state, None)
    one.clock.advance(LEASE - 1)
    assert two.claim(state)[1] is None
    assert one.claims.keep(state) == replace(state, heartbeat=one.now) and two.claims.keep(state) == state
    assert two.claim(one.claims.keep(state))[1] is None
    one.clock.advance(LEASE)
    assert two.claim(one.claims.keep(state))[1] is None, "a new sign of life"
    one.clock.advance(LEASE)
    taken, run = two.claim(replace(state, heartbeat=one.now - int(LEASE * 1000)))
    assert run is not None and taken.owner == "two" and taken.number == 2
    assert not one.claims.is_own(taken, 1) and two.claims.is_own(taken, 2)


def test_a_run_whose_process_has_ended_is_interrupted_when_the_job_is_taken_up() -> None:
    one = Instance(read_interval(60))
    state = replace(one.claims.begin(one.job, None), status=RUNNING, owner="gone", number=4)
    assert one.claims.begin(one.job, state).status == INTERRUPTED
    assert one.claims.begin(one.job, replace(state, owner="two")).status == RUNNING
    assert one.claims.begin(one.job, replace(state, owner="one")).status == INTERRUPTED, "its end could not be written"
    one.runs = True
    assert one.claims.begin(one.job, replace(state, owner="one")).status == RUNNING


def test_by_hand_no_moment_is_taken() -> None:
    one = Instance(read_interval(60))
    state = one.note(one.claims.begin(one.job, None))
    one.clock.advance(30)
    state, run = one.claim(state, by_hand=True)
    assert run == JobRun("a", datetime(2026, 1, 1, 0, 0, 30, tzinfo=UTC), False)
    assert (state.by_hand, state.claimed) == (True, None)
    one.clock.advance(31)
    state, run = one.claim(ended(state))
    assert run is not None and (state.by_hand, state.claimed) == (False, (START + 60) * 1000)


def test_an_interval_passes_though_the_clock_is_set_back() -> None:
    one = Instance(read_interval(60))
    state = one.note(one.claims.begin(one.job, None))
    one.clock.advance(60)
    one.clock.step(-3600)
    assert one.job.has_come(one.now, one.clock.monotonic())
    state, run = one.claim(state)
    assert run is not None and state.claimed == one.now


@pytest.mark.parametrize(("back", "is_wrong"), [(STEP_BACK_MS - 1, False), (STEP_BACK_MS + 1, True)])
def test_a_moment_that_lies_far_ahead_is_no_moment(back: int, is_wrong: bool) -> None:
    one = Instance(read_cron("0 * * * *"))
    state = one.note(replace(one.claims.begin(one.job, None), claimed=one.now + back))
    assert one.job.is_ahead(one.now) is is_wrong
    assert (one.claims.start_over(state) != state) is is_wrong


def test_with_a_new_schedule_moments_count_from_now_on() -> None:
    one = Instance(read_cron("0 * * * *"))
    state = replace(one.claims.begin(one.job, None), claimed=one.now)
    one.clock.advance(10)
    two = Instance(read_cron("30 * * * *"), clock=one.clock)
    assert not two.job.note(state, two.now, two.clock.monotonic()) and two.job.known is None
    assert two.claims.begin(two.job, state) == replace(state, schedule=two.job.spec.schedule.text, anchor=two.now, claimed=None)
