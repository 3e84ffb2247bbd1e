"""A copy of a database is the database at one moment."""

import shutil
from pathlib import Path

import pytest

from svc.errors import Problem
from svc.store import Store
from svc.store.backup import copy_database
from svc.store.integrity.check import check_database
from svc.store.schema import Attribute, TableDefinition

DOG = TableDefinition("Dog", attributes=(Attribute("id", primary_key=True), Attribute("name", indexed=True)))


def put(store: Store, *keys: int) -> None:
    transaction = store.begin()
    table = store.databases["data"].tables["Dog"]
    for key in keys:
        transaction.put(table, key, {"id": key, "name": f"dog {key}"})
    transaction.apply()
    store.commit_turn()


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = Store(tmp_path / "database")
    store.open_database("data").define_table(DOG)
    put(store, *range(100))
    return store


def keys_in(file: Path, directory: Path) -> list[object]:
    (directory / "data").mkdir(parents=True)
    shutil.copyfile(file, directory / "data" / "data.mdb")
    assert check_database(directory / "data").ok
    copied = Store(directory)
    try:
        table = copied.databases["data"].tables["Dog"]
        return [key for key, _ in table.scan(table.database.snapshot())]
    finally:
        copied.close()


def test_what_was_committed_is_in_it_and_what_follows_is_not(store: Store, tmp_path: Path) -> None:
    """The server keeps the database open: a copy made by another process sees its commits (here: one that reads the files anew)."""
    store.close()
    file = tmp_path / "copy.mdb"
    assert copy_database(tmp_path / "database" / "data", file) == file.stat().st_size
    again = Store(tmp_path / "database")
    put(again, 100)
    again.close()
    assert len(keys_in(file, tmp_path / "restored")) == 100
    assert file.stat().st_mode & 0o777 == 0o600


def test_nothing_is_replaced_and_nothing_left_behind(store: Store, tmp_path: Path) -> None:
    store.close()
    file = tmp_path / "copy.mdb"
    file.write_text("mine")
    with pytest.raises(FileExistsError):
        copy_database(tmp_path / "database" / "data", file)
    assert file.read_text() == "mine"
    for path in (tmp_path / "database" / "nowhere", tmp_path):
        with pytest.raises(Problem, match="There is no database in"):
            copy_database(path, tmp_path / "other.mdb")
    with pytest.raises(Problem):
        copy_database(tmp_path / "database" / "data", tmp_path / "nowhere" / "x")
    assert {path.name for path in tmp_path.iterdir()} == {"copy.mdb", "database"}


@pytest.mark.parametrize("damage", [lambda data: b"", lambda data: b"not LMDB" * 1000, lambda data: data[: 3 * 4096]])
def test_damaged_files_are_refused(store: Store, tmp_path: Path, damage: object) -> None:
    store.close()
    data = tmp_path / "database" / "data" / "data.mdb"
    content = data.read_bytes()
    data.write_bytes(damage(content))  # type: ignore[operator]
    with pytest.raises(Problem):
        copy_database(data.parent, tmp_path / "copy.mdb")
    assert not (tmp_path / "copy.mdb").exists()
