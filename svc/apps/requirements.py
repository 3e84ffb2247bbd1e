"""What an application needs of installed packages, and does not get (spec: plugins §4).

One interpreter has one version of each package, the one that is found first: an application that needs another one, or has another one in its own
directory of packages, is told so.
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterator, Sequence
from importlib import metadata
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion

from svc.apps.packages import DIRECTORY, PROJECT, REQUIREMENTS
from svc.apps.reading import read_limited

MAX_BYTES = 1 << 20  # of one of these files
MAX_MESSAGES = 20
_SHOWN = 10


def unmet_requirements(directory: Path) -> list[str]:
    """What is to be said of the packages of the application in a directory. Reads files: for a helper thread."""
    file, lines = _read(directory)
    packages = directory / DIRECTORY
    if not lines and not packages.is_dir():
        return []
    path = list(dict.fromkeys([*sys.path, str(packages.resolve())]))
    messages: list[str] = []
    missing: list[str] = []
    named: set[str] = set()
    for requirement in _requirements(lines):
        named.add(canonicalize_name(requirement.name))
        found = next(iter(metadata.distributions(name=requirement.name, path=path)), None)
        if found is None:
            missing.append(str(requirement))
        elif not _fits(requirement, found):
            messages.append(f"{file} needs {requirement}, but all applications have {_described(found)}")
    if missing:
        shown = ", ".join(missing[:_SHOWN]) + (f" and {len(missing) - _SHOWN} more" if len(missing) > _SHOWN else "")
        what = f"-r {REQUIREMENTS}" if file == REQUIREMENTS else " ".join(f"'{each}'" for each in missing[:_SHOWN])
        messages.append(f"{file}: not installed: {shown}. In the directory of the application: pip install --target {DIRECTORY} {what}")
    messages += _hidden(packages, path, named)
    return messages[:MAX_MESSAGES]


def _hidden(packages: Path, path: Sequence[str], named: set[str]) -> Iterator[str]:
    """Packages of its own that are not used, but for those whose requirement is looked at already."""
    for own in metadata.distributions(path=[str(packages.resolve())]):
        name = own.metadata["Name"]
        if not name or canonicalize_name(name) in named:
            continue
        first = next(iter(metadata.distributions(name=name, path=list(path))), None)
        if first is not None and first.version != own.version:
            yield f"{name} {own.version} in {DIRECTORY} is not used: all applications have {_described(first)}"


def _described(found: metadata.Distribution) -> str:
    """Name, version, and whose it is."""
    place = Path(str(found.locate_file("")))
    owner = f"the application '{place.parent.name}'" if place.name == DIRECTORY else "the environment of the service"
    return f"{found.metadata['Name']} {found.version} of {owner}"


def _fits(requirement: Requirement, found: metadata.Distribution) -> bool:
    try:
        return requirement.url is not None or requirement.specifier.contains(found.version, prereleases=True)
    except (InvalidVersion, TypeError):
        return False


def _read(directory: Path) -> tuple[str, list[str]]:
    """(name of the file, its requirements); what cannot be read has none."""
    for name in (REQUIREMENTS, PROJECT):
        try:
            text = read_limited(directory / name, MAX_BYTES)[:MAX_BYTES].decode("utf-8-sig")
        except (OSError, ValueError):
            continue
        return name, _lines(text) if name == REQUIREMENTS else _of_project(text)
    return "", []


def _lines(text: str) -> list[str]:
    """
    >>> _lines("# of the shop\\nrequests >= 2 # http\\n\\nhttpx\\\\\\n[http2]\\n-r more.txt\\n")
    ['requests >= 2', 'httpx[http2]']
    """
    lines = (line.split(" #")[0].strip() for line in text.replace("\r\n", "\n").replace("\\\n", "").split("\n"))
    return [line for line in lines if line and line[0] not in "#-"]


def _of_project(text: str) -> list[str]:
    try:
        project = tomllib.loads(text).get("project")
    except (tomllib.TOMLDecodeError, RecursionError):
        return []
    found = project.get("dependencies") if isinstance(project, dict) else None
    return [each for each in found if isinstance(each, str)] if isinstance(found, list) else []


def _requirements(lines: Sequence[str]) -> Iterator[Requirement]:
    for line in lines:
        try:
            requirement = Requirement(line)
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                yield requirement
        except InvalidRequirement:
            continue
