"""`text/csv` (spec: http §7.2, §7.3; RFC 4180).

    strings, dates, bytes (base64), lists and objects (JSON)   quoted; a blob is its content as a string or its description, as in JSON
    numbers, booleans                                       bare
    null, absent, NaN                                       empty

Cells that a spreadsheet would take for a formula are not changed: reading back must give the written value, so a
spreadsheet must import them as text.
"""

from __future__ import annotations

from binascii import b2a_base64
from collections.abc import Callable, Mapping
from datetime import date, datetime
from decimal import Decimal
from math import isfinite
from typing import Any

from svc.content.content_type import ANY_SHAPE, ContentType, Shape, Slices, run
from svc.content.csv_reader import decode_csv
from svc.content.heavy_rows import Weight
from svc.content.json_type import encode_json
from svc.content.texts import decode_text
from svc.content.values import NotAwaited, json_form, replace_lone_surrogates, text_key, to_plain
from svc.errors import BadBody
from svc.messages import HeaderPairs
from svc.store.blobs import Blob
from svc.store.schema import Attribute
from svc.store.values import records

VALUE_COLUMN = "value"  # the column of values that are not objects, by default


class CsvType(ContentType):
    name = "text/csv"
    content_type = "text/csv; charset=utf-8"
    q = 0.1
    native = True
    text_bodies = True  # base64 for bytes
    is_tabular = True
    headers: HeaderPairs = [("Content-Disposition", 'attachment; filename="data.csv"')]  # noqa: RUF012 - read only

    def encode(self, value: Any) -> bytes:
        """One row; a list is a row for each element, with the columns of all of them."""
        value = known_row(value)
        return CsvRowWriter(ANY_SHAPE).values(list(value) if isinstance(value, list | tuple) else [value])

    def row_writer(self, shape: Shape = ANY_SHAPE, count: int | None = None) -> CsvRowWriter:
        return CsvRowWriter(shape)

    def decode(self, body: bytes, parameters: Mapping[str, str], attributes: Mapping[str, Attribute] | None = None) -> Any:
        return run(self.decode_slices(body, parameters, attributes))

    def decode_slices(self, body: bytes, parameters: Mapping[str, str], attributes: Mapping[str, Attribute] | None = None) -> Slices:
        if parameters.get("header", "").lower() == "absent":  # RFC 4180 §3: the first row would be lost, and give its values as names
            raise BadBody("CSV with header=absent cannot be read: its first row must have the names of the attributes")
        return decode_csv(decode_text(body, parameters), attributes)


class CsvRowWriter:
    """The header row comes with the first rows, because they may add columns to it; without rows, with the end."""

    __slots__ = ("_begun", "_columns", "_form", "_open", "_project")

    def __init__(self, shape: Shape) -> None:
        self._begun = False
        self._columns = shape.columns
        self._form = shape.form
        self._open = shape.open
        self._project: Callable[[bytes], tuple[Any, ...]] | None = None

    def begin(self) -> bytes:
        return b""

    def rows(self, batch: list[Any]) -> bytes:
        header = self._header(batch[:1])
        if self._form == "value":
            lines = [cell(row) for row in batch]
        elif self._form == "array":
            lines = [",".join(map(cell, row)) for row in batch]
        else:
            columns = self._columns
            lines = [",".join([cell(row.get(name)) for name in columns]) for row in batch]
        return encoded(header, lines)

    def values(self, batch: list[Any]) -> bytes:
        """Without declared columns, the columns are those of the first batch of rows."""
        rows = [known_row(row) for row in batch]
        if not self._begun and not self._columns:
            self._columns = tuple(dict.fromkeys([name for row in rows if isinstance(row, dict) for name in row]))
            if not all(isinstance(row, dict) for row in rows):
                self._form, self._columns = "value", (VALUE_COLUMN,)
        if self._form == "object":
            rows = [row if isinstance(row, dict) else {} for row in rows]
        elif self._form == "array":
            rows = [row if isinstance(row, list | tuple) else [row] for row in rows]
        has_header = self._begun
        try:
            return self.rows(rows)
        except NotAwaited:  # they come once more
            self._begun = has_header
            raise

    def raw(self, batch: list[bytes]) -> bytes:
        header = "" if self._begun else self._header([records.decode(batch[0])])
        project = self._project
        if project is None:
            project = self._project = records.projection(self._columns)
        return encoded(header, [",".join(map(cell, project(raw))) for raw in batch])

    def pieces(self, row: Any, weight: Weight) -> None:
        return None

    def failure(self, error: dict[str, Any]) -> bytes | None:
        return None

    def end(self) -> bytes:
        return encoded(self._header([]), [])

    def _header(self, first: list[Any]) -> str:
        """The header row if it has not been given yet; `first` is the first row, if there is one."""
        if self._begun:
            return ""
        self._begun = True
        if self._form == "value":
            self._columns = self._columns or (VALUE_COLUMN,)
        elif self._form == "object" and (self._open or not self._columns):
            self._columns = tuple(dict.fromkeys([*self._columns, *(name for row in first for name in row)]))
        return ",".join([quoted(text_key(name)) for name in self._columns]) + "\r\n" if self._columns else ""


def encoded(header: str, lines: list[str]) -> bytes:
    text = header + "".join([line + "\r\n" for line in lines])
    try:
        return text.encode()
    except UnicodeEncodeError:
        return replace_lone_surrogates(text).encode()


def known_row(value: Any) -> Any:
    """A value of a handler as one that has a row or a cell."""
    while not isinstance(value, _KNOWN):
        value = to_plain(value)
    return value


_KNOWN = (str, int, float, type(None), bytes, date, dict, list, tuple, set, frozenset, Blob)

# --- cells -----------------------------------------------------------------------------------------------------------------------------


def cell(value: Any) -> str:
    function = _CELLS.get(type(value))
    return _json_cell(value) if function is None else function(value)


def quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


def _json_cell(value: Any) -> str:
    """Lists, objects, sets; and what handlers return, which may turn out to be one of the plain types."""
    form = json_form(value)
    return cell(form) if type(form) in _CELLS else quoted(encode_json(form).decode())


def _float_cell(value: float) -> str:
    """All digits, without an exponent: with one, an untyped cell would be read as text (spec: query §4)."""
    if not isfinite(value):
        return ""
    text = repr(value)
    if "e" not in text:
        return text
    return str(int(value)) if value.is_integer() else format(Decimal(text), "f")


_CELLS: dict[type, Callable[[Any], str]] = {
    str: quoted,
    int: str,
    float: _float_cell,
    bool: lambda value: "true" if value else "false",
    type(None): lambda value: "",
    type(records.MISSING): lambda value: "",
    bytes: lambda value: '"' + b2a_base64(value, newline=False).decode() + '"',
    datetime: lambda value: '"' + records.iso_text(records.to_ms(value)) + '"',
}
