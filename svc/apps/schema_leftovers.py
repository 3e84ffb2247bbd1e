"""Counting, when a schema is loaded, the values that its changes left behind: in slices, beside requests (spec: schema-and-store §7).

What has to be counted is noted in the store (`store.leftovers`) until there is nothing of it any more, so each load of a schema counts, also the first one
after a restart. A count that a process did not finish is gone on with if it is not old.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from svc.errors import Problem
from svc.store.disk.faults import LmdbError, store_problem
from svc.store.leftovers import read_note, save_count
from svc.store.schema import TableDefinition
from svc.store.schema_changes import Doubt, LeftoverCount, noted_doubts

if TYPE_CHECKING:
    from svc.apps.entry import EntryContext
    from svc.store import Store, Table

PATIENCE = 1.0  # seconds that a load waits: small tables are counted by then
SAVE_INTERVAL = 5.0  # seconds
MAX_AGE_MS = 3_600_000  # of a count that is gone on with


@dataclass(frozen=True, slots=True)
class DoubtfulTable:
    """A table that has `definition` and records that may not fit it."""

    table: Table
    definition: TableDefinition


class LeftoverTask:
    """Warns in the status of an entry, and in the log if the load does not wait for it. `tables`: those that the entry has defined."""

    def __init__(self, context: EntryContext, tables: list[Table]) -> None:
        self._context = context
        self._tables = [DoubtfulTable(table, table.definition) for table in tables]
        self._is_waited_for = True
        self._work: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Returns when all is counted, or after PATIENCE."""
        self._tables = [
            each for each in self._tables if each.table.is_there and read_note(each.table, each.table.database.snapshot()) is not None
        ]
        if not self._tables:
            return
        self._work = self._context.runtime.loop.create_task(self._count_all())
        await asyncio.wait({self._work}, timeout=None if self._context.runtime.patience is None else PATIENCE)
        self._is_waited_for = False
        if self._work.done() and not self._work.cancelled():
            self._work.result()

    async def settle(self) -> None:
        """Wait until all is counted."""
        if self._work is not None:
            await asyncio.wait({self._work})

    def cancel(self) -> None:
        if self._work is not None:
            self._work.cancel()

    async def _count_all(self) -> None:
        context, runtime = self._context, self._context.runtime
        for each in self._tables:
            count = await count_leftovers(runtime.store, each)
            for leftover in () if count is None else count.leftovers():
                text = leftover.sentence(each.table.name)
                context.status.warn(text)
                if not self._is_waited_for:
                    runtime.tell(context.app.name, "warn", f"{context.key}: {text}")


async def count_leftovers(store: Store, doubtful: DoubtfulTable) -> LeftoverCount | None:
    """In slices, each on the records of its time. None: nothing is in doubt, or the table has been changed again or dropped meanwhile."""
    table, definition = doubtful.table, doubtful.definition
    note = read_note(table, table.database.snapshot())
    if note is None:
        return None
    doubts = tuple(noted_doubts(note.doubts, definition, {}))
    begun = (
        note.count if note.count is not None and note.count.behind and store.clock.wall() * 1000 - note.counted_ms < MAX_AGE_MS else None
    )
    count = LeftoverCount(definition, doubts, begun)
    behind = None if begun is None else begun.behind
    saved = store.clock.monotonic()
    while True:
        end = await store.slices.take()
        if not table.is_there or table.definition is not definition:
            return None
        records = table.scan(table.database.snapshot(), behind=behind)
        for behind, raw in records:
            count.add(behind, raw)
            if store.clock.monotonic() >= end:  # after each: a check may do much
                break
        else:
            await _save(store, doubtful, doubts, count, b"")
            return count
        if end - saved > SAVE_INTERVAL:
            saved = end
            await _save(store, doubtful, doubts, count, behind)


async def _save(store: Store, doubtful: DoubtfulTable, doubts: tuple[Doubt, ...], count: LeftoverCount, behind: bytes) -> None:
    """Note how far it is. If that cannot be stored, the store says so in the log, and the next load counts again."""
    database = doubtful.table.database
    try:
        await store.write_when_free(lambda: (database,), partial(_note, store, doubtful, doubts, count, behind))
    except LmdbError as error:
        store_problem(error, database.env.path)  # which logs it
    except Problem:
        pass


def _note(store: Store, doubtful: DoubtfulTable, doubts: tuple[Doubt, ...], count: LeftoverCount, behind: bytes) -> None:
    table, database = doubtful.table, doubtful.table.database
    database.writer(wait=False)  # which may have shown that another process has changed the table
    if not table.is_there or table.definition is not doubtful.definition:
        return
    child = database.env.child()  # of the turn's transaction, which has the writes of others
    try:
        save_count(child, table, doubts, count, store.clock.wall() * 1000, behind=behind)
    except BaseException:
        child.abort()
        raise
    database.env.commit_child(child)
