from __future__ import annotations

import inspect
import sys
from typing import Any

import pytest

from svc.errors import Problem
from svc.sql.errors import SqlSyntaxError, StatementTooLarge, UnsupportedStatement
from svc.sql.nodes import (
    Assignment,
    Column,
    Conflict,
    Delete,
    Explain,
    Insert,
    Literal,
    OrderTerm,
    Query,
    SelectItem,
    Star,
    Statement,
    TableRef,
    Update,
)
from svc.sql.parser import parse
from svc.sql.printer import print_statement

A, B = Column("a"), Column("b")
ONE, TWO = Literal(1), Literal(2)
FRAMES = 600  # of Python's stack, which has 1000: what any statement may need. What is below belongs to whoever calls


def changed(text: str) -> Any:
    return parse(text)


def rows(text: str) -> Query:
    found = parse(text)
    assert isinstance(found, Query)
    return found


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("INSERT INTO t VALUES (1)", Insert(TableRef("t"), (), rows("VALUES (1)"))),
        ("INSERT INTO db.t (a, `b c`) VALUE (1, 2), (2, 1)", Insert(TableRef("t", "db"), ("a", "b c"), rows("VALUES (1, 2), (2, 1)"))),
        ("INSERT INTO t AS x DEFAULT VALUES", Insert(TableRef("t", "", "x"), (), None)),
        ("INSERT INTO t SELECT 1", Insert(TableRef("t"), (), rows("SELECT 1"))),
        ("INSERT INTO t WITH x AS (SELECT 1) SELECT 1", Insert(TableRef("t"), (), rows("WITH x AS (SELECT 1) SELECT 1"))),
        (
            "INSERT INTO t SELECT 1 FROM u JOIN v ON CONFLICT DO NOTHING",
            Insert(TableRef("t"), (), rows("SELECT 1 FROM u JOIN v"), (Conflict(),)),
        ),
        (
            "INSERT INTO t VALUES (1) ON CONFLICT (a, b) WHERE a DO UPDATE SET a = 1 WHERE b ON CONFLICT (a) DO NOTHING RETURNING *, a AS x",
            Insert(
                TableRef("t"),
                (),
                rows("VALUES (1)"),
                (Conflict(("a", "b"), A, (Assignment(("a",), ONE),), B), Conflict(("a",))),
                (Star(), SelectItem(A, "x")),
            ),
        ),
        ("UPDATE db.t SET a = 1", Update(TableRef("t", "db"), (Assignment(("a",), ONE),))),
        ("UPDATE t SET a == 1, key = 2", Update(TableRef("t"), (Assignment(("a",), ONE), Assignment(("key",), TWO)))),
        ("UPDATE t SET (a, b) = (SELECT 1, 2)", Update(TableRef("t"), (Assignment(("a", "b"), changed("SELECT (SELECT 1, 2)").first.items[0].expression),))),
        (
            "UPDATE t AS x SET a = 1 FROM u WHERE b RETURNING a ORDER BY a LIMIT 1, 2",
            Update(TableRef("t", "", "x"), (Assignment(("a",), ONE),), TableRef("u"), B, (OrderTerm(A),), TWO, ONE, (SelectItem(A),)),
        ),
        ("UPDATE t SET a = 1 LIMIT 2 RETURNING a", Update(TableRef("t"), (Assignment(("a",), ONE),), limit=TWO, returning=(SelectItem(A),))),
        ("DELETE FROM t", Delete(TableRef("t"))),
        ("DELETE FROM db.t AS x WHERE a ORDER BY b LIMIT 1 RETURNING *", Delete(TableRef("t", "db", "x"), A, (OrderTerm(B),), ONE, returning=(Star(),))),
        ("UPDATE db.t x SET a = 1", Update(TableRef("t", "db", "x"), (Assignment(("a",), ONE),))),
        ("DELETE FROM t x WHERE a", Delete(TableRef("t", "", "x"), A)),
        ("DELETE FROM t `x` RETURNING *", Delete(TableRef("t", "", "x"), returning=(Star(),))),
        ("WITH x AS (SELECT 1) DELETE FROM t", Delete(TableRef("t"), tables=rows("WITH x AS (SELECT 1) SELECT 1").tables)),
        ("EXPLAIN SELECT 1", Explain(rows("SELECT 1"))),
        ("explain query plan DELETE FROM t", Explain(Delete(TableRef("t")))),
    ],
)  # fmt: skip
def test_statements(text: str, tree: Statement) -> None:
    assert parse(text) == tree
    assert parse(print_statement(tree)) == tree
    assert parse(f" -- first\n{text} ; ;; /* end */ ") == tree


def test_with_before_a_change() -> None:
    for text in ("INSERT INTO t VALUES (1)", "UPDATE t SET a = 1", "DELETE FROM t"):
        tree = changed(f"WITH RECURSIVE x AS (SELECT 1) {text}")
        assert (len(tree.tables), tree.is_recursive) == (1, True)


def test_places() -> None:
    tree = changed("UPDATE db.t SET a = 1, b = 2")
    assert (tree.table.at, tree.table.end, tree.assignments[1].at) == (7, 11, 23)
    assert changed("INSERT INTO t VALUES (1) ON CONFLICT DO NOTHING").conflicts[0].at == 25


@pytest.mark.parametrize(
    "text",
    [
        "drop table t", "CREATE TABLE t (a)", "Alter table t", "ATTACH 'x' AS y", "PRAGMA foreign_keys", "BEGIN", "COMMIT", "end", "ROLLBACK", "VACUUM",
        "SAVEPOINT a", "RELEASE a", "DETACH x", "REINDEX", "ANALYZE", "SET a = 1", "SHOW TABLES", "USE db", "TRUNCATE TABLE t", "DESC t", "DESCRIBE t",
        "EXPLAIN drop table t", "-- x\n drop table t", "drop",
    ],
)  # fmt: skip
def test_statements_that_are_not_supported(text: str) -> None:
    word = text.replace("EXPLAIN ", "").replace("-- x\n ", "").split()[0]
    with pytest.raises(UnsupportedStatement) as caught:
        parse(text)
    assert caught.value.message == f"unsupported SQL type {word.lower()}"
    assert caught.value.position == text.index(word)
    assert (caught.value.status_code, caught.value.code) == (400, "QUERY_SYNTAX")


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("REPLACE INTO t VALUES (1)", "replace"),
        ("INSERT OR REPLACE INTO t VALUES (1)", "insert or replace"),
        ("INSERT OR ignore INTO t VALUES (1)", "insert or ignore"),
        ("UPDATE OR FAIL t SET a = 1", "update or fail"),
        ("INSERT OR", "insert or"),
    ],
)
def test_resolutions_of_conflicts_are_not_supported(text: str, kind: str) -> None:
    with pytest.raises(UnsupportedStatement) as caught:
        parse(text)
    assert caught.value.message == f"unsupported SQL type {kind} (use INSERT ... ON CONFLICT)"


@pytest.mark.parametrize(
    ("text", "at", "hint"),
    [
        ("", 0, "the statement is empty"),
        (" /* */ ", 7, "the statement is empty"),
        (";", 0, "SELECT, INSERT, UPDATE or DELETE"),
        ("SELCT 1", 0, "SELECT is meant"),
        ("'SELECT'", 0, "SELECT, INSERT"),
        ("`drop` table t", 0, "SELECT, INSERT"),
        ("(SELECT 1)", 0, "parentheses"),
        ("SELECT 1; SELECT 2", 10, "one statement per request"),
        ("SELECT 1 SELECT 2", 9, "cannot stand here"),
        ("SELECT 1)", 8, "cannot stand here"),
        ("EXPLAIN", 7, "empty"),
        ("EXPLAIN QUERY SELECT 1", 14, "expected PLAN"),
        ("EXPLAIN EXPLAIN SELECT 1", 8, "SELECT, INSERT"),
        ("INSERT t VALUES (1)", 7, "expected INTO"),
        ("INSERT INTO t", 13, "VALUES or SELECT"),
        ("INSERT INTO t ()", 15, "a name"),
        ("INSERT INTO t (a) SET a = 1", 18, "VALUES or SELECT"),
        ("INSERT INTO t (a,) VALUES (1)", 17, "one comma too many"),
        ("INSERT INTO t VALUES", 20, "expected ("),
        ("INSERT INTO a.b.c VALUES (1)", 15, "database.table"),
        ("INSERT INTO t VALUES (1) ON CONFLICT", 36, "expected DO"),
        ("INSERT INTO t VALUES (1) ON CONFLICT (a) DO", 43, "NOTHING or UPDATE"),
        ("INSERT INTO t VALUES (1) ON CONFLICT DO NOTHING ON CONFLICT (a) DO NOTHING", 48, "is the last one"),
        ("INSERT INTO t VALUES (1) ON DUPLICATE KEY UPDATE a = 1", 28, "ON CONFLICT"),
        ("UPDATE t a = 1", 9, "expected SET"),
        ("UPDATE t x a = 1", 9, "expected SET"),
        ("INSERT INTO t x VALUES (1)", 14, "VALUES or SELECT"),
        ("UPDATE t SET", 12, "the name of a column"),
        ("UPDATE t SET t.a = 1", 13, "no table before it"),
        ("UPDATE t SET a > 1", 15, "expected ="),
        ("UPDATE t INDEXED BY x SET a = 1", 9, "chosen by the planner"),
        ("DELETE t", 7, "expected FROM"),
        ("DELETE FROM t OFFSET 1", 14, "behind LIMIT"),
        ("DELETE FROM t WHER a", 14, "WHERE is meant"),
        ("DELETE FROM t WHER", 14, "WHERE is meant"),
        ("DELETE FROM t, u", 13, "cannot stand here"),
        ("SELECT '\ud800'", 8, "surrogate"),
    ],
)
def test_faults(text: str, at: int, hint: str) -> None:
    with pytest.raises(SqlSyntaxError) as caught:
        parse(text)
    assert (caught.value.position, hint in caught.value.hint) == (at, True), caught.value


def test_what_a_fault_says() -> None:
    with pytest.raises(SqlSyntaxError) as caught:
        parse("SELECT a\n  FORM t")
    assert caught.value.message == (
        "Invalid SQL at: t. Please ensure your SQL is valid. Try adding backticks to reserved words and schema table references."
        " (line 2, column 8: `t` cannot stand here; FROM is meant before it?)"
    )
    assert (caught.value.status_code, caught.value.code) == (400, "QUERY_SYNTAX")


def test_rows_of_an_insert_that_differ_in_length() -> None:
    with pytest.raises(Problem, match="There was a problem performing this insert") as caught:
        parse("INSERT INTO t (a) VALUES (1), (1, 2)")
    assert (caught.value.status_code, caught.value.position) == (400, 30)  # type: ignore[attr-defined]


def test_statements_are_limited_in_length() -> None:
    text = "SELECT 1"
    assert parse(text, max_length=len(text)) == parse(text)
    with pytest.raises(StatementTooLarge, match="longer than 7") as caught:
        parse(text, max_length=len(text) - 1)
    assert (caught.value.code, caught.value.position) == ("QUERY_TOO_LARGE", 7)
    with pytest.raises(StatementTooLarge, match="longer than 262144"):
        parse("SELECT 1" + " " * 262_144)


def test_messages_are_short_whatever_the_statement_is() -> None:
    long = "a" * 100_000
    for text in (long, f"SELECT 1 x {long}", f"INSERT OR {long}", f"SELECT '{long}", f"SELECT a {long} {long}", f"{'(' * 200}"):
        with pytest.raises(Problem) as caught:
            parse(text)
        assert len(caught.value.message) < 500


# What can be nested in itself: before, after, and how often that goes.
NESTED = {
    "(": ("(", ")", 100), "f(": ("f(", ")", 100), "CASE": ("CASE WHEN 1 THEN ", " END", 100), "CAST": ("CAST(", " AS INT)", 100), "-": ("- ", "", 100),
    "NOT": ("NOT ", "", 100), "IN": ("1 IN (", ")", 100), "(SELECT": ("(SELECT ", ")", 50), "FROM": ("(SELECT 1 FROM (SELECT ", "))", 25),
    "EXISTS": ("EXISTS (SELECT ", ")", 50), "IN (SELECT": ("1 IN (SELECT ", ")", 50), "OVER": ("sum(1) OVER (ORDER BY ", ")", 50),
    "WITH": ("(WITH x AS (SELECT ", ") SELECT 1)", 25), "ON": ("(SELECT 1 FROM a JOIN b ON ", ")", 33), "BETWEEN": ("1 BETWEEN ", " AND 2", 100),
    "ROW": ("(1, ", ")", 100), "TRIM": ("TRIM(", " FROM x)", 100), "all": ("a OR b AND c = d < e & f + g * h || (", ")", 11),
    "VALUES": ("(VALUES (", "))", 50), "LIMIT": ("(SELECT 1 LIMIT ", ")", 50), "JOIN": ("(SELECT 1 FROM (a JOIN b ON ", "))", 25),
    "OR": (" OR ".join("a" * 40) + " OR (", ")", 23),
}  # fmt: skip


@pytest.mark.parametrize("name", NESTED)
def test_statements_are_limited_in_depth(name: str) -> None:
    before, after, most = NESTED[name]
    text = f"SELECT {before * most}1{after * most}"
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack(0)) + FRAMES)
    try:
        tree = parse(text)
        print_statement(tree)
    finally:
        sys.setrecursionlimit(limit)
    for count in (most + 1, 150_000 // len(before + after)):
        with pytest.raises(StatementTooLarge, match="nested deeper than 100 levels"):
            parse(f"SELECT {before * count}1{after * count}")
        with pytest.raises(Problem):
            parse(f"SELECT {before * count}")


def test_long_joins_count_as_depth() -> None:
    joins = "a" + " JOIN a" * 60
    parse(f"SELECT 1 FROM {joins} ON {'(' * 30}1{')' * 30}")
    with pytest.raises(StatementTooLarge, match="nested deeper"):
        parse(f"SELECT 1 FROM {joins.replace('JOIN a', 'JOIN a ON ' + '(' * 45 + '1' + ')' * 45, 1)}")
