"""What is prepared for requests that have been seen, in bounded memory, and when to prepare it."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

MOST = 2048  # entries of one generation

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class Kept(Generic[Key, Value]):
    """Two generations: what is found in the old one moves to the young one; when that is full it becomes the old one, and the old one is forgotten (as
    `protocol.express.BlockCache`).

    For requests that nothing is prepared for yet, how often the general path has answered them is kept. It is time to prepare at the second answer, the
    fourth, the eighth and so on: to find that something cannot be prepared costs more than to answer it, and what could not be then may be later.
    """

    prepares_at_once = False
    """At each answer instead: for tests."""

    def __init__(self, most: int = MOST) -> None:
        """`most`: entries of one generation."""
        self._most = most
        self._young: dict[Key, Value | int] = {}
        self._old: dict[Key, Value | int] = {}

    def __len__(self) -> int:
        """How many are prepared."""
        return sum([type(value) is not int for values in (self._young, self._old) for value in values.values()])

    def find(self, key: Key) -> Value | None:
        found = self._get(key)
        return None if type(found) is int else found  # type: ignore[return-value]  # mypy does not narrow by `type`

    def keep(self, key: Key, value: Value) -> None:
        self._put(key, value)

    def end(self, key: Key, value: Value) -> None:
        """This no longer holds: it is prepared again after the next answer of the general path."""
        if self._get(key) is value:
            self._put(key, 1)

    def is_due(self, key: Key) -> bool:
        """The general path has answered once more: whether to prepare the next one."""
        found = self._get(key)
        if found is not None and type(found) is not int:
            return self.prepares_at_once
        answers = 1 if found is None else found + 1
        self._put(key, answers)
        return self.prepares_at_once or is_time(answers)

    def _get(self, key: Key) -> Value | int | None:
        found = self._young.get(key)
        if found is None:
            found = self._old.get(key)
            if found is not None:
                self._put(key, found)
        return found

    def _put(self, key: Key, value: Value | int) -> None:
        if len(self._young) >= self._most and key not in self._young:
            self._old, self._young = self._young, {}
        self._young[key] = value


def is_time(answers: int) -> bool:
    """Whether to prepare what the general path has answered so often."""
    return answers > 1 and answers & (answers - 1) == 0
