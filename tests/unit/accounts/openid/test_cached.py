"""Documents of a provider that are kept for a while."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from svc.accounts.openid.cached import FAILURE_PAUSE, LIFE, LONGEST_LIFE, MOST_STALE, RENEWAL_PAUSE, SHORTEST_LIFE, CachedDocument
from svc.clock import FakeClock
from svc.errors import Problem
from tests.support.fakes import make_reactor


class Source:
    """Counts how often it was asked. `max_age`: of its answers; `failure`: what it raises instead. `gate`: it answers once that is set."""

    def __init__(self) -> None:
        self.asked = 0
        self.max_age: float | None = None
        self.failure: Problem | None = None
        self.gate = asyncio.Event()
        self.gate.set()

    async def fetch(self) -> tuple[int, float | None]:
        self.asked += 1
        number = self.asked
        await self.gate.wait()
        if self.failure is not None:
            raise self.failure
        return number, self.max_age


def run(test: Callable[[CachedDocument[int], Source, FakeClock], Awaitable[Any]]) -> None:
    async def main() -> None:
        clock, source = FakeClock(), Source()
        await test(CachedDocument(source.fetch, make_reactor(asyncio.get_running_loop(), clock)), source, clock)

    asyncio.run(main())


@pytest.mark.parametrize(("max_age", "life"), [(None, LIFE), (0.0, SHORTEST_LIFE), (1000.0, 1000.0), (1e9, LONGEST_LIFE)])
def test_it_is_kept(max_age: float | None, life: float) -> None:
    async def test(document: CachedDocument[int], source: Source, clock: FakeClock) -> None:
        source.max_age = max_age
        assert await document.get() == 1
        clock.advance(life - 1)
        assert await document.get() == 1
        clock.advance(1)
        assert await document.get() == 2 and source.asked == 2

    run(test)


def test_however_many_wait_it_is_fetched_once() -> None:
    async def test(document: CachedDocument[int], source: Source, clock: FakeClock) -> None:
        source.gate.clear()
        waiting = [asyncio.ensure_future(document.get()) for _ in range(50)]
        await asyncio.sleep(0)
        waiting[0].cancel()  # one of them goes, the others stay
        await asyncio.sleep(0)
        source.gate.set()
        assert (await asyncio.gather(*waiting, return_exceptions=True))[1:] == [1] * 49 and source.asked == 1

    run(test)


def test_a_failure_is_told_at_once_for_a_while() -> None:
    async def test(document: CachedDocument[int], source: Source, clock: FakeClock) -> None:
        source.failure = Problem("down", 503, "DOWN", retryable=True)
        for _ in range(3):
            with pytest.raises(Problem, match="down") as caught:
                await document.get()
            assert (caught.value.status_code, caught.value.code, caught.value.retryable) == (503, "DOWN", True)
        assert source.asked == 1
        clock.advance(FAILURE_PAUSE)
        source.failure = None
        assert await document.get() == 2

    run(test)


def test_an_old_one_is_better_than_none() -> None:
    async def test(document: CachedDocument[int], source: Source, clock: FakeClock) -> None:
        assert await document.get() == 1
        source.failure = Problem("down", 503)
        clock.advance(LIFE)
        assert await document.get() == 1 and source.asked == 2
        assert await document.get() == 1 and source.asked == 2
        clock.advance(MOST_STALE)
        with pytest.raises(Problem, match="down"):
            await document.get()
        source.failure = None
        clock.advance(FAILURE_PAUSE)
        assert await document.get() == 4

    run(test)


def test_a_newer_one_is_fetched_at_most_so_often() -> None:
    async def test(document: CachedDocument[int], source: Source, clock: FakeClock) -> None:
        assert await document.get() == 1
        assert await document.get(newer=True) == 1
        clock.advance(RENEWAL_PAUSE)
        assert await document.get() == 1
        assert await document.get(newer=True) == 2
        assert await document.get(newer=True) == 2
        clock.advance(RENEWAL_PAUSE)
        source.failure = Problem("down", 503)
        assert await document.get(newer=True) == 2  # the former one
        assert await document.get() == 2

    run(test)


def test_a_defect_is_no_failure_of_the_provider() -> None:
    async def test(document: CachedDocument[int], source: Source, clock: FakeClock) -> None:
        source.max_age = "x"  # type: ignore[assignment]
        with pytest.raises(TypeError):
            await document.get()
        source.max_age = None
        assert await document.get() == 2

    run(test)
