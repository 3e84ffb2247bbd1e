from __future__ import annotations

from typing import Any

import pytest

from svc.errors import Problem
from svc.sql.errors import SqlSyntaxError
from svc.sql.nodes import Bound, Call, Cast, Column, Expression, Frame, Literal, OrderTerm, Window
from svc.sql.parser import parse

A, B = Column("a"), Column("b")


def expression(text: str) -> Expression:
    statement: Any = parse("SELECT " + text)
    return statement.first.items[0].expression


@pytest.mark.parametrize(
    ("text", "call"),
    [
        ("f()", Call("F")),
        ("f (a, b)", Call("F", (A, B))),
        ("Count( * )", Call("COUNT", is_star=True)),
        ("count(DISTINCT a)", Call("COUNT", (A,), is_distinct=True)),
        ("count(ALL a)", Call("COUNT", (A,))),
        ("left(a, 1)", Call("LEFT", (A, Literal(1)))),
        ("replace(a, b)", Call("REPLACE", (A, B))),
        ("if(a, b)", Call("IF", (A, B))),
        ("like(a, b)", Call("LIKE", (A, B))),
        (
            "group_concat(a, b ORDER BY a DESC, b NULLS FIRST)",
            Call("GROUP_CONCAT", (A, B), order_by=(OrderTerm(A, True), OrderTerm(B, False, "FIRST"))),
        ),
        ("sum(a) FILTER (WHERE b)", Call("SUM", (A,), where=B)),
        ("sum(a) FILTER (WHERE b) OVER w", Call("SUM", (A,), where=B, over="w")),
        ("sum(a) OVER ()", Call("SUM", (A,), over=Window())),
        ("mın(a)", Call("mın", (A,))),
    ],
)
def test_calls(text: str, call: Call) -> None:
    assert expression(text) == call
    assert expression(text).at == 7  # type: ignore[union-attr]


def test_filter_and_over_are_aliases_where_nothing_of_theirs_follows() -> None:
    statement: Any = parse("SELECT f() over, f() filter, f() over FROM t")
    assert [item.alias for item in statement.first.items] == ["over", "filter", "over"]


@pytest.mark.parametrize(
    ("text", "window"),
    [
        ("(w)", Window("w")),
        ("(PARTITION BY a, b)", Window("", (A, B))),
        ("(w PARTITION BY a ORDER BY b)", Window("w", (A,), (OrderTerm(B),))),
        ("(partition)", Window("partition")),
        ("(ROWS 1 PRECEDING)", Window(frame=Frame("ROWS", Bound("PRECEDING", Literal(1))))),
        ("(ORDER BY a RANGE UNBOUNDED PRECEDING)", Window("", (), (OrderTerm(A),), Frame("RANGE", Bound("UNBOUNDED PRECEDING")))),
        (
            "(GROUPS BETWEEN CURRENT ROW AND 1 + 1 FOLLOWING EXCLUDE CURRENT ROW)",
            Window(frame=Frame("GROUPS", Bound("CURRENT ROW"), Bound("FOLLOWING", expression("1 + 1")), "CURRENT ROW")),
        ),
        (
            "(ROWS BETWEEN 2 PRECEDING AND 1 PRECEDING EXCLUDE NO OTHERS)",
            Window(frame=Frame("ROWS", Bound("PRECEDING", Literal(2)), Bound("PRECEDING", Literal(1)), "NO OTHERS")),
        ),
        (
            "(ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING EXCLUDE TIES)",
            Window(frame=Frame("ROWS", Bound("FOLLOWING", Literal(1)), Bound("UNBOUNDED FOLLOWING"), "TIES")),
        ),
    ],
)
def test_windows(text: str, window: Window) -> None:
    assert expression(f"f() OVER {text}") == Call("F", over=window)


@pytest.mark.parametrize(
    "frame",
    [
        "1 FOLLOWING",
        "UNBOUNDED FOLLOWING",
        "BETWEEN CURRENT ROW AND 1 PRECEDING",
        "BETWEEN 1 FOLLOWING AND CURRENT ROW",
        "BETWEEN 1 FOLLOWING AND 1 PRECEDING",
        "BETWEEN 1 PRECEDING AND UNBOUNDED PRECEDING",
        "BETWEEN UNBOUNDED FOLLOWING AND UNBOUNDED FOLLOWING",
        "BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED PRECEDING",
    ],
)
def test_frames_that_end_before_they_begin(frame: str) -> None:
    with pytest.raises(SqlSyntaxError, match="ends before it begins"):
        expression(f"f() OVER (ROWS {frame})")


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("CAST(a AS int)", Cast(A, "INT")),
        ("cast(a AS double  precision)", Cast(A, "DOUBLE PRECISION")),
        ("CAST(a AS varchar( 10 ))", Cast(A, "VARCHAR(10)")),
        ("CAST(a AS decimal(10,-2))", Cast(A, "DECIMAL(10, -2)")),
        ("CONVERT(int, a)", Cast(A, "INT", is_convert=True)),
        ("CONVERT(VARCHAR(5), a, 3)", Cast(A, "VARCHAR(5)", Literal(3), True)),
        ("TRIM(a)", Call("TRIM", (A,))),
        ("TRIM(a, b)", Call("TRIM", (A, B))),
        ("TRIM('x' FROM a)", Call("TRIM", (A, Literal("x")))),
        ("TRIM(FROM a)", Call("TRIM", (A,))),
        ("DATE_ADD(a, 3, days)", Call("DATE_ADD", (A, Literal(3), Literal("days")))),
        ("date_sub(a, 3, M)", Call("DATE_SUB", (A, Literal(3), Literal("M")))),
        ("DATE_DIFF(a, b)", Call("DATE_DIFF", (A, B))),
        ("DATEDIFF(a, b, ms)", Call("DATEDIFF", (A, B, Literal("ms")))),
        ("DATE_ADD(a, days, 'days')", Call("DATE_ADD", (A, Column("days"), Literal("days")))),
        ("DATE_ADD(a, 1, `days`)", Call("DATE_ADD", (A, Literal(1), Column("days")))),
        ("DATE_ADD(a, 1, t.days)", Call("DATE_ADD", (A, Literal(1), Column("days", "t")))),
        ("DATE_ADD(a, 1, b)", Call("DATE_ADD", (A, Literal(1), B))),
        ("EXTRACT(a, year)", Call("EXTRACT", (A, Literal("year")))),
        ("EXTRACT(MINUTE FROM a)", Call("EXTRACT", (A, Literal("MINUTE")))),
        ("DATE_FORMAT(year, m)", Call("DATE_FORMAT", (Column("year"), Column("m")))),
        ("cast", Column("cast")),
        ("trim + convert", expression('"trim" + "convert"')),
    ],
)
def test_what_has_a_syntax_of_its_own(text: str, tree: Expression) -> None:
    assert expression(text) == tree


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ('"f"(1)', "without quotes"),
        ("f(1", "expected )"),
        ("f(1,)", "one comma too many"),
        ("f(DISTINCT)", "a value"),
        ("f(*, 1)", "expected )"),
        ("CAST(a)", "expected AS"),
        ("CAST(a AS )", "a type"),
        ('CAST(a AS "int) ")', "a type"),
        ("CAST(a AS int(a))", "a number"),
        ("CAST(a AS int(1.5))", "a number"),
        ("CAST(a AS int(1, 2, 3))", "expected )"),
        ("CONVERT('a', int)", "CONVERT(type, value)"),
        ("CONVERT(int)", "expected ,"),
        ("TRIM(a, b FROM c)", "expected )"),
        ("sum(a) FILTER (b)", "expected WHERE"),
        ("f() OVER (ORDER a)", "expected BY"),
        ("f() OVER (ROWS 1)", "PRECEDING or FOLLOWING"),
        ("f() OVER (ROWS CURRENT ROW EXCLUDE a)", "NO OTHERS, CURRENT ROW"),
        ("f() OVER (ORDER BY a NULLS a)", "FIRST or LAST"),
    ],
)
def test_faults(text: str, hint: str) -> None:
    with pytest.raises(SqlSyntaxError) as caught:
        expression(text)
    assert hint in caught.value.hint, caught.value


def test_arguments_are_limited() -> None:
    expression("f(" + "1," * 999 + "1)")
    with pytest.raises(Problem, match="1000") as caught:
        expression("f(" + "1," * 1000 + "1)")
    assert caught.value.code == "QUERY_TOO_LARGE"
