"""From an address to the file that it means (spec: http §13.2).

Only names that the set contains are found, and below its roots none that begin with a dot, but for `/.well-known/`. What could mean a file in a second way
(an encoded slash, an empty segment, a backslash) and a NUL are in no address of a file.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol
from urllib.parse import unquote, unquote_to_bytes

from svc.static.opening import Version, look, version_of
from svc.static.options import StaticOptions

INDEX = "index.html"
_BELOW = re.compile(r"(?:(?!\.)[^/\\\0]+/)*(?:(?!\.)[^/\\\0]+)?")
_BELOW_ROOT = re.compile(rf"(?:\.well-known/)?{_BELOW.pattern}")  # RFC 8615
_ENCODED_SLASH = re.compile(r"%2f|%5c", re.IGNORECASE)


class FileSet(Protocol):
    """The files of an entry: `apps.files.FileSet`."""

    @property
    def directory(self) -> Path:
        """Of the application, resolved."""

    @property
    def prefix(self) -> str:
        """What addresses begin with; `/` at both ends."""

    def roots(self) -> tuple[str, ...]:
        """Directories below `directory` at which the rest of an address begins; "" is `directory` itself."""

    def contains(self, name: str) -> bool:
        """Whether a path below `directory`, with slashes, is or would be one of them."""


@dataclass(frozen=True, slots=True)
class ResolvedFile:
    """`name`: below the application. `path`: of the file, links not followed. `version`: what was there. `is_first`: no file could have been found before this
    one. `moves`: the address is that of a directory, to which a slash has to be added."""

    name: str
    path: str
    version: Version
    is_first: bool = False
    moves: bool = False


class Lookup:
    def __init__(self, files: FileSet, options: StaticOptions) -> None:
        self._files = files
        self._directory = str(files.directory)
        self._prefix = files.prefix
        self._below = _BELOW_ROOT if files.prefix == "/" else _BELOW
        self._index = options.index
        self._extensions = options.extensions
        self._endings = ("", *[f".{extension}" for extension in options.extensions])
        self._roots: tuple[str, ...] = ()
        self._bases: tuple[str, ...] = ()  # paths of the roots
        self._is_simple = self._prefix == "/" and not options.extensions
        self._start = ""  # of the path of each file, if there is one root and addresses are paths below it

    def below(self, address: str) -> str | None:
        """The path of a request, still encoded -> what follows the prefix, decoded; "/" for the prefix without its slash. None: no file can have it."""
        if "%" in address:
            if _ENCODED_SLASH.search(address):
                return None
            try:
                address = unquote_to_bytes(address).decode("utf-8")
            except UnicodeError:
                return None
        prefix = self._prefix
        if not address.startswith(prefix):
            return "/" if len(address) == len(prefix) - 1 and prefix.startswith(address) and address else None
        below = address[len(prefix) :]
        return below if self._below.fullmatch(below) else None

    def is_below(self, address: str) -> bool:
        """Whether an address is one of the entry's, if only by its prefix."""
        prefix = self._prefix
        return address.startswith(prefix) or unquote(address).startswith(prefix) or address == prefix[:-1]

    def may_find(self, address: str) -> bool:
        """False: nothing is there. For nearly all requests that are for others, at the cost of one look at the disk."""
        if "%" in address:
            return True
        roots = self._files.roots()
        if roots is not self._roots:
            self._roots = roots
            self._bases = tuple(f"{self._directory}/{root}/" if root else f"{self._directory}/" for root in roots)
            self._start = self._bases[0][:-1] if self._is_simple and len(roots) == 1 else ""
        if self._start:
            try:
                return os.access(self._start + address, os.F_OK)
            except ValueError:  # a NUL
                return False
        prefix = self._prefix
        if not address.startswith(prefix):
            return prefix.startswith(address)
        below = address[len(prefix) :]
        try:
            for base in self._bases:
                for ending in self._endings:
                    if os.access(base + below + ending, os.F_OK):
                        return True
        except ValueError:  # a NUL
            pass
        return False

    def find(self, address: str) -> ResolvedFile | None:
        """The file of an address, which may have been removed before it is opened. Addresses of GET and HEAD alone."""
        below = self.below(address)
        if below is None:
            return None
        is_first = True
        for root in self._files.roots():
            for name, moves in self._names(root, below):
                path = f"{self._directory}/{name}"
                status = look(path)
                if status is not None and stat.S_ISREG(status.st_mode) and self._files.contains(name):
                    return ResolvedFile(name, path, version_of(status), is_first and not moves, moves)
                is_first = False
        return None

    def _names(self, root: str, below: str) -> Iterator[tuple[str, bool]]:
        """(name, whether it is the index of the directory that was asked for without a slash), best first."""
        start = f"{root}/" if root else ""
        if below == "/":
            if self._index:
                yield start + INDEX, True
            return
        if not below or below.endswith("/"):
            if self._index:
                yield start + below + INDEX, False
            return
        yield start + below, False
        if self._index:
            yield f"{start}{below}/{INDEX}", True
        for extension in self._extensions:
            yield f"{start}{below}.{extension}", False

    def named(self, name: str) -> Iterator[ResolvedFile]:
        """A file that the configuration names: by its address, or below the application."""
        names = [f"{root}/{name}" if root else name for root in self._files.roots()]
        for each in dict.fromkeys((*names, name)):
            path = f"{self._directory}/{each}"
            status = look(path)
            if status is not None and stat.S_ISREG(status.st_mode) and self._files.contains(each):
                yield ResolvedFile(each, path, version_of(status))

    def allows(self, name: str) -> bool:
        """Whether a name that a link leads to may be served: one of the set, with an address of its own. Directories that a mounted volume has for itself do
        not count: they are never part of an address (`apps.files.VOLUME`)."""
        name = "/".join([part for part in name.split("/") if not part.startswith("..")])
        if not self._files.contains(name):
            return False
        for root in self._files.roots():
            if not root or name.startswith(f"{root}/"):
                below = name[len(root) + 1 :] if root else name
                if self._below.fullmatch(below) is not None:
                    return True
        return False
