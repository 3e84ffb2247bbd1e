"""kill -9 at every step of a restore: the database is what it was, or what was restored, or marked and not loaded; and a repetition goes through.

A child process restores, with its system calls on files counted, and kills itself before the n-th; n grows until it comes through.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest

from svc.errors import Problem
from svc.store import Store, StoreSettings, create_blob
from svc.store.backup import Backups, BackupSource, restore_offline
from svc.store.backup.restore import Restore, swap_online
from svc.store.blobs import Blob
from svc.store.disk.restore_mark import interrupted_restore
from svc.store.schema import Attribute, TableDefinition
from svc.store.values.records import decode
from tests.support.crash import Child

pytestmark = pytest.mark.programs

MAP_BYTES = 1 << 30
NOTE = TableDefinition("Note", attributes=(Attribute("id", primary_key=True), Attribute("n", indexed=True), Attribute("file", "Blob")))
COUNTED = ("rename", "replace", "fsync", "unlink")


def open_store(root: Path) -> Store:
    return Store(root / "database", StoreSettings(map_bytes=MAP_BYTES))


def backups_of(root: Path) -> Backups:
    return Backups(root / "backup", "data")


# -- the child


def kill_before(number: int) -> None:
    """Count calls on files from now on, and be killed before this one."""
    count = 0
    for name in COUNTED:
        call = getattr(os, name)

        def counted(*arguments: Any, call: Any = call, **options: Any) -> Any:
            nonlocal count
            count += 1
            if count == number:
                os.kill(os.getpid(), signal.SIGKILL)
            return call(*arguments, **options)

        setattr(os, name, counted)


def restore_in_server(root: Path, number: int) -> None:
    """What the operation does, with the store open."""
    store = open_store(root)
    loop = asyncio.new_event_loop()
    backups = backups_of(root)
    kill_before(number)
    with backups.reading(1) as directory:
        restore = Restore(directory, backups.manifest(1), store.path, "data", store.blob_paths)
        restore.prepare()
        loop.run_until_complete(swap_online(store, restore, "data"))
        restore.close()
    store.close()
    loop.close()


def restore_stopped(root: Path, number: int) -> None:
    kill_before(number)
    restore_offline(backups_of(root), root / "database", [root / "database" / ".blobs"])


WAYS = {"server": restore_in_server, "stopped": restore_stopped}


# -- the test


def write(store: Store, n: int) -> None:
    table = store.open_database("data").define_table(NOTE)
    transaction = store.begin()
    for key in range(40):
        transaction.put(table, key, {"n": n})
    transaction.put(table, "file", {"n": n, "file": create_blob(bytes([n]) * 10_000)})
    transaction.apply()
    store.commit_turn()


def state(store: Store) -> set[int]:
    """The values of n that its records have, and its blob says."""
    table = store.databases["data"].tables["Note"]
    records = [decode(raw) for _, raw in table.scan(table.database.snapshot())]
    assert len(records) == 41
    blob = next(record["file"] for record in records if record["id"] == "file")
    assert isinstance(blob, Blob)
    return {record["n"] for record in records} | set(b"".join(blob.chunks()))


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with 2 in it, and a backup from when it had 1."""
    root = tmp_path_factory.mktemp("prepared")
    store = open_store(root)
    write(store, 1)
    backups_of(root).create(BackupSource.of(store.databases["data"]))
    write(store, 2)
    # What only the log refers to is gone, so that the restore has a file to bring back.
    database = store.databases["data"]
    for path in (path for root in database.blobs.roots for path in root.rglob("*") if path.is_file()):
        if path.read_bytes()[:1] == b"\1":
            path.unlink()
    store.close()
    return root


@pytest.mark.parametrize("mode", WAYS)
def test_a_restore_killed_at_each_step(prepared: Path, tmp_path: Path, mode: str) -> None:
    outcomes: list[str] = []
    for number in range(1, 200):
        root = tmp_path / str(number)
        shutil.copytree(prepared, root)
        child = Child(WAYS[mode], root, number)
        status = child.wait()
        killed = status == -signal.SIGKILL
        assert killed or status == 0, child.errors
        outcomes.append(judge(root, finished=not killed))
        repeat(root)
        shutil.rmtree(root)
        if not killed:
            break
    assert outcomes[-1] == "restored"
    assert outcomes[0] == "as it was"
    assert "marked" in outcomes
    # No way back: what was reached stays reached.
    order = ["as it was", "marked", "restored"]
    assert outcomes == sorted(outcomes, key=order.index)


def judge(root: Path, *, finished: bool) -> str:
    """How the next start finds the database."""
    marked = interrupted_restore(root / "database", "data")
    store = open_store(root)
    try:
        if marked:
            assert not finished
            assert "data" not in store.databases
            with pytest.raises(Problem, match="was interrupted"):
                store.open_database("data")
            return "marked"
        found = state(store)
        if found == {1}:
            store.check()
            return "restored"
        assert found == {2}
        assert not finished
        return "as it was"
    finally:
        store.close()


def repeat(root: Path) -> None:
    restore_stopped(root, 0)
    store = open_store(root)
    assert state(store) == {1}
    store.check()
    write(store, 3)
    assert state(store) == {3}
    store.check()
    store.close()
    left = [path.name for path in (root / "database").iterdir() if path.name.startswith(".re")]
    assert left == []
