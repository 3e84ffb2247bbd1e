"""The order of a turn."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

import pytest

from svc.loop import new_loop, then


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


@pytest.mark.parametrize("is_awaited", [False, True])
@pytest.mark.parametrize("is_async", [False, True])
def test_then(is_awaited: bool, is_async: bool) -> None:
    async def later(value: Any) -> Any:
        return value

    def plain(value: int) -> int:
        return value + 1

    async def asynchronous(value: int) -> int:
        return value + 1

    result = then(later(2) if is_awaited else 2, asynchronous if is_async else plain)
    assert inspect.isawaitable(result) == (is_awaited or is_async)
    assert (asyncio.run(_result_of(result)) if inspect.isawaitable(result) else result) == 3


async def _result_of(value: Any) -> Any:
    return await value
