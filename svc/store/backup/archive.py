"""A backup as one tar archive (POSIX ustar with GNU's form of large sizes), written piece by piece and unpacked again.

It has the files of a managed backup under the same names, `manifest.json` first. Unpacked as a directory of `storage.backupPath` it is one.
"""

from __future__ import annotations

import re
import shutil
import tarfile
import zlib
from collections.abc import Iterator
from fcntl import LOCK_EX, flock
from io import BufferedWriter
from pathlib import Path
from secrets import token_hex

import lmdb

from svc.store.backup import subset
from svc.store.backup.files import PIECE, make_directory, write_file
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
from svc.store.backup.source import DATA_FILE, BackupSource, compact
from svc.store.backup.watch import Watch
from svc.store.disk.faults import store_problem

GZIP_LEVEL = 1  # pages of a database: 6 takes three times as long and saves a tenth more
_BLOCK = 512  # bytes, of tar
_MEMBER = re.compile(rf"{MANIFEST}|{DATA_NAME}|{BLOBS}(?:/[0-9a-f]{{3}}){{3}}(?:\.part|\.error)?")


class StagedBackup:
    """What an archive is made of: the copy of the database in a directory of its own, and the files of blobs where they are. `close` it."""

    def __init__(self, source: BackupSource, directory: Path, lock: BufferedWriter) -> None:
        self.directory = directory
        self.members: list[tuple[str, Path, int]] = []  # (name, file, size)
        self.manifest = b""
        self.time_ms = source.time_ms
        self._source = source
        self._lock = lock

    def close(self) -> None:
        """Harmless when done."""
        self._source.close()
        self._lock.close()
        shutil.rmtree(self.directory, ignore_errors=True)


def stage_backup(
    source: BackupSource,
    path: Path,
    *,
    without: frozenset[str] = frozenset(),
    log: bool = True,
    blobs: bool = True,
    watch: Watch | None = None,
) -> StagedBackup:
    """Copy the database of `source`, which belongs to the stage_backup from now on, below the directory `path`.

    `without`: tables that are left out. Raises NoSpace, StoreFailure and CopyStopped.
    """
    watch = Watch() if watch is None else watch
    try:
        make_directory(path)
        directory = path / f".new-{token_hex(8)}"  # cleared away like any unfinished backup
        directory.mkdir(mode=0o700)
        lock = open(directory / "lock", "wb")  # noqa: SIM115
        flock(lock, LOCK_EX)
        spooled = StagedBackup(source, directory, lock)
    except OSError as error:
        source.close()
        raise store_problem(error, path) from error
    try:
        tables = [name for name in source.tables() if name not in without]
        files = source.blobs(without, log=log) if blobs else []
        size, digest = source.write(directory, watch)
        if without or not log:
            subset.reduce(directory, without, log=log, watch=watch)
            size, digest = compact(directory, watch)
        data = directory / DATA_FILE
        listed = [BackedUpFile(DATA_NAME, size, digest)]
        spooled.members.append((DATA_NAME, data, size))
        for name, file in files:
            stat = file.stat()
            listed.append(BackedUpFile(f"{BLOBS}/{name}", stat.st_size, changed_ns=stat.st_mtime_ns))
            spooled.members.append((f"{BLOBS}/{name}", file, stat.st_size))
        spooled.manifest = encode_manifest(manifest_of(source, tables, listed, log=log, blobs=blobs))
        return spooled
    except BaseException as error:
        spooled.close()
        if isinstance(error, (lmdb.Error, OSError)):
            raise store_problem(error, path) from error
        raise


def archive_pieces(spooled: StagedBackup, *, gzip: bool) -> Iterator[bytes]:
    """The bytes of the archive. Raises OSError if a file cannot be read to its end."""
    pieces = _tar_pieces(spooled)
    if not gzip:
        yield from pieces
        return
    compressor = zlib.compressobj(GZIP_LEVEL, zlib.DEFLATED, 16 + zlib.MAX_WBITS)
    for piece in pieces:
        packed = compressor.compress(piece)
        if packed:
            yield packed
    yield compressor.flush()


def _tar_pieces(spooled: StagedBackup) -> Iterator[bytes]:
    seconds = spooled.time_ms // 1000
    yield _header(MANIFEST, len(spooled.manifest), seconds) + spooled.manifest + _padding(len(spooled.manifest))
    for name, path, size in spooled.members:
        yield _header(name, size, seconds)
        rest = size
        with open(path, "rb", buffering=0) as file:
            while rest:
                piece = file.read(min(PIECE, rest))
                if not piece:
                    raise OSError(f"{path} is shorter than it was")
                rest -= len(piece)
                yield piece
        yield _padding(size)
    yield bytes(2 * _BLOCK)


def _header(name: str, size: int, seconds: int) -> bytes:
    member = tarfile.TarInfo(name)
    member.size = size
    member.mtime = seconds
    member.mode = 0o600
    return member.tobuf(tarfile.GNU_FORMAT)


def _padding(size: int) -> bytes:
    return bytes(-size % _BLOCK)


def unpack(archive: Path, target: Path, *, watch: Watch | None = None) -> Manifest:
    """Unpack an archive, compressed or not, into the directory `target`; returns its manifest.

    Only the files of a backup are taken, under the names they have there: links, devices and any other name are refused. Raises BadBackup, OSError.
    """
    watch = Watch() if watch is None else watch
    try:
        with tarfile.open(archive, "r|*") as members:
            for member in members:
                if member.isdir():
                    continue  # made as they are needed
                if member.type not in (tarfile.REGTYPE, tarfile.AREGTYPE) or _MEMBER.fullmatch(member.name) is None:
                    raise BadBackup(f"the archive has a member that is not a file of a backup: {member.name[:200]!r}")
                content = members.extractfile(member)
                assert content is not None
                path = target / member.name
                path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                write_file(path, iter(lambda content=content: content.read(PIECE), b""), watch)  # type: ignore[misc]
    except FileExistsError as error:
        raise BadBackup("the archive has two members of the same name") from error
    except (tarfile.TarError, zlib.error, EOFError) as error:
        raise BadBackup(f"the archive cannot be read: {error}") from error
    try:
        manifest = decode_manifest((target / MANIFEST).read_bytes())
    except FileNotFoundError:
        raise BadBackup(f"the archive has no {MANIFEST}") from None
    for file in manifest.files:
        if _MEMBER.fullmatch(file.path) is None:
            raise BadBackup(f"{MANIFEST} names a file that is not a file of a backup: {file.path[:200]!r}")
    return manifest
