"""A meta page that cannot be written: LMDB stops, so the process ends, says so meanwhile, and another takes its place."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from tests.integration.conftest import START_LIMIT, Process
from tests.support.waiting import wait_until

pytestmark = pytest.mark.programs

PREPARED = """
import os, signal
from pathlib import Path

def fail(number, frame):
    from tests.support.faults import refuse_meta_pages
    refuse_meta_pages(Path(os.environ["ROOTPATH"]) / "database" / "data" / "data.mdb")
    Path(os.environ["ROOTPATH"], "refused").touch()

signal.signal(signal.SIGUSR1, fail)
"""


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Process]]:
    started: list[Process] = []

    def start_(**env: str) -> Process:
        hook = tmp_path / "hook.py"
        hook.write_text(PREPARED)
        process = Process(tmp_path / "root", env={"SVC_TEST_HOOK": str(hook), **env})
        started.append(process)
        return process.start()

    yield start_
    for process in started:
        process.kill()


def break_disk(server: Process) -> None:
    assert server.process is not None
    os.kill(server.pid, signal.SIGUSR1)
    while not (server.root / "refused").exists():
        assert server.process.poll() is None, server.output()


def lose_a_write(server: Process, client: httpx.Client) -> None:
    with httpx.Client(base_url=server.operations_url, timeout=START_LIMIT) as operations:
        assert operations.get("/health").status_code == operations.get("/ready").status_code == 200
        assert client.put("/Doc/lost", json={"n": 2}).status_code == 503
        with suppress(httpx.TransportError):  # it may have ended by now
            health = operations.get("/health")
            assert health.status_code == 503 and "the database data" in health.text
            assert operations.get("/ready").status_code == 503


def test_another_process_takes_its_place(start: Callable[..., Process]) -> None:
    server = start()
    pid = server.pid
    with server.client() as client:
        assert client.put("/Doc/kept", json={"n": 1}).status_code == 204
        break_disk(server)
        lose_a_write(server, client)
    status = 0
    while status != 204:
        assert server.process is not None and server.process.poll() is None, server.output()
        with suppress(httpx.TransportError), server.client() as client:
            status = client.put("/Doc/more", json={"n": 3}).status_code
            assert status in (204, 503)
    with server.client() as client:
        assert client.get("/Doc/kept").json()["n"] == 1
    said = ("[fatal]", "a disk write of the database data failed", f"(pid: {pid}) has ended with status 1; it is started again")
    wait_until(lambda: all(text in server.logged() for text in said), server.logged)
    assert server.pid != pid
    assert server.stop() == 0
