"""Which attributes of a record changed, and when two stored values are the same; what a merge gives."""

from typing import Any

import pytest

from svc.store.values.comparison import changed_names, same
from svc.store.values.validation import Add
from svc.store.writing.merge_rules import merge


def test_changed_names() -> None:
    assert changed_names({}, {}) == () == changed_names({"a": 1}, {"a": 1.0})
    assert changed_names({"a": 1, "b": 2}, {"b": 2}) == ("a",)
    assert changed_names({"a": None}, {}) == ("a",) == changed_names({}, {"a": None})
    assert changed_names({"a": 0, "b": [1, {"c": True}]}, {"a": False, "b": [1, {"c": 1}]}) == ("a", "b")


@pytest.mark.parametrize(
    ("a", "b", "equal"),
    [
        (1, 1.0, True), (1, True, False), (0.0, False, False), ("1", 1, False), (None, 0, False), ([1, 2], [1, 2], True), ([1], [True], False),
        ([1], [1, 2], False), ({"a": 1}, {"a": 1.0}, True), ({"a": 1}, {"b": 1}, False), ({"a": 1}, {"a": 1, "b": 2}, False), ([], {}, False),
    ],
)  # fmt: skip
def test_same(a: Any, b: Any, equal: bool) -> None:
    assert same(a, b) is equal and same(b, a) is equal


def test_merge_copies() -> None:
    record = {"a": 1}
    assert merge(record, {"a": Add(2), "b": Add(1), "c": 5}) == {"a": 3, "b": 1, "c": 5} and record == {"a": 1}


def test_changed_names_of_the_same_attributes_in_another_order() -> None:
    assert changed_names({"a": 1, "b": 2}, {"b": 2, "a": 1}) == ()
    assert changed_names({"a": 1, "b": 2}, {"b": 3, "a": 1}) == ("b",)
    assert changed_names({"a": 1, "b": "x", "c": None}, {"a": 2, "b": "x", "c": None}) == ("a",)
    assert changed_names({"a": float("nan")}, {"a": float("nan")}) == ("a",)
    assert changed_names({"a": (1,)}, {"a": (True,)}) == ()
