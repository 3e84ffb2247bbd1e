"""The first rows of a file: what its format, its separator and its columns are (spec: operations §4.2)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from svc.content.csv_reader import MAX_COLUMNS
from svc.errors import ValidationError
from svc.operations.csv_rows import QUOTED, CsvRowParser, is_export
from svc.operations.json_records import JsonRecordParser
from svc.operations.load_sources import StreamSource
from svc.operations.loads import SEPARATORS
from svc.store import Table
from svc.store.slices import Slices
from svc.store.values.conversion import shown

CSV, JSON, NDJSON = "csv", "json", "ndjson"
FORMATS = (CSV, JSON, NDJSON)
ROWS = 20
MOST_READ = 1 << 22  # characters in which they have to lie
MOST_CELLS = 4000  # of all rows that are shown, unless one has more
MOST_SHOWN = 1000  # characters of a cell
_LONGEST = 250  # characters of a name that is compared
_DEEPEST = 3  # levels of a value that is shown as it is
_MOST_MEMBERS = 50
_HEAD = 1 << 16  # characters of a header whose separators are counted
_ARCHIVES = (b"\x1f\x8b", b"PK\x03\x04", b"\x28\xb5\x2f\xfd", b"BZh", b"\xfd7zXZ", b"7z\xbc\xaf")


@dataclass(slots=True)
class Preview:
    """`columns`: names as the file has them. `rows`: texts of CSV, values of JSON by name; what is long is cut. `is_cut`: there are more."""

    format: str
    separator: str = ","
    quotes_mean_text: bool = False
    columns: list[str] = field(default_factory=list)
    rows: list[list[Any]] = field(default_factory=list)
    is_cut: bool = False


def refuse_archive(head: bytes) -> None:
    """Raise ValidationError for what is compressed: it is not unpacked here."""
    if head.startswith(_ARCHIVES):
        raise ValidationError("The file is compressed, or is a workbook: unpack it, or save it as CSV")


async def preview_of(
    source: StreamSource, slices: Slices, now: Callable[[], float], format_name: str | None, separator: str | None
) -> Preview:
    """Closes the source. `now`: monotonic. Raises ValidationError for what cannot be read."""
    try:
        return await _Reading(slices, now, format_name, separator).read(source)
    finally:
        source.close()


class _Reading:
    """Of one file: as many rows as are shown, one after the other, others being served in between."""

    def __init__(self, slices: Slices, now: Callable[[], float], format_name: str | None, separator: str | None) -> None:
        self._slices = slices
        self._now = now
        self._format = format_name
        self._separator = separator
        self._found: Preview | None = None
        self._reader: CsvRowParser | JsonRecordParser = JsonRecordParser()
        self._taken: list[Any] = []
        self._end = 0.0  # of the slice

    async def read(self, source: StreamSource) -> Preview:
        done = 0
        async for text in source.pieces():
            self._end = await self._slices.take()
            self._found = self._found or self._begun(text)
            self._reader.feed(text)
            if await self._take():
                break
            done += len(text)
            if done > MOST_READ:
                raise ValidationError(f"The first {ROWS} rows are longer than {MOST_READ} characters")
        else:
            if isinstance(self._reader, CsvRowParser):
                self._reader.finish()
                await self._take()
            self._reader.check_end()
        if self._found is None or not self._taken:
            raise ValidationError("The file has no rows")
        (_take_rows if self._found.format == CSV else _take_records)(self._found, self._taken)
        return self._found

    def _begun(self, text: str) -> Preview:
        start = text.removeprefix("\ufeff").lstrip(" \t\r\n")
        found = Preview(self._format or _format_of(start))
        if found.format == CSV:
            found.separator = self._separator or separator_of(start)
            found.quotes_mean_text = found.separator == "," and is_export(start[:_HEAD].partition("\n")[0])
            self._reader = CsvRowParser(found.separator, quotes_mean_text=True)  # which marks what is quoted
        return found

    async def _take(self) -> bool:
        """Take the rows that are there; returns whether these are enough."""
        reader = self._reader
        most = ROWS + 2 if isinstance(reader, CsvRowParser) else ROWS + 1
        while len(self._taken) < most:
            some: list[Any] = reader.rows(1) if isinstance(reader, CsvRowParser) else reader.records(1)
            if not some:
                return False
            self._taken += some
            if self._now() >= self._end:
                self._end = await self._slices.take()
        return True


def _format_of(start: str) -> str:
    return JSON if start[:1] == "[" else NDJSON if start[:1] == "{" else CSV


def separator_of(text: str) -> str:
    """What the cells of a header are separated by: what is there most often outside quotes, a comma if it is as often.

    >>> separator_of('a;"b,c,d";e\\n1,2;3,4;5'), separator_of("a,b;c"), separator_of("one")
    (';', ',', ',')
    """
    header = text[:_HEAD]
    outside = "".join(header.split('"')[::2]).split("\n", 1)[0]
    return max(SEPARATORS, key=lambda each: (outside.count(each), each == ","))


def _take_rows(found: Preview, taken: list[list[str]]) -> None:
    header, *rows = taken
    if len(header) > MAX_COLUMNS:
        raise ValidationError(f"The CSV has more than {MAX_COLUMNS} columns")
    width = len(header)
    shown_rows = rows[: max(1, min(ROWS, MOST_CELLS // width))]
    is_bare = any(cell and not cell.startswith(QUOTED) for row in shown_rows for cell in row)
    found.quotes_mean_text = found.quotes_mean_text or (is_bare and all(name.startswith(QUOTED) for name in header))
    found.columns = [name.removeprefix(QUOTED) for name in header]
    found.is_cut = len(rows) > len(shown_rows)
    for row in shown_rows:
        cells = [cell.removeprefix(QUOTED) for cell in row[:width]]
        found.rows.append([cell[:MOST_SHOWN] for cell in cells] + [""] * (width - len(cells)))


def _take_records(found: Preview, taken: list[dict[str, Any]]) -> None:
    names: dict[str, None] = {}
    for record in taken[:ROWS]:
        names.update(dict.fromkeys(record))
        if len(names) > MAX_COLUMNS:
            raise ValidationError(f"The records have more than {MAX_COLUMNS} properties")
    found.columns = list(names)
    shown_records = taken[: max(1, min(ROWS, MOST_CELLS // max(1, len(names))))]
    found.is_cut = len(taken) > len(shown_records)
    found.rows = [[_cut(record[name], 0) if name in record else "" for name in names] for record in shown_records]


def _cut(value: Any, depth: int) -> Any:
    if isinstance(value, str):
        return value[:MOST_SHOWN]
    if isinstance(value, list):
        return "[…]" if depth >= _DEEPEST else [_cut(each, depth + 1) for each in value[:_MOST_MEMBERS]]
    if isinstance(value, dict):
        return (
            "{…}" if depth >= _DEEPEST else {name[:MOST_SHOWN]: _cut(each, depth + 1) for name, each in list(value.items())[:_MOST_MEMBERS]}
        )
    return value if not isinstance(value, int) or isinstance(value, bool) or abs(value) < 1 << 63 else shown(str(value))


def described_columns(found: Preview, table: Table) -> list[Mapping[str, Any]]:
    """`{name, attribute, type}` of each column. The attribute is the one of its name, or of its name but for case, spaces and signs; for a table that takes
    others, one of its own name; none twice. None: there is none."""
    attributes = {name: attribute for name, attribute in table.attributes.items() if attribute.stored}
    alike: dict[str, str | None] = {}  # None: of several
    for name in attributes:
        folded = _folded(name)
        alike[folded] = None if folded in alike else name
    taken = attributes.keys() & set(found.columns)
    seen: set[str] = set()
    described: list[Mapping[str, Any]] = []
    for name in found.columns:
        attribute: str | None = None
        if name not in seen:
            seen.add(name)
            if name in table.attributes:
                attribute = name if name in attributes else None
            elif (like := alike.get(_folded(name[:_LONGEST]))) is not None and like not in taken:
                attribute = like
            elif name and not table.definition.sealed:
                attribute = name
            if attribute is not None:
                taken.add(attribute)
        described.append({"name": name, "attribute": attribute, "type": _type_of(attribute, table)})
    return described


def _folded(name: str) -> str:
    return "".join(filter(str.isalnum, name)).casefold()


def _type_of(attribute: str | None, table: Table) -> str | None:
    declared = None if attribute is None else table.attributes.get(attribute)
    return None if declared is None else f"[{declared.type}]" if declared.elements else declared.type
