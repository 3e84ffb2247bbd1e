from __future__ import annotations

import itertools
from typing import Any

import pytest

from svc.errors import Problem
from svc.sql import nodes
from svc.sql.errors import SqlSyntaxError
from svc.sql.limits import CHAIN, MAX_DEPTH
from svc.sql.nodes import Between, Binary, Collate, Column, Expression, In, IsNull, Literal, Match, Unary
from svc.sql.parser import parse
from svc.sql.printer import Printer, print_statement
from tests.support.sql_checks import sqlite_program, tree_height

A, B, C, D = (Column(name) for name in "abcd")


def expression(text: str) -> Expression:
    statement: Any = parse("SELECT " + text)
    return statement.first.items[0].expression


class AllParentheses(Printer):
    def operand(self, node: Expression, least: int) -> str:
        return f"({self.print(node)})"


INFIX = (
    "OR",
    "AND",
    "=",
    "<>",
    "IS",
    "IS NOT",
    "IS NOT DISTINCT FROM",
    "<",
    ">=",
    "&",
    "|",
    "<<",
    ">>",
    "+",
    "-",
    "*",
    "/",
    "%",
    "||",
    "->",
    "->>",
)
INFIX += ("LIKE", "NOT LIKE", "GLOB", "BETWEEN 5 AND", "NOT BETWEEN 5 AND")
PREFIX = ("-", "+", "~", "NOT")
POSTFIX = ("ISNULL", "NOTNULL", "NOT NULL", "IS NULL", "IS NOT NULL", "COLLATE nocase", "IN (6, 7)", "NOT IN (6, 7)", "LIKE 8 ESCAPE 'x'")


@pytest.mark.parametrize("first", (*INFIX, *PREFIX, *POSTFIX))
def test_precedences_are_those_of_sqlite(first: str) -> None:
    begin = f"{first} 1" if first in PREFIX else f"1 {first}" if first in POSTFIX else f"1 {first} 2"
    texts = [f"{begin} {second} 3" for second in INFIX] + [f"{begin} {second}" for second in POSTFIX]
    if first in INFIX:
        texts += [f"1 {first} {second} 2" for second in PREFIX]
        texts += [f"1 {first} {second} 2 {third} 3" for second, third in itertools.product(PREFIX, INFIX)]
        texts += [f"1 {second} 2 {first} 3 {third} 4" for second, third in itertools.product(INFIX, INFIX)]
    for text in texts:
        program = sqlite_program("SELECT " + text)
        try:
            tree = parse("SELECT " + text)
        except SqlSyntaxError:
            assert isinstance(program, str), text  # BETWEEN 5 OR 6
            continue
        # Numbers with a minus stay as they are: SQLite computes `-(1)`.
        assert program == sqlite_program(print_statement(tree)), text
        assert program == sqlite_program(AllParentheses().print(tree)), text


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("a + b * c", Binary("+", A, Binary("*", B, C))),
        ("a - b - c", Binary("-", Binary("-", A, B), C)),
        ("1 + NOT 2 = 3", Binary("+", Literal(1), Unary("NOT", Binary("=", Literal(2), Literal(3))))),
        ("a = b IN (c)", In(Binary("=", A, B), (C,))),
        ("a == b != c", Binary("<>", Binary("=", A, B), C)),
        ("-a COLLATE x", Collate(Unary("-", A), "x")),
        ("a || b COLLATE x", Binary("||", A, Collate(B, "x"))),
        ("a between b and c and d", Binary("AND", Between(A, B, C), D)),
        ("a NOT BETWEEN b BETWEEN c AND d AND 1", Between(A, Between(B, C, D), Literal(1), True)),
        ("a NOT LIKE b || c ESCAPE d", Match("LIKE", A, Binary("||", B, C), D, True)),
        ("a NOT REGEXP b", Match("REGEXP", A, B, None, True)),
        ("a IS NOT DISTINCT FROM b", Binary("IS", A, B)),
        ("a IS DISTINCT FROM b", Binary("IS NOT", A, B)),
        ("a IS NOT NULL", IsNull(A, True)),
        ("a NOT NULL ISNULL", IsNull(IsNull(A, True))),
        ("a IS TRUE", Binary("IS", A, Literal(True))),
        ("a = b NOT NULL", IsNull(Binary("=", A, B), True)),
        ("a IN ()", In(A, ())),
        ("a NOT IN db.t", In(A, nodes.Query(nodes.Select((nodes.Star(),), nodes.TableRef("t", "db"))), True)),
        ("a IN f(1)", In(A, nodes.Query(nodes.Select((nodes.Star(),), nodes.TableFunction("f", (Literal(1),)))))),
        ("a -> 'b' ->> 'c'", Binary("->>", Binary("->", A, Literal("b")), Literal("c"))),
    ],
)
def test_operators(text: str, tree: Expression) -> None:
    assert expression(text) == tree


@pytest.mark.parametrize(
    ("text", "value", "written"),
    [
        ("-5", -5, "-5"),
        ("-(5)", -5, "-5"),
        ("-9223372036854775808", -(1 << 63), "-9223372036854775808"),
        ("- 1.5", -1.5, "-1.5"),
    ],
)
def test_a_minus_is_part_of_the_number_behind_it(text: str, value: object, written: str) -> None:
    literal = expression(text)
    assert literal == Literal(value)
    assert isinstance(literal, Literal) and literal.text == written and literal.at == 7


def test_a_minus_is_no_part_of_a_number_that_has_one_or_of_true() -> None:
    assert expression("- -5") == Unary("-", Literal(-5))
    assert expression("-TRUE") == Unary("-", Literal(True))
    assert expression("a -5") == Binary("-", A, Literal(5))


def test_operators_have_the_place_of_their_sign() -> None:
    tree = expression("a + b AND c OR d LIKE 'x'")
    assert isinstance(tree, Binary) and tree.at == 19
    assert isinstance(tree.left, Binary) and tree.left.at == 13
    assert isinstance(tree.left.left, Binary) and tree.left.left.at == 9
    assert isinstance(tree.right, Match) and tree.right.at == 24


@pytest.mark.parametrize("operator", ["AND", "OR", "||"])
@pytest.mark.parametrize("count", [2, 3, CHAIN, CHAIN + 1, 100, 5_000])
def test_chains_may_be_of_any_length(operator: str, count: int) -> None:
    text = f" {operator} ".join(map(str, range(count)))
    tree = expression(text)
    assert tree_height(tree) <= CHAIN
    waiting, found = [tree], []
    while waiting:
        node = waiting.pop()
        if isinstance(node, Binary):
            waiting += (node.right, node.left)
            assert text[node.at - 7 :].startswith(operator)
        else:
            assert isinstance(node, Literal)
            found.append(node.value)
    assert found == list(range(count))
    assert parse(print_statement(parse("SELECT " + text))) == parse("SELECT " + text)


def test_short_chains_lean_to_the_left() -> None:
    assert expression("a AND b AND c AND d") == Binary("AND", Binary("AND", Binary("AND", A, B), C), D)
    assert expression("a AND (b AND c) AND d") == Binary("AND", Binary("AND", A, Binary("AND", B, C)), D)


@pytest.mark.parametrize("part", [" + 1", " = 1", " -> 1", " IS NULL", " COLLATE x", " IN (1)", " LIKE 1", " BETWEEN 1 AND 1"])
def test_other_chains_are_as_deep_as_they_are_long(part: str) -> None:
    assert tree_height(expression("1" + part * MAX_DEPTH)) == MAX_DEPTH + 1
    for count in (MAX_DEPTH + 1, 10_000):
        with pytest.raises(Problem, match="deeper than 100 levels") as caught:
            expression("1" + part * count)
        assert caught.value.code == "QUERY_TOO_LARGE"


@pytest.mark.parametrize(
    ("text", "at", "hint"),
    [
        ("a BETWEEN 1", 18, "expected AND"),
        ("a BETWEEN 1 OR 2 AND 3", 29, "expected AND"),
        ("a NOT b", 13, "LIKE, IN, BETWEEN or NULL"),
        ("a GLOB 'b' ESCAPE 'c'", 18, "ESCAPE belongs behind the pattern of LIKE"),
        ("a ESCAPE 'c'", 9, "ESCAPE belongs"),
        ("a LIKE b ESCAPE c ESCAPE d", 25, "ESCAPE belongs"),
        ("a MATCH b", 9, "REGEXP"),
        ("a COLLATE 'b'", 17, "names stand in"),
        ("a IS DISTINCT b", 21, "expected FROM"),
        ("a IN 5", 12, "the name of a table"),
        ("a +", 10, "expected a value"),
        ("NOT", 10, "expected a value"),
        ("a && b", 10, "AND is meant"),
        ("a => b", 10, ">= is meant"),
    ],
)
def test_faults(text: str, at: int, hint: str) -> None:
    with pytest.raises(SqlSyntaxError) as caught:
        expression(text)
    assert (caught.value.position, hint in caught.value.hint) == (at, True), caught.value
