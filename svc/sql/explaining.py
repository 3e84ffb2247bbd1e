"""Plans of queries, for people and programs (spec: sql §9)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from svc.sql.tables.plans import explained as words_of


def explained(rows: Sequence[tuple[Any, ...]]) -> dict[str, Any]:
    """`rows`: of EXPLAIN QUERY PLAN: (id, id of the step around it, 0, text). The plan as indented text, and as a tree."""
    steps: dict[int, dict[str, Any]] = {}
    roots: list[dict[str, Any]] = []
    lines = []
    depths: dict[int, int] = {}
    for number, around, _, text in rows:
        text = words_of(text).replace("\x1d", "")  # before the names of rows that are given
        step: dict[str, Any] = {"step": text}
        steps[number] = step
        depths[number] = depths.get(around, -1) + 1
        lines.append("  " * depths[number] + text)
        if around in steps:
            steps[around].setdefault("steps", []).append(step)
        else:
            roots.append(step)
    return {"plan": "\n".join(lines), "steps": roots}
