"""What is backed up: one database as of one moment, with the files its records and its log refer to.

The moment is that of a read transaction. The files of blobs never change, and none is removed while a source holds the lock `keep.lock` of the
database, which everybody who removes such files looks at (`maintenance`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import lmdb

from svc.clock import SYSTEM_CLOCK, Clock
from svc.errors import StoreFailure
from svc.store.blobs import BLOBS_STORE, Ledger
from svc.store.blobs.files import ERROR, PART, relative_name
from svc.store.copying import Copy
from svc.store.definitions import DEFINITIONS_STORE, FORMAT_KEY, STORE_FORMAT, TABLE_PREFIX, StoredTable
from svc.store.env import MAP_BYTES, MAX_READERS, MAX_STORES, Handle, Txn, store_problem
from svc.store.occupancy import KeepFiles

if TYPE_CHECKING:
    from svc.store.database import Database

DATA_FILE = "data.mdb"


class Source:
    """One database as of the moment this was made. `time_ms`: that moment. `close` it."""

    def __init__(
        self,
        database: str,
        path: Path,
        blob_roots: Sequence[Path],
        txn: Txn,
        definitions: Handle,
        ledger: Ledger,
        begin_copy: Callable[[Txn], Copy],
        time_ms: int,
    ) -> None:
        """`blob_roots`: the directories of this database's blobs."""
        self.database = database
        self.blob_roots = tuple(blob_roots)
        self.time_ms = time_ms
        self._txn: Txn | None = txn
        self._definitions = definitions
        self._ledger = ledger
        self._begin_copy = begin_copy
        self._keep: KeepFiles | None = None
        try:
            self._keep = KeepFiles(path)
        except OSError as error:
            self.close()
            raise store_problem(error, path) from error

    @classmethod
    def of(cls, database: Database) -> Source:
        """Of an open database, now. On the loop's thread; everything else here may be done on another."""
        time_ms = int(database.clock.wall() * 1000)
        return cls(
            database.name,
            database.env.path,
            database.blobs.roots,
            database.open_snapshot(),
            database.definitions,
            database.ledger,
            database.env.begin_copy,
            time_ms,
        )

    @classmethod
    @contextmanager
    def at(cls, path: Path, blob_paths: Sequence[Path], clock: Clock = SYSTEM_CLOCK) -> Iterator[Source]:
        """Of the database in a directory, whether a server has it open or not; but never in a process that has it open itself."""
        with open_readonly(path) as (env, txn):
            handles = [env.open_db(name.encode(), txn, create=False) for name in (DEFINITIONS_STORE, BLOBS_STORE)]
            source = cls(
                path.name,
                path,
                [root / path.name for root in blob_paths],
                txn,
                handles[0],
                Ledger(handles[1]),
                lambda txn: Copy(env, txn, path, lambda _: None),
                int(clock.wall() * 1000),
            )
            try:
                yield source
            finally:
                source.close()

    def _snapshot(self) -> Txn:
        assert self._txn is not None, "the copy has been begun"
        return self._txn

    def tables(self) -> list[str]:
        """The names of its tables."""
        return [stored.definition.name for stored in stored_tables(self._snapshot(), self._definitions)]

    def blobs(self, without: frozenset[str] = frozenset(), *, log: bool = True) -> list[tuple[str, Path]]:
        """(name below a blob directory, file) of each blob, complete or not; those that are missing are left out, as they are in the store.

        But those of the tables `without` and, unless `log`, those that only the log refers to.
        """
        txn = self._snapshot()
        out = {stored.number for stored in stored_tables(txn, self._definitions) if stored.definition.name in without}
        if not log:
            out |= self._ledger.dropped_tables(txn)
        numbers = [number for number, (table, released, _) in self._ledger.files(txn) if table not in out and (log or not released)]
        found = []
        for number in numbers:
            name = relative_name(number)
            for suffix in ("", PART, ERROR, ""):  # it may be renamed between two looks
                there = [path for root in self.blob_roots if (path := root / (name + suffix)).exists()]
                if there:
                    found.append((name + suffix, there[0]))
                    break
        return found

    def copy(self) -> Copy:
        """A copy of the database, to be read once. After it nothing else can be asked."""
        txn, self._txn = self._snapshot(), None
        return self._begin_copy(txn)

    def close(self) -> None:
        """Harmless when done."""
        txn, self._txn = self._txn, None
        if txn is not None:
            txn.abort()
        if self._keep is not None:
            self._keep.close()


def stored_tables(txn: Txn, definitions: Handle) -> list[StoredTable]:
    """Raises StoreFailure for a database of another format."""
    found = txn.get(FORMAT_KEY, None, definitions)
    if found != STORE_FORMAT:
        raise StoreFailure(f"The database has the format {found!r}, which this version does not know")
    tables = []
    cursor = txn.cursor(definitions)
    if cursor.set_range(TABLE_PREFIX):
        for key, data in cursor.iternext():
            if not key.startswith(TABLE_PREFIX):
                break
            tables.append(StoredTable.from_bytes(data))
    return tables


@contextmanager
def open_readonly(path: Path, *, lock: bool = True) -> Iterator[tuple[lmdb.Environment, Txn]]:
    """The environment in a directory, and a snapshot of it. `lock` False: nobody else has it. Raises StoreFailure."""
    if not (path / DATA_FILE).exists():
        raise StoreFailure(f"There is no database in {path}")
    env = None
    try:
        env = lmdb.open(str(path), map_size=MAP_BYTES, max_dbs=MAX_STORES, max_readers=MAX_READERS, readonly=True, lock=lock, create=False)
        if (path / DATA_FILE).stat().st_size < (env.info()["last_pgno"] + 1) * env.stat()["psize"]:
            # LMDB would look for its pages behind the end of the file, which ends the process.
            raise lmdb.CorruptedError("the file was cut off")
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
    from svc.store.backup.files import write_file
    from svc.store.backup.watch import Watch

    with open_readonly(path) as (env, txn):
        copy = Copy(env, txn, path, lambda _: None)
        try:
            return write_file(target, copy, Watch())[0]
        except FileExistsError:
            raise
        except (lmdb.Error, OSError) as error:
            raise store_problem(error, target) from error
        finally:
            copy.close()
