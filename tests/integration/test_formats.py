"""Data directories and backups of earlier versions (spec: schema-and-store §15). Each archive in tests/fixtures/formats was made by the program of the commit
that its `expected.json` names, through REST, operations and, in the newest, MQTT 5 (`tests.support.format_fixture`):

    expected.json       what that program has answered: records, a blob, the history of each table
    database/, blobs/   its data directory, after an orderly end
    backup.tar          of `get_backup`, from the time when there were backups
"""

from __future__ import annotations

import hashlib
import json
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lmdb
import pytest

import svc.testing
from svc.errors import StoreFailure
from svc.store import Store
from svc.store.backup import restore_offline
from svc.store.backup.managed import Backups
from svc.store.backup.manifest import BadBackup
from svc.store.definitions import DEFINITIONS_STORE, FORMAT_KEY
from svc.store.disk.database_locks import OpenLock
from svc.store.integrity.check import check_database
from svc.store.store_format import REPLICATED_FORMAT, encode_format
from tests.support.format_fixture import SCHEMA
from tests.unit.testing.conftest import write_application

ARCHIVES = sorted((Path(__file__).parents[1] / "fixtures" / "formats").glob("*.tar.xz"))


class Former:
    """One of the archives, unpacked."""

    def __init__(self, archive: Path, place: Path) -> None:
        with tarfile.open(archive) as tar:
            tar.extractall(place, filter="data")
        self.place = place
        self.database = place / "database"
        self.expected: dict[str, Any] = json.loads((place / "expected.json").read_text())

    def stored_format(self) -> bytes | None:
        with lmdb.open(str(self.database / "data"), readonly=True, max_dbs=10) as env:
            definitions = env.open_db(DEFINITIONS_STORE.encode(), create=False)
            with env.begin() as txn:
                found: bytes | None = txn.get(FORMAT_KEY, None, definitions)
                return found


def set_format(directory: Path, value: bytes) -> None:
    with lmdb.open(str(directory), max_dbs=10) as env:
        definitions = env.open_db(DEFINITIONS_STORE.encode(), create=False)
        with env.begin(write=True) as txn:
            txn.put(FORMAT_KEY, value, db=definitions)


@pytest.fixture(params=ARCHIVES, ids=[archive.name.partition(".")[0] for archive in ARCHIVES])
def former(request: pytest.FixtureRequest, tmp_path: Path) -> Former:
    return Former(request.param, tmp_path / "former")


@pytest.fixture
def format_1(tmp_path: Path) -> Former:
    return Former(ARCHIVES[6], tmp_path / "former")


def application(former: Former, tmp_path: Path, **settings: Any) -> svc.testing.Application:
    files = {"config.yaml": "rest: true\ngraphqlSchema: {files: '*.graphql'}\n", "schema.graphql": SCHEMA}
    return svc.testing.app(write_application(tmp_path / "things", files), **settings)


def check_all(app: svc.testing.Application, expected: dict[str, Any]) -> None:
    """Every record, the blob, and queries that use the indexes."""
    items = {each["id"]: each for each in app.get("/Item/").json}
    for each in items.values():
        each.pop("picture", None)
    assert items == expected["items"]
    assert {str(each["id"]): each for each in app.get("/Short/").json} == expected["shorts"]
    assert app.get("/Item/pic/picture").text == expected["picture"]
    by_price = [each["id"] for each in app.get("/Item/?price=ge=2&sort(price)&select(id,name)").json]
    assert by_price == sorted(
        (name for name, each in items.items() if (each.get("price") or 0) >= 2), key=lambda name: (items[name]["price"], name)
    )
    tagged = {each["id"] for each in app.get("/Item/?tags==a&select(id,name)").json}
    assert tagged == {name for name, each in items.items() if "a" in (each.get("tags") or ())}


def history(app: svc.testing.Application, table: str) -> list[list[Any]]:
    return [[each["operation"], each["hash_values"]] for each in app.operation("read_transaction_log", table=table, limit=1000)]


def test_a_data_directory_is_served_by_this_version(former: Former, tmp_path: Path) -> None:
    with application(former, tmp_path, storage_path=str(former.database), storage_blobPaths=[str(former.place / "blobs")]) as app:
        check_all(app, former.expected)
        for table, entries in former.expected["history"].items():
            assert history(app, table) == entries
        app.put("/Item/new", {"name": "of this version", "price": 3, "text": "long " * 1000})
        app.patch("/Item/i11", {"stock": 100})
        app.delete("/Item/i0")
        assert app.get("/Item/i11").json["stock"] == 100 and app.get("/Item/new").json["price"] == 3
        if former.expected["history"]:
            assert history(app, "Item")[-3:] == [["upsert", ["new"]], ["update", ["i11"]], ["delete", ["i0"]]]
    assert former.stored_format() == encode_format()
    for name in ("data", "system"):
        report = check_database(former.database / name, blob_paths=[former.place / "blobs"])
        assert report.findings == []


def test_svc_check_reads_it_before_it_is_brought_up(former: Former) -> None:
    found = former.stored_format()
    report = check_database(former.database / "data", blob_paths=[former.place / "blobs"])
    assert report.findings == []
    assert former.stored_format() == found


def test_a_backup_is_restored(former: Former, tmp_path: Path) -> None:
    archive = former.place / "backup.tar"
    if not archive.exists():
        return  # there were none yet
    backups = Backups(tmp_path / "backups", "data")
    backups.add(archive)
    backups.verify(1, checksum=True)
    data, blobs = tmp_path / "database", tmp_path / "blobs"
    assert restore_offline(backups, data, [blobs]).backup_id == 1
    with application(former, tmp_path, storage_path=str(data), storage_blobPaths=[str(blobs)]) as app:
        check_all(app, former.expected)
        app.put("/Item/new", {"name": "of this version"})
    assert check_database(data / "data", blob_paths=[blobs]).findings == []


@pytest.mark.parametrize("found", [encode_format(REPLICATED_FORMAT + 1), b"", b"0", b"x", b"1x"])
def test_a_format_that_is_not_known_is_refused_and_nothing_is_changed(format_1: Former, found: bytes) -> None:
    set_format(format_1.database / "data", found)
    with pytest.raises(StoreFailure, match="The database data was written by another version of svc: its format is"):
        Store(format_1.database)
    assert format_1.stored_format() == found
    assert "its format is" in check_database(format_1.database / "data").findings[0]


def test_a_backup_of_a_later_format_is_refused_and_what_is_there_stays(format_1: Former, tmp_path: Path) -> None:
    place = tmp_path / "backups" / "data" / "1"
    with tarfile.open(format_1.place / "backup.tar") as tar:
        tar.extractall(place, filter="data")
    set_format(place / "database", b"4")
    data = place / "database" / "data.mdb"
    (place / "database" / "lock.mdb").unlink()
    manifest = json.loads((place / "manifest.json").read_text())
    for file in manifest["files"]:
        if file["path"] == "database/data.mdb":
            file |= {"size": data.stat().st_size, "sha256": hashlib.sha256(data.read_bytes()).hexdigest()}
    (place / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(BadBackup, match="its format is 4"):
        restore_offline(Backups(tmp_path / "backups", "data"), format_1.database, [format_1.place / "blobs"])
    assert check_database(format_1.database / "data", blob_paths=[format_1.place / "blobs"]).findings == []
    assert format_1.stored_format() == b"1"


@pytest.fixture
def former_process(format_1: Former) -> Iterator[OpenLock]:
    """What a process of the version before has on the database. (These locks know no processes, only who has opened the file.)"""
    lock = OpenLock(format_1.database / "data")
    yield lock
    lock.close()


def test_a_process_of_the_former_format_is_not_overtaken(format_1: Former, former_process: OpenLock) -> None:
    """It could not read what this version writes."""
    for _ in range(2):
        with pytest.raises(StoreFailure, match="another process has it open, which could not read what this version writes"):
            Store(format_1.database)
    assert format_1.stored_format() == b"1"
    former_process.close()
    Store(format_1.database).close()
    assert format_1.stored_format() == encode_format()


@pytest.mark.usefixtures("former_process")
def test_processes_of_one_format_do_not_mind_each_other(format_1: Former) -> None:
    set_format(format_1.database / "data", encode_format())
    Store(format_1.database).close()
