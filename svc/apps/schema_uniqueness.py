"""Attributes of large tables become `@unique` after the start of their application, beside requests (spec: schema-and-store §3.1).

An application that serves already is changed when the proof has been made. One that starts would keep the ports closed for that long: so its tables get
their definitions without these demands first, and these here. What is written in between is looked at with all the rest: if it breaks the demand, that is an
error of the schema like any other duplicates, and the table stays as it is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from svc.errors import Problem, SchemaError
from svc.store.schema import TableDefinition
from svc.store.schema_changes import TableChange, former_name, table_change
from svc.store.writing.unique_proof import UnprovedChange, prove

if TYPE_CHECKING:
    from svc.apps.entry import EntryContext
    from svc.apps.schema_leftovers import LeftoverTask
    from svc.store import Database, Table

TRIES = 4  # to change a table while another process writes to it: after that, other requests wait
PATIENCE = 1.0  # seconds that a load waits
LOOK = 0.5  # seconds between two looks whether an index is built
RETRY_AFTER = 5.0  # seconds, if the store cannot be written to


@dataclass(frozen=True, slots=True)
class UniqueLater:
    """A table that is defined but for the demand that values of these `attributes` are unique. `wanted`: its definition with that."""

    table: Table
    wanted: TableDefinition
    attributes: tuple[str, ...]


def without_unique(definition: TableDefinition, names: Collection[str]) -> TableDefinition:
    """The definition without the demand that values of these attributes are unique; they are indexed all the same."""
    attributes = [replace(each, unique=False) if each.name in names else each for each in definition.attributes]
    return replace(definition, attributes=tuple(attributes))


async def define(database: Database, definition: TableDefinition) -> tuple[TableChange, Table | None, Table]:
    """What changes, the table before it got its definition, and the table. While another process has the writer for long, waits for it without stopping
    the loop. Raises SchemaError; Overloaded if that takes too long."""
    tries_left = TRIES
    while True:
        tries_left -= 1
        there = database.tables.get(definition.name)
        if (there is None or there.definition != definition) and not database.env.is_open_to_writers():
            await database.store.queue_of(database).wait()
        proof = await prove(database, definition) if tries_left else None
        try:
            known = database.tables.get(former_name(definition, database.tables))
            records = 0 if known is None else known.entry_count(database.snapshot())
            change = table_change(None if known is None else known.definition, definition, records)
            return change, known, database.define_table(definition, proof=proof)
        except UnprovedChange:
            continue
        finally:
            if proof is not None:
                proof.close()


class UniquenessTask:
    """Makes the attributes of these tables unique, one table after the other. The entry is "loading" meanwhile."""

    def __init__(self, context: EntryContext, tables: list[UniqueLater], leftovers: LeftoverTask) -> None:
        """`leftovers`: what counts values for the definitions as they are; it is waited for."""
        self._context = context
        self._tables = tables
        self._leftovers = leftovers
        for each in tables:
            each.table.unproved = each.attributes
        self._work: asyncio.Task[None] | None = None
        self._is_waited_for = True

    async def start(self) -> None:
        """Returns when all is proved, or after PATIENCE."""
        if not self._tables:
            return
        runtime = self._context.runtime
        self._work = runtime.loop.create_task(self._prove_all())
        await asyncio.wait({self._work}, timeout=None if runtime.patience is None else PATIENCE)
        self._is_waited_for = False
        if self._work.done():
            if not self._work.cancelled():
                self._work.result()
            return
        self._context.status.go_on()
        names = ", ".join([f"{each.table.name}.{name}" for each in self._tables for name in each.attributes])
        text = f"{names}: not @unique yet, values are being compared while requests are served"
        runtime.tell(self._context.app.name, "notify", f"{self._context.key}: {text}")
        self._work.add_done_callback(self._on_end)

    def cancel(self) -> None:
        """Another version of the application decides what is unique."""
        work = self._work
        if work is not None and not work.done():
            ending = self._context.runtime.ending
            ending.add(work)
            work.add_done_callback(ending.discard)
            work.cancel()
        for each in self._tables:
            each.table.unproved = ()

    def _on_end(self, work: asyncio.Task[None]) -> None:
        if not work.cancelled():
            error = work.exception()
            if error is not None:
                self._fail(f"{type(error).__name__}: {error}")
            self._context.status.complete(int(self._context.runtime.clock.wall() * 1000))

    async def _prove_all(self) -> None:
        await self._leftovers.settle()
        for each in self._tables:
            try:
                await self._prove(each)
            except SchemaError as error:
                self._fail(f"table {each.wanted.database}.{each.wanted.name}: {error}")
            finally:
                each.table.unproved = ()

    async def _prove(self, later: UniqueLater) -> None:
        table = later.table
        before = table.definition
        while table.is_there and table.definition is before:  # else it has been decided otherwise
            try:
                if all(table.indexes[name].ready for name in later.attributes):
                    await define(table.database, later.wanted)
                    names = ", ".join(later.attributes)
                    self._context.runtime.tell(self._context.app.name, "notify", f"{self._context.key}: {table.name}: unique now: {names}")
                    return
                await asyncio.sleep(LOOK)
            except Problem:  # the log of the store has it
                await asyncio.sleep(RETRY_AFTER)

    def _fail(self, text: str) -> None:
        self._context.status.fail(text)
        if not self._is_waited_for:
            self._context.runtime.tell(self._context.app.name, "error", f"{self._context.key}: {text}")
