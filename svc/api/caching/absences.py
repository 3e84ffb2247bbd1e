"""What a source is known not to have (spec: caching §2).

A source that returns None and sets `context.expires_at` is not asked again until then. That is remembered in memory, by each process for itself, and holds no
longer when something has been logged about the record since: a write, a delete, an invalidation, of whatever process.
"""

from __future__ import annotations

from typing import NamedTuple

MOST = 10_000  # absences of one table; the oldest is forgotten first


class Absence(NamedTuple):
    """`since`: LSN of the newest log entry when the source was asked. `learned`, `expires`: ms since the epoch."""

    since: int
    learned: float
    expires: float


class Absences:
    """Of one table, by stored key."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[bytes, Absence] = {}

    def __len__(self) -> int:
        return len(self._known)

    def add(self, stored: bytes, absence: Absence) -> None:
        self._known.pop(stored, None)
        if len(self._known) >= MOST:
            del self._known[next(iter(self._known))]
        self._known[stored] = absence

    def find(self, stored: bytes) -> Absence | None:
        return self._known.get(stored)

    def forget(self, stored: bytes) -> None:
        self._known.pop(stored, None)
