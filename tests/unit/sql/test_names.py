from __future__ import annotations

from typing import Any

import pytest

from svc.sql.names import expression_name
from svc.sql.nodes import Binary, Call, Column, Literal, Parameter
from svc.sql.parser import parse


def name(text: str) -> str:
    statement: Any = parse(text)
    return expression_name(statement.first.items[0].expression, text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a", "a"),
        ("db.t.`a b`", "a b"),
        ("2+2", "2 + 2"),
        ("COUNT(*)", "COUNT(*)"),
        ("count( * )", "COUNT(*)"),
        ("avg( r.rating )", "AVG(r.rating)"),
        ("count(distinct  a)", "COUNT(DISTINCT a)"),
        ("Group_Concat(a, ', ')", "GROUP_CONCAT(a,', ')"),
        ('max(`a`."b")+1', "MAX(a.b) + 1"),
        ("lower( name )", "lower(name)"),
        ("Concat(a, '-', b)", "Concat(a,'-',b)"),
        ("date_add(d, 3, days)", "date_add(d,3,days)"),
        ("CONVERT(int, a)", "CONVERT(INT,a)"),
        ("cast(a as int)", "CAST(a AS INT)"),
        ("now()", "now()"),
        ("current_timestamp", "current_timestamp"),
        ("0x1F+1e3*1_0", "0x1F + 1e3 * 1_0"),
        ("'it''s'||x", "'it''s' || x"),
        ("- 5", "-5"),
        ("true", "true"),
        ("((a+b))*c", "(a + b) * c"),
        ("a==b and not c!=d", "a = b AND NOT c <> d"),
        ("a not in (1, 2)", "a NOT IN (1,2)"),
        ("case when a then b else c end", "CASE WHEN a THEN b ELSE c END"),
        ("?", "?"),
        ("? + 1", "? + 1"),
        ("?2", "?2"),
        (":p", ":p"),
        ("sum(a) over (order by b)", "SUM(a) OVER (ORDER BY b)"),
        ("(select max(a) from db.t)", "(SELECT MAX(a) FROM db.t)"),
    ],
)
def test_names(text: str, expected: str) -> None:
    assert name("SELECT " + text) == expected


def test_names_of_trees_without_a_text() -> None:
    assert expression_name(Call("LOWER", (Column("a", "t"), Literal(2.5), Parameter(1))), "") == "LOWER(t.a,2.5,?1)"
    assert expression_name(Binary("+", Literal(1), Literal("x")), "SELECT something else") == "1 + 'x'"
