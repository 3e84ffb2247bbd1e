"""`@default`: what new records get, on each path of writing, and when it is decided that a record is new."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from svc.apps.schema_files import load_schema_files
from svc.clock import FakeClock
from svc.errors import ValidationError
from svc.store import Store, Table
from svc.store.values.records import decode
from svc.store.values.validation import Add
from svc.store.writing.bulk_write import bulk_write, load_records
from tests.unit.store.writing.test_long_write import Turns

SCHEMA = """
enum E { A B }
type T @table { id: ID @primaryKey  e: E! @default(value: B)  n: Int @default(value: 3) @indexed  l: [Int] @default(value: [1, 2])
  d: Date @default(value: "2026-01-02")  o: P @default(value: {x: 1}) }
type P { x: Int! }
"""
FULL = {"e": "B", "n": 3, "l": [1, 2], "d": datetime(2026, 1, 2, tzinfo=UTC), "o": {"x": 1}}


@pytest.fixture
def table(tmp_path: Path) -> Iterator[Table]:
    (definition,) = load_schema_files([("a", SCHEMA)]).definitions
    store = Store(tmp_path, clock=FakeClock())
    table = store.open_database("data").define_table(definition)
    yield table
    table.database.check()
    store.close()


def stored(table: Table, key: str = "1") -> dict[str, Any]:
    table.database.env.end_snapshot()
    raw = table.get_raw(key)
    assert raw is not None
    found = decode(raw)
    del found["id"]
    return found


def write(table: Table, verb: str, record: dict[str, Any], key: str = "1") -> None:
    transaction = table.database.store.begin()
    checked = table.validator.changes(record) if verb in ("patch", "update", "upsert") else table.validator.record(record)
    getattr(transaction, verb)(table, key, checked)
    table.database.store.commit_now(transaction)


@pytest.mark.parametrize("verb", ["put", "create", "insert", "patch", "upsert"])
def test_a_new_record_gets_what_it_lacks(table: Table, verb: str) -> None:
    write(table, verb, {})
    assert stored(table) == FULL
    write(table, verb, {"n": 5, "l": None, "x": 1}, "2")
    assert stored(table, "2") == FULL | {"n": 5, "l": None, "x": 1}


def test_a_record_that_is_there_is_left_alone(table: Table) -> None:
    write(table, "put", {"e": "A"})
    write(table, "put", {"e": "A", "n": 4})
    assert stored(table) == {"e": "A", "n": 4}
    for verb in ("patch", "update", "upsert"):
        write(table, verb, {"n": 5})
        assert stored(table) == {"e": "A", "n": 5}
    with pytest.raises(ValidationError, match=r"^Property e is required$"):
        write(table, "put", {"n": 4})
    with pytest.raises(ValidationError, match=r"^Property e is required and cannot be null$"):
        write(table, "put", {"e": None}, "2")
    assert stored(table) == {"e": "A", "n": 5}


def test_an_expired_record_is_not_there(table: Table) -> None:
    clock = table.database.clock
    assert isinstance(clock, FakeClock)
    transaction = table.database.store.begin()
    transaction.put(table, "1", {"e": "A"}, expires_at=clock.wall() * 1000 + 500)
    table.database.store.commit_now(transaction)
    clock.advance(1)
    write(table, "put", {"n": 7})
    assert stored(table) == FULL | {"n": 7}


def test_an_increment_starts_from_nothing(table: Table) -> None:
    write(table, "patch", {"n": Add(2)})
    assert stored(table) == FULL | {"n": 2}


def test_records_share_no_value(table: Table) -> None:
    write(table, "put", {})
    first = table.validator.complete({}, is_new=True)
    first["l"].append(3)
    first["o"]["x"] = 9
    write(table, "put", {}, "2")
    assert stored(table, "2") == FULL


def test_decided_where_it_is_written_not_where_it_is_asked_for(table: Table) -> None:
    store = table.database.store
    first, second = store.begin(), store.begin()
    first.put(table, "1", {"n": 1})
    second.put(table, "1", {"n": 2, "e": "A"})
    assert first.get_raw(table, "1") is not None and decode(first.get_raw(table, "1") or b"") == {"id": "1"} | FULL | {"n": 1}
    store.commit_now(first)
    store.commit_now(second)
    assert stored(table) == {"n": 2, "e": "A"}


def test_bulk_writes_and_loads(table: Table) -> None:
    async def load(mode: Any, records: list[dict[str, Any]]) -> None:
        result = await bulk_write(table, records, mode=mode)
        assert not result.errors

    async def work() -> None:
        await load("insert", [{"id": "1"}, {"id": "2", "n": 1}])
        await load("upsert", [{"id": "3"}, {"id": "2", "n": 2}, {"id": "4", "n": Add(1)}, {"id": "3", "n": 9}])

    turns = Turns(table.database.store)
    turns.finish(work())
    turns.close()
    assert [stored(table, key) for key in "1234"] == [FULL, FULL | {"n": 2}, FULL | {"n": 9}, FULL | {"n": 1}]
    assert list(load_records(table, [{"id": "5"}, {"id": "1", "e": "A"}])) == [2]
    assert stored(table, "5") == FULL and stored(table) == {"e": "A"}
    with pytest.raises(ValidationError, match="Property e is required"):
        list(load_records(table, [{"id": "5", "n": 1}]))
