"""svc.store.snapshots: a snapshot that nobody uses, or that costs too much, is taken away."""

import os
from collections.abc import Callable
from dataclasses import replace as replace_definition
from random import randbytes

import pytest

from svc.clock import FakeClock
from svc.errors import SnapshotLost
from svc.store import Store, Table
from svc.store.snapshots import IDLE, LET_GO_AT_ONCE, LONG, SnapshotLimits
from svc.store.values.keys import encode_key
from tests.support.snapshots import reader_slots
from tests.unit.store.conftest import SEAT

pytestmark = pytest.mark.programs


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
    idle = store.snapshots.hold(seats.database)
    put(store, seats, "B")
    store.end_turn()
    used = store.snapshots.hold(seats.database)
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


# --- shared, and bounded ----------------------------------------------------------------------------------------------------------------


def test_readers_of_one_state_share_it_over_turns(store: Store, seats: Table) -> None:
    put(store, seats, "A")
    env = seats.database.env
    held = [store.snapshots.hold(seats.database)]
    for fresh in (False, True):
        store.end_turn()
        held.append(store.snapshots.hold(seats.database, fresh=fresh))
        held.append(held[0].share())
    assert len({each.use() for each in held}) == 1 == len(store.snapshots) == env.open_snapshots()
    assert seats.database.snapshot() is held[0].use(), "turns read it, too"
    put(store, seats, "B")
    store.end_turn()
    assert seats.database.snapshot() is not held[0].use()
    newer = store.snapshots.hold(seats.database, fresh=True)
    assert len(store.snapshots) == 2
    for each in (*held, newer):
        each.abort()
    store.end_turn()
    assert env.open_snapshots() == 0 == len(store.snapshots)


def test_it_is_not_shared_by_turns_that_know_new_stores(store: Store, seats: Table) -> None:
    """LMDB: no transaction may use a store that was opened after it has begun."""
    held = store.snapshots.hold(seats.database)
    table = seats.database.define_table(replace_definition(SEAT, name="Other"))
    assert list(table.scan(seats.database.snapshot())) == []
    assert seats.database.snapshot() is not held.use()
    held.abort()


def test_the_one_used_least_recently_gives_way(limited_to_three: Store, clock: FakeClock, caplog: pytest.LogCaptureFixture) -> None:
    store = limited_to_three
    seats = seats_of(store)
    lost: list[str] = []
    held = []
    for key in "ABC":
        put(store, seats, key)
        store.end_turn()
        held.append(store.snapshots.hold(seats.database, reader=key, on_lost=lambda key=key: lost.append(key)))  # type: ignore[misc]
        clock.advance(1)
    held[0].use()
    held[0].share(on_lost=lambda: lost.append("A too"))
    for key in "DE":
        put(store, seats, key)
        clock.advance(1)
        store.end_turn()
        assert len(store.snapshots) == 3
        held.append(store.snapshots.hold(seats.database, reader=key))
        assert len(store.snapshots) == 3
    store.end_turn()
    assert lost == ["B", "C"]
    with pytest.raises(SnapshotLost, match="Very many"):
        held[1].use()
    assert held[0].use() is not None
    assert "database data: B: Very many results are being read, the snapshot is given up" in caplog.text
    for each in held:
        each.abort()


def test_its_readers_let_go_of_it_some_in_each_turn(limited_to_three: Store) -> None:
    store = limited_to_three
    seats = seats_of(store)
    put(store, seats, "A")
    lost: list[int] = []
    held = [store.snapshots.hold(seats.database, on_lost=lambda: lost.append(1)) for _ in range(2 * LET_GO_AT_ONCE + 1)]
    assert store.snapshots.give_up_oldest(seats.database)
    with pytest.raises(SnapshotLost):
        held[0].use()
    assert len(lost) == 1, "at its next use"
    seen = []
    for _ in range(4):
        store.end_turn()
        seen.append(len(lost))
    assert seen == [1 + LET_GO_AT_ONCE, *[1 + 2 * LET_GO_AT_ONCE] * 3]
    assert not store.snapshots.give_up_oldest(seats.database)


def test_one_of_the_server_itself_is_kept(limited_to_three: Store, clock: FakeClock) -> None:
    store = limited_to_three
    seats = seats_of(store)
    kept = store.snapshots.hold(seats.database, is_kept=True)
    clock.advance(IDLE)
    assert store.snapshots.abort_due() == 0
    held = []
    for key in "ABCDE":
        put(store, seats, key)
        store.end_turn()
        held.append(store.snapshots.hold(seats.database))
    assert kept.use() is not None and len(store.snapshots) == 3
    copy = seats.database.env.open_copy()
    put(store, seats, "F")
    held.append(store.snapshots.hold(seats.database, fresh=True))
    assert len(store.snapshots) == 3, "a copy counts: one less"
    copy.close()
    for each in (kept, *held):
        each.abort()


def test_what_is_read_from_it_is_closed_with_it(store: Store, seats: Table) -> None:
    for key in "ABC":
        put(store, seats, key)
    held = store.snapshots.hold(seats.database)
    rows = held.read(seats.scan)
    assert next(rows)[0] == encode_key("A")
    store.snapshots.give_up_oldest(seats.database)
    store.end_turn()
    with pytest.raises(SnapshotLost):
        next(rows)
    assert reader_slots(seats.database.env) <= 2


def test_one_line_a_second_says_it(limited_to_three: Store, clock: FakeClock, caplog: pytest.LogCaptureFixture) -> None:
    store = limited_to_three
    seats = seats_of(store)
    for key in "ABCDEFGHIJ":
        put(store, seats, key)
        store.end_turn()
        store.snapshots.hold(seats.database)
    assert caplog.text.count("given up") == 1
    clock.advance(1)
    store.snapshots.give_up_oldest(seats.database)
    assert caplog.text.count("given up") == 2 and "(and 6 others before)" in caplog.text


@pytest.fixture
def limited_to_three(open_store: Callable[..., Store]) -> Store:
    return open_store(snapshot_limits=SnapshotLimits(most=3), write_async=True)


def test_a_forked_child_ends_none_of_its_parent(store: Store, seats: Table) -> None:
    """LMDB's slots are in memory that both share: the pages that the parent reads would be given to writers."""
    put(store, seats, "A")
    held = store.snapshots.hold(seats.database)
    store.end_turn()
    child = os.fork()
    if child == 0:
        try:
            store.give_up()
            held.abort()  # as when the frames of a handler end
            del held
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert seats.database.env.open_snapshots() == 1
    held.abort()
    assert seats.database.env.open_snapshots() == 0
