"""svc.operations.records: the rules of writing records, one by one, and what nobody should send."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from svc.auth.passwords import verify_password
from svc.errors import Problem, Refusal
from svc.operations.record_writes import RecordFaults, split_keys
from svc.store.system import SYSTEM_WRITE
from svc.store.values.records import decode
from tests.support.operations import OperationsNode


@pytest.fixture
def node(tmp_path: Path) -> Iterator[OperationsNode]:
    with OperationsNode(tmp_path) as node:
        node.run("create_table", table="dog")
        yield node
        node.store.check()


def fault(node: OperationsNode, operation: str, user: Any = None, **fields: Any) -> tuple[int, str]:
    with pytest.raises(Problem) as caught:
        node.run(operation, user, **{"table": "dog", **fields})
    return caught.value.status_code, caught.value.message


def records(node: OperationsNode, table: str = "dog") -> dict[Any, dict[str, Any]]:
    """Without times, by key."""
    found = node.store.databases["data"].tables[table]
    rows = [decode(raw) for _, raw in found.scan(found.database.snapshot())]
    return {row[found.primary_key]: {name: value for name, value in row.items() if not name.startswith("__")} for row in rows}


def times(node: OperationsNode, key: Any) -> tuple[Any, Any]:
    raw = node.store.databases["data"].tables["dog"].get_raw(key)
    assert raw is not None
    return decode(raw)["__createdtime__"], decode(raw)["__updatedtime__"]


# --- rules 1 to 4 -----------------------------------------------------------------------------------------------------------------------


def test_one_transaction_and_what_it_made(node: OperationsNode) -> None:
    answer = node.run("insert", table="dog", records=[{"id": 1, "name": "Rex"}, {"id": 2, "age": 5}])
    assert answer == {
        "message": "inserted 2 of 2 records",
        "inserted_hashes": [1, 2],
        "skipped_hashes": [],
        "new_attributes": ["name", "age"],
        "txn_time": answer["txn_time"],
    }
    newest = node.store.databases["data"].log.newest(node.store.databases["data"].snapshot())
    assert newest is not None and newest.version == answer["txn_time"] and newest.operation == 1 and newest.user == "admin"


def test_a_declared_table_learns_nothing(node: OperationsNode) -> None:
    node.run("create_table", table="cat", attributes=[{"name": "id", "type": "Int"}])
    answer = node.run("insert", table="cat", records=[{"id": 1, "name": "Tom"}])
    assert "new_attributes" not in answer and records(node, "cat") == {1: {"id": 1, "name": "Tom"}}


def test_insert_skips_what_exists(node: OperationsNode) -> None:
    node.run("insert", table="dog", records=[{"id": 1, "name": "Rex"}])
    answer = node.run("insert", table="dog", records=[{"id": 2}, {"id": 1, "name": "no"}, {"id": 3}, {"id": 2, "name": "no"}])
    assert answer["message"] == "inserted 2 of 4 records"
    assert answer["inserted_hashes"] == [2, 3] and answer["skipped_hashes"] == [1, 2]
    assert records(node) == {1: {"id": 1, "name": "Rex"}, 2: {"id": 2}, 3: {"id": 3}}


def test_update_and_upsert_merge(node: OperationsNode) -> None:
    node.run("insert", table="dog", records=[{"id": 1, "name": "Rex", "age": 5}])
    answer = node.run("update", table="dog", records=[{"id": 1, "age": 6, "color": None}, {"id": 9, "age": 1}])
    assert answer["message"] == "updated 1 of 2 records"
    assert (answer["update_hashes"], answer["skipped_hashes"], answer["new_attributes"]) == ([1], [9], ["color"])
    answer = node.run("upsert", table="dog", records=[{"id": 1, "age": 7}, {"id": 2, "age": 1}])
    assert answer["message"] == "upserted 2 of 2 records" and answer["upserted_hashes"] == [1, 2] and "skipped_hashes" not in answer
    assert records(node) == {1: {"id": 1, "name": "Rex", "age": 7, "color": None}, 2: {"id": 2, "age": 1}}


@pytest.mark.parametrize("operation", ["insert", "upsert"])
@pytest.mark.parametrize("missing", [{}, {"id": None}, {"id": ""}])
def test_keys_are_made(node: OperationsNode, operation: str, missing: dict[str, Any]) -> None:
    listed = "inserted_hashes" if operation == "insert" else "upserted_hashes"
    first, second = node.run(operation, table="dog", records=[{**missing, "n": 1}, {**missing, "n": 2}])[listed]
    assert type(first) is int and second == first + 1 and records(node)[first] == {"id": first, "n": 1}
    for kind in ("String", "ID"):
        node.run("create_table", table=kind, attributes=[{"name": "id", "type": kind}])
        [key] = node.run(operation, table=kind, records=[missing])[listed]
        assert len(key) == 36 and list(records(node, kind)) == [key]
    node.run("create_table", table="Date", attributes=[{"name": "id", "type": "Float"}])
    assert fault(node, operation, table="Date", records=[missing])[0] == 400


def test_many_records(node: OperationsNode) -> None:
    answer = node.run("insert", table="dog", records=[{"id": number, "n": number} for number in range(300)] + [{"n": 1}] * 200)
    assert answer["message"] == "inserted 500 of 500 records" and len(set(answer["inserted_hashes"])) == 500
    answer = node.run("update", table="dog", records=[{"id": number, "n": -1} for number in range(250, 350)])
    assert answer["message"] == "updated 50 of 100 records" and answer["skipped_hashes"] == list(range(300, 350))
    answer = node.run("delete", table="dog", ids=list(range(100, 400)))
    assert answer["message"] == "200 of 300 records successfully deleted" and answer["skipped_hashes"] == list(range(300, 400))
    assert len(records(node)) == 300


def test_nothing_to_write(node: OperationsNode) -> None:
    for operation, listed in (("insert", "inserted_hashes"), ("update", "update_hashes"), ("upsert", "upserted_hashes")):
        answer = node.run(operation, table="dog", records=[])
        assert answer["message"].endswith("0 of 0 records") and answer[listed] == [] and answer["txn_time"] > 0
    assert node.run("delete", table="dog", ids=[])["message"] == "0 of 0 records successfully deleted"


def test_the_records_of_the_caller_stay_as_they_are(node: OperationsNode) -> None:
    sent = [{"id": 1, "n": {"deep": [1]}}, {"n": 2}]
    for operation in ("insert", "update", "upsert"):
        if operation == "update":
            sent = sent[:1]
        before = [dict(record) for record in sent]
        node.run(operation, table="dog", records=sent)
        assert sent == before


# --- rules 5 to 9 -----------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("record", [{"n": 1}, {"id": None}, {"id": ""}])
def test_update_needs_a_key(node: OperationsNode, record: dict[str, Any]) -> None:
    text = "a valid hash attribute must be provided with update record, check log for more info"
    assert fault(node, "update", records=[{"id": 1}, record]) == (400, text)


@pytest.mark.parametrize("operation", ["insert", "update", "upsert"])
@pytest.mark.parametrize("key", ["null", "undefined"])
def test_keys_that_were_lost(node: OperationsNode, operation: str, key: str) -> None:
    text = f"Invalid hash value: '{key}' is not a valid hash attribute value, check log for more info"
    assert fault(node, operation, records=[{"id": 1}, {"id": key}]) == (400, text)
    assert records(node) == {}


@pytest.mark.parametrize("operation", ["insert", "update", "upsert"])
@pytest.mark.parametrize(
    ("record", "text"),
    [
        ({"null": 1}, "Invalid attribute name: 'null'"),
        ({"undefined": 1, "": 2}, "Invalid attribute name: 'undefined'. Invalid attribute name: ''"),
        ({"a/b": 1}, "Attribute names cannot include backticks or forward slashes"),
        ({"a`b": 1, "c`d": 2}, "Attribute names cannot include backticks or forward slashes"),
        (
            {"x" * 251: 1},
            f"transaction aborted due to attribute name {'x' * 251} being too long. Attribute names cannot be longer than 250 bytes.",
        ),
    ],
)
@pytest.mark.parametrize("declared", [False, True])
def test_names_that_no_attribute_has(node: OperationsNode, operation: str, record: dict[str, Any], text: str, declared: bool) -> None:
    table = "dog"
    if declared:
        table = "cat"
        node.run("create_table", table=table, attributes=[{"name": "id"}])
    assert fault(node, operation, table=table, records=[{"id": 1}, {"id": 2, **record}]) == (400, text)
    assert records(node, table) == {}
    assert node.run("describe_table", table="dog")["attributes"][3:] == []


def test_names_of_all_records_are_looked_at(node: OperationsNode) -> None:
    sent = [{"id": 1, "null": 1}, {"id": 2, "ok": 1}, {"id": 3, "a/b": 1}]
    assert fault(node, "insert", records=sent)[1] == (
        "Invalid attribute name: 'null'. Attribute names cannot include backticks or forward slashes"
    )


@pytest.mark.parametrize("name", ["a\0b", "\ud800"])
def test_names_that_the_store_cannot_have(node: OperationsNode, name: str) -> None:
    assert fault(node, "insert", records=[{"id": 1, "good": 1, name: 2}])[0] == 400
    assert records(node) == {} and node.run("describe_table", table="dog")["attributes"][3:] == []


def test_unusual_names(node: OperationsNode) -> None:
    sent = {"id": 1, "\U0001f600": 1, "with space": 2, "$x": 3, "x" * 250: 4, "a.b": 5, "__proto__": 6}
    node.run("insert", table="dog", records=[sent])
    raw = node.store.databases["data"].tables["dog"].get_raw(1)
    assert raw is not None and sent.items() <= decode(raw).items()


def test_times_are_the_servers(node: OperationsNode) -> None:
    sent = {"__createdtime__": 5, "__updatedtime__": "yesterday"}
    for operation in ("insert", "update", "upsert"):
        node.clock.advance(1)
        node.run(operation, table="dog", records=[{"id": 1, **sent}])
    created, updated = times(node, 1)
    assert updated == int(node.clock.wall() * 1000) and created == updated - 2000
    node.run("create_table", table="cat", attributes=[{"name": "id"}])
    node.run("insert", table="cat", records=[{"id": 1, **sent}])
    raw = node.store.databases["data"].tables["cat"].get_raw(1)
    assert raw is not None and decode(raw) == {"id": 1}


def test_roles_with_attribute_rights_may_not_send_times(node: OperationsNode) -> None:
    node.run("insert", table="dog", records=[{"id": 1, "name": "Rex"}])
    rights = {"read": True, "insert": True, "update": True, "delete": True}
    listed = {**rights, "attribute_permissions": [{"attribute_name": "name", "read": True, "insert": True, "update": True}]}
    user = node.user("ann", {"data": {"tables": {"dog": listed}}})
    text = "Internal timestamp attributes - '__createdtime__' and '__updatedtime__' - cannot be inserted to or updated by svc users."
    for operation in ("insert", "update", "upsert"):
        assert fault(node, operation, user, records=[{"id": 1, "__updatedtime__": 1}]) == (403, text)
    free = node.user("bob", {"data": {"tables": {"dog": {**rights, "attribute_permissions": []}}}})
    node.run("update", free, table="dog", records=[{"id": 1, "__updatedtime__": 1, "name": "Max"}])
    assert records(node)[1]["name"] == "Max"


def test_values_of_declared_attributes_are_checked(node: OperationsNode) -> None:
    node.run("create_table", table="cat", attributes=[{"name": "id", "type": "Int"}, {"name": "age", "type": "Int", "nullable": False}])
    for operation in ("insert", "upsert"):
        status, text = fault(node, operation, table="cat", records=[{"id": 1, "age": 1}, {"id": 2, "age": "old"}])
        assert (status, text) == (400, 'Element 1 (2): Value "old" in property age must be an integer from -2147483648 to 2147483647')
        status, text = fault(node, operation, table="cat", records=[{"id": 1, "age": 1}, {"id": 2}])
        assert status == 400 and text in ("Element 1 (2): Property age is required", "Property age is required (2, element 1)")
        status, text = fault(node, operation, table="cat", records=[{"id": 2}])
        assert (status, text) == (400, "Property age is required")
    node.run("insert", table="cat", records=[{"id": 1, "age": 1}])
    assert fault(node, "update", table="cat", records=[{"id": 1, "age": None}])[0] == 400
    assert records(node, "cat") == {1: {"id": 1, "age": 1}}


def told(node: OperationsNode, operation: str, sent: list[dict[str, Any]]) -> tuple[str, list[dict[str, Any]]]:
    with pytest.raises(Problem) as caught:
        node.run(operation, table="cat", records=sent)
    assert records(node, "cat") in ({}, {5: {"id": 5, "age": 1}})
    return caught.value.message, [dict(each) for each in caught.value.faults]


@pytest.mark.parametrize("operation", ["insert", "update", "upsert"])
@pytest.mark.parametrize("number", [10, 200], ids=["in one turn", "in slices"])
def test_faulty_records_are_named_together(node: OperationsNode, operation: str, number: int) -> None:
    node.run(
        "create_table",
        table="cat",
        attributes=[{"name": "id", "type": "Int"}, {"name": "age", "type": "Int"}, {"name": "name", "type": "String"}],
    )
    sent: list[dict[str, Any]] = [{"id": at, "age": at} for at in range(number)]
    sent[3] = {"id": 3, "age": "x", "name": 5}
    sent[7] = {"id": "seven", "age": 1}
    sent[8] = {"id": 8, "age": True}
    message, faults = told(node, operation, sent)
    assert [(each["index"], each["key"], each.get("attribute")) for each in faults][:2] == [(3, 3, "age"), (3, 3, "name")]
    assert (faults[-1]["index"], faults[-1]["key"], faults[-1]["attribute"]) == (8, 8, "age")
    assert message.startswith('Element 3 (3): Value "x" in property age must be an integer') and "Element 8 (8): " in message
    assert len(told(node, operation, [{"id": at, "age": "x"} for at in range(number * 3)])[1]) == 20


def test_faults_with_words_of_their_own_are_named_too(node: OperationsNode) -> None:
    node.run("create_table", table="cat", attributes=[{"name": "id", "type": "Int"}, {"name": "age", "type": "Int"}])
    message, faults = told(node, "update", [{"id": 1}, {"age": 2}, {"id": 3, "age": "x"}, {"age": 4}, {"id": 5, "a/b": 4}])
    assert message.startswith("a valid hash attribute must be provided with update record, check log for more info. Attribute names cannot")
    assert [(each["index"], each.get("key"), each.get("attribute")) for each in faults] == [(1, None, None), (3, None, None), (4, 5, "a/b")]
    _, faults = told(node, "insert", [{"id": 1}, {"id": 2, "x" * 2000: 1}])
    assert [(each["index"], each.get("key"), each.get("attribute")) for each in faults] == [(1, 2, None)]


def test_many_faults_end_the_check(node: OperationsNode, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever they are: a large request must not be looked at without end."""
    node.run("create_table", table="cat", attributes=[{"name": "id", "type": "Int"}])
    looked: list[int] = []
    add = RecordFaults.add
    monkeypatch.setattr(RecordFaults, "add", lambda self, index, *more: (looked.append(index), add(self, index, *more)))
    for sent in ([{"age": 1}] * 1000, [{"id": "null"}] * 1000, [{"id": at, f"{at}/": 1} for at in range(1000)]):
        looked.clear()
        _, faults = told(node, "update", sent)
        assert looked == list(range(20)) and len(faults) == 20
    message, faults = told(node, "insert", [{"id": 1, **{"x" * 251 + str(at): 1 for at in range(1000)}}])
    assert message.count("too long") == 100 and len(faults) == 20


def test_what_fails_in_the_transaction_is_one_record(node: OperationsNode) -> None:
    schema = [{"name": "id", "type": "Int"}, {"name": "age", "type": "Int", "nullable": False}]
    node.run("create_table", table="cat", attributes=schema)
    node.run("insert", table="cat", records=[{"id": 5, "age": 1}])
    message, faults = told(node, "upsert", [{"id": 5, "age": 2}, {"id": 6}])
    assert message == "Property age is required (6, element 1)"
    assert faults == [{"index": 1, "key": 6, "message": "Property age is required"}]


@pytest.mark.parametrize("operation", ["insert", "update", "upsert"])
def test_records_expire_when_the_request_says(node: OperationsNode, operation: str) -> None:
    node.run("insert", table="dog", records=[{"id": 2}] + ([{"id": 1}] if operation == "update" else []))
    node.run(operation, table="dog", records=[{"id": 1}], expiresAt=node.clock.wall() * 1000 + 5000)
    assert list(records(node)) == [1, 2]
    node.clock.advance(6)
    assert list(records(node)) == [2]
    assert fault(node, operation, records=[{"id": 1}], expiresAt="soon") == (400, "'expiresAt' must be a number")


def test_increments(node: OperationsNode) -> None:
    node.run("insert", table="dog", records=[{"id": 1, "n": 5}])
    node.run("update", table="dog", records=[{"id": 1, "n": {"__op__": "add", "value": 2}}] * 2)
    assert records(node)[1]["n"] == 9
    assert fault(node, "update", records=[{"id": 1, "n": {"__op__": "multiply", "value": 2}}])[0] == 400


# --- rules 11 and 12, and what nobody should send ----------------------------------------------------------------------------------------


def test_delete(node: OperationsNode) -> None:
    node.run("insert", table="dog", records=[{"id": 1}, {"id": "a"}, {"id": 2.5}, {"id": 4}])
    answer = node.run("delete", table="dog", ids=[1])
    assert answer == {
        "message": "1 of 1 record successfully deleted",
        "deleted_hashes": [1],
        "skipped_hashes": [],
        "txn_time": answer["txn_time"],
    }
    answer = node.run("delete", table="dog", hash_values=["a", 7, 2.5, "1", 2.5, ["a", "b"], "x" * 700])
    assert answer["message"] == "2 of 7 records successfully deleted"
    assert answer["deleted_hashes"] == ["a", 2.5] and answer["skipped_hashes"] == [7, "1", 2.5, ["a", "b"], "x" * 700]
    assert list(records(node)) == [4]


def test_delete_of_ids_of_another_type(node: OperationsNode) -> None:
    node.run("create_table", table="cat", attributes=[{"name": "id", "type": "Int"}])
    node.run("insert", table="cat", records=[{"id": 1}])
    answer = node.run("delete", table="cat", ids=["1", 1])
    assert answer["deleted_hashes"] == [1] and answer["skipped_hashes"] == ["1"]


@pytest.mark.parametrize("operation", ["insert", "update", "upsert"])
@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"records": None}, "'records' is required"),
        ({"records": None, "table": None}, "'table' is required. 'records' is required"),
        ({"table": None, "records": []}, "'table' is required"),
        ({"table": ["dog"], "records": []}, "'table' must be a string"),
        ({"table": "a`b", "records": []}, "'table' names cannot include backticks or forward slashes"),
        ({"database": [], "records": []}, "'database' must be a string"),
        ({"schema": [], "records": []}, "'schema' must be a string"),
        ({"schema": "", "records": []}, "'schema' is not allowed to be empty"),
        ({"records": {"id": 1}}, "'records' must be an array"),
        ({"records": "x"}, "'records' must be an array"),
        ({"records": [[1]]}, "'records' must be an array of objects"),
        ({"records": [{"id": 1}, None]}, "'records' must be an array of objects"),
        ({"records": [{"id": 1}, "x"]}, "'records' must be an array of objects"),
        ({"table": "cat", "records": []}, "Table 'data.cat' does not exist"),
        ({"database": "nope", "records": []}, "database 'nope' does not exist"),
        ({"records": [{"id": 1}], "expiresAt": -1}, "'expiresAt' must be greater than or equal to 0"),
    ],
)
def test_bad_requests(node: OperationsNode, operation: str, fields: dict[str, Any], text: str) -> None:
    assert fault(node, operation, **fields) == (400, text)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, (400, "'hash_values' is required")),
        ({"ids": 1}, (400, "'ids' must be an array")),
        ({"hash_values": 1}, (400, "'hash_values' must be an array")),
        ({"ids": [None]}, (400, "'ids' must be strings or numbers")),
        ({"hash_values": [True]}, (400, "'hash_values' must be strings or numbers")),
        ({"ids": [{}]}, (400, "'ids' must be strings or numbers")),
        ({"ids": [1], "table": None}, (400, "'table' is required")),
        ({"ids": [1], "table": "cat"}, (404, "Table 'data.cat' does not exist")),
        ({"ids": [1], "database": "nope"}, (404, "database 'nope' does not exist")),
    ],
)
def test_bad_deletes(node: OperationsNode, fields: dict[str, Any], expected: tuple[int, str]) -> None:
    assert fault(node, "delete", **fields) == expected


@pytest.mark.parametrize("operation", ["insert", "update", "upsert"])
@pytest.mark.parametrize("key", [True, {"a": 1}, [1, 2], [], float("inf"), "x" * 660, 2**70, "\ud800"])
@pytest.mark.parametrize("count", [1, 60])
def test_keys_that_cannot_be(node: OperationsNode, operation: str, key: Any, count: int) -> None:
    status, _ = fault(node, operation, records=[*({"id": number, "new": 1} for number in range(count)), {"id": key, "new": 2}])
    assert status == 400 and records(node) == {}


@pytest.mark.parametrize("operation", ["insert", "update", "upsert"])
def test_values_that_cannot_be(node: OperationsNode, operation: str) -> None:
    deep: Any = 1
    for _ in range(100):
        deep = [deep]
    for value in (deep, float("nan"), 2**2000, "\ud800", {"a": "\ud800"}):
        assert fault(node, operation, records=[{"id": 1, "n": value}])[0] == 400
    assert records(node) == {}


# --- the system database ----------------------------------------------------------------------------------------------------------------


def user_record(node: OperationsNode, name: str) -> dict[str, Any]:
    record = node.directory.user_record(name)
    assert record is not None
    return record


def test_a_password_becomes_a_hash(node: OperationsNode) -> None:
    ann = {"username": "ann", "password": "secret", "role": "super_user", "active": True}
    answer = node.run("insert", database="system", table="svc_user", records=[ann])
    assert answer["inserted_hashes"] == ["ann"] and "secret" not in str(answer)
    stored = user_record(node, "ann")
    assert verify_password("secret", stored["password"], stored["hash_function"]).matches
    node.run("update", database="system", table="svc_user", records=[{"username": "ann", "password": "other"}])
    stored = user_record(node, "ann")
    assert verify_password("other", stored["password"]).matches and stored["active"] is True
    node.run("upsert", database="system", table="svc_user", records=[{"username": "ann", "active": False}])
    assert user_record(node, "ann")["password"] == stored["password"]
    assert node.run("delete", database="system", table="svc_user", ids=["ann"])["deleted_hashes"] == ["ann"]


@pytest.mark.parametrize(
    ("record", "status"),
    [
        ({"password": ""}, 400),
        ({"password": " "}, 400),
        ({"password": None}, 400),
        ({"password": 5}, 400),
        ({"password": ["x"]}, 400),
        ({"refresh_token": "x"}, 400),
        ({"hash_function": "md5"}, 400),
        ({"role": "nobody"}, 404),
        ({"role": 5}, 400),
        ({"active": "yes"}, 400),
        ({"nickname": "x"}, 400),
    ],
)
def test_users_that_cannot_be(node: OperationsNode, record: dict[str, Any], status: int) -> None:
    for operation in ("insert", "upsert"):
        assert fault(node, operation, database="system", table="svc_user", records=[{"username": "ann", **record}])[0] == status
    assert node.directory.user_record("ann") is None


def test_a_role_is_checked(node: OperationsNode) -> None:
    node.run("insert", database="system", table="svc_role", records=[{"role": "reader", "permission": {"super_user": False}}])
    assert node.directory.get_role("reader") is not None, "its id is its name"
    for record in ({"role": "x"}, {"permission": {}}, {"role": "a b", "permission": {}}, {"role": 5, "permission": {}}):
        assert fault(node, "insert", database="system", table="svc_role", records=[record])[0] == 400
    with pytest.raises(Refusal) as caught:
        node.run("update", database="system", table="svc_role", records=[{"id": "reader", "permission": {"nope": {"tables": {}}}}])
    assert caught.value.status_code == 400 and caught.value.body["main_permissions"] == ["database 'nope' does not exist"]
    duplicate = {"id": "other", "role": "reader", "permission": {}}
    assert fault(node, "insert", database="system", table="svc_role", records=[duplicate]) == (
        409,
        "A role with name 'reader' already exists",
    )


def _role_writes(names: list[str], operation: str = "insert") -> dict[str, Any]:
    records = [{"id": f"{name} {number}", "role": name, "permission": {}} for number, name in enumerate(names)]
    return {"operation": operation, "database": "system", "table": "svc_role", "records": records}


@pytest.mark.parametrize("operation", ["insert", "upsert"])
@pytest.mark.parametrize("more", [0, 60])  # in one turn, or a long write
def test_role_names_are_unique_in_one_request(node: OperationsNode, operation: str, more: int) -> None:
    names = [f"role{number}" for number in range(more)]
    with pytest.raises(Problem, match="A role with name 'reader' already exists") as caught:
        node.send(_role_writes([*names, "reader", "reader"], operation), node.admin)
    assert caught.value.status_code == 409
    assert [role["role"] for role in node.run("list_roles")] == ["super_user"]
    node.send(_role_writes([*names, "reader"], operation), node.admin)


@pytest.mark.parametrize("other", ["insert", "add_role", "alter_role", "update"])
def test_role_names_are_unique_among_requests_of_one_turn(node: OperationsNode, other: str) -> None:
    node.run("add_role", id="second", role="writer", permission={})
    bodies = {
        "insert": _role_writes(["reader"]),
        "add_role": {"operation": "add_role", "id": "third", "role": "reader", "permission": {}},
        "alter_role": {"operation": "alter_role", "id": "second", "role": "reader", "permission": {}},
        "update": {"operation": "update", "database": "system", "table": "svc_role", "records": [{"id": "second", "role": "reader"}]},
    }
    first = {**_role_writes([]), "records": [{"id": "first", "role": "reader", "permission": {}}]}

    async def both() -> list[Any]:
        return await asyncio.gather(node._send(first, node.admin), node._send(bodies[other], node.admin), return_exceptions=True)

    done, refused = node.wait(both)
    assert done["message"] == "inserted 1 of 1 records"
    assert isinstance(refused, Problem) and (refused.status_code, refused.message) == (409, "A role with name 'reader' already exists")
    assert sorted(role["role"] for role in node.run("list_roles")) == ["reader", "super_user", "writer"]


def test_names_may_be_exchanged_and_taken_over(node: OperationsNode) -> None:
    for name in ("reader", "writer"):
        node.run("add_role", role=name, permission={})
    swapped = [{"id": "reader", "role": "writer"}, {"id": "writer", "role": "reader"}]
    assert node.run("update", database="system", table="svc_role", records=swapped)["update_hashes"] == ["reader", "writer"]
    node.run("drop_role", id="reader")
    node.run("add_role", id="third", role="writer", permission={})


def test_the_last_super_user_stays(node: OperationsNode) -> None:
    for operation, fields in (
        ("delete", {"table": "svc_user", "ids": ["admin"]}),
        ("update", {"table": "svc_user", "records": [{"username": "admin", "active": False}]}),
        ("delete", {"table": "svc_role", "ids": ["super_user"]}),
    ):
        assert fault(node, operation, database="system", **fields) == (409, "Cannot remove the last active super_user")


def test_other_tables_of_the_system(node: OperationsNode) -> None:
    with pytest.raises(Refusal) as caught:
        node.run("insert", database="system", table="svc_job", records=[{"id": "x"}])
    assert caught.value.status_code == 403
    [entry] = caught.value.body["unauthorized_access"]  # type: ignore[misc]
    assert entry == {"schema": "system", "table": "svc_job", "required_table_permissions": ["insert"], "required_attribute_permissions": []}
    for operation, fields in (("update", {"records": []}), ("upsert", {"records": []}), ("delete", {"ids": []})):
        assert fault(node, operation, database="system", table="svc_job", **fields) == (403, SYSTEM_WRITE)
    ann = node.user("ann", {"structure_user": True})
    assert fault(node, "insert", ann, database="system", table="svc_user", records=[])[0] == 403


# --- the lists of keys ------------------------------------------------------------------------------------------------------------------


def test_split_keys() -> None:
    def split(*arguments: Any) -> Any:
        steps = split_keys(*arguments)
        with pytest.raises(StopIteration) as done:
            while True:
                next(steps)
        return done.value.value

    assert split([1, 2, 1, 2], [1, 2]) == ([1, 2], [1, 2])
    assert split([1, 2], [1, 2]) == ([], [1, 2])
    assert split([("a", 1), 2], [2]) == ([["a", 1]], [2])
    assert split([("a", 1), 2], []) == ([["a", 1], 2], [])
    assert split([None, 2], [], ["x", 2]) == ([2], ["x"])


# --- learned attributes -----------------------------------------------------------------------------------------------------------------


def test_a_record_with_thousands_of_attributes(node: OperationsNode) -> None:
    """It would take the places of all other tables and indexes."""
    record = {f"a{number}": number for number in range(3000)}
    refused = (400, 'The table "dog" would have 3,002 indexed attributes; the limit is 256')
    for operation in ("insert", "upsert"):
        assert fault(node, operation, records=[record]) == refused
    assert fault(node, "insert", records=[{"id": number, f"b{number}": 1} for number in range(300)])[0] == 400
    assert records(node) == {}
    assert len(node.store.databases["data"].tables["dog"].attributes) == 3
    node.run("insert", table="dog", records=[{"id": 1, "name": "Rex"}])
