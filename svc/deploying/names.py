"""Names of projects, and the paths of files in them (spec: deployment §1)."""

from __future__ import annotations

import os
import re
from pathlib import Path

from svc.errors import ClientError, ValidationError

MAX_PROJECT = 100  # characters: names of directories are made of it
MAX_PATH = 1000  # characters
MAX_PART = 255  # bytes of a name in a directory

BAD_PROJECT = "Project name can only contain alphanumeric, dash and underscores characters"
BAD_PATH = "Invalid file path"

HIDDEN = frozenset((".git", ".svc", ".venv", "venv", "__pycache__", "node_modules", ".packages"))
"""Directories that are no part of an application's own files."""

BUILT_IN = frozenset(
    (
        "authentication", "dataLoader", "frameworkRoutes", "graphql", "graphqlSchema", "http", "jsResource", "loadEnv", "logging", "login", "mcp",
        "models", "mqtt", "operationsApi", "replication", "resources", "rest", "roles", "scheduler", "static", "storage", "tls",
    )
)  # fmt: skip
"""Names that configuration files give a meaning of their own."""

_PROJECT = re.compile(r"[a-zA-Z0-9_-]+", re.ASCII)


def project_fault(name: str) -> str | None:
    """The message about a name that no project can have.

    >>> project_fault("my-shop_2"), project_fault("../x") == BAD_PROJECT
    (None, True)
    """
    if _PROJECT.fullmatch(name) is None:
        return BAD_PROJECT
    return f"'project' length must be less than or equal to {MAX_PROJECT} characters long" if len(name) > MAX_PROJECT else None


def check_project(name: str) -> None:
    """Raises ValidationError."""
    fault = project_fault(name)
    if fault is not None:
        raise ValidationError(fault)


def file_in(project: Path, name: str) -> Path:
    """The path of a file or directory of a project, whether it is there or not. `project`: its directory, links resolved.

    Raises a 400 for every name that leads out of it: `..`, absolute, through links.
    """
    parts = parts_of(name)
    path = project.joinpath(*parts)
    real = os.path.realpath(path)
    if real != os.fspath(project) and not real.startswith(f"{project}{os.sep}"):
        raise ClientError(BAD_PATH, code="VALIDATION")
    if real == os.fspath(project):
        raise ClientError(BAD_PATH, code="VALIDATION")
    return path


def parts_of(name: str) -> list[str]:
    """
    >>> parts_of("web/a.html"), parts_of("./web//a.html")
    (['web', 'a.html'], ['web', 'a.html'])
    """
    parts = [part for part in name.split("/") if part not in ("", ".")]
    is_bad = (
        name.startswith("/")
        or not parts
        or ".." in parts
        or len(name) > MAX_PATH
        or not name.isprintable()
        or "\\" in name
        or any(len(part.encode(errors="replace")) > MAX_PART for part in parts)
    )
    if is_bad:
        raise ClientError(BAD_PATH, code="VALIDATION")
    return parts
