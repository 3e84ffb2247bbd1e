"""`svc check-app`: what is wrong with an application, without a server (spec: configuration §6.1).

It is loaded as before a deployment (`svc.deploying.trying`): in a process of its own, in a root of its own that is removed afterwards.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from svc.cli.arguments import FAILED, Arguments, UsageError, named_directory
from svc.cli.output import printable
from svc.cli.start_notice import counted, shortest

if TYPE_CHECKING:
    from svc.apps.findings import Finding


def check_app(arguments: Arguments) -> int:
    from svc.apps.applications import name_of

    arguments.no_options_but()
    if len(arguments.words) > 1:
        raise UsageError("svc check-app takes one directory.")
    directory = named_directory(arguments.words[0] if arguments.words else ".")
    name = name_of(directory)
    findings = _findings(name, directory)
    errors = sum(found.is_fault for found in findings)
    if "json" in arguments.flags:
        print(json.dumps(_plain(name, directory, findings), ensure_ascii=False))
    else:
        for found in findings:
            print(printable(found.shown(name, shortest(directory)), lines=True))
        print(f"{printable(name)}: {_summary(errors, len(findings) - errors)}")
    return FAILED if errors else 0


def _findings(name: str, directory: Path) -> list[Finding]:
    from svc.apps.findings import Finding, findings_of
    from svc.deploying.trying import LoadFailed, TrialRequest, examine
    from svc.store.backup.watch import Watch

    def heard(line: str) -> None:
        print(printable(line), file=sys.stderr)

    with tempfile.TemporaryDirectory(prefix="svc-check-") as place:
        try:
            found = examine(TrialRequest(directory.resolve(), name), Path(place) / "trial", Watch(), heard)
        except LoadFailed as error:
            return [Finding(True, "config", "", 0, 0, error.message)]
    late = [Finding(False, "config", "", 0, 0, found.late)] if found.late else []
    return [*findings_of(found.entries, directory), *late]


def _plain(name: str, directory: Path, findings: list[Finding]) -> dict[str, object]:
    errors = sum(found.is_fault for found in findings)
    rows = [
        {
            "level": found.level,
            "entry": found.key,
            "file": found.file or None,
            "line": found.line or None,
            "column": found.column or None,
            "message": found.message,
        }
        for found in findings
    ]
    return {"application": name, "directory": str(directory), "errors": errors, "warnings": len(findings) - errors, "findings": rows}


def _summary(errors: int, warnings: int) -> str:
    """
    >>> _summary(0, 0), _summary(1, 2)
    ('fine', '1 error, 2 warnings')
    """
    parts = [counted(errors)] if errors else []
    parts += [f"{warnings} warning{'' if warnings == 1 else 's'}"] if warnings else []
    return ", ".join(parts) or "fine"
