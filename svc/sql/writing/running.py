"""Carrying out INSERT, UPDATE and DELETE (spec: sql §5): what they read is read inside of the transaction that writes.

    short    within one turn: the queries read the turn's writer; their rows become writes, which are applied
    long     what reads or writes more than a turn may take: a long write, which holds the database while a thread reads
    joined   within a transaction of an application, whose pending writes the queries see

A statement begins short. If it turns out to be too long it is begun again, with nothing done so far. Rows of VALUES that depend on nothing are not
decided: they are checked, and written like the records of the operation `insert`.
"""

from __future__ import annotations

from typing import Any

from svc.awaitables import is_waiting, settled
from svc.sql.writing.context import AskedQuery, BoundQueries
from svc.sql.writing.inserts import InsertPlan
from svc.sql.writing.joined_runs import run_joined
from svc.sql.writing.long_runs import run_long, run_through_source
from svc.sql.writing.plan import WritePlan
from svc.sql.writing.reading import TooLong
from svc.sql.writing.short_runs import insert_rows, run_short
from svc.sql.writing.write_run import Write, WriteCaller, WriteEngine, WriteRun
from svc.store import WriterBusy
from svc.store.writing.references import NeedsLongWrite
from svc.store.writing.transaction import LONG_WRITES


def run_write(
    statement: Write, text: str, parameters: Any, caller: WriteCaller, engine: WriteEngine, bound: BoundQueries | None = None
) -> Any:
    """The body of the answer, with RETURNING a list of rows; or an awaitable of it. What is applied and not committed yet is the `pending_commit` of
    the caller's context. `text`: of the statement. `bound`: that of this statement for callers with the same rights, if it is kept.

    Raises the Problem that prevents it, with nothing written.
    """
    run = WriteRun(statement, text, parameters, caller, engine, BoundQueries() if bound is None else bound)
    try:
        plan = run.learned_plan()
    except WriterBusy as busy:
        return _learn_later(run, busy)
    return _carry_out(run, plan)


def queries_of_write(statement: Write, text: str, parameters: Any, caller: WriteCaller, engine: WriteEngine) -> list[AskedQuery]:
    """What the statement asks, for EXPLAIN. Raises what is wrong with it; nothing is done."""
    run = WriteRun(statement, text, parameters, caller, engine, BoundQueries())
    run.resolve()
    return run.queries


async def _learn_later(run: WriteRun, busy: WriterBusy) -> Any:
    database = next(each for each in run.store.databases.values() if each.env is busy.env)
    plan = await run.store.write_when_free(lambda: (database,), run.learned_plan)
    result = settled(_carry_out(run, plan))
    return await result if is_waiting(result) else result


def _carry_out(run: WriteRun, plan: WritePlan) -> Any:
    if run.caller.joined is not None:
        return run_joined(run, plan, run.caller.joined)
    if isinstance(plan, InsertPlan) and not plan.decides:
        return insert_rows(run, plan)
    if plan.target.table.is_caching:
        return run_through_source(run, plan)
    if plan.size > LONG_WRITES:
        return run_long(run, plan)
    try:
        return run_short(run, plan)
    except WriterBusy:
        return _wait(run, plan)
    except (TooLong, NeedsLongWrite):
        return run_long(run, plan)


async def _wait(run: WriteRun, plan: WritePlan) -> Any:
    """Carry it out in the order of the writers. The table may be another one by then."""
    database = plan.target.table.database
    try:
        return await run.store.write_when_free(lambda: (database,), lambda: run_short(run, run.learned_plan()))
    except (TooLong, NeedsLongWrite):
        return await run_long(run, run.plan())
