"""Attributes become unique between writes: never while two records share a value, and always if none do (spec: schema-and-store §3.1)."""

from __future__ import annotations

import tempfile
from pathlib import Path
from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st

from svc.errors import SchemaError
from svc.store import Store, StoreSettings, Table
from svc.store.schema import Attribute, TableDefinition
from svc.store.values.records import decode
from svc.store.writing import duplicates, unique_proof
from svc.store.writing.unique_proof import UnprovedChange, prove
from svc.testing.loop import Pool
from tests.support.fakes import TickingClock
from tests.support.profile import examples
from tests.unit.store.writing.test_long_write import Turns

KEY = Attribute("id", "ID", primary_key=True)
KEYS = [f"k{number}" for number in range(8)]
VALUES = st.one_of(st.none(), st.integers(0, 9), st.lists(st.integers(0, 9), max_size=2))
WRITES = st.lists(st.tuples(st.integers(0, 6), st.sampled_from(KEYS), st.one_of(st.just(...), VALUES)), max_size=12)
"""(after how many turns, key, value; ...: it is deleted)"""


def definition(*, indexed: bool, unique: bool) -> TableDefinition:
    return TableDefinition("T", attributes=(KEY, Attribute("a", "Any", indexed=indexed, unique=unique)), primary_key="id")


def write(table: Table, key: str, value: object) -> None:
    transaction = table.database.store.begin()
    if value is ...:
        transaction.delete(table, key)
    else:
        transaction.put(table, key, {"id": key, "a": value})
    transaction.apply()
    table.database.store.commit_turn()


def shares_values(table: Table) -> bool:
    table.database.env.end_snapshot()
    held = [decode(raw).get("a") for _, raw in table.scan(table.database.snapshot())]
    values = [each for value in held for each in set(value if isinstance(value, list) else [value]) if each is not None]
    return len(values) != len(set(values))


async def make_unique(table: Table) -> bool:
    """False: duplicates were found."""
    wanted = definition(indexed=True, unique=True)
    while True:
        try:
            proof = await prove(table.database, wanted)
        except SchemaError:
            return False
        shared = shares_values(table)
        try:
            table.database.define_table(wanted, proof=proof)
        except UnprovedChange:
            continue
        except SchemaError:
            assert proof is None and shared
            return False
        finally:
            if proof is not None:
                proof.close()
        assert not shared
        return True


@settings(max_examples=examples(25))
@given(st.booleans(), st.lists(VALUES, min_size=3, max_size=len(KEYS)), WRITES)
def test_it_agrees_with_the_records(indexed: bool, first: list[object], later: list[tuple[int, str, object]]) -> None:
    with (
        tempfile.TemporaryDirectory() as directory,
        patch.multiple(unique_proof, SMALL=0, FEW=1, LOOKED_AT=1),
        patch.object(duplicates, "STEP", 1),
    ):
        store = Store(Path(directory), StoreSettings(write_async=True), clock=TickingClock(looks_a_slice=2), make_helper=Pool)
        turns = Turns(store)
        try:
            table = store.open_database("data").define_table(definition(indexed=indexed, unique=False))
            for key, value in zip(KEYS, first, strict=False):
                write(table, key, value)
            task = turns.start(make_unique(table))
            for turn in range(7):
                turns.turn()
                for _, key, value in [each for each in later if each[0] == turn and not task.done()]:
                    write(table, key, value)
            turns.until(task.done)
            if not task.result() and not shares_values(table):
                assert turns.finish(make_unique(table)), "there are no duplicates any more"
            assert table.definition.attributes[1].unique is not shares_values(table)
            store.check()
        finally:
            turns.close()
            store.close()
