"""The form for SQL: where a fault is, what is shown of an answer (spec: http §7.7). The page as a whole: tests/unit/rest/test_sql_endpoint.py."""

from __future__ import annotations

from typing import Any

import pytest

from svc.errors import ClientError, QueryError
from svc.pages.collection import MOST_ROWS
from svc.pages.statement import Found, StatementForm, found_page, place_of


def place(text: str, position: int | None) -> Any:
    found = place_of(StatementForm(text, fault=QueryError("no", code="QUERY_SYNTAX", position=position)))
    return None if found is None else (found.before, found.at, found.behind, found.line, found.column)


@pytest.mark.parametrize(
    ("text", "position", "found"),
    [
        ("SELECT x", 7, ("SELECT ", "x", "", 1, 8)),
        ("SELECT x\nFROM y", 14, ("SELECT x\nFROM ", "y", "", 2, 6)),
        ("SELECT", 6, ("SELECT", " ", "", 1, 7)),
        ("SELECT", 900, ("SELECT", " ", "", 1, 7)),
        ("a\nb", 1, ("a", " ", "\nb", 1, 2)),
        ("\u202ea\x00b", 1, ("\\u202e", "a", "\\u0000b", 1, 2)),
        ("SELECT x", None, None),
        ("", 0, None),
    ],
)
def test_the_place_of_a_fault(text: str, position: int | None, found: Any) -> None:
    assert place(text, position) == found


def test_of_a_long_statement_the_surroundings_are_shown() -> None:
    before, at, behind, _, column = place("a" * 5000 + "x" + "b" * 5000, 5000)
    assert (before, at, behind, column) == ("…" + "a" * 400, "x", "b" * 399 + "…", 5001)


def test_other_faults_have_no_place() -> None:
    assert place_of(StatementForm("SELECT 1", fault=ClientError("no"))) is None
    assert place_of(StatementForm("SELECT 1")) is None


def test_rows() -> None:
    page = found_page(Found(("a", "b"), [{"a": 1, "b": None}], seconds=0.0123))
    assert page.note == "1 row in 12.3 ms" and page.table is not None
    assert [column.name for column in page.table.columns] == ["a", "b"]
    assert [[cell.text for cell in row] for row in page.table.rows] == [["1", "null"]]
    assert found_page(Found(("a",), [])).note == "0 rows in 0.0 ms"
    assert found_page(Found(("a",), [{"a": 1}] * 200, is_cut=True)).note == "The first 500 rows in 0.0 ms"


def test_other_answers() -> None:
    page = found_page(Found(value=[{"a": 1}, {"a": 2}]))
    assert page.note == "2 rows" and page.table is not None and page.table.count == 2
    assert found_page(Found(value=[])).note == "0 rows"
    assert found_page(Found(value=[{"a": 1}] * 200, is_cut=True)).note == f"The first {MOST_ROWS} rows"
    assert found_page(Found(value={"plan": "SCAN \u202e\n  x", "steps": []})).plan == "SCAN \\u202e\n  x"
    lines = found_page(Found(value={"message": "updated 1 of 1 records"})).lines
    assert lines is not None and [line.cell.text for line in lines if line.cell is not None] == ["updated 1 of 1 records"]
