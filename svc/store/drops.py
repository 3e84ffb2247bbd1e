"""How tables, attributes and databases end (contract: operations §2, schema-and-store §7).

A table goes in one long write (`long_change`): its stores are emptied, one call of LMDB each. So does an attribute. Before that, the values of a
dynamic table's attribute are taken out of its records, BATCH at a time so that no transaction becomes too large and others get to write in
between. If that is interrupted, the attribute is still there, and can be dropped again.

A database goes in three steps. Whatever ends the process in between, the next start finds which has been reached, and goes on:

    1. `dropped` is written into its definitions, and committed. From here on it is gone: this process forgets it, others do at their next look,
       and nobody can write to it any more
    2. its directory, and those of its blobs, get names that begin with `.dropped`, so that another database can have the name
    3. these directories are removed, on a thread

Who still reads a snapshot of it goes on: the files live until the environment is closed, which waits for the last snapshot.
"""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from secrets import token_hex
from threading import Thread
from typing import TYPE_CHECKING

from svc.errors import NotFound
from svc.store.definitions import StoredTable, build_key, store_key, table_key
from svc.store.disk.faults import LmdbError
from svc.store.env import Txn
from svc.store.values.keys import after
from svc.store.values.records import MISSING, decode, projection
from svc.store.writing.long_task import LmdbCall, LongTask
from svc.store.writing.write_set import WriteSet

if TYPE_CHECKING:
    from svc.store.database import Database
    from svc.store.table import Table

logger = logging.getLogger("svc.store")

DROPPED = ".dropped-"  # how the directories of dropped databases are called
STEP = 32  # records looked at between two looks at the clock
BATCH = 10_000  # records that are rewritten in one transaction
EXPIRY_STEP = 256


# --- tables -----------------------------------------------------------------------------------------------------------------------------


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
    database.forget_table(txn, table)
    database.announce_change(txn)


def _empty(handle: object, txn: Txn) -> None:
    txn.drop(handle, False)  # type: ignore[arg-type]


def _require(table: Table) -> None:
    if table.database.tables.get(table.name) is not table:
        raise NotFound(f"Table '{table.database.name}.{table.name}' does not exist")


# --- attributes -------------------------------------------------------------------------------------------------------------------------


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

    Their time attributes stay: nobody has changed what they say. `end`: where it has come to. `is_last`: that is the end of the table.
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


# --- databases --------------------------------------------------------------------------------------------------------------------------


def move_away(database: Database) -> list[Path]:
    """Step 2. Returns the directories to be removed; another process may have been faster."""
    name = f"{DROPPED}{token_hex(8)}"
    found: list[Path] = []
    for directory in (database.env.path, *database.blobs.roots):
        target = directory.with_name(name)
        try:
            if directory is database.env.path and os.stat(directory).st_ino != database.inode:
                continue  # the name has another database by now
            os.rename(directory, target)
        except FileNotFoundError:
            continue
        except OSError as error:
            logger.error("database %s: its directory %s cannot be moved: %s", database.name, directory, error)
            continue
        found.append(target)
    return found


def leftovers(roots: list[Path]) -> list[Path]:
    """What step 3 has still to remove, of databases dropped earlier."""
    return [path for root in roots if root.is_dir() for path in root.iterdir() if path.name.startswith(DROPPED)]


class Remover:
    """Step 3."""

    def __init__(self) -> None:
        self._threads: list[Thread] = []

    def remove(self, directories: list[Path]) -> None:
        """Begin to remove these directories."""
        if directories:
            thread = Thread(target=_remove_all, args=(directories,), name="remover", daemon=True)
            self._threads = [other for other in self._threads if other.is_alive()] + [thread]
            thread.start()

    def wait(self, seconds: float) -> None:
        """Wait until all that was begun is done, but no longer than that: the next start goes on."""
        for thread in self._threads:
            thread.join(seconds)


def _remove_all(directories: list[Path]) -> None:
    for directory in directories:
        try:
            shutil.rmtree(directory)
        except FileNotFoundError:
            pass  # another process is at it too
        except OSError as error:
            logger.error("the files of a dropped database in %s cannot be removed: %s", directory, error)


class Closing:
    """Environments of dropped databases whose snapshots are still read.

    They are closed on a thread: whoever lets go of a large file last has to free its blocks.
    """

    def __init__(self) -> None:
        self._databases: list[Database] = []
        self._threads: list[Thread] = []

    def add(self, database: Database) -> None:
        self._databases.append(database)

    def close_unused(self) -> None:
        """Close those that nobody reads any more; to be called at the end of a turn, now and then."""
        for database in list(self._databases):
            try:
                if database.env.has_writer or database.env.holder is not None or database.env.open_snapshots():
                    continue
            except LmdbError:
                pass
            self._databases.remove(database)
            database.close_handles()
            thread = Thread(target=database.env.close, name="closer", daemon=True)
            self._threads = [other for other in self._threads if other.is_alive()] + [thread]
            thread.start()

    def close_all(self) -> None:
        """Close them now, and wait for it."""
        databases, self._databases = self._databases, []
        for database in databases:
            database.close()
        for thread in self._threads:
            thread.join()
