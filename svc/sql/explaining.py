"""Plans of queries, for people and programs (spec: sql §9)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from svc.sql.tables.plans import explained as words_of

_RIGHT_JOIN = "RIGHT-JOIN "  # the one step that SQLite names by the table, and not by its alias


def explained(rows: Sequence[tuple[Any, ...]], names: Mapping[str, str]) -> dict[str, Any]:
    """`rows`: of EXPLAIN QUERY PLAN: (id, id of the step around it, 0, text). `names`: of tables that SQLite calls something else. The plan as indented text,
    and as a tree."""
    steps: dict[int, dict[str, Any]] = {}
    roots: list[dict[str, Any]] = []
    lines = []
    depths: dict[int, int] = {}
    for number, around, _, text in rows:
        text = words_of(text).replace("\x1d", "")  # before the names of rows that are given
        if text.startswith(_RIGHT_JOIN):
            name = text.removeprefix(_RIGHT_JOIN)
            text = _RIGHT_JOIN + names.get(name, name)
        step: dict[str, Any] = {"step": text}
        steps[number] = step
        depths[number] = depths.get(around, -1) + 1
        lines.append("  " * depths[number] + text)
        if around in steps:
            steps[around].setdefault("steps", []).append(step)
        else:
            roots.append(step)
    return {"plan": "\n".join(lines), "steps": roots}
