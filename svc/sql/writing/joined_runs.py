"""Statements within a transaction of an application (spec: sql §5, applications §5).

Their queries see what the transaction has written so far, and what they write becomes part of it. It is committed later, when others may have written: so
each record that is changed has to be then what was read of it, and each that is made must not be there, or nothing of the transaction is committed (409).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from svc.awaitables import is_waiting, settled
from svc.sql.catalogue import TableView
from svc.sql.row_filters import RowFilters
from svc.sql.writing.collector import Budget, JoiningCollector
from svc.sql.writing.plan import WritePlan
from svc.sql.writing.reading import TooLong
from svc.sql.writing.returning import Returning
from svc.sql.writing.write_run import OpenTransaction, WriteRun
from svc.store import Database, Table
from svc.store.env import Txn
from svc.store.snapshots import HeldSnapshot
from svc.store.writing.transaction import LONG_WRITES


class JoinedSource:
    """What the transaction sees of some databases, as of when it was opened (`reading.CoveringSource`)."""

    is_shared = True  # the snapshots are those of the transaction

    def __init__(self, filters: RowFilters | None = None) -> None:
        self.filters = filters
        self._held: dict[Database, HeldSnapshot] = {}

    async def open(self, joined: OpenTransaction, databases: Iterable[Database]) -> None:
        self.close()
        for database in databases:
            held = settled(joined.preview(database))
            self._held[database] = await held if is_waiting(held) else held

    def cover(self, tables: Sequence[TableView]) -> None:
        if self.filters is not None:
            self.filters.cover(tables)

    def txn(self, table: Table) -> Txn:
        return self._held[table.database].use()

    def close(self) -> None:
        held, self._held = self._held, {}
        for snapshot in held.values():
            snapshot.abort()


async def run_joined(run: WriteRun, plan: WritePlan, joined: OpenTransaction) -> Any:
    """It need not suspend."""
    source = JoinedSource(run.filters())
    databases = {plan.target.table.database, *[view.table.database for query, _ in run.queries for view in query.tables]}
    try:
        await source.open(joined, databases)
        collector = _collector(run, plan, joined, source, LONG_WRITES)
        try:
            run.read_now(plan.collect(collector), source)
        except TooLong:
            collector = _collector(run, plan, joined, source, None)
            await run.read(plan.collect(collector), source)
        start = joined.writes.size
        joining = joined.join(collector.transaction)
        if joining is not None:
            await joining
        if plan.returning is not None:
            try:
                await source.open(joined, databases)
                await _read_returned(run, plan, plan.returning, source, collector.budget)
            except BaseException:
                joined.writes.forget_from(start)
                joined.writes.previews.clear()
                raise
    finally:
        source.close()
    if len(plan.keys) > LONG_WRITES:
        return await run.long_answer(plan, collector.transaction)
    return run.answer(plan, collector.transaction)


async def _read_returned(run: WriteRun, plan: WritePlan, returning: Returning, source: JoinedSource, budget: Budget) -> None:
    try:
        run.read_now(returning.read(plan.keys, budget), source)
    except TooLong:
        await run.read(returning.read(plan.keys, budget), source)


def _collector(run: WriteRun, plan: WritePlan, joined: OpenTransaction, source: JoinedSource, most: int | None) -> JoiningCollector:
    table = plan.target.table
    transaction = run.begin(plan)
    transaction.expires_at = joined.writes.expires_at
    return JoiningCollector(table, transaction, source, run.wall_ms, run.budget(most), table.new_keys, plan.target.rows)
