"""Rows of SQLite -> rows of a result (spec: sql §3, §4)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

import msgspec

from svc.sql.bound import Decoding, ResultColumn
from svc.sql.tables.values import FALSE, TRUE
from svc.store.values.records import decode_payload

_decode_json = msgspec.json.Decoder().decode

_BOOLEANS = {TRUE: True, FALSE: False}  # which are most of them

RowReader = Callable[[tuple[Any, ...]], Any]


def row_reader(columns: Sequence[ResultColumn]) -> RowReader:
    """A function that makes of a row of SQLite the Python values of the result."""
    places = _places(columns)
    return (lambda row: row) if not places else lambda row: _converted(row, places)


def named_row_reader(columns: Sequence[ResultColumn]) -> RowReader:
    """The same, with an object of them by the names of the columns."""
    names = tuple([column.name for column in columns])
    places = _places(columns)
    if not places:
        return lambda row: dict(zip(names, row))  # noqa: B905 - as many

    def read(row: tuple[Any, ...]) -> dict[str, Any]:
        found = dict(zip(names, row))  # noqa: B905
        for place, convert in named:
            value = found[place]
            if value is not None:
                found[place] = convert(value)
        return found

    named = [(names[place], convert) for place, convert in places]
    return read


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
