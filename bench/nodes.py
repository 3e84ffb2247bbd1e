"""Two nodes that replicate, on one machine: what it costs the one that writes, and how far behind the other is.

    python -m bench.nodes [--seconds 10] [--rounds 3] [--rows origin,lag]

*origin*: PUTs of 32 clients, without a `replication` section and with one other node: CPU time per PUT of the server, and with a node that of the engine and
of the node that takes them. *lag*: from before a write is sent to its event at a follower of the other node; PUTs at 100 a second, then
arrays of 100 records at 100 a second.

*catch-up*: the other node is away for 60,000 writes, and comes back. *idle*: a node and its engine, of which the other reads.

*copy*: a new node takes the database of the other one, whose stream does not begin with it any more: the two shapes of `bench.replication_copy`, COPIED MB.

All of them share the cores of the machine, wrk and the follower too. The databases are in --scratch, and flushed.
"""

from __future__ import annotations

import argparse
import http.client
import json
import random
import re
import shutil
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

from bench import records, replication_copy
from bench.machine import describe_machine, use_bytecode, warn_of_load
from bench.measure import CLIENT_CORE, CORES, cpu_seconds, load, write_requests
from bench.servers import Svc, free_port

AWAY = 60_000  # entries
ARRAY = 100  # records
VARIETY = 5_000
CLIENTS = 32
COPIED = 80  # MB
_FETCHED = re.compile(r"database data: the copy from a has come: (\d+) bytes in ([0-9.]+) s")
_PLACED = re.compile(r"database data: the copy from a is in place: \d+ bytes in ([0-9.]+) s")


class Node(Svc):
    """`is_alone`: without a `replication` section."""

    def __init__(self, name: str, core: int, scratch: Path, *, is_alone: bool = False) -> None:
        self.name = name
        self.core = core
        super().__init__(scratch)
        self.set_password("the-same-for-all")
        self._operations_port, self._exchange = free_port(), free_port()
        self._is_alone = is_alone

    @property
    def url(self) -> str:
        return f"wss://127.0.0.1:{self._exchange}"

    def environment(self) -> dict[str, str]:
        section = {"hostname": self.name, "securePort": self._exchange, "url": self.url}
        config = {"node": {"hostname": self.name}} | ({} if self._is_alone else {"replication": section})
        return super().environment() | {"OPERATIONSAPI_NETWORK_PORT": str(self._operations_port), "SVC_SET_CONFIG": json.dumps(config)}

    def start(self) -> None:
        super().start()
        for child in psutil.Process(self.pid).children(recursive=True):
            child.cpu_affinity(list(CORES) if "nats" in child.name() else [self.core])

    def operate(self, **body: Any) -> Any:
        connection = http.client.HTTPConnection("127.0.0.1", self._operations_port, timeout=60)
        connection.request("POST", "/", json.dumps(body), {**dict(self.fields), "Content-Type": "application/json"})
        response = connection.getresponse()
        answer = json.loads(response.read())
        connection.close()
        if response.status != 200:
            raise RuntimeError(f"{self.name}: {body['operation']}: {answer}")
        return answer

    def know(self, other: Node) -> None:
        authority = (other.data / "root" / "keys" / "ca.pem").read_text()
        self.operate(operation="add_certificate", name=f"{other.name}-authority", certificate=authority, is_authority=True)
        self.operate(operation="add_node", hostname=other.name, url=other.url)

    def cpu(self) -> tuple[float, float]:
        """Seconds of (the server, its engine)."""
        engines = [child for child in psutil.Process(self.pid).children(recursive=True) if "nats" in child.name()]
        engine = sum(cpu_seconds(each.pid) for each in engines)
        return cpu_seconds(self.pid) - engine, engine

    def count(self) -> int:
        return int(json.loads(self.must("GET", "/Item/?count()", None, 200))["count"])


def put_load(node: Node, scratch: Path, seconds: int, round_: int) -> int:
    """The number of PUTs that were answered."""
    path = scratch / "requests"
    requests = [
        node.write("PUT", f"/Item/{records.item_id(n)}", records.item(n, round_), 204)
        for n in range(round_ * VARIETY, (round_ + 1) * VARIETY)
    ]
    write_requests(path, requests, f"127.0.0.1:{node.port}")
    sample = load(node.pid, node.port, path, seconds=seconds, connections=CLIENTS, core=CLIENT_CORE)
    if sample.errors:
        print(f"  {sample.errors} errors", file=sys.stderr)
    return sample.requests


def wait_until(reached: Callable[[], bool], seconds: float = 300.0) -> None:
    end = time.monotonic() + seconds
    while not reached():
        if time.monotonic() > end:
            raise TimeoutError
        time.sleep(0.02)


@contextmanager
def running(*nodes: Node) -> Iterator[None]:
    for node in nodes:
        node.start()
    try:
        yield
    finally:
        for node in nodes:
            node.stop()


@contextmanager
def two_nodes(scratch: Path) -> Iterator[tuple[Node, Node]]:
    a, b = Node("a", CORES[0], scratch), Node("b", CORES[-1], scratch)
    with running(a, b):
        a.know(b)
        b.know(a)
        a.must("PUT", "/Item/first", {"rank": 0}, 204)
        wait_until(lambda: b.count() > 0)
        time.sleep(2)  # certificates that have just become known cut the connections once more
        yield a, b
    for node in (a, b):
        shutil.rmtree(node.data)


# --- rows ---------------------------------------------------------------------------------------------------------------------------------


def origin(scratch: Path, options: argparse.Namespace) -> None:
    alone = Node("alone", CORES[0], scratch, is_alone=True)
    found: list[list[tuple[float, ...]]] = [[], []]
    for round_ in range(1, options.rounds + 1):
        with running(alone):
            put_load(alone, scratch, 1, 0)
            before = alone.cpu()[0]
            count = put_load(alone, scratch, options.seconds, round_)
            found[0].append(((alone.cpu()[0] - before) / count * 1e6,))
        shutil.rmtree(alone.data)
        with two_nodes(scratch) as (a, b):
            put_load(a, scratch, 1, 0)
            before_a, before_b = a.cpu(), b.cpu()
            count = put_load(a, scratch, options.seconds, round_)
            last = f"/Item/last{round_}"
            a.must("PUT", last, {"rank": 1}, 204)
            wait_until(lambda: b.ask(b.get(last))[0] == 200)  # noqa: B023
            after_a, after_b = a.cpu(), b.cpu()
            parts = after_a[0] - before_a[0], after_a[1] - before_a[1], after_b[0] - before_b[0]
            found[1].append(tuple(part / count * 1e6 for part in parts))
    (without,), (origin_cpu, engine, other) = (list(map(statistics.median, zip(*each, strict=True))) for each in found)
    ratio = statistics.median(b[0] / a[0] for (a, b) in zip(*found, strict=True))
    print(
        f"origin     CPU of a PUT: alone {without:.0f} us, with a node {origin_cpu:.0f} us: x {ratio:.2f}; its engine {engine:.0f}, the other node {other:.0f}"
    )


class Follower(threading.Thread):
    """Of all events of a node. `seen`: when each record came, by its number."""

    def __init__(self, node: Node) -> None:
        super().__init__(daemon=True)
        self.seen: dict[int, float] = {}
        self._connection = http.client.HTTPConnection("127.0.0.1", node.port, timeout=600)
        self._connection.request("GET", "/Item/", headers={**dict(node.fields), "Accept": "text/event-stream"})
        self._response = self._connection.getresponse()

    def run(self) -> None:
        for line in self._response:
            if line.startswith(b"data: "):
                now = time.monotonic()
                rank = (json.loads(line[6:]).get("value") or {}).get("rank")
                if rank is not None:
                    self.seen.setdefault(rank, now)


def lag(scratch: Path, options: argparse.Namespace) -> None:
    with two_nodes(scratch) as (a, b):
        follower = Follower(b)
        follower.start()
        number = 0
        for title, size in (("100 PUTs/s", 1), (f"{100 * ARRAY:,} records/s in arrays of {ARRAY}", ARRAY)):
            sent: dict[int, float] = {}
            cpu = [node.cpu() for node in (a, b)]
            began = time.monotonic()
            turns = options.seconds * 100
            for turn in range(turns):
                wait = began + turn / 100 - time.monotonic()
                if wait > 0:
                    time.sleep(wait)
                batch = []
                for _ in range(size):
                    number += 1
                    batch.append(records.item(number % VARIETY) | {"rank": number})
                sent[number] = time.monotonic()
                if size == 1:
                    a.must("PUT", f"/Item/{batch[0]['id']}", batch[0], 204)
                else:
                    a.must("PUT", "/Item/", batch, 204)
            took = time.monotonic() - began
            last = number
            wait_until(lambda: last in follower.seen)  # noqa: B023
            lags = sorted(follower.seen[each] - at for each, at in sent.items() if each in follower.seen)
            spent = [
                [after - before for after, before in zip(node.cpu(), each, strict=True)] for node, each in zip((a, b), cpu, strict=True)
            ]
            each = ", ".join(
                f"{name} {100 * used / took:.0f} %"
                for name, used in (("origin", spent[0][0]), ("engine", spent[0][1]), ("other", spent[1][0]))
            )
            print(
                f"lag        {title}: {turns * size / took:,.0f}/s, p50 {lags[len(lags) // 2] * 1000:.1f} ms, p99 {lags[len(lags) * 99 // 100] * 1000:.1f} ms, "
                f"longest {lags[-1] * 1000:.0f} ms; {len(sent) - len(lags)} of {len(sent)} were merged in one event; of a core: {each}",
                flush=True,
            )


def catch_up(scratch: Path, options: argparse.Namespace) -> None:
    """From when a twentieth is there: without the start of the node."""
    for size in (500, 1):
        rates, cpus, engines = [], [], []
        for _ in range(options.rounds):
            with two_nodes(scratch) as (a, b):
                b.stop()
                write_away(a, size, scratch)
                b.start()
                first: tuple[float, int, float, float] | None = None
                while (count := b.count()) < AWAY:
                    if first is None and count > AWAY // 20:
                        first = time.monotonic(), count, b.cpu()[0], a.cpu()[1]
                    time.sleep(0.1)
                assert first is not None, "it was faster than can be measured"
                began, before, cpu, engine = first
                done = count - before
                rates.append(done / (time.monotonic() - began))
                cpus.append((b.cpu()[0] - cpu) / done * 1e6)
                engines.append((a.cpu()[1] - engine) / done * 1e6)
        print(
            f"catch-up   {AWAY:,} entries, {size} in a transaction: {statistics.median(rates):,.0f}/s, "
            f"CPU {statistics.median(cpus):.0f} us each, of the other's engine {statistics.median(engines):.0f}",
            flush=True,
        )


def write_away(node: Node, size: int, scratch: Path) -> None:
    """AWAY records, so many in a transaction."""
    if size > 1:
        for first in range(0, AWAY, size):
            node.must("PUT", "/Item/", [records.item(n) for n in range(first, first + size)], 204)
        return
    path = scratch / "requests"
    while (done := node.count()) < AWAY:  # wrk sends what it is given again and again
        requests = [node.write("PUT", f"/Item/{records.item_id(n)}", records.item(n), 204) for n in range(done, min(done + VARIETY, AWAY))]
        write_requests(path, requests, f"127.0.0.1:{node.port}")
        load(node.pid, node.port, path, seconds=1, connections=CLIENTS, core=CLIENT_CORE)


def idle(scratch: Path, options: argparse.Namespace) -> None:
    with two_nodes(scratch) as (a, _):
        time.sleep(3)
        before = a.cpu()
        time.sleep(options.seconds * 2)
        shares = [100 * (after - old) / (options.seconds * 2) for after, old in zip(a.cpu(), before, strict=True)]
    alone = Node("alone", CORES[0], scratch, is_alone=True)
    with running(alone):
        time.sleep(3)
        old = alone.cpu()[0]
        time.sleep(options.seconds * 2)
        without = 100 * (alone.cpu()[0] - old) / (options.seconds * 2)
    shutil.rmtree(alone.data)
    print(f"idle       {shares[0]:.2f} % of a core, {without:.2f} % without replication; its engine {shares[1]:.2f} %")


class CopyNode(Node):
    """`indexed`: attributes of its only table."""

    def __init__(self, name: str, core: int, scratch: Path, indexed: Sequence[str]) -> None:
        super().__init__(name, core, scratch)
        self._app = self.data / "app"
        self._app.mkdir(parents=True)
        attributes = "".join(f"{name}: Any @indexed\n" for name in indexed)
        (self._app / "schema.graphql").write_text(f"type Item @table @export {{ id: ID @primaryKey\n{attributes}description: String }}")

    def command(self) -> list[str]:
        return [*super().command()[:-1], str(self._app)]

    def environment(self) -> dict[str, str]:
        return super().environment() | {"LOGGING_LEVEL": "info"}

    def logged(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        texts = [path.read_text() for path in (self.data / "root" / "log").glob("*.log")]
        return next((found for found in map(pattern.search, texts) if found), None)


def copy(scratch: Path, options: argparse.Namespace) -> None:
    for shape, (size, indexed) in replication_copy.SHAPES.items():
        count = COPIED * 1_000_000 // (size + 250)
        chance = random.Random(1)
        rows = []
        for _ in range(options.rounds):
            a, b = (CopyNode(name, core, scratch, indexed) for name, core in (("a", CORES[0]), ("b", CORES[-1])))
            with running(a):
                a.fill("Item", (replication_copy.record(chance, number, size) for number in range(count)))
                a.operate(operation="purge_stream", database="data", options={"keep": 0})
                with running(b):
                    began = time.monotonic()
                    a.know(b)
                    b.know(a)
                    cpu = [(a.cpu(), b.cpu())]
                    for pattern in (_FETCHED, _PLACED):
                        wait_until(lambda: b.logged(pattern) is not None)  # noqa: B023
                        cpu.append((a.cpu(), b.cpu()))
                    took = time.monotonic() - began
                    fetched, placed = b.logged(_FETCHED), b.logged(_PLACED)
                    assert fetched is not None and placed is not None and b.count() == count
            for node in (a, b):
                shutil.rmtree(node.data)
            megabytes = int(fetched[1]) / 1e6
            (start_a, start_b), (come_a, come_b), (_, end_b) = cpu
            spent = come_a[0] - start_a[0], come_a[1] - start_a[1], come_b[0] - start_b[0], come_b[1] - start_b[1], end_b[0] - come_b[0]
            rows.append(
                [megabytes / float(fetched[2]), megabytes / float(placed[1]), megabytes / took, *(each / megabytes * 1e3 for each in spent)]
            )
        come, put, whole, sender, engine, receiver, its_engine, placing = map(statistics.median, zip(*rows, strict=True))
        print(
            f"copy       {shape}, {count:,} records, {megabytes:.0f} MB: comes with {come:.0f} MB/s, is placed with {put:.0f}, whole {whole:.0f}; CPU, ms a "
            f"MB: {sender:.1f} of the node and {engine:.1f} of its engine; {receiver:.1f} and {its_engine:.1f} where it comes, {placing:.1f} to place it",
            flush=True,
        )


ROWS: Sequence[Callable[[Path, argparse.Namespace], None]] = (origin, lag, catch_up, idle, copy)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rows", default="", help="names of rows, with commas between")
    parser.add_argument("--scratch", type=Path, default=Path(tempfile.gettempdir()))
    options = parser.parse_args()
    use_bytecode()
    warn_of_load()
    print(describe_machine())
    scratch = Path(tempfile.mkdtemp(prefix="bench-nodes-", dir=options.scratch))
    try:
        for row in ROWS:
            if not options.rows or row.__name__ in options.rows.split(","):
                row(scratch, options)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


if __name__ == "__main__":
    main()
