"""The CSV of exports, which loads read back exactly (spec: operations §4).

It is CSV as everywhere, with a column for each property that any of the records has. Its header says that quotes mean text (`csv_rows.header_line`), and text
that looks like a list or an object is JSON (`csv_cast.exact_text`), but for attributes whose declared type says what a cell is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from svc.content.content_type import ANY_SHAPE, Shape
from svc.content.csv_reader import MAX_COLUMNS
from svc.content.csv_type import CsvRowWriter, CsvType, cell, encoded, quoted
from svc.content.texts import converter
from svc.content.values import text_key
from svc.operations.csv_cast import exact_text
from svc.operations.csv_rows import header_line
from svc.operations.job import JobFailed
from svc.store.schema import Attribute
from svc.store.values.records import decode


class ExportCsvType(CsvType):
    """`attributes`: of the table whose records are exported; without it values have no declared types."""

    def row_writer(
        self, shape: Shape = ANY_SHAPE, count: int | None = None, attributes: Mapping[str, Attribute] | None = None
    ) -> CsvExportWriter:
        return CsvExportWriter(shape, attributes or {})


class CsvExportWriter(CsvRowWriter):
    """The columns of objects are known before the first row."""

    __slots__ = ("_attributes", "_cells", "_names")

    def __init__(self, shape: Shape, attributes: Mapping[str, Attribute]) -> None:
        if len(shape.columns) > MAX_COLUMNS:
            raise JobFailed(f"The records have more than {MAX_COLUMNS} attributes together, which no CSV can have: export them as JSON")
        super().__init__(replace(shape, open=False))
        self._names = frozenset(shape.columns)
        self._attributes = attributes
        self._cells: list[tuple[str, Callable[[Any], str]]] = []

    def rows(self, batch: list[Any]) -> bytes:
        if self._form != "object":
            return super().rows(batch)
        header = self._header(batch[:1])
        if not self._cells:
            self._cells = [(name, cell if converter(self._attributes.get(name)) is not None else _untyped) for name in self._columns]
        for row in batch:
            if not self._names.issuperset(row):
                raise JobFailed("Records have got further attributes while they were exported: export them again")
        return encoded(header, [",".join([write(row.get(name)) for name, write in self._cells]) for row in batch])

    def raw(self, batch: list[bytes]) -> bytes:
        return self.rows(list(map(decode, batch)))

    def _header(self, first: list[Any]) -> str:
        is_begun = self._begun
        line = super()._header(first)
        names = [text_key(name) for name in self._columns]
        return line if is_begun or not first or len(names) < 2 else header_line(names, [quoted(name) for name in names])


def _untyped(value: Any) -> str:
    return quoted(exact_text(value)) if type(value) is str else cell(value)
