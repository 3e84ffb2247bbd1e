from __future__ import annotations

from typing import Any

import pytest

from svc.errors import Problem
from svc.sql import nodes
from svc.sql.errors import SqlSyntaxError
from svc.sql.nodes import Call, Column, Expression, Literal, Parameter
from svc.sql.parser import parse

NAME_WORDS = """action add by cast check count current date default delete desc end filter first if index insert key last left like match offset over path
    plan query range replace right row rows schema system table top total update value view window with work year"""


def expression(text: str) -> Expression:
    statement: Any = parse("SELECT " + text)
    return statement.first.items[0].expression


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("NULL", None),
        ("true", True),
        ("False", False),
        ("0", 0),
        ("007", 7),
        ("1_000", 1000),
        ("12345678901234567890", 12345678901234567890),
        ("0xfF", 255),
        ("0x7FFFFFFFFFFFFFFF", (1 << 63) - 1),
        ("0xFFFFFFFFFFFFFFFF", -1),
        ("0x00000000000000000001", 1),
        ("1.", 1.0),
        (".5", 0.5),
        ("1e3", 1000.0),
        ("2.5E-1", 0.25),
        ("1e-999", 0.0),
        ("''", ""),
        ("'it''s'", "it's"),
        ("'a\nb\0'", "a\nb\0"),
        ("'é😀'", "é😀"),
        ("x''", b""),
        ("X'00fF'", b"\x00\xff"),
    ],
)
def test_literals(text: str, value: object) -> None:
    literal = expression(text)
    assert isinstance(literal, Literal)
    assert (type(literal.value), literal.value, literal.text, literal.at) == (type(value), value, text, 7)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("1a", "begins with a digit"),
        ("1__0", "begins with a digit"),
        ("1_", "begins with a digit"),
        ("0x", "begins with a digit"),
        ("1e", "begins with a digit"),
        ("1._5", "begins with a digit"),
        ("0x10000000000000000", "at most 16 digits"),
        ("1e999", "too large"),
        ("9" * 5000, "too large"),
        ("x'0'", "an even number"),
        ("x'zz'", "an even number"),
        ("x'0 0'", "an even number"),
        ("?0", "from 1"),
        ('""', "empty"),
        ("[]", "empty"),
        ('"a\0b"', "NUL"),
        ("'a", "closes this text"),
        ("a::int", "CAST"),
        ("a.", "a name"),
        ("a.b.c.d", "database.table.column"),
        ("FROM", "backticks"),
        ("()", "a value"),
        ("(1", "expected )"),
        ("CASE END", "WHEN"),
        ("CASE WHEN 1 END", "THEN"),
        ("CASE WHEN 1 THEN 2", "END"),
        ("EXISTS 1", "expected ("),
    ],
)
def test_faults(text: str, hint: str) -> None:
    with pytest.raises(SqlSyntaxError) as caught:
        expression(text)
    assert hint in caught.value.hint, caught.value


def test_parameters_are_numbered_as_in_sqlite() -> None:
    statement: Any = parse("SELECT ?, ?5, ?, ?2, ?, :name, @b1, $c, :7")
    found = [item.expression for item in statement.first.items]
    assert found == [Parameter(name) for name in (1, 5, 6, 2, 7, "name", "b1", "c", "7")]
    assert found[1].at == 10
    assert expression("?032766") == Parameter(32766)
    for text in ("?32767", "?99999999999999999999", "?32766, ?"):
        with pytest.raises(Problem, match="32766") as caught:
            expression(text)
        assert caught.value.code == "QUERY_TOO_LARGE"


@pytest.mark.parametrize(
    ("text", "name", "table", "database", "is_quoted"),
    [
        ("a", "a", "", "", False),
        ("Key", "Key", "", "", False),
        ("t.a", "a", "t", "", False),
        ("db.t.a", "a", "t", "db", False),
        ("db . t . a", "a", "t", "db", False),
        ("`a.b`", "a.b", "", "", True),
        ('t."a""b"', 'a"b', "t", "", True),
        ("[t].a", "a", "t", "", True),
        ("`a``b`", "a`b", "", "", True),
        ("t.select", "select", "t", "", False),
        ("order.group", "group", "order", "", False),
        ("true.x", "x", "true", "", False),
        ("current_date.x", "x", "current_date", "", False),
    ],
)
def test_columns(text: str, name: str, table: str, database: str, is_quoted: bool) -> None:
    column = expression(text)
    assert column == Column(name, table, database)
    assert isinstance(column, Column) and (column.is_quoted, column.at, column.end) == (is_quoted, 7, 7 + len(text))


@pytest.mark.parametrize("word", NAME_WORDS.split())
def test_words_that_are_names_where_they_can_be_nothing_else(word: str) -> None:
    assert expression(word) == Column(word)
    assert expression(f"1 + {word}") == nodes.Binary("+", Literal(1), Column(word))
    assert expression(f"CASE WHEN {word} THEN {word} END") == nodes.Case(None, ((Column(word), Column(word)),))


def test_clocks() -> None:
    assert expression("CURRENT_TIMESTAMP") == Call("CURRENT_TIMESTAMP", None)
    assert expression("current_date") == Call("CURRENT_DATE", None)
    assert expression("current_time()") == Call("CURRENT_TIME")


def test_parentheses() -> None:
    assert expression("((1))") == Literal(1)
    assert expression("(1, a)") == nodes.RowValue((Literal(1), Column("a")))
    assert expression("(SELECT 1)") == nodes.Subquery(parse("SELECT 1"))  # type: ignore[arg-type]
    assert expression("(VALUES (1))") == nodes.Subquery(parse("VALUES (1)"))  # type: ignore[arg-type]
    assert expression("EXISTS (SELECT 1)") == nodes.Exists(parse("SELECT 1"))  # type: ignore[arg-type]


def test_case() -> None:
    one, two = Literal(1), Literal(2)
    assert expression("CASE 1 WHEN 2 THEN 1 WHEN 1 THEN 2 ELSE 1 END") == nodes.Case(one, ((two, one), (one, two)), one)
    assert expression("CASE WHEN 2 THEN CASE WHEN 1 THEN 2 END END") == nodes.Case(None, ((two, nodes.Case(None, ((one, two),))),))
