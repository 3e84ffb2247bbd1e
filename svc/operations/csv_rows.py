"""Text that arrives in pieces -> rows of CSV (spec: operations §4; RFC 4180).

Foreign files are read leniently, as the csv module does, whose rules for quotes these are. A row may lie in several pieces: what of it has arrived is
kept and read again with the next one that may end it.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from functools import cache
from io import StringIO
from itertools import chain

from svc.content.csv_reader import MAX_COLUMNS
from svc.errors import ValidationError

MAX_CELL = 1 << 20  # characters; a cell is read in one go, and 1 MiB takes 6 ms
MAX_ROW = 1 << 21  # characters

QUOTED = "\0"  # in front of the content of a quoted cell, where that makes a difference

csv.field_size_limit(MAX_CELL)


@cache
def _quoted_cell(separator: str) -> re.Pattern[str]:
    """A cell that is quoted. It ends with its text where the text ends before its quote does."""
    return re.compile(rf'(?<![^{re.escape(separator)}\r\n])"((?:[^"]++|"")*+)(?:"|\Z)')


_name = re.compile(r'(?:[^,"\r\n]++|"(?:[^"\r\n]++|"")++")(?=[,\r\n]|\Z)')
_one_quoted = re.compile(r'"(?:[^"]++|"")*+"').fullmatch
_needs_quotes = re.compile(r'[,"\r\n]').search


def header_line(names: Sequence[str], quoted: Sequence[str]) -> str:
    """The first line of an export. The last of its names that needs no quotes has none, though text has them: so a file that is loaded says that its quotes
    mean text.

    `quoted`: the names in quotes.
    """
    bare = max((number for number, name in enumerate(names) if name and _needs_quotes(name) is None), default=None)
    return ",".join([name if number == bare else cell for number, (name, cell) in enumerate(zip(names, quoted, strict=True))]) + "\r\n"


def is_export(line: str) -> bool:
    """Whether this is what `header_line` makes: some names are quoted without need, and others are not. Other programs quote all names, or what needs it.

    >>> is_export('"id",name'), is_export("id,name"), is_export('"id","name"'), is_export('id,"a,b"')
    (True, False, False, False)
    """
    if line.count(",") >= MAX_COLUMNS:
        return False
    names = _name.findall(line)
    if ",".join(names) != line.rstrip("\r\n"):
        return False
    quoted = [name for name in names if name[0] == '"']
    return len(quoted) == len(names) - 1 and any(_needs_quotes(name[1:-1]) is None for name in quoted)


def _marked(lines: list[str], separator: str) -> Iterator[str]:
    """The lines with QUOTED in front of the content of each quoted cell."""
    return StringIO(_quoted_cell(separator).sub(_mark, "".join(lines)), newline="")


def _mark(found: re.Match[str]) -> str:
    return f'"{QUOTED}{found[0][1:]}'


class _OutOfText(Exception):
    """More lines are needed."""


def _no_more() -> Iterator[str]:
    raise _OutOfText
    yield ""


def _fault(message: str, line: int) -> ValidationError:
    error = ValidationError(message)
    error.faults = ({"line": line, "message": message},)
    return error


class CsvRowParser:
    """`feed` a piece of text, then take `rows` until there are none; after the last piece, `finish` and take what is left.

    Rows without any content are left out. Raises ValidationError for what cannot be read, with the line.
    """

    def __init__(self, separator: str = ",", *, quotes_mean_text: bool = False) -> None:
        """`separator`: of cells, one character. `quotes_mean_text`: as in an export, though the header does not say so."""
        self._separator = separator
        self._quotes_mean_text = quotes_mean_text
        self._rest = ""  # the beginning of a line
        self._lines: list[str] = []  # whole ones, from the beginning of a row
        self._line = 0  # lines before them
        self._split: Iterator[list[str]] | None = None  # of lines without quotes
        self._reader = csv.reader(())
        self._taken = 0  # of `_lines`, by rows that were given out
        self._is_open = False  # the lines are the beginning of a row whose end is not there yet
        self._begun = False
        self.is_export: bool | None = None  # None: the header is not there yet
        self.is_quoted = False  # the header is one quoted name
        self.lines: list[int] = []  # on which the rows begin that were taken last, counted from 1

    def feed(self, text: str) -> None:
        if not self._begun and text:
            self._begun = True
            text = text.removeprefix("\ufeff")
        may_end = not self._is_open or '"' in text
        text = self._rest + text
        # Behind a CR there may be the LF that belongs to it.
        end = max(text.rfind("\n"), text.rfind("\r", 0, -1)) + 1
        self._rest = text[end:]
        self._take(text[:end], may_end)
        if len(self._rest) > MAX_ROW or (self._is_open and sum(map(len, self._lines)) > MAX_ROW):
            raise _fault(f"The row that begins in line {self._line + 1} is longer than {MAX_ROW} characters", self._line + 1)

    def finish(self) -> None:
        """There is no more text."""
        rest, self._rest = self._rest, ""
        self._take(rest, True)

    def check_end(self) -> None:
        """After the last row."""
        if self._is_open:
            raise _fault(f"The quoted cell that begins in line {self._line + 1} or later has no end", self._line + 1)

    def _take(self, text: str, may_end: bool) -> None:
        taken = list(StringIO(text, newline=""))  # splits at LF, CR and CRLF only, and keeps them
        is_open, self._lines = self._is_open, self._lines + taken
        if self.is_export is None:
            header = next((line for line in self._lines if line.strip("\r\n")), None)
            if header is not None:
                self.is_export = self._quotes_mean_text or (self._separator == "," and is_export(header))
                self.is_quoted = _one_quoted(header.rstrip("\r\n")) is not None
        if not is_open and '"' not in text:
            self._split = iter([line.rstrip("\r\n").split(self._separator, MAX_COLUMNS) for line in taken])
        elif may_end:
            lines = chain(_marked(self._lines, self._separator) if self.is_export else self._lines, _no_more())
            self._reader = csv.reader(lines, delimiter=self._separator)
            self._is_open = False

    def rows(self, limit: int) -> list[list[str]]:
        """Up to `limit` rows; none if more text is needed."""
        found: list[list[str]] = []
        self.lines = lines = []
        if self._split is not None:
            for row in self._split:
                self._taken += 1
                if len(row) > 1 or row[0]:
                    found.append(row)
                    lines.append(self._line + self._taken)
                    if len(found) >= limit:
                        return found
            self._split = None
            self._end_piece()
        elif not self._is_open and self._lines:
            reader = self._reader
            try:
                for row in reader:
                    begin, self._taken = self._taken, reader.line_num
                    if row:
                        found.append(row)
                        lines.append(self._line + begin + 1)
                        if len(found) >= limit:
                            return found
            except _OutOfText:
                self._end_piece()
            except csv.Error as error:
                line = self._line + reader.line_num
                raise _fault(f"Invalid CSV: {error}, in line {line}", line)
        return found

    def _end_piece(self) -> None:
        self._line += self._taken
        self._lines = self._lines[self._taken :]
        self._taken = 0
        self._is_open = bool(self._lines)
