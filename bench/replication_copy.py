"""What a copy of a database costs both nodes, in one process, without sockets (spec: replication §11).

    python -m bench.replication_copy [--records 30000] [--pruned]

Records of `records.py` with a description cut out of the documentation of this repository, three indexes. *read* makes the pieces, *check* looks at them as
they come, *place* puts them in a new database, commits and fsync included. Bytes are those of the pieces. `--pruned`: the log has forgotten who wrote them.
Not included: the engine, TLS, the file.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from bench import records
from bench.log_size import SHORT, of_prose
from svc.store import Store
from svc.store.copy_reader import CopyReader
from svc.store.database import Database
from svc.store.schema import Attribute, TableDefinition, definition_to_bytes
from svc.store.writing.copy_apply import CopyCheck, CopyHead, apply_copy

ITEM = TableDefinition(
    "Item",
    attributes=(
        Attribute("id", "ID", primary_key=True),
        *(Attribute(name, "Any", indexed=True) for name in ("rank", "category", "price")),
    ),
    primary_key="id",
    dynamic=True,
)
LOADED = 1000  # records in one transaction


def load(store: Store, database: Database, count: int) -> None:
    chance = random.Random(1)
    for start in range(0, count, LOADED):
        transaction = store.begin()
        for number in range(start, min(start + LOADED, count)):
            record = records.item(number) | {"description": of_prose(chance, SHORT)}
            transaction.put(database.tables["Item"], record["id"], record)
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


async def place(store: Store, database: Database, head: CopyHead, pieces: list[bytes]) -> list[float]:
    """Seconds of the turns."""
    turns: list[float] = []

    async def turn() -> None:
        last = time.perf_counter()
        while True:
            await asyncio.sleep(0)
            if store.has_pending:
                store.commit_turn()
            store.end_turn()
            now = time.perf_counter()
            turns.append(now - last)
            last = now

    task = asyncio.ensure_future(turn())
    await apply_copy(database, b"1", head, lambda number: pieces[number] if number < len(pieces) else None, tell=lambda number: None)
    task.cancel()
    return turns


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--records", type=int, default=30_000)
    parser.add_argument("--pruned", action="store_true")
    arguments = parser.parse_args()
    with TemporaryDirectory() as directory:
        stores = [Store(Path(directory) / name, node=name) for name in "ab"]
        there, here = (store.open_database("data") for store in stores)
        for store, database in zip(stores, (there, here), strict=True):
            database.define_table(ITEM)
            database.enable_replication()
            store.end_turn()
        load(stores[0], there, arguments.records)
        if arguments.pruned:
            prune(stores[0], there)
        reader = CopyReader(there, [there.tables["Item"]])
        assert there.replication is not None
        head = CopyHead("a", there.replication.incarnation(reader.txn), reader.newest, 1.0, [], [], {"Item": definition_to_bytes(ITEM)}, 0)
        began = time.process_time()
        pieces = [piece for piece in reader.pieces() if piece is not None]
        read = time.process_time() - began
        reader.close()
        megabytes = sum(map(len, pieces)) / 1e6
        began = time.process_time()
        check = CopyCheck()
        for piece in pieces:
            check.take(piece)
        checked = time.process_time() - began
        began, clock = time.process_time(), time.perf_counter()
        turns = sorted(asyncio.run(place(stores[1], here, head, pieces)))
        placed, seconds = time.process_time() - began, time.perf_counter() - clock
        for store in stores:
            store.close()
    print(f"{arguments.records} records, {megabytes:.1f} MB")
    for name, cpu in (("read", read), ("check", checked), ("place", placed)):
        print(f"{name:6} {cpu / megabytes * 1e3:6.1f} ms of CPU per MB, {cpu / arguments.records * 1e6:5.1f} us per record")
    print(
        f"place: {megabytes / seconds:.1f} MB/s; turns: p99 {turns[len(turns) * 99 // 100] * 1e3:.1f} ms, longest {turns[-1] * 1e3:.1f} ms"
    )


if __name__ == "__main__":
    main()
