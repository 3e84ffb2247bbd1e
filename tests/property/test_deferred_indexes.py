"""Indexes that a load leaves out and builds at its end, whatever others write meanwhile.

The table is small and so are the limits: every load defers its indexes, batches and parts of the build are many, and the others hit records before, in and
behind them. At any time an index answers rightly or not at all; when the load has ended, all are there.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from svc.store import Store, StoreSettings, Table
from svc.store.env import WriterBusy
from svc.store.indexes import sorted_runs
from svc.store.integrity.check import check_database
from svc.store.schema import Attribute, TableDefinition
from svc.store.values.keys import index_keys
from svc.store.values.records import decode
from svc.store.writing import batch_write, bulk_batch, bulk_write, deferred_indexes, index_runs
from svc.testing.loop import Pool
from tests.support.fakes import TickingClock
from tests.support.profile import half_by_day

NOTE = TableDefinition(
    "Note",
    attributes=(
        Attribute("id", "ID", primary_key=True),
        Attribute("n", "Int", indexed=True),
        Attribute("tags", elements=True, indexed=True),
        Attribute("twice", "Int", computed_from="n * 2", indexed=True),
    ),
)
OTHER = TableDefinition("Other", attributes=(Attribute("id", "ID", primary_key=True),))
LONG = "k" * 600
KEYS = [f"k{number}" for number in range(30)] + [LONG, None]

Script = list[tuple[bool, int, tuple[str, str, int]]]

rows = st.fixed_dictionaries(
    {"id": st.sampled_from(KEYS), "n": st.integers(0, 3)}, optional={"tags": st.lists(st.integers(0, 3), max_size=3)}
)
writes = st.one_of(
    st.tuples(st.just("put"), st.sampled_from(KEYS[:-1]), st.integers(0, 5)),
    st.tuples(st.just("delete"), st.sampled_from(KEYS[:-1]), st.just(0)),
    st.tuples(st.just("other"), st.just("x"), st.just(0)),
    st.tuples(st.just("force"), st.sampled_from(KEYS[:-1]), st.integers(0, 5)),
    st.tuples(st.just("forget log"), st.just("x"), st.just(0)),
)
script = st.lists(st.tuples(st.booleans(), st.integers(0, 40), writes), max_size=12)
"""(when the records have all been read, number of the turn from there on, a write)."""


@contextmanager
def opened(largest_changed: int) -> Iterator[Table]:
    path = Path(tempfile.mkdtemp(prefix="deferred-"))
    patch = pytest.MonkeyPatch()
    try:
        for module, name, value in (
            (batch_write, "MANY", 3),
            (index_runs, "_ENTRIES", 2),
            (index_runs, "_RUN", 4),
            (bulk_batch, "_PREPARED", 2),
            (bulk_batch, "_RUN", 3),
            (sorted_runs, "BLOCK", 2),
            (deferred_indexes, "CHUNK", 6),
            (deferred_indexes, "_ENTERED", 2),
            (deferred_indexes, "_LOOKED_AT", 2),
            (deferred_indexes, "MAX_CHANGED", largest_changed),
            (bulk_write, "WORTHWHILE", 2),
            (bulk_write, "TRY_AGAIN_AFTER", 0.0),
        ):
            patch.setattr(module, name, value)
        store = Store(path, StoreSettings(map_bytes=64 << 20), clock=TickingClock(3), make_helper=Pool)
        database = store.open_database("data")
        database.define_table(OTHER)
        yield database.define_table(NOTE)
        store.close()
        assert check_database(path / "data").findings == []
    finally:
        patch.undo()
        shutil.rmtree(path, ignore_errors=True)


def check_answers(table: Table) -> None:
    """An index that answers knows all records, and no others."""
    txn = table.database.snapshot()
    records = [(stored, decode(raw)) for stored, raw in table.scan(txn)]
    for index in table.index_list:
        computed = table.computed.get(index.attribute)
        expected = sorted(
            (key, stored)
            for stored, record in records
            for key in index_keys(record.get(index.attribute) if computed is None else computed(record))
        )
        found = list(index.scan_built(txn))
        assert set(found) <= set(expected)
        if index.ready:
            assert list(index.scan(txn)) == expected


def interfere(table: Table, todo: list[tuple[str, str, int]]) -> None:
    store = table.database.store
    while todo:
        kind, key, value = todo[0]
        if kind == "forget log":
            table.database.writer(wait=True)
            child = table.database.env.child()
            table.database.log.prune(child, float("inf"), 2)
            table.database.env.commit_child(child)
        else:
            transaction = store.begin()
            if kind == "delete":
                transaction.delete(table, key)
            elif kind == "other":
                transaction.put(table.database.tables["Other"], key, {})
            else:
                transaction.put(table, key, {"n": value, "tags": [value]})
            try:
                transaction.apply(wait=kind == "force")
            except WriterBusy:
                return
        del todo[0]


def run(table: Table, records: list[dict[str, Any]], mode: Any, largest: int, others: Script) -> int:
    """The number of turns in which an index could not answer."""

    async def lists() -> AsyncIterator[list[Any]]:
        for start in range(0, len(records), 3):
            yield [dict(record) for record in records[start : start + 3]]
        nonlocal is_read, turn
        is_read, turn = True, -1

    is_read = False
    loop = asyncio.new_event_loop()
    store = table.database.store
    turn = without = 0
    todo: list[tuple[str, str, int]] = []
    try:
        task = loop.create_task(bulk_write.bulk_write(table, lists(), mode=mode, largest=largest))
        while not task.done():
            loop.call_soon(loop.stop)
            loop.run_forever()
            todo += [write for late, when, write in others if late is is_read and when * 3 == turn]
            interfere(table, todo)
            if store.has_pending:
                store.commit_turn()
            store.end_turn()
            check_answers(table)
            without += not all(index.ready for index in table.index_list)
            store.end_turn()
            turn += 1
        task.result()
    finally:
        loop.close()
    return without


@settings(max_examples=half_by_day(100))
@given(st.sampled_from(("insert", "upsert")), st.lists(rows, min_size=4, max_size=40), st.integers(1, 9), script, st.sampled_from((0, 100)))
@example("insert", [{"id": key, "n": 1} for key in KEYS[:25]], 4, [(False, number, ("put", f"k{number}", 5)) for number in range(25)], 100)
@example(
    "insert", [{"id": key, "n": 1} for key in KEYS[:25]], 4, [(True, number * 4, ("force", f"k{number}", 5)) for number in range(9)], 100
)
@example("upsert", [{"id": key, "n": 1} for key in KEYS[:9] * 3], 4, [], 100)
def test_an_index_answers_rightly_or_not_at_all(
    mode: str, records: list[dict[str, Any]], largest: int, others: Script, largest_changed: int
) -> None:
    with opened(largest_changed) as table:
        run(table, records, mode, largest, others)
        store = table.database.store
        assert not any(index.is_deferred for index in table.index_list)
        for _ in range(100):
            if all(index.ready for index in table.index_list):
                break
            store.maintenance(1.0)
        assert all(index.ready for index in table.index_list)
        check_answers(table)
        store.check()


def test_the_load_builds_them_itself() -> None:
    with opened(100) as table:
        without = run(table, [{"id": f"r{number}", "n": number % 3, "tags": [number, 1]} for number in range(60)], "insert", 7, [])
        assert without, "no index was left out: the tests of this module show nothing"
        assert all(index.ready for index in table.index_list)
        check_answers(table)
        table.database.store.check()
