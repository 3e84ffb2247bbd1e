from __future__ import annotations

import re

import apsw
import pytest

from svc.errors import Problem
from svc.sql.parser import parse
from svc.sql.words import ALIASES, JOINING, MATCHING, NAMES, RESERVED, UNSUPPORTED, WORDS
from tests.support.sql_checks import sqlite_program

SYNTAX = re.compile("syntax error|incomplete input")
# Where a name may stand.
PLACES = (
    "SELECT {}", "SELECT {} FROM t", "SELECT t.{}", "SELECT {}.a", "SELECT {}, 1", "SELECT 1 + {}", "SELECT - {} + 1", "SELECT a = {} AND {} IS NULL",
    "SELECT CASE {} WHEN {} THEN {} ELSE {} END", "SELECT ({})", "SELECT f({}, {})", "SELECT {}(1)", "SELECT a IN ({}, {})", "SELECT a BETWEEN {} AND {}",
    "SELECT 1 AS {}", "SELECT 1 {}", "SELECT 1 {} FROM t", "SELECT 1 FROM {}", "SELECT 1 FROM t AS {}", "SELECT 1 FROM t {}", "SELECT 1 FROM t {} JOIN u",
    "SELECT 1 FROM t {} WHERE 1", "SELECT 1 FROM t JOIN u USING ({})", "SELECT 1 FROM (SELECT 1) {}", "SELECT 1 FROM db.{}", "SELECT 1 ORDER BY {} DESC",
    "SELECT 1 GROUP BY {}", "SELECT 1 LIMIT {}", "WITH {} AS (SELECT 1) SELECT 1", "WITH a({}) AS (SELECT 1) SELECT 1", "SELECT 1 WHERE {} LIKE {}",
    "SELECT count(1) OVER {}", "SELECT 1 FROM t WINDOW {} AS ()", "INSERT INTO t ({}) VALUES ({})", "INSERT INTO {} DEFAULT VALUES", "DELETE FROM {} WHERE {}",
    "UPDATE {} SET a = 1", "UPDATE t SET {} = {}", "UPDATE t AS {} SET a = 1", "UPDATE t SET a = 1 RETURNING {}", "SELECT a COLLATE {}", "SELECT CAST(a AS {})",
    "SELECT {}.*", "SELECT a IN {}", "SELECT 1 {} UNION SELECT 2", "SELECT sum(1) FILTER (WHERE {}) OVER (PARTITION BY {} ORDER BY {})",
)  # fmt: skip
# Where SQLite takes a name, and this language what the word says, or an error.
NO_NAMES = {
    "CONVERT": {"SELECT {}(1)"},
    "TOP": {"SELECT {}(1)"},
    "OUTER": {"SELECT 1 FROM t {} JOIN u"},
    **{word: {place for place in PLACES if re.search(r"(1|t|\)) \{\}", place)} for word in MATCHING | {"TRUE", "FALSE"}},
}


def is_parsed(text: str) -> bool:
    try:
        parse(text)
    except Problem:
        return False
    return True


@pytest.mark.parametrize("word", sorted(WORDS | UNSUPPORTED | set(apsw.keywords) - {"RAISE"}))
def test_words_are_names_wherever_they_are_for_sqlite(word: str) -> None:
    for place in PLACES:
        if place in NO_NAMES.get(word, ()):
            continue
        for form in (word, word.lower()):
            text = place.replace("{}", form)
            program = sqlite_program(text)
            if not (isinstance(program, str) and SYNTAX.search(program)):
                assert is_parsed(text), text


@pytest.mark.parametrize("word", sorted(RESERVED))
def test_reserved_words_are_names_in_quotes_and_behind_dots_only(word: str) -> None:
    assert not is_parsed(f"SELECT 1 FROM {word}")
    assert not is_parsed(f"SELECT 1 AS {word}")
    assert is_parsed(f'SELECT t.{word}, `{word}`, [{word}], 1 AS "{word}" FROM data.{word}')


def test_the_sets_of_words() -> None:
    assert RESERVED < WORDS and JOINING < NAMES and MATCHING < NAMES
    assert not RESERVED & NAMES and not (JOINING | MATCHING) & ALIASES
    assert "name" in NAMES and "text" in ALIASES
