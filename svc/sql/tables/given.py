"""Rows that a statement is given, as a table (spec: sql §5): those that an INSERT would write, the keys of records that were written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from svc.sql.catalogue import EXACT, ColumnType, ColumnView
from svc.sql.tables.row_forms import Reader, faces_of
from svc.sql.tables.shape import affinity, quoted
from svc.sql.tables.values import SqlValue, column_value, exact_value

if TYPE_CHECKING:
    from svc.sql.tables.module import TableModules

_UNKNOWN_COUNT = 10


@dataclass(frozen=True, slots=True)
class GivenRows:
    """`name`: by which the source knows the rows. Each has the values of `columns`, in their order, as records have them."""

    name: str
    columns: tuple[ColumnView, ...]

    @property
    def schema(self) -> str:
        return "main"

    @property
    def sql_name(self) -> str:
        return self.name

    def connect(self, modules: TableModules) -> tuple[str, Any]:
        faces = faces_of(self.columns)
        declared = [
            f"{quoted(view.exact_name)} HIDDEN" if is_exact else f"{quoted(view.sql_name)} {affinity(view.type)}"
            for view, is_exact in faces
        ]
        places = {view: place for place, view in enumerate(self.columns)}
        readers = (number_of_row, *[_reader(places[view], view.type, is_exact) for view, is_exact in faces])
        key = f"{quoted(EXACT)} INTEGER HIDDEN PRIMARY KEY"
        return f"CREATE TABLE x({', '.join([key, *declared])}) WITHOUT ROWID", _GivenTable(modules, self.name, readers)


def number_of_row(row: Any) -> SqlValue:
    return row[0]  # type: ignore[no-any-return]


def _reader(place: int, kind: ColumnType, is_exact: bool) -> Reader:
    convert = exact_value if is_exact else partial(column_value, kind)
    get = itemgetter(place)
    return lambda row: convert(get(row[1]))


class _GivenTable:
    def __init__(self, modules: TableModules, name: str, readers: Sequence[Reader]) -> None:
        self._modules = modules
        self._name = name
        self.readers = readers

    def rows(self) -> Sequence[Sequence[Any]]:
        source = self._modules.source
        assert source is not None, "a statement runs without a source"
        return source.rows(self._name)

    def BestIndexObject(self, info: Any) -> bool:
        count = _UNKNOWN_COUNT if self._modules.source is None else len(self.rows())
        info.estimatedRows = max(1, count)
        info.estimatedCost = float(max(1, count))
        return True

    def Open(self) -> ListCursor:
        return _GivenCursor(self)

    def Disconnect(self) -> None:
        pass

    Destroy = Disconnect


class ListCursor:
    """Over rows that an iterator gives."""

    __slots__ = ("readers", "row", "rows")

    def __init__(self, readers: Sequence[Reader]) -> None:
        self.readers = readers
        self.rows: Iterator[Any] = iter(())
        self.row: Any = None

    def Next(self) -> None:
        self.row = next(self.rows, None)

    def Eof(self) -> bool:
        return self.row is None

    def Column(self, number: int) -> SqlValue:
        return self.readers[number](self.row)

    def Close(self) -> None:
        self.rows, self.row = iter(()), None


class _GivenCursor(ListCursor):
    __slots__ = ("_table",)

    def __init__(self, table: _GivenTable) -> None:
        super().__init__(table.readers)
        self._table = table

    def Filter(self, number: int, text: str | None, args: tuple[Any, ...]) -> None:
        self.rows = enumerate(self._table.rows())
        self.row = next(self.rows, None)
