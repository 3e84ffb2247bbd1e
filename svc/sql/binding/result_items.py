"""The items of a SELECT (spec: sql §4)."""

from __future__ import annotations

from dataclasses import dataclass

from svc.sql.binding.sources import SourceColumn
from svc.sql.nodes import Expression


@dataclass(slots=True)
class ResultItem:
    """`name`: of the column, before repeated ones get numbers. `alias`: what stands behind AS, "" if nothing does. `column`: the one that it is, None for an
    expression. `is_of_star`: it is a part of `*`."""

    name: str
    expression: Expression
    alias: str = ""
    column: SourceColumn | None = None
    is_of_star: bool = False


def merged_with_stars(items: list[ResultItem]) -> list[ResultItem]:
    """Beside `*` an item with an alias takes the place of a column: `SELECT *, a AS b` has `b` where `a` would be (operations §15.2), `SELECT *, a + 1 AS b`
    where the column `b` would be."""
    if not any(item.alias for item in items):
        return items
    by_column = {id(item.column): index for index, item in enumerate(items) if item.is_of_star}
    by_name: dict[str, list[int]] = {}
    for index, item in enumerate(items):
        if item.is_of_star:
            by_name.setdefault(item.name, []).append(index)
    found: list[ResultItem | None] = list(items)
    for index, item in enumerate(items):
        if item.is_of_star or not item.alias:
            continue
        same_name = [each for each in by_name.get(item.alias, ()) if found[each] is items[each]]
        place = by_column.get(id(item.column)) if item.column is not None else None
        if place is None or found[place] is not items[place]:
            place = same_name[0] if len(same_name) == 1 else None
        if place is None:
            continue
        for each in same_name if len(same_name) == 1 else ():
            found[each] = None
        found[place], found[index] = item, None
    return [item for item in found if item is not None]
