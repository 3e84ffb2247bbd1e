"""Rows of a query, as many as come together."""

from __future__ import annotations

from typing import Any

from svc.query import AnyRows


def next_rows(rows: AnyRows, max_rows: int) -> list[Any]:
    """Up to `max_rows` rows of an execution; [] means that there are no more. Steps until it has found one."""
    while not rows.done:
        found = rows.step(max_rows)
        if found:
            return found
    return []
