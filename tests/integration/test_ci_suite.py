"""`.ci/suite.py` over a few tests of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.programs

SUITE = Path(__file__).parents[2] / ".ci" / "suite.py"
CONFIGURATION = """
[pytest]
markers = programs
addopts = -q -p xdist -p no:cacheprovider
"""
PASSES = """
def test_it():
    pass
"""
FAILS = """
def test_it():
    print("said by the test")
    assert 1 == 2
"""
FAILS_AT_FIRST = """
from pathlib import Path

def test_it():
    path = Path(__file__).with_suffix(".seen")
    seen = path.exists()
    path.touch()
    print("the second time" if seen else "the first time")
    assert seen
"""
FAILS_AT_FIRST_TEAR_DOWN = """
from pathlib import Path
import pytest

@pytest.fixture
def left():
    yield
    path = Path(__file__).with_suffix(".seen")
    seen = path.exists()
    path.touch()
    assert seen

def test_it(left):
    pass
"""
ENDS_AT_FIRST = """
import os
from pathlib import Path

def test_it():
    path = Path(__file__).with_suffix(".seen")
    if not path.exists():
        path.touch()
        os._exit(1)
"""
IS_BROKEN = "import nothing_of_this_name\n"


def run_suite(directory: Path, stages: tuple[str, str], *arguments: str) -> tuple[int, list[str]]:
    """(exit status, lines of its output) of the suite over two files, the second of which starts programs."""
    (directory / "pytest.ini").write_text(CONFIGURATION)
    first, second = stages
    (directory / "test_first.py").write_text(first)
    (directory / "test_second.py").write_text(second + "\nimport pytest\npytestmark = pytest.mark.programs\n")
    done = subprocess.run(
        [sys.executable, str(SUITE), *arguments],
        cwd=directory,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
        check=False,
    )
    print(done.stdout)
    return done.returncode, done.stdout.splitlines()


def closes_with(lines: list[str], counts: str) -> bool:
    return lines[-1].startswith(f"{counts} in ") and lines[-1].endswith("s")


def test_all_pass(tmp_path: Path) -> None:
    status, lines = run_suite(tmp_path, (PASSES, PASSES))
    assert status == 0 and closes_with(lines, "2 passed") and "== unsteady" not in lines


@pytest.mark.parametrize("second", [FAILS_AT_FIRST, FAILS_AT_FIRST_TEAR_DOWN])
def test_a_program_that_fails_once_is_unsteady(tmp_path: Path, second: str) -> None:
    status, lines = run_suite(tmp_path, (PASSES, second))
    assert status == 0 and closes_with(lines, "2 passed")
    unsteady = lines[lines.index("== unsteady") :]
    assert unsteady[1] == "test_second.py::test_it" and "-- failed:" in unsteady and "-- passed:" in unsteady
    assert any("assert seen" in line for line in unsteady)
    if second == FAILS_AT_FIRST:
        assert "the first time" in unsteady and "the second time" in unsteady


def test_a_worker_that_ends_is_a_failure_of_its_test(tmp_path: Path) -> None:
    status, lines = run_suite(tmp_path, (PASSES, ENDS_AT_FIRST), "-n1")
    assert status == 0 and closes_with(lines, "2 passed") and "== unsteady" in lines


@pytest.mark.parametrize(
    ("stages", "counts", "failed"),
    [
        ((FAILS_AT_FIRST, PASSES), "1 failed, 1 passed", "FAILED test_first.py::test_it"),  # the first stage repeats nothing
        ((PASSES, FAILS), "1 failed, 1 passed", "FAILED test_second.py::test_it"),
        ((FAILS, FAILS_AT_FIRST), "1 failed, 1 passed", "FAILED test_first.py::test_it"),
    ],
)
def test_what_fails_fails_the_suite(tmp_path: Path, stages: tuple[str, str], counts: str, failed: str) -> None:
    status, lines = run_suite(tmp_path, stages)
    assert status == 1 and closes_with(lines, counts) and failed in lines


@pytest.mark.parametrize(
    ("stages", "broken"), [((IS_BROKEN, PASSES), "test_first.py"), ((PASSES, IS_BROKEN), "test_second.py")]
)  # pytest looks at both files in each stage
def test_a_file_that_cannot_be_collected_fails_the_suite(tmp_path: Path, stages: tuple[str, str], broken: str) -> None:
    status, lines = run_suite(tmp_path, stages)
    assert status == 1 and closes_with(lines, "2 errors")
    assert lines[-4] == f"ERROR {broken}"  # once, behind what both stages have printed


def test_arguments_choose_tests(tmp_path: Path) -> None:
    status, lines = run_suite(tmp_path, (PASSES, FAILS), "test_first.py")
    assert status == 0 and closes_with(lines, "1 passed")
    status, lines = run_suite(tmp_path, (PASSES, PASSES), "-k", "nothing")
    assert status == 1 and closes_with(lines, "no tests ran")
