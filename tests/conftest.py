"""What holds for all tests: the examples of Hypothesis, cheap password hashes and small databases, the directory for files, and the order."""

from __future__ import annotations

import fcntl
import gc
import importlib
import os
import pkgutil
import random
import shutil
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import Any

import argon2
import pytest
from hypothesis import HealthCheck, is_hypothesis_test, settings

import svc
from svc.auth import passwords
from svc.prepared.kept import Candidate
from svc.store.disk import space_reserve
from tests.support.process_guard import ProcessGuard
from tests.support.profile import NIGHTLY, PROFILE, examples
from tests.support.shards import ROOT, Controller, Selection, Times, asked_files

# -- examples of Hypothesis

_CHECKS = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture]

# The same examples at every run, however slow the machine: a test must not fail by chance. The profile `nightly` looks for what is new, as the
# fuzz targets do.
settings.register_profile("svc", deadline=None, derandomize=True, database=None, max_examples=100, suppress_health_check=_CHECKS)
settings.register_profile(
    "nightly", settings.get_profile("svc"), derandomize=False, max_examples=examples(100), print_blob=True, stateful_step_count=50
)
settings.load_profile(PROFILE)


def _load_all(items: list[pytest.Item]) -> None:
    """Hypothesis also draws constants which it finds in the source of the modules loaded so far, but for those below a directory `tests`. Which modules
    these are would depend on the tests that have run in this process, and so would the examples.
    """
    if any(is_hypothesis_test(getattr(item, "obj", None)) for item in items):
        for module in pkgutil.walk_packages(svc.__path__, "svc."):
            if not module.name.startswith(("svc.demo.", "svc.__main__")):
                importlib.import_module(module.name)


# -- password hashes

# A hash of the real cost takes 25 ms, or 300, and thousands of tests create the first super user. test_passwords.py has the real cost.
_REAL_ARGON2 = passwords._ARGON2
passwords._ARGON2 = argon2.PasswordHasher(time_cost=1, memory_cost=8, parallelism=1, hash_len=32, salt_len=16, type=argon2.Type.ID)


_REAL_ROUNDS = passwords._PBKDF2_ROUNDS
passwords._PBKDF2_ROUNDS = 1000
passwords._DUMMIES["sha256"] = passwords._dummy_pbkdf2()


@pytest.fixture
def real_argon2() -> argon2.PasswordHasher:
    """What the server hashes with."""
    return _REAL_ARGON2


@pytest.fixture
def real_rounds() -> int:
    """How often the server hashes with the other function."""
    return _REAL_ROUNDS


# -- prepared requests

# A test must not fail because the machine is busy with others.
os.environ.setdefault("SVC_TESTING_PATIENCE", "120")

# With SVC_TEST_PREPARE_AT_ONCE=1 a test that asks the same twice has the second answered by what was prepared, also by servers in processes of their own.
if "SVC_TEST_PREPARE_AT_ONCE" in os.environ:
    Candidate.prepares_at_once = True


# -- databases

# Space that a database allocates ahead takes most of the time to make, copy and remove one: 3 MB each. Servers in processes of their own have all of it.
_REAL_RESERVE = space_reserve.RESERVE_BYTES
space_reserve.RESERVE_BYTES = 1 << 15


@pytest.fixture
def real_reserve(monkeypatch: pytest.MonkeyPatch) -> int:
    """The bytes that the server reserves; from now on also in this test."""
    monkeypatch.setattr(space_reserve, "RESERVE_BYTES", _REAL_RESERVE)
    return _REAL_RESERVE


# -- the directory for files

MEMORY = Path("/dev/shm")
ROOM = 4 << 30  # bytes that must be free there
PREFIX = "svc-tests-"
TESTS = "tests"
"""A directory of this name has no constants that Hypothesis draws (see `_load_all`)."""
_directory: tuple[Path, int] | None = None  # and the descriptor of its lock


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Put temporary files into memory, if there is room: most of the time of a test with a database would be spent on fsync."""
    global _directory
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # servers without cached bytecode warn of it, and compile all of svc each time
    _register_plugins(config)
    if hasattr(config, "workerinput"):  # a worker: its directory is inside that of the controller
        return
    if config.option.basetemp is None:
        place = MEMORY if _has_room() else Path(tempfile.gettempdir())
        _remove_abandoned(place)
        path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=place))
        _directory = path, _lock(path)
        (path / "o" / TESTS).mkdir(parents=True)
        config.option.basetemp = str(path / TESTS)
        os.environ["TMPDIR"] = tempfile.tempdir = str(path / "o" / TESTS)  # also for child processes, which the workers are


def _has_room() -> bool:
    try:
        return os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free >= ROOM
    except OSError:
        return False


def _lock(path: Path) -> int:
    """A descriptor that is locked as long as this process lives. Raises OSError if another process has it."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _remove_abandoned(place: Path) -> None:
    """Directories of runs that were killed."""
    for path in place.glob(PREFIX + "*"):
        try:
            descriptor = _lock(path)
        except OSError:
            continue
        shutil.rmtree(path, ignore_errors=True)
        os.close(descriptor)


def pytest_unconfigure(config: pytest.Config) -> None:
    global _directory
    if _directory is not None:
        path, descriptor = _directory
        shutil.rmtree(path, ignore_errors=True)
        os.close(descriptor)
        _directory = None


# -- workers and order


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--write-times", action="store_true", help="write the seconds of each test file to .ci/times.json")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """One more than there are cores, because some tests wait for timeouts and polling intervals of real servers. No more than files."""
    return max(1, min(len(os.sched_getaffinity(0)) + 1, len(asked_files(config))))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Each worker runs all that it has collected: its share, see `tests/support/shards.py`."""
    from xdist.scheduler import EachScheduling

    return EachScheduling(config, log)


def _register_plugins(config: pytest.Config) -> None:
    plugins = config.pluginmanager
    worker = getattr(config, "workerinput", None)
    if worker is None:
        seed = int(os.environ.get("SVC_TEST_SEED") or random.randrange(1 << 32)) if NIGHTLY else None
        plugins.register(Controller(config, seed))
        if config.getoption("write_times"):
            plugins.register(Times())
        if not config.getoption("numprocesses", None):
            plugins.register(Selection(config, asked_files(config), seed))
    else:
        plugins.register(Selection(config, [ROOT / file for file in worker["files"]], worker["seed"]))
    plugins.register(ProcessGuard())


# -- cost of each test


@pytest.hookimpl(wrapper=True)
def pytest_collect_file() -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """No search for doctests in the modules of tests, which have none: it takes a tenth of the time of collection."""
    found = yield
    return [collector for collector in found if type(collector) is pytest.Module]


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """What is loaded stays: the garbage collector need not look at it again and again, neither now nor while tests run.

    Nor at the reports, which a worker would keep for a summary that the controller shows.
    """
    gc.disable()
    worker = getattr(session.config, "workerinput", None)
    result = yield
    _load_all(session.items)
    plugins = session.config.pluginmanager
    if worker is not None and plugins.has_plugin("terminalreporter"):
        plugins.unregister(name="terminalreporter")
    gc.collect()
    gc.freeze()
    gc.enable()
    return result


@pytest.fixture(scope="module", autouse=True)
def nothing_of_other_files(tmp_path_factory: pytest.TempPathFactory) -> Generator[None]:
    """What the tests of a file have left is freed now, so that a warning about it fails one of them and not a later test, which is innocent.

    What stays is not looked at again: collections, of which some tests make many, would take longer and longer. So would making a temporary
    directory, for which pytest reads the names of all others: it leaves a link for each that is removed.
    """
    yield
    gc.collect()
    gc.freeze()
    with os.scandir(tmp_path_factory.getbasetemp()) as entries:
        gone = [entry.path for entry in entries if entry.is_symlink() and not os.path.exists(entry.path)]
    for path in gone:
        os.unlink(path)
