"""What is offered at the cursor, which stands where the text has a bar."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from svc.cli.sql.names import candidates, quoted, tables_used
from svc.cli.sql.schema import schema_of
from svc.sql.functions import FUNCTIONS
from svc.sql.parser import parse
from svc.sql.words import WORDS


def _table(*names: str) -> dict[str, object]:
    return {"attributes": [{"attribute": name, "type": "Int"} for name in names]}


SCHEMA = schema_of(
    {
        "data": {"Flight": _table("id", "delay", "order"), "my table": _table("a b"), "Plane": _table("id", "year")},
        "old": {"Flight": _table("id")},
    }
)


def offered(text: str, *kinds: str) -> list[str]:
    before, _, behind = text.partition("|")
    found = list(candidates(before, behind, SCHEMA))
    assert all(candidate.replaced <= len(before) for candidate in found)
    return [candidate.text for candidate in found if not kinds or candidate.kind in kinds]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("select * from |", ["data.", "old.", "data.Flight", "data.`my table`", "data.Plane", "old.Flight"]),
        ("select * from data.Flight, |", ["data.", "old.", "data.Flight", "data.`my table`", "data.Plane", "old.Flight"]),
        ("update pl|", ["data.Plane"]),
        ("insert into data.p|", ["Plane"]),
        ("select * from `data`.|", ["Flight", "`my table`", "Plane"]),
        ("select * from data.`my|", ["`my table`"]),
        ("select f.| from data.Flight f", ["id", "delay", "`order`"]),
        ("select F.or| from data.Flight as f", ["`order`"]),
        ("select * from data.Flight as f join data.Plane on Plane.y|", ["year"]),
        ("select data.Plane.| from data.Plane", ["id", "year"]),
        ("select * from data.Plane where x.|", []),
        ("delete from data.Plane; select d| from data.Flight", ["delay"]),
        ("select d| from data.Plane; select 1 from data.Flight", ["delay"]),  # what stands behind is not cut into statements
        ("select 'd|", []),
        ("select 1 -- d|", []),
        ("select 1|", []),
    ],
)
def test_names(text: str, expected: list[str]) -> None:
    assert offered(text, "database", "table", "Int") == expected


def test_aliases_are_offered_with_what_they_are() -> None:
    assert [(each.text, each.kind) for each in candidates("select f", " from data.Flight f", SCHEMA) if "." in each.kind] == [
        ("f", "data.Flight")
    ]


def test_keywords_and_functions_in_the_case_they_were_begun_in() -> None:
    assert offered("sele|") == ["select"]
    assert offered("SELE|") == ["SELECT"]
    assert offered("select grou|") == ["group", "groups", "group_concat("]
    assert offered("select Geod|") == ["geoDifference(", "geoDistance("]
    assert offered("select cas|") == ["case", "cast("]
    assert offered("select f.sel| from data.Flight f") == []


def test_every_function_of_statements_is_offered_once() -> None:
    for name, function in FUNCTIONS.items():
        expected = name if name in WORDS else f"{function.name}("
        assert [each for each in offered(f"select {name}|") if each.rstrip("(") == function.name] == [expected]


@given(st.text(alphabet="seltfromdaFigh.,;`[]'\"()- \n1", max_size=40), st.integers(0, 40))
def test_any_text(text: str, cursor: int) -> None:
    for candidate in candidates(text[:cursor], text[cursor:], SCHEMA):
        assert 0 <= candidate.replaced <= cursor


@pytest.mark.parametrize("name", ["a", "order", "Select", "my table", "1a", "a`b", "ä"])
def test_names_are_quoted_as_needed(name: str) -> None:
    (item,) = parse(f"select {quoted(name)} from data.t").first.items  # type: ignore[union-attr]
    assert item.expression.name == name  # type: ignore[union-attr]


def test_tables_that_a_statement_names() -> None:
    text = "select * from data.Flight join [data].`my table` as m, old.Flight `o`, data.none x where data.Flight.id = 1"
    assert {name: (table.database, table.name) for name, table in tables_used(text, SCHEMA).items()} == {
        "flight": ("data", "Flight"),
        "m": ("data", "my table"),
        "o": ("old", "Flight"),
    }
    assert tables_used(".", SCHEMA) == tables_used("data.", SCHEMA) == tables_used("select 1", SCHEMA) == {}
    assert tables_used("data.Flight", SCHEMA).keys() == {"flight"}
