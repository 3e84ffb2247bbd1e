"""One write to many subscribers: what a delivered message costs the server.

    python -m bench.fan_out [--subscribers 1000] [--writes 200] [--rounds 3]

The subscribers listen to one record, over server-sent events and then over WebSockets. Each PUT is sent when all have the event of the one before, so
a round is `writes` x `subscribers` messages. Reported is the CPU time of the server process per delivered message, the write itself included, beside
what the floor server takes for an answer in the same run; messages a second are as many as one client process can read on its core. Memory is that of
connections that have had their first event and nothing since.
"""

from __future__ import annotations

import argparse
import base64
import os
import selectors
import socket
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from bench import records
from bench.measure import CLIENT_CORE, cpu_seconds, load, memory, write_requests
from bench.servers import Floor, Svc, dump

MARK = b'"type":"put"'  # in each event of a record that is written
PATIENCE = 30.0  # seconds for all subscribers to get one event
FLOOR_SECONDS = 3


class Receiver(Protocol):
    """One of an audience."""

    sock: socket.socket
    received: int  # events so far

    def read(self) -> object:
        """Count what there is to read."""


class Subscriber:
    """Counts the events that come, by what each of them contains once."""

    __slots__ = ("_mark", "received", "sock", "tail")

    def __init__(self, port: int, head: bytes, mark: bytes = MARK) -> None:
        self._mark = mark
        self.sock = socket.create_connection(("127.0.0.1", port))
        self.sock.sendall(head)
        self.sock.setblocking(False)
        self.received = 0
        self.tail = b""

    def read(self) -> int:
        """How many events came with what there is to read."""
        data = self.tail + self.sock.recv(65536)
        if len(data) == len(self.tail):
            raise RuntimeError("the server closed a connection")
        mark = self._mark
        count = data.count(mark)
        last = data.rfind(mark)
        self.tail = data[max(0 if last < 0 else last + len(mark), len(data) - len(mark) + 1) :]
        self.received += count
        return count


class Audience:
    def __init__(self, receivers: Iterable[Receiver]) -> None:
        self._selector = selectors.DefaultSelector()
        self._all: list[Receiver] = []
        for receiver in receivers:
            self._all.append(receiver)
            self._selector.register(receiver.sock, selectors.EVENT_READ, receiver)
        self._wanted = 0

    def wait(self) -> None:
        """Until all have one event more."""
        self._wanted += 1
        missing = sum(receiver.received < self._wanted for receiver in self._all)
        deadline = time.monotonic() + PATIENCE
        while missing:
            if time.monotonic() > deadline:
                raise RuntimeError(f"{missing} subscribers did not get the event")
            for key, _ in self._selector.select(1.0):
                receiver: Receiver = key.data
                before = receiver.received
                receiver.read()
                missing -= before < self._wanted <= receiver.received

    def close(self) -> None:
        self._selector.close()
        for receiver in self._all:
            receiver.sock.close()


@contextmanager
def audience(server: Svc, count: int, head: bytes) -> Iterator[Audience]:
    found = Audience(Subscriber(server.port, head) for _ in range(count))
    try:
        found.wait()
        yield found
    finally:
        found.close()


class Writer:
    """PUTs of one record over one connection."""

    def __init__(self, server: Svc) -> None:
        self._server = server
        self._sock = socket.create_connection(("127.0.0.1", server.port))
        self._number = 0

    def write(self) -> None:
        self._number += 1
        body = dump(records.item(0, self._number))
        fields = "".join(f"{name}: {value}\r\n" for name, value in self._server.fields)
        head = f"PUT {TARGET} HTTP/1.1\r\nHost: localhost\r\n{fields}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        self._sock.sendall(head.encode() + body)
        answer = self._sock.recv(65536)
        if not answer.startswith(b"HTTP/1.1 204"):
            raise RuntimeError(answer.decode())

    def close(self) -> None:
        self._sock.close()


TARGET = f"/Item/{records.item_id(0)}"


def heads(server: Svc, target: str = TARGET) -> dict[str, bytes]:
    authorization = dict(server.fields)["Authorization"]
    common = f"GET {target} HTTP/1.1\r\nHost: localhost\r\nAuthorization: {authorization}\r\n"
    key = base64.b64encode(os.urandom(16)).decode()
    return {
        "events": f"{common}Accept: text/event-stream\r\n\r\n".encode(),
        "websocket": f"{common}Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n\r\n".encode(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--subscribers", type=int, default=1000)
    parser.add_argument("--writes", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    os.sched_setaffinity(0, {CLIENT_CORE})
    with tempfile.TemporaryDirectory(prefix="bench-fan-out-") as directory:
        measure(Path(directory), options.subscribers, options.writes, options.rounds)


def measure(directory: Path, subscribers: int, writes: int, rounds: int) -> None:
    floor = Floor(directory)
    floor.prepare()
    requests = directory / "requests.txt"
    write_requests(requests, [floor.requests()["get"](0)], f"127.0.0.1:{floor.port}")
    floor.start()
    try:
        for name in ("events", "websocket"):
            server = Svc(directory / name)  # a fresh one: else the second kind would use memory that the first has left
            server.start()
            try:
                measure_kind(
                    name,
                    server,
                    lambda: load(floor.pid, floor.port, requests, seconds=FLOOR_SECONDS, connections=32).cpu,
                    subscribers,
                    writes,
                    rounds,
                )
            finally:
                server.stop()
    finally:
        floor.stop()


def measure_kind(name: str, server: Svc, floor: Callable[[], float], subscribers: int, writes: int, rounds: int) -> None:
    writer = Writer(server)
    writer.write()
    _, before = memory(server.pid)
    with audience(server, subscribers, heads(server)[name]) as listening:
        _, after = memory(server.pid)
        print(f"{name}: {(after - before) / subscribers / 1024:.1f} KiB of memory per idle connection")
        figures: list[tuple[float, float, float]] = []
        for number in range(rounds):
            base = floor()
            used, began = cpu_seconds(server.pid), time.monotonic()
            for _ in range(writes):
                writer.write()
                listening.wait()
            wall = time.monotonic() - began
            cost = (cpu_seconds(server.pid) - used) * 1e6 / (writes * subscribers)
            figures.append((cost, base, writes * subscribers / wall))
            print(f"  round {number + 1}: {cost:.2f} us a message, floor {base:.2f} us an answer, {figures[-1][2]:,.0f} messages/s")
        cost, base, rate = (statistics.median(column) for column in zip(*figures, strict=True))
        print(f"  median: {cost:.2f} us a message, {cost / base:.2f} x floor, {rate:,.0f} messages/s")
    writer.close()


if __name__ == "__main__":
    main()
