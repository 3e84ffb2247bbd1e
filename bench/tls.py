"""What TLS costs the server: a handshake, full and resumed, and a GET on a connection that stays, over HTTPS and over HTTP.

    python -m bench.tls [--handshakes 1000] [--rounds 3]

Reported is the CPU time of the server process. A handshake is a connection of its own that is accepted, agreed on and closed, without a request, as is
what it is compared with: a plain connection that is accepted and closed. The key is on the curve P-256, as an installation makes it, or RSA with 2048
bits, as many authorities certify. The client is Python on the other core, so the rates are those of both together. GETs come from wrk on 32 connections,
the same request from the express lane each time.

Not included: networks, clients that wait, certificates of clients.
"""

from __future__ import annotations

import argparse
import os
import socket
import ssl
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from bench import records
from bench.measure import CLIENT_CORE, cpu_seconds, load, memory, write_requests
from bench.servers import Svc, fill_svc, free_port
from svc.tls.certificates import renew_certificates

RECORDS = 1000
WARM_UP = 50  # handshakes
LOAD_SECONDS = 3
CONNECTIONS = 32
IDLE = 500  # connections whose memory is measured
VERSIONS = {"TLS 1.2": ssl.TLSVersion.TLSv1_2, "TLS 1.3": ssl.TLSVersion.TLSv1_3}


class SecureSvc(Svc):
    """With a TLS port, and a key of this kind."""

    def __init__(self, data: Path, key: str) -> None:
        super().__init__(data)
        self.key = key
        self.secure_port = free_port()

    def environment(self) -> dict[str, str]:
        return super().environment() | {"HTTP_SECUREPORT": str(self.secure_port)}

    def prepare(self) -> None:
        root = self.data / "root"
        fill_svc(root / "database", RECORDS, 0)
        (root / "keys").mkdir(mode=0o700)
        if self.key == "RSA 2048":
            key = rsa.generate_private_key(65537, 2048)
            (root / "keys" / "privateKey.pem").write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        renew_certificates(root, "localhost")

    def start(self) -> None:
        super().start()
        self.await_port(self.secure_port)  # the plain port is opened first

    def context(self, version: ssl.TLSVersion) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(self.data / "root" / "keys" / "ca.pem")
        context.minimum_version = context.maximum_version = version
        return context


def per_call(server: SecureSvc, count: int, call: Callable[[], None]) -> tuple[float, float]:
    """(microseconds of the server's CPU for each, calls a second)."""
    for _ in range(WARM_UP):
        call()
    before, began = cpu_seconds(server.pid), time.monotonic()
    for _ in range(count):
        call()
    took = time.monotonic() - began
    time.sleep(0.05)  # what the server has left to do with the last one
    return (cpu_seconds(server.pid) - before) * 1e6 / count, count / took


def handshake(server: SecureSvc, context: ssl.SSLContext, session: ssl.SSLSession | None = None) -> Callable[[], None]:
    def call() -> None:
        raw = socket.create_connection(("127.0.0.1", server.secure_port))
        with context.wrap_socket(raw, server_hostname="localhost", session=session) as sock:
            assert sock.session_reused == (session is not None)

    return call


def connect(server: SecureSvc) -> Callable[[], None]:
    return lambda: socket.create_connection(("127.0.0.1", server.port)).close()


def session_of(server: SecureSvc, context: ssl.SSLContext) -> ssl.SSLSession:
    raw = socket.create_connection(("127.0.0.1", server.secure_port))
    with context.wrap_socket(raw, server_hostname="localhost") as sock:
        sock.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        while sock.recv(1 << 16):  # tickets come with the answer
            pass
        session = sock.session
    assert session is not None
    return session


def idle_memory(server: SecureSvc, secure: bool) -> float:
    """KiB that an idle connection takes: one that has asked once."""
    context = server.context(ssl.TLSVersion.TLSv1_3)

    def open_one() -> socket.socket:
        raw = socket.create_connection(("127.0.0.1", server.secure_port if secure else server.port))
        sock = context.wrap_socket(raw, server_hostname="localhost") if secure else raw
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


def measure_handshakes(data: Path, key: str, count: int, rounds: int) -> None:
    server = SecureSvc(data / key.replace(" ", ""), key)
    server.prepare()
    server.start()
    try:
        if key == "P-256":  # first, while nothing has been freed that could be used again
            plain, secure = idle_memory(server, False), idle_memory(server, True)
            print(f"idle      {plain:.1f} KiB over HTTP, {secure:.1f} KiB over HTTPS for a connection", flush=True)
        calls: dict[str, Callable[[], None]] = {"plain connection": connect(server)}
        for name, version in VERSIONS.items():
            context = server.context(version)
            calls[f"{name}, full"] = handshake(server, context)
            calls[f"{name}, resumed"] = handshake(server, context, session_of(server, context))
        found: dict[str, list[tuple[float, float]]] = {name: [] for name in calls}
        for _ in range(rounds):
            for name, call in calls.items():
                found[name].append(per_call(server, count, call))
        for name, samples in found.items():
            cpus = [cpu for cpu, _ in samples]
            rate = statistics.median(rate for _, rate in samples)
            spread = (max(cpus) - min(cpus)) / 2
            print(f"{key:9} {name:18} {statistics.median(cpus):7.0f} µs ±{spread:.0f} of the server's CPU   {rate:6.0f}/s", flush=True)
        if key != "P-256":
            return
        requests = data / "get.txt"
        write_requests(requests, (server.get(f"/Item/{records.item_id(n)}") for n in range(RECORDS)), "localhost")
        ratios = []
        for _ in range(rounds):
            over_http = load(server.pid, server.port, requests, seconds=LOAD_SECONDS, connections=CONNECTIONS)
            over_https = load(server.pid, server.secure_port, requests, seconds=LOAD_SECONDS, connections=CONNECTIONS, scheme="https")
            assert not over_http.errors and not over_https.errors, (over_http, over_https)
            ratios.append(over_https.cpu / over_http.cpu)
            print(f"GET       {over_http.cpu:.1f} µs over HTTP, {over_https.cpu:.1f} µs over HTTPS: {ratios[-1]:.2f} times", flush=True)
        print(f"GET       {statistics.median(ratios):.2f} times, median of {rounds}")
    finally:
        server.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--handshakes", type=int, default=1000, metavar="N")
    parser.add_argument("--rounds", type=int, default=3, metavar="N")
    options = parser.parse_args()
    os.sched_setaffinity(0, {CLIENT_CORE})
    with tempfile.TemporaryDirectory(prefix="svc-bench-tls-") as directory:
        for key in ("P-256", "RSA 2048"):
            measure_handshakes(Path(directory), key, options.handshakes, options.rounds)


if __name__ == "__main__":
    main()
