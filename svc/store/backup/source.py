"""The source of a backup: one database as of one commit, with the files its records and its log refer to.

The commit is that of a read transaction. The copy of a database that is open here is read from its file, and rewritten without gaps where that is
worth it; one that is open nowhere, or in another process, LMDB copies without gaps (`database_copy` says why).

The files of blobs never change, and none is removed while a source holds the lock `keep.lock` of the database, which code that removes such
files must acquire (`maintenance`).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lmdb

from svc.clock import SYSTEM_CLOCK, Clock
from svc.errors import SchemaError, StoreFailure
from svc.store.backup.files import write_file
from svc.store.backup.watch import Watch
from svc.store.blobs import BLOBS_STORE, Ledger
from svc.store.blobs.files import ERROR, PART, relative_name
from svc.store.definitions import DEFINITIONS_STORE, FORMAT_KEY, TABLE_PREFIX, StoredTable
from svc.store.disk.database_copy import Copy, RawCopy
from svc.store.disk.database_locks import BlobFilesLock
from svc.store.disk.faults import MAP_BYTES, MAX_STORES, store_problem
from svc.store.env import MAX_READERS, Handle, Txn
from svc.store.store_format import format_problem

if TYPE_CHECKING:
    from svc.store.database import Database

DATA_FILE = "data.mdb"
WORTHWHILE = 0.1  # share of gaps from which a copy is rewritten without them


class BackupSource:
    """One database as of the commit when this was made. `time_ms`: that time. `close` it."""

    def __init__(
        self,
        database: str,
        path: Path,
        blob_roots: Sequence[Path],
        txn: Txn,
        definitions: Handle,
        ledger: Ledger,
        copy: Copy | RawCopy,
        time_ms: int,
    ) -> None:
        """`blob_roots`: the directories of this database's blobs. `txn`: what `copy` is a copy of, and closes."""
        self.database = database
        self.blob_roots = tuple(blob_roots)
        self.time_ms = time_ms
        self._txn = txn
        self._definitions = definitions
        self._ledger = ledger
        self._copy = copy
        self._keep: BlobFilesLock | None = None
        try:
            self._keep = BlobFilesLock(path)
        except OSError as error:
            self.close()
            raise store_problem(error, path) from error

    @classmethod
    def of(cls, database: Database) -> BackupSource:
        """Of an open database, now. On the loop's thread; everything else here may be done on another."""
        time_ms = int(database.clock.wall() * 1000)
        copy = database.env.open_copy()
        return cls(database.name, database.env.path, database.blobs.roots, copy.txn, database.definitions, database.ledger, copy, time_ms)

    @classmethod
    @contextmanager
    def at(cls, path: Path, blob_paths: Sequence[Path], clock: Clock = SYSTEM_CLOCK) -> Iterator[BackupSource]:
        """Of the database in a directory, whether a server has it open or not; but never in a process that has it open itself."""
        with open_readonly(path) as (env, txn):
            handles = [env.open_db(name.encode(), txn, create=False) for name in (DEFINITIONS_STORE, BLOBS_STORE)]
            roots = [root / path.name for root in blob_paths]
            source = cls(path.name, path, roots, txn, handles[0], Ledger(handles[1]), Copy(env, txn), int(clock.wall() * 1000))
            try:
                yield source
            finally:
                source.close()

    def tables(self) -> list[str]:
        """The names of its tables."""
        return [stored.definition.name for stored in stored_tables(self._txn, self._definitions)]

    def blobs(self, without: frozenset[str] = frozenset(), *, log: bool = True) -> list[tuple[str, Path]]:
        """(name below a blob directory, file) of each blob, complete or not; those that are missing are left out, as they are in the store.

        But those of the tables `without` and, unless `log`, those that only the log refers to.
        """
        txn = self._txn
        out = {stored.number for stored in stored_tables(txn, self._definitions) if stored.definition.name in without}
        if not log:
            out |= self._ledger.dropped_tables(txn)
        numbers = [number for number, (table, released, _) in self._ledger.files(txn) if table not in out and (log or not released)]
        found = []
        for number in numbers:
            name = relative_name(number)
            for suffix in ("", PART, ERROR, ""):  # it may be renamed between two attempts
                there = [path for root in self.blob_roots if (path := root / (name + suffix)).exists()]
                if there:
                    found.append((name + suffix, there[0]))
                    break
        return found

    def write(self, directory: Path, watch: Watch) -> tuple[int, str]:
        """Write the copy into this directory, once; returns (size, SHA-256). Raises lmdb.Error, OSError, CopyStopped."""
        path = directory / DATA_FILE
        try:
            written = write_file(path, self._copy, watch)
        finally:
            self._copy.close()
        if isinstance(self._copy, RawCopy) and gaps(directory) > WORTHWHILE:
            written = compact(directory, watch)
        return written

    def close(self) -> None:
        """Harmless when done."""
        self._copy.close()
        if self._keep is not None:
            self._keep.close()


def gaps(directory: Path) -> float:
    """The share of the file in this directory, which no other process has open, that nothing uses."""
    env = open_private(directory, readonly=True)
    stores = env.stat()["entries"]
    if stores > MAX_STORES:
        env.close()
        env = open_private(directory, readonly=True, stores=stores)
    try:
        pages = env.info()["last_pgno"] + 1
        with env.begin() as txn:
            names = [bytes(name) for name in txn.cursor().iternext(values=False)]
        handles = [env.open_db(name, create=False) for name in names]
        with env.begin() as txn:
            used = 2 + sum(_pages(stat) for stat in (env.stat(), *(txn.stat(handle) for handle in handles)))
    finally:
        env.close()
    return max(pages - used, 0) / pages


def _pages(stat: Any) -> int:
    return stat["branch_pages"] + stat["leaf_pages"] + stat["overflow_pages"]  # type: ignore[no-any-return]


def compact(directory: Path, watch: Watch) -> tuple[int, str]:
    """Rewrite the file in this directory, which no other process has open, without gaps; returns (size, SHA-256)."""
    path, part = directory / DATA_FILE, directory / f"{DATA_FILE}.part"
    env = open_private(directory, readonly=True)
    try:
        copy = Copy(env, env.begin())
        try:
            written = write_file(part, copy, watch)
        finally:
            copy.close()
    finally:
        env.close()
    os.replace(part, path)
    return written


def open_private(directory: Path, *, readonly: bool = False, stores: int = MAX_STORES) -> lmdb.Environment:
    """The environment of a file that no other process has open, to open so many stores in it. Raises lmdb.Error."""
    return lmdb.open(str(directory), map_size=MAP_BYTES, max_dbs=stores, lock=False, readonly=readonly, create=False)


def stored_tables(txn: Txn, definitions: Handle) -> list[StoredTable]:
    """Raises StoreFailure for a database of another format, or with a definition of one."""
    if (problem := format_problem(txn.get(FORMAT_KEY, None, definitions))) is not None:
        raise StoreFailure(f"The database cannot be read: {problem}")
    tables = []
    cursor = txn.cursor(definitions)
    if cursor.set_range(TABLE_PREFIX):
        for key, data in cursor.iternext():
            if not key.startswith(TABLE_PREFIX):
                break
            try:
                tables.append(StoredTable.from_bytes(data))
            except SchemaError as error:
                raise StoreFailure(f"The database cannot be read: {error.message}") from None
    return tables


@contextmanager
def open_readonly(path: Path, *, lock: bool = True) -> Iterator[tuple[lmdb.Environment, Txn]]:
    """The environment in a directory, and a snapshot of it. `lock` False: no other process has it open. Raises StoreFailure."""
    if not (path / DATA_FILE).exists():
        raise StoreFailure(f"There is no database in {path}")
    env = None
    try:
        env = lmdb.open(str(path), map_size=MAP_BYTES, max_dbs=MAX_STORES, max_readers=MAX_READERS, readonly=True, lock=lock, create=False)
        if (path / DATA_FILE).stat().st_size < (env.info()["last_pgno"] + 1) * env.stat()["psize"]:
            # LMDB would look for its pages behind the end of the file, which ends the process.
            raise lmdb.CorruptedError("the file is truncated")
        for name in (DEFINITIONS_STORE, BLOBS_STORE):
            env.open_db(name.encode(), create=False)  # a handle that a transaction of its own has opened lives as long as the environment
        txn = env.begin()
    except (lmdb.Error, OSError) as error:
        if env is not None:
            env.close()
        raise store_problem(error, path) from error
    try:
        yield env, txn
    except lmdb.Error as error:
        raise store_problem(error, path) from error
    finally:
        txn.abort()
        env.close()


def copy_database(path: Path, target: Path) -> int:
    """Write a gap-free copy of the database in a directory into the new file `target`; returns its size in bytes. For `copy-db`.

    Consistent also while a server writes to it. Raises StoreFailure, NoSpace, and FileExistsError.
    """
    with open_readonly(path) as (env, txn):
        copy = Copy(env, txn)
        try:
            return write_file(target, copy, Watch())[0]
        except FileExistsError:
            raise
        except (lmdb.Error, OSError) as error:
            raise store_problem(error, target) from error
        finally:
            copy.close()
