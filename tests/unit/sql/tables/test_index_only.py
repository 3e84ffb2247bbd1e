"""svc.sql.tables.index_only: what is told without records is what the records tell."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from svc.sql.tables.index_only import CountView, GroupsView, can_group
from svc.sql.tables.shape import quoted
from svc.sql.tables.values import from_exact
from svc.store import raw_chunks
from svc.store.schema import Attribute, TableDefinition
from tests.support.profile import examples
from tests.support.sql_tables import LOOSE, NUMBERED, TYPED, SqlTables
from tests.unit.sql.tables.test_agreement import LITERALS, Data, literal, records

GROUPED = ("s", "i", "f", "b", "d", "y")


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqlTables]:
    made = SqlTables(tmp_path_factory.mktemp("groups") / "database", (TYPED, LOOSE, NUMBERED))
    declare(made)
    yield made
    made.close()


@pytest.fixture
def small_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(raw_chunks, "FIRST", 1)
    monkeypatch.setattr(raw_chunks, "MOST", 2)


def declare(tables: SqlTables) -> None:
    view = tables.views["Typed"]
    tables.modules.declare(CountView(view), *[GroupsView(view, view.by_name[name]) for name in GROUPED])


def groups_of(tables: SqlTables, name: str) -> str:
    view = tables.views["Typed"]
    return f'"@data".{quoted(GroupsView(view, view.by_name[name]).sql_name)}'


def check(tables: SqlTables, conditions: list[tuple[str, Any]]) -> None:
    assert tables.ask('SELECT n FROM "@data"."Typed\x1fcount"') == tables.expect('SELECT COUNT(*) FROM "@data"."Typed"')
    for name in GROUPED:
        groups = groups_of(tables, name)
        expected = tables.expect(f'SELECT {name}, COUNT(*) FROM "@data"."Typed" GROUP BY 1 ORDER BY 1')
        assert tables.ask(f"SELECT value, n FROM {groups} ORDER BY value") == expected
        assert tables.ask(f"SELECT value, n FROM {groups} ORDER BY value DESC") == expected[::-1]
        assert sorted(map(repr, tables.ask(f"SELECT value, n FROM {groups}"))) == sorted(map(repr, expected))
        exact = [(from_exact(value, native=True), number) for value, number in tables.ask(f"SELECT exact, n FROM {groups} ORDER BY value")]
        assert len(exact) == len(expected)
        for operator, value in conditions:
            text = f"{operator} {literal(value)}"
            native = tables.expect(f'SELECT {name}, COUNT(*) FROM "@data"."Typed" WHERE {name} {text} GROUP BY 1 ORDER BY 1')
            assert tables.ask(f"SELECT value, n FROM {groups} WHERE value {text} ORDER BY value") == native, (name, text)
            either = tables.ask(f"SELECT COUNT(*) FROM {groups} WHERE value {text} OR value IS NULL")
            assert either == tables.expect(
                f'SELECT COUNT(*) FROM (SELECT DISTINCT {name} FROM "@data"."Typed" WHERE {name} {text} OR {name} IS NULL)'
            )


CONDITIONS = st.lists(st.tuples(st.sampled_from(("=", "<", "<=", ">", ">=", "IS", "<>")), st.sampled_from(LITERALS)), max_size=4)


@settings(max_examples=examples(40))
@given(records(), CONDITIONS)
def test_groups_and_counts(tables: SqlTables, data: Data, conditions: list[tuple[str, Any]]) -> None:
    tables.fill(data)
    check(tables, conditions)


@settings(max_examples=examples(20))
@given(records(), CONDITIONS, st.randoms(use_true_random=False))
def test_expired_records_do_not_count(
    small_lists: None, tables: SqlTables, data: Data, conditions: list[tuple[str, Any]], random: Random
) -> None:
    now = tables.clock.wall()
    gone = {row["id"] for row in data["Typed"] if random.random() < 0.4}
    tables.fill(data, dict.fromkeys(gone, (now + 5) * 1000))
    tables.clock.advance(10)
    tables.fill_native("Typed", [row for row in data["Typed"] if row["id"] not in gone])
    tables.read()
    check(tables, conditions)


@settings(max_examples=examples(15))
@given(records(), CONDITIONS)
def test_records_are_read_where_an_index_is_being_built(tables: SqlTables, data: Data, conditions: list[tuple[str, Any]]) -> None:
    tables.fill(data)
    state = tables.modules.state
    assert state is not None
    state._ready.update(dict.fromkeys(tables.table("Typed").index_list, False))
    check(tables, conditions)


def test_copies_of_what_a_source_has(open_tables: Callable[..., SqlTables]) -> None:
    tables = open_tables(TYPED)
    declare(tables)
    tables.fill({"Typed": [{"id": "a", "s": "x"}, {"id": "b", "s": "x"}, {"id": "c"}]})
    tables.table("Typed").cache(object())
    assert not can_group(tables.views["Typed"], "s")
    check(tables, [])


def test_exact_values(open_tables: Callable[..., SqlTables]) -> None:
    tables = open_tables(TYPED)
    declare(tables)
    tables.fill(
        {
            "Typed": [
                {"id": "a", "b": True, "f": 2**53 + 1, "d": "2024-01-05", "y": b"a"},
                {"id": "b", "b": False, "f": 2},
                {"id": "c", "f": 2**53},
            ]
        }
    )
    assert [from_exact(value, native=True) for (value,) in tables.ask(f"SELECT exact FROM {groups_of(tables, 'b')} ORDER BY value")] == [
        None,
        False,
        True,
    ]
    assert [from_exact(value, native=False) for (value,) in tables.ask(f"SELECT exact FROM {groups_of(tables, 'd')} ORDER BY value")] == [
        None,
        "2024-01-05T00:00:00.000Z",
    ]
    assert tables.ask(f"SELECT value, n FROM {groups_of(tables, 'f')} ORDER BY value") == [(2.0, 1), (float(2**53), 2)]


def test_what_has_groups(open_tables: Callable[..., SqlTables]) -> None:
    tables = open_tables(
        TYPED,
        TableDefinition(
            "Plain", attributes=(Attribute("id", "ID", primary_key=True), Attribute("a", "Int"), Attribute("b", "Int", indexed=True))
        ),
    )
    view = tables.views["Typed"]
    assert [column.name for column in view.columns if can_group(view, column.name)] == list(GROUPED)
    plain = tables.views["Plain"]
    assert [can_group(plain, name) for name in ("id", "a", "b", "nothing")] == [False, False, True, False]


def test_the_plan_tells_the_index(open_tables: Callable[..., SqlTables]) -> None:
    tables = open_tables(TYPED)
    declare(tables)
    tables.fill({"Typed": [{"id": f"{number}", "s": f"s{number % 5}"} for number in range(20)]})
    groups = groups_of(tables, "s")
    assert (
        tables.explain(f"SELECT value FROM {groups} AS g ORDER BY value") == "SCAN g: index s: all, without records, in order, about 5 rows"
    )
    assert tables.explain(f"SELECT value FROM {groups} AS g WHERE value = 's1'") == "SCAN g: index s: equal, without records, about 1 row"
    assert tables.explain(f"SELECT value FROM {groups} AS g WHERE value IN ('s1', 's2')").startswith("SCAN g: index s: equal")
    assert tables.explain('SELECT n FROM "@data"."Typed\x1fcount" AS c') == "SCAN c: count of records, 1 row"
    tables.modules.source = None
    assert "about 1,000 rows" in tables.explain(f"SELECT value FROM {groups} WHERE value > 'a'")


def test_what_was_looked_at_is_counted(open_tables: Callable[..., SqlTables]) -> None:
    tables = open_tables(TYPED)
    declare(tables)
    tables.fill({"Typed": [{"id": f"{number}", "s": f"s{number % 5}"} for number in range(20)]})
    tables.rows.clear()
    tables.ask(f"SELECT value FROM {groups_of(tables, 's')}")
    assert sum(tables.rows) == 5
