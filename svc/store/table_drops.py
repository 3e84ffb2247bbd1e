"""Dropping a table, or an attribute of one (spec: operations §2, schema-and-store §7).

A table is dropped in one long write (`writing.long_task`): its stores are emptied, one call of LMDB each. So is an attribute. Before that, the values
of a dynamic table's attribute are removed from its records, BATCH at a time so that no transaction becomes too large and other writers are admitted in
between. If that is interrupted, the attribute still exists, and can be dropped again.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from svc.errors import NotFound
from svc.store.definitions import StoredTable, build_key, store_key, table_key
from svc.store.env import Txn
from svc.store.values.keys import after
from svc.store.values.records import MISSING, decode, projection
from svc.store.writing.long_task import LmdbCall, LongTask
from svc.store.writing.write_set import WriteSet

if TYPE_CHECKING:
    from svc.store.table import Table

logger = logging.getLogger("svc.store")

STEP = 32  # records read between two reads of the clock
BATCH = 10_000  # records that are rewritten in one transaction
EXPIRY_STEP = 256


async def drop_table(table: Table, user: str | None = None) -> None:
    """Remove a table with its records and indexes, readers served meanwhile; its entries stay in the log.

    Raises NotFound if it is gone already, and what prevents any long write.
    """
    database = table.database
    await LongTask(database, partial(_drop_table, table), table.entry_count(database.snapshot()) // 100, user).run()
    logger.info("database %s: dropped the table %s", database.name, table.name)


def _drop_table(table: Table, write_set: WriteSet) -> Iterator[LmdbCall | None]:
    database, txn = table.database, write_set.txn
    _require(table)
    for index in table.index_list:
        yield partial(_empty, index.handle)
        txn.delete(build_key(table.number, index.attribute), b"", database.definitions)
    yield partial(_empty, table.primary)
    yield from table.expiry.clear(txn, EXPIRY_STEP)
    if database.replication is not None and not table.definition.replicate:
        database.replication.leave_out(txn, table.number)
    database.forget_table(txn, table)
    database.announce_change(txn)


def _empty(handle: object, txn: Txn) -> None:
    txn.drop(handle, False)  # type: ignore[arg-type]


def _require(table: Table) -> None:
    if table.database.tables.get(table.name) is not table:
        raise NotFound(f"Table '{table.database.name}.{table.name}' does not exist")


async def drop_attribute(table: Table, name: str, user: str | None = None) -> None:
    """Remove an attribute with its index; of a dynamic table the values too. Raises as `drop_table`."""
    database = table.database
    if table.definition.dynamic and table.entry_count(database.snapshot()) > BATCH:
        batch = _AttributeRemoval(table, name, BATCH)
        while not batch.is_last:
            await LongTask(database, batch.steps, BATCH, user, announces=False).run()
            batch.start = batch.end
    await LongTask(database, partial(_drop_attribute, table, name), BATCH, user).run()
    logger.info("database %s: dropped the attribute %s.%s", database.name, table.name, name)


def _drop_attribute(table: Table, name: str, write_set: WriteSet) -> Iterator[LmdbCall | None]:
    database, txn = table.database, write_set.txn
    _require(table)
    if name not in table.attributes:
        raise NotFound(f"Attribute '{name}' does not exist on '{database.name}.{table.name}'")
    definition = replace(table.definition, attributes=tuple([a for a in table.definition.attributes if a.name != name]))
    if definition.dynamic:
        yield from _AttributeRemoval(table, name, -1).steps(write_set)
    index = table.indexes.get(name)
    if index is not None:
        yield partial(_empty, index.handle)
        txn.delete(build_key(table.number, name), b"", database.definitions)
        txn.delete(store_key(table.number, name), b"", database.definitions)
    stored = StoredTable(table.number, definition)
    txn.put(table_key(table.name), stored.to_bytes(), True, True, False, database.definitions)
    database.announce_change(txn)


class _AttributeRemoval:
    """Writes the records that have a value without it, from the stored key `start` on, up to `size` of them; -1: all.

    Their time attributes stay, because no write of a client changes the records. `end`: the last key reached. `is_last`: that is the end of the table.
    """

    def __init__(self, table: Table, name: str, size: int) -> None:
        self._table = table
        self._name = name
        self._size = size
        self._value_of = projection((name,), default=MISSING)
        self.start = self.end = b""
        self.is_last = False

    def steps(self, write_set: WriteSet) -> Iterator[None]:
        table, left = self._table, self._size
        _require(table)
        self.end, self.is_last = self.start, False
        while left:
            cursor = write_set.txn.cursor(table.primary)
            if not (cursor.set_range(after(self.end)) if self.end else cursor.first()):
                self.is_last = True
                return
            for stored, raw in list(islice(cursor.iternext(), STEP)):
                if left and self._value_of(raw)[0] is not MISSING:
                    record = decode(raw)
                    del record[self._name]
                    write_set.rewrite(table, stored, raw, record)
                    left -= 1
                if left:
                    self.end = stored
            yield None
