"""Removing the old entries of one table from the log, on demand (spec: schema-and-store §13, operations §10).

Retention takes entries of all tables off the beginning of the log (`maintenance`); this takes those of one out of its midst. They go in batches, each a
long write: what is done stays if the rest is interrupted, and it may be begun again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from svc.store.writing.long_task import LongTask

if TYPE_CHECKING:
    from svc.store.table import Table
    from svc.store.writing.write_set import WriteSet

BATCH = 10_000  # entries removed together
LOW_BATCH = 100  # the same on a full volume: the pages that are changed are copied, into what little is left
LOOK = 500  # entries looked at in one go
STEP = 32  # entries removed between two reads of the clock


async def remove_log_entries(table: Table, before_ms: float, on_batch: Callable[[int], Awaitable[None]] | None = None) -> int:
    """Remove the entries of a table whose version is before `before_ms`; returns how many. Those that are to be sent to other nodes, and are not yet, stay.

    `on_batch` hears how many are gone by now. Raises NoSpace, StoreFailure and Overloaded; what was removed before that is.
    """
    database = table.database
    first = database.unpublished_from
    removed = 0
    position: int | None = 0
    while position is not None:
        lsns: list[int] = []
        batch = LOW_BATCH if database.env.reserve.is_low else BATCH
        while position is not None and len(lsns) < batch:
            await database.store.slices.take()
            found, position = database.log.old_entries(database.snapshot(), table.number, before_ms, position, min(LOOK, batch))
            lsns += found if first is None else [lsn for lsn in found if lsn < first]
        if lsns:
            await LongTask(database, partial(_remove, table, lsns), len(lsns), None).run()
            database.log.counts.forget()
            removed += len(lsns)
            if on_batch is not None:
                await on_batch(removed)
    return removed


def _remove(table: Table, lsns: list[int], write_set: WriteSet) -> Iterator[None]:
    database, txn = table.database, write_set.txn
    for start in range(0, len(lsns), STEP):
        database.log.remove(txn, lsns[start : start + STEP])
        yield None
    database.announce_change(txn)  # other processes count their entries again
