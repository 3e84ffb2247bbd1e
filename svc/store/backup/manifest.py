"""The manifest of a backup: what it is, its tables, and every file with its size and SHA-256."""

from __future__ import annotations

import msgspec

from svc.store.backup.source import DATA_FILE, BackupSource
from svc.store.values.records import iso_text

FORMAT = 1
MANIFEST = "manifest.json"
DATA_NAME = f"database/{DATA_FILE}"
BLOBS = "blobs"


class BadBackup(Exception):
    """It cannot be restored; the text says why."""


class BackedUpFile(msgspec.Struct, frozen=True, gc=False):
    """`path`: within the backup. `changed_ns`: time of modification of the original."""

    path: str
    size: int
    sha256: str = ""
    changed_ns: int = 0


class Manifest(msgspec.Struct, frozen=True):
    format: int
    database: str
    timestamp: int  # ms since the epoch
    time: str  # the same in ISO 8601
    tables: list[str]
    files: list[BackedUpFile]
    log: bool = True
    blobs: bool = True
    service: str = "svc"


def manifest_of(source: BackupSource, tables: list[str], files: list[BackedUpFile], *, log: bool = True, blobs: bool = True) -> Manifest:
    return Manifest(FORMAT, source.database, source.time_ms, iso_text(source.time_ms), tables, files, log, blobs)


def encode_manifest(manifest: Manifest) -> bytes:
    return msgspec.json.format(msgspec.json.encode(manifest), indent=1) + b"\n"


def decode_manifest(data: bytes) -> Manifest:
    """Raises BadBackup, also for paths that lead elsewhere."""
    try:
        manifest = msgspec.json.decode(data, type=Manifest)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise BadBackup(f"{MANIFEST} cannot be read: {error}") from None
    if manifest.format != FORMAT:
        raise BadBackup(f"the backup has the format {manifest.format}, which this version does not know")
    for file in manifest.files:
        if not is_inside(file.path):
            raise BadBackup(f"{MANIFEST} names a file outside of the backup")
    if DATA_NAME not in {file.path for file in manifest.files}:
        raise BadBackup(f"{MANIFEST} does not name {DATA_NAME}")
    return manifest


def is_inside(path: str) -> bool:
    """Whether a relative path stays in its directory, and is written in the plainest way.

    >>> [is_inside(path) for path in ("a/b", "/a", "a/../b", "", "a//b", "./a", "a\\0")]
    [True, False, False, False, False, False, False]
    """
    return bool(path) and "\0" not in path and "\\" not in path and not any(part in ("", ".", "..") for part in path.split("/"))
