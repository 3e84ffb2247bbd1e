"""The answers to the questions about the demo are those of SQLite."""

from __future__ import annotations

from contextlib import closing

from tests.support.demo_questions import QUESTIONS, answer_of_sqlite, answers, demo_connection


def test_the_answers_are_those_of_sqlite() -> None:
    known = answers()
    with closing(demo_connection()) as connection:
        assert known == {question.title: answer_of_sqlite(connection, question) for question in QUESTIONS}
    assert len(known) == 20
    assert all(known.values())
