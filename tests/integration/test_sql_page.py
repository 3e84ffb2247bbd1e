"""docs/sql.md, done as it says, with the data of the demo."""

from __future__ import annotations

import io
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console

from svc.demo import make_directory
from svc.demo.data import APP
from tests.integration.conftest import PASSWORD, Process
from tests.support.forked import run_command
from tests.support.walkthrough import LIMIT, blocks, commands

pytestmark = pytest.mark.programs

PAGE = Path(__file__).parents[2] / "docs" / "sql.md"
COMMANDS = [each for block in blocks(PAGE.read_text("utf-8")) if block.language == "console" for each in commands(block.text)]


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[Process]:
    make_directory(tmp_path / "root", Console(file=io.StringIO()))
    process = Process(tmp_path / "root", APP).start()
    yield process
    assert process.stop() == 0, process.output()


def run(command: str, server: Process) -> str:
    """What a command prints. A command of svc alone is forked; a line with others is one for the shell."""
    home = server.root.parent
    env = {**os.environ, "HOME": str(home), "ROOTPATH": str(server.root), "LOGIN": f"admin:{PASSWORD}"}
    line, _, rest = command.partition(" <<'EOF'\n")
    if line.startswith("svc ") and "|" not in line:
        done = run_command(shlex.split(line)[1:], cwd=home, env=env, timeout=LIMIT, given=rest.removesuffix("EOF"))
    else:
        env["PATH"] = f"{Path(sys.executable).parent}:{env['PATH']}"
        text = command.replace("http://localhost:9926", server.url).replace("curl ", "curl -s ")
        done = subprocess.run(["bash", "-c", text], cwd=home, env=env, capture_output=True, text=True, timeout=LIMIT, check=False)
    return done.stdout + done.stderr


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_the_page_does_what_it_says(demo: Process) -> None:
    """Later commands find what earlier ones have written."""
    for command, output in COMMANDS:
        assert run(command, demo).splitlines() == output.splitlines(), command


def test_all_commands_are_found() -> None:
    assert len(COMMANDS) == PAGE.read_text("utf-8").count("\n$ ") > 20
