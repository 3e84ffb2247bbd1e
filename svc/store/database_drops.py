"""Dropping a database: its directories are renamed at once, removed on a thread, and its environment is closed when no snapshot of it is read
(spec: operations §2).

A database is dropped in three steps. If the process ends in between, the next start finds which step has been reached, and goes on:

    1. `dropped` is written into its definitions, and committed. From here on the database does not exist: this process forgets it, others do when
       they next poll, and it cannot be written to any more
    2. its directory, and those of its blobs, get names that begin with `.dropped`, so that another database can have the name
    3. these directories are removed, on a thread

A reader of a snapshot of it goes on: the files exist until the environment is closed, which waits for the last snapshot.
"""

from __future__ import annotations

import logging
import os
import shutil
from pathlib import Path
from secrets import token_hex
from threading import Thread
from typing import TYPE_CHECKING

from svc.store.disk.faults import LmdbError

if TYPE_CHECKING:
    from svc.store.database import Database

logger = logging.getLogger("svc.store")


DROPPED = ".dropped-"  # how the directories of dropped databases are called


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


class DirectoryRemover:
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


class EnvironmentCloser:
    """Environments of dropped databases whose snapshots are still read.

    They are closed on a thread: closing the last descriptor of a large file frees its blocks, which takes time.
    """

    def __init__(self) -> None:
        self._databases: list[Database] = []
        self._threads: list[Thread] = []

    def add(self, database: Database) -> None:
        self._databases.append(database)

    def close_unused(self) -> None:
        """Close those without open snapshots; to be called periodically at the end of a turn."""
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
