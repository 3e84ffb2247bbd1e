"""Restoring a backup: everything is made ready beside the database, then one takes the place of the other.

    prepare   <storage>/.restore-<database>/ gets the file of the database; files of blobs that are not there get their place. The database is
              untouched: no record refers to the new files yet
    swap      .restoring-<database> marks it: from here on no process opens it. The old directory is renamed, the new one takes its name, the mark is removed

A mark that is found at the start means that the second step was interrupted: the database is not loaded until a restore has completed. If the
first step was interrupted, nothing has changed.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import shutil
from collections.abc import Sequence
from os import urandom
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING

import lmdb
import msgspec

from svc.errors import Problem
from svc.store.backup.files import copy_file, make_directory, sync_directory, sync_levels, write_file
from svc.store.backup.managed import BackupInfo, Backups, InUse
from svc.store.backup.manifest import BLOBS, DATA_NAME, BadBackup, Manifest
from svc.store.backup.source import DATA_FILE, open_private, stored_tables
from svc.store.backup.verification import check_tables, verify
from svc.store.backup.watch import Watch
from svc.store.definitions import BLOBS_KEY, DEFINITIONS_STORE, REPLICATION_KEY, REPLICATION_STORE, check_database_name
from svc.store.disk.database_locks import BlobFilesLock, DatabaseInUse, OpenLock
from svc.store.disk.faults import store_problem
from svc.store.disk.page_cache import forget_cached
from svc.store.disk.restore_mark import MARK, interrupted_restore
from svc.store.log.entries import decode_entry, encode_any
from svc.store.log.transaction_log import LOG_STORE
from svc.store.replication_state import ReplicationState
from svc.store.store_names import StoreNames
from svc.store.values.records import HAS_FILES, expiry_of, frame, has_files, lsn_of, raw_payload, refreshed_of, version_of

if TYPE_CHECKING:
    from svc.store.database import Database
    from svc.store.store import Store


logger = logging.getLogger("svc.store")

_PAUSE = 0.002  # polling interval, seconds: whether another process still writes


async def swap_online(store: Store, restore: Restore, name: str) -> None:
    """Put what `restore` has prepared in place of the database, if there is one.

    Waits for the long write that is under way in it; cancelled then, it does nothing. What comes after that is carried through, for it takes
    milliseconds. Raises what prevents it.
    """
    database = store.find_database(name)
    queue = None if database is None else store.queue_of(database)
    if queue is not None:
        await queue.acquire(1)
    try:
        exchange = asyncio.get_running_loop().create_task(_exchange(store, restore, name, database))
        cancelled = False
        while not exchange.done():
            try:
                await asyncio.shield(exchange)
            except asyncio.CancelledError:
                cancelled = True
            except Exception:
                break  # raised below
        exchange.result()
        if cancelled:
            raise asyncio.CancelledError
    finally:
        if queue is not None:
            queue.release()


async def _exchange(store: Store, restore: Restore, name: str, database: Database | None) -> None:
    await store.helper.wait(restore.mark)
    if database is not None:
        try:
            while not database.env.is_open_to_writers():  # noqa: ASYNC110 - another process sends no notification
                await asyncio.sleep(_PAUSE)
            database.mark_dropped()
        except BaseException:
            restore.unmark()
            raise
    await store.helper.wait(restore.swap)
    if restore.old is not None:
        store.remove_files([restore.old])
    store.open_database(name)
    logger.warning("database %s: restored", name)


_STEP = 1000  # rows between two checks for cancellation


def change_identity(directory: Path, watch: Watch) -> None:
    """Give the database in `directory`, which no process has open, another identity. Reads all its records. Raises lmdb.Error, CopyStopped."""
    env = open_private(directory)
    try:
        definitions, log = [env.open_db(name.encode(), create=False) for name in (DEFINITIONS_STORE, LOG_STORE)]
        with env.begin() as reading:
            old = reading.get(BLOBS_KEY, None, definitions)
            names = StoreNames(reading, definitions)
            tables = [names.of(stored) for stored in stored_tables(reading, definitions)]
        if old is None:
            return
        stores = [env.open_db(name.encode(), create=False) for name in tables]
        new = urandom(len(old))
        with env.begin(write=True) as txn:
            for store in stores:
                for count, (key, raw) in enumerate(txn.cursor(store), 1):
                    if has_files(raw):
                        txn.put(key, _changed(raw, old, new), True, True, False, store)
                    if not count % _STEP:
                        watch.check()
            for count, (key, data) in enumerate(txn.cursor(log), 1):
                entry = decode_entry(int.from_bytes(key, "big"), data)
                value, image = [raw if raw is None or not has_files(raw) else _changed(raw, old, new) for raw in (entry.value, entry.image)]
                if value is not entry.value or image is not entry.image:
                    txn.put(key, encode_any(msgspec.structs.replace(entry, value=value, image=image)), True, True, False, log)
                if not count % _STEP:
                    watch.check()
            txn.put(BLOBS_KEY, new, True, True, False, definitions)
    finally:
        env.close()


def _renew_incarnation(directory: Path) -> None:
    """To other nodes that take part in the database in `directory`, its log goes on from here as that of another one: they may have what the backup lacks."""
    env = open_private(directory)
    try:
        definitions, log = [env.open_db(name.encode(), create=False) for name in (DEFINITIONS_STORE, LOG_STORE)]
        with env.begin() as reading:
            if reading.get(REPLICATION_KEY, None, definitions) is None:
                return
            cursor = reading.cursor(log)
            newest = int.from_bytes(cursor.key()) if cursor.last() else 0
        state = ReplicationState(env.open_db(REPLICATION_STORE.encode(), create=False))
        with env.begin(write=True) as txn:
            state.renew_incarnation(txn, newest)
    finally:
        env.close()


def _changed(raw: bytes, old: bytes, new: bytes) -> bytes:
    payload = raw_payload(raw).replace(old, new)
    return frame(payload, version_of(raw), lsn_of(raw), expiry_of(raw), HAS_FILES, refreshed_of(raw))


_STAGED = ".restore-"
_AWAY = ".dropped-"  # as for databases that were dropped: what is left of them is removed at the next start


class Restore:
    """Of one backup, in `directory`, to the database of this name below `storage`. `close` it, whatever has happened."""

    def __init__(
        self, directory: Path, manifest: Manifest, storage: Path, database: str, blob_paths: Sequence[Path], watch: Watch | None = None
    ) -> None:
        self._directory = directory
        self._manifest = manifest
        self._storage = storage
        self._database = database
        self._path = storage / database
        self._staged = storage / f"{_STAGED}{database}"
        self._mark = storage / f"{MARK}{database}"
        self._blob_roots = [path / database for path in blob_paths]
        self._watch = Watch() if watch is None else watch
        self._keep: BlobFilesLock | None = None
        self.old: Path | None = None  # where the database has gone that was there before

    def prepare(self) -> None:
        """Raises BadBackup, NoSpace, StoreFailure and CopyStopped; then the database is as it was."""
        try:
            verify(self._directory, self._manifest, checksum=False, watch=Watch())
            make_directory(self._storage)
            shutil.rmtree(self._staged, ignore_errors=True)
            self._staged.mkdir(mode=0o700)
            if self._path.is_dir():
                self._keep = BlobFilesLock(self._path)  # keeps the sweep from removing files that no record refers to yet
            self._watch.total = sum(file.size for file in self._manifest.files)
            digests = {file.path: file.sha256 for file in self._manifest.files}
            _, digest = copy_file(self._directory / DATA_NAME, self._staged / DATA_FILE, self._watch)
            if digests[DATA_NAME] != digest:
                raise BadBackup(f"{DATA_NAME} has other content than when it was made")
            check_tables(self._staged, self._manifest)
            _renew_incarnation(self._staged)
            if self._database != self._manifest.database:
                change_identity(self._staged, self._watch)
            forget_cached(self._staged / DATA_FILE)
            sync_directory(self._staged)
            self._place_blobs()
        except (lmdb.Error, OSError) as error:
            raise store_problem(error, self._path) from error

    def _place_blobs(self) -> None:
        directories: set[Path] = set()
        for file in self._manifest.files:
            if not file.path.startswith(f"{BLOBS}/"):
                continue
            name = file.path.removeprefix(f"{BLOBS}/")
            source = self._directory / file.path
            found = next((path for root in self._blob_roots if (path := root / name).exists()), None)
            target = self._blob_roots[0] / name if found is None else found
            if found is not None and _same(source, found):
                self._watch.add(file.size)
                continue
            target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            directories.add(target.parent)
            part = target.with_name(f"{target.name}.{token_hex(4)}")
            _, digest = copy_file(source, part, self._watch)
            if file.sha256 and digest != file.sha256:
                part.unlink()
                raise BadBackup(f"{file.path} has other content than when it was made")
            os.replace(part, target)
        sync_levels(directories)

    def mark(self) -> None:
        """From here on the database is not opened. Raises StoreFailure or NoSpace."""
        try:
            self._mark.unlink(missing_ok=True)
            write_file(self._mark, [json.dumps({"backup": str(self._directory)}).encode()], Watch())
            sync_directory(self._storage)
        except OSError as error:
            raise store_problem(error, self._mark) from error

    def unmark(self) -> None:
        """The database is whole, the old one or the new one."""
        self._mark.unlink(missing_ok=True)
        sync_directory(self._storage)

    def swap(self) -> None:
        """Put the new one in place of the old one, which is open nowhere but where it was marked. Raises StoreFailure; then it stays marked."""
        try:
            if self._path.exists():
                self.old = self._path.with_name(f"{_AWAY}{token_hex(8)}")
                os.rename(self._path, self.old)
            os.rename(self._staged, self._path)
            sync_directory(self._storage)
        except OSError as error:
            raise store_problem(error, self._path) from error
        self.unmark()

    def close(self) -> None:
        if self._keep is not None:
            self._keep.close()
        shutil.rmtree(self._staged, ignore_errors=True)


def _same(a: Path, b: Path) -> bool:
    one, other = a.stat(), b.stat()
    return one.st_size == other.st_size and one.st_mtime_ns == other.st_mtime_ns


def restore_offline(
    backups: Backups,
    storage: Path,
    blob_paths: Sequence[Path],
    *,
    number: int | None = None,
    target: str | None = None,
    watch: Watch | None = None,
) -> BackupInfo:
    """Restore a backup, default the newest, while no server runs on these files. `target`: another database, which must not exist.

    Raises UnknownBackup, BadBackup, InUse (a process has the database open), Problem, CopyStopped.
    """
    number = backups.newest() if number is None else number
    database = backups.database if target is None else target
    try:
        check_database_name(database)
    except Exception as error:
        raise Problem(str(error), 400) from None
    path = storage / database
    if database != backups.database and path.exists() and not interrupted_restore(storage, database):
        raise Problem(f"database '{database}' already exists", 400)
    with backups.reading(number) as directory:
        manifest = backups.manifest(number)
        restore = Restore(directory, manifest, storage, database, blob_paths, watch)
        open_lock = None
        try:
            if path.is_dir():
                try:
                    open_lock = OpenLock(path, alone=True)
                except DatabaseInUse:
                    raise InUse(f"The database '{database}' is open: stop the service first") from None
            restore.prepare()
            restore.mark()
            restore.swap()
        finally:
            if open_lock is not None:
                open_lock.close()
            restore.close()
        if restore.old is not None:
            shutil.rmtree(restore.old, ignore_errors=True)
    return next(info for info in backups.infos() if info.backup_id == number)
