"""`application/vnd.apache.arrow.stream`, write only, with the extra `arrow` (spec: http §7.1; Arrow columnar format, IPC streaming).

A stream says the types of its columns before the first row: the declared ones where they are known and hold, else those of the values in the first batch.

    bool     booleans                int64    integers               double   floats, and integers among them
    string   strings                 binary   bytes                  timestamp[ms, UTC]   dates
    string   with JSON in it: lists and objects, values of several kinds, a column without values
    string   digits: what is declared as BigInt

A value further on that the column of its name cannot hold ends the stream: nothing is changed to fit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import date, datetime
from functools import cache
from importlib.util import find_spec
from typing import Any

from svc.content.content_type import ANY_SHAPE, ContentType, Shape
from svc.content.csv_type import VALUE_COLUMN, known_row
from svc.content.heavy_rows import Weight
from svc.content.json_type import encode_json
from svc.content.values import as_datetime, replace_lone_surrogates, text_key
from svc.errors import NotAcceptable
from svc.store.values import records

ARROW = "application/vnd.apache.arrow.stream"
BATCH_ROWS = 1024  # of a record batch, at most twice as many: about a millisecond to make

_NONE = type(None)
_END = b"\xff\xff\xff\xff\x00\x00\x00\x00"


class ColumnKind:
    """`of`: the types of the values that it holds, None: any. `write`: how they are given to Arrow, None: as they are. `bits`: of its integers, None: any
    number."""

    __slots__ = ("_most", "arrow", "name", "of", "write")

    def __init__(
        self, name: str, arrow: str, of: frozenset[type] | None, write: Callable[[Any], Any] | None = None, bits: int | None = None
    ) -> None:
        self.name = name
        self.arrow = arrow
        self.of = of
        self.write = write
        self._most = None if bits is None else 1 << bits

    def takes(self, kinds: set[type], values: list[Any]) -> bool:
        """`kinds`: the types of the values."""
        if self.of is None:
            return True
        if not kinds <= self.of:
            return False
        most = self._most
        return most is None or int not in kinds or all(type(value) is not int or -most <= value < most for value in values)


def _json(value: Any) -> str:
    return encode_json(value).decode()


INTEGERS = ColumnKind("integers", "int64", frozenset((int, _NONE)), bits=63)
FLOATS = ColumnKind("floats", "float64", frozenset((float, int, _NONE)), float, bits=53)
TEXTS = ColumnKind("strings", "string", frozenset((str, _NONE)))
BOOLEANS = ColumnKind("booleans", "bool_", frozenset((bool, _NONE)))
DATES = ColumnKind("dates", "timestamp", frozenset((datetime, date, _NONE)), as_datetime)
BYTES = ColumnKind("bytes", "binary", frozenset((bytes, _NONE)))
DIGITS = ColumnKind("integers", "string", frozenset((int, _NONE)), str)
JSON = ColumnKind("values", "string", None, _json)

_GUESSES = (INTEGERS, FLOATS, TEXTS, BOOLEANS, DATES, BYTES)
_DECLARED: Mapping[str, ColumnKind] = {
    "ID": TEXTS,
    "String": TEXTS,
    "Int": INTEGERS,
    "Long": INTEGERS,
    "Float": FLOATS,
    "BigInt": DIGITS,
    "Boolean": BOOLEANS,
    "Date": DATES,
    "Bytes": BYTES,
}


@cache
def is_installed() -> bool:
    return find_spec("pyarrow") is not None


class ArrowType(ContentType):
    """Without the library it takes no part in negotiation."""

    name = content_type = ARROW
    q = 0.1  # for those who name it
    native = True
    is_tabular = True
    reads = False

    def __init__(self) -> None:
        self.writes = is_installed()

    def encode(self, value: Any) -> bytes:
        """One row; a list is a row for each element."""
        rows = ArrowRows(ANY_SHAPE)
        values = list(value) if isinstance(value, list | tuple) else [value]
        return rows.begin() + (rows.values(values) if values else b"") + rows.end()

    def row_writer(self, shape: Shape = ANY_SHAPE, count: int | None = None) -> ArrowRows:
        return ArrowRows(shape)


class ArrowRows:
    """Rows are gathered to batches. What is in them besides the columns is left out."""

    __slots__ = ("_columns", "_gathered", "_is_open", "_kinds", "_schema", "_shape")

    def __init__(self, shape: Shape) -> None:
        self._shape = shape
        self._columns: tuple[str, ...] = shape.columns
        self._is_open = shape.form == "object" and (shape.open or not shape.columns)
        self._gathered: list[list[Any]] | None = None  # the values of each column
        self._kinds: list[ColumnKind] = []
        self._schema: Any = None

    def begin(self) -> bytes:
        return b""

    def rows(self, batch: list[Any]) -> bytes:
        if self._gathered is None:
            if self._is_open:
                self._columns = tuple(dict.fromkeys([*self._columns, *(name for row in batch for name in row)]))
            elif self._shape.form == "value" and not self._columns:
                self._columns = (VALUE_COLUMN,)
            self._gathered = [[] for _ in self._columns]
        gathered = self._gathered
        if self._shape.form == "object":
            for name, values in zip(self._columns, gathered, strict=True):
                values += [row.get(name) for row in batch]
        elif self._shape.form == "value":
            gathered[0] += batch
        else:
            for position, values in enumerate(gathered):
                values += [row[position] for row in batch]
        return self._written() if gathered and len(gathered[0]) >= BATCH_ROWS else b""

    def values(self, batch: list[Any]) -> bytes:
        rows = [known_row(row) for row in batch]
        if self._gathered is None and not self._columns and not all(isinstance(row, dict) for row in rows):
            self._shape, self._is_open = Shape(form="value"), False
        if self._shape.form == "object":
            rows = [row if isinstance(row, dict) else {} for row in rows]
        elif self._shape.form == "array":
            rows = [[*(row if isinstance(row, list | tuple) else (row,)), *[None] * len(self._columns)] for row in rows]
        return self.rows(rows)

    def raw(self, batch: list[bytes]) -> bytes:
        return self.rows(list(map(records.decode, batch)))

    def pieces(self, row: Any, weight: Weight) -> Iterator[bytes] | None:
        return None

    def failure(self, error: dict[str, Any]) -> bytes | None:
        return None

    def end(self) -> bytes:
        return self._written() + _END

    def _written(self) -> bytes:
        """What was gathered, as one record batch; before the first one the types. Raises ClientError for a value that a column cannot hold."""
        import pyarrow as pa

        gathered = self._gathered or [[] for _ in self._columns]
        found = b""
        arrays = []
        is_first = self._schema is None
        for position, (name, values) in enumerate(zip(self._columns, gathered, strict=True)):
            kinds = set(map(type, values))
            if is_first:
                self._kinds.append(_kind(self._shape.types.get(name, ""), kinds, values))
            kind = self._kinds[position]
            if not kind.takes(kinds, values):
                raise NotAcceptable(
                    f"The column '{text_key(name)[:100]}' has {kind.name} in its first rows and other values further on, which no Arrow column can hold:"
                    " convert it, or ask for another content type"
                )
            arrays.append(_array(pa, kind, values))
            values.clear()
        if is_first:
            self._schema = pa.schema(
                [pa.field(replace_lone_surrogates(text_key(name)), array.type) for name, array in zip(self._columns, arrays, strict=True)]
            )
            found = self._schema.serialize().to_pybytes()
        if arrays and len(arrays[0]):
            found += pa.record_batch(arrays, schema=self._schema).serialize().to_pybytes()
        if self._gathered is not None:
            self._gathered = [[] for _ in self._columns]
        return found


def _kind(declared: str, kinds: set[type], values: list[Any]) -> ColumnKind:
    known = _DECLARED.get(declared)
    if known is not None and known.takes(kinds, values):
        return known
    return JSON if kinds <= {_NONE} else next((kind for kind in _GUESSES if kind.takes(kinds, values)), JSON)


def _array(pa: Any, kind: ColumnKind, values: list[Any]) -> Any:
    arrow = pa.timestamp("ms", tz="UTC") if kind is DATES else getattr(pa, kind.arrow)()
    write = kind.write
    if write is not None:
        values = [None if value is None else write(value) for value in values]
    try:
        return pa.array(values, arrow)
    except UnicodeEncodeError:
        return pa.array([None if value is None else replace_lone_surrogates(value) for value in values], arrow)
