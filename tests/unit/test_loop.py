"""The order of a turn."""

from __future__ import annotations

import asyncio

from svc.loop import new_loop


def test_closing_work_runs_before_each_poll_and_may_make_things_ready() -> None:
    loop, selector = new_loop()
    waiting: list[asyncio.Future[int]] = []
    order: list[str] = []

    def end_turn() -> bool:
        if waiting:
            order.append("end of turn")
            waiting.pop().set_result(7)
            return True  # a coroutine became ready: the poll must not wait
        return False

    async def work() -> int:
        future = loop.create_future()
        waiting.append(future)
        order.append("waits")
        result = await future
        order.append("goes on")
        return result

    selector.end_turn = end_turn
    try:
        assert loop.run_until_complete(work()) == 7
    finally:
        selector.end_turn = lambda: False
        loop.close()
    assert order == ["waits", "end of turn", "goes on"]


def test_idle_and_active_time_are_kept_apart() -> None:
    loop, selector = new_loop()
    try:
        loop.run_until_complete(asyncio.sleep(0.05))
    finally:
        loop.close()
    assert selector.turns > 0
    assert selector.idle > 0.0
    assert selector.active > 0.0


def test_a_turn_begins_before_anything_of_it_runs() -> None:
    loop, selector = new_loop()
    order: list[str] = []
    selector.begin_turn = lambda: order.append("begins")

    async def work() -> None:
        for _ in range(2):
            await asyncio.sleep(0)
            order.append("runs")

    try:
        loop.run_until_complete(work())
    finally:
        loop.close()
    assert order[:5] == ["begins", "begins", "runs", "begins", "runs"]
