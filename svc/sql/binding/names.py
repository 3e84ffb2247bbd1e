"""Names: as statements write them, as SQLite has to see them, as results show them (spec: sql §4)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar

Value = TypeVar("Value")


class Names(Generic[Value]):
    """What each name stands for. Upper and lower case are the same, unless there is a name that is written the same; of two others the first counts."""

    __slots__ = ("_exact", "_folded")

    def __init__(self) -> None:
        self._exact: dict[str, Value] = {}
        self._folded: dict[str, Value] = {}

    def add(self, name: str, value: Value) -> None:
        self._exact.setdefault(name, value)
        self._folded.setdefault(name.casefold(), value)

    def get(self, name: str) -> Value | None:
        found = self._exact.get(name)
        return self._folded.get(name.casefold()) if found is None and self._folded else found

    def __iter__(self) -> Iterator[str]:
        return iter(self._exact)

    def values(self) -> Iterable[Value]:
        return self._exact.values()


class Labels:
    """Gives each source and each common table a name in SQLite that no other has, whatever case it is in."""

    __slots__ = ("_numbers", "_taken")

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._numbers: dict[str, int] = {}

    def label(self, wanted: str) -> str:
        folded = wanted.casefold()
        made = wanted
        number = self._numbers.get(folded, 1)
        while made.casefold() in self._taken:
            number += 1
            made = f"{wanted}:{number}"
        self._numbers[folded] = number
        self._taken.add(made.casefold())
        return made


def numbered(names: Iterable[str]) -> list[str]:
    """Each name once: a repeated one gets the next number that makes it a new one.

    >>> numbered(["id", "name", "id", "id1", "id"])
    ['id', 'name', 'id2', 'id1', 'id3']
    """
    wanted = list(names)
    return _numbered(wanted, "") if len(set(wanted)) < len(wanted) else wanted


def names_for_sqlite(names: list[str]) -> list[str]:
    """Different ones also for SQLite, which takes upper and lower case as equal.

    >>> names_for_sqlite(["id", "ID"])
    ['id', 'ID:1']
    """
    folded = [name.casefold() for name in names]
    if len(set(folded)) == len(names):
        return names
    return [name + made[len(fold) :] for name, fold, made in zip(names, folded, _numbered(folded, ":"), strict=True)]


def _numbered(wanted: list[str], mark: str) -> list[str]:
    taken = set(wanted)
    numbers: dict[str, int] = {}
    found = []
    for name in wanted:
        number = numbers.get(name, -1) + 1
        made = f"{name}{mark}{number}" if number else name
        while number and made in taken:
            number += 1
            made = f"{name}{mark}{number}"
        numbers[name] = number
        taken.add(made)
        found.append(made)
    return found
