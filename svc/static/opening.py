"""Opening files so that no link leads out, whatever changes meanwhile, and sharing what is open.

A name is opened part by part, each relative to the directory that was opened before it and following no link: what is open is then the file of exactly
this name below the directory. A name with links is resolved first, and the result is opened in the same way; a directory that becomes a link in
between makes that fail.

Answers that send the same file share one descriptor, so many slow readers of a large file take one. Of the descriptors that the process may have, one in
FILES_SHARE is for these files; a further file is 503.
"""

from __future__ import annotations

import errno
import os
import resource
import stat
from collections.abc import Callable
from typing import NamedTuple

from svc.errors import Overloaded

FILES_SHARE = 8  # one in so many descriptors of the process, at most
_DIRECTORY = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_NOFOLLOW | os.O_CLOEXEC  # opening a FIFO must not wait for its other end
_LINK = frozenset((errno.ELOOP, errno.ENOTDIR, errno.EMLINK))  # what O_NOFOLLOW says, depending on the system
_EXHAUSTED = frozenset((errno.EMFILE, errno.ENFILE))


class Version(NamedTuple):
    """What changes when a file does."""

    modified_ns: int
    changed_ns: int
    size: int
    inode: int
    device: int

    @property
    def tag(self) -> str:
        """The entity tag of a file that is not read as a whole, without quotes and coding. What replaces a file may have its size and the time that builds
        give to all files, but not the time at which the disk has got it, or not in the same place."""
        return f"{self.modified_ns:x}-{self.changed_ns:x}-{self.size:x}-{self.inode:x}"

    @property
    def seconds(self) -> int:
        """When it has become what it is, to the second."""
        return max(self.modified_ns, self.changed_ns) // 10**9


def version_of(status: os.stat_result) -> Version:
    return Version(status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino, status.st_dev)


def look(path: str) -> os.stat_result | None:
    """What is at a path, links followed; None: nothing that can be reached."""
    try:
        return os.stat(path) if os.access(path, os.F_OK) else None  # an exception would cost more than the second call
    except (OSError, ValueError):
        return None


def open_beneath(directory: str, name: str, allows: Callable[[str], bool]) -> int | None:
    """A descriptor of the regular file of this name below `directory`, a path without links. None: there is none that may be opened.

    `allows`: whether a name that a link leads to may be served. Raises Overloaded without descriptors, OSError if the disk fails.
    """
    try:
        return _open(directory, name)
    except OSError as error:
        if error.errno not in _LINK:
            _check(error)
            return None
    prefix = directory.rstrip("/") + "/"
    for is_last in (False, True):
        target = os.path.realpath(f"{directory}/{name}")
        if not target.startswith(prefix) or not allows(target[len(prefix) :]):
            return None
        try:
            return _open(directory, target[len(prefix) :])
        except OSError as error:
            if is_last or error.errno != errno.ENOENT:  # else a mounted volume was exchanged meanwhile
                _check(error)
                return None
    return None


def _open(directory: str, name: str) -> int | None:
    folder = os.open(directory, _DIRECTORY)
    try:
        *folders, last = name.split("/")
        for part in folders:
            inner = os.open(part, _DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)
            os.close(folder)
            folder = inner
        found = os.open(last, _FILE, dir_fd=folder)
    finally:
        os.close(folder)
    if stat.S_ISREG(os.fstat(found).st_mode):
        return found
    os.close(found)
    return None


def _check(error: OSError) -> None:
    """Raises Overloaded, or the error itself, where it says more than that there is no such file for us."""
    if error.errno in _EXHAUSTED:
        raise Overloaded("Too many files are open")
    if error.errno in (errno.EIO, errno.ENOMEM):
        raise error


def read_all(descriptor: int, most: int) -> bytes:
    """The first bytes of a file, all that there are up to `most`; some file systems give them in pieces."""
    data = os.pread(descriptor, most, 0)
    while len(data) < most and (piece := os.pread(descriptor, most - len(data), len(data))):
        data += piece
    return data


class OpenFile:
    """An open file with its users. `version`: as it was when it was opened."""

    __slots__ = ("_files", "_users", "descriptor", "version")

    def __init__(self, files: OpenFiles, descriptor: int, version: Version) -> None:
        self._files = files
        self.descriptor = descriptor
        self.version = version
        self._users = 1

    def share(self) -> OpenFile:
        self._users += 1
        return self

    def release(self) -> None:
        self._users -= 1
        if not self._users:
            self._files.forget(self)
            os.close(self.descriptor)


class OpenFiles:
    """The files that are being sent."""

    def __init__(self) -> None:
        self._open: dict[Version, OpenFile] = {}

    def __len__(self) -> int:
        return len(self._open)

    def open(self, directory: str, name: str, allows: Callable[[str], bool], brief: int = -1) -> OpenFile | None:
        """As `open_beneath`. The caller releases it: at once if it has at most `brief` bytes. Raises Overloaded, OSError."""
        descriptor = open_beneath(directory, name, allows)
        if descriptor is None:
            return None
        version = version_of(os.fstat(descriptor))
        found = self._open.get(version)
        if found is not None:
            os.close(descriptor)
            return found.share()
        if version.size > brief and len(self._open) >= self._most():
            os.close(descriptor)
            raise Overloaded("Too many files are being sent")
        made = self._open[version] = OpenFile(self, descriptor, version)
        return made

    @staticmethod
    def _most() -> int:
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        return 1 << 20 if limit == resource.RLIM_INFINITY else max(limit // FILES_SHARE, 8)

    def forget(self, file: OpenFile) -> None:
        if self._open.get(file.version) is file:
            del self._open[file.version]
