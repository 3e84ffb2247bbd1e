"""svc.store.writing.long_write: a transaction of many records, beside everything else that happens meanwhile."""

import asyncio
import gc
import logging
import os
import subprocess
import sys
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import lmdb
import pytest

from svc.clock import FakeClock
from svc.errors import NoSpace, NotFound, Overloaded, PreconditionFailed, Problem, RecordExists, StoreFailure
from svc.store import Database, LogEntry, Precondition, Store, Table, Transaction, env
from svc.store.blobs import create_blob
from svc.store.disk.writer_gate import WriterGate
from svc.store.env import WriterBusy
from svc.store.integrity.check import check_database
from svc.store.log.entries import PUT
from svc.store.maintenance import Maintenance
from svc.store.schema import Attribute, TableDefinition
from svc.store.values.keys import decode_key
from svc.store.values.records import decode, version_of
from svc.store.writing import long_write
from svc.store.writing.long_write import LongWrite, WriteStage
from svc.store.writing.writer_queue import QueueLimits
from tests.support.fakes import HeldBack, TickingClock
from tests.unit.store.conftest import SEAT

pytestmark = pytest.mark.programs


class Turns:
    """A loop whose turns are taken one by one, and end as the server's do."""

    def __init__(self, store: Store, pause: float = 0.0) -> None:
        """`pause`: seconds that a turn waits for other threads."""
        self.store = store
        self.pause = pause
        self.loop = asyncio.new_event_loop()

    def start(self, work: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]":
        return self.loop.create_task(work)

    def turn(self, pause: float | None = None) -> None:
        self.loop.call_later(self.pause if pause is None else pause, self.loop.stop)
        self.loop.run_forever()
        if self.store.has_pending:
            self.store.commit_turn()
        self.store.end_turn()

    def until(self, holds: Callable[[], object]) -> None:
        """What takes many turns may need another thread, to which the machine gives no time yet: from then on each waits."""
        for number in range(40_000):
            if holds():
                return
            self.turn(None if number < 1000 else max(self.pause, 0.001))
        raise AssertionError("this never happens")

    def finish(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Until it is done; its result, or what it raised."""
        task = self.start(work)
        self.until(task.done)
        return task.result()

    def close(self) -> None:
        tasks = asyncio.all_tasks(self.loop)
        for task in tasks:
            task.cancel()
        self.until(lambda: all(task.done() for task in tasks))
        self.loop.close()


@pytest.fixture
def clock() -> FakeClock:
    return TickingClock(looks_a_slice=5)


@pytest.fixture
def helper() -> HeldBack:
    return HeldBack()


@pytest.fixture
def store(open_store: Callable[..., Store], helper: HeldBack) -> Store:
    return open_store(make_helper=lambda: helper)


@pytest.fixture
def turns(store: Store, seats: Table) -> Iterator[Turns]:
    turns = Turns(store)
    yield turns
    turns.close()


def many(store: Store, table: Table, count: int = 100, **values: Any) -> Transaction:
    transaction = store.begin("anna")
    for number in range(count):
        transaction.put(table, f"s{number:03}", {"price": number, "place": "x", **values})
    return transaction


def put(store: Store, table: Table, key: str, *, wait: bool = True, **record: Any) -> None:
    transaction = store.begin()
    transaction.put(table, key, record)
    transaction.apply(wait=wait)


def stage_of(store: Store, database: Database) -> WriteStage | None:
    holder = database.env.holder
    return holder.stage if isinstance(holder, LongWrite) else None


def writing(turns: Turns, table: Table) -> None:
    """Go on until a long write is in the middle of its writes."""
    turns.until(lambda: stage_of(turns.store, table.database) is WriteStage.WRITING)
    turns.turn()
    turns.turn()


def keys(table: Table) -> list[Any]:
    return [table.key_of(raw) for _, raw in table.scan(table.database.snapshot())]


# -- alone


def test_it_is_written_in_slices_and_seen_as_a_whole(turns: Turns, store: Store, seats: Table) -> None:
    transaction = many(store, seats)
    assert transaction.is_long
    task = turns.start(transaction.apply_long())
    count = 0
    while not task.done():
        assert seats.record_count() in (0, 100), "half of a transaction was visible"
        count += 1
        turns.turn()
    task.result()
    assert count > 10, "it was not cut into slices"
    assert seats.record_count() == 100 and not store.has_pending
    raw = seats.get_raw("s007")
    assert raw is not None and decode(raw) == {"price": 7, "place": "x", "code": "s007"}
    assert version_of(raw) == transaction.version and not transaction.has_writes
    assert [entry.lsn for entry in seats.database.log.read(seats.database.snapshot())] == list(range(1, 101))
    assert store.stats().commits == store.stats().transactions == 1
    store.check()


def test_only_many_writes_of_one_database_are_long(store: Store, seats: Table) -> None:
    assert not many(store, seats, 50).is_long
    transaction = many(store, seats, 51)
    assert transaction.is_long
    other = store.open_database("other").define_table(
        TableDefinition("Note", database="other", attributes=SEAT.attributes, primary_key="code")
    )
    transaction.put(other, "n", {})
    assert not transaction.is_long


def test_all_kinds_of_write_in_their_order(turns: Turns, store: Store, seats: Table) -> None:
    turns.finish(many(store, seats).apply_long())
    transaction = store.begin()
    for number in range(60):
        transaction.delete(seats, f"s{number:03}")
        transaction.delete(seats, "nothing")
    transaction.create(seats, "s000", {"price": 1})
    transaction.patch(seats, "s070", {"stock": 2})
    turns.finish(transaction.apply_long())
    assert transaction.deleted == 60
    assert seats.record_count() == 41
    raw = seats.get_raw("s070")
    assert raw is not None and decode(raw) == {"price": 70, "place": "x", "code": "s070", "stock": 2}
    store.check()


def test_what_is_skipped_is_known_afterwards(turns: Turns, store: Store, seats: Table) -> None:
    put(store, seats, "s003", price=1)
    transaction = Transaction(store, "anna", 1)
    for number in range(60):
        transaction.insert(seats, f"s{number:03}", {"price": number})
    transaction.insert(seats, "s007", {"price": 7})
    transaction.update(seats, "s007", {"place": "y"})
    transaction.update(seats, "s999", {"place": "y"})
    task = turns.start(transaction.apply_long())
    writing(turns, seats)
    put(store, seats, "s004", price=2)  # cannot wait: it begins again
    turns.until(task.done)
    task.result()
    assert transaction.skipped == ["s003", "s004", "s007", "s999"]
    raw = seats.get_raw("s007")
    assert raw is not None and decode(raw) == {"price": 7, "place": "y", "code": "s007"}
    assert {entry.operation for entry in seats.database.log.read(seats.database.snapshot()) if entry.user == "anna"} == {1}
    store.check()


def test_nothing_to_write_is_no_commit(turns: Turns, store: Store, seats: Table) -> None:
    transaction = store.begin()
    for number in range(100):
        transaction.delete(seats, number)
    turns.finish(transaction.apply_long())
    assert transaction.deleted == 0 and store.stats().commits == 0
    put(store, seats, "A", price=1)
    store.commit_turn()
    assert seats.record_count() == 1
    store.check()


@pytest.mark.parametrize("limit", [0, 10_000])
def test_index_caches_follow(turns: Turns, store: Store, seats: Table, monkeypatch: pytest.MonkeyPatch, limit: int) -> None:
    monkeypatch.setattr(long_write, "CACHE_CHANGES", limit)
    monkeypatch.setattr(long_write, "_CHUNK", 7)
    turns.finish(many(store, seats).apply_long())
    index = seats.indexes["price"]
    assert index.count(seats.database.snapshot(), None, b"\xff") == 100 and index.cache is not None
    transaction = store.begin()
    for number in range(60):
        transaction.delete(seats, f"s{number:03}")
    task = turns.start(transaction.apply_long())
    while not task.done():
        count = index.count(seats.database.snapshot(), None, b"\xff")
        assert count == seats.record_count(), "the cache and the store differ"
        store.maintenance(0.0)
        turns.turn()
    assert index.count(seats.database.snapshot(), None, b"\xff") == 40
    store.check()


# -- failures


def test_a_defect_after_the_commit_does_not_undo_it(
    turns: Turns, store: Store, seats: Table, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    turns.finish(many(store, seats).apply_long())
    index = seats.indexes["price"]
    assert index.count(seats.database.snapshot(), None, b"\xff") == 100
    monkeypatch.setattr(Database, "enter_in_caches", lambda *arguments: 1 / 0)
    removal = store.begin()
    for number in range(60):
        removal.delete(seats, f"s{number:03}")
    turns.finish(removal.apply_long())
    monkeypatch.undo()
    assert "ZeroDivisionError" in caplog.text and seats.record_count() == 40
    assert index.count(seats.database.snapshot(), None, b"\xff") == 40
    store.check()


def failing(store: Store, table: Table, problem: str) -> Transaction:
    transaction = many(store, table)
    if problem == "exists":
        transaction.create(table, "A", {})
    else:
        transaction.put(table, "A", {}, Precondition(if_match=("AAAAAAAAAAA",)))
    for number in range(20):
        transaction.put(table, f"t{number}", {})
    return transaction


@pytest.mark.parametrize(("problem", "expected"), [("exists", RecordExists), ("precondition", PreconditionFailed)])
def test_a_failure_in_the_middle_undoes_everything(turns: Turns, store: Store, seats: Table, problem: str, expected: type[Problem]) -> None:
    put(store, seats, "A", price=1)
    store.commit_turn()
    with pytest.raises(expected):
        turns.finish(failing(store, seats, problem).apply_long())
    assert keys(seats) == ["A"] and seats.database.env._long is None
    put(store, seats, "B", wait=False)
    store.commit_turn()
    assert keys(seats) == ["A", "B"]
    store.check()


def test_a_commit_that_fails_undoes_everything(
    turns: Turns, store: Store, seats: Table, helper: HeldBack, caplog: pytest.LogCaptureFixture
) -> None:
    helper.holding = True
    task = turns.start(many(store, seats).apply_long())
    turns.until(lambda: helper.commits)
    commit = helper.commits.pop()
    getattr(commit.work, "__self__").abort()  # noqa: B009 - what LMDB does when it cannot write the pages
    error = lmdb.DiskError("no space")
    error.code = 28  # type: ignore[attr-defined]
    commit.set_exception(error)
    turns.until(task.done)
    assert isinstance(task.exception(), Problem)
    assert seats.record_count() == 0 and store.stats().failed_commits == 1
    assert "database" in caplog.text
    put(store, seats, "A", price=1, wait=False)
    store.commit_turn()
    assert [entry.lsn for entry in seats.database.log.read(seats.database.snapshot())] == [1], "no LSN was lost"
    store.check()


def test_a_full_disk_refuses_who_adds_something(turns: Turns, store: Store, seats: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    turns.finish(many(store, seats).apply_long())
    monkeypatch.setattr(Database, "require_space", lambda self: (_ for _ in ()).throw(NoSpace()))
    seats.database.env.reserve.is_low = True
    with pytest.raises(NoSpace):
        turns.finish(many(store, seats, place="y").apply_long())
    removal = store.begin()
    for number in range(100):
        removal.delete(seats, f"s{number:03}")
    turns.finish(removal.apply_long())
    assert seats.record_count() == 0
    store.check()


@pytest.mark.parametrize("held", [False, True], ids=["while it writes", "while it waits for the line"])
def test_who_goes_away_leaves_nothing(turns: Turns, store: Store, seats: Table, held: bool) -> None:
    first = turns.start(many(store, seats, place="first").apply_long()) if held else None
    task = turns.start(many(store, seats, 200, place="second").apply_long())
    writing(turns, seats)
    task.cancel()
    turns.turn()
    assert task.cancelled()
    if first is None:
        assert seats.database.env.holder is None and seats.record_count() == 0
    else:
        turns.until(first.done)
        assert seats.record_count() == 100
    put(store, seats, "A", wait=False)
    store.commit_turn()
    store.check()


def test_who_goes_away_during_the_commit_has_written(turns: Turns, store: Store, seats: Table, helper: HeldBack) -> None:
    heard: list[int] = []
    store.on_commit.append(lambda database, entries: heard.extend(entry.lsn for entry in entries))
    helper.holding = True
    task = turns.start(many(store, seats).apply_long())
    turns.until(lambda: helper.commits)
    task.cancel()
    for _ in range(3):
        turns.turn()
    assert not task.done() and seats.record_count() == 0
    helper.release()
    turns.until(task.done)
    assert task.cancelled() and seats.record_count() == 100 and heard == list(range(1, 101))
    store.check()


# -- beside others


def test_readers_are_served_and_writers_wait_in_line(turns: Turns, store: Store, seats: Table) -> None:
    put(store, seats, "A", price=1)
    store.commit_turn()
    order: list[str] = []

    async def small(name: str) -> None:
        transaction = store.begin()
        transaction.patch(seats, "A", {"place": name})
        with pytest.raises(WriterBusy):
            transaction.apply(wait=False)
        assert transaction.has_writes
        await transaction.apply_in_turn()
        order.append(name)

    long = turns.start(many(store, seats, place="long").apply_long())
    writing(turns, seats)
    tasks = [turns.start(small(name)) for name in "bc"]
    turns.until(long.done)
    assert order == []
    commits = store.stats().commits
    turns.until(lambda: all(task.done() for task in tasks))
    turns.turn()
    assert order == ["b", "c"] and store.stats().commits == commits + 1, "those who waited share a commit"
    raw = seats.get_raw("A")
    assert raw is not None and decode(raw)["place"] == "c"
    store.check()


def test_it_waits_for_the_turn_that_is_under_way(turns: Turns, store: Store, seats: Table) -> None:
    put(store, seats, "s000", price=-1)
    task = turns.start(many(store, seats).apply_long())
    turns.until(task.done)
    raw = seats.get_raw("s000")
    assert raw is not None and decode(raw)["price"] == 0 and seats.record_count() == 100
    store.check()


def test_other_databases_are_not_concerned(turns: Turns, store: Store, seats: Table) -> None:
    other = store.open_database("other").define_table(
        TableDefinition("Note", database="other", attributes=SEAT.attributes, primary_key="code")
    )
    task = turns.start(many(store, seats).apply_long())
    writing(turns, seats)
    put(store, other, "n", wait=False)
    store.commit_turn()
    assert other.record_count() == 1 and not task.done()
    turns.until(task.done)
    assert seats.record_count() == 100


def test_two_databases_are_written_to_for_long_at_the_same_time(turns: Turns, store: Store, seats: Table) -> None:
    other = store.open_database("other").define_table(
        TableDefinition("Note", database="other", attributes=SEAT.attributes, primary_key="code")
    )
    tasks = [turns.start(many(store, table).apply_long()) for table in (seats, other)]
    writing(turns, seats)
    writing(turns, other)
    assert seats.database.env._long is not None and other.database.env._long is not None
    turns.until(lambda: all(task.done() for task in tasks))
    assert seats.record_count() == other.record_count() == 100
    store.check()


def test_background_work_leaves_it_alone(turns: Turns, store: Store, seats: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    def build(self: Maintenance, database: Database) -> bool:
        database.writer(wait=False)
        return True

    task = turns.start(many(store, seats).apply_long())
    writing(turns, seats)
    monkeypatch.setattr(Maintenance, "_build_indexes", build)
    assert not store.maintenance(1.0)
    assert stage_of(store, seats.database) is WriteStage.WRITING
    monkeypatch.undo()
    turns.until(task.done)
    task.result()


def test_who_cannot_wait_makes_it_begin_again(turns: Turns, store: Store, seats: Table) -> None:
    heard: list[LogEntry] = []
    store.on_commit.append(lambda database, entries: heard.extend(entries))
    transaction = many(store, seats)
    task = turns.start(transaction.apply_long())
    writing(turns, seats)
    put(store, seats, "s001", price=-1)  # waits for nobody
    assert seats.database.env._long is None
    store.commit_turn()
    raw = seats.get_raw("s001")
    assert raw is not None and decode(raw)["price"] == -1 and seats.record_count() == 1
    turns.until(task.done)
    task.result()
    raw = seats.get_raw("s001")
    assert raw is not None and decode(raw)["price"] == 1 and seats.record_count() == 100
    assert [entry.lsn for entry in heard] == list(range(1, 102)) and {entry.kind for entry in heard} == {PUT}
    store.check()


def test_it_gives_up_when_that_happens_again_and_again(turns: Turns, store: Store, seats: Table) -> None:
    task = turns.start(many(store, seats).apply_long())
    for number in range(long_write.RESTARTS + 1):
        writing(turns, seats)
        put(store, seats, "A", price=number)
        store.commit_turn()
    turns.until(task.done)
    with pytest.raises(Overloaded):
        task.result()
    assert keys(seats) == ["A"]
    store.check()


def test_who_cannot_wait_waits_for_a_commit_under_way(turns: Turns, store: Store, seats: Table) -> None:
    heard: list[int] = []
    store.on_commit.append(lambda database, entries: heard.extend(entry.lsn for entry in entries))
    task = turns.start(many(store, seats).apply_long())
    turns.until(lambda: stage_of(store, seats.database) is WriteStage.COMMITTING)
    put(store, seats, "A", price=1)
    store.commit_turn()
    assert heard == list(range(1, 102)), "the listeners hear of it in the order of commit"
    assert seats.record_count() == 101
    turns.until(task.done)
    task.result()
    store.check()


def test_a_commit_that_shows_before_we_are_told_is_ours(turns: Turns, store: Store, seats: Table) -> None:
    """It happens on another thread: a snapshot may see it first. That is no foreign commit, which would cost all caches."""
    turns.finish(many(store, seats).apply_long())
    index = seats.indexes["price"]
    index.count(seats.database.snapshot(), None, b"\xff")
    cache = index.cache
    assert cache is not None
    transaction = store.begin()
    for number in range(51):
        transaction.delete(seats, f"s{number:03}")
    task = turns.start(transaction.apply_long())
    turns.until(lambda: stage_of(store, seats.database) is WriteStage.COMMITTING)
    store.end_turn()
    assert seats.record_count() == 49, "the helper has committed, and nobody has said so"
    assert stage_of(store, seats.database) is WriteStage.COMMITTED and index.cache is cache
    turns.until(task.done)
    assert index.cache is cache and index.count(seats.database.snapshot(), None, b"\xff") == 49
    store.check()


@pytest.mark.parametrize("how", ["changed", "dropped"])
def test_a_table_that_changes_meanwhile_fails_it(turns: Turns, store: Store, seats: Table, how: str) -> None:
    task = turns.start(many(store, seats).apply_long())
    writing(turns, seats)
    if how == "changed":
        attributes = (*SEAT.attributes, Attribute("more", "Int"))
        seats.database.define_table(TableDefinition("Seat", attributes=attributes, primary_key="code"))
    else:
        seats.database.drop_table("Seat")
    turns.until(task.done)
    with pytest.raises(Problem, match="was changed" if how == "changed" else "does not exist"):
        task.result()
    store.check()


def test_another_table_that_changes_meanwhile_does_not(turns: Turns, store: Store, seats: Table) -> None:
    task = turns.start(many(store, seats).apply_long())
    writing(turns, seats)
    seats.database.define_table(TableDefinition("Other", attributes=SEAT.attributes, primary_key="code"))
    turns.until(task.done)
    task.result()
    assert seats.record_count() == 100
    store.check()


def test_a_table_that_changed_while_an_ordinary_writer_waited_fails_that(turns: Turns, store: Store, seats: Table) -> None:
    turns.start(many(store, seats).apply_long())
    writing(turns, seats)
    transaction = store.begin()
    transaction.put(seats, "A", {})
    task = turns.start(transaction.apply_in_turn())
    turns.turn()
    seats.database.drop_table("Seat")
    turns.until(task.done)
    with pytest.raises(NotFound, match="does not exist"):
        task.result()
    store.check()


def test_nobody_waits_without_end(open_store: Callable[..., Store], helper: HeldBack) -> None:
    store = open_store(make_helper=lambda: helper, queue_limits=QueueLimits(wait=0.0))
    seats = store.open_database("data").define_table(SEAT)
    turns = Turns(store)
    try:
        task = turns.start(many(store, seats).apply_long())
        writing(turns, seats)
        for transaction in (many(store, seats), many(store, seats, 1)):
            with pytest.raises(Overloaded):
                turns.finish(transaction.apply_long() if transaction.is_long else transaction.apply_in_turn())
        turns.until(task.done)
        task.result()
        assert seats.record_count() == 100
    finally:
        turns.close()


def test_closing_the_store_undoes_it(open_store: Callable[..., Store], helper: HeldBack, tmp_path: Path) -> None:
    store = open_store(make_helper=lambda: helper)
    seats = store.open_database("data").define_table(SEAT)
    turns = Turns(store)
    task = turns.start(many(store, seats).apply_long())
    writing(turns, seats)
    store.close()
    task.cancel()
    turns.turn()
    turns.loop.close()
    assert check_database(tmp_path / "database" / "data").records == {"Seat": 0}


def test_the_real_helper_is_a_thread(open_store: Callable[..., Store]) -> None:
    store = open_store()
    seats = store.open_database("data").define_table(SEAT)
    turns = Turns(store, pause=0.001)
    try:
        turns.finish(many(store, seats, 300).apply_long())
        turns.finish(many(store, seats, 200, place="y").apply_long())
        assert seats.record_count() == 300
        store.check()
    finally:
        turns.close()


def test_listeners_hear_of_it_in_pieces(
    turns: Turns, store: Store, seats: Table, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(long_write, "_CHUNK", 7)
    pieces: list[int] = []

    def listener(database: Database, entries: list[LogEntry]) -> None:
        pieces.append(len(entries))
        if len(pieces) == 3:
            raise ValueError("a defect")

    store.on_commit.append(listener)
    with caplog.at_level(logging.ERROR):
        turns.finish(many(store, seats).apply_long())
    assert pieces == [7] * 14 + [2] and "a listener failed" in caplog.text


@pytest.mark.parametrize("fate", ["committed", "undone", "begun again"])
def test_the_files_of_blobs_share_its_fate(turns: Turns, store: Store, seats: Table, fate: str) -> None:
    attributes = (Attribute("id", "ID", primary_key=True), Attribute("data", "Blob"))
    table = seats.database.define_table(TableDefinition("Paper", attributes=attributes))
    transaction = store.begin()
    for number in range(60):
        transaction.put(table, str(number), {"data": create_blob(b"x" * 20_000)})
    if fate == "undone":
        transaction.create(table, "0", {})
    task = turns.start(transaction.apply_long())
    if fate == "begun again":
        writing(turns, table)
        put(store, seats, "A", price=1)
    turns.until(task.done)
    if fate == "undone":
        assert isinstance(task.exception(), RecordExists)
    else:
        task.result()
    del transaction, task
    assert table.record_count() == (0 if fate == "undone" else 60)
    assert len(dict(seats.database.ledger.files(seats.database.snapshot()))) == table.record_count()
    store.end_turn()
    store.check()
    gc.collect()  # an exception knows the frames it has passed
    files = [path for path in store.blob_paths[0].rglob("*") if path.is_file() and path.stat().st_size >= 20_000]
    assert len(files) == table.record_count()


# -- decided when the database is held


class Increment:
    """Adds 1 to the stock of every seat, by what it reads when nobody else can commit. `pause` is waited for in the middle."""

    def __init__(self, store: Store, table: Table, pause: asyncio.Event | None = None) -> None:
        self.table = table
        self.transaction = store.begin("anna")
        self.pause = pause
        self.calls = 0
        self.ended = 0

    async def collect(self, long: LongWrite) -> None:
        self.calls += 1
        snapshot = self.table.database.open_snapshot()
        try:
            found = [decode(raw) for _, raw in self.table.scan(snapshot)]
            if self.pause is not None:
                await self.pause.wait()
            for record in found:
                self.transaction.update(self.table, record["code"], {"stock": record["stock"] + 1, "price": long.version})
        finally:
            self.ended += 1
            snapshot.abort()

    def run(self) -> Coroutine[Any, Any, None]:
        return self.transaction.apply_decided(self.table, self.collect, size=10)


@pytest.fixture
def stocked(store: Store, seats: Table) -> Table:
    for number in range(60):
        put(store, seats, f"s{number:02}", stock=number)
    store.commit_turn()
    return seats


def stocks(table: Table) -> list[Any]:
    return [decode(raw)["stock"] for _, raw in table.scan(table.database.snapshot())]


def preparing(turns: Turns, table: Table, increment: Increment, calls: int = 1) -> None:
    turns.until(lambda: increment.calls == calls)
    turns.turn()
    assert stage_of(turns.store, table.database) is WriteStage.WRITING


def test_what_is_decided_inside_is_by_what_was_committed_before(turns: Turns, store: Store, stocked: Table) -> None:
    increment = Increment(store, stocked)
    first, second = turns.start(increment.run()), turns.start(Increment(store, stocked).run())
    turns.until(lambda: first.done() and second.done())
    first.result()
    second.result()
    assert stocks(stocked) == [number + 2 for number in range(60)]
    assert increment.transaction.skipped == [] and increment.transaction.databases == (stocked.database,)
    entries = stocked.database.log.read(stocked.database.snapshot(), 61, 121)
    assert {entry.version for entry in entries} == {increment.transaction.version}
    store.check()


def test_writers_wait_until_it_is_decided_and_written(turns: Turns, store: Store, stocked: Table) -> None:
    pause = asyncio.Event()
    increment = Increment(store, stocked, pause)
    task = turns.start(increment.run())
    preparing(turns, stocked, increment)
    other = store.begin()
    other.put(stocked, "s00", {"stock": 1000})
    with pytest.raises(WriterBusy):
        other.apply(wait=False)
    waiting = turns.start(other.apply_in_turn())
    for _ in range(5):
        turns.turn()
    assert not task.done() and not waiting.done()
    pause.set()
    turns.until(lambda: task.done() and waiting.done())
    turns.turn()
    assert increment.calls == 1 and stocks(stocked) == [1000, *range(2, 61)]
    store.check()


@pytest.mark.parametrize("fails", [False, True], ids=["", "and what it reads is gone"])
def test_who_cannot_wait_makes_it_decide_again(
    turns: Turns, store: Store, stocked: Table, fails: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    pause = asyncio.Event()
    increment = Increment(store, stocked, pause)
    task = turns.start(increment.run())
    preparing(turns, stocked, increment)
    put(store, stocked, "s00", stock=1000)
    store.commit_turn()
    assert stage_of(store, stocked.database) is None
    if fails:
        update = increment.transaction.update

        def refuse(*arguments: Any) -> None:
            if increment.calls == 1:
                raise StoreFailure
            update(*arguments)

        monkeypatch.setattr(Transaction, "update", lambda self, *arguments: refuse(*arguments))
    pause.set()
    turns.until(task.done)
    task.result()
    assert increment.calls == 2 and stocks(stocked) == [1001, *range(2, 61)]
    store.check()


def test_it_gives_up_deciding_again_and_again(turns: Turns, store: Store, stocked: Table) -> None:
    increment = Increment(store, stocked, asyncio.Event())
    task = turns.start(increment.run())
    for number in range(long_write.RESTARTS + 1):
        preparing(turns, stocked, increment, number + 1)
        put(store, stocked, "s00", stock=number)
        store.commit_turn()
        pause, increment.pause = increment.pause, asyncio.Event()
        assert pause is not None
        pause.set()
    turns.until(task.done)
    with pytest.raises(Overloaded):
        task.result()
    assert stocks(stocked) == [long_write.RESTARTS, *range(1, 60)]
    store.check()


def test_who_goes_away_before_it_is_decided_leaves_nothing(turns: Turns, store: Store, stocked: Table) -> None:
    increment = Increment(store, stocked, asyncio.Event())
    task = turns.start(increment.run())
    preparing(turns, stocked, increment)
    task.cancel()
    turns.turn()
    assert task.cancelled() and increment.ended == 1
    put(store, stocked, "s00", wait=False, stock=7)
    store.commit_turn()
    assert stocks(stocked) == [7, *range(1, 60)] and stocked.database.env.holder is None
    store.check()


def test_what_cannot_be_decided_writes_nothing(turns: Turns, store: Store, stocked: Table) -> None:
    transaction = store.begin()

    async def refuse(long: LongWrite) -> None:
        transaction.delete(stocked, "s00")
        raise PreconditionFailed

    task = turns.start(transaction.apply_decided(stocked, refuse, size=1))
    turns.until(task.done)
    assert isinstance(task.exception(), PreconditionFailed) and stocks(stocked) == [*range(60)]
    assert stocked.database.env.holder is None
    store.check()


def test_deciding_that_there_is_nothing_to_write_is_no_commit(turns: Turns, store: Store, stocked: Table) -> None:
    async def nothing(long: LongWrite) -> None:
        pass

    before = store.stats().commits
    transaction = store.begin()
    turns.finish(transaction.apply_decided(stocked, nothing, size=1))
    assert store.stats().commits == before and transaction.deleted == 0 and transaction.skipped == []
    put(store, stocked, "s00", stock=1)
    store.commit_turn()
    store.check()


def test_the_write_that_fails_is_known_when_it_was_decided_inside(turns: Turns, store: Store, stocked: Table) -> None:
    transaction = store.begin()

    async def collect(long: LongWrite) -> None:
        transaction.create(stocked, "new", {})
        transaction.create(stocked, "s03", {})

    with pytest.raises(RecordExists):
        turns.finish(transaction.apply_decided(stocked, collect, size=2))
    assert transaction.failed_at == 1 and decode_key(transaction.failed_key) == "s03"
    assert len(stocks(stocked)) == 60
    store.check()


def test_automatic_keys_are_those_of_the_long_writer(turns: Turns, store: Store, seats: Table) -> None:
    attributes = (Attribute("id", "Long", primary_key=True), Attribute("name", "String"))
    table = seats.database.define_table(TableDefinition("Note", attributes=attributes))
    transaction = store.begin()
    keys: list[Any] = []

    async def collect(long: LongWrite) -> None:
        keys[:] = long.with_writer(lambda txn: list(table.new_keys_in(txn, 3)))
        for key in keys:
            transaction.create(table, key, {"name": "x"})

    turns.finish(transaction.apply_decided(table, collect, size=3))
    more = store.begin()
    following = more.create(table, None, {})
    more.apply()
    store.commit_turn()
    assert following is None and more.assigned == [keys[-1] + 1]
    assert [decode(raw)["id"] for _, raw in table.scan(table.database.snapshot())] == [*keys, keys[-1] + 1]
    store.check()


def test_files_of_blobs_are_saved_once_it_is_decided(turns: Turns, store: Store, seats: Table) -> None:
    attributes = (Attribute("id", "ID", primary_key=True), Attribute("data", "Blob"))
    table = seats.database.define_table(TableDefinition("Paper", attributes=attributes))
    transaction = store.begin()

    async def collect(long: LongWrite) -> None:
        transaction.put(table, "a", {"data": create_blob(b"x" * 20_000)})

    turns.finish(transaction.apply_decided(table, collect, size=1))
    raw = table.get_raw("a")
    assert raw is not None and decode(raw)["data"].read() == b"x" * 20_000
    store.check()


ANOTHER_PROCESS = """
import asyncio, sys
from svc.store import Store
store = Store(__import__("pathlib").Path(sys.argv[1]))
table = store.databases["data"].tables["Seat"]
transaction = store.begin("another")
for number in range(60):
    transaction.put(table, f"a{number}", {"price": number})
env = table.database.env
commit = env.commit_long
def held():
    print("held", flush=True)
    sys.stdin.readline()
    return commit()
type(env).commit_long = lambda self: held()
asyncio.run(transaction.apply_long())
print("done", flush=True)
sys.stdin.readline()
"""


def test_a_long_write_of_another_process_is_waited_for(store: Store, seats: Table) -> None:
    """The loop must not stop where LMDB would make it wait: for seconds, or for ever if the other one waits for us."""
    turns = Turns(store)
    child = subprocess.Popen(
        [sys.executable, "-c", ANOTHER_PROCESS, str(store.path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
    )
    assert child.stdin is not None and child.stdout is not None
    try:
        assert child.stdout.readline() == "held\n"
        small, long = store.begin(), many(store, seats)
        small.put(seats, "A", {"price": 1})
        with pytest.raises(WriterBusy):
            small.apply(wait=False)
        tasks = [turns.start(small.apply_in_turn()), turns.start(long.apply_long())]
        for _ in range(20):
            turns.turn()
            assert seats.record_count() == 0, "readers are served"
            assert not store.maintenance(1.0), "and background work is left for later"
        assert not any(task.done() for task in tasks)
        child.stdin.write("\n")
        child.stdin.flush()
        assert child.stdout.readline() == "done\n"
        while not all(task.done() for task in tasks):
            turns.turn()
        turns.turn()
        for task in tasks:
            task.result()
        assert seats.record_count() == 60 + 100 + 1
        store.check()
    finally:
        child.communicate("\n")
        turns.close()


def test_who_cannot_wait_for_another_process_is_told_so(store: Store, seats: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(env, "BUSY_LIMIT", 0.05)
    other = WriterGate(seats.database.env.path)
    assert other.try_acquire_exclusive()
    with pytest.raises(StoreFailure, match="for too long"):
        put(store, seats, "A")
    assert seats.database.define_table(seats.definition) is seats, "a start beside others need not write what they have written"
    with pytest.raises(StoreFailure, match="for too long"):
        seats.database.define_table(replace(seats.definition, sealed=True))
    other.close()
    put(store, seats, "A")
    store.commit_turn()
    assert keys(seats) == ["A"]


def test_a_writer_that_is_refused_again_and_again_gives_way(
    turns: Turns, store: Store, seats: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the line says: the loop goes on, for what keeps the database may need it to end."""
    refusals = 3
    apply = Transaction.apply

    def refused(self: Transaction, *, wait: bool = True) -> None:
        nonlocal refusals
        if refusals:
            raise WriterBusy(seats.database.env)
        apply(self, wait=wait)

    async def end_it() -> None:
        nonlocal refusals
        while refusals:
            refusals -= 1
            await asyncio.sleep(0)

    monkeypatch.setattr(Transaction, "apply", refused)
    transaction = store.begin()
    transaction.put(seats, "A1", {})
    task = turns.start(transaction.apply_in_turn())
    turns.start(end_it())
    turns.until(task.done)
    task.result()
    assert seats.get_raw("A1") is not None


def test_a_second_long_write_lets_another_process_go_first(
    store: Store, seats: Table, turns: Turns, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that has announced its writers; but not for ever, for it may have been stopped."""
    monkeypatch.setattr(env, "MOST_YIELDED", 1_000_000)
    other = WriterGate(seats.database.env.path)
    other.announce()
    turns.finish(many(store, seats).apply_long())
    second = turns.start(many(store, seats, price=2).apply_long())
    for _ in range(4):
        turns.turn(0.003)
        assert not second.done() and stage_of(store, seats.database) is WriteStage.WAITING and other.acquire_shared()
        other.release_shared()
    monkeypatch.setattr(env, "MOST_YIELDED", 0)
    turns.until(second.done)
    monkeypatch.undo()
    third = turns.start(many(store, seats, price=3).apply_long())
    turns.turn(0.003)
    assert stage_of(store, seats.database) is WriteStage.WAITING
    other.withdraw()
    turns.until(third.done)
    other.close()


def test_writers_that_wait_for_another_process_are_announced(store: Store, seats: Table, turns: Turns) -> None:
    other = WriterGate(seats.database.env.path)
    assert other.try_acquire_exclusive() and not other.is_awaited()
    small = store.begin()
    small.put(seats, "A", {"price": 1})
    task = turns.start(small.apply_in_turn())
    turns.until(other.is_awaited)
    other.release_exclusive()
    turns.until(task.done)
    turns.until(lambda: not other.is_awaited())
    assert keys(seats) == ["A"]
    other.close()
