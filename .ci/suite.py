"""Runs the tests in two stages: python .ci/suite.py [arguments for pytest]

The first needs nothing but Python, and repeats nothing. The second are the tests marked `programs`, which start processes and wait for them: one that fails is
run once more, alone, at the end. If it passes then, it is named under "unsteady" with what both runs said, and the suite passes: each is a bug to mend.
The last line has the total of both stages. The exit status is 0 if all passed, 1 if not.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

OUTCOMES = Path(__file__).with_name("outcomes.py")
ALL_PASSED, SOME_FAILED, NONE_FOUND = 0, 1, 5  # exit statuses of pytest
ORDER = ("failed", "passed", "skipped", "xfailed", "xpassed", "errors")


@dataclass
class Outcome:
    """Of one run of pytest. `failed`, `passed`: node id -> what was printed. `errors`: files that could not be collected."""

    status: int
    counts: Counter[str] = field(default_factory=Counter)
    failed: dict[str, str] = field(default_factory=dict)
    passed: dict[str, str] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)

    @property
    def is_explained(self) -> bool:
        """Whether nothing has gone wrong but tests."""
        return self.status == SOME_FAILED and bool(self.failed) and not self.errors


def run_pytest(arguments: Sequence[str]) -> Outcome:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "outcomes.json"
        status = subprocess.call([sys.executable, "-P", str(OUTCOMES), str(path), *arguments], stdin=subprocess.DEVNULL)
        if not path.exists():
            return Outcome(status)
        said = json.loads(path.read_text())
        said["counts"] = Counter({**said["counts"], "errors": len(said["errors"])})
        return Outcome(status, **said)


def run_stage(name: str, marked: str, arguments: Sequence[str]) -> Outcome:
    print(f"== {name}: pytest -m {marked!r}", flush=True)
    began, before = time.monotonic(), _processor_seconds()
    outcome = run_pytest(["-m", marked, *arguments])
    print(f"{name}: {time.monotonic() - began:.0f} s, {_processor_seconds() - before:.0f} s of processor time", flush=True)
    return outcome


def _processor_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run_again(outcome: Outcome) -> Outcome:
    """What failed once more, one test after the other. The outcome of both: what passes now is counted as passed."""
    print(f"== once more, alone: {len(outcome.failed)}", flush=True)
    again = run_pytest(["-n0", *outcome.failed])
    unsteady = {nodeid: text for nodeid, text in outcome.failed.items() if nodeid in again.passed}
    print_unsteady(unsteady, again.passed)
    failed = {nodeid: text for nodeid, text in outcome.failed.items() if nodeid not in unsteady}
    counts = outcome.counts + Counter(passed=len(unsteady))
    counts.subtract(failed=len(unsteady))
    status = ALL_PASSED if outcome.is_explained and not failed else outcome.status
    return Outcome(status, counts, failed, outcome.passed, outcome.errors)


def print_unsteady(first: dict[str, str], second: dict[str, str]) -> None:
    if first:
        print("== unsteady")
    for nodeid, text in first.items():
        print(f"{nodeid}\n-- failed:\n{text}\n-- passed:\n{second[nodeid]}", flush=True)


def closing_line(counts: Counter[str], seconds: float) -> str:
    """As pytest writes it.

    >>> closing_line(Counter(skipped=1, passed=3), 61.5)
    '3 passed, 1 skipped in 61.50s (0:01:01)'
    """
    parts = [f"{counts[outcome]} {outcome}" for outcome in ORDER if counts[outcome] > 0]
    minutes, whole = divmod(int(seconds), 60)
    long = f" ({minutes // 60}:{minutes % 60:02}:{whole:02})" if seconds >= 60 else ""
    return f"{', '.join(parts) or 'no tests ran'} in {seconds:.2f}s{long}"


def main(arguments: Sequence[str]) -> int:
    began = time.monotonic()
    first = run_stage("first stage", "not programs", arguments)
    second = run_stage("second stage", "programs", arguments)
    if second.failed:
        second = run_again(second)
    outcomes = (first, second)
    for outcome in outcomes:
        for nodeid in outcome.failed:
            print(f"FAILED {nodeid}")
    for path in sorted({*first.errors, *second.errors}):
        print(f"ERROR {path}")
    statuses = [outcome.status for outcome in outcomes if outcome.status != NONE_FOUND]
    for status in statuses:
        if status not in (ALL_PASSED, SOME_FAILED):
            print(f"pytest ended with status {status}")
    print(closing_line(first.counts + second.counts, time.monotonic() - began), flush=True)
    return int(any(statuses) or not statuses)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
