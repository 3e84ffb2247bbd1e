"""Another version of svc takes effect at a restart, or changes nothing and is named (spec: configuration §6.5)."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import svc
from tests.integration.conftest import Process
from tests.support.callers import Callers
from tests.support.instances import APP, answering, await_restart, pids
from tests.support.waiting import wait_until

pytestmark = pytest.mark.programs

INSTALLED = Path(svc.__file__).parent
LATER = "99.0.0"


class Package:
    """A copy of svc that a server runs from."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "packages"
        self._count = 0
        shutil.copytree(INSTALLED, self.path / "svc")

    def put(self, file: str, *replacements: tuple[str, str]) -> None:
        """Install a version in which a file of the one that is tested has other text."""
        self._count += 1
        made = self.path / f"made-{self._count}"
        shutil.copytree(INSTALLED, made)
        text = (INSTALLED / file).read_text("utf-8")
        for former, later in replacements:
            assert former in text
            text = text.replace(former, later)
        (made / file).write_text(text, "utf-8")
        (self.path / "svc").rename(self.path / f"former-{self._count}")
        made.rename(self.path / "svc")


@pytest.fixture
def package(tmp_path: Path) -> Package:
    return Package(tmp_path)


@pytest.fixture
def process(tmp_path: Path, package: Package) -> Iterator[Process]:
    """A server of two instances."""
    found = Process(tmp_path / "root", APP, env={"INSTANCES": "2"}, forked=False)
    found.env["PYTHONPATH"] = os.pathsep.join([str(package.path), found.env["PYTHONPATH"]])
    found.start()
    wait_until(lambda: found.logged().count("successfully started") == 2)
    yield found
    found.kill()


def versions(process: Process) -> set[str]:
    """Of those that answer."""
    return {process.operate("get_status").json()["version"] for _ in range(16)}


def test_another_version(package: Package, process: Process) -> None:
    assert versions(process) == {svc.__version__}
    package.put("__init__.py", (f'__version__ = "{svc.__version__}"', f'__version__ = "{LATER}"'))
    before = pids(process)
    assert versions(process) == {svc.__version__}
    callers = Callers(process.client)
    try:
        process.operate("restart")
        await_restart(process, before)
    finally:
        callers.end()
    assert callers.failed == []
    assert versions(process) == {LATER}
    wait_until(lambda: f"svc {LATER} successfully started" in process.logged(), process.logged)
    assert process.stop() == 0


FAULTS = {
    "cannot be imported": ("server/instance.py", ("import asyncio\n", "import asyncio\n\nimport quux\n"), "No module named 'quux'"),
    "is no Python": ("store/store.py", ("class Store", "clas Store"), "SyntaxError: invalid syntax"),
    "has another state": (
        "parent/state.py",
        ("    generation: int\n    numbers", "    generations: int\n    numbers"),
        "cannot go on with the processes",
    ),
    "ends at its start": (
        "server/serving.py",
        ("        instance = self.instance\n        asyncio", "        sys.exit(7)\n        asyncio"),
        "has ended with status 7",
    ),
    "is older than the data": (
        "__init__.py",
        (f'__version__ = "{svc.__version__}"', '__version__ = "0.0.1"'),
        "is newer than this svc 0.0.1",
    ),
}


def test_a_version_that_cannot_serve(package: Package, process: Process) -> None:
    before = pids(process)
    for file, replacement, reason in FAULTS.values():
        package.put(file, replacement)
        process.operate("restart")
        wait_until(lambda: reason in process.operate("get_status").json().get("restartFailed", ""), lambda: (reason, process.logged()))  # noqa: B023
        assert pids(process) == before == set(answering(process))
    package.put("__init__.py", (f'__version__ = "{svc.__version__}"', f'__version__ = "{LATER}"'))
    process.operate("restart")
    wait_until(lambda: len(pids(process)) == 2 and not pids(process) & before)
    assert versions(process) == {LATER}
