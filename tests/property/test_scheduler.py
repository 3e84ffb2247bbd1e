"""Jobs beside a plain model: clocks that are set, instances that come, go and are killed, runs that last, reloads."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from svc.scheduler import JobRun
from svc.scheduler.schedules import Interval
from tests.support.profile import half_by_day
from tests.support.scheduling import World, specs

NAMES = ("one", "two", "three")
JOBS: tuple[dict[str, Any], ...] = (
    {"name": "minutely", "cron": "* * * * *"},
    {"name": "five", "cron": "*/5 * * * *"},
    {"name": "steps", "interval": 90},
)
SPECS = {spec.name: spec for spec in specs(*JOBS)}


class Jobs(RuleBasedStateMachine):
    """`claimed`: job -> its last time, ms. `active`: job -> (instance, what its run waits for). `since`: instance -> when it began, ms."""

    def __init__(self) -> None:
        super().__init__()
        self.path = Path(tempfile.mkdtemp(prefix="jobs-"))
        self.world = World(self.path / "store")
        self.anchor = 0
        self.claimed: dict[str, int] = {}
        self.active: dict[str, tuple[str, asyncio.Event]] = {}
        self.since: dict[str, int] = {}
        self.lasting: set[str] = set()
        self.looked_ms = self.now_ms
        self.checked = 0
        self.number = 0
        self.was_set_back = False
        self.freed: dict[str, float] = {}  # job -> monotonic: its run was ended by a kill, which others see within 15 s

    def teardown(self) -> None:
        for _, event in self.active.values():
            event.set()
        self.world.close()
        shutil.rmtree(self.path)

    @property
    def now_ms(self) -> int:
        return int(self.world.clock.wall() * 1000)

    def _handler(self, instance: str) -> Any:
        async def run(job: JobRun) -> None:
            assert job.job_name not in self.active, "one run at a time"
            if job.job_name in self.lasting:
                event = asyncio.Event()
                self.active[job.job_name] = instance, event
                try:
                    await event.wait()
                finally:
                    if self.active.get(job.job_name) == (instance, event):
                        del self.active[job.job_name]

        return run

    @precondition(lambda self: len(self.since) < 3)
    @rule()
    def start(self) -> None:
        self.number += 1
        name = f"{NAMES[self.number % 3]} {self.number}"
        self.since[name] = self.now_ms
        self.anchor = self.anchor or self.now_ms
        self._look(lambda: self.world.instance(name, *JOBS, handler=self._handler(name)))

    @precondition(lambda self: self.since)
    @rule(data=st.data())
    def kill(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.since)))
        for job, (instance, _) in list(self.active.items()):
            if instance == name:
                del self.active[job]
                self.freed[job] = self.world.clock.monotonic()
        self.world.kill(name)
        del self.since[name]

    @precondition(lambda self: self.since)
    @rule(data=st.data())
    def stop(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.since)))
        for job, (instance, _) in self.active.items():
            if instance == name:
                self.freed[job] = self.world.clock.monotonic()
        self.world.stop(name)
        del self.since[name]

    @precondition(lambda self: self.since)
    @rule(data=st.data())
    def reload(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.since)))
        self.world.schedulers[name].remove("shop")
        self.world.set(name, *JOBS, handler=self._handler(name))
        self._look()

    @rule(job=st.sampled_from(sorted(SPECS)))
    def last_from_now_on(self, job: str) -> None:
        self.lasting.add(job)

    @rule(job=st.sampled_from(sorted(SPECS)))
    def end_runs(self, job: str) -> None:
        self.lasting.discard(job)
        if job in self.active:
            self.active[job][1].set()
            self.freed[job] = self.world.clock.monotonic()
            self._look()

    @rule(seconds=st.sampled_from([0.5, 1, 15, 16, 30, 59, 60]))
    def pass_time(self, seconds: float) -> None:
        self.world.clock.advance(seconds)
        self._look()

    @rule(seconds=st.sampled_from([-3600, -90, -61, -1, 1, 61, 400, 5000, 90_000]))
    def set_clock(self, seconds: float) -> None:
        self.was_set_back |= seconds < 0
        self.world.set_clock(seconds)
        self._look()

    def _look(self, action: Callable[[], object] = lambda: None) -> None:
        """Every instance looks at the clock; what ran is what the model has."""
        before = len(self.world.runs)
        held = set(self.active)
        action()
        self.world.settle()
        found: dict[str, list[tuple[float, bool]]] = {}
        for _, job, scheduled, catch_up in self.world.runs[before:]:
            found.setdefault(job, []).append((scheduled, catch_up))
        for job, spec in SPECS.items():
            since = max(self.claimed.get(job, 0), self.anchor)
            if not spec.schedule.is_made_up:
                since = max(since, min(self.since.values(), default=0))
            last = spec.schedule.last_until(self.now_ms, self.anchor)
            runs = found.get(job, [])
            is_due = bool(self.since) and last is not None and last > since
            is_held = job in held and job in self.active
            if is_due and not is_held and not runs and not self._passes_beside_the_clock(job):
                # Others that have seen it run look at it again after 15 s.
                assert self.world.clock.monotonic() - self.freed.get(job, -1e9) < 15, f"{job} was not run"
                continue
            assert len(runs) <= 1, f"{job} ran twice: {runs}"
            if self._passes_beside_the_clock(job):
                if runs:
                    self.claimed[job] = int(runs[0][0] * 1000)
            elif runs:
                ((scheduled, catch_up),) = runs
                assert is_due and not is_held and scheduled * 1000 == last
                assert catch_up or self.now_ms - scheduled * 1000 <= 60_000
                self.claimed[job] = int(scheduled * 1000)

    def _passes_beside_the_clock(self, job: str) -> bool:
        """Whether the time on the wall does not tell when a job is due: an interval goes on while the clock is behind where it was (tests/unit/scheduler)."""
        return self.was_set_back and isinstance(SPECS[job].schedule, Interval)

    @invariant()
    def history_agrees(self) -> None:
        times: dict[str, list[int]] = {}
        for run in sorted(self.world.history, key=lambda run: run["number"]):
            times.setdefault(run["job"], []).append(run["scheduled_at"])
        for job, found in times.items():
            assert found == sorted(set(found)) or self._passes_beside_the_clock(job), f"{job}: a time twice, or back"
        states = self.world.states
        for job, claimed in self.claimed.items():
            assert states[f"shop:{job}"]["claimed"] == claimed
            assert (states[f"shop:{job}"]["status"] == "running") or job not in self.active


Jobs.TestCase.settings = settings(max_examples=half_by_day(60), stateful_step_count=30, deadline=None)
TestJobs = Jobs.TestCase
