"""Index caches beside a plain model: no count is ever of another state than its snapshot.

Any sequence of transactions, aborted and failed ones, commits within a turn, long writes, schema changes, commits of another process, caches that are
loaded, filled with pending changes, merged, evicted and dropped. The model keeps what is committed, what the turn has written, and what its
snapshot shows. The sizes that decide about caches are made so small that every path is taken.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from svc.clock import FakeClock
from svc.errors import PreconditionFailed
from svc.store import Precondition, Store, StoreSettings, Table
from svc.store.disk.faults import LmdbError
from svc.store.indexes import cache, replay
from svc.store.schema import Attribute, TableDefinition
from svc.store.values.keys import after, index_key, index_keys
from tests.support.indexes import rebuild_index
from tests.support.profile import half_by_day

pytestmark = pytest.mark.programs

REPLAYED = {"LOOK": 8, "MOST": 6, "SHARE": 3}
SIZES = {"AT_ONCE": 3, "_CHUNK": 3, "_FREED": 2, "MAX_PENDING": 5, "MERGED": 2, "MERGED_BY_WRITE": 1, "UNASKED": 4}
THING = TableDefinition(
    "Thing",
    attributes=(
        Attribute("id", primary_key=True),
        Attribute("a", "Int", indexed=True),
        Attribute("tags", elements=True, indexed=True),
        Attribute("twice", "Int", computed_from="a * 2 if a else None", indexed=True),
    ),
)
NAMES = ("a", "tags", "twice")
SIBLING = """
import json, sys
from pathlib import Path
from svc.clock import FakeClock
from svc.store import Store, StoreSettings
for line in sys.stdin:
    path, turns, audit, prunes = json.loads(line)
    store = Store(Path(path), StoreSettings(audit=audit), clock=FakeClock())
    database = store.databases["data"]
    table = database.tables["Thing"]
    for writes in turns:
        transaction = store.begin()
        for kind, key, record in writes:
            if kind == "publish":
                transaction.publish(table, key, record)
            elif record is None:
                transaction.delete(table, key)
            elif kind == "patch":
                transaction.patch(table, key, record)
            else:
                transaction.put(table, key, record)
        transaction.apply()
        store.commit_turn()
    if prunes:
        database.log.prune(database.writer(), float("inf"), 1000)
        database.env.touch()
        store.commit_turn()
    store.close()
    print("done", flush=True)
"""

Content = dict[int, dict[str, Any]]

numbers = st.integers(0, 9)
contents = st.fixed_dictionaries({}, optional={"a": numbers, "tags": st.lists(st.sampled_from(("x", "y", None, 1)), max_size=3)})
writes_of = st.lists(st.tuples(st.integers(0, 12), st.none() | contents), min_size=1, max_size=6)
others_turns = st.lists(
    st.lists(st.tuples(st.sampled_from(("put", "patch", "publish")), st.integers(0, 12), st.none() | contents), min_size=1, max_size=4),
    min_size=1,
    max_size=3,
)
Turns = list[list[tuple[str, int, dict[str, Any] | None]]]


class Sibling:
    """Another process that writes to the same store."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None

    def write(self, path: Path, turns: Turns, audit: bool, prunes: bool) -> None:
        if self._process is None:
            self._process = subprocess.Popen([sys.executable, "-c", SIBLING], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps([str(path), turns, audit, prunes]) + "\n")
        self._process.stdin.flush()
        assert self._process.stdout.readline() == "done\n"

    def close(self) -> None:
        if self._process is not None:
            self._process.communicate()
            self._process = None


sibling = Sibling()


@pytest.fixture(scope="module", autouse=True)
def _end_of_sibling() -> Iterator[None]:
    yield
    sibling.close()


def change(content: Content, writes: list[tuple[int, dict[str, Any] | None]]) -> Content:
    content = dict(content)
    for key, record in writes:
        if record is None:
            content.pop(key, None)
        else:
            content[key] = record
    return content


def change_elsewhere(content: Content, turns: Turns) -> Content:
    for kind, key, record in (write for writes in turns for write in writes):
        if kind != "publish":
            content = change(content, [(key, record if kind == "put" or record is None else {**content.get(key, {}), **record})])
    return content


def values_of(record: dict[str, Any], name: str) -> Any:
    """The value that is indexed."""
    if name == "twice":
        return record["a"] * 2 if record.get("a") else None
    return record.get(name)


class CacheMachine(RuleBasedStateMachine):
    """See the module."""

    def __init__(self) -> None:
        super().__init__()
        self.patch = pytest.MonkeyPatch()
        for name, size in SIZES.items():
            self.patch.setattr(cache, name, size)
        for name, size in REPLAYED.items():
            self.patch.setattr(replay, name, size)
        self.path = Path(tempfile.mkdtemp(prefix="index-caches-"))
        self.store = Store(self.path, StoreSettings(cache_bytes=1 << 20, map_bytes=64 << 20), clock=FakeClock())
        self.table: Table = self.store.open_database("data").define_table(THING)
        self.committed: Content = {}
        self.written: Content = {}  # with what the turn has written
        self.seen: Content | None = None  # of the turn's snapshot

    # -- writing

    @rule(writes=writes_of)
    def write(self, writes: list[tuple[int, dict[str, Any] | None]]) -> None:
        self.apply(writes)
        self.written = change(self.written, writes)

    @rule(writes=writes_of)
    def write_and_commit(self, writes: list[tuple[int, dict[str, Any] | None]]) -> None:
        """A turn of its own, as most are."""
        self.write(writes)
        self.commit()

    @rule(writes=writes_of)
    def write_in_vain(self, writes: list[tuple[int, dict[str, Any] | None]]) -> None:
        """One of its writes is refused, so all are undone."""
        with pytest.raises(PreconditionFailed):
            self.apply(writes, Precondition(if_match=("AAAAAAAAAAA",)))

    def apply(self, writes: list[tuple[int, dict[str, Any] | None]], refused: Precondition | None = None) -> None:
        transaction = self.store.begin()
        for key, record in writes:
            if record is None:
                transaction.delete(self.table, key)
            else:
                transaction.put(self.table, key, dict(record))
        if refused is not None:
            transaction.put(self.table, 99, {}, refused)
        transaction.apply()

    @rule()
    def commit(self) -> None:
        self.store.commit_turn()
        self.committed, self.seen = dict(self.written), None

    @rule()
    def commit_within_the_turn(self) -> None:
        """The turn's snapshot stays what it is."""
        self.store.flush()
        self.committed = dict(self.written)

    @precondition(lambda self: self.table.database.env.has_writer)
    @rule()
    def fail_to_commit(self) -> None:
        """The disk refuses: nothing of the turn exists."""
        env = self.table.database.env

        def fail() -> None:
            raise LmdbError("no")

        patch = pytest.MonkeyPatch()
        patch.setattr(type(env), "commit", lambda env: fail())
        try:
            self.store.commit_turn()
        finally:
            patch.undo()
        self.written, self.seen = dict(self.committed), None

    @rule()
    def end_turn(self) -> None:
        if not self.store.has_pending:
            self.store.end_turn()
            self.seen = None

    @rule(turns=others_turns, has_snapshot=st.booleans(), audit=st.booleans(), prunes=st.booleans())
    def another_process_writes(self, turns: Turns, has_snapshot: bool, audit: bool, prunes: bool) -> None:
        """With or without images in the log, which it may shorten."""
        self.commit()
        self.end_turn()
        if has_snapshot:
            self.count("a", 2, 7)
        sibling.write(self.path, turns, audit, prunes)
        if has_snapshot:
            self.count("a", 2, 7)  # still of the state before
            self.end_turn()
        self.committed = change_elsewhere(self.committed, turns)
        self.written = dict(self.committed)

    # -- the schema

    @rule(name=st.sampled_from(NAMES))
    def remove_and_add_an_index(self, name: str) -> None:
        self.commit()
        without = tuple(replace(attribute, indexed=attribute.indexed and attribute.name != name) for attribute in THING.attributes)
        self.table.database.define_table(replace(THING, attributes=without))
        self.table.database.define_table(THING)
        self.end_turn()

    @rule(name=st.sampled_from(NAMES))
    def rebuild_an_index(self, name: str) -> None:
        self.commit()
        rebuild_index(self.table, name)
        self.end_turn()

    # -- caches

    @rule(steps=st.integers(1, 4))
    def load(self, steps: int) -> None:
        """What waits is loaded from the turn's snapshot."""
        left = [steps]

        def may_go_on() -> bool:
            left[0] -= 1
            return left[0] > 0

        self.see()
        self.store.caches.load(may_go_on)

    @rule()
    def load_all(self) -> None:
        """All caches are loaded, of as many entries as there can be."""
        self.write_and_commit([(key, {"a": key % 10, "tags": ["x", "y"]}) for key in range(13)])
        self.store.caches.budget = 1 << 20
        for index in self.table.index_list:
            index.refused = 0
            index.counts_due = 0
        for name in NAMES:
            self.count(name, 2, 7)
        while self.store.caches.load(lambda: True):
            self.end_turn()
        assert all(index.cache is not None and index.cache.complete for index in self.table.index_list)

    @rule(writes=writes_of, within=st.booleans(), low=numbers, size=numbers)
    def write_and_count(self, writes: list[tuple[int, dict[str, Any] | None]], within: bool, low: int, size: int) -> None:
        """With a snapshot from before the commit, and with one from after it."""
        if within:
            self.see()
            self.table.database.snapshot()
            self.write(writes)
            self.commit_within_the_turn()
            self.count("a", low, low + size)
            self.commit()
        else:
            self.write_and_commit(writes)
        self.count("a", low, low + size)

    @rule()
    def drop_unused(self) -> None:
        self.store.caches.drop_unused()

    @rule(budget=st.sampled_from((0, 300, 1 << 20)))
    def change_the_budget(self, budget: int) -> None:
        self.store.caches.budget = budget

    # -- reading

    def see(self) -> Content:
        if self.seen is None:
            self.seen = dict(self.committed)
        return self.seen

    @rule(name=st.sampled_from(NAMES), low=st.none() | numbers, high=st.none() | numbers, times=st.integers(1, 3))
    def count(self, name: str, low: int | None, high: int | None, times: int = 1) -> None:
        content = self.see()
        index, txn = self.table.indexes[name], self.table.database.snapshot()
        bounds = None if low is None else index_key(low), None if high is None else after(index_key(high))
        keys = [key for record in content.values() for key in index_keys(values_of(record, name))]
        expected = sum((bounds[0] is None or bounds[0] <= key) and (bounds[1] is None or key < bounds[1]) for key in keys)
        for _ in range(times):
            assert index.count(txn, *bounds) == expected
            assert index.exact_count(txn, *bounds) == expected

    @invariant()
    def caches_agree_with_the_indexes(self) -> None:
        if not self.store.has_pending:
            txn = self.table.database.snapshot()
            self.see()
            for index in self.table.index_list:
                index.check_cache(txn)
            assert self.store.caches.used == sum(index.cache.size for index in self.table.index_list if index.cache is not None)

    def teardown(self) -> None:
        self.store.commit_turn()
        self.store.check()
        self.store.close()
        self.patch.undo()
        shutil.rmtree(self.path, ignore_errors=True)


TestCacheMachine: Callable[..., Any] = CacheMachine.TestCase
TestCacheMachine.settings = settings(max_examples=half_by_day(60), stateful_step_count=30, deadline=None)  # type: ignore[attr-defined]
