"""The order of listeners against what is said of it, for made-up wishes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from svc.listeners.options import ListenerOptions
from svc.listeners.order import ordered
from svc.listeners.routes import Route
from svc.listeners.step import BUILT_IN, Step


def built_in() -> list[Step]:
    return [Step(name) for name in BUILT_IN]


def step(rank: int, *, name: str, particular: tuple[int, int] = (0, 0), **wish: Any) -> Step:
    """`particular`: of its route: whether it has a host, and the segments of its path."""
    route = Route("a" * particular[0], ("b",) * particular[1])
    return Step(name, route=route, rank=(0, rank), options=ListenerOptions(**wish))


def arrange(*wishes: dict[str, Any]) -> tuple[list[str], list[str]]:
    """(the names in their order, the warnings)."""
    listeners = [step(rank, **wish) for rank, wish in enumerate(wishes)]
    warnings: list[str] = []
    found = ordered(listeners, built_in(), routed_after="authentication", warn=warnings.append)
    return [each.name for each in found], warnings


@pytest.mark.parametrize(
    ("wishes", "order"),
    [
        ([{"name": "a"}, {"name": "b"}], [*BUILT_IN, "a", "b"]),
        ([{"name": "a", "run_first": True}, {"name": "b", "run_first": True}], ["b", "a", *BUILT_IN]),
        ([{"name": "a", "before": "rest"}, {"name": "b", "before": "rest"}], ["static", "authentication", "graphql", "a", "b", "rest"]),
        ([{"name": "a", "after": "static"}, {"name": "b", "after": "static"}], ["static", "a", "b", "authentication", "graphql", "rest"]),
        ([{"name": "a", "before": "rest", "run_first": True}], ["static", "authentication", "graphql", "a", "rest"]),
        ([{"name": "a", "after": "b"}, {"name": "b", "before": "static"}], ["b", "a", *BUILT_IN]),
        (
            [{"name": "a", "after": "authentication", "before": "rest"}],
            ["static", "authentication", "graphql", "a", "rest"],
        ),
        (
            [{"name": "path", "particular": (0, 1)}, {"name": "both", "particular": (1, 1)}, {"name": "host", "particular": (1, 0)}],
            ["static", "authentication", "both", "host", "path", "graphql", "rest"],
        ),
        (
            [
                {"name": "all", "after": "rest"},
                {"name": "root", "after": "rest", "particular": (0, 1)},
                {"name": "long", "after": "rest", "particular": (0, 3)},
                {"name": "short", "after": "rest", "particular": (0, 2)},
                {"name": "later", "after": "rest"},
            ],
            [*BUILT_IN, "long", "short", "root", "all", "later"],
        ),
        (
            [{"name": "b", "before": "rest", "particular": (0, 2)}, {"name": "a", "before": "rest", "particular": (0, 3)}],
            ["static", "authentication", "graphql", "a", "b", "rest"],
        ),
        ([{"name": "a"}, {"name": "a"}, {"name": "b", "before": "a"}, {"name": "c", "after": "a"}], [*BUILT_IN, "b", "a", "a", "c"]),
        ([{"name": "shop"}, {"name": "shop", "before": "shop"}], [*BUILT_IN, "shop", "shop"]),
    ],
)
def test_places(wishes: list[dict[str, Any]], order: list[str]) -> None:
    assert arrange(*wishes) == (order, [])


def test_a_name_that_nobody_has_is_said_and_counts_for_nothing() -> None:
    order, warnings = arrange(
        {"name": "a", "before": "nobody"}, {"name": "b", "after": "nobody", "before": "rest"}, {"name": "c", "after": "c"}
    )
    assert order == ["static", "authentication", "graphql", "b", "rest", "a", "c"]
    assert len(warnings) == 3
    assert warnings[0] == "there is no listener 'nobody', before which 'a' wants to be"


def test_those_in_a_circle_stay_as_they_were_registered_and_others_may_follow_them() -> None:
    order, warnings = arrange({"name": "a", "before": "b"}, {"name": "b", "before": "a"}, {"name": "c", "before": "a"}, {"name": "d"})
    assert order == [*BUILT_IN, "c", "a", "b", "d"]
    assert len(warnings) == 1
    assert "'a', 'b'" in warnings[0]


def test_who_wants_to_be_behind_what_it_wants_to_be_before_stays() -> None:
    order, warnings = arrange({"name": "a", "after": "rest", "before": "static"}, {"name": "b"})
    assert order == [*BUILT_IN, "a", "b"]
    assert len(warnings) == 1


NAMES = st.sampled_from(["a", "b", "c", *BUILT_IN])
WISHES = st.lists(
    st.fixed_dictionaries(
        {"name": st.sampled_from(["a", "b", "c", "d"])},
        optional={
            "run_first": st.booleans(),
            "before": st.one_of(NAMES, st.just("nobody")),
            "after": NAMES,
            "particular": st.sampled_from([(0, 0), (0, 1), (0, 2), (1, 0)]),
        },
    ),
    max_size=8,
)


def depends(wish: dict[str, Any]) -> set[str]:
    return {wish[word] for word in ("before", "after") if word in wish}


@given(WISHES)
def test_each_is_asked_once_and_those_without_wishes_as_a_simple_list_would_have_them(wishes: list[dict[str, Any]]) -> None:
    listeners = [step(number, **wish) for number, wish in enumerate(wishes)]
    steps = built_in()
    found = ordered(listeners, steps, routed_after="authentication")
    assert len(found) == len(listeners) + len(steps)
    assert {*found} == {*listeners, *steps}
    front: list[Step] = []
    routed: list[Step] = []
    behind: list[Step] = []
    for each in listeners:
        if each.options.before is None and each.options.after is None:
            if each.options.run_first:
                front.insert(0, each)
            elif each.route.particular:
                routed.append(each)
            else:
                behind.append(each)
    for length in ((0, 1), (0, 2), (1, 0)):  # each more particular than those before
        routed = [each for each in routed if each.route.particular == length] + [each for each in routed if each.route.particular != length]
    plain = [each for each in found if each.options.before is None and each.options.after is None]
    assert plain == [*front, *steps[:2], *routed, *steps[2:], *behind]


@given(WISHES)
def test_wishes_come_true_unless_a_warning_says_otherwise(wishes: list[dict[str, Any]]) -> None:
    listeners = [step(number, **wish) for number, wish in enumerate(wishes)]
    warnings: list[str] = []
    found = ordered(listeners, built_in(), routed_after="authentication", warn=warnings.append)
    if warnings:
        return
    for each in listeners:
        at = found.index(each)
        others = [(number, other.name) for number, other in enumerate(found) if other is not each]
        if each.options.after is not None:
            assert all(number < at for number, name in others if name == each.options.after)
        if each.options.before is not None:
            assert at < min(number for number, name in others if name == each.options.before)


@given(WISHES)
def test_only_wishes_for_each_other_and_unknown_names_are_warned_of(wishes: list[dict[str, Any]]) -> None:
    """Without a circle of names, without unknown ones and without double wishes, nothing is wrong."""
    wishes = [{key: value for key, value in wish.items() if key != "after" or "before" not in wish} for wish in wishes]
    have = {wish["name"] for wish in wishes} | set(BUILT_IN)
    edges = {(wish["name"], name) for wish in wishes for name in depends(wish)}
    reached = set(edges)
    while True:
        more = {(a, d) for a, b in reached for c, d in reached if b == c} - reached
        if not more:
            break
        reached |= more
    warnings = arrange(*wishes)[1]
    if all(a != b for a, b in reached) and all(depends(wish) <= have for wish in wishes):
        assert warnings == []


def test_ranks_and_not_the_list_decide_who_was_first() -> None:
    late, early = Step("late", rank=(1, 0)), Step("early", rank=(0, 5))
    assert ordered([late, early]) == [early, late]
