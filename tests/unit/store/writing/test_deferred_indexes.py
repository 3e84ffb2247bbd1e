"""svc.store.writing.deferred_indexes: which loads leave indexes out, and what becomes of these when something comes in between."""

import asyncio
import errno
import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from svc.clock import FakeClock
from svc.errors import IndexRebuilding, NoSpace
from svc.store import Store, Table
from svc.store.definitions import build_key
from svc.store.indexes import sorted_runs
from svc.store.indexes.build import build_slice
from svc.store.schema import Attribute, TableDefinition
from svc.store.writing import bulk_write, deferred_indexes
from svc.store.writing.bulk_batch import BulkResult
from tests.support.fakes import HeldBack, TickingClock
from tests.support.waiting_writers import WaitingWriters
from tests.unit.store.writing.test_long_write import Turns, put

BATCH = 20


@pytest.fixture
def clock() -> FakeClock:
    return TickingClock(looks_a_slice=5)


@pytest.fixture
def store(open_store: Callable[..., Store]) -> Store:
    return open_store(make_helper=HeldBack)


@pytest.fixture(autouse=True)
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk_write, "WORTHWHILE", 2 * BATCH)
    monkeypatch.setattr(bulk_write, "FEW", BATCH)
    monkeypatch.setattr(deferred_indexes, "CHUNK", 2 * BATCH)
    monkeypatch.setattr(sorted_runs, "BLOCK", 4)


@pytest.fixture
def turns(store: Store, seats: Table) -> Iterator[Turns]:
    turns = Turns(store)
    yield turns
    turns.close()


def rows(count: int) -> Iterator[dict[str, Any]]:
    for number in range(count):
        yield {"code": f"s{number * 7919 % 1000:03}", "price": number % 7, "tags": [f"t{number % 3}"], "place": f"p{number}"}


def start(turns: Turns, table: Table, count: int = 8 * BATCH, **options: Any) -> "asyncio.Task[BulkResult]":
    return turns.start(bulk_write.bulk_write(table, rows(count), mode="insert", largest=BATCH, **options))


def are_ready(table: Table) -> bool:
    return all(index.ready for index in table.index_list)


def check_built(store: Store, table: Table) -> None:
    assert not any(index.is_deferred for index in table.index_list)
    assert are_ready(table)
    store.check()


def build_in_background(store: Store, table: Table) -> None:
    assert not are_ready(table)
    while not are_ready(table):
        store.maintenance(1.0)
    check_built(store, table)


def test_a_large_load_builds_them_at_its_end(turns: Turns, store: Store, seats: Table) -> None:
    seats.indexes["price"].count(seats.database.snapshot(), None, b"\xff")  # has a cache
    task = start(turns, seats)
    turns.until(lambda: not are_ready(seats))
    assert seats.record_count() >= 2 * BATCH, "the first batches are too few records to leave anything out for"
    with pytest.raises(IndexRebuilding):
        next(seats.indexes["price"].scan(seats.database.snapshot()))
    store.maintenance(1.0)
    assert not are_ready(seats), "the background builder leaves them alone"
    turns.until(task.done)
    assert task.result().written == 8 * BATCH
    check_built(store, seats)


@pytest.mark.parametrize("most", [deferred_indexes.MOST_RUNS, 3])
def test_where_others_wait(turns: Turns, store: Store, seats: Table, monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    """The parts of batches are runs of few entries, of which there may be too many; and an index is built in more parts."""
    monkeypatch.setattr(deferred_indexes, "MOST_RUNS", most)
    monkeypatch.setattr(sorted_runs, "TAKEN", 8)
    others = WaitingWriters(seats.database, monkeypatch)
    parts: list[int] = []

    async def note(result: BulkResult) -> None:
        parts.append(result.written)

    task = start(turns, seats, on_batch=note)
    turns.until(task.done)
    assert task.result().written == parts[-1] == 8 * BATCH and len(parts) > 8
    others.close()
    if most == 3:
        build_in_background(store, seats)
    check_built(store, seats)


@pytest.mark.parametrize("before", [BATCH + 1, 400])
def test_a_table_that_has_records_keeps_its_indexes(turns: Turns, store: Store, seats: Table, before: int) -> None:
    """Its application queries them while the load is under way."""
    for number in range(before):
        put(store, seats, f"mine {number}", price=number)
    task = start(turns, seats)
    while not task.done():
        turns.turn()
        assert are_ready(seats)
    assert task.result().written == 8 * BATCH
    store.check()


def test_a_table_that_is_loaded_again_keeps_its_indexes(turns: Turns, store: Store, seats: Table) -> None:
    turns.until(start(turns, seats).done)
    task = turns.start(bulk_write.bulk_write(seats, rows(8 * BATCH), mode="upsert", largest=BATCH))
    while not task.done():
        turns.turn()
        assert are_ready(seats)
    assert task.result().written == 8 * BATCH
    store.check()


def test_a_table_that_others_fill_as_well_keeps_its_indexes(turns: Turns, store: Store, seats: Table) -> None:
    async def on_batch(result: BulkResult) -> None:
        for number in range(BATCH + 1):
            put(store, seats, f"theirs {result.written} {number}", price=number)

    task = start(turns, seats, on_batch=on_batch)
    while not task.done():
        turns.turn()
        assert are_ready(seats)
    store.check()


@pytest.mark.parametrize("stage", ["loading", "building"])
def test_a_load_that_is_cancelled_leaves_them_to_the_background(turns: Turns, store: Store, seats: Table, stage: str) -> None:
    task = start(turns, seats)
    turns.until(lambda: seats.record_count() == 8 * BATCH if stage == "building" else not are_ready(seats))
    task.cancel()
    turns.until(task.done)
    assert task.cancelled()
    build_in_background(store, seats)


def test_a_load_that_fails_builds_them(turns: Turns, store: Store, seats: Table) -> None:
    async def on_batch(result: BulkResult) -> None:
        if result.written >= 6 * BATCH:
            raise NoSpace

    task = start(turns, seats, on_batch=on_batch)
    turns.until(task.done)
    with pytest.raises(NoSpace):
        task.result()
    assert seats.record_count() >= 6 * BATCH
    check_built(store, seats)


@pytest.mark.parametrize("at", ["opening", "writing", "reading"])
def test_without_room_for_the_file_the_load_goes_on(
    turns: Turns, store: Store, seats: Table, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    def full(*arguments: Any, **options: Any) -> Any:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    target = {"opening": "svc.store.indexes.sorted_runs.TemporaryFile", "writing": "os.pwrite", "reading": "os.pread"}[at]
    monkeypatch.setattr(target, full)
    task = start(turns, seats)
    turns.until(task.done)
    assert task.result().written == 8 * BATCH
    if at == "opening":
        check_built(store, seats)
    else:
        build_in_background(store, seats)


def test_another_process_that_has_begun_to_build_one_goes_on(turns: Turns, store: Store, seats: Table) -> None:
    task = start(turns, seats)
    turns.until(lambda: seats.record_count() == 8 * BATCH)
    database, index = seats.database, seats.indexes["price"]
    writer = database.writer(wait=True)
    child = database.env.child()
    build_slice(child, seats, index)
    database.env.commit_child(child)
    noted = writer.get(build_key(seats.number, "price"), None, database.definitions)
    store.flush_or_raise(database)
    turns.until(task.done)
    assert noted is not None
    assert not index.ready and seats.indexes["place"].ready
    build_in_background(store, seats)


@pytest.mark.parametrize("how", ["more", "fewer", "dropped"])
@pytest.mark.parametrize("stage", ["loading", "building"])
def test_a_table_that_changes_meanwhile(turns: Turns, store: Store, seats: Table, how: str, stage: str) -> None:
    task = start(turns, seats)
    turns.until(lambda: seats.record_count() == 8 * BATCH if stage == "building" else not are_ready(seats))
    database, attributes = seats.database, seats.definition.attributes
    if how == "dropped":
        database.drop_table("Seat")
    elif how == "more":
        database.define_table(TableDefinition("Seat", attributes=(*attributes, Attribute("new", "Int", indexed=True)), primary_key="code"))
    else:
        fewer = tuple(Attribute("price", "Float") if attribute.name == "price" else attribute for attribute in attributes)
        database.define_table(TableDefinition("Seat", attributes=fewer, primary_key="code"))
    turns.until(task.done)
    if how == "dropped":
        assert "Seat" not in database.tables
        assert not any(index.is_deferred for index in seats.index_list)
    else:
        assert task.result().written == 8 * BATCH
        while store.maintenance(1.0):
            pass
        check_built(store, seats)


def test_an_index_of_unique_values_is_not_left_out(store: Store) -> None:
    definition = TableDefinition(
        "Ticket",
        attributes=(
            Attribute("id", "ID", primary_key=True),
            Attribute("code", "Int", indexed=True, unique=True),
            Attribute("place", "String", indexed=True),
        ),
    )
    table = store.open_database("data").define_table(definition)
    left_out: set[str] = set()
    turns = Turns(store)

    async def note(result: BulkResult) -> None:
        left_out.update(index.attribute for index in table.index_list if not index.ready)

    records = [{"id": f"k{number:04}", "code": number // 2, "place": "p"} for number in range(8 * BATCH)]
    result = turns.finish(bulk_write.bulk_write(table, records, mode="insert", largest=BATCH, on_batch=note))
    turns.close()
    assert (result.written, result.failed, left_out) == (4 * BATCH, 4 * BATCH, {"place"})
    table.database.check()
