"""The audit log, the transaction log, and removing what is old."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from svc.auth.users import User
from svc.content.msgpack_reader import decode_msgpack
from svc.errors import NoSpace, Problem
from svc.messages import HeaderBlock, Request, Response
from svc.operations import log_entries, value_stream
from svc.operations.call import Call
from svc.store import Table, Transaction
from svc.store.schema import Attribute, TableDefinition
from svc.store.values.validation import Add
from tests.support.faults import Volume
from tests.support.operations import OperationsNode

START = 1767225600000.0


@pytest.fixture
def node(tmp_path: Path) -> Iterator[OperationsNode]:
    with OperationsNode(tmp_path) as node:
        yield node


@pytest.fixture
def dogs(node: OperationsNode) -> Table:
    return node.store.open_database("data").define_table(
        TableDefinition("dog", "data", attributes=(Attribute("id", primary_key=True), Attribute("name"), Attribute("age")))
    )


def write(node: OperationsNode, collect: Callable[[Transaction], object], user: str | None = "anna", operation: int = 0) -> float:
    """Write in a turn of its own, a second after the last; returns the time."""
    node.clock.advance(1)

    async def run() -> None:
        transaction = Transaction(node.store, user, operation)
        collect(transaction)
        await transaction.apply_in_turn()

    node.wait(run)
    return node.clock.wall() * 1000


def refused(node: OperationsNode, operation: str, **fields: Any) -> tuple[int, str]:
    with pytest.raises(Problem) as caught:
        node.run(operation, **fields)
    return caught.value.status_code, caught.value.message


def job(node: OperationsNode, operation: str, **fields: Any) -> dict[str, Any]:
    """The record of the job when it has ended."""
    job_id = node.run(operation, **fields)["job_id"]

    async def wait() -> None:
        tasks = [job.task for job in node.node.jobs._jobs.values()]
        await asyncio.gather(*[task for task in tasks if task is not None])

    node.wait(wait)
    [record] = node.run("get_job", id=job_id)
    return record  # type: ignore[no-any-return]


def request(node: OperationsNode, accept: str, **body: Any) -> tuple[Any, bool]:
    """(what a client gets for an operation, whether it was streamed)."""

    async def run() -> Any:
        sent = Request("POST", "/", HeaderBlock([("accept", accept)]), b"")
        result = node.operations.run(node.operations.prepare(body, node.admin, sent))
        result = await result if inspect.isawaitable(result) else result
        if not isinstance(result, Response):
            return result, False
        assert result.headers["Content-Type"].startswith(accept)
        chunks: list[bytes] = []
        for chunk in result.body:  # type: ignore[union-attr]
            chunks.append(chunk)  # type: ignore[arg-type]
            await asyncio.sleep(0)
        return b"".join(chunks), True

    return node.wait(run)  # type: ignore[no-any-return]


# --- the audit log --------------------------------------------------------------------------------------------------------------------


async def _finished(node: OperationsNode, call: Call) -> None:
    result = node.operations.run(call)
    if inspect.isawaitable(result):
        await result
    if call.pending_commit is not None:
        node.store.commit_turn()


def some_history(node: OperationsNode, dogs: Table) -> list[float]:
    return [
        write(node, lambda t: (t.insert(dogs, 1, {"name": "Penny", "age": 1}), t.insert(dogs, 2, {"name": "Kato"})), operation=1),
        write(node, lambda t: t.patch(dogs, 1, {"age": Add(1)}), "bob"),
        write(node, lambda t: (t.put(dogs, 2, {"name": "Kato", "age": 5}), t.put(dogs, 3, {"name": "Yeti"}))),
        write(node, lambda t: (t.delete(dogs, 1), t.put(dogs, 2, {"name": "Riley"}), t.delete(dogs, 3)), None),
    ]


def test_the_trace_is_shown_where_there_is_one(node: OperationsNode, dogs: Table) -> None:
    """Spec: tracing §2."""
    trace = "0af7651916cd43dd8448eb211c80319c"
    fields = [("traceparent", f"00-{trace}-b7ad6b7169203331-01")]
    for record, pairs in (({"id": 1}, fields), ({"id": 2}, [])):
        sent = Request("POST", "/", HeaderBlock(pairs))
        call = node.operations.prepare({"operation": "insert", "table": "dog", "records": [record]}, node.admin, sent)
        assert call.begin().trace_id == (bytes.fromhex(trace) if pairs else None)
        node.wait(lambda call=call: _finished(node, call))
    for operation in ("read_audit_log", "read_transaction_log"):
        traced, other = node.run(operation, table="dog")
        assert traced["trace_id"] == trace and traced["hash_values"] == [1]
        assert "trace_id" not in other and other["hash_values"] == [2]
    found = request(node, "text/csv", operation="read_transaction_log", table="dog")[0]
    assert found is not None


def test_an_increment_that_makes_a_record_is_shown_carried_out(node: OperationsNode, dogs: Table) -> None:
    write(node, lambda t: t.patch(dogs, 1, {"name": "Penny", "age": Add(2)}))
    write(node, lambda t: t.put(dogs, 1, {"age": 7}, expires_at=node.clock.wall() * 1000 + 500))
    node.clock.advance(1)
    write(node, lambda t: t.patch(dogs, 1, {"age": Add(3)}))
    shown = node.run("read_audit_log", table="dog")
    assert [entry["records"] for entry in shown] == [[{"id": 1, "name": "Penny", "age": 2}], [{"age": 7, "id": 1}], [{"id": 1, "age": 3}]]


def test_entries_by_time(node: OperationsNode, dogs: Table) -> None:
    times = some_history(node, dogs)
    expected = [
        {
            "operation": "insert",
            "user_name": "anna",
            "timestamp": times[0],
            "hash_values": [1, 2],
            "records": [{"name": "Penny", "age": 1, "id": 1}, {"name": "Kato", "id": 2}],
        },
        {
            "operation": "update",
            "user_name": "bob",
            "timestamp": times[1],
            "hash_values": [1],
            "records": [{"id": 1, "age": 2}],
            "original_records": [{"name": "Penny", "age": 1, "id": 1}],
        },
        {
            "operation": "upsert",
            "user_name": "anna",
            "timestamp": times[2],
            "hash_values": [2, 3],
            "records": [{"name": "Kato", "age": 5, "id": 2}, {"name": "Yeti", "id": 3}],
            "original_records": [{"name": "Kato", "id": 2}],
        },
        {
            "operation": "delete",
            "user_name": None,
            "timestamp": times[3],
            "hash_values": [1, 3],
            "records": [],
            "original_records": [{"name": "Penny", "age": 2, "id": 1}, {"name": "Yeti", "id": 3}],
        },
        {
            "operation": "upsert",
            "user_name": None,
            "timestamp": times[3],
            "hash_values": [2],
            "records": [{"name": "Riley", "id": 2}],
            "original_records": [{"name": "Kato", "age": 5, "id": 2}],
        },
    ]
    assert node.run("read_audit_log", table="dog") == expected
    assert node.run("read_audit_log", schema="data", table="dog", search_type="timestamp", search_values=[]) == expected
    assert node.run("read_audit_log", table="dog", search_values=[times[1]]) == expected[1:]
    assert node.run("read_audit_log", table="dog", search_values=[times[1], times[2]]) == expected[1:3], "both ends included"
    assert node.run("read_audit_log", table="dog", search_values=[times[3] + 1]) == []


def test_entries_by_user(node: OperationsNode, dogs: Table) -> None:
    times = some_history(node, dogs)

    def seen(*names: str) -> dict[str, list[float]]:
        found = node.run("read_audit_log", table="dog", search_type="username", search_values=list(names))
        return {name: [entry["timestamp"] for entry in entries] for name, entries in found.items()}

    assert seen("anna") == {"anna": [times[0], times[2]]}
    assert seen("bob", "nobody", "bob") == {"bob": [times[1]], "nobody": []}
    assert seen() == {"anna": [times[0], times[2]], "bob": [times[1]]}


def test_entries_by_id(node: OperationsNode, dogs: Table) -> None:
    some_history(node, dogs)
    write(node, lambda t: t.insert(dogs, 1, {"name": "New"}), operation=1)
    write(node, lambda t: t.put(dogs, "x", {"name": "X"}))

    def seen(*ids: Any) -> dict[str, list[tuple[str, list[Any]]]]:
        found = node.run("read_audit_log", table="dog", search_type="hash_value", search_values=list(ids))
        return {name: [(entry["operation"], entry["hash_values"]) for entry in entries] for name, entries in found.items()}

    assert seen(1, "x", 9, "\ud800", [1, 2]) == {
        "1": [("insert", [1]), ("update", [1]), ("delete", [1]), ("insert", [1])],
        "x": [("upsert", ["x"])],
        "9": [],
        "\ud800": [],
        "1/2": [],
    }


def test_the_newest_entries_of_a_record(node: OperationsNode, dogs: Table) -> None:
    some_history(node, dogs)
    write(node, lambda t: t.insert(dogs, 1, {"name": "New"}), operation=1)

    def seen(**fields: Any) -> list[str]:
        found = node.run("read_audit_log", table="dog", search_type="hash_value", search_values=[1], order="desc", **fields)
        return [entry["operation"] for entry in found["1"]]

    assert seen(limit=10) == ["insert", "delete", "update", "insert"]
    assert seen(limit=2) == ["insert", "delete"] and seen(limit=2, start=1) == ["delete", "update"] and seen(limit=2, start=4) == []
    assert seen(limit=2, start=3) == ["insert"] and seen(start=1) == ["delete", "update", "insert"]
    assert refused(node, "read_audit_log", table="dog", limit=0) == (400, "'limit' must be greater than or equal to 1")


def test_what_expires_was_deleted_by_nobody(node: OperationsNode, dogs: Table) -> None:
    node.store.maintenance(1.0)
    write(node, lambda t: t.put(dogs, 1, {"name": "Penny"}, expires_at=node.clock.wall() * 1000 + 5000))
    node.clock.advance(100)
    node.store.maintenance(1.0)
    node.store.end_turn()
    entry = node.run("read_audit_log", table="dog")[-1]
    assert (entry["operation"], entry["user_name"], entry["original_records"]) == ("delete", None, [{"name": "Penny", "id": 1}])


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"search_type": "colour"}, (400, "Invalid searchType 'colour'")),
        ({"search_type": ["timestamp"]}, (400, "Invalid searchType '['timestamp']'")),
        ({"search_values": ["now"]}, (400, "'search_values' must be numbers")),
        ({"search_values": [True]}, (400, "'search_values' must be numbers")),
        ({"search_values": [1, 2, 3]}, (400, "'search_values' must contain at most 2 items")),
        ({"search_values": 5}, (400, "'search_values' must be an array")),
        ({"search_type": "username", "search_values": [5]}, (400, "'search_values' must be an array of strings")),
        ({"search_type": "hash_value"}, (400, "'search_values' is required")),
        ({"search_type": "hash_value", "search_values": [{}]}, (400, "'search_values' must be strings or numbers")),
        ({"table": "cat"}, (404, "Table 'data.cat' does not exist")),
        ({"database": "no"}, (404, "database 'no' does not exist")),
    ],
)
def test_bad_searches(node: OperationsNode, dogs: Table, fields: dict[str, Any], expected: tuple[int, str]) -> None:
    assert refused(node, "read_audit_log", **{"table": "dog", **fields}) == expected


def test_a_table_without_audit(node: OperationsNode) -> None:
    node.store.open_database("data").define_table(
        TableDefinition("quiet", "data", attributes=(Attribute("id", primary_key=True),), audit=False)
    )
    text = "To use this operation audit log must be enabled in svc-config.yaml"
    assert refused(node, "read_audit_log", table="quiet") == (400, text)
    assert refused(node, "delete_audit_logs_before", table="quiet", timestamp=5) == (400, text)
    assert node.run("read_transaction_log", table="quiet") == []
    assert refused(node, "read_transaction_log", database="system", table="svc_session") == (400, text)


def test_secrets_of_users_do_not_leave(node: OperationsNode) -> None:
    users = node.store.databases["system"].tables["svc_user"]
    write(node, lambda t: t.patch(users, "admin", {"password": "another hash", "refresh_token": "token", "active": True}))
    fields = {"database": "system", "table": "svc_user"}
    for found in (
        node.run("read_audit_log", **fields),
        node.run("read_audit_log", **fields, search_type="hash_value", search_values=["admin"]),
        node.run("read_audit_log", **fields, search_type="username"),
        node.run("read_transaction_log", **fields),
    ):
        text = json.dumps(found)
        assert "admin" in text
        assert not any(name in text for name in ("password", "refresh_token", "hash_function", "another hash"))


# --- the transaction log -----------------------------------------------------------------------------------------------------------------


def test_the_transaction_log(node: OperationsNode, dogs: Table) -> None:
    times = some_history(node, dogs)
    found = node.run("read_transaction_log", table="dog")
    assert [entry["timestamp"] for entry in found] == [*times, times[3]]
    assert found[1] == {
        "operation": "update",
        "user": "bob",
        "user_name": "bob",
        "timestamp": times[1],
        "hash_values": [1],
        "records": [{"id": 1, "age": 2}],
    }
    assert node.run("read_transaction_log", table="dog", limit=2) == found[:2]
    assert node.run("read_transaction_log", table="dog", **{"from": times[1], "to": times[2]}) == found[1:3]
    assert node.run("read_transaction_log", table="dog", **{"from": times[2], "limit": 1}) == found[2:3]
    assert refused(node, "read_transaction_log", table="dog", limit=0) == (400, "'limit' must be greater than or equal to 1")
    assert refused(node, "read_transaction_log", table="dog", **{"from": "x"}) == (400, "'from' must be a number")


# --- long answers -------------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def many(node: OperationsNode, dogs: Table, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Two hundred transactions of two users; a slice of work is over after each value."""
    times = [write(node, lambda t, number=number: t.put(dogs, number % 20, {"age": number}), f"user{number % 2}") for number in range(200)]  # type: ignore[misc]
    monkeypatch.setattr(value_stream, "SLICE", -1.0)
    return times


def test_a_long_answer_is_streamed_in_the_type_that_is_asked_for(node: OperationsNode, many: list[float]) -> None:
    expected = node.run("read_audit_log", table="dog")
    assert [entry["timestamp"] for entry in expected] == many
    body, streamed = request(node, "application/json", operation="read_audit_log", table="dog")
    assert streamed
    assert json.loads(body) == expected
    body, streamed = request(node, "application/x-msgpack", operation="read_audit_log", table="dog")
    assert streamed
    assert decode_msgpack(body) == expected
    body, streamed = request(node, "text/csv", operation="read_transaction_log", table="dog")
    assert streamed
    lines = body.decode().splitlines()
    assert len(lines) == 201
    assert "user_name" in lines[0]


def test_a_long_object_is_streamed_as_json(node: OperationsNode, many: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    for fields in ({"search_type": "username", "search_values": []}, {"search_type": "hash_value", "search_values": [1, 2, "no"]}):
        body = {"operation": "read_audit_log", "table": "dog", **fields}
        expected = node.run(**body)
        sent, streamed = request(node, "application/json", **body)
        assert streamed
        assert json.loads(sent) == expected
        assert request(node, "application/cbor", **body) == (expected, False)
        monkeypatch.setattr(value_stream, "MOST_VALUES", 5)
        with pytest.raises(Problem, match="ask for JSON"):
            request(node, "application/cbor", **body)
        monkeypatch.setattr(value_stream, "MOST_VALUES", 10_000)
    assert len(node.store.snapshots) == 0


def test_an_answer_that_nobody_reads_lets_go_of_its_snapshot(node: OperationsNode, many: list[float]) -> None:
    async def run() -> None:
        for body in ({"search_type": "timestamp"}, {"search_type": "username"}):
            sent = Request("POST", "/", HeaderBlock([("accept", "application/json")]), b"")
            call = node.operations.prepare({"operation": "read_audit_log", "table": "dog", **body}, node.admin, sent)
            response = await node.operations.run(call)
            next(iter(response.body))
            assert len(node.store.snapshots) == 1
            response.body.close()
            assert len(node.store.snapshots) == 0

    node.wait(run)


def test_a_huge_transaction_is_shown_in_parts(node: OperationsNode, dogs: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_entries, "TOGETHER", 10)
    write(node, lambda t: [t.put(dogs, number, {}) for number in range(25)])
    found = node.run("read_audit_log", table="dog")
    assert [len(entry["records"]) for entry in found] == [10, 10, 5]
    assert len({entry["timestamp"] for entry in found}) == 1


# --- removing ---------------------------------------------------------------------------------------------------------------------------------


def test_log_entries_of_one_table_are_removed(node: OperationsNode, dogs: Table) -> None:
    cats = node.store.databases["data"].define_table(TableDefinition("cat", "data", attributes=(Attribute("id", primary_key=True),)))
    times = some_history(node, dogs)
    write(node, lambda t: t.put(cats, 1, {}))
    record = job(node, "delete_audit_logs_before", table="dog", timestamp=times[2])
    assert (record["status"], record["message"]) == ("COMPLETE", f"Successfully completed job: {record['id']}")
    assert record["progress"]["done"] == 3
    assert [entry["timestamp"] for entry in node.run("read_audit_log", table="dog")] == [times[2], times[3], times[3]]
    assert node.run("read_audit_log", table="dog", search_type="hash_value", search_values=[1])["1"][0]["operation"] == "delete"
    node.store.check()
    job(node, "delete_transaction_logs_before", table="dog", timestamp=times[3] + 100_000)
    assert node.run("read_audit_log", table="dog") == []
    assert len(node.run("read_audit_log", table="cat")) == 1
    node.store.check()
    job(node, "delete_audit_logs_before", table="cat", timestamp=START * 2)
    assert node.run("read_audit_log", table="cat") == [], "also the newest entry of the database"
    node.store.check()
    write(node, lambda t: t.put(cats, 1, {}))
    assert len(node.run("read_audit_log", table="cat")) == 1
    write(node, lambda t: t.put(dogs, 1, {}))
    write(node, lambda t: t.put(dogs, 1, {}))
    assert len(node.run("read_audit_log", table="dog", search_type="hash_value", search_values=[1])["1"]) == 2
    node.store.check()


def test_removing_needs_a_time(node: OperationsNode, dogs: Table) -> None:
    for operation in ("delete_audit_logs_before", "delete_transaction_logs_before"):
        assert refused(node, operation, table="dog") == (400, "'timestamp' is required")
        assert refused(node, operation, table="dog", timestamp="x") == (400, "'timestamp' must be a number")
        assert refused(node, operation, timestamp=1) == (400, "'table' is required")
        assert refused(node, operation, table="cat", timestamp=1) == (404, "Table 'data.cat' does not exist")


@pytest.mark.parametrize("indexed", [True, False])
@pytest.mark.parametrize("kind", ["Float", "Date"])
def test_old_records_are_deleted(node: OperationsNode, monkeypatch: pytest.MonkeyPatch, indexed: bool, kind: str) -> None:
    monkeypatch.setattr("svc.store.writing.delete_records_before.BATCH", 7)
    made = Attribute("made", kind, created_time=True, indexed=indexed)
    table = node.store.open_database("data").define_table(
        TableDefinition("dog", "data", attributes=(Attribute("id", primary_key=True), made))
    )
    for number in range(30):
        write(node, lambda t, number=number: t.put(table, number, {}))  # type: ignore[misc]
    write(node, lambda t: t.put(table, 1, {}))  # keeps the time it was made
    date = datetime.fromtimestamp(START / 1000 + 21, UTC)
    record = job(node, "delete_records_before", table="dog", date=date.isoformat())
    assert (record["status"], record["message"]) == ("COMPLETE", "20 of 20 records successfully deleted")
    date = datetime.fromtimestamp(START / 1000 + 22, UTC)
    record = job(node, "delete_records_before", table="dog", date=date.isoformat())
    assert record["message"] == "1 of 1 record successfully deleted"
    kept = [table.key_of(raw) for _, raw in table.scan(table.database.snapshot())]
    assert kept == list(range(21, 30))
    assert node.run("read_audit_log", table="dog")[-1]["user_name"] == "admin"
    record = job(node, "delete_files_before", table="dog", date="2026-01-01")
    assert (record["status"], record["message"]) == ("COMPLETE", "No records found to delete")
    node.store.check()


def test_deleting_old_records_needs_to_know_their_age(node: OperationsNode, dogs: Table) -> None:
    record = job(node, "delete_records_before", table="dog", date="2026-01-01")
    assert record["status"] == "ERROR"
    assert record["message"] == (
        "Table must have a '__createdtime__' attribute or @createdTime timestamp defined to perform this operation"
    )
    assert refused(node, "delete_records_before", table="dog", date="soon") == (400, "'date' must be in ISO 8601 date format")
    assert refused(node, "delete_records_before", table="cat", date="2026-01-01") == (404, "Table 'data.cat' does not exist")
    status, text = refused(node, "delete_records_before", database="system", table="svc_user", date="2026-01-01")
    assert (status, text.startswith("The 'system' database, tables and records")) == (403, True)


def test_reading_is_for_super_users(node: OperationsNode, dogs: Table) -> None:
    carl: User = node.user("carl", {"super_user": False})
    for operation in ("read_audit_log", "read_transaction_log", "delete_audit_logs_before", "delete_records_before"):
        with pytest.raises(Problem) as caught:
            node.run(operation, carl, table="dog", timestamp=1, date="2026-01-01")
        assert caught.value.status_code == 403


@pytest.mark.usefixtures("real_reserve")
def test_entries_are_removed_on_a_full_volume(node: OperationsNode, dogs: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """The database with the records of jobs is full too."""
    times = some_history(node, dogs)
    Volume(monkeypatch).room = 0
    jobs = node.node.jobs.records.table
    with pytest.raises(NoSpace):
        for number in range(10_000):
            write(node, lambda t, number=number: t.put(jobs, f"filling{number}", {"message": "x" * 3000}))  # type: ignore[misc]
    assert refused(node, "csv_data_load", table="dog", data="id\n1\n")[0] == 507
    for operation in ("delete_audit_logs_before", "delete_transaction_logs_before"):
        assert job(node, operation, table="dog", timestamp=times[2])["status"] == "COMPLETE"
    assert [entry["timestamp"] for entry in node.run("read_audit_log", table="dog")] == [times[2], times[3], times[3]]
    assert "must have" in job(node, "delete_records_before", table="dog", date="2026-01-01")["message"]


# --- a part of what there is --------------------------------------------------------------------------------------------------------------


@pytest.fixture
def written(node: OperationsNode, dogs: Table) -> list[float]:
    """Six writes in turns of their own, of two users in turns, to two records in turns; the times."""
    cats = node.store.open_database("data").define_table(TableDefinition("cat", "data", attributes=(Attribute("id", primary_key=True),)))
    times = []
    for number in range(6):
        record = {"id": number % 2, "age": number}
        times.append(write(node, lambda t, record=record: t.put(dogs, record["id"], record), ("anna", "ben")[number % 2]))  # type: ignore[misc]
        for key in range(300):  # more than are passed at once
            write(node, lambda t, key=key: t.put(cats, key, {"id": key}))  # type: ignore[misc]
    return times


def ages(entries: list[dict[str, Any]]) -> list[int]:
    return [record["age"] for entry in entries for record in entry["records"]]


@pytest.mark.parametrize(
    "fields, expected",
    [
        ({}, [0, 1, 2, 3, 4, 5]),
        ({"order": "desc"}, [5, 4, 3, 2, 1, 0]),
        ({"order": "desc", "limit": 2}, [5, 4]),
        ({"order": "desc", "start": 2, "limit": 3}, [3, 2, 1]),
        ({"start": 5}, [5]),
        ({"start": 6, "order": "desc"}, []),
        ({"from": 1, "until": 3, "order": "desc"}, [3, 2, 1]),
        ({"from": 1, "until": 3, "order": "asc", "start": 1}, [2, 3]),
        ({"from": 4, "search_values": [0, 4]}, [4]),
        ({"until": 1, "order": "desc"}, [1, 0]),
        ({"search_type": "username", "search_values": ["ben"], "order": "desc", "limit": 2}, [5, 3]),
        ({"search_type": "username", "search_values": ["ben"], "from": 2}, [3, 5]),
        ({"search_type": "hash_value", "search_values": [0], "order": "desc"}, [4, 2, 0]),
        ({"search_type": "hash_value", "search_values": [0], "until": 3, "order": "desc", "start": 1, "limit": 1}, [0]),
    ],
)  # fmt: skip
def test_a_part_of_the_audit_log(node: OperationsNode, written: list[float], fields: dict[str, Any], expected: list[int]) -> None:
    """Times are given as the numbers of the writes."""
    timed = {name: written[value] if name in ("from", "until") else value for name, value in fields.items()}
    if "search_type" not in fields and "search_values" in fields:
        timed["search_values"] = [written[number] for number in fields["search_values"]]
    found = node.run("read_audit_log", table="dog", **timed)
    assert ages(found if isinstance(found, list) else next(iter(found.values()))) == expected


def test_limits_count_changes_also_within_a_transaction(node: OperationsNode, dogs: Table) -> None:
    write(node, lambda t: [t.put(dogs, key, {"id": key, "age": key}) for key in range(5)])
    [entry] = node.run("read_audit_log", table="dog", limit=3)
    assert entry["hash_values"] == [0, 1, 2]
    [entry] = node.run("read_audit_log", table="dog", order="desc", start=1, limit=2)
    assert entry["hash_values"] == [3, 2]


def test_the_transaction_log_from_its_end(node: OperationsNode, written: list[float]) -> None:
    assert ages(node.run("read_transaction_log", table="dog", order="desc", limit=2)) == [5, 4]
    assert ages(node.run("read_transaction_log", table="dog", order="desc", to=written[2], **{"from": written[1]})) == [2, 1]


def test_parts_that_are_none(node: OperationsNode, dogs: Table) -> None:
    for fields in ({"order": "up"}, {"start": -1}, {"limit": 0}, {"from": "x"}):
        status, text = refused(node, "read_audit_log", table="dog", **fields)
        assert status == 400 and next(iter(fields)) in text
