"""Patterns of keys, against regular expressions and a plain list."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from svc.realtime.patterns import REMEMBERED, REMEMBERED_ITEMS, STEP, Pattern, PatternIndex, covers
from svc.store.values.keys import encode_key

levels = st.lists(st.sampled_from(("a", "b", "")), min_size=1, max_size=4).map(tuple)
patterns = st.tuples(st.lists(st.sampled_from(("a", "b", "+")), max_size=3), st.sampled_from(("+", "#", "a"))).map(
    lambda each: (*each[0], each[1])
)


def expression(pattern: Pattern) -> str:
    """Of what is in front of the levels: each with a slash before it."""
    return "".join("/[^/]*" if level == "+" else "(?:/.*)?" if level == "#" else f"/{level}" for level in pattern)


@given(patterns, levels)
def test_what_a_pattern_covers(pattern: Pattern, key: Pattern) -> None:
    assert covers(pattern, key) == (re.fullmatch(expression(pattern), "/" + "/".join(key)) is not None)


class Index(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.index: PatternIndex[int] = PatternIndex()
        self.items: dict[int, Pattern] = {}
        self.number = 0

    @rule(pattern=patterns)
    def add(self, pattern: Pattern) -> None:
        self.number += 1
        self.items[self.number] = pattern
        self.index.add(pattern, self.number)

    @rule(choice=st.randoms(use_true_random=False))
    def remove(self, choice: object) -> None:
        if self.items:
            number = choice.choice(sorted(self.items))  # type: ignore[attr-defined]
            self.index.remove(self.items.pop(number), number)

    @rule(key=levels)
    def find(self, key: Pattern) -> None:
        expected = sorted(number for number, pattern in self.items.items() if covers(pattern, key))
        for _ in range(2):  # what is remembered is the same
            assert sorted(each for each in self.index.find(encode_key("/".join(key)), key) if each is not None) == expected

    @invariant()
    def nothing_is_left(self) -> None:
        assert bool(self.index) == bool(self.items)


TestIndex = Index.TestCase


def test_what_is_remembered_is_bounded() -> None:
    index: PatternIndex[int] = PatternIndex()
    index.add(("+",), 1)
    for number in range(REMEMBERED + 10):
        assert list(index.find(encode_key(number), (str(number),))) == [1]
    assert len(index._known) <= REMEMBERED
    for number in range(REMEMBERED_ITEMS // 10):
        index.add(("+", "#"), number)
    for number in range(30):
        assert len(list(index.find(encode_key(number), (str(number),)))) == REMEMBERED_ITEMS // 10 + 1
    assert sum(map(len, index._known.values())) == index._items <= REMEMBERED_ITEMS


def test_looking_for_patterns_gives_way() -> None:
    """Filters that a client has made so that one key leads through very many of them, and that cover nothing or all."""
    for end in ("x", "#"):
        index: PatternIndex[int] = PatternIndex()
        for number in range(2**13):
            index.add((*("+" if number >> bit & 1 else "a" for bit in range(13)), end), number)
        levels = ("a",) * 14
        found = sum(each is not None for each in index.find(encode_key("/".join(levels)), levels))
        assert found == (2**13 if end == "#" else 0)
        nones = sum(each is None for each in index._find(b"", levels))
        assert nones >= 2**13 // STEP


def test_what_changes_while_it_is_looked_for_is_not_remembered() -> None:
    index: PatternIndex[int] = PatternIndex()
    for number in range(STEP * 2):
        index.add((*("+" if number >> bit & 1 else "a" for bit in range(10)), "a"), number)
    levels = ("a",) * 11
    finding = iter(index.find(encode_key("k"), levels))
    assert next(finding) is None
    index.add(("#",), -1)
    assert -1 not in list(finding)
    assert -1 in list(index.find(encode_key("k"), levels))
