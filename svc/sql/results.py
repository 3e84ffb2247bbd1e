"""Rows of SQLite -> rows of a result (spec: sql §3, §4)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from itertools import chain
from operator import itemgetter
from typing import Any

import msgspec

from svc.sql.bound import Decoding, RecordColumn, ResultColumn
from svc.sql.tables.values import FALSE, TRUE
from svc.store.values.records import decode_payload, projections

_decode_json = msgspec.json.Decoder().decode

_BOOLEANS = {TRUE: True, FALSE: False}  # which are most of them

SqliteRow = tuple[Any, ...]
RowsReader = Callable[[list[SqliteRow]], list[Any]]


def rows_reader(columns: Sequence[ResultColumn]) -> RowsReader:
    """A function that makes of rows of SQLite the Python values of the result."""
    places = _places(columns)
    return (lambda rows: rows) if not places else lambda rows: [_converted(row, places) for row in rows]


def named_rows_reader(columns: Sequence[ResultColumn], layout: Sequence[int | RecordColumn] = ()) -> RowsReader:
    """The same, with an object of them by the names of the columns. `layout`: as `BoundQuery` has it."""
    names = tuple([column.name for column in columns])
    convert = _named_converter(columns, layout)
    spread = _spreader(layout) if layout else None

    def read(rows: list[SqliteRow]) -> list[Any]:
        found = [dict(zip(names, row)) for row in (rows if spread is None else spread(rows))]  # noqa: B905 - as many
        if convert is not None:
            convert(found)
        return found

    return read


def _named_converter(
    columns: Sequence[ResultColumn], layout: Sequence[int | RecordColumn]
) -> Callable[[list[dict[str, Any]]], None] | None:
    """What changes those values of rows that are not what the result has."""
    named = [(columns[place].name, convert) for place, convert in _places(columns) if not layout or type(layout[place]) is int]
    if not named:
        return None

    def convert_all(rows: list[dict[str, Any]]) -> None:
        for row in rows:
            for name, convert in named:
                value = row[name]
                if value is not None:
                    row[name] = convert(value)

    return convert_all


def _spreader(layout: Sequence[int | RecordColumn]) -> Callable[[list[SqliteRow]], Iterable[SqliteRow]]:
    """What puts values of records in the places that they have in the result."""
    records: dict[int, list[str]] = {}  # SQLite's column -> attributes
    for part in layout:
        if isinstance(part, RecordColumn):
            attributes = records.setdefault(part.record, [])
            if part.attribute not in attributes:
                attributes.append(part.attribute)
    readers = [(record, _values_reader(tuple(attributes))) for record, attributes in records.items()]
    if layout == tuple([RecordColumn(0, name) for name in records.get(0, ())]):
        read_only = readers[0][1]
        return lambda rows: read_only([row[0] for row in rows])
    begins: dict[int, int] = {}
    end = len(records) + sum([type(part) is int for part in layout])  # of SQLite's columns, behind which the values are put
    for record, attributes in records.items():
        begins[record] = end
        end += len(attributes)
    pick = itemgetter(
        *[begins[part.record] + records[part.record].index(part.attribute) if isinstance(part, RecordColumn) else part for part in layout]
    )

    def spread(rows: list[SqliteRow]) -> Iterable[SqliteRow]:
        values = [read([row[record] for row in rows]) for record, read in readers]
        return map(pick, map(_flat, rows, *values))

    return spread


def _flat(row: SqliteRow, *values: SqliteRow) -> SqliteRow:
    return tuple(chain(row, *values))


def _values_reader(attributes: tuple[str, ...]) -> Callable[[list[bytes | None]], list[SqliteRow]]:
    """A function records -> their values; of one that is not there, in an outer join, they are null."""
    read = projections(attributes)
    nothing = (None,) * len(attributes)

    def read_some(raws: list[bytes | None]) -> list[SqliteRow]:
        if None not in raws:
            return read(raws)  # type: ignore[arg-type]
        values = iter(read([raw for raw in raws if raw is not None]))
        return [nothing if raw is None else next(values) for raw in raws]

    return read_some


def _places(columns: Sequence[ResultColumn]) -> list[tuple[int, Callable[[Any], Any]]]:
    return [(place, read) for place, column in enumerate(columns) if (read := _READERS.get(column.decoding)) is not None]


def _converted(row: tuple[Any, ...], places: list[tuple[int, Callable[[Any], Any]]]) -> Sequence[Any]:
    values = list(row)
    for place, convert in places:
        value = values[place]
        if value is not None:
            values[place] = convert(value)
    return values


def _exact(value: Any) -> Any:
    if type(value) is not bytes:
        return value
    found = _BOOLEANS.get(value)
    return decode_payload(value) if found is None else found


def _boolean(value: Any) -> Any:
    return bool(value) if type(value) is int else value


def _json(value: Any) -> Any:
    if type(value) is not str:
        return value
    try:
        return _decode_json(value)
    except msgspec.DecodeError:
        return value


def _date(value: Any) -> Any:
    if type(value) is not str:
        return value
    try:
        return datetime.fromisoformat(value)
    except ValueError:
        return value


def _big(value: Any) -> Any:
    if type(value) is not str:
        return value
    try:
        return int(value)
    except ValueError:
        return value


_READERS: dict[Decoding, Callable[[Any], Any]] = {
    Decoding.EXACT: _exact,
    Decoding.BOOLEAN: _boolean,
    Decoding.JSON: _json,
    Decoding.DATE: _date,
    Decoding.BIG: _big,
}
