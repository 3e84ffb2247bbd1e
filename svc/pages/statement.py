"""The form for statements in SQL, with what the last one has found (spec: http §7.7): what is put into its template."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from svc.errors import Problem, QueryError
from svc.pages.cells import CELL, Line, cell_of, lines_of, shown
from svc.pages.collection import MOST_COLUMNS, MOST_HIDDEN, MOST_ROWS, Column, Rows, data_page

_AROUND = 400  # characters of a statement before and behind a fault


@dataclass(slots=True)
class Found:
    """Rows, or `value`: another answer. `is_cut`: there are more rows, or elements of a list. `seconds`: until the first of them was found."""

    columns: tuple[str, ...] = ()
    rows: list[dict[str, Any]] = field(default_factory=list)
    is_cut: bool = False
    seconds: float = 0.0
    value: Any = None


@dataclass(slots=True)
class StatementForm:
    """`text`, `parameters`: as they were filled in. `fault`: why the statement was refused."""

    text: str = ""
    parameters: str = ""
    found: Found | None = None
    fault: Problem | None = None


@dataclass(slots=True)
class FoundPage:
    """One of `table`, `lines` and `plan`. `note`: what is to be said of it."""

    note: str = ""
    table: Rows | None = None
    lines: Iterator[Line] | None = None
    plan: str = ""


@dataclass(slots=True)
class FaultPlace:
    """`before`, `behind`: what is around the character `at` which a fault is, shortened. `line`, `column`: counted from 1."""

    before: str
    at: str
    behind: str
    line: int
    column: int


def found_page(found: Found) -> FoundPage:
    value = found.value
    if isinstance(value, list):
        data = data_page(value, has_more=found.is_cut)
        return FoundPage(_counted(len(value), data.is_cut), data.table, data.lines)
    if isinstance(value, dict) and isinstance(value.get("plan"), str):
        return FoundPage(plan=shown_lines(value["plan"]))
    if value is not None:
        return FoundPage(lines=lines_of(value))
    names = found.columns[:MOST_COLUMNS]
    hidden = found.columns[MOST_COLUMNS:]
    rows = ([cell_of(row[name]) for name in names] for row in found.rows)
    columns = [Column(_short(name), is_number=bool(found.rows) and type(found.rows[0][name]) in (int, float)) for name in names]
    table = Rows(columns, rows, len(found.rows), [_short(name) for name in hidden[:MOST_HIDDEN]], len(hidden))
    return FoundPage(f"{_counted(len(found.rows), found.is_cut)} in {found.seconds * 1000:.1f} ms", table)


def place_of(form: StatementForm) -> FaultPlace | None:
    """Where a fault is in the statement; None if it has no place."""
    fault = form.fault
    if not isinstance(fault, QueryError) or fault.position is None or not form.text:
        return None
    return place_in(form.text, fault.position)


def place_in(text: str, position: int) -> FaultPlace:
    """The character of a text at this position, or its end."""
    at = min(position, len(text))
    start = max(0, at - _AROUND)
    before = ("…" if start else "") + text[start:at]
    behind = text[at + 1 : at + _AROUND] + ("…" if len(text) > at + _AROUND else "")
    marked = shown_lines(text[at : at + 1])
    return FaultPlace(
        shown_lines(before), marked.strip("\n") or " ", "\n" * (marked == "\n") + shown_lines(behind), *line_and_column(text, at)
    )


def line_and_column(text: str, at: int) -> tuple[int, int]:
    """Of a character, both counted from 1.

    >>> line_and_column("a\\nbc", 3)
    (2, 2)
    """
    return text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)


def shown_lines(text: str) -> str:
    """A text of several lines as `cells.shown` shows one."""
    return "\n".join(map(shown, text.split("\n")))


def _short(name: str) -> str:
    return shown(name[:CELL])


def _counted(rows: int, is_cut: bool) -> str:
    if is_cut:
        return f"The first {MOST_ROWS} rows"
    return "1 row" if rows == 1 else f"{rows} rows"
