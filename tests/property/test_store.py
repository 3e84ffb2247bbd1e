"""The store beside a dict: whatever is written, undone, committed, lost, rebuilt or removed by time, both hold the same.

After every step each table's indexes, caches, expiry entries and log are checked against a full scan of its records.
"""

import shutil
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from svc.clock import FakeClock
from svc.errors import Problem, RecordExists
from svc.store import Store, Table
from svc.store.keys import after, encode_key, index_key, index_keys
from svc.store.records import decode
from svc.store.schema import Attribute, TableDefinition
from svc.store.validation import Add

DEFINITION = TableDefinition(
    "T",
    attributes=(Attribute("id", primary_key=True), Attribute("a", indexed=True), Attribute("b", indexed=True), Attribute("c")),
)

KEYS = st.one_of(st.integers(-3, 12), st.sampled_from(["a", "b", "a/b", "", "k" * 520, "k" * 520 + "x", "é"]))
SCALARS = st.one_of(st.none(), st.booleans(), st.integers(-3, 3), st.sampled_from([0.5, 2**60, "", "x", "y" * 300, "y" * 301]))
VALUES = st.one_of(SCALARS, st.lists(SCALARS, max_size=3), st.just({"n": 1}))
CHANGES = st.dictionaries(st.sampled_from(["a", "b", "c", "d"]), VALUES, max_size=4)

Records = dict[Any, tuple[dict[str, Any], float | None]]


class StoreBesideDict(RuleBasedStateMachine):
    @initialize()
    def start(self) -> None:
        self.clock = FakeClock()
        self.directory = Path(tempfile.mkdtemp(prefix="store-"))
        self.committed: Records = {}
        self.turn: Records = {}
        self.outcomes: list[Problem | None] = []
        self.applied = 0
        self.store = Store(self.directory, clock=self.clock, cache_bytes=1 << 20)
        self.store.open_database("data").define_table(DEFINITION)

    @property
    def table(self) -> Table:
        return self.store.databases["data"].tables["T"]

    def live(self, records: Records, key: Any) -> dict[str, Any] | None:
        found = records.get(key)
        if found is None or (found[1] is not None and found[1] <= self.clock.wall() * 1000):
            return None
        return found[0]

    # -- writing

    def write(self, act: Callable[[Any, Records], None], *, fails: bool = False) -> None:
        """One transaction: on the store, and on a copy of the dict that replaces it if all goes well."""
        transaction = self.store.begin()
        transaction.on_done = self.outcomes.append
        after_it = dict(self.turn)
        act(transaction, after_it)
        try:
            transaction.apply()
        except RecordExists:
            assert fails
            return
        assert not fails
        self.turn = after_it
        self.applied += 1

    @rule(key=KEYS, record=CHANGES, lives=st.one_of(st.none(), st.integers(1, 100)))
    def put(self, key: Any, record: dict[str, Any], lives: int | None) -> None:
        def act(transaction: Any, records: Records) -> None:
            expires_at = None if lives is None else self.clock.wall() * 1000 + lives * 1000
            transaction.put(self.table, key, dict(record), expires_at=expires_at)
            records[key] = ({**record, "id": key}, expires_at)

        self.write(act)

    @rule(writes=st.lists(st.tuples(KEYS, st.one_of(st.none(), CHANGES)), min_size=1, max_size=5), create=KEYS)
    def several(self, writes: list[tuple[Any, dict[str, Any] | None]], create: Any) -> None:
        """Deletes and patches, then a create, which undoes them all if there is such a record."""
        fails = False

        def act(transaction: Any, records: Records) -> None:
            nonlocal fails
            for key, changes in writes:
                old = self.live(records, key)
                if changes is None:
                    transaction.delete(self.table, key)
                    if old is not None:
                        del records[key]
                else:
                    transaction.patch(self.table, key, dict(changes))
                    records[key] = ({**(old or {}), **changes, "id": key}, None if old is None else records[key][1])
            transaction.create(self.table, create, {"c": 1})
            fails = self.live(records, create) is not None
            records[create] = ({"c": 1, "id": create}, None)

        transaction = self.store.begin()
        transaction.on_done = self.outcomes.append
        after_it = dict(self.turn)
        act(transaction, after_it)
        try:
            transaction.apply()
        except RecordExists:
            assert fails
            return
        assert not fails
        self.turn = after_it
        self.applied += 1

    @rule(key=KEYS, amount=st.integers(-5, 5))
    def add(self, key: Any, amount: int) -> None:
        def act(transaction: Any, records: Records) -> None:
            transaction.patch(self.table, key, {"a": Add(amount)})
            old = self.live(records, key) or {}
            base = old.get("a")
            total = base + amount if type(base) is int or type(base) is float else amount
            records[key] = ({**old, "a": total, "id": key}, records[key][1] if old else None)

        self.write(act)

    @precondition(lambda self: not self.applied)
    @rule(records=st.lists(st.tuples(KEYS, CHANGES), max_size=20), batch=st.integers(1, 7))
    def load(self, records: list[tuple[Any, dict[str, Any]]], batch: int) -> None:
        for _ in self.table.load([{**record, "id": key} for key, record in records], batch=batch):
            pass
        for key, record in records:
            self.turn[key] = ({**record, "id": key}, None)
        self.committed = dict(self.turn)
        self.store.commit_turn()

    # -- the turn, time, the process

    @rule()
    def commit(self) -> None:
        self.store.commit_turn()
        assert self.outcomes == [None] * self.applied
        self.outcomes.clear()
        self.applied = 0
        self.committed = dict(self.turn)

    @rule()
    def die_and_start_again(self) -> None:
        self.store.close()
        self.store = Store(self.directory, clock=self.clock, cache_bytes=1 << 20)
        self.turn = dict(self.committed)
        self.outcomes.clear()
        self.applied = 0

    @precondition(lambda self: not self.applied)
    @rule(seconds=st.integers(1, 200))
    def time_passes(self, seconds: int) -> None:
        self.clock.advance(seconds)
        self.store.maintenance(1.0)
        self.store.commit_turn()

    @precondition(lambda self: not self.applied)
    @rule(name=st.sampled_from(["a", "b", "c"]))
    def toggle_index(self, name: str) -> None:
        definition = self.table.definition
        attributes = tuple(replace(a, indexed=not a.indexed) if a.name == name else a for a in definition.attributes)
        self.table.database.define_table(replace(definition, attributes=attributes))

    # -- what must hold

    @invariant()
    def same(self) -> None:
        expected = {key: record for key in self.committed if (record := self.live(self.committed, key)) is not None}
        snapshot = self.table.database.snapshot()
        found = {self.table.key_of(raw): decode(raw) for _, raw in self.table.scan(snapshot)}
        assert found == expected and self.table.record_count() == len(expected)
        for key in expected:
            raw = self.table.get_raw(key)
            assert raw is not None and decode(raw) == expected[key]

    @invariant()
    def whole(self) -> None:
        if not self.applied:
            self.store.end_turn()
            self.store.check()
            for index in self.table.indexes.values():
                index.count(self.table.database.snapshot(), None, index_key(""))

    @rule(value=SCALARS, name=st.sampled_from(["a", "b", "c"]), reverse=st.booleans())
    def query(self, value: Any, name: str, reverse: bool) -> None:
        index = self.table.indexes.get(name)
        if index is None:
            return
        self.store.end_turn()
        snapshot = self.table.database.snapshot()
        low = index_key(value)
        every = sorted((entry, encode_key(key)) for key, (record, _) in self.committed.items() for entry in index_keys(record.get(name)))
        if any(len(key) > 500 for _, key in every) or any(self.live(self.committed, key) is None for key in self.committed):
            return  # their stored keys, and entries that wait to be removed, are the business of `check`
        for bounds in ((low, None), (None, low), (low, after(low)), (after(low), None)):
            wanted = [pair for pair in every if (bounds[0] is None or bounds[0] <= pair[0]) and (bounds[1] is None or pair[0] < bounds[1])]
            assert list(index.scan(snapshot, *bounds, reverse=reverse)) == (wanted[::-1] if reverse else wanted)
            assert index.count(snapshot, *bounds) == len(wanted)

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.store.close()
            shutil.rmtree(self.directory)


StoreBesideDict.TestCase.settings = settings(max_examples=25, stateful_step_count=25, deadline=None)
TestStoreBesideDict = StoreBesideDict.TestCase
