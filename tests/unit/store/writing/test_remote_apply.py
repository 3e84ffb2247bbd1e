"""svc.store.writing.remote_apply: transactions of other nodes, whole, in order, once (spec: replication)."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from itertools import permutations
from math import inf, nan, nextafter
from pathlib import Path
from typing import Any

import pytest

from svc.clock import FakeClock
from svc.store import Database, LogEntry, Store
from svc.store.backup.restore import _renew_incarnation
from svc.store.integrity.check import check_database
from svc.store.log.entries import DELETE, EXPIRE, MESSAGE, PATCH, PUT, RELOCATE
from svc.store.replication_state import StreamHint
from svc.store.schema import Attribute, Relationship, TableDefinition
from svc.store.values.keys import KEPT_BYTES, encode_key
from svc.store.values.records import HAS_FILES, encode, encode_payload, frame
from svc.store.writing import long_write, remote_apply
from svc.store.writing.remote_apply import AppliedUpTo, apply_remote
from svc.store.writing.remote_transaction import Origin, RemoteEntry, RemoteTransaction
from svc.store.writing.remote_write import MissingTables, RefusedTransaction
from tests.support.fakes import TickingClock
from tests.support.remote import KEY, START, Add, entry, origin, stored, transaction
from tests.unit.store.conftest import SEAT
from tests.unit.store.writing.test_long_write import Turns
from tests.unit.store.writing.test_queued_writes import Queue

A, B = origin("a"), origin("b")
DYNAMIC = TableDefinition("Any", attributes=(Attribute("code", "Any", primary_key=True),), primary_key="code", dynamic=True)


pytestmark = pytest.mark.programs


@pytest.fixture
def turns(store: Store) -> Any:
    turns = Turns(store)
    yield turns
    turns.loop.close()


@pytest.fixture
def database(store: Store) -> Database:
    database = store.open_database("data")
    database.define_table(SEAT)
    database.define_table(DYNAMIC)
    database.enable_replication()
    return database


def apply(turns: Turns, node: Origin, *transactions: RemoteTransaction, stream: Any = None) -> AppliedUpTo:
    found: AppliedUpTo = turns.finish(apply_remote(turns.store.databases["data"], node, transactions, stream))
    return found


def puts(lsn: int, version: float, *keys: str, **values: Any) -> RemoteTransaction:
    return transaction(lsn, version, [entry(PUT, key, values or {"place": key}) for key in keys])


def record(turns: Turns, key: str, table: str = "Seat") -> Any:
    return stored(turns.store.databases["data"].tables[table], key)[0]


def check(store: Store) -> None:
    store.check()
    path = store.databases["data"].env.path
    store.close()
    assert check_database(path).findings == []


def test_in_order_and_once(turns: Turns, database: Database) -> None:
    first, second = puts(5, START, "x"), transaction(9, START + 1, [entry(PATCH, "x", {"stock": Add(2)})])
    assert apply(turns, A, first, second).lsn == 9
    commits = turns.store.commits
    for again in (first, second), (first,), (second,), ():
        outcome = apply(turns, A, *again)
        assert (outcome.lsn, outcome.figures.writes, outcome.refused) == (9, 0, None)
    assert record(turns, "x") == {"place": "x", "code": "x", "stock": 2}
    assert database.replication is not None
    snapshot = database.snapshot()
    assert database.replication.all_applied(snapshot) == {A: 9}
    # Another incarnation of that node counts on its own, and so does another node.
    assert apply(turns, Origin("a", b"later---"), transaction(2, START + 2, [entry(PATCH, "x", {"stock": Add(5)})])).lsn == 2
    assert apply(turns, B, transaction(1, START + 3, [entry(PATCH, "x", {"stock": Add(1)})])).lsn == 1
    assert record(turns, "x")["stock"] == 8
    assert turns.store.commits >= commits
    check(turns.store)


def test_messages_do_not_come_again_behind_a_copy_of_less(turns: Turns, database: Database) -> None:
    """Records are those of a node that had applied less: so they are applied again, and what was published with them is known."""
    sent = []
    for lsn in (1, 3, 5):
        sent.append(puts(lsn, START + lsn, f"k{lsn}"))
        sent[-1].entries.append(RemoteEntry(MESSAGE, "Seat", encode_key("x"), frame(encode_payload(lsn), 1.0, 1, None)))
        sent[-1].last_lsn += 1
    apply(turns, A, *sent[:2])
    assert database.replication is not None

    def messages() -> list[int]:
        told = (entry.value for entry in database.log.read(database.snapshot()) if entry.kind == MESSAGE)
        return [value[-1] for value in told if value is not None]  # a small number is one byte

    assert messages() == [1, 3]
    turns.store.open_writers((database,))
    database.replication.end_copying(database.env.writer(), {A: 2}, {}, 0)
    database.env.touch()
    turns.store.commit_turn()
    assert apply(turns, A, *sent).lsn == 6
    assert messages() == [1, 3, 5]
    assert record(turns, "k5") is not None
    check(turns.store)


def test_what_the_log_has_of_it(turns: Turns, database: Database) -> None:
    heard: list[LogEntry] = []
    database.on_commit.append(lambda _, entries: heard.extend(entries))
    sent = transaction(
        7, START - 9, [entry(PUT, "x", {"place": "1"}), entry(PATCH, "x", {"place": "2"}), entry(DELETE, "y", None)], START - 5
    )
    sent.user, sent.operation, sent.trace_id = "ann", 3, b"t" * 16
    sent.entries.append(RemoteEntry(MESSAGE, "Seat", encode_key("x"), frame(encode_payload("hello"), 1.0, 1, None), mqtt=b"note"))
    apply(turns, A, sent)
    found = list(database.log.read(database.snapshot()))
    assert found == heard
    assert [(each.kind, each.version, each.wall_ms, each.node, each.user, each.operation) for each in found] == [
        (kind, START - 9, START - 5, "a", "ann", 3) for kind in (PUT, PATCH, DELETE, MESSAGE)
    ]
    assert [(each.lsn, each.transaction, each.previous) for each in found] == [(1, 1, 0), (2, 1, 1), (3, 1, 0), (4, 1, 0)]
    assert found[3].mqtt == b"note" and found[3].trace_id == b"t" * 16
    assert stored(database.tables["Seat"], "x")[2] == START - 9
    # A deletion of what is not here is kept: what it has deleted may come yet.
    outcome = apply(turns, B, puts(1, START - 10, "y"), puts(2, START - 8, "y"))
    assert (outcome.figures.late, outcome.figures.void) == (1, 1)
    assert record(turns, "y") is not None
    check(turns.store)


def test_several_writes_of_one_transaction_to_one_record(turns: Turns, database: Database) -> None:
    apply(turns, B, transaction(1, START, [entry(PATCH, "x", {"place": "b"})]))
    several = [entry(PUT, "x", {"place": "1"}), entry(PATCH, "x", {"stock": Add(1)}), entry(PATCH, "x", {"stock": Add(1)})]
    apply(turns, A, transaction(1, START, several))  # the same version, and a smaller name
    assert record(turns, "x") == {"place": "b", "stock": 2, "code": "x"}
    apply(turns, origin("c"), transaction(1, START, [*several, entry(DELETE, "x", None), entry(PATCH, "x", {"stock": Add(7)})]))
    assert record(turns, "x") == {"stock": 7, "code": "x"}
    check(turns.store)


def test_a_table_that_is_missing(turns: Turns, database: Database) -> None:
    good, bad, behind = (
        puts(1, START, "x"),
        transaction(2, START + 1, [entry(PUT, "y", {}), entry(PUT, "z", {}, "Hall")]),
        puts(4, START + 2, "w"),
    )
    outcome = apply(turns, A, good, bad, behind)
    assert outcome.lsn == 1 and isinstance(outcome.refused, MissingTables) and outcome.refused.names == ("Hall",)
    assert record(turns, "x") is not None and record(turns, "y") is None and record(turns, "w") is None
    database.define_table(TableDefinition("Hall", attributes=SEAT.attributes, primary_key="code"))
    outcome = apply(turns, A, bad, behind)
    assert outcome.lsn == 4 and outcome.refused is None
    assert record(turns, "z", "Hall") is not None and record(turns, "w") is not None
    check(turns.store)


BLOB = bytes((0x10 | HAS_FILES,)) + encode({"code": "x"}, 1.0, 1, None)[1:]
_GOOD = encode({"code": "x"}, 1.0, 1, None)


@pytest.mark.parametrize(
    "bad",
    [
        RemoteEntry(PUT, "Seat", encode_key("x"), None),
        RemoteEntry(DELETE, "Seat", encode_key("x"), _GOOD),
        RemoteEntry(PUT, "Seat", encode_key("y"), _GOOD),
        RemoteEntry(PUT, "Seat", encode_key("x"), encode({"place": "x"}, 1.0, 1, None)),
        RemoteEntry(PUT, "Seat", b"", _GOOD),
        RemoteEntry(PUT, "Seat", b"\xff\xff", _GOOD),
        RemoteEntry(PUT, "Seat", encode_key("x")[:-1], _GOOD),
        RemoteEntry(PUT, "Seat", encode_key(None), _GOOD),
        RemoteEntry(PUT, "Seat", encode_key("x"), b""),
        RemoteEntry(PUT, "Seat", encode_key("x"), encode({"code": "x"}, 1.0, 1, inf)),
        RemoteEntry(PUT, "Seat", encode_key("x"), encode({"code": "x"}, 1.0, 1, nan)),
        RemoteEntry(PUT, "Seat", encode_key("x"), BLOB),
        RemoteEntry(MESSAGE, "Seat", encode_key("x"), BLOB),
        RemoteEntry(PUT, "Seat", encode_key("x"), encode({"code": "x", 1.5: 1}, 1.0, 1, None)),  # what no log could be read with
        RemoteEntry(PATCH, "Seat", encode_key("x"), encode({b"stock": 1}, 1.0, 1, None)),
        RemoteEntry(PATCH, "Seat", encode_key("x"), encode({"stock": {"__op__": "add", "value": "1"}}, 1.0, 1, None)),
        RemoteEntry(PATCH, "Seat", encode_key("x"), frame(encode_payload([1]), 1.0, 1, None)),
        RemoteEntry(EXPIRE, "Seat", encode_key("x"), None),
        RemoteEntry(RELOCATE, "Seat", encode_key("x"), None),
        RemoteEntry(99, "Seat", encode_key("x"), None),
        *(RemoteEntry(PUT, "Seat", encode_key("x"), _GOOD[:size]) for size in range(len(_GOOD))),
        RemoteEntry(None, None, None, None),  # type: ignore[arg-type]
    ],
    ids=lambda bad: f"{bad.kind} {bad.key} {bad.value}",
)
def test_what_no_node_sends_is_refused_whole(turns: Turns, database: Database, bad: RemoteEntry) -> None:
    outcome = apply(turns, A, puts(1, START, "w"), transaction(2, START + 1, [entry(PUT, "v", {}), bad]))
    assert outcome.lsn == 1 and isinstance(outcome.refused, RefusedTransaction)
    assert record(turns, "w") is not None and record(turns, "v") is None and record(turns, "x") is None
    turns.store.check()


@pytest.mark.parametrize(
    "change",
    [
        {"version": nan},
        {"version": inf},
        {"version": -1.0},
        {"version": 0.0},
        {"version": "1"},
        {"wall_ms": nan},
        {"lsn": 0},
        {"lsn": 7},
        {"last_lsn": 1 << 64},
        {"trace_id": b"short"},
        {"operation": 256},
        {"user": "u" * 70_000},
        {"user": 5},
    ],
    ids=str,
)
def test_a_head_that_none_can_have(turns: Turns, database: Database, change: dict[str, Any]) -> None:
    sent = puts(5, START, "x")
    for name, value in change.items():
        setattr(sent, name, value)
    outcome = apply(turns, A, sent)
    assert outcome.lsn == 0 and isinstance(outcome.refused, RefusedTransaction)
    assert record(turns, "x") is None


def test_positions_that_overlap(turns: Turns, database: Database) -> None:
    apply(turns, A, puts(1, START, "x", "y"))
    outcome = apply(turns, A, puts(2, START + 1, "y", "z"))
    assert outcome.lsn == 2 and isinstance(outcome.refused, RefusedTransaction)
    assert record(turns, "z") is None


def test_a_dynamic_table_learns_attributes(turns: Turns, database: Database) -> None:
    sent = transaction(1, START, [entry(PUT, 1, {"size": 4}, "Any"), entry(PATCH, 2, {"color": "red"}, "Any")])
    assert apply(turns, A, sent).refused is None
    table = database.tables["Any"]
    assert {"size", "color"} <= table.indexes.keys() and record(turns, 2, "Any") == {"color": "red", "code": 2}  # type: ignore[arg-type]
    apply(turns, A, *(transaction(number, START, [entry(PUT, number, {f"a{number}": 4}, "Any")]) for number in range(3, 6)))
    assert {"a3", "a4", "a5"} <= table.indexes.keys()
    check(turns.store)


def test_values_that_are_not_unique(turns: Turns, store: Store, database: Database) -> None:
    database.define_table(
        TableDefinition(
            "User",
            attributes=(Attribute("code", "ID", primary_key=True), Attribute("mail", "String", indexed=True, unique=True)),
            primary_key="code",
        )
    )
    transaction_ = store.begin()
    transaction_.put(database.tables["User"], "own", {"mail": "m"})
    transaction_.apply()
    store.commit_turn()
    outcome = apply(
        turns, A, transaction(1, START + 5, [entry(PUT, "other", {"mail": "m"}, "User"), entry(PUT, "third", {"mail": "n"}, "User")])
    )
    assert outcome.refused is None and outcome.figures.conflicts == 1
    (conflict,) = outcome.figures.found
    assert (conflict.table, conflict.attribute, conflict.key, conflict.other) == ("User", "mail", encode_key("other"), encode_key("own"))
    assert record(turns, "own", "User") is not None and record(turns, "other", "User") is not None
    store.check()


@pytest.mark.parametrize("on_delete", ["cascade", "setNull"])
@pytest.mark.parametrize("late", [False, True])
def test_every_order_of_arrival_of_what_a_deletion_has_taken_along(
    turns: Turns, store: Store, database: Database, on_delete: str, late: bool
) -> None:
    """A node deletes a parent and, in the same transaction, what its `onDelete` has made of the child; others write to both before or after that."""
    parents = TableDefinition("Parent", attributes=(Attribute(KEY, "ID", primary_key=True),), primary_key=KEY)
    owner = Attribute("owner", "Parent", relationship=Relationship("Parent", "parent", None, on_delete))
    parent = Attribute("parent", "ID", indexed=True)
    children = replace(parents, name="Child", attributes=(*parents.attributes, parent, Attribute("n", "Int"), owner))
    database.define_table(parents)
    database.define_table(children)
    transactions = []
    for place, order in enumerate(permutations("abc")):
        up, child, unknown = f"p{place}", f"c{place}", f"u{place}"
        taken = entry(DELETE, child, None, "Child") if on_delete == "cascade" else entry(PATCH, child, {"parent": None}, "Child")
        put = [entry(PUT, up, {}, "Parent"), entry(PUT, child, {"parent": up, "n": 1}, "Child")]
        written = {
            "a": [(START, put), (START + 10, [entry(DELETE, up, None, "Parent"), taken])],
            "b": [(START + (20 if late else 5), [entry(PATCH, child, {"n": 2}, "Child")])],
            "c": [(START + 6, [entry(PUT, unknown, {"parent": up, "n": 3}, "Child")])],
        }
        for node in order:
            for number, (version, entries) in enumerate(written[node]):
                lsn = 1 + 10 * place + 5 * number
                transactions.append((origin(node), transaction(lsn, version + place / 1000, entries)))
    for sender, each in transactions:
        assert apply(turns, sender, each).refused is None
    left: dict[str, Any] | None = {"parent": None, "n": 2}
    if on_delete == "cascade":  # a patch that is newer than a deletion begins with nothing
        left = {"n": 2} if late else None
    for place in range(6):
        assert record(turns, f"p{place}", "Parent") is None
        expected = None if left is None else {**left, KEY: f"c{place}"}
        assert record(turns, f"c{place}", "Child") == expected
        assert record(turns, f"u{place}", "Child") == {KEY: f"u{place}", "parent": f"p{place}", "n": 3}, (
            "it was not there where the parent was deleted"
        )
    check(store)


def test_a_large_transaction(turns: Turns, database: Database) -> None:
    keys = [f"k{number}" for number in range(3 * remote_apply.LARGE)]
    hint = StreamHint("then", 77)
    large = puts(2, START + 1, *keys)
    outcome = apply(turns, A, puts(1, START, "x"), large, puts(large.last_lsn + 1, START + 2, "y"), stream=("L_data_a", hint))
    assert outcome.lsn == large.last_lsn + 1 and outcome.figures.writes == len(keys) + 2
    assert database.tables["Seat"].record_count() == len(keys) + 2
    assert database.replication is not None
    assert database.replication.hint(database.snapshot(), "L_data_a") == hint
    assert apply(turns, A, large).figures.writes == 0
    # One of which nothing is left to write: that it was applied is kept all the same.
    void = transaction(large.last_lsn + 2, START, [entry(PUT, key, {"place": "late"}) for key in keys])
    outcome = apply(turns, A, void)
    assert outcome.lsn == void.last_lsn and outcome.figures.void == len(keys)
    assert database.replication.applied(database.snapshot(), A) == void.last_lsn
    # One that cannot be applied.
    bad = transaction(void.last_lsn + 1, START + 9, [*(entry(PUT, key, {"place": "no"}) for key in keys), entry(PUT, "z", {}, "Hall")])
    outcome = apply(turns, A, bad)
    assert outcome.lsn == void.last_lsn and isinstance(outcome.refused, MissingTables)
    assert record(turns, keys[0]) == {"place": keys[0], "code": keys[0]}
    check(turns.store)


def test_many_transactions_share_a_commit(turns: Turns, database: Database) -> None:
    """More than fits into a turn: in slices, and on the disk together."""
    heard: list[int] = []
    database.on_commit.append(lambda _, entries: heard.extend(entry.lsn for entry in entries))
    count = remote_apply.LARGE
    sent = [puts(1 + 3 * number, START + number, f"a{number}", f"b{number}", f"c{number % 7}") for number in range(count)]
    commits = turns.store.commits
    outcome = apply(turns, A, *sent, stream=("s", StreamHint("c", 5)))
    assert outcome.lsn == 3 * count and outcome.figures.writes == 3 * count and outcome.figures.late == 0
    assert turns.store.commits == commits + 1
    assert heard == list(range(1, 3 * count + 1))
    found = list(database.log.read(database.snapshot()))
    assert [entry.transaction for entry in found] == [1 + (entry.lsn - 1) // 3 * 3 for entry in found]
    assert database.tables["Seat"].record_count() == 2 * count + 7
    check(turns.store)


def test_no_more_than_so_many_share_a_commit(turns: Turns, database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_apply, "LARGE", 10)
    monkeypatch.setattr(remote_apply, "TOGETHER", 20)
    commits = turns.store.commits
    assert apply(turns, A, *(puts(number, START + number, f"k{number}") for number in range(1, 101))).lsn == 100
    assert turns.store.commits == commits + 5
    check(turns.store)


def test_large_values_are_no_matter_of_a_turn(turns: Turns, database: Database) -> None:
    large = "z" * (remote_apply.READ_BYTES // 2)
    sent = [puts(1 + 8 * number, START + number, *(f"{number}-{key}" for key in range(8)), text=large) for number in range(30)]
    commits = turns.store.commits
    pieces = list(remote_apply._pieces(sent[0].entries))
    assert [len(piece) for piece in pieces] == [2, 2, 2, 2] and [each for piece in pieces for each in piece] == sent[0].entries
    assert apply(turns, A, *sent).lsn == 240
    assert turns.store.commits == commits + 2  # 8 MiB in each
    assert record(turns, "29-7")["text"] == large
    check(turns.store)


def test_others_that_wait_end_it_early(turns: Turns, store: Store, database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(long_write, "SHARE", 0.0)
    monkeypatch.setattr(long_write, "SLICE", 0.0)
    table = database.tables["Seat"]
    sent = [puts(1 + 30 * number, START + number, *(f"{number}-{key}" for key in range(30))) for number in range(20)]
    applying = turns.start(apply_remote(database, A, sent))
    turns.until(lambda: database.env.holder is not None)
    local = store.begin()
    local.put(table, "local", {"place": "here"})
    writing = turns.start(local.apply_in_turn())
    turns.until(lambda: applying.done() and writing.done())
    assert writing.exception() is None and applying.result().lsn == 600
    log = list(database.log.read(database.snapshot()))
    (own,) = [entry.lsn for entry in log if entry.node == database.node]
    assert 1 < own < 601  # between two transactions
    assert log[own].lsn == log[own].transaction
    check(store)


@pytest.mark.parametrize("size", [1, remote_apply.READ_AT_ONCE + 1])
def test_one_of_many_cannot_be_applied(turns: Turns, database: Database, size: int) -> None:
    """What is before it is applied, and nothing of it, wherever in it the fault is."""
    good = [puts(number, START + number, f"k{number}") for number in range(1, remote_apply.LARGE + 50)]
    lsn = good[-1].last_lsn
    bad = puts(lsn + 1, START + 999, *(f"bad{number}" for number in range(size)))
    bad.entries[-1].value = b"\x10"
    behind = puts(bad.last_lsn + 1, START + 1000, "behind")
    outcome = apply(turns, A, *good, bad, behind, stream=("s", StreamHint("c", 5)))
    assert outcome.lsn == lsn and outcome.refused is not None and outcome.figures.writes == lsn
    assert record(turns, f"k{lsn}") is not None and record(turns, "bad0") is None and record(turns, "behind") is None
    assert database.replication is not None
    assert database.replication.hint(database.snapshot(), "s") is None
    assert database.replication.applied(database.snapshot(), A) == lsn
    check(turns.store)


def test_keys_without_an_order_among_them(turns: Turns, database: Database) -> None:
    """A node refuses the second of two such keys; two nodes may each have accepted one."""
    keys = ["x" * KEPT_BYTES + end for end in ("a" * 40, "b" * 40)]
    for node, key in zip((A, B), keys, strict=True):
        assert apply(turns, node, puts(1, START, key, place=key[-1])).refused is None
    assert [record(turns, key)["place"] for key in keys] == ["a", "b"]
    check(turns.store)


def test_the_hint_of_a_stream_without_transactions(turns: Turns, database: Database) -> None:
    apply(turns, A, puts(1, START, "x"))
    assert database.replication is not None
    for sequence, given in ((3, ()), (4, (puts(1, START, "x"),))):
        apply(turns, A, *given, stream=("s", StreamHint("c", sequence)))
        assert database.replication.hint(database.snapshot(), "s") == StreamHint("c", sequence)


def test_many_transactions_take_several_turns(tmp_path: Path) -> None:
    """Each reading of the clock takes a millisecond."""
    store = Store(tmp_path / "database", clock=TickingClock(0.001))
    turns = Turns(store)
    database = store.open_database("data")
    database.define_table(SEAT)
    database.enable_replication()
    commits = store.commits
    assert apply(turns, A, *(puts(number, START + number, "x") for number in range(1, 41))).lsn == 40
    assert 5 <= store.commits - commits <= 40
    turns.loop.close()
    check(store)


def test_it_waits_behind_a_long_write(turns: Turns, store: Store, database: Database) -> None:
    table = database.tables["Seat"]
    long = store.begin()
    for number in range(2000):
        long.put(table, f"k{number}", {"place": "local"})
    writing = turns.start(long.apply_long())
    turns.turn()
    applying = turns.start(apply_remote(database, A, [puts(1, START - 5000, "x")]))
    turns.until(lambda: applying.done())
    assert writing.done() and applying.result().lsn == 1
    check(store)


# -- versions


def write(store: Store, key: str, **values: Any) -> float:
    made = store.begin()
    made.put(store.databases["data"].tables["Seat"], key, values)
    made.apply()
    store.commit_turn()
    assert made.version is not None
    return made.version


def test_versions_exceed_what_was_applied(open_store: Callable[..., Store], clock: FakeClock) -> None:
    store = open_store()
    store.open_database("data").define_table(SEAT)
    store.databases["data"].enable_replication()
    turns = Turns(store)
    ahead = START + 300_000
    apply(turns, A, puts(1, ahead, "x"))
    apply(turns, B, puts(1, START - 5, "y"))  # the newest entry of the log
    assert write(store, "z") == nextafter(ahead, inf)
    apply(turns, B, puts(2, START - 4, "y"))
    turns.loop.close()
    store = open_store()
    assert write(store, "z") == nextafter(nextafter(ahead, inf), inf)
    check(store)


def test_a_local_write_of_the_same_turn_is_newer(turns: Turns, database: Database) -> None:
    """It replaces what was applied, though that is not committed yet."""
    store, ahead = turns.store, START + 300_000
    database.on_commit.append(lambda *_: None)  # for which entries are kept
    task = turns.start(apply_remote(database, A, [puts(1, ahead, "x", place="theirs")]))
    for _ in range(100):
        turns.loop.call_soon(turns.loop.stop)
        turns.loop.run_forever()
        if database.entries:
            break
    assert database.entries, "it is applied, and not committed yet"
    Queue(database.tables["Seat"]).put("x", place="ours")
    store.commit_turn()
    turns.until(task.done)
    assert stored(database.tables["Seat"], "x")[2] == nextafter(ahead, inf)
    assert record(turns, "x")["place"] == "ours"
    assert apply(turns, B, puts(1, START + 1, "x", place="late")).figures.void == 1
    check(store)


def test_that_a_clock_is_far_ahead_is_said_once_a_minute(
    open_store: Callable[..., Store], clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    """Its versions go on from there for good, and so do those of all who write to its records."""
    store = open_store()
    store.open_database("data").define_table(SEAT)
    store.databases["data"].enable_replication()
    turns = Turns(store)
    far = START + 86_400_000 * 365
    said = "database data: a transaction of {} is 31536000 s ahead of the clock here: set the clocks"
    with caplog.at_level(logging.ERROR):
        for lsn in (1, 2, 3):
            apply(turns, A, puts(lsn, far + lsn, "x"))
        apply(turns, B, puts(1, far, "y"))
        clock.advance(60)
        apply(turns, A, puts(4, far + 60_000, "x"))
    turns.loop.close()
    assert [each.message for each in caplog.records] == [
        said.format("a"),
        said.format("b"),
        said.format("a") + " (3 times since it was said)",
    ]


def test_a_version_far_ahead_does_not_move_the_clock(open_store: Callable[..., Store], caplog: pytest.LogCaptureFixture) -> None:
    store = open_store()
    store.open_database("data").define_table(SEAT)
    store.databases["data"].enable_replication()
    turns = Turns(store)
    far = START + 86_400_000 * 365
    with caplog.at_level(logging.ERROR):
        assert apply(turns, A, puts(1, far, "x", place="theirs"), puts(2, far + 1, "x2")).lsn == 2
    assert [each.message for each in caplog.records] == [
        "database data: a transaction of a is 31536000 s ahead of the clock here: set the clocks"
    ]
    caplog.clear()
    assert write(store, "y") == START
    assert write(store, "x", place="ours") == nextafter(far, inf)  # it has seen what it replaces, so it wins
    assert record(turns, "x")["place"] == "ours"
    assert write(store, "y") < START + 1
    assert write(store, "x", place="again") == nextafter(nextafter(far, inf), inf)
    both = store.begin()
    for key in ("y", "x", "x2"):
        both.patch(store.databases["data"].tables["Seat"], key, {"stock": 1})
    both.apply()
    store.commit_turn()
    assert both.version is not None and both.version > far + 1
    for key in ("y", "x", "x2"):
        assert record(turns, key)["stock"] == 1
    turns.loop.close()
    store = open_store()
    assert write(store, "w") < START + 1
    deleting = store.begin()
    deleting.delete(store.databases["data"].tables["Seat"], "x")
    deleting.apply()
    store.commit_turn()
    turns = Turns(store)
    outcome = apply(turns, A, puts(3, far + 2, "x"))
    assert outcome.figures.void == 0
    # A long write too.
    long = store.begin()
    table = store.databases["data"].tables["Seat"]
    for key in ("x", "x2", "y", "v"):
        long.put(table, key, {"place": "long"})
    turns.finish(long.apply_long())
    for key in ("x", "x2", "y", "v"):
        assert record(turns, key)["place"] == "long"
    assert write(store, "w") < START + 1
    turns.loop.close()
    check(store)


# -- being switched on


def test_without_other_nodes_nothing_is_there(store: Store) -> None:
    database = store.open_database("data")
    assert database.replication is None
    names = {key.decode() for key, _ in database.snapshot().cursor().iternext()}
    assert "$replication" not in names


def test_it_stays_switched_on(open_store: Callable[..., Store]) -> None:
    store = open_store()
    database = store.open_database("data")
    state = database.enable_replication()
    incarnation = state.incarnation(database.snapshot())
    assert len(incarnation) == 8 and database.enable_replication() is state
    database.define_table(SEAT)  # does not take its store for a spare one
    store = open_store()
    found = store.databases["data"].replication
    assert found is not None and found.incarnation(store.databases["data"].snapshot()) == incarnation
    found_log = store.databases["data"].log
    assert write(store, "x") == START and found_log.last_lsn == 1
    check(store)


BESIDE = """
import sys
from pathlib import Path
from svc.store import Store
from tests.support.remote import PUT, START, apply_all, entry, origin, transaction

store = Store(Path(sys.argv[1]))
database = store.open_database("data")
database.enable_replication()
apply_all(database, [(origin("a"), transaction(1, START + 1000, [entry(PUT, "x", {"place": "theirs"})]))])
store.close()
"""


def test_a_process_beside_it_sees_it(store: Store, tmp_path: Path) -> None:
    database = store.open_database("data")
    database.define_table(SEAT)
    assert write(store, "y") == START
    subprocess.run([sys.executable, "-c", BESIDE, tmp_path / "database"], check=True, timeout=120)
    store.follow()
    store.end_turn()
    assert database.replication is not None
    assert stored(database.tables["Seat"], "x")[0] == {"place": "theirs", "code": "x"}
    store.end_turn()
    assert write(store, "x", place="ours") == nextafter(START + 1000, inf)
    check(store)


def test_a_restored_backup_has_another_incarnation(turns: Turns, database: Database) -> None:
    apply(turns, A, puts(7, START, "x"))
    assert database.replication is not None
    before = database.replication.incarnation(database.snapshot())
    path = database.env.path
    turns.store.close()
    _renew_incarnation(path)
    store = Store(path.parent, clock=FakeClock())
    state, snapshot = store.databases["data"].replication, store.databases["data"].snapshot()
    assert state is not None and len(state.incarnation(snapshot)) == 8 and state.incarnation(snapshot) != before
    assert state.all_applied(snapshot) == {A: 7}
    check(store)
