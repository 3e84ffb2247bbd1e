"""Verification of a backup: whether its files are what its manifest says."""

from __future__ import annotations

import os
from pathlib import Path

from svc.errors import Problem
from svc.store.backup.files import hash_file
from svc.store.backup.manifest import DATA_NAME, MANIFEST, BadBackup, Manifest
from svc.store.backup.source import open_readonly, stored_tables
from svc.store.backup.watch import Watch
from svc.store.definitions import DEFINITIONS_STORE
from svc.store.disk.database_copy import META, META_MAGIC

# A file of LMDB begins with two meta pages.
_PAGE_SIZES = (4096, 8192, 16384, 32768, 65536)
_HEAD_BYTES = 2 * 65536


def verify(directory: Path, manifest: Manifest, *, checksum: bool, watch: Watch) -> None:
    """Raise BadBackup if the files in `directory` are not what the manifest says.

    The database is opened only when its checksum is right: LMDB maps the file, and trusts what it finds there with the life of the process.
    """
    watch.total = sum(file.size for file in manifest.files) if checksum else len(manifest.files)
    for file in manifest.files:
        path = directory / file.path
        try:
            size = path.stat().st_size
        except OSError:
            raise BadBackup(f"{file.path} is missing") from None
        if size != file.size:
            raise BadBackup(f"{file.path} has {size} bytes instead of {file.size}")
        if not checksum:
            watch.add(1)
        elif file.sha256 and hash_file(path, watch) != file.sha256:
            raise BadBackup(f"{file.path} has other content than when it was made")
    check_head(directory / DATA_NAME)
    if checksum:
        check_tables((directory / DATA_NAME).parent, manifest)


def check_head(path: Path) -> None:
    """Raise BadBackup if the file does not begin as one of LMDB does that is as long as this one."""
    with open(path, "rb") as file:
        head = file.read(_HEAD_BYTES)
        size = os.fstat(file.fileno()).st_size
    pages = []
    for page_size in _PAGE_SIZES:
        if len(head) >= 2 * page_size and size % page_size == 0:
            metas = [META.unpack_from(head, page * page_size) for page in (0, 1)]
            if all(magic == META_MAGIC for _, magic, _, _ in metas):
                pages.append(size // page_size)
                if max(last for _, _, last, _ in metas) < pages[-1]:
                    return
    raise BadBackup(f"{path.name} is {'longer or shorter than it was' if pages else 'no database'}")


def check_tables(directory: Path, manifest: Manifest) -> None:
    """Raise BadBackup if the database cannot be opened, or has other tables than the manifest says."""
    try:
        with open_readonly(directory, lock=False) as (env, txn):
            found = [stored.definition.name for stored in stored_tables(txn, env.open_db(DEFINITIONS_STORE.encode(), txn, create=False))]
    except Problem as problem:
        raise BadBackup(f"{DATA_NAME} cannot be opened: {problem.message}") from problem
    except Exception as error:  # of damaged definitions
        raise BadBackup(f"{DATA_NAME} cannot be read: {type(error).__name__}") from error
    if sorted(found) != sorted(manifest.tables):
        raise BadBackup(f"{DATA_NAME} has other tables than {MANIFEST} says")
