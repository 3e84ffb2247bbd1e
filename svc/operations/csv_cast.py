"""Cells of CSV files -> values (spec: operations §4).

What is declared is read by its type. What is not is cast by its look: booleans, null, plain decimal numbers, JSON objects and lists; anything else,
times and `NaN` included, stays text, whether it was quoted or not. An empty cell is no value at all: the record does not have the property.

Rows are converted column by column, because most columns hold one kind of value, and that is a few passes in C for all of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import repeat
from typing import Any

from svc.content.json_type import decode_json, encode_json
from svc.content.texts import converter
from svc.errors import BadBody, BadValue
from svc.operations.csv_rows import QUOTED
from svc.operations.fields import attribute_name_fault
from svc.store.schema import Attribute
from svc.store.values.conversion import autoconvert
from svc.store.writing.bulk_batch import RefusedRecord

_WORDS: Mapping[str, object] = {
    "true": True, "TRUE": True, "false": False, "FALSE": False, "null": None, "NULL": None, "undefined": None,
}  # fmt: skip
_STARTS = frozenset("-0123456789tTfFnNu{[")  # of all that is not simply text
_BRACKETS = {"{": "}", "[": "]"}
_TEXT_TYPES = frozenset(("ID", "String", "Any"))
_NO_KEYS = frozenset(("null", "undefined"))
_MISSING = object()
_plain = re.compile(r"[0-9.-]*").fullmatch

Column = Callable[[Sequence[str]], Sequence[Any]]
"""Cells, none of them empty, -> their values, or `_Bad`."""


def autocast(text: str) -> object:
    """What a cell of an undeclared attribute stands for.

    >>> [autocast(text) for text in ("TRUE", "undefined", "12", "-0.50", "007", "1e3", '{"a": [1]}', "{a}", "2024-01-05T10:00:00Z", "NaN")]
    [True, None, 12, -0.5, '007', '1e3', {'a': [1]}, '{a}', '2024-01-05T10:00:00Z', 'NaN']
    """
    if text[:1] not in _STARTS:
        return text
    if text in _WORDS:
        return _WORDS[text]
    end = _BRACKETS.get(text[0])
    if end is None:
        return autoconvert(text)
    if text[-1] == end:
        try:
            return decode_json(text.encode())
        except (BadBody, UnicodeEncodeError):
            pass
    return text


def exact_text(text: str) -> str:
    """What is written into a quoted cell for this text of an attribute without a declared type: the inverse of `_text_of`.

    >>> [exact_text(text) for text in ("1.10", "", "[1]", '"a"')]
    ['1.10', '', '"[1]"', '"\\\\"a\\\\""']
    """
    return encode_json(text).decode() if text[:1] == '"' or type(_text_of(text)) is not str else text


def _text_of(text: str) -> object:
    """The value of a quoted cell of an export: text, but for lists and objects, which are JSON, and text that looks like these, which is JSON too."""
    if text[:1] in ("{", "[", '"'):
        try:
            return decode_json(text.encode())
        except (BadBody, UnicodeEncodeError):
            pass
    return text


class _Bad:
    """In place of the value of a cell that its type cannot take."""

    __slots__ = ("message",)

    def __init__(self, message: str) -> None:
        self.message = message


def column_name_fault(names: Sequence[str]) -> str | None:
    """The first name of a header that cannot be that of an attribute, or that is there twice; None: all are good."""
    known: set[str] = set()
    for name in names:
        if attribute_name_fault(name) is not None or name in known:
            return name
        known.add(name)
    return None


class CsvColumns:
    """Makes records of rows with this header. `attributes`: of the table. `left_out`: columns that are not taken. `is_exact`: the rows are of an export, in
    which quotes tell text from other values."""

    def __init__(
        self,
        header: Sequence[str],
        attributes: Mapping[str, Attribute],
        primary_key: str,
        left_out: frozenset[str],
        *,
        is_exact: bool = False,
    ) -> None:
        self._width = len(header)
        self._columns = [
            (
                place,
                name,
                _exact_column(attributes.get(name)) if is_exact else _column(attributes.get(name), is_key=name == primary_key),
            )
            for place, name in enumerate(header)
            if name not in left_out
        ]
        self.names = tuple(name for _, name, _ in self._columns)
        self._key_at = self.names.index(primary_key) if primary_key in self.names else None

    def records(self, rows: list[list[str]], lines: list[int]) -> list[dict[str, Any] | RefusedRecord]:
        """Of each row, which may be shorter or longer than the header. Rows without any content give none: theirs are removed from `lines`."""
        width, names = self._width, self.names
        if not all(map(width.__eq__, map(len, rows))):
            rows = [row if len(row) == width else (row + [""] * (width - len(row)))[:width] for row in rows]
        if not rows:
            return []
        cells = list(zip(*rows, strict=True))
        columns: list[Sequence[Any]] = []
        is_plain = True
        for place, _, convert in self._columns:
            column: Sequence[Any] = cells[place]
            if "" in column:
                is_plain = False
                column = _with_gaps(column, convert)
            elif convert is not None:
                column = convert(column)
            if type(column) is _WithBad:
                is_plain = False
            columns.append(column)
        if not names:
            lines.clear()
            return []
        if is_plain:
            return list(map(dict, map(zip, repeat(names), zip(*columns, strict=True))))
        made = list(map(self._record, zip(*columns, strict=True)))
        lines[:] = [line for line, record in zip(lines, made, strict=True) if record is not None]
        return [record for record in made if record is not None]

    def _record(self, row: tuple[Any, ...]) -> dict[str, Any] | RefusedRecord | None:
        bad = [(name, value.message) for name, value in zip(self.names, row, strict=True) if type(value) is _Bad]
        if bad:
            key = row[self._key_at] if self._key_at is not None else None
            has_key = type(key) is str or type(key) is int
            return RefusedRecord(". ".join([message for _, message in bad]), key if has_key else None, bad[0][0])
        return {name: value for name, value in zip(self.names, row, strict=True) if value is not _MISSING} or None


class _WithBad(list[Any]):
    """A column that has `_Bad` among its values."""


def _with_gaps(cells: Sequence[str], convert: Column | None) -> Sequence[Any]:
    """A column that has empty cells."""
    filled = [cell for cell in cells if cell]
    values = iter(filled if convert is None or not filled else convert(filled))
    return _WithBad([next(values) if cell else _MISSING for cell in cells])


def _exact_column(attribute: Attribute | None) -> Column:
    """Cells of an export, quoted ones with QUOTED in front."""
    declared = converter(attribute)
    if declared is None:
        return lambda cells: [_text_of(cell[1:]) if cell[0] == QUOTED else autocast(cell) for cell in cells]
    if declared is str:
        return lambda cells: [cell.removeprefix(QUOTED) for cell in cells]
    convert = _each(declared)

    def column(cells: Sequence[str]) -> Sequence[Any]:
        cells = [cell.removeprefix(QUOTED) for cell in cells]
        return _with_gaps(cells, convert) if "" in cells else convert(cells)

    return column


def _column(attribute: Attribute | None, *, is_key: bool) -> Column | None:
    """None: the cells as they are."""
    declared = converter(attribute)
    if declared is None:
        column: Column | None = _autocast_column
    elif declared is str:
        column = None
    else:
        kind = "" if attribute is None or attribute.elements else attribute.type
        column = _quick(_each(declared), kind)
    return _key_column(column) if is_key and (attribute is None or attribute.type in _TEXT_TYPES) else column


def _key_column(column: Column | None) -> Column:
    """Keys that come from programs which lost them are not taken for keys (spec: operations §3.1 rule 6)."""

    def convert(cells: Sequence[str]) -> Sequence[Any]:
        values = cells if column is None else column(cells)
        if _NO_KEYS.isdisjoint(cells):
            return values
        return _WithBad(
            [
                _Bad(f"Invalid hash value: '{cell}' is not a valid hash attribute value, check log for more info")
                if cell in _NO_KEYS
                else value
                for cell, value in zip(cells, values, strict=True)
            ]
        )

    return convert


def _each(declared: Callable[[str], object]) -> Column:
    def convert(cells: Sequence[str]) -> Sequence[Any]:
        values: list[Any] = []
        has_bad = False
        for cell in cells:
            try:
                values.append(declared(cell))
            except BadValue as error:
                has_bad = True
                values.append(_Bad(error.message))
        return _WithBad(values) if has_bad else values

    return convert


def _quick(each: Column, kind: str) -> Column:
    """A column of a declared type: all at once if every cell is written in the usual way."""
    if kind == "Int" or kind == "Long" or kind == "BigInt":
        return lambda cells: _integers(cells) or each(cells)
    if kind == "Float":
        return lambda cells: _plain_floats(cells) or each(cells)
    if kind == "Boolean":
        return lambda cells: _booleans(cells) or each(cells)
    return each


def _autocast_column(cells: Sequence[str]) -> Sequence[Any]:
    first = cells[0][0]
    if first == "-" or first.isdigit():
        numbers = _integers(cells) or _floats(cells)
        if numbers is not None:
            return numbers
    starts = _STARTS
    return [cell if cell[0] not in starts else autocast(cell) for cell in cells]


_BOOLEANS = {"true": True, "false": False}
_PLACES = 15  # characters up to which an integer is the same as a double
_DIGITS = 300  # characters of a number that is read at once; longer ones may be none


def _integers(cells: Sequence[str]) -> list[int] | None:
    """Of cells that are all written as an integer is shown; None if one is not."""
    if max(map(len, cells)) > _DIGITS:
        return None
    try:
        values = list(map(int, cells))
    except ValueError:
        return None
    return values if all(map(str.__eq__, map(str, values), cells)) else None


def _plain_floats(cells: Sequence[str]) -> list[float] | None:
    """Of cells that are all written with digits, sign and point; None if one is not. Validation makes integers of whole ones."""
    if _plain("".join(cells)) is None or max(map(len, cells)) > _PLACES:
        return None
    try:
        return list(map(float, cells))
    except ValueError:
        return None


def _booleans(cells: Sequence[str]) -> list[bool | None] | None:
    values = list(map(_BOOLEANS.get, cells))
    return None if None in values else values


def _floats(cells: Sequence[str]) -> list[float] | None:
    """The same for numbers with a fraction, shown without exponent."""
    try:
        values = list(map(float, cells))
    except ValueError:
        return None
    if not all(map(str.__eq__, map(repr, values), cells)):
        return None
    text = "".join(cells)
    return None if "e" in text or "n" in text else values  # exponents; infinities and NaN
