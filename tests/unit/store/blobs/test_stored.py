"""Blobs in records: when files come and go, what the log holds, what `check` finds."""

import asyncio
import gc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import lmdb
import pytest

from svc.clock import FakeClock
from svc.errors import ClientError, NoSpace, StoreFailure
from svc.store import Store, Table
from svc.store.blobs import Blob, BlobFile, create_blob
from svc.store.integrity.check import check_database
from svc.store.maintenance import PRUNE_INTERVAL, SWEEP_INTERVAL
from svc.store.values.records import decode
from svc.store.writing.bulk_write import load_records
from tests.unit.store.blobs.conftest import PHOTO

LARGE = b"0123456789abcdef" * 1000
RETENTION = 3 * 86400


def put(table: Table, key: str, image: Any, **more: Any) -> None:
    write(table, lambda transaction: transaction.put(table, key, table.validator.record({"image": image, **more}, source="native")))


def write(table: Table, action: Callable[[Any], None]) -> None:
    store = table.database.store
    transaction = store.begin()
    action(transaction)
    outcomes: list[Any] = []
    transaction.on_done = outcomes.append
    transaction.apply()
    store.commit_turn()
    assert outcomes == [None]


def image_of(table: Table, key: str) -> Blob:
    raw = table.get_raw(key)
    table.database.store.end_turn()
    assert raw is not None
    found = decode(raw)["image"]
    assert isinstance(found, Blob)
    return found


def files_of(table: Table) -> int:
    """How many there are."""
    gc.collect()
    return sum(len(names) for _, names in table.database.blobs.walk())


def work(store: Store, clock: FakeClock, seconds: float = PRUNE_INTERVAL) -> None:
    """Let the background work run after so much time."""
    clock.advance(seconds)
    while store.maintenance(100.0):
        pass
    store.check()


def test_small_content_is_in_the_record_large_in_a_file(photos: Table) -> None:
    put(photos, "small", b"x" * 8191)
    assert files_of(photos) == 0
    put(photos, "large", b"x" * 8192)
    assert files_of(photos) == 1
    assert image_of(photos, "small").inline == b"x" * 8191
    large = image_of(photos, "large")
    assert large.inline is None and large.read() == b"x" * 8192
    photos.database.store.check()


def test_undeclared_and_nested_attributes_may_have_blobs(photos: Table) -> None:
    put(photos, "a", None, more=create_blob(LARGE), deep={"list": [create_blob(LARGE, type="x/y")]})
    raw = photos.get_raw("a")
    assert raw is not None
    found = decode(raw)
    assert found["more"].read() == LARGE
    assert found["deep"]["list"][0].type == "x/y"
    photos.database.store.check()


def test_it_survives_a_restart(photos: Table, open_store: Callable[..., Store]) -> None:
    put(photos, "a", LARGE)
    store = open_store()
    table = store.databases["data"].tables["Photo"]
    assert image_of(table, "a").read() == LARGE
    store.check()


def test_a_patch_of_something_else_keeps_it(photos: Table, store: Store, clock: FakeClock) -> None:
    put(photos, "a", LARGE)
    number = image_of(photos, "a").number
    write(photos, lambda transaction: transaction.patch(photos, "a", {"title": "t"}))
    assert image_of(photos, "a").number == number
    work(store, clock, RETENTION + 1)
    assert files_of(photos) == 1


@pytest.mark.parametrize("how", ["replaced", "set to null", "deleted", "expired"])
def test_the_file_goes_with_the_log_entry_that_knows_it(photos: Table, store: Store, clock: FakeClock, how: str) -> None:
    expires_at = clock.wall() * 1000 + 5000 if how == "expired" else None
    write(photos, lambda transaction: transaction.put(photos, "a", {"image": create_blob(LARGE)}, expires_at=expires_at))
    if how == "replaced":
        put(photos, "a", b"other")
    elif how == "set to null":
        write(photos, lambda transaction: transaction.patch(photos, "a", {"image": None}))
    elif how == "deleted":
        write(photos, lambda transaction: transaction.delete(photos, "a"))
    else:
        work(store, clock, 0)  # from here on the scans for expired records are timed
        work(store, clock, 120)
    work(store, clock)
    assert files_of(photos) == 1  # history has it
    clock.advance(RETENTION)
    put(photos, "b", None)  # the newest entry stays in the log
    work(store, clock)
    assert files_of(photos) == 0


def test_without_images_the_file_goes_with_the_entry_that_wrote_it(photos: Table, store: Store, clock: FakeClock) -> None:
    photos.database.define_table(replace(photos.definition, audit=False))
    put(photos, "a", LARGE)
    clock.advance(RETENTION - 60)
    put(photos, "a", b"other")
    work(store, clock)
    assert files_of(photos) == 1
    work(store, clock, 60)
    assert files_of(photos) == 0


def test_it_stays_half_a_second_after_it_was_replaced(photos: Table, store: Store, clock: FakeClock) -> None:
    photos.database.define_table(replace(photos.definition, audit=False))
    put(photos, "a", LARGE)
    clock.advance(RETENTION + 60)
    put(photos, "b", None)
    work(store, clock)  # no entry refers to the file any more
    put(photos, "a", b"other")
    work(store, clock, 0.4)
    assert files_of(photos) == 1
    work(store, clock, 0.2)
    assert files_of(photos) == 0


def test_one_blob_belongs_to_one_record(photos: Table, store: Store, clock: FakeClock) -> None:
    blob = create_blob(LARGE)
    put(photos, "a", blob)
    for other in (blob, image_of(photos, "a")):
        with pytest.raises(ClientError, match="another record"):
            put(photos, "b", other)
    put(photos, "a", image_of(photos, "a"), title="the same record may")
    put(photos, "b", image_of(photos, "a").slice(0))
    assert image_of(photos, "b").number != blob.number
    assert files_of(photos) == 2
    store.check()
    transaction = store.begin()
    shared = create_blob(LARGE)
    transaction.put(photos, "c", {"image": shared})
    transaction.put(photos, "d", {"image": shared})
    with pytest.raises(ClientError):
        transaction.apply()
    store.commit_turn()
    store.check()
    del transaction, shared
    assert files_of(photos) == 2


def test_a_blob_of_another_database(photos: Table, store: Store) -> None:
    more = store.open_database("more").define_table(replace(PHOTO, database="more"))
    put(photos, "a", LARGE)
    with pytest.raises(ClientError, match="another database"):
        put(more, "a", image_of(photos, "a"))


def test_a_record_gets_back_what_it_had(photos: Table, store: Store, clock: FakeClock) -> None:
    put(photos, "a", LARGE)
    old = image_of(photos, "a")
    put(photos, "a", b"other")
    put(photos, "a", old)
    work(store, clock, RETENTION + 1)
    put(photos, "b", None)
    work(store, clock, RETENTION + 1)
    assert image_of(photos, "a").read() == LARGE
    put(photos, "a", None)
    work(store, clock, RETENTION + 1)
    put(photos, "b", None)
    work(store, clock, RETENTION + 1)
    assert files_of(photos) == 0
    with pytest.raises(ClientError, match="removed"):
        put(photos, "a", old)


def test_it_goes_with_a_dropped_table(photos: Table, store: Store, clock: FakeClock) -> None:
    other = store.open_database("data").define_table(replace(PHOTO, name="Other"))
    for number in range(5):
        put(photos, f"{number}", LARGE)
        put(other, f"{number}", LARGE)
    put(photos, "0", None)
    store.databases["data"].drop_table("Photo")
    work(store, clock)
    assert files_of(other) == 10
    clock.advance(RETENTION)
    put(other, "x", None)
    work(store, clock)
    assert files_of(other) == 5
    assert not store.databases["data"].ledger.dropped_tables(store.databases["data"].snapshot())


def test_an_undone_transaction_leaves_nothing(photos: Table, store: Store) -> None:
    transaction = store.begin()
    blob = create_blob(LARGE)
    transaction.put(photos, "a", {"image": blob})
    transaction.create(photos, "b", {})
    put(photos, "b", None)
    with pytest.raises(ClientError):
        transaction.apply()
    store.commit_turn()
    assert files_of(photos) == 1
    put(photos, "a", blob)  # it can still be used
    assert image_of(photos, "a").read() == LARGE
    again = create_blob(LARGE)
    transaction = store.begin()
    transaction.put(photos, "c", {"image": again})
    transaction.abort()
    del transaction, again
    assert files_of(photos) == 1


def test_a_failed_commit_leaves_the_decision_to_what_is_on_disk(
    photos: Table, store: Store, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    transaction = store.begin()
    transaction.put(photos, "a", {"image": create_blob(LARGE)})
    problems: list[Any] = []
    transaction.on_done = problems.append
    transaction.apply()

    def fail() -> None:
        raise StoreFailure

    with monkeypatch.context() as patch:
        patch.setattr(type(photos.database.env), "commit", lambda self: fail())
        store.commit_turn()
    assert isinstance(problems[0], StoreFailure)
    del transaction
    problems.clear()  # their tracebacks know the file
    assert files_of(photos) == 1
    work(store, clock, SWEEP_INTERVAL)
    assert files_of(photos) == 0


def test_a_full_disk(photos: Table, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: BlobFile, data: bytes) -> None:
        self.discard()
        raise NoSpace

    monkeypatch.setattr(BlobFile, "write", fail)
    with pytest.raises(NoSpace):
        put(photos, "a", LARGE)
    assert files_of(photos) == 0
    assert photos.get_raw("a") is None


def test_reading_ones_own_pending_write(photos: Table, store: Store) -> None:
    transaction = store.begin()
    transaction.put(photos, "a", {"image": create_blob(LARGE)})
    raw = transaction.get_raw(photos, "a")
    assert raw is not None and decode(raw)["image"].read() == LARGE
    transaction.apply()
    store.commit_turn()
    assert image_of(photos, "a").read() == LARGE


def test_saved_without_blocking(photos: Table, store: Store) -> None:
    async def play() -> None:
        transaction = store.begin()
        transaction.put(photos, "a", {"image": create_blob(LARGE)})
        assert len(transaction.unsaved) == 1
        await transaction.save_blobs()
        assert transaction.unsaved == []
        transaction.apply()
        store.commit_turn()

    asyncio.run(play())
    assert image_of(photos, "a").read() == LARGE


def test_a_load_of_many(photos: Table, store: Store, clock: FakeClock) -> None:
    rows = [{"id": f"{number}", "image": LARGE if number % 2 else b"small"} for number in range(10)]
    assert list(load_records(photos, iter(rows), batch=4)) == [4, 8, 10]
    assert files_of(photos) == 5
    assert list(load_records(photos, [{"id": f"{number}", "image": LARGE} for number in range(4)])) == [4]
    assert files_of(photos) == 9
    store.check()
    clock.advance(RETENTION + 1)
    put(photos, "x", None)
    work(store, clock)
    assert files_of(photos) == 7
    assert image_of(photos, "0").read() == LARGE


def test_a_database_from_before_there_were_blobs(tmp_path: Path, open_store: Callable[..., Store]) -> None:
    open_store().open_database("data").define_table(PHOTO)
    store = open_store()
    store.close()
    path = tmp_path / "database" / "data"
    with lmdb.open(str(path), max_dbs=64) as env, env.begin(write=True) as txn:
        txn.drop(env.open_db(b"$blobs", txn))
        txn.delete(b"blobs", db=env.open_db(b"$definitions", txn))
    assert check_database(path).ok
    table = open_store().databases["data"].tables["Photo"]
    put(table, "a", LARGE)
    assert image_of(table, "a").read() == LARGE


class TestCheck:
    @pytest.fixture
    def path(self, photos: Table, store: Store, tmp_path: Path) -> Path:
        """A record with a large blob, a replaced one, a deleted one."""
        put(photos, "a", LARGE)
        put(photos, "a", LARGE + b"new")
        put(photos, "b", LARGE)
        write(photos, lambda transaction: transaction.delete(photos, "b"))
        store.close()
        return tmp_path / "database" / "data"

    def files(self, path: Path, size: int) -> list[Path]:
        return [file for file in (path.parent / ".blobs").rglob("*") if file.is_file() and file.stat().st_size == size]

    def test_sound(self, path: Path) -> None:
        report = check_database(path)
        assert (report.findings, report.notes) == ([], [])

    def test_missing(self, path: Path) -> None:
        self.files(path, len(LARGE) + 3)[0].unlink()
        assert [sentence.endswith("is missing.") for sentence in check_database(path).findings] == [True]

    def test_wrong_size(self, path: Path) -> None:
        file = self.files(path, len(LARGE) + 3)[0]
        file.write_bytes(b"short")
        findings = check_database(path).findings
        assert all("has 5 bytes instead of 16003" in sentence for sentence in findings)
        assert "Photo 'a'" in findings[0]

    def test_missing_from_the_ledger(self, path: Path) -> None:
        self.change(path, lambda cursor: cursor.set_range(b"f") and cursor.delete())
        assert not check_database(path).ok

    @pytest.mark.parametrize("kind", [b"f", b"r"], ids=["file", "released"])
    def test_rows_that_lack(self, path: Path, kind: bytes) -> None:
        self.change(path, lambda cursor: cursor.set_range(kind) and cursor.delete())
        report = check_database(path)
        assert not report.ok
        assert all(sentence.endswith(".") for sentence in report.findings)

    def test_a_row_too_many(self, path: Path) -> None:
        def add(cursor: Any) -> None:
            cursor.set_range(b"f")
            while cursor.value()[4:12] != bytes(8):
                cursor.next()
            file = self.files(path, len(LARGE))[0]
            number = 1
            copy = path.parent / ".blobs" / "data" / "000" / "000" / "001"
            copy.parent.mkdir(parents=True)
            copy.write_bytes(file.read_bytes())
            value = cursor.value()
            cursor.put(b"f" + number.to_bytes(8, "big"), value)

        self.change(path, add)
        assert check_database(path).findings == ["The ledger has the blob file 000/000/001 for a record that does not refer to it."]

    def test_files_of_nobody_are_counted(self, path: Path) -> None:
        directory = self.files(path, len(LARGE))[0].parent
        (directory / "fff").write_bytes(b"x")
        (directory / "ffe.part").write_bytes(b"x")
        report = check_database(path)
        assert report.ok
        assert report.notes == ["2 blob files are orphaned; the service removes them."]

    def test_another_place_for_blobs(self, path: Path, tmp_path: Path) -> None:
        (path.parent / ".blobs").rename(tmp_path / "elsewhere")
        assert not check_database(path).ok
        assert check_database(path, blob_paths=(tmp_path / "elsewhere",)).ok

    def change(self, path: Path, edit: Callable[[Any], object]) -> None:
        with lmdb.open(str(path), max_dbs=64) as env:
            handle = env.open_db(b"$blobs")
            with env.begin(write=True, db=handle) as txn:
                edit(txn.cursor())
