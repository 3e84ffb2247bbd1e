from __future__ import annotations

import pytest

from svc.sql.hints import hint_at
from svc.sql.lexer import tokens_of


def hint(text: str, expected: str = "a value") -> str:
    """At the last token before the mark ¦, which is left out."""
    begin = text.index("¦")
    tokens, kinds, starts = tokens_of(text.replace("¦", ""))
    return hint_at(tokens, kinds, starts.index(begin), expected)


@pytest.mark.parametrize(
    ("text", "expected", "found"),
    [
        ("SELECT ¦'a", "a value", "a quote that closes this text is missing"),
        ("SELECT ¦`a", "a value", "a backtick that closes this name is missing"),
        ("SELECT ¦[a", "a value", "a bracket that closes"),
        ("SELECT ¦x'00", "a value", "closes these bytes"),
        ("SELECT ¦/* a", "a value", "*/ that closes this comment"),
        ("SELECT ¦“a”", "a value", "typographic quotes"),
        ("SELECT a ¦! b", "", "negation NOT"),
        ("SELECT a¦::int", "", "CAST(value AS type)"),
        ("SELECT ¦#", "a value", "comments are written"),
        ("SELECT ¦\x01", "a value", "U+0001"),
        ("SELECT a =¦> b", "a value", ">= is meant"),
        ("SELECT a =¦< b", "a value", "<= is meant"),
        ("SELECT a &¦& b", "a value", "AND is meant"),
        ("SELECT a ¦ILIKE b", "", "LIKE takes upper and lower case as equal"),
        ("SELECT a FROM t FETCH ¦FIRST", "", "LIMIT n"),
        ("SELECT a ¦FORM t", "", "FROM is meant"),
        ("SELECT a FORM ¦t", "", "FROM is meant before it"),
        ("¦SELEKT a", "a statement", "SELECT is meant"),
        ("SELECT a, ¦FROM t", "a value", "one comma too many"),
        ("SELECT a FROM ¦group", "the name of a table", "`group` in backticks"),
        ("SELECT a AS ¦5", "a name", "expected a name"),
        ("SELECT a FROM data¦.1a", "", "stands in backticks"),
        ("SELECT a ¦b", "", "`b` cannot stand here"),
    ],
)
def test_hints(text: str, expected: str, found: str) -> None:
    assert found in hint(text, expected)


def test_long_tokens_are_cut_and_not_compared() -> None:
    assert hint("SELECT a ¦" + "b" * 100_000, "") == f"`{'b' * 60}...` cannot stand here"
