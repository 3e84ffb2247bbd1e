"""kill -9 in the middle of long writes: each is there as a whole or not at all, what was acknowledged is there, and all agrees.

A child process writes transactions of many records through the Store API, one after the other, with ordinary ones in between, and says before
each what it is about to do and after it that this is done. Whatever moment it is killed at - while the records are written, while the helper
thread commits, between commit and acknowledgement - all records must tell the number of one transaction.
"""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

from svc.store import Store, StoreSettings, Transaction
from svc.store.integrity.check import check_database
from svc.store.schema import Attribute, TableDefinition
from svc.store.values.records import decode
from tests.support.crash import SEED, Child, rounds, say

pytestmark = pytest.mark.programs

ROUNDS = rounds(6)
MAP_BYTES = 1 << 30
RECORDS = 400

NOTE = TableDefinition(
    "Note",
    attributes=(
        Attribute("id", primary_key=True),
        Attribute("n", indexed=True),
        Attribute("tags", elements=True, indexed=True),
        Attribute("text"),
        Attribute("seat", "Int", indexed=True, unique=True),
    ),
)


def seat_of(record: int, number: int) -> int:
    """A unique value, which another record had in the transaction before."""
    return (record + number) % RECORDS


# -- the child


def write(path: Path) -> None:
    """Write until killed. Output: `long 7` or `short 7` before a transaction, `done` after it."""
    store = Store(path, StoreSettings(map_bytes=MAP_BYTES))
    table = store.open_database("data").define_table(NOTE)
    raw = table.get_raw("short")
    first = 1 if raw is None else decode(raw)["n"] + 1
    loop = asyncio.new_event_loop()

    def turns(long: Transaction) -> None:
        task = loop.create_task(long.apply_long())
        while not task.done():
            loop.call_soon(loop.stop)
            loop.run_forever()
            if store.has_pending:
                store.commit_turn()
            store.end_turn()
        task.result()

    for number in range(first, 1_000_000):
        transaction = store.begin()
        transaction.put(table, "short", {"n": number})
        say(f"short {number}")
        transaction.apply()
        store.commit_turn()
        say("done")
        transaction = store.begin()
        for record in range(RECORDS):
            # Records come and go, so that pages do too.
            if (record + number) % 7:
                values = {"n": number, "tags": [record % 5, number % 3], "text": "x" * (record * number % 900)}
                transaction.put(table, record, {**values, "seat": seat_of(record, number)})
            else:
                transaction.delete(table, record)
        say(f"long {number}")
        turns(transaction)
        say("done")


# -- the parent


def read(path: Path) -> tuple[int, int]:
    """(number of the short transaction, of the long one) that the records tell."""
    store = Store(path, StoreSettings(map_bytes=MAP_BYTES))
    try:
        store.check()
        table = store.databases["data"].tables["Note"]
        found = [decode(raw) for _, raw in table.scan(store.databases["data"].snapshot())]
        records = {record["id"]: record["n"] for record in found}
        short = records.pop("short", 0)
        numbers = set(records.values())
        assert all(record["seat"] == seat_of(record["id"], record["n"]) for record in found if record["id"] != "short")
        assert len(numbers) <= 1, f"records of several transactions: {sorted(numbers)}"
        number = numbers.pop() if numbers else 0
        assert records.keys() == ({record for record in range(RECORDS) if (record + number) % 7} if number else set())
        return short, number
    finally:
        store.close()


def test_long_writes_are_whole_or_absent(tmp_path: Path) -> None:
    source = random.Random(SEED)
    path = tmp_path / "database"
    expected = {"short": 0, "long": 0}
    finished = 0
    for round_ in range(ROUNDS):
        under_way: tuple[str, int] | None = None
        for line in Child(write, path).kill_after(source.uniform(0.05, 0.4)):
            if line == "done":
                assert under_way is not None
                expected[under_way[0]] = under_way[1]
                under_way = None
                finished += 1
            else:
                kind, number = line.split()
                under_way = kind, int(number)
        report = check_database(path / "data")
        assert report.findings == [], f"round {round_}"
        short, long = read(path)
        possible = {kind: {number} for kind, number in expected.items()}
        if under_way is not None:
            possible[under_way[0]].add(under_way[1])
        assert short in possible["short"] and long in possible["long"], f"round {round_}: {short}, {long} instead of {possible}"
        expected = {"short": short, "long": long}
    assert finished > 0, "nothing was ever finished: the test has shown nothing"
