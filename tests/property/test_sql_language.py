"""The language of SQL statements: text and trees are each other's inverse, any text is parsed or refused, and SQLite reads it the same way."""

from __future__ import annotations

import random

from hypothesis import example, given, settings
from hypothesis import strategies as st

from svc.sql.nodes import Statement
from svc.sql.parser import parse
from svc.sql.printer import print_statement
from tests.support.profile import half_by_day
from tests.support.sql_checks import check_against_sqlite, check_text
from tests.support.sql_texts import TextSource
from tests.support.sql_trees import statements

SEEDS = st.integers(0, 2**32)


@given(statements())
@settings(max_examples=half_by_day(100))
def test_what_is_printed_is_parsed_to_the_same_tree(tree: Statement) -> None:
    text = print_statement(tree)
    again = parse(text)
    assert again == tree, text
    assert print_statement(again) == text  # equal trees may still differ in types: 1, 1.0 and TRUE


@given(st.text(max_size=60))
@example("select '\ud800'")
@example("select 1e999")
@example("select " + "9" * 5000)
@example("select x'0'")
@example("select ?99999999999")
def test_any_text_is_parsed_or_refused(text: str) -> None:
    check_text(text)
    check_text("SELECT " + text)
    check_text("SELECT a FROM " + text)


@given(SEEDS, st.integers(0, 400), st.integers(0, 20))
def test_statements_that_are_cut_are_parsed_or_refused(seed: int, begin: int, length: int) -> None:
    text = TextSource(random.Random(seed), dialect=True).statement()
    begin %= len(text)
    check_text(text)
    check_text(text[:begin])
    check_text(text[:begin] + text[begin + length :])
    check_text(text[:begin] + text[begin : begin + length] * 2 + text[begin + length :])


@given(SEEDS)
def test_sqlite_does_the_same_for_a_statement_and_for_what_is_printed(seed: int) -> None:
    check_against_sqlite(TextSource(random.Random(seed)).statement())


def test_most_of_these_statements_are_such_that_sqlite_can_run_them() -> None:
    assert sum(check_against_sqlite(TextSource(random.Random(seed)).statement()) for seed in range(300)) > 90
