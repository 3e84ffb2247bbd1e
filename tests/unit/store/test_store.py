"""svc.store.store: databases, turns, versions, listeners, figures."""

import logging
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from svc.clock import FakeClock
from svc.errors import Problem, SchemaError, StoreFailure
from svc.store import Database, LogEntry, Store, Table
from svc.store.values.records import version_of
from svc.store.writing.bulk_write import load_records

pytestmark = pytest.mark.programs


def put(store: Store, table: Table, key: str, **record: object) -> None:
    transaction = store.begin()
    transaction.put(table, key, record)
    transaction.apply()
    store.commit_turn()


def test_databases_are_directories(store: Store, open_store: Callable[..., Store], tmp_path: Path) -> None:
    assert store.databases == {}
    data = store.open_database("data")
    assert store.open_database("data") is data and (tmp_path / "database" / "data" / "data.mdb").exists()
    store.open_database("ünï code")
    assert sorted(open_store().databases) == ["data", "ünï code"]


@pytest.mark.parametrize("name", ["", ".", "..", ".hidden", "a/b", "a`b", "a\0b", "x" * 251, "é" * 126])
def test_names_that_cannot_be_databases(store: Store, name: str) -> None:
    with pytest.raises(SchemaError):
        store.open_database(name)


def test_other_files_are_left_alone(store: Store, open_store: Callable[..., Store], tmp_path: Path) -> None:
    (tmp_path / "database" / ".trash").mkdir()
    (tmp_path / "database" / "notes.txt").write_text("x")
    assert open_store().databases == {}


def test_a_path_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreFailure):
        Store(tmp_path / "file")


def test_versions_grow_over_restarts(store: Store, seats: Table, open_store: Callable[..., Store], clock: FakeClock) -> None:
    put(store, seats, "A1")
    put(store, seats, "B1")
    first, second = (version_of(seats.get_raw(key) or b"") for key in ("A1", "B1"))
    assert first < second
    again = open_store()
    seats = again.databases["data"].tables["Seat"]
    put(again, seats, "C1")
    assert version_of(seats.get_raw("C1") or b"") > second
    clock.advance(5)
    put(again, seats, "D1")
    assert version_of(seats.get_raw("D1") or b"") == clock.wall() * 1000


def test_a_clock_that_is_behind_is_an_error_in_the_log(
    store: Store, seats: Table, open_store: Callable[..., Store], clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    put(store, seats, "A1")
    before = version_of(seats.get_raw("A1") or b"")
    clock.advance(-3600)
    with caplog.at_level(logging.ERROR):
        again = open_store()
    assert "the clock is 3600.000 s behind" in caplog.text
    seats = again.databases["data"].tables["Seat"]
    put(again, seats, "A1")
    assert version_of(seats.get_raw("A1") or b"") > before


def test_versions_are_those_of_the_node_not_of_a_database(store: Store, seats: Table) -> None:
    other = store.open_database("other").define_table(seats.definition)
    put(store, seats, "A1")
    put(store, other, "A1")
    assert version_of(other.get_raw("A1") or b"") > version_of(seats.get_raw("A1") or b"")


def test_listeners_hear_of_each_commit_once(store: Store, seats: Table) -> None:
    heard: list[tuple[str, list[int]]] = []

    def listener(database: Database, entries: list[LogEntry]) -> None:
        assert seats.get_raw("A1") is not None, "the writes can be read by then"
        heard.append((database.name, [entry.lsn for entry in entries]))

    store.on_commit.append(listener)
    for key in ("A1", "B1"):
        transaction = store.begin()
        transaction.put(seats, key, {})
        transaction.apply()
    assert heard == []
    store.commit_turn()
    store.commit_turn()
    assert heard == [("data", [1, 2])]


def test_a_failing_listener_hinders_nobody(store: Store, seats: Table, caplog: pytest.LogCaptureFixture) -> None:
    heard: list[int] = []
    outcome: list[Problem | None] = []

    def failing(*arguments: object) -> None:
        raise ValueError("a defect")

    store.on_commit += [failing, lambda database, entries: heard.append(len(entries))]
    first = store.begin()
    first.put(seats, "A1", {})
    first.on_done = failing
    first.apply()
    second = store.begin()
    second.put(seats, "B1", {})
    second.on_done = outcome.append
    second.apply()
    store.commit_turn()
    assert heard == [2] and outcome == [None] and caplog.text.count("ValueError: a defect") == 2


def test_what_on_done_writes_belongs_to_the_next_turn(store: Store, seats: Table) -> None:
    def write_more(problem: Problem | None) -> None:
        transaction = store.begin()
        transaction.put(seats, "B1", {})
        transaction.apply()

    transaction = store.begin()
    transaction.put(seats, "A1", {})
    transaction.on_done = write_more
    transaction.apply()
    store.commit_turn()
    assert store.has_pending and seats.get_raw("B1") is None
    store.commit_turn()
    assert not store.has_pending and seats.get_raw("B1") is not None


def test_the_turn_ends_snapshots(store: Store, seats: Table) -> None:
    snapshot = seats.database.snapshot()
    assert seats.database.snapshot() is snapshot
    store.end_turn()
    assert not seats.database.env.is_current(snapshot)


def test_stats(store: Store, seats: Table) -> None:
    put(store, seats, "A1")
    stats = store.stats()
    assert stats.transactions == 1 and stats.commits >= 1 and stats.failed_commits == 0
    assert seats.size() == 4096


def test_the_size_of_a_database_is_that_of_its_file(store: Store, seats: Table) -> None:
    put(store, seats, "A1")
    env = seats.database.env
    assert env.file_bytes() == (env.path / "data.mdb").stat().st_size > env.used_bytes()  # it is allocated ahead


def test_what_was_not_committed_is_gone_after_close(store: Store, seats: Table, open_store: Callable[..., Store]) -> None:
    transaction = store.begin()
    transaction.put(seats, "A1", {})
    transaction.apply()
    again = open_store()
    assert again.databases["data"].tables["Seat"].get_raw("A1") is None
    again.check()


def test_instances_on_one_directory(store: Store, seats: Table, tmp_path: Path) -> None:
    """Another process defines, writes and reads; each sees the other at its next look."""
    put(store, seats, "A1", price=1)
    seats.indexes["price"].count(seats.database.snapshot(), b"", b"\xff\xff")
    assert seats.indexes["price"].cache is not None
    store.end_turn()
    child = os.fork()
    if child == 0:  # pragma: no cover
        status = 1
        try:
            # LMDB must not be used across a fork, so start a fresh interpreter at once.
            os.execv(sys.executable, [sys.executable, "-c", SIBLING, str(tmp_path / "database")])
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    raw = seats.get_raw("B1")
    assert raw is not None and seats.indexes["price"].cache is None
    assert list(seats.database.tables) == ["Seat", "Show"] and seats.database.tables["Show"].record_count() == 0
    assert seats.database.log.last_lsn == 2
    put(store, seats, "C1", price=3)
    assert version_of(seats.get_raw("C1") or b"") > version_of(raw)
    assert [entry.lsn for entry in seats.database.log.read(seats.database.snapshot())] == [1, 2, 3]
    assert "stock" in seats.indexes, "a changed definition is taken over by the same object"
    store.check()


SIBLING = """
import sys
from dataclasses import replace
from pathlib import Path
from svc.clock import FakeClock
from svc.store import Store
from svc.store.schema import Attribute, TableDefinition
store = Store(Path(sys.argv[1]), clock=FakeClock())
database = store.databases["data"]
seats = database.tables["Seat"]
transaction = store.begin()
transaction.put(seats, "B1", {"price": 2})
transaction.apply()
store.commit_turn()
attributes = tuple(replace(a, indexed=True) if a.name == "stock" else a for a in seats.definition.attributes)
database.define_table(replace(seats.definition, attributes=attributes))
database.define_table(TableDefinition("Show", attributes=(Attribute("id", "ID", primary_key=True),)))
store.close()
"""


def test_listeners_of_one_database_hear_of_that_only(store: Store, seats: Table) -> None:
    heard: list[str] = []
    other = store.open_database("other").define_table(seats.definition)
    seats.database.on_commit.append(lambda database, entries: heard.append(f"{database.name} {len(entries)}"))
    transaction = store.begin()
    transaction.put(seats, "A1", {})
    transaction.put(other, "A1", {})
    transaction.apply()
    store.commit_turn()
    for table in (seats, other):
        list(load_records(table, [{"code": "B1"}, {"code": "B2"}]))
    store.commit_turn()
    assert heard == ["data 1", "data 2"]
