"""What a deployment costs others: the longest turn of the loop, and how long requests wait, while an application is deployed.

    python -m bench.deploying [--rounds 3]

A real process serves a small application. One client asks for it all the time; beside it a version is deployed, once with one file of 90 MB (as CBOR, and as
JSON in base64), once with code that imports large libraries, once with 15,000 small files. Turns are measured by the processor time of the loop's thread,
which does not count what the processes of the deployment, the client and the machine take in between; waits are by the clock, and do.
"""

from __future__ import annotations

import argparse
import base64
import http.client
import io
import json
import os
import signal
import socket
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import cbor2

PASSWORD = "bench"
AUTHORIZATION = "Basic " + base64.b64encode(f"admin:{PASSWORD}".encode()).decode()
APP = {
    "config.yaml": b"rest: true\nresources: resources.py\n",
    "resources.py": b"class Version(Resource):\n    def get(self, target=None):\n        return {'version': 1}\n",
}
TOLD_MS = 1.0  # turns that take less processor time are not counted


def serve(turns: str, words: list[str]) -> None:
    """In the child: a server that writes the processor time of each longer turn, in milliseconds, into a file."""
    from svc.cli import main
    from svc.loop import TurnSelector

    select = TurnSelector.select
    began = time.thread_time()
    out = open(turns, "a", buffering=1)  # noqa: SIM115 - until the process ends

    def measured(self: TurnSelector, timeout: float | None = None) -> Any:
        nonlocal began
        spent_ms = (time.thread_time() - began) * 1000
        if spent_ms > TOLD_MS:
            out.write(f"{spent_ms:.1f}\n")
        ready = select(self, timeout)
        began = time.thread_time()
        return ready

    TurnSelector.select = measured  # type: ignore[method-assign]
    sys.exit(main(words))


def archive(files: Mapping[str, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return out.getvalue()


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def post(port: int, content: bytes, media_type: str) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
    connection.request("POST", "/", content, {"Content-Type": media_type, "Authorization": AUTHORIZATION})
    answer = connection.getresponse()
    text = answer.read()
    assert answer.status == 200, text
    connection.close()


class Asking(threading.Thread):
    """Asks for the application until it is stopped. `waits`: seconds of each request."""

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self.port = port
        self.waits: list[float] = []
        self.is_stopped = False

    def run(self) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        while not self.is_stopped:
            began = time.perf_counter()
            connection.request("GET", "/Version", headers={"Authorization": AUTHORIZATION})
            answer = connection.getresponse()
            answer.read()
            self.waits.append(time.perf_counter() - began)
            assert answer.status == 200


def measure(name: str, body: Mapping[str, Any], media_type: str, rounds: int) -> None:
    with tempfile.TemporaryDirectory() as place:
        turns, port, operations = Path(place) / "turns", free_port(), free_port()
        environment = {
            **os.environ, "HOME": place, "ROOTPATH": f"{place}/root", "HTTP_PORT": str(port), "HTTP_SECUREPORT": "null", "SVC_ADMIN_PASSWORD": PASSWORD,
            "OPERATIONSAPI_NETWORK_PORT": str(operations), "MQTT_NETWORK_PORT": "null", "MQTT_NETWORK_SECUREPORT": "null",
        }  # fmt: skip
        server = subprocess.Popen(
            [sys.executable, "-m", "bench.deploying", "--serve", str(turns), "run"],
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            while True:
                try:
                    socket.create_connection(("127.0.0.1", operations), 1).close()
                    break
                except OSError:
                    time.sleep(0.05)
            post(operations, cbor2.dumps({**body, "payload": archive(APP)}), "application/cbor")
            content = cbor2.dumps(body) if media_type == "application/cbor" else json.dumps(body).encode()
            asking = Asking(port)
            asking.start()
            time.sleep(1)
            asking.waits.clear()
            before, began = turns.stat().st_size, time.perf_counter()
            for _ in range(rounds):
                post(operations, content, media_type)
            took = (time.perf_counter() - began) / rounds
            asking.is_stopped = True
            asking.join()
            longer = [float(line) for line in turns.read_text()[before:].split()]
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait()
    waits = sorted(asking.waits)
    print(
        f"| {name} | {took:.1f} s | {max(longer, default=0):.1f} ms | {waits[len(waits) // 2] * 1000:.1f} ms | {waits[len(waits) * 99 // 100] * 1000:.1f} ms |"
        f" {waits[-1] * 1000:.0f} ms |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="deployments of each kind")
    rounds = parser.parse_args().rounds
    large = archive({**APP, "web/blob": os.urandom(90 << 20)})
    many = archive({**APP, **{f"web/d{number % 50}/f{number}.txt": os.urandom(200).hex().encode() for number in range(15_000)}})
    wish = {"operation": "deploy_component", "project": "shop", "restart": True}
    print("| Deployed | takes | longest turn (CPU) | a GET meanwhile: median | 99 % | longest |\n|---|---|---|---|---|---|")
    measure("90 MB, CBOR", {**wish, "payload": large}, "application/cbor", rounds)
    with_library = archive({**APP, "resources.py": b"import django.template, django.db.models, fastapi\n" + APP["resources.py"]})
    measure("imports Django and FastAPI", {**wish, "payload": with_library}, "application/cbor", 1)
    measure("90 MB, JSON", {**wish, "payload": base64.b64encode(large).decode()}, "application/json", rounds)
    measure("15,000 files", {**wish, "payload": many}, "application/cbor", rounds)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        serve(sys.argv[2], sys.argv[3:])
    else:
        main()
