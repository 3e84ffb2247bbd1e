"""A full volume: writes answer 507, reads go on, and writes work again when space returns, without a restart."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from tests.integration.conftest import Process

VOLUME_BYTES = 24 * 1024 * 1024


@pytest.fixture
def volume(tmp_path: Path) -> Iterator[Path]:
    """A small tmpfs of our own; where mounting is not permitted the unit test with a small map covers the same code."""
    path = tmp_path / "volume"
    path.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={VOLUME_BYTES}", "svc-test", str(path)], capture_output=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip("mounting a tmpfs is not permitted here")
    yield path
    subprocess.run(["umount", "-l", str(path)], check=True)


def test_writes_fail_with_507_and_recover(volume: Path) -> None:
    server = Process(volume / "root").start()
    try:
        with server.client() as client:
            text = Random(1).randbytes(100_000).hex()  # which compression makes half as long, not less
            stored: list[str] = []
            status = 204
            for number in range(1000):
                status = client.put(f"/Doc/{number}", json={"text": text, "n": number}).status_code
                if status != 204:
                    break
                stored.append(str(number))
            refused = client.put("/Doc/one-more", json={"text": text})
            assert status == 507
            assert refused.status_code == 507
            assert refused.json()["code"] == "NO_SPACE"
            assert len(stored) > 10
            for key in stored:
                assert client.get(f"/Doc/{key}").json()["n"] == int(key)
            assert client.get("/Doc/one-more").status_code == 404

            grown = subprocess.run(["mount", "-o", f"remount,size={VOLUME_BYTES * 2}", str(volume)], capture_output=True, check=False)
            assert grown.returncode == 0, grown.stderr
            assert client.put("/Doc/one-more", json={"text": text}).status_code == 204
            assert client.get("/Doc/one-more").status_code == 200
        assert server.stop() == 0
    finally:
        server.kill()
