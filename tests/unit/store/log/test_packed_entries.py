"""Records of 2 kB, whose entries of the transaction log are packed, through a store: whatever reads the log finds what it found before."""

from collections.abc import Callable, Iterator
from pathlib import Path

import lmdb
import pytest

from svc.clock import FakeClock
from svc.errors import StoreFailure
from svc.query import parse_query
from svc.store import Store, StoreSettings, Table, Transaction, create_blob
from svc.store.backup import Backups, BackupSource, restore_offline
from svc.store.integrity.check import check_database
from svc.store.log import entries
from svc.store.log.entries import DELETE, PATCH, PUT, LogEntry
from svc.store.log.table_removal import remove_log_entries
from svc.store.schema import Attribute, TableDefinition
from svc.store.values.records import decode, lsn_of
from tests.support.live import LiveClient, LiveStore
from tests.support.operations import OperationsNode
from tests.support.scene import Scene
from tests.unit.store.log.test_entries import letters
from tests.unit.store.writing.test_long_write import Turns

DAY = 86400.0
LONG, OTHER = letters(2000), letters(2000, 2)
BLOB = b"c" * 20_000


@pytest.fixture
def unpacked(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Nothing is packed, as by versions before, until this is undone."""
    monkeypatch.setattr(entries, "IN_LEAF", 1 << 32)
    return monkeypatch


def write(table: Table, *works: Callable[..., object]) -> None:
    for work in works:
        transaction = table.database.store.begin("anna")
        work(transaction, table)
        transaction.apply()
        table.database.store.commit_turn()


def some_history(table: Table) -> None:
    """Entries: A1 1, 2, 3, 4 (removed); B1 5."""
    write(
        table,
        lambda transaction, table: transaction.put(table, "A1", {"stock": 1, "place": LONG}),
        lambda transaction, table: transaction.patch(table, "A1", {"stock": 2}),
        lambda transaction, table: transaction.put(table, "A1", {"stock": 2, "place": OTHER}),
        lambda transaction, table: transaction.delete(table, "A1"),
        lambda transaction, table: transaction.put(table, "B1", {"place": LONG}),
    )


def in_log(table: Table) -> list[LogEntry]:
    return list(table.database.log.read(table.database.snapshot()))


def stored(table: Table, lsn: int) -> bytes:
    found = table.database.snapshot().get(lsn.to_bytes(8), None, table.database.log._entries)
    assert found is not None
    return found


def formats(table: Table) -> list[int]:
    return [stored(table, entry.lsn)[0] for entry in in_log(table)]


def damage(table: Table, *lsns: int) -> Path:
    """Close the store, and cut the frames of entries. Returns the database's directory."""
    path = table.database.env.path
    table.database.store.close()
    with lmdb.open(str(path), max_dbs=64) as env:
        handle = env.open_db(b"$log", create=False)
        with env.begin(write=True, db=handle) as txn:
            for lsn in lsns:
                data = txn.get(lsn.to_bytes(8))
                assert data is not None and data[0] == 5
                txn.put(lsn.to_bytes(8), data[:-5])
    return Path(path)


def test_an_entry_says_all(seats: Table, store: Store) -> None:
    some_history(seats)
    put, patch, replaced, deleted, _ = in_log(seats)
    assert formats(seats) == [5] * 5
    assert [entry.kind for entry in (put, patch, replaced, deleted)] == [PUT, PATCH, PUT, DELETE]
    for entry, value, image in (
        (put, {"stock": 1, "place": LONG, "code": "A1"}, None),
        (patch, {"stock": 2}, put.value),
        (replaced, {"stock": 2, "place": OTHER, "code": "A1"}, {"stock": 2, "place": LONG, "code": "A1"}),
        (deleted, None, replaced.value),
    ):
        assert (None if entry.value is None else decode(entry.value)) == value
        assert (decode(entry.image) if isinstance(image, dict) and entry.image is not None else entry.image) == image
    raw = seats.get_raw("B1")
    assert raw is not None and raw == in_log(seats)[-1].value and lsn_of(raw) == 5
    store.check()


def test_fewer_pages_are_written(seats: Table, unpacked: pytest.MonkeyPatch) -> None:
    log = seats.database.log
    sizes = [log.size(seats.database.snapshot())]
    for _ in range(2):
        for number in range(100):
            write(seats, lambda transaction, table, n=number: transaction.put(table, "A1", {"place": LONG, "stock": n}))
        sizes.append(log.size(seats.database.snapshot()))
        unpacked.undo()
    assert sizes[1] - sizes[0] > 2 * 4096 * 99 and sizes[2] - sizes[1] < 4096 * 110


def test_entries_of_versions_before_stand_beside(
    seats: Table, unpacked: pytest.MonkeyPatch, open_store: Callable[..., Store], tmp_path: Path
) -> None:
    some_history(seats)
    before = in_log(seats)
    assert formats(seats) == [1] * 5
    unpacked.undo()
    store = open_store()
    seats = store.databases["data"].tables["Seat"]
    some_history(seats)
    found = in_log(seats)
    assert found[:5] == before and formats(seats) == [1] * 5 + [5] * 5
    chain = list(seats.database.log.read_record_history(seats.database.snapshot(), seats.number, before[0].key, None))
    assert [entry.lsn for entry in chain] == [9, 8, 7, 6, 4, 3, 2, 1]
    assert [entry.value and decode(entry.value) for entry in found[:4]] == [entry.value and decode(entry.value) for entry in found[5:9]]
    store.check()
    store.close()
    assert check_database(tmp_path / "database" / "data").ok


def test_what_is_read_in_one_go_is_bounded_by_what_it_holds(seats: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("svc.store.log.transaction_log._READ_BYTES", 10_000)
    for number in range(10):
        write(seats, lambda transaction, table, n=number: transaction.put(table, "A1", {"place": "x" * 3000, "stock": n}))
    found, lsn, is_all = seats.database.log.read_some(seats.database.snapshot(), seats.number, 0, 100)
    assert [entry.lsn for entry in found] == [1, 2, 3] and (lsn, is_all) == (4, False)
    assert all(len(stored(seats, lsn)) < 500 for lsn in (1, 2, 3))


# --- damage -----------------------------------------------------------------------------------------------------------------------------


def test_a_check_finds_what_cannot_be_unpacked(seats: Table) -> None:
    some_history(seats)
    report = check_database(damage(seats, 2))
    assert "Entry 2 of the log cannot be read." in report.findings


def test_what_cannot_be_unpacked_is_refused(seats: Table, open_store: Callable[..., Store]) -> None:
    some_history(seats)
    damage(seats, 2)
    seats = open_store().databases["data"].tables["Seat"]
    with pytest.raises(StoreFailure, match="Entry 2 of the transaction log is damaged"):
        in_log(seats)


def test_a_store_opens_with_its_newest_entry_damaged(seats: Table, open_store: Callable[..., Store]) -> None:
    some_history(seats)
    damage(seats, 5)
    seats = open_store().databases["data"].tables["Seat"]
    log = seats.database.log
    newest = log.newest(seats.database.snapshot())
    assert newest is not None and (newest.lsn, newest.table, newest.value) == (5, "Seat", None)
    write(seats, lambda transaction, table: transaction.put(table, "C1", {"place": LONG}))
    assert log.last_lsn == 6


def test_retention_removes_damaged_entries_too(seats: Table, open_store: Callable[..., Store], clock: FakeClock) -> None:
    some_history(seats)
    damage(seats, 1, 3, 4)
    store = open_store()
    seats = store.databases["data"].tables["Seat"]
    clock.advance(4 * DAY)
    store.maintenance(1.0)
    assert [entry.lsn for entry in in_log(seats)] == [5]
    assert not seats.database.log.has_deleted(seats.database.snapshot()), "the end of the chain of A1 went with its entry"
    store.check()


def test_they_are_removed_on_demand(seats: Table, open_store: Callable[..., Store], clock: FakeClock) -> None:
    some_history(seats)
    damage(seats, 5)
    clock.advance(1)
    store = open_store()
    seats = store.databases["data"].tables["Seat"]
    turns = Turns(store)
    assert turns.finish(remove_log_entries(seats, clock.wall() * 1000)) == 5
    turns.close()
    [left] = in_log(seats)
    assert (left.lsn, left.table_number, left.value, left.image) == (5, 0, None, None)


# --- readers of other layers ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    scene = Scene(tmp_path / "store")
    yield scene
    scene.hub.close()
    scene.store.close()


def test_a_reader_that_comes_later_gets_what_one_that_was_there_got(scene: Scene) -> None:
    """The one from memory, the other from the log."""
    was_there = scene.subscribe(keeps_all=True)
    from_memory = []
    works: list[Callable[[Transaction], object]] = [
        lambda transaction, n=number: transaction.put(scene.table, f"k{n % 3}", {"a": n, "b": letters(2000, n % 2)})  # type: ignore[misc]
        for number in range(20)
    ]
    works += [
        lambda transaction: transaction.patch(scene.table, "k0", {"a": 50}),
        lambda transaction: transaction.delete(scene.table, "k1"),
        lambda transaction: transaction.publish(scene.table, "k2", {"b": LONG}),
    ]
    for work in works:
        scene.write(work)
        from_memory += scene.seen(was_there)
    assert set(formats(scene.table)) == {5}
    later = scene.subscribe(after=0, keeps_all=True)
    scene.settle()
    assert scene.seen(later) == from_memory and len(from_memory) == 23


def test_a_live_query_sees_what_was_and_is(tmp_path: Path) -> None:
    made = LiveStore(tmp_path)
    definition = TableDefinition("Note", attributes=(Attribute("id", primary_key=True), Attribute("a", indexed=True), Attribute("b")))
    table = made.store.open_database("data").define_table(definition)
    made.write(("put", table, {"id": 1, "a": 1, "b": LONG}))
    made.commit()
    client = LiveClient(made.live.subscribe(parse_query("a==1&live()", table.attributes.__contains__), table, None, check_rights=False))
    made.settle()
    made.turns(2)
    client.drain()
    for change in (("put", table, {"id": 2, "a": 1, "b": OTHER}), ("put", table, {"id": 1, "a": 2, "b": LONG}), ("delete", table, 2)):
        made.write(change)
        made.commit()
        made.settle()
        made.turns(2)
        client.drain()
    assert [(event["type"], event.get("id")) for event in client.seen if event["type"] != "ready"][-3:] == [
        ("enter", 2),
        ("leave", 1),
        ("leave", 2),
    ]
    assert set(formats(table)) == {5}
    made.close()


def test_operations_show_them(tmp_path: Path) -> None:
    with OperationsNode(tmp_path) as node:
        definition = TableDefinition("dog", "data", attributes=(Attribute("id", primary_key=True), Attribute("name"), Attribute("age")))
        table = node.store.open_database("data").define_table(definition)
        write(
            table,
            lambda transaction, table: transaction.put(table, 1, {"name": LONG, "age": 1}),
            lambda transaction, table: transaction.put(table, 1, {"name": OTHER, "age": 1}),
            lambda transaction, table: transaction.delete(table, 1),
        )
        assert formats(table) == [5, 5, 5]
        first, second, third = node.run("read_audit_log", table="dog")
        assert [row["records"][0]["name"] for row in (first, second)] == [LONG, OTHER]
        assert [row["original_records"][0]["name"] for row in (second, third)] == [LONG, OTHER]


@pytest.mark.parametrize("target", [None, "copy"])
def test_a_backup_has_them(seats: Table, tmp_path: Path, target: str | None) -> None:
    """Also as another database, whose records have another identity for their blobs."""
    some_history(seats)
    write(
        seats,
        *[
            lambda transaction, table, n=number: transaction.put(table, "C1", {"place": LONG, "stock": n, "file": create_blob(BLOB)})
            for number in range(2)
        ],
    )
    before = in_log(seats)
    assert formats(seats) == [5] * 7
    backups = Backups(tmp_path / "backup", "data")
    backups.create(BackupSource.of(seats.database))
    other = tmp_path / "other"
    restore_offline(backups, other, [other / ".blobs"], target=target)
    if target is not None:
        restore_offline(backups, other, [other / ".blobs"])
    store = Store(other, StoreSettings(map_bytes=1 << 30), clock=FakeClock())
    restored = store.databases[target or "data"].tables["Seat"]
    found = in_log(restored)
    assert formats(restored) == [5] * 7 and found[:5] == before[:5]
    record = found[6].image
    assert record is not None and b"".join(decode(record)["file"].chunks()) == BLOB
    store.check()
    store.close()
