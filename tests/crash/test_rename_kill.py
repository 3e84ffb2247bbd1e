"""kill -9 while values and tables get new names, by one process, with another that reads and moves values too: every record has the one name.

One child declares the table again and again, each time under another name and with another name for its attribute, before the values have all
been moved; it writes records in between. Another does background work and reads. Whenever they are killed, each record has its value under
the name of the last definition and under no other.
"""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from svc.store import Database, Store, StoreSettings, Table, moves
from svc.store.integrity.check import check_database
from svc.store.schema import Attribute, TableDefinition
from svc.store.values.records import decode
from tests.support.crash import SEED, Child, rounds, say

pytestmark = pytest.mark.programs

ROUNDS = rounds(4)
MAP_BYTES = 1 << 28
RECORDS = 120


def definition(number: int) -> TableDefinition:
    """The one of this number, which takes over from the one before."""
    former = number - 1
    attribute = Attribute(f"n{number}", indexed=True, renamed_from=f"n{former}" if former >= 0 else None)
    return TableDefinition(
        f"T{number}", attributes=(Attribute("id", primary_key=True), attribute), renamed_from=f"T{former}" if former >= 0 else None
    )


def open_table(path: Path) -> tuple[Store, Database, Table]:
    moves.SLICE = 7
    store = Store(path, StoreSettings(map_bytes=MAP_BYTES))
    database = store.open_database("data")
    return store, database, next(iter(database.tables.values()))


def wrong(table: Table, key: int) -> str:
    """What is wrong with a record; "" if it is right."""
    txn = table.database.snapshot()
    found = table.database.tables.get(table.name)
    if found is not table:  # another process has renamed it
        table = next(iter(table.database.tables.values()))
    raw = table.get_raw(key, txn)
    record = {} if raw is None else decode(raw)
    return "" if record == {"id": key, f"n{table.name[1:]}": key} else f"{table.name} {key}: {record}"


# -- the children


def rename(path: Path) -> None:
    """Output: `7` when that definition is about to be declared."""
    store, database, table = open_table(path)
    source = random.Random()
    for number in range(int(table.name[1:]) + 1, 1_000_000):
        say(str(number))
        table = database.define_table(definition(number))
        store.commit_turn()
        for _ in range(source.randrange(6)):
            key = source.randrange(RECORDS)
            made = store.begin()
            if key % 2:
                made.put(table, key, {f"n{number}": key})
            else:
                made.patch(table, key, {f"n{number}": key})
            made.apply()
            store.commit_turn()
            store.maintenance(0.001)


def follow(path: Path) -> None:
    """Output: what is wrong, and at first a word."""
    store, _, table = open_table(path)
    say("reading")
    key = 0
    while True:
        store.maintenance(0.001)
        store.end_turn()
        key = (key + 1) % RECORDS
        text = wrong(next(iter(table.database.tables.values())), key)
        if text:
            say(text)


# -- the parent


def test_every_record_has_one_name(tmp_path: Path) -> None:
    source = random.Random(SEED)
    path = tmp_path / "database"
    store = Store(path, StoreSettings(map_bytes=MAP_BYTES))
    table = store.open_database("data").define_table(definition(0))
    made = store.begin()
    for key in range(RECORDS):
        made.put(table, key, {"n0": key})
    made.apply()
    store.commit_turn()
    store.close()
    last = 0
    for _ in range(ROUNDS):
        reader = Child(follow, path)
        said = list(Child(rename, path).kill_after(source.uniform(0.1, 0.5)))
        assert list(reader.kill_after(0.0)) == ["reading"], "a record was seen under a wrong name"
        assert all(re.fullmatch(r"\d+", line) for line in said), said
        assert check_database(path / "data").findings == []
        store, database, table = open_table(path)
        try:
            number = int(table.name[1:])
            assert len(database.tables) == 1 and last <= number and number in (int(said[-1]), int(said[-1]) - 1)
            assert [wrong(table, key) for key in range(RECORDS) if wrong(table, key)] == []
            last = number
            if source.random() < 0.5:
                while table.moves is not None:
                    store.maintenance(0.01)
                names = {name for _, raw in database.snapshot().cursor(table.primary).iternext() for name in decode(raw)}
                assert names == {"id", f"n{number}"}
            store.check()
        finally:
            store.close()
