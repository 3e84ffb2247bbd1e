"""Packages of applications that this process has imported already, and keeps (spec: deployment §4)."""

from __future__ import annotations

import sys
from importlib import metadata
from pathlib import Path

from svc.apps.packages import DIRECTORY

_PART = f"/{DIRECTORY}/"


def imported_from() -> dict[str, Path]:
    """Name of a module or package at the top -> the directory of packages that it was imported from, for those of applications."""
    found: dict[str, Path] = {}
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if isinstance(file, str) and _PART in file and "." not in name:
            found[name] = Path(file[: file.index(_PART) + len(_PART) - 1])
    return found


def held_back(directory: Path) -> list[str]:
    """What is said of the packages of an application whose other version is imported already. Reads files."""
    packages = directory.resolve() / DIRECTORY
    imported = imported_from()
    messages = []
    for package in metadata.distributions(path=[str(packages)]) if packages.is_dir() else ():
        names = {path.parts[0].removesuffix(".py") for path in package.files or () if path.suffix == ".py"}
        place = next((imported[name] for name in sorted(names) if name in imported and imported[name] != packages), None)
        if place is None:
            continue
        name = package.metadata["Name"]
        former = next(iter(metadata.distributions(name=name, path=[str(place)])), None)
        if former is None or former.version != package.version:
            messages.append(
                f"{name} {package.version} takes effect at the next restart: {former.version if former else 'another version'} is imported already"
            )
    return messages
