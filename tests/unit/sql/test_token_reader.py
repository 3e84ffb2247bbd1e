from __future__ import annotations

import pytest

from svc.errors import Problem
from svc.sql.errors import SqlSyntaxError
from svc.sql.limits import MAX_DEPTH
from svc.sql.token_reader import TokenReader


def test_tokens_are_taken_or_needed() -> None:
    reader = TokenReader("SELECT a, b")
    assert not reader.take("FROM")
    assert reader.take("SELECT") and (reader.name(), reader.at, reader.last_end) == ("a", 8, 8)
    reader.need(",")
    with pytest.raises(SqlSyntaxError, match=r"expected \)") as caught:
        reader.need(")")
    assert caught.value.position == 10
    assert repr(reader) == "<TokenReader 'SELECT a, ' | 'b'>"


def test_names_lose_their_quotes() -> None:
    reader = TokenReader('a "b""c" `d``e` [f g] key')
    assert [reader.name() for _ in range(5)] == ["a", 'b"c', "d`e", "f g", "key"]
    reader = TokenReader("order order")
    assert reader.name_behind_dot() == "order"
    with pytest.raises(SqlSyntaxError):
        reader.name()


def test_names_in_parentheses() -> None:
    assert TokenReader("(a, `b`)").names() == ("a", "b")
    for text in ("()", "(a", "(a,)", "a"):
        with pytest.raises(SqlSyntaxError):
            TokenReader(text).names()


def test_another_member_of_a_list() -> None:
    reader = TokenReader(", a")
    with pytest.raises(Problem, match="more than 3"):
        reader.another(3, 3)
    assert reader.another(2, 3)
    assert not reader.another(2, 3)


def test_levels_are_counted_from_the_deepest_operand() -> None:
    reader = TokenReader("")
    first = reader.open_level()
    for depth in (1, 3, 2):
        levels = [reader.open_level() for _ in range(depth)]
        for outer in reversed(levels):
            reader.close_level(outer)
            reader.settle()
    reader.close_level(first)
    assert (reader.height, reader.depth) == (4, 0)
    reader.settle()
    assert (reader.tallest, reader.height) == (4, 0)


def test_levels_are_limited() -> None:
    reader = TokenReader("")
    for _ in range(MAX_DEPTH):
        reader.open_level()
    with pytest.raises(Problem, match="deeper"):
        reader.open_level()
    reader = TokenReader("")
    reader.height = MAX_DEPTH + 1
    with pytest.raises(Problem, match="deeper"):
        reader.settle()
