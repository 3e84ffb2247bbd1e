"""svc as the first process of a container: it ends with the server, passes signals on, and waits for orphans."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.integration.conftest import PASSWORD, START_LIMIT
from tests.support.ports import free_port
from tests.support.prepared import place_token_keys

pytestmark = pytest.mark.programs

# Becomes the parent of the orphans below it, as PID 1 is, and goes on as svc would.
SUBREAPER = """
import ctypes, os, sys
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
from svc.cli.first_process import continue_in_child
continue_in_child()
exec(sys.argv[1])
"""


def start(code: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", SUBREAPER, code], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


@pytest.mark.parametrize(("code", "status"), [("sys.exit(0)", 0), ("sys.exit(4)", 4), ("os.kill(os.getpid(), 9)", 128 + 9)])
def test_it_ends_with_the_status_of_the_server(code: str, status: int) -> None:
    with start(code) as process:
        assert process.wait(START_LIMIT) == status


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1])
def test_signals_are_passed_on(number: signal.Signals) -> None:
    code = (
        f"import signal, time; signal.signal({number:d}, lambda *_: sys.exit(7)); print('ready', flush=True)\nwhile True: time.sleep(0.05)"
    )
    with start(code) as process:
        assert line(process) == "ready"
        process.send_signal(number)
        assert process.wait(START_LIMIT) == 7


def test_orphans_are_waited_for() -> None:
    """A process that the server's child leaves behind ends: no zombie stays, and the status of the server's own children is its own."""
    code = (
        "import subprocess; child = subprocess.Popen(['sh', '-c', 'sleep 0.1 & exit 3']);"
        "print(os.getppid(), child.wait(), flush=True); sys.stdin.read(); import time; time.sleep(600)"
    )
    with start(code) as process:
        first, status = line(process).split()
        assert (int(first), status) == (process.pid, "3")
        deadline = time.monotonic() + START_LIMIT
        while len(psutil.Process(process.pid).children(recursive=True)) > 1:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        process.terminate()
        assert process.wait(START_LIMIT) == 128 + signal.SIGTERM


def may_unshare() -> bool:
    command = shutil.which("unshare")
    return (
        command is not None and subprocess.run([command, "-pf", "--mount-proc", "true"], capture_output=True, check=False).returncode == 0
    )


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    place_token_keys(tmp_path / "root")
    yield tmp_path / "root"


@pytest.mark.skipif(not may_unshare(), reason="a process namespace cannot be made here")
def test_a_server_that_is_pid_1(root: Path) -> None:
    env = {
        "PATH": os.environ["PATH"], "HOME": str(root.parent), "ROOTPATH": str(root), "HTTP_PORT": str(free_port()), "HTTP_SECUREPORT": "null",
        "OPERATIONSAPI_NETWORK_PORT": "null", "MQTT_NETWORK_PORT": "null", "MQTT_NETWORK_SECUREPORT": "null", "SVC_ADMIN_PASSWORD": PASSWORD,
    }  # fmt: skip
    command = ["unshare", "-pf", "--mount-proc", "--kill-child", sys.executable, "-m", "svc", "run"]
    with subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as unshare:
        deadline = time.monotonic() + START_LIMIT
        while "successfully started" not in ((root / "log" / "svc.log").read_text() if (root / "log" / "svc.log").exists() else ""):
            assert unshare.poll() is None and time.monotonic() < deadline
            time.sleep(0.05)
        [first] = psutil.Process(unshare.pid).children()
        assert len(first.children()) == 1, "the server is its child"
        first.send_signal(signal.SIGTERM)
        assert unshare.wait(START_LIMIT) == 0
    assert "svc stopped." in (root / "log" / "svc.log").read_text()
    assert not (root / "svc.pid").exists()
