"""svc.sql.tables.cursors"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from string import ascii_letters
from typing import Any

import pytest

from svc.sql.tables import cursors, finding
from svc.sql.tables.module import VirtualTable
from svc.sql.tables.plans import Plan, Way, plan_text
from svc.sql.tables.shape import TableShape
from svc.sql.tables.spans import EQ
from tests.support.sql_tables import NUMBERED, TYPED, SqlTables

JOIN = 'SELECT n.id, t.id FROM "@data"."Numbered" AS n CROSS JOIN "@data"."Typed" AS t ON t.id = n.s'


@pytest.fixture
def tables(open_tables: Callable[..., SqlTables]) -> SqlTables:
    tables = open_tables(TYPED, NUMBERED)
    tables.fill(
        {
            "Typed": [{"id": f"t{number}", "s": f"s{number % 3}"} for number in range(6)],
            "Numbered": [{"id": number, "s": f"t{number % 4}" if number % 5 else None} for number in range(20)],
        }
    )
    return tables


def test_what_was_found_for_a_value_is_not_looked_up_again(tables: SqlTables) -> None:
    tables.rows.clear()
    expected = [(number, f"t{number % 4}") for number in range(20) if number % 5]
    assert tables.ask(JOIN) == expected
    # 20 outer records, 4 different values. What was found for the first value of all, null, is not remembered: most statements look for one only.
    assert sum(tables.rows) == 20 + 4
    tables.rows.clear()
    assert tables.ask(JOIN) == expected
    assert sum(tables.rows) == 20 + 4  # nothing is remembered from one statement to the next


def test_what_was_not_found_is_remembered_too(tables: SqlTables) -> None:
    tables.fill({"Typed": []})
    tables.rows.clear()
    assert tables.ask(JOIN) == []
    assert sum(tables.rows) == 20 + 4


def test_little_is_remembered(tables: SqlTables, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cursors, "MOST_REMEMBERED", 2)
    found = tables.ask(JOIN)
    monkeypatch.setattr(cursors, "REMEMBERED_BYTES", 100)
    assert tables.ask(JOIN) == found and len(found) == 16


def test_rows_of_values_of_an_index_are_remembered_if_they_are_few(tables: SqlTables, monkeypatch: pytest.MonkeyPatch) -> None:
    statement = 'SELECT n.id, t.id FROM "@data"."Numbered" AS n CROSS JOIN "@data"."Typed" AS t ON t.s = \'s\' || (n.id % 3)'
    expected = sorted([(number, f"t{other}") for number in range(20) for other in range(6) if number % 3 == other % 3])
    for few in (8, 1, 0):
        monkeypatch.setattr(cursors, "FEW", few)
        assert sorted(tables.ask(statement)) == expected


def cursor_of(tables: SqlTables) -> cursors.TableCursor:
    return VirtualTable(tables.modules, TableShape(tables.views["Typed"])).Open()


def rows_of(cursor: cursors.TableCursor, column: int) -> list[Any]:
    found = []
    while not cursor.Eof():
        found.append(cursor.Column(column))
        cursor.Next()
    return found


def test_several_plans_with_one_cursor(tables: SqlTables) -> None:
    """As in a union of what several conditions lead to."""
    cursor = cursor_of(tables)
    by_key = plan_text(Plan(Way.KEY, 0, (0, 1), (EQ,)), "", 1)
    by_index = plan_text(Plan(Way.INDEX, 1, (0, 1), (EQ,)), "s", 1)
    scan = plan_text(Plan(Way.SCAN, 0, (0, 1)), "", 1)
    only = plan_text(Plan(Way.INDEX, 1, (0, 1), (EQ,), is_index_only=True), "s", 1)
    for _ in range(3):
        for text, args, expected in (
            (by_key, ("t1",), ["t1"]),
            (by_index, ("s1",), ["t1", "t4"]),
            (scan, (), [f"t{number}" for number in range(6)]),
            (only, ("s1",), ["t1", "t4"]),
            (by_key, ("s1",), []),
            (by_index, ("s2",), ["t2", "t5"]),
        ):
            cursor.Filter(0, text, args)
            keys = []
            while not cursor.Eof():
                keys.append((cursor.Column(0), cursor.Column(1)))
                cursor.Next()
            assert [key for _, key in keys] == expected
            assert [stored for stored, _ in keys] == [b"\x10" + key.encode() + b"\0" for key in expected]
    cursor.Close()


def test_a_closed_cursor_holds_nothing(tables: SqlTables) -> None:
    cursor = cursor_of(tables)
    cursor.Filter(0, plan_text(Plan(Way.SCAN, 0, (0,)), "", 1), ())
    assert cursor._finder is not None
    cursor.Close()
    assert cursor.Eof() and not next(cursor._rows, None)
    assert not any([cursor._finder, cursor._batch, cursor._raw_of, cursor._raws, cursor._memo, cursor._form, cursor.readers])


def test_the_snapshot_may_end_when_a_statement_has(tables: SqlTables) -> None:
    running = tables.ours.cursor()
    rows = running.execute('SELECT id FROM "@data"."Typed" ORDER BY s')
    next(rows)
    running.close(True)
    tables.modules.source = None
    tables.store.end_turn()
    tables.read()
    assert len(tables.ask('SELECT id FROM "@data"."Typed"')) == 6


def test_the_keys_that_are_clear(tables: SqlTables) -> None:
    from svc.sql.catalogue import ColumnType
    from svc.store.values.keys import encode_key, storage_key

    only = cursors._only_key
    assert only(ColumnType.TEXT, "5") == encode_key("5")
    assert only(ColumnType.TEXT, "z" * 600) == storage_key(encode_key("z" * 600))
    assert only(ColumnType.ANY, "ab") == encode_key("ab")
    assert only(ColumnType.INTEGER, -5) == only(ColumnType.REAL, -5) == encode_key(-5)
    for kind, value in (
        (ColumnType.TEXT, 5),
        (ColumnType.TEXT, b"a"),
        (ColumnType.ANY, "5"),
        (ColumnType.ANY, "[1]"),
        (ColumnType.ANY, ""),
        (ColumnType.ANY, 5),
        (ColumnType.INTEGER, 5.0),
        (ColumnType.INTEGER, 2**53),
        (ColumnType.INTEGER, "5"),
        (ColumnType.BIG, 5),
        (ColumnType.INTEGER, None),
    ):
        assert only(kind, value) is None


class Stopped(Exception):
    """The budget is used up."""


@pytest.mark.parametrize(
    "statement",
    [
        'SELECT COUNT(*) FROM "@data"."Typed"',
        'SELECT id FROM "@data"."Typed" WHERE id = ?',
        'SELECT y FROM "@data"."Typed" WHERE s = \'s1\'',
        'SELECT y FROM "@data"."Typed" WHERE id IN (?, ?)',
        'SELECT y FROM "@data"."Typed" WHERE id > ?',
        'SELECT s FROM "@data"."Typed" ORDER BY s',
    ],
)
def test_a_statement_can_be_ended_at_any_row(tables: SqlTables, statement: str) -> None:
    def stop(number: int) -> None:
        raise Stopped

    tables.modules.on_rows = stop
    with pytest.raises(Stopped):
        tables.ask(statement, ["t1"] * statement.count("?"))
    tables.modules.on_rows = tables.rows.append
    assert len(tables.ask('SELECT id FROM "@data"."Typed"')) == 6


def test_more_rows_than_a_list_has(tables: SqlTables) -> None:
    count = 1500
    tables.fill({"Typed": [{"id": f"k{number:05}", "s": f"s{number % 2}", "i": number} for number in range(count)]})
    tables.rows.clear()
    assert tables.ask('SELECT COUNT(*), SUM(i), COUNT(DISTINCT id) FROM "@data"."Typed"') == [(count, sum(range(count)), count)]
    assert tables.rows[0] == 32 and max(tables.rows) == 512
    assert tables.ask('SELECT i FROM "@data"."Typed" WHERE s = \'s1\' AND i > 1490 ORDER BY id DESC') == [
        (each,) for each in range(1499, 1490, -2)
    ]
    assert [row[0] for row in tables.ask('SELECT i FROM "@data"."Typed" ORDER BY i DESC')] == list(range(count - 1, -1, -1))
    assert tables.ask('SELECT COUNT(*) FROM "@data"."Typed" WHERE i >= 700 AND i < 1400') == [(700,)]


@pytest.mark.parametrize("text", ["x" * 100, "".join(Random(1).choices(ascii_letters, k=100))])
def test_large_records_come_in_short_lists(tables: SqlTables, text: str) -> None:
    """Compressed or not."""
    tables.fill({"Typed": [{"id": f"k{number:05}", "plain": text * 3000, "i": number} for number in range(40)]})
    tables.rows.clear()
    assert tables.ask('SELECT COUNT(*), SUM(i) FROM "@data"."Typed"') == [(40, sum(range(40)))]
    assert max(tables.rows) < 10
    tables.rows.clear()
    assert len(tables.ask('SELECT plain FROM "@data"."Typed" WHERE i >= 0')) == 40


def test_fewer_plans_are_remembered_than_there_are(tables: SqlTables, monkeypatch: pytest.MonkeyPatch) -> None:
    from svc.sql.tables import module, shape

    monkeypatch.setattr(module, "MOST_RUNS", 2)
    monkeypatch.setattr(shape, "MAX_FORMS", 2)
    for columns in ("id", "s", "i", "id, s", "s, i", "id"):
        for order in ("", " ORDER BY s", " ORDER BY id DESC"):
            assert len(tables.ask(f'SELECT {columns} FROM "@data"."Typed"{order}')) == 6


def test_whole_numbers_of_limits() -> None:
    assert [finding._whole(value) for value in (5, -1, 2.0, "3", "4.0", None, b"")] == [5, 0, 2, 3, 4, 0, 0]
