from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import ClassVar

import pytest

from svc.sql import nodes
from svc.sql.nodes import Column, Expression, Literal, Query, Select, SelectItem
from svc.sql.parser import parse
from svc.sql.printer import Printer, print_statement

Shape = Callable[[Expression], Expression]
A, B, C = Column("a"), Column("b"), Column("c")

_BINARY = ("OR", "AND", "=", "<>", "IS", "IS NOT", "<", ">=", "&", "|", "<<", "+", "-", "*", "/", "%", "||", "->", "->>")
# Every place in which an expression can have another, by what has it.
SHAPES: dict[str, Shape] = {
    **{f"x {operator} b": lambda x, operator=operator: nodes.Binary(operator, x, B) for operator in _BINARY},  # type: ignore[misc]
    **{f"b {operator} x": lambda x, operator=operator: nodes.Binary(operator, B, x) for operator in _BINARY},  # type: ignore[misc]
    **{f"{operator} x": lambda x, operator=operator: nodes.Unary(operator, x) for operator in ("-", "+", "~", "NOT")},  # type: ignore[misc]
    "x LIKE b": lambda x: nodes.Match("LIKE", x, B),
    "b LIKE x": lambda x: nodes.Match("LIKE", B, x, is_negated=True),
    "b LIKE c ESCAPE x": lambda x: nodes.Match("LIKE", B, C, x),
    "b LIKE x ESCAPE c": lambda x: nodes.Match("LIKE", B, x, C),
    "x REGEXP b": lambda x: nodes.Match("REGEXP", x, B),
    "b GLOB x": lambda x: nodes.Match("GLOB", B, x),
    "x BETWEEN b AND c": lambda x: nodes.Between(x, B, C),
    "b BETWEEN x AND c": lambda x: nodes.Between(B, x, C),
    "b BETWEEN c AND x": lambda x: nodes.Between(B, C, x, True),
    "x IN (b)": lambda x: nodes.In(x, (B,)),
    "b IN (x)": lambda x: nodes.In(B, (x, C), True),
    "x IS NULL": lambda x: nodes.IsNull(x),
    "x COLLATE c": lambda x: nodes.Collate(x, "c"),
    "CASE x": lambda x: nodes.Case(x, ((B, C),)),
    "CASE WHEN x": lambda x: nodes.Case(None, ((x, x),), x),
    "CAST x": lambda x: nodes.Cast(x, "INT"),
    "f(x)": lambda x: nodes.Call("F", (x, x)),
    "(x, b)": lambda x: nodes.RowValue((x, B)),
    "x PRECEDING": lambda x: nodes.Call("F", (), over=nodes.Window(frame=nodes.Frame("ROWS", nodes.Bound("PRECEDING", x), nodes.Bound("FOLLOWING", x)))),
    "ORDER BY x": lambda x: nodes.Call("F", (A,), order_by=(nodes.OrderTerm(x, True),)),
    "(SELECT x)": lambda x: nodes.Subquery(select(x)),
    "-1": lambda x: Literal(-1),
    "-1.5": lambda x: Literal(-1.5),
}  # fmt: skip


def select(expression: Expression) -> Query:
    return Query(Select((SelectItem(expression),)))


def printed(expression: Expression) -> str:
    return print_statement(select(expression)).removeprefix("SELECT ")


@pytest.mark.parametrize("outer", SHAPES)
def test_parentheses_stand_where_they_are_needed(outer: str) -> None:
    for inner in SHAPES.values():
        expression = SHAPES[outer](inner(A))
        assert parse("SELECT " + printed(expression)) == select(expression), printed(expression)


def test_parentheses_stand_nowhere_else() -> None:
    for text in (
        '"a" + "b" - "c"',
        '"a" * "b" + "c" % 2',
        '"a" OR "b" AND NOT "c" = 1',
        '- -"a"',
        '-"a" COLLATE "x" || "b" -> "c"',
        '"a" < "b" = "c" IS NOT NULL',
        '"a" BETWEEN "b" + 1 AND "c" AND TRUE',
        'NOT NOT "a" LIKE "b" ESCAPE "c"',
        '"a" IN (1, "b" OR "c")',
        '1 - (2 - 3)',
    ):  # fmt: skip
        assert printed(parse("SELECT " + text).first.items[0].expression) == text  # type: ignore[union-attr]


def test_a_minus_before_a_minus_is_no_comment() -> None:
    assert printed(nodes.Unary("-", Literal(-5))) == "- -5"
    assert printed(nodes.Unary("-", nodes.Unary("-", A))) == '- -"a"'
    assert printed(nodes.Binary("-", A, Literal(-5))) == '"a" - -5'


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "NULL"),
        (True, "TRUE"),
        (False, "FALSE"),
        (-3, "-3"),
        (1 << 70, "1180591620717411303424"),
        (0.1, "0.1"),
        (1e300, "1e+300"),
        (5.0, "5.0"),
        ("it's", "'it''s'"),
        ("a\0b", "'a\0b'"),
        (b"\0\xff", "x'00ff'"),
    ],
)
def test_literals(value: object, text: str) -> None:
    assert printed(Literal(value)) == text


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
def test_floats_that_are_not_finite_have_no_literal(value: float) -> None:
    with pytest.raises(ValueError, match="no literal"):
        printed(Literal(value))


def test_values_without_a_literal_in_sqlite_can_be_printed_otherwise() -> None:
    class Constants(Printer):
        def special_literal(self, value: str | int | float) -> str:
            return f"<{value!r}>"

    values = [1 << 63, -(1 << 63), (1 << 63) - 1, "a\0", math.inf, "plain"]
    shown = [Constants().print(Literal(value)) for value in values]
    assert shown == ["<9223372036854775808>", "-9223372036854775808", "9223372036854775807", "<'a\\x00'>", "<inf>", "'plain'"]


def test_names_are_quoted_whatever_is_in_them() -> None:
    assert printed(Column('a"b.c', "select", "x y")) == '"x y"."select"."a""b.c"'


def test_other_nodes_can_have_methods() -> None:
    class Marked:
        pass

    class MarkedPrinter(Printer):
        METHODS: ClassVar[Mapping[type, str]] = {**Printer.METHODS, Marked: "marked"}

        def marked(self, node: Marked) -> str:
            return "<>"

    node = nodes.Binary("+", A, Marked())  # type: ignore[arg-type]
    assert MarkedPrinter().print(node) == '"a" + <>'
