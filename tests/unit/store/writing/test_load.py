"""svc.store.writing.bulk_write: bulk load into empty and filled tables."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from svc.clock import FakeClock
from svc.errors import BadValue, ValidationError
from svc.store import Database, LogEntry, Store, Table
from svc.store.values.keys import index_key
from svc.store.values.records import decode
from svc.store.writing.bulk_write import load_records


def rows(count: int) -> Iterator[dict[str, Any]]:
    return ({"code": f"{n * 7919 % 1000:04}", "price": n, "tags": ["a", f"t{n % 3}"]} for n in range(count))


def test_batches(store: Store, seats: Table) -> None:
    heard: list[int] = []
    store.on_commit.append(lambda database, entries: heard.append(len(entries)))
    told: list[int] = []
    assert list(load_records(seats, rows(1000), batch=300, progress=told.append)) == [300, 600, 900, 1000] == told
    store.commit_turn()
    assert heard == [300, 300, 300, 100] and seats.record_count() == 1000
    entries = list(seats.database.log.read(seats.database.snapshot()))
    assert len(entries) == 1000 and len({entry.version for entry in entries}) == 4 == len({entry.transaction for entry in entries})
    store.check()


def test_loading_again_replaces(store: Store, seats: Table) -> None:
    list(load_records(seats, rows(500)))
    seats.indexes["price"].count(seats.database.snapshot(), index_key(0), index_key(10))
    transaction = store.begin()
    transaction.delete(seats, "0000")
    transaction.apply()
    store.commit_turn()
    list(load_records(seats, ({"code": f"{n:04}", "price": -n} for n in range(1000)), batch=128))
    assert seats.record_count() == 1000
    assert seats.indexes["price"].count(seats.database.snapshot(), index_key(-10), index_key(1)) == 11
    store.check()


def test_the_last_of_several_with_one_key_counts(store: Store, seats: Table) -> None:
    list(load_records(seats, [{"code": "A1", "price": 1}, {"code": "B1"}, {"code": "A1", "price": 2}]))
    raw = seats.get_raw("A1")
    assert raw is not None and decode(raw) == {"code": "A1", "price": 2} and seats.record_count() == 2
    store.check()


def test_records_without_a_key_get_one(store: Store, seats: Table) -> None:
    list(load_records(seats, [{"price": 1}, {"price": 2}]))
    assert seats.record_count() == 2
    store.check()


def test_a_bad_record_undoes_its_batch(store: Store, seats: Table) -> None:
    def with_a_bad_one() -> Iterator[dict[str, Any]]:
        yield from rows(250)
        yield {"code": "bad", "price": "dear"}

    done: list[int] = []
    with pytest.raises(ValidationError, match=r"Record 251: .*price"):
        done.extend(load_records(seats, with_a_bad_one(), batch=100))
    assert seats.record_count() == 200 and not store.has_pending
    with pytest.raises(BadValue):
        list(load_records(seats, [{"code": "k" * 700}]))
    store.check()


def test_without_validation(store: Store, seats: Table) -> None:
    list(load_records(seats, [{"code": "A1", "price": "as it is"}], validate=False))
    assert seats.record_count() == 1
    store.check()


def test_expiration(store: Store, seats: Table, clock: FakeClock) -> None:
    seats.database.define_table(replace(seats.definition, expiration=10.0))
    list(load_records(seats, rows(10)))
    clock.advance(5)
    list(load_records(seats, rows(5)))
    clock.advance(6)
    assert seats.record_count() == 5
    store.check()


def test_writes_of_the_turn_before_it_are_committed_with_it(store: Store, seats: Table) -> None:
    transaction = store.begin()
    transaction.put(seats, "A1", {})
    transaction.apply()
    list(load_records(seats, rows(3)))
    assert seats.record_count() == 4
    store.commit_turn()


def test_nothing(store: Store, seats: Table) -> None:
    def unused(database: Database, entries: list[LogEntry]) -> None:
        raise AssertionError

    store.on_commit.append(unused)
    assert list(load_records(seats, [])) == [] and not store.has_pending
