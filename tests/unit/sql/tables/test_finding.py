"""svc.sql.tables.finding: what is found in tables that are in some special state."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from svc.sql.tables import access
from svc.store import Table
from svc.store.caching import FetchedAnswer, State
from svc.store.caching.copies import evict
from svc.store.schema import Attribute, TableDefinition
from svc.store.values.keys import encode_key
from svc.store.writing.write_set import WriteSet
from tests.support.sql_tables import LOOSE, TYPED, SqlTables

LONG = "z" * 256
ITEM = TableDefinition(
    "Item", attributes=(Attribute("id", "Int", primary_key=True), Attribute("a", "Int", indexed=True), Attribute("b", "String"))
)


@pytest.fixture(autouse=True)
def indexes_are_cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "_FETCH", 0.001)
    monkeypatch.setattr(access, "_ENTRY", 0.001)


def keys(tables: SqlTables, rest: str, *parameters: Any) -> list[Any]:
    return [row[0] for row in tables.ask(f'SELECT id FROM "@data"."Typed" {rest}', parameters)]


def test_long_texts_come_in_the_order_of_their_ends(open_tables: Callable[..., SqlTables]) -> None:
    """Which keys of indexes do not have."""
    tables = open_tables(TYPED)
    ends = ["b", "", "aa", "a", "c", "ab"]
    rows = [{"id": f"k{number}", "s": LONG + end} for number, end in enumerate(ends)]
    rows += [{"id": "first", "s": "a"}, {"id": "last", "s": "zzz{"}, {"id": "other", "s": "y" * 300}, {"id": "null"}]
    tables.fill({"Typed": rows})
    expected = [row["id"] for row in sorted(rows, key=lambda row: row.get("s", ""))]
    assert "index s" in tables.explain('SELECT * FROM "@data"."Typed" ORDER BY s')
    assert keys(tables, "ORDER BY s") == expected
    assert keys(tables, "ORDER BY s DESC") == expected[::-1]
    assert keys(tables, "ORDER BY s LIMIT 4 OFFSET 2") == expected[2:6]
    assert keys(tables, "WHERE s >= ? ORDER BY s", LONG + "aa") == expected[expected.index("k2") :]
    assert keys(tables, "WHERE s = ?", LONG + "ab") == ["k5"]
    assert tables.ask('SELECT DISTINCT s FROM "@data"."Typed" ORDER BY s')[-2][0] == LONG + "c"


def test_long_bytes_too(open_tables: Callable[..., SqlTables]) -> None:
    tables = open_tables(TYPED)
    tables.fill({"Typed": [{"id": end.decode(), "y": b"\xff" * 600 + end} for end in (b"b", b"a", b"c")]})
    assert keys(tables, "ORDER BY y, id") == ["a", "b", "c"] == keys(tables, "ORDER BY y DESC")[::-1]


@pytest.mark.parametrize("order", ["", " DESC"])
def test_keys_of_all_kinds_come_in_the_order_of_sqlite(open_tables: Callable[..., SqlTables], order: str) -> None:
    tables = open_tables(LOOSE)
    ids: list[Any] = [5, -5, 2.5, "a", "5", 2**63, -(2**63) - 1, ("a", 1), ("b",), "z", "[0]"]
    tables.fill({"Loose": [{"id": key, "a": "same"} for key in ids]})
    for statement in ("SELECT id FROM", "SELECT id, x FROM"):
        for where in ("", " WHERE a = 'same'", " WHERE id > -10"):
            text = f'{statement} "@data"."Loose"{where} ORDER BY id{order}'
            assert tables.ask(text) == tables.expect(text)


def test_values_are_read_under_their_new_names(open_tables: Callable[..., SqlTables]) -> None:
    tables = open_tables(ITEM)
    tables.fill({"Item": [{"id": number, "a": number % 7, "b": f"b{number}"} for number in range(300)]})
    moved = replace(ITEM, attributes=(ITEM.attributes[0], Attribute("c", "Int", indexed=True, renamed_from="a"), ITEM.attributes[2]))
    table = tables.define(moved)
    tables.read()
    assert table.moves is not None
    assert tables.ask('SELECT SUM(c), COUNT(c), COUNT(*) FROM "@data"."Item"') == [(sum(number % 7 for number in range(300)), 300, 300)]
    assert tables.ask('SELECT c FROM "@data"."Item" WHERE id = 12') == [(5,)]
    assert len(tables.ask('SELECT b FROM "@data"."Item" WHERE c = 3')) == 43
    for _ in range(20):
        tables.store.maintenance(0.01)
        tables.read()
        assert tables.ask('SELECT SUM(c), COUNT(c) FROM "@data"."Item"') == [(sum(number % 7 for number in range(300)), 300)]


def fetched(tables: SqlTables, table: Table, key: int, expires_at: float) -> None:
    transaction = tables.store.begin()
    record = {"id": key, "a": key, "b": f"b{key}"}
    answer = FetchedAnswer(State.NEW, tables.database.log.last_lsn, 5.0)
    transaction.store_fetched(table, key, answer, record, expires_at=expires_at)
    tables.store.commit_now(transaction)


def test_of_copies_what_is_here_and_whole_is_read(open_tables: Callable[..., SqlTables]) -> None:
    """Stale or not. What eviction has left of a copy is not."""
    tables = open_tables(ITEM)
    table = tables.table("Item")
    table.cache(object())
    now = tables.clock.wall() * 1000
    for key in range(4):
        fetched(tables, table, key, now + (1000 if key < 2 else 60_000))
    tables.clock.advance(10)
    tables.read()
    everything = 'SELECT id, b FROM "@data"."Item" ORDER BY id'
    assert tables.ask(everything) == [(key, f"b{key}") for key in range(4)]
    writes = WriteSet(tables.database, tables.store.next_version(), tables.clock.wall() * 1000, None)
    assert evict(writes, table, encode_key(1), tables.clock.wall() * 1000, lambda stored: True)
    tables.read(writes.txn)
    for statement in (
        everything,
        'SELECT id, b FROM "@data"."Item" WHERE a >= 0',
        'SELECT id, b FROM "@data"."Item" WHERE id IN (0, 1, 2, 3)',
    ):
        assert sorted(tables.ask(statement)) == [(key, f"b{key}") for key in (0, 2, 3)]
    assert tables.ask('SELECT a FROM "@data"."Item" WHERE a = 1') == []
    writes.txn.abort()
    tables.database.env.abort()
    tables.read()


def test_dates_of_records(open_tables: Callable[..., SqlTables]) -> None:
    tables = open_tables(TYPED)
    tables.fill({"Typed": [{"id": f"k{day:02}", "d": datetime(2024, 1, day, 12, tzinfo=UTC)} for day in range(1, 32)]})
    assert keys(tables, "WHERE d >= '2024-01-30'") == ["k30", "k31"]
    assert keys(tables, "WHERE d > '2024-01-30T12:00:00.000Z'") == ["k31"]
    assert keys(tables, "WHERE d BETWEEN '2024-01-03' AND '2024-01-05'") == ["k03", "k04"]
    assert keys(tables, "WHERE d LIKE '2024-01-0%' ORDER BY d DESC LIMIT 1") == ["k09"]
    assert keys(tables, "WHERE d = '2024-01-09T12:00:00.000Z'") == ["k09"]
