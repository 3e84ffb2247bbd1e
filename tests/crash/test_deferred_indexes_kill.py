"""kill -9 in the middle of loads that leave indexes out: whatever was told is there, and indexes are complete, or known not to be and built at the next start.

A child process loads table after table and says after each batch how far it is. It is killed while indexes are maintained, left out, merged, or built in parts.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from svc.store import Store, StoreSettings, Table
from svc.store.indexes import sorted_runs
from svc.store.integrity.check import check_database
from svc.store.schema import Attribute, TableDefinition
from svc.store.writing import bulk_write, deferred_indexes
from svc.store.writing.bulk_batch import BulkResult
from tests.support.crash import SEED, Child, rounds, say

pytestmark = pytest.mark.programs

ROUNDS = rounds(6)
MAP_BYTES = 1 << 30
BATCH = 150
RECORDS = 3000
DONE = "done"


def definition(load: int) -> TableDefinition:
    return TableDefinition(
        f"Note{load}",
        attributes=(
            Attribute("id", "ID", primary_key=True),
            Attribute("place", "Int", indexed=True),
            Attribute("tags", elements=True, indexed=True),
        ),
    )


def rows() -> Iterator[dict[str, Any]]:
    for number in range(RECORDS):
        yield {"place": number * 7919 % RECORDS, "tags": [number % 5, "x" * (number % 40)]}


# -- the child


def write(path: Path) -> None:
    """Load table after table until killed. Output: `7 300`: of table 7, 300 records are on the disk; `7 done`: the load has ended."""
    bulk_write.WORTHWHILE, deferred_indexes.CHUNK, sorted_runs.BLOCK = 2 * BATCH, 1000, 16
    store = Store(path, StoreSettings(map_bytes=MAP_BYTES))
    database = store.open_database("data")
    loop = asyncio.new_event_loop()
    first = max((int(name.removeprefix("Note")) for name in database.tables), default=0) + 1
    for load in range(first, 1_000_000):
        table = database.define_table(definition(load))

        async def on_batch(result: BulkResult, load: int = load) -> None:
            say(f"{load} {result.total}")

        task = loop.create_task(bulk_write.bulk_write(table, rows(), mode="insert", largest=BATCH, on_batch=on_batch))
        while not task.done():
            loop.call_later(0.0005, loop.stop)
            loop.run_forever()
            store.end_turn()
        task.result()
        say(f"{load} {DONE}")


# -- the parent


def is_ready(table: Table) -> bool:
    return all(index.ready for index in table.index_list)


def test_indexes_are_complete_or_known_not_to_be(tmp_path: Path) -> None:
    source = random.Random(SEED)
    path = tmp_path / "database"
    in_between = 0
    for round_ in range(ROUNDS):
        told = [line.split() for line in Child(write, path).kill_after(source.uniform(0.0, 0.5))]
        assert told, "nothing was ever written: the test has shown nothing"
        assert check_database(path / "data").findings == [], f"round {round_}"
        store = Store(path, StoreSettings(map_bytes=MAP_BYTES))
        try:
            store.check()
            tables = store.databases["data"].tables
            for load, done in told:
                table = tables[f"Note{load}"]
                assert table.record_count() >= (RECORDS if done == DONE else int(done)), f"round {round_}: {load} {done} had been told"
                assert done != DONE or is_ready(table), f"round {round_}: an index of load {load} is missing"
            in_between += not all(map(is_ready, tables.values()))
            while store.maintenance(1.0):
                pass
            assert all(map(is_ready, tables.values()))
            store.end_turn()
            store.check()
        finally:
            store.close()
    assert ROUNDS < 6 or in_between, "it was never killed while an index was left out"
