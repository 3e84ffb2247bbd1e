"""Statements that differ in their literals, as an engine answers them that has seen one of them, and as if each were new (spec: sql §9)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from svc.errors import Problem
from svc.sql import engine as engine_module
from svc.sql.shapes import shape_of
from tests.support.profile import half_by_day
from tests.support.sql_pair import Pair, data
from tests.support.sql_statements import TABLES, statements

TEXTS = [
    "",
    "a",
    "B",
    "ab",
    "k0",
    "k1",
    "zz",
    "10",
    "007",
    "1.5",
    "true",
    "FALSE",
    "ä",
    "it''s",
    "\0",
    "a%",
    "2020",
    "2020-01-01T00:00:00.000Z",
]
INTEGERS = ["0", "1", "2", "3", "5", "10", "1900", "2000", "007", "9" * 18]
FRACTIONS = ["0.0", "0.5", "1.5", "2.0", "2.25", "10.0", "10.75", "1900.0"]
LITERALS = {str: [f"'{text}'" for text in TEXTS], int: INTEGERS, float: FRACTIONS}


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    made = Pair(tmp_path_factory.mktemp("store"))
    yield made
    made.close()


@st.composite
def lookups(draw: Any) -> str:
    """Columns that are compared with literals."""
    table = draw(st.sampled_from(TABLES))
    conditions = []
    for _ in range(draw(st.integers(1, 3))):
        column = draw(st.sampled_from(list(table.columns)))
        of_column = {"number": [*INTEGERS, *FRACTIONS], "flag": ["'true'", "1", "'x'"]}.get(table.columns[column], LITERALS[str])
        literals = st.sampled_from([*of_column, *of_column, *of_column, "1", "-1", "- 2.5", "'a'", "'10'"])
        operator = draw(st.sampled_from(["=", "=", "<>", "IS", "IS NOT", "<", "IN", "NOT IN"]))
        value = f"({', '.join(draw(st.lists(literals, min_size=1, max_size=3)))})" if operator.endswith("IN") else draw(literals)
        conditions.append(f"{column} {operator} {value}")
    where = draw(st.sampled_from([" AND ", " AND ", " OR "])).join(conditions)
    end = draw(st.sampled_from(["", "", " LIMIT 2", " LIMIT 3 OFFSET 1", f" ORDER BY {conditions[0]}, id"]))
    item, condition = draw(st.sampled_from([(conditions[-1], ""), (f"{conditions[0]} AS x", " AND x"), ("*", "")]))
    return f"SELECT id, {item} FROM data.{table.name} WHERE {where}{condition}{end}"


@st.composite
def families(draw: Any) -> list[str]:
    """A statement, and others with other literals in the place of some."""
    first = draw(lookups() | statements())
    shape = shape_of(first)
    found = [first]
    for _ in range(3 if shape is not None else 0):
        assert shape is not None
        parts = [*shape.parts]
        for index, (literal, value) in enumerate(zip(shape.literals, shape.values, strict=True)):
            parts[2 * index + 1] = draw(st.sampled_from([literal, literal, *LITERALS[type(value)]]))
        found.append("".join(parts))
    return found


def answer(pair: Pair, statement: str) -> Any:
    try:
        return pair.ask(statement)
    except Problem as fault:
        return type(fault), fault.message.replace(" --", ""), fault.code


@settings(max_examples=half_by_day(60), phases=(Phase.explicit, Phase.generate))
@given(data(), st.lists(families(), min_size=10, max_size=10))
def test_answers_are_those_of_new_statements(pair, records, asked):
    pair.fill(records)
    for family in asked:
        for statement in family:
            assert answer(pair, statement) == answer(pair, f"{statement} --"), (statement, family)


def test_many_of_these_statements_are_not_parsed(pair, monkeypatch):
    parsed = []
    parse = engine_module.parse
    monkeypatch.setattr(engine_module, "parse", lambda text, *rest: parsed.append(text) or parse(text, *rest))
    asked = 0

    @settings(max_examples=100, derandomize=True, database=None, phases=(Phase.generate,))
    @given(families())
    def ask(family: list[str]) -> None:
        nonlocal asked
        asked += len(set(family))
        for statement in family:
            answer(pair, statement)

    ask()
    assert asked - len(parsed) > asked / 10
