"""svc.cluster.confirmation: waiting until other nodes have committed what this one has written."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from types import SimpleNamespace
from typing import Any

from svc.cluster.confirmation import Confirmations


class World:
    """A node that has two databases, and three others."""

    def __init__(self) -> None:
        self.logs: dict[str, Any] = {name: SimpleNamespace(published=-1, sent=-1) for name in ("data", "more")}
        self.nodes = ["b", "c", "d"]
        self.places: dict[tuple[str, str], int] = {}
        self.confirmations = Confirmations(self.logs, self.nodes, self)

    def confirmed(self, node: str, database: str) -> int:
        return self.places.get((node, database), -1)

    def publish(self, database: str, published: int, sent: int | None = None) -> None:
        self.logs[database].published, self.logs[database].sent = published, published if sent is None else sent
        self.confirmations.look(database)

    def confirm(self, node: str, database: str, lsn: int) -> None:
        self.places[node, database] = lsn
        self.confirmations.look(database)

    def begin(self, count: int, **places: int) -> asyncio.Task[None]:
        return asyncio.ensure_future(self.confirmations.wait(places, count))

    @property
    def waiting(self) -> int:
        return sum(len(each.unpublished) + sum(map(len, each.published.values())) for each in self.confirmations._waits.values())


def run(work: Callable[[World], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(work(World()))


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def test_it_is_published_first_and_then_confirmed_by_enough() -> None:
    async def work(world: World) -> None:
        one, two = world.begin(1, data=5), world.begin(2, data=5)
        await settle()
        world.confirm("b", "data", 9)  # it cannot have: what it says is not looked at before
        world.confirm("b", "data", 4)
        world.publish("data", 5)
        await settle()
        assert not one.done() and not two.done()
        world.confirm("b", "data", 5)
        await settle()
        assert one.done() and not two.done()
        world.confirm("c", "data", 7)
        await two
        assert not world.waiting and not world.confirmations._waits

    run(work)


def test_what_is_not_sent_needs_no_confirmation() -> None:
    async def work(world: World) -> None:
        world.publish("data", 3)
        world.confirm("b", "data", 3)
        task = world.begin(1, data=8)
        await settle()
        assert not task.done()
        world.publish("data", 8, sent=3)
        await task

    run(work)


def test_all_databases_have_to_be_confirmed() -> None:
    async def work(world: World) -> None:
        task = world.begin(1, data=1, more=2)
        world.publish("data", 1)
        world.publish("more", 2)
        world.confirm("b", "more", 2)
        await settle()
        assert not task.done()
        world.confirm("b", "data", 1)
        await task
        await world.begin(0, data=100)

    run(work)


def test_a_database_that_is_not_published_yet_is_waited_for() -> None:
    async def work(world: World) -> None:
        log = world.logs.pop("data")
        task = world.begin(1, data=1)
        await settle()
        world.logs["data"] = log
        world.publish("data", 1)
        world.confirm("c", "data", 1)
        await task

    run(work)


def test_who_has_given_up_is_forgotten_also_if_nothing_comes() -> None:
    async def work(world: World) -> None:
        world.publish("data", 2)
        for count in (1, 2):
            for lsn in (2, 9):
                for _ in range(500):
                    task = world.begin(count, data=lsn)
                    await asyncio.sleep(0)
                    task.cancel()
                    await asyncio.sleep(0)
        assert world.waiting < 300
        task = world.begin(3, data=2)
        for node in world.nodes:
            world.confirm(node, "data", 2)
        await task

    run(work)


def test_any_order_of_events() -> None:
    async def work(world: World) -> None:
        for seed in range(60):
            generator = random.Random(seed)
            world = World()
            open_: list[tuple[asyncio.Task[None], int, int]] = []
            published = 0
            for lsn in range(1, 60):
                if generator.random() < 0.6:
                    open_.append((world.begin(count := generator.randrange(1, 4), data=lsn), count, lsn))
                if generator.random() < 0.5:
                    published = lsn
                    world.publish("data", published)
                if published and generator.random() < 0.8:
                    node = generator.choice(world.nodes)
                    world.confirm(node, "data", max(world.confirmed(node, "data"), generator.randrange(published + 1)))
                await settle()
                levels = sorted((world.confirmed(node, "data") for node in world.nodes), reverse=True)
                for task, count, wanted in open_:
                    assert task.done() <= (published >= wanted and levels[count - 1] >= wanted)
            world.publish("data", 60)
            for node in world.nodes:
                world.confirm(node, "data", 60)
            await asyncio.gather(*(task for task, _, _ in open_))
            assert not world.waiting

    run(work)
