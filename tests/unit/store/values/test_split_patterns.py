"""svc.store.values.split_patterns: what is split in linear time, and as Python's own engine does."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from svc.errors import SchemaError
from svc.store.values.expression import compile_expression
from svc.store.values.split_patterns import NotLinear, compile_split

ALLOWED = [
    ",", "[,;] *", "[ -]+", " *, *", r"\s+", r"\s*;\s*", r"\r\n|\n|\r", r"[^,]+", r"\W+", "a|b|,", r"\d{2}", "x?", r"\.", "[]a]", r"[\]-]+", ", ?", r"\bx",
    r"\s*[|/]\s*", "[a-c]*d*", r"\x2c+", "a{2,}", "a*b", "", "x[^x,]*,", " *", ".", "a{", "a{}",
]  # fmt: skip
REFUSED = [
    "[,;]*,", "(a|aa)+$", "(,)", "(?:a)", "a.*b", r"\w+\s", r"[\d]+,|;", ".*,", "a+a", "a?a?a?a", "x[^,]*,", r"\s+$", "a*^", r",*\b", "a*?", "a++",
    "(?i)a", r"(a)\1", "a(?=b)",
    " * *,", r"[a-c\s]*,? *b", "a{0,60}b{0,60}c", "a{200}", "a+b|c+b", r".{2}[a-c\s]*$", r"\w*\d", "a[ab]*c", r"[\s,]*,",
]  # fmt: skip
ATOMS = ["a", "b", ",", r"\s", r"\w", "[ab]", "[^,]", ".", "[,;]", r"\d", " ", r"\b", "^", "$", r"[a-c\s]", r"\W"]
COUNTS = ["", "", "*", "+", "?", "{2}", "{1,3}", "{2,}"]
patterns = st.lists(
    st.lists(st.tuples(st.sampled_from(ATOMS), st.sampled_from(COUNTS)), min_size=1, max_size=4), min_size=1, max_size=2
).map(lambda alternatives: "|".join("".join(atom + count for atom, count in items) for items in alternatives))


@pytest.mark.parametrize("pattern", ALLOWED)
def test_patterns_of_every_day(pattern: str) -> None:
    split = compile_split(pattern)
    for text in ("", "a", "a, b ;c", " , ,, ", "x1.2\r\n3 |/-]", "aaaa bb ,, a", "x--,x"):
        for maxsplit in (0, 1, 3):
            assert split(text, maxsplit) == re.split(pattern, text, maxsplit=maxsplit)


@pytest.mark.parametrize("pattern", REFUSED)
def test_what_may_take_longer_is_refused(pattern: str) -> None:
    with pytest.raises(NotLinear):
        compile_split(pattern)
    with pytest.raises(SchemaError, match=r"could take more than linear time: .*documentation of computed attributes"):
        compile_expression(f"re.split({pattern!r}, text)")


@given(patterns, st.text("aab, ;1 \n\u00e9\u00a0", max_size=14), st.sampled_from((0, 1, 2)))
def test_the_result_is_that_of_python(pattern: str, text: str, maxsplit: int) -> None:
    try:
        expected = re.split(pattern, text, maxsplit=maxsplit)
        split = compile_split(pattern)
    except (re.error, NotLinear):
        return
    assert split(text, maxsplit) == expected


def test_blanks_in_front_of_a_separator_are_read_once() -> None:
    """The repetition is not part of what the engine looks for."""
    blanks = " " * 30_000
    assert compile_split(" *, *")(blanks, 0) == [blanks]
    assert compile_split(r"\s*,\s*")(f"{blanks},{blanks}x", 0) == ["", "x"]
