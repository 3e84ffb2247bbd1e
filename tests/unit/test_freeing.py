"""svc.freeing: what has very many elements is freed a piece in each turn."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

import pytest

from svc import freeing
from svc.freeing import AT_ONCE, free_later


@pytest.fixture(autouse=True)
def nothing_of_other_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(freeing, "_waiting", deque())


@pytest.mark.parametrize("make", [list, set, dict.fromkeys])
def test_a_container_is_emptied_in_turns(make: Any) -> None:
    container = make(range(2 * AT_ONCE + 500))
    lengths = []

    async def main() -> None:
        free_later(container)
        assert len(container) == 2 * AT_ONCE + 500, "not now"
        while container:
            await asyncio.sleep(0)
            lengths.append(len(container))

    asyncio.run(main())
    assert [length for at, length in enumerate(lengths) if length not in lengths[:at]] == [AT_ONCE + 500, 500, 0]


def test_several_share_the_turns() -> None:
    containers = [list(range(AT_ONCE + 1)) for _ in range(3)]

    async def main() -> None:
        for container in containers:
            free_later(container)
        before = freeing.waiting()
        while freeing.waiting():
            await asyncio.sleep(0)
            assert before - freeing.waiting() <= AT_ONCE
            before = freeing.waiting()

    asyncio.run(main())
    assert containers == [[], [], []]


def test_short_ones_and_those_without_a_loop_are_left_to_the_interpreter() -> None:
    async def main() -> None:
        free_later(short)
        assert not freeing.waiting()

    short = list(range(AT_ONCE))
    asyncio.run(main())
    free_later(long := list(range(AT_ONCE + 1)))
    assert len(short) == AT_ONCE and len(long) == AT_ONCE + 1 and not freeing.waiting()
