"""The packages that were installed for one application, in a directory of its own (spec: configuration §9.2).

One interpreter has one version of a package: what is importable already comes before them.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

DIRECTORY = ".packages"


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
