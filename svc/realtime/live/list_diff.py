"""The changes that turn one list of rows into another, for clients that have the first.

Two algorithms. Rows with a `SortPosition`, bytes that sort as the rows do, are moved one by one in a list that is sorted at any time, so a bisection finds
the index. Rows of which only the sequence is known, those of aggregates, are compared as sequences: the longest run of rows that keep their order
stays, the others are moved behind their new neighbours.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import NamedTuple

SortPosition = tuple[bytes, bytes]  # bytes that sort, stored key: no two are equal


class RowChange(NamedTuple):
    """`type`: "enter", "update" or "leave". `at`: index after the change, for "leave" the index before; `was_at`: index before, -1 for "enter"."""

    type: str
    key: bytes
    at: int
    was_at: int


def remove_row(rows: list[SortPosition], position: SortPosition) -> RowChange:
    """Remove a row that is in `rows`."""
    at = bisect_left(rows, position)
    del rows[at]
    return RowChange("leave", position[1], at, at)


def insert_row(rows: list[SortPosition], position: SortPosition) -> RowChange:
    """Insert a row that is not in `rows`."""
    at = bisect_left(rows, position)
    rows.insert(at, position)
    return RowChange("enter", position[1], at, -1)


def move_row(rows: list[SortPosition], old: SortPosition, new: SortPosition) -> RowChange:
    """Move a row of `rows` to its new position, which may be the old one."""
    at = was_at = bisect_left(rows, old)
    if old != new:
        del rows[was_at]
        at = bisect_left(rows, new)
        rows.insert(at, new)
    return RowChange("update", new[1], at, was_at)


def diff(rows: list[SortPosition], new: Sequence[SortPosition], is_changed: Callable[[bytes], bool]) -> list[RowChange]:
    """Turn `rows` into `new`, both sorted. `is_changed(stored key)`: whether the row shows something else than before."""
    new_of = {position[1]: position for position in new}
    changes = [remove_row(rows, row) for row in [row for row in rows if row[1] not in new_of]]
    old_of = {row[1]: row for row in rows}
    for row in new:
        old = old_of.get(row[1])
        if old is None:
            changes.append(insert_row(rows, row))
        elif old != row or is_changed(row[1]):
            change = move_row(rows, old, row)
            if change.at != change.was_at or is_changed(row[1]):
                changes.append(change)
    return changes


def diff_sequences(
    old: Sequence[bytes], new: Sequence[bytes], is_changed: Callable[[bytes], bool], most: int | None = None
) -> list[RowChange] | None:
    """The changes between two sequences of keys, each key once. None: there are more than `most` changes."""
    index_of = {key: at for at, key in enumerate(new)}
    common = [key for key in old if key in index_of]
    # A changed row is sent anyway, so it may as well be the one that moves.
    staying = _longest_increasing([index_of[key] for key in common if not is_changed(key)])
    if most is not None and len(old) + len(new) - len(common) - len(staying) > most:
        return None
    rows = list(old)
    changes: list[RowChange] = []
    for key in old:
        if key not in index_of:
            at = rows.index(key)
            del rows[at]
            changes.append(RowChange("leave", key, at, at))
    known = set(rows)
    for at, key in enumerate(new):
        if at in staying:
            continue
        was_at = -1
        if key in known:
            was_at = rows.index(key)
            del rows[was_at]
        behind = rows.index(new[at - 1]) + 1 if at else 0
        rows.insert(behind, key)
        changes.append(RowChange("enter" if was_at < 0 else "update", key, behind, was_at))
    return changes


def _longest_increasing(numbers: Sequence[int]) -> set[int]:
    """The members of a longest increasing subsequence. O(n log n).

    >>> sorted(_longest_increasing([3, 0, 1, 2])), sorted(_longest_increasing([2, 1, 0])), _longest_increasing([])
    ([0, 1, 2], [0], set())
    """
    ends: list[int] = []  # the smallest last member of an increasing run of each length
    before: dict[int, int | None] = {}
    for number in numbers:
        at = bisect_left(ends, number)
        before[number] = ends[at - 1] if at else None
        ends[at : at + 1] = [number]
    found: set[int] = set()
    last = ends[-1] if ends else None
    while last is not None:
        found.add(last)
        last = before[last]
    return found
