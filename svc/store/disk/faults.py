"""Disk faults: what an error of LMDB or of a file means for a request.

`store_problem` maps an error to NoSpace or StoreFailure, and writes path and cause to the log: once a second, however many requests meet it.
"""

from __future__ import annotations

import errno
import logging
import os
import resource
from pathlib import Path

import lmdb

from svc.clock import SYSTEM_CLOCK
from svc.errors import NoSpace, Problem, StoreFailure
from svc.seldom import SECOND, Seldom

log = logging.getLogger("svc.store")

MAP_BYTES = 1 << 40  # address space, not disk: the file grows as needed
MAX_STORES = 1024  # LMDB reserves about 60 bytes for each in every transaction; a child costs 0.4 us more than with 64


LmdbError = lmdb.Error
_seldom = Seldom(SYSTEM_CLOCK.monotonic, SECOND)
_stopped: set[Path] = set()  # databases of which it has been logged that LMDB has given up (`env`, rule 6)
_PROBE_BYTES = 16 << 20  # more than a turn or a batch of a load needs
NO_SPACE_ERRORS = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG))


def opened(path: Path) -> None:
    """The database in `path` has been opened, perhaps again: what befalls it is new."""
    _stopped.discard(path)


def store_problem(error: lmdb.Error | OSError, path: Path) -> Problem:
    """The answer to a request that met this error: NoSpace or StoreFailure, with the remedy. The log gets the path and the cause."""
    if isinstance(error, lmdb.MapFullError):
        _log(logging.CRITICAL, path, error, "its map is full (%s); open it with a larger map")
        return NoSpace("No space left for this write: the database has reached the size of its map")
    code = error.errno if isinstance(error, OSError) else getattr(error, "code", 0)  # lmdb's own errors have none if made in Python
    if code in NO_SPACE_ERRORS or (code == errno.EIO and _is_full(path)):
        _log(logging.CRITICAL, path, error, "no space left on its volume (%s); free space there, writing goes on by itself")
        return NoSpace("No space left for this write: the volume of the database is full")
    if not isinstance(error, lmdb.PanicError):
        _log(logging.ERROR, path, error, f"{type(error).__name__}: %s")
    elif path not in _stopped:  # nothing else comes from it until it is opened again
        _stopped.add(path)
        log.error("database %s: %s: %s", path, type(error).__name__, error)
    if code == errno.ENOMEM or isinstance(error, lmdb.MemoryError):
        return StoreFailure(_no_memory())
    if isinstance(error, lmdb.ReadersFullError):
        return StoreFailure("Too many results are being read at the same time, try again later")
    if isinstance(error, lmdb.DbsFullError):
        return StoreFailure(f"The database holds {MAX_STORES} tables and indexes, which is the limit: use another database")
    if isinstance(error, (lmdb.CorruptedError, lmdb.PageNotFoundError, lmdb.InvalidError, lmdb.VersionMismatchError)):
        return StoreFailure("The database file is damaged or of another kind: restore a backup")
    if isinstance(error, lmdb.PanicError):
        return StoreFailure("The database stopped after a failed disk write: check its volume, then restart the service")
    return StoreFailure("The database could not be read or written: check its volume and the log of the service")


def _no_memory() -> str:
    """What keeps a database from being opened, or a transaction from being begun, is nearly always a limit of addresses, of which the map takes many."""
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit == resource.RLIM_INFINITY:
        return "There is no memory for the database: the system has none left, or a limit of this process (ulimit -d) or of its container is too low"
    return (
        f"The address space of this process is limited to {limit >> 20} MiB (ulimit -v), and the map of a database takes {MAP_BYTES >> 20} MiB of it, which is"
        " no memory: take that limit away (ulimit -v unlimited, LimitAS=infinity), and limit the memory instead (MemoryMax= of systemd, --memory of Docker)"
    )


def _log(level: int, path: Path, error: Exception, text: str) -> None:
    times = _seldom.count((path, text))
    if times is not None:
        log.log(level, "database %s: %s%s", path, text % error, f" ({times} times since it was said)" if times > 1 else "")


def _is_full(path: Path) -> bool:
    """Whether the data file in `path` cannot grow.

    LMDB reports a write that was cut short, which is how most disks become full, as an I/O error like any other. So ask: a file as long
    as the data file and a bit longer meets what that met, the limits of user and process included.
    """
    probe = path / "probe"
    try:
        with open(probe, "wb") as file:
            os.posix_fallocate(file.fileno(), (path / "data.mdb").stat().st_size, _PROBE_BYTES)
    except OSError as error:
        return error.errno in NO_SPACE_ERRORS
    finally:
        probe.unlink(missing_ok=True)
    return False
