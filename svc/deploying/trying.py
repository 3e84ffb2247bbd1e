"""Loading a version in a process of its own before it is served (spec: deployment §6).

The process is `svc.server.trial`. It has the definitions of all tables, so that the application finds those of others, but none of their records; it may
take so much memory and time, and can end as it likes.
"""

from __future__ import annotations

import json
import os
import pickle
import re
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import svc
from svc.apps.load_limit import LOAD_SECONDS
from svc.apps.status import EntryStatus
from svc.deploying.commands import Outcome, run_command
from svc.deploying.unpacking import remove_tree
from svc.errors import ClientError
from svc.store.backup.watch import Watch
from svc.store.schema import TableDefinition

REQUEST, LOADED, RESULT = "request", "loaded", "result"  # files
MEMORY = 2 << 30  # bytes of private memory
SECONDS = LOAD_SECONDS + 10  # with the start of Python, and for the process to say itself what has not ended
SHOWN = 10  # faults in a message

_ROOT = str(Path(svc.__file__).resolve().parents[1])


@dataclass(frozen=True)
class TrialRequest:
    """`directory`: of the application `project`. `document`: the configuration. `tables`: of the store. `others`: definitions of the other applications.
    `directories`: of these, by name. `before`: applications that are loaded first, in this order, by name."""

    directory: Path
    project: str
    document: Mapping[str, Any] = field(default_factory=dict)
    tables: Sequence[TableDefinition] = ()
    others: Sequence[TableDefinition] = ()
    directories: Mapping[str, Path] = field(default_factory=dict)
    before: Mapping[str, Path] = field(default_factory=dict)


class LoadFailed(ClientError):
    """The application cannot be loaded; the message has file and line."""

    code = "LOAD_FAILED"


@dataclass(frozen=True)
class TrialResult:
    """How a trial load went. `modules`: what the application has imported. `files`: its own modules, below its directory."""

    warnings: list[str] = field(default_factory=list)
    modules: list[str] = field(default_factory=list)
    files: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class TrialFindings:
    """What a trial load has found. `entries`: key of config.yaml -> how it went. `late`: that what it starts with was still under way, or empty."""

    entries: Mapping[str, EntryStatus]
    late: str
    modules: list[str]
    files: list[str]


def try_load(request: TrialRequest, place: Path, watch: Watch, on_line: Callable[[str], None], seconds: float = SECONDS) -> TrialResult:
    """Load an application. Raises LoadFailed, Stopped. `place`: a directory that is made and removed."""
    found = examine(request, place, watch, on_line, seconds)
    faults: list[str] = []
    warnings: list[str] = []
    for key, entry in found.entries.items():
        for is_fault, message in entry.graded():
            (faults if is_fault else warnings).append(f"{key}: {message}")
    if faults:
        more = f"\nand {len(faults) - SHOWN} more" if len(faults) > SHOWN else ""
        raise LoadFailed(f"The application {request.project} cannot be loaded: " + "\n".join(faults[:SHOWN]) + more)
    if found.late:
        warnings.append(found.late)
    return TrialResult(warnings, found.modules, found.files)


def examine(request: TrialRequest, place: Path, watch: Watch, on_line: Callable[[str], None], seconds: float = SECONDS) -> TrialFindings:
    """As `try_load`, but with what was found, faults as well. Raises LoadFailed for a process that has ended before it could say so, and Stopped."""
    place.mkdir(mode=0o700)
    try:
        (place / REQUEST).write_bytes(pickle.dumps(request))
        said: list[str] = []

        def heard(line: str) -> None:
            if len(said) < SHOWN:
                said.append(line)
            on_line(line)

        # With all variables: the application may need them to be loaded, and will have them when it is served.
        environment = {**os.environ, "PYTHONUNBUFFERED": "1", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONFAULTHANDLER": "1", "SVC_TRIAL": "1"}
        environment["PYTHONPATH"] = os.pathsep.join([path for path in (environment.get("PYTHONPATH"), _ROOT) if path])
        environment.pop("SVC_SAFE_MODE", None)
        command = [sys.executable, "-m", "svc.server.trial", str(place)]
        outcome = run_command(command, place, seconds, environment=environment, watch=watch, on_line=heard)
        result = _read(place / RESULT)
        is_late = result is None and outcome.status is None
        if is_late:  # loading a version has an end, what it starts with may take longer: data, for instance
            result = _read(place / LOADED)
        if result is None:
            raise LoadFailed(_end(request, outcome, seconds))
    finally:
        remove_tree(place)
    entries = {
        key: EntryStatus(entry["status"], entry["messages"], entry["faults"], entry["unknown"]) for key, entry in result["entries"].items()
    }
    late = f"what it starts with has not ended within {seconds:g} s" if is_late else ""
    return TrialFindings(entries, late, result.get("modules", []), result.get("files", []))


def _read(file: Path) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] = json.loads(file.read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return found


def _end(request: TrialRequest, outcome: Outcome, seconds: float) -> str:
    """The message about a process that has not said how the load went."""
    name, status = f"The application {request.project}", outcome.status
    own = [
        found
        for line in outcome.output
        if (found := _frame(line)) is not None and Path(found[1]).is_relative_to(request.directory.resolve())
    ]
    place = f"{Path(own[0][1]).relative_to(request.directory.resolve())}:{own[0][2]}: " if own else ""
    if status is None:
        return f"{name} has not ended loading within {seconds:g} s"
    if status < 0:
        try:
            described = signal.Signals(-status).name
        except ValueError:
            described = f"signal {-status}"
        return f"{name} cannot be loaded: {place}the process that loaded it was ended by {described}"
    last = "" if not outcome.output else f"\n{chr(10).join(outcome.output[-SHOWN:])}"
    return f"{name} cannot be loaded: its code has ended the process with status {status}{last}"


_frame = re.compile(r' *File "([^"]+)", line (\d+)').match
