"""What an application has beside its own files: what `.gitignore` names, as git itself reads it, and the caches of tools (spec: deployment §2)."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

CACHES = frozenset((".mypy_cache", ".ruff_cache", ".pytest_cache", ".hypothesis", ".tox", ".nox"))
"""Directories that tools of Python make again."""

_SECONDS = 60.0


class GitMissing(Exception):
    """There is a .gitignore, and no git that could read it."""


def kept_files(directory: Path) -> frozenset[str] | None:
    """The paths below a directory, with slashes, of the files that git would keep, and of the directories that they are in. None: nothing is ignored, for
    there is no `.gitignore` in it, and it is in no working tree of git. Rules that ignore the directory itself, as those for what is built, say nothing about
    its files. Raises GitMissing."""
    has_rules = next(directory.rglob(".gitignore"), None) is not None
    try:
        if _git(directory, "rev-parse", "--is-inside-work-tree") is not None:
            # Also what is tracked although it is ignored, and what rules further up say.
            listed = _git(directory, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
            if listed != b"":
                return _with_directories(directory, listed)
        if not has_rules:
            return None
        with tempfile.TemporaryDirectory(prefix="svc-") as repository:
            _git(directory, "init", "--quiet", "--bare", repository)
            place = (f"--git-dir={repository}", f"--work-tree={directory}")
            return _with_directories(directory, _git(directory, *place, "ls-files", "-z", "--others", "--exclude-standard"))
    except (OSError, subprocess.SubprocessError) as error:
        if not has_rules:
            return None
        raise GitMissing(str(error)) from None


def _git(directory: Path, *words: str) -> bytes | None:
    """What a command of git prints; None if it fails. No configuration of a repository makes it run a program.

    The variables of git are those of another repository where a hook of that deploys.
    """
    done = subprocess.run(
        ("git", "-c", "core.fsmonitor=false", *words),
        cwd=directory,
        capture_output=True,
        timeout=_SECONDS,
        check=False,
        stdin=subprocess.DEVNULL,
        env={name: value for name, value in os.environ.items() if not name.startswith("GIT_")},
    )
    return done.stdout if done.returncode == 0 else None


def _with_directories(directory: Path, listed: bytes | None) -> frozenset[str] | None:
    """What git has listed, and the directories above. A repository within the directory is listed by its name alone: its files are those that it keeps."""
    if listed is None:
        return None
    found: set[str] = set()
    names = [name.rstrip("/") for name in listed.decode("utf-8", "surrogateescape").split("\0")]
    while names:
        name = names.pop()
        below = directory / name
        if name and below.is_dir() and not below.is_symlink():
            inner = kept_files(below)
            if inner is None:
                inner = frozenset(str(path.relative_to(below)) for path in below.rglob("*"))
            found |= {f"{name}/{each}" for each in inner}
        while name and name not in found:
            found.add(name)
            name = name.rpartition("/")[0]
    return frozenset(found)
