"""SQL over the tables of svc beside SQLite itself over tables of the same values (spec: sql §2, §10)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import apsw
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from svc.errors import Problem
from svc.sql.tables import access
from tests.support.profile import half_by_day
from tests.support.sql_pair import DATES, FRACTIONS, LISTS, NUMBERS, Pair, data
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


RECORDS: dict[str, list[dict[str, Any]]] = {
    "Author": [
        {"id": "k1", "name": "b", "born": None, "rating": 0.5, "active": False},
        {"id": "k0", "name": "ä", "born": 1900, "rating": 5.0, "active": True},
    ],
    "Book": [{"id": 1, "title": "5", "author": "k0", "year": 5, "price": 0.5, "published": "2020-01-01T00:00:00.000Z", "tags": ["a"]}],
    "Loose": [{"id": "k0", "a": 5, "b": True}, {"id": "k1", "a": "05", "b": "x"}],
}
BIG = 2**64
ERROR = "an error"
# (number in section 10, statement, rows here or the code of the error, rows of SQLite or ERROR)
DIFFERENCES: list[tuple[int, str, Any, Any]] = [
    (1, "SELECT id FROM Book", "QUERY_SYNTAX", [{"id": 1}]),
    (1, 'SELECT "x" AS a', "UNKNOWN_ATTRIBUTE", [{"a": "x"}]),
    (2, "SELECT 1 TRUE", "QUERY_SYNTAX", [{"TRUE": 1}]),
    (2, "SELECT a.id FROM (data.Author AS a JOIN data.Book AS b ON a.id = b.author) AS j", "UNKNOWN_ATTRIBUTE", [{"id": "k0"}]),
    (3, "SELECT rowid AS r FROM data.Book", "UNKNOWN_ATTRIBUTE", [{"r": 1}]),
    (3, "SELECT id FROM data.Book NOT INDEXED", "QUERY_SYNTAX", [{"id": 1}]),
    (3, "SELECT COUNT(*) AS n FROM sqlite_master", "QUERY_SYNTAX", [{"n": 0}]),
    (5, "SELECT name, MAX(born) AS m FROM data.Author", "QUERY_SYNTAX", [{"name": "ä", "m": 1900}]),
    (6, "SELECT id FROM data.Author WHERE active >= 0", [{"id": "k0"}, {"id": "k1"}], [{"id": "k1"}, {"id": "k0"}]),
    (7, "SELECT count( * ), 2+2 FROM data.Book", [{"COUNT(*)": 1, "2 + 2": 4}], [{"count( * )": 1, "2+2": 4}]),
    (7, "SELECT id, id FROM data.Book", [{"id": 1, "id1": 1}], [{"id": 1}]),
    (7, "SELECT TRIM('x' FROM title) FROM data.Book", [{"TRIM(title,'x')": "5"}], ERROR),
    (8, "SELECT active AS a FROM data.Author", [{"a": True}, {"a": False}], [{"a": 0}, {"a": 1}]),
    (8, "SELECT published AS p FROM data.Book", [{"p": datetime(2020, 1, 1, tzinfo=UTC)}], [{"p": "2020-01-01T00:00:00.000Z"}]),
    (8, "SELECT tags, json_array(1) AS j FROM data.Book", [{"tags": ["a"], "j": [1]}], [{"tags": '["a"]', "j": "[1]"}]),
    (8, "SELECT TRUE AS t", [{"t": True}], [{"t": 1}]),
    (9, "SELECT id FROM data.Loose WHERE a IN ('5')", [{"id": "k0"}], []),
    (9, "SELECT id FROM data.Book WHERE year IN ('05')", [], [{"id": 1}]),
    (10, "SELECT id FROM data.Author WHERE active = 'true'", [{"id": "k0"}], []),
    (10, "SELECT id FROM data.Loose WHERE b = 'true'", [{"id": "k0"}], []),
    (10, "SELECT id FROM data.Author WHERE active = '1'", [{"id": "k0"}], []),
    (11, f"SELECT {BIG} AS n", [{"n": BIG}], [{"n": float(BIG)}]),
    (11, f"SELECT {BIG} + 1 AS n", "BAD_VALUE", [{"n": float(BIG)}]),
    (12, "SELECT CAST('a' AS BLOB) AS c", "QUERY_SYNTAX", [{"c": b"a"}]),
    (12, "SELECT CAST(5.0 AS TEXT) AS t, CAST(7 AS BOOLEAN) AS b", [{"t": "5", "b": True}], [{"t": "5.0", "b": 7}]),
    (12, "SELECT CAST('2020-01-01' AS DATE) AS d", [{"d": "2020-01-01T00:00:00.000Z"}], [{"d": 2020}]),
    (12, f"SELECT CAST('{BIG}' AS INT) AS i, CAST('5' AS NUMERIC) AS n", [{"i": BIG, "n": 5.0}], [{"i": 2**63 - 1, "n": 5}]),
    (13, "SELECT DATE('2020-01-01') AS d", [{"d": "2020-01-01T00:00:00.000+0000"}], [{"d": "2020-01-01"}]),
    (14, "SELECT UPPER(name) AS u, name LIKE 'Ä' AS l FROM data.Author WHERE born", [{"u": "Ä", "l": 0}], [{"u": "ä", "l": 0}]),
    (15, "SELECT 'ab' REGEXP '^a' AS r", [{"r": True}], ERROR),
    (15, "SELECT 'ab' REGEXP 'a(?=b)' AS r", "BAD_VALUE", ERROR),
    (16, "SELECT JSON_PATCH('{}', '{}') AS j", "QUERY_SYNTAX", [{"j": "{}"}]),
    (16, "SELECT LIKE('a', 'a') AS l", "QUERY_SYNTAX", [{"l": 1}]),
]
ELSEWHERE = {
    4: "tests/unit/sql/test_engine.py",
    **dict.fromkeys((17, 18, 19, 20, 21), "tests/property/test_sql_writes.py, tests/unit/sql/writing"),
}
"""Where the other numbers are tried."""


def test_each_difference_that_is_listed_is_tried() -> None:
    text = (Path(__file__).parents[2] / "docs/spec/sql.md").read_text("utf-8")
    section = text[text.index("\n## 10.") : text.index("\n## 11.")]
    numbers = [int(number) for number in re.findall(r"^(\d+)\. ", section, re.MULTILINE)]
    assert numbers == sorted({number for number, *_ in DIFFERENCES} | ELSEWHERE.keys())


@pytest.mark.parametrize(("number", "statement", "here", "there"), DIFFERENCES)
def test_what_differs_from_sqlite(pair: Pair, number: int, statement: str, here: Any, there: Any) -> None:
    pair.fill(RECORDS)
    found: Any
    try:
        found = pair.rows(statement)
    except Problem as problem:
        found = problem.code
    assert repr(found) == repr(here)
    try:
        cursor = pair.sqlite.cursor()
        expected: Any = [dict(zip([name for name, *_ in cursor.get_description()], row, strict=True)) for row in cursor.execute(statement)]
    except apsw.Error:
        expected = ERROR
    assert repr(expected) == repr(there)


MIXED_TEXTS = st.sampled_from([None, "", "a", "10", "010", " 10", "1.0", "0", "1", "2.5", "-1", "true", "2020-01-01T00:00:00.000Z"])
MIXED = st.sampled_from([None, 0, 1, 2.5, -1, 10, True, "a", "10", "010", "1.0", "1", "0", "2.5", "", [1], {"a": 1}])
MIXED_KINDS = {
    "Author": {"id": None, "name": MIXED_TEXTS, "born": NUMBERS, "rating": st.sampled_from([None, 0.5, 1.0, 2.5, 10.0])},
    "Book": {
        "id": None,
        "title": MIXED_TEXTS,
        "author": MIXED_TEXTS,
        "year": NUMBERS,
        "price": FRACTIONS,
        "published": DATES,
        "tags": LISTS,
    },
    "Loose": {"id": None, "a": MIXED, "b": MIXED},
}
COMPARED = [(table, column) for table, columns in MIXED_KINDS.items() for column in columns]
FORMS = [
    "SELECT x.id, y.id FROM data.{t1} x, data.{t2} y WHERE x.{c1} {op} y.{c2}",
    "SELECT x.id, y.id FROM data.{t1} x LEFT JOIN data.{t2} y ON x.{c1} {op} y.{c2}",
    "SELECT x.id FROM data.{t1} x WHERE x.{c1} IN (SELECT y.{c2} FROM data.{t2} y)",
    "SELECT x.id FROM data.{t1} x WHERE x.{c1} NOT IN (SELECT y.{c2} FROM data.{t2} y WHERE y.{c2} IS NOT NULL)",
    "SELECT x.id FROM data.{t1} x WHERE x.{c1} IN (SELECT y.{c2} || '' FROM data.{t2} y)",
    "SELECT x.id FROM data.{t1} x WHERE (x.{c1}, x.id) IN (SELECT y.{c2}, y.id FROM data.{t2} y)",
    "SELECT x.id FROM data.{t1} x WHERE x.{c1} {op} (SELECT MAX(y.{c2}) FROM data.{t2} y)",
    "SELECT x.id FROM data.{t1} x WHERE x.{c1} {op} (SELECT COUNT(*) FROM data.{t2} y)",
    "SELECT x.id FROM data.{t1} x WHERE EXISTS (SELECT 1 FROM data.{t2} y WHERE x.{c1} {op} y.{c2})",
    "WITH y AS (SELECT {c2} AS v FROM data.{t2}) SELECT x.id FROM data.{t1} x, y WHERE x.{c1} {op} y.v",
    "WITH y AS (SELECT {c2} AS v FROM data.{t2}) SELECT x.id FROM data.{t1} x WHERE x.{c1} IN (SELECT v FROM y)",
    "SELECT x.id FROM data.{t1} x WHERE x.{c1} BETWEEN '1' AND 10 OR x.{c1} {op} 1 OR x.{c1} {op} 'a'",
    """SELECT x.id FROM data.{t1} x, json_each('[1,10,"10","a",2.5]') j WHERE x.{c1} {op} j.value""",
]


@pytest.fixture
def indexes_are_cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plans go by indexes wherever they can."""
    monkeypatch.setattr(access, "_FETCH", 0.001)
    monkeypatch.setattr(access, "_ENTRY", 0.001)


comparisons = st.tuples(
    st.sampled_from(FORMS), st.sampled_from(COMPARED), st.sampled_from(COMPARED), st.sampled_from(["=", "=", "<", ">=", "IS"])
)


@settings(
    max_examples=half_by_day(60), phases=(Phase.explicit, Phase.generate), suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data(MIXED_KINDS), st.lists(comparisons, min_size=20, max_size=20))
def test_values_are_converted_as_by_sqlite(pair, indexes_are_cheap, records, asked):
    """Before they are compared, depending on the columns that they come from."""
    pair.fill(records)
    for form, (table, column), (other, its), operator in asked:
        statement = form.format(t1=table, c1=column, t2=other, c2=its, op=operator)
        assert sorted(pair.ask(statement), key=sort_key) == sorted(map(tuple, pair.sqlite.execute(statement)), key=sort_key), statement
