"""kill -9 while files go up: what was acknowledged is whole, nothing else shows, and what is left over is cleared away after the restart."""

from __future__ import annotations

import hashlib
import http.client
import os
import random
import subprocess
import sys
import threading
import time
from base64 import b64encode
from pathlib import Path

from tests.integration.conftest import PASSWORD, Process

ROUNDS = int(os.environ.get("SVC_CRASH_ROUNDS", "2"))
UPLOADERS = 4
ENOUGH = 40  # acknowledged uploads before the kill
LIMIT = 60.0  # seconds
SIZES = (100, 8191, 8192, 100_000, 1_000_000, 3_000_000)
AUTHORIZATION = "Basic " + b64encode(f"admin:{PASSWORD}".encode()).decode()


class Uploader(threading.Thread):
    """Uploads to keys of its own, and deletes now and then. States are digests of the content, None = no record.

    `acknowledged`: key -> the newest state with a 2xx. `attempted`: key -> what was sent after that one, answered or not.
    """

    def __init__(self, port: int, number: int, seed: int) -> None:
        super().__init__(daemon=True)
        self.port, self.number, self.random = port, number, random.Random(seed)
        self.acknowledged: dict[str, str | None] = {}
        self.attempted: dict[str, list[str | None]] = {}
        self.answers = 0

    def run(self) -> None:
        headers = {"Authorization": AUTHORIZATION, "Content-Type": "video/mp4"}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            while True:
                key = f"u{self.number}-{self.random.randrange(6)}"
                state = None
                if self.random.random() < 0.85:
                    content = self.random.randbytes(self.random.choice(SIZES))
                    state = hashlib.sha256(content).hexdigest()
                self.attempted.setdefault(key, []).append(state)
                if state is None:
                    connection.request("DELETE", f"/Film/{key}", headers=headers)
                elif self.random.random() < 0.3:  # in chunks
                    connection.request(
                        "PUT", f"/Film/{key}/video", (content[n : n + 99_999] for n in range(0, len(content), 99_999)), headers
                    )
                else:
                    connection.request("PUT", f"/Film/{key}/video", content, headers)
                response = connection.getresponse()
                response.read()
                if response.status == 204:
                    self.acknowledged[key] = state
                    self.attempted[key] = []
                    self.answers += 1
        except (OSError, http.client.HTTPException):
            return  # the server is gone
        finally:
            connection.close()


def check(root: Path) -> str:
    command = [sys.executable, "-m", "svc", "check", str(root)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_acknowledged_files_are_whole(tmp_path: Path) -> None:
    app = tmp_path / "app"
    app.mkdir()
    (app / "schema.graphql").write_text("type Film @table @export { id: ID @primaryKey  video: Blob }\n")
    server = Process(tmp_path / "root", app)
    expected: dict[str, str | None] = {}
    for round_number in range(ROUNDS):
        server.start()
        uploaders = [Uploader(server.port, number, round_number * 100 + number) for number in range(UPLOADERS)]
        for uploader in uploaders:
            uploader.start()
        deadline = time.monotonic() + LIMIT
        while sum(uploader.answers for uploader in uploaders) < ENOUGH and time.monotonic() < deadline:
            time.sleep(0.02)
        time.sleep(random.Random(round_number).random() * 0.3)  # then the kill falls anywhere
        server.kill()
        possible: dict[str, list[str | None]] = {}
        for uploader in uploaders:
            uploader.join(timeout=30)
            assert not uploader.is_alive()
            expected.update(uploader.acknowledged)
            possible.update(uploader.attempted)
        assert sum(uploader.answers for uploader in uploaders) >= ENOUGH, server.output()

        check(server.root)  # files that belong to nobody are no damage

        server.start()
        with server.client() as client:
            for key in {*expected, *possible}:
                response = client.get(f"/Film/{key}/video")
                found = hashlib.sha256(response.content).hexdigest() if response.status_code == 200 else None
                assert response.status_code in (200, 404)
                assert found in [expected.get(key), *possible.get(key, [])], key
                expected[key] = found
        deadline = time.monotonic() + LIMIT
        while "belong to no record" in (shown := check(server.root)):
            assert time.monotonic() < deadline, shown
            time.sleep(0.2)
        assert not list((server.root / "blobs").rglob("*.part"))
        assert server.stop() == 0
