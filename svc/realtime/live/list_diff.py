"""Rows in order: what has to be told so that a list which was one thing becomes another.

Two ways. Rows with a *place*, bytes that sort as the rows do, are moved one by one in a list that is in order at any moment, so a bisection tells the
index. Rows of which only the sequence is known, those of aggregates, are compared as sequences: the longest run of rows that keep their order
stays, the others are moved behind their new neighbours.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import NamedTuple

Place = tuple[bytes, bytes]  # bytes that sort, stored key: no two are equal


class Change(NamedTuple):
    """What happened to one row. `at`: where it is after this, for `leave` where it was; `was_at`: where it was, -1 if it was not there."""

    type: str
    key: bytes
    at: int
    was_at: int


def leave(rows: list[Place], place: Place) -> Change:
    """Take a row out of `rows`, in which it is."""
    at = bisect_left(rows, place)
    del rows[at]
    return Change("leave", place[1], at, at)


def enter(rows: list[Place], place: Place) -> Change:
    at = bisect_left(rows, place)
    rows.insert(at, place)
    return Change("enter", place[1], at, -1)


def move(rows: list[Place], old: Place, new: Place) -> Change:
    """Put a row of `rows` in its new place, which may be the old one."""
    at = was_at = bisect_left(rows, old)
    if old != new:
        del rows[was_at]
        at = bisect_left(rows, new)
        rows.insert(at, new)
    return Change("update", new[1], at, was_at)


def become(rows: list[Place], new: Sequence[Place], is_changed: Callable[[bytes], bool]) -> list[Change]:
    """Turn `rows` into `new`, both in order. `is_changed` tells of a stored key whether the row shows something else than before."""
    new_of = {key: place for place, key in new}
    changes = [leave(rows, row) for row in [row for row in rows if row[1] not in new_of]]
    old_of = {row[1]: row for row in rows}
    for row in new:
        old = old_of.get(row[1])
        if old is None:
            changes.append(enter(rows, row))
        elif old != row or is_changed(row[1]):
            change = move(rows, old, row)
            if change.at != change.was_at or is_changed(row[1]):
                changes.append(change)
    return changes


def sequence_changes(
    old: Sequence[bytes], new: Sequence[bytes], is_changed: Callable[[bytes], bool], most: int | None = None
) -> list[Change] | None:
    """The same for rows that are known by the keys in their order, each once. None: they are more than `most`."""
    place_of = {key: at for at, key in enumerate(new)}
    common = [key for key in old if key in place_of]
    # A row that has changed is told anyway, so it may as well be the one that moves.
    staying = _staying([place_of[key] for key in common if not is_changed(key)])
    if most is not None and len(old) + len(new) - len(common) - len(staying) > most:
        return None
    rows = list(old)
    changes: list[Change] = []
    for key in old:
        if key not in place_of:
            at = rows.index(key)
            del rows[at]
            changes.append(Change("leave", key, at, at))
    known = set(rows)
    for at, key in enumerate(new):
        if at in staying:
            continue
        was_at = -1
        if key in known:
            was_at = rows.index(key)
            del rows[was_at]
        here = rows.index(new[at - 1]) + 1 if at else 0
        rows.insert(here, key)
        changes.append(Change("enter" if was_at < 0 else "update", key, here, was_at))
    return changes


def _staying(places: Sequence[int]) -> set[int]:
    """The members of a longest increasing subsequence.

    >>> sorted(_staying([3, 0, 1, 2])), sorted(_staying([2, 1, 0])), _staying([])
    ([0, 1, 2], [0], set())
    """
    ends: list[int] = []  # the smallest last member of an increasing run of each length
    before: dict[int, int | None] = {}
    for place in places:
        at = bisect_left(ends, place)
        before[place] = ends[at - 1] if at else None
        ends[at : at + 1] = [place]
    found: set[int] = set()
    last = ends[-1] if ends else None
    while last is not None:
        found.add(last)
        last = before[last]
    return found
