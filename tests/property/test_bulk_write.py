"""Bulk writes beside a plain model: any records in any mode and batch, with duplicates, gaps and faults, and other writers in between.

The model takes the records one by one, in their order. What is stored, what is counted and what is told must be as it says, however the records are
cut into batches; indexes and log must agree with the records.
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
from svc.store.integrity.check import check_database
from svc.store.schema import Attribute, TableDefinition
from svc.store.values.records import decode
from svc.store.writing import batch_write, bulk_batch, bulk_write, index_runs
from svc.store.writing.bulk_batch import BulkResult, RefusedRecord
from svc.testing.loop import Pool
from tests.support.fakes import TickingClock
from tests.support.profile import half_by_day

NOTE = TableDefinition(
    "Note",
    attributes=(
        Attribute("id", "ID", primary_key=True),
        Attribute("n", "Int", indexed=True),
        Attribute("tags", elements=True, indexed=True),
        Attribute("must", "String", required=True),
    ),
)
KEYS = [f"k{number}" for number in range(6)] + ["k" * 600, "k" * 700, None, ""]

Content = dict[Any, dict[str, Any]]
Counts = tuple[int, int, list[int]]  # written, skipped, numbers of those that failed

records = st.fixed_dictionaries(
    {},
    optional={
        "id": st.sampled_from(KEYS),
        "n": st.sampled_from((0, 1, 2, None, "x", {"__op__": "add", "value": 3})),
        "tags": st.lists(st.integers(0, 3), max_size=3),
        "must": st.sampled_from(("a", "b", None)),
        "free": st.integers(0, 3),
    },
)
modes = st.sampled_from(("insert", "update", "upsert", "delete"))
loads = st.lists(
    st.tuples(modes, st.lists(st.one_of(records, records, records, st.just("unreadable")), max_size=25)), min_size=1, max_size=3
)


def is_good(record: Any, mode: str) -> bool:
    if record == "unreadable":
        return False
    key = record.get("id")
    if (key is None and mode in ("update", "delete")) or key == "k" * 700:
        return False
    if mode == "delete":
        return True
    n = record.get("n")
    if n == "x" or (mode == "insert" and type(n) is dict):
        return False
    return record.get("must", "there") is not None and (mode != "insert" or "must" in record)


def expected(content: Content, new: list[Any], mode: str, load: list[Any]) -> Counts:
    """Changes `content`; records without a key go to `new`."""
    written = skipped = 0
    failed = []
    for number, record in enumerate(load, 1):
        if not is_good(record, mode):
            failed.append(number)
            continue
        key = record.get("id")
        old = None if key is None else content.get(key)
        if mode == "delete" or (old is None and mode == "update") or (old is not None and mode == "insert"):
            if mode == "delete" and old is not None:
                del content[key]
                written += 1
            else:
                skipped += 1
            continue
        if old is None and "must" not in record:
            failed.append(number)
            continue
        merged = dict(old or {}) | record
        if type(record.get("n")) is dict:
            base = (old or {}).get("n")
            merged["n"] = 3 + (base if type(base) is int else 0)
        written += 1
        if key is None:
            new.append({name: value for name, value in merged.items() if name != "id"})
        else:
            content[key] = merged
    return written, skipped, failed


@contextmanager
def opened() -> Iterator[Table]:
    path = Path(tempfile.mkdtemp(prefix="bulk-write-"))
    patch = pytest.MonkeyPatch()
    try:
        for module, name, value in (
            (batch_write, "MANY", 3),
            (index_runs, "_ENTRIES", 2),
            (index_runs, "_RUN", 4),
            (bulk_batch, "_PREPARED", 2),
            (bulk_batch, "_RUN", 3),
        ):
            patch.setattr(module, name, value)
        store = Store(path, StoreSettings(map_bytes=64 << 20), clock=TickingClock(3), make_helper=Pool)
        yield store.open_database("data").define_table(NOTE)
        store.close()
        assert check_database(path / "data").findings == []
    finally:
        patch.undo()
        shutil.rmtree(path, ignore_errors=True)


def run(table: Table, load: list[Any], mode: Any, largest: int, pieces: int) -> BulkResult:
    given = [RefusedRecord("unreadable") if record == "unreadable" else dict(record) for record in load]

    async def lists() -> AsyncIterator[list[Any]]:
        for start in range(0, len(given), pieces):
            yield given[start : start + pieces]

    loop = asyncio.new_event_loop()
    store = table.database.store
    try:
        task = loop.create_task(bulk_write.bulk_write(table, lists(), mode=mode, largest=largest))
        while not task.done():
            loop.call_soon(loop.stop)
            loop.run_forever()
            if store.has_pending:
                store.commit_turn()
            store.end_turn()
        return task.result()
    finally:
        loop.close()


@settings(max_examples=half_by_day(100))
@given(loads, st.integers(1, 30), st.integers(1, 30))
@example([("upsert", [{"id": "k1", "n": 1}, {"id": "k1", "must": "a"}, {"id": "k1", "n": {"__op__": "add", "value": 3}}])], 30, 30)
def test_bulk_writes_do_what_one_by_one_would(todo: list[tuple[str, list[Any]]], largest: int, pieces: int) -> None:
    content: Content = {}
    new: list[Any] = []
    with opened() as table:
        for mode, load in todo:
            written, skipped, failed = expected(content, new, mode, load)
            result = run(table, load, mode, largest, pieces)
            assert (result.written, result.skipped, result.failed) == (written, skipped, len(failed))
            assert [each.number for each in result.errors] == failed
            found = {table.key_of(raw): decode(raw) for _, raw in table.scan(table.database.snapshot())}
            made = [found.pop(key) for key in list(found) if key not in KEYS]
            assert found == content
            assert all(len(record.pop("id")) == 36 for record in made)
            assert sorted(map(repr, map(sorted, map(dict.items, made)))) == sorted(map(repr, map(sorted, map(dict.items, new))))
            table.database.store.check()
