"""What saving a file costs under `svc dev`: from the save to the first answer of the new version, and the longest pause for everybody else.

    python -m bench.reload [--saves 60]

A real process with an application of 30 files: 20 modules that import each other, a schema of 10 tables in two files, roles, configuration and six static
files. Each save changes one of them, in turn a module that all others import, `resources.py`, the schema, and a static file. One client asks for what has
changed, without a pause, until it is there; another asks for a record, and its longest wait is the pause. The clients are on another core than the server,
where there are two.
"""

from __future__ import annotations

import argparse
import http.client
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from bench.measure import CLIENT_CORE, SERVER_CORE, on_core

MODULES = 18
TABLES = 10
STATIC = 6
LIMIT = 30.0  # seconds
QUIET = 0.15  # seconds between an answer and the next save

CONFIG = """\
rest: true
graphqlSchema: {files: 'schema/*.graphql'}
roles: {files: roles.yaml}
resources: {files: 'resources.py'}
static: {files: 'web/**', urlPath: web}
"""


def schema(first: int, version: int) -> str:
    """Half of the tables. `version`: the name of an exported one."""
    tables = [
        f"type Thing{number} @table @export {{\n  id: ID @primaryKey\n  name: String @indexed\n  price: Float @indexed\n  tags: [String]\n"
        f'  otherId: ID @indexed\n  other: Thing{first} @relationship(from: "otherId")\n  made: Date @createdTime\n}}\n'
        for number in range(first, first + TABLES // 2)
    ]
    return "\n".join(tables) + f'\ntype Version{first} @table @export(name: "schema-{version}") {{ id: ID @primaryKey }}\n'


def module(number: int, version: int) -> str:
    """A module of a hundred lines that imports two others."""
    imports = "".join(f"import part{other}\n" for other in (number + 1, number + 3) if other < MODULES)
    functions = "\n".join(
        f"def step{index}(value: int, by: int = {index}) -> int:\n"
        f'    """Adds what belongs to it."""\n'
        f"    if value > {index * 1000}:\n        return value - by\n    total = sum(each * by for each in range(4))\n    return value + total\n"
        for index in range(12)
    )
    head = f"from dataclasses import dataclass\n\nfrom svc import tables\n{imports}\nVERSION = {version}\n\n\n"
    return f"{head}@dataclass\nclass Part:\n    name: str\n\n\n{functions}"


def resources(version: int) -> str:
    classes = "\n".join(
        f"class View{number}(tables.Thing{number}):\n    path = 'views/{number}'\n\n    def get(self, query=None):\n        return super().get(query)\n"
        for number in range(TABLES)
    )
    imports = "".join(f"import part{number}\n" for number in range(MODULES))
    return (
        f"from svc import Resource, tables\n{imports}\n\nclass Version(Resource):\n    def allow_read(self, user, target):\n        return True\n\n"
        f"    def get(self, query=None):\n        return [{version}, part{MODULES - 1}.VERSION]\n\n\n{classes}"
    )


def write_application(directory: Path) -> int:
    """Returns the number of files."""
    files = {"config.yaml": CONFIG, "roles.yaml": "reader:\n  data:\n    Thing0: {read: true}\n", "resources.py": resources(0)}
    files |= {f"part{number}.py": module(number, 0) for number in range(MODULES)}
    files |= {f"schema/half{first}.graphql": schema(first, 0) for first in (0, TABLES // 2)}
    files["schema/half0.graphql"] = schema(0, 0).replace("schema-0", "first")
    files |= {f"web/page{number}.html": "<p>0</p>" for number in range(STATIC)}
    files["helpers.py"] = "unused = True\n"
    for name, text in files.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text(text)
    return len(files)


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


class Client:
    """One connection that stays open."""

    def __init__(self, port: int) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=LIMIT)

    def get(self, path: str) -> tuple[int, bytes]:
        self.connection.request("GET", path)
        response = self.connection.getresponse()
        return response.status, response.read()


@dataclass
class Others:
    """A client that asks all the time for something else."""

    port: int
    waits: list[tuple[float, float]] = field(default_factory=list)  # (when it was answered, seconds)
    failures: int = 0
    _ends: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        client = Client(self.port)
        while not self._ends.is_set():
            began = time.perf_counter()
            status, _ = client.get("/Thing3/1")
            now = time.perf_counter()
            self.failures += status != 200
            self.waits.append((now, now - began))
            time.sleep(0.0005)

    def end(self) -> None:
        self._ends.set()


def changes(directory: Path, number: int) -> tuple[str, Path, str, str, bytes]:
    """(what, file, text, address, body that the new version answers) of a save."""
    kind = ("a module that all import", "resources.py", "the schema", "a static file")[number % 4]
    if number % 4 == 0:
        return kind, directory / f"part{MODULES - 1}.py", module(MODULES - 1, number), "/Version/", f",{number}]".encode()
    if number % 4 == 1:
        return kind, directory / "resources.py", resources(number), "/Version/", f"[{number},".encode()
    if number % 4 == 2:
        return kind, directory / f"schema/half{TABLES // 2}.graphql", schema(TABLES // 2, number), f"/schema-{number}/", b"[]"
    return kind, directory / "web/page0.html", f"<p>{number}</p>", "/web/page0.html", f"<p>{number}</p>".encode()


def measure(saves: int) -> tuple[dict[str, list[float]], list[float], Others, int]:
    """(kind -> seconds from each save to its answer, the longest wait of others around each, that client, files)"""
    with tempfile.TemporaryDirectory(prefix="svc-bench-") as base:
        directory = Path(base) / "app"
        count = write_application(directory)
        port = free_port()
        environment = os.environ | {
            "HOME": base,
            "ROOTPATH": f"{base}/root",
            "HTTP_PORT": str(port),
            "HTTP_SECUREPORT": "null",
            "OPERATIONSAPI_NETWORK_PORT": "null",
            "MQTT_NETWORK_PORT": "null",
            "MQTT_NETWORK_SECUREPORT": "null",
        }
        with open(f"{base}/output.txt", "wb") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "svc", "dev", str(directory)],
                env=environment,
                stdout=output,
                stderr=output,
                cwd=base,
                preexec_fn=on_core(SERVER_CORE),
            )
        os.sched_setaffinity(0, {CLIENT_CORE})
        try:
            return (*run(directory, port, saves), count)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(LIMIT)


def run(directory: Path, port: int, saves: int) -> tuple[dict[str, list[float]], list[float], Others]:
    client = started(port)
    client.connection.request("PUT", "/Thing3/1", b'{"name": "x"}', {"Content-Type": "application/json"})
    client.connection.getresponse().read()
    others = Others(port)
    thread = threading.Thread(target=others.run)
    thread.start()
    found: dict[str, list[float]] = {}
    pauses: list[float] = []
    try:
        for number in range(1, saves + 1):
            time.sleep(QUIET)
            kind, path, text, address, expected = changes(directory, number)
            saved = time.perf_counter()
            path.write_text(text)
            while expected not in (answer := client.get(address))[1] or answer[0] != 200:
                if time.perf_counter() - saved > LIMIT:
                    raise RuntimeError(f"{path} has not taken effect: {answer}")
                time.sleep(0.0005)
            answered = time.perf_counter()
            found.setdefault(kind, []).append(answered - saved)
            time.sleep(0.05)
            pauses.append(max(seconds for when, seconds in others.waits if when >= saved))
    finally:
        others.end()
        thread.join()
    return found, pauses, others


def started(port: int) -> Client:
    deadline = time.monotonic() + LIMIT
    while True:
        try:
            client = Client(port)
            client.get("/Version/")
            return client
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def percentile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, round(share * (len(ordered) - 1)))]


def table(found: dict[str, list[float]]) -> str:
    lines = ["| what is saved | median | p95 | worst |", "| --- | ---: | ---: | ---: |"]
    rows = {**found, "all": [seconds for each in found.values() for seconds in each]}
    for kind, values in rows.items():
        shown = (statistics.median(values), percentile(values, 0.95), max(values))
        lines.append(f"| {kind} | " + " | ".join(f"{seconds * 1000:.0f} ms" for seconds in shown) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--saves", type=int, default=60)
    options = parser.parse_args()
    found, pauses, others, count = measure(options.saves)
    print(f"{count} files, {options.saves} saves, {len(others.waits):,} requests of another client, {others.failures} of them failed\n")
    print(table(found))
    usual = statistics.median(seconds for _, seconds in others.waits)
    print(f"\nLongest wait of the other client around a save: median {statistics.median(pauses) * 1000:.1f} ms,", end=" ")
    print(f"p95 {percentile(pauses, 0.95) * 1000:.1f} ms; its usual request takes {usual * 1000:.2f} ms.")


if __name__ == "__main__":
    main()
