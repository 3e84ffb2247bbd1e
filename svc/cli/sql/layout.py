"""Rows as text for people: as a table, record by record, or as JSON.

No value commands the terminal: control characters are shown as escapes. Null is `NULL`, an empty text is nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from rich.cells import cell_len, set_cell_size

from svc.cli.output import printable, printable_json
from svc.cli.sql.answers import Row

SAMPLE = 1_000  # rows that decide how wide the columns of a table are
MIN_COLUMN = 8  # cells; a table whose columns would be narrower is shown record by record
GAP = "  "

DIM, BOLD = "2", "1"

Write = Callable[[str], object]


class RowWriter(Protocol):
    """Writes the rows of one result: all batches, then the end."""

    def rows(self, batch: Sequence[Row]) -> None: ...

    def end(self) -> None: ...


class TableWriter:
    """A column for each name, as wide as the first rows need; what is wider is shortened if there is a `width`, cells of a line of the terminal."""

    def __init__(self, write: Write, *, width: int | None = None, color: bool = False) -> None:
        self._write = write
        self._width = width
        self._color = color
        self._sample: list[Row] | None = []
        self._columns: list[tuple[str, int, bool]] = []  # name, width, whether it is of numbers
        self._lines: LineWriter | None = None  # if it is no table

    def rows(self, batch: Sequence[Row]) -> None:
        if self._sample is None:
            self._print(batch)
            return
        self._sample += batch
        if len(self._sample) >= SAMPLE:
            self._begin(self._sample)

    def end(self) -> None:
        if self._sample:
            self._begin(self._sample)

    def _begin(self, sample: list[Row]) -> None:
        self._sample = None
        names = list(sample[0])
        needed = [max(cell_len(self._text(name)), *(cell_len(self._cell(row.get(name))) for row in sample)) for name in names]
        widths = needed if self._width is None else narrowed(needed, self._width - len(GAP) * (len(names) - 1))
        if widths is None:
            self._lines = LineWriter(self._write, color=self._color)
        else:
            numeric = [_is_numeric(row.get(name) for row in sample) for name in names]
            self._columns = list(zip(names, widths, numeric, strict=True))
            header = [self._padded(self._text(name), width, is_number) for name, width, is_number in self._columns]
            self._write(self._painted(GAP.join(header).rstrip(), BOLD) + "\n")
            self._write(self._painted(GAP.join("─" * width for width in widths), DIM) + "\n")
        self._print(sample)

    def _print(self, rows: Sequence[Row]) -> None:
        if self._lines is not None:
            self._lines.rows(rows)
            return
        self._write("".join([self._line(row) for row in rows]))

    def _line(self, row: Row) -> str:
        cells = []
        for name, width, is_number in self._columns:
            value = row.get(name)
            cell = self._padded(self._cell(value), width, is_number)
            cells.append(self._painted(cell, DIM) if value is None else cell)
        return GAP.join(cells).rstrip(" ") + "\n"

    def _cell(self, value: Any) -> str:
        return self._text(_shown(value))

    def _text(self, text: str) -> str:
        if self._width is not None and len(text) > self._width:  # what will be cut off need not be looked at
            text = text[: self._width + 1]
        return printable(text)

    def _padded(self, text: str, width: int, is_number: bool) -> str:
        length = cell_len(text)
        if length > width:
            return text if self._width is None else set_cell_size(text, width - 1) + "…"
        return " " * (width - length) + text if is_number else text + " " * (width - length)

    def _painted(self, text: str, code: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self._color and text else text


class LineWriter:
    """Each value on a line of its own, a blank line behind each row."""

    def __init__(self, write: Write, *, color: bool = False) -> None:
        self._write = write
        self._color = color

    def rows(self, batch: Sequence[Row]) -> None:
        for row in batch:
            names = {name: printable(name) for name in row}
            width = max(map(cell_len, names.values()), default=0)
            lines = []
            for name, value in row.items():
                shown = printable(_shown(value), lines=True).replace("\n", "\n" + " " * (width + 3))
                if value is None and self._color:
                    shown = f"\x1b[{DIM}m{shown}\x1b[0m"
                lines.append(f"{' ' * (width - cell_len(names[name]))}{names[name]} = {shown}\n")
            self._write("".join(lines) + "\n")

    def end(self) -> None:
        pass


class JsonWriter:
    """An array with a line for each row."""

    def __init__(self, write: Write) -> None:
        self._write = write
        self._begun = False

    def rows(self, batch: Sequence[Row]) -> None:
        for row in batch:
            self._write(",\n" if self._begun else "[\n")
            self._begun = True
            self._write("  " + printable_json(json.dumps(row, ensure_ascii=False)))

    def end(self) -> None:
        self._write("\n]\n" if self._begun else "[]\n")


def _shown(value: Any) -> str:
    if isinstance(value, str):
        return value
    return "NULL" if value is None else json.dumps(value, ensure_ascii=False)


def _is_numeric(values: Any) -> bool:
    return all(isinstance(value, int | float) and not isinstance(value, bool) for value in values if value is not None)


def narrowed(needed: Sequence[int], room: int) -> list[int] | None:
    """Widths of columns that fit into `room` cells: the widest ones are cut to one width. None if that would be too narrow to read.

    >>> narrowed([3, 40, 20], 40), narrowed([3, 40, 20], 100), narrowed([20, 20], 10)
    ([3, 18, 18], [3, 40, 20], None)
    """
    if sum(needed) <= room:
        return list(needed)
    left = room
    for place, width in enumerate(sorted(needed)):
        share = left // (len(needed) - place)
        if width > share:
            return None if share < MIN_COLUMN else [min(each, share) for each in needed]
        left -= width
    return list(needed)


def snippet(text: str, position: int, width: int) -> str:
    """The line of a statement that `position` is in, and a caret below it, in at most `width` cells.

    >>> print(snippet("select *\\nform data.t", 9, 40))
    form data.t
    ^
    """
    position = min(position, len(text))
    begin = text.rfind("\n", 0, position) + 1
    end = text.find("\n", position)
    before = printable(text[begin:position].replace("\t", " "))
    behind = printable(text[position : len(text) if end < 0 else end].replace("\t", " "))
    room = max(width // 2, 1)
    if cell_len(before) + cell_len(behind) >= width and cell_len(before) > room:
        while cell_len(before) > room - 1:
            before = before[max(len(before) // 16, 1) :] if cell_len(before) > 2 * room else before[1:]
        before = "…" + before
    line = before + behind
    if cell_len(line) > width:
        line = set_cell_size(line, width - 1) + "…"
    return f"{line}\n{' ' * cell_len(before)}^"
