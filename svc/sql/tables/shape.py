"""A view of a table, as SQLite is told of it and as its keys and indexes serve it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from struct import Struct
from typing import Any

from svc.errors import QueryTooLarge
from svc.sql.catalogue import EXACT, RECORD, ColumnType, TableView
from svc.sql.tables.row_forms import RECORD_FACE, Reader, RowForm, faces_of, forms_of, spread, used_faces
from svc.sql.tables.values import FALSE, TRUE, SqlValue, exact_value, sql_value
from svc.store import Table
from svc.store.indexes.index import Entry, Index
from svc.store.values.keys import MAX_STORED, decode_key
from svc.store.values.records import from_ms

MAX_COLUMNS = 2000  # of SQLite
CUT_TEXT = 0xFF  # the last byte of the key of a text that was cut
_unpack_double = Struct(">d").unpack_from
MAX_FORMS = 256  # that are remembered

_DECLARED = {
    ColumnType.TEXT: "TEXT",
    ColumnType.DATE: "TEXT",
    ColumnType.INTEGER: "INTEGER",
    ColumnType.BOOLEAN: "INTEGER",
    ColumnType.REAL: "REAL",
}
"""The affinity of columns: of the others none, so what is compared with them stays what it is."""

ORDERED = frozenset((ColumnType.TEXT, ColumnType.INTEGER, ColumnType.REAL, ColumnType.BOOLEAN, ColumnType.DATE, ColumnType.BYTES))
"""Types whose index has every record once, in the order that SQLite has its values in."""


CUT = frozenset((ColumnType.TEXT, ColumnType.BYTES))
"""Types whose index keys may have a part of the value only."""


class TableShape:
    """`faces`: SQLite's columns behind the first, the record itself the last. `key`: place of the primary key in the view, NO_KEY if it may not be read.
    `kinds`: for each column of the view what its keys are. `indexes`: those that can be used, by the place of their column."""

    NO_KEY = -2

    __slots__ = ("_forms", "_used", "faces", "indexes", "key", "key_kind", "kinds", "table", "view")

    def __init__(self, view: TableView) -> None:
        self.view = view
        self.table: Table = view.table
        self.faces = (*faces_of(view.columns), RECORD_FACE)
        self.kinds = [column.type for column in view.columns]
        self.key = next((place for place, column in enumerate(view.columns) if column.is_key), self.NO_KEY)
        self.key_kind = ColumnType.ANY if self.key == self.NO_KEY else self.kinds[self.key]
        # Of attributes in doubt the keys say nothing.
        self.indexes: dict[int, Index] = {
            place: view.table.indexes[column.name]
            for place, column in enumerate(view.columns)
            if column.is_indexed and column.name in view.table.indexes and column.name not in view.doubtful
        }
        self._forms: dict[tuple[int, ...], tuple[RowForm, ...]] = {}
        self._used: dict[frozenset[int], tuple[int, ...]] = {}

    def declaration(self) -> str:
        """Raises QueryTooLarge if there are more columns than SQLite can have."""
        if len(self.faces) + 1 > MAX_COLUMNS:
            raise QueryTooLarge(
                f"The table {self.view.table.name} has {len(self.view.columns)} attributes, which are too many for SQL", budget="columns"
            )
        columns = [f"{quoted(EXACT)} BLOB HIDDEN PRIMARY KEY"]
        for view, is_exact in self.faces[:-1]:
            columns.append(f"{quoted(view.exact_name)} HIDDEN" if is_exact else f"{quoted(view.sql_name)} {affinity(view.type)}")
        columns.append(f"{quoted(RECORD)} HIDDEN")
        return f"CREATE TABLE x({', '.join(columns)}) WITHOUT ROWID"

    def used(self, columns: frozenset[int]) -> tuple[int, ...]:
        """Places of the faces that are used. `columns`: as SQLite says it."""
        known = self._used.get(columns)
        if known is None:
            if len(self._used) >= MAX_FORMS:
                self._used.clear()
            known = self._used[columns] = used_faces(self.faces, columns)
        return known

    def forms(self, used: tuple[int, ...]) -> tuple[RowForm, ...]:
        """What makes rows with these faces."""
        known = self._forms.get(used)
        if known is None:
            if len(self._forms) >= MAX_FORMS:
                self._forms.clear()
            known = self._forms[used] = forms_of(self.view, self.faces, used)
        return known

    @property
    def record(self) -> int:
        """Place of the face that is the record."""
        return len(self.faces) - 1

    def record_form(self, used: Sequence[int]) -> RowForm:
        """For plans that need the record, and the other columns hardly ever."""
        return RowForm(lambda raws: raws, spread(self.faces, {place: self._reader(place) for place in used if place != self.record}))

    def _reader(self, place: int) -> Reader:
        form = self.forms((place,))[-1]
        read = form.readers[place]
        return lambda raw: read((form.make((raw,)) or ())[0])

    # -- entries of an index as rows

    def has_all(self, column: int, used: Sequence[int]) -> bool:
        """Whether the entries of an index have all that is used. What a caller may see is known of records only."""
        kind = self.kinds[column]
        if kind not in _IN_ENTRIES or self.view.is_narrowed:
            return False
        for place in used:
            view, is_exact = self.faces[place]
            if view.is_key:
                if self.key_kind is not ColumnType.TEXT:
                    return False
            elif view is not self.view.columns[column] or (is_exact and kind is ColumnType.REAL):
                return False
        return True

    def entry_readers(self, column: int) -> tuple[Reader, ...]:
        """Of rows that are entries of the index of a column."""
        kind = self.kinds[column]
        readers: dict[int, Reader] = {}
        for place, (view, is_exact) in enumerate(self.faces):
            if view.is_key and not is_exact:
                readers[place] = _key_of_entry
            elif view is self.view.columns[column]:
                readers[place] = entry_reader(kind, is_exact)
        return spread(self.faces, readers)


def affinity(kind: ColumnType) -> str:
    """The type that a column is declared with."""
    return _DECLARED.get(kind, "")


def quoted(name: str) -> str:
    return f'"{name.replace(chr(34), chr(34) * 2)}"'


def has_cut(entries: Sequence[tuple[bytes, Any]]) -> bool:
    """Whether one of these entries of texts or bytes does not have all of its value."""
    return bool([True for key, _ in entries if key[-1] == CUT_TEXT or len(key) == MAX_STORED])


def has_hashed(entries: Sequence[Entry]) -> bool:
    """Whether one of these entries does not have all of the key of its record."""
    return bool([True for _, primary in entries if len(primary) == MAX_STORED])


def _key_of_entry(entry: Any) -> SqlValue:
    return decode_key(entry[1])  # type: ignore[return-value]


def entry_reader(kind: ColumnType, is_exact: bool) -> Reader:
    """The value of an entry of an index whose column has a type of `_IN_ENTRIES`."""
    return (_EXACT_OF_ENTRY if is_exact else _OF_ENTRY).get(kind, _value_of_entry)


def _value_of_entry(entry: Any) -> SqlValue:
    return decode_key(entry[0])  # type: ignore[return-value]


def _integer_of_entry(entry: Any) -> SqlValue:
    key = entry[0]
    if len(key) == 9 and key[1] >= 0x80:  # 0 and above: the negative number, as a double
        return int(-_unpack_double(key, 1)[0])
    return decode_key(key)  # type: ignore[return-value]


def _double_of_entry(entry: Any) -> SqlValue:
    key = entry[0]
    if len(key) == 9 and key[1] >= 0x80:
        return abs(_unpack_double(key, 1)[0])  # type: ignore[no-any-return]
    value = decode_key(key)
    return None if value is None else float(value)  # type: ignore[arg-type]


def _date_of_entry(entry: Any) -> SqlValue:
    ms = decode_key(entry[0])
    return None if ms is None else sql_value(from_ms(ms))  # type: ignore[arg-type]


def _exact_date_of_entry(entry: Any) -> SqlValue:
    ms = decode_key(entry[0])
    return None if ms is None else exact_value(from_ms(ms))  # type: ignore[arg-type]


def _exact_boolean_of_entry(entry: Any) -> SqlValue:
    value = decode_key(entry[0])
    return None if value is None else TRUE if value else FALSE


def _exact_bytes_of_entry(entry: Any) -> SqlValue:
    return exact_value(decode_key(entry[0]))


_IN_ENTRIES = ORDERED
_OF_ENTRY: dict[ColumnType, Callable[[Any], SqlValue]] = {
    ColumnType.INTEGER: _integer_of_entry,
    ColumnType.REAL: _double_of_entry,
    ColumnType.DATE: _date_of_entry,
}
_EXACT_OF_ENTRY: dict[ColumnType, Callable[[Any], SqlValue]] = {
    ColumnType.DATE: _exact_date_of_entry,
    ColumnType.BOOLEAN: _exact_boolean_of_entry,
    ColumnType.BYTES: _exact_bytes_of_entry,
}
