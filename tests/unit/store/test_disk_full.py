"""A full disk, a full map, a disk that fails: what was undone is answered so, all else goes on (spec: schema-and-store §15)."""

import asyncio
import random
import re
import resource
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from svc.clock import FakeClock
from svc.errors import NoSpace, Problem, StoreFailure
from svc.seldom import Seldom
from svc.store import Store, Table, Transaction
from svc.store.disk import faults
from svc.store.disk.space_reserve import RESERVE_FILE
from svc.store.env import Environment
from svc.store.schema import Attribute, TableDefinition
from svc.store.values.keys import index_key
from svc.store.writing.bulk_write import load_records
from tests.support.faults import Volume, refuse_meta_pages

BLOB = random.Random(1).randbytes(3000)  # which cannot be packed in the log
WIDE = tuple([Attribute(f"wide{number}", "String", indexed=True) for number in range(12)])
pytestmark = pytest.mark.usefixtures("real_reserve")


@contextmanager
def no_growth(table: Table, extra: int = 0) -> Iterator[None]:
    """Let no file grow: what the operating system says then is what it says of a full disk."""
    size = (table.database.env.path / "data.mdb").stat().st_size + extra
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def write(store: Store, table: Table, keys: range, outcome: list[Problem | None], **record: Any) -> None:
    transaction = store.begin()
    for key in keys:
        transaction.put(table, f"{key:04}", {"price": key, "text": BLOB, **record})
    transaction.on_done = outcome.append
    transaction.apply()


def contents(table: Table) -> list[Any]:
    return [table.key_of(raw) for _, raw in table.scan(table.database.snapshot())]


def try_write(store: Store, table: Table, keys: range) -> Problem | None:
    """One turn with one transaction; its problem, whether that came at once or with the commit."""
    outcome: list[Problem | None] = []
    try:
        write(store, table, keys, outcome)
    except Problem as problem:
        return problem
    store.commit_turn()
    return outcome[0]


def test_every_transaction_of_a_turn_that_cannot_be_committed_is_undone(store: Store, seats: Table) -> None:
    outcome: list[Problem | None] = []
    heard: list[int] = []
    store.on_commit.append(lambda database, entries: heard.append(len(entries)))
    write(store, seats, range(10), outcome)
    store.commit_turn()
    assert seats.indexes["price"].count(seats.database.snapshot(), index_key(0), index_key(5)) == 5
    before = contents(seats)
    with no_growth(seats):
        write(store, seats, range(1000, 1400), outcome)
        write(store, seats, range(2000, 2400), outcome)
        store.commit_turn()
        assert [type(problem) for problem in outcome] == [type(None), NoSpace, NoSpace]
        assert contents(seats) == before, "reading goes on"
        assert seats.indexes["price"].count(seats.database.snapshot(), index_key(0), index_key(5000)) == 10
        store.check()
    write(store, seats, range(1000, 1400), outcome)
    store.commit_turn()
    assert outcome[-1] is None and len(contents(seats)) == 410, "writing goes on by itself when there is space"
    assert heard == [10, 400] and store.stats().failed_commits == 1
    assert [entry.lsn for entry in seats.database.log.read(seats.database.snapshot())] == list(range(1, 411)), "no LSN was lost"
    store.check()


def test_records_are_refused_before_the_last_page_is_used_and_deleting_goes_on(store: Store, seats: Table) -> None:
    with no_growth(seats):
        stored = 0
        while (problem := try_write(store, seats, range(stored, stored + 10))) is None:
            stored += 10
        assert type(problem) is NoSpace and stored >= 50 and seats.record_count() == stored
        assert store.stats().failed_commits == 0, "nobody else's writes were undone"
        for key in range(stored):
            outcome: list[Problem | None] = []
            transaction = store.begin()
            transaction.delete(seats, f"{key:04}")
            transaction.on_done = outcome.append
            transaction.apply()
            store.commit_turn()
            assert outcome == [None]
        assert contents(seats) == []
        store.check()
    assert try_write(store, seats, range(10)) is None
    store.check()


def fill(store: Store, seats: Table) -> int:
    """The number of records that fit."""
    stored = 0
    while try_write(store, seats, range(stored, stored + 50)) is None:
        stored += 50
    store.commit_turn()
    return stored


def deletion(store: Store, seats: Table, keys: Iterable[int]) -> Transaction:
    transaction = store.begin()
    for key in keys:
        transaction.delete(seats, f"{key:04}")
    return transaction


@pytest.mark.parametrize("is_long", [False, True])
def test_a_deletion_that_is_too_large_for_the_reserve_says_how_many_fit(store: Store, seats: Table, is_long: bool) -> None:
    with no_growth(seats, extra=8 << 20):
        stored = fill(store, seats)
        outcome: list[Problem | None] = []
        transaction = deletion(store, seats, range(stored))
        if is_long:
            with pytest.raises(NoSpace) as caught:
                asyncio.run(transaction.apply_long())
            outcome.append(caught.value)
        else:
            transaction.on_done = outcome.append
            transaction.apply()
            store.commit_turn()
        found = re.search(f"delete {stored:,} records at once, nothing was deleted: .* about ([0-9,]+) of them", str(outcome[0]))
        assert found is not None and seats.record_count() == stored
        many = int(found[1].replace(",", ""))
        assert 20 <= many < stored
        for start in range(0, stored, many):
            transaction = deletion(store, seats, range(start, min(start + many, stored)))
            transaction.on_done = outcome.append
            transaction.apply()
            store.commit_turn()
        assert outcome[1:] == [None] * (len(outcome) - 1) and seats.record_count() == 0
    store.check()


def test_a_full_map_says_how_many_deletions_fit(open_store: Callable[..., Store], seats: Table) -> None:
    store = open_store(map_bytes=8 << 20)
    seats = store.databases["data"].tables["Seat"]
    stored = fill(store, seats)
    with pytest.raises(NoSpace, match=r"delete [0-9]+ records at once"):
        deletion(store, seats, range(stored)).apply()
    store.commit_turn()
    assert seats.record_count() == stored
    store.check()


def test_expired_records_leave_a_full_volume_in_batches_that_fit(store: Store, seats: Table, clock: FakeClock) -> None:
    wide = replace(seats.definition, expiration=100.0, attributes=(*seats.definition.attributes, *WIDE))
    seats = seats.database.define_table(wide)
    with no_growth(seats, extra=8 << 20):
        stored = fill(store, seats)
        store.maintenance(1.0)
        clock.advance(200)
        for _ in range(8):
            store.maintenance(1.0)
            clock.advance(10)
        assert contents(seats) == [] and seats.entry_count(seats.database.snapshot()) == 0 < stored
    store.check()


def test_background_work_that_adds_leaves_the_reserve_alone(store: Store, seats: Table, clock: FakeClock) -> None:
    with no_growth(seats, extra=8 << 20):
        stored = fill(store, seats)
        handle = seats.indexes["stock"].handle if "stock" in seats.indexes else None
        assert handle is None and stored > 1000
        attributes = tuple(replace(each, indexed=True) if each.name == "stock" else each for each in seats.definition.attributes)
        seats.database.define_table(replace(seats.definition, attributes=attributes))
        for _ in range(3):
            assert not store.maintenance(1.0)
            clock.advance(10)
        assert seats.indexes["stock"].progress == b""
        for start in range(0, stored, 20):
            deletion(store, seats, range(start, start + 20)).apply()
            store.commit_turn()
        assert seats.record_count() == 0
    clock.advance(10)
    store.maintenance(1.0)
    assert seats.indexes["stock"].ready
    store.check()


def test_space_made_inside_the_file_is_used(store: Store, seats: Table, clock: FakeClock) -> None:
    with no_growth(seats, extra=4 << 20):
        stored = 0
        while try_write(store, seats, range(stored, stored + 100)) is None:
            stored += 100
        transaction = store.begin()
        for key in range(stored):
            transaction.delete(seats, f"{key:04}")
        transaction.apply()
        store.commit_turn()
        clock.advance(4 * 86400.0)
        store.maintenance(1.0)  # removes the log entries, which hold the images
        assert try_write(store, seats, range(10)) is None
    store.check()


def test_other_databases_of_the_turn_are_not_affected(store: Store, seats: Table) -> None:
    other = store.open_database("other").define_table(seats.definition)
    outcome: list[Problem | None] = []
    with no_growth(seats):
        write(store, other, range(3), outcome)
        write(store, seats, range(1000, 1800), outcome)
        store.commit_turn()
    assert [type(problem) for problem in outcome] == [type(None), NoSpace]
    assert len(contents(other)) == 3 and contents(seats) == []
    store.check()


def test_a_load_stops_at_the_batch_that_did_not_fit(store: Store, seats: Table) -> None:
    with no_growth(seats, extra=1 << 20):
        done = 0
        with pytest.raises(NoSpace):
            for done in load_records(seats, ({"code": f"{n:05}", "text": BLOB} for n in range(5000)), batch=50):  # noqa: B007
                pass
    assert 0 < done < 5000 and seats.record_count() == done
    store.check()


def test_a_schema_change_that_did_not_fit(store: Store, seats: Table) -> None:
    wide = TableDefinition("Wide", attributes=(Attribute("id", "ID", primary_key=True),), description="x" * 5_000_000)
    with no_growth(seats), pytest.raises(NoSpace):
        seats.database.define_table(wide)
    assert list(seats.database.tables) == ["Seat"]
    table = seats.database.define_table(wide)
    write(store, table, range(3), [])
    store.commit_turn()
    store.check()


def test_a_full_map_fails_one_transaction(open_store: Callable[..., Store], seats: Table) -> None:
    store = open_store(map_bytes=4 << 20)
    seats = store.databases["data"].tables["Seat"]
    outcome: list[Problem | None] = []
    write(store, seats, range(20), outcome)
    with pytest.raises(NoSpace, match="map"):
        write(store, seats, range(100, 1000), outcome)
    write(store, seats, range(20, 30), outcome)
    store.commit_turn()
    assert outcome == [None, None] and len(contents(seats)) == 30
    store.check()
    larger = open_store(map_bytes=1 << 24)
    seats = larger.databases["data"].tables["Seat"]
    write(larger, seats, range(100, 1000), outcome)
    larger.commit_turn()
    assert outcome[-1] is None and len(contents(seats)) == 930
    larger.check()


def test_a_disk_that_fails(store: Store, seats: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    outcome: list[Problem | None] = []
    write(store, seats, range(3), outcome)
    store.commit_turn()

    def fail(self: Environment) -> None:
        self.abort()
        raise StoreFailure("The database could not be written")

    with monkeypatch.context() as patch:
        patch.setattr(Environment, "commit", fail)
        write(store, seats, range(3, 6), outcome)
        store.commit_turn()
    assert outcome[0] is None and type(outcome[1]) is StoreFailure and outcome[1].status_code == 503
    assert len(contents(seats)) == 3
    write(store, seats, range(3, 6), outcome)
    store.commit_turn()
    assert outcome[-1] is None and len(contents(seats)) == 6
    store.check()


# --- meta pages -------------------------------------------------------------------------------------------------------------------------


def test_a_failed_write_of_a_meta_page_is_known_at_once(store: Store, seats: Table, open_store: Callable[..., Store]) -> None:
    """LMDB can do nothing more then. The other database goes on, and so does this one once it is opened again."""
    other = store.open_database("other").define_table(seats.definition)
    assert try_write(store, seats, range(3)) is None
    refuse_meta_pages(seats.database.env.path / "data.mdb")
    assert store.stopped == []
    assert isinstance(try_write(store, seats, range(10, 13)), StoreFailure)
    assert store.stopped == ["data"]
    with pytest.raises(StoreFailure, match="restart the service"):
        seats.get_raw("0001")
    assert isinstance(try_write(store, seats, range(3)), StoreFailure)
    assert try_write(store, other, range(3)) is None
    again = open_store()
    assert again.stopped == []
    table = again.databases["data"].tables["Seat"]
    assert {"0000", "0001", "0002"} <= set(contents(table))
    assert try_write(again, table, range(20, 23)) is None
    again.check()


def test_that_lmdb_has_given_up_is_logged_once(
    store: Store, seats: Table, open_store: Callable[..., Store], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert try_write(store, seats, range(3)) is None

    def told() -> int:
        return sum("PanicError" in record.getMessage() for record in caplog.records)

    refuse_meta_pages(seats.database.env.path / "data.mdb")
    for number in (1, 2):
        for _ in range(5):
            assert isinstance(try_write(store, seats, range(3)), StoreFailure)
            with pytest.raises(StoreFailure):
                seats.get_raw("0001")
            monkeypatch.setattr(faults, "_seldom", Seldom(lambda: 0.0, 0.0))  # as if seconds passed
        assert told() == number
        if number == 1:
            store = open_store()
            seats = store.databases["data"].tables["Seat"]
            refuse_meta_pages(seats.database.env.path / "data.mdb")


def test_a_failed_write_of_a_data_page_stops_nothing(store: Store, seats: Table) -> None:
    with no_growth(seats):
        while try_write(store, seats, range(100)) is None:
            pass
        assert store.stopped == []


# --- the reserve ------------------------------------------------------------------------------------------------------------------------


def test_the_reserve_is_for_operations_that_free(real_reserve: int, store: Store, seats: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    environment = seats.database.env
    reserve = environment.path / RESERVE_FILE
    volume = Volume(monkeypatch)
    assert reserve.stat().st_blocks * 512 >= real_reserve, "it is there from the beginning"
    volume.room = 0
    stored = 0
    while try_write(store, seats, range(stored, stored + 20)) is None:
        stored += 20
    assert environment.reserve.is_low and store.stats().failed_commits == 0
    volume.room = real_reserve  # which it has given back
    environment.reserve.refill()
    assert isinstance(try_write(store, seats, range(stored, stored + 1)), NoSpace), "nobody adds, though there is room"
    assert environment.reserve.is_low
    volume.room = 1 << 40
    assert try_write(store, seats, range(stored, stored + 1)) is None
    assert not environment.reserve.is_low and reserve.stat().st_blocks * 512 >= real_reserve
    store.check()


def test_what_an_operation_that_frees_has_to_note_may_use_the_reserve(store: Store, seats: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    volume = Volume(monkeypatch)
    volume.room = 0
    while try_write(store, seats, range(20)) is None:
        pass
    transaction = store.begin()
    transaction.put(seats, "noted", {})
    with pytest.raises(NoSpace):
        transaction.apply()
    transaction = store.begin()
    transaction.may_use_reserve = True
    transaction.put(seats, "noted", {})
    transaction.apply()
    store.commit_turn()
    assert seats.get_raw("noted") is not None
