"""`tests.support.socket_server` as a process."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
STOP_LIMIT = 60.0  # seconds


class SocketProcess:
    def __init__(self, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.socket_server", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise AssertionError(self.process.communicate()[1])
        self.port = int(line)
        self.url = f"ws://127.0.0.1:{self.port}"
        self.errors = ""

    def stop(self) -> dict[str, Any]:
        """Drain it; returns its figures."""
        self.process.send_signal(signal.SIGTERM)
        try:
            output, self.errors = self.process.communicate(timeout=STOP_LIMIT)
        finally:
            self.kill()
        assert self.process.returncode == 0, self.errors
        found: dict[str, Any] = json.loads(output)
        return found

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
