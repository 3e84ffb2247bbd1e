"""Queued writes: together, in their order, each a transaction of its own; what is not plain, and what goes wrong, one by one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any
from unittest import mock

import pytest

from svc.clock import FakeClock
from svc.errors import NoSpace, Problem, StoreFailure
from svc.store import Store, Table
from svc.store.entity_tags import CREATE, Precondition
from svc.store.log.transaction_log import TransactionLog
from svc.store.schema import Attribute, Check, Relationship, TableDefinition
from svc.store.values.keys import encode_primary, index_key
from svc.store.values.records import decode
from svc.store.writing import queued_writes
from svc.store.writing.queued_writes import NotPlain, is_queueable
from svc.store.writing.write_set import Decide
from tests.unit.store.conftest import SEAT


class Queued:
    """A queued write. `told`: what it was told, and in which order with the others."""

    def __init__(
        self,
        table: Table,
        told: list[tuple[str, str]],
        key: str,
        record: dict[str, Any] | None,
        precondition: Precondition | None = None,
        decide: Decide | None = None,
    ) -> None:
        self.table = table
        self.definition = table.definition
        self.key = encode_primary(key)
        self.record = record
        self.precondition = precondition
        self.decide = decide
        self.username = "hdb"
        self._name = key
        self._told = told

    def done(self, problem: Problem | None) -> None:
        self._told.append((self._name, "done" if problem is None else type(problem).__name__))

    def write_generally(self) -> None:
        self._told.append((self._name, "generally"))


class Queue:
    """Of one table."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.told: list[tuple[str, str]] = []
        self.queue = table.database.queued_writes

    def put(self, key: str, decide: Decide | None = None, **values: Any) -> Queued:
        return self._add(Queued(self.table, self.told, key, {"code": key, **values}, None, decide))

    def create(self, key: str, **values: Any) -> Queued:
        return self._add(Queued(self.table, self.told, key, {"code": key, **values}, CREATE))

    def delete(self, key: str) -> Queued:
        return self._add(Queued(self.table, self.told, key, None))

    def _add(self, queued: Queued) -> Queued:
        self.queue.add(queued)
        return queued


@pytest.fixture
def queue(seats: Table) -> Queue:
    return Queue(seats)


def stored(table: Table) -> dict[str, Any]:
    return {record["code"]: record for _, raw in table.scan(table.database.snapshot()) for record in [decode(raw)]}


def test_they_are_written_with_the_turn(store: Store, seats: Table, queue: Queue) -> None:
    heard: list[tuple[int, int, str | None]] = []
    store.on_commit.append(lambda database, entries: heard.extend((e.lsn, e.transaction, e.user) for e in entries))
    queue.put("a", price=1.5, tags=["x"])
    assert len(queue.queue) == 1 and store.has_pending and not queue.told
    queue.create("b", price=2.5)
    queue.delete("c")
    queue.put("a", price=3, tags=["y"])
    queue.delete("b")
    transactions = store.transactions
    store.commit_turn()
    assert [what for _, what in queue.told] == ["done"] * 5 and len(queue.queue) == 0
    assert stored(seats) == {"a": {"code": "a", "price": 3, "tags": ["y"]}}
    assert heard == [(1, 1, "hdb"), (2, 2, "hdb"), (3, 3, "hdb"), (4, 4, "hdb")]
    assert (store.commits, store.transactions - transactions) == (1, 5)
    seats.database.check()


def test_the_log_is_that_of_transactions(open_store: Callable[..., Store], clock: FakeClock) -> None:
    """But for the versions, which none of them shares with another."""

    def entries(write: Callable[[Store, Table], None], name: str) -> list[Any]:
        store = open_store()
        table = store.open_database(name).define_table(replace(SEAT, name=name))
        write(store, table)
        store.commit_turn()
        table.database.check()
        snapshot = table.database.snapshot()
        found = list(table.database.log.read(snapshot))
        versions = [entry.version for entry in found]
        assert versions == sorted(set(versions))
        assert table.database.log.last_version == versions[-1]
        raws = {stored: decode(raw) for stored, raw in table.scan(snapshot)}
        shown: list[Any] = [
            [
                e.lsn,
                e.transaction,
                e.key,
                e.kind,
                e.user,
                e.node,
                e.previous,
                e.changed,
                e.operation,
                e.trace_id,
                decoded(e.value),
                decoded(e.image),
            ]
            for e in found
        ]
        return [*shown, raws]

    changes: list[tuple[str, dict[str, Any] | None]] = [
        ("a", {"price": 1, "place": "p"}), ("b", {"price": 2}), ("a", {"place": "p", "price": 2}), ("b", None), ("b", {"price": 3}), ("c", {"tags": ["t"]}),
    ]  # fmt: skip

    def queued(store: Store, table: Table) -> None:
        queue = Queue(table)
        for key, values in changes:
            queue.delete(key) if values is None else queue.put(key, **values)

    def general(store: Store, table: Table) -> None:
        for key, values in changes:
            transaction = store.begin("hdb")
            transaction.delete(table, key) if values is None else transaction.put(table, key, {"code": key, **values})
            transaction.apply()

    assert entries(queued, "first") == entries(general, "second")


def decoded(raw: bytes | None) -> dict[str, Any] | None:
    return None if raw is None else decode(raw)


def test_none_that_writes_nothing_leaves_a_commit(store: Store, seats: Table, queue: Queue) -> None:
    commit, lsn = seats.database.env.last_commit(), seats.database.log.last_lsn
    queue.delete("a")
    store.commit_turn()
    assert queue.told == [("a", "done")]
    assert (seats.database.env.last_commit(), seats.database.log.last_lsn) == (commit, lsn)


def test_a_record_that_is_there_is_left_to_others(store: Store, seats: Table, queue: Queue) -> None:
    queue.put("a", price=1)
    queue.create("a", price=2)
    queue.create("b", price=3)
    queue.create("b", price=4)
    store.commit_turn()
    assert queue.told == [(key, what) for key, what in (("a", "generally"), ("b", "generally"), ("a", "done"), ("b", "done"))]
    assert {key: record["price"] for key, record in stored(seats).items()} == {"a": 1, "b": 3}
    log = seats.database.log
    newest = log.newest(seats.database.snapshot())
    assert newest is not None and newest.version == log.last_version
    seats.database.check()


def test_a_decision_may_leave_it_to_others(store: Store, seats: Table, queue: Queue) -> None:
    def decide(record: dict[str, Any], old: Any) -> dict[str, Any]:
        if old is not None:
            raise NotPlain
        return {**record, "price": 7}

    for _ in range(2):
        queue.put("a", decide)
    store.commit_turn()
    assert [what for _, what in queue.told] == ["generally", "done"] and stored(seats)["a"]["price"] == 7


def test_a_table_that_was_defined_again(store: Store, seats: Table, queue: Queue) -> None:
    changed = replace(SEAT, attributes=(*SEAT.attributes, Attribute("row", "Int")))
    with mock.patch.object(store, "flush", dict):  # which would write it before
        queue.put("a", price=1)
        seats.database.define_table(changed)
    store.commit_turn()
    assert queue.told == [("a", "generally")] and stored(seats) == {}


def test_a_schema_change_commits_what_is_queued_before_it(store: Store, seats: Table, queue: Queue) -> None:
    queue.put("a", price=1)
    seats.database.define_table(replace(SEAT, attributes=(*SEAT.attributes, Attribute("row", "Int"))))
    assert stored(seats) == {"a": {"code": "a", "price": 1}}
    store.commit_turn()
    assert queue.told == [("a", "done")]


def test_a_table_that_is_gone(store: Store, seats: Table, queue: Queue) -> None:
    with mock.patch.object(store, "flush", dict):
        queue.put("a", price=1)
        seats.database.drop_table("Seat")
    store.commit_turn()
    assert queue.told == [("a", "generally")]


def test_a_database_that_is_gone(store: Store, seats: Table, queue: Queue) -> None:
    with mock.patch.object(store, "flush", dict):
        queue.put("a", price=1)
        seats.database.mark_dropped()
    store.commit_turn()
    assert queue.told == [("a", "generally")]


def test_behind_a_long_write(store: Store, seats: Table, queue: Queue) -> None:
    class Holder:
        since, about = 0.0, "a load"

    env = seats.database.env
    env.hold(Holder())  # type: ignore[arg-type]
    queue.put("a", price=1)
    store.commit_turn()
    env.holder = None
    assert queue.told == [("a", "generally")]


def test_without_space(store: Store, seats: Table, queue: Queue) -> None:
    queue.put("a", price=1)
    queue.delete("a")
    with mock.patch.object(type(seats.database.env.reserve), "is_low", True):
        store.commit_turn()
    assert [what for _, what in queue.told] == ["generally", "generally"]


class Failure(Exception):
    pass


@pytest.mark.parametrize("error", [StoreFailure("no"), Failure("a defect")])
@pytest.mark.parametrize("at", [1, 3])
def test_what_raises_in_the_middle_undoes_all(
    store: Store, seats: Table, queue: Queue, error: Exception, at: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Each is left to others, which find out what it was about. Nothing of the batch stays: not its entries, nor their numbers."""
    transaction = store.begin()
    transaction.put(seats, "z", {"code": "z", "price": 9})
    transaction.apply()
    calls = []
    write_record = queued_writes._Writes.write_record

    def failing(self: Any, *args: Any, **options: Any) -> None:
        calls.append(args)
        write_record(self, *args, **options)
        if len(calls) == at:
            raise error

    queue.put("a", price=1, place="p")
    queue.put("b", price=2)
    queue.put("z", price=3)
    with mock.patch.object(queued_writes._Writes, "write_record", failing):
        store.commit_turn()
    assert [what for _, what in queue.told] == ["generally"] * 3
    assert stored(seats) == {"z": {"code": "z", "price": 9}}
    assert seats.database.log.last_lsn == 1
    assert bool(caplog.records) is isinstance(error, Failure)
    caplog.clear()
    seats.database.check()
    queue.put("a", price=1)
    store.commit_turn()
    assert queue.told[-1] == ("a", "done")
    seats.database.check()


def test_an_end_of_the_log_that_is_not_known(store: Store, seats: Table, queue: Queue, caplog: pytest.LogCaptureFixture) -> None:
    queue.put("a", price=1)
    store.commit_turn()
    seats.database.log.last_lsn = 0
    queue.put("b", price=2)
    store.commit_turn()
    assert queue.told[-1] == ("b", "generally") and "a" in stored(seats) and "b" not in stored(seats)
    assert caplog.records
    caplog.clear()


def test_a_child_that_cannot_be_committed(store: Store, seats: Table, queue: Queue) -> None:
    def failing(child: Any) -> None:
        child.abort()
        raise StoreFailure("no")

    queue.put("a", price=1)
    with mock.patch.object(type(seats.database.env), "commit_child", lambda self, child: failing(child)):
        store.commit_turn()
    assert queue.told == [("a", "generally")] and seats.database.log.last_lsn == 0
    queue.put("a", price=1)
    store.commit_turn()
    seats.database.check()


def test_a_commit_that_fails(store: Store, seats: Table, queue: Queue) -> None:
    queue.put("a", price=1)
    queue.create("b", price=1)
    with mock.patch.object(type(seats.database.env), "commit", side_effect=NoSpace):
        store.commit_turn()
    assert queue.told == [("a", "NoSpace"), ("b", "NoSpace")] and stored(seats) == {}
    assert seats.database.log.last_lsn == 0
    queue.put("a", price=1)
    store.commit_turn()
    seats.database.check()


def test_one_that_cannot_be_told_does_not_keep_others(store: Store, queue: Queue, caplog: pytest.LogCaptureFixture) -> None:
    bad = queue.put("a", price=1)
    queue.put("b", price=1)
    with mock.patch.object(bad, "done", side_effect=Failure):
        queue.queue.write()
        store.commit_turn()
    assert queue.told == [("b", "done")] and caplog.records
    caplog.clear()


def test_many_do_not_wait_for_the_end(store: Store, seats: Table, queue: Queue) -> None:
    for number in range(queued_writes.MOST):
        queue.put(f"k{number}", price=number)
    assert len(queue.queue) == 0 and seats.database.env.has_writer and not queue.told
    queue.put("last", price=1)
    store.commit_turn()
    assert len(queue.told) == queued_writes.MOST + 1 and len(stored(seats)) == queued_writes.MOST + 1
    assert store.commits == 1
    seats.database.check()


def test_the_databases_of_a_turn_commit_in_the_order_of_their_names(store: Store, seats: Table) -> None:
    first = Queue(seats)
    second = Queue(store.open_database("another").define_table(SEAT))
    for queue in (first, second):
        queue.put("a", price=1)
    transaction = store.begin()
    transaction.put(first.table, "b", {"code": "b"})
    transaction.apply()
    store.commit_turn()
    assert [what for _, what in first.told + second.told] == ["done", "done"]
    assert set(stored(first.table)) == {"a", "b"} and set(stored(second.table)) == {"a"}


def test_general_writes_from_the_batch(store: Store, seats: Table, queue: Queue) -> None:
    """What is left is carried out within the same turn, and shares its commit."""
    again = store.begin()

    def generally() -> None:
        again.put(seats, "a", {"code": "a", "price": 2})
        again.apply()
        store.open_database("data").define_table(replace(SEAT, name="More"))  # which commits the turn

    queue.put("a", price=1)
    queued = queue.create("a", price=2)
    queue.put("c", price=3)
    with mock.patch.object(queued, "write_generally", generally):
        store.commit_turn()
    assert again.outcome == (None,) and [what for _, what in queue.told] == ["done", "done"]
    assert {key: record["price"] for key, record in stored(seats).items()} == {"a": 2, "c": 3}
    seats.database.check()


def test_other_transactions_of_the_turn_are_not_undone(store: Store, seats: Table, queue: Queue) -> None:
    transaction = store.begin()
    transaction.put(seats, "a", {"code": "a", "price": 1})
    transaction.apply()
    queue.put("b", price=2)
    with mock.patch.object(TransactionLog, "append_encoded", side_effect=StoreFailure("no")):
        store.commit_turn()
    assert transaction.outcome == (None,) and stored(seats) == {"a": {"code": "a", "price": 1}}
    seats.database.check()


def test_index_caches_follow(store: Store, seats: Table, queue: Queue) -> None:
    index = seats.indexes["price"]

    def count() -> int:
        found = index.count(seats.database.snapshot(), index_key(0), index_key(100))
        store.end_turn()
        return found if isinstance(found, int) else found[0]

    queue.put("a", price=1)
    store.commit_turn()
    assert count() == 1 and index.cache is not None
    queue.put("a", price=2)
    queue.put("b", price=3)
    store.commit_turn()
    assert index.cache is not None and count() == 2
    queue.delete("a")
    store.commit_turn()
    seats.check()
    assert count() == 1


def test_stamps_expiry_and_defaults(store: Store, clock: FakeClock) -> None:
    table = store.open_database("data").define_table(
        TableDefinition(
            "Timed",
            attributes=(
                Attribute("code", "ID", primary_key=True),
                Attribute("made", "Float", created_time=True),
                Attribute("changed", "Float", updated_time=True),
                Attribute("size", "Int", default="5"),
            ),
            primary_key="code",
            expiration=60.0,
        )
    )
    queue = Queue(table)
    queue.put("a")
    store.commit_turn()
    made = stored(table)["a"]
    assert made["size"] == 5 and made["made"] == made["changed"]
    clock.advance(10)
    queue.put("a", size=6)
    store.commit_turn()
    changed = stored(table)["a"]
    assert changed["made"] == made["made"] and changed["changed"] > made["changed"] and changed["size"] == 6
    table.check()
    clock.advance(61)
    assert table.get_raw("a") is None
    queue.create("a")  # what has expired is not there
    store.commit_turn()
    assert [what for _, what in queue.told] == ["done"] * 3
    table.database.check()


def test_what_can_be_queued(store: Store, seats: Table) -> None:
    database = seats.database
    assert is_queueable(seats, deletes=False) and is_queueable(seats, deletes=True)
    key = Attribute("code", "ID", primary_key=True)

    def other(name: str, *attributes: Attribute, **options: Any) -> Table:
        return database.define_table(TableDefinition(name, attributes=(key, *attributes), primary_key="code", **options))

    assert not is_queueable(other("Unique", Attribute("a", "Int", indexed=True, unique=True)), deletes=False)
    assert not is_queueable(other("Checked", Attribute("a", "Int", check=Check("a > 0"))), deletes=True)
    assert not is_queueable(
        other("Computed", Attribute("a", "Int"), Attribute("b", "Int", indexed=True, computed_from="a + 1")), deletes=False
    )
    assert not is_queueable(other("Learning", dynamic=True), deletes=False)
    child = other(
        "Child",
        Attribute("seatCode", "ID", indexed=True),
        Attribute("seat", "Seat", relationship=Relationship("Seat", from_="seatCode", on_delete="cascade")),
    )
    assert is_queueable(seats, deletes=False) and not is_queueable(seats, deletes=True) and is_queueable(child, deletes=True)
    database.guard = lambda txn, names: None
    assert not is_queueable(seats, deletes=False)
    database.guard = None
    seats.cache(object())
    assert not is_queueable(seats, deletes=False)
    seats.cache(None)


def test_records_with_moves(store: Store, seats: Table) -> None:
    """The values of an attribute that has got another name are read with it."""
    transaction = store.begin()
    transaction.put(seats, "a", {"code": "a", "place": "here", "stock": 1})
    transaction.apply()
    store.commit_turn()
    renamed = tuple(replace(a, name="spot", renamed_from="place") if a.name == "place" else a for a in SEAT.attributes)
    seats.database.define_table(replace(SEAT, attributes=renamed))
    assert seats.moves is not None
    queue = Queue(seats)
    queue.put("a", spot="here", stock=2)
    store.commit_turn()
    assert queue.told == [("a", "done")]
    newest = seats.database.log.newest(seats.database.snapshot())
    assert newest is not None and newest.changed == ("stock",)
