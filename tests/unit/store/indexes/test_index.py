"""svc.store.indexes.index: scans and counts from LMDB and from the cache, the memory budget, loading in slices."""

import random
from collections.abc import Callable

import pytest

from svc.errors import IndexRebuilding
from svc.store import Index, Store, Table
from svc.store.indexes.cache import AT_ONCE, IndexCaches, bound_of
from svc.store.indexes.index import COUNT_CAP
from svc.store.values.keys import after, decode_key, encode_key, index_key, index_prefix_range, kind_range
from svc.store.writing.bulk_write import load_records

PLACES = [f"place {number}" for number in range(7)]


def fill(table: Table, records: dict[str, dict[str, object]]) -> None:
    transaction = table.database.store.begin()
    for key, record in records.items():
        transaction.put(table, key, dict(record))
    transaction.apply()
    table.database.store.commit_turn()


def keys(found: object) -> list[object]:
    return [decode_key(stored) for _, stored in found]  # type: ignore[attr-defined]


def load_caches(store: Store) -> None:
    while store.maintenance(1.0):
        pass


@pytest.fixture
def price(seats: Table) -> Index:
    fill(seats, {"a": {"price": 5}, "b": {"price": 2.5}, "c": {"price": 5}, "d": {"price": None}, "e": {}, "f": {"price": "x"}})
    return seats.indexes["price"]


def test_scan_is_in_order_of_value_then_key(price: Index, seats: Table) -> None:
    txn = seats.database.snapshot()
    assert keys(price.scan(txn)) == ["d", "e", "b", "a", "c", "f"], "missing counts as null; null < numbers < text"
    assert keys(price.scan(txn, reverse=True)) == ["f", "c", "a", "b", "e", "d"]
    low, high = index_key(5), after(index_key(5))
    assert keys(price.scan(txn, low, high)) == ["a", "c"] == keys(price.scan(txn, low, high, reverse=True))[::-1]
    assert keys(price.scan(txn, after(index_key(2.5)), None)) == ["a", "c", "f"]
    assert keys(price.scan(txn, None, index_key(5))) == ["d", "e", "b"]
    assert keys(price.scan(txn, None, index_key(5), reverse=True)) == ["b", "e", "d"]
    assert keys(price.scan(txn, *kind_range(1))) == ["b", "a", "c"]
    assert keys(price.scan(txn, index_key("y"), None)) == [] == keys(price.scan(txn, index_key("y"), None, reverse=True))
    assert keys(price.scan(txn, index_key(9), index_key(3))) == []


def test_counts(price: Index, seats: Table) -> None:
    txn = seats.database.snapshot()
    assert price.cache is None
    for _ in range(2):  # before and after the cache is loaded
        assert price.count(txn) == 6
        assert price.count(txn, index_key(5), after(index_key(5))) == 2
        assert price.count(txn, index_key(2.5), after(index_key(5))) == 3
        assert price.count(txn, after(index_key(2.5)), None) == 3
        assert price.count(txn, index_key(4), None) == 3
        assert price.count(txn, None, index_key(0)) == 2
        assert price.count(txn, index_key(9), index_key(3)) == 0
    assert price.cache is not None and price.cache.complete


def test_one_value_needs_no_cache(price: Index, seats: Table) -> None:
    assert price.count(seats.database.snapshot(), index_key(5), after(index_key(5))) == 2
    assert price.cache is None


def test_every_bound_means_the_same_to_cache_and_lmdb(seats: Table) -> None:
    values: list[object] = [None, True, 0, 1, 1.5, 2**53 + 1, -(2**70), "", "a", "a\0", "a" * 256, "a" * 300, "ab", "é" * 400]
    fill(seats, {f"k{number}": {"price": value} for number, value in enumerate(values)})
    index = seats.indexes["price"]
    txn = seats.database.snapshot()
    index.count(txn, None, index_key(0))
    bounds: list[bytes | None] = [None]
    for value in values:
        key = index_key(value)
        bounds += [key, after(key), key[:-1], key + b"\xff"]
    bounds += [*index_prefix_range("a"), *index_prefix_range("a" * 300)]
    assert index.cache is not None
    for low in bounds:
        for high in bounds:
            assert index.cache.count(low, high) == len(list(index.scan(txn, low, high))), (low, high)
            assert index.count_stored(txn, low, high) == (index.cache.count(low, high), True)


def test_a_bound_behind_a_whole_key_is_behind_its_entries() -> None:
    key = index_key("a")
    assert bound_of(key) == key and bound_of(after(key)) == key + b"\xff" and bound_of(key[:-1]) == key[:-1]
    cut = index_key("a" * 300)
    assert bound_of(after(cut)) == cut + b"\xff"


def test_lists_are_indexed_by_element(seats: Table) -> None:
    fill(seats, {"a": {"tags": ["x", "y", "x"]}, "b": {"tags": ["y", None]}, "c": {"tags": []}, "d": {}})
    tags = seats.indexes["tags"]
    assert tags.multi and not seats.indexes["place"].multi
    txn = seats.database.snapshot()
    assert [(decode_key(key), decode_key(stored)) for key, stored in tags.scan(txn)] == [
        (None, "b"), (None, "d"), ("x", "a"), ("y", "a"), ("y", "b"),
    ]  # fmt: skip
    fill(seats, {"a": {"tags": ["y", "z"]}})
    assert keys(tags.scan(seats.database.snapshot(), index_key("x"), None)) == ["a", "b", "a"]
    seats.check()


def test_the_cache_follows_commits_only(price: Index, seats: Table, store: Store) -> None:
    assert price.count(seats.database.snapshot(), index_key(1), None) == 4
    transaction = store.begin()
    transaction.put(seats, "g", {"price": 7})
    transaction.delete(seats, "a")
    transaction.patch(seats, "b", {"price": 8})
    transaction.apply()
    assert price.count(seats.database.snapshot(), index_key(1), None) == 4
    assert price.cache is not None and len(price.cache.entries) == 6
    store.commit_turn()
    assert price.count(seats.database.snapshot(), index_key(6), index_key("")) == 2
    seats.check()


def test_a_cache_loaded_between_apply_and_commit_hears_of_the_writes(price: Index, seats: Table, store: Store) -> None:
    transaction = store.begin()
    transaction.put(seats, "g", {"price": 7})
    transaction.apply()
    assert price.count(seats.database.snapshot(), index_key(1), None) == 4
    store.commit_turn()
    assert price.count(seats.database.snapshot(), index_key(1), None) == 5
    seats.check()


def test_private_snapshots_do_not_use_the_cache(price: Index, seats: Table) -> None:
    price.count(seats.database.snapshot(), index_key(1), None)
    private = seats.database.open_snapshot()
    fill(seats, {"g": {"price": 7}})
    assert price.count(private, index_key(1), None) == 4
    assert price.count(seats.database.snapshot(), index_key(1), None) == 5
    private.abort()


def test_large_indexes_load_in_slices_while_writes_go_on(seats: Table, store: Store) -> None:
    size = AT_ONCE + 1500
    for _ in load_records(seats, ({"code": f"{number:06}", "price": number % 97, "place": PLACES[number % 7]} for number in range(size))):
        pass
    index = seats.indexes["price"]
    txn = seats.database.snapshot()
    in_range = index.count(txn, index_key(10), index_key(20))
    assert index.waiting and index.cache is None
    dice = random.Random(1)
    steps = 0

    def few() -> Callable[[], bool]:
        left = [2]

        def may_go_on() -> bool:
            left[0] -= 1
            return left[0] > 0

        return may_go_on

    while store.caches.load(few()):
        steps += 1
        fill(seats, {f"{dice.randrange(2 * size):06}": {"price": dice.randrange(97)} for _ in range(20)})
        index.check_cache(seats.database.snapshot())
    assert steps > 3 and index.cache is not None and index.cache.complete and not index.waiting
    txn = seats.database.snapshot()
    in_range = index.count(txn, index_key(10), index_key(20))
    assert in_range == len(list(index.scan(txn, index_key(10), index_key(20))))
    seats.check()


def test_the_budget_evicts_the_least_recently_used(open_store: Callable[..., Store], seats: Table) -> None:
    store = open_store(cache_bytes=70_000)
    seats = store.databases["data"].tables["Seat"]
    fill(seats, {f"{number:03}": {"price": number, "place": str(number), "tags": ["x"]} for number in range(500)})
    txn = seats.database.snapshot()
    price, place, tags = (seats.indexes[name] for name in ("price", "place", "tags"))
    assert price.count(txn, index_key(1), None) == 499 and place.count(txn, index_key("1"), None) > 0
    assert price.cache is not None and place.cache is not None
    assert price.count(txn, index_key(1), None) == 499
    assert tags.count(txn, index_key("a"), None) == 500
    assert place.cache is None and price.cache is not None and tags.cache is not None
    assert 0 < store.caches.used <= store.caches.budget
    seats.check()


def test_an_index_over_the_budget_is_answered_by_lmdb(open_store: Callable[..., Store], seats: Table) -> None:
    store = open_store(cache_bytes=10_000)
    seats = store.databases["data"].tables["Seat"]
    fill(seats, {f"{number:03}": {"price": number} for number in range(500)})
    price = seats.indexes["price"]
    assert price.count(seats.database.snapshot(), index_key(1), None) == 499
    assert price.cache is None and price.refused == 500 and store.caches.used == 0
    transaction = store.begin()
    for number in range(480):
        transaction.delete(seats, f"{number:03}")
    transaction.apply()
    store.commit_turn()
    store.caches.budget = 1 << 20
    assert price.count(seats.database.snapshot(), index_key(1), None) == 20
    assert price.cache is not None, "it is tried again when it has shrunk"


def test_counting_without_cache_stops_at_the_cap(open_store: Callable[..., Store], seats: Table) -> None:
    store = open_store(cache_bytes=0)
    seats = store.databases["data"].tables["Seat"]
    for _ in load_records(seats, ({"code": f"{number:06}", "price": number, "place": "x"} for number in range(COUNT_CAP + 500))):
        pass
    txn = seats.database.snapshot()
    assert seats.indexes["price"].count(txn, index_key(0), None) == COUNT_CAP
    assert seats.indexes["price"].count(txn) == COUNT_CAP + 500
    assert seats.indexes["place"].count(txn, index_key("x"), after(index_key("x"))) == COUNT_CAP + 500


def test_an_index_being_built_refuses(seats: Table) -> None:
    price = seats.indexes["price"]
    price.progress = encode_key("a")
    assert not price.ready and "being built" in repr(price)
    with pytest.raises(IndexRebuilding):
        price.scan(seats.database.snapshot())
    with pytest.raises(IndexRebuilding):
        price.count(seats.database.snapshot(), None, None)


def test_check_finds_a_wrong_cache(price: Index, seats: Table) -> None:
    txn = seats.database.snapshot()
    price.count(txn, index_key(1), None)
    assert price.cache is not None
    price.cache.pending.append((price, index_key(99), encode_key("missing"), True))
    with pytest.raises(AssertionError, match="differs from the index"):
        price.check_cache(txn)


def test_nothing_is_loaded_without_being_asked() -> None:
    caches = IndexCaches(1000)
    assert not caches.has_work and not caches.load(lambda: True) and caches.used == 0


def test_a_scan_goes_on_behind_any_entry(price: Index, seats: Table) -> None:
    txn = seats.database.snapshot()
    entries = list(price.scan(txn))
    places = [*entries, (index_key(3), encode_key("a")), (index_key(5), encode_key("b")), (index_key(5), encode_key("z"))]
    places += [(index_key(None), encode_key("a")), (index_key("z"), encode_key("a"))]
    for place in places:
        assert list(price.scan(txn, behind=place)) == [entry for entry in entries if entry > place]
        assert list(price.scan(txn, reverse=True, behind=place)) == [entry for entry in reversed(entries) if entry < place]
    low, high = index_key(2.5), index_key("a")
    inside = [entry for entry in entries if low <= entry[0] < high]
    for place in inside:
        assert list(price.scan(txn, low, high, behind=place)) == [entry for entry in inside if entry > place]
        assert list(price.scan(txn, low, high, reverse=True, behind=place)) == [entry for entry in reversed(inside) if entry < place]


def test_values_with_their_counts(price: Index, seats: Table) -> None:
    txn = seats.database.snapshot()
    assert [(decode_key(key), count) for key, count in price.values(txn)] == [(None, 2), (2.5, 1), (5, 2), ("x", 1)]
    assert [(decode_key(key), count) for key, count in price.values(txn, index_key(3), index_key("x"))] == [(5, 2)]
    assert list(price.values(txn, index_key("y"), None)) == []


@pytest.mark.parametrize("count", [1, 7, 24, 25, 100, 1000])
def test_primary_keys_are_those_of_a_scan(seats: Table, count: int) -> None:
    fill(seats, {f"k{number:03}": {"price": number // 30} for number in range(200)})
    index, txn = seats.indexes["price"], seats.database.snapshot()
    places: list[tuple[bytes, bytes] | None] = [None, (index_key(2), encode_key("k070"))]
    for low, high in (
        (None, None),
        (index_key(1), None),
        (index_key(2), after(index_key(2))),
        (index_key(1), index_key(4)),
        (index_key(9), None),
    ):
        for reverse in (False, True):
            for behind in places if low is None or low <= index_key(2) else [None]:
                expected = [stored for _, stored in index.scan(txn, low, high, reverse=reverse, behind=behind)]
                take, found = index.primaries(txn, low, high, reverse=reverse, behind=behind), []
                while True:
                    some = take(count)
                    found += some
                    if len(some) < count:
                        break
                assert found == expected
                assert take(count) == []
    assert index.primaries(txn, index_key(7.5), after(index_key(7.5)))(5) == []


def test_few_primary_keys(seats: Table) -> None:
    fill(seats, {f"k{number:03}": {"price": number // 30} for number in range(200)})
    index, txn = seats.indexes["price"], seats.database.snapshot()
    for low, high, size in (
        (index_key(2), None, 30),
        (index_key(7.5), None, 0),
        (index_key(1), index_key(4), 90),
        (index_key(4), index_key(1), 0),
        (index_key(6), index_key(9), 20),
        (index_key(9), index_key(10), 0),
        (index_key(6), b"\xff", 20),
    ):
        expected = [stored for _, stored in index.scan(txn, low, after(low) if high is None else high)]
        assert len(expected) == size
        for most in (size, size + 1, 1000):
            assert index.few(txn, low, high, most) == expected
        assert size == 0 or index.few(txn, low, high, size - 1) is None
        if high is None:
            assert index.count_of(txn, low) == index.exact_count(txn, low, after(low)) == size
    assert index.exact_count(txn, index_key(0), index_key(4), 2) in (None, 120)
    index.progress = b""
    with pytest.raises(IndexRebuilding):
        index.few(txn, index_key(1), None, 5)
    with pytest.raises(IndexRebuilding):
        index.count_of(txn, index_key(1))
