"""What loaded index caches add to a write: CPU time of a PUT with and without them.

A whole node in this process, on fake sockets, with 400,000 records and 3 indexes (`records.py`). Each PUT replaces a record and changes all three
indexed attributes; 16 of them share a turn and its commit. Blocks of PUTs with all caches loaded alternate with blocks during which they are detached
from their indexes, so that both find the same memory. The database is
in memory (/dev/shm), so that no disk disturbs. Not included: sockets, and the counts themselves.

    python -m bench.index_caches [--rounds 10]

Prints the median of the blocks, in microseconds for a PUT, and the median of the ratios of neighbouring blocks. `burst`: one count, then so many
PUTs that the caches are dropped.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

from bench import records
from bench.servers import fill_svc
from svc.clock import FakeClock
from svc.store.values.keys import index_key
from tests.support.node import Node, Wire

APP = Path(__file__).parent / "app"
ATTRIBUTES = ("category", "price", "rank")
AT_ONCE = 16  # requests in a turn
BURST = 20_000
PUTS = 96  # in a block
PAIRS = 20  # of blocks until the caches are loaded again: fewer changes than a cache keeps pending


class Bench:
    def __init__(self, node: Node) -> None:
        self._node = node
        self._wires = [node.connect() for _ in range(AT_ONCE)]
        self._dice = random.Random(1)
        self._table = node.store.databases["data"].tables["Item"]
        self.caches = node.store.caches

    def load_caches(self) -> None:
        self.count()
        while self.caches.load(lambda: True):
            pass
        self._node.store.end_turn()
        self.count()
        assert all(self._table.indexes[name].cache is not None for name in ATTRIBUTES)

    def drop_caches(self) -> None:
        for name in ATTRIBUTES:
            self._table.indexes[name].drop_cache()
        while self.caches.load(lambda: True):
            pass

    def detach_caches(self) -> dict[Any, Any]:
        """Hide the caches. They miss the changes until `attach_caches`, so nothing may count with them after that."""
        found = {index: index.cache for index in self._table.index_list}
        for index in found:
            index.cache = None
        return found

    def attach_caches(self, detached: dict[Any, Any]) -> None:
        for index, cache in detached.items():
            index.cache = cache

    def count(self) -> None:
        txn = self._table.database.snapshot()
        for name, value in (("category", "c1"), ("price", 5), ("rank", 5)):
            self._table.indexes[name].count(txn, index_key(value), None)
        self._node.store.end_turn()

    def puts(self, count: int) -> float:
        """CPU seconds of so many PUTs."""
        requests = [self._request() for _ in range(count)]
        gc.collect()
        node, wires = self._node, self._wires
        readers = node.connections.loop.readers  # type: ignore[attr-defined]
        start = time.process_time()
        for first in range(0, count, AT_ONCE):
            for wire, request in zip(wires, requests[first : first + AT_ONCE], strict=False):
                wire.sock.incoming.append(request)
                readers[wire.sock]()
            while node.store.has_pending:
                node.store.commit_turn()
            node.connections.end_turn()
            node.store.end_turn()
        taken = time.process_time() - start
        for wire in wires:
            check(wire)
        return taken

    def _request(self) -> bytes:
        dice = self._dice
        n = dice.randrange(records.RECORDS)
        record = records.item(n) | {"category": records.category(dice.randrange(records.RECORDS))}
        record |= {"price": dice.randrange(records.RECORDS) + 0.5, "rank": dice.randrange(records.RECORDS)}
        body = json.dumps(record).encode()
        target = (
            f"PUT /Item/{record['id']} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        return target.encode() + body


def check(wire: Wire) -> None:
    assert wire.sock.sent.startswith(b"HTTP/1.1 204"), wire.sock.sent[:200]
    wire.sock.sent = b""


def main() -> int:
    parser = argparse.ArgumentParser(prog="index_caches", description="What loaded index caches add to a write.")
    parser.add_argument("--rounds", type=int, default=10)
    options = parser.parse_args()
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        fill_svc(Path(folder), records.RECORDS, 0)
        node = Node(Path(folder), APP, FakeClock(time.time() + 60))
        bench = Bench(node)
        bench.puts(640)
        with_caches, without, ratios = [], [], []
        for _ in range(options.rounds):
            bench.load_caches()
            for pair in range(PAIRS):
                taken: dict[bool, float] = {}
                for attached in (True, False) if pair % 2 else (False, True):
                    detached = {} if attached else bench.detach_caches()
                    taken[attached] = bench.puts(PUTS) / PUTS * 1e6
                    bench.attach_caches(detached)
                with_caches.append(taken[True])
                without.append(taken[False])
                ratios.append(taken[True] / taken[False])
            bench.drop_caches()
        bench.load_caches()
        burst = bench.puts(BURST) / BURST * 1e6
        print(f"PUT with caches {median(with_caches):.1f} us, without {median(without):.1f} us, ratio {median(ratios):.3f}")
        print(f"fastest block: with caches {min(with_caches):.1f} us, without {min(without):.1f} us")
        print(f"burst of {BURST} PUTs after one count: {burst:.1f} us each, caches now hold {bench.caches.used} bytes")
        node.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
