"""Tests that start processes without the mark `programs` fail."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.shards import ROOT

pytestmark = pytest.mark.programs

TESTS = """
import multiprocessing, os, subprocess, sys
import pytest

WAYS = {
    "run": lambda: subprocess.run([sys.executable, "--version"]),
    "system": lambda: os.system("true"),
    "fork": lambda: os.fork() or os._exit(0),
    "posix_spawn": lambda: os.posix_spawn("/bin/true", ["true"], {}),
    "exec": lambda: os.execv("/bin/true", ["true"]),
}

@pytest.mark.parametrize("way", WAYS)
def test_unmarked(way):
    WAYS[way]()

@pytest.fixture
def started():
    subprocess.run([sys.executable, "--version"])

def test_set_up(started):
    pass

def test_caught():
    try:
        subprocess.run([sys.executable, "--version"])
    except RuntimeError:
        pass

def test_marked(started):
    WAYS["run"]()

test_marked = pytest.mark.programs(test_marked)

def test_nothing():
    pass
"""


def test_only_marked_tests_start_processes(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = programs\naddopts = -p no:cacheprovider -rA\n")
    (tmp_path / "conftest.py").write_text(
        "from tests.support.process_guard import ProcessGuard\n\ndef pytest_configure(config):\n    config.pluginmanager.register(ProcessGuard())\n"
    )
    (tmp_path / "test_it.py").write_text(TESTS)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    command = [sys.executable, "-m", "pytest"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120, check=False)
    lines = done.stdout.splitlines()
    assert {line for line in lines if line.startswith("PASSED")} == {"PASSED test_it.py::test_marked", "PASSED test_it.py::test_nothing"}
    assert "6 failed, 2 passed, 1 error" in lines[-1], done.stdout
