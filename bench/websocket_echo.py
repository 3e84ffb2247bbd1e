"""WebSocket: CPU time per echoed message, and memory of idle connections.

    python -m bench.websocket_echo [--seconds 3] [--connections 32] [--idle 10000]

The server is `tests/support/socket_server.py`: svc's loop, connections, driver and WebSocket objects, without store and resources. One client keeps one
message on its way per connection: a masked text frame, prepared beforehand. Beside it, in the same run and by the same client: the floor, which
answers whatever one `recv` returns with a constant, and an echo server on the PyPI package `websockets`, which unmasks in C.

CPU time is that of the server process (utime + stime) per message. The memory of idle connections is the growth of the process's anonymous
memory over their number; what the kernel holds for their sockets is not in it.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import resource
import select
import socket
import struct
import subprocess
import sys
import time
from base64 import b64encode
from pathlib import Path

from bench.measure import CLIENT_CORE, SERVER_CORE, cpu_seconds, memory, on_core

ROOT = Path(__file__).parents[1]
SIZES = (32, 1024)
START_LIMIT = 20.0
ROUNDS = 3
KEY = b"\x37\xfa\x21\x3d"
PONG = b"\x8a\x80" + KEY


def masked(size: int) -> bytes:
    payload = bytes(ord("x") ^ KEY[place % 4] for place in range(size))
    head = bytes([0x81, 0x80 | size]) if size < 126 else bytes([0x81, 0xFE]) + struct.pack("!H", size)
    return head + KEY + payload


def echoed(size: int) -> int:
    """Bytes of the answer."""
    return size + (2 if size < 126 else 4)


def start(arguments: list[str]) -> tuple[subprocess.Popen[str], int]:
    process = subprocess.Popen(
        [sys.executable, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=ROOT,
        preexec_fn=on_core(SERVER_CORE),
    )
    assert process.stdout is not None
    return process, int(process.stdout.readline())


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def connect(port: int, path: str | None) -> socket.socket:
    """`path` None: without a handshake."""
    deadline = time.monotonic() + START_LIMIT
    while True:
        try:
            sock = socket.create_connection(("127.0.0.1", port))
            break
        except ConnectionRefusedError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if path is not None:
        sock.sendall(
            f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
            f"Sec-WebSocket-Key: {b64encode(os.urandom(16)).decode()}\r\n\r\n".encode()
        )
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += sock.recv(4096)  # nothing follows it before we send something
        assert head.startswith(b"HTTP/1.1 101 "), head
    sock.setblocking(False)
    return sock


def load(pid: int, port: int, path: str | None, size: int, connections: int, seconds: float) -> tuple[float, float]:
    """(microseconds of CPU per message, messages a second)."""
    message = masked(size)
    expected = echoed(size)
    sockets = {sock.fileno(): sock for sock in (connect(port, path) for _ in range(connections))}
    poll = select.epoll()
    for number, sock in sockets.items():
        poll.register(number, select.EPOLLIN)
        sock.send(message)
    got = dict.fromkeys(sockets, 0)
    count = 0
    before, started = cpu_seconds(pid), time.monotonic()
    end = started + seconds
    while time.monotonic() < end:
        for number, _ in poll.poll(1.0):
            sock = sockets[number]
            data = sock.recv(65536)
            if not data:
                raise RuntimeError("the server closed a connection")
            if path is not None:
                got[number] += len(data)
                if got[number] < expected:
                    continue
                got[number] = 0
            count += 1
            sock.send(message)
    used, wall = cpu_seconds(pid) - before, time.monotonic() - started
    poll.close()
    for sock in sockets.values():
        sock.close()
    return used * 1e6 / max(count, 1), count / wall


def idle(count: int) -> None:
    wanted = count + 100
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if hard < wanted:
        print(f"idle connections: not measured, the limit of descriptors is {hard}")
        return
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(wanted, resource.getrlimit(resource.RLIMIT_NOFILE)[0]), hard))
    process, port = start(["-m", "tests.support.socket_server"])
    try:
        warm = [connect(port, "/echo") for _ in range(50)]
        before = memory(process.pid)[1]
        sockets: list[socket.socket] = []
        while len(sockets) < count:
            sockets += [connect(port, "/echo") for _ in range(min(2000, count - len(sockets)))]
            for sock in sockets:  # pings are not answered here, and silence would end them
                sock.send(PONG)
        used = memory(process.pid)[1] - before
        cpu = cpu_seconds(process.pid)
        time.sleep(3)
        share = (cpu_seconds(process.pid) - cpu) / 3
        message = masked(32)
        for sock in sockets:
            sock.send(message)
        for sock in sockets:
            sock.setblocking(True)
            answer = b""
            while len(answer.replace(b"\x89\x00", b"")) < echoed(32):  # pings may have come
                data = sock.recv(100)
                assert data, "the server has closed it"
                answer += data
        after = memory(process.pid)[1] - before
        print(
            f"{count} idle connections: {used / count:.0f} bytes each, {after / count:.0f} after one message each; {share:.1%} of a core at rest"
        )
        for sock in sockets + warm:
            sock.close()
    finally:
        process.kill()
        process.wait()


async def peer(port: int) -> None:
    """The echo server on `websockets`."""
    from websockets.asyncio.server import ServerConnection, serve

    async def echo(connection: ServerConnection) -> None:
        async for message in connection:
            await connection.send(message)

    async with serve(echo, "127.0.0.1", port, compression=None):
        print(port, flush=True)
        await asyncio.Event().wait()


def main() -> None:
    parser = argparse.ArgumentParser(description="What WebSocket messages and idle WebSockets cost.")
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--idle", type=int, default=10_000, help="0: not measured")
    parser.add_argument("--peer", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.peer is not None:
        asyncio.run(peer(options.peer))
        return
    os.sched_setaffinity(0, {CLIENT_CORE})
    port = free_port()
    floor = subprocess.Popen([sys.executable, "-m", "bench.floor", str(port)], cwd=ROOT, preexec_fn=on_core(SERVER_CORE))
    servers = {"floor": (floor, port, None)}
    process, own = start(["-m", "tests.support.socket_server"])
    servers["svc, callback"] = (process, own, "/echo")
    servers["svc, async for"] = (process, own, "/iterate")
    other, peers = start(["-m", "bench.websocket_echo", "--peer", str(free_port())])
    servers["websockets"] = (other, peers, "/")
    try:
        for size in SIZES:
            found: dict[str, list[tuple[float, float]]] = {name: [] for name in servers}
            for _ in range(ROUNDS):  # in turn, so that what else the machine does meets all of them
                for name, (running, at, path) in servers.items():
                    found[name].append(load(running.pid, at, path, size, options.connections, options.seconds / ROUNDS))
            base = sorted(found["floor"])[ROUNDS // 2][0]
            for name, runs in found.items():
                runs.sort()
                cpu, rate = runs[ROUNDS // 2]
                print(
                    f"{size:5} bytes, {options.connections} connections  {name:15} {cpu:6.1f} us ({runs[0][0]:.1f} to {runs[-1][0]:.1f})  "
                    f"{cpu / base:4.2f} x floor  {rate:8.0f}/s"
                )
    finally:
        for running, _, _ in servers.values():
            running.kill()
            running.wait()
    if options.idle:
        idle(options.idle)


if __name__ == "__main__":
    main()
