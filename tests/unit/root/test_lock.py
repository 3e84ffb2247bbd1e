"""The lock and the process id."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from svc.errors import ConfigError
from svc.root.lock import AlreadyRunning, RootLock, running_pid

pytestmark = pytest.mark.programs


def test_one_server_at_a_time(tmp_path: Path) -> None:
    with RootLock(tmp_path):
        assert (tmp_path / "svc.pid").read_text() == f"{os.getpid()}\n"
        assert (tmp_path / "svc.pid").stat().st_mode & 0o777 == 0o600
        with pytest.raises(AlreadyRunning) as caught:
            RootLock(tmp_path)
        assert str(caught.value) == f"svc is already running (pid: {os.getpid()})"
    assert not (tmp_path / "svc.pid").exists()
    lock = RootLock(tmp_path)
    lock.release()
    lock.release()


def test_a_pid_left_behind_does_not_hinder_a_start(tmp_path: Path) -> None:
    (tmp_path / "svc.pid").write_text("1\n")
    RootLock(tmp_path).release()


def test_a_root_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"svc\.lock cannot be opened"):
        RootLock(tmp_path / "none")


def test_a_full_volume_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(ConfigError, match=r"svc\.pid cannot be written: No space left on device"):
        RootLock(tmp_path)
    monkeypatch.undo()
    RootLock(tmp_path).release()


@pytest.mark.parametrize("text", ["", "x", "999999999"])
def test_no_process_behind_the_pid(tmp_path: Path, text: str) -> None:
    (tmp_path / "svc.pid").write_text(text)
    assert running_pid(tmp_path) is None


def test_the_pid_must_be_of_our_command(tmp_path: Path) -> None:
    wait = "import sys; print(flush=True); sys.stdin.read()"
    for arguments, running in ((["svc"], True), (["other"], False)):
        with subprocess.Popen([sys.executable, "-c", wait, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            process.stdout.readline()
            (tmp_path / "svc.pid").write_text(f"{process.pid}\n")
            assert running_pid(tmp_path) == (process.pid if running else None)
            process.communicate()
    (tmp_path / "svc.pid").write_text(f"{os.getpid()}\n")
    assert running_pid(tmp_path) is None  # a number given again, to us


def test_a_lock_without_a_server_is_no_running_server(tmp_path: Path) -> None:
    with RootLock(tmp_path, is_server=False):
        assert not (tmp_path / "svc.pid").exists()
        with pytest.raises(AlreadyRunning, match=r"^svc is already running$"):
            RootLock(tmp_path)
    RootLock(tmp_path).release()
