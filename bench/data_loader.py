"""How long a file of records takes to be brought into a table (`dataLoader`), and to be found unchanged at the next start.

Includes: reading and decoding the file, hashes, checks, writing and committing records, hashes and one index. Does not include: a server around it.

    python -m bench.data_loader [RECORDS] [ROUNDS]
"""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from svc.apps.data_files import read_data_file
from svc.apps.data_loader import load_file
from svc.apps.entry import Runtime
from svc.clock import SYSTEM_CLOCK
from svc.loop import new_loop
from svc.query import QueryCache
from svc.resources import Resources
from svc.store import Store
from svc.store.schema import Attribute, TableDefinition
from svc.store.system import ensure_system

TABLE = TableDefinition(
    "Item",
    attributes=(
        Attribute("id", "ID", primary_key=True),
        Attribute("name", "String"),
        Attribute("price", "Float", indexed=True),
        Attribute("since", "Date"),
    ),
)


def write_file(path: Path, records: int) -> None:
    rows = [
        {"id": f"item{number}", "name": f"Item number {number}", "price": number + 0.5, "since": "2024-01-05T10:00:00Z"}
        for number in range(records)
    ]
    if path.suffix == ".json":
        path.write_text(json.dumps({"table": "Item", "records": rows}))
    else:
        lines = [f"- id: {row['id']}\n  name: {row['name']}\n  price: {row['price']}\n  since: {row['since']}\n" for row in rows]
        path.write_text("table: Item\nrecords:\n" + "".join(lines))


def measure(path: Path, records: int, suffix: str) -> list[tuple[float, float]]:
    """(seconds, CPU seconds) of the first load and of the second."""
    file = path / f"items{suffix}"
    write_file(file, records)
    loop, turns = new_loop()
    store = Store(path / "store")
    ensure_system(store)
    store.open_database("data").define_table(TABLE)

    def end_turn() -> bool:
        if store.has_pending:
            store.commit_turn()
        store.end_turn()
        return False

    turns.end_turn = end_turn
    found = []
    with ThreadPoolExecutor(1) as executor:
        runtime = Runtime(store, Resources(), QueryCache(), loop, store.clock, executor)

        async def load() -> None:
            result = await load_file(runtime, await runtime.in_thread(read_data_file, file))
            assert not result.faults

        for _ in range(2):
            began, cpu = SYSTEM_CLOCK.monotonic(), SYSTEM_CLOCK.cpu()
            loop.run_until_complete(load())
            found.append((SYSTEM_CLOCK.monotonic() - began, SYSTEM_CLOCK.cpu() - cpu))
        loop.run_until_complete(asyncio.sleep(0))
    store.close()
    loop.close()
    return found


def main(records: int = 100_000, rounds: int = 3) -> None:
    for suffix in (".json", ".yaml"):
        samples = []
        for _ in range(rounds):
            with tempfile.TemporaryDirectory() as directory:
                samples.append(measure(Path(directory), records, suffix))
        for number, what in enumerate(("first load", "unchanged")):
            seconds = [sample[number][0] for sample in samples]
            cpu = [sample[number][1] for sample in samples]
            print(
                f"{suffix[1:]}, {what}: {statistics.median(seconds):.2f} s ({min(seconds):.2f} to {max(seconds):.2f}),"
                f" {statistics.median(cpu):.2f} s of CPU for {records} records"
            )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
