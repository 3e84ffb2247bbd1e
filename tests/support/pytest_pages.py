"""Pages of docs/ whose files are an application with tests."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tests.support.waiting import LIMIT

DOCS = Path(__file__).parents[2] / "docs"
COMMAND = (sys.executable, "-m", "pytest", "-W", "error", "-q", "-p", "no:schemathesis", "-p", "no:asyncio")
_FILE = re.compile(r"^\*\*([\w./]+)\*\*\n\n```\w+\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def write_page(page: str, directory: Path) -> int:
    """Write the files of a page. Returns the number of tests in them."""
    files = _FILE.findall((DOCS / page).read_text("utf-8"))
    for name, text in files:
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return sum(len(re.findall(r"^ *(?:async )?def test_", text, re.MULTILINE)) for _, text in files)


def run_pytest(directory: Path, *arguments: str) -> tuple[int, str]:
    done = subprocess.run([*COMMAND, *arguments], cwd=directory, capture_output=True, text=True, timeout=LIMIT, check=False)
    return done.returncode, done.stdout + done.stderr


def run_page(page: str, directory: Path) -> None:
    """Write the files of a page, and assert that its tests pass."""
    tests = write_page(page, directory)
    status, output = run_pytest(directory)
    assert f"{tests} passed" in output and not status, output
