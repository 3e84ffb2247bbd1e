"""svc as the first process of a container (PID 1): it ends with the server, gets signals, and waits for orphans."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import psutil
import pytest

from tests.integration.conftest import LIMIT, PASSWORD, START_LIMIT
from tests.support.ports import free_port
from tests.support.prepared import place_token_keys
from tests.support.waiting import wait_until

pytestmark = pytest.mark.programs

RESOURCES = """
import os
import subprocess

from svc import Resource


class Orphan(Resource):
    def post(self, data):
        subprocess.run(["sh", "-c", "sleep 0.1 & exit 3"])
        return {"pid": os.getpid()}
"""


def may_unshare() -> bool:
    command = shutil.which("unshare")
    return (
        command is not None and subprocess.run([command, "-pf", "--mount-proc", "true"], capture_output=True, check=False).returncode == 0
    )


needs_namespaces = pytest.mark.skipif(not may_unshare(), reason="a process namespace cannot be made here")


class Container:
    """`svc WORD` as PID 1. `first`: as it is seen from outside."""

    def __init__(self, folder: Path, word: str, *words: str) -> None:
        self.root = folder / "root"
        place_token_keys(self.root)
        app = folder / "app"
        app.mkdir()
        (app / "resources.py").write_text(RESOURCES)
        self.port = free_port()
        env = {
            "PATH": os.environ["PATH"], "HOME": str(folder), "ROOTPATH": str(self.root), "HTTP_PORT": str(self.port), "HTTP_SECUREPORT": "null",
            "OPERATIONSAPI_NETWORK_PORT": "null", "MQTT_NETWORK_PORT": "null", "MQTT_NETWORK_SECUREPORT": "null", "SVC_ADMIN_PASSWORD": PASSWORD,
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        }  # fmt: skip
        self.output = folder / "output.txt"
        with self.output.open("wb") as output:
            command = ["unshare", "-pf", "--mount-proc", "--kill-child", sys.executable, "-m", "svc", word, str(app), *words]
            self.unshare = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=output, stderr=output)

    @property
    def first(self) -> psutil.Process:
        (found,) = psutil.Process(self.unshare.pid).children()
        return found

    def logged(self) -> str:
        log = self.root / "log" / "svc.log"
        return (log.read_text() if log.exists() else "") + self.output.read_text()

    def await_start(self, count: int = 1) -> None:
        wait_until(lambda: self.logged().count("successfully started") >= count or self.unshare.poll() is not None, self.logged)
        assert self.unshare.poll() is None, self.logged()

    def close(self) -> None:
        self.unshare.kill()
        self.unshare.wait()


@pytest.fixture(params=["run", "dev"])
def container(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Container]:
    found = Container(tmp_path, request.param)
    yield found
    found.close()


@needs_namespaces
def test_a_server_that_is_pid_1(container: Container) -> None:
    container.await_start()
    first = container.first
    (instance,) = first.children()

    asked = httpx.post(f"http://127.0.0.1:{container.port}/Orphan/", auth=("admin", PASSWORD), timeout=LIMIT, json={})
    assert asked.is_success
    wait_until(lambda: first.children(recursive=True) == [instance])  # no zombie is left

    first.send_signal(signal.SIGUSR2)
    container.await_start(2)
    wait_until(lambda: len(first.children()) == 1 and first.children() != [instance])
    assert container.first == first, "it is the same process"

    first.send_signal(signal.SIGTERM)
    assert container.unshare.wait(START_LIMIT) == 0
    assert "svc stopped." in container.logged()
    assert not (container.root / "svc.pid").exists()


@needs_namespaces
def test_a_signal_that_comes_while_it_starts(tmp_path: Path) -> None:
    """The kernel gives PID 1 none that has no handler."""
    container = Container(tmp_path, "run")
    try:
        wait_until((container.root / "svc.pid").exists)
        container.first.send_signal(signal.SIGTERM)
        assert container.unshare.wait(START_LIMIT) == 0
    finally:
        container.close()


@needs_namespaces
def test_the_status_of_one_that_cannot_start(tmp_path: Path) -> None:
    container = Container(tmp_path, "run", "--HTTP_PORT=loud")
    try:
        assert container.unshare.wait(START_LIMIT) == 1
    finally:
        container.close()
