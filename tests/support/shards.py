"""Which worker runs which test files: the same at every run with as many workers.

`.ci/times.json` has the seconds of each file, as `pytest --write-times` measured them. The dearest file goes to the worker with the least work, and so on;
a file that is not in the table counts as the median. Each worker collects its own files only, and runs them in the order of their paths.
In a nightly run files and tests come in a random order, which SVC_TEST_SEED repeats.
"""

from __future__ import annotations

import fnmatch
import json
import random
import re
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
TIMES = ROOT / ".ci" / "times.json"
FILE_SECONDS = 0.05  # to import a file and to clean up after it, which no test's time includes
PROGRAMS = re.compile(rb"^pytestmark = .*\bpytest\.mark\.programs\b", re.MULTILINE)
STAGES = {"programs": True, "not programs": False}
"""Values of pytest's option -m: whether files that are marked are looked at."""


def assign(files: Iterable[str], times: Mapping[str, float], workers: int) -> list[list[str]]:
    """The files of each worker.

    >>> assign(["a", "b", "c", "d"], {"a": 1, "b": 3, "c": 1, "e": 9}, 2)
    [['b'], ['a', 'c', 'd']]
    """
    usual = statistics.median(times.values()) if times else 0.0
    shards: list[list[str]] = [[] for _ in range(workers)]
    loads = [0.0] * workers
    for file in sorted(files, key=lambda file: (-times.get(file, usual), file)):
        shard = loads.index(min(loads))
        shards[shard].append(file)
        loads[shard] += times.get(file, usual) + FILE_SECONDS
    return [sorted(shard) for shard in shards]


def read_times() -> dict[str, float]:
    times: dict[str, float] = json.loads(TIMES.read_text()) if TIMES.exists() else {}
    return times


def starts_programs(path: Path) -> bool:
    """Whether all tests of a file are marked `programs`."""
    return PROGRAMS.search(path.read_bytes()) is not None


def asked_files(config: pytest.Config) -> list[Path]:
    """The files that a run may find tests in: those of its arguments, of its stage."""
    patterns = config.getini("python_files")
    wanted = STAGES.get(config.option.markexpr)
    found: set[Path] = set()
    for argument in config.args:
        place = _path_of(config, argument)
        for path in [place] if place.is_file() else place.rglob("*.py"):
            is_test = path == place or any(fnmatch.fnmatch(path.name, pattern) for pattern in patterns)
            if (is_test or b">>> " in path.read_bytes()) and (wanted is None or starts_programs(path) == wanted):
                found.add(path)
    return sorted(found)


def _path_of(config: pytest.Config, argument: str) -> Path:
    return Path(config.invocation_params.dir, argument.partition("::")[0]).resolve()


def _name(path: Path) -> str:
    """As in the table, and as node ids begin."""
    return path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else str(path)


class Selection:
    """A plugin for the process that collects: a worker, or the only one. `files`: those it looks at."""

    def __init__(self, config: pytest.Config, files: Iterable[Path], seed: int | None) -> None:
        self._files = set(files)
        self._directories = {parent for file in self._files for parent in file.parents}
        self._seed = seed
        config.args = [argument for argument in config.args if self._has(_path_of(config, argument))]  # what is named is never ignored

    def _has(self, path: Path) -> bool:
        return path in self._files or path in self._directories

    def pytest_ignore_collect(self, collection_path: Path) -> bool | None:
        return None if self._has(collection_path) or (collection_path.is_file() and collection_path.suffix != ".py") else True

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        if self._seed is not None:
            items[:] = shuffle(items, self._seed)


def shuffle(items: Sequence[pytest.Item], seed: int) -> list[pytest.Item]:
    """Files in a random order, and the tests of each."""
    chance = random.Random(seed)
    files: dict[Path, list[pytest.Item]] = defaultdict(list)
    for item in items:
        files[item.path].append(item)
    order = sorted(files)
    chance.shuffle(order)
    for path in order:
        chance.shuffle(files[path])
    return [item for path in order for item in files[path]]


class Controller:
    """A plugin for the process that starts workers, or for the only one."""

    def __init__(self, config: pytest.Config, seed: int | None) -> None:
        self._config = config
        self._seed = seed
        self._shards: list[list[str]] | None = None
        self._numbers: dict[int, int] = {}  # id of a worker's specification, which one that replaces it has as well -> its number
        self._collected = 0

    def pytest_configure_node(self, node: Any) -> None:
        """Tell a worker its files."""
        if self._shards is None:
            self._shards = self._assign(node.workerinput["workercount"])
        number = self._numbers.setdefault(id(node.gateway.spec), len(self._numbers))
        node.workerinput["files"] = self._shards[number]
        node.workerinput["seed"] = self._seed

    def _assign(self, workers: int) -> list[list[str]]:
        names = [_name(path) for path in asked_files(self._config)]
        times = read_times()
        if self._seed is not None:
            chance = random.Random(self._seed)
            chance.shuffle(names)
            return [names[worker::workers] for worker in range(workers)]
        return assign(names, times, workers)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._seed is not None:
            terminalreporter.write_line(f"The order was random: SVC_TEST_SEED={self._seed}")

    def pytest_xdist_node_collection_finished(self, ids: Sequence[str]) -> None:
        self._collected += len(ids)

    def pytest_runtest_logstart(self) -> None:
        self._count_all()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtestloop(self, session: pytest.Session) -> Any:
        self._session = session
        result = yield
        self._count_all()
        return result

    def _count_all(self) -> None:
        """xdist counts the tests of one worker, as if all had the same."""
        if self._collected:
            self._session.testscollected = self._collected


class Times:
    """A plugin that writes the seconds of each file, of its tests' set-up, call and tear-down."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = defaultdict(float)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._seconds[report.nodeid.partition("::")[0]] += report.duration

    def pytest_sessionfinish(self) -> None:
        kept = {name: seconds for name, seconds in read_times().items() if (ROOT / name).exists()}
        measured = {name: round(seconds, 2) for name, seconds in self._seconds.items()}
        TIMES.write_text(json.dumps({**kept, **measured}, indent=0, sort_keys=True) + "\n")
