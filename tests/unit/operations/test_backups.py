"""The operations on backups: a download, the managed ones, a restore into the running server."""

from __future__ import annotations

import asyncio
import gc
import io
import json
import random
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from svc.apps.app import App
from svc.errors import Problem, SnapshotLost, StoreFailure
from svc.messages import Response
from svc.operations.database_use import HOLDER
from svc.store import Store, StoreSettings, Table, Transaction, create_blob
from svc.store.backup.restore import Restore
from svc.store.schema import Attribute, TableDefinition
from svc.store.values.records import decode
from tests.support.operations import OperationsNode

DOG = TableDefinition(
    "dog", "data", attributes=(Attribute("id", primary_key=True), Attribute("n", indexed=True), Attribute("photo", "Blob"))
)
CAT = TableDefinition("cat", "data", attributes=(Attribute("id", primary_key=True),))


@pytest.fixture
def node(tmp_path: Path) -> Iterator[OperationsNode]:
    with OperationsNode(tmp_path) as node:
        database = node.store.open_database("data")
        write(node, database.define_table(DOG), *range(50))
        write(node, database.define_table(CAT), *range(5))
        yield node


def dogs(node: OperationsNode) -> Table:
    return node.store.databases["data"].tables["dog"]


def write(node: OperationsNode, table: Table, *keys: Any, **values: Any) -> None:
    async def run() -> None:
        transaction = Transaction(node.store, "anna")
        for key in keys:
            transaction.put(table, key, {"n": key, **values})
        await transaction.save_blobs()
        await transaction.apply_in_turn()

    node.wait(run)


def rows(table: Table) -> dict[Any, Any]:
    return {record["id"]: record for _, raw in table.scan(table.database.snapshot()) for record in [decode(raw)]}


def refused(node: OperationsNode, operation: str, **fields: Any) -> tuple[int, str]:
    with pytest.raises(Problem) as caught:
        node.run(operation, **fields)
    return caught.value.status_code, caught.value.message


def job(node: OperationsNode, operation: str, **fields: Any) -> dict[str, Any]:
    """The record of the job when it has ended."""
    return node.finished(node.run(operation, **fields))


def download(node: OperationsNode, **fields: Any) -> tuple[Response, bytes]:
    response = node.run("get_backup", **fields)
    return response, read(node, response)


def read(node: OperationsNode, response: Response) -> bytes:
    async def run() -> bytes:
        return b"".join([piece async for piece in response.body])  # type: ignore[union-attr]

    return node.wait(run)  # type: ignore[no-any-return]


def opened(node: OperationsNode, archive: bytes, path: Path) -> Store:
    """The store that an archive unpacked by hand makes."""
    with tarfile.open(fileobj=io.BytesIO(archive)) as members:
        members.extractall(path, filter="data")
    (path / "database").rename(path / "data")
    if (path / "blobs").exists():
        (path / ".blobs").mkdir()
        (path / "blobs").rename(path / ".blobs" / "data")
    return Store(path, StoreSettings(map_bytes=1 << 30), clock=node.clock)


# --- get_backup --------------------------------------------------------------------------------------------------------------------------


def test_a_download_is_the_database_as_of_its_request(node: OperationsNode, tmp_path: Path) -> None:
    expected = rows(dogs(node))
    response = node.run("get_backup")
    node.clock.advance(100)
    write(node, dogs(node), *range(100, 120))
    archive = read(node, response)
    assert response.headers["Content-Type"] == "application/octet-stream"
    assert response.headers["Content-Disposition"] == 'attachment; filename="data.tar.gz"'
    assert response.headers["Date"] == "Thu, 01 Jan 2026 00:00:00 GMT"
    assert archive[:2] == b"\x1f\x8b"
    store = opened(node, archive, tmp_path / "copy")
    assert rows(store.databases["data"].tables["dog"]) == expected
    assert store.databases["data"].log.count(store.databases["data"].snapshot()) == 1, "without the log"
    store.check()
    store.close()
    assert list((tmp_path / "backup" / "data").iterdir()) == []


def test_a_part_of_it_uncompressed_with_its_log(node: OperationsNode, tmp_path: Path) -> None:
    response, archive = download(node, table="dog", gzip=False, include_audit=True)
    assert response.headers["Content-Disposition"] == 'attachment; filename="data.tar"'
    with tarfile.open(fileobj=io.BytesIO(archive), mode="r:") as members:
        manifest = json.loads(members.extractfile("manifest.json").read())  # type: ignore[union-attr]
    assert manifest["tables"] == ["dog"]
    store = opened(node, archive, tmp_path / "copy")
    database = store.databases["data"]
    assert list(database.tables) == ["dog"]
    assert {entry.table for entry in database.log.read(database.snapshot())} == {"dog", ""}
    store.check()
    store.close()
    _, archive = download(node, tables=["dog", "cat"], gzip=False)
    with tarfile.open(fileobj=io.BytesIO(archive)) as members:
        assert json.loads(members.extractfile("manifest.json").read())["tables"] == ["cat", "dog"]  # type: ignore[union-attr]


def test_blobs_are_in_it_unless_they_are_excluded(node: OperationsNode, tmp_path: Path) -> None:
    content = random.Random(1).randbytes(50_000)
    write(node, dogs(node), "x", photo=create_blob(content))
    _, archive = download(node)
    _, without = download(node, exclude_blobs=True)
    assert len(archive) > 50_000 > len(without)
    dogs(node).database.blobs.close()
    store = opened(node, archive, tmp_path / "copy")
    raw = store.databases["data"].tables["dog"].get_raw("x")
    assert raw is not None
    assert b"".join(decode(raw)["photo"].chunks()) == content
    store.check()
    store.close()


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"table": "cow"}, (404, "Table 'data.cow' does not exist")),
        ({"tables": ["dog", "cow"]}, (404, "Table 'data.cow' does not exist")),
        ({"database": "no"}, (404, "database 'no' does not exist")),
        ({"database": ".."}, (404, "database '..' does not exist")),
        ({"tables": "dog"}, (400, "'tables' must be an array")),
        ({"tables": [1]}, (400, "'tables' must be an array of strings")),
        ({"gzip": "no"}, (400, "'gzip' must be a boolean")),
    ],
)
def test_bad_downloads(node: OperationsNode, fields: dict[str, Any], expected: tuple[int, str]) -> None:
    assert refused(node, "get_backup", **fields) == expected


def test_nothing_is_left_of_a_download_that_is_broken_off(node: OperationsNode, tmp_path: Path) -> None:
    spool = tmp_path / "backup" / "data"

    async def break_off() -> None:
        response = await node.operations.run(node.operations.prepare({"operation": "get_backup"}, node.admin))
        assert len(list(spool.iterdir())) == 1
        await response.body.__anext__()
        await response.body.aclose()
        assert list(spool.iterdir()) == []
        response = await node.operations.run(node.operations.prepare({"operation": "get_backup"}, node.admin))
        del response
        gc.collect()
        assert list(spool.iterdir()) == []
        task = asyncio.get_running_loop().create_task(node.operations.run(node.operations.prepare({"operation": "get_backup"}, node.admin)))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    node.wait(break_off)
    assert not spool.exists() or list(spool.iterdir()) == []
    assert node.store.databases["data"].env.open_snapshots() <= 1


# --- managed backups ----------------------------------------------------------------------------------------------------------------------


def test_the_life_of_a_backup(node: OperationsNode, tmp_path: Path) -> None:
    assert node.run("list_backups") == []
    record = job(node, "create_backup", database="data")
    assert record["status"] == "COMPLETE"
    assert record["message"] == f"Successfully completed job: {record['id']}"
    size = record["result"]["size"]
    assert record["result"] == {"backup_id": 1, "size": size, "timestamp": 1767225600}
    assert record["progress"]["done"] >= size
    node.clock.advance(10)
    assert job(node, "create_backup", exclude_blobs=True)["result"]["backup_id"] == 2
    assert (
        node.run("list_backups", schema="data")
        == [
            {"backup_id": 1, "timestamp": 1767225600, "size": size, "file_count": 1},
            {"backup_id": 2, "timestamp": 1767225610, "size": size, "file_count": 1},
        ]
        or size != node.run("list_backups")[1]["size"]
    )
    assert job(node, "verify_backup", backup_id=1)["status"] == "COMPLETE"
    assert job(node, "verify_backup", backup_id=1, verify_checksum=True)["status"] == "COMPLETE"
    assert node.run("delete_backup", backup_id=2) == {"message": "successfully deleted backup 2 of 'data'"}
    job(node, "create_backup")
    assert node.run("purge_backups", keep_count=1) == {"deleted": 1, "remaining": 1}
    assert [info["backup_id"] for info in node.run("list_backups")] == [3]
    assert job(node, "create_backup", database="system")["status"] == "COMPLETE"


def test_a_bad_backup_is_an_error(node: OperationsNode, tmp_path: Path) -> None:
    job(node, "create_backup")
    data = tmp_path / "backup/data/1/database/data.mdb"
    content = bytearray(data.read_bytes())
    content[-20] ^= 1
    data.write_bytes(content)
    assert job(node, "verify_backup", backup_id=1)["status"] == "COMPLETE"
    record = job(node, "verify_backup", backup_id=1, verify_checksum=True)
    assert (record["status"], record["message"]) == (
        "ERROR",
        "Backup 1 is bad: database/data.mdb has other content than when it was made",
    )
    expected = rows(dogs(node))
    record = job(node, "restore_backup", backup_id=1)
    assert (record["status"], record["message"]) == (
        "ERROR",
        "Backup 1 cannot be restored: database/data.mdb has other content than when it was made",
    )
    assert rows(dogs(node)) == expected
    data.unlink()
    assert job(node, "verify_backup", backup_id=1)["message"] == "Backup 1 is bad: database/data.mdb is missing"


@pytest.mark.parametrize(
    ("operation", "fields", "expected"),
    [
        ("create_backup", {"database": "no"}, (404, "database 'no' does not exist")),
        ("delete_backup", {}, (400, "'backup_id' is required")),
        ("delete_backup", {"backup_id": "../1"}, (400, "'backup_id' must be a number")),
        ("delete_backup", {"backup_id": 1.5}, (400, "'backup_id' must be an integer")),
        ("delete_backup", {"backup_id": 7}, (404, "There is no backup 7 of the database 'data'")),
        ("delete_backup", {"backup_id": 10**30}, (404, f"There is no backup {10**30} of the database 'data'")),
        ("verify_backup", {"backup_id": 7}, (404, "There is no backup 7 of the database 'data'")),
        ("verify_backup", {"database": "no", "backup_id": 7}, (404, "There is no backup 7 of the database 'no'")),
        ("purge_backups", {}, (400, "'keep_count' is required")),
        ("purge_backups", {"keep_count": -1}, (400, "'keep_count' must be greater than or equal to 0")),
        ("restore_backup", {}, (404, "There is no backup of the database 'data'")),
        ("restore_backup", {"backup_id": 7}, (404, "There is no backup 7 of the database 'data'")),
        ("restore_backup", {"target_database": "other"}, (400, "'target_database' is allowed only while svc is stopped")),
        (
            "restore_backup",
            {"database": "system"},
            (400, "The 'system' database can be restored only while svc is stopped: svc restore_backup database=system"),
        ),
        ("list_backups", {"database": "a/b"}, (400, "'database' names cannot include backticks or forward slashes")),
        ("list_backups", {"database": ".."}, (400, 'The name ".." of a database begins with a dot')),
        ("purge_backups", {"database": "..", "keep_count": 0}, (400, 'The name ".." of a database begins with a dot')),
    ],
)
def test_bad_requests(node: OperationsNode, operation: str, fields: dict[str, Any], expected: tuple[int, str]) -> None:
    assert refused(node, operation, **fields) == expected


def test_only_super_users(node: OperationsNode) -> None:
    carl = node.user("carl", {"super_user": False})
    for operation in ("get_backup", "create_backup", "list_backups", "verify_backup", "delete_backup", "purge_backups", "restore_backup"):
        with pytest.raises(Problem) as caught:
            node.run(operation, carl, backup_id=1, keep_count=1)
        assert caught.value.status_code == 403


# --- restoring -------------------------------------------------------------------------------------------------------------------------------


def test_a_restore_into_the_running_server(node: OperationsNode) -> None:
    content = random.Random(1).randbytes(50_000)
    write(node, dogs(node), "x", photo=create_blob(content))
    expected = rows(dogs(node)).keys()
    job(node, "create_backup")
    write(node, dogs(node), *range(1000, 1010))
    write(node, dogs(node), "x", photo=create_blob(b"other" * 9000))
    before = dogs(node)
    held = node.store.snapshots.hold(before.database)
    record = job(node, "restore_backup")
    assert (record["status"], record["message"]) == ("COMPLETE", f"Successfully completed job: {record['id']}")
    after = dogs(node)
    assert after is not before
    assert rows(after).keys() == expected
    raw = after.get_raw("x")
    assert raw is not None
    assert b"".join(decode(raw)["photo"].chunks()) == content
    try:  # who reads the old one goes on, or is told
        assert before.entry_count(held.use()) == len(expected) + 10
    except (SnapshotLost, StoreFailure):
        pass
    held.abort()
    with pytest.raises(Problem):
        write(node, before, 1)
    write(node, after, 1, 2, 3)
    node.store.check()
    for _ in range(3):
        node.store.maintenance(1.0)
        node.store.end_turn()
    node.store.check()
    assert sorted(path.name for path in node.store.path.iterdir() if path.name.startswith(".re")) == []


def test_a_database_that_was_dropped_comes_back(node: OperationsNode) -> None:
    expected = rows(dogs(node))
    job(node, "create_backup")
    node.wait(lambda: node.store.drop_database("data"))
    assert "data" not in node.store.databases
    assert job(node, "restore_backup", backup_id=1)["status"] == "COMPLETE"
    assert rows(dogs(node)) == expected
    node.store.check()


def test_a_component_that_holds_the_database_open(node: OperationsNode) -> None:
    job(node, "create_backup")
    app = App("shop", Path("/shop"), {})
    app.definitions = [DOG]
    node.node.apps = [app]
    record = job(node, "restore_backup")
    assert (record["status"], record["message"]) == (
        "ERROR",
        "The database 'data' is held open by the component 'shop': stop the service and restore offline, with"
        " svc restore_backup database=data backup_id=1",
    )


def test_a_restore_asks_the_other_processes(node: OperationsNode) -> None:
    job(node, "create_backup")
    other = node.world.start(1)
    other.answer(HOLDER, lambda database: f"the component '{database} user'")
    record = job(node, "restore_backup")
    assert record["status"] == "ERROR" and "held open by the component 'data user'" in record["message"]
    other.hangs = True
    record = job(node, "restore_backup")
    assert record["status"] == "ERROR" and "Whether process 1 works with the database 'data' is not known" in record["message"]
    node.world.kill(other)
    assert job(node, "restore_backup")["status"] == "COMPLETE"


@pytest.mark.parametrize("step", ["prepare", "mark", "swap"])
def test_a_restore_that_fails(node: OperationsNode, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    """Before the exchange nothing has happened; in its middle the database is not loaded until it is repeated."""
    expected = rows(dogs(node))
    job(node, "create_backup")
    write(node, dogs(node), *range(1000, 1010))

    def fail(self: Restore) -> None:
        raise StoreFailure("no")

    with monkeypatch.context() as patch:
        patch.setattr(Restore, step, fail)
        record = job(node, "restore_backup")
    assert (record["status"], record["message"]) == ("ERROR", "no")
    if step == "swap":
        assert "data" not in node.store.databases
        with pytest.raises(Problem, match="was interrupted: repeat it"):
            node.store.open_database("data")
        assert refused(node, "get_backup")[0] == 404
        assert node.run("list_backups")[0]["backup_id"] == 1
    else:
        assert len(rows(dogs(node))) == len(expected) + 10
    assert job(node, "restore_backup")["status"] == "COMPLETE"
    assert rows(dogs(node)) == expected
    node.store.check()


def test_it_waits_for_a_long_write(node: OperationsNode) -> None:
    job(node, "create_backup")

    async def run() -> None:
        transaction = Transaction(node.store, "anna")
        for number in range(2000):
            transaction.put(dogs(node), number, {})
        table = dogs(node)
        writing = asyncio.get_running_loop().create_task(transaction.apply_long())
        await asyncio.sleep(0)
        answer = await node.operations.run(node.operations.prepare({"operation": "restore_backup"}, node.admin))
        [job_] = [job for job in node.node.jobs._jobs.values() if job.id == answer["job_id"]]
        assert job_.task is not None
        await asyncio.gather(writing, job_.task)
        assert table is not dogs(node)

    node.wait(run)
    assert len(rows(dogs(node))) == 50
