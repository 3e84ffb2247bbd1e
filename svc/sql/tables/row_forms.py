"""Raw records -> rows of a cursor, and from a row the values of its columns.

SQLite's columns of a table: the stored key, by which SQLite knows a row when several conditions lead to it; then the value of each column of the view; then
the exact values of those that have one, and the record as it is stored. A *form* is one way to make rows, of the columns that a statement uses only:

    quick    a Struct for each record, whose values msgspec has found to be of the expected types: most of them need no conversion
    careful  a Struct with the values as they are stored, each converted when it is asked for: for records with other values, and for wide tables
    whole    the record, decoded: for computed attributes, and for names that msgspec cannot read; with the values that code of an application computes
    bare     the raw record: no column is used
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from operator import attrgetter
from typing import Annotated, Any, NamedTuple

import msgspec

from svc.sql.catalogue import PLAIN_TYPES, RECORD, ColumnType, ColumnView, TableView
from svc.sql.loop_calls import each_on_loop
from svc.sql.tables.values import (
    FALSE,
    TRUE,
    SqlValue,
    column_value,
    exact_value,
    stored_column_value,
    stored_exact_value,
    stored_sql_value,
)
from svc.store import Table
from svc.store.values.records import decode, struct_decoder

Reader = Callable[[Any], SqlValue]  # of a row

KEY_COLUMN = 0  # of SQLite
LAST_BIT = 63  # of the columns that SQLite says are used: stands for all from there on

_Integer = Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]
_Scalar = str | _Integer | float | bool | None
_EXACT_BOOLEANS = {None: None, True: TRUE, False: FALSE}


class Face(NamedTuple):
    """A column of SQLite."""

    view: ColumnView
    is_exact: bool


RECORD_FACE = Face(ColumnView(RECORD, ColumnType.BYTES), False)
"""Of the record as it is stored, which no form has to read."""


class RowForm(NamedTuple):
    """`make` gives a row for each raw record, or None: another form has to. `readers`: of the columns behind the first; that of the record is none."""

    make: Callable[[Sequence[bytes]], Sequence[Any] | None]
    readers: tuple[Reader, ...]


def faces_of(columns: Sequence[ColumnView]) -> tuple[Face, ...]:
    """The columns of SQLite behind the first."""
    return (*[Face(column, False) for column in columns], *[Face(column, True) for column in columns if column.type not in PLAIN_TYPES])


def used_faces(faces: Sequence[Face], columns: frozenset[int]) -> tuple[int, ...]:
    """Places in `faces` of the columns that are used. `columns`: as SQLite says it."""
    last = LAST_BIT - 1 if LAST_BIT in columns else len(faces)
    return tuple([place for place in range(len(faces)) if place >= last or place + 1 in columns])


def forms_of(view: TableView, faces: Sequence[Face], used: Sequence[int]) -> tuple[RowForm, ...]:
    """The forms to be tried one after the other."""
    used = [place for place in used if faces[place] is not RECORD_FACE]
    if not used:
        return (RowForm(_themselves, spread(faces, {})),)
    if any(faces[place].view.is_computed for place in used):
        return (_whole_form(view, faces, used),)
    careful = _careful_form(faces, used)
    if careful is None:
        return (_whole_form(view, faces, used),)
    quick = None if used[-1] >= LAST_BIT else _quick_form(faces, used)
    return (careful,) if quick is None else (quick, careful)


def spread(faces: Sequence[Face], readers: dict[int, Reader]) -> tuple[Reader, ...]:
    """Readers of all faces, of these by their places."""
    return tuple([readers.get(place, _unused) for place in range(len(faces))])


def _themselves(raws: Sequence[bytes]) -> Sequence[bytes]:
    return raws


def _unused(row: Any) -> SqlValue:
    raise AssertionError("a column that the statement does not use")


# --- quick --------------------------------------------------------------------------------------------------------------------------------


def _quick_form(faces: Sequence[Face], used: Sequence[int]) -> RowForm | None:
    uses: dict[ColumnView, set[bool]] = {}
    for place in used:
        uses.setdefault(faces[place].view, set()).add(faces[place].is_exact)
    fields = {view: f"c{number}" for number, view in enumerate(uses)}
    make = struct_decoder(tuple([(field, view.name, _quick_type(view.type, True in uses[view])) for view, field in fields.items()]))
    if make is None:
        return None
    readers = {}
    for place in used:
        view, is_exact = faces[place]
        readers[place] = _quick_reader(fields[view], view.type, is_exact, True in uses[view])
    return RowForm(make, spread(faces, readers))


def _quick_type(kind: ColumnType, is_exact_used: bool) -> Any:
    if kind is ColumnType.REAL:
        return _Integer | float | None if is_exact_used else float | None
    if kind is ColumnType.BYTES:
        return msgspec.Raw if is_exact_used else bytes | None
    return _QUICK_TYPES[kind]


_QUICK_TYPES: dict[ColumnType, Any] = {
    ColumnType.TEXT: str | None,
    ColumnType.INTEGER: _Integer | None,
    ColumnType.BOOLEAN: bool | None,
    ColumnType.DATE: msgspec.Raw,
    ColumnType.JSON: msgspec.Raw,
    ColumnType.BIG: _Integer | None,
    ColumnType.ANY: _Scalar,
}


def _quick_reader(field: str, kind: ColumnType, is_exact: bool, is_exact_used: bool) -> Reader:
    get = attrgetter(field)
    if kind in (ColumnType.DATE, ColumnType.JSON) or (kind is ColumnType.BYTES and is_exact_used):
        convert = stored_exact_value if is_exact else stored_sql_value
        return lambda row: convert(get(row))
    if kind is ColumnType.REAL and is_exact_used and not is_exact:
        return lambda row: column_value(kind, get(row))
    if is_exact and kind is ColumnType.BOOLEAN:
        return lambda row: _EXACT_BOOLEANS[get(row)]
    if is_exact and kind is ColumnType.ANY:
        return lambda row: value if type(value := get(row)) is not bool else _EXACT_BOOLEANS[value]
    return get  # SQLite takes True and False for 1 and 0


# --- careful ------------------------------------------------------------------------------------------------------------------------------


def _careful_form(faces: Sequence[Face], used: Sequence[int]) -> RowForm | None:
    views = dict.fromkeys([faces[place].view for place in used])
    fields = {view: f"c{number}" for number, view in enumerate(views)}
    make = struct_decoder(tuple([(field, view.name, msgspec.Raw) for view, field in fields.items()]))
    if make is None:
        return None
    return RowForm(make, spread(faces, {place: _careful_reader(fields[faces[place].view], faces[place]) for place in used}))


def _careful_reader(field: str, face: Face) -> Reader:
    get = attrgetter(field)
    convert = stored_exact_value if face.is_exact else partial(stored_column_value, face.view.type)
    return lambda row: convert(get(row))


# --- whole --------------------------------------------------------------------------------------------------------------------------------


def _whole_form(view: TableView, faces: Sequence[Face], used: Sequence[int]) -> RowForm:
    by_code = {
        faces[place].view.name for place in used if faces[place].view.is_computed and not _has_expression(view, faces[place].view.name)
    }
    readers = spread(faces, {place: _whole_reader(view, faces[place], faces[place].view.name in by_code) for place in used})
    if by_code:
        return RowForm(partial(_computed_by_code, view.table, tuple(by_code)), readers)
    return RowForm(lambda raws: list(map(decode, raws)), readers)


def _has_expression(view: TableView, name: str) -> bool:
    computed = view.table.computed.get(name)
    return computed is not None and computed.names is not None


def _whole_reader(view: TableView, face: Face, is_there: bool) -> Reader:
    name = face.view.name
    convert = exact_value if face.is_exact else partial(column_value, face.view.type)
    if is_there or not face.view.is_computed:
        return lambda row: convert(row.get(name))
    table = view.table

    def compute(row: Any) -> SqlValue:
        computed = table.computed.get(name)
        return None if computed is None else convert(computed(row))

    return compute


def _computed_by_code(table: Table, names: tuple[str, ...], raws: Sequence[bytes]) -> list[dict[str, Any]]:
    """The records with values that functions of an application compute, on the loop."""
    rows = list(map(decode, raws))
    functions = [(name, table.computed[name]) for name in names if name in table.computed]  # an application may have set other ones

    def compute(row: dict[str, Any]) -> None:
        row.update([(name, function(row)) for name, function in functions])

    each_on_loop(compute, rows)
    return rows
