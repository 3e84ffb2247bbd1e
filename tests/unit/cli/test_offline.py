"""Backups without a server: make, list, verify, restore, remove."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from svc.cli.arguments import Arguments, UsageError
from svc.cli.offline import run_offline
from svc.cli.operation_arguments import read_arguments
from svc.config.document import write_document
from svc.operations.registry import by_name
from svc.root.lock import RootLock
from svc.store import Store
from svc.store.schema import Attribute, TableDefinition
from svc.store.values.records import decode

DOG = TableDefinition("Dog", attributes=(Attribute("id", primary_key=True), Attribute("name", indexed=True)))


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A root with a stopped server and three dogs."""
    for name in [name for name in os.environ if name.upper().startswith(("SVC_", "STORAGE_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("ROOTPATH", str(tmp_path / "r"))
    root = tmp_path / "r"
    root.mkdir()
    write_document(root / "svc-config.yaml", {})
    write(root, 1, 2, 3)
    return root


def write(root: Path, *keys: int) -> None:
    store = Store(root / "database")
    table = store.open_database("data").define_table(DOG)
    transaction = store.begin()
    for key in keys:
        transaction.put(table, key, {"id": key, "name": f"dog {key}"})
    transaction.apply()
    store.commit_turn()
    store.close()


def dogs(root: Path, database: str = "data") -> list[Any]:
    store = Store(root / "database")
    try:
        table = store.databases[database].tables["Dog"]
        return [decode(raw)["id"] for _, raw in table.scan(table.database.snapshot())]
    finally:
        store.close()


def run(name: str, *words: str, status: int = 0, capsys: pytest.CaptureFixture[str]) -> Any:
    """The answer, or what is said on standard error."""
    capsys.readouterr()
    row = by_name()[name]
    assert run_offline(Arguments(name, list(words)), row, read_arguments(words, row)) == status
    captured = capsys.readouterr()
    return captured.err if status else json.loads(captured.out)


def test_there_and_back(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("list_backups", capsys=capsys) == []
    first = run("create_backup", capsys=capsys)
    assert set(first) == {"backup_id", "size", "timestamp"}
    write(root, 4)
    second = run("create_backup", capsys=capsys)
    listed = run("list_backups", "database=data", capsys=capsys)
    assert [entry["backup_id"] for entry in listed] == [first["backup_id"], second["backup_id"]]
    assert set(listed[0]) == {"backup_id", "timestamp", "size", "file_count"}

    run("verify_backup", f"backup_id={first['backup_id']}", "verify_checksum=true", capsys=capsys)
    run("restore_backup", f"backup_id={first['backup_id']}", capsys=capsys)
    assert dogs(root) == [1, 2, 3]
    run("restore_backup", capsys=capsys)  # the newest
    assert dogs(root) == [1, 2, 3, 4]
    run("restore_backup", f"backup_id={first['backup_id']}", "target_database=other", capsys=capsys)
    assert dogs(root, "other") == [1, 2, 3]
    assert dogs(root) == [1, 2, 3, 4]

    assert run("purge_backups", "keep_count=1", capsys=capsys) == {"deleted": 1, "remaining": 1}
    run("delete_backup", f"backup_id={second['backup_id']}", capsys=capsys)
    assert run("list_backups", capsys=capsys) == []
    assert not (root / "svc.pid").exists()


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("create_backup", "database=nowhere"), "database 'nowhere' does not exist"),
        (("verify_backup", "backup_id=7"), "no backup 7"),
        (("delete_backup", "backup_id=7"), "no backup 7"),
        (("delete_backup", 'backup_id="../x"'), "'backup_id' must be a number"),
        (("delete_backup", "backup_id=0"), "'backup_id' must be greater than or equal to 1"),
        (("restore_backup",), "no backup of the database 'data'"),
        (("create_backup", "database=a/b"), "'database' names cannot include"),
        (("create_backup", "exclude_blobs=7"), "'exclude_blobs' must be a boolean"),
    ],
)
def test_refusals(words: tuple[str, ...], text: str, capsys: pytest.CaptureFixture[str]) -> None:
    said = run(*words, status=1, capsys=capsys)
    assert said.startswith("error: ")
    assert text in said


def test_a_damaged_backup_is_neither_fine_nor_restored(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    number = run("create_backup", capsys=capsys)["backup_id"]
    file = next((root / "backup" / "data" / str(number)).rglob("data.mdb"))
    content = file.read_bytes()
    file.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    assert run("verify_backup", f"backup_id={number}", "verify_checksum=true", status=1, capsys=capsys).startswith(
        f"error: Backup {number} is bad: "
    )
    assert run("restore_backup", f"backup_id={number}", status=1, capsys=capsys).startswith("error: ")
    assert dogs(root) == [1, 2, 3]


def test_a_server_that_runs_is_in_the_way_of_what_changes(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with RootLock(root):
        said = run("restore_backup", status=4, capsys=capsys)
        assert said == f"Error: svc is already running (pid: {os.getpid()})\n"
        assert run("list_backups", capsys=capsys) == []


def test_without_an_installation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("ROOTPATH", str(tmp_path / "empty"))
    with pytest.raises(UsageError, match="not installed"):
        run("list_backups", capsys=capsys)
