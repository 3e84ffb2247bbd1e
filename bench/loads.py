"""Bulk loads, layer by layer, in one process without sockets: what the store alone takes, the bulk writer beside a loop, the whole of `csv_data_load`.

    python -m bench.loads [--records 200000] [--rounds 3]

The three take turns in each round, and the ratio is that of their CPU times, so it holds on a machine that has other work. `load_records` and
`bulk_write` get records as objects; making these, and the CSV text, is not part of it. The table is that of the other benchmarks: 8 attributes, 3 of
them indexed, about 400 bytes. *Delay*: how late a timer of the loop runs, which is what a request that arrives meanwhile would wait; an idle loop tells
what of it is the machine's. Not included: HTTP, and the clients, which on two cores take time from the load; see operations.py.
"""

from __future__ import annotations

import argparse
import asyncio
import csv
import gc
import io
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench import records
from svc.clock import SYSTEM_CLOCK
from svc.server.garbage import GROWTH
from svc.store import Table
from svc.store.schema import Attribute, TableDefinition
from svc.store.writing.bulk_write import bulk_write, load_records
from tests.support.operations import OperationsNode

ITEM = TableDefinition(
    "Item",
    attributes=(
        Attribute("id", "ID", primary_key=True),
        Attribute("name", "String"),
        Attribute("category", "String", indexed=True),
        Attribute("price", "Float", indexed=True),
        Attribute("rank", "Int", indexed=True),
        Attribute("active", "Boolean"),
        Attribute("brandId", "ID"),
        Attribute("description", "String"),
    ),
)
PROBE = 0.001  # seconds between two looks at how late the loop is
IDLE = 2.0  # seconds that an idle loop is looked at

IDLE_LOOP = "an idle loop"


class Run:
    """One load into a new table, and what it took."""

    def __init__(self, count: int, work: Callable[[OperationsNode, Table, Any], None], given: Any) -> None:
        self.late: list[float] = []
        self._probing = True
        with tempfile.TemporaryDirectory(prefix="bench-loads-") as path, OperationsNode(Path(path), clock=SYSTEM_CLOCK) as node:  # type: ignore[arg-type]
            table = node.store.open_database("data").define_table(ITEM)
            self._probe(node.loop, time.perf_counter())
            gc.collect()
            wall, cpu = time.perf_counter(), time.process_time()
            work(node, table, given)
            self.wall, self.cpu = time.perf_counter() - wall, time.process_time() - cpu
            self._probing = False
            assert given is None or table.record_count() == count, table.record_count()

    def _probe(self, loop: asyncio.AbstractEventLoop, due: float) -> None:
        """A plain callback, as that of a socket is."""
        if self._probing:
            now = time.perf_counter()
            self.late.append(now - due)
            loop.call_later(PROBE, self._probe, loop, now + PROBE)


def load(node: OperationsNode, table: Table, given: list[dict[str, Any]]) -> None:
    for _ in load_records(table, given):
        pass


def bulk(node: OperationsNode, table: Table, given: list[dict[str, Any]]) -> None:
    node.wait(lambda: bulk_write(table, given, mode="insert"))


def upsert(node: OperationsNode, table: Table, given: list[dict[str, Any]]) -> None:
    node.wait(lambda: bulk_write(table, given, mode="upsert"))


def csv_load(node: OperationsNode, table: Table, given: str) -> None:
    started = node.run("csv_data_load", table=table.name, data=given)
    (job,) = (task for task in asyncio.all_tasks(node.loop) if task.get_name() == f"job {started['job_id']}")
    node.wait(lambda: asyncio.wait((job,)))


def idle(node: OperationsNode, table: Table, given: None) -> None:
    node.wait(lambda: asyncio.sleep(IDLE))


def as_csv(rows: list[dict[str, Any]], *, quoted: bool) -> str:
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, rows[0], quoting=csv.QUOTE_NONNUMERIC if quoted else csv.QUOTE_MINIMAL)
    writer.writeheader()
    writer.writerows({**row, "active": "true" if row["active"] else "false"} for row in rows)
    return text.getvalue()


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--records", type=int, default=200_000)
    arguments.add_argument("--rounds", type=int, default=3)
    options = arguments.parse_args()
    count = options.records
    gc.freeze()  # as the server does
    gc.set_threshold(GROWTH, 10, 10)

    def rows() -> list[dict[str, Any]]:
        return [records.item(n) for n in range(count)]

    def keyless_rows() -> list[dict[str, Any]]:
        return [{name: value for name, value in row.items() if name != "id"} for row in rows()]

    ways: dict[str, tuple[Any, Callable[[], Any]]] = {
        "load_records": (load, rows),
        "bulk_write, insert": (bulk, rows),
        "bulk_write, keys made": (bulk, keyless_rows),
        "bulk_write, upsert": (upsert, rows),
        "csv_data_load": (csv_load, lambda: as_csv(rows(), quoted=False)),
        "csv_data_load, quoted": (csv_load, lambda: as_csv(rows(), quoted=True)),
        IDLE_LOOP: (idle, lambda: None),
    }
    runs: dict[str, list[Run]] = {name: [] for name in ways}
    for _ in range(options.rounds):
        for name, (work, given) in ways.items():
            runs[name].append(Run(count, work, given()))
    print(f"{count:,} records, median of {options.rounds} rounds")
    print(f"{'':24}{'records/s':>12}{'/CPU second':>13}{'CPU ratio':>11}{'delay p99':>11}{'worst':>8}")
    for name, found in runs.items():
        late = sorted(delay for run in found for delay in run.late)
        delays = f"{late[len(late) * 99 // 100] * 1000:>8.1f} ms{late[-1] * 1000:>5.0f} ms" if late else ""
        if name == IDLE_LOOP:
            print(f"{name:60}{delays}")
            continue
        wall, cpu = statistics.median([run.wall for run in found]), statistics.median([run.cpu for run in found])
        ratio = statistics.median([run.cpu / alone.cpu for run, alone in zip(found, runs["load_records"], strict=True)])
        print(f"{name:24}{count / wall:>12,.0f}{count / cpu:>13,.0f}{ratio:>11.2f}{delays}")


if __name__ == "__main__":
    main()
