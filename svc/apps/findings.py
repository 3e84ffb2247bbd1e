"""What was found when an application was loaded, as lines for its author: `shop/schema.graphql:3:12: error: ...` (spec: configuration §9.2)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from svc.apps.config_file import CONFIG_FILE, overlooked, read_config
from svc.apps.status import EntryStatus

_PLACE = re.compile(r"(?P<file>[^\s:]+)(?:: (?P<inner>[^\s:]+))?:(?P<line>\d+)(?::(?P<column>\d+))?: (?P<text>.*)", re.DOTALL)
_FILE = re.compile(r"(?P<file>[^\s:]+\.\w+): (?P<text>.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Finding:
    """`key`: the entry of config.yaml. `file`: below the directory of the application, "" if none is known. `line`, `column`: from 1, 0 if unknown.
    `message`: without them."""

    is_fault: bool
    key: str
    file: str
    line: int
    column: int
    message: str

    @property
    def level(self) -> str:
        return "error" if self.is_fault else "warning"

    def shown(self, name: str, directory: str) -> str:
        """`name`: of the application. `directory`: as paths are to begin."""
        if not self.file:
            return f"{name}: {self.level}: {self.key}: {self.message}"
        place = f"{directory.rstrip('/')}/{self.file}" + "".join(f":{number}" for number in (self.line, self.column) if number)
        return f"{place}: {self.level}: {self.message}"


def findings_of(entries: Mapping[str, EntryStatus], directory: Path, *, checks_names: bool = False) -> Iterator[Finding]:
    """What the statuses of an application say: faults and warnings, in the order of its entries. `checks_names`: what is not known is a fault."""
    for key, status in entries.items():
        for is_fault, message in status.graded():
            yield _finding(is_fault or (checks_names and message in status.unknown), key, message, directory)


def left_out(directory: Path) -> Iterator[Finding]:
    """What an application has and does not load, or that it has nothing: warnings. Reads the directory."""
    try:
        remarks = overlooked(directory, read_config(directory))
    except (OSError, ValueError):
        return  # a fault, which its load has found
    for remark in remarks:
        yield Finding(False, "config", CONFIG_FILE if (directory / CONFIG_FILE).is_file() else "", 0, 0, remark)


def _finding(is_fault: bool, key: str, message: str, directory: Path) -> Finding:
    """The place at the beginning of a message: of a module it is behind the file that was to be loaded, for the fault may be in another one.

    >>> _finding(True, "resources", "resources.py: lib/prices.py:3: NameError: x", Path("/nowhere"))
    Finding(is_fault=True, key='resources', file='lib/prices.py', line=3, column=0, message='NameError: x')
    """
    match = _PLACE.match(message)
    if match is not None:
        return Finding(is_fault, key, match["inner"] or match["file"], int(match["line"]), int(match["column"] or 0), match["text"])
    match = _FILE.match(message)
    if match is not None and (directory / match["file"]).is_file():
        return Finding(is_fault, key, match["file"], 0, 0, match["text"])
    return Finding(is_fault, key, "", 0, 0, message)
