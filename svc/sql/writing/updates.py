"""UPDATE and DELETE: queries whose rows become writes (spec: sql §5).

`UPDATE t SET a = x FROM s WHERE w` asks `SELECT t.key, x FROM t, s WHERE w`: so each record gets what is computed from what was there before, whatever
else the statement changes. A record that several rows of `s` match gets the values of the first.
"""

from __future__ import annotations

from functools import partial

from svc.errors import ClientError
from svc.sql.nodes import Delete, Join, Query, Select, SelectItem, Star, Update
from svc.sql.writing.assignments import Assignments, ReadNames
from svc.sql.writing.collector import Collector
from svc.sql.writing.context import WriteContext
from svc.sql.writing.reading import Reading, Row, Steps
from svc.sql.writing.record_checks import RowFaults, own_blobs
from svc.sql.writing.returning import Answering, ReturnedRows, Returning, as_values
from svc.sql.writing.targets import TargetCatalogue, WriteTarget, as_key
from svc.store import Transaction
from svc.store.values.keys import Key
from svc.store.writing.transaction import LONG_WRITES

UPDATE = 2  # in log.OPERATIONS


class UpdatePlan:
    """`WritePlan` of UPDATE."""

    operation = UPDATE
    adds = True
    decides = True
    size = LONG_WRITES  # a guess

    def __init__(self, statement: Update, target: WriteTarget, context: WriteContext) -> None:
        self.target = target
        self._assignments = Assignments(statement.assignments, target, context, "update")
        target.require_key()
        key = SelectItem(target.column(target.table.primary_key))
        source = target.ref if statement.source is None else Join(target.ref, statement.source, ",")
        self._query = context.once(
            lambda: context.bind(
                _query(statement, Select((key, *self._assignments.items), source, statement.where)),
                catalogue=TargetCatalogue(context.catalogue, target.ref, "update"),
            )
        )
        self._may_repeat = statement.source is not None
        self._names = ReadNames(statement, target)
        self.returning = Returning(statement.returning, target, context) if statement.returning else None
        self.keys: list[Key] = []

    def collect(self, collector: Collector) -> Steps[None]:
        self.keys = keys = []
        table, names, values_of = self.target.table, self._names, self._assignments.values
        faults = RowFaults(table, numbers_rows=False)
        seen: set[Key] | None = set() if self._may_repeat else None

        def receive(rows: list[Row]) -> None:
            for row in rows:
                key: Key = as_key(row[0])
                if seen is not None:
                    if key in seen:
                        continue
                    seen.add(key)
                collector.budget.take(row)
                keys.append(key)
                given = values_of(row[1:])
                try:
                    changes = table.validator.changes(given, source="json")
                except ClientError as error:
                    faults.add(len(keys) - 1, given | {table.primary_key: row[0]}, error)
                    continue
                collector.update(key, own_blobs(changes, partial(collector.read, key)), names)

        yield Reading(self._query, receive)
        faults.check()

    def answer(self, transaction: Transaction) -> Answering:
        if self.returning is not None:
            return (yield from self.returning.answer.objects())
        count = len(self.keys)
        return {
            "message": f"updated {count} of {count} records",
            "update_hashes": as_values(self.keys),
            "skipped_hashes": [],
        }


class DeletePlan:
    """`WritePlan` of DELETE. What it returns is read with the keys: the records are gone afterwards."""

    operation = 0
    adds = False
    decides = True
    size = LONG_WRITES  # a guess
    returning: Returning | None = None

    def __init__(self, statement: Delete, target: WriteTarget, context: WriteContext) -> None:
        target.require("delete")
        target.require_key()
        self.target = target
        items = tuple([target.star if type(item) is Star else item for item in statement.returning])
        key = SelectItem(target.column(target.table.primary_key))  # behind the others, whose names it does not change there
        self._query = context.once(
            lambda: context.bind(
                _query(statement, Select((*items, key), target.ref, statement.where)),
                catalogue=TargetCatalogue(context.catalogue, target.ref, "delete"),
            )
        )
        self._names = ReadNames(statement, target)
        self._returned = ReturnedRows(self._query, len(self._query.columns) - 1) if items else None
        self.keys: list[Key] = []

    def collect(self, collector: Collector) -> Steps[None]:
        self.keys = keys = []
        returned, names = self._returned, self._names
        if returned is not None:
            returned.begin()

        def receive(rows: list[Row]) -> None:
            for row in rows:
                key: Key = as_key(row[-1])
                collector.budget.take(row)
                keys.append(key)
                collector.delete(key, names)
            if returned is not None:
                returned.add(rows, collector.budget)

        yield Reading(self._query, receive)

    def answer(self, transaction: Transaction) -> Answering:
        if self._returned is not None:
            return (yield from self._returned.objects())
        count = len(self.keys)
        return {
            "message": f"{count} of {count} record{'' if count == 1 else 's'} successfully deleted",
            "deleted_hashes": as_values(self.keys),
            "skipped_hashes": [],
        }


def _query(statement: Update | Delete, select: Select) -> Query:
    """With all that the statement says about which records it concerns."""
    return Query(
        select,
        order_by=statement.order_by,
        limit=statement.limit,
        offset=statement.offset,
        tables=statement.tables,
        is_recursive=statement.is_recursive,
    )
