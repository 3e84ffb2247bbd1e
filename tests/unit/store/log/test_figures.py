"""svc.store.log.figures: what is said of the log is known without reading it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest

from svc.clock import FakeClock
from svc.store import Database, Store, Table
from svc.store.log import counts, figures, last_writes
from svc.store.log.table_removal import remove_log_entries
from svc.store.log.transaction_log import TransactionLog
from tests.unit.store.conftest import SEAT


@pytest.fixture(autouse=True)
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figures, "LAG", 50)
    monkeypatch.setattr(counts, "STEP", 8)
    monkeypatch.setattr(counts, "BLOCK", 16)
    monkeypatch.setattr(counts, "MOST_STEPS", 3)
    monkeypatch.setattr(last_writes, "STEP", 8)
    monkeypatch.setattr(last_writes, "MOST_STEPS", 3)


def write(table: Table, count: int) -> float:
    transaction = table.database.store.begin()
    for number in range(count):
        transaction.put(table, f"{number:04}", {"price": number})
    transaction.apply()
    table.database.store.commit_turn()
    return transaction.version


def asked(database: Database, name: str) -> tuple[int, float | None]:
    """(entries of a table, version of its last write), as a request finds them."""
    table = database.tables[name]
    for steps in (database.log.counts.catch_up(), database.last_writes.find(table)):
        for _ in steps:
            database.store.end_turn()
    return database.log.counts.of(table.number), database.last_writes.of(table)


@pytest.fixture
def written(store: Store, seats: Table) -> dict[str, float]:
    """A table that was last written to long ago, and 300 entries of another one. Name -> version."""
    old = seats.database.define_table(replace(SEAT, name="Old"))
    return {"Old": write(old, 3), "Seat": write(seats, 300)}


def test_no_request_reads_a_long_log(store: Store, seats: Table, written: dict[str, float], monkeypatch: pytest.MonkeyPatch) -> None:
    found, _ = asked(seats.database, "Seat")
    assert found < 303, "a request counts some entries"
    store.maintenance(1.0)
    assert asked(seats.database, "Seat") == (300, written["Seat"]) and asked(seats.database, "Old") == (3, written["Old"])


def test_a_restart_knows_them_at_once(
    store: Store, written: dict[str, float], open_store: Callable[..., Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    store.maintenance(1.0)
    later = write(store.databases["data"].tables["Seat"], 5)
    store = open_store()
    read: list[int] = []
    read_versions = TransactionLog.read_versions

    def count(log: TransactionLog, *of: object, **options: object) -> object:
        for row in read_versions(log, *of, **options):  # type: ignore[arg-type]
            read.append(row[0])
            yield row

    monkeypatch.setattr(TransactionLog, "read_versions", count)
    database = store.databases["data"]
    assert asked(database, "Old") == (3, written["Old"]) and asked(database, "Seat") == (305, later)
    assert len(read) <= 5


def test_a_kill_costs_what_has_come_since(written: dict[str, float], store: Store, open_store: Callable[..., Store]) -> None:
    store.maintenance(1.0)
    database = store.databases["data"]
    raw = database.figures.to_save(database.generation)
    assert raw is None, "nothing has come"
    later = write(database.tables["Old"], 20)
    store.maintenance(1.0)
    assert asked(open_store().databases["data"], "Old") == (23, later)


def test_entries_that_go_are_not_counted_after_a_restart(
    store: Store, written: dict[str, float], clock: FakeClock, open_store: Callable[..., Store]
) -> None:
    store.maintenance(1.0)
    clock.advance(4 * 86_400)
    database = store.databases["data"]
    later = write(database.tables["Seat"], 1)
    store.maintenance(1.0)
    assert asked(database, "Seat") == (1, later)
    store = open_store()
    database = store.databases["data"]
    assert asked(database, "Seat") == (1, later) and asked(database, "Old") == (0, written["Old"])


def test_entries_that_are_removed_on_demand(
    store: Store, written: dict[str, float], clock: FakeClock, open_store: Callable[..., Store]
) -> None:
    store.maintenance(1.0)
    old = store.databases["data"].tables["Old"]
    clock.advance(10)
    asyncio.run(remove_log_entries(old, clock.wall() * 1000))
    store = open_store()
    store.maintenance(1.0)
    assert asked(store.databases["data"], "Old")[0] == 0
    assert asked(store.databases["data"], "Seat") == (300, written["Seat"])
