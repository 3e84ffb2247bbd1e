"""Installing what an application needs into a directory of its own (spec: deployment §4).

`python -m pip install --target DIR` puts the packages there, and nothing of the interpreter changes. A command of the application runs in its
directory, with PIP_TARGET naming the same place.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from svc.apps.packages import DIRECTORY
from svc.deploying.commands import CommandFailed, Outcome, clean_environment, run_command
from svc.deploying.requirements import REQUIREMENTS, installed, missing, read_requirements
from svc.deploying.unpacking import remove_tree
from svc.errors import NoSpace
from svc.store.backup.watch import Watch

TIMEOUT_MS = 300_000
SHOWN_LINES = 12  # of the output of a command that has failed

_FULL = "No space left on device"


@dataclass(frozen=True)
class Install:
    """`command`: for a shell; empty: what is missing is installed with pip. `timeout_ms`: for either."""

    command: str = ""
    timeout_ms: int = TIMEOUT_MS


def install(directory: Path, wanted: Install, watch: Watch, on_line: Callable[[str], None]) -> bool:
    """Install what the application in a directory needs. Returns whether something was run. Raises BadRequirements, CommandFailed, NoSpace.

    With pip, what is installed already is replaced when all of it is there.
    """
    packages = directory / DIRECTORY
    if wanted.command:
        environment = clean_environment(os.environ, PIP_TARGET=str(packages), PIP_UPGRADE="1")
        on_line(f"$ {wanted.command}")
        outcome = run_command(
            ["/bin/sh", "-c", wanted.command], directory, wanted.timeout_ms / 1000, environment=environment, watch=watch, on_line=on_line
        )
        _check(outcome, "The install command", wanted.timeout_ms)
        return True
    lines = read_requirements(directory)
    if not missing(lines, packages if packages.is_dir() else None):
        return False
    needed = missing(lines)
    if find_spec("pip") is None:
        raise CommandFailed(
            f"{', '.join(needed[:5])} cannot be installed, because this Python has no pip: install it, or what is missing, with"
            f" {sys.executable}, or name an install_command",
            500,
        )
    new, pins = directory / f"{DIRECTORY}.new", directory / f"{DIRECTORY}.pins"
    remove_tree(new)
    pins.write_text("\n".join(installed()) + "\n")  # there is one version of each package in the interpreter, and what it has itself counts
    on_line(f"installs {', '.join(needed[:20])}{' and more' if len(needed) > 20 else ''}")
    # From the file itself where it has options, such as the address of an index; else exactly what is missing.
    words = ["-r", REQUIREMENTS] if any(line.startswith("-") for line in lines) else ["--", *needed]
    options = ["--no-input", "--disable-pip-version-check", "--no-color", "--progress-bar=off", "--constraint", str(pins)]
    command = [sys.executable, "-m", "pip", "install", "--target", str(new), *options]
    try:
        outcome = run_command(
            [*command, *words], directory, wanted.timeout_ms / 1000, environment=clean_environment(os.environ), watch=watch, on_line=on_line
        )
        _check(outcome, "pip", wanted.timeout_ms)
        old = directory / f"{DIRECTORY}.old"
        remove_tree(old)
        if packages.exists():
            packages.rename(old)
        if new.exists():
            new.rename(packages)
        remove_tree(old)
    finally:
        remove_tree(new)
        remove_tree(pins)
    return True


def _check(outcome: Outcome, what: str, timeout_ms: int) -> None:
    if outcome.status == 0:
        return
    lines = "\n".join(outcome.output[-SHOWN_LINES:])
    if _FULL in lines:
        raise NoSpace(f"No space left for the packages of the application: {what} has failed")
    if outcome.status is None:
        raise CommandFailed(f"{what} has not ended within {timeout_ms} ms\n{lines}".rstrip())
    how = f"signal {-outcome.status}" if outcome.status < 0 else f"status {outcome.status}"
    raise CommandFailed(f"{what} has failed with {how}\n{lines}".rstrip())
