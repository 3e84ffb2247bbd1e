"""Docstrings, comments and pages name modules that exist: `svc/store/table.py` by its path, `store.table` or `auth.logins.Watch` in short."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from svc.config.settings import SETTINGS

ROOT = Path(__file__).parents[2]
ROOMS = {path.name for path in (ROOT / "svc").iterdir() if path.is_dir()}
NO_MODULES = {"config.yaml", "resources.py", "server.get_user", "server.operation", "server.upgrade", "server.ws", "websocket.connect"}
"""Files and names of applications, which look alike."""

PATH = re.compile(r"(?<![\w/.-])((?:svc|bench|fuzz)/[\w/]+\.py)")
SHORT = re.compile(r"`(([a-z_]+)\.([A-Za-z_]\w*)(?:\.\w+)*)`")


@cache
def text_of_room(room: str) -> str:
    return "\n".join(path.read_text("utf-8") for path in (ROOT / "svc" / room).rglob("*.py"))


def is_there(room: str, name: str) -> bool:
    directory = ROOT / "svc" / room
    if (directory / f"{name}.py").exists() or (directory / name).is_dir():
        return True
    return (
        re.search(rf"^\s*(?:async def|def|class) {name}\b|^\s*(?:self\.)?{name}\b(?:: [^=\n]+)? ?=", text_of_room(room), re.MULTILINE)
        is not None
    )


def test_paths_of_modules_lead_somewhere() -> None:
    missing = []
    for path in (*(ROOT / "svc").rglob("*.py"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "bench").rglob("*.py"), ROOT / "CONTRIBUTING.md"):
        found = {named for named in PATH.findall(path.read_text("utf-8")) if not (ROOT / named).exists() and named != "fuzz/fuzz_x.py"}
        missing += [(str(path.relative_to(ROOT)), named) for named in sorted(found)]
    assert missing == []


def test_short_names_of_modules_lead_somewhere() -> None:
    settings = {row.name for row in SETTINGS} | {row.name.rpartition(".")[0] for row in SETTINGS}  # and sections
    missing = []
    for path in (ROOT / "svc").rglob("*.py"):
        for named, room, name in SHORT.findall(path.read_text("utf-8")):
            if room not in ROOMS or named in NO_MODULES or named in settings or named.startswith("config."):  # an attribute of a Config
                continue
            if not is_there(room, name):
                missing.append((str(path.relative_to(ROOT)), named))
    assert missing == []
