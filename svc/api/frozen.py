"""Values that cannot be changed: what records that were read hold (spec: applications §4)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NoReturn, SupportsIndex


def _refuse(self: Any, *arguments: Any, **options: Any) -> NoReturn:
    raise TypeError("a record that was read cannot be changed: use update(), or a copy of it, {**record}")


class FrozenDict(dict[str, Any]):
    """An object inside a record that was read."""

    __slots__ = ()

    __setitem__ = __delitem__ = __ior__ = clear = pop = popitem = setdefault = update = _refuse

    def __getitem__(self, name: str) -> Any:
        return freeze(super().__getitem__(name))

    def __iter__(self) -> Iterator[str]:
        """Its own, so that `dict(x)` and `{**x}` ask for the members as well."""
        return super().__iter__()

    def __or__(self, other: Any) -> Any:
        return {**self, **other} if isinstance(other, dict) else NotImplemented

    def __ror__(self, other: Any) -> Any:
        return {**other, **self} if isinstance(other, dict) else NotImplemented

    def get(self, name: str, default: Any = None) -> Any:
        return freeze(super().get(name, default))

    def values(self) -> Any:
        return [freeze(value) for value in super().values()]

    def items(self) -> Any:
        return [(name, freeze(value)) for name, value in super().items()]

    def copy(self) -> dict[str, Any]:
        """A copy that may be changed, with all that is in it."""
        return {name: thaw(value) for name, value in super().items()}

    def __deepcopy__(self, memo: Any) -> dict[str, Any]:
        return self.copy()

    def __reduce__(self) -> Any:
        return dict, (self.copy(),)


class FrozenList(list[Any]):
    """A list inside a record that was read."""

    __slots__ = ()

    __setitem__ = __delitem__ = __iadd__ = __imul__ = append = clear = extend = insert = pop = remove = reverse = sort = _refuse

    def __getitem__(self, index: Any) -> Any:
        return freeze(super().__getitem__(index))

    def __iter__(self) -> Any:
        return (freeze(value) for value in super().__iter__())

    def __reversed__(self) -> Any:
        return (freeze(value) for value in super().__reversed__())

    def __add__(self, other: Any) -> Any:
        return [*self, *other] if isinstance(other, list) else NotImplemented

    def __radd__(self, other: Any) -> Any:
        return [*other, *self] if isinstance(other, list) else NotImplemented

    def __mul__(self, count: SupportsIndex) -> list[Any]:
        return [*self] * count

    __rmul__ = __mul__

    def copy(self) -> list[Any]:
        """A copy that may be changed, with all that is in it."""
        return [thaw(value) for value in super().__iter__()]

    def __deepcopy__(self, memo: Any) -> list[Any]:
        return self.copy()

    def __reduce__(self) -> Any:
        return list, (self.copy(),)


def is_frozen(value: Any) -> bool:
    """Whether it is a part of a record that was read."""
    return isinstance(value, FrozenDict | FrozenList | frozenset)


def freeze(value: Any) -> Any:
    """`value` in a form that cannot be changed. What is inside of it is frozen when it is looked at."""
    kind = type(value)
    if kind is dict:
        return FrozenDict(value)
    if kind is list:
        return FrozenList(value)
    return frozenset(value) if kind is set else value


def thaw(value: Any) -> Any:
    """A copy of a stored value that may be changed."""
    if isinstance(value, dict):
        return {name: thaw(member) for name, member in dict.items(value)}
    if isinstance(value, list):
        return [thaw(element) for element in list.__iter__(value)]
    return set(value) if isinstance(value, set | frozenset) else value
