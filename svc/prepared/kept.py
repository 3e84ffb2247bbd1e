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
    """

    def __init__(self, most: int = MOST) -> None:
        """`most`: entries of one generation."""
        self._most = most
        self._young: dict[Key, Value] = {}
        self._old: dict[Key, Value] = {}

    def values(self) -> list[Value]:
        return [*self._young.values(), *(value for key, value in self._old.items() if key not in self._young)]

    def find(self, key: Key) -> Value | None:
        found = self._young.get(key)
        if found is None:
            found = self._old.get(key)
            if found is not None:
                self.keep(key, found)
        return found

    def keep(self, key: Key, value: Value) -> None:
        if len(self._young) >= self._most and key not in self._young:
            self._old, self._young = self._young, {}
        self._young[key] = value


class Candidate:
    """Stands where something may be prepared, and declines the requests of that place. Those that it is asked for it counts, and says when to prepare it: at
    the second, the fourth, the eighth and so on. To find that something cannot be prepared costs more than to answer it, and what could not be then may
    be later.
    """

    __slots__ = ("_requests", "is_over")

    prepares_at_once = False
    """At each request instead: for tests."""

    def __init__(self, requests: int = 1) -> None:
        """`requests`: so many have been seen."""
        self._requests = requests
        self.is_over = False  # there is something prepared in its place, which some connections don't know yet

    def __call__(self, *request: object) -> bool | None:
        """In place of what answers the request. False: it does not. None: the same, and it is time to look for what does, or to prepare it."""
        self._requests += 1
        return None if self.is_over or self.is_due() else False

    def is_due(self) -> bool:
        return is_time(self._requests)


def is_time(requests: int) -> bool:
    """Whether to prepare something for what has been requested so often."""
    return Candidate.prepares_at_once or (requests > 1 and requests & (requests - 1) == 0)
