"""The backups of a database: `<storage.backupPath>/<database>/<number>/`, each with

    manifest.json      what it is: database, tables, time, and every file with its size and SHA-256. Written last
    database/data.mdb  the database
    blobs/3f2/a07/01c  the files of its blobs, under the names they have

A backup is made under a name that begins with a dot and gets its number when it is complete. Files of blobs never change, so a file that the
backup before has too is shared with it (a hard link). Whoever reads a backup holds a lock on its manifest; it is not removed meanwhile.
"""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from fcntl import LOCK_EX, LOCK_NB, LOCK_SH, flock
from pathlib import Path
from secrets import token_hex

import lmdb
import msgspec

from svc.errors import BadValue
from svc.store.backup.files import copy_file, make_directory, sync_directory, sync_levels, write_file
from svc.store.backup.manifest import (
    BLOBS,
    DATA_NAME,
    MANIFEST,
    BackedUpFile,
    BadBackup,
    Manifest,
    decode_manifest,
    encode_manifest,
    manifest_of,
)
from svc.store.backup.source import BackupSource
from svc.store.backup.verification import verify
from svc.store.backup.watch import Watch
from svc.store.definitions import check_database_name
from svc.store.disk.faults import store_problem

logger = logging.getLogger("svc.store")

_NEW, _OLD = ".new-", ".removed-"
_LAST = ".last"  # the highest number given so far
_LOCK = "lock"


class UnknownBackup(Exception):
    """There is no such backup."""


class InUse(Exception):
    """It is being read."""


class BackupInfo(msgspec.Struct, frozen=True):
    """`timestamp` in seconds, `size` in bytes."""

    backup_id: int
    timestamp: int
    size: int
    file_count: int


class Backups:
    """The backups of one database. `path`: of all managed backups. Raises BadValue for a name that no database can have."""

    def __init__(self, path: Path, database: str) -> None:
        try:
            check_database_name(database)
        except Exception as error:
            raise BadValue(str(error)) from None
        self.database = database
        self.path = path / database

    # -- reading

    def infos(self) -> list[BackupInfo]:
        """The complete ones, oldest first."""
        found = []
        for number in self._numbers():
            with suppress(BadBackup, OSError):
                found.append(_info(number, self.manifest(number)))
        return found

    def newest(self) -> int:
        """Raises UnknownBackup if there is none."""
        numbers = self._numbers()
        if not numbers:
            raise UnknownBackup(f"There is no backup of the database '{self.database}'")
        return numbers[-1]

    def directory(self, number: int) -> Path:
        """Raises UnknownBackup."""
        path = self.path / str(number)
        if not path.is_dir():
            raise UnknownBackup(f"There is no backup {number} of the database '{self.database}'")
        return path

    def manifest(self, number: int) -> Manifest:
        """Raises UnknownBackup, BadBackup and OSError."""
        try:
            return decode_manifest((self.directory(number) / MANIFEST).read_bytes())
        except FileNotFoundError:
            raise BadBackup(f"{MANIFEST} is missing") from None

    @contextmanager
    def reading(self, number: int) -> Iterator[Path]:
        """The directory of a backup, which stays meanwhile. Raises UnknownBackup, BadBackup, InUse (it is being removed)."""
        directory = self.directory(number)
        with _locked(directory, LOCK_SH):
            yield directory

    def verify(self, number: int, *, checksum: bool = False, watch: Watch | None = None) -> None:
        """Raise BadBackup if it cannot be restored: files are missing or cut, the database cannot be opened; with `checksum`, any byte differs."""
        watch = Watch() if watch is None else watch
        with self.reading(number) as directory:
            verify(directory, self.manifest(number), checksum=checksum, watch=watch)

    def _numbers(self) -> list[int]:
        try:
            names = os.listdir(self.path)
        except (FileNotFoundError, NotADirectoryError):
            return []
        return sorted(int(name) for name in names if name.isascii() and name.isdecimal() and (self.path / name).is_dir())

    # -- making

    def create(self, source: BackupSource, *, exclude_blobs: bool = False, watch: Watch | None = None) -> BackupInfo:
        """Back up what `source` is, and close that. Raises NoSpace, StoreFailure and CopyStopped; then nothing is left of it."""
        watch = Watch() if watch is None else watch
        new = None
        try:
            make_directory(self.path)
            self._clear()
            new = self.path / f"{_NEW}{token_hex(8)}"
            new.mkdir(mode=0o700)
            with open(new / _LOCK, "wb") as lock:
                flock(lock, LOCK_EX)  # it is not left behind as long as this is held
                tables = source.tables()
                blobs = [] if exclude_blobs else source.blobs()
                watch.total = sum(path.stat().st_size for _, path in blobs if path.exists())
                (new / "database").mkdir(mode=0o700)
                size, digest = source.write(new / "database", watch)
                sync_directory(new / "database")
                files = [BackedUpFile(DATA_NAME, size, digest)]
                files += self._copy_blobs(new, blobs, watch)
                manifest = manifest_of(source, tables, files, blobs=not exclude_blobs)
                write_file(new / MANIFEST, [encode_manifest(manifest)], watch)
                (new / _LOCK).unlink()
                sync_directory(new)
                return _info(self._give_number(new), manifest)
        except BaseException as error:
            if new is not None:
                shutil.rmtree(new, ignore_errors=True)
            raise _problem(error, self.path) from error
        finally:
            source.close()

    def _copy_blobs(self, new: Path, blobs: list[tuple[str, Path]], watch: Watch) -> Iterator[BackedUpFile]:
        before: dict[str, BackedUpFile] = {}
        previous = new
        for number in reversed(self._numbers()):
            with suppress(BadBackup, OSError):
                manifest = self.manifest(number)
                if manifest.blobs:
                    before = {file.path: file for file in manifest.files}
                    previous = self.directory(number)
                    break
        directories: set[Path] = set()
        for name, path in blobs:
            inside = f"{BLOBS}/{name}"
            target = new / inside
            if target.parent not in directories:
                target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                directories.add(target.parent)
            stat = path.stat()
            known = before.get(inside)
            if (
                known is not None
                and known.size == stat.st_size
                and known.changed_ns == stat.st_mtime_ns
                and _link(previous / inside, target)
            ):
                watch.add(known.size)
                yield known
                continue
            size, digest = copy_file(path, target, watch)
            yield BackedUpFile(inside, size, digest, stat.st_mtime_ns)
        sync_levels(directories)

    def _give_number(self, new: Path) -> int:
        """The number under which it is found from now on: none that was given before."""
        last = self.path / _LAST
        number = max([_number_in(last), *self._numbers()]) + 1
        while True:
            try:
                os.rename(new, self.path / str(number))
                break
            except OSError:
                if not (self.path / str(number)).exists():
                    raise
                number += 1  # another process was faster
        part = self.path / f"{_LAST}.part"
        part.write_text(str(number))
        os.replace(part, last)
        sync_directory(self.path)
        return number

    def add(self, archive: Path, *, watch: Watch | None = None) -> BackupInfo:
        """Take in an archive that `get_backup` has made, as the newest backup. Raises BadBackup, NoSpace, StoreFailure and CopyStopped."""
        from svc.store.backup.archive import unpack

        watch = Watch() if watch is None else watch
        new = None
        try:
            make_directory(self.path)
            self._clear()
            new = self.path / f"{_NEW}{token_hex(8)}"
            new.mkdir(mode=0o700)
            with open(new / _LOCK, "wb") as lock:
                flock(lock, LOCK_EX)
                manifest = unpack(archive, new, watch=watch)
                verify(new, manifest, checksum=True, watch=Watch())
                (new / _LOCK).unlink()
                return _info(self._give_number(new), manifest)
        except BaseException as error:
            if new is not None:
                shutil.rmtree(new, ignore_errors=True)
            raise _problem(error, self.path) from error

    # -- removing

    def delete(self, number: int) -> None:
        """Raises UnknownBackup, and InUse while it is restored or verified."""
        directory = self.directory(number)
        try:
            with _locked(directory, LOCK_EX):
                old = self.path / f"{_OLD}{token_hex(8)}"
                os.rename(directory, old)
                sync_directory(self.path)
        except BadBackup:  # without a manifest
            old = self.path / f"{_OLD}{token_hex(8)}"
            os.rename(directory, old)
        shutil.rmtree(old, ignore_errors=True)

    def purge(self, keep: int) -> tuple[int, int]:
        """Remove all but the newest; returns (removed, kept). What is being read stays."""
        numbers = self._numbers()
        removed = 0
        for number in numbers[: max(len(numbers) - keep, 0)]:
            with suppress(InUse, UnknownBackup):
                self.delete(number)
                removed += 1
        return removed, len(self._numbers())

    def _clear(self) -> None:
        """Remove what an interruption has left."""
        for entry in self.path.iterdir():
            if entry.name.startswith(_OLD):
                shutil.rmtree(entry, ignore_errors=True)
            elif entry.name.startswith(_NEW):
                try:
                    with open(entry / _LOCK, "rb") as lock:
                        flock(lock, LOCK_EX | LOCK_NB)
                        shutil.rmtree(entry, ignore_errors=True)
                except (BlockingIOError, FileNotFoundError):
                    continue  # it is being made; just begun, or just complete


def _info(number: int, manifest: Manifest) -> BackupInfo:
    return BackupInfo(number, manifest.timestamp // 1000, sum(file.size for file in manifest.files), len(manifest.files))


def _number_in(path: Path) -> int:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return 0


def _link(source: Path, target: Path) -> bool:
    try:
        os.link(source, target)
    except OSError:
        return False
    return True


@contextmanager
def _locked(directory: Path, kind: int) -> Iterator[None]:
    try:
        manifest = open(directory / MANIFEST, "rb")  # noqa: SIM115
    except FileNotFoundError:
        raise BadBackup(f"{MANIFEST} is missing") from None
    with manifest:
        try:
            flock(manifest, kind | LOCK_NB)
        except BlockingIOError:
            raise InUse(f"Backup {directory.name} of the database '{directory.parent.name}' is in use, try again later") from None
        yield


def _problem(error: BaseException, path: Path) -> BaseException:
    """What is raised for an error in the middle of copying."""
    if isinstance(error, (lmdb.Error, OSError)):
        return store_problem(error, path)
    return error
