"""What is not a cost per request: memory, start, bulk load, a full scan, and how much long work delays short requests."""

from __future__ import annotations

import json
import resource
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from bench import records
from bench.measure import CLIENT_CORE, Request, Sample, cpu_seconds, load, memory, on_core, write_requests
from bench.servers import REPOSITORY, START_LIMIT, Floor, Server, Svc, dump, without_id

IDLE_CONNECTIONS = 2_000
HOT = 100_000
SLOW_READ = 64 * 1024  # bytes ...
SLOW_PAUSE = 0.02  # ... and seconds between: about 3 MB/s, a phone on a good day
IMPORT_ROWS, IMPORT_BATCHES = 100_000, (100, 1_000)
LARGE, LARGE_REQUESTS = 100_000, 4  # records in one request; requests that are sent one after the other
SECONDS = 10


class LargeSvc(Svc):
    """The same application over a table of any size."""

    name = "svc-large"
    count = records.RECORDS
    load_seconds = 0.0
    load_cpu = 0.0

    def prepare(self) -> None:
        path = self.data / "root" / "database"
        code = f"import pathlib, bench.servers; bench.servers.fill_svc(pathlib.Path({str(path)!r}), {self.count}, 0)"
        start, cpu = time.perf_counter(), _children_cpu()
        subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, check=True)
        self.load_seconds, self.load_cpu = time.perf_counter() - start, _children_cpu() - cpu
        start = time.perf_counter()
        for _ in records.iter_items(self.count):  # making them is not part of storing them
            pass
        made = time.perf_counter() - start
        self.load_seconds -= made
        self.load_cpu -= made


def _children_cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def connect(server: Server) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), timeout=60)


def exchange(sock: socket.socket, server: Server, request: Request) -> bytes:
    """One small answer over an open connection."""
    sock.sendall(request.encode("localhost"))
    return sock.recv(1 << 16)


def idle_memory(server: Server) -> float:
    """Bytes of the server process per connection that has asked once and waits."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, IDLE_CONNECTIONS + 200)), hard))
    request = server.requests()["get"](1)
    for _ in range(3):
        server.ask(request)
    _, before = memory(server.pid)
    connections = [connect(server) for _ in range(IDLE_CONNECTIONS)]
    for sock in connections:
        exchange(sock, server, request)
    _, after = memory(server.pid)
    for sock in connections:
        sock.close()
    return (after - before) / IDLE_CONNECTIONS


def first_answers(server: Server) -> tuple[float, float]:
    """Seconds from starting the program to the end of its first answer, a refusal, and of the first record, for which it checked a password."""
    request = server.requests()["get"](1)
    start = time.perf_counter()
    server.start()
    refused, _, _ = server.ask(Request("GET", request.target))
    first = time.perf_counter() - start
    status, _, _ = server.ask(request)
    elapsed = time.perf_counter() - start
    assert (refused, status) == (401, 200)
    return first, elapsed


def imports() -> tuple[float, int]:
    """(seconds that a start spends on imports, the modules that they load), with cached bytecode: `machine.use_bytecode`."""
    times, count = [], 0
    for _ in range(5):
        start = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-c", "import svc.__main__, svc.cli.serving, svc.server, sys; print(len(sys.modules))"],
            cwd=REPOSITORY,
            check=True,
            stdout=subprocess.PIPE,
            preexec_fn=on_core(CLIENT_CORE),
        )
        times.append(time.perf_counter() - start)
        count = int(done.stdout)
    return statistics.median(times), count


def scan(
    server: Server, on_data: Callable[[int], None] = lambda received: None, limit: float = START_LIMIT, codings: str = "identity"
) -> int:
    """Read the whole table over one connection as fast as `on_data(bytes so far)` returns, for at most `limit` seconds; bytes read."""
    sock = connect(server)
    sock.sendall(server.get("/Item/", **{"Accept-Encoding": codings, "Connection": "close"}).encode("localhost"))
    received, deadline = 0, time.monotonic() + limit
    with sock:
        while time.monotonic() < deadline:
            data = sock.recv(SLOW_READ)
            if not data:
                break
            received += len(data)
            on_data(received)
    return received


def scan_speed(server: Server, count: int, codings: str = "identity") -> tuple[float, float, int, int]:
    """(records per second of CPU time, records per second, bytes by which memory grew while it ran, bytes read)."""
    anonymous = [memory(server.pid)[1]]
    seen = 0

    def watch(received: int) -> None:
        nonlocal seen
        if received - seen > 1 << 24:
            seen = received
            anonymous.append(memory(server.pid)[1])

    cpu, start = cpu_seconds(server.pid), time.perf_counter()
    received = scan(server, watch, limit=600, codings=codings)
    wall = time.perf_counter() - start
    return count / (cpu_seconds(server.pid) - cpu), count / wall, max(anonymous) - anonymous[0], received


def import_rows(server: Server, batch: int, stop: threading.Event) -> None:
    """POST arrays of records, one transaction each, one after the other."""
    for first in range(0, IMPORT_ROWS, batch):
        if stop.is_set():
            return
        rows = [without_id(records.item(n)) for n in range(first, first + batch)]
        status, _, body = server.ask(Request("POST", "/Created/", server.fields, dump(rows)))
        if status != 201:
            raise RuntimeError(f"import: {status} {body[:300]!r}")


def large_array(set_number: int) -> bytes:
    """A body of LARGE records; `category` names the set they belong to."""
    return dump([without_id(records.item(n)) | {"category": f"set {set_number}"} for n in range(LARGE)])


def write_at_once(server: Server, requests: list[Request], took: list[float]) -> Callable[[threading.Event], None]:
    """Send requests that write many records each, one after the other, and take them off the list; `took`: the seconds of each."""

    def run(stop: threading.Event) -> None:
        while requests and not stop.is_set():
            request = requests.pop(0)
            start = time.perf_counter()
            status, _, body = server.ask(request)
            if status != request.expect:
                raise RuntimeError(f"{request.method}: {status} {body[:300]!r}")
            took.append(time.perf_counter() - start)

    return run


def latency(server: LargeSvc, scratch: Path, beside: Callable[[threading.Event], None] | None = None) -> Sample:
    """GETs over 8 connections, which leave the server time to spare, with something else going on beside them."""
    file = scratch / "gets"
    write_requests(file, [server.requests()["get"](n) for n in range(0, min(server.count, records.RECORDS), 7)], "localhost")
    stop = threading.Event()
    thread = threading.Thread(target=beside, args=(stop,)) if beside is not None else None
    if thread is not None:
        thread.start()
        time.sleep(0.5)
    try:
        return load(server.pid, server.port, file, seconds=SECONDS, connections=8)
    finally:
        stop.set()
        if thread is not None:
            thread.join()


def slow_scan(server: Server) -> Callable[[threading.Event], None]:
    def run(stop: threading.Event) -> None:
        class Enough(Exception):
            pass

        def on_data(received: int) -> None:
            time.sleep(SLOW_PAUSE)
            if stop.is_set():
                raise Enough

        try:
            scan(server, on_data)
        except (Enough, OSError):
            pass

    return run


def measure_latency(server: LargeSvc, scratch: Path, count: int, found: dict[str, str]) -> None:
    """p99 of GET, alone and beside long work; the worst of them all in brackets."""
    alone = latency(server, scratch)
    found["p99 (worst) of GET, 8 connections, alone"] = f"{alone.p99 / 1000:.2f} ({alone.worst / 1000:.0f}) ms"

    def add(name: str, sample: Sample, more: str = "") -> None:
        found[name] = f"{sample.p99 / 1000:.2f} ({sample.worst / 1000:.0f}) ms, {sample.p99 / alone.p99:.1f} times{more}"

    add(f"… while {count:,} records stream to a slow client", latency(server, scratch, slow_scan(server)))
    for batch in IMPORT_BATCHES:
        sample = latency(server, scratch, lambda stop, batch=batch: import_rows(server, batch, stop))
        add(f"… while {IMPORT_ROWS:,} rows are imported, {batch:,} in each request and transaction", sample)
    posts = [Request("POST", "/Created/", server.fields, large_array(number), 201) for number in range(LARGE_REQUESTS)]
    deletes = [Request("DELETE", f"/Created/?category=set%20{number}", server.fields, b"", 204) for number in range(LARGE_REQUESTS)]
    for name, requests in (("created by one POST", posts), ("deleted by one DELETE", deletes)):
        took: list[float] = []
        sample = latency(server, scratch, write_at_once(server, requests, took))
        add(f"… while {LARGE:,} records are {name}", sample, f"; {statistics.median(took):.1f} s for each")
        for request in requests:  # those that were not reached
            status, _, body = server.ask(request)
            assert status == request.expect, body[:300]


def measure_properties(scratch: Path, count: int) -> dict[str, str]:
    """Name of the property -> its figure as text."""
    found: dict[str, str] = {}
    floor = Floor(scratch)
    floor.start()
    try:
        floor_idle = idle_memory(floor)
    finally:
        floor.stop()

    small = Svc(scratch)
    small.prepare()
    small.start()
    try:
        found["memory after start (resident)"] = f"{memory(small.pid)[0] / 2**20:.0f} MiB"
        # Before anything else: memory that was used and freed would hold the connections without growing.
        found["memory per idle connection"] = f"{idle_memory(small) / 1024:.1f} KiB (floor: {floor_idle / 1024:.1f})"
        file = scratch / "hot"
        write_requests(file, [small.requests()["get"](n) for n in range(HOT)], "localhost")
        load(small.pid, small.port, file, seconds=SECONDS, connections=32)
        for row in ("equality", "range", "sort"):
            small.ask(small.requests()[row](1))
        resident, anonymous = memory(small.pid)
        found[f"memory with {HOT:,} records hot"] = f"{resident / 2**20:.0f} MiB, {anonymous / 2**20:.0f} of it not a mapped file"
    finally:
        small.stop()

    large = LargeSvc(scratch)
    large.count = count
    large.prepare()
    found[f"bulk load of {count:,} records, 3 indexes"] = (
        f"{count / large.load_seconds:,.0f} records/s, {count / large.load_cpu:,.0f} per CPU second"
    )
    starts = []
    for _ in range(3):
        starts.append(first_answers(large))
        large.stop()
    first, record = min(starts)
    seconds, modules = imports()
    found[f"start to first answer, {count:,} records"] = (
        f"{first:.2f} s, {record:.2f} s with a password checked; the imports of {modules} modules alone {seconds:.2f} s; with cached bytecode"
    )
    large.start()
    try:
        for codings in ("identity", "br", "zstd", "gzip"):
            by_cpu, by_wall, growth, size = scan_speed(large, count, codings)
            name = "full scan, streamed as JSON" if codings == "identity" else f"… compressed with {codings}"
            found[name] = (
                f"{by_cpu:,.0f} records per CPU second, {by_wall:,.0f} per second, {size / 1e6:,.0f} MB; memory +{growth / 2**20:.0f} MiB"
            )
        measure_latency(large, scratch, count, found)
    finally:
        large.stop()
    print(json.dumps(found, indent=1, ensure_ascii=False))
    return found
