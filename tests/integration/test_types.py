"""mypy and pyright about applications with the types that `svc types` writes.

pyright is that of `basedpyright`, a distribution of it with the program that runs it.
"""

from __future__ import annotations

import functools
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

import svc
from svc.stubs import write_application, write_stubs
from tests.support.npm import locked

pytestmark = pytest.mark.programs

HERE = Path(__file__).parent
TYPED = HERE / "typed"
LIMIT = 300  # seconds
SETTINGS = """
[tool.mypy]
strict = true
mypy_path = "typings"

[tool.pyright]
typeCheckingMode = "strict"
"""

Faults = dict[str, set[int]]


def mypy(directory: Path, *files: str) -> Faults:
    """File -> lines that mypy --strict has something to say about."""
    cache = directory / ".mypy_cache"
    shutil.copytree(known_library(), cache)
    command = [sys.executable, "-m", "mypy", "--cache-dir", str(cache), *files]
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=LIMIT)
    shutil.rmtree(cache)
    assert done.returncode in (0, 1), done.stderr
    return _by_file((found[1], int(found[2])) for found in re.finditer(r"^(.+?):(\d+): error", done.stdout, re.MULTILINE))


@functools.cache
def known_library() -> Path:
    """What mypy keeps of the standard library: it takes nine seconds to read, and is the same for all. Made once for all workers of a run."""
    cache = Path(tempfile.gettempdir()) / f"mypy-{os.environ.get('PYTEST_XDIST_TESTRUNUID', os.getpid())}"
    with locked(cache.with_suffix(".lock")):
        if not cache.exists():
            directory = Path(tempfile.mkdtemp())
            write_application(directory / "app", "app")
            # Under another name: mypy takes a file of the same name, size and second for the one that it knows.
            (directory / "app" / "resources.py").rename(directory / "app" / "known.py")
            command = [sys.executable, "-m", "mypy", "--cache-dir", str(directory / "cache"), "known.py"]
            subprocess.run(command, cwd=directory / "app", capture_output=True, timeout=LIMIT, check=True)
            (directory / "cache").rename(cache)
            shutil.rmtree(directory)
    return cache


def pyright(directory: Path, *files: str) -> Faults:
    """File -> lines that pyright has errors in."""
    command = [sys.executable, "-m", "basedpyright", "--outputjson", *files]
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    found = [each for each in json.loads(done.stdout)["generalDiagnostics"] if each["severity"] == "error"]
    return _by_file((Path(each["file"]).relative_to(directory.resolve()).as_posix(), each["range"]["start"]["line"] + 1) for each in found)


def _by_file(faults: object) -> Faults:
    found: Faults = {}
    for name, line in faults:  # type: ignore[attr-defined]
        found.setdefault(name, set()).add(line)
    return found


CHECKERS = [mypy, pyright]


@pytest.fixture(scope="module")
def typed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("typed")
    for name in ("schema.graphql", "right.py", "wrong.py"):
        shutil.copy(TYPED / name, directory)
    (directory / "pyproject.toml").write_text(SETTINGS)
    write_stubs(directory)
    return directory


@pytest.mark.parametrize("check", CHECKERS)
def test_right_code_is_right_and_each_fault_is_found(typed: Path, check: object) -> None:
    marked = {number for number, line in enumerate((typed / "wrong.py").read_text().splitlines(), 1) if "# wrong" in line}
    files = ["right.py", "wrong.py", *sorted(path.relative_to(typed).as_posix() for path in (typed / "typings").rglob("*.pyi"))]
    found = check(typed, *files)  # type: ignore[operator]
    assert found.keys() <= {"wrong.py"}, found
    assert found["wrong.py"] == marked


@pytest.mark.parametrize("check", CHECKERS)
@pytest.mark.parametrize("accounts", [False, True])
def test_a_new_application_has_no_faults(tmp_path: Path, check: object, accounts: bool) -> None:
    """As it is written, here in a file of another name, beside which a mistake in `resources.py` is found."""
    write_application(tmp_path / "app", "app", accounts=accounts)
    resources = tmp_path / "app" / "resources.py"
    written = resources.read_text()
    (tmp_path / "app" / "tests" / "as_written.py").write_text(written)
    resources.write_text(written.replace("task.listName", "task.listNmae"))
    faulty = {number for number, line in enumerate(resources.read_text().splitlines(), 1) if "task.listNmae" in line}
    assert len(faulty) == 1
    assert check(tmp_path / "app") == {"resources.py": faulty}  # type: ignore[operator]


@pytest.mark.parametrize("check", CHECKERS)
def test_the_application_of_the_demo_has_no_faults(tmp_path: Path, check: object) -> None:
    shutil.copytree(Path(svc.__file__).parent / "demo" / "app", tmp_path / "app")
    (tmp_path / "app" / "pyproject.toml").write_text(SETTINGS.replace('"strict"', '"standard"'))
    write_stubs(tmp_path / "app")
    assert check(tmp_path / "app", "resources.py") == {}  # type: ignore[operator]


def python_of_applications() -> tuple[str, str]:
    """(schema, code) of docs/applications.md, all of its parts together."""
    text = (Path(__file__).parents[2] / "docs" / "applications.md").read_text("utf-8")
    parts: dict[str, str] = {}
    for name, more, part in re.findall(r"^\*\*shop/([\w.]+)\*\*(, at its end)?\n\n```\w+\n(.*?)^```$", text, re.DOTALL | re.MULTILINE):
        parts[name] = parts.get(name, "") + "\n\n" + part if more else part
    return parts["schema.graphql"], parts["resources.py"]


@pytest.mark.parametrize("check", CHECKERS)
def test_the_code_of_the_page_on_applications_has_no_faults(tmp_path: Path, check: object) -> None:
    """It says of no argument what it is, so mypy is not as strict."""
    schema, code = python_of_applications()
    (tmp_path / "schema.graphql").write_text(schema)
    (tmp_path / "resources.py").write_text(code)
    settings = SETTINGS.replace('"strict"', '"standard"').replace("strict = true", "check_untyped_defs = true")
    (tmp_path / "pyproject.toml").write_text(settings)
    write_stubs(tmp_path)
    assert check(tmp_path, "resources.py") == {}  # type: ignore[operator]
