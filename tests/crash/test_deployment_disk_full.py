"""A volume that becomes full during a deployment: 507, the former version serves, nothing is left, and it works again when there is space."""

from __future__ import annotations

import base64
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from tests.crash.test_disk_full import volume
from tests.integration.conftest import Process
from tests.support.archives import tar_of

pytestmark = pytest.mark.programs

__all__ = ["volume"]

MEGABYTE = 1 << 20


def app(number: int, size: int = 0) -> str:
    code = f"class Version(Resource):\n    def get(self, target=None):\n        return {{'version': {number}}}\n"
    files = {"config.yaml": "rest: true\nresources: true\n", "resources.py": code, "blob": Random(number).randbytes(size)}
    return base64.b64encode(tar_of(files, mode="w")).decode()


@pytest.fixture
def server(volume: Path) -> Iterator[Process]:
    server = Process(volume / "root", None).start()
    yield server
    server.kill()


def free(server: Process) -> int:
    found = os.statvfs(server.root)
    return found.f_bavail * found.f_frsize


def test_a_deployment_that_finds_no_space_changes_nothing(server: Process) -> None:
    assert server.operate("deploy_component", project="shop", payload=app(1), restart=True).status_code == 200
    area = server.root / "components" / ".deployments"
    before = sorted(path.relative_to(area).as_posix() for path in area.rglob("*") if "__pycache__" not in path.parts)
    # The archive itself has no room; it has, but not what is in it; there is none for a journal.
    for size in (free(server) + MEGABYTE, free(server) * 2 // 3):
        answer = server.operate("deploy_component", project="shop", payload=app(2, size), restart=True)
        assert (answer.status_code, answer.json()["code"]) == (507, "NO_SPACE"), answer.text
        assert sorted(path.relative_to(area).as_posix() for path in area.rglob("*") if "__pycache__" not in path.parts) == before
        with server.client() as client:
            assert client.get("/Version").json() == {"version": 1}
    filler = server.root / "filler"
    with suppress(OSError), filler.open("wb") as file:
        while True:
            file.write(bytes(4096))
            file.flush()
    answer = server.operate("deploy_component", project="shop", payload=app(2), restart=True)
    assert answer.status_code == 507, answer.text
    with server.client() as client:
        assert client.get("/Version").json() == {"version": 1}
    filler.unlink()
    answer = server.operate("deploy_component", project="shop", payload=app(3), restart=True)
    assert answer.status_code == 200, answer.text
    with server.client() as client:
        assert client.get("/Version").json() == {"version": 3}
    assert server.stop() == 0
    server.start()
    with server.client() as client:
        assert client.get("/Version").json() == {"version": 3}
    assert server.stop() == 0
