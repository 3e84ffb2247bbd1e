"""The files of blobs: where they are, how one comes into being, how it is found again (spec: schema-and-store §14, §15).

    <path>/<database>/3f2/a07/01c         the content, complete
                      3f2/a07/01c.part    still arriving; or broken off, if its lock is not held
                      3f2/a07/01c.error   why nothing of it has arrived, as text

A file's number has 36 bits: three digits of 12 bits, one for each level, so no directory has more than 4096 entries. A process takes
directories of the second level for its own, by being the one that makes them, and numbers the files in them one after the other: no two
processes give out the same number, and neither needs to ask the other.

The writer of a file holds a lock on it (flock) until the transaction that refers to it is committed. The lock goes with the process, however
that ends. So a file that is not in the ledger and not locked is orphaned (`sweep.py`).

The content is on disk before the file gets its final name, and the name is on disk before `finish` returns.
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import logging
import os
import random
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from secrets import randbits
from threading import Lock
from weakref import WeakValueDictionary

from svc.errors import NoSpace, Problem, ServerError, StoreFailure

logger = logging.getLogger("svc.store")

CHUNK = 64 * 1024  # bytes of a piece that is read at once
PART, ERROR = ".part", ".error"
EXPECTED_SECONDS = 120.0  # without progress, after which a reader of a blob that comes from another node gives up
MAX_NUMBER = (1 << 36) - 1

_LEVEL = 0xFFF
_FULL = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG))
_MAX_ERROR_TEXT = 4096  # bytes
_TRIES = 1000  # to find a name for a directory; more than half of all must be taken before that is not enough
_REMEMBERED = 4096  # directories known to be on disk


def relative_name(number: int) -> str:
    """Where the file of a number is, below a blob directory of its database.

    >>> relative_name(0x3F2A0701C)
    '3f2/a07/01c'
    """
    return f"{number >> 24:03x}/{number >> 12 & _LEVEL:03x}/{number & _LEVEL:03x}"


def file_problem(error: OSError, path: Path) -> Problem:
    """The answer to a request whose blob could not be written. The log gets path and cause."""
    if error.errno in _FULL:
        logger.critical("blobs in %s: no space left on the volume (%s); free space there, writing goes on by itself", path, error)
        return NoSpace("No space left for this write: the volume of the blobs is full")
    logger.error("blobs in %s: %s", path, error)
    return StoreFailure("A blob could not be written: check its volume and the log of the service")


class BlobFile:
    """A file that is being written, and from `finish` on waits for the commit of the record that refers to it.

    It goes with this object, unless a record claims it: then what is committed decides, at the next sweep if not at once.
    `size`: bytes written so far.
    """

    __slots__ = (
        "__weakref__",
        "_descriptors",
        "_files",
        "_is_claimed",
        "_is_done",
        "_is_kept",
        "_waiting",
        "error",
        "number",
        "path",
        "size",
    )

    def __init__(self, files: BlobFiles, number: int, path: Path, descriptor: int) -> None:
        self._files = files
        self.number = number
        self.path = path
        self.size = 0
        self.error: Exception | None = None  # why it will never be complete
        self._descriptors = [descriptor]  # a list, because `pop` lets one of two threads close it
        self._is_done = False  # nothing more will be written
        self._is_kept = False
        self._is_claimed = False
        self._waiting: list[asyncio.Future[None]] = []

    # -- writing: on whatever thread, one at a time

    def write(self, data: bytes | memoryview) -> None:
        """Append. Raises NoSpace or StoreFailure, and then the file is gone."""
        try:
            rest = memoryview(data)
            while rest:
                written = os.write(self._descriptors[0], rest)
                self.size += written
                rest = rest[written:]
        except OSError as error:
            self.discard()
            raise file_problem(error, self.path) from error

    def finish(self) -> None:
        """It is complete: put content and name on disk. Raises NoSpace or StoreFailure, and then the file is gone."""
        try:
            if self._files.sync:
                os.fsync(self._descriptors[0])
            os.rename(f"{self.path}{PART}", self.path)
            self._files.sync_directories(self.path.parent)
        except OSError as error:
            self.discard()
            raise file_problem(error, self.path) from error
        self._end()

    def fail(self, error: Exception) -> None:
        """Its source failed. Without any content the file has the reason, else the content that arrived stays."""
        self.error = error
        if not self._descriptors:  # discarded
            return
        text = (str(error) or type(error).__name__).encode("utf-8", "replace")[:_MAX_ERROR_TEXT]
        try:
            if self.size == 0:
                Path(f"{self.path}{ERROR}").write_bytes(text)
                os.unlink(f"{self.path}{PART}")
        except OSError as problem:
            logger.error("blobs in %s: %s", self.path, problem)
        self._end()

    def _end(self) -> None:
        self._is_done = True
        if self._is_kept:
            self._close()

    def _close(self) -> None:
        """Give back the lock too. Two threads may come here at the same time."""
        try:
            os.close(self._descriptors.pop())
        except IndexError:
            pass

    # -- its end

    def leave(self) -> None:
        """Stop writing one that is expected, and give back its lock: it will be begun again."""
        self._files.arriving.pop(self.number, None)
        if self._descriptors:
            self._close()
        self.notify()

    def keep(self) -> None:
        """A record refers to it, and is committed."""
        self._is_kept = True
        if self._is_done:
            self._close()

    def claim(self) -> None:
        """A record that refers to it has been written, and is not committed yet."""
        self._is_claimed = True

    def unclaim(self) -> None:
        """That write was undone."""
        self._is_claimed = False

    def discard(self) -> None:
        """Remove it; nothing refers to it."""
        if self._is_kept or self._is_claimed:
            return
        for name in (f"{self.path}{PART}", str(self.path), f"{self.path}{ERROR}"):
            try:
                os.unlink(name)
            except OSError:
                pass
        self._is_done = True
        self._close()

    def __del__(self) -> None:
        if self._descriptors:
            self.discard()
            self._close()

    # -- readers that wait: on the loop's thread

    def notify(self) -> None:
        """There is more of it, or there will be no more."""
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():
                future.set_result(None)

    async def progress(self, seconds: float) -> None:
        """Wait for `notify`. Raises TimeoutError."""
        future = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        await asyncio.wait_for(future, seconds)

    @property
    def is_done(self) -> bool:
        return self._is_done

    @property
    def is_kept(self) -> bool:
        return self._is_kept


class BlobFiles:
    """The blob files of one database. `identity`: 8 bytes by which references in records name it, in this process and the next.

    `paths`: the directories of all databases' blobs; new files are spread over them in proportion to free space. `sync`: fsync.
    Usable on any thread.
    """

    def __init__(self, identity: bytes, database: str, paths: Sequence[Path], *, sync: bool = True) -> None:
        self.identity = identity
        self.roots = [path / database for path in paths]
        self.sync = sync
        self.is_expected: Callable[[int], bool] = _is_none_expected
        """Whether the content of a file is yet to come from another node."""
        self.expected_seconds = EXPECTED_SECONDS
        self.arriving: WeakValueDictionary[int, BlobFile] = WeakValueDictionary()  # by this process, and already in a record
        self._lock = Lock()
        self._next = 0
        self._on_disk: set[Path] = set()

    def open_references(self) -> None:
        """From now on references in records lead here."""
        OPEN[self.identity] = self

    def close(self) -> None:
        """References can no longer be followed."""
        if OPEN.get(self.identity) is self:
            del OPEN[self.identity]

    # -- files whose content another node has

    def reserve(self) -> int:
        """The number of a file that will be made later. Raises NoSpace or StoreFailure."""
        try:
            return self._next_number()
        except OSError as error:
            raise file_problem(error, self.roots[0]) from error

    def create_expected(self, number: int) -> BlobFile | None:
        """The file of a number that was reserved, empty again if it was begun before. None: another process is writing it. Raises NoSpace or StoreFailure."""
        part = self.find(number, PART)
        path = self._choose_root() / relative_name(number) if part is None else part.with_name(part.name.removesuffix(PART))
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(f"{path}{PART}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            if not self._take_lock(descriptor, f"{path}{PART}"):
                os.close(descriptor)
                return None
            os.ftruncate(descriptor, 0)
        except OSError as error:
            raise file_problem(error, path) from error
        file = BlobFile(self, number, path, descriptor)
        file.keep()
        return file

    # -- new files

    def create(self) -> BlobFile:
        """A new empty file, under its preliminary name and locked. Raises NoSpace or StoreFailure."""
        root = self._choose_root()
        try:
            while True:
                number = self._next_number()
                path = root / relative_name(number)
                try:
                    descriptor = os.open(f"{path}{PART}", os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
                except FileNotFoundError:  # an empty directory was cleared away
                    with self._lock:
                        self._next = 0
                    continue
                except FileExistsError:
                    continue
                if self._take_lock(descriptor, f"{path}{PART}"):
                    return BlobFile(self, number, path, descriptor)
                os.close(descriptor)
        except OSError as error:
            raise file_problem(error, root) from error

    @staticmethod
    def _take_lock(descriptor: int, name: str) -> bool:
        """False: a sweep was faster, and has removed the file or is about to."""
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return os.stat(name).st_ino == os.fstat(descriptor).st_ino
        except (BlockingIOError, FileNotFoundError):
            return False

    def _choose_root(self) -> Path:
        roots = self.roots
        if len(roots) == 1:
            return roots[0]
        free = [_free_bytes(root) for root in roots]
        return random.choices(roots, free)[0] if any(free) else roots[0]

    def _next_number(self) -> int:
        with self._lock:  # two helper threads may begin a file at the same time
            if self._next & _LEVEL == 0:
                self._next = self._take_directory() << 12
            number = self._next
            self._next += 1
            return number

    def _take_directory(self) -> int:
        """The number of a directory that did not exist, on any path. Whoever makes it owns it. Raises OSError."""
        for _ in range(_TRIES):
            number = randbits(24)
            try:
                for root in self.roots:
                    directory = root / f"{number >> 12:03x}" / f"{number & _LEVEL:03x}"
                    directory.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                    directory.mkdir(mode=0o700)
            except FileExistsError:
                continue
            return number
        raise FileExistsError(errno.EEXIST, "no unused name found for a new directory", str(self.roots[0]))

    def sync_directories(self, directory: Path) -> None:
        """Put the names in `directory` on disk, and once the names on the way there."""
        if not self.sync:
            return
        _sync(directory)
        if directory not in self._on_disk:
            root = directory.parent.parent
            for above in (directory.parent, root, root.parent):
                _sync(above)
            if len(self._on_disk) >= _REMEMBERED:
                self._on_disk.clear()
            self._on_disk.add(directory)

    # -- files that exist

    def find(self, number: int, suffix: str = "") -> Path | None:
        name = relative_name(number) + suffix
        return next((path for root in self.roots if (path := root / name).exists()), None)

    def exists(self, number: int) -> bool:
        """Whether there is a file, complete or not."""
        return any(self.find(number, suffix) is not None for suffix in ("", PART, ERROR))

    def open(self, number: int, size: int | None) -> tuple[int, int]:
        """(descriptor, size) of a complete file. `size`: what it must have, None if the reference does not know.

        Raises ServerError: a missing or shortened file is logged, one that never became complete says why.
        """
        name = relative_name(number)
        for root in self.roots:
            try:
                descriptor = os.open(root / name, os.O_RDONLY | os.O_CLOEXEC)
            except FileNotFoundError:
                continue
            except OSError as error:
                raise file_problem(error, root) from error
            found = os.fstat(descriptor).st_size
            if size is not None and found != size:
                os.close(descriptor)
                raise self.damaged(number, f"has {found} bytes instead of {size}")
            return descriptor, found
        raise self.incomplete(number)

    def open_arriving(self, number: int) -> int:
        """Descriptor of a file, complete or not. Raises ServerError if there is none."""
        for suffix in ("", PART, ""):  # it may be renamed between two attempts
            path = self.find(number, suffix)
            if path is not None:
                try:
                    return os.open(f"{path}", os.O_RDONLY | os.O_CLOEXEC)
                except FileNotFoundError:
                    continue
        raise self.incomplete(number)

    def is_complete(self, number: int) -> bool:
        return self.find(number) is not None

    def is_arriving(self, number: int) -> bool:
        """Whether this or another process is writing it."""
        file = self.arriving.get(number)
        if file is not None:
            return not file.is_done
        path = self.find(number, PART)
        return (path is not None and is_locked(path)) or self._is_missing(number)

    def _is_missing(self, number: int) -> bool:
        """Whether it is yet to come, and has not failed."""
        return self.is_expected(number) and self.find(number, ERROR) is None

    def incomplete(self, number: int) -> ServerError:
        """Why there is no complete file of this number."""
        path = self.find(number, ERROR)
        if path is not None:
            return ServerError(f"The blob did not arrive: {path.read_text('utf-8', 'replace')}", 500, "BLOB_BROKEN")
        path = self.find(number, PART)
        if path is None and not self._is_missing(number):
            return self.damaged(number, "is missing")
        if path is None or self.is_arriving(number):
            return ServerError("The blob is still arriving", 503, "BLOB_ARRIVING")
        return ServerError(f"The blob broke off after {path.stat().st_size} bytes", 500, "BLOB_BROKEN")

    def damaged(self, number: int, what: str) -> ServerError:
        """A file that was complete is not any more. Logged, because only the operator can repair it."""
        logger.error("blobs in %s: the file %s %s: restore it from a backup", self.roots[:1], relative_name(number), what)
        return ServerError("The file of this blob is missing or damaged", 500, "BLOB_DAMAGED")

    def remove(self, number: int) -> None:
        """Remove the file, whatever its state. Without one nothing happens."""
        name = relative_name(number)
        for root in self.roots:
            for suffix in ("", PART, ERROR):
                try:
                    os.unlink(f"{root / name}{suffix}")
                except FileNotFoundError:
                    continue
                except OSError as error:
                    logger.error("blobs in %s: %s", root, error)

    def walk(self) -> Iterator[tuple[Path, list[str]]]:
        """(directory of the lowest level, names in it), in no order."""
        for root in self.roots:
            for first in _names(root):
                for second in _names(root / first):
                    directory = root / first / second
                    yield directory, _names(directory)

    def number_of(self, directory: Path, name: str) -> int | None:
        """The number of a file that `walk` found, None if it is none of ours."""
        digits = f"{directory.parent.name}{directory.name}{name.partition('.')[0]}"
        if len(digits) != 9 or name[3:] not in ("", PART, ERROR):
            return None
        try:
            return int(digits, 16)
        except ValueError:
            return None


def _is_none_expected(number: int) -> bool:
    return False


OPEN: dict[bytes, BlobFiles] = {}  # by identity: the databases that this process has open


def is_locked(path: Path) -> bool:
    """Whether a process is writing the file."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def _sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _free_bytes(directory: Path) -> int:
    while True:
        try:
            return shutil.disk_usage(directory).free
        except FileNotFoundError:
            directory = directory.parent  # it is made with its first file


def _names(directory: Path) -> list[str]:
    try:
        return os.listdir(directory)
    except (FileNotFoundError, NotADirectoryError):
        return []
