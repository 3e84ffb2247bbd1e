"""What live queries cost: CPU of a PUT with none and with thousands of them, and what one event for many subscribers takes.

    python -m bench.live_queries [--queries 10000] [--writes 2000]

In one process, without sockets: a write is a transaction with its commit (without waiting for the disk) and the end of its turn, and what the live
queries do with it until their events lie in the queues of their clients. Not included: HTTP, the encoding of events, sending them.
Each figure is the median of rounds; the spread is that of the middle half.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from svc.clock import SYSTEM_CLOCK
from svc.query import parse_query
from svc.realtime.commit_feed import CommitFeed
from svc.realtime.live import LiveQueries
from svc.store import Store, StoreSettings, Table
from svc.store.schema import Attribute, TableDefinition

ROUNDS = 15
RECORDS = 20_000
CITIES = 10_000
DEFINITION = TableDefinition(
    "Product",
    attributes=(
        Attribute("id", "ID", primary_key=True),
        Attribute("name", "String"),
        Attribute("city", "String", indexed=True),
        Attribute("price", "Float", indexed=True),
        Attribute("stock", "Int", indexed=True),
        Attribute("description", "String"),
        Attribute("tags", "String", elements=True),
        Attribute("active", "Boolean"),
    ),
)

KINDS: dict[str, Callable[[random.Random, int], str]] = {
    "equality": lambda source, n: f"city==c{n % CITIES}&live()",
    "range": lambda source, n: f"price=ge={(low := source.randrange(1_000_000))}&le={low + 50}&live()",
    "mixed": lambda source, n: KINDS["equality" if n % 2 else "range"](source, n) + ("&sort(price)&limit(10)" if n % 8 == 0 else ""),
    "open range": lambda source, n: f"price=gt={1_000_000 + n}&live()",
}


def record(source: random.Random, number: int) -> dict[str, object]:
    return {
        "id": f"p{number}",
        "name": f"Product {number}",
        "city": f"c{source.randrange(CITIES)}",
        "price": float(source.randrange(1_000_000)),
        "stock": source.randrange(1000),
        "description": "x" * 200,
        "tags": ["a", "b"],
        "active": True,
    }


class Run:
    def __init__(self, path: Path) -> None:
        self.store = Store(path, StoreSettings(write_async=True))
        self.loop = asyncio.new_event_loop()
        self.feed = CommitFeed(self.store, self.loop, SYSTEM_CLOCK)
        self.live = LiveQueries(self.store, self.feed, self.loop, SYSTEM_CLOCK, None)
        self.table: Table = self.store.open_database("data").define_table(DEFINITION)
        self.source = random.Random(1)
        for start in range(0, RECORDS, 1000):
            transaction = self.store.begin()
            for number in range(start, start + 1000):
                made = record(self.source, number)
                transaction.put(self.table, made["id"], made)
            transaction.apply()
            self.store.commit_turn()

    def turns(self, count: int = 1) -> None:
        for _ in range(count):
            self.loop.run_until_complete(asyncio.sleep(0))

    def settle(self) -> None:
        while not self.live.is_idle:
            self.turns()

    def put(self) -> None:
        made = record(self.source, self.source.randrange(RECORDS))
        transaction = self.store.begin()
        transaction.put(self.table, made["id"], made)
        transaction.apply()
        self.store.commit_turn()
        while self.live.is_behind:
            self.turns()

    def subscribe(self, text: str) -> object:
        client = self.live.subscribe(parse_query(text), self.table, None, allow_full_scan=True, check_rights=False)
        while not any(event.type == "ready" for event in client.take(1 << 20)):
            self.turns()
        client.take(1)
        return client

    def close(self) -> None:
        self.live.close()
        self.feed.close()
        self.turns(3)
        self.loop.close()
        self.store.close()


class Emptied:
    """Takes what waits for the clients, and counts it."""

    def __init__(self, run: Run, clients: list[object]) -> None:
        self.run = run
        self.clients = clients
        self.events = 0

    def __call__(self) -> None:
        self.run.settle()
        self.events += sum(len(client.take(1 << 20)) for client in self.clients)  # type: ignore[attr-defined]


def measure(work: Callable[[], None], count: int, between: Callable[[], None] = lambda: None) -> list[float]:
    """us of CPU for each, sorted, one figure for each round. `between` is called after each, and not measured."""
    found = []
    for _ in range(ROUNDS):
        began = time.process_time()
        for _ in range(count // ROUNDS):
            work()
        found.append((time.process_time() - began) / (count // ROUNDS) * 1e6)
        between()
    return sorted(found)


def shown(figures: list[float]) -> str:
    return f"{statistics.median(figures):8.1f} us  ({figures[len(figures) // 4]:.1f} - {figures[-1 - len(figures) // 4]:.1f})"


def with_queries(path: Path, queries: int, writes: int) -> None:
    print(f"one PUT and its commit, {queries} live queries of {RECORDS} records (CPU)")
    run = Run(path)
    measure(run.put, writes)
    for kind, make in KINDS.items():
        without = measure(run.put, writes)  # each kind beside none of the same minute: other work shares the machine
        source = random.Random(2)
        began = time.process_time()
        clients = [run.subscribe(make(source, number)) for number in range(queries)]
        each = (time.process_time() - began) / queries * 1e6
        run.settle()
        emptied = Emptied(run, clients)
        found = measure(run.put, writes, emptied)
        events = emptied.events
        for client in clients:
            client.close()  # type: ignore[attr-defined]
        without = sorted(without + measure(run.put, writes))
        print(
            f"  {kind:12} {shown(found)}  none {shown(without)}  {statistics.median(found) / statistics.median(without):.2f} x; "
            f"{events / writes:.2f} events a write; subscribing {each:.0f} us"
        )
    run.close()


def fan_out(path: Path, subscribers: int) -> None:
    print(f"one PUT that concerns one query with {subscribers} subscribers (CPU)")
    run = Run(path)
    base = statistics.median(measure(run.put, 600))
    clients = [run.subscribe("city=ge=c&live()") for _ in range(subscribers)]
    found = measure(run.put, 300)
    print(f"  {'queued':12} {shown(found)}  {(statistics.median(found) - base) / subscribers * 1000:.0f} ns for each subscriber")
    began = time.process_time()
    taken = sum(len(client.take(1 << 20)) for client in clients)  # type: ignore[attr-defined]
    print(f"  {'taken':12} {(time.process_time() - began) / taken * 1e9:8.0f} ns for each event; {run.live.results} computation")
    run.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queries", type=int, default=10_000)
    parser.add_argument("--subscribers", type=int, default=1000)
    parser.add_argument("--writes", type=int, default=3000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="live-queries-") as directory:
        with_queries(Path(directory) / "one", options.queries, options.writes)
        fan_out(Path(directory) / "two", options.subscribers)


if __name__ == "__main__":
    main()
