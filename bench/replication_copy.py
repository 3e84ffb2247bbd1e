"""What a copy of a database costs both nodes, in one process, without sockets (spec: replication §11).

    python -m bench.replication_copy [--megabytes 15] [--pruned]

Two shapes: records of 200 bytes with three indexes, and of 1,500 bytes with one. Their texts are cut out of the documentation of this repository. *read* makes
the pieces, *check* looks at them as they come, *place* puts them in a new database. Bytes are those of the pieces. `--pruned`: the log has forgotten who wrote
the records. CPU time; *write* is what the thread of the long writer does for *place*, *commit* its commits with fsync, *loop* the rest.

*turns*: the longest ones, in CPU time of the loop and of what it waits for on that thread, with the server's rules for garbage.

Not included: the engine, TLS, the file. `bench.nodes --rows copy` has all of it.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import selectors
import time
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

from bench import records
from bench.garbage import CpuTurns
from bench.log_size import of_prose
from svc.server.garbage import Garbage
from svc.store import Store
from svc.store.copy_reader import CopyReader
from svc.store.database import Database
from svc.store.env import Environment
from svc.store.schema import Attribute, TableDefinition, definition_to_bytes
from svc.store.writing.copy_apply import CopyCheck, CopyHead, apply_copy

SHAPES = {"200 bytes, 3 indexes": (100, ("rank", "category", "price")), "1,500 bytes, 1 index": (1_400, ("rank",))}
LOADED = 1000  # records in one transaction


def definition(indexed: tuple[str, ...]) -> TableDefinition:
    attributes = (Attribute("id", "ID", primary_key=True), *(Attribute(name, "Any", indexed=True) for name in indexed))
    return TableDefinition("Item", attributes=attributes, primary_key="id", dynamic=True)


def record(chance: random.Random, number: int, size: int) -> records.Record:
    item = records.item(number)
    return {name: item[name] for name in ("id", "category", "price", "rank", "active")} | {"description": of_prose(chance, size)}


def load(store: Store, database: Database, count: int, size: int) -> None:
    chance = random.Random(1)
    for start in range(0, count, LOADED):
        transaction = store.begin()
        for number in range(start, min(start + LOADED, count)):
            transaction.put(database.tables["Item"], records.item_id(number), record(chance, number, size))
        transaction.apply()
        store.commit_turn()
        store.end_turn()


def prune(store: Store, database: Database) -> None:
    database.writer()
    child = database.env.child()
    database.log.prune(child, float("inf"), 1 << 40)
    database.env.commit_child(child)
    database.env.touch()
    store.commit_turn()
    store.end_turn()


class Turns(selectors.DefaultSelector):
    """Those of a loop in which something runs, in seconds of CPU time. `written`, `committed`: of the thread of a long writer."""

    def __init__(self, store: Store) -> None:
        super().__init__()
        self.store = store
        self.turns: list[float] = []
        self.written = self.committed = self._held = self._last = 0.0
        self._garbage = Garbage(CpuTurns(), time.process_time, print)
        run_long, commit_long = Environment.run_long, Environment.commit_long

        def run(env: Environment, work: Callable[[Any], Any]) -> Any:
            return run_long(env, lambda txn: self._held_by(work, txn))

        def commit(env: Environment) -> Future[None]:
            helper = env._helper
            assert helper is not None
            began = helper.submit(time.thread_time).result()
            found = commit_long(env)
            helper.submit(self._end_commit, began)
            return found

        self.patches = {"run_long": run, "commit_long": commit}

    def _held_by(self, work: Callable[[Any], Any], txn: Any) -> Any:
        began = time.thread_time()
        try:
            return work(txn)
        finally:
            took = time.thread_time() - began
            self.written += took
            self._held += took

    def _end_commit(self, began: float) -> None:
        self.committed += time.thread_time() - began

    def run(self, work: Any) -> Any:
        """What `work` returns."""
        self._garbage.begin()
        with patch.multiple(Environment, **self.patches), asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(self)) as runner:
            self._last = time.thread_time()
            found = runner.run(work)
        self._garbage.end()
        return found

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """What a loop calls between two turns."""
        if self.store.has_pending:
            self.store.commit_turn()
        self.store.end_turn()
        if time.process_time() >= self._garbage.due:
            self._garbage.collect()
        self.turns.append(time.thread_time() - self._last + self._held)
        found = super().select(timeout)
        self._last, self._held = time.thread_time(), 0.0
        return found

    def __str__(self) -> str:
        turns = sorted(self.turns)
        over = sum(turn > 0.01 for turn in turns)
        return f"p99 {turns[len(turns) * 99 // 100] * 1e3:.1f} ms, longest {turns[-1] * 1e3:.1f} ms, {over} of {len(turns)} over 10 ms"


async def read(database: Database, reader: CopyReader, pieces: list[bytes]) -> None:
    """As `copy_offers` does it."""
    made = reader.pieces()
    while True:
        await database.store.slices.take()
        piece = next(made, b"")
        if piece == b"":
            break
        if piece is not None:
            pieces.append(piece)


def copy(shape: str, megabytes: float, *, pruned: bool) -> None:
    size, indexed = SHAPES[shape]
    count = int(megabytes * 1e6 / (size + 100))
    with TemporaryDirectory() as directory:
        stores = [Store(Path(directory) / name, node=name) for name in "ab"]
        there, here = (store.open_database("data") for store in stores)
        for store, database in zip(stores, (there, here), strict=True):
            database.define_table(definition(indexed))
            database.enable_replication()
            store.end_turn()
        load(stores[0], there, count, size)
        if pruned:
            prune(stores[0], there)
        reader = CopyReader(there, [there.tables["Item"]])
        assert there.replication is not None
        definitions = {"Item": definition_to_bytes(definition(indexed))}
        head = CopyHead("a", there.replication.incarnation(reader.txn), reader.newest, 1.0, [], [], definitions, 0)
        pieces: list[bytes] = []
        sending, receiving = Turns(stores[0]), Turns(stores[1])
        began = time.process_time()
        sending.run(read(there, reader, pieces))
        reading = time.process_time() - began
        reader.close()
        began = time.process_time()
        check = CopyCheck()
        for piece in pieces:
            check.take(piece)
        checking = time.process_time() - began
        began, clock = time.process_time(), time.perf_counter()
        work = apply_copy(here, b"1", head, lambda number: pieces[number] if number < len(pieces) else None, tell=lambda number: None)
        receiving.run(work)
        placing, seconds = time.process_time() - began, time.perf_counter() - clock
        for store in stores:
            store.close()
    total = sum(map(len, pieces)) / 1e6
    print(f"{shape}{', pruned' if pruned else ''}: {count:,} records, {total * 1e6 / count:.0f} bytes each")
    rest = placing - receiving.written - receiving.committed
    parts = {
        "read": reading,
        "check": checking,
        "place": placing,
        "  write": receiving.written,
        "  commit": receiving.committed,
        "  loop": rest,
    }
    for name, cpu in parts.items():
        print(f"{name:8} {cpu / count * 1e6:5.1f} us a record, {cpu / total * 1e3:5.1f} ms/MB")
    print(f"place: {total / seconds:.1f} MB/s by the clock, {total / placing:.1f} MB for each second of CPU")
    print(f"turns: of the sender {sending}; of the receiver {receiving}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=float, default=15)
    parser.add_argument("--pruned", action="store_true")
    arguments = parser.parse_args()
    for shape in SHAPES:
        copy(shape, arguments.megabytes, pruned=arguments.pruned)


if __name__ == "__main__":
    main()
