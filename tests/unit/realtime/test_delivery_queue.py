"""svc.realtime.delivery_queue: the ways to consume."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from svc.realtime.delivery_queue import DeliveryQueue
from svc.realtime.event import EndReason


async def until(holds: Callable[[], object]) -> None:
    """Let others run."""
    for _ in range(1000):
        if holds():
            return
        await asyncio.sleep(0)
    raise AssertionError("it does not come")


def run(work: Callable[[DeliveryQueue], Awaitable[Any]]) -> Any:
    async def main() -> Any:
        return await asyncio.wait_for(work(DeliveryQueue(asyncio.get_running_loop())), 10)

    return asyncio.run(main())


def test_iteration_waits_and_ends() -> None:
    async def work(outlet: DeliveryQueue) -> None:
        got: list[Any] = []

        async def consume() -> None:
            async for item in outlet:
                got.append(item)  # noqa: PERF401 - what is there when it is cancelled counts

        task = asyncio.ensure_future(consume())
        outlet.send(1)
        await asyncio.sleep(0)
        outlet.send(None)
        outlet.send(2)
        await until(lambda: len(got) == 3)
        assert not task.done()
        outlet.send(3)
        outlet.end()
        outlet.send(4)
        await task
        assert got == [1, None, 2, 3] and outlet.ended is EndReason.FINISHED

    run(work)


def test_close_wakes_an_iteration() -> None:
    async def work(outlet: DeliveryQueue) -> list[Any]:
        async def consume() -> list[Any]:
            return [item async for item in outlet]

        task = asyncio.ensure_future(consume())
        for _ in range(3):
            await asyncio.sleep(0)
        await outlet.aclose()
        return await task

    assert run(work) == []


def test_callbacks_come_one_after_the_other() -> None:
    async def work(outlet: DeliveryQueue) -> None:
        told: list[Any] = []

        async def slow(item: Any) -> None:
            told.append(("begins", item))
            await asyncio.sleep(0)
            told.append(("ends", item))

        assert outlet.on("data", slow).on("data", lambda item: told.append(("second", item))) is outlet
        closed: list[Any] = []
        outlet.on("close", closed.append)
        outlet.send(1)
        outlet.send(2)
        await until(lambda: len(told) == 6)
        outlet.end()
        await until(lambda: closed)
        outlet.on("close", closed.append)
        await until(lambda: len(closed) == 2)
        assert told == [("begins", 1), ("ends", 1), ("second", 1), ("begins", 2), ("ends", 2), ("second", 2)]
        assert closed == [EndReason.FINISHED, EndReason.FINISHED]

    run(work)


def test_a_callback_that_fails_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def work(outlet: DeliveryQueue) -> None:
        got: list[Any] = []

        def fail(item: Any) -> None:
            raise RuntimeError("cannot")

        outlet.on("data", fail).on("data", got.append).on("close", fail)
        outlet.send(1)
        outlet.end()
        await until(lambda: len(caplog.records) == 2)
        assert got == [1]

    with caplog.at_level(logging.ERROR, "svc.realtime"):
        run(work)
    caplog.clear()


def test_an_unknown_name_is_a_mistake() -> None:
    async def work(outlet: DeliveryQueue) -> None:
        with pytest.raises(KeyError):
            outlet.on("error", print)

    run(work)
