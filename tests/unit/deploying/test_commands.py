"""Programs that are run end when they shall."""

from __future__ import annotations

import itertools
import os
import threading
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from svc.deploying import commands
from svc.deploying.commands import KEPT_LINES, LINE, CommandFailed, clean_environment, run_command
from svc.store.backup.watch import CopyStopped, Watch

pytestmark = pytest.mark.programs

ENVIRONMENT = {"PATH": os.environ["PATH"]}


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rest of what a program has said is read, however long this process has to wait for its turn."""
    monkeypatch.setattr(commands, "CLOSING", 60.0)


def run(script: str, place: Path, seconds: float = 60, watch: Watch | None = None):  # type: ignore[no-untyped-def]
    return run_command(["/bin/sh", "-c", script], place, seconds, environment=ENVIRONMENT, watch=watch or Watch())


def wait_for_end(pid: int) -> None:
    with suppress(psutil.NoSuchProcess):
        psutil.Process(pid).wait(30)


def test_status_and_output(tmp_path: Path) -> None:
    outcome = run("pwd; echo two >&2; exit 3", tmp_path)
    assert (outcome.status, outcome.output) == (3, (str(tmp_path), "two"))


def test_the_end_of_much_output_is_kept(tmp_path: Path) -> None:
    outcome = run("seq 100000; head -c 100000 /dev/zero | tr '\\0' x; printf 'a\\033[2Jb\\377\\r\\nlast'", tmp_path)
    assert len(outcome.output) == KEPT_LINES
    assert outcome.output[-1] == "last"
    assert all(line.isprintable() and len(line) <= LINE for line in outcome.output)


def test_the_time_is_over_for_all_that_it_has_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started = tmp_path / "pid"

    class Clock:
        """Its time is over when the program has started another. It may have done so when the clock is first asked, for the beginning."""

        times = itertools.count()

        def monotonic(self) -> float:
            return 100.0 if next(self.times) and started.exists() and started.read_text().endswith("\n") else 0.0

    monkeypatch.setattr(commands, "SYSTEM_CLOCK", Clock())
    outcome = run("sleep 1000 & echo $! > pid; wait", tmp_path)
    assert outcome.status is None
    wait_for_end(int(started.read_text()))


def test_what_is_left_in_the_background_ends_with_it(tmp_path: Path) -> None:
    assert run("sleep 1000 & echo $! > pid", tmp_path).status == 0
    pid = int((tmp_path / "pid").read_text())
    wait_for_end(pid)


def test_it_can_be_stopped(tmp_path: Path) -> None:
    watch = Watch()
    threading.Timer(0.2, watch.stop).start()
    with pytest.raises(CopyStopped):
        run("sleep 1000", tmp_path, watch=watch)


def test_a_program_that_is_not_there(tmp_path: Path) -> None:
    outcome = run_command(["svc-nothing-of-this-name"], tmp_path, 5, environment=ENVIRONMENT, watch=Watch())
    assert outcome.status != 0
    with pytest.raises(CommandFailed):
        run_command(["svc-nothing-of-this-name"], tmp_path, 5, environment=ENVIRONMENT, watch=Watch(), tied=False)


def test_no_secret_of_the_server_is_passed_on() -> None:
    given = {
        "PATH": "/bin",
        "HOME": "/h",
        "SVC_ADMIN_PASSWORD": "x",
        "AWS_SECRET_ACCESS_KEY": "x",
        "DATABASE_URL": "x",
        "PIP_INDEX_URL": "i",
        "LC_ALL": "C",
    }
    passed = clean_environment(given, MORE="1")
    assert {"HOME", "PIP_INDEX_URL", "LC_ALL", "MORE"} < passed.keys()
    assert "x" not in passed.values()
