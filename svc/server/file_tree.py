"""The files of one application as they were when they were last looked at, and what has changed since (spec: configuration §9.2).

What is told by the operating system is only where to look: whether a file has changed is decided by its times, size and number. So an event that comes
twice, or for a file that was only read, changes nothing, and one that is lost is made up for by the next look at everything.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from svc.apps.files import IGNORED, VOLUME, VOLUME_LINK, is_of_volume

MAX_FILES = 200_000  # of one application; more are not looked at
MAX_DIRECTORIES = 20_000
MAX_LINKS = 1000
MANY = 500  # changes, from which on everything is looked at

Mark = tuple[int, int, int, int]
"""Time of the last change in ns, size in bytes, number of the file, time at which the disk has got it: a file that is replaced may keep the first three."""

_TEMPORARY = re.compile(
    r"~$"  # emacs, vim, gedit: the version before
    r"|\.sw[a-z]$|^4913$"  # vim
    r"|^\.#|^#.*#$|^flycheck_"  # emacs
    r"|___jb_\w+___$"  # JetBrains
    r"|^\.goutputstream-|^\.DS_Store$|^\.nfs[0-9a-f]+$"
    r"|\.py[cod]$|\.tmp$|\.crswap$"
)


def is_temporary(name: str) -> bool:
    """Whether a file of this name is an editor's or the interpreter's own, for the time of its work.

    >>> [name for name in ("resources.py", "resources.py~", ".resources.py.swp", ".env", "4913", ".#a.graphql") if is_temporary(name)]
    ['resources.py~', '.resources.py.swp', '4913', '.#a.graphql']
    """
    return _TEMPORARY.search(name) is not None


class FileTree:
    """`files`: path below `root` with slashes -> its mark. `directories`: path, "" for the root itself -> its number; all that are looked at.

    All methods read the disk: for a helper thread. Names that are no text are left out, and so are links to directories, but for those of a volume, as in
    `files` of an entry.
    """

    def __init__(self, root: Path, excluded: Sequence[Path] = ()) -> None:
        """`excluded`: directories below that are not looked at, absolute: the data of the service may be there."""
        self.root = root
        self._excluded = frozenset(path.relative_to(root).as_posix() for path in excluded if path != root and path.is_relative_to(root))
        self.files: dict[str, Mark] = {}
        self.links: dict[str, str] = {}  # real path of a file outside -> name of a link to it
        self.directories: dict[str, int] = {}

    @property
    def is_there(self) -> bool:
        """Whether there is a directory of this name."""
        return "" in self.directories

    @property
    def is_cut(self) -> bool:
        """Whether it has more files or directories than are looked at."""
        return len(self.files) >= MAX_FILES or len(self.directories) >= MAX_DIRECTORIES

    def look(self) -> list[str]:
        """Look at everything. Returns the files that have been added, changed or removed, by name."""
        before = self.files
        self.files, self.directories, self.links = {}, {}, {}
        self._add_directory("")
        return sorted(name for name in before.keys() | self.files.keys() if before.get(name) != self.files.get(name))

    def look_at(self, names: Collection[str]) -> list[str]:
        """Look at these files and directories; a directory stands for all in it."""
        if "" in names or len(names) > MANY:
            return self.look()
        changed: set[str] = set()
        for name in names:
            if self.ignores(name):
                continue
            path = self.root / name
            mark = _mark_of(path)
            if mark is not None:
                changed.update(self._forget_below(name))
                if self.files.get(name) != mark:
                    if path.is_symlink():
                        self._note_link(name, str(path))
                    self.files[name] = mark
                    changed.add(name)
            elif not _is_there(path):
                changed.update(self._forget_below(name))
                if self.files.pop(name, None) is not None:
                    changed.add(name)
            elif path.is_symlink():  # to a directory, or to nothing: what leads through it has changed
                changed.update(self._look_again(name.rpartition("/")[0]))
            else:
                changed.update(self._look_again(name))
        return sorted(changed)

    def is_unfinished(self, name: str) -> bool:
        """Whether a changed file is as one is while it is being saved: empty, or not there."""
        mark = self.files.get(name)
        return mark is None or mark[1] == 0

    def watched(self) -> dict[str, int]:
        """The directories to be watched, those of files that links lead to included -> their numbers."""
        found = {str(self.root / name) if name else str(self.root): number for name, number in self.directories.items()}
        for directory in {os.path.dirname(path) for path in self.links}:
            with suppress(OSError):
                found.setdefault(directory, os.stat(directory).st_ino)
        return found

    def names_of(self, paths: Iterable[str]) -> list[str]:
        """What is looked at of absolute paths, relative to the root; "" for that itself. This reads no disk."""
        base = str(self.root)
        inside = base + os.sep
        found = []
        for path in paths:
            if path.startswith(inside):
                name = path[len(inside) :]
                if not self.ignores(name):
                    found.append(name)
            elif path == base:
                found.append("")
            elif path in self.links:
                found.append(self.links[path])
        return found

    def _look_again(self, name: str) -> set[str]:
        """Forget what is known of a directory or file, and look."""
        before = {each: mark for each, mark in self.files.items() if _is_below(each, name)}
        self._forget_below(name)
        for each in before:
            self.files.pop(each, None)
        self.links = {path: each for path, each in self.links.items() if not _is_below(each, name)}
        self._add_directory(name)
        after = {each: mark for each, mark in self.files.items() if _is_below(each, name)}
        return {each for each in before.keys() | after.keys() if before.get(each) != after.get(each)}

    def _forget_below(self, name: str) -> list[str]:
        """A directory is none any more. Returns the files that were in it."""
        if name not in self.directories:
            return []
        for each in [each for each in self.directories if each == name or _is_below(each, name)]:
            del self.directories[each]
        gone = [each for each in self.files if each != name and _is_below(each, name)]
        for each in gone:
            del self.files[each]
        return gone

    def _add_directory(self, name: str) -> None:
        waiting = [name]
        while waiting and not self.is_cut:
            here = waiting.pop()
            path = self.root / here if here else self.root
            try:
                number = path.stat().st_ino
                entries = list(os.scandir(path))
            except OSError:  # it has gone, or is no directory, or may not be read
                continue
            self.directories[here] = number
            waiting += self._add_entries(here, entries)

    def _add_entries(self, here: str, entries: Iterable[os.DirEntry[str]]) -> Iterator[str]:
        """Add the files of a directory. Returns the directories in it."""
        for entry in entries:
            name = f"{here}/{entry.name}" if here else entry.name
            if entry.name in IGNORED or entry.name.startswith(VOLUME) or is_temporary(entry.name) or not _is_text(entry.name):
                continue
            try:
                if entry.is_dir(follow_symlinks=entry.is_symlink() and is_of_volume(entry.path)):
                    if name not in self._excluded:
                        yield name
                    continue
                status = entry.stat()
                if entry.is_symlink():
                    self._note_link(name, entry.path)
            except OSError:  # gone meanwhile; a link to nothing, or to itself
                continue
            if stat.S_ISREG(status.st_mode) and len(self.files) < MAX_FILES:
                self.files[name] = (status.st_mtime_ns, status.st_size, status.st_ino, status.st_ctime_ns)

    def _note_link(self, name: str, path: str) -> None:
        if len(self.links) < MAX_LINKS:
            self.links[os.path.realpath(path)] = name

    def ignores(self, name: str) -> bool:
        """Whether a file or directory of this name is not looked at. This reads no disk."""
        parts = name.split("/")
        if any(part in IGNORED for part in parts) or is_temporary(parts[-1]) or not _is_text(name):
            return True
        if any(part.startswith(VOLUME) for part in (parts[:-1] if parts[-1] == VOLUME_LINK else parts)):
            return True
        return any(_is_below(name, directory) for directory in self._excluded)


def _mark_of(path: Path) -> Mark | None:
    """None: there is no such file."""
    try:
        status = path.stat()
    except OSError:
        return None
    return (status.st_mtime_ns, status.st_size, status.st_ino, status.st_ctime_ns) if stat.S_ISREG(status.st_mode) else None


def _is_there(path: Path) -> bool:
    """Also as a link to nothing."""
    try:
        path.lstat()
    except OSError:
        return False
    return True


def _is_below(name: str, directory: str) -> bool:
    return not directory or name == directory or name.startswith(f"{directory}/")


def _is_text(name: str) -> bool:
    return "\n" not in name and not any("\ud800" <= character <= "\udfff" for character in name)
