"""Which attributes of a record differ, and when two stored values are the same."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import compress
from operator import ne
from typing import Any

from svc.store.values.records import encode_payload

_NESTING = frozenset((list, dict, set))  # kinds of values with parts that may be equal, and not in kind


def changed_names(old: Mapping[str, Any], new: Mapping[str, Any]) -> tuple[str, ...]:
    """The attributes whose stored value differs, missing ones included.

    >>> changed_names({"a": 1, "b": 1, "c": [True], "d": 0}, {"a": 1, "b": True, "c": [1], "e": 0})
    ('b', 'c', 'e', 'd')
    """
    kinds = list(map(type, new.values()))
    if (
        _NESTING.isdisjoint(kinds) and kinds == list(map(type, old.values())) and list(new) == list(old)
    ):  # most records that replace another
        return tuple(compress(new, map(ne, old.values(), new.values())))
    changed = [name for name, value in new.items() if name not in old or not same(old[name], value)]
    if not old.keys() <= new.keys():
        changed += [name for name in old if name not in new]
    return tuple(changed)


def same(a: Any, b: Any) -> bool:
    """Equal, and equal in kind: True is not 1, at any depth; 1 is 1.0."""
    kind = type(a)
    if kind is not type(b):
        return bool(a == b) and kind is not bool and type(b) is not bool
    if kind is list:
        return len(a) == len(b) and all(map(same, a, b))
    if kind is dict:
        return len(a) == len(b) and all(name in b and same(value, b[name]) for name, value in a.items())
    if kind is set:
        return len(a) == len(b) and encode_payload(a) == encode_payload(b)
    return bool(a == b)
