"""Caches of indexes while another process writes to the same database: they follow its log."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from svc.clock import FakeClock
from svc.errors import StoreFailure
from svc.store import Store, Table
from svc.store.env import Environment
from svc.store.indexes import index as index_module
from svc.store.indexes import replay as replay_module
from svc.store.indexes.index import Index
from svc.store.schema import Attribute, TableDefinition
from svc.store.values.keys import index_key
from tests.support.hub import Sibling

pytestmark = pytest.mark.programs

SPOT = TableDefinition("Spot", attributes=(Attribute("id", primary_key=True), Attribute("rank", "Int", indexed=True)))


@pytest.fixture(scope="module")
def process() -> Iterator[Sibling]:
    made = Sibling()
    yield made
    made.stop()


@pytest.fixture(autouse=True)
def _small_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay_module, "SHARE", 5)


@pytest.fixture
def sibling(process: Sibling, seats: Table, store: Store, tmp_path: Path) -> Iterator[Sibling]:
    transaction = store.begin()
    for number in range(40):
        transaction.put(seats, f"k{number:02}", {"price": number, "tags": ["x", str(number % 3)]})
    transaction.apply()
    store.commit_turn()
    for name, audit in (("Spot", None), ("Plain", False)):
        seats.database.define_table(replace(SPOT, name=name, audit=audit))
    process.open(tmp_path / "database")
    yield process
    process.close()


class Writer:
    """Writes in the other process. `clock`: of both."""

    def __init__(self, sibling: Sibling, clock: FakeClock) -> None:
        self._sibling = sibling
        self._clock = clock

    def __call__(self, *writes: tuple[str, str, Any], table: str = "Seat") -> None:
        self._clock.advance(1)
        self._sibling.write(self._clock.wall(), [["data", table, *write] for write in writes])


@pytest.fixture
def write(sibling: Sibling, clock: FakeClock) -> Writer:
    return Writer(sibling, clock)


def count(index: Index, low: float) -> int:
    """From this value on."""
    database = index.env
    found = index.count(database.snapshot(), index_key(low), None)
    index.check_cache(database.snapshot())
    stored, _ = index.count_stored(database.snapshot(), index_key(low), None)
    assert found == stored
    database.end_snapshot()
    return found


@pytest.mark.parametrize(
    ("writes", "change"),
    [
        ([("put", "new", {"price": 50})], 1),
        ([("put", "k30", {"price": 1})], -1),
        ([("put", "k30", {"stock": 1})], -1),
        ([("put", "k01", {"price": 30})], 1),
        ([("patch", "k01", {"price": {"add": 30}})], 1),
        ([("patch", "k01", {"stock": 1})], 0),
        ([("delete", "k30", None)], -1),
        ([("delete", "k30", None), ("put", "k30", {"price": 31})], 0),
        ([("delete", "none", None)], 0),
        ([("put", "new", {"price": 50}), ("patch", "new", {"price": 60}), ("delete", "new", None)], 0),
        ([("publish", "k30", {"price": 1}), ("put", "k01", {"price": 99})], 1),
        ([("put", "a" * 600, {"price": 50}), ("put", "a" * 600, {"price": 50, "tags": ["x"] * 3})], 1),
    ],
)
def test_a_cache_follows(seats: Table, write: Writer, writes: list[tuple[str, str, Any]], change: int) -> None:
    price, tags = seats.indexes["price"], seats.indexes["tags"]
    before = count(price, 20)
    count(tags, 1)
    caches = price.cache, tags.cache
    assert None not in caches
    for one in writes[: len(writes) // 2]:
        write(one)
    write(*writes[len(writes) // 2 :])
    assert count(price, 20) == before + change
    count(tags, 1)
    assert (price.cache, tags.cache) == caches
    write(("put", "later", {"price": 1000}))
    assert count(price, 20) == before + change + 1


def test_own_writes_in_between(seats: Table, store: Store, write: Writer) -> None:
    price = seats.indexes["price"]
    before = count(price, 20)
    cache = price.cache
    for number in range(3):
        write(("put", f"k{number}", {"price": 100}))
        transaction = store.begin()
        transaction.put(seats, f"k{number}", {"price": 1})
        transaction.put(seats, f"own{number}", {"price": 100})
        transaction.apply()
        store.commit_turn()
        write(("delete", f"own{number}", None))
        assert count(price, 20) == before
    assert price.cache is cache


def test_a_turn_that_could_not_be_committed(seats: Table, store: Store, write: Writer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its log entries have the numbers that those of the other process get."""
    price = seats.indexes["price"]
    before = count(price, 20)
    transaction = store.begin()
    for number in range(3):
        transaction.put(seats, f"own{number}", {"price": 100})
    transaction.apply()
    abort = Environment.abort

    def fail(env: Environment) -> None:
        raise StoreFailure("no")

    def abort_and_be_late(env: Environment) -> None:
        abort(env)
        write(*[("put", f"new{number}", {"price": 100}) for number in range(5)])

    with monkeypatch.context() as patch:
        patch.setattr(Environment, "commit", fail)
        patch.setattr(Environment, "abort", abort_and_be_late)
        store.commit_turn()
    assert transaction.outcome != (None,)
    assert count(price, 20) == before + 5
    seats.check()


def test_writes_to_other_tables(seats: Table, write: Writer) -> None:
    price = seats.indexes["price"]
    count(price, 20)
    cache = price.cache
    for _ in range(3):
        write(*[("put", str(number), {"rank": number}) for number in range(100)], table="Spot")
        count(price, 20)
    assert price.cache is cache


@pytest.mark.parametrize("limits", [{"LOOK": 3}, {"MOST": 3}, {"SHARE": 13}])
def test_more_than_is_replayed(seats: Table, write: Writer, monkeypatch: pytest.MonkeyPatch, limits: dict[str, int]) -> None:
    monkeypatch.setattr(replay_module, "SHARE", 1)
    for name, limit in limits.items():
        monkeypatch.setattr(replay_module, name, limit)
    price = seats.indexes["price"]
    before = count(price, 20)
    cache = price.cache
    write(*[("put", f"new{number}", {"price": 100}) for number in range(3)])
    assert count(price, 20) == before + 3
    assert price.cache is cache
    write(*[("put", f"new{number}", {"price": 0}) for number in range(4)])
    assert count(price, 20) == before
    assert price.cache is not cache


def test_without_images_it_is_loaded_again_after_some_counts(seats: Table, write: Writer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_module, "COUNTED", 20)  # of 40 entries
    rank = seats.database.tables["Plain"].indexes["rank"]
    write(*[("put", str(number), {"rank": number}) for number in range(40)], table="Plain")
    count(rank, 20)
    cache = rank.cache
    assert cache is not None
    write(("put", "new", {"rank": 50}), table="Plain")
    count(rank, 20)
    assert rank.cache is cache, "a new record has no image"
    write(("delete", "new", None), table="Plain")
    for _ in range(2):
        assert count(rank, 20) == 20
        assert rank.cache is None
    assert count(rank, 20) == 20
    assert rank.cache is not None
