"""svc.store.writing.bulk_write: what becomes of each record, and of everybody else meanwhile."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from svc.clock import FakeClock
from svc.errors import NoSpace, NotFound, Problem, StoreFailure
from svc.store import Database, LogEntry, Store, Table
from svc.store.blobs import create_blob
from svc.store.env import WriterBusy
from svc.store.log.entries import KINDS, OPERATIONS
from svc.store.schema import Attribute, TableDefinition
from svc.store.values.records import decode
from svc.store.values.validation import Validator
from svc.store.writing import batch_write, bulk_batch, bulk_write, index_runs
from svc.store.writing.bulk_batch import BulkResult, RefusedRecord
from tests.support.fakes import HeldBack, TickingClock
from tests.support.waiting_writers import WaitingWriters
from tests.unit.store.writing.test_long_write import Turns, put, writing


@pytest.fixture
def clock() -> FakeClock:
    return TickingClock(looks_a_slice=5)


@pytest.fixture
def helper() -> HeldBack:
    return HeldBack()


@pytest.fixture
def store(open_store: Callable[..., Store], helper: HeldBack) -> Store:
    return open_store(make_helper=lambda: helper)


@pytest.fixture(autouse=True)
def short_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few records take many turns, as many do in earnest."""
    monkeypatch.setattr(batch_write, "MANY", 3)
    monkeypatch.setattr(index_runs, "_ENTRIES", 5)
    monkeypatch.setattr(index_runs, "_RUN", 7)
    monkeypatch.setattr(bulk_batch, "_PREPARED", 4)
    monkeypatch.setattr(bulk_batch, "_RUN", 6)
    monkeypatch.setattr(bulk_write, "_LIST", 4)


@pytest.fixture
def turns(store: Store, seats: Table) -> Iterator[Turns]:
    turns = Turns(store)
    yield turns
    turns.close()


def write(turns: Turns, table: Table, records: Any, mode: Any = "insert", **options: Any) -> BulkResult:
    found = turns.finish(bulk_write.bulk_write(table, records, mode=mode, **options))
    turns.store.check()
    assert isinstance(found, BulkResult)
    return found


def counts(result: BulkResult) -> tuple[int, int, int]:
    return result.written, result.skipped, result.failed


def content(table: Table) -> dict[Any, dict[str, Any]]:
    return {table.key_of(raw): decode(raw) for _, raw in table.scan(table.database.snapshot())}


def rows(count: int, **more: Any) -> list[dict[str, Any]]:
    return [{"code": f"s{number * 7 % count:03}", "price": number, "tags": ["a", f"t{number % 3}"], **more} for number in range(count)]


@pytest.fixture
def sibling(seats: Table, monkeypatch: pytest.MonkeyPatch) -> Iterator[WaitingWriters]:
    sibling = WaitingWriters(seats.database, monkeypatch)
    yield sibling
    sibling.close()


# -- the modes


def test_insert_leaves_what_is_there(turns: Turns, store: Store, seats: Table) -> None:
    put(store, seats, "s001", price=-1)
    result = write(turns, seats, [*rows(50), {"code": "s002", "price": -2}])
    assert counts(result) == (49, 2, 0) and result.total == 51
    assert content(seats)["s001"] == {"code": "s001", "price": -1} and content(seats)["s002"]["price"] >= 0


def test_update_merges_and_makes_nothing(turns: Turns, store: Store, seats: Table) -> None:
    put(store, seats, "s001", price=1, place="x", stock=5)
    result = write(
        turns,
        seats,
        [{"code": "s001", "price": 2}, {"code": "s002"}, {"code": "s001", "stock": {"__op__": "add", "value": 2}}, {"price": 3}],
        "update",
        user="anna",
    )
    assert counts(result) == (2, 1, 1)
    assert [(each.number, each.message) for each in result.errors] == [
        (4, "a valid hash attribute must be provided with update record, check log for more info")
    ]
    assert content(seats) == {"s001": {"code": "s001", "price": 2, "place": "x", "stock": 7}}
    entries = list(seats.database.log.read(seats.database.snapshot()))
    assert [(KINDS[entry.kind], OPERATIONS[entry.operation], entry.user) for entry in entries] == [
        ("put", "", None),
        ("patch", "update", "anna"),
    ]
    assert decode(entries[-1].value or b"") == {"price": 2, "stock": {"__op__": "add", "value": 2}}


def test_upsert_merges_or_makes(turns: Turns, store: Store) -> None:
    definition = TableDefinition(
        "T", attributes=(Attribute("id", "ID", primary_key=True), Attribute("a", "Int", required=True), Attribute("b", "Int"))
    )
    table = store.open_database("data").define_table(definition)
    put(store, table, "1", a=1, b=1)
    records = [
        {"id": "1", "b": 2},
        {"id": "2", "b": 3},
        {"id": "2", "a": 4},
        {"id": "2", "b": 5},
        {"id": "3", "a": {"__op__": "add", "value": 6}},
        {"a": 7},
        {"a": None, "id": "1"},
    ]
    result = write(turns, table, records, "upsert")
    assert counts(result) == (5, 0, 2) and [each.number for each in result.errors] == [2, 7]
    found = content(table)
    made = next(record for record in found.values() if record["a"] == 7)
    assert list(found.values()) == sorted(
        [{"id": "1", "a": 1, "b": 2}, {"id": "2", "a": 4, "b": 5}, {"id": "3", "a": 6}, made], key=lambda record: record["id"]
    )


def test_increments_that_make_a_record_are_logged_as_such(turns: Turns, store: Store, seats: Table) -> None:
    def add(value: int) -> dict[str, Any]:
        return {"__op__": "add", "value": value}

    records = [
        {"code": "a", "stock": add(2), "place": "x"},
        {"code": "b", "place": "y"},
        {"code": "c", "stock": add(1)},
        {"code": "c", "stock": add(4), "price": add(1)},
        {"code": "d", "stock": 5},
        {"code": "d", "stock": add(1), "price": add(3)},
    ]
    write(turns, seats, records, "upsert")
    assert {code: (record.get("stock"), record.get("price")) for code, record in content(seats).items()} == {
        "a": (2, None), "b": (None, None), "c": (5, 1), "d": (6, 3),
    }  # fmt: skip
    logged = {}
    for entry in seats.database.log.read(seats.database.snapshot()):
        assert entry.value is not None and KINDS[entry.kind] == "patch"
        logged[entry.id] = decode(entry.value)
    assert logged == {
        "a": {"code": "a", "stock": add(2), "place": "x"},
        "b": {"code": "b", "place": "y"},
        "c": {"code": "c", "stock": add(5), "price": add(1)},
        "d": {"code": "d", "stock": 6, "price": add(3)},
    }


def test_delete_looks_at_keys_only(turns: Turns, store: Store, seats: Table) -> None:
    write(turns, seats, rows(20))
    result = write(turns, seats, [{"code": "s001"}, {"code": "s002", "price": "no number"}, {"code": "s001"}, {"code": "x"}, {}], "delete")
    assert counts(result) == (2, 2, 1) and len(content(seats)) == 18


def test_who_fails_hinders_nobody(turns: Turns, seats: Table) -> None:
    records: list[Any] = rows(30)
    records[3]["price"] = "dear"
    records[7]["code"] = "k" * 700
    records[9] = RefusedRecord("Bad cell")
    result = write(turns, seats, records)
    assert counts(result) == (27, 0, 3)
    assert [(each.number, each.message) for each in result.errors] == [
        (4, 'Value "dear" in property price must be a number'),
        (8, "Primary key is too long, at most 659 characters and 1978 bytes are allowed"),
        (10, "Bad cell"),
    ]
    many = write(turns, seats, [RefusedRecord("no")] * 300, largest=64)
    assert counts(many) == (0, 0, 300) and [each.number for each in many.errors] == list(range(1, 101))


def test_records_without_a_key(turns: Turns, store: Store) -> None:
    table = store.open_database("data").define_table(TableDefinition("T", attributes=(Attribute("id", primary_key=True), Attribute("n"))))
    write(turns, table, [{"n": 0}])
    first = next(iter(content(table)))
    # The next numbers are taken by records of the same batch, which do not exist yet.
    write(turns, table, [{"n": 1}, {"n": 2}, {"id": first + 1, "n": 3}, {"id": first + 2, "n": 4}, {"id": "text", "n": 5}])
    assert {record["n"]: key for key, record in content(table).items()} == {
        0: first, 1: first + 3, 2: first + 4, 3: first + 1, 4: first + 2, 5: "text",
    }  # fmt: skip
    write(turns, table, ({"n": number} for number in range(500)), largest=64)
    assert len(content(table)) == 506


@pytest.mark.parametrize("kind", ["ID", "Int"])
def test_each_record_is_checked_once(turns: Turns, store: Store, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """Also those without a key: it is the larger part of preparing them."""
    attributes = (Attribute("id", kind, primary_key=True), Attribute("n", "Int"))
    table = store.open_database("data").define_table(TableDefinition("T", attributes=attributes))
    checked = []
    check = Validator.record

    def counted(self: Validator, record: dict[str, Any], *, source: str = "json") -> dict[str, Any]:
        checked.append(record)
        return check(self, record, source=source)

    monkeypatch.setattr(Validator, "record", counted)
    assert counts(write(turns, table, [{"n": number} for number in range(20)])) == (20, 0, 0)
    assert len(checked) == 20


def test_a_dynamic_table_learns(turns: Turns, store: Store) -> None:
    table = store.open_database("data").define_table(TableDefinition("T", attributes=(Attribute("id", primary_key=True),), dynamic=True))
    result = write(turns, table, [{"id": number, f"a{number // 40}": number} for number in range(100)] + [{"id": 1, "a/b": 1}], largest=20)
    assert counts(result) == (100, 0, 1)
    assert list(table.attributes) == ["id", "a0", "a1", "a2"] and len(table.indexes) >= 3


def test_expired_records_are_none(turns: Turns, store: Store, seats: Table, clock: FakeClock) -> None:
    transaction = store.begin()
    for key in ("s001", "s002", "s003"):
        transaction.insert(seats, key, {"price": 1, "place": "x"}, expires_at=clock.wall() * 1000 + 1000)
    transaction.apply()
    store.commit_turn()
    clock.advance(2)
    assert counts(write(turns, seats, [{"code": "s001", "price": 2}])) == (1, 0, 0)
    assert counts(write(turns, seats, [{"code": "s002", "price": 2}], "update")) == (0, 1, 0)
    assert counts(write(turns, seats, [{"code": "s003", "price": 2}], "upsert")) == (1, 0, 0)
    assert content(seats) == {"s001": {"code": "s001", "price": 2}, "s003": {"code": "s003", "price": 2}}


def test_stamps(turns: Turns, store: Store, clock: FakeClock) -> None:
    attributes = (
        Attribute("id", primary_key=True),
        Attribute("made", "Float", created_time=True),
        Attribute("changed", "Float", updated_time=True),
    )
    table = store.open_database("data").define_table(TableDefinition("T", attributes=attributes))
    write(turns, table, [{"id": 1}, {"id": 2}])
    then = content(table)[1]["made"]
    clock.advance(10)
    write(turns, table, [{"id": 1, "n": 1}], "upsert")
    record = content(table)[1]
    assert record["made"] == then and record["changed"] >= then + 10_000 and record["n"] == 1
    entry = list(table.database.log.read(table.database.snapshot()))[-1]
    assert decode(entry.value or b"") == {name: record[name] for name in ("made", "changed", "n")}


def test_stamps_after_the_clock_was_ahead(turns: Turns, store: Store, clock: FakeClock) -> None:
    attributes = (Attribute("id", primary_key=True), Attribute("made", "Float", created_time=True))
    table = store.open_database("data").define_table(TableDefinition("T", attributes=attributes))
    clock.step(400 * 86_400)
    write(turns, table, [{"id": 1}])
    clock.step(-400 * 86_400)
    write(turns, table, [{"id": 2}], "upsert")
    assert content(table)[2]["made"] == clock.wall() * 1000


def test_blobs_are_saved_before(turns: Turns, store: Store) -> None:
    table = store.open_database("data").define_table(
        TableDefinition("T", attributes=(Attribute("id", primary_key=True), Attribute("b", "Blob")))
    )
    write(turns, table, [{"id": number, "b": create_blob(b"x" * 20_000)} for number in range(5)] + [{"id": 1, "b": "twice" * 5000}])
    assert len(content(table)) == 5


# -- batches, and others


def test_batches(turns: Turns, store: Store, seats: Table) -> None:
    heard: list[int] = []
    store.on_commit.append(lambda database, entries: heard.extend(entry.lsn for entry in entries))
    told: list[int] = []

    async def on_batch(result: BulkResult) -> None:
        told.append(result.total)

    async def lists() -> AsyncIterator[list[dict[str, Any] | RefusedRecord]]:
        for start in range(0, 100, 7):
            yield rows(100)[start : start + 7]  # type: ignore[misc]

    result = write(turns, seats, lists(), on_batch=on_batch, largest=30)
    assert counts(result) == (100, 0, 0) and told == [30, 60, 90, 100] and heard == list(range(1, 101))
    entries = list(seats.database.log.read(seats.database.snapshot()))
    assert len({entry.transaction for entry in entries}) == 4 == len({entry.version for entry in entries})


def test_large_records_make_short_batches(turns: Turns, store: Store, seats: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk_write, "LARGEST_BYTES", 10_000)
    told: list[int] = []

    async def on_batch(result: BulkResult) -> None:
        told.append(result.total)

    write(turns, seats, rows(20, place="x" * 3000), on_batch=on_batch)
    assert told == [4, 8, 12, 16, 20]


def test_nothing(turns: Turns, seats: Table) -> None:
    assert counts(write(turns, seats, [])) == (0, 0, 0)
    assert counts(write(turns, seats, [{"code": "x"}], "update")) == (0, 1, 0)


def test_a_batch_is_seen_as_a_whole_and_readers_are_served(turns: Turns, store: Store, seats: Table) -> None:
    task = turns.start(bulk_write.bulk_write(seats, rows(200), mode="insert", largest=50))
    seen = set()
    count = 0
    while not task.done():
        seen.add(seats.record_count())
        count += 1
        turns.turn()
    assert seen <= {0, 50, 100, 150, 200} and len(seen) > 2 and count > 20


def test_other_writers_come_in_between(turns: Turns, store: Store, seats: Table) -> None:
    task = turns.start(bulk_write.bulk_write(seats, rows(400), mode="insert", largest=20))
    written = []
    for number in range(10):
        writing(turns, seats)
        transaction = store.begin()
        transaction.put(seats, f"mine {number}", {"price": -number})
        with pytest.raises(WriterBusy):
            transaction.apply(wait=False)
        mine = turns.start(transaction.apply_in_turn())
        before = seats.record_count()
        turns.until(mine.done)
        turns.turn()
        written.append(seats.record_count() - before)
    turns.until(task.done)
    assert max(written) <= 41, "a writer had to wait for more than the batch that was under way, and the next one's beginning"
    store.check()


def test_who_cannot_wait_makes_a_batch_begin_again(turns: Turns, store: Store, seats: Table) -> None:
    seats.indexes["price"].count(seats.database.snapshot(), None, b"\xff")  # has a cache
    task = turns.start(bulk_write.bulk_write(seats, rows(60), mode="upsert", largest=30))
    writing(turns, seats)
    put(store, seats, "s003", place="y")
    turns.until(task.done)
    assert counts(task.result()) == (60, 0, 0) and content(seats)["s003"]["place"] == "y"
    store.check()


@pytest.mark.parametrize("how", ["changed", "changed twice", "dropped"])
def test_a_table_that_changes_meanwhile(turns: Turns, store: Store, seats: Table, how: str) -> None:
    """Records are checked again by the new definition; without a table there is nothing more to do."""
    task = turns.start(bulk_write.bulk_write(seats, rows(100, place="p", stock=5), mode="insert", largest=50))
    for number in range(1 + (how == "changed twice")):
        writing(turns, seats)
        if how == "dropped":
            seats.database.drop_table("Seat")
        else:
            attributes = (*seats.definition.attributes, Attribute(f"new{number}", "Int", indexed=True))
            seats.database.define_table(TableDefinition("Seat", attributes=attributes, primary_key="code"))
    turns.until(task.done)
    if how == "dropped":
        with pytest.raises(NotFound):
            task.result()
    else:
        assert counts(task.result()) == (100, 0, 0)
    store.check()


def test_records_that_a_new_definition_refuses(turns: Turns, store: Store, seats: Table) -> None:
    task = turns.start(bulk_write.bulk_write(seats, rows(40, more="text"), mode="insert"))
    writing(turns, seats)
    attributes = (*seats.definition.attributes, Attribute("more", "Int"))
    seats.database.define_table(TableDefinition("Seat", attributes=attributes, primary_key="code"))
    turns.until(task.done)
    assert counts(task.result()) == (0, 0, 40)
    store.check()


@pytest.mark.parametrize("when", ["preparing", "writing", "committing"])
def test_who_cancels_leaves_whole_batches(turns: Turns, store: Store, seats: Table, helper: HeldBack, when: str) -> None:
    helper.holding = when == "committing"
    task = turns.start(bulk_write.bulk_write(seats, rows(200), mode="insert", largest=50))
    if when == "writing":
        writing(turns, seats)
    elif when == "committing":
        turns.until(lambda: helper.commits)
    task.cancel()
    turns.turn()
    helper.holding = False
    helper.release()
    turns.until(task.done)
    assert task.cancelled() and seats.record_count() == (50 if when == "committing" else 0)
    assert not asyncio.all_tasks(turns.loop)
    store.check()
    assert counts(write(turns, seats, rows(200))) == ((150, 50, 0) if when == "committing" else (200, 0, 0))


def test_a_full_disk_ends_it(turns: Turns, store: Store, seats: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[int] = []

    async def on_batch(result: BulkResult) -> None:
        done.append(result.written)
        monkeypatch.setattr(seats.database, "require_space", full)
        seats.database.env.reserve.is_low = True

    def full() -> None:
        raise NoSpace

    with pytest.raises(NoSpace):
        turns.finish(bulk_write.bulk_write(seats, rows(200), mode="insert", largest=50, on_batch=on_batch))
    assert done == [50] and seats.record_count() == 50
    store.check()


def test_a_batch_that_cannot_be_logged_is_not_written(turns: Turns, store: Store, seats: Table) -> None:
    write(turns, seats, rows(3))
    seats.database.log.last_lsn -= 1
    with pytest.raises(StoreFailure, match="nothing was written"):
        turns.finish(bulk_write.bulk_write(seats, [{"code": "x"}], mode="insert"))
    assert seats.record_count() == 3 and seats.database.log.last_lsn == 3
    write(turns, seats, [{"code": "x"}])
    assert seats.record_count() == 4 and seats.database.log.last_lsn == 4


def test_it_tries_again_when_the_database_is_overloaded(turns: Turns, store: Store, seats: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk_write, "TRY_AGAIN_AFTER", 0)
    monkeypatch.setattr(bulk_write, "TRIES", 3)
    task = turns.start(bulk_write.bulk_write(seats, rows(40), mode="insert"))
    for number in range(8):  # more than a long write takes
        writing(turns, seats)
        put(store, seats, "other", price=number)
    turns.until(task.done)
    assert counts(task.result()) == (40, 0, 0)
    task = turns.start(bulk_write.bulk_write(seats, rows(60), mode="upsert"))
    with pytest.raises(Problem):
        for number in range(100):
            turns.until(lambda: task.done() or seats.database.env.holder is not None)
            if task.done():
                break
            put(store, seats, "other", price=number)
        task.result()


def test_listeners_are_told_once(turns: Turns, store: Store, seats: Table) -> None:
    heard: list[tuple[str, bytes | None]] = []

    def listen(database: Database, entries: list[LogEntry]) -> None:
        heard.extend((str(entry.id), entry.image) for entry in entries)

    store.on_commit.append(listen)
    write(turns, seats, rows(10))
    write(turns, seats, [{"code": "s001", "price": 5}], "upsert")
    assert len(heard) == 11 and heard[-1][0] == "s001" and heard[-1][1] is not None


# -- others that wait


@pytest.mark.parametrize("mode", ["insert", "upsert", "update", "delete"])
def test_a_batch_ends_early_where_another_process_waits(turns: Turns, seats: Table, sibling: WaitingWriters, mode: str) -> None:
    there = 0 if mode in ("insert", "upsert") else 12
    if there:
        write(turns, seats, rows(there))
    sibling.begun = 0
    committed: list[int] = []

    async def note(result: BulkResult) -> None:
        committed.append(result.total)

    found = write(turns, seats, [*rows(12), *rows(12)[:2], {"price": "no"}, {"code": "s999", "price": 1}], mode, on_batch=note)
    assert len(committed) > 1 and sibling.begun == len(committed) and sorted({*committed}) == committed
    assert found.total == committed[-1] == 16
    changed = {"insert": (13, 2, 1), "upsert": (15, 0, 1), "update": (14, 1, 1), "delete": (12, 3, 1)}[mode]
    assert counts(found) == changed
    assert len(content(seats)) == (0 if mode == "delete" else 13 if mode in ("insert", "upsert") else 12)
    assert [failure.number for failure in found.errors] == [15]


def test_numbers_of_records_without_a_key(turns: Turns, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """They come without a gap, also where a number is one of another record of the batch, and of a part that was undone."""
    attributes = (Attribute("id", "Int", primary_key=True), Attribute("n", "Int"))
    table = store.open_database("data").define_table(TableDefinition("T", attributes=attributes))
    others = WaitingWriters(table.database, monkeypatch)
    records: list[dict[str, Any]] = [{"n": number} for number in range(30)]
    task = turns.start(bulk_write.bulk_write(table, [{"id": 12, "n": 0}, *records, {"id": 14, "n": 0}], mode="insert"))
    writing(turns, table)
    put(store, store.databases["data"].tables["T"], 1000, n=1)
    turns.until(task.done)
    assert counts(task.result()) == (32, 0, 0) and others.begun > 2
    found = content(table)
    assert len(found) == 33 and {12, 14, 1000} < found.keys()
    others.close()
    store.check()


def test_nobody_waits_any_more(turns: Turns, seats: Table, sibling: WaitingWriters) -> None:
    async def leave(result: BulkResult) -> None:
        sibling.leave()

    assert counts(write(turns, seats, rows(40), on_batch=leave)) == (40, 0, 0)
    assert sibling.begun == 2


def test_a_batch_that_is_alone_is_one_write(turns: Turns, seats: Table, sibling: WaitingWriters) -> None:
    sibling.leave()
    assert counts(write(turns, seats, rows(40))) == (40, 0, 0)
    assert sibling.begun == 1


def test_writers_of_this_process_are_admitted_between_parts(turns: Turns, store: Store, seats: Table, sibling: WaitingWriters) -> None:
    sibling.leave()
    task = turns.start(bulk_write.bulk_write(seats, rows(200), mode="insert"))
    writing(turns, seats)
    transaction = store.begin()
    transaction.put(seats, "between", {"code": "between"})
    other = turns.start(transaction.apply_in_turn())
    turns.until(other.done)
    assert not task.done() and "between" in content(seats) and 0 < len(content(seats)) - 1 < 200
    turns.until(task.done)
    assert counts(task.result()) == (200, 0, 0)
    store.check()


def test_a_part_that_is_undone_is_written_again(turns: Turns, store: Store, seats: Table, sibling: WaitingWriters) -> None:
    """A writer that cannot wait comes in the middle of the second part."""
    parts: list[int] = []

    async def note(result: BulkResult) -> None:
        parts.append(result.written)

    task = turns.start(bulk_write.bulk_write(seats, rows(40), mode="insert", on_batch=note))
    turns.until(lambda: parts)
    writing(turns, seats)
    put(store, seats, "s998", price=1)
    turns.until(task.done)
    assert counts(task.result()) == (40, 0, 0) and len(content(seats)) == 41
    assert parts == sorted({*parts})
    store.check()
