"""kill -9 while files go up: what was acknowledged is whole, nothing else shows, and what is left over is cleared away after the restart."""

from __future__ import annotations

import hashlib
import random
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.integration.conftest import Process
from tests.support.crash import Client, Expected, check, rounds

pytestmark = pytest.mark.programs

ROUNDS = rounds(2)
UPLOADERS = 4
ENOUGH = 40  # acknowledged uploads before the kill
LIMIT = 60.0  # seconds
SIZES = (100, 8191, 8192, 100_000, 1_000_000, 3_000_000)


class Uploader(Client):
    """Uploads files, and deletes now and then. States are digests of the content."""

    def request(self, number: int) -> tuple[str, Any, str, str, bytes | Iterable[bytes] | None, Mapping[str, str]]:
        key = f"{self.name}-{self.random.randrange(6)}"
        if self.random.random() >= 0.85:
            return key, None, "DELETE", f"/Film/{key}", None, {}
        content = self.random.randbytes(self.random.choice(SIZES))
        body: bytes | Iterable[bytes] = content
        if self.random.random() < 0.3:  # in chunks
            body = (content[start : start + 99_999] for start in range(0, len(content), 99_999))
        return key, hashlib.sha256(content).hexdigest(), "PUT", f"/Film/{key}/video", body, {"Content-Type": "video/mp4"}


def test_acknowledged_files_are_whole(tmp_path: Path) -> None:
    app = tmp_path / "app"
    app.mkdir()
    (app / "schema.graphql").write_text("type Film @table @export { id: ID @primaryKey  video: Blob }\n")
    server = Process(tmp_path / "root", app).start()
    expected = Expected()
    for round_number in range(ROUNDS):
        uploaders = [Uploader(server.port, f"u{number}", round_number * 100 + number) for number in range(UPLOADERS)]
        expected.kill(server.kill, uploaders, answers=ENOUGH, delay=random.Random(round_number).random() * 0.3)
        check(server.root)  # files of no record are no damage
        server.start()
        with server.client() as client:
            for key in expected.all_keys():
                response = client.get(f"/Film/{key}/video")
                assert response.status_code in (200, 404)
                expected.found(key, hashlib.sha256(response.content).hexdigest() if response.status_code == 200 else None)
        deadline = time.monotonic() + LIMIT
        while "are orphaned" in (shown := check(server.root)):
            assert time.monotonic() < deadline, shown
            time.sleep(0.2)
        assert not list((server.root / "blobs").rglob("*.part"))
    assert server.stop() == 0
