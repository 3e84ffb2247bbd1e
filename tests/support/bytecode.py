"""The bytecode of test files, with rewritten assertions, made once and not by each worker.

A fresh checkout has none. All workers collect the same files in the same order, so each would rewrite each file, at the same moment as the others:
most of the time of collection. Instead each writes a share of the files before it collects. A file that another worker has not come to yet, and one that
has changed since, is rewritten when it is imported, as ever.
"""

from __future__ import annotations

import fnmatch
import sys
from pathlib import Path

import pytest
from _pytest.assertion import rewrite

TESTS = Path(__file__).resolve().parents[1]
_NEEDED = ("PYC_TAIL", "_rewrite_test", "_write_pyc", "assertstate_key", "get_cache_dir", "try_makedirs")


def write_share(config: pytest.Config, worker: int, workers: int) -> None:
    """Write the bytecode of every `workers`-th test file that has none, beginning with number `worker`.

    Releases of pytest that do not have what is needed here leave it to the import. So does a run without bytecode or without rewriting.
    """
    if sys.dont_write_bytecode or config.getoption("assertmode") != "rewrite" or not all(hasattr(rewrite, name) for name in _NEEDED):
        return
    state = config.stash[rewrite.assertstate_key]
    for path in _test_files(config)[worker::workers]:
        directory = rewrite.get_cache_dir(path)
        written = directory / (path.stem + rewrite.PYC_TAIL)
        if not written.exists() and rewrite.try_makedirs(directory):
            try:
                source_hash, code = rewrite._rewrite_test(path, config)
            except (SyntaxError, ValueError):  # the import says so
                continue
            rewrite._write_pyc(state, code, source_hash, written)


def _test_files(config: pytest.Config) -> list[Path]:
    """Those that the run asks for, the largest first: shares of equal work."""
    asked = [Path(config.invocation_params.dir, argument.partition("::")[0]).resolve() for argument in config.args]
    patterns = config.getini("python_files")
    found = [
        path
        for path in TESTS.rglob("*.py")
        if any(fnmatch.fnmatch(path.name, pattern) for pattern in patterns) and any(path.is_relative_to(place) for place in asked)
    ]
    return sorted(found, key=lambda path: (-path.stat().st_size, path))
