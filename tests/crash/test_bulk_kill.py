"""kill -9 in the middle of bulk writes: every batch is there as a whole or not at all, what was told is there, and all agrees.

A child process loads records, in all modes by turns, and says after each batch how far it is. Whatever moment it is killed at - while a batch is
prepared, written, committed on the helper thread or told - the records must be those of a number of whole batches, at least as many as it had said.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from svc.store import Store, StoreSettings
from svc.store.integrity.check import check_database
from svc.store.schema import Attribute, TableDefinition
from svc.store.values.records import decode
from svc.store.writing.bulk_batch import BulkResult
from svc.store.writing.bulk_write import bulk_write
from tests.support.crash import SEED, Child, rounds, say

pytestmark = pytest.mark.programs

ROUNDS = rounds(6)
MAP_BYTES = 1 << 30
BATCH = 150
RECORDS = 1200  # of each load: whole batches

NOTE = TableDefinition(
    "Note",
    attributes=(
        Attribute("id", primary_key=True),
        Attribute("n", indexed=True),
        Attribute("place", indexed=True),
        Attribute("tags", elements=True, indexed=True),
        Attribute("text"),
    ),
)


def rows(load: int) -> Iterator[dict[str, Any]]:
    """Record i of a load has key i and the load's number; every one of them is in its place, so batch k is the records of k * BATCH on."""
    for number in range(RECORDS):
        yield {
            "id": number,
            "n": load,
            "place": number * 7919 % RECORDS,
            "tags": [number % 5, load % 3],
            "text": "x" * (number * load % 700),
        }


# -- the child


def write(path: Path) -> None:
    """Load again and again until killed. Output: `7 300`: of load 7, 300 records are on the disk."""
    store = Store(path, StoreSettings(map_bytes=MAP_BYTES))
    table = store.open_database("data").define_table(NOTE)
    loop = asyncio.new_event_loop()
    last, done = progress(table_content(store))
    first = last + 1 if done == RECORDS or not last else last
    for load in range(first, 1_000_000):

        async def on_batch(result: BulkResult, load: int = load) -> None:
            say(f"{load} {result.total}")

        task = loop.create_task(bulk_write(table, rows(load), mode="insert" if load == 1 else "upsert", largest=BATCH, on_batch=on_batch))
        while not task.done():
            loop.call_later(0.0005, loop.stop)
            loop.run_forever()
            store.end_turn()
        task.result()


def table_content(store: Store) -> dict[int, int]:
    """Key -> number of the load that wrote it last."""
    table = store.databases["data"].tables["Note"]
    return {record["id"]: record["n"] for record in (decode(raw) for _, raw in table.scan(store.databases["data"].snapshot()))}


def progress(content: dict[int, int]) -> tuple[int, int]:
    """(load, records of it that are there): the records must be whole batches of this load, and then those of the load before."""
    if not content:
        return 0, 0
    load = max(content.values())
    done = sum(number == load for number in content.values())
    assert done % BATCH == 0, f"{done} records of load {load}"
    expected = {number: load if number < done else load - 1 for number in range(RECORDS if load > 1 else done)}
    assert content == expected, "other records than those of whole batches"
    return load, done


# -- the parent


def test_batches_are_whole_or_absent(tmp_path: Path) -> None:
    source = random.Random(SEED)
    path = tmp_path / "database"
    middles = 0
    for round_ in range(ROUNDS):
        told = [(int(load), int(done)) for load, done in map(str.split, Child(write, path).kill_after(source.uniform(0.0, 0.3)))]
        assert told, "nothing was ever written: the test has shown nothing"
        assert check_database(path / "data").findings == [], f"round {round_}"
        store = Store(path, StoreSettings(map_bytes=MAP_BYTES))
        try:
            store.check()
            found = progress(table_content(store))
        finally:
            store.close()
        assert found >= told[-1], f"round {round_}: {told[-1]} had been told, {found} is there"
        middles += found[1] != RECORDS
    assert ROUNDS < 6 or middles, "it was never killed in the middle of a load"
