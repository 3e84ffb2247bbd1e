"""svc.store.maintenance: expired records and failures. Index builds: test_database; the log: test_log; caches: test_index."""

import os
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

import pytest

from svc.clock import FakeClock
from svc.errors import NoSpace
from svc.store import Database, LogEntry, Store, Table, maintenance
from svc.store.blobs.files import relative_name
from svc.store.env import Environment
from svc.store.expiry_index import next_scan, scan_interval
from svc.store.log.entries import EXPIRE
from svc.store.schema import Attribute, TableDefinition
from tests.unit.store.conftest import SEAT


def put(store: Store, table: Table, count: int, expires_at: float | None = None) -> None:
    transaction = store.begin()
    for number in range(count):
        transaction.put(table, f"{number:04}", {"price": number, "tags": ["x"]}, expires_at=expires_at)
    transaction.apply()
    store.commit_turn()


def stored(table: Table) -> int:
    return table.database.snapshot().stat(table.primary)["entries"]


def test_expired_records_are_removed(store: Store, seats: Table, clock: FakeClock) -> None:
    heard: list[LogEntry] = []

    def listen(database: Database, entries: list[LogEntry]) -> None:
        heard.extend(entries)

    store.on_commit.append(listen)
    seats.database.define_table(replace(seats.definition, expiration=100.0))
    put(store, seats, 250)
    store.maintenance(1.0)
    clock.advance(99)
    store.maintenance(1.0)
    assert stored(seats) == 250
    clock.advance(60)
    heard.clear()
    assert not store.maintenance(1.0)
    assert stored(seats) == 0 and list(seats.indexes["price"].scan(seats.database.snapshot())) == []
    store.commit_turn()
    assert len(heard) == 250 and {entry.kind for entry in heard} == {EXPIRE} and {entry.user for entry in heard} == {None}
    assert heard[0].image is not None
    store.check()


def test_a_process_that_does_not_lead_leaves_the_databases_alone(store: Store, seats: Table, clock: FakeClock) -> None:
    seats.database.define_table(replace(seats.definition, expiration=1.0))
    put(store, seats, 3)
    store.maintenance(1.0, leads=False)
    clock.advance(1000)
    commits = store.stats().commits
    assert not store.maintenance(1.0, leads=False)
    assert stored(seats) == 3 and store.stats().commits == commits
    orphan = seats.database.blobs.roots[0] / relative_name(77)
    orphan.parent.mkdir(parents=True, exist_ok=True)
    orphan.touch()
    os.utime(orphan, (0, 0))
    store.sweep_blobs(seats.database)  # where a restore was made
    store.maintenance(1.0, leads=False)
    assert not orphan.exists() and stored(seats) == 3
    store.maintenance(1.0)
    clock.advance(1000)
    store.maintenance(1.0)
    assert stored(seats) == 0


def test_eviction_is_added(store: Store, seats: Table, clock: FakeClock) -> None:
    seats.database.define_table(replace(seats.definition, expiration=100.0, eviction=1000.0, scan_interval=1.0))
    put(store, seats, 3)
    store.maintenance(1.0)
    clock.advance(500)
    store.maintenance(1.0)
    assert stored(seats) == 3 and seats.record_count() == 0
    clock.advance(700)
    store.maintenance(1.0)
    assert stored(seats) == 0
    store.check()


def test_a_record_written_again_stays(store: Store, seats: Table, clock: FakeClock) -> None:
    put(store, seats, 3, clock.wall() * 1000 + 10_000)
    put(store, seats, 1)
    store.maintenance(1.0)
    clock.advance(120)
    store.maintenance(1.0)
    assert stored(seats) == 1 and seats.get_raw("0000") is not None
    store.check()


def test_a_slice_keeps_to_its_time(store: Store, seats: Table, clock: FakeClock) -> None:
    put(store, seats, 250, clock.wall() * 1000 + 10_000)
    store.maintenance(1.0)
    clock.advance(120)
    assert store.maintenance(0.0) and stored(seats) == 250
    assert not store.maintenance(1.0) and stored(seats) == 0


def test_after_a_failure_it_pauses(store: Store, seats: Table, clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> None:
    put(store, seats, 3, clock.wall() * 1000 + 10_000)
    store.maintenance(1.0)
    clock.advance(120)
    calls: list[int] = []

    def fail(self: Environment) -> None:
        calls.append(1)
        self.abort()
        raise NoSpace

    with monkeypatch.context() as patch:
        patch.setattr(Environment, "commit", fail)
        assert not store.maintenance(1.0) and not store.maintenance(1.0)
        assert len(calls) == 1 and stored(seats) == 3
    clock.advance(6)
    store.maintenance(1.0)
    assert stored(seats) == 0
    store.check()


def test_a_failure_in_one_database_does_not_hold_up_the_others(
    store: Store, seats: Table, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = store.open_database("other").define_table(replace(seats.definition, scan_interval=1.0))
    put(store, seats, 3, clock.wall() * 1000 + 10_000)
    put(store, other, 3, clock.wall() * 1000 + 121_000)
    store.maintenance(1.0)
    clock.advance(120)
    commit = Environment.commit

    def fail(self: Environment) -> None:
        if self is seats.database.env:
            self.abort()
            raise NoSpace
        commit(self)

    monkeypatch.setattr(Environment, "commit", fail)
    store.maintenance(1.0)
    clock.advance(3)
    store.maintenance(1.0)
    assert (stored(seats), stored(other)) == (3, 0)


@pytest.fixture
def slow_commits(clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each commit takes a millisecond of the clock."""
    commit = Environment.commit

    def take_time(self: Environment) -> None:
        clock.advance(0.001)
        commit(self)

    monkeypatch.setattr(Environment, "commit", take_time)


def test_a_long_index_build_leaves_a_share_to_all_other_work(
    open_store: Callable[..., Store], clock: FakeClock, slow_commits: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(log_retention=100.0)
    key = Attribute("id", "ID", primary_key=True)
    built = store.open_database("a").define_table(TableDefinition("Built", attributes=(key, Attribute("n", "Int")), primary_key="id"))
    fast = store.open_database("b").define_table(replace(SEAT, expiration=100.0))
    for table in (built, fast):
        transaction = store.begin()
        for number in range(1500):
            transaction.put(table, f"{number:04}", {"n": number} if table is built else {"stock": number})
        transaction.apply()
        store.commit_turn()
    store.maintenance(1.0)

    def build_slice(*of: object) -> bool:
        clock.advance(0.001)
        return False  # there is always more

    monkeypatch.setattr(maintenance, "build_slice", build_slice)
    built.database.define_table(replace(built.definition, attributes=(key, Attribute("n", "Int", indexed=True))))
    clock.advance(300)
    for _ in range(100):
        assert store.maintenance(0.004)
    assert built.indexes["n"].progress is not None
    assert stored(fast) == 0 and fast.database.log.count(fast.database.snapshot()) <= 1500
    assert built.database.log.count(built.database.snapshot()) == 1


def test_tables_with_expired_records_take_turns(store: Store, clock: FakeClock, slow_commits: None) -> None:
    database = store.open_database("a")
    tables = [database.define_table(replace(SEAT, name=name, expiration=100.0)) for name in ("First", "Second")]
    for table, count in zip(tables, (2000, 100), strict=True):
        put(store, table, count)
    store.maintenance(1.0)
    clock.advance(300)
    for _ in range(3):
        store.maintenance(0.002)
    assert stored(tables[1]) == 0 and stored(tables[0]) > 1000


def test_a_clock_that_was_ahead_does_not_hold_up_scans(store: Store, seats: Table, clock: FakeClock) -> None:
    clock.step(400 * 86_400)
    store.maintenance(1.0)
    clock.step(-400 * 86_400)
    put(store, seats, 3, clock.wall() * 1000 + 10_000)
    for _ in range(2):
        clock.advance(120)
        store.maintenance(1.0)
    assert stored(seats) == 0


def test_nothing_to_do(store: Store, seats: Table) -> None:
    before = seats.database.env.current
    assert not store.maintenance(1.0) and not store.has_pending and seats.database.env.current == before


@pytest.mark.parametrize(
    ("changes", "interval"),
    [
        ({}, 60.0),
        ({"expiration": 100.0}, 25.0),
        ({"expiration": 100.0, "eviction": 20.0}, 30.0),
        ({"expiration": 1.0}, 1.0),
        ({"expiration": 100.0, "scan_interval": 7.0}, 7.0),
    ],
)
def test_interval(seats: Table, changes: dict[str, float], interval: float) -> None:
    seats.database.define_table(replace(seats.definition, **changes))  # type: ignore[arg-type]
    assert scan_interval(seats.definition) == interval


def test_scans_are_aligned_to_the_local_year(open_store: Callable[..., Store]) -> None:
    start = datetime(2026, 1, 1).timestamp()
    assert next_scan(start, 7.0) == start + 7 == next_scan(start + 6.9, 7.0)
    assert next_scan(start - 1, 3600.0) == start
