"""svc.store.raw_chunks: lists of records and entries, in order and complete."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from svc.clock import FakeClock
from svc.errors import StoreFailure
from svc.store import Store, Table, raw_chunks
from svc.store.raw_chunks import ALL, BYTES, FIRST, MOST, entry_chunks, existing, fetch, fetched_chunks, record_chunks, value_chunks
from svc.store.schema import Attribute, TableDefinition
from svc.store.values.keys import after, encode_key
from svc.store.values.records import decode, encode
from tests.support.prepared import open_with

DEFINITION = TableDefinition("T", attributes=(Attribute("id", "Int", primary_key=True), Attribute("a", "Int", indexed=True)))
COUNT = 40
VALUES = [number * 7 % 10 for number in range(COUNT)]


class Seen:
    """Counts what was looked at."""

    def __init__(self) -> None:
        self.numbers: list[int] = []

    def __call__(self, number: int) -> None:
        self.numbers.append(number)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Table]:
    store = open_with(tmp_path_factory.mktemp("chunks") / "database")
    made = store.open_database("data").define_table(DEFINITION)
    transaction = store.begin()
    for number, value in enumerate(VALUES):
        transaction.put(made, number, {"id": number, "a": value})
    store.commit_now(transaction)
    yield made
    store.close()


NUMBERS = st.none() | st.integers(-1, COUNT + 1)
BOUNDS = st.lists(st.integers(-1, COUNT + 1), unique=True, max_size=6).map(sorted)


def ranges_of(numbers: list[int]) -> list[tuple[bytes, bytes]]:
    return [(encode_key(low), encode_key(high)) for low, high in zip(numbers[::2], numbers[1::2], strict=False)]


def lies_in(number: int, numbers: list[int]) -> bool:
    return any(low <= number < high for low, high in zip(numbers[::2], numbers[1::2], strict=False))


@given(BOUNDS, st.booleans(), st.integers(1, 5), st.integers(1, 5))
def test_records_of_ranges(table: Table, numbers: list[int], reverse: bool, first: int, most: int) -> None:
    seen, txn = Seen(), table.database.snapshot()
    with mock.patch.object(raw_chunks, "MOST", most), mock.patch.object(raw_chunks, "PROBE", 2):
        chunks = list(record_chunks(table, txn, ranges_of(numbers), 0.0, seen, reverse=reverse, first=first))
        whole = list(record_chunks(table, txn, ALL, 0.0, Seen(), reverse=reverse, first=first))
    expected = sorted([number for number in range(COUNT) if lies_in(number, numbers)], reverse=reverse)
    assert [decode(raw)["id"] for chunk in chunks for raw in chunk] == expected
    assert [len(chunk) for chunk in chunks] == seen.numbers and max(seen.numbers, default=0) <= max(first, most)
    assert [decode(raw)["id"] for chunk in whole for raw in chunk] == sorted(range(COUNT), reverse=reverse)
    assert len(whole[0]) == first


@given(st.lists(st.integers(-1, 11), unique=True, max_size=6).map(sorted), st.booleans(), st.integers(1, 5), st.integers(1, 5))
def test_entries_and_values_of_ranges(table: Table, numbers: list[int], reverse: bool, first: int, most: int) -> None:
    seen, txn, index = Seen(), table.database.snapshot(), table.indexes["a"]
    with mock.patch.object(raw_chunks, "MOST", most), mock.patch.object(raw_chunks, "FIRST", first):
        found = [entry for chunk in entry_chunks(index, txn, ranges_of(numbers), seen, reverse=reverse, first=first) for entry in chunk]
        values = [value for chunk in value_chunks(index, txn, ranges_of(numbers), Seen(), reverse=reverse) for value in chunk]
    expected = [(encode_key(value), encode_key(number)) for number, value in enumerate(VALUES) if lies_in(value, numbers)]
    assert found == sorted(expected, reverse=reverse) and sum(seen.numbers) == len(found)
    assert values == sorted([(encode_key(value), VALUES.count(value)) for value in range(10) if lies_in(value, numbers)], reverse=reverse)


def test_points(table: Table) -> None:
    txn, index = table.database.snapshot(), table.indexes["a"]
    points = [(key, after(key)) for key in map(encode_key, (0, 3, 20))]
    for reverse in (False, True):
        found = [entry for chunk in entry_chunks(index, txn, points, Seen(), reverse=reverse) for entry in chunk]
        expected = [(encode_key(value), encode_key(number)) for number, value in enumerate(VALUES) if value in (0, 3)]
        assert found == sorted(expected, reverse=reverse)
    assert sum(map(len, entry_chunks(index, txn, ALL, Seen()))) == COUNT


def test_what_is_empty_is_not_searched(table: Table) -> None:
    """Ranges before the first key that a search has come to."""
    txn, index = table.database.snapshot(), table.indexes["a"]
    cursor = mock.Mock(wraps=txn.cursor(index.handle))
    many = [(encode_key(f"{number:03}"), encode_key(f"{number:03}z")) for number in range(100)]
    with mock.patch.object(raw_chunks, "_while_before", lambda entries, high: iter(entries)):
        assert list(raw_chunks._opened(cursor, many, False)) == []
    assert cursor.set_range.call_count == 1


def test_records_by_key(table: Table) -> None:
    txn = table.database.snapshot()
    seen = Seen()
    keys = [encode_key(number) for number in (5, 100, 3, 3, 39)]
    (found,) = fetched_chunks(table, txn, keys, 0.0, seen)
    assert [decode(raw)["id"] for raw in found] == [5, 3, 3, 39] and sum(seen.numbers) == 5
    assert fetch(table, txn, keys[1], 0.0) is None
    assert decode(fetch(table, txn, keys[0], 0.0) or b"")["id"] == 5
    assert [raw for chunk in fetched_chunks(table, txn, [], 0.0) for raw in chunk] == []


@pytest.fixture
def expiring(store: Store, clock: FakeClock) -> Table:
    """Records 0, 1, 2 that have expired, or not, or are copies in part."""
    made = store.open_database("data").define_table(DEFINITION)
    transaction = store.begin()
    now = clock.wall() * 1000
    for number, expiry in enumerate((None, now + 1000, now + 60_000)):
        transaction.put(made, number, {"id": number, "a": 1}, expires_at=expiry)
    store.commit_now(transaction)
    clock.advance(10)
    return made


def test_what_has_expired_does_not_exist(expiring: Table, clock: FakeClock) -> None:
    txn, now = expiring.database.snapshot(), clock.wall() * 1000
    seen = Seen()
    (found,) = record_chunks(expiring, txn, ALL, now, seen)
    assert [decode(raw)["id"] for raw in found] == [0, 2] and seen.numbers == [3]
    (found,) = record_chunks(expiring, txn, ALL, 0.0, seen)
    assert len(found) == 3
    (found,) = fetched_chunks(expiring, txn, [encode_key(number) for number in range(3)], now)
    assert [decode(raw)["id"] for raw in found] == [0, 2]
    assert [fetch(expiring, txn, encode_key(number), now) is None for number in range(4)] == [False, True, False, True]
    expiring.cache(object())
    assert fetch(expiring, txn, encode_key(1), now) is not None, "it is stale, not gone"


def test_what_is_here_in_part_does_not_exist(expiring: Table) -> None:
    txn = expiring.database.snapshot()
    raws = [
        encode({"id": 1}, 1.0, 1, None),
        encode({"id": 2}, 1.0, 1, 5.0, refreshed=1.0, partial=True),
        encode({"id": 3}, 1.0, 1, 5.0, refreshed=1.0),
    ]
    expiring.cache(object())
    assert [decode(raw)["id"] for raw in existing(expiring, txn, raws, 100.0)] == [1, 3]


def test_records_are_translated(table: Table) -> None:
    with mock.patch.object(table, "moves") as moves:
        moves.translate = lambda raw, txn: raw + b"!"
        (found,) = fetched_chunks(table, table.database.snapshot(), [encode_key(1)], 0.0)
        assert found[0].endswith(b"!")
        (found,) = record_chunks(table, table.database.snapshot(), [(encode_key(1), encode_key(2))], 0.0, Seen())
        assert found[0].endswith(b"!")
        assert (fetch(table, table.database.snapshot(), encode_key(1), 0.0) or b"").endswith(b"!")


@pytest.mark.parametrize("compression", [False, True])
def test_lists_of_large_records_are_short(open_store: Callable[..., Store], compression: bool) -> None:
    store = open_store(compression=compression)
    made = store.open_database("data").define_table(DEFINITION)
    transaction = store.begin()
    size = 200_000
    for number in range(60):
        transaction.put(made, number, {"id": number, "text": "x" * size})
    store.commit_now(transaction)
    txn = made.database.snapshot()
    for chunks in (
        list(record_chunks(made, txn, ALL, 0.0, Seen())),
        list(record_chunks(made, txn, ALL, 0.0, Seen(), reverse=True)),
        list(fetched_chunks(made, txn, [encode_key(number) for number in range(60)], 0.0)),
    ):
        assert sum(map(len, chunks)) == 60
        assert max(map(len, chunks)) <= 2 * BYTES // size + raw_chunks.PROBE


def test_lists_grow(store: Store) -> None:
    made = store.open_database("data").define_table(DEFINITION)
    transaction = store.begin()
    for number in range(1200):
        transaction.put(made, number, {"id": number, "a": 1})
    store.commit_now(transaction)
    seen = Seen()
    assert sum(map(len, record_chunks(made, made.database.snapshot(), ALL, 0.0, seen))) == 1200
    assert seen.numbers == [FIRST, MOST, MOST, 1200 - FIRST - 2 * MOST]
    seen = Seen()
    assert sum(map(len, entry_chunks(made.indexes["a"], made.database.snapshot(), ALL, seen))) == 1200
    assert seen.numbers == [FIRST, MOST, MOST, 1200 - FIRST - 2 * MOST]


def test_what_is_told_of_the_number_may_raise(table: Table) -> None:
    def stop(number: int) -> None:
        raise KeyError

    txn, index = table.database.snapshot(), table.indexes["a"]
    readers: list[Iterator[Any]] = [
        record_chunks(table, txn, ALL, 0.0, stop),
        record_chunks(table, txn, ALL, 0.0, stop, reverse=True),
        entry_chunks(index, txn, ALL, stop),
        value_chunks(index, txn, ALL, stop),
        fetched_chunks(table, txn, [b"a"], 0.0, stop),
    ]
    for reader in readers:
        with pytest.raises(KeyError):
            next(reader)


def test_a_transaction_that_has_ended_is_a_failure(store: Store) -> None:
    made = store.open_database("data").define_table(DEFINITION)
    transaction = store.begin()
    transaction.put(made, 1, {"id": 1, "a": 1})
    store.commit_now(transaction)
    txn, index = made.database.snapshot(), made.indexes["a"]
    store.end_turn()
    txn.abort()
    readers: list[Callable[[], Any]] = [
        lambda: list(record_chunks(made, txn, ALL, 0.0, Seen())),
        lambda: list(entry_chunks(index, txn, ALL, Seen())),
        lambda: list(value_chunks(index, txn, ALL, Seen())),
        lambda: list(fetched_chunks(made, txn, [b"a"], 0.0)),
        lambda: fetch(made, txn, b"a", 0.0),
    ]
    for read in readers:
        with pytest.raises(StoreFailure):
            read()
