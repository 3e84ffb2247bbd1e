"""What holds for any text that is given to the parser of SQL, and for those that SQLite knows, too."""

from __future__ import annotations

import re
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any

import apsw

from svc.errors import Problem
from svc.sql.limits import MAX_DEPTH
from svc.sql.names import expression_name
from svc.sql.nodes import Query, Select, SelectItem, Statement
from svc.sql.parser import parse
from svc.sql.printer import print_statement
from tests.support.sql_texts import COLUMNS, DATABASE, TABLES

CODES = {"QUERY_SYNTAX", "QUERY_TOO_LARGE", "BAD_VALUE"}
# Of SQLite: not its language; and what it finds while it is parsing, so that it does not come to what follows.
_SYNTAX = re.compile(r'near ".*": syntax error|incomplete input|unrecognized token', re.DOTALL)
_EARLY = re.compile("cannot override|may not be used|not supported|must be supplied")
_EXPLAIN = re.compile(r"explain\s+(query\s+plan\s+)?", re.IGNORECASE)


def tree_height(root: object) -> int:
    """Nodes from the root to the deepest leaf."""
    highest = 0
    waiting: list[tuple[object, int]] = [(root, 1)]
    while waiting:
        node, height = waiting.pop()
        if isinstance(node, tuple):
            waiting.extend((member, height) for member in node)
        elif is_dataclass(node):
            highest = max(highest, height)
            waiting.extend((getattr(node, field.name), height + 1) for field in fields(node))
    return highest


def check_text(text: str) -> Statement | None:
    """Any text: a tree that its printed form is read back to, or a Problem that says where; None for that."""
    try:
        tree = parse(text)
    except Problem as problem:
        assert problem.status_code == 400 and problem.code in CODES, problem
        position = getattr(problem, "position", None)
        assert position is not None and 0 <= position <= len(text), (position, problem)
        return None
    printed = print_statement(tree)
    again = parse(printed, max_length=100 * len(printed))
    assert again == tree, printed
    assert print_statement(again) == printed
    assert tree_height(tree) <= 3 * MAX_DEPTH
    if isinstance(tree, Query) and isinstance(tree.first, Select):
        for item in tree.first.items:
            assert not isinstance(item, SelectItem) or expression_name(item.expression, text)
    return tree


@cache
def _sqlite() -> apsw.Connection:
    connection = apsw.Connection(":memory:")
    connection.config(apsw.SQLITE_DBCONFIG_DQS_DML, 0)
    connection.execute(f"attach ':memory:' as {DATABASE}")
    columns = ", ".join('"' + name.replace('"', '""') + '"' + (" primary key" if name == "id" else "") for name in COLUMNS)
    for table in TABLES:
        connection.execute(f'create table {DATABASE}."{table}" ({columns})')
    return connection


def sqlite_program(text: str) -> list[tuple[Any, ...]] | str:
    """What SQLite would do for a statement, or its error."""
    try:
        connection = _sqlite()
        try:
            rows = connection.execute("explain " + text).fetchall()
        except apsw.BindingsError as error:
            count = re.search(r"has (\d+) b", str(error))
            assert count
            rows = connection.execute("explain " + text, (None,) * int(count[1])).fetchall()
    except apsw.Error as error:
        return str(error)
    # A sub-select that is there twice has a signature, in which SELECT ALL differs from SELECT.
    return [(*row[:5], None if str(row[5]).startswith("subrtnsig") else row[5], *row[6:]) for row in rows]


def check_against_sqlite(text: str) -> bool:
    """A statement of SQLite's own language: it is parsed here if SQLite parses it, and what is printed means the same. Returns whether SQLite can run it."""
    tree = check_text(text)
    bare = _EXPLAIN.sub("", text, count=1) if text[:1] in "eE" else text
    if tree is None:
        answer = sqlite_program(bare)
        assert isinstance(answer, str) and (_SYNTAX.search(answer) or _EARLY.search(answer)), answer
        return False
    program = sqlite_program(bare)
    printed = sqlite_program(_EXPLAIN.sub("", print_statement(tree), count=1) if bare != text else print_statement(tree))
    if isinstance(program, str):
        assert isinstance(printed, str) and (_SYNTAX.search(program) or not _SYNTAX.search(printed)), (program, printed)
        return False
    if program != printed:
        assert not isinstance(printed, str), (bare, printed)
        different = [steps for steps in zip(program, printed, strict=False) if steps[0] != steps[1]]
        raise AssertionError(f"{bare}\n{print_statement(tree)}\n{different[:3]}")
    return True
