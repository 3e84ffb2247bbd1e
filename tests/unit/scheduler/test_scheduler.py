"""Runs of jobs (spec: components §3.3, §3.4)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import pytest

from svc.api.context import get_context
from svc.errors import Problem, StoreFailure
from svc.scheduler import JobRun
from tests.support.scheduling import World

START = 1_767_225_600.0  # 2026-01-01
MINUTELY = {"name": "a", "cron": "* * * * *"}
HOURLY = {"name": "a", "cron": "0 * * * *"}
TEN = {"name": "a", "interval": 10}


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path / "store")
    yield world
    world.close()


def test_a_new_job_waits_for_its_first_time_and_runs_then_once(world: World) -> None:
    world.advance(5)
    world.instance("one", MINUTELY)
    assert world.runs == []
    assert world.advance(54) == []
    assert world.advance(1) == [("one", "a", START + 60, False)]
    assert world.advance(0) == [] and world.advance(59) == []
    assert world.advance(1.5) == [("one", "a", START + 120, False)]
    state = world.states["shop:a"]
    assert (state["status"], state["number"], state["claimed"], state["error"]) == ("succeeded", 2, (START + 120) * 1000, None)
    assert [(run["number"], run["status"], run["scheduled_at"]) for run in world.history] == [
        (1, "succeeded", (START + 60) * 1000),
        (2, "succeeded", (START + 120) * 1000),
    ]


def test_intervals_count_from_when_the_job_was_first_known(world: World) -> None:
    world.instance("one", TEN)
    assert world.advance(9.9) == []
    assert world.advance(0.1) == [("one", "a", START + 10, False)]
    assert world.advance(10) == [("one", "a", START + 20, False)]
    world.stop("one")
    world.advance(25)
    world.instance("two", TEN)
    assert world.advance(0) == [], "an interval that was missed is not made up"
    assert world.advance(5) == [("two", "a", START + 50, False)]


def test_a_missed_time_of_cron_is_made_up_once(world: World) -> None:
    world.instance("one", HOURLY)
    world.stop("one")
    world.advance(5 * 3600 + 60)
    world.instance("two", HOURLY)
    assert world.runs == [("two", "a", START + 5 * 3600, True)]
    assert world.advance(3540) == [("two", "a", START + 6 * 3600, False)]


def test_a_run_by_hand_takes_no_time_of_the_schedule(world: World) -> None:
    scheduler = world.instance("one", HOURLY)
    world.advance(600)
    state = world.run(scheduler.run_now(None, "a"))
    assert world.runs == [("one", "a", START + 600, False)]
    assert (state.status, state.number, state.claimed, state.by_hand) == ("succeeded", 1, None, True)
    assert [(run["number"], run["scheduled_at"], run["by_hand"]) for run in world.history] == [(1, (START + 600) * 1000, True)]
    assert scheduler.jobs()[0]["scheduled_at"] == (START + 600) * 1000
    assert world.advance(3000) == [("one", "a", START + 3600, False)], "and the next one comes as ever"
    assert world.states["shop:a"]["by_hand"] is False and world.states["shop:a"]["claimed"] == (START + 3600) * 1000


def test_what_cannot_be_run_by_hand(world: World) -> None:
    waiting = asyncio.Event()

    async def wait(run: JobRun) -> None:
        await waiting.wait()

    scheduler = world.instance("one", HOURLY, handler=wait)
    world.set("one", HOURLY, {"name": "b", "interval": 600}, app="other")
    for name, application, status, text in (
        ("no", None, 404, "There is no job 'no'; there is a, b"),
        ("b", "shop", 404, "There is no job 'b'; there is a"),
        ("a", None, 400, "Several applications have a job 'a': other, shop"),
    ):
        with pytest.raises(Problem, match=text) as caught:
            world.run(scheduler.run_now(application, name))
        assert caught.value.status_code == status
    first = world.loop.create_task(scheduler.run_now("shop", "a"))
    world.run(asyncio.sleep(0))
    with pytest.raises(Problem, match="is running") as caught:
        world.run(scheduler.run_now("shop", "a"))
    assert caught.value.status_code == 409
    other = world.instance("two", HOURLY)
    with pytest.raises(Problem, match="is running"):  # elsewhere
        world.run(other.run_now("shop", "a"))
    waiting.set()
    assert world.run(first).status == "succeeded"
    assert world.run(other.run_now("shop", "a")).number == 2


def test_a_failure_by_hand_is_recorded(world: World) -> None:
    def fail(run: JobRun) -> None:
        raise ValueError("no")

    state = world.run(world.instance("one", HOURLY, handler=fail).run_now("shop", "a"))
    assert (state.status, state.by_hand) == ("failed", True) and "ValueError: no" in (state.error or "")
    assert world.history[0]["status"] == "failed"


def test_a_clock_that_is_set_forward_makes_up_the_last_time(world: World) -> None:
    world.instance("one", HOURLY, {"name": "b", "interval": 600})
    assert world.advance(3.5 * 3600) == [("one", "a", START + 3 * 3600, True), ("one", "b", START + 3.5 * 3600, True)]
    assert world.advance(600) == [("one", "b", START + 3.5 * 3600 + 600, False)]


def test_a_clock_that_is_set_back_repeats_nothing(world: World) -> None:
    world.instance("one", HOURLY)
    assert len(world.advance(3600)) == 1
    world.set_clock(-1800)
    assert world.advance(0) == [] and world.advance(1800) == []
    assert world.advance(3600) == [("one", "a", START + 7200, False)]


@pytest.mark.parametrize("back", [30, 1800, 6 * 3600, 40 * 86_400])
def test_intervals_pass_though_the_clock_is_set_back(world: World, back: int) -> None:
    world.instance("one", TEN, {"name": "b", "interval": 3600})
    assert len(world.advance(10)) == 1
    world.advance(4)
    world.set_clock(-back)
    now = world.clock.wall()
    assert [job["next"] for job in world.schedulers["one"].jobs()] == [(now + 6) * 1000, (now + 3586) * 1000]
    assert world.advance(5.9) == []
    assert world.advance(0.1) == [("one", "a", now + 6, False)]
    assert world.advance(10) == [("one", "a", now + 16, False)]
    found = [run for run in world.advance(3570) if run[1] == "b"]
    assert found == [("one", "b", now + 3586, False)]


def test_one_of_two_instances_takes_an_interval_when_the_clock_is_set_back(world: World) -> None:
    world.instance("one", TEN)
    world.instance("two", TEN)
    assert len(world.advance(10)) == 1
    world.set_clock(-3600)
    for _ in range(3):
        assert world.advance(9.9) == []
        assert len(world.advance(0.1)) == 1


def test_an_interval_that_was_taken_before_the_clock_was_set_back_and_the_server_stopped(world: World) -> None:
    world.instance("one", TEN)
    assert len(world.advance(10)) == 1
    world.stop("one")
    world.set_clock(-3600)
    world.instance("two", TEN)
    assert world.advance(9.9) == []
    assert [run[:2] for run in world.advance(0.1)] == [("two", "a")]


def test_a_clock_that_was_far_ahead_does_not_stop_a_job(world: World) -> None:
    world.instance("one", HOURLY)
    world.set_clock(400 * 86400)
    assert len(world.advance(0)) == 1
    world.set_clock(-400 * 86400)
    assert world.advance(0) == []
    assert world.advance(3600) == [("one", "a", START + 3600, False)]
    assert any("set back by more than a day" in text for _, level, text in world.reports if level == "warn")


def test_an_interval_goes_on_when_the_clock_was_far_ahead_at_the_start(world: World) -> None:
    world.instance("one", TEN)
    assert world.advance(10) == [("one", "a", START + 10, False)]
    world.stop("one")
    world.set_clock(3 * 86_400)
    world.instance("two", TEN)
    world.set_clock(-3 * 86_400)
    assert world.advance(0) == []
    assert world.advance(10) == [("two", "a", START + 20, False)]


def test_one_run_at_a_time_and_a_long_one_makes_up_one(world: World) -> None:
    gate = asyncio.Event()

    async def wait(run: JobRun) -> None:
        if len(world.runs) == 1:
            await gate.wait()

    scheduler = world.instance("one", MINUTELY, handler=wait)
    assert (len(scheduler), scheduler.running) == (1, 0)
    assert len(world.advance(60)) == 1
    assert world.states["shop:a"]["status"] == "running"
    assert (len(scheduler), scheduler.running) == (1, 1)
    for _ in range(5):
        assert world.advance(60) == []
    text = "scheduler: job a has been running for 60 s, and its next time has come: that waits until it ends"
    assert world.reports == [("shop", "warn", text)]
    gate.set()
    assert world.advance(1) == [("one", "a", START + 360, True)]
    assert world.advance(59) == [("one", "a", START + 420, False)]
    assert scheduler.running == 0
    assert world.history[0]["duration"] == pytest.approx(301)


def test_of_several_instances_one_runs_a_time(world: World) -> None:
    names = ["one", "two", "three"]
    for name in names:
        world.instance(name, MINUTELY, TEN | {"name": "b"})
    for minute in range(1, 6):
        runs = world.advance(60)
        assert [run[1:3] for run in sorted(runs, key=lambda run: run[1])] == [("a", START + 60 * minute), ("b", START + 60 * minute)]


def test_a_run_of_another_instance_is_waited_for_and_its_end_taken_over(world: World) -> None:
    gate = asyncio.Event()

    async def wait(run: JobRun) -> None:
        await gate.wait()

    world.instance("one", MINUTELY, handler=wait)
    world.instance("two", MINUTELY)
    assert world.advance(60, ["one"]) == [("one", "a", START + 60, False)]
    for _ in range(10):
        assert world.advance(60) == [], "it gives signs of life"
    world.kill("one")
    assert world.advance(15) == [("two", "a", START + 660, True)]
    assert [run["status"] for run in world.history] == ["interrupted", "succeeded"]
    assert world.history[0]["error"] == "the process that ran it has ended"


def test_the_run_of_a_process_that_has_ended_is_over_at_once(world: World) -> None:
    world.instance("one", MINUTELY, handler=lambda run: asyncio.Event().wait())
    two = world.instance("two", MINUTELY)
    assert len(world.advance(60, ["one"])) == 1
    world.kill("one")
    two.owner_left("nobody")
    world.settle()
    assert world.history[0]["status"] == "running"
    two.owner_left("one")
    assert world.advance(0) == []
    assert world.history[0]["status"] == "interrupted"
    assert world.advance(60) == [("two", "a", START + 120, False)]


def test_the_next_time_of_a_run_whose_process_has_ended_is_taken_at_once(world: World) -> None:
    world.instance("one", MINUTELY, handler=lambda run: asyncio.Event().wait())
    two = world.instance("two", MINUTELY)
    assert len(world.advance(60, ["one"])) == 1
    assert world.advance(61) == []
    world.kill("one")
    assert world.advance(0) == [], "it is looked at again later"
    two.owner_left("one")
    assert world.advance(0) == [("two", "a", START + 120, True)]


def test_an_instance_that_gives_no_sign_of_life_for_five_minutes_is_given_up(world: World) -> None:
    world.instance("one", MINUTELY, handler=lambda run: asyncio.Event().wait())
    world.instance("two", MINUTELY)
    assert len(world.advance(60, ["one"])) == 1
    world.kill("one")
    world.alive.add("one")  # its process is there, and does nothing
    assert world.advance(60) == []
    for _ in range(19):
        assert world.advance(15) == []
    assert world.advance(16) == [("two", "a", START + 420, True)]


def test_a_clock_that_is_set_forward_does_not_end_the_run_of_another(world: World) -> None:
    world.instance("one", MINUTELY, handler=lambda run: asyncio.Event().wait())
    world.instance("two", MINUTELY)
    assert len(world.advance(60, ["one"])) == 1
    world.set_clock(3600)
    for _ in range(10):
        assert world.advance(15) == []


def test_what_a_handler_raises_is_recorded_and_not_repeated(world: World) -> None:
    def fail(run: JobRun) -> None:
        raise ValueError("no more stock")

    world.instance("one", MINUTELY, handler=fail)
    assert len(world.advance(60)) == 1
    state = world.states["shop:a"]
    assert state["status"] == "failed" and "ValueError: no more stock" in state["error"] and "in fail" in state["error"]
    assert world.history[0]["error"] == state["error"]
    (report,) = world.reports
    assert report[:2] == ("shop", "error") and "job a has failed: Traceback" in report[2] and "scheduler/scheduler.py" not in report[2]
    assert world.advance(59) == [] and len(world.advance(1)) == 1


@pytest.mark.parametrize(
    "error", [SystemExit(3), asyncio.CancelledError(), StopIteration(), GeneratorExit(), RecursionError("x" * 100_000)]
)
def test_whatever_a_handler_raises_it_ends_its_run_alone(world: World, error: BaseException) -> None:
    def fail(run: JobRun) -> None:
        raise error

    async def fail_later(run: JobRun) -> None:
        await asyncio.sleep(0)
        raise error

    world.instance("one", MINUTELY, handler=fail)
    world.instance("two", MINUTELY, handler=fail_later, app="other")
    assert len(world.advance(60)) == 2 and len(world.advance(60)) == 2
    assert [state["status"] for state in world.states.values()] == ["failed", "failed"]
    assert all(len(state["error"]) <= 4000 for state in world.states.values())


def test_a_handler_is_outside_of_any_call_and_may_return_one(world: World) -> None:
    seen: list[Any] = []
    variable: ContextVar[int] = ContextVar("variable", default=0)
    variable.set(5)

    async def later() -> None:
        seen.append("awaited")

    def look(run: JobRun) -> Any:
        seen.append((get_context(), variable.get()))
        return later()

    world.instance("one", MINUTELY, handler=look)
    world.advance(60)
    assert seen == [(None, 0), "awaited"]


def test_a_reload_replaces_functions_and_loses_and_doubles_nothing(world: World) -> None:
    gate = asyncio.Event()
    world.instance("one", HOURLY, TEN | {"name": "b"}, handler=lambda run: gate.wait() if run.job_name == "a" else None)
    world.advance(3599)
    before = len(world.runs)
    world.clock.advance(1)  # the time comes while the new version is loaded
    world.set("one", HOURLY, TEN | {"name": "b"}, handler=lambda run: gate.wait())
    world.settle()
    assert [run[1:] for run in world.runs[before:]] == [("a", START + 3600, False), ("b", START + 3600, False)]
    world.set("one", HOURLY, TEN | {"name": "b"})
    assert world.advance(3600) == [], "runs of the version before go on"
    gate.set()
    assert sorted(run[1:] for run in world.advance(1)) == [("a", START + 7200, True), ("b", START + 7200, True)]


def test_a_job_with_another_schedule_waits_for_its_next_time(world: World) -> None:
    world.instance("one", HOURLY)
    world.advance(3600 + 900)
    world.set("one", {"name": "a", "cron": "5 * * * *"})
    world.settle()
    assert world.advance(0) == []
    assert world.advance(3000) == [("one", "a", START + 7500, False)]


def test_jobs_that_are_withdrawn_do_not_run(world: World) -> None:
    scheduler = world.instance("one", MINUTELY, HOURLY | {"name": "b"})
    world.set("one", HOURLY | {"name": "b"})
    assert world.advance(60) == []
    scheduler.remove("shop")
    assert world.advance(7200) == []


def test_a_job_that_is_removed_while_it_runs_and_comes_back_has_one_run_at_a_time(world: World) -> None:
    gate = asyncio.Event()
    scheduler = world.instance("one", MINUTELY, handler=lambda run: gate.wait())
    world.advance(60)
    scheduler.remove("shop")
    world.settle()
    world.set("one", MINUTELY)
    world.settle()
    assert world.advance(60) == [] and world.advance(600) == []
    gate.set()
    assert world.advance(15) == [("one", "a", START + 720, True)]


def test_a_stop_cancels_runs_and_says_so(world: World) -> None:
    ended: list[str] = []

    async def wait(run: JobRun) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("tidied up")

    world.instance("one", MINUTELY, handler=wait)
    world.advance(60)
    world.stop("one")
    assert ended == ["tidied up"]
    assert world.states["shop:a"]["status"] == "interrupted" and world.states["shop:a"]["error"] == "the service was stopped"
    world.instance("two", MINUTELY)
    assert world.advance(1) == [], "it is not repeated"


def test_a_run_that_a_kill_has_interrupted_is_not_repeated(world: World) -> None:
    world.instance("one", MINUTELY, handler=lambda run: asyncio.Event().wait())
    world.advance(60)
    world.kill("one")
    assert world.states["shop:a"]["status"] == "running"
    world.instance("two", MINUTELY)
    assert world.states["shop:a"]["status"] == "interrupted"
    assert world.advance(59) == [] and world.advance(1) == [("two", "a", START + 120, False)]


def test_the_history_keeps_the_last_runs(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("svc.scheduler.job_state.KEPT_RUNS", 3)
    world.instance("one", TEN)
    for _ in range(7):
        world.advance(10)
    assert [run["number"] for run in world.history] == [5, 6, 7]


def test_a_store_that_cannot_be_written_is_reported_and_tried_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    scheduler = world.instance("one", MINUTELY)
    real = scheduler._tables.change

    async def fail(*_: Any) -> Any:
        raise StoreFailure("the disk is gone")

    monkeypatch.setattr(scheduler._tables, "change", fail)
    assert world.advance(60) == []
    assert [line for line in world.reports if "the disk is gone" in line[2]]
    count = len(world.reports)
    assert world.advance(5) == [] and len(world.reports) == count
    monkeypatch.setattr(scheduler._tables, "change", real)
    assert world.advance(10) == [("one", "a", START + 60, True)] or world.runs[-1][2] == START + 60


def test_timers_begin_runs_by_themselves(tmp_path: Path) -> None:
    world = World(tmp_path / "store")
    done = asyncio.Event()
    scheduler = world.instance("one", MINUTELY, handler=lambda run: done.set())
    world.clock.advance(60)
    world.run(asyncio.wait_for(done.wait(), 30))
    world.run(scheduler.settle())
    assert scheduler.is_idle and world.states["shop:a"]["status"] == "succeeded"
    world.close()


def test_many_jobs_of_one_time_begin_a_few_in_a_turn(world: World) -> None:
    scheduler = world.instance("one", *({"name": f"job {number}", "cron": "* * * * *"} for number in range(100)))
    world.settle(turns=6)
    world.clock.advance(60)
    scheduler.tick()
    assert len(scheduler._busy) == 20
    world.settle(turns=6)
    assert len({run[1] for run in world.runs}) == len(world.runs) == 100


def test_no_run_begins_while_the_server_is_about_to_stop(world: World) -> None:
    gate = asyncio.Event()
    scheduler = world.instance("one", MINUTELY, {"name": "b", "cron": "*/2 * * * *"}, handler=lambda run: gate.wait())
    assert len(world.advance(60)) == 1
    scheduler.may_begin = lambda: False
    assert world.advance(120) == []
    gate.set()
    assert world.advance(1) == []
    assert world.states["shop:a"]["status"] == "succeeded", "the one that has begun goes on to its end"
    scheduler.may_begin = lambda: True
    assert {run[1:] for run in world.advance(1)} == {("a", START + 180, True), ("b", START + 120, True)}
