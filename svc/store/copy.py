"""A copy of one database, also while a server writes to it."""

from __future__ import annotations

import os
from pathlib import Path

import lmdb

from svc.errors import NotFound, Problem
from svc.store.env import MAX_STORES, store_problem

_DATA_FILE = "data.mdb"


def copy_database(path: Path, file: Path, *, compact: bool = True) -> int:
    """Write the database in the directory `path` to a new file, as it is at one moment; writers go on. Returns its size in bytes.

    `compact`: without the free pages. The file is readable for its owner only, and appears when it is complete and on the disk. The files of large
    blobs are not in it. Raises FileExistsError, other OSErrors of the file, and Problem for what is wrong with the database. Blocks.
    """
    if not (path / _DATA_FILE).is_file():
        raise NotFound(f"database '{path.name}' does not exist")
    part = file.with_name(f".{file.name}.{os.getpid()}.part")
    descriptor = os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            _copy(path, stream.fileno(), compact)
            os.fsync(stream.fileno())
        os.link(part, file)  # unlike a rename, it replaces nothing
    finally:
        part.unlink(missing_ok=True)
    return file.stat().st_size


def _copy(path: Path, descriptor: int, compact: bool) -> None:
    try:
        env = lmdb.open(str(path), readonly=True, create=False, max_dbs=MAX_STORES)
    except lmdb.Error as error:
        raise store_problem(error, path) from error
    try:
        used = (env.info()["last_pgno"] + 1) * env.stat()["psize"]
        if (path / _DATA_FILE).stat().st_size < used:
            raise Problem(
                "The database file was cut off: restore a backup", 503
            )  # LMDB would look for its pages behind the end of the file
        env.copyfd(descriptor, compact=compact)
    except lmdb.Error as error:
        raise store_problem(error, path) from error
    finally:
        env.close()
