"""svc.store.slices: long work gives way, one slice a turn."""

import asyncio
from collections.abc import Generator, Iterator
from itertools import pairwise

from svc.clock import FakeClock
from svc.store.slices import SLICE, Slices


def steps(clock: FakeClock, seconds: float, count: int, done: list[int]) -> Iterator[None]:
    """Each takes `seconds`."""
    for number in range(count):
        clock.advance(seconds)
        done.append(number)
        yield


def test_a_slice_ends_when_its_time_is_over() -> None:
    clock, done = FakeClock(), list[int]()
    slices = Slices(clock)
    work = steps(clock, SLICE / 4, 10, done)
    assert not slices.run(work) and done == [0, 1, 2, 3]
    assert not slices.run(work) and len(done) == 8
    assert slices.run(work) and len(done) == 10


def test_everybody_gets_slices_in_turn_and_there_is_one_a_turn() -> None:
    clock, slices_of = FakeClock(), list[tuple[str, int]]()
    slices = Slices(clock)
    turns = 0

    async def work(name: str, count: int) -> None:
        for _ in range(count):
            await slices.take()
            slices_of.append((name, turns))

    async def main() -> None:
        nonlocal turns
        tasks = [asyncio.ensure_future(work(name, count)) for name, count in (("a", 3), ("b", 2), ("c", 1))]
        while not all(task.done() for task in tasks):
            await asyncio.sleep(0)
            turns += 1

    asyncio.run(main())
    assert [name for name, _ in slices_of] == ["a", "b", "c", "a", "b", "a"]
    at = [turn for _, turn in slices_of]
    assert all(after > before for before, after in pairwise(at)), "never two in one turn"


def test_who_is_cancelled_while_waiting_costs_no_slice() -> None:
    slices = Slices(FakeClock())
    served: list[str] = []

    async def work(name: str) -> None:
        await slices.take()
        served.append(name)

    async def main() -> None:
        first, second, third = (asyncio.ensure_future(work(name)) for name in "abc")
        await asyncio.sleep(0)
        second.cancel()
        await asyncio.gather(first, second, third, return_exceptions=True)
        await work("d")

    asyncio.run(main())
    assert served == ["a", "c", "d"]


def test_exhaust_takes_every_step_and_starts_with_a_slice_of_its_own() -> None:
    clock, done = FakeClock(), list[int]()
    slices = Slices(clock)

    async def main() -> None:
        task = asyncio.ensure_future(slices.exhaust(steps(clock, SLICE, 4, done)))
        await asyncio.sleep(0)
        assert done == [], "not in the turn it was asked for in"
        await task

    asyncio.run(main())
    assert done == [0, 1, 2, 3]


def test_long_lists_are_freed_little_by_little() -> None:
    slices = Slices(FakeClock())
    items: list[object] = [object() for _ in range(5500)]
    lengths = []

    async def main() -> None:
        slices.discard(items)
        lengths.append(len(items))
        while items:
            await asyncio.sleep(0)
            lengths.append(len(items))

    asyncio.run(main())  # what other tests have left takes its share of the first turns
    assert lengths[0] == 5500 and all(before - length <= 2000 for before, length in pairwise(lengths))
    slices.discard(more := [object() for _ in range(5500)])
    assert len(more) == 5500, "where there is no loop, it is left to the interpreter"


def test_result_gives_what_a_generator_returns() -> None:
    clock = FakeClock()
    slices = Slices(clock)

    def work() -> Generator[None, None, int]:
        for _ in range(10):
            clock.advance(SLICE / 3)
            yield
        return 7

    assert asyncio.run(slices.result(work())) == 7
