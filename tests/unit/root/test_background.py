"""`svc start` and the server it starts: the pipe between them; and `svc stop`."""

import os
import subprocess
import sys
from pathlib import Path
from threading import Event

import psutil
import pytest

from svc.root.background import PIPE_VARIABLE, READY, ready_pipe, stop

pytestmark = pytest.mark.programs


def pipe(monkeypatch: pytest.MonkeyPatch) -> int:
    reader, writer = os.pipe()
    monkeypatch.setenv(PIPE_VARIABLE, str(writer))
    return reader


def read_all(reader: int) -> str:
    with open(reader, encoding="utf-8") as stream:
        return stream.read()


def test_what_is_said_before_it_is_ready_goes_through_the_pipe(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    reader, own = pipe(monkeypatch), sys.stderr
    with ready_pipe() as (terminal, ready):
        assert PIPE_VARIABLE not in os.environ
        print("the password", file=terminal)
        print("a start error", file=sys.stderr)
        around = sys.stderr  # what somebody wraps while the server starts
        ready(2)
        print("later", file=around, flush=True)
    assert sys.stderr is own
    assert capsys.readouterr().err == "later\n"
    assert read_all(reader) == f"the password\na start error\n{READY} 2\n"


def test_an_unexpected_error_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, own = pipe(monkeypatch), sys.stderr
    with pytest.raises(KeyError), ready_pipe():
        raise KeyError("x")
    assert sys.stderr is own
    said = read_all(reader)
    assert said.startswith("Traceback")
    assert READY not in said


def test_nobody_may_wait_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    reader = pipe(monkeypatch)
    os.close(reader)
    with ready_pipe() as (_, ready):
        ready(2)


def test_without_a_pipe_the_terminal_is_standard_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(PIPE_VARIABLE, raising=False)
    with ready_pipe() as (terminal, ready):
        assert terminal is sys.stderr
        ready(2)


def test_a_process_that_its_parent_does_not_wait_for_has_stopped(tmp_path: Path) -> None:
    with subprocess.Popen(["sh", "-c", "sleep 600 & echo $!; exec sleep 600"], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        try:
            while psutil.Process(parent.pid).name() != "sleep":  # until then it is the shell, which asks for the exit status
                Event().wait(0.001)
            assert stop(tmp_path, pid) == 0
            assert psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
        finally:
            parent.kill()
    assert stop(tmp_path, pid) == 0
