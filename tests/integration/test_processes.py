"""Start, status, stop and the first run, as a user does it (contract: configuration §8, examples 1-3, 10, 11)."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from svc.config.document import read_document
from tests.integration.conftest import free_port


class Commands:
    """`svc` with a home of its own; every port but the HTTP port is closed."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.root = home / "r"
        self.port = free_port()
        self.env = {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "ROOTPATH": str(self.root),
            "HTTP_SECUREPORT": "null",
            "OPERATIONSAPI_NETWORK_PORT": "null",
            "MQTT_NETWORK_PORT": "null",
            "MQTT_NETWORK_SECUREPORT": "null",
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        }

    def run(self, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "svc", *arguments]
        return subprocess.run(
            command, env={**self.env, **env}, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60, check=False
        )

    def pid(self) -> int:
        return int((self.root / "svc.pid").read_text())


@pytest.fixture
def commands(tmp_path: Path) -> Iterator[Commands]:
    commands = Commands(tmp_path)
    yield commands
    commands.run("stop")


def test_from_nothing_to_stopped(commands: Commands) -> None:
    assert commands.run("status").stdout == "svc:\n  status: not installed\n"

    started = commands.run("start", HTTP_PORT=str(commands.port))
    assert started.returncode == 0, started.stderr
    file = commands.root / "initial-admin-password"
    password = file.read_text().strip()
    assert started.stderr.count(password) == 1
    assert file.stat().st_mode & 0o777 == 0o600
    assert started.stdout == f"svc is running (pid: {commands.pid()}).\n"
    assert commands.run("status").stdout == f"svc:\n  status: running\n  pid: {commands.pid()}\n"

    second = commands.run()
    assert second.returncode == 4
    assert second.stderr == f"Error: svc is already running (pid: {commands.pid()})\n"
    again = commands.run("start")
    assert (again.returncode, again.stderr) == (4, second.stderr)

    stopped = commands.run("stop")
    assert (stopped.returncode, stopped.stdout) == (0, "Stopping svc.\n")
    assert commands.run("status").stdout == "svc:\n  status: stopped\n"
    assert not (commands.root / "svc.pid").exists()

    started = commands.run("start")
    assert password not in started.stderr
    assert read_document(commands.root / "svc-config.yaml")["http"]["port"] == commands.port
    assert len(list((commands.root / "backup").glob("*.bak"))) == 1
    log = (commands.root / "log" / "svc.log").read_text()
    assert log.count("successfully started.") == 2
    assert str(file) in log
    for path in (commands.root / "log").iterdir():
        assert password not in path.read_text()


def test_a_given_password_is_used_and_kept_nowhere(commands: Commands) -> None:
    started = commands.run("start", "--SVC_ADMIN_PASSWORD=correct horse", SVC_ADMIN_USERNAME="ann", HTTP_PORT=str(commands.port))
    assert started.returncode == 0, started.stderr
    assert started.stderr == ""
    assert not (commands.root / "initial-admin-password").exists()
    assert "correct horse" not in " ".join(psutil.Process(commands.pid()).cmdline())


def test_a_killed_server_reads_as_stopped_and_starts_again(commands: Commands) -> None:
    assert commands.run("start", HTTP_PORT=str(commands.port)).returncode == 0
    process = psutil.Process(commands.pid())
    process.send_signal(signal.SIGKILL)
    process.wait(30)
    assert commands.run("status").stdout == "svc:\n  status: stopped\n"
    assert commands.run("start").returncode == 0


def test_a_start_that_fails_says_why_where_it_was_started(commands: Commands) -> None:
    invalid = commands.run("start", HTTP_PORT="9927", HTTP_SECUREPORT="9927")
    assert invalid.returncode == 1
    assert invalid.stderr == (
        "svc config file validation error: http.port and http.securePort cannot be the same value"
        " (environment variable HTTP_PORT, environment variable HTTP_SECUREPORT)\n"
    )
    other = Commands(commands.home / "other")
    other.home.mkdir()
    assert commands.run("start", HTTP_PORT=str(commands.port)).returncode == 0
    taken = other.run("start", HTTP_PORT=str(commands.port))
    assert taken.returncode == 1
    assert f"http.port {commands.port}" in taken.stderr
    assert other.run("status").stdout == "svc:\n  status: stopped\n"
