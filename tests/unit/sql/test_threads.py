"""Statements that threads work for: how many, what becomes of those that nobody reads, the end of the engine, functions of applications."""

from __future__ import annotations

import asyncio
import gc
import threading
from typing import Any

import pytest

from svc.errors import Overloaded, SnapshotLost
from svc.sql import threads
from svc.sql.engine import SqlRows
from svc.sql.options import SqlOptions
from svc.store.schema import Attribute, TableDefinition
from tests.support.sql_engine import SqlStore

ITEM = TableDefinition(
    "Item",
    attributes=(
        Attribute("id", "ID", primary_key=True),
        Attribute("rank", "Long"),
        Attribute("double", "Long", computed_from=""),
    ),
)
ROWS = 2000
ENDLESS = "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT COUNT(*) FROM r"
ALL_ROWS = "SELECT a.id FROM data.Item AS a, data.Item AS b LIMIT 20000"


@pytest.fixture
def tables(tmp_path):
    made = SqlStore(tmp_path, [ITEM], SqlOptions(max_time=60.0))
    made.put("Item", [{"id": f"k{n:04}", "rank": n} for n in range(ROWS)])
    yield made
    made.close()


async def begun(tables: SqlStore, text: str = ALL_ROWS) -> SqlRows:
    found = await tables.engine.run(text, None, tables.caller())
    assert isinstance(found, SqlRows) and not found.done
    tables.end_turn()
    return found


def open_things(tables: SqlStore) -> tuple[int, ...]:
    gc.collect()
    return tables.store.databases["data"].env.open_snapshots(), len(tables.store.snapshots), len(tables.engine._threads.open)


def test_as_many_as_may_be_open(tables, monkeypatch):
    monkeypatch.setattr(threads, "MOST_OPEN", 3)

    async def run() -> None:
        found = [await begun(tables) for _ in range(3)]
        with pytest.raises(Overloaded, match="3 statements that take long"):
            await begun(tables)
        assert await found[0].more()
        found.pop().close()
        found.append(await begun(tables))
        found[1]._run.used -= threads.STALLED  # nobody reads it for that long
        found.append(await begun(tables))
        with pytest.raises(SnapshotLost, match="was not read for too long"):
            await found[1].more()
        assert await found[0].more() and await found[2].more()
        for each in found:
            each.close()

    asyncio.run(run())
    assert open_things(tables) == (0, 0, 0)


def test_one_whose_snapshot_is_given_up_holds_nothing(tables):
    async def run() -> None:
        found = await begun(tables)
        assert open_things(tables) == (1, 1, 1)
        assert tables.store.snapshots.give_up_oldest(tables.store.databases["data"])
        tables.store.snapshots.let_go()
        assert open_things(tables) == (0, 0, 0) and len(tables.engine._pool) == 1
        with pytest.raises(SnapshotLost):
            await found.more()

    asyncio.run(run())


def is_working(tables: SqlStore) -> int:
    return sum([run.running is not None for run in tables.engine._threads.open])


def test_a_short_one_does_not_wait_for_the_end_of_long_ones(tables):
    async def run() -> None:
        endless = [asyncio.ensure_future(tables.answer(ENDLESS, None, tables.caller())) for _ in range(4)]
        while is_working(tables) < len(endless):  # noqa: ASYNC110 - they begin after some turns
            await asyncio.sleep(0.001)
        for _ in range(3):
            assert len(await tables.answer(f"{ALL_ROWS[:-5]}2000", None, tables.caller())) == 2000
        assert not any(task.done() for task in endless)
        tables.engine.close()
        await asyncio.gather(*endless, return_exceptions=True)

    asyncio.run(run())


def test_what_others_hold_is_not_counted(tmp_path):
    tables = SqlStore(tmp_path, [ITEM], SqlOptions(max_memory=12 << 20))
    numbers = "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r LIMIT 60000)"
    text = f"{numbers} SELECT COUNT(*) FROM (SELECT DISTINCT n || '{'x' * 100}' AS x FROM r) AS t"  # holds about 8 MB

    async def run() -> list[Any]:
        return await asyncio.gather(*[tables.answer(text, None, tables.caller()) for _ in range(4)])

    try:
        assert asyncio.run(run()) == [[[60000]]] * 4
    finally:
        tables.close()


def test_the_engine_ends_with_open_statements(tables):
    async def run() -> None:
        found = await begun(tables)
        tasks = [asyncio.ensure_future(tables.answer(text, None, tables.caller())) for text in (ENDLESS, ENDLESS, ALL_ROWS)]
        while is_working(tables) < len(tasks):  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        tables.engine.close()
        assert open_things(tables) == (0, 0, 0) and len(tables.engine._pool) == 0
        for error in await asyncio.gather(*tasks, return_exceptions=True):
            assert isinstance(error, BaseException)
        with pytest.raises(SnapshotLost):
            await found.more()

    asyncio.run(run())


# --- functions of applications ------------------------------------------------------------------------------------------------------------


def test_functions_of_applications_run_on_the_loop(tables):
    callers: list[Any] = []

    def double(record: dict[str, Any]) -> int:
        callers.append(threading.current_thread())
        return int(record["rank"]) * 2

    tables.tables["Item"].set_computed_attribute("double", double)
    text = "SELECT a.double, b.id FROM data.Item AS a, data.Item AS b WHERE b.rank < 2 ORDER BY a.rank DESC, b.rank"
    rows = tables.ask(text)
    assert len(rows) == 2 * ROWS and rows[:3] == [[2 * ROWS - 2, "k0000"], [2 * ROWS - 2, "k0001"], [2 * ROWS - 4, "k0000"]]
    assert len(callers) >= ROWS and set(callers) == {threading.main_thread()}


def test_the_engine_ends_while_the_loop_is_asked(tables):
    """A thread that waits for the loop does not keep it from ending."""
    tables.tables["Item"].set_computed_attribute("double", lambda record: 1)

    async def run() -> None:
        task = asyncio.ensure_future(
            tables.answer("SELECT SUM(a.double + b.double) FROM data.Item AS a, data.Item AS b", None, tables.caller())
        )
        while not any(run.running is not None for run in tables.engine._threads.open):  # noqa: ASYNC110
            await asyncio.sleep(0)
        await asyncio.sleep(0.02)
        tables.end_turn()
        tables.engine.close()
        assert open_things(tables) == (0, 0, 0)
        (error,) = await asyncio.gather(task, return_exceptions=True)
        assert isinstance(error, BaseException)

    asyncio.run(run())
