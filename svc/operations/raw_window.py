"""The window of raw analytics: one search finds at most 10 s of them (spec: operations §3.2, analytics §8).

A wider range is cut to the window that begins at its lower end; without a lower end it is the one before its upper end, else the latest.
"""

from __future__ import annotations

from collections.abc import Iterable

from svc.query.convert import typed_pair, typed_value
from svc.query.matching import CLOSED_RANGES, comparable
from svc.query.nodes import Comparator, Condition, Filter, Group
from svc.query.tables import AnyTable

WINDOW_MS = 10_000

_LOW = (Comparator.GREATER_THAN, Comparator.GREATER_THAN_EQUAL, Comparator.EQUALS)
_HIGH = (Comparator.LESS_THAN, Comparator.LESS_THAN_EQUAL, Comparator.EQUALS)


def within_window(where: Filter | None, table: AnyTable, now_ms: float) -> tuple[Filter, bool]:
    """The filter narrowed to the window, and whether it might have found more. Raises QueryError for an invalid time."""
    members = where.members if isinstance(where, Group) and where.operator == "and" else () if where is None else (where,)
    low, high = _ends(members, table)
    if low is None:
        end = now_ms if high is None else high
        low = end - WINDOW_MS
        cut = True
    else:
        end = low + WINDOW_MS
        cut = end < (now_ms if high is None else high)
    return Group("and", (Condition((table.primary_key,), Comparator.BETWEEN, (low, end)), *members)), cut


def _ends(members: Iterable[Filter], table: AnyTable) -> tuple[float | None, float | None]:
    """The ends of the range of keys that every member allows, as far as conditions on the key itself tell."""
    key = table.primary_key
    attribute = table.attributes.get(key)
    lows: list[float] = []
    highs: list[float] = []
    for member in members:
        if not isinstance(member, Condition) or member.path != (key,):
            continue
        comparator = member.comparator
        if comparator in CLOSED_RANGES:
            pair = typed_pair(member.value, member.conversion, attribute, key)
            lows += _moment(pair[0])
            highs += _moment(pair[1])
        elif comparator in _LOW or comparator in _HIGH:
            value = _moment(typed_value(member.value, member.conversion, attribute, key))
            if comparator in _LOW:
                lows += value
            if comparator in _HIGH:
                highs += value
    return max(lows, default=None), min(highs, default=None)


def _moment(value: object) -> list[float]:
    found = comparable(value)
    return [found] if isinstance(found, int | float) and not isinstance(found, bool) else []
