"""`files` and `urlPath` of the entries of an application: which files they mean, and at which addresses (spec: configuration §9.1).

files: web/**     urlPath: (none)      web/a/b.css -> /a/b.css
                  urlPath: static      web/a/b.css -> /static/a/b.css
                  urlPath: .           web/a/b.css -> /<app>/a/b.css
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from svc.apps.packages import DIRECTORY as PACKAGES

IGNORED = frozenset((".git", ".svc", ".venv", "venv", "__pycache__", "node_modules", PACKAGES))
"""Names of directories that hold no files of the application."""

VOLUME = ".."
"""What the names begin with that a volume of Kubernetes (ConfigMap, Secret) has for itself: its files lie in a directory `..2026_01_05_10_00_00.1`, to which
the link `..data` leads, and each name of the volume is a link `..data/<name>`. So one rename of `..data` changes all of them at once."""
VOLUME_LINK = "..data"

_WILD = re.compile(r"[*?\[]")
_ONLY = ("all", "files", "directories")


@dataclass(frozen=True, slots=True)
class MatchedFile:
    """`name`: the path below the application, with slashes. `url_path`: decoded, "/a/b.css"; of a directory with a slash at its end."""

    name: str
    path: Path
    url_path: str
    is_directory: bool = False


class FileSet:
    """The files and directories of an entry; asked again, it shows what there is then."""

    def __init__(self, directory: Path, files: Any, url_path: Any = None, *, app: str = "") -> None:
        """`directory`: of the application, whose name is `app`. `files`: a pattern, a list of patterns, or `{source, ignore, only}`.

        Raises ValueError for what is none of these or leads out of the application.
        """
        self.directory = directory.resolve()
        ignore: Any = ()
        only: Any = "all"
        if isinstance(files, Mapping):
            unknown = [str(key) for key in files if key not in ("source", "ignore", "only")]
            if unknown:
                raise ValueError(f"files: '{unknown[0]}' is not one of source, ignore, only")
            ignore, only = files.get("ignore") or (), files.get("only", "all")
            files = files.get("source")
        if only not in _ONLY:
            raise ValueError(f"files: only is one of {', '.join(_ONLY)}, not {only!r}")
        self.only: str = only
        self.patterns = [_checked(each) for each in (files if isinstance(files, list) else [files])]
        self._ignored = [_expression(_checked(each)) for each in (ignore if isinstance(ignore, list) else [ignore] if ignore else [])]
        self._expressions = [_expression(pattern) for pattern in self.patterns]
        self.prefix = url_prefix(url_path, app)
        self._roots = None if not all(map(_WILD.search, self.patterns)) else tuple(dict.fromkeys(map(fixed_part, self.patterns)))

    def matches(self) -> list[MatchedFile]:
        """All that there is now, by name."""
        found: dict[str, MatchedFile] = {}
        for pattern in self.patterns:
            fixed = self._fixed(pattern)
            if _WILD.search(pattern) or fixed == pattern:
                for path in _walk(self.directory / fixed, _depth(pattern, fixed)):
                    self._add(found, path, fixed)
            elif (self.directory / pattern).is_file():
                self._add(found, self.directory / pattern, fixed)
        return [found[name] for name in sorted(found)]

    def _add(self, found: dict[str, MatchedFile], path: Path, fixed: str) -> None:
        name = path.relative_to(self.directory).as_posix()
        if name in found or not self.contains(name):
            return
        is_directory = path.is_dir()
        if self._wants(is_directory):
            found[name] = MatchedFile(name, path, self._url_path(name, fixed, is_directory), is_directory)

    def _wants(self, is_directory: bool) -> bool:
        return self.only == "all" or (self.only == "directories") is is_directory

    def contains(self, name: str) -> bool:
        """Whether a file of this name, a path below the application with slashes, is or would be one of them."""
        if any(part in IGNORED or part.startswith(VOLUME) for part in name.split("/")):
            return False
        return any(each.fullmatch(name) for each in self._expressions) and not any(each.fullmatch(name) for each in self._ignored)

    def url_path(self, name: str, *, is_directory: bool = False) -> str:
        """The address of a file of this name that is one of them."""
        pattern = next(
            (pattern for pattern, each in zip(self.patterns, self._expressions, strict=True) if each.fullmatch(name)), self.patterns[0]
        )
        return self._url_path(name, self._fixed(pattern), is_directory)

    def _url_path(self, name: str, fixed: str, is_directory: bool) -> str:
        return self.prefix + name.removeprefix(f"{fixed}/" if fixed else "") + ("/" if is_directory else "")

    def _fixed(self, pattern: str) -> str:
        """The directory, below the application, from which the addresses of what a pattern matches begin."""
        if not _WILD.search(pattern) and not (self.directory / pattern).is_dir():
            return pattern.rpartition("/")[0]
        return fixed_part(pattern)

    def roots(self) -> tuple[str, ...]:
        """The directories, below the application, from which addresses begin, in the order of the patterns: what `candidates` gives is below one of them."""
        if self._roots is not None:
            return self._roots
        return tuple(dict.fromkeys(self._fixed(pattern) for pattern in self.patterns))  # a pattern may have become a directory

    def candidates(self, url_path: str) -> Iterator[str]:
        """The names that a file at this decoded address may have, "/a/b.css" -> "web/a/b.css"; whether it is there is not looked at."""
        if not url_path.startswith(self.prefix):
            return
        below = url_path[len(self.prefix) :]
        for pattern in self.patterns:
            fixed = self._fixed(pattern)
            name = f"{fixed}/{below}" if fixed else below
            if self.contains(name):
                yield name

    def __repr__(self) -> str:
        return f"<FileSet {', '.join(self.patterns)} at {self.prefix}>"


def url_prefix(url_path: Any, app: str) -> str:
    """What addresses begin with, with slashes at both ends. Raises ValueError.

    >>> [url_prefix(each, "shop") for each in (None, "/", "static", "/static/", ".", "./x")]
    ['/', '/', '/static/', '/static/', '/shop/', '/shop/x/']
    """
    if url_path is None:
        return "/"
    if not isinstance(url_path, str):
        raise ValueError(f"urlPath is a path, not {url_path!r}")
    path = url_path.strip()
    if ".." in path.split("/"):
        raise ValueError(f"urlPath must not contain '..': {url_path!r}")
    if path == "." or path.startswith("./"):
        path = app + path[1:]
    path = path.strip("/")
    return f"/{path}/" if path else "/"


def fixed_part(pattern: str) -> str:
    """The directories of a pattern in front of its first wildcard; all of it without one.

    >>> fixed_part("web/**"), fixed_part("*.graphql"), fixed_part("data/a.yaml"), fixed_part("**")
    ('web', '', 'data/a.yaml', '')
    """
    parts = pattern.split("/")
    for number, part in enumerate(parts):
        if _WILD.search(part):
            return "/".join(parts[:number])
    return pattern


def _checked(pattern: Any) -> str:
    """A pattern without `./` in front; `.` is everything."""
    if not isinstance(pattern, str) or not pattern:
        raise ValueError(f"files: {pattern!r} is not a pattern")
    if pattern.startswith("/") or ".." in pattern.split("/"):
        raise ValueError(f"files: '{pattern}' leads out of the application")
    if "\0" in pattern or len(pattern) > 1000:
        raise ValueError("files: a pattern has at most 1000 characters, and no null character")
    pattern = pattern.removeprefix("./").rstrip("/")
    return "**" if pattern in (".", "") else pattern


def _expression(pattern: str) -> re.Pattern[str]:
    """`**` stands for any directories, the other wildcards for parts of one name. A pattern without wildcards that names a directory means all in it.

    Raises ValueError. What `*` and `**` stand for is as short as what follows them up to the next one allows, and is not tried again: the time to match
    grows with the name alone.
    """
    given = pattern.split("/")
    parts = [part for part, following in zip(given, [*given[1:], ""], strict=True) if not part == following == "**"]
    groups = [""]  # what stands between one `**` and the next
    for number, part in enumerate(parts):
        is_last = number == len(parts) - 1
        if part == "**" and is_last:
            groups[-1] += ".+"
        elif part == "**":
            groups.append("")
        else:
            groups[-1] += _of_name(part) + ("" if is_last else "/")
    text = groups[0]
    for number, group in enumerate(groups[1:], 2):
        directories = f"(?:[^/]+/)*?{group}"
        text += f"(?>{directories})" if number < len(groups) else directories
    try:
        return re.compile(text + ("" if _WILD.search(pattern) else "(?:/.+)?"), re.DOTALL)
    except re.error as error:
        raise ValueError(f"files: '{pattern}' is not a pattern: {error.msg}") from None


def _of_name(part: str) -> str:
    """The expression of one part of a pattern: `*`, `?` and `[a-z]`, `[!a-z]` stand for characters of one name."""
    pieces = [""]  # what stands between one `*` and the next
    position = 0
    while position < len(part):
        character = part[position]
        negates = part[position + 1 : position + 2] in ("!", "^")
        closing = part.find("]", position + 2 + negates) if character == "[" else -1
        if closing > 0:
            members = re.sub(r"[\\\[\]&|~]", r"\\\g<0>", part[position + 1 : closing]).replace("--", "-\\-")
            pieces[-1] += f"(?!/)[^{members[1:]}]" if negates else f"(?!/)[{members}]"
            position = closing
        elif character == "*":
            if pieces[-1] or len(pieces) == 1:
                pieces.append("")
        else:
            pieces[-1] += "[^/]" if character == "?" else re.escape(character)
        position += 1
    first, *others = pieces
    return first + "".join(f"(?>[^/]*?{each})" for each in others[:-1]) + (f"[^/]*{others[-1]}" if others else "")


def _depth(pattern: str, fixed: str) -> int:
    """How many directories below its fixed part what a pattern matches can be, 1 for its members."""
    if fixed == pattern or "**" in pattern.split("/"):
        return sys.maxsize
    return pattern.count("/") - (fixed.count("/") if fixed else -1)


def is_of_volume(link: str | os.PathLike[str]) -> bool:
    """Whether a link is a name of a volume, and not reached through another link: so following it comes to an end."""
    try:
        if not os.readlink(link).startswith(f"{VOLUME_LINK}/"):
            return False
        directory = os.path.dirname(link)
        return os.path.realpath(directory) == directory
    except OSError:
        return False


def _walk(directory: Path, depth: int) -> Iterator[Path]:
    """All files and directories below, but for those of IGNORED and of VOLUME; links are followed by what opens them, and here only those to directories of a
    volume. `depth`: 1 for its members alone."""
    waiting = [(directory, depth)]
    while waiting:
        place, left = waiting.pop()
        try:
            members = sorted(place.iterdir())
        except OSError:
            continue
        for path in members:
            if path.name in IGNORED or path.name.startswith(VOLUME):
                continue
            yield path
            if left > 1 and path.is_dir() and (not path.is_symlink() or is_of_volume(path)):
                waiting.append((path, left - 1))
