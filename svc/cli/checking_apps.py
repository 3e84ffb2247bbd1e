"""`svc check-app`: what is wrong with applications, without a server (spec: configuration §6.1).

Each is loaded as before a deployment (`svc.deploying.trying`): in a process of its own, in a root of its own that is removed afterwards. The ones that are
named before it are loaded there first, as by one server, so that what they both claim is found.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Mapping
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
    directories: dict[str, Path] = {}
    for word in arguments.words or ["."]:
        directory = named_directory(word)
        if (other := directories.setdefault(name_of(directory), directory)) is not directory:
            raise UsageError(f"{shortest(other)} and {shortest(directory)} have the same name; a server would serve one of them.")
    checked: list[dict[str, object]] = []
    before: dict[str, Path] = {}
    failed = False
    for name, directory in directories.items():
        findings = _findings(name, directory, before)
        before[name] = directory.resolve()
        errors = sum(found.is_fault for found in findings)
        failed = failed or errors > 0 or ("strict" in arguments.flags and len(findings) > 0)
        checked.append(_plain(name, directory, findings))
        if "json" not in arguments.flags:
            for found in findings:
                print(printable(found.shown(name, shortest(directory)), lines=True))
            print(f"{printable(name)}: {_summary(errors, len(findings) - errors)}")
    if "json" in arguments.flags:
        print(json.dumps(checked[0] if len(checked) == 1 else checked, ensure_ascii=False))
    return FAILED if failed else 0


def _findings(name: str, directory: Path, before: Mapping[str, Path]) -> list[Finding]:
    """`before`: the applications that are loaded first."""
    from svc.apps.findings import Finding, findings_of, left_out
    from svc.deploying.trying import LoadFailed, TrialRequest, examine
    from svc.store.backup.watch import Watch

    def heard(line: str) -> None:
        print(printable(line), file=sys.stderr)

    with tempfile.TemporaryDirectory(prefix="svc-check-") as place:
        try:
            found = examine(TrialRequest(directory.resolve(), name, before=dict(before)), Path(place) / "trial", Watch(), heard)
        except LoadFailed as error:
            return [Finding(True, "config", "", 0, 0, error.message)]
    late = [Finding(False, "config", "", 0, 0, found.late)] if found.late else []
    return [*findings_of(found.entries, directory, checks_names=True), *left_out(directory), *late]


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
