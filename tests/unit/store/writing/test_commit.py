"""svc.store.writing.commit: a transaction is applied at once, or awaited, and its holder waits for the turn's commit."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

import pytest

from svc.clock import FakeClock
from svc.errors import PreconditionFailed, Problem, RecordExists, StoreFailure
from svc.store import Precondition, Store, Table, create_blob
from svc.store.disk.writer_gate import WriterGate
from svc.store.schema import Attribute, TableDefinition
from svc.store.writing.commit import LONG_CONTENT, commit, wait_committed
from svc.store.writing.transaction import LONG_WRITES
from tests.support.fakes import TickingClock

PHOTO = TableDefinition("Photo", attributes=(Attribute("id", "ID", primary_key=True), Attribute("image", "Blob")), primary_key="id")


@pytest.fixture
def clock() -> FakeClock:
    return TickingClock(looks_a_slice=5)


class Holder:
    pending_commit: Any = None


async def finish(store: Store, waiting: Awaitable[None] | None) -> None:
    """Await it, with the commits of the turns in between."""
    assert waiting is not None
    task = asyncio.ensure_future(waiting)
    while not task.done():
        store.commit_turn()
        await asyncio.sleep(0)
    await task


def test_a_short_transaction_is_applied_and_held(store: Store, seats: Table) -> None:
    transaction, holder = store.begin(), Holder()
    transaction.put(seats, "A1", {"price": 1})
    assert commit(transaction, holder) is None
    assert holder.pending_commit is transaction and transaction.outcome is None and seats.get_raw("A1") is None
    store.commit_turn()
    assert transaction.outcome == (None,) and seats.get_raw("A1") is not None


def test_what_prevents_it_is_raised_and_nothing_is_held(store: Store, seats: Table) -> None:
    first, holder = store.begin(), Holder()
    first.create(seats, "A1", {})
    commit(first, Holder())
    second = store.begin()
    second.create(seats, "A1", {})
    with pytest.raises(RecordExists):
        commit(second, holder)
    assert holder.pending_commit is None


@pytest.mark.parametrize(("writes", "length"), [(LONG_WRITES + 1, 0), (1, LONG_CONTENT + 1)])
def test_a_long_transaction_is_awaited_and_on_disk_then(store: Store, seats: Table, writes: int, length: int) -> None:
    async def play() -> None:
        transaction, holder = store.begin(), Holder()
        for number in range(writes):
            transaction.put(seats, f"s{number}", {"price": number})
        waiting = commit(transaction, holder, length)
        await finish(store, waiting)
        assert holder.pending_commit is None and seats.record_count() == writes

    asyncio.run(play())


def test_a_long_body_whose_writes_are_in_several_databases_is_committed_with_the_turn(store: Store, seats: Table) -> None:
    other = store.open_database("other").define_table(PHOTO)
    transaction, holder = store.begin(), Holder()
    transaction.put(seats, "A1", {"price": 1})
    transaction.put(other, "A1", {})
    assert commit(transaction, holder, LONG_CONTENT + 1) is None and holder.pending_commit is transaction
    store.commit_turn()
    assert transaction.outcome == (None,) and seats.get_raw("A1") is not None and other.get_raw("A1") is not None


def test_a_long_body_without_writes_is_committed_with_the_turn(store: Store) -> None:
    transaction, holder = store.begin(), Holder()
    assert commit(transaction, holder, LONG_CONTENT + 1) is None and holder.pending_commit is transaction


def test_new_blobs_are_saved_first(store: Store) -> None:
    async def play() -> None:
        photos = store.open_database("data").define_table(PHOTO)
        transaction, holder = store.begin(), Holder()
        transaction.put(photos, "a", {"image": create_blob(b"x" * 50_000)})
        waiting = commit(transaction, holder)
        assert waiting is not None and holder.pending_commit is None
        await waiting
        assert holder.pending_commit is transaction
        store.commit_turn()
        assert photos.get_raw("a") is not None

    asyncio.run(play())


def test_behind_a_long_write_it_waits_in_the_queue(store: Store, seats: Table) -> None:
    async def play() -> None:
        long = store.begin()
        for number in range(500):
            long.put(seats, f"s{number:03}", {"price": number})
        writing = asyncio.ensure_future(long.apply_long())
        for _ in range(10):
            await asyncio.sleep(0)
        assert seats.database.env.holder is not None
        transaction, holder = store.begin(), Holder()
        transaction.patch(seats, "s007", {"place": "late"})
        waiting = commit(transaction, holder)
        assert waiting is not None and holder.pending_commit is None
        await finish(store, waiting)
        await writing
        assert holder.pending_commit is transaction
        store.commit_turn()
        assert seats.record_count() == 500

    asyncio.run(play())


@pytest.mark.parametrize("is_committed", [True, False])
def test_wait_committed(store: Store, seats: Table, is_committed: bool) -> None:
    async def play() -> None:
        transaction = store.begin()
        transaction.put(seats, "A1", {})
        commit(transaction, Holder())
        if is_committed:
            store.commit_turn()
        waiting = asyncio.ensure_future(wait_committed(transaction))
        await asyncio.sleep(0)
        assert waiting.done() is is_committed
        store.commit_turn()
        await waiting

    asyncio.run(play())


def test_wait_committed_raises_what_undid_the_writes(store: Store, seats: Table) -> None:
    async def play() -> None:
        transaction = store.begin()
        transaction.put(seats, "A1", {})
        commit(transaction, Holder())
        failure: Problem = StoreFailure("the disk is gone")
        waiting = asyncio.ensure_future(wait_committed(transaction))
        await asyncio.sleep(0)
        assert transaction.on_done is not None
        transaction.on_done(failure)
        with pytest.raises(StoreFailure, match="the disk is gone"):
            await waiting
        transaction.on_done = None
        store.commit_turn()

    asyncio.run(play())


class OtherProcess:
    """One that writes in its turn: of it no more than its place is here."""

    def __init__(self, table: Table) -> None:
        self._gate = WriterGate(table.database.env.path)
        assert self._gate.try_place()

    def end_turn(self) -> None:
        self._gate.close()


async def turns(store: Store, count: int = 3) -> None:
    for _ in range(count):
        if store.has_pending:
            store.commit_turn()
        store.end_turn()
        await asyncio.sleep(0)


@pytest.mark.parametrize("is_refused", [False, True])
def test_while_another_process_writes_the_loop_goes_on(store: Store, seats: Table, is_refused: bool) -> None:
    async def play() -> None:
        other = OtherProcess(seats)
        transaction, holder = store.begin(), Holder()
        transaction.create(seats, "A1", {"price": 1})
        if is_refused:
            transaction.create(seats, "A1", {"price": 1})
        waiting = commit(transaction, holder)
        assert waiting is not None
        task = asyncio.ensure_future(waiting)
        await turns(store)
        assert not task.done() and not seats.database.env.has_writer and not store.has_pending
        other.end_turn()
        if is_refused:
            with pytest.raises(RecordExists):
                await finish(store, task)
        else:
            await finish(store, task)
            assert holder.pending_commit is transaction and transaction.outcome == (None,)
        assert (seats.get_raw("A1") is None) is is_refused
        store.end_turn()
        OtherProcess(seats).end_turn()

    asyncio.run(play())


def test_a_caller_that_has_left_writes_nothing(store: Store, seats: Table) -> None:
    async def play() -> None:
        other = OtherProcess(seats)
        transaction = store.begin()
        transaction.put(seats, "A1", {})
        waiting = commit(transaction, Holder())
        assert waiting is not None
        task = asyncio.ensure_future(waiting)
        await turns(store)
        task.cancel()
        await turns(store)
        other.end_turn()
        later = store.begin()
        later.put(seats, "A2", {})
        waiting = commit(later, Holder())
        if waiting is not None:
            await finish(store, waiting)
        store.commit_turn()
        assert seats.get_raw("A1") is None and seats.get_raw("A2") is not None
        while not is_free(seats):
            await turns(store)

    asyncio.run(play())


def is_free(table: Table) -> bool:
    gate = WriterGate(table.database.env.path)
    try:
        return gate.try_place()
    finally:
        gate.close()


def test_a_refused_write_does_not_keep_the_place(store: Store, seats: Table) -> None:
    for number in range(2):
        transaction = store.begin()
        transaction.put(seats, "A1", {}, Precondition(if_match=("AAAAAAAAAAA",)))
        with pytest.raises(PreconditionFailed):
            commit(transaction, Holder())
        store.commit_turn()
        assert is_free(seats), number


def test_code_that_cannot_wait_does_not_ask_for_the_place(store: Store, seats: Table) -> None:
    other = OtherProcess(seats)
    transaction = store.begin()
    transaction.put(seats, "A1", {})
    transaction.apply()
    store.commit_turn()
    assert seats.get_raw("A1") is not None
    other.end_turn()
