"""Statements that differ in their literals."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from svc.sql.bound import BoundQuery
from svc.sql.lexer import tokens_of
from svc.sql.shapes import ShapeCache, shape_of


class Prepared:
    """`constants` and `holes` as binding has them."""

    def __init__(self, constants: tuple[Any, ...] = (), holes: tuple[int | None, ...] = (), parameters: tuple[int | str, ...] = ()) -> None:
        self.bound: BoundQuery | None = BoundQuery("", (), parameters, constants=constants, holes=holes)
        self.is_current = True


def cache_with(text: str, *literals: tuple[Any, str], most: int = 10) -> ShapeCache[Prepared]:
    """That has seen a statement, with holes for these literals: (value, as written)."""
    found: ShapeCache[Prepared] = ShapeCache(most)
    shape = shape_of(text)
    assert shape is not None
    found.learn(shape, "key", Prepared(tuple(value for value, _ in literals), tuple(text.index(written) for _, written in literals)))
    return found


def values_in(cache: ShapeCache[Prepared], text: str, key: str = "key") -> tuple[Any, ...] | None:
    shape = shape_of(text)
    found = None if shape is None else cache.find(shape, key)
    return None if found is None else found[1]


# --- cutting ------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("a = 'x'", ["x"]),
        ("a='it''s' or b=''", ["it's", ""]),
        ("''''", ["'"]),
        ("'-- \"`[?:@${/*'", ['-- "`[?:@${/*']),
        ("'é\0😀'", ["é\0😀"]),
        ("a=-5", [5]),
        ("1,2.50,007", [1, 2.5, 7]),
        ("in(1,'2',3)", [1, "2", 3]),
        ("999999999999999999, 1.123456789012345", [999999999999999999, 1.123456789012345]),
        ("1000000000000000000, 1.1234567890123456, 5", [5]),
        ("c1, t.c2, 1e5, 1e-5, 1.e+5, .5, 1., 1_000, 0x10, 1a, 1.5.2, 1e 2", [2]),
        ("1-2", [1, 2]),
        ("1 .5", [1]),
        ("1'a'1", None),
        ("'a'1", ["a", 1]),
        ("'true' 'x'", ["true", "x"]),
    ],
)
def test_literals(text: str, values: list[Any] | None) -> None:
    found = shape_of(text)
    assert (None if found is None else found.values) == values
    assert found is None or list(map(type, found.values)) == list(map(type, values or []))


@pytest.mark.parametrize(
    "text",
    [
        "a = b", "", "1 -- b", "1 /* b */", '1 "b"', "1 `b`", "1 [b]", "1 ?", "1 :b", "1 @b", "1 $b", "1 b$", "1 {", "1 é", "1 \0", "1 \0t", "'a' 'b",
        "'a''", "'a '' b", "x'ff' 1", "X'ff' 1", "a'ff' 1", "'\ud800'", ",".join(["1"] * 65),
    ],
)  # fmt: skip
def test_texts_without_a_shape(text: str) -> None:
    assert shape_of(text) is None


def test_keys() -> None:
    def key(text: str) -> str:
        found = shape_of(text)
        assert found is not None
        return found.key

    assert key("a = 'x' and b = 5") == key("a = '' and b = 0")
    assert len({key(text) for text in ("a = 'x'", "a = 1", "a = 1.0", "a  = 'x'", "A = 'x'", "a = 'true'", "a = 'FALSE'", "a = -1")}) == 8
    assert key(",".join(["1"] * 64))


PIECES = [
    "'", "''", "'a'", "'it''s'", "x'ff'", "X'", "x", "e", "E", "1", "12", "5", "0", ".", "-", "+", "1.5", ".5", "1.", "1e5", "1e-5", "1_0", "_", "a", "c1",
    " ", "\n", ",", "(", ")", "--", "-", "/", "*", "/*", "*/", '"', "`", "[", "]", "?", "?1", ":", ":a", "@", "$", "{", "=", "->>", "é", "\xa0", "\0", "\0t",
    "\ud800", "'é'", "select", "in", "0x1", "'true'", "999999999999999999", "1.123456789012345", "#", ";",
]  # fmt: skip
LITERALS = {
    str: ["''", "'b'", "'--'", "' '' '", "'\"'", "'é'", "'\0t'"],
    int: ["0", "7", "007", "9" * 18],
    float: ["0.0", "1.5", "9" * 18 + "." + "9" * 15],
}


@given(st.lists(st.sampled_from(PIECES), max_size=12).map("".join) | st.text(alphabet="'xe1.5-+_a $/*\"\0", max_size=20), st.randoms())
@example("1e-5 'a'", None)
@example("1.e+5,1", None)
@example("x' ' 'a' '", None)
@example("-- it's 'a'\n1", None)
def test_literals_are_tokens_and_other_values_change_no_other_token(text: str, random: Any) -> None:
    shape = shape_of(text)
    if shape is None:
        return
    others = [LITERALS[type(value)][0 if random is None else random.randrange(len(LITERALS[type(value)]))] for value in shape.values]
    rest = shape.parts[::2]
    assert "".join([part for pair in zip(rest, [*shape.literals, ""], strict=True) for part in pair]) == text
    other = "".join([part for pair in zip(rest, [*others, ""], strict=True) for part in pair])
    starts = [sum(map(len, rest[: index + 1])) + sum(map(len, shape.literals[:index])) for index in range(len(shape.literals))]
    tokens, kinds, places = tokens_of(text)
    other_tokens, other_kinds, _ = tokens_of(other)
    assert kinds == other_kinds
    literal_of = dict(zip(starts, zip(shape.literals, others, strict=True), strict=True))
    for token, other_token, kind, place in zip(tokens, other_tokens, kinds, places, strict=False):
        expected = literal_of.pop(place, None)
        assert (token, other_token) == (expected or (token, token))
        assert expected is None or kind == ("text" if token[0] == "'" else "number")
    assert not literal_of


# --- what is known ------------------------------------------------------------------------------------------------------------------------


def test_values_of_holes_in_the_order_of_the_constants() -> None:
    cache = cache_with("a = 1.5 and b = 'x' and c = 2 limit 3", (2, "2"), ("x", "'x'"), (1.5, "1.5"))
    assert values_in(cache, "a = 2.50 and b = 'it''s' and c = 9 limit 3") == (9, "it's", 2.5)
    assert values_in(cache, "a = 2.5 and b = 'y' and c = 9 limit 4") is None
    assert values_in(cache, "a = 2.5 and b = 'y' and c = 9 limit 03") is None  # it may be part of a name
    assert values_in(cache, "a = 2 and b = 'y' and c = 9 limit 3") is None
    assert values_in(cache, "a = 2.5 and b = 'y' and c = 9 limit 3", "other") is None


def test_each_value_of_what_is_no_hole_has_its_statement() -> None:
    cache = cache_with("a = 1 limit 3", (1, "1"))
    shape = shape_of("a = 7 limit 4")
    assert shape is not None
    other = Prepared((7,), (4,))
    cache.learn(shape, "key", other)
    assert cache.find(shape, "key") == (other, (7,))
    assert values_in(cache, "a = 5 limit 3") == values_in(cache, "a = 5 limit 4") == (5,)
    cache.clear()
    assert values_in(cache, "a = 5 limit 3") is None


def test_a_minus_is_part_of_the_value() -> None:
    cache = cache_with("a = -1 and b = - 2.5 and c = '-'", (-1, "-1"), (-2.5, "- 2.5"))
    assert values_in(cache, "a = -7 and b = - 0.5 and c = '-'") == (-7, -0.5)
    assert values_in(cache, "a = 7 and b = - 0.5 and c = '-'") is None


@pytest.mark.parametrize(
    "prepared",
    [
        Prepared(),
        Prepared((1,), (4,), (1,)),
        Prepared((1,), (None,)),
        Prepared((1, "\0"), (4, None)),
        Prepared((1,), (3,)),
        Prepared((1,), (0,)),
        Prepared((1,), (5,)),
        Prepared((1,), (400,)),
        Prepared((2,), (4,)),
        Prepared((True,), (4,)),
        Prepared((1.0,), (4,)),
    ],
)
def test_statements_that_stand_for_no_other(prepared: Prepared) -> None:
    shape = shape_of("a = 1 limit 3")
    assert shape is not None
    cache: ShapeCache[Prepared] = ShapeCache(10)
    cache.learn(shape, "key", prepared)
    assert cache.find(shape, "key") is None
    prepared.bound = None
    cache.learn(shape, "key", prepared)
    assert cache.find(shape, "key") is None


def test_what_is_not_current_is_not_found_and_makes_room_for_what_is() -> None:
    cache = cache_with("a = 1 limit 3", (1, "1"))
    shape = shape_of("a = 2 limit 3")
    assert shape is not None
    found = cache.find(shape, "key")
    assert found is not None
    found[0].is_current = False
    assert cache.find(shape, "key") is None
    other = Prepared((3,), (12,))  # now the other literal is a hole
    cache.learn(shape, "key", other)
    assert cache.find(shape, "key") == (other, (3,))
    assert values_in(cache, "a = 2 limit 8") == (8,)
    assert values_in(cache, "a = 1 limit 8") is None


def test_the_oldest_are_forgotten() -> None:
    cache = cache_with("a = 1", (1, "1"), most=2)
    for text in ("b = 1", "b = 2", "c = 1"):
        shape = shape_of(text)
        assert shape is not None
        cache.learn(shape, "key", Prepared((int(text[-1]),), (4,)))
    assert [values_in(cache, f"{name} = 5") for name in "abc"] == [None, (5,), (5,)]
    for limit in (1, 2, 3):
        shape = shape_of(f"a = 1 limit {limit}")
        assert shape is not None
        cache.learn(shape, "key", Prepared((1,), (4,)))
    assert [values_in(cache, f"a = 5 limit {limit}") for limit in (1, 2, 3)] == [None, (5,), (5,)]
