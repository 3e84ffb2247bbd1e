from __future__ import annotations

from typing import Any

import pytest

from svc.errors import Problem
from svc.sql.errors import SqlSyntaxError
from svc.sql.nodes import (
    Column,
    CommonTable,
    Join,
    Literal,
    OrderTerm,
    Query,
    Select,
    SelectItem,
    Source,
    Star,
    SubqueryRef,
    TableFunction,
    TableRef,
    Values,
    Window,
)
from svc.sql.parser import parse
from svc.sql.printer import print_statement

A, B = Column("a"), Column("b")
T, U, V = TableRef("t"), TableRef("u"), TableRef("v")
ONE = SelectItem(Literal(1))


def query(text: str) -> Any:
    found = parse(text)
    assert isinstance(found, Query)
    return found


def source(text: str) -> Source:
    found: Source = query(f"SELECT 1 FROM {text}").first.source
    return found


def test_a_query_with_all_its_clauses() -> None:
    text = "SELECT DISTINCT a AS x, * FROM t WHERE 1 GROUP BY a, b HAVING 2 WINDOW w AS (ORDER BY a), v AS (w) ORDER BY a DESC, b LIMIT 3 OFFSET 4"
    windows = (("w", Window("", (), (OrderTerm(A),))), ("v", Window("w")))
    select = Select((SelectItem(A, "x"), Star()), T, Literal(1), (A, B), Literal(2), True, windows)
    assert query(text) == Query(select, (), (OrderTerm(A, True), OrderTerm(B)), Literal(3), Literal(4))


@pytest.mark.parametrize(
    ("text", "limit", "offset"),
    [("LIMIT 3", 3, None), ("LIMIT 3 OFFSET 4", 3, 4), ("LIMIT 4, 3", 3, 4), ("", None, None)],
)
def test_limits(text: str, limit: int | None, offset: int | None) -> None:
    found = query(f"SELECT 1 FROM t AS x {text}")
    assert found.limit == (None if limit is None else Literal(limit))
    assert found.offset == (None if offset is None else Literal(offset))


@pytest.mark.parametrize(
    ("text", "items"),
    [
        ("*", (Star(),)),
        ("t.*", (Star("t"),)),
        ("db.t.*, `a b`.*", (Star("t", "db"), Star("a b"))),
        ("order.*", (Star("order"),)),
        ("a b, a AS b, a 'b c', a AS 'd''e', a \"f\", a AS key, a first", None),
        ("a * b", None),
    ],
)
def test_items(text: str, items: tuple[Star, ...] | None) -> None:
    found = query(f"SELECT {text} FROM t").first.items
    if items is None:
        aliases = ["b", "b", "b c", "d'e", "f", "key", "first"] if "," in text else [""]
        assert [item.alias for item in found] == aliases
    else:
        assert found == items


@pytest.mark.parametrize(
    ("text", "top", "item"),
    [
        ("TOP 5 a", Literal(5), A),
        ("top (5) a", Literal(5), A),
        ("DISTINCT TOP ? a", query("SELECT ?").first.items[0].expression, A),
        ("TOP (5) (a)", Literal(5), A),
        ("top", None, Column("top")),
        ("top, a", None, Column("top")),
        ("top.a", None, Column("a", "top")),
        ("top - 1", None, query("SELECT top - 1").first.items[0].expression),
    ],
)
def test_top(text: str, top: object, item: object) -> None:
    found = query(f"SELECT {text} FROM t").first
    assert (found.top, found.items[0].expression) == (top, item)


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("db.t", TableRef("t", "db")),
        ("db.order x", TableRef("order", "db", "x")),
        ("t AS 'x y'", TableRef("t", "", "x y")),
        ("`a.b`", TableRef("a.b")),
        ("t window", TableRef("t", "", "window")),
        ("t, u", Join(T, U, ",")),
        ("t JOIN u", Join(T, U)),
        ("t INNER JOIN u ON 1", Join(T, U, on=Literal(1))),
        ("t LEFT JOIN u USING (a, b)", Join(T, U, "LEFT", using=("a", "b"))),
        ("t LEFT OUTER JOIN u RIGHT JOIN v", Join(Join(T, U, "LEFT"), V, "RIGHT")),
        ("t FULL OUTER JOIN u", Join(T, U, "FULL")),
        ("t CROSS JOIN u", Join(T, U, "CROSS")),
        ("t NATURAL JOIN u", Join(T, U, is_natural=True)),
        ("t NATURAL LEFT OUTER JOIN u", Join(T, U, "LEFT", True)),
        ("t LEFT NATURAL JOIN u", Join(T, U, "LEFT", True)),
        ("t, u ON 1 JOIN v ON 2", Join(Join(T, U, ",", on=Literal(1)), V, on=Literal(2))),
        ("t JOIN (u, v) ON 1", Join(T, Join(U, V, ","), on=Literal(1))),
        ("(t JOIN u) JOIN v", Join(Join(T, U), V)),
        ("((t))", T),
        ("(t AS x) AS y", TableRef("t", "", "y")),
        ("(t, u) AS x", SubqueryRef(Query(Select((Star(),), Join(T, U, ","))), "x")),
        ("(SELECT 1) x", SubqueryRef(Query(Select((ONE,))), "x")),
        ("(VALUES (1))", SubqueryRef(Query(Values(((Literal(1),),))))),
        ("(WITH a AS (SELECT 1) SELECT 1)", SubqueryRef(Query(Select((ONE,)), tables=(CommonTable("a", Query(Select((ONE,)))),)))),
        ("Json_Each(a, 1) AS e", TableFunction("json_each", (A, Literal(1)), "e")),
    ],
)
def test_sources(text: str, tree: Source) -> None:
    assert source(text) == tree


def test_places() -> None:
    table = source("db . t AS x")
    assert isinstance(table, TableRef) and (table.at, table.end) == (14, 20)
    join = source("t NATURAL JOIN u")
    assert isinstance(join, Join) and join.at == 16
    assert query("SELECT 1 UNION SELECT t.*").others[0][1].at == 15
    assert query("SELECT t.*").first.items[0].at == 7


def test_compounds() -> None:
    found = query("SELECT 1 UNION SELECT 2 UNION ALL VALUES (3), (4) INTERSECT SELECT 5 EXCEPT SELECT 6 ORDER BY 1")
    assert [operator for operator, _ in found.others] == ["UNION", "UNION ALL", "INTERSECT", "EXCEPT"]
    assert found.others[1][1] == Values(((Literal(3),), (Literal(4),)))
    assert found.order_by == (OrderTerm(Literal(1)),)


def test_common_tables() -> None:
    found = query("WITH RECURSIVE a(x, y) AS (SELECT 1), b AS MATERIALIZED (SELECT 1), c AS NOT MATERIALIZED (SELECT 1) SELECT 1")
    one = Query(Select((ONE,)))
    assert found.tables == (CommonTable("a", one, ("x", "y")), CommonTable("b", one, (), True), CommonTable("c", one, (), False))
    assert found.is_recursive
    assert query("WITH recursive AS (SELECT 1) SELECT 1").tables[0].name == "recursive"


def test_parameters_of_common_tables_are_counted_once() -> None:
    assert "?1" in print_statement(query("WITH a AS (SELECT ?) SELECT ?"))
    assert "?3" not in print_statement(query("WITH a AS (SELECT ?) SELECT ?"))


@pytest.mark.parametrize(
    ("text", "at", "hint"),
    [
        ("SELECT", 6, "a value"),
        ("SELECT FROM t", 7, "a value"),
        ("SELECT a, FROM t", 10, "one comma too many"),
        ("SELECT a AS FROM t", 12, "backticks"),
        ("SELECT a FROM", 13, "the name of a table"),
        ("SELECT a FROM 't'", 14, "not in single ones"),
        ("SELECT a FROM order", 14, "`order` in backticks"),
        ("SELECT a FROM db.t.c", 18, "database.table"),
        ("SELECT a FROM t ON 1", 16, "cannot stand here"),
        ("SELECT a FROM t LEFT u", 21, "expected JOIN"),
        ("SELECT a FROM t OUTER JOIN u", 16, "no such join"),
        ("SELECT a FROM t INNER CROSS JOIN u", 16, "no such join"),
        ("SELECT a FROM t CROSS OUTER JOIN u", 16, "no such join"),
        ("SELECT a FROM t LEFT LEFT JOIN u", 16, "no such join"),
        ("SELECT a FROM t NATURAL JOIN u ON 1", 31, "neither ON nor USING"),
        ("SELECT a FROM t NATURAL JOIN u USING (a)", 31, "neither ON nor USING"),
        ("SELECT a FROM t INDEXED BY i", 16, "chosen by the planner"),
        ("SELECT a FROM t AS x NOT INDEXED", 21, "chosen by the planner"),
        ("SELECT a FROM t JOIN u USING ()", 30, "a name"),
        ("SELECT a FROM t GROUP a", 22, "expected BY"),
        ("SELECT a FROM t LIMIT 1 LIMIT 2", 24, "cannot stand here"),
        ("SELECT a FROM t OFFSET 1", 23, "behind LIMIT"),
        ("SELECT a FROM t AS x OFFSET 1", 21, "behind LIMIT"),
        ("SELECT a FROM t FETCH FIRST 5 ROWS ONLY", 22, "LIMIT n"),
        ("SELECT 1 ORDER BY 1 UNION SELECT 2", 9, "behind the last SELECT"),
        ("SELECT 1 LIMIT 1 UNION SELECT 2", 9, "behind the last SELECT"),
        ("VALUES (1) LIMIT 1", 11, "SELECT * FROM (VALUES ...)"),
        ("SELECT 1 UNION VALUES (2) ORDER BY 1", 26, "SELECT * FROM (VALUES ...)"),
        ("VALUES (1), (1, 2)", 12, "same number of values"),
        ("VALUES ()", 7, "at least one value"),
        ("SELECT TOP 5 a FROM t LIMIT 1", 22, "TOP and LIMIT"),
        ("SELECT TOP 5 PERCENT a FROM t", 13, "number of rows"),
        ("SELECT 1 UNION (SELECT 2)", 15, "no parentheses"),
        ("SELECT a FROM (t", 16, "expected )"),
        ("WITH a SELECT 1", 7, "expected AS"),
        ("WITH a AS SELECT 1", 10, "expected ("),
        ("WITH a AS (SELECT 1)", 20, "SELECT or VALUES"),
    ],
)
def test_faults(text: str, at: int, hint: str) -> None:
    with pytest.raises(SqlSyntaxError) as caught:
        parse(text)
    assert (caught.value.position, hint in caught.value.hint) == (at, True), caught.value


def test_top_and_limit_of_different_queries() -> None:
    assert query("SELECT TOP 5 a FROM t UNION SELECT b FROM u LIMIT 1").limit == Literal(1)


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("SELECT {}", 2000),
        ("SELECT 1 GROUP BY {}", 2000),
        ("SELECT 1 ORDER BY {}", 2000),
        ("VALUES ({})", 2000),
        ("SELECT ({}) = 1", 2000),
        ("SELECT sum(1) OVER (PARTITION BY {})", 2000),
        ("WITH a({}) AS (SELECT 1) SELECT 1", 2000),
        ("SELECT 1 FROM {}", 64),
        ("SELECT 1 FROM (a, b) JOIN ({})", 62),
    ],
)
def test_lists_are_limited(text: str, limit: int) -> None:
    member = "a" if "1" not in text.replace("SELECT 1", "") else "1"
    parse(text.format(",".join([member] * limit)))
    with pytest.raises(Problem, match="more than") as caught:
        parse(text.format(",".join([member] * (limit + 1))))
    assert caught.value.code == "QUERY_TOO_LARGE"


def test_tables_of_a_sub_select_are_not_counted() -> None:
    tables = ", ".join(["a"] * 40)
    parse(f"SELECT 1 FROM {tables}, (SELECT 1 FROM {tables}) x WHERE 1 IN (SELECT 1 FROM {tables})")


def test_queries_that_are_joined_are_limited() -> None:
    assert len(query("SELECT 1" + " UNION SELECT 1" * 499).others) == 499
    with pytest.raises(Problem, match="500") as caught:
        query("SELECT 1" + " UNION SELECT 1" * 500)
    assert caught.value.code == "QUERY_TOO_LARGE"
