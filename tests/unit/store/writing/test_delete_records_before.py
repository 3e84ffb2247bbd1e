"""svc.store.writing.delete_records_before: what is deleted for its age is that old when it is deleted."""

from collections.abc import Callable, Iterator

import pytest

from svc.clock import FakeClock
from svc.store import Store, Table
from svc.store.schema import Attribute, TableDefinition
from svc.store.writing.delete_records_before import remove_records_before
from svc.store.writing.long_write import WriteStage
from tests.support.fakes import TickingClock
from tests.unit.store.writing.test_long_write import Turns, put, stage_of


@pytest.fixture
def clock() -> FakeClock:
    return TickingClock(looks_a_slice=5)


@pytest.fixture
def store(open_store: Callable[..., Store]) -> Store:
    return open_store()


@pytest.fixture
def turns(store: Store) -> Iterator[Turns]:
    turns = Turns(store)
    yield turns
    turns.close()


@pytest.fixture(params=[True, False], ids=["by index", "by key"])
def table(store: Store, request: pytest.FixtureRequest) -> Table:
    attributes = (Attribute("id", primary_key=True), Attribute("day", "Long", indexed=request.param))
    return store.open_database("data").define_table(TableDefinition("Visit", attributes=attributes))


async def nothing(deleted: int, found: int) -> None:
    """Nobody is told."""


def test_it_removes_what_is_older(turns: Turns, store: Store, table: Table) -> None:
    for number in range(8):
        put(store, table, f"v{number}", day=number)
    store.commit_turn()
    assert turns.finish(remove_records_before(table, "day", 5, None, nothing)) == (5, 5)
    assert [table.key_of(raw) for _, raw in table.scan(table.database.snapshot())] == ["v5", "v6", "v7"]


def test_what_is_written_again_meanwhile_is_judged_by_what_it_is_then(turns: Turns, store: Store, table: Table) -> None:
    for number in range(8):
        put(store, table, f"v{number}", day=1)
    store.commit_turn()
    found: list[tuple[int, int]] = []

    async def note(deleted: int, seen: int) -> None:
        found.append((deleted, seen))

    task = turns.start(remove_records_before(table, "day", 5, None, note))
    turns.until(lambda: stage_of(store, table.database) is WriteStage.WRITING)
    # Found already, not yet deleted: who cannot wait makes it begin again.
    put(store, table, "v0", day=9)
    put(store, table, "v1", day=2)
    store.commit_turn()
    turns.until(task.done)
    assert task.result()[0] == 7
    assert [table.key_of(raw) for _, raw in table.scan(table.database.snapshot())] == ["v0"]
    assert sum(1 for _ in store.databases["data"].log.read(store.databases["data"].snapshot())) == 8 + 2 + 7
