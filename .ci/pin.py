"""Writes .ci/constraints.txt, the releases that .ci/run installs: python .ci/pin.py python3.11 python3.12 python3.13

Asks pip of each interpreter what it would install for the tests, and installs nothing. A release that only some of them get has a marker.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FILE = ROOT / ".ci" / "constraints.txt"
HEAD = "# What .ci/run installs; a nightly run installs the newest. Written by .ci/pin.py.\n"


def resolve(python: str) -> tuple[str, dict[str, str]]:
    """(version of Python, name -> release)."""
    command = [python, "-m", "pip", "install", "--dry-run", "--ignore-installed", "--quiet", "--report", "-", "--editable", f"{ROOT}[test]"]
    report = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
    found = (each["metadata"] for each in report["install"])
    releases = {each["name"].lower().replace("_", "-").replace(".", "-"): each["version"] for each in found}
    releases.pop("svc", None)
    return report["environment"]["python_version"], releases


def merge(resolved: Mapping[str, Mapping[str, str]]) -> list[str]:
    """Lines, in the order of names. A release that the newest Python gets also holds for those to come, and that of the oldest for none before.

    >>> merge({"3.11": {"a": "1", "b": "1", "c": "1"}, "3.12": {"a": "1", "b": "2"}, "3.13": {"a": "1", "b": "2"}})
    ['a==1', 'b==1; python_version == "3.11"', 'b==2; python_version >= "3.12"', 'c==1; python_version == "3.11"']
    """
    versions = sorted(resolved, key=_key)
    holders: dict[tuple[str, str], list[str]] = defaultdict(list)
    for version in versions:
        for name, release in resolved[version].items():
            holders[name, release].append(version)
    lines = []
    for (name, release), having in sorted(holders.items(), key=lambda item: (item[0][0], _key(item[1][0]))):
        if having == versions:
            lines.append(f"{name}=={release}")
        elif having == versions[-len(having) :]:
            lines.append(f'{name}=={release}; python_version >= "{having[0]}"')
        else:
            lines += [f'{name}=={release}; python_version == "{version}"' for version in having]
    return lines


def _key(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def main(interpreters: Sequence[str]) -> None:
    lines = merge(dict(map(resolve, interpreters)))
    FILE.write_text(HEAD + "".join(f"{line}\n" for line in lines))


if __name__ == "__main__":
    main(sys.argv[1:])
