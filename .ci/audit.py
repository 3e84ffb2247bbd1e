"""Whether a release that an installation has is known to be faulty: python .ci/audit.py [--all] [--strict]

Asks pip-audit (`pip install '.[audit]'`) about the dependencies of svc as they are installed here, the optional ones that are there included; `--all`: about
everything that is installed, the tools of the tests too. It asks PyPI, and OSV about what PyPI does not know.

Exit status: 1 if a fault is known; 0 if none is. What could not be asked about is named: no network, no data of that release. (pip-audit itself says then
that no faults are known, and ends with 0.) With `--strict` that is 2.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

SERVICES = ("pypi", "osv")
TIMEOUT = 15  # seconds for an answer

Releases = dict[str, str]
Ask = Callable[[str, Mapping[str, str]], Any]
"""(service, name -> release) -> the report of pip-audit, None if it made none."""


def installed(root: str | None = "svc") -> Releases:
    """Name -> release of what is installed: of a distribution and all that it needs, with the extras that are there; None: everything."""
    found = {canonicalize_name(each.metadata["Name"]): each for each in metadata.distributions()}
    if root is None:
        return {name: each.version for name, each in sorted(found.items()) if name != "svc"}
    if root not in found:
        raise SystemExit(f"{root} is not installed in this Python: pip install --editable '.[audit]'")
    reached: Releases = {}
    waiting = list(_needed(found[root], everything=True))
    while waiting:
        name = waiting.pop()
        if name in found and name not in reached:
            reached[name] = found[name].version
            waiting += _needed(found[name], everything=False)
    return dict(sorted(reached.items()))


NOT_SERVED = frozenset(("test", "fuzz", "bench", "peers", "audit"))  # extras of those who work on svc


def _needed(distribution: metadata.Distribution, *, everything: bool) -> Iterator[str]:
    """The names of what a distribution needs; `everything`: with its extras, but for NOT_SERVED."""
    extras = [extra for extra in distribution.metadata.get_all("Provides-Extra") or () if extra not in NOT_SERVED] if everything else []
    for text in distribution.requires or ():
        requirement = Requirement(text)
        if requirement.marker is None or any(requirement.marker.evaluate({"extra": extra}) for extra in ("", *extras)):
            yield canonicalize_name(requirement.name)


def ask_pip_audit(service: str, releases: Mapping[str, str]) -> Any:
    with tempfile.TemporaryDirectory() as directory:
        listed, report = Path(directory) / "requirements.txt", Path(directory) / "report.json"
        listed.write_text("".join(f"{name}=={release}\n" for name, release in releases.items()))
        words = ["--requirement", str(listed), "--no-deps", "--disable-pip", "--vulnerability-service", service, "--timeout", str(TIMEOUT)]
        command = [sys.executable, "-m", "pip_audit", *words, "--progress-spinner", "off", "--format", "json", "--output", str(report)]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if "No module named pip_audit" in done.stdout:
            raise SystemExit("pip-audit is missing: pip install --editable '.[audit]'")
        return json.loads(report.read_text()) if report.exists() and report.stat().st_size else None


def audit(releases: Releases, ask: Ask) -> tuple[list[str], Releases]:
    """(a line for each fault, what nothing is known of)."""
    faults: list[str] = []
    left = dict(releases)
    for service in SERVICES:
        report = ask(service, left) if left else None
        for each in () if report is None else report["dependencies"]:
            name = canonicalize_name(each["name"])
            if name in left and "vulns" in each:
                faults += _faults(name, left.pop(name), each["vulns"])
    return faults, left


def _faults(name: str, release: str, found: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    for each in found:
        names = ", ".join([each["id"], *each.get("aliases", ())])
        repaired = each.get("fix_versions") or ()
        remedy = f"repaired in {', '.join(repaired)}" if repaired else "no release repairs it"
        yield f"{name} {release}: {names}; {remedy}"


def main(words: list[str] | None = None, ask: Ask = ask_pip_audit) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--strict", action="store_true")
    options = parser.parse_args(words)
    releases = installed(None if options.all else "svc")
    faults, left = audit(releases, ask)
    for line in faults:
        print(line)
    asked = len(releases) - len(left)
    print(f"{asked} of {len(releases)} releases were looked up, and {len(faults) or 'no'} faults found.")
    if left:
        print(f"NOT AUDITED, because no data could be reached: {', '.join(f'{name} {release}' for name, release in left.items())}")
    return 1 if faults else 2 if left and options.strict else 0


if __name__ == "__main__":
    sys.exit(main())
