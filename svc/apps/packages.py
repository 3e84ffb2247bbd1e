"""The packages that were installed for one application, in a directory of its own (spec: configuration §9.2).

One interpreter has one version of a package: what is importable already comes before them.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from svc.apps.compiled import compile_ahead

DIRECTORY = ".packages"
REQUIREMENTS, PROJECT = "requirements.txt", "pyproject.toml"


def add_packages(directory: Path) -> str:
    """Make the packages of the application in `directory` importable. Returns the entry of `sys.path`, "" if it has none."""
    entry = str(directory.resolve() / DIRECTORY)
    if not Path(entry).is_dir():
        return ""
    sys.path.append(entry)
    importlib.invalidate_caches()
    return entry


def remove_packages(entry: str) -> None:
    """Take one such entry back; what has been imported stays."""
    if entry:
        position = len(sys.path) - 1 - sys.path[::-1].index(entry) if entry in sys.path else None
        if position is not None:
            del sys.path[position]


def import_ahead(directory: Path, modules: Sequence[str], files: Sequence[str]) -> None:
    """Import modules that the application in `directory` will import, and compile its own `files`: for a helper thread, so that loading it holds the loop
    no longer than its own code takes. What cannot be imported on another thread shows when it is loaded."""
    entry = add_packages(directory)
    try:
        for name in modules:
            if name not in sys.modules:
                with suppress(BaseException):
                    importlib.import_module(name)
    finally:
        remove_packages(entry)
    for name in files:
        compile_ahead(directory.resolve() / name)
