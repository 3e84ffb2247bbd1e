"""docs/testing.md, done as it says: its files are written, and pytest is run in their directory."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.waiting import LIMIT

pytestmark = pytest.mark.programs

PAGE = Path(__file__).parents[2] / "docs" / "testing.md"
_FILE = re.compile(r"^\*\*([\w./]+)\*\*\n\n```\w+\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def test_the_page_does_what_it_says(tmp_path: Path) -> None:
    files = _FILE.findall(PAGE.read_text("utf-8"))
    for name, text in files:
        path = tmp_path / "shop" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    tests = sum(len(re.findall(r"^ *(?:async )?def test_", text, re.MULTILINE)) for _, text in files)
    command = [sys.executable, "-m", "pytest", "-W", "error", "-q", "-p", "no:schemathesis", "-p", "no:asyncio"]
    first = subprocess.run(
        [*command, "tests/test_shop.py"], cwd=tmp_path / "shop", capture_output=True, text=True, timeout=LIMIT, check=False
    )
    assert "2 passed" in first.stdout, first.stdout + first.stderr
    done = subprocess.run(command, cwd=tmp_path / "shop", capture_output=True, text=True, timeout=LIMIT, check=False)
    assert f"{tests} passed" in done.stdout and not done.returncode, done.stdout + done.stderr
