"""RETURNING: what a statement answers of the records it has written (spec: sql §5)."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import replace
from typing import Any

from svc.sql.bound import BoundQuery
from svc.sql.catalogue import ColumnType, ColumnView
from svc.sql.nodes import Binary, Column, Join, OrderTerm, Query, Select, SelectItem, Star, TableRef
from svc.sql.writing.collector import Budget
from svc.sql.writing.context import WriteContext
from svc.sql.writing.reading import Columns, Reading, Row, Steps
from svc.sql.writing.targets import WriteTarget
from svc.store.values.keys import Key

WRITTEN = "\x1dwritten"  # a table of keys, and its columns: no statement has names like these
KEY, _PLACE = "\x1dkey", "\x1dplace"

Items = tuple[SelectItem | Star, ...]
Answering = Generator[None, None, Any]
"""Short steps, at whose end there is the answer."""
STEP = 64  # rows between two reads of the clock


class ReturnedRows:
    """The rows of RETURNING, as values of records."""

    def __init__(self, query: BoundQuery, width: int) -> None:
        """`width`: how many of the columns of the query they have."""
        self._names = [column.name for column in query.columns[:width]]
        self._rows: list[Row] = []

    def begin(self) -> None:
        self._rows = []

    def add(self, rows: list[Row], budget: Budget) -> None:
        """Raises QueryTooLarge."""
        for row in rows:
            budget.take_answer(row)
        self._rows += rows

    def objects(self) -> Answering:
        """The answer: an object for each row, with values as records have them."""
        names, width = self._names, len(self._names)
        found = []
        for number, row in enumerate(self._rows):
            found.append(dict(zip(names, row[:width], strict=True)))
            if not number % STEP:
                yield
        return found


class Returning:
    """Of records that are there once they are written: those of INSERT and UPDATE."""

    def __init__(self, items: Items, target: WriteTarget, context: WriteContext) -> None:
        self._query, self._columns = context.once(lambda: _bound(items, target, context))
        self.answer = ReturnedRows(self._query, len(self._query.columns))

    def read(self, keys: Sequence[Key], budget: Budget) -> Steps[None]:
        """Read the rows of these records."""
        self.answer.begin()
        given = [(as_value(key), place) for place, key in enumerate(keys)]
        yield Reading(self._query, lambda rows: self.answer.add(rows, budget), self._columns, {WRITTEN: given})


def _bound(items: Items, target: WriteTarget, context: WriteContext) -> tuple[BoundQuery, Columns]:
    key = key_view(target, context)
    columns = {WRITTEN: (replace(key, name=KEY, is_key=False), ColumnView(_PLACE, ColumnType.INTEGER))}
    source = Join(TableRef(WRITTEN), target.ref, on=Binary("=", target.column(key.name), Column(KEY, WRITTEN)))
    select = Select(tuple([target.star if type(item) is Star else item for item in items]), source)
    return context.bind(Query(select, order_by=(OrderTerm(Column(_PLACE, WRITTEN)),)), columns), columns


def key_view(target: WriteTarget, context: WriteContext) -> ColumnView:
    """The column of the primary key. Raises MissingRights if the caller may not read it."""
    target.require_key()
    ref = target.ref
    return context.catalogue.view(ref.database, ref.name, ref.at).by_name[target.table.primary_key]


def as_value(key: Key) -> Any:
    """A key as the value that a record has of it: a list instead of a tuple."""
    return list(key) if type(key) is tuple else key


def as_values(keys: list[Key]) -> list[Any]:
    return list(map(as_value, keys)) if tuple in set(map(type, keys)) else keys
