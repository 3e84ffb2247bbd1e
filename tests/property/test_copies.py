"""Copies of what a source has, beside a plain dict: any sequence of answers of a source, local writes, invalidations, time and background work.

The model knows for each key what a read must find: a whole record with its version and expiry, what is left of one, or nothing. After each step the store
agrees with itself (`Store.check`), and at the end so do its files (`check_database`).
"""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from svc.clock import FakeClock
from svc.store import Store, StoreSettings, Table
from svc.store.caching import FetchedAnswer, State
from svc.store.expiry_index import PARTIAL
from svc.store.integrity.check import check_database
from svc.store.log.entries import DELETE, INVALIDATE, PATCH, PUT
from svc.store.schema import Attribute, TableDefinition
from svc.store.values.keys import encode_key, index_key, storage_key
from svc.store.values.records import decode, encode_payload, expiry_of, is_copy, is_partial, refreshed_of, version_of
from svc.store.writing.batch_write import BatchItem, BatchWriter
from svc.store.writing.write_set import WriteSet
from tests.support.profile import half_by_day

INDEXED = TableDefinition(
    "Indexed",
    attributes=(
        Attribute("id", primary_key=True),
        Attribute("a", indexed=True),
        Attribute("b"),
        Attribute("c"),
        Attribute("sum", computed_from="(b or 0) + 1", indexed=True),
        Attribute("coded", computed_from="", indexed=True),
    ),
    expiration=100.0,
    eviction=50.0,
)
PLAIN = TableDefinition(
    "Plain", attributes=(Attribute("id", primary_key=True), Attribute("a"), Attribute("b"), Attribute("c")), expiration=100.0
)
RETENTION = 400.0  # seconds
KEPT = {"Indexed": {"id", "a", "b"}, "Plain": set()}

keys = st.sampled_from((1, 2, "long" + "k" * 600))
tables = st.sampled_from(("Indexed", "Plain"))
contents = st.fixed_dictionaries({"a": st.integers(0, 3), "b": st.integers(0, 3), "c": st.sampled_from(("x", "y" * 5000))})
versions = st.sampled_from((1000.0, 2000.0, 3000.5))
ages = st.none() | st.sampled_from((1.0, 60.0, 1000.0))


@dataclass
class Copy:
    record: dict[str, Any]
    version: float | None  # None: whichever the transaction had
    expiry: float
    refreshed: float | None
    partial: bool = False
    is_logged: bool = True  # as a copy


class UpsertRules:
    kind = PATCH

    def new(self, item: BatchItem) -> tuple[dict[str, Any], None]:
        return item.data, None

    def over(self, item: BatchItem, old: dict[str, Any], is_live: bool) -> tuple[dict[str, Any], dict[str, Any]]:
        assert is_live
        return {**old, **item.data}, {name: value for name, value in item.data.items() if name != "id"}


class CopyMachine(RuleBasedStateMachine):
    @initialize(audit=st.booleans())
    def open(self, audit: bool) -> None:
        self.path = Path(tempfile.mkdtemp())
        self.clock = FakeClock()
        self.audit = audit
        self._open()
        self.model: dict[tuple[str, Any], Copy] = {}
        self.changed: dict[tuple[str, Any], int] = {}  # step of the last change or invalidation
        self.asked: list[tuple[int, int, float]] = [(0, 0, self.now_ms)]  # (LSN, step, time) at which a source may have been asked
        self.step = 1
        self.entries: list[int] = []  # kinds that have been logged
        self.expected: list[int] = []

    def _open(self) -> None:
        self.store = Store(self.path / "database", StoreSettings(log_retention=RETENTION), clock=self.clock)
        self.store.on_commit.append(lambda database, entries: self.entries.extend(entry.kind for entry in entries))
        for definition in (INDEXED, PLAIN):
            table = self.store.open_database("data").define_table(replace(definition, audit=self.audit))
            if table.name == "Indexed":
                table.set_computed_attribute("coded", lambda record: record.get("c"))
            table.cache(self)

    def write_set(self) -> WriteSet:
        database = self.store.databases["data"]
        self.store.open_writers((database,))
        return WriteSet(database, self.store.next_version(), self.now_ms, None)

    def table(self, name: str) -> Table:
        return self.store.databases["data"].tables[name]

    @property
    def now_ms(self) -> float:
        return self.clock.wall() * 1000

    def commit(self) -> None:
        self.store.commit_turn()
        self.step += 1

    def is_void(self, where: tuple[str, Any], asked: int) -> bool:
        return self.changed.get(where, -1) >= asked

    def change(self, where: tuple[str, Any], copy: Copy | None, kind: int) -> None:
        if copy is None:
            self.model.pop(where, None)
        else:
            self.model[where] = copy
        self.changed[where] = self.step
        self.expected.append(kind)

    def discard(self, where: tuple[str, Any], refreshed: float) -> None:
        """Of a record that the log knows as one from before there was a source the key stays, until the log has forgotten that."""
        old, kept = self.model[where], KEPT[where[0]]
        if not kept and not old.is_logged and self.table(where[0]).get_entry(self.stored(where[1])) is not None:
            kept = {"id"}
        if kept:
            self.model[where] = Copy({k: v for k, v in old.record.items() if k in kept}, old.version, PARTIAL, refreshed, True)
        else:
            del self.model[where]

    # -- what a source says

    @rule()
    def ask(self) -> None:
        database = self.store.databases["data"]
        self.asked.append((database.log.newest_lsn(database.snapshot()), self.step, self.now_ms))

    def one_asked(self, number: int) -> tuple[int, int]:
        """None from a time of which the log knows nothing any more."""
        self.asked = [each for each in self.asked if each[2] > self.now_ms - RETENTION * 1000]
        if not self.asked:
            self.ask()
        return self.asked[-1 - number % len(self.asked)][:2]

    @rule(name=tables, key=keys, content=contents, version=versions, age=ages, asked=st.integers(0, 3))
    def fetch(self, name: str, key: Any, content: dict[str, Any], version: float, age: float | None, asked: int) -> None:
        lsn, step = self.one_asked(asked)
        expires_at = None if age is None else self.now_ms + age * 1000
        transaction = self.store.begin()
        transaction.store_fetched(self.table(name), key, FetchedAnswer(State.NEW, lsn, version), dict(content), expires_at=expires_at)
        transaction.apply()
        where, expiry = (name, key), self.now_ms + (100 if age is None else age) * 1000
        if not self.is_void(where, step):
            old, record = self.model.get(where), {**content, "id": key}
            if old is not None and not old.partial and old.version == version and old.record == record:
                old.expiry, old.refreshed = expiry, self.now_ms
            else:
                self.change(where, Copy(record, version, expiry, self.now_ms), PUT)
        self.commit()

    @rule(name=tables, key=keys, age=ages, asked=st.integers(0, 3))
    def confirm(self, name: str, key: Any, age: float | None, asked: int) -> None:
        lsn, step = self.one_asked(asked)
        expires_at = None if age is None else self.now_ms + age * 1000
        transaction = self.store.begin()
        transaction.store_fetched(self.table(name), key, FetchedAnswer(State.UNCHANGED, lsn), expires_at=expires_at)
        transaction.apply()
        old = self.model.get((name, key))
        if old is not None and not old.partial and not self.is_void((name, key), step):
            old.expiry, old.refreshed = self.now_ms + (100 if age is None else age) * 1000, self.now_ms
        self.commit()

    @rule(name=tables, key=keys, asked=st.integers(0, 3))
    def find_missing(self, name: str, key: Any, asked: int) -> None:
        lsn, step = self.one_asked(asked)
        transaction = self.store.begin()
        transaction.store_fetched(self.table(name), key, FetchedAnswer(State.MISSING, lsn))
        transaction.apply()
        if (name, key) in self.model and not self.is_void((name, key), step):
            self.change((name, key), None, DELETE)
        self.commit()

    # -- what is written here

    @rule(name=tables, key=keys, content=contents, knows_source=st.booleans())
    def put(self, name: str, key: Any, content: dict[str, Any], knows_source: bool) -> None:
        if not knows_source:
            self.table(name).cache(None)
        transaction = self.store.begin()
        transaction.put(self.table(name), key, dict(content))
        transaction.apply()
        self.table(name).cache(self)
        refreshed = self.now_ms if knows_source else None
        self.change((name, key), Copy({**content, "id": key}, None, self.now_ms + 100_000, refreshed, is_logged=knows_source), PUT)
        self.model[name, key].version = transaction.version
        self.commit()

    @rule(name=tables, key=keys, c=st.sampled_from(("new", "other")), a=st.integers(0, 3), bulk=st.booleans())
    def patch(self, name: str, key: Any, c: str, a: int, bulk: bool) -> None:
        changes = {"c": c, "a": a}
        if bulk:
            writes = self.write_set()
            item = BatchItem(self.stored(key), encode_key(key), {"id": key, **changes}, 1)
            for _ in BatchWriter(writes, self.table(name), UpsertRules()).steps([item.stored], {item.stored: item}):
                pass
            writes.read_entries()
            writes.commit()
        else:
            transaction = self.store.begin()
            transaction.patch(self.table(name), key, dict(changes))
            transaction.apply()
        old = self.model.get((name, key))
        if old is None:
            copy = Copy({**changes, "id": key}, 0.0, self.now_ms + 100_000, self.now_ms)
        elif old.partial:
            kept = KEPT[name] or {"id"}
            copy = Copy({k: v for k, v in {**old.record, **changes}.items() if k in kept}, 0.0, PARTIAL, self.now_ms, True)
        else:
            copy = Copy({**old.record, **changes}, 0.0, self.now_ms + 100_000, self.now_ms)
        self.change((name, key), copy, PATCH)
        self.commit()
        raw = self.table(name).get_entry(self.stored(key))
        assert raw is not None
        copy.version = version_of(raw)

    @rule(name=tables, key=keys)
    def delete(self, name: str, key: Any) -> None:
        transaction = self.store.begin()
        transaction.delete(self.table(name), key)
        transaction.apply()
        assert transaction.deleted == ((name, key) in self.model)
        if transaction.deleted:
            self.change((name, key), None, DELETE)
        self.commit()

    @rule(name=tables, key=keys)
    def invalidate(self, name: str, key: Any) -> None:
        transaction = self.store.begin()
        transaction.invalidate(self.table(name), key)
        transaction.apply()
        self.changed[name, key] = self.step
        self.expected.append(INVALIDATE)
        self.commit()
        old = self.model.get((name, key))
        if old is not None and not old.partial:
            self.discard((name, key), self.now_ms)

    # -- time

    @rule(seconds=st.sampled_from((1, 30, 70, 500)))
    def pass_time(self, seconds: int) -> None:
        self.clock.advance(seconds)

    @rule(loading=st.none() | st.tuples(tables, keys))
    def maintain(self, loading: tuple[str, Any] | None) -> None:
        if loading is not None:
            self.table(loading[0]).loading[self.stored(loading[1])] = self
        self.store.maintenance(10.0)  # sets when the next scan is, or does it
        self.store.commit_turn()
        self.clock.advance(60)
        assert not self.store.maintenance(10.0)
        self.store.commit_turn()
        if loading is not None:
            del self.table(loading[0]).loading[self.stored(loading[1])]
        self.store.end_turn()
        for where, old in list(self.model.items()):
            raw = self.table(where[0]).get_entry(self.stored(where[1]))
            eviction = 50_000 if where[0] == "Indexed" else 0
            if old.partial or old.expiry + eviction > self.now_ms or where == loading:
                assert raw is not None and is_partial(raw) == old.partial
            elif raw is None or is_partial(raw):  # the time of a scan is aligned to the clock: it may not have come yet
                self.discard(where, self.now_ms if raw is None else refreshed_of(raw) or 0.0)

    @rule()
    def reopen(self) -> None:
        self.store.close()
        self._open()

    # -- what must hold

    @staticmethod
    def stored(key: Any) -> bytes:
        return storage_key(encode_key(key))

    @invariant()
    def agrees(self) -> None:
        self.store.end_turn()
        assert self.entries == self.expected
        found = {}
        for name in ("Indexed", "Plain"):
            table = self.table(name)
            txn = table.database.snapshot()
            for stored, raw in table.scan(txn):
                record = decode(raw)
                found[name, record["id"]] = record
                copy = self.model[name, record["id"]]
                assert is_copy(raw) == (copy.refreshed is not None) and is_partial(raw) == copy.partial
                assert version_of(raw) == copy.version and expiry_of(raw) == copy.expiry and refreshed_of(raw) == copy.refreshed
                assert table.get_entry(stored) == raw and table.get_by(stored, txn) == raw
                assert table.get_raw(record["id"]) == (None if copy.partial else raw)
            assert table.record_count() == sum(where[0] == name for where in self.model)
            due = any(copy.expiry <= self.now_ms for where, copy in self.model.items() if where[0] == name)
            assert table.expiry.has_due(txn, self.now_ms) == due
        assert {where: encode_payload(dict(sorted(record.items()))) for where, record in found.items()} == {
            where: encode_payload(dict(sorted(copy.record.items()))) for where, copy in self.model.items()
        }
        index = self.table("Indexed").indexes["a"]
        by_a = {(index_key(copy.record["a"]), self.stored(key)) for (name, key), copy in self.model.items() if name == "Indexed"}
        assert set(index.scan(self.store.databases["data"].snapshot())) == by_a
        self.store.check()

    @rule()
    def look_without_the_source(self) -> None:
        """In a process that does not know of the source, what is stale or partial is not there."""
        for name in ("Indexed", "Plain"):
            table = self.table(name)
            table.cache(None)
            fresh = {key for (each, key), copy in self.model.items() if each == name and copy.expiry > self.now_ms}
            assert {decode(raw)["id"] for _, raw in table.scan(table.database.snapshot())} == fresh
            assert table.record_count() == len(fresh)
            table.cache(self)

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.store.close()
            report = check_database(self.path / "database" / "data")
            assert report.ok, report.findings
            shutil.rmtree(self.path)


TestCopies = CopyMachine.TestCase
TestCopies.settings = settings(max_examples=half_by_day(60), stateful_step_count=30, deadline=None)
