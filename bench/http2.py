"""What a GET over HTTP/2 costs the server, beside the same GET over HTTP/1.1 in the same run; and what an idle connection of either takes.

    python -m bench.http2 [--requests 20000] [--rounds 5]

The load is h2load for both protocols (Debian: nghttp2-client), on the other core, with 8 connections: HTTP/2 with 10 streams each and with one,
HTTP/1.1 one request after the other. Each request is for another of RECORDS records, and every round measures every row in turn. The figure is the CPU
time of the server process per request; *driver alone* is `svc.protocol.http2` fed with the same requests in this process, without sockets, and with PUT
requests that have a body of BODY_SIZE bytes.

Not included: TLS, networks, the time of the client, answers that have to wait for a window.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import socket
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

from h2.config import H2Configuration
from h2.connection import H2Connection

from bench import records
from bench.measure import CLIENT_CORE, cpu_seconds, memory
from bench.servers import Svc, fill_svc
from svc.protocol.events import RequestReceived
from svc.protocol.http1 import Limits
from svc.protocol.http2 import Http2

RECORDS = 1000
CONNECTIONS = 8
BODY_SIZE = 400  # bytes
IDLE = 300  # connections whose memory is measured
ROWS = {"HTTP/2, 10 streams": ("-m", "10"), "HTTP/2, 1 stream": ("-m", "1"), "HTTP/1.1": ("--h1", "-m", "1")}


class SmallSvc(Svc):
    def prepare(self) -> None:
        fill_svc(self.data / "root" / "database", RECORDS, 0)


def measure(server: SmallSvc, targets: Path, count: int, options: tuple[str, ...]) -> tuple[float, float]:
    """(microseconds of the server's CPU per request, requests a second)."""
    fields = [part for name, value in server.fields for part in ("-H", f"{name}: {value}")]
    command = ["h2load", "-n", str(count), "-c", str(CONNECTIONS), *options, *fields, "-i", str(targets)]
    before, began = cpu_seconds(server.pid), time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=True)
    took = time.monotonic() - began
    if not re.search(rf"\b{count} 2xx", done.stdout):
        raise RuntimeError(done.stdout)
    return (cpu_seconds(server.pid) - before) * 1e6 / count, count / took


def idle_memory(server: SmallSvc, http2: bool) -> float:
    """KiB that an idle connection takes: one that has asked once."""

    def open_one() -> socket.socket:
        sock = socket.create_connection(("127.0.0.1", server.port))
        if http2:
            client = H2Connection(H2Configuration())
            client.initiate_connection()
            client.send_headers(1, [(":method", "GET"), (":scheme", "http"), (":authority", "localhost"), (":path", "/")], end_stream=True)
            sock.sendall(client.data_to_send())
            while 1 not in {getattr(event, "stream_id", 0) for event in client.receive_data(sock.recv(1 << 16))}:
                pass
        else:
            sock.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert sock.recv(1 << 16)
        return sock

    first = [open_one() for _ in range(20)]
    before = memory(server.pid)[1]
    more = [open_one() for _ in range(IDLE)]
    taken = memory(server.pid)[1] - before
    for sock in first + more:
        sock.close()
    return taken / IDLE / 1024


def driver_alone(targets: list[str], express: bool, body: bytes) -> float:
    """Microseconds of CPU a request, ten at a time, each answered with 400 bytes. `body`: of the requests, b"" for none."""
    client = H2Connection(H2Configuration())
    client.initiate_connection()
    client.increment_flow_control_window(1 << 30)
    client.outbound_flow_control_window = 1 << 30  # the server's answers are not read, nor are its windows
    batches = [client.data_to_send()]
    head = [
        (":method", "PUT" if body else "GET"),
        (":scheme", "http"),
        (":authority", "localhost"),
        ("accept", "application/json"),
        ("authorization", "Basic x"),
    ]
    for number, target in enumerate(targets):
        client.send_headers(2 * number + 1, [*head[:3], (":path", target), *head[3:]], end_stream=not body)
        if body:
            client.send_data(2 * number + 1, body, end_stream=True)
        client.streams.clear()  # the answers are not read
        if number % 10 == 9:
            batches.append(client.data_to_send())
    driver = Http2(Limits(), express)
    pairs = [("Content-Type", "application/json"), ("Vary", "Accept, Accept-Encoding")]
    began = time.process_time()
    for batch in batches:
        for event in driver.receive_data(batch):
            assert type(event) is RequestReceived
            driver.respond(event.stream_id, 200, [*pairs, ("ETag", event.target)], b"x" * 400, "Sun, 06 Nov 1994 08:49:37 GMT")
        driver.finished.clear()
        driver.data_to_send()
    return (time.process_time() - began) * 1e6 / len(targets)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--requests", type=int, default=20_000, metavar="N")
    parser.add_argument("--rounds", type=int, default=5, metavar="N")
    options = parser.parse_args()
    if shutil.which("h2load") is None:
        parser.error("h2load is not installed (Debian: nghttp2-client)")
    os.sched_setaffinity(0, {CLIENT_CORE})
    paths = [f"/Item/{records.item_id(number)}" for number in range(RECORDS)]
    with tempfile.TemporaryDirectory(prefix="svc-bench-http2-") as directory:
        server = SmallSvc(Path(directory))
        server.prepare()
        server.start()
        try:
            for http2, name in ((False, "HTTP/1.1"), (True, "HTTP/2")):
                print(f"{name:20} {idle_memory(server, http2):6.1f} KiB for an idle connection", flush=True)
            targets = Path(directory) / "targets.txt"
            targets.write_text("".join(f"http://127.0.0.1:{server.port}{path}\n" for path in paths))
            found: dict[str, list[tuple[float, float]]] = {name: [] for name in ROWS}
            for arguments in ROWS.values():
                measure(server, targets, options.requests // 10, arguments)
            for _ in range(options.rounds):
                for name, arguments in ROWS.items():
                    found[name].append(measure(server, targets, options.requests, arguments))
            for name, samples in found.items():
                cpus = [cpu for cpu, _ in samples]
                rate = statistics.median(rate for _, rate in samples)
                print(f"{name:20} {statistics.median(cpus):6.1f} µs ±{(max(cpus) - min(cpus)) / 2:.1f} of the server's CPU   {rate:6.0f}/s")
        finally:
            server.stop()
    for method, body in (("GET", b""), ("PUT", b"x" * BODY_SIZE)):
        for express, name in ((True, "express lane"), (False, "h2 lane")):
            cost = statistics.median(driver_alone(paths * 5, express, body) for _ in range(options.rounds))
            print(f"driver alone         {cost:6.1f} µs, {method}, {name}")


if __name__ == "__main__":
    main()
