"""The checker of histories: known ones, and any small one beside a search through all orders."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, permutations
from math import inf

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.support.linearizability import Action, Call, Record, Refuted, State, find_order, is_explained, refuted_part, show, step

A, B, C = Record(1), Record(2), Record(3)


def put(value: Record, begin: float, end: float = inf) -> Call:
    return Call(Action("put", value), begin, end)


def get(told: State, begin: float, end: float) -> Call:
    return Call(Action("get", told=told, is_told=True), begin, end)


def told(kind: str, answer: bool | State, begin: float, end: float, value: State = None, expected: int = 0) -> Call:
    return Call(Action(kind, value, expected, answer, True), begin, end)


EXPLAINED = {
    "nothing": [],
    "one after the other": [put(A, 0, 1), get(A, 2, 3), put(B, 4, 5), get(B, 6, 7)],
    "a read beside a write finds either": [put(A, 0, 1), put(B, 2, 9), get(A, 3, 4), get(B, 5, 6)],
    "two writes beside each other, in either order": [put(A, 0, 5), put(B, 0, 5), get(A, 6, 7)],
    "a write without outcome has happened": [put(A, 0, 1), put(B, 2), get(B, 5, 6)],
    "... much later": [put(A, 0, 1), put(B, 2), get(A, 5, 6), get(A, 7, 8), get(B, 9, 10)],
    "... or never": [put(A, 0, 1), put(B, 2), get(A, 5, 6)],
    "... and explains what nobody has seen of it": [put(A, 0), told("insert", False, 1, 2, B), get(A, 3, 4)],
    "increments": [Call(Action("add", Record(n, 1)), 0, 9) for n in (1, 2)] + [get(Record(2, 2), 10, 11)],
    "one of two inserts": [told("insert", True, 0, 9, A), told("insert", False, 0, 9, B), get(A, 10, 11)],
    "a condition that failed beside the write": [put(A, 0, 1), put(B, 2, 9), told("swap", False, 3, 4, C, 1), get(B, 10, 11)],
    "a search": [
        put(Record(1, 0, "g"), 0, 1),
        told("find", None, 2, 3, Record(0, 0, "h")),
        told("find", Record(1, 0, "g"), 2, 3, Record(0, 0, "g")),
    ],
    "a deletion of a group": [put(Record(1, 0, "g"), 0, 1), Call(Action("sweep", Record(0, 0, "g")), 2, 3), get(None, 4, 5)],
    "a deletion of another group": [
        put(Record(1, 0, "g"), 0, 1),
        Call(Action("sweep", Record(0, 0, "h")), 2, 3),
        get(Record(1, 0, "g"), 4, 5),
    ],
}
REFUTED = {
    "a write is lost": [put(A, 0, 1), get(None, 2, 3)],
    "a read finds what was replaced before": [put(A, 0, 1), put(B, 2, 3), get(A, 4, 5)],
    "one read finds the new, a later one the old": [put(A, 0, 1), put(B, 2, 9), get(B, 3, 4), get(A, 5, 6)],
    "what nobody has written": [put(A, 0, 1), get(B, 2, 3)],
    "a write without outcome happens twice": [put(A, 0), put(B, 2, 3), get(A, 4, 5), put(C, 6, 7), get(A, 8, 9)],
    "... before it began": [get(A, 0, 1), put(A, 2)],
    "an increment is lost": [Call(Action("add", Record(n, 1)), 0, 9) for n in (1, 2)] + [get(Record(2, 1), 10, 11)],
    "two inserts": [told("insert", True, 0, 9, A), told("insert", True, 0, 9, B)],
    "a condition was overlooked": [put(A, 0, 1), put(B, 2, 3), told("swap", True, 4, 5, C, 1)],
    "a search misses it": [put(Record(1, 0, "g"), 0, 1), told("find", None, 2, 3, Record(0, 0, "g"))],
    "a deletion finds nothing": [put(A, 0, 1), told("delete", False, 2, 3)],
}  # fmt: skip


@pytest.mark.parametrize("name", EXPLAINED)
def test_explained(name: str) -> None:
    order = find_order(EXPLAINED[name])
    assert order is not None
    check_order(EXPLAINED[name], order)


@pytest.mark.parametrize("name", REFUTED)
def test_refuted(name: str) -> None:
    assert find_order(REFUTED[name]) is None


@pytest.mark.parametrize("name", REFUTED)
def test_the_part_that_is_refuted(name: str) -> None:
    """It ends with the first answer without which there would be an order."""
    part = refuted_part(REFUTED[name])
    assert find_order(part) is None
    last = max((call for call in part if call.end != inf), key=lambda call: call.end)
    assert find_order([call for call in part if call is not last]) is not None


def test_shown() -> None:
    assert show([told("swap", True, 1, 2, B, 1), put(A, 0)]).splitlines() == [
        "0.000000 .. inf  put Record(n=1, count=0, group='')",
        "1.000000 .. 2.000000  swap Record(n=2, count=0, group='') expected=1 -> True",
    ]


def test_many_calls_without_outcome_are_no_matter() -> None:
    """As of a server that is killed again and again: each might have happened anywhere."""
    history = [put(Record(1000 + number), number * 10) for number in range(60)]
    for number in range(300):
        history += [put(Record(number), number * 10, number * 10 + 1), get(Record(number), number * 10 + 2, number * 10 + 3)]
    assert find_order(history) is not None


def check_order(history: Sequence[Call], order: Sequence[int]) -> None:
    """That the model can do this, and that no call comes before one that had ended when it began."""
    state: State = None
    for number in order:
        after = step(state, history[number].action)
        assert not isinstance(after, Refuted)
        state = after
    assert len(set(order)) == len(order)
    assert {number for number, call in enumerate(history) if call.end != inf} <= set(order)
    for place, number in enumerate(order):
        assert all(history[later].end >= history[number].begin for later in order[place + 1 :])


def has_order(history: Sequence[Call]) -> bool:
    """By trying every order of every choice of calls."""
    known = [number for number, call in enumerate(history) if call.end != inf]
    unknown = [number for number, call in enumerate(history) if call.end == inf]
    for size in range(len(unknown) + 1):
        for some in combinations(unknown, size):
            for order in permutations((*known, *some)):
                try:
                    check_order(history, order)
                except AssertionError:
                    continue
                return True
    return False


VALUES = st.builds(Record, st.integers(1, 3), st.integers(0, 1), st.sampled_from(["", "g"]))
STATES = st.none() | VALUES
ACTIONS = st.one_of(
    st.builds(Action, st.sampled_from(["put", "add", "patch", "sweep"]), VALUES),
    st.builds(Action, st.sampled_from(["insert", "update", "bump"]), VALUES, st.just(0), st.booleans(), st.booleans()),
    st.builds(Action, st.just("swap"), VALUES, st.integers(1, 3), st.booleans(), st.booleans()),
    st.builds(Action, st.sampled_from(["delete", "remove"]), st.none(), st.integers(1, 3), st.booleans(), st.booleans()),
    st.builds(Action, st.just("get"), st.none(), st.just(0), STATES, st.just(True)),
    st.builds(Action, st.just("find"), VALUES, st.just(0), STATES, st.just(True)),
)
CALLS = st.builds(
    lambda action, begin, length: Call(action, begin, begin + length if length else inf),
    ACTIONS,
    st.integers(0, 8),
    st.integers(0, 5),
)


@settings(max_examples=300)
@given(st.lists(CALLS, max_size=5))
@example([put(A, 0, 1), put(B, 1, 2), get(A, 2, 3)])
def test_as_a_search_through_all_orders(history: list[Call]) -> None:
    order = find_order(history)
    assert (order is not None) == has_order(history)
    if order is not None:
        check_order(history, order)


@st.composite
def puts_and_gets(draw: st.DrawFn) -> list[Call]:
    """Puts of different values, some without outcome, and reads."""
    times = st.tuples(st.integers(0, 12), st.integers(0, 5))
    history = []
    for n, (begin, length) in enumerate(draw(st.lists(times, max_size=5))):
        history.append(put(Record(n), begin, begin + length if draw(st.booleans()) else inf))
    for begin, length in draw(st.lists(times, max_size=5)):
        history.append(get(draw(st.none() | st.builds(Record, st.integers(0, 5))), begin, begin + length))
    return history


@settings(max_examples=500)
@given(puts_and_gets())
def test_puts_and_gets_without_a_search(history: list[Call]) -> None:
    assert is_explained(history) == (find_order(history) is not None)


def test_many_deployments() -> None:
    """The history of one register over a whole run: a search through orders does not end."""
    history = []
    for number in range(2000):
        ended = inf if number % 3 else number * 10 + 35
        history += [put(Record(number), number * 10, ended), get(Record(number), number * 10 + 6, number * 10 + 9)]
    assert is_explained(history)
    assert not is_explained([*history, get(Record(1990), 20_100, 20_101)])
