"""svc.store.backup: copies of one moment, their directory, archives, restoring; all of it without a server."""

from __future__ import annotations

import io
import json
import os
import random
import shutil
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from svc.clock import FakeClock
from svc.errors import BadValue, Problem, StoreFailure
from svc.store import Database, Store, StoreSettings, Table, create_blob
from svc.store.backup import (
    Backups,
    BackupSource,
    BadBackup,
    CopyStopped,
    InUse,
    UnknownBackup,
    Watch,
    archive_pieces,
    copy_database,
    restore_offline,
    stage_backup,
    unpack,
)
from svc.store.backup.manifest import decode_manifest
from svc.store.disk.restore_mark import interrupted_restore
from svc.store.schema import Attribute, TableDefinition
from svc.store.values.records import decode

NOTE = TableDefinition(
    "Note", attributes=(Attribute("id", primary_key=True), Attribute("n", indexed=True), Attribute("text"), Attribute("file", "Blob"))
)
OTHER = TableDefinition("Other", attributes=(Attribute("id", primary_key=True), Attribute("n", indexed=True)))


def write(table: Table, *keys: Any, delete: tuple[Any, ...] = (), **values: Any) -> None:
    transaction = table.database.store.begin("anna")
    for key in keys:
        transaction.put(table, key, {"n": key, **values})
    for key in delete:
        transaction.delete(table, key)
    transaction.apply()
    table.database.store.commit_turn()


def rows(table: Table) -> dict[Any, Any]:
    """What a scan finds, with the content of blobs."""
    found = {}
    for _, raw in table.scan(table.database.snapshot()):
        record = decode(raw)
        if record.get("file") is not None:
            record["file"] = content(record["file"])
        found[record["id"]] = record
    return found


def content(blob: Any) -> bytes:
    return b"".join(blob.chunks()) if not isinstance(blob, bytes) else blob


@pytest.fixture
def data(store: Store) -> Database:
    database = store.open_database("data")
    write(database.define_table(NOTE), *range(300), text="x" * 50)
    write(database.define_table(OTHER), *range(20))
    write(database.tables["Note"], 1, 2, delete=(3, 4), text="new")
    return database


@pytest.fixture
def backups(tmp_path: Path) -> Backups:
    return Backups(tmp_path / "backup", "data")


@pytest.fixture
def restored(tmp_path: Path, clock: FakeClock) -> Iterator[Callable[..., Store]]:
    """Open the store of another directory, into which was restored."""
    stores: list[Store] = []

    def open_() -> Store:
        stores.append(Store(tmp_path / "other", StoreSettings(map_bytes=1 << 30), clock=clock))
        return stores[-1]

    yield open_
    for store in stores:
        store.close()


def restore(backups: Backups, tmp_path: Path, **options: Any) -> None:
    other = tmp_path / "other"
    restore_offline(backups, other, [other / ".blobs"], **options)


# --- what is backed up ----------------------------------------------------------------------------------------------------------------


def test_a_backup_is_the_database_of_its_moment(
    store: Store, data: Database, backups: Backups, clock: FakeClock, tmp_path: Path, restored: Callable[..., Store]
) -> None:
    expected = {name: rows(table) for name, table in data.tables.items()}
    log = [entry.lsn for entry in data.log.read(data.snapshot())]
    source = BackupSource.of(data)
    clock.advance(60)
    write(data.tables["Note"], *range(1000, 1100))  # after the moment
    info = backups.create(source)
    assert (info.backup_id, info.timestamp, info.file_count) == (1, int(clock.wall()) - 60, 1)
    assert info.size == sum(path.stat().st_size for path in backups.directory(1).rglob("data.mdb"))
    assert backups.infos() == [info]
    backups.verify(1, checksum=True)
    restore(backups, tmp_path)
    other = restored().databases["data"]
    assert {name: rows(table) for name, table in other.tables.items()} == expected
    assert [entry.lsn for entry in other.log.read(other.snapshot())] == log
    other.store.check()
    write(other.tables["Note"], 5, text="goes on")
    other.store.check()
    store.check()


@pytest.mark.parametrize("seed", range(6))
def test_writers_go_on_while_it_is_copied(
    open_store: Callable[..., Store],
    backups: Backups,
    tmp_path: Path,
    restored: Callable[..., Store],
    monkeypatch: pytest.MonkeyPatch,
    seed: int,
) -> None:
    """Between any two pieces that are read others commit at random, tables and indexes come and go; the copy does not see it."""
    monkeypatch.setattr("svc.store.disk.database_copy.PIECE", 4096)
    data = open_store(write_async=True).open_database("data")
    for definition in (NOTE, OTHER):
        write(data.define_table(definition), *range(200), text="x" * 100)
    source = random.Random(seed)

    def write_at_random() -> None:
        table = data.define_table(source.choice((NOTE, OTHER)))
        keys = [source.randrange(600) for _ in range(source.randrange(30))]
        if source.random() < 0.1:
            table.database.drop_table(table.name)
        elif source.random() < 0.2:
            write(table, delete=tuple(keys))
        elif source.random() < 0.3:
            for key in keys[:5]:
                write(table, key, file=create_blob(source.randbytes(9000)), text="y" * source.randrange(5000))
        else:
            write(table, *keys, text="z" * source.randrange(5000))

    for _ in range(source.randrange(40)):
        write_at_random()
    expected = {name: rows(table) for name, table in data.tables.items()}
    log = [entry.lsn for entry in data.log.read(data.snapshot())]
    moment = BackupSource.of(data)
    copied = 0

    def report(done: int, total: int) -> None:
        nonlocal copied
        copied += 1
        if copied < 100:
            write_at_random()

    backups.create(moment, watch=Watch(report))
    assert copied > 10
    data.store.check()
    data.store.close()
    restore(backups, tmp_path)
    store = restored()
    database = store.databases["data"]
    assert {name: rows(table) for name, table in database.tables.items()} == expected
    assert [entry.lsn for entry in database.log.read(database.snapshot())] == log
    store.check()


def test_a_copy_can_be_ended(data: Database, backups: Backups) -> None:
    watch = Watch()
    watch.stop()
    with pytest.raises(CopyStopped):
        backups.create(BackupSource.of(data), watch=watch)
    assert backups.infos() == []
    assert [path for path in backups.path.iterdir() if path.is_dir()] == []


def test_closing_the_database_ends_its_copies(store: Store, data: Database, backups: Backups) -> None:
    source = BackupSource.of(data)

    def report(done: int, total: int) -> None:
        if data.name in store.databases:
            store.close()

    with pytest.raises(CopyStopped):
        backups.create(source, watch=Watch(report))
    assert backups.infos() == []


def test_gaps_are_left_out_where_that_is_worth_it(data: Database, backups: Backups) -> None:
    first = backups.create(BackupSource.of(data))
    write(data.tables["Note"], delete=tuple(range(300)))
    write(data.tables["Note"], 1, text="x" * 300_000)
    write(data.tables["Note"], delete=(1,))
    data.log.prune(data.writer(), float("inf"), 10_000)
    data.env.touch()
    data.store.commit_turn()
    second = backups.create(BackupSource.of(data))
    assert second.size < first.size < data.env.used_bytes()
    backups.verify(2, checksum=True)


def test_a_database_is_copied_without_gaps(data: Database, tmp_path: Path) -> None:
    """`copy-db`, from another process' point of view: the files."""
    write(data.tables["Note"], delete=tuple(range(300)))
    data.store.close()
    target = tmp_path / "copy"
    target.mkdir()
    size = copy_database(data.env.path, target / "data.mdb")
    assert size == (target / "data.mdb").stat().st_size < data.env.path.joinpath("data.mdb").stat().st_size
    with BackupSource.at(target, []) as source:
        assert source.tables() == ["Note", "Other"]
    with pytest.raises(FileExistsError):
        copy_database(data.env.path, target / "data.mdb")
    with pytest.raises(StoreFailure):
        copy_database(tmp_path / "nowhere", target / "more")


# --- blobs -------------------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def advice(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """(file, what the kernel was told about it)."""
    given: list[tuple[str, int]] = []
    monkeypatch.setattr(os, "posix_fadvise", lambda fd, start, length, what: given.append((os.readlink(f"/proc/self/fd/{fd}"), what)))
    return given


def test_the_page_cache_gets_single_pages(data: Database, backups: Backups, tmp_path: Path, advice: list[tuple[str, int]]) -> None:
    """Large folios, of a file that was read or written in large pieces, make each later write of a page dear."""
    backups.create(BackupSource.of(data))
    assert advice == [(str(tmp_path / "database" / "data" / "data.mdb"), os.POSIX_FADV_RANDOM)]
    advice.clear()
    restore(backups, tmp_path)
    ((file, what),) = advice
    assert file.endswith("/data.mdb") and what == os.POSIX_FADV_DONTNEED


@pytest.fixture
def with_blobs(data: Database) -> Database:
    for number in range(3):
        write(data.tables["Note"], f"blob{number}", file=create_blob(bytes([number]) * 20_000))
    write(data.tables["Note"], "blob0", file=create_blob(b"replaced" * 5000))
    write(data.tables["Note"], delete=("blob1",))
    return data


def test_blobs_belong_to_it(with_blobs: Database, backups: Backups, tmp_path: Path, restored: Callable[..., Store]) -> None:
    expected = rows(with_blobs.tables["Note"])
    info = backups.create(BackupSource.of(with_blobs))
    assert info.file_count == 1 + 4, "those that only the log refers to included"
    backups.verify(1, checksum=True)
    restore(backups, tmp_path)
    other = restored()
    with_blobs.store.close()  # both have the same blobs
    other.close()
    other = restored()
    assert rows(other.databases["data"].tables["Note"]) == expected
    other.check()


def test_files_that_have_not_changed_are_shared(with_blobs: Database, backups: Backups) -> None:
    backups.create(BackupSource.of(with_blobs))
    write(with_blobs.tables["Note"], "blob3", file=create_blob(b"3" * 20_000))
    backups.create(BackupSource.of(with_blobs))
    links = sorted(path.stat().st_nlink for path in (backups.directory(2) / "blobs").rglob("*") if path.is_file())
    assert links == [1, 2, 2, 2, 2]
    backups.verify(2, checksum=True)
    backups.delete(1)
    backups.verify(2, checksum=True)


def test_without_blobs(with_blobs: Database, backups: Backups) -> None:
    assert backups.create(BackupSource.of(with_blobs), exclude_blobs=True).file_count == 1
    assert not backups.manifest(1).blobs


def test_no_blob_is_removed_while_it_is_copied(with_blobs: Database, clock: FakeClock) -> None:
    database = with_blobs

    def files() -> int:
        return sum(path.is_file() for root in database.blobs.roots for path in root.rglob("*"))

    before = files()
    source = BackupSource.of(database)
    clock.advance(4 * 86400)
    write(database.tables["Note"], "last")
    while database.store.maintenance(1.0):
        pass
    assert files() == before
    assert len(source.blobs()) == 4
    source.close()
    clock.advance(1)
    while database.store.maintenance(1.0):
        pass
    assert files() == 2
    database.store.check()


# --- the directory -----------------------------------------------------------------------------------------------------------------------


def test_numbers_are_not_given_again(data: Database, backups: Backups) -> None:
    assert backups.infos() == []
    with pytest.raises(UnknownBackup):
        backups.newest()
    for number in (1, 2, 3):
        assert backups.create(BackupSource.of(data)).backup_id == number
    backups.delete(3)
    assert backups.create(BackupSource.of(data)).backup_id == 4
    assert [info.backup_id for info in backups.infos()] == [1, 2, 4]
    assert backups.purge(2) == (1, 2)
    assert backups.newest() == 4
    assert backups.purge(2) == (0, 2)
    assert backups.purge(0) == (2, 0)
    assert backups.create(BackupSource.of(data)).backup_id == 5
    with pytest.raises(UnknownBackup, match="There is no backup 4 of the database 'data'"):
        backups.delete(4)


def test_what_an_interruption_left_is_cleared_away(data: Database, backups: Backups) -> None:
    backups.create(BackupSource.of(data))
    for name in (".new-1", ".removed-2"):
        (backups.path / name).mkdir()
        (backups.path / name / "lock").touch()
    (backups.path / "notes.txt").touch()
    assert [info.backup_id for info in backups.infos()] == [1]
    backups.create(BackupSource.of(data))
    assert sorted(path.name for path in backups.path.iterdir()) == [".last", "1", "2", "notes.txt"]


def test_what_is_read_is_not_removed(data: Database, backups: Backups) -> None:
    backups.create(BackupSource.of(data))
    backups.create(BackupSource.of(data))
    with backups.reading(1):
        with pytest.raises(InUse):
            backups.delete(1)
        assert backups.purge(0) == (1, 1)
    assert backups.purge(0) == (1, 0)


@pytest.mark.parametrize("name", ["", "..", ".x", "a/b", "a`", "a\0"])
def test_a_name_cannot_lead_elsewhere(tmp_path: Path, name: str) -> None:
    with pytest.raises(BadValue):
        Backups(tmp_path, name)


def damage(directory: Path, name: str) -> None:
    data = directory / "database" / "data.mdb"
    manifest = directory / "manifest.json"
    if name == "missing":
        data.unlink()
    elif name == "cut":
        os.truncate(data, 4096)
    elif name == "changed":
        with open(data, "r+b") as file:
            file.seek(data.stat().st_size - 10)
            file.write(b"XXXXX")
    elif name == "garbage":
        size = data.stat().st_size
        data.write_bytes(random.Random(1).randbytes(size))
    elif name == "manifest":
        manifest.write_bytes(b"{")
    elif name == "no manifest":
        manifest.unlink()
    elif name == "outside":
        manifest.write_bytes(manifest.read_bytes().replace(b"database/data.mdb", b"../database/data"))
    elif name == "tables":
        manifest.write_bytes(manifest.read_bytes().replace(b'"Other"', b'"Cats"'))
    elif name == "format":
        manifest.write_bytes(manifest.read_bytes().replace(b'"format": 1', b'"format": 2'))


@pytest.mark.parametrize("name", ["missing", "cut", "garbage", "manifest", "no manifest", "outside", "tables", "format"])
def test_a_bad_backup_is_found(data: Database, backups: Backups, tmp_path: Path, name: str) -> None:
    backups.create(BackupSource.of(data))
    damage(backups.directory(1), name)
    with pytest.raises(BadBackup):
        backups.verify(1, checksum=name == "tables")
    with pytest.raises(BadBackup):
        restore(backups, tmp_path)
    assert not (tmp_path / "other" / "data").exists()
    backups.delete(1)


def test_a_changed_byte_is_found_by_its_checksum(data: Database, backups: Backups, tmp_path: Path) -> None:
    backups.create(BackupSource.of(data))
    damage(backups.directory(1), "changed")
    with pytest.raises(BadBackup, match="other content"):
        backups.verify(1, checksum=True)
    with pytest.raises(BadBackup, match="other content"):
        restore(backups, tmp_path)
    assert not (tmp_path / "other" / "data").exists()


# --- archives ----------------------------------------------------------------------------------------------------------------------------------


def archive(database: Database, path: Path, *, gzip: bool = True, **options: Any) -> Path:
    spooled = stage_backup(BackupSource.of(database), path / "spool", **options)
    target = path / ("a.tar.gz" if gzip else "a.tar")
    target.write_bytes(b"".join(archive_pieces(spooled, gzip=gzip)))
    spooled.close()
    assert list((path / "spool").iterdir()) == []
    return target


@pytest.mark.parametrize("gzip", [True, False])
def test_an_archive_unpacked_is_a_backup(
    with_blobs: Database, backups: Backups, tmp_path: Path, restored: Callable[..., Store], gzip: bool
) -> None:
    expected = rows(with_blobs.tables["Note"])
    path = archive(with_blobs, tmp_path, gzip=gzip)
    with tarfile.open(path, "r:gz" if gzip else "r:") as members:
        names = members.getnames()
        members.extractall(backups.path / "7", filter="data")
    assert names[:2] == ["manifest.json", "database/data.mdb"]
    assert len(names) == 6
    backups.verify(7, checksum=True)
    assert backups.add(path).backup_id == 8
    restore(backups, tmp_path)
    with_blobs.store.close()
    store = restored()
    assert rows(store.databases["data"].tables["Note"]) == expected
    store.check()


@pytest.mark.parametrize("log", [True, False])
@pytest.mark.parametrize("without", [frozenset(), frozenset({"Other"}), frozenset({"Note"})])
def test_a_part_of_a_database(
    with_blobs: Database, backups: Backups, tmp_path: Path, restored: Callable[..., Store], without: frozenset[str], log: bool
) -> None:
    expected = {name: rows(table) for name, table in with_blobs.tables.items() if name not in without}
    last = with_blobs.log.last_lsn
    backups.add(archive(with_blobs, tmp_path, without=without, log=log))
    manifest = backups.manifest(1)
    assert manifest.tables == sorted(expected)
    assert len(manifest.files) == {(True, True): 5, (False, True): 3}.get((log, "Note" not in without), 1)
    restore(backups, tmp_path)
    with_blobs.store.close()
    store = restored()
    database = store.databases["data"]
    assert {name: rows(table) for name, table in database.tables.items()} == expected
    tables = {entry.table for entry in database.log.read(database.snapshot())}
    assert tables <= ({"Note", "Other", ""} - without if log else {""})
    assert database.log.last_lsn == last
    store.check()
    for name in expected:
        write(database.tables[name], 1, 5)
    database.define_table(NOTE)
    database.define_table(OTHER)
    store.check()


def test_what_is_left_out_is_not_in_the_file(data: Database, tmp_path: Path) -> None:
    write(data.tables["Other"], "x", text="a secret of others")
    write(data.tables["Note"], "y", text="a secret of before")
    write(data.tables["Note"], "y", text="what is now")
    path = archive(data, tmp_path, gzip=False, without=frozenset({"Other"}), log=False)
    assert b"a secret" not in path.read_bytes()
    assert b"what is now" in path.read_bytes()
    path = archive(data, tmp_path, gzip=False)
    assert b"a secret of others" in path.read_bytes()


def member(name: str, content: bytes = b"", **changes: Any) -> tuple[tarfile.TarInfo, io.BytesIO]:
    info = tarfile.TarInfo(name)
    info.size = len(content)
    for attribute, value in changes.items():
        setattr(info, attribute, value)
    return info, io.BytesIO(content)


@pytest.mark.parametrize(
    "bad",
    [
        member("../outside", b"x"),
        member("/tmp/outside", b"x"),
        member("blobs/../../outside", b"x"),
        member("database/data.mdb", type=tarfile.SYMTYPE, linkname="/etc/passwd"),
        member("blobs/000/000/000", type=tarfile.LNKTYPE, linkname="../../../outside"),
        member("database/data.mdb", type=tarfile.FIFOTYPE),
        member("database/data.mdb", type=tarfile.CHRTYPE),
        member("database/other.mdb", b"x"),
        member("manifest.json", b"{}"),
    ],
)
def test_an_archive_cannot_write_elsewhere(data: Database, tmp_path: Path, backups: Backups, bad: Any) -> None:
    good = archive(data, tmp_path, gzip=False)
    path = tmp_path / "bad.tar"
    shutil.copy(good, path)
    with tarfile.open(path, "a") as members:
        members.addfile(*bad)
    target = tmp_path / "unpacked"
    target.mkdir()
    with pytest.raises(BadBackup):
        unpack(path, target)
    with pytest.raises(BadBackup):
        backups.add(path)
    assert not (tmp_path / "outside").exists()
    assert backups.infos() == []


@pytest.mark.parametrize("cut", [0, 1, 100, 2000, -3000])
@pytest.mark.parametrize("gzip", [True, False])
def test_an_archive_that_is_cut(data: Database, tmp_path: Path, backups: Backups, cut: int, gzip: bool) -> None:
    path = archive(data, tmp_path, gzip=gzip)
    whole = path.read_bytes()
    path.write_bytes(whole[:cut])
    with pytest.raises(BadBackup):
        backups.add(path)
    path.write_bytes(b"no archive at all" * 100)
    with pytest.raises(BadBackup):
        backups.add(path)


def test_a_file_that_has_shrunk_breaks_the_archive(with_blobs: Database, tmp_path: Path) -> None:
    spooled = stage_backup(BackupSource.of(with_blobs), tmp_path)
    name, path, size = spooled.members[-1]
    spooled.members[-1] = (name, path, size + 1)
    with pytest.raises(OSError, match="shorter"):
        list(archive_pieces(spooled, gzip=True))
    spooled.close()


# --- restoring ---------------------------------------------------------------------------------------------------------------------------------


def test_restoring_in_place(data: Database, backups: Backups, tmp_path: Path, open_store: Callable[..., Store]) -> None:
    expected = rows(data.tables["Note"])
    store = data.store
    backups.create(BackupSource.of(data))
    write(data.tables["Note"], *range(400), text="later")
    with pytest.raises(InUse, match="is open: stop the service first"):
        restore_offline(backups, store.path, store.blob_paths)
    assert not interrupted_restore(store.path, "data")
    store.close()
    restore_offline(backups, store.path, store.blob_paths)
    store = open_store()
    assert rows(store.databases["data"].tables["Note"]) == expected
    assert [path.name for path in store.path.iterdir() if path.name.startswith(".re") or path.name.startswith(".dr")] == []
    store.check()


def test_restoring_a_database_that_is_gone_or_has_another_name(
    data: Database, backups: Backups, tmp_path: Path, restored: Callable[..., Store]
) -> None:
    expected = rows(data.tables["Note"])
    backups.create(BackupSource.of(data))
    restore(backups, tmp_path, number=1)
    restore(backups, tmp_path, number=1, target="copy")
    with pytest.raises(Problem, match="database 'copy' already exists"):
        restore(backups, tmp_path, target="copy")
    with pytest.raises(Problem, match="begins with a dot"):
        restore(backups, tmp_path, target="..")
    with pytest.raises(UnknownBackup):
        restore(backups, tmp_path, number=5)
    store = restored()
    assert rows(store.databases["data"].tables["Note"]) == rows(store.databases["copy"].tables["Note"]) == expected


def test_a_copy_under_another_name_has_blobs_of_its_own(
    with_blobs: Database, backups: Backups, tmp_path: Path, restored: Callable[..., Store]
) -> None:
    write(with_blobs.tables["Note"], "compressed", file=create_blob(b"c" * 20_000), text="x" * 10_000)
    expected = rows(with_blobs.tables["Note"])
    backups.create(BackupSource.of(with_blobs))
    with_blobs.store.close()
    restore(backups, tmp_path)
    restore(backups, tmp_path, target="copy")
    store = restored()
    store.check()
    names = ["data", "copy"]
    assert all(rows(store.databases[name].tables["Note"]) == expected for name in names)
    for path in [path for path in (tmp_path / "other" / ".blobs" / "data").rglob("*") if path.is_file()]:
        path.unlink()
    assert rows(store.databases["copy"].tables["Note"]) == expected
    with pytest.raises(Problem):
        rows(store.databases["data"].tables["Note"])


def test_a_manifest_says_what_it_is(data: Database, backups: Backups) -> None:
    backups.create(BackupSource.of(data))
    manifest = json.loads((backups.directory(1) / "manifest.json").read_bytes())
    assert {name: manifest[name] for name in ("format", "service", "database", "tables", "time")} == {
        "format": 1,
        "service": "svc",
        "database": "data",
        "tables": ["Note", "Other"],
        "time": "2026-01-01T00:00:00.000Z",
    }
    for bad in (b"", b"[]", b'{"format": "x"}', b"\xff"):
        with pytest.raises(BadBackup):
            decode_manifest(bad)
