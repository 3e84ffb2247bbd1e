"""Statements that write what takes more than a turn (spec: sql §5)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from svc.awaitables import is_waiting
from svc.errors import ClientError, Problem, QueryTooLarge
from svc.sql.writing.collector import Collector
from svc.sql.writing.plan import WritePlan
from svc.sql.writing.reading import TooLong, WriteSource
from svc.sql.writing.write_run import WriteRun, named_fault
from svc.store import Database, Transaction
from svc.store.disk.faults import LmdbError, store_problem
from svc.store.values.keys import Key
from svc.store.writing.long_write import LongWrite
from svc.store.writing.preview import Preview
from svc.store.writing.transaction import LONG_WRITES


async def run_long(run: WriteRun, plan: WritePlan) -> Any:
    """In a long write: the queries are read on a snapshot that nobody can go beyond while the database is held."""
    table = plan.target.table
    database = table.database
    transaction = run.begin(plan)

    async def collect(long_write: LongWrite) -> None:
        nonlocal plan
        plan = run.plan()

        def new_keys(count: int) -> Iterator[Key]:
            return long_write.with_writer(lambda txn: table.new_keys_in(txn, count)) if table.has_sequence else table.new_keys(count)

        snapshot = database.open_snapshot()
        source = WriteSource(database, snapshot, run.filters())
        try:
            collector = Collector(table, transaction, source, long_write.wall_ms, run.budget(None), new_keys, plan.target.rows)
            await run.read(plan.collect(collector), source)
            if plan.returning is not None:
                await transaction.save_blobs()
                preview = Preview(database, snapshot, long_write.version, long_write.wall_ms)
                await _carry_out_in(preview, run, transaction, database)
                source.replace(database, preview.txn)
                await run.read(plan.returning.read(plan.keys, collector.budget), source)
        except LmdbError as error:
            raise store_problem(error, database.env.path) from error
        finally:
            transaction.previews.clear()
            source.close()
            snapshot.abort()

    try:
        await transaction.apply_decided(table, collect, size=plan.size, adds=plan.adds)
    except Problem as error:
        raise named_fault(error, plan, transaction) from None
    return await run.long_answer(plan, transaction)


async def _carry_out_in(preview: Preview, run: WriteRun, transaction: Transaction, database: Database) -> None:
    """What the records will be is read by RETURNING before they are."""
    transaction.previews[database] = preview
    try:
        await run.store.slices.exhaust(transaction.previewing(database, preview.base))
    except ClientError as error:
        if error.code != "TRANSACTION_TOO_LARGE":
            raise
        raise QueryTooLarge("RETURNING of so many records takes too much memory: write fewer at a time", budget="bytes") from None


def run_through_source(run: WriteRun, plan: WritePlan) -> Any:
    """To a table with a source, which writes first: what was read may be over when it has."""
    database = plan.target.table.database
    transaction = run.begin(plan)
    source = WriteSource(database, database.snapshot(), run.filters())
    try:
        collector = run.collector(plan, transaction, source, LONG_WRITES)
        run.read_now(plan.collect(collector), source)
    except TooLong:
        return _run_through_source_long(run, run.plan())
    finally:
        source.close()
    run.inspect(plan, transaction, source, collector.budget)
    return run.committed(plan, transaction)


async def _run_through_source_long(run: WriteRun, plan: WritePlan) -> Any:
    if plan.returning is not None:
        raise QueryTooLarge(
            f"RETURNING is possible for {LONG_WRITES} records of a table with a source: write fewer at a time", budget="rows"
        )
    database = plan.target.table.database
    transaction = run.begin(plan)
    snapshot = database.open_snapshot()
    source = WriteSource(database, snapshot, run.filters())
    try:
        await run.read(plan.collect(run.collector(plan, transaction, source, None)), source)
    finally:
        source.close()
        snapshot.abort()
    result = run.committed(plan, transaction)
    return await result if is_waiting(result) else result
