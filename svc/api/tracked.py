"""Objects, lists and sets of an updatable record: changing one marks the attribute it belongs to as changed (spec: applications §4)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, SupportsIndex

Changed = Callable[[], None]


def _tracked_method(name: str, base: type) -> Any:
    """A method of `base` that changes it, and says so."""
    original = getattr(base, name)

    def method(self: Any, *arguments: Any, **options: Any) -> Any:
        self._changed()
        result = original(self, *arguments, **options)
        return self if result is self else result

    method.__name__ = name
    method.__doc__ = original.__doc__
    return method


class TrackedDict(dict[Any, Any]):
    """An object inside an updatable record."""

    __slots__ = ("_changed",)

    def __init__(self, members: dict[Any, Any], changed: Changed) -> None:
        super().__init__(members)
        self._changed = changed

    __setitem__ = _tracked_method("__setitem__", dict)
    __delitem__ = _tracked_method("__delitem__", dict)
    __ior__ = _tracked_method("__ior__", dict)
    clear = _tracked_method("clear", dict)
    pop = _tracked_method("pop", dict)
    popitem = _tracked_method("popitem", dict)
    setdefault = _tracked_method("setdefault", dict)
    update = _tracked_method("update", dict)

    def __getitem__(self, name: Any) -> Any:
        value = super().__getitem__(name)
        if type(value) in TRACKED:
            value = track(value, self._changed)
            super().__setitem__(name, value)
        return value

    def __iter__(self) -> Iterator[Any]:
        """Its own, so that `dict(x)` and `{**x}` ask for the members as well."""
        return super().__iter__()

    def __or__(self, other: Any) -> Any:
        return {**self, **other} if isinstance(other, dict) else NotImplemented

    def __ror__(self, other: Any) -> Any:
        return {**other, **self} if isinstance(other, dict) else NotImplemented

    def get(self, name: Any, default: Any = None) -> Any:
        return self[name] if name in self else default  # noqa: SIM401 - `get` itself

    def values(self) -> Any:
        return [self[name] for name in self]

    def items(self) -> Any:
        return [(name, self[name]) for name in self]

    def copy(self) -> dict[Any, Any]:
        return plain(self)  # type: ignore[no-any-return]

    def __deepcopy__(self, memo: Any) -> dict[Any, Any]:
        return self.copy()

    def __reduce__(self) -> Any:
        return dict, (self.copy(),)


class TrackedList(list[Any]):
    """A list inside an updatable record."""

    __slots__ = ("_changed",)

    def __init__(self, elements: list[Any], changed: Changed) -> None:
        super().__init__(elements)
        self._changed = changed

    __setitem__ = _tracked_method("__setitem__", list)
    __delitem__ = _tracked_method("__delitem__", list)
    __iadd__ = _tracked_method("__iadd__", list)
    __imul__ = _tracked_method("__imul__", list)
    append = _tracked_method("append", list)
    clear = _tracked_method("clear", list)
    extend = _tracked_method("extend", list)
    insert = _tracked_method("insert", list)
    pop = _tracked_method("pop", list)
    remove = _tracked_method("remove", list)
    reverse = _tracked_method("reverse", list)
    sort = _tracked_method("sort", list)

    def _at(self, index: SupportsIndex) -> Any:
        value = super().__getitem__(index)
        if type(value) in TRACKED:
            value = track(value, self._changed)
            super().__setitem__(index, value)
        return value

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self._at(position) for position in range(*index.indices(len(self)))]
        return self._at(index)

    def __iter__(self) -> Any:
        position = 0
        while position < len(self):
            yield self._at(position)
            position += 1

    def __reversed__(self) -> Iterator[Any]:
        for position in range(len(self) - 1, -1, -1):
            if position < len(self):
                yield self._at(position)

    def __add__(self, other: Any) -> Any:
        return [*self, *other] if isinstance(other, list) else NotImplemented

    def __radd__(self, other: Any) -> Any:
        return [*other, *self] if isinstance(other, list) else NotImplemented

    def __mul__(self, count: SupportsIndex) -> list[Any]:
        return [*self] * count

    __rmul__ = __mul__

    def copy(self) -> list[Any]:
        return plain(self)  # type: ignore[no-any-return]

    def __deepcopy__(self, memo: Any) -> list[Any]:
        return self.copy()

    def __reduce__(self) -> Any:
        return list, (self.copy(),)


class TrackedSet(set[Any]):
    """A set inside an updatable record."""

    __slots__ = ("_changed",)

    def __init__(self, elements: set[Any], changed: Changed) -> None:
        super().__init__(elements)
        self._changed = changed

    __iand__ = _tracked_method("__iand__", set)
    __ior__ = _tracked_method("__ior__", set)
    __isub__ = _tracked_method("__isub__", set)
    __ixor__ = _tracked_method("__ixor__", set)
    add = _tracked_method("add", set)
    clear = _tracked_method("clear", set)
    difference_update = _tracked_method("difference_update", set)
    discard = _tracked_method("discard", set)
    intersection_update = _tracked_method("intersection_update", set)
    pop = _tracked_method("pop", set)
    remove = _tracked_method("remove", set)
    symmetric_difference_update = _tracked_method("symmetric_difference_update", set)
    update = _tracked_method("update", set)

    def copy(self) -> set[Any]:
        return set(self)

    def __reduce__(self) -> Any:
        return set, (list(self),)


TRACKED = frozenset((dict, list, set))  # types of values that are tracked


def track(value: Any, changed: Changed) -> Any:
    """`value`, whose changes are reported by `changed()`, before they happen; those of what is inside as well."""
    kind = type(value)
    if kind is dict:
        return TrackedDict(value, changed)
    if kind is list:
        return TrackedList(value, changed)
    return TrackedSet(value, changed) if kind is set else value


def plain(value: Any) -> Any:
    """A copy without tracking, to be stored."""
    if isinstance(value, dict):
        return {name: plain(member) for name, member in dict.items(value)}
    if isinstance(value, list):
        return [plain(element) for element in list.__iter__(value)]
    return set(value) if isinstance(value, TrackedSet) else value
