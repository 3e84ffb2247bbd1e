"""What PUTs make of the file of a database: its growth for each byte that was sent, where that is, and the CPU time of the store.

    python -m bench.log_size [--records 4000] [--puts 20000] [--rounds 3] [--rows "2.1 kB"]

In one process without sockets: records of a table with three indexes are replaced in random order, 32 in each turn and its commit, by the store that the server
uses. Records are those of `records.py`, whose description is cut out of the documentation of this repository, or is random text. *Sent* is the JSON of
the records. The growth is that of the file, which pages that are free do not stop from growing at first: so pages that have become free are not part of it, but
of a column of their own. Not included: HTTP, the encoding of answers.
"""

from __future__ import annotations

import argparse
import base64
import json
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from bench import records
from bench.loads import ITEM
from svc.clock import SYSTEM_CLOCK
from svc.store import Store, StoreSettings, Table
from svc.store.env import store_bytes
from svc.store.log.entries import decode_entry

TURN = 32  # PUTs that share a commit
SHORT, LONG = 200, 1_900  # characters of a description: records of 400 and of 2,100 bytes

Describe = Callable[[random.Random, int], str]


def prose() -> str:
    return "\n".join(path.read_text("ascii", "ignore") for path in sorted((Path(__file__).parent.parent / "docs").glob("*.md")))


_PROSE = prose()


def of_prose(chance: random.Random, size: int) -> str:
    start = chance.randrange(len(_PROSE) - size)
    return _PROSE[start : start + size]


def of_noise(chance: random.Random, size: int) -> str:
    return base64.b64encode(chance.randbytes(size))[:size].decode()


def one_attribute(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    return old | {"rank": new["rank"]}


def description(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    return old | {"rank": new["rank"], "description": new["description"]}


def all_attributes(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    return new | {"id": old["id"]}


Row = tuple[int, Describe, Callable[[dict[str, Any], dict[str, Any]], dict[str, Any]]]
ROWS: dict[str, Row] = {
    f"{size}, {text}{title}": (length, describe, change)
    for size, length in (("400 B", SHORT), ("2.1 kB", LONG))
    for text, describe in (("", of_prose), ("random, ", of_noise))
    for title, change in (("one attribute", one_attribute), ("description", description), ("all attributes", all_attributes))
    if describe is of_prose or change is all_attributes
}


class Run:
    """One row, in bytes for each PUT, `cpu` in microseconds."""

    def __init__(self, row: Row, count: int, puts: int) -> None:
        with tempfile.TemporaryDirectory(prefix="bench-log-") as path:
            store = Store(Path(path), StoreSettings(), clock=SYSTEM_CLOCK)
            try:
                self._run(store, row, count, puts // TURN)
            finally:
                store.close()

    def _run(self, store: Store, row: Row, count: int, turns: int) -> None:
        size, describe, change = row
        chance = random.Random(7)

        def made(n: int) -> dict[str, Any]:
            return records.item(n) | {"description": describe(chance, size)}

        now = [made(n) for n in range(count)]
        table = store.open_database("data").define_table(ITEM)
        for start in range(0, count, TURN):
            put(store, table, now[start : start + TURN])
        before, lsn = pages(table), table.database.log.last_lsn
        sent, cpu = 0, 0.0
        for _ in range(turns):
            batch = []
            for place in chance.sample(range(count), TURN):
                now[place] = change(now[place], made(chance.randrange(records.RECORDS)))
                batch.append(now[place])
            sent += sum([len(json.dumps(record, separators=(",", ":"))) for record in batch])
            started = time.process_time()
            put(store, table, batch)
            cpu += time.process_time() - started
        puts = turns * TURN
        self.cpu = cpu * 1e6 / puts
        self.sent = sent / puts
        self.pages = {name: (size - before[name]) / puts for name, size in pages(table).items()}
        self.entries = {name: size / puts for name, size in entry_parts(table, lsn + 1).items()}


def put(store: Store, table: Table, batch: Iterable[dict[str, Any]]) -> None:
    """One turn."""
    for record in batch:
        transaction = store.begin("anna")
        transaction.put(table, record["id"], dict(record))
        transaction.apply()
    store.commit_turn()


def pages(table: Table) -> dict[str, int]:
    """Bytes of pages."""
    database = table.database
    env, txn = database.env, database.snapshot()
    log = txn.stat(database.log._entries)
    return {
        "file": env.used_bytes(),
        "leaf pages of the log": (log["leaf_pages"] + log["branch_pages"]) * log["psize"],
        "overflow pages of the log": log["overflow_pages"] * log["psize"],
        "records": store_bytes(txn, table.primary),
        "indexes": sum([store_bytes(txn, index.handle) for index in table.stored_indexes]),
        "free": database.free_bytes(),
    }


def entry_parts(table: Table, first: int) -> dict[str, int]:
    """Bytes of the entries from this LSN on: the new records, the records before, and all that the entries are as they are stored."""
    database = table.database
    txn = database.snapshot()
    cursor = txn.cursor(database.log._entries)
    found = {"new record": 0, "record before": 0, "entry": 0}
    if cursor.set_range(first.to_bytes(8)):
        for key, data in cursor.iternext():
            entry = decode_entry(int.from_bytes(key), data)
            found["new record"] += len(entry.value or b"")
            found["record before"] += len(entry.image or b"")
            found["entry"] += len(data)
    return found


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--records", type=int, default=4_000)
    arguments.add_argument("--puts", type=int, default=20_000)
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("--rows", help="those whose names contain this")
    options = arguments.parse_args()
    rows = {name: row for name, row in ROWS.items() if options.rows is None or options.rows in name}
    runs: dict[str, list[Run]] = {name: [] for name in rows}
    for _ in range(options.rounds):
        for name, row in rows.items():
            runs[name].append(Run(row, options.records, options.puts))
    for name, found in runs.items():
        run = found[0]
        cpu = [each.cpu for each in found]
        print(
            f"{name}: {run.sent:.0f} sent, grows by {run.pages['file'] / run.sent:.2f} times that; "
            f"{statistics.median(cpu):.1f} us CPU, at least {min(cpu):.1f}"
        )
        for parts in (run.entries, run.pages):
            print("   ", ", ".join([f"{part} {size:.0f}" for part, size in parts.items()]))


if __name__ == "__main__":
    main()
