"""Several processes that ask for one client: whatever comes when, one has it at a time, and each gets it."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from svc.mqtt.taking_over import Claims
from svc.siblings import Answer


class Process:
    """One that answers as the broker does, and those that it asks: all of `others` but itself."""

    def __init__(self, number: int, others: list[Process], chance: random.Random) -> None:
        self.number, self.identity = number, f"{number}-1-{chance.randrange(1 << 32):08x}"
        self.has_others = True
        self.others, self.chance = others, chance
        self.claims = Claims(self)  # type: ignore[arg-type]
        self.lock = asyncio.Lock()
        self.has_it = False

    async def pause(self) -> None:
        for _ in range(self.chance.randrange(8)):
            await asyncio.sleep(0)

    async def ask(self, topic: str, value: Any, seconds: float) -> list[Answer]:
        async def of(other: Process) -> Answer:
            await self.pause()
            found = await other.give_up(value)
            await self.pause()
            return Answer(other.identity, other.number, found)

        return await asyncio.gather(*(of(other) for other in self.others if other is not self))

    async def give_up(self, value: Any) -> bool:
        await self.claims.wait_for_turn(value["client_id"], (value["turn"], value["owner"]))
        if self.has_it:
            await self.pause()
            self.has_it = False
        return True

    async def connect(self) -> None:
        await self.pause()
        async with self.lock:
            with self.claims.claim("c") as claim:
                assert await claim.enter(None, ends=False)
                assert [other.number for other in self.others if other.has_it and other is not self] == []
                await self.pause()
                self.has_it = True


@pytest.mark.parametrize("seed", range(200))
def test_one_has_it_at_a_time(seed: int) -> None:
    async def run() -> None:
        chance = random.Random(seed)
        processes: list[Process] = []
        processes += [Process(number, processes, chance) for number in range(3)]
        async with asyncio.timeout(60):
            await asyncio.gather(*(chance.choice(processes).connect() for _ in range(6)))
        assert [process.has_it for process in processes].count(True) == 1

    asyncio.run(run())
