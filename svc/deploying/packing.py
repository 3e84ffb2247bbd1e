"""Packing the directory of an application as tar.gz (spec: deployment §2)."""

from __future__ import annotations

import os
import stat
import tarfile
from collections.abc import Iterator, Set
from pathlib import Path
from typing import IO

from svc.deploying.ignored import CACHES
from svc.deploying.names import HIDDEN
from svc.errors import ClientError
from svc.store.backup.watch import Watch

ALWAYS_LEFT_OUT = frozenset((".git", ".svc", ".venv", "venv", "__pycache__")) | CACHES
PACKAGES = frozenset(("node_modules", ".packages"))
LEVEL = 6


class CannotPack(ClientError):
    """A directory that cannot be packed."""


def pack(
    directory: Path,
    out: IO[bytes],
    *,
    without_packages: bool = True,
    without_links: bool = False,
    only: Set[str] | None = None,
    watch: Watch | None = None,
) -> int:
    """Write an archive. Returns the number of members. `without_packages`: leave out what can be installed again. `only`: paths, and no others
    (`ignored.kept_files`).

    Links that stay inside are packed as links; CannotPack for others, unless `without_links`. OSError for what cannot be read or written.
    """
    left_out = HIDDEN | CACHES if without_packages else ALWAYS_LEFT_OUT
    directory = directory.resolve()
    watch = watch or Watch()
    count = 0
    with tarfile.open(fileobj=out, mode="w:gz", compresslevel=LEVEL, format=tarfile.PAX_FORMAT) as archive:
        root = tarfile.TarInfo(".")
        root.type, root.mode = tarfile.DIRTYPE, 0o755
        archive.addfile(root)  # so that a single directory in it is not taken for a top folder
        for name, status in _members(directory, left_out, only):
            member = _member(directory, name, status, without_links=without_links)
            if member is None:
                continue
            count += 1
            if member.isreg():
                with (directory / name).open("rb") as content:
                    archive.addfile(member, _WatchedFile(content, watch))
            else:
                archive.addfile(member)
                watch.check()
    return count


def size_of(directory: Path, *, without_packages: bool = True, only: Set[str] | None = None) -> int:
    """The bytes of all files that `pack` would read."""
    left_out = HIDDEN | CACHES if without_packages else ALWAYS_LEFT_OUT
    return sum(status.st_size for _, status in _members(directory.resolve(), left_out, only) if stat.S_ISREG(status.st_mode))


class _WatchedFile:
    def __init__(self, content: IO[bytes], watch: Watch) -> None:
        self._content = content
        self._watch = watch

    def read(self, size: int = -1) -> bytes:
        data = self._content.read(size)
        self._watch.add(len(data))
        return data


def _members(directory: Path, left_out: Set[str], only: Set[str] | None) -> Iterator[tuple[str, os.stat_result]]:
    """(path with slashes, status) of all below, by name."""
    waiting = [""]
    while waiting:
        above = waiting.pop()
        with os.scandir(directory / above) as found:
            entries = sorted(found, key=lambda entry: entry.name)
        for entry in entries:
            if entry.name in left_out:
                continue
            name = f"{above}/{entry.name}" if above else entry.name
            if only is not None and name not in only:
                continue
            status = entry.stat(follow_symlinks=False)
            if not entry.name.isprintable() or "\\" in entry.name:
                raise CannotPack(f"{name!r} is not a name that archives have here: rename it")
            yield name, status
            if stat.S_ISDIR(status.st_mode):
                waiting.append(name)


def _member(directory: Path, name: str, status: os.stat_result, *, without_links: bool) -> tarfile.TarInfo | None:
    """None for what is left out. Without the names of users: they mean nothing elsewhere."""
    member = tarfile.TarInfo(name)
    member.mtime = int(status.st_mtime)
    member.mode = 0o755 if status.st_mode & stat.S_IXUSR else 0o644
    if stat.S_ISREG(status.st_mode):
        member.size = status.st_size
    elif stat.S_ISDIR(status.st_mode):
        member.type, member.mode = tarfile.DIRTYPE, 0o755
    elif stat.S_ISLNK(status.st_mode) and not without_links:
        target = os.readlink(directory / name)
        real = os.path.realpath(directory / name)
        if target.startswith("/") or not (real == os.fspath(directory) or real.startswith(f"{directory}{os.sep}")):
            raise CannotPack(f"{name} is a link to {target}, which is not inside the directory: replace it by what it leads to")
        member.type, member.linkname = tarfile.SYMTYPE, target
    else:
        return None
    return member
