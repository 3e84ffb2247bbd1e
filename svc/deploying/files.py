"""The files of a project, for those who look at them and change them one by one (spec: operations §7)."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

from svc.deploying.layout import Layout
from svc.deploying.names import HIDDEN, file_in, parts_of
from svc.deploying.unpacking import remove_tree, written_fault
from svc.errors import ClientError, NotFound

MOST_ENTRIES = 10_000  # of a tree: its JSON takes 7 ms
DEEPEST = 64  # directories within directories

Tree = list[dict[str, Any]]


@dataclass(frozen=True)
class FoundFile:
    content: bytes
    size: int
    birthtime: str
    mtime: str


def iso(seconds: float) -> str:
    """
    >>> iso(1767607200.5)
    '2026-01-05T10:00:00.500Z'
    """
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"


def tree_of(directory: Path, budget: list[int], depth: int = 0) -> Tree:
    """What is below a directory, without hidden names and packages. `budget`: the entries that may still be listed, in a list of one."""
    found: Tree = []
    if depth > DEEPEST:
        return found
    try:
        with os.scandir(directory) as entries:
            members = sorted(entries, key=lambda entry: entry.name)
    except OSError:
        return found
    for entry in members:
        if entry.name.startswith(".") or entry.name in HIDDEN or not entry.name.isprintable():
            continue
        budget[0] -= 1
        if budget[0] < 0:
            break
        with suppress(OSError):
            status = entry.stat(follow_symlinks=False)
            if stat.S_ISDIR(status.st_mode):
                found.append({"name": entry.name, "mtime": iso(status.st_mtime), "entries": tree_of(Path(entry.path), budget, depth + 1)})
            else:
                found.append({"name": entry.name, "mtime": iso(status.st_mtime), "size": status.st_size})
    return found


def read_file(layout: Layout, project: str, name: str, most_bytes: int) -> FoundFile:
    """Raises NotFound, and 413 for a larger file."""
    missing = NotFound(f"Component file not found '{project}/{name[:250]}'")
    parts_of(name)
    served = layout.served(project)
    if served is None:
        raise missing
    path = file_in(served, name)
    try:
        descriptor = os.open(os.path.realpath(path), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        raise missing from None
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        raise missing
    with open(descriptor, "rb") as file:
        content = file.read(most_bytes + 1)
    if len(content) > most_bytes:
        raise too_large(project, name, most_bytes)
    return FoundFile(content, status.st_size, iso(getattr(status, "st_birthtime", status.st_ctime)), iso(status.st_mtime))


def too_large(project: str, name: str, most_bytes: int) -> ClientError:
    return ClientError(
        f"Component file '{project}/{name[:250]}' is larger than {most_bytes} bytes (operationsApi.componentFile.maxSize)", 413
    )


def write_file(layout: Layout, project: str, name: str, content: bytes | None) -> None:
    """Replace or make a file in one step, and the directories above it; None: make a directory. A project that is not there is made."""
    parts_of(name)
    place = layout.served(project)
    try:
        if place is None:
            if layout.exists(project):
                raise ClientError(f"The project {project} is no directory")
            layout.project(project).mkdir(mode=0o700, parents=True)
            place = layout.project(project).resolve()
        path = file_in(place, name)
        if content is None:
            path.mkdir(parents=True, exist_ok=True)
            return
        if path.is_dir():
            raise ClientError(f"'{name}' is a directory")
        path.parent.mkdir(parents=True, exist_ok=True)
        path = Path(os.path.realpath(path))
        mode = stat.S_IMODE(path.stat().st_mode) if path.exists() else 0o644
        part = path.with_name(f".{path.name[:100]}.{uuid4().hex[:8]}.part")
        try:
            with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode), "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise ClientError(f"'{name}' cannot be made: {error.strerror}") from None
    except OSError as error:
        raise written_fault(error, layout.project(project)) from error


def remove_file(layout: Layout, project: str, name: str) -> None:
    """Remove a file or a directory, if it is there."""
    parts_of(name)
    served = layout.served(project)
    if served is not None:
        path = file_in(served, name)
        remove_tree(path)
        if os.path.lexists(path):
            raise ClientError(f"'{name}' cannot be removed", 500)
