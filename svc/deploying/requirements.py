"""What an application needs of others' packages, and what of that is missing (spec: deployment §4)."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterable, Sequence
from importlib import metadata
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion

from svc.apps.packages import DIRECTORY
from svc.errors import ClientError

REQUIREMENTS, PROJECT = "requirements.txt", "pyproject.toml"
MOST_BYTES = 1 << 20  # of one of these files
MOST_CHECKED = 2000  # requirements, with those of requirements


class BadRequirements(ClientError):
    """A file of requirements that cannot be read."""


def read_requirements(directory: Path) -> list[str]:
    """The lines of `requirements.txt`, else the dependencies in `pyproject.toml`, else nothing. Options (`-r more.txt`) are among the lines.

    Raises BadRequirements.
    """
    try:
        if (directory / REQUIREMENTS).is_file():
            return _lines(_text(directory / REQUIREMENTS))
        if (directory / PROJECT).is_file():
            return _of_project(_text(directory / PROJECT))
    except (OSError, UnicodeDecodeError) as error:
        raise BadRequirements(f"The requirements cannot be read: {error}") from error
    return []


def _text(path: Path) -> str:
    with path.open("rb") as file:
        data = file.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise BadRequirements(f"{path.name} has more than {MOST_BYTES} bytes")
    return data.decode("utf-8-sig")


def _lines(text: str) -> list[str]:
    """
    >>> _lines("# of the shop\\nrequests >= 2 # http\\n\\nhttpx\\\\\\n  [http2]\\n-r more.txt\\n")
    ['requests >= 2', 'httpx  [http2]', '-r more.txt']
    """
    lines = (line.split(" #")[0].strip() for line in text.replace("\r\n", "\n").replace("\\\n", "").split("\n"))
    return [line for line in lines if line and not line.startswith("#")]


def _of_project(text: str) -> list[str]:
    try:
        project = tomllib.loads(text).get("project", {})
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise BadRequirements(f"{PROJECT}: {error}") from None
    found = project.get("dependencies", []) if isinstance(project, dict) else []
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        raise BadRequirements(f"{PROJECT}: project.dependencies must be a list of texts")
    for each in found:
        try:
            Requirement(each)
        except InvalidRequirement as error:
            raise BadRequirements(f"{PROJECT}: project.dependencies: {error}".replace("\n", " ")) from None
    return [each.strip() for each in found]


def missing(lines: Sequence[str], packages: Path | None = None) -> list[str]:
    """Those that neither this interpreter nor the directory `packages` has, with what they need themselves. Options and what is no requirement are
    always missing: the installer reads them. `packages`: as made by `pip install --target`."""
    path = [*_own_path(), *([str(packages)] if packages is not None else [])]
    known: dict[str, metadata.Distribution | None] = {}
    return [line for line in lines if not _is_there(line, path, known)]


def _own_path() -> list[str]:
    """Where this interpreter finds packages, without those of applications that run."""
    return [entry for entry in sys.path if Path(entry).name != DIRECTORY]


def installed() -> list[str]:
    """`name==version` of all that the interpreter has."""
    found: dict[str, str] = {}
    for each in metadata.distributions(path=_own_path()):
        name, version = each.metadata["Name"], each.version
        if name and version and _is_requirement(pin := f"{canonicalize_name(name)}=={version}"):
            found.setdefault(canonicalize_name(name), pin)
    return sorted(found.values())


def _is_requirement(text: str) -> bool:
    try:
        Requirement(text)
    except InvalidRequirement:
        return False
    return True


def _is_there(line: str, path: list[str], known: dict[str, metadata.Distribution | None]) -> bool:
    try:
        waiting = [(Requirement(line), "")]
    except InvalidRequirement:
        return False
    seen: set[str] = set()
    while waiting:
        requirement, extra = waiting.pop()
        if str(requirement) in seen or len(seen) > MOST_CHECKED:
            continue
        seen.add(str(requirement))
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": extra}):
            continue
        name = canonicalize_name(requirement.name)
        if name not in known:
            known[name] = next(iter(metadata.distributions(name=requirement.name, path=path)), None)
        found = known[name]
        if requirement.url is not None or found is None or not _fits(requirement, found):
            return False
        waiting += [(inner, wanted) for wanted in ("", *requirement.extras) for inner in _parsed(found.requires or ())]
    return True


def _fits(requirement: Requirement, found: metadata.Distribution) -> bool:
    try:
        return requirement.specifier.contains(found.version, prereleases=True)
    except (InvalidVersion, TypeError):
        return False


def _parsed(lines: Iterable[str]) -> list[Requirement]:
    found = []
    for line in lines:
        try:
            found.append(Requirement(line))
        except InvalidRequirement:
            continue
    return found
