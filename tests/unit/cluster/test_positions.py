"""svc.cluster.positions: how far nodes have applied each other's logs."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from svc.cluster.client import Unavailable
from svc.cluster.notices import Place, decode_notice, encode_notices
from svc.cluster.positions import Lag, Positions, Progress
from svc.store import Store
from svc.store.schema import Attribute, TableDefinition
from svc.store.writing.remote_transaction import Origin
from tests.support.fakes import FakeClock

THEIRS = b"thethey1"


class FakeNode:
    """Another node. `told`: what came there."""

    def __init__(self, name: str, database: Any) -> None:
        self.name = name
        self.is_connected = True
        self.told: list[Any] = []
        self.log = SimpleNamespace(database=database, origin=None, applied=0, remote_time=0.0, local_time=0.0)
        self.logs: dict[str, Any] = {"data": self.log}
        self.gate: asyncio.Event | None = None

    async def tell(self, kind: str, data: bytes) -> None:
        assert kind == "positions"
        if self.gate is not None:
            await self.gate.wait()
        if not self.is_connected:
            raise Unavailable("it is gone")
        self.told.append(decode_notice(data))

    async def ping(self) -> float:
        return 0.002


class World:
    """This node with a database that has some entries, and two others."""

    def __init__(self, path: Path) -> None:
        self.clock = FakeClock()
        self.store = Store(path, node="a", clock=self.clock)
        self.database = self.store.open_database("data")
        self.state = self.database.enable_replication()
        self.database.define_table(TableDefinition("Item", attributes=(Attribute("id", "ID", primary_key=True),)))
        self.incarnation = self.state.incarnation(self.database.snapshot())
        self.own = SimpleNamespace(database=self.database, incarnation=self.incarnation, sent=-1, published=-1)
        self.nodes = {name: FakeNode(name, self.database) for name in ("b", "c")}
        self.confirmed: list[str] = []
        self.positions = Positions(self.clock, "1.0", {"data": self.own}, self.nodes)
        self.positions.on_confirmed.append(self.confirmed.append)

    def write(self, count: int = 1) -> int:
        """It is published as well."""
        for number in range(count):
            transaction = self.store.begin()
            transaction.put(self.database.tables["Item"], f"k{number}", {"id": f"k{number}"})
            transaction.apply()
            self.store.commit_turn()
            self.store.end_turn()
        self.own.sent = self.own.published = self.database.log.last_lsn
        return self.own.sent

    def hears(self, node: str, lsn: int, incarnation: bytes | None = None) -> None:
        (data,) = encode_notices({"data": Place(incarnation or self.incarnation, lsn)})
        self.positions.hear(node, data)

    def greeted(self, node: str, lsn: int, incarnation: bytes = THEIRS, applied: int | None = None) -> None:
        """It says that its log has this LSN."""
        own = {} if applied is None else {"data": Place(self.incarnation, applied)}
        (data,) = encode_notices(own, {"data": Place(incarnation, lsn)}, "1.1", 7.0)
        self.positions.hear(node, data)

    def apply(self, node: str, lsn: int, incarnation: bytes = THEIRS) -> None:
        log = self.nodes[node].log
        log.origin, log.applied = Origin(node, incarnation), lsn
        log.remote_time, log.local_time = 5000.0, 6.0
        self.positions.applied(node, "data")


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path)
    yield world
    world.store.close()


def run(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(work())


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


# --- what others have applied -----------------------------------------------------------------------------------------------------------


def test_what_a_node_has_confirmed_is_known(world: World) -> None:
    lsn = world.write(3)
    assert world.positions.confirmed("b", "data") == -1
    assert world.positions.lag("b", "data") == (Lag(None, None), Lag(None, None))
    world.hears("b", lsn - 1)
    assert world.positions.confirmed("b", "data") == lsn - 1 and world.confirmed == ["data"]
    assert world.positions.lag("b", "data")[1].entries == 1
    world.clock.advance(3.0)
    assert world.positions.lag("b", "data")[1].seconds == pytest.approx(3.0)
    world.hears("b", lsn)
    assert world.positions.lag("b", "data")[1] == Lag(0, 0.0)
    assert world.positions.positions("b", "data").confirmed_at == world.clock.wall()
    assert world.positions.confirmed("c", "data") == -1
    world.hears("b", lsn)
    assert len(world.confirmed) == 2, "nothing new"


def test_who_lies_changes_nothing_but_a_line_of_the_log(world: World, caplog: pytest.LogCaptureFixture) -> None:
    lsn = world.write()
    for _ in range(3):
        world.hears("b", lsn + 1)
    assert len(caplog.records) == 1 and "more of database data than was written" in caplog.text
    world.hears("b", 1, b"othertim")
    assert "another time" in caplog.text
    world.positions.hear("b", b"\xc1nonsense")
    world.positions.hear("nobody", encode_notices({"data": Place(world.incarnation, lsn)})[0])
    world.positions.hear("b", encode_notices({"other": Place(world.incarnation, lsn)})[0])
    assert world.positions.confirmed("b", "data") == -1 == world.positions.confirmed("nobody", "data")
    assert not world.confirmed and world.positions.node("nobody") is None


def test_a_node_that_has_lost_what_it_had_says_so(world: World) -> None:
    lsn = world.write(5)
    world.hears("b", lsn)
    world.hears("b", 1)
    assert world.positions.confirmed("b", "data") == 1
    assert world.positions.lag("b", "data")[1].entries == lsn - 1


# --- what is applied here ---------------------------------------------------------------------------------------------------------------


def test_what_is_applied_is_told_once_for_all_that_piles_up(world: World) -> None:
    async def work() -> None:
        b = world.nodes["b"]
        b.gate = asyncio.Event()
        for lsn in range(1, 6):
            world.apply("b", lsn)
            await settle()
        b.gate.set()
        await settle()
        assert [notice.applied["data"].lsn for notice in b.told] == [1, 5]
        assert all(notice.log is None for notice in b.told) and not world.nodes["c"].told

    run(work)


def test_a_hello_says_how_much_is_missing_here(world: World) -> None:
    async def work() -> None:
        world.greeted("b", 10)
        assert world.positions.lag("b", "data")[0].entries == 10, "its database knows nothing of it"
        assert ("b", "data") in list(world.positions.missing())
        world.clock.advance(4.0)
        world.apply("b", 7)
        assert world.positions.lag("b", "data")[0] == Lag(3, pytest.approx(4.0))
        world.apply("b", 10)
        assert world.positions.lag("b", "data")[0] == Lag(0, 0.0)
        assert list(world.positions.missing()) == [("c", "data")], "of c nothing is known"
        found = world.positions.positions("b", "data")
        assert (found.received_remote, found.received_local) == (5.0, 6.0)
        known = world.positions.node("b")
        assert known is not None and (known.version, known.started) == ("1.1", 7.0)
        world.apply("b", 12)
        assert world.positions.lag("b", "data")[0].entries == 0, "more than it has said so far"
        await settle()

    run(work)


def test_after_a_start_the_database_knows_what_was_applied_and_it_is_told_at_once(world: World) -> None:
    async def work() -> None:
        world.state.set_applied(world.database.env.writer(), Origin("b", THEIRS), 8)
        world.database.env.touch()
        world.database.env.commit()
        world.database.env.end_snapshot()
        world.greeted("b", 9)
        await settle()
        assert world.nodes["b"].told[-1].applied == {"data": Place(THEIRS, 8)}
        assert world.positions.lag("b", "data")[0].entries == 1
        world.apply("b", 9)
        await settle()
        world.greeted("b", 2, b"restored")
        await settle()
        assert world.positions.lag("b", "data")[0].entries == 2, "its log is another one"
        assert world.nodes["b"].told[-1].applied == {"data": Place(b"restored", 0)}

    run(work)


def test_a_greeting_says_everything(world: World) -> None:
    async def work() -> None:
        lsn = world.write()
        world.greeted("b", 3)
        world.apply("b", 3)
        await settle()
        world.positions.greet("b")
        world.positions.greet("b")
        await settle()
        hello = world.nodes["b"].told[-1]
        assert hello.log == {"data": Place(world.incarnation, lsn)} and hello.applied == {"data": Place(THEIRS, 3)}
        assert sum(notice.log is not None for notice in world.nodes["b"].told) == 1
        known = world.positions.node("b")
        assert known is not None and known.latency == 0.002

    run(work)


def test_a_connection_that_is_lost_loses_what_was_to_be_told_and_no_more(world: World) -> None:
    async def work() -> None:
        b = world.nodes["b"]
        b.gate = asyncio.Event()
        world.apply("b", 1)
        world.positions.greet("b")
        await settle()
        b.is_connected = False
        b.gate.set()
        await settle()
        world.apply("b", 2)
        await settle()
        assert not b.told
        b.is_connected = True
        world.positions.greet("b")
        await settle()
        assert b.told[0].applied == {"data": Place(THEIRS, 2)}
        world.apply("b", 3)
        await settle()
        assert b.told[-1].applied == {"data": Place(THEIRS, 3)}

    run(work)


def test_a_node_that_is_not_known_any_more_is_forgotten(world: World) -> None:
    async def work() -> None:
        lsn = world.write()
        world.hears("b", lsn)
        del world.nodes["b"]
        task = asyncio.ensure_future(world.positions.run())
        await settle()
        assert world.positions.node("b") is None and world.positions.confirmed("b", "data") == -1
        world.positions.applied("b", "data")
        world.positions.greet("b")
        task.cancel()
        world.positions.close()

    run(work)


# --- progress -----------------------------------------------------------------------------------------------------------------------------


def test_progress_of_any_kind() -> None:
    for seed in range(200):
        generator = random.Random(seed)
        progress = Progress()
        now = 0.0
        for _ in range(400):
            now += 1.0
            if generator.random() < 0.6:
                progress.aim(progress.end + generator.randrange(3) if generator.random() < 0.98 else generator.randrange(50), now)
            else:
                progress.reach(progress.reached + generator.randrange(5) if generator.random() < 0.98 else generator.randrange(50), now)
            progress.check()
            behind, seconds = progress.behind, progress.seconds(now)
            if behind is not None:
                assert seconds is not None and (behind > 0) == (progress.end > progress.reached)
                assert seconds == 0 or behind > 0


def test_for_how_long_something_is_missing_is_known_also_while_more_comes() -> None:
    progress = Progress()
    progress.reach(0, 0.0)
    for second in range(1000):
        progress.aim(second + 1, float(second))
        if second >= 30:
            progress.reach(second - 30 + 1, float(second))
            assert 29 <= (progress.seconds(float(second)) or 0) <= 30
    for second in range(1000, 3000):
        progress.aim(second + 1, float(second))
    assert progress.seconds(3000.0) == pytest.approx(3000 - 970, abs=1)
