"""docs/replication.md, done as it says, with other ports, and below a directory of its own."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import psutil
import pytest

from tests.integration.conftest import LIMIT, PASSWORD
from tests.support.ports import free_port
from tests.support.prepared import place_token_keys
from tests.support.waiting import wait_until
from tests.support.walkthrough import Block, blocks

pytestmark = pytest.mark.programs

PAGE = (Path(__file__).parents[2] / "docs" / "replication.md").read_text("utf-8")
PORT = re.compile(r"\b80[1-3][356]\b")


class Reader:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.ports = {number: str(free_port()) for number in sorted(set(PORT.findall(PAGE)))}
        self.exports = ""
        for name in "abc":
            place_token_keys(directory / name)

    def local(self, text: str) -> str:
        return PORT.sub(lambda match: self.ports[match[0]], text)

    def do(self, script: str) -> str:
        """The standard output of commands that must succeed."""
        if script.startswith("export"):
            self.exports = script
            return ""
        env = {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "HOME": str(self.directory),
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        }
        done = subprocess.run(
            ["bash", "-ec", f"{self.exports}\n{self.local(script)}"],
            cwd=self.directory,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=6 * LIMIT,
            check=False,
        )
        assert done.returncode == 0, (script, done.stdout, done.stderr)
        return done.stdout

    def end(self, name: str) -> None:
        file = self.directory / name / "svc.pid"
        if not file.exists():
            return
        process = psutil.Process(int(file.read_text()))
        try:
            self.do(f"svc stop --ROOTPATH {name}")
        finally:
            if process.is_running():
                process.kill()  # its instances and its engine end with it

    def item(self, node: str) -> object:
        port = {"a": "8016", "b": "8026", "c": "8036"}[node]
        answer = httpx.get(f"http://127.0.0.1:{self.ports[port]}/Item/nut", auth=("admin", PASSWORD), timeout=LIMIT)
        return answer.json() if answer.status_code == 200 else None


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    reader = Reader(tmp_path)
    yield reader
    for name in "abc":
        log = tmp_path / name / "log" / "svc.log"
        print(f"--- {name}: {log.read_text(errors='replace')[-4000:] if log.exists() else 'no log'}")  # is shown if the test has failed
        reader.end(name)


def steps() -> list[Block]:
    part = PAGE[PAGE.index("## Three nodes") : PAGE.index("## On machines")]
    return blocks(part)


def test_three_nodes_in_five_commands(reader: Reader) -> None:
    for block in steps():
        if block.file:
            path = reader.directory / block.file
            path.parent.mkdir(exist_ok=True)
            path.write_text(block.text)
        elif block.language == "sh":
            reader.do(block.text)
        elif block.language == "json":
            expected = json.loads(block.text)
            wait_until(lambda: all(reader.item(node) == expected for node in "abc"), lambda: [reader.item(node) for node in "abc"])  # noqa: B023
    assert len([line for block in steps() if "add_node" in block.text for line in block.text.splitlines()]) == 5
