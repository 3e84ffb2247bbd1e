"""Statements that are carried out within a turn (spec: sql §5)."""

from __future__ import annotations

from typing import Any

from svc.awaitables import is_waiting
from svc.errors import Problem
from svc.sql.writing.inserts import InsertPlan
from svc.sql.writing.plan import WritePlan
from svc.sql.writing.reading import TooLong, WriteSource
from svc.sql.writing.write_run import WriteRun, named_fault
from svc.store import Transaction
from svc.store.disk.faults import LmdbError, store_problem
from svc.store.slices import run_now as take_steps
from svc.store.writing.transaction import LONG_WRITES


def run_short(run: WriteRun, plan: WritePlan) -> Any:
    """The queries read the turn's writer, into which nobody else writes meanwhile. Raises WriterBusy, TooLong, NeedsLongWrite with nothing done."""
    database = plan.target.table.database
    run.store.open_writers((database,), wait=False)
    transaction = run.begin(plan)
    source = WriteSource(database, database.env.writer(), run.filters())
    try:
        collector = run.collector(plan, transaction, source, LONG_WRITES)
        run.read_now(plan.collect(collector), source)
        if transaction.unsaved:
            raise TooLong  # files are written by a thread
        run.inspect(plan, transaction, source, collector.budget)
        transaction.apply(wait=False)
    except LmdbError as error:
        raise store_problem(error, database.env.path) from error
    except Problem as error:
        raise named_fault(error, plan, transaction) from None
    finally:
        source.close()
    run.caller.context.pending_commit = transaction
    return run.answer(plan, transaction)


def insert_rows(run: WriteRun, plan: InsertPlan) -> Any:
    """Rows that depend on nothing that is there: nothing is read."""
    transaction = run.begin(plan)
    if plan.size > LONG_WRITES:
        run.store.queue_of(plan.target.table.database).check()
        return _insert_many(run, plan, transaction)
    take_steps(plan.check())
    take_steps(plan.insert(transaction))
    return run.committed(plan, transaction)


async def _insert_many(run: WriteRun, plan: InsertPlan, transaction: Transaction) -> Any:
    await run.store.slices.exhaust(plan.check())
    await run.store.slices.exhaust(plan.insert(transaction))
    result = run.committed(plan, transaction)
    return await result if is_waiting(result) else result
