"""SQL over the tables of svc beside SQLite itself over tables of the same values (spec: sql §2, §10)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import apsw
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests.support.profile import half_by_day
from tests.support.sql_pair import Pair, data
from tests.support.sql_statements import statements


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    made = Pair(tmp_path_factory.mktemp("store"))
    yield made
    made.close()


def sort_key(row: tuple[Any, ...]) -> list[tuple[int, Any]]:
    return [(0, 0) if value is None else (1, value) if isinstance(value, (int, float)) else (2, value) for value in row]


# Each example is 20 statements, and names the one that fails: nothing is made smaller, which would take minutes.
@settings(max_examples=half_by_day(60), phases=(Phase.explicit, Phase.generate))
@given(data(), st.lists(statements(), min_size=20, max_size=20))
def test_answers_are_those_of_sqlite(pair, records, asked):
    pair.fill(records)
    for statement in asked:
        try:
            expected = [tuple(row) for row in pair.sqlite.execute(statement)]
        except apsw.Error:  # a sum beyond 64 bits
            continue
        found = pair.ask(statement)
        if "ORDER BY" in statement.rpartition(")")[2]:
            assert found == expected, statement
        else:
            assert sorted(found, key=sort_key) == sorted(expected, key=sort_key), statement
