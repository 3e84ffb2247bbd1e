"""svc.store.snapshots: a snapshot that nobody uses is taken away."""

import pytest

from svc.clock import FakeClock
from svc.errors import SnapshotLost
from svc.store import Store, Table
from svc.store.snapshots import IDLE


def put(store: Store, table: Table, key: str) -> None:
    transaction = store.begin()
    transaction.put(table, key, {})
    transaction.apply()
    store.commit_turn()


def test_it_outlives_the_turn_and_sees_what_the_turn_saw(store: Store, seats: Table) -> None:
    put(store, seats, "A")
    held = store.snapshots.hold(seats.database)
    put(store, seats, "B")
    assert [stored for stored, _ in seats.scan(held.use())] != [stored for stored, _ in seats.scan(seats.database.snapshot())]
    store.end_turn()
    assert seats.database.env.open_snapshots() == 1 == len(store.snapshots)
    held.abort()
    held.abort()
    assert seats.database.env.open_snapshots() == 0 == len(store.snapshots)
    with pytest.raises(SnapshotLost):
        held.use()


def test_it_is_kept_as_long_as_it_is_used(store: Store, seats: Table, clock: FakeClock) -> None:
    put(store, seats, "A")
    held = store.snapshots.hold(seats.database)
    for _ in range(10):
        clock.advance(IDLE - 1)
        assert store.snapshots.abort_idle() == 0
        held.use()
    held.abort()


def test_it_is_given_up_when_it_is_idle(store: Store, seats: Table, clock: FakeClock, caplog: pytest.LogCaptureFixture) -> None:
    put(store, seats, "A")
    idle, used = store.snapshots.hold(seats.database), store.snapshots.hold(seats.database)
    rows = seats.scan(idle.use())
    next(rows)
    clock.advance(IDLE / 2)
    used.use()
    clock.advance(IDLE / 2)
    assert store.snapshots.abort_idle() == 1
    store.end_turn()
    assert seats.database.env.open_snapshots() == 1
    assert "was not read for 30 s" in caplog.text and caplog.records[-1].levelname == "WARNING"
    with pytest.raises(SnapshotLost, match="30 seconds"):
        idle.use()
    rows.close()  # type: ignore[attr-defined]
    assert used.use() is not None
    used.abort()


def test_pages_are_used_again_afterwards(store: Store, seats: Table, clock: FakeClock) -> None:
    """What it is for: a reader that has stopped does not make the file grow, beyond what the log takes."""
    put(store, seats, "A")
    held = store.snapshots.hold(seats.database)

    def grown() -> int:
        before = seats.database.env.used_bytes()
        for _ in range(60):
            transaction = store.begin()
            transaction.put(seats, "A", {"place": "x" * 20_000})
            transaction.apply()
            store.commit_turn()
        return seats.database.env.used_bytes() - before

    pinned = grown()
    clock.advance(IDLE)
    assert store.snapshots.abort_idle() == 1
    grown()
    free = grown()
    assert free < pinned
    with pytest.raises(SnapshotLost):
        held.use()
