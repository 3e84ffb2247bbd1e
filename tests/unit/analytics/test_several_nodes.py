"""Aggregates that go to other nodes, and come from them (spec: analytics §2.3)."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from svc.analytics.metric_tables import ID_STEP, NODE_PARTS, RowIds, node_parts
from svc.store.log.entries import EXPIRE
from svc.store.system import ANALYTICS_TABLE, NODE_TABLE, SYSTEM
from tests.unit.analytics.test_collector import HOUR, YEAR, Fixture, run

NODE = "here"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[Fixture]:
    fixture = Fixture(tmp_path, node=NODE, has_others=True, replicate=True)
    yield fixture
    fixture.store.close()


def put(world: Fixture, table: str, *records: dict[str, Any]) -> None:
    transaction = world.store.begin()
    found = world.store.databases[SYSTEM].tables[table]
    for record in records:
        transaction.put(found, record[found.primary_key], dict(record))
    transaction.apply()
    world.store.commit_turn()


def come_from_elsewhere(world: Fixture, ahead: float, count: int = 1, **more: Any) -> None:
    """Rows of another node, whose clock is that much ahead, in seconds."""
    now = world.clock.wall() * 1000 + ahead * 1000
    rows = [{"id": now + n + 0.3, "time": int(now + n), "period": 60000, "metric": "size", "node": "there", **more} for n in range(count)]
    put(world, ANALYTICS_TABLE, *rows)


def own(world: Fixture) -> list[dict[str, Any]]:
    return [row for row in world.rows(ANALYTICS_TABLE) if row.get("node") == NODE]


def part_of(row_id: float) -> int:
    steps = row_id / ID_STEP
    assert steps == int(steps)
    return int(steps) % NODE_PARTS


def test_ids_of_two_nodes_are_never_equal_whatever_their_clocks_do() -> None:
    dice = random.Random(7)
    parts = node_parts(["a", "b", "c"])
    found: dict[str, list[float]] = {}
    for name, part in parts.items():
        ids = RowIds(1.7e12, dice.randrange(3))
        now = 1.7e12
        for _ in range(3000):
            now += dice.choice((0, 0, 0, 0.4, 1, 60_000, -5))
            found.setdefault(name, []).append(ids.next(now, part))
    for ids in found.values():
        assert all(first < second for first, second in pairwise(ids))
    assert len({each for ids in found.values() for each in ids}) == 3 * 3000
    assert {part_of(each) for each in found["a"]} == {parts["a"]}


def test_four_ids_are_in_each_millisecond() -> None:
    ids = RowIds(0.0)
    assert [int(ids.next(1.7e12, 5)) - 17 * 10**11 for _ in range(9)] == [0, 0, 0, 0, 1, 1, 1, 1, 2]


def test_the_numbers_of_nodes_differ_and_stay() -> None:
    names = [f"node-{number}" for number in range(NODE_PARTS)]
    parts = node_parts(names)
    assert sorted(parts.values()) == list(range(NODE_PARTS))
    assert node_parts(reversed(names)) == parts
    assert len(node_parts([*names, "one more"])) == NODE_PARTS + 1
    few = node_parts(["a", "b"])
    assert node_parts(["a", "b", "c"]).items() >= few.items()


def test_rows_have_the_part_of_their_node_in_the_fraction(world: Fixture) -> None:
    put(world, NODE_TABLE, *({"name": f"n{number}", "url": "wss://n"} for number in range(40)), {"name": NODE})
    run(world, 200)
    rows = own(world)
    expected = node_parts([NODE, *(f"n{number}" for number in range(40))])[NODE]
    assert len(rows) > 30 and {part_of(row["id"]) for row in rows} == {expected}
    assert all(abs(row["id"] - row["time"]) < 61_000 for row in rows)
    assert {row["id"] % 1 for row in world.raw()} == {0}, "these stay here"


def test_without_the_setting_ids_are_as_ever(tmp_path: Path) -> None:
    world = Fixture(tmp_path, node=NODE, has_others=True)
    run(world, 70)
    ids = [row["id"] for row in own(world)]
    assert ids[0] % 1 == ID_STEP and [second - first for first, second in pairwise(ids)] == [ID_STEP] * (len(ids) - 1)
    world.store.close()


@pytest.mark.parametrize("ahead", [-30.0, 0.0, 30.0, 0.9 * YEAR])
@pytest.mark.parametrize("count", [1, 12_000])
def test_rows_of_other_nodes_do_not_say_when_this_one_has_aggregated(world: Fixture, ahead: float, count: int) -> None:
    come_from_elsewhere(world, ahead, count)
    for _ in range(4):
        run(world, 100)
        come_from_elsewhere(world, ahead, 3)
        world.start()
    run(world, 100)
    rows = [row for row in own(world) if row["metric"] == "size"]
    covered = max(row["time"] for row in rows)
    assert sum(row["count"] for row in rows) == len([row for row in world.raw() if row["time"] <= covered]) > 350
    ids = [row["id"] for row in sorted(own(world), key=lambda row: row["id"])]
    assert ids[-1] < world.clock.wall() * 1000 + 1000, "the clock of the other one is not this one's"
    assert len(world.aggregates("database-size")) == 5, "one at each start, and each tenth time: not counting those of others"


def test_ids_go_on_behind_own_rows_that_are_ahead(world: Fixture) -> None:
    run(world, 90)
    last = own(world)[-1]["id"]
    world.clock.step(-HOUR / 2)
    come_from_elsewhere(world, 0.9 * YEAR, 6000)
    world.start()
    run(world, 90)
    assert min(row["id"] for row in own(world) if row["time"] <= last - HOUR * 400) > last


def test_rows_end_here_by_the_clock_here_and_nobody_is_told(world: Fixture) -> None:
    run(world, 70)
    old = {row["id"] for row in own(world)}
    come_from_elsewhere(world, -YEAR - HOUR)
    come_from_elsewhere(world, -YEAR + 2 * HOUR)
    world.second()
    database = world.store.databases[SYSTEM]
    before = database.log.newest_lsn(database.snapshot())
    run(world, HOUR + 200)
    assert len([row for row in world.rows(ANALYTICS_TABLE) if row.get("node") == "there"]) == 1
    assert old <= {row["id"] for row in own(world)}
    entries = [entry for entry in database.log.read(database.snapshot(), before + 1) if entry.table == ANALYTICS_TABLE]
    removed = [entry for entry in entries if entry.value is None]
    assert [(entry.kind, entry.user) for entry in removed] == [(EXPIRE, None)], "these entries are sent to no other node"
