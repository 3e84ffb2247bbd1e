"""svc.realtime.targets: the keys that a target covers, and the index of targets."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from svc.errors import ClientError, Problem
from svc.realtime.subscription_request import SubscriptionRequest
from svc.realtime.targets import Target, TargetIndex, target_of
from svc.store.schema import Attribute, TableDefinition
from svc.store.values.keys import encode_key
from tests.support.scene import Scene

KEYS: list[Any] = ["", "a", "a/", "a/1", "a/1/x", "ab", "b", "b/1", 5, ("a", "1"), ("a", "1", "x"), ("a", 1), ("b", "1"), None]


def encoded(key: Any) -> bytes:
    return b"" if key is None else encode_key(key)


CASES: list[tuple[dict[str, Any], list[Any]]] = [
    ({}, KEYS),
    ({"only_children": True}, ["", "a", "ab", "b", 5]),
    ({"key": "a"}, ["a"]),
    ({"key": "a", "include_descendants": True}, ["a", "a/", "a/1", "a/1/x"]),
    ({"key": "a", "only_children": True}, ["a/1"]),
    ({"key": 5}, [5]),
    ({"prefix": "a/"}, ["a/", "a/1", "a/1/x"]),
    ({"prefix": "a"}, ["a/", "a/1", "a/1/x"]),
    ({"prefix": "a/", "only_children": True}, ["a/1"]),
]
SPLIT_CASES: list[tuple[dict[str, Any], list[Any]]] = [
    ({}, KEYS),
    ({"key": ("a", "1"), "include_descendants": True}, [("a", "1"), ("a", "1", "x")]),
    ({"key": "a", "include_descendants": True}, ["a", ("a", "1"), ("a", "1", "x"), ("a", 1)]),
    ({"key": "a", "only_children": True}, [("a", "1"), ("a", 1)]),
    ({"prefix": "a/"}, [("a", "1"), ("a", "1", "x"), ("a", 1)]),
    ({"prefix": "b/1/"}, []),
    ({"only_children": True}, ["", "a", "a/", "ab", "b", 5]),
]


def split_table(scene: Scene) -> Any:
    return scene.database.define_table(
        TableDefinition("Split", attributes=(Attribute("id", "String", primary_key=True),), split_segments=True)
    )


@pytest.mark.parametrize("split", [False, True])
def test_keys_that_a_target_covers(scene: Scene, split: bool) -> None:
    table = split_table(scene) if split else scene.table
    for options, covered in SPLIT_CASES if split else CASES:
        target = target_of(SubscriptionRequest(table, **options))
        found = [key for key in KEYS if target.covers(encoded(key))]
        if split and options.get("only_children") and "key" not in options:
            found = [key for key in found if "/" not in str(key) or key == "a/"]
            covered = [key for key in covered if key != "a/"]
            found = [key for key in found if key != "a/"]
        assert found == covered, options


def test_records_of_a_target_are_where_it_says(scene: Scene) -> None:
    for options, covered in CASES:
        target = target_of(SubscriptionRequest(scene.table, **options))
        inside = [
            key
            for key in KEYS
            if key is not None
            and any((low is None or low <= encoded(key)) and (high is None or encoded(key) < high) for low, high in target.ranges())
        ]
        assert set(covered) - {None} <= set(inside), options


def test_not_both_a_record_and_a_prefix(scene: Scene) -> None:
    with pytest.raises(ClientError):
        target_of(SubscriptionRequest(scene.table, key="a", prefix="a/"))
    with pytest.raises(Problem):
        target_of(SubscriptionRequest(scene.table, key=object()))  # type: ignore[arg-type]


targets = (
    st.builds(Target, st.sampled_from(KEYS[:-1]).map(encoded), st.none())
    | st.builds(Target, st.none(), st.none() | st.sampled_from(("a/", "a/1/", "b/", ("a",), ("a", "1"), ("b",))), st.booleans())
    | st.sampled_from(
        (Target(encoded("a"), "a/"), Target(encoded("a/1"), "a/1/"), Target(encoded("a"), ("a",)), Target(encoded(("a", "1")), ("a", "1")))
    )
)


@given(st.lists(targets, max_size=8), st.data())
def test_the_index_finds_all_targets_of_a_key(some: list[Target], data: st.DataObject) -> None:
    index: TargetIndex[int] = TargetIndex()
    for number, target in enumerate(some):
        index.add(target, number)
    removed = data.draw(st.sets(st.integers(0, max(len(some) - 1, 0)))) & set(range(len(some)))
    for number in removed:
        index.remove(some[number], number)
    left = [number for number in range(len(some)) if number not in removed]
    assert bool(index) is bool(left)
    for key in KEYS:
        concerned = index.find(encoded(key))
        assert len(concerned) == len(set(concerned))
        covering = [number for number in left if some[number].covers(encoded(key))]
        assert set(covering) <= set(concerned)
        assert all(some[number].only_children or number in covering for number in concerned)


def test_targets_are_keys() -> None:
    assert Target(b"a", None) == Target(b"a", None) and hash(Target(None, ("a",))) == hash(Target(None, ("a",)))
    assert len({Target(None, None), Target(None, None, True), Target(b"a", None), Target(b"a", "a/"), Target(None, "a/")}) == 5
