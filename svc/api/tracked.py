"""Objects and lists of an updatable record: changing one marks the attribute it belongs to as changed (spec: applications §4)."""

from __future__ import annotations

from collections.abc import Callable
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
        if type(value) is dict or type(value) is list:
            value = track(value, self._changed)
            super().__setitem__(name, value)
        return value

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
        if type(value) is dict or type(value) is list:
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

    def copy(self) -> list[Any]:
        return plain(self)  # type: ignore[no-any-return]

    def __deepcopy__(self, memo: Any) -> list[Any]:
        return self.copy()

    def __reduce__(self) -> Any:
        return list, (self.copy(),)


def track(value: Any, changed: Changed) -> Any:
    """`value`, whose changes are reported by `changed()`, before they happen; those of what is inside as well."""
    kind = type(value)
    if kind is dict:
        return TrackedDict(value, changed)
    return TrackedList(value, changed) if kind is list else value


def plain(value: Any) -> Any:
    """A copy without tracking, to be stored."""
    if isinstance(value, dict):
        return {name: plain(member) for name, member in dict.items(value)}
    return [plain(element) for element in list.__iter__(value)] if isinstance(value, list) else value
