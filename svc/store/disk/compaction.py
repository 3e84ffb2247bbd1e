"""Rewriting databases without gaps, before any of them is opened (spec: schema-and-store §15, configuration §2.8).

A file of LMDB never shrinks: what was deleted is free space inside. The copy is complete and on the disk before it takes the place of the file, so
whatever ends the process leaves either.
"""

from __future__ import annotations

import logging
import os
import shutil
from pathlib import Path

import lmdb

from svc.clock import Clock
from svc.store.backup.files import sync_directory
from svc.store.backup.source import DATA_FILE, compact
from svc.store.backup.watch import Watch
from svc.store.disk.database_locks import DatabaseInUse, OpenLock
from svc.store.disk.faults import store_problem
from svc.store.disk.page_cache import forget_cached
from svc.store.disk.restore_mark import interrupted_restore
from svc.store.values.records import iso_text

logger = logging.getLogger("svc.store")


def compact_databases(path: Path, without: frozenset[str], keep: Path | None, clock: Clock) -> bool:
    """Rewrite the databases in the directory `path`, but for those named in `without`; False if one could not be, which the log then has.

    `keep`: the directory that gets the old files. Blocks for as long as it takes to read and write all of it.
    """
    if not path.is_dir():
        return True
    names = sorted(entry.name for entry in path.iterdir() if not entry.name.startswith(".") and (entry / DATA_FILE).is_file())
    done = True
    for name in names:
        if name not in without and not interrupted_restore(path, name):
            done = _compact(path / name, keep, clock) and done
    return done


def _compact(directory: Path, keep: Path | None, clock: Clock) -> bool:
    file, part = directory / DATA_FILE, directory / f"{DATA_FILE}.part"
    try:
        open_lock = OpenLock(directory, alone=True)
    except (DatabaseInUse, OSError):
        logger.warning("database %s: not compacted, for another process has it open", directory.name)
        return False
    try:
        part.unlink(missing_ok=True)  # of a start that was interrupted
        before = file.stat().st_size
        if keep is not None:
            _keep(file, keep / f"{directory.name}-{iso_text(int(clock.wall() * 1000)).replace(':', '-')}.mdb")
        after, _ = compact(directory, Watch())
        forget_cached(file)
        sync_directory(directory)
    except (lmdb.Error, OSError) as error:
        part.unlink(missing_ok=True)
        store_problem(error, directory)  # which logs it
        return False
    finally:
        open_lock.close()
    logger.info("database %s: compacted from %d to %d bytes", directory.name, before, after)
    return True


def _keep(file: Path, target: Path) -> None:
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        os.link(file, target)
    except OSError:  # another volume
        shutil.copyfile(file, target)
        os.chmod(target, 0o600)
    sync_directory(target.parent)
