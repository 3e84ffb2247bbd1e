"""INSERT: rows of VALUES or of a query become records (spec: sql §5)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Protocol

from svc.errors import ClientError
from svc.sql.bound import BoundQuery
from svc.sql.errors import insert_mismatch
from svc.sql.nodes import CommonTable, Expression, Insert, Query, Select, SelectItem, Values
from svc.sql.writing.collector import Collector
from svc.sql.writing.conflicts import ConflictRules
from svc.sql.writing.context import WriteContext
from svc.sql.writing.reading import Reading, Row, Steps
from svc.sql.writing.record_checks import STEP, RowFaults, own_blobs
from svc.sql.writing.returning import Answering, Returning, as_values
from svc.sql.writing.targets import WriteTarget
from svc.sql.writing.values import NO_CONSTANT, constant_of
from svc.store import Transaction
from svc.store.values.keys import Key
from svc.store.values.validation import EMPTY_KEYS, check_key
from svc.store.writing.transaction import LONG_WRITES

INSERT, UPSERT = 1, 3  # in log.OPERATIONS
_CELLS = 50  # expressions of VALUES that one query computes

Take = Callable[[Sequence[Any]], None]


class InsertPlan:
    """`WritePlan` of INSERT. One that does not decide is carried out by `check` and `insert`."""

    adds = True

    def __init__(self, statement: Insert, target: WriteTarget, context: WriteContext, *, is_joined: bool) -> None:
        """`is_joined`: it is committed later, so whether records exist has to be known now."""
        self.target = target
        self._rows = _rows_of(statement, context)
        names, width = statement.columns, self._rows.width
        self._columns = target.shown_columns(width) if not names and statement.source is not None else target.columns(names, "insert")
        if len(self._columns) != width:
            raise insert_mismatch()
        self._rules = ConflictRules(statement.conflicts, self._columns, target, context)
        self.operation = UPSERT if self._rules.columns else INSERT
        self.returning = Returning(statement.returning, target, context) if statement.returning else None
        self.decides = is_joined or bool(statement.returning) or self._rows.reads or self._rules.decide
        self.size = self._rows.size
        self._records: list[tuple[Key | None, dict[str, Any]]] = []
        self._given: list[Key | None] = []  # of the rows; None: they get one when they are written
        self._inserted: list[Key] = []
        self._skipped: list[Key] = []
        self._updated: list[Key] = []
        self.keys: list[Key] = []  # of the records that are written

    # -- the records

    def _take_rows(self, took: Callable[[dict[str, Any]], None]) -> Steps[None]:
        """Check the rows. `took` is called with each record."""
        table, columns = self.target.table, self._columns
        self._records = records = []
        faults = RowFaults(table, numbers_rows=self.size != 1)
        count = 0

        def take(row: Sequence[Any]) -> None:
            nonlocal count
            given = {
                column.name: value if column.convert is None else column.convert(value)
                for column, value in zip(columns, row, strict=True)
                if not column.is_time
            }
            try:
                key = given.get(table.primary_key)
                if key is None or key in EMPTY_KEYS:
                    given.pop(table.primary_key, None)
                    key = None
                else:
                    key = given[table.primary_key] = check_key(table.definition, key)
                record = own_blobs(table.validator.record(given, source="json"), lambda: None)
            except ClientError as error:
                faults.add(count, given, error)
            else:
                records.append((key, record))
                took(record)
            count += 1

        yield from self._rows.steps(take)
        faults.check()

    # -- where nothing has to be decided

    def check(self) -> Iterator[None]:
        """Check all records. Raises what is wrong with them."""
        for _ in self._take_rows(lambda record: None):
            yield

    def insert(self, transaction: Transaction) -> Iterator[None]:
        """Collect the writes: what exists is skipped when they are carried out."""
        table, records = self.target.table, self._records
        self._given = []
        for number, (key, record) in enumerate(records):
            self._given.append(transaction.insert(table, key, record, rows=self.target.rows))
            if not number % STEP:
                yield

    def _note_outcome(self, transaction: Transaction) -> None:
        skipped = Counter(transaction.skipped)
        keys = transaction.with_assigned(self._given)
        for key in reversed(keys):  # of a key that came twice the first may count
            if skipped[key]:
                skipped[key] -= 1
                self._skipped.append(key)
            else:
                self._inserted.append(key)
        self._inserted.reverse()
        self._skipped.reverse()

    # -- where something has

    def collect(self, collector: Collector) -> Steps[None]:
        self._inserted, self._skipped, self.keys = [], [], []
        yield from self._take_rows(lambda record: collector.budget.take(record.values()))
        records = collector.assign_keys(self._records)
        self._records = []
        rules = self._rules
        rules.begin()
        places: list[Key] = []
        for number, (key, record) in enumerate(records):
            met = rules.meet(collector, key, record)
            if met is None:
                collector.create(key, record)
                self._inserted.append(key)
                places.append(key)
            elif met.is_update:
                places.append(met.key)
            else:
                self._skipped.append(met.key)
            if not number % STEP:
                yield None
        self._updated = yield from rules.update(collector)
        gone = rules.refused
        self._skipped += [key for key in places if key in gone]
        self.keys = [key for key in places if key not in gone] if gone else places

    def answer(self, transaction: Transaction) -> Answering:
        if self.returning is not None:
            return (yield from self.returning.answer.objects())
        if not self.decides:
            self._note_outcome(transaction)
        updated = self._updated
        total = len(self._inserted) + len(self._skipped) + len(updated)
        answer: dict[str, Any] = {
            "message": f"inserted {len(self._inserted)} of {total} records",
            "inserted_hashes": as_values(self._inserted),
            "skipped_hashes": as_values(self._skipped),
        }
        if self._rules.columns:
            answer["message"] += f", updated {len(updated)}"
            answer["update_hashes"] = as_values(updated)
        return answer


# --- rows -----------------------------------------------------------------------------------------------------------------------------------


class RowSource(Protocol):
    """`width`: of each row. `size`: how many there are, as far as that is known. `reads`: queries have to be asked for them."""

    width: int
    size: int
    reads: bool

    def steps(self, take: Take) -> Steps[None]:
        """Give each row to `take`."""


class ValueRows:
    """Rows of VALUES. Constants keep their type (true is no 1); what has to be computed is asked for some expressions at a time."""

    def __init__(
        self, rows: Sequence[Sequence[Expression]], tables: tuple[CommonTable, ...], is_recursive: bool, context: WriteContext
    ) -> None:
        self.width = len(rows[0])
        self.size = len(rows)
        self._rows: list[list[Any]] = []
        cells: list[tuple[int, int, Expression]] = []
        for number, row in enumerate(rows):
            values = [constant_of(expression, context.parameter) for expression in row]
            cells += [(number, place, row[place]) for place, value in enumerate(values) if value is NO_CONSTANT]
            self._rows.append(values)
        self._queries = []
        for start in range(0, len(cells), _CELLS):
            chunk = cells[start : start + _CELLS]
            items = tuple([SelectItem(expression) for _, _, expression in chunk])
            query = context.once(partial(_bound, context, Query(Select(items), tables=tables, is_recursive=is_recursive)))
            self._queries.append((query, [(number, place) for number, place, _ in chunk]))
        self.reads = bool(cells)

    def steps(self, take: Take) -> Steps[None]:
        for query, places in self._queries:

            def receive(rows: list[Row], places: list[tuple[int, int]] = places) -> None:
                for (number, place), value in zip(places, rows[0], strict=True):
                    self._rows[number][place] = value

            yield Reading(query, receive)
        for number, row in enumerate(self._rows):
            take(row)
            if not number % STEP:
                yield None


class SelectedRows:
    """Rows of a query."""

    size = LONG_WRITES  # a guess
    reads = True

    def __init__(self, query: Query, context: WriteContext) -> None:
        self._query = context.once(partial(_bound, context, query))
        self.width = len(self._query.columns)

    def steps(self, take: Take) -> Steps[None]:
        def receive(rows: list[Row]) -> None:
            for row in rows:
                take(row)

        yield Reading(self._query, receive)


def _rows_of(statement: Insert, context: WriteContext) -> RowSource:
    source = statement.source
    if source is None:  # DEFAULT VALUES
        return ValueRows(((),), (), False, context)
    first = source.first
    if isinstance(first, Values) and source == Query(first, tables=source.tables, is_recursive=source.is_recursive):
        tables = (*statement.tables, *source.tables)
        return ValueRows(first.rows, tables, statement.is_recursive or source.is_recursive, context)
    if statement.tables:
        is_recursive = statement.is_recursive or source.is_recursive
        source = replace(source, tables=(*statement.tables, *source.tables), is_recursive=is_recursive)
    return SelectedRows(source, context)


def _bound(context: WriteContext, query: Query) -> BoundQuery:
    return context.bind(query)
