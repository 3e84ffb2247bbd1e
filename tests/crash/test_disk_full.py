"""A full volume: writes answer 507, reads go on, and writes work again when space returns, without a restart."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from tests.integration.conftest import Process
from tests.support.waiting import wait_until

pytestmark = pytest.mark.programs

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


def end_of_job(server: Process, operation: str, **fields: object) -> str:
    """Run a job to its end; returns its status, or that of the refusal."""
    answer = server.operate(operation, **fields)
    if answer.status_code != 200:
        return str(answer.status_code)

    def ended() -> str | None:
        status = server.operate("get_job", id=answer.json()["job_id"]).json()[0]["status"]
        return status if status in ("COMPLETE", "ERROR") else None

    return str(wait_until(ended, "the job does not end"))


def test_what_frees_space_works_on_a_full_volume(volume: Path) -> None:
    """Also when others have taken the last byte: deletes, which the log keeps the images of, the removal of log entries, and drops."""
    server = Process(volume / "root").start()
    try:
        with server.client() as client:
            text = Random(1).randbytes(50_000).hex()
            stored = 0
            while client.put(f"/Doc/{stored}", json={"text": text}).status_code == 204:
                stored += 1
            with suppress(OSError), (volume / "others").open("wb") as file:
                while True:
                    file.write(bytes(4096))
                    file.flush()
            assert client.put("/Doc/one-more", json={"text": text}).status_code == 507
            for key in range(stored // 2):
                assert client.delete(f"/Doc/{key}").status_code == 204
            assert end_of_job(server, "delete_audit_logs_before", table="Doc", timestamp=4e12) == "COMPLETE"
            assert client.put("/Doc/one-more", json={"text": text}).status_code == 204, "inside the file"
            assert server.operate("drop_table", table="Doc").status_code == 200
            assert server.operate("drop_database", database="data").status_code == 200
        assert server.stop() == 0
    finally:
        server.kill()
