"""Processes that are forked from one which has imported svc already: a start of Python and its imports take most of a second of processor time."""

from __future__ import annotations

import atexit
import multiprocessing
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import svc.cli
import svc.server  # noqa: F401  # for the children
from svc import __main__

context = multiprocessing.get_context("forkserver")
context.set_forkserver_preload([__name__])

# multiprocessing removes a directory of its own at exit, when that of this run, which it is in, may be gone.
_directory = tempfile.mkdtemp(prefix="forks-")
atexit.register(shutil.rmtree, _directory, ignore_errors=True)
multiprocessing.current_process()._config["tempdir"] = _directory  # type: ignore[attr-defined]


def run_command(words: tuple[str, ...], *, cwd: Path, env: Mapping[str, str], timeout: float) -> subprocess.CompletedProcess[str]:
    """What `python -m svc WORDS` does, without a terminal."""
    with tempfile.TemporaryDirectory(prefix="command-") as directory:
        output, errors = Path(directory) / "output", Path(directory) / "errors"
        process = context.Process(target=_run_command, args=(words, cwd, dict(env), output, errors))
        process.start()
        process.join(timeout)
        status = process.exitcode
        if status is None:
            process.kill()
            process.join()
        process.close()
        assert status is not None, f"svc {' '.join(words)} does not end: {errors.read_text()}"
        return subprocess.CompletedProcess(words, status, output.read_text(), errors.read_text())


def _run_command(words: tuple[str, ...], cwd: Path, env: dict[str, str], output: Path, errors: Path) -> None:
    for number, path, flags in ((0, os.devnull, os.O_RDONLY), (1, output, os.O_WRONLY | os.O_CREAT), (2, errors, os.O_WRONLY | os.O_CREAT)):
        handle = os.open(path, flags, 0o600)
        os.dup2(handle, number)
        os.close(handle)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", errors="backslashreplace", closefd=False)  # noqa: SIM115
    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd)
    sys.argv = [str(__main__.__file__), *words]
    sys.exit(__main__.main())
