"""svc.store.side_rows: rows that are changed by what is stored, whoever has stored it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from svc.errors import Problem
from svc.store import Store, Table
from svc.store.side_rows import SideRows, scan_rows

KEY = b"g" + bytes(16)


def content(table: Table) -> dict[bytes, bytes]:
    database = table.database
    return {bytes(key): bytes(value) for key, value in scan_rows(database, database.snapshot(), b"")}


def appended(text: bytes) -> Callable[[bytes | None], bytes | None]:
    return lambda before: (before or b"") + text


def end_turn(store: Store) -> None:
    store.commit_turn()
    store.end_turn()


def test_changes_of_two_follow_each_other(store: Store, seats: Table) -> None:
    """Each sees what the one before has made, also within one turn."""
    done: list[Problem | None] = []
    mine, theirs = (SideRows(seats.database, lambda work: pytest.fail("it waits")) for _ in range(2))
    for rows, text in ((mine, b"a"), (theirs, b"b"), (mine, b"c")):
        rows.update(KEY, appended(text), done.append)
    end_turn(store)
    assert sorted(content(seats)[KEY]) == sorted(b"abc") and done == [None] * 3
    mine.put(KEY, b"x")
    mine.update(KEY, appended(b"y"))
    end_turn(store)
    assert content(seats) == {KEY: b"xy"}
    mine.update(KEY, lambda before: None)
    end_turn(store)
    assert content(seats) == {}


def test_one_that_changes_nothing_commits_nothing(store: Store, seats: Table) -> None:
    rows = SideRows(seats.database, lambda work: pytest.fail("it waits"))
    rows.put(KEY, b"a")
    end_turn(store)
    before, done = seats.database.env.last_commit(), []
    rows.update(KEY, lambda before: before, done.append)
    end_turn(store)
    assert done == [None] and seats.database.env.last_commit() == before


def test_a_defect_undoes_nothing_else(store: Store, seats: Table, caplog: pytest.LogCaptureFixture) -> None:
    rows = SideRows(seats.database, lambda work: pytest.fail("it waits"))
    done: list[Problem | None] = []
    rows.put(KEY, b"a")
    rows.update(KEY, lambda before: 1 // 0, done.append)  # type: ignore[arg-type,return-value]
    rows.update(KEY, appended(b"b"))
    end_turn(store)
    assert content(seats) == {KEY: b"ab"} and done == [None]
    assert "a row of MQTT could not be changed" in caplog.text
