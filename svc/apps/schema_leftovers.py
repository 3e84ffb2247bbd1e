"""Counting, after a schema was loaded, the values that it leaves behind: in slices, beside requests (spec: schema-and-store §7)."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from svc.store.schema import TableDefinition
from svc.store.schema_changes import LeftoverCount, TableChange

if TYPE_CHECKING:
    from svc.apps.entry import EntryContext
    from svc.store import Store, Table

STEP = 64  # records between two reads of the clock
PATIENCE = 1.0  # seconds that a load waits: small tables are counted by then


@dataclass(frozen=True, slots=True)
class DoubtfulTable:
    """A table that has just got `definition`."""

    table: Table
    definition: TableDefinition
    change: TableChange


class LeftoverTask:
    """Warns in the status of an entry, and in the log if the load does not wait for it."""

    def __init__(self, context: EntryContext, tables: list[DoubtfulTable]) -> None:
        self._context = context
        self._tables = tables
        self._is_waited_for = True
        self._work: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Returns when all is counted, or after PATIENCE."""
        if not self._tables:
            return
        self._work = self._context.runtime.loop.create_task(self._count_all())
        await asyncio.wait({self._work}, timeout=None if self._context.runtime.patience is None else PATIENCE)
        self._is_waited_for = False
        if self._work.done() and not self._work.cancelled():
            self._work.result()

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
    """In slices, each on the records of its time. None: the table has been changed again or dropped meanwhile."""
    table = doubtful.table
    count = LeftoverCount(doubtful.definition, doubtful.change.doubts)
    behind: bytes | None = None
    while True:
        end = await store.slices.take()
        if not table.is_there or table.definition is not doubtful.definition:
            return None
        records = table.scan(table.database.snapshot(), behind=behind)
        while some := list(islice(records, STEP)):
            for stored, raw in some:
                count.add(stored, raw)
            behind = some[-1][0]
            if store.clock.monotonic() >= end:
                break
        else:
            return count
