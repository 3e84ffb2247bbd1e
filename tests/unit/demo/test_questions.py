"""The answers to the questions about the demo are those of SQLite, and svc gives the same."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Iterator
from contextlib import closing

import pytest
from rich.console import Console

from svc.content.json_type import encode_json
from svc.demo import fill
from svc.sql.options import SqlOptions
from tests.support.demo_questions import QUESTIONS, Question, answer_of_sqlite, answers, demo_connection
from tests.support.sql_engine import SqlStore

LONG = 600.0  # seconds for a statement, on a machine that is busy


def test_the_answers_are_those_of_sqlite() -> None:
    known = answers()
    with closing(demo_connection()) as connection:
        assert known == {question.title: answer_of_sqlite(connection, question) for question in QUESTIONS}
    assert len(known) == 20
    assert all(known.values())


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqlStore]:
    """All records of the demo."""
    found = SqlStore(tmp_path_factory.mktemp("demo") / "database", (), SqlOptions(max_time=LONG))
    fill(found.store, Console(file=io.StringIO()))
    found.end_turn()
    yield found
    found.close()


@pytest.mark.parametrize("question", QUESTIONS, ids=[question.title for question in QUESTIONS])
def test_svc_answers_what_sqlite_does(demo: SqlStore, question: Question) -> None:
    rows = asyncio.run(demo.answer(question.sql, dict(question.parameters) or None, demo.caller(), named=True))
    expected = answers()[question.title]
    found = json.loads(encode_json(rows))
    assert found == expected
    assert [list(row) for row in found] == [list(row) for row in expected], "the columns in their order"
