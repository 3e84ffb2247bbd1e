"""svc.store.log.last_writes: when each table was last written to, from the log or the records."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from svc.clock import FakeClock
from svc.store import Store, Table
from svc.store.log import last_writes
from tests.unit.store.conftest import SEAT


def last(table: Table) -> float | None:
    found = table.database.last_writes
    for _ in found.find(table):
        table.database.store.end_turn()
    return found.of(table)


def write(store: Store, table: Table, key: str) -> float:
    transaction = store.begin()
    transaction.put(table, key, {})
    transaction.apply()
    store.commit_turn()
    return transaction.version


def test_the_newest_write_of_each_table(store: Store, seats: Table, clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(last_writes, "STEP", 4)
    other = seats.database.define_table(replace(SEAT, name="Other"))
    assert last(seats) is None and last(other) is None
    first = write(store, other, "A")
    versions = [write(store, seats, f"s{n}") for n in range(30)]
    assert last(seats) == versions[-1] and last(other) == first
    again = write(store, other, "B")
    assert last(other) == again and last(seats) == versions[-1]


def test_a_table_that_the_log_has_forgotten(store: Store, seats: Table, clock: FakeClock, open_store: Callable[..., Store]) -> None:
    other = seats.database.define_table(replace(SEAT, name="Other"))
    version = write(store, other, "A")
    clock.advance(10 * 86400)
    write(store, seats, "A")
    store.maintenance(1.0)
    assert last(other) == version
    again = open_store().databases["data"].tables["Other"]
    assert last(again) == version
    seen = last_writes.MOST_RECORDS
    try:
        last_writes.MOST_RECORDS = 0
        assert last(open_store().databases["data"].tables["Other"]) is None
    finally:
        last_writes.MOST_RECORDS = seen
