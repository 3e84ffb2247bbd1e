"""Pages whose reader makes an application step by step: the files are saved while `svc dev shop` runs, and the commands print what is shown."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import NamedTuple

from tests.support.ports import free_port
from tests.support.saving import save

LIMIT = 120.0  # seconds
_BLOCK = re.compile(
    r"^(?:\*\*(?P<file>[\w./]+)\*\*(?P<more>, at its end)?\n\n)?```(?P<language>\w+)\n(?P<text>.*?)^```$", re.DOTALL | re.MULTILINE
)


class Block(NamedTuple):
    """`file`: that it is written into, "" if none; `more`: at its end."""

    language: str
    text: str
    file: str
    more: bool


def blocks(text: str) -> list[Block]:
    """Of a page, or of a part of it."""
    found = _BLOCK.finditer(text)
    return [Block(match["language"], match["text"], match["file"] or "", bool(match["more"])) for match in found]


def commands(text: str) -> Iterator[tuple[str, str]]:
    """(command, output) of a block of commands."""
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, _, output = part.partition("\n")
        yield command, output


class Shop:
    """`svc dev shop` on free ports, in a directory of its own."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.ports = {"9926": str(free_port()), "9925": str(free_port())}
        self.process: subprocess.Popen[bytes] | None = None
        self.log = directory / "log.txt"
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith("SVC_")}
        self.environment |= {"HOME": str(directory), "ROOTPATH": str(directory / "root"), "HTTP_SECUREPORT": "null"}
        self.environment |= {"HTTP_PORT": self.ports["9926"], "OPERATIONSAPI_NETWORK_PORT": self.ports["9925"], "MQTT_NETWORK_PORT": "null"}
        self.environment["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        service = ThreadingHTTPServer(("127.0.0.1", 0), lambda *given: Quiet(*given, directory=str(directory / "rates")))
        self.service = service
        self.ports["8100"] = str(service.server_port)
        Thread(target=service.serve_forever, daemon=True).start()

    def local(self, text: str) -> str:
        return re.sub(r"(localhost:)(\d+)", lambda match: match[1] + self.ports[match[2]], text)

    def write(self, block: Block) -> None:
        path = self.directory / block.file
        path.parent.mkdir(exist_ok=True)
        before = f"{path.read_text('utf-8')}\n\n" if block.more else ""
        save(path, before + self.local(block.text), self.directory)

    def start(self) -> None:
        with self.log.open("ab") as log:
            command = [sys.executable, "-m", "svc", "dev", "shop"]
            self.process = subprocess.Popen(
                command, cwd=self.directory, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self.environment
            )
        deadline = time.monotonic() + LIMIT
        while subprocess.run(["curl", "-s", "-o", "/dev/null", self.local("http://localhost:9926/")], check=False).returncode:
            assert self.process.poll() is None and time.monotonic() < deadline, self.log.read_text()
            time.sleep(0.05)

    def wait_for_reload(self, saved: set[str], place: int) -> None:
        """Until all of these files have been loaded, as the output says behind a place."""
        deadline = time.monotonic() + LIMIT
        while not saved <= set(re.findall(r"[\w./]+", " ".join(re.findall(r" reloaded shop in .*", self.log.read_text()[place:])))):
            assert time.monotonic() < deadline, self.log.read_text()
            time.sleep(0.02)

    def stop(self) -> None:
        if self.process is not None:
            self.process.send_signal(signal.SIGINT)
            assert self.process.wait(LIMIT) == 0, self.log.read_text()
            self.process = None

    def close(self) -> None:
        self.stop()
        self.service.shutdown()
        self.service.server_close()

    def run(self, command: str) -> str:
        done = subprocess.run(
            ["bash", "-c", self.local(command)],
            cwd=self.directory,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=LIMIT,
            check=False,
        )
        return done.stdout + done.stderr


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *arguments: object) -> None:
        """Nothing."""
