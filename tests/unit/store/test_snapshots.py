"""svc.store.snapshots: a snapshot that nobody uses, or that costs too much, is taken away."""

from collections.abc import Callable
from random import randbytes

import pytest

from svc.clock import FakeClock
from svc.errors import SnapshotLost
from svc.store import Store, Table
from svc.store.snapshots import IDLE, LONG, SnapshotLimits
from tests.unit.store.conftest import SEAT


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
        assert store.snapshots.abort_due() == 0
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
    assert store.snapshots.abort_due() == 1
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
    assert store.snapshots.abort_due() == 1
    grown()
    free = grown()
    assert free < pinned
    with pytest.raises(SnapshotLost):
        held.use()


# --- age and growth ---------------------------------------------------------------------------------------------------------------------

LIMITS = SnapshotLimits(age=100.0, growth=4 << 20)


@pytest.fixture
def limited(open_store: Callable[..., Store]) -> Store:
    return open_store(snapshot_limits=LIMITS, write_async=True)


def replace(store: Store, table: Table, times: int, *, keep: bool = False) -> None:
    """Write so often 20 kB in the place of others, or beside them, without what the log takes."""
    for number in range(times):
        transaction = store.begin()
        transaction.put(table, f"A{number}" if keep else "A", {"place": "x" * 20_000})
        transaction.apply()
        store.commit_turn()
        with table.database._changing() as writer:
            writer.drop(table.database._core[1], False)
            table.database.env.touch()


def seats_of(store: Store) -> Table:
    return store.open_database("data").define_table(SEAT)


def test_it_is_taken_from_a_reader_that_makes_the_file_grow(limited: Store, clock: FakeClock, caplog: pytest.LogCaptureFixture) -> None:
    seats = seats_of(limited)
    put(limited, seats, "A")
    held = limited.snapshots.hold(seats.database, reader="the answer to GET /Seat/")
    while limited.snapshots.abort_due() == 0:
        held.use()
        before = seats.database.env.used_bytes()
        replace(limited, seats, 10)
        assert before < 64 << 20
    assert "the answer to GET /Seat/: The result keeps 4 MB of the database from being used again" in caplog.text
    with pytest.raises(SnapshotLost, match="keeps 4 MB"):
        held.use()
    replace(limited, seats, 10)
    before = seats.database.env.used_bytes()
    replace(limited, seats, 100)
    assert seats.database.env.used_bytes() <= before, "its pages are used again"


def test_it_is_not_the_fault_of_a_reader_that_there_is_more(limited: Store, clock: FakeClock) -> None:
    """The file grows by what is added: nothing would be gained."""
    seats = seats_of(limited)
    held = limited.snapshots.hold(seats.database)
    for number in range(4):
        transaction = limited.begin()
        for key in range(100):
            transaction.put(seats, f"{number}-{key}", {"place": randbytes(10_000).hex()})
        transaction.apply()
        limited.commit_turn()
        held.use()
        assert limited.snapshots.abort_due() == 0
    assert seats.database.env.used_bytes() > LIMITS.growth
    held.abort()


def test_an_old_one_is_taken_if_it_is_in_the_way(limited: Store, clock: FakeClock) -> None:
    seats = seats_of(limited)
    put(limited, seats, "A")
    held = limited.snapshots.hold(seats.database)
    for _ in range(20):
        clock.advance(IDLE / 2)
        held.use()
        assert limited.snapshots.abort_due() == 0, "it is old, and in nobody's way"
    replace(limited, seats, 40)
    held.use()
    assert limited.snapshots.abort_due() == 1
    with pytest.raises(SnapshotLost, match="is being read for 300 seconds"):
        held.use()


# --- long transactions ------------------------------------------------------------------------------------------------------------------


def test_what_is_open_for_long_is_reported_once(store: Store, seats: Table, clock: FakeClock, caplog: pytest.LogCaptureFixture) -> None:
    class Writing:
        since = clock.monotonic()
        about = "a write of 5 records by the user anna"

        def yield_writer(self) -> None:
            pass

        def finish(self) -> None:
            pass

    held = store.snapshots.hold(seats.database, reader="the answer to GET /Seat/")
    seats.database.env.hold(Writing())
    clock.advance(LONG - 1)
    store.report_long_transactions()
    assert not caplog.records
    clock.advance(1)
    for _ in range(2):
        store.report_long_transactions()
    assert [record.getMessage() for record in caplog.records if record.levelname == "WARNING"] == [
        "database data: the answer to GET /Seat/ has a read transaction open for 5 s",
        "database data: a write of 5 records by the user anna has the write transaction for 5 s",
    ]
    held.abort()
    seats.database.env.release()
