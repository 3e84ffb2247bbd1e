r"""CSV -> rows, rows -> records (spec: http §7.3; RFC 4180).

Rows end with CRLF, LF or CR; empty lines, and rows of nothing but commas, are skipped; cells are separated by commas, and a quoted cell may hold
anything, its quotes doubled. The csv module is not used, for it does not tell quoted cells from others: an empty cell is an absent property, "" is an
empty string.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from typing import Final

from svc.content.content_type import Slices
from svc.content.texts import converter, in_line
from svc.errors import BadBody, BadValue
from svc.store.schema import Attribute
from svc.store.values.conversion import autoconvert, printable, shown

QUOTE: Final = '"'
SLICE_CELLS = 2000  # read in one step

WINDOW = 1 << 15  # characters whose lines are found at one time
MAX_FAULTS = 20
MAX_COLUMNS = 10_000
MAX_QUOTES = 100_000  # doubled, in one cell: it is read at one time, 20 ms

_bare = re.compile(r'[^,\r\n"]*').match
_line = re.compile(r"[^\r\n]*").match
_line_end = re.compile(r"\r\n|\r|\n")


class CsvRecord(dict[str, object]):
    """A row of a body that is written to a table. `columns`: all that the header names, though an empty cell gives no property. `line`: on which it
    begins."""

    __slots__ = ("columns", "line")

    def __init__(self, columns: frozenset[str], line: int) -> None:
        super().__init__()
        self.columns = columns
        self.line = line


class QuotedCell(str):
    """A cell that was quoted."""

    __slots__ = ()


def iter_rows(text: str) -> Iterator[tuple[int, list[str]]]:
    """(line on which it begins, from 1; its cells) of each row that is not empty. Raises BadBody, with the line.

    >>> list(iter_rows('a,"b"\\r\\n\\r\\n1,\\n'))
    [(1, ['a', 'b']), (3, ['1', ''])]
    """
    next_quote = text.find(QUOTE)
    if next_quote < 0:
        number = 0
        for lines in _line_windows(text):
            for content in lines:
                number += 1
                if content:
                    yield number, _bare_cells(content, number)
        return
    offset = 0
    line = 1
    end = len(text)
    while offset < end:
        stop = _line(text, offset).end()  # type: ignore[union-attr]  # it matches anywhere
        if offset <= next_quote < stop:
            first_line = line
            cells, offset, line = _row(text, offset, line)
            yield first_line, cells
            next_quote = text.find(QUOTE, offset)
        else:
            if stop > offset:
                yield line, _bare_cells(text[offset:stop], line)
            offset = stop + (2 if text.startswith("\r\n", stop) else 1)
            line += 1


def _line_windows(text: str) -> Iterator[list[str]]:
    """The lines of a text without quotes, as many at a time as a window holds."""
    offset, size = 0, len(text)
    while offset < size:
        end = size
        if size - offset > WINDOW:
            end = text.rfind("\n", offset, offset + WINDOW) + 1 or text.find("\n", offset + WINDOW) + 1
            if not end:  # lines that end with CR, or the last one
                end = text.rfind("\r", offset, offset + WINDOW) + 1 or text.find("\r", offset + WINDOW) + 1 or size
        lines = text[offset:end]
        if "\r" in lines:
            lines = lines.replace("\r\n", "\n").replace("\r", "\n")
        yield lines.removesuffix("\n").split("\n")
        offset = end


def _bare_cells(content: str, line: int) -> list[str]:
    if len(content) > MAX_COLUMNS and content.count(",") >= MAX_COLUMNS:
        raise _too_wide(line)
    return content.split(",")


def _too_wide(line: int) -> BadBody:
    return BadBody(f"Invalid CSV: more than {MAX_COLUMNS} columns, in line {line}")


def _row(text: str, offset: int, line: int) -> tuple[list[str], int, int]:
    """(cells, offset after the line end, its line) of the row at `offset`, which has a quoted cell."""
    cells: list[str] = []
    end = len(text)
    while True:
        if len(cells) >= MAX_COLUMNS:
            raise _too_wide(line)
        if text.startswith(QUOTE, offset):
            stop = _closing_quote(text, offset + 1, line)
            cell = text[offset + 1 : stop]
            line += len(_line_end.findall(cell)) if "\n" in cell or "\r" in cell else 0
            cells.append(QuotedCell(cell.replace('""', QUOTE)))
            offset = stop + 1
        else:
            stop = _bare(text, offset).end()  # type: ignore[union-attr]  # it matches anywhere
            cells.append(text[offset:stop])
            offset = stop
        if offset >= end:
            return cells, offset, line
        following = text[offset]
        if following == ",":
            offset += 1
        elif following == QUOTE:
            raise BadBody(f"Invalid CSV: a quote in a cell that is not quoted, in line {line}")
        else:
            found = _line_end.match(text, offset)
            if found is None:
                raise BadBody(f"Invalid CSV: characters after a quoted cell, in line {line}")
            return cells, found.end(), line + 1


def _closing_quote(text: str, offset: int, line: int) -> int:
    for _ in range(MAX_QUOTES):
        stop = text.find(QUOTE, offset)
        if stop < 0:
            raise BadBody(f"Invalid CSV: the quoted cell that begins in line {line} has no end")
        if not text.startswith(QUOTE, stop + 1):
            return stop
        offset = stop + 2
    raise BadBody(f"Invalid CSV: the cell that begins in line {line} has more than {MAX_QUOTES} quotes")


def decode_csv(text: str, attributes: Mapping[str, Attribute] | None) -> Slices:
    """Raises BadBody, or BadValue for cells that their attributes' types cannot take, up to MAX_FAULTS rows of them; both name the line."""
    rows = iter_rows(text)
    first = next(rows, None)
    if first is None:
        raise BadBody("Invalid CSV: the first row must have the names of the attributes")
    names = _header(*first)
    fault = separator_fault(names, () if attributes is None else attributes) if type(first[1][0]) is not QuotedCell else None
    if fault is not None:
        raise BadBody(f"Invalid CSV: the header is one column, {shown(names[0])}: {fault}")
    columns = [(name, _cell_converter(None if attributes is None else attributes.get(name))) for name in names]
    width = len(columns)
    known = frozenset(names)
    records: list[dict[str, object]] = []
    faults: list[dict[str, object]] = []
    pause = SLICE_CELLS
    for line, cells in rows:
        pause -= width + 1
        if pause < 0:
            pause = SLICE_CELLS
            yield
        if not any(cells) and not any(type(cell) is QuotedCell for cell in cells):
            continue  # nothing but commas, as spreadsheets write an empty row
        if len(cells) != width:
            raise BadBody(f"Invalid CSV: {len(cells)} cells in line {line}, but {width} columns")
        record: dict[str, object] = {} if attributes is None else CsvRecord(known, line)
        for (name, convert), cell in zip(columns, cells, strict=True):
            if cell or type(cell) is QuotedCell:
                try:
                    record[name] = convert(cell)
                except BadValue as error:
                    faults.append({"index": len(records), "line": line, "attribute": name, "message": in_line(error, line)})
        records.append(record)
        if len(faults) >= MAX_FAULTS:
            break
    if faults:
        refused = BadValue(". ".join([str(fault["message"]) for fault in faults]))
        refused.faults = tuple(faults)
        raise refused
    return records


_SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "bars"}


def separator_fault(names: Sequence[str], declared: Container[str]) -> str | None:
    """What is wrong with a header whose cells are separated by something else than commas, so that all of them would be one column; None: nothing."""
    if len(names) == 1 and names[0] not in declared:
        for separator, called in _SEPARATORS.items():
            if separator in names[0]:
                return f"cells are separated by commas, not by {called}; a name that has them is quoted"
    return None


def _header(line: int, names: list[str]) -> list[str]:
    known: set[str] = set()
    for number, name in enumerate(names, 1):
        if not name:
            raise BadBody(f"Invalid CSV: column {number} has no name, in line {line}")
        if name in known:
            raise BadBody(f"Invalid CSV: two columns are named {printable(name)}, in line {line}")
        known.add(name)
    return list(map(_text, names))


def _text(cell: str) -> str:
    return str.__str__(cell)


def _cell_converter(attribute: Attribute | None) -> Callable[[str], object]:
    declared = converter(attribute)
    if declared is None:
        return _untyped
    return _text if declared is str else declared


def _untyped(cell: str) -> object:
    return _text(cell) if type(cell) is QuotedCell else autoconvert(cell)
