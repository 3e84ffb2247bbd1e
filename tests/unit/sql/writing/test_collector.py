"""svc.sql.writing.collector: what a statement may take, and what its transaction is tested for."""

from dataclasses import dataclass
from typing import Any

import pytest

from svc.errors import QueryTooLarge
from svc.sql.writing.collector import Budget, Collector, JoiningCollector, RecordChanged, Unchanged, digest_of
from svc.sql.writing.reading import TooLong, WriteSource
from svc.store import Store, Table
from svc.store.schema import Attribute, TableDefinition
from svc.store.values.records import encode

TIMES = TableDefinition(
    "Note",
    attributes=(
        Attribute("id", "ID", primary_key=True),
        Attribute("text", "String"),
        Attribute("changed", "Float", updated_time=True),
    ),
)


def raw(record: dict[str, Any], version: float = 1.0) -> bytes:
    return encode(record, version, 1, None)


def test_of_more_writes_than_a_turn_takes_it_is_too_long() -> None:
    budget = Budget(1 << 20, 3)
    for _ in range(3):
        budget.take(("x",))
    with pytest.raises(TooLong):
        budget.take(("x",))


def test_memory_is_limited() -> None:
    budget = Budget(100_000, None)
    with pytest.raises(QueryTooLarge) as refused:
        for _ in range(1000):
            budget.take(("x" * 500,))
    assert refused.value.code == "QUERY_TOO_LARGE" and refused.value.status_code == 400
    assert "sql.maxMemory" in refused.value.message and "LIMIT" in refused.value.message and "100000 bytes" in refused.value.message
    budget = Budget(100_000, None)
    budget.take(())
    with pytest.raises(QueryTooLarge, match="return"):
        budget.take_answer(("x" * 100_000,))


def test_what_a_record_is_known_by() -> None:
    record = {"text": "a", "n": 1}

    class Stamped:
        stamps = ("changed",)

    table: Any = Stamped()
    digest = digest_of(raw(record), table, None)
    assert digest == digest_of(raw(record, 2.0), table, None), "the version says nothing of the values"
    assert digest == digest_of(raw({"n": 1, "text": "a", "changed": 5}), table, None), "nor do the times"
    assert digest != digest_of(raw({"text": "b", "n": 1}), table, None)
    assert digest != digest_of(raw({"text": "a"}), table, None)
    names = frozenset(("text",))
    assert digest_of(raw(record), table, names) == digest_of(raw({"text": "a", "n": 2}), table, names)
    assert digest_of(raw({"n": None}), table, None) != digest_of(raw({}), table, None)


def test_a_record_that_is_not_what_was_read_is_a_conflict(store: Store) -> None:
    table = store.open_database("data").define_table(TIMES)
    before = raw({"id": "a", "text": "x"})
    unchanged = Unchanged(table=table, digest=digest_of(before, table, None))
    unchanged.check(before)
    unchanged.check(raw({"id": "a", "text": "x", "changed": 7}, 9.0))
    for now in (None, raw({"id": "a", "text": "y"})):
        with pytest.raises(RecordChanged) as refused:
            unchanged.check(now)
        assert (refused.value.status_code, refused.value.code) == (409, "RECORD_CHANGED")


@dataclass
class Names:
    value: frozenset[str] | None


@pytest.fixture
def notes(store: Store) -> Table:
    table = store.open_database("data").define_table(TIMES)
    transaction = store.begin()
    transaction.put(table, "a", {"text": "x"})
    transaction.put(table, "b" * 600, {"text": "long"})
    transaction.put(table, "gone", {"text": "old"}, expires_at=1.0)
    transaction.apply()
    store.commit_turn()
    return table


def collector(store: Store, table: Table, kind: type[Collector] = Collector) -> Collector:
    source = WriteSource(table.database, table.database.snapshot())
    return kind(table, store.begin(), source, store.clock.wall() * 1000, Budget(1 << 20, None), table.new_keys)


def test_it_finds_the_records_that_a_write_finds(store: Store, notes: Table) -> None:
    found = collector(store, notes)
    assert found.read("a") is not None and found.read("b" * 600) is not None
    assert found.read("gone") is None and found.read("nothing") is None


def test_new_keys_are_not_those_of_other_rows(store: Store) -> None:
    numbers = iter(range(1, 100))

    def new_keys(count: int) -> Any:
        return iter([next(numbers) for _ in range(count)])

    table: Any = store.open_database("data").define_table(TIMES)
    found = Collector(table, store.begin(), WriteSource(table.database, table.database.snapshot()), 0.0, Budget(1, None), new_keys)
    rows: list[Any] = [(None, {}), (2, {}), (None, {}), (1, {}), (None, {})]
    assert [key for key, _ in found.assign_keys(rows)] == [3, 2, 4, 1, 5]
    named: list[Any] = [(2, {})]
    assert found.assign_keys(named) is named


def test_only_a_transaction_that_is_committed_later_is_tested_for_what_was_read(store: Store, notes: Table) -> None:
    for kind in (Collector, JoiningCollector):
        found = collector(store, notes, kind)
        found.update("a", {"text": "y"}, Names(None))
        found.delete("b" * 600, Names(frozenset()))
        transaction = store.begin()
        transaction.put(notes, "a", {"text": "z"})
        transaction.apply()
        if kind is Collector:
            found.transaction.apply()
        else:
            with pytest.raises(RecordChanged):
                found.transaction.apply()
        store.commit_turn()
        store.end_turn()
        if kind is Collector:
            again = store.begin()
            again.put(notes, "b" * 600, {"text": "long"})
            again.apply()
            store.commit_turn()
