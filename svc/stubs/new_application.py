"""A new application: files to begin with, from `application/` beside this module."""

from __future__ import annotations

import re
from pathlib import Path

from svc.stubs.output import write_changed, write_stubs

_NAME = re.compile(r"[a-zA-Z0-9\-_]+")
_TEMPLATE = Path(__file__).with_name("application")
_RENAMED = {"gitignore": ".gitignore"}  # under its own name it would have an effect here
MAX_NAME = 100


class ApplicationExists(Exception):
    """There is something in the place of the new application already."""


def check_name(name: str) -> None:
    """Raise ValueError for a name that applications cannot have."""
    if len(name) > MAX_NAME or _NAME.fullmatch(name) is None:
        raise ValueError(f"the name of an application consists of at most {MAX_NAME} letters, digits, - and _, not {name[:200]!r}")


def write_application(directory: Path, name: str) -> list[Path]:
    """Write the files of a small working application, named `name`, into `directory`, which is made; all paths of files, sorted.

    Raises ValueError for a name that is none, ApplicationExists if the directory is there and not empty, OSError. Blocks for some milliseconds.
    """
    check_name(name)
    if directory.is_symlink() or (directory.exists() and (not directory.is_dir() or any(directory.iterdir()))):
        raise ApplicationExists(f"{directory} exists already")
    written = []
    for source in sorted(_TEMPLATE.rglob("*")):
        if source.is_dir() or "__pycache__" in source.parts:
            continue
        below = source.relative_to(_TEMPLATE)
        path = directory / below.with_name(_RENAMED.get(below.name, below.name))
        write_changed(path, source.read_text(encoding="utf-8").replace("{{name}}", name))
        written.append(path)
    return sorted([*written, *write_stubs(directory)])
