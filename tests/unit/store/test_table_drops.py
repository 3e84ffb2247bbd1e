"""svc.store.table_drops, svc.store.database_drops: tables, attributes and databases are dropped, with readers and writers beside."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from svc.clock import FakeClock
from svc.errors import NotFound, Problem
from svc.store import Store, Table, table_drops
from svc.store.blobs import create_blob
from svc.store.database_drops import DROPPED
from svc.store.entity_tags import etag_of
from svc.store.schema import Attribute, TableDefinition
from svc.store.table_drops import drop_attribute, drop_table
from svc.store.values.records import decode
from svc.store.writing.bulk_write import load_records
from tests.support.fakes import HeldBack, TickingClock
from tests.unit.store.conftest import SEAT
from tests.unit.store.writing.test_long_write import Turns

LOOSE = TableDefinition(
    "Loose",
    attributes=(
        Attribute("id", primary_key=True),
        Attribute("__createdtime__", indexed=True, created_time=True),
        Attribute("__updatedtime__", indexed=True, updated_time=True),
    ),
    dynamic=True,
)


@pytest.fixture
def clock() -> FakeClock:
    return TickingClock(looks_a_slice=5)


@pytest.fixture
def helper() -> HeldBack:
    return HeldBack()


@pytest.fixture
def store(open_store: Callable[..., Store], helper: HeldBack) -> Store:
    return open_store(make_helper=lambda: helper)


@pytest.fixture
def turns(store: Store) -> Iterator[Turns]:
    turns = Turns(store)
    yield turns
    turns.close()


def fill(table: Table, count: int, **more: object) -> None:
    for _ in load_records(table, ({table.primary_key: f"s{n:04}", "price": n, "place": f"p{n % 3}", **more} for n in range(count))):
        pass


def names_in(path: Path) -> list[str]:
    return sorted(entry.name for entry in path.iterdir())


# --- tables -----------------------------------------------------------------------------------------------------------------------------


def test_a_table_goes_with_records_indexes_and_expiries(turns: Turns, store: Store, seats: Table, open_store: Callable[..., Store]) -> None:
    seats.database.define_table(SEAT.__class__("Other", attributes=SEAT.attributes, primary_key="code", expiration=5.0))
    other = seats.database.tables["Other"]
    fill(other, 300)
    fill(seats, 20)
    gone: list[Table] = []
    store.on_drop.append(gone.append)
    turns.finish(drop_table(other))
    assert gone == [other] and list(store.databases["data"].tables) == ["Seat"]
    assert other.entry_count(store.databases["data"].snapshot()) == 0 and not list(other.expired_counts(store.databases["data"].snapshot()))
    store.check()
    store.end_turn()
    again = open_store()
    assert list(again.databases["data"].tables) == ["Seat"] and again.databases["data"].tables["Seat"].record_count() == 20
    again.check()


def test_a_table_made_again_is_empty_and_another(turns: Turns, store: Store, seats: Table) -> None:
    fill(seats, 50)
    turns.finish(drop_table(seats))
    again = store.databases["data"].define_table(SEAT)
    assert again is not seats and again.number != seats.number and again.record_count() == 0
    fill(again, 5)
    store.check()


def test_readers_keep_what_they_read(turns: Turns, store: Store, seats: Table) -> None:
    fill(seats, 100)
    snapshot = seats.database.open_snapshot()
    turns.finish(drop_table(seats))
    assert len(list(seats.scan(snapshot))) == 100
    snapshot.abort()


def test_a_table_that_is_gone_cannot_be_dropped(turns: Turns, store: Store, seats: Table) -> None:
    first, second = turns.start(drop_table(seats)), turns.start(drop_table(seats))
    turns.until(lambda: first.done() and second.done())
    first.result()
    with pytest.raises(NotFound, match=r"Table 'data.Seat' does not exist"):
        second.result()
    store.check()


def test_a_drop_that_is_interrupted_does_nothing(turns: Turns, store: Store, seats: Table, helper: HeldBack) -> None:
    fill(seats, 100)
    task = turns.start(drop_table(seats))
    turns.until(lambda: seats.database.env._long is not None)
    task.cancel()
    turns.until(task.done)
    assert store.databases["data"].tables == {"Seat": seats} and seats.record_count() == 100
    store.check()


def test_who_cannot_wait_makes_a_drop_begin_again(turns: Turns, store: Store, seats: Table) -> None:
    fill(seats, 100)
    task = turns.start(drop_table(seats))
    turns.until(lambda: seats.database.env._long is not None)
    seats.database.define_table(TableDefinition("Other", attributes=SEAT.attributes, primary_key="code"))
    turns.until(task.done)
    task.result()
    assert list(store.databases["data"].tables) == ["Other"]
    store.check()


def test_nothing_is_written_to_a_table_that_is_gone(turns: Turns, store: Store, seats: Table) -> None:
    transaction = store.begin()
    transaction.put(seats, "A", {})
    turns.finish(drop_table(seats))
    again = store.databases["data"].define_table(SEAT)
    with pytest.raises(NotFound):
        transaction.apply()
    assert again.record_count() == 0
    store.check()


# --- attributes -------------------------------------------------------------------------------------------------------------------------


def test_values_of_a_dynamic_table_go_too(turns: Turns, store: Store, seats: Table) -> None:
    loose = seats.database.define_table(LOOSE)
    fill(loose, 200)
    fill(seats, 1)
    before = dict(loose.scan(loose.database.snapshot()))
    store.end_turn()
    turns.finish(drop_attribute(loose, "price"))
    assert "price" not in loose.attributes and "price" not in loose.indexes
    found = dict(loose.scan(loose.database.snapshot()))
    assert found.keys() == before.keys()
    for stored, raw in found.items():
        was = decode(before[stored])
        del was["price"]
        assert decode(raw) == was and etag_of(raw) != etag_of(before[stored]), "its times are as they were, but it is another content"
    assert seats.database.log.newest(loose.database.snapshot()).changed == ("price",)  # type: ignore[union-attr]
    store.check()
    fill(loose, 3, price=5)
    assert "price" in loose.attributes
    store.check()


@pytest.mark.parametrize("batch", [1, 7, 50, 199, 200])
def test_many_values_go_in_several_transactions(
    turns: Turns, store: Store, seats: Table, monkeypatch: pytest.MonkeyPatch, batch: int
) -> None:
    monkeypatch.setattr(table_drops, "BATCH", batch)
    loose = seats.database.define_table(LOOSE)
    fill(loose, 150)
    for _ in load_records(loose, ({"id": f"t{n:04}", "other": n} for n in range(50))):
        pass
    first = loose.database.log.last_lsn + 1
    turns.finish(drop_attribute(loose, "price"))
    found = [decode(raw) for _, raw in loose.scan(loose.database.snapshot())]
    assert len(found) == 200 and not any("price" in record for record in found) and "price" not in loose.attributes
    written = list(loose.database.log.read(loose.database.snapshot(), first))
    assert len(written) == 150 and len({entry.transaction for entry in written}) == (1 if batch == 200 else -(-150 // batch))
    store.check()


def test_an_attribute_that_is_interrupted_can_be_dropped_again(
    turns: Turns, store: Store, seats: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_drops, "BATCH", 10)
    loose = seats.database.define_table(LOOSE)
    fill(loose, 100)
    last = loose.database.log.last_lsn
    task = turns.start(drop_attribute(loose, "price"))
    turns.until(lambda: loose.database.log.last_lsn > last + 20)
    task.cancel()
    turns.until(task.done)
    assert "price" in loose.attributes
    store.check()
    turns.finish(drop_attribute(loose, "price"))
    assert not any("price" in decode(raw) for _, raw in loose.scan(loose.database.snapshot()))
    store.check()


def test_values_of_a_declared_table_stay(turns: Turns, store: Store, seats: Table) -> None:
    fill(seats, 10)
    turns.finish(drop_attribute(seats, "price"))
    assert "price" not in seats.attributes and "price" not in seats.indexes
    raw = seats.get_raw("s0003")
    assert raw is not None and decode(raw)["price"] == 3
    store.check()


def test_an_attribute_with_blobs(turns: Turns, store: Store, seats: Table) -> None:
    loose = seats.database.define_table(LOOSE)
    transaction = store.begin()
    transaction.put(loose, "A", {"picture": create_blob(b"x" * 20_000)})
    transaction.apply()
    store.commit_turn()
    turns.finish(drop_attribute(loose, "picture"))
    store.check()


def test_writes_meanwhile_come_after(turns: Turns, store: Store, seats: Table) -> None:
    loose = seats.database.define_table(LOOSE)
    fill(loose, 200)
    task = turns.start(drop_attribute(loose, "price"))
    turns.until(lambda: loose.database.env._long is not None)
    transaction = store.begin()
    transaction.put(loose, "s0001", {"place": "new"})
    writing = turns.start(transaction.apply_in_turn())
    turns.until(lambda: task.done() and writing.done())
    task.result()
    writing.result()
    store.commit_turn()
    raw = loose.get_raw("s0001")
    assert raw is not None and decode(raw)["place"] == "new"
    store.check()


def test_an_attribute_that_is_gone(turns: Turns, seats: Table) -> None:
    with pytest.raises(NotFound, match=r"Attribute 'color' does not exist on 'data.Seat'"):
        turns.finish(drop_attribute(seats, "color"))


# --- databases --------------------------------------------------------------------------------------------------------------------------


def test_a_database_goes_with_its_files(turns: Turns, store: Store, tmp_path: Path, open_store: Callable[..., Store]) -> None:
    database = store.open_database("gone")
    table = database.define_table(SEAT)
    transaction = store.begin()
    transaction.put(table, "A", {"picture": create_blob(b"x" * 20_000)})
    transaction.apply()
    store.commit_turn()
    gone: list[Table] = []
    store.on_drop.append(gone.append)
    turns.finish(store.drop_database("gone"))
    assert gone == [table] and "gone" not in store.databases and database.is_dropped
    store._remover.wait(10)
    assert names_in(tmp_path / "database") == [".blobs"] and not names_in(tmp_path / "database" / ".blobs")
    again = store.open_database("gone")
    assert again is not database and not again.tables and again.log.last_lsn == 0
    fill(again.define_table(SEAT), 5)
    store.check()
    assert open_store().databases["gone"].tables["Seat"].record_count() == 5


def test_readers_of_a_dropped_database_go_on(turns: Turns, store: Store, seats: Table) -> None:
    fill(seats, 100)
    held = store.snapshots.hold(seats.database)
    turns.finish(store.drop_database("data"))
    store._remover.wait(10)
    new = store.open_database("data").define_table(SEAT)
    fill(new, 3)
    store.close_dropped()
    assert len(list(seats.scan(held.use()))) == 100
    held.abort()
    store.close_dropped()
    with pytest.raises(Problem):
        seats.get_raw("s0001")
    assert new.record_count() == 3
    store.check()


def test_nothing_is_written_to_a_dropped_database(turns: Turns, store: Store, seats: Table) -> None:
    transaction = store.begin()
    transaction.put(seats, "A", {})
    task = turns.start(store.drop_database("data"))
    turns.until(task.done)
    task.result()
    with pytest.raises(Problem):
        transaction.apply()
    with pytest.raises(NotFound):
        turns.finish(store.drop_database("data"))


def test_a_drop_waits_for_the_long_write_under_way(turns: Turns, store: Store, seats: Table) -> None:
    transaction = store.begin()
    for number in range(100):
        transaction.put(seats, f"s{number}", {})
    writing = turns.start(transaction.apply_long())
    turns.until(lambda: seats.database.env._long is not None)
    task = turns.start(store.drop_database("data"))
    turns.until(task.done)
    writing.result()
    assert "data" not in store.databases


def test_an_interrupted_drop_goes_on_at_the_next_start(
    store: Store, seats: Table, tmp_path: Path, open_store: Callable[..., Store]
) -> None:
    """Between step 1 and 2: the mark is there, and nothing else has happened."""
    fill(seats, 5)
    seats.database.mark_dropped()
    again = open_store()
    assert not again.databases
    again._remover.wait(10)
    assert names_in(tmp_path / "database") == []
    assert again.open_database("data").tables == {}


def test_what_was_not_removed_is_removed_at_the_next_start(
    store: Store, seats: Table, tmp_path: Path, open_store: Callable[..., Store]
) -> None:
    """Between step 2 and 3."""
    store.close()
    os.rename(tmp_path / "database" / "data", tmp_path / "database" / f"{DROPPED}1234")
    again = open_store()
    again._remover.wait(10)
    assert not again.databases and names_in(tmp_path / "database") == []


def test_another_process_notices(turns: Turns, store: Store, seats: Table, tmp_path: Path, clock: FakeClock) -> None:
    """Here the same process stands for it, made to forget what it has done."""
    fill(seats, 5)
    database = seats.database
    with database._changing() as writer:  # what the other process does
        writer.put(b"dropped", b"", True, True, False, database.definitions)
        database._raise_generation(writer)
    database.env.current -= 1
    database._generation -= 1
    with pytest.raises(NotFound, match="database 'data' does not exist"):
        database.writer()
    assert "data" not in store.databases and database.is_dropped and not database.tables


def test_a_database_of_another_process_is_found(store: Store, tmp_path: Path) -> None:
    other = Store(tmp_path / "elsewhere")
    other.open_database("new").define_table(SEAT)
    other.close()
    os.rename(tmp_path / "elsewhere" / "new", tmp_path / "database" / "new")
    found = store.find_database("new")
    assert found is not None and list(found.tables) == ["Seat"]
    assert store.find_database("newer") is None
