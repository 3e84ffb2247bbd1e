"""A volume that files fill: uploads answer 507 and leave nothing, what is there stays readable, and space that returns is used at once."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.conftest import Process
from tests.support.waiting import wait_until

pytestmark = pytest.mark.programs

MIB = 1 << 20
VOLUME_BYTES = 24 * MIB
CONTENT = os.urandom(3 * MIB)


@pytest.fixture
def volume(tmp_path: Path) -> Iterator[Path]:
    """A small tmpfs of our own; where mounting is not permitted the unit tests that let single calls fail cover the same code."""
    path = tmp_path / "volume"
    path.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={VOLUME_BYTES}", "svc-test", str(path)], capture_output=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip("mounting a tmpfs is not permitted here")
    yield path
    subprocess.run(["umount", "-l", str(path)], check=True)


def pieces(content: bytes) -> Iterator[bytes]:
    for start in range(0, len(content), 100_000):
        yield content[start : start + 100_000]


def test_uploads_fail_with_507_and_recover(volume: Path, tmp_path: Path) -> None:
    app = tmp_path / "app"
    app.mkdir()
    (app / "schema.graphql").write_text("type Film @table @export { id: ID @primaryKey  video: Blob }\n")
    server = Process(tmp_path / "root", app, env={"STORAGE_BLOBPATHS": str(volume)}).start()
    try:
        with server.client() as client:
            stored = 0
            while (response := client.put(f"/Film/{stored}/video", content=pieces(CONTENT))).status_code == 204:
                stored += 1
                assert stored < VOLUME_BYTES // len(CONTENT) + 1
            assert (response.status_code, response.json()["code"]) == (507, "NO_SPACE")
            assert stored >= 5
            assert len([path for path in volume.rglob("*") if path.is_file()]) == stored
            for number in range(stored):
                assert client.get(f"/Film/{number}/video").content == CONTENT
            assert client.get(f"/Film/{stored}").status_code == 404
            assert client.put("/Film/small/video", content=b"inside the record").status_code == 204
            wait_until(lambda: "no space left" in server.logged(), server.logged)

            subprocess.run(["mount", "-o", f"remount,size={VOLUME_BYTES * 2}", str(volume)], check=True)
            assert client.put("/Film/again/video", content=pieces(CONTENT)).status_code == 204
            assert client.get("/Film/again/video").content == CONTENT
        assert server.stop() == 0
    finally:
        server.kill()
