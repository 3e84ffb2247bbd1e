"""svc.store.log.counts: the number of log entries of each table, while entries come and go."""

from collections import Counter
from typing import Any

import pytest

from svc.clock import FakeClock
from svc.store import Store
from svc.store.log import counts
from svc.store.schema import Attribute, TableDefinition


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counts, "BLOCK", 8)
    monkeypatch.setattr(counts, "STEP", 3)


def write(store: Store, tables: str) -> None:
    """One record for each letter, in the table of that name."""
    database = store.open_database("data")
    for name in tables:
        table = database.define_table(TableDefinition(name, attributes=(Attribute("id", primary_key=True),)))
        transaction = store.begin()
        transaction.create(table, None, {})
        transaction.apply()
        store.commit_turn()


def prune(store: Store, keep: int) -> None:
    """Remove all but the newest entries."""
    database = store.databases["data"]
    newest = list(database.log.read(database.snapshot()))
    for entry in newest[: len(newest) - keep]:
        database.writer().delete(entry.lsn.to_bytes(8, "big"), b"", database.log._entries)
    database.env.touch()
    store.commit_turn()


def counted(store: Store) -> dict[str, int]:
    """What `EntryCounts` says, which must be what there is."""
    database = store.databases["data"]
    for _ in database.log.counts.catch_up():
        store.end_turn()
    found = {name: database.log.counts.of(table.number) for name, table in database.tables.items()}
    expected = Counter(entry.table for entry in database.log.read(database.snapshot()))
    assert found == {name: expected[name] for name in found}
    return {name: count for name, count in found.items() if count}


def test_an_empty_log(store: Store) -> None:
    store.open_database("data")
    assert counted(store) == {}


def test_entries_that_come(store: Store) -> None:
    write(store, "AAB")
    assert counted(store) == {"A": 2, "B": 1}
    assert counted(store) == {"A": 2, "B": 1}
    write(store, "ABBBBBBBBBBBBC")
    assert counted(store) == {"A": 3, "B": 13, "C": 1}


@pytest.mark.parametrize("keep", [1, 2, 7, 8, 9, 15, 16, 17, 29])
@pytest.mark.parametrize("before", ["", "A", "AB" * 5, "AB" * 14])
def test_entries_that_go(store: Store, before: str, keep: int) -> None:
    write(store, before)
    store.open_database("data")
    counted(store)
    write(store, ("ABC" * 10)[: 30 - len(before)])
    prune(store, keep)
    counted(store)
    prune(store, max(1, keep // 2))
    write(store, "CC")
    counted(store)
    counted(store)


def test_what_a_step_costs_is_bounded(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """It looks at STEP entries, and at a block when entries have gone."""
    write(store, "A" * 40)
    seen: list[int] = []
    count = counts.EntryCounts._count

    def spy(self: Any, cursor: Any, end: int | None) -> bool:
        before = self._next
        found = count(self, cursor, end)
        seen.append(self._next - before)
        return found

    monkeypatch.setattr(counts.EntryCounts, "_count", spy)
    counted(store)
    prune(store, 20)
    counted(store)
    assert max(seen) <= 8 and sum(seen) <= 40 + 8


@pytest.mark.parametrize("before", [0, 5, 40])
def test_entries_of_one_table_that_go(store: Store, before: int) -> None:
    """LSNs are missing then, over whole blocks."""
    write(store, ("A" * 20 + "BA" * 10)[:before])
    store.open_database("data")
    counted(store)
    write(store, ("A" * 20 + "BA" * 10)[before:])
    database = store.databases["data"]
    writer = database.writer()
    assert database.log.remove(writer, range(1, 40, 2)) == 20
    database.env.touch()
    store.commit_turn()
    database.log.counts.forget()
    counted(store)
    write(store, "AB" * 10)
    counted(store)
    prune(store, 11)
    counted(store)


def test_retention(store: Store, clock: FakeClock) -> None:
    write(store, "AB" * 10)
    counted(store)
    clock.advance(4 * 86400)
    write(store, "A")
    store.maintenance(1.0)
    assert counted(store) == {"A": 1}
