"""Runs pytest, and writes to a file what became of its tests: python -P .ci/outcomes.py FILE [arguments for pytest]

The file has a JSON object: `counts`, how many tests have passed, failed and so on; `failed`, node id -> what was printed of a test that failed in any of its
phases; `passed`, the same of those that did not. Each test counts once. `errors`: files that could not be collected.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path

import pytest


class Outcomes:
    """A plugin of pytest, and of no worker."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._reports: dict[str, list[pytest.TestReport]] = {}
        self._errors: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._reports.setdefault(report.nodeid, []).append(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._errors.append(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        counts: Counter[str] = Counter()
        texts: dict[str, dict[str, str]] = {"failed": {}, "passed": {}}
        for nodeid, reports in self._reports.items():
            outcome = _outcome(reports)
            counts[outcome] += 1
            if outcome in texts:
                texts[outcome][nodeid] = "\n".join(_text(report) for report in reports if report.failed) or _text(reports[-1])
        self._path.write_text(json.dumps({"counts": counts, "errors": self._errors, **texts}))


def _outcome(reports: list[pytest.TestReport]) -> str:
    if any(report.failed for report in reports):
        return "failed"
    if any(hasattr(report, "wasxfail") for report in reports):
        return "xfailed" if any(report.skipped for report in reports) else "xpassed"
    return "skipped" if any(report.skipped for report in reports) else "passed"


def _text(report: pytest.TestReport) -> str:
    """Where it failed, if it did, and what it has printed and logged."""
    parts = [report.longreprtext] if report.failed else []
    parts += [f"-- {title} --\n{content}" for title, content in report.sections]
    return "\n".join(parts)


if __name__ == "__main__":
    sys.exit(pytest.main(sys.argv[2:], plugins=[Outcomes(Path(sys.argv[1]))]))
