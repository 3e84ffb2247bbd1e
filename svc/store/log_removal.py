"""Removing the old entries of one table from the log, on demand (contract: schema-and-store §13, operations §10).

Retention takes entries of all tables off the beginning of the log (`maintenance`); this takes those of one out of its midst. It goes through the
log in slices, each with a commit of its own: what it has done stays if it is interrupted, and it may be begun again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING

from svc.store.env import LmdbError, WriterBusy, store_problem

if TYPE_CHECKING:
    from svc.store.database import Database
    from svc.store.table import Table

LOOK = 1000  # entries looked at, and at most removed, in one go: some milliseconds with the commit


async def remove_log_entries(table: Table, before_ms: float, on_batch: Callable[[int], Awaitable[None]] | None = None) -> int:
    """Remove the entries of a table whose version is before `before_ms`; returns how many. The newest entry of the log stays in any case.

    `on_batch` hears how many are gone by now. Raises NoSpace, StoreFailure and Overloaded; what was removed before that is.
    """
    database = table.database
    removed = 0
    position: int | None = 0
    while position is not None:
        await database.store.slices.take()
        lsns, position = database.log.old_entries(database.snapshot(), table.number, before_ms, position, LOOK)
        if lsns:
            removed += await _in_a_turn(database, partial(_remove, database, lsns))
            if on_batch is not None:
                await on_batch(removed)
    if removed:
        database.log.counts.forget()
        await _in_a_turn(database, partial(_announce, database))
    return removed


async def _in_a_turn(database: Database, work: Callable[[], int]) -> int:
    """Do it with the turn's writer, and commit, behind the long writes that were there first. Raises Overloaded."""
    store = database.store
    while True:
        await store.queue_of(database).wait()
        try:
            database.writer(wait=False)
        except WriterBusy:
            continue
        done = work()
        store.flush_or_raise(database)
        database.env.end_snapshot()
        return done


def _remove(database: Database, lsns: list[int]) -> int:
    child = database.env.child()
    try:
        removed = database.log.remove(child, lsns)
    except BaseException as error:
        child.abort()
        if isinstance(error, LmdbError):
            raise store_problem(error, database.env.path) from error
        raise
    database.env.keep(child)
    return removed


def _announce(database: Database) -> int:
    """Let other processes count their entries again."""
    try:
        database.announce_change()
    except LmdbError as error:
        raise store_problem(error, database.env.path) from error
    return 0
