"""Measuring another process: the CPU time it used, its memory, and wrk as the load."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import psutil

CORES = sorted(os.sched_getaffinity(0))
SERVER_CORE = CORES[0]
CLIENT_CORE = CORES[-1]  # the same one on a machine with a single core: then only CPU time per request means anything
CPUCLOCK_SCHED = 2  # linux/posix-timers.h
REPLAY = Path(__file__).parent / "replay.lua"


@dataclass(frozen=True)
class Request:
    """One request, complete. `expect`: the status that a right answer has."""

    method: str
    target: str
    fields: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    expect: int = 200

    def encode(self, host: str) -> bytes:
        fields = [("Host", host), *self.fields]
        if self.body:
            fields += [("Content-Type", "application/json"), ("Content-Length", str(len(self.body)))]
        head = "".join(f"{name}: {value}\r\n" for name, value in fields)
        return f"{self.method} {self.target} HTTP/1.1\r\n{head}\r\n".encode() + self.body


@dataclass(frozen=True)
class Sample:
    """One run of wrk against one server. Times in microseconds; `cpu`: of the server process, per request."""

    requests: int
    cpu: float
    rate: float
    p50: float
    p99: float
    worst: float
    errors: int
    utilisation: float  # CPU time over wall time: below about 0.9 the server waited, for the disk or the client


def on_core(core: int) -> partial[None]:
    return partial(os.sched_setaffinity, 0, {core})


def processes(pid: int) -> list[psutil.Process]:
    process = psutil.Process(pid)
    return [process, *process.children(recursive=True)]


def cpu_seconds(pid: int) -> float:
    """User and system time of the process, its threads and its children, ended ones included (the kernel tells that of ended children in
    ticks of 10 ms)."""
    total = 0.0
    for process in processes(pid):
        times = process.cpu_times()
        # The clock of another process: clock_getcpuclockid(3), which Python does not have.
        total += time.clock_gettime(~process.pid << 3 | CPUCLOCK_SCHED) + times.children_user + times.children_system
    return total


def memory(pid: int) -> tuple[int, int]:
    """(bytes in memory, anonymous bytes of them) of the process and its children. A page that several processes have, as instances and their parent do,
    counts in equal parts for each. The difference is mapped files: programs, and the pages of a store that maps its file, which the kernel takes back when
    something else needs them."""
    resident = anonymous = 0
    for process in processes(pid):
        lines = Path(f"/proc/{process.pid}/smaps_rollup").read_text().splitlines()[1:]
        fields = {name: int(value.split()[0]) * 1024 for name, value in (line.split(":", 1) for line in lines)}
        resident += fields["Pss"]
        anonymous += fields["Pss_Anon"]
    return resident, anonymous


def write_requests(path: Path, requests: Iterable[Request], host: str) -> None:
    with path.open("wb") as file:
        for request in requests:
            data = request.encode(host)
            file.write(b"%d\n" % len(data) + data)


def require(program: str, package: str) -> str:
    found = shutil.which(program)
    if found is None:
        sys.exit(f"{program} is not installed. On Debian and Ubuntu: apt-get install {package}")
    return found


def load(
    pid: int,
    port: int,
    requests: Path,
    *,
    seconds: int,
    connections: int,
    once: bool = False,
    scheme: str = "http",
    skip: int = 0,
    core: int = CLIENT_CORE,
) -> Sample:
    """Let wrk send `requests` to the server `pid` for `seconds`, beginning behind the first `skip`."""
    command = [require("wrk", "wrk"), "-t1", f"-c{connections}", f"-d{seconds}s", "-s", str(REPLAY), f"{scheme}://127.0.0.1:{port}/"]
    environment = os.environ | {"REQUESTS": str(requests), "ONCE": str(int(once)), "SKIP": str(skip)}
    before = cpu_seconds(pid)
    done = subprocess.run(command, env=environment, capture_output=True, text=True, preexec_fn=on_core(core), check=False)
    used = cpu_seconds(pid) - before
    line = next((line for line in done.stdout.splitlines() if line.startswith("RESULT ")), None)
    if line is None:
        raise RuntimeError(f"wrk failed: {done.stdout}{done.stderr}")
    result = json.loads(line.removeprefix("RESULT "))
    count = max(result["requests"], 1)
    wall = result["microseconds"]
    return Sample(
        requests=result["requests"],
        cpu=used * 1e6 / count,
        rate=count * 1e6 / wall,
        p50=result["p50"],
        p99=result["p99"],
        worst=result["worst"],
        errors=result["status_errors"] + result["socket_errors"],
        utilisation=used * 1e6 / wall,
    )
