"""An instance as a guest on the loop of another program: its callbacks, tasks and turns."""

from __future__ import annotations

import asyncio
from typing import Any

from svc.clock import FakeClock
from svc.hosted.guest_loop import GuestLoop, GuestTurns


def run(work: Any) -> None:
    asyncio.run(asyncio.wait_for(work, 5))


def guest(errors: list[BaseException], stops: list[bool] | None = None) -> GuestLoop:
    return GuestLoop(
        asyncio.get_running_loop(), lambda: stops.append(True) if stops is not None else None, lambda where, error: errors.append(error)
    )


def test_callbacks_run_until_it_is_closed() -> None:
    async def case() -> None:
        errors: list[BaseException] = []
        loop, called = guest(errors), list[str]()
        loop.call_soon(called.append, "soon")
        loop.call_soon_threadsafe(called.append, "threadsafe")
        loop.call_later(0, called.append, "later")
        loop.call_at(loop.time(), called.append, "at")
        await asyncio.sleep(0.005)
        assert sorted(called) == ["at", "later", "soon", "threadsafe"]
        loop.call_soon(called.append, "too late")
        loop.call_later(0, called.append, "too late")
        assert not loop.is_closed()
        loop.close()
        await asyncio.sleep(0.005)
        assert loop.is_closed() and len(called) == 4 and not errors

    run(case())


def test_a_handle_can_be_cancelled_and_an_exception_is_logged() -> None:
    async def case() -> None:
        errors: list[BaseException] = []
        loop, called = guest(errors), list[int]()
        loop.call_later(0, called.append, 1).cancel()
        loop.call_soon(lambda: called[7])
        await asyncio.sleep(0.005)
        assert not called and [type(error) for error in errors] == [IndexError]

    run(case())


def test_its_tasks_are_known() -> None:
    async def case() -> None:
        loop = guest([])
        task = loop.create_task(asyncio.sleep(0, "done"), name="x")
        other = asyncio.ensure_future(asyncio.sleep(0))
        assert loop.tasks == {task} and task.get_name() == "x"
        assert await task == "done"
        await other
        assert not loop.tasks

    run(case())


def test_stop_is_told_to_the_host_and_the_rest_is_the_hosts() -> None:
    async def case() -> None:
        stops: list[bool] = []
        loop = guest([], stops)
        loop.stop()
        assert stops == [True] and loop.as_loop.is_running() and not loop.as_loop.get_debug()
        assert await loop.as_loop.run_in_executor(None, lambda: 7) == 7

    run(case())


def test_a_turn_ends_once_for_all_that_ask_for_it() -> None:
    async def case() -> None:
        clock = FakeClock()
        turns, ends, begins = GuestTurns(asyncio.get_running_loop(), clock), list[float](), list[bool]()

        def end() -> bool:
            ends.append(clock.monotonic())
            clock.advance(1.0)
            return len(ends) == 1  # there is more to do

        turns.end_turn = end
        turns.begin_turn = lambda: begins.append(True)
        clock.advance(3.0)
        turns.enter()
        turns.enter()
        turns.request()
        await asyncio.sleep(0)
        assert len(ends) == 1 and begins == [True] and turns.turn_started != ends[0] - 1
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert len(ends) == 2 and (turns.active, turns.idle) == (2.0, 3.0)
        turns.request()
        await asyncio.sleep(0)
        assert len(ends) == 3 and begins == [True]

    run(case())
