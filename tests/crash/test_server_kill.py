"""kill -9 of the real process under load: what was acknowledged is there, what was not is whole or absent, `svc check` agrees."""

from __future__ import annotations

import http.client
import json
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
WRITERS = 4
AUTHORIZATION = "Basic " + b64encode(f"admin:{PASSWORD}".encode()).decode()


class Writer(threading.Thread):
    """Writes records of its own, one after the other, and remembers what was answered.

    `acknowledged`: key -> the newest state with a 2xx (None = deleted). `attempted`: key -> states sent after that one, answered or not.
    """

    def __init__(self, port: int, number: int, seed: int) -> None:
        super().__init__(daemon=True)
        self.port, self.number, self.random = port, number, random.Random(seed)
        self.acknowledged: dict[str, dict[str, object] | None] = {}
        self.attempted: dict[str, list[dict[str, object] | None]] = {}
        self.answers = 0

    def run(self) -> None:
        headers = {"Authorization": AUTHORIZATION, "Content-Type": "application/json"}
        try:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
            for step in range(1_000_000):
                key = f"w{self.number}-{self.random.randrange(40)}"
                state: dict[str, object] | None = None
                if self.random.random() < 0.8:
                    state = {"name": f"s{step}", "price": step, "tags": [f"t{step % 5}", f"u{step % 3}"], "id": key}
                self.attempted.setdefault(key, []).append(state)
                if state is None:
                    connection.request("DELETE", f"/Product/{key}", headers=headers)
                else:
                    connection.request("PUT", f"/Product/{key}", json.dumps(state), headers)
                response = connection.getresponse()
                response.read()
                if response.status == 204:
                    self.acknowledged[key] = state
                    self.attempted[key] = []
                    self.answers += 1
        except (OSError, http.client.HTTPException):
            return  # the server is gone


def test_nothing_acknowledged_is_lost(tmp_path: Path) -> None:
    server = Process(tmp_path / "root")
    expected: dict[str, dict[str, object] | None] = {}
    possible: dict[str, list[dict[str, object] | None]] = {}
    for round_number in range(ROUNDS):
        server.start()
        writers = [Writer(server.port, number, round_number * 100 + number) for number in range(WRITERS)]
        for writer in writers:
            writer.start()
        # Enough answers, then some random moment: the kill falls anywhere in a turn.
        deadline = time.monotonic() + 60
        while sum(w.answers for w in writers) < 200 and time.monotonic() < deadline:
            time.sleep(0.02)
        time.sleep(random.Random(round_number).random() * 0.2)
        server.kill()
        for writer in writers:
            writer.join(timeout=30)
            assert not writer.is_alive()
            expected.update(writer.acknowledged)
            possible.update(writer.attempted)
        assert sum(w.answers for w in writers) >= 200, server.output()

        check = [sys.executable, "-m", "svc", "check", str(tmp_path / "root")]
        checked = subprocess.run(
            check, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}, check=False
        )
        assert checked.returncode == 0, checked.stdout + checked.stderr

        server.start()
        with server.client() as client:
            for key in {*expected, *possible}:
                response = client.get(f"/Product/{key}")
                found = response.json() if response.status_code == 200 else None
                allowed = [expected.get(key), *possible.get(key, [])]
                assert found in allowed, (key, found, allowed)
                expected[key] = found
            indexed = {r["id"] for n in range(5) for r in client.get(f"/Product/?tags=t{n}").json()}
            assert indexed == {key for key, state in expected.items() if state is not None}
        possible.clear()
        assert server.stop() == 0
