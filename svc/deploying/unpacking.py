"""Unpacking an archive that another has made into a directory of its own (spec: deployment §2).

Whatever an archive says, what comes out are directories, files and symbolic links below the directory, and no more of them than the limits say:

    name                relative, without `..`, printable, parts of at most 255 bytes; no two that differ only in case or in the form of letters
    file                mode 0644, or 0755 if its owner may execute it; so no set-uid bits. Written before any symbolic link exists
    hard link           to a file of the archive that came before it
    symbolic link       relative; followed with all others in place it ends inside
    device, FIFO, ...   refused, and so are sparse files

The whole archive is refused for one bad member; the caller removes the directory then.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
import tarfile
import unicodedata
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from svc.deploying.tar_reader import PIECE, BadArchive, TarReader
from svc.errors import NoSpace, Problem, ServerError
from svc.store.backup.watch import Watch

HEAD_BYTES = 4096  # of the archive that may come with each member, besides its content
CHECKED_BYTES = 1 << 22  # written between two looks at the free space
KEPT_FREE = 0.03  # of the volume
MOST_DIRECTORY = 1 << 23  # bytes of the list at the end of a zip archive
LATEST = 1 << 33  # seconds since the epoch of the last modification of a file; beyond, 0


@dataclass(frozen=True, slots=True)
class ArchiveLimits:
    """`members`: files, directories and links. `size`: bytes of all files together. `depth`: directories within directories."""

    members: int = 20_000
    size: int = 1 << 30
    path: int = 1000  # characters
    depth: int = 64


DEFAULT_LIMITS = ArchiveLimits()


def unpack(file: IO[bytes], directory: Path, limits: ArchiveLimits = DEFAULT_LIMITS, watch: Watch | None = None) -> int:
    """Unpack a tar archive, plain or compressed with gzip or Zstandard, or a zip archive. A single top folder is stripped, unless the archive
    has its root as a member.

    `directory` must not exist, and is incomplete if this raises: BadArchive, NoSpace, or ServerError if it cannot be written, Stopped by `watch`.
    Returns the bytes of all files.
    """
    unpacking = _Unpacking(directory, limits, watch or Watch())
    with _writing(directory):
        directory.mkdir(mode=0o700)
        if _is_zip(file):
            unpacking.take_zip(file)
        else:
            unpacking.take_tar(file)
        if not unpacking.count:
            raise BadArchive(
                "The archive is empty, or no archive: a tar archive is expected, which may be compressed with gzip or Zstandard"
            )
        unpacking.make_links()
        unpacking.strip()
        unpacking.check_links()
    return unpacking.size


@contextmanager
def _writing(directory: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise written_fault(error, directory) from error


def written_fault(error: OSError, place: Path) -> Problem:
    """What a client learns of an error of the file system."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return NoSpace(f"No space left on the volume of {place.parent}")
    return ServerError(f"{error.filename or place} cannot be written: {error.strerror or error}")


class _Unpacking:
    def __init__(self, directory: Path, limits: ArchiveLimits, watch: Watch) -> None:
        self.directory = directory
        self.limits = limits
        self.watch = watch
        self.size = 0
        self.count = 0
        self._unchecked = CHECKED_BYTES  # bytes since the last look at the free space
        self._has_root = False
        self._names: dict[str, tuple[str, str]] = {}  # name in one case and one form of letters -> (name, "directory", "file" or "link")
        self._directories: set[str] = set()
        self._links: list[tuple[str, str]] = []  # name, target

    # --- tar -----------------------------------------------------------------------------------------------------------------------------

    def take_tar(self, file: IO[bytes]) -> None:
        limits = self.limits
        reader = TarReader(file, limits.size + limits.members * HEAD_BYTES)
        for member in reader:
            self._count()
            name = self._name(member.name)
            if name is None:
                if not member.isdir():
                    raise BadArchive(f"'{member.name[:100]}' has no name")
                self._has_root = True
            elif member.isdir():
                self._make_directory(name)
            elif member.sparse is not None or member.type == tarfile.GNUTYPE_SPARSE:
                raise BadArchive(f"'{name}' is a sparse file, which is not unpacked here")
            elif member.isreg():
                self._check_size(name, member.size)
                self._write(name, reader.data(member), is_executable=bool(member.mode & stat.S_IXUSR), modified=member.mtime)
            elif member.islnk():
                self._hard_link(name, member.linkname)
            elif member.issym():
                self._note_link(name, member.linkname)
            else:
                raise BadArchive(f"'{name}' is {_kind(member)}, which is not unpacked here")

    # --- zip -----------------------------------------------------------------------------------------------------------------------------

    def take_zip(self, file: IO[bytes]) -> None:
        _check_zip_directory(file)
        try:
            with zipfile.ZipFile(file) as archive:
                for member in archive.infolist():
                    self._count()
                    name = self._name(member.filename)
                    mode = member.external_attr >> 16
                    kind = stat.S_IFMT(mode)
                    if name is None:
                        self._has_root = True
                    elif member.is_dir():
                        self._make_directory(name)
                    elif kind not in (0, stat.S_IFREG) or member.flag_bits & 1:
                        raise BadArchive(
                            f"'{name}' is {'encrypted' if member.flag_bits & 1 else 'no regular file'}, which is not unpacked here"
                        )
                    else:
                        self._check_size(name, member.file_size)
                        with archive.open(member) as content:
                            self._write(name, _pieces(content), is_executable=bool(mode & stat.S_IXUSR))
        except (zipfile.BadZipFile, NotImplementedError, RuntimeError, UnicodeError, ValueError, EOFError) as error:
            raise BadArchive(f"The archive cannot be read: {error}") from None

    # --- members -------------------------------------------------------------------------------------------------------------------------

    def _count(self) -> None:
        self.watch.check()
        self.count += 1
        if self.count > self.limits.members:
            raise BadArchive(f"The archive has more than {self.limits.members} members")

    def _name(self, raw: str) -> str | None:
        """The checked path with slashes; None for the root itself."""
        shown = raw[:100]
        if "\0" in raw or not raw.isprintable() or "\\" in raw:
            raise BadArchive(f"{shown!r} is not the name of a file")
        if raw.startswith("/"):
            raise BadArchive(f"'{shown}' is an absolute path")
        parts = [part for part in raw.split("/") if part not in ("", ".")]
        if ".." in parts:
            raise BadArchive(f"'{shown}' leads out of the directory")
        try:
            is_long = any(len(part.encode()) > 255 for part in parts)
        except UnicodeError:
            raise BadArchive(f"{shown!r} is not the name of a file") from None
        if len(raw) > self.limits.path or is_long or len(parts) > self.limits.depth:
            raise BadArchive(f"'{shown}...' is too long, or too deep, for the name of a file")
        return "/".join(parts) or None

    def _take_name(self, name: str, kind: str) -> None:
        """Note a name and the directories above it. Raises BadArchive if it is taken."""
        parts = name.split("/")
        for number in range(1, len(parts)):
            self._take_directory("/".join(parts[:number]), name)
        if kind == "directory":
            self._take_directory(name, name)
            return
        key = _folded(name)
        before = self._names.get(key)
        if before is None:
            self._names[key] = (name, kind)
        else:
            raise self._taken(name, before[0])

    @staticmethod
    def _taken(name: str, before: str) -> BadArchive:
        if name == before:
            return BadArchive(f"'{name}' is in the archive twice")
        return BadArchive(f"'{name}' differs from '{before}' only in upper and lower case or in the form of letters")

    def _take_directory(self, name: str, member: str) -> None:
        if name in self._directories:
            return
        before = self._names.setdefault(_folded(name), (name, "directory"))
        if before[0] != name:
            raise self._taken(name, before[0])
        if before[1] != "directory":
            raise BadArchive(
                f"'{member}' is in '{name}', which is a {before[1]}" if member != name else f"'{name}' is in the archive twice"
            )
        self._directories.add(name)
        if len(self._directories) > self.limits.members:
            raise BadArchive(f"The archive has more than {self.limits.members} directories")

    def _make_directory(self, name: str) -> None:
        self._take_name(name, "directory")
        (self.directory / name).mkdir(parents=True, exist_ok=True)

    def _check_size(self, name: str, size: int) -> None:
        if size < 0 or self.size + size > self.limits.size:
            raise BadArchive(f"'{name}' has {size} bytes: with it the archive has more than {self.limits.size} bytes when it is unpacked")

    def _write(self, name: str, pieces: Iterable[bytes], *, is_executable: bool, modified: float = 0) -> None:
        self._take_name(name, "file")
        path = self.directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(path, flags, 0o755 if is_executable else 0o644)
        try:
            for piece in pieces:
                self.size += len(piece)
                if self.size > self.limits.size:
                    raise BadArchive(f"'{name}': the archive has more than {self.limits.size} bytes when it is unpacked")
                self._check_space(len(piece))
                self.watch.add(len(piece))
                _write_all(descriptor, piece)
            if modified:
                seconds = modified if 0 <= modified < LATEST else 0
                os.utime(descriptor, (seconds, seconds))
        finally:
            os.close(descriptor)

    def _check_space(self, size: int) -> None:
        """Stop before the volume is full: the store is on it, too."""
        self._unchecked += size
        if self._unchecked < CHECKED_BYTES:
            return
        self._unchecked = 0
        volume = os.statvfs(self.directory)
        if volume.f_bavail < volume.f_blocks * KEPT_FREE:
            raise NoSpace(f"No space left on the volume of {self.directory.parent}")

    def _hard_link(self, name: str, target: str) -> None:
        source = self._name(target)
        if source is None or self._names.get(_folded(source)) != (source, "file"):
            raise BadArchive(f"'{name}' is a link to '{target[:100]}', which is no file of the archive before it")
        self._take_name(name, "file")
        path = self.directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        os.link(self.directory / source, path, follow_symlinks=False)

    # --- symbolic links ------------------------------------------------------------------------------------------------------------------

    def _note_link(self, name: str, target: str) -> None:
        if target.startswith("/") or not target or not target.isprintable() or len(target) > self.limits.path:
            raise BadArchive(f"'{name}' is a link to {target[:100]!r}, which is not inside the archive")
        self._take_name(name, "link")
        self._links.append((name, target))

    def make_links(self) -> None:
        """Now that no file can be written through them."""
        for name, target in self._links:
            path = self.directory / name
            path.parent.mkdir(parents=True, exist_ok=True)
            os.symlink(target, path)

    def check_links(self) -> None:
        root = os.path.realpath(self.directory)
        for path, _, names in _walk(self.directory):
            for name in names:
                link = os.path.join(path, name)
                if os.path.islink(link):
                    real = os.path.realpath(link)
                    if real != root and not real.startswith(root + os.sep):
                        shown = os.path.relpath(link, self.directory)
                        raise BadArchive(f"'{shown}' is a link to '{os.readlink(link)[:100]}', which leads out of the archive")

    # --- the top folder ------------------------------------------------------------------------------------------------------------------

    def strip(self) -> None:
        """Take away the top folder, if all of the archive is in one."""
        names = os.listdir(self.directory)
        if self._has_root or len(names) != 1:
            return
        top = self.directory / names[0]
        if top.is_symlink() or not top.is_dir():
            return
        aside = self.directory / f".{names[0][:200]}.top"
        top.rename(aside)
        for name in os.listdir(aside):
            (aside / name).rename(self.directory / name)
        aside.rmdir()


def _walk(directory: Path) -> Iterator[tuple[str, list[str], list[str]]]:
    """As `os.walk`, with links to directories among the files."""
    for path, directories, names in os.walk(directory):
        links = [name for name in directories if os.path.islink(os.path.join(path, name))]
        yield path, directories, names + links


def _pieces(content: IO[bytes]) -> Iterator[bytes]:
    while piece := content.read(PIECE):
        yield piece


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _folded(name: str) -> str:
    """One text for all names that some file systems take for the same."""
    return name if name.isascii() and name.islower() else unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())


def _kind(member: tarfile.TarInfo) -> str:
    if member.ischr() or member.isblk():
        return "a device"
    return "a FIFO" if member.isfifo() else "of an unknown kind"


def _is_zip(file: IO[bytes]) -> bool:
    begin = file.read(4)
    file.seek(0)
    return begin == b"PK\x03\x04"


def _check_zip_directory(file: IO[bytes]) -> None:
    """Refuse an archive whose list of members would take much memory: `zipfile` reads it as a whole."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - (1 << 16) - 22))
    tail = file.read()
    file.seek(0)
    at = tail.rfind(b"PK\x05\x06")
    if at < 0 or len(tail) < at + 16:
        raise BadArchive("The archive cannot be read: it is not complete")
    if int.from_bytes(tail[at + 12 : at + 16], "little") > MOST_DIRECTORY:
        raise BadArchive("The archive has too many members")


def remove_tree(path: Path) -> None:
    """Remove a directory, a file or a link, as far as that is possible."""
    if path.is_symlink() or path.is_file():
        with suppress(OSError):
            path.unlink()
    else:
        shutil.rmtree(path, ignore_errors=True)
