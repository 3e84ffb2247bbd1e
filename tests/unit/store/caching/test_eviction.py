"""Eviction by the background work: what another process fetches stays, files go with their record, and what is left is right."""

from __future__ import annotations

from pathlib import Path

from svc.clock import FakeClock
from svc.store import Store, StoreSettings
from svc.store.blobs import create_blob
from svc.store.caching import FetchedAnswer, FetchLocks, State
from svc.store.integrity.check import check_database
from svc.store.schema import Attribute, TableDefinition
from svc.store.values.keys import encode_key

CACHED = TableDefinition(
    "Cached",
    attributes=(Attribute("id", "ID", primary_key=True), Attribute("name", "String", indexed=True), Attribute("image", "Blob")),
    expiration=10.0,
    eviction=5.0,
    scan_interval=1.0,
)


def scan(store: Store, clock: FakeClock) -> None:
    store.maintenance(1.0)
    clock.advance(2)
    store.maintenance(1.0)
    store.commit_turn()


def test_a_record_that_another_process_fetches_is_not_evicted(tmp_path: Path) -> None:
    clock = FakeClock()
    store = Store(tmp_path / "database", clock=clock)
    table = store.open_database("data").define_table(CACHED)
    table.cache(store)
    transaction = store.begin()
    for key in ("a", "b"):
        transaction.put(table, key, {"name": key})
    transaction.apply()
    store.commit_turn()
    elsewhere = FetchLocks(tmp_path / "database" / "data")
    lock = elsewhere.try_lock(table.number, encode_key("a"))
    assert lock is not None
    clock.advance(100)
    scan(store, clock)
    assert table.get_raw("a") is not None and table.get_raw("b") is None
    lock.release()
    scan(store, clock)
    assert table.get_raw("a") is None and table.record_count() == 2
    store.check()
    elsewhere.close()
    store.close()


def test_the_files_of_an_evicted_record_go(tmp_path: Path) -> None:
    clock = FakeClock()
    store = Store(tmp_path / "database", StoreSettings(log_retention=1000.0), clock=clock)
    database = store.open_database("data")
    table = database.define_table(CACHED)
    table.cache(store)
    transaction = store.begin()
    transaction.store_fetched(table, "a", FetchedAnswer(State.NEW, 0, 5.0), {"name": "x", "image": create_blob(b"x" * 100_000)})
    transaction.apply()
    store.commit_turn()
    files = [number for number, _ in database.ledger.files(database.snapshot())]
    assert len(files) == 1 and database.blobs.exists(files[0])
    clock.advance(60)
    transaction = store.begin()
    transaction.store_fetched(table, "a", FetchedAnswer(State.UNCHANGED, 1 << 40))
    transaction.apply()
    store.commit_turn()
    store.check()
    clock.advance(100)
    scan(store, clock)
    assert table.get_raw("a") is None and database.blobs.exists(files[0]), "the log has it"
    store.check()
    transaction = store.begin()
    transaction.put(table, "b", {"name": "y"})
    transaction.apply()
    store.commit_turn()
    clock.advance(2000)
    transaction = store.begin()
    transaction.put(table, "b", {"name": "z"})
    transaction.apply()
    store.commit_turn()
    scan(store, clock)
    scan(store, clock)
    assert not database.blobs.exists(files[0])
    store.check()
    store.close()
    report = check_database(tmp_path / "database" / "data", blob_paths=(tmp_path / "database" / ".blobs",))
    assert report.ok, report.findings
