"""The store beside a plain dict: any sequence of transactions, commits, schema changes, expiry, background work and reopening.

The model keeps, for each table, what is stored and what the turn has written but not yet committed. It is compared with everything that
can be read: records by key, scans in both directions, counts, indexes within bounds, the log replayed, snapshots taken earlier. At the
end `check_database` reads the files.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from svc.clock import FakeClock
from svc.errors import IndexRebuilding, PreconditionFailed, Problem, RecordExists
from svc.store import Database, LogEntry, Precondition, Store, StoreSettings, Table, database
from svc.store.entity_tags import etag_of_version
from svc.store.indexes import build, cache
from svc.store.integrity.check import check_database
from svc.store.log.entries import DELETE, EXPIRE, KINDS, PATCH, PUT
from svc.store.schema import Attribute, TableDefinition
from svc.store.values.keys import encode_key, index_key, index_keys, is_cut, storage_key
from svc.store.values.records import decode, encode_payload, expiry_of, lsn_of, version_of
from svc.store.values.validation import Add
from svc.store.writing.bulk_write import load_records
from tests.support.profile import half_by_day

PLAIN = TableDefinition(
    "Plain",
    attributes=(
        Attribute("id", primary_key=True),
        Attribute("a", indexed=True),
        Attribute("b"),
        Attribute("tags", elements=True, indexed=True),
        Attribute("first", computed_from="tags[0] if tags else a", indexed=True),
        Attribute("all", elements=True, computed_from="[a] + tags", indexed=True),
        Attribute("coded", computed_from="", indexed=True),
    ),
)
EXPRESSIONS = ("tags[0] if tags else a", "tags", "[b, a]", "id", "f'{a}{b}'", "extra")
TIMED = TableDefinition(
    "Timed",
    attributes=(
        Attribute("key", "ID", primary_key=True),
        Attribute("a", indexed=True),
        Attribute("made", "Float", created_time=True),
        Attribute("changed", "Float", updated_time=True, indexed=True),
    ),
    primary_key="key",
    expiration=100.0,
    eviction=20.0,
)
OTHER = TableDefinition("Other", database="more", attributes=(Attribute("id", primary_key=True), Attribute("a", indexed=True)), audit=False)
DEFINITIONS = {definition.name: definition for definition in (PLAIN, TIMED, OTHER)}

MAP_BYTES = 64 << 20

# -- what is written

mixed_values = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.sampled_from((0.5, -0.5, 2**53, 2**53 + 1, -(2**70), 1e300)),
    st.sampled_from(("", "a", "b", "a\0", "ab", "é", "😀", "a" * 256, "a" * 257, "a" * 300, "😀" * 200)),
    st.sampled_from((b"", b"\0\xff", datetime(2024, 1, 1, tzinfo=UTC), datetime(1969, 1, 1, 0, 0, 0, 5000, tzinfo=UTC))),
    st.lists(st.sampled_from((None, True, 1, "a", "b")), max_size=3),
    st.just({"nested": [1, {"x": None}]}),
)
lists = st.lists(st.sampled_from(("x", "y", None, 1)), max_size=3)
any_keys = st.one_of(
    st.integers(-2, 2),
    st.sampled_from((0.5, 2**53 + 1, "", "a", "a\0", "b")),
    # Stored with a hash, but for the first two; none has the beginning of another, which would be refused.
    st.sampled_from(("k" * 491, "k" * 495, "l" * 600, "m" * 492 + "a" * 100, "m" * 492 + "b" * 100, "😀" * 130)),
)
text_keys = st.sampled_from(("", "a", "b", "c", "k" * 600))
contents = st.fixed_dictionaries({}, optional={"b": st.integers(0, 5), "a": mixed_values, "tags": lists, "extra": mixed_values})
ages = st.none() | st.sampled_from((1.0, 50.0, 200.0))  # seconds until a record expires, given with the write


@dataclass(frozen=True)
class Step:
    """One write of a transaction."""

    kind: str  # put, create, patch, delete
    table: str
    key: Any
    data: dict[str, Any]
    age: float | None
    condition: str  # none, match, mismatch, absent, present


@st.composite
def steps(draw: st.DrawFn, tables: tuple[str, ...]) -> Step:
    table = draw(st.sampled_from(tables))
    kind = draw(st.sampled_from(("put", "put", "put", "create", "patch", "patch", "delete")))
    data = draw(contents)
    if table == "Timed":
        data.pop("tags", None)
    if kind == "patch" and draw(st.booleans()):
        data["count"] = Add(draw(st.integers(-3, 3)))
    return Step(
        kind,
        table,
        draw(text_keys if table == "Timed" else any_keys),
        data,
        draw(ages),
        draw(st.sampled_from(("none",) * 6 + ("match", "mismatch", "absent", "present"))),
    )


# -- the model


@dataclass(frozen=True)
class Stored:
    """A record as it should be. Time attributes are left out: `made` is the version that made it."""

    record: dict[str, Any]
    expiry: float | None
    version: float
    made: float

    def is_expired(self, now_ms: float) -> bool:
        return self.expiry is not None and self.expiry <= now_ms


Content = dict[bytes, Stored]  # encoded key -> record, expired ones included until they are removed
Model = dict[str, Content]

VERSION_UNKNOWN = -1.0


def copy(model: Model) -> Model:
    return {name: dict(content) for name, content in model.items()}


def merged(record: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    result = dict(record)
    for name, value in changes.items():
        if isinstance(value, Add):
            base = result.get(name)
            result[name] = base + value.value if type(base) is int else value.value
        else:
            result[name] = value
    return result


def same_record(a: Any, b: Any) -> bool:
    """Equal in values, types and order of properties."""
    return encode_payload(a) == encode_payload(b)


class TickingClock(FakeClock):
    """Its monotonic time passes with every look at it, so that background work stops in the middle."""

    __slots__ = ("ticks",)

    def __init__(self) -> None:
        super().__init__()
        self.ticks = 0.0
        self.monotonic = self._tick

    def _tick(self) -> float:
        self.ticks += 1.0
        return self.ticks


class StoreMachine(RuleBasedStateMachine):
    """See the module."""

    def __init__(self) -> None:
        super().__init__()
        # Small enough that a few records need several slices.
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(build, "SLICE", 2)
        self.patch.setattr(database, "BUILD_AT_ONCE", 2)
        sizes = {"AT_ONCE": 3, "_CHUNK": 3, "_FREED": 2, "MAX_PENDING": 5, "MERGED": 2, "MERGED_BY_WRITE": 1, "UNASKED": 4}
        for name, size in sizes.items():
            self.patch.setattr(cache, name, size)
        self.path = Path(tempfile.mkdtemp(prefix="store-machine-"))
        self.clock = TickingClock()
        self.committed: Model = {name: {} for name in DEFINITIONS}
        self.pending: Model = {name: {} for name in DEFINITIONS}
        self.replayed: dict[str, dict[bytes, dict[str, Any]]] = {name: {} for name in DEFINITIONS}
        self.last_lsn: dict[str, int] = {}
        self.definitions = dict(DEFINITIONS)
        self.snapshots: list[tuple[Any, str, Content, Table]] = []
        self.waiting: list[int] = []  # applied transactions that have not been told
        self.told: list[tuple[int, Problem | None]] = []
        self.number = 0
        self.writing: set[str] = set()  # databases whose writers are open
        self.store: Store
        self.tables: dict[str, Table] = {}

    # -- opening

    @initialize(cache_bytes=st.sampled_from((0, 2000, 1 << 20)))
    def start(self, cache_bytes: int) -> None:
        self.open(cache_bytes)

    def open(self, cache_bytes: int) -> None:
        self.store = Store(
            self.path, StoreSettings(cache_bytes=cache_bytes, map_bytes=MAP_BYTES, compression={"threshold": 200}), clock=self.clock
        )
        self.store.on_commit.append(self.replay)
        self.tables = {
            name: self.store.open_database(definition.database).define_table(definition) for name, definition in self.definitions.items()
        }

    @rule(cache_bytes=st.sampled_from((0, 2000, 1 << 20)))
    def reopen(self, cache_bytes: int) -> None:
        """What was not committed is gone."""
        self.drop_snapshots()
        self.store.close()
        self.pending = copy(self.committed)
        self.waiting.clear()
        self.writing.clear()
        # Listeners do not hear of what was committed in a turn that did not end.
        self.replayed = {name: {key: stored.record for key, stored in content.items()} for name, content in self.committed.items()}
        self.last_lsn.clear()
        self.open(cache_bytes)

    # -- writing

    @property
    def now_ms(self) -> float:
        return self.clock.wall() * 1000

    @rule(writes=st.lists(steps(("Plain", "Plain", "Timed")), min_size=1, max_size=4))
    def write(self, writes: list[Step]) -> None:
        self.transact(writes)

    @rule(writes=st.lists(steps(("Plain", "Other")), min_size=1, max_size=4))
    def write_to_two_databases(self, writes: list[Step]) -> None:
        self.transact(writes)

    def transact(self, writes: list[Step]) -> None:
        transaction = self.store.begin("somebody")
        number = self.number = self.number + 1
        outcome = copy(self.pending)
        # The first problem of each database; they are written one after the other, in the order in which they are first named.
        problems: dict[str, type[Problem] | None] = {}
        seen = {name: dict(content) for name, content in self.committed.items()}  # what get_raw of the transaction shows
        unknown = False
        for step in writes:
            owner, condition = self.definitions[step.table].database, None
            problems.setdefault(owner, None)
            if step.condition != "none" and step.kind != "create":
                current = self.visible(outcome[step.table]).get(encode_key(step.key))
                # The version of this transaction is not known before it is applied.
                if current is None or current.version != VERSION_UNKNOWN:
                    condition, holds = self.make_condition(step.condition, current)
                    if not holds:
                        problems[owner] = problems[owner] or PreconditionFailed
            problem = self.model_write(outcome[step.table], step)
            problems[owner] = problems[owner] or problem
            self.ask(transaction, step, condition)
            unknown = unknown or self.model_write(seen[step.table], step) is not None
            if not unknown:
                self.compare_pending_read(transaction, step, seen)
        self.open_writers({self.definitions[step.table].database for step in writes})
        transaction.on_done = lambda problem: self.told.append((number, problem))
        expected = next(filter(None, problems.values()), None)
        if expected is not None:
            with pytest.raises(expected):
                transaction.apply()
            self.store.end_turn()
            return
        transaction.apply()
        self.store.end_turn()
        for content in outcome.values():
            for key, stored in content.items():
                if stored.version == VERSION_UNKNOWN:
                    made = transaction.version if stored.made == VERSION_UNKNOWN else stored.made
                    content[key] = replace(stored, version=transaction.version, made=made)
        self.pending = outcome
        self.waiting.append(number)

    def open_writers(self, databases: set[str]) -> None:
        """Writers are opened in the order of names: who needs an earlier one makes the store commit what the turn has written.

        The turn's snapshot does not show that, if it was taken before: what follows ends the turn, so that it does.
        """
        missing = databases - self.writing
        if missing and self.writing and max(self.writing) > min(missing):
            self.committed = copy(self.pending)
            self.writing.clear()
            missing = databases
        self.writing |= missing

    def make_condition(self, kind: str, current: Stored | None) -> tuple[Precondition, bool]:
        exists = current is not None
        tag = etag_of_version(current.version) if current is not None else "AAAAAAAAAAA"
        if kind == "match":
            return Precondition(if_match=("BBBBBBBBBBB", tag)), exists
        if kind == "mismatch":
            return Precondition(if_match=("BBBBBBBBBBB",)), False
        if kind == "absent":
            return Precondition(if_none_match="*"), not exists
        return Precondition(if_match="*"), exists

    def ask(self, transaction: Any, step: Step, condition: Precondition | None) -> None:
        table, expires_at = self.tables[step.table], self.expires_at(step)
        if step.kind == "put":
            transaction.put(table, step.key, dict(step.data), condition, expires_at=expires_at)
        elif step.kind == "create":
            assert transaction.create(table, step.key, dict(step.data), expires_at=expires_at) == step.key
        elif step.kind == "patch":
            transaction.patch(table, step.key, dict(step.data), condition)
        else:
            transaction.delete(table, step.key, condition)

    def expires_at(self, step: Step) -> float | None:
        return None if step.age is None else self.now_ms + step.age * 1000

    def model_write(self, content: Content, step: Step) -> type[Problem] | None:
        """Do to the model what the step asks for; the problem it raises if it is one."""
        definition = self.definitions[step.table]
        key = encode_key(step.key)
        old = self.visible(content).get(key)
        default = None if definition.expiration is None else self.now_ms + definition.expiration * 1000
        made = VERSION_UNKNOWN if old is None else old.made
        if step.kind == "create" and old is not None:
            return RecordExists
        if step.kind in ("put", "create"):
            given = self.expires_at(step)
            record = {**step.data, definition.primary_key: step.key}
            content[key] = Stored(record, default if given is None else given, VERSION_UNKNOWN, made)
        elif step.kind == "patch":
            if old is None:
                record = {**merged({}, step.data), definition.primary_key: step.key}
                content[key] = Stored(record, default, VERSION_UNKNOWN, made)
            else:
                record = merged(old.record, step.data)
                content[key] = Stored(record, old.expiry if default is None else default, VERSION_UNKNOWN, made)
        elif old is not None:
            del content[key]
        return None

    def compare_pending_read(self, transaction: Any, step: Step, seen: Model) -> None:
        """A transaction sees its own writes before they are applied, on top of what is committed."""
        raw = transaction.get_raw(self.tables[step.table], step.key)
        expected = self.visible(seen[step.table]).get(encode_key(step.key))
        if expected is None:
            assert raw is None
        else:
            assert raw is not None
            found = {name: value for name, value in decode(raw).items() if name not in ("made", "changed")}
            assert found == decode_model(expected.record)

    # -- the turn

    @rule()
    def commit(self) -> None:
        self.store.commit_turn()
        self.after_commit()

    def after_commit(self) -> None:
        self.committed = copy(self.pending)
        self.writing.clear()
        assert self.told == [(number, None) for number in self.waiting]
        self.told.clear()
        self.waiting.clear()
        for name, content in self.replayed.items():
            expected = {key: stored.record for key, stored in self.committed[name].items()}
            assert content.keys() == expected.keys()
            for key, record in content.items():
                assert same_record(record, expected[key])

    @rule()
    def drop_unused_caches(self) -> None:
        self.store.caches.drop_unused()

    @rule()
    def end_turn(self) -> None:
        if not self.store.has_pending:
            self.store.end_turn()

    @rule(seconds=st.sampled_from((0.001, 1.0, 60.0, 120.0)))
    def pass_time(self, seconds: float) -> None:
        self.clock.advance(seconds)

    @rule(budget=st.sampled_from((2.0, 5.0, 50.0)))
    def work_in_the_background(self, budget: float) -> None:
        """Removes expired records, builds indexes, loads caches. It commits what the turn has written."""
        self.store.maintenance(budget)
        self.store.commit_turn()
        for name, content in self.pending.items():
            table = self.tables[name]
            txn = table.database.snapshot()
            for key, stored in list(content.items()):
                if txn.get(storage_key(key), None, table.primary) is None:
                    assert stored.expiry is not None
                    assert stored.expiry + self.definitions[name].eviction * 1000 <= self.now_ms
                    del content[key]
        self.after_commit()

    # -- other ways to change something

    @rule(rows=st.lists(st.tuples(any_keys, contents), max_size=8), batch=st.integers(1, 5))
    def load(self, rows: list[tuple[Any, dict[str, Any]]], batch: int) -> None:
        rows = [({**data, "id": key}) for key, data in rows]  # type: ignore[misc]
        self.store.commit_turn()
        self.after_commit()
        for done in load_records(self.tables["Plain"], [dict(row) for row in rows], batch=batch):  # type: ignore[call-overload]
            assert done <= len(rows)
        self.store.commit_turn()
        content = self.pending["Plain"]
        txn = self.tables["Plain"].database.snapshot()
        for row in rows:
            key = encode_key(row["id"])  # type: ignore[call-overload]
            raw = txn.get(storage_key(key), None, self.tables["Plain"].primary)
            assert raw is not None
            content[key] = Stored(row, None, version_of(raw), version_of(raw))  # type: ignore[arg-type]
        self.after_commit()

    @rule(number=st.integers(1, 3))
    def create_without_a_key(self, number: int) -> None:
        keys = set()
        for _ in range(number):
            transaction = self.store.begin()
            assert transaction.create(self.tables["Plain"], None, {"b": 1}) is None
            self.open_writers({"data"})
            transaction.apply()
            (key,) = transaction.assigned
            assert isinstance(key, int)
            keys.add(key)
            self.store.end_turn()
            self.waiting.append(self.number)
            transaction.on_done = lambda problem, number=self.number: self.told.append((number, problem))  # type: ignore[misc]
            version = transaction.version
            self.pending["Plain"][encode_key(key)] = Stored({"b": 1, "id": key}, None, version, version)
        assert len(keys) == number

    @rule(name=st.sampled_from(("a", "b")), indexed=st.booleans())
    def change_an_index(self, name: str, indexed: bool) -> None:
        """A schema change commits what the turn has written."""
        old = self.definitions["Plain"]
        attributes = tuple(replace(attribute, indexed=indexed) if attribute.name == name else attribute for attribute in old.attributes)
        self.definitions["Plain"] = replace(old, attributes=attributes)
        table = self.tables["Plain"].database.define_table(self.definitions["Plain"])
        assert table is self.tables["Plain"]
        assert (name in table.indexes) == indexed
        self.store.commit_turn()
        self.after_commit()

    @rule(expression=st.sampled_from(EXPRESSIONS))
    def change_an_expression(self, expression: str) -> None:
        old = self.definitions["Plain"]
        attributes = tuple(
            replace(attribute, computed_from=expression) if attribute.name == "first" else attribute for attribute in old.attributes
        )
        self.definitions["Plain"] = replace(old, attributes=attributes)
        self.tables["Plain"].database.define_table(self.definitions["Plain"])
        self.store.commit_turn()
        self.after_commit()

    @rule()
    def set_a_function(self) -> None:
        """From now on, and until the store is opened again, values of `coded` are known."""
        self.tables["Plain"].set_computed_attribute("coded", lambda record: [record.get("a"), record.get("b")])

    @rule()
    def drop_and_make_again(self) -> None:
        owner = self.tables["Other"].database
        self.drop_snapshots()
        owner.drop_table("Other")
        self.store.commit_turn()
        self.after_commit()
        self.tables["Other"] = owner.define_table(self.definitions["Other"])
        for model in (self.pending, self.committed, self.replayed):
            model["Other"].clear()

    # -- snapshots that outlive the turn

    @precondition(lambda self: len(self.snapshots) < 2)
    @rule(name=st.sampled_from(("Plain", "Timed")))
    def take_snapshot(self, name: str) -> None:
        table = self.tables[name]
        self.snapshots.append((table.database.open_snapshot(), name, dict(self.committed[name]), table))

    @precondition(lambda self: bool(self.snapshots))
    @rule()
    def read_snapshot(self) -> None:
        txn, name, content, table = self.snapshots.pop(0)
        self.compare_scan(name, content, txn, table)
        for attribute, entries in table.indexes.items():
            if entries.ready and name == "Timed":  # indexes of Plain come and go
                self.compare_index(name, attribute, content, txn, None, None)
        txn.abort()

    def drop_snapshots(self) -> None:
        for txn, *_ in self.snapshots:
            txn.abort()
        self.snapshots.clear()

    # -- reading

    def visible(self, content: Content) -> Content:
        return {key: stored for key, stored in content.items() if not stored.is_expired(self.now_ms)}

    @rule(name=st.sampled_from(tuple(DEFINITIONS)))
    def read_by_key(self, name: str) -> None:
        table = self.tables[name]
        for key, stored in self.committed[name].items():
            raw = table.get_raw(stored.record[table.primary_key])
            assert raw == table.get_by(storage_key(key), table.database.snapshot())
            if stored.is_expired(self.now_ms):
                assert raw is None
            else:
                assert raw is not None
                self.compare_record(name, raw, stored)
        assert table.get_raw("no such key") is None
        assert table.record_count() == len(self.visible(self.committed[name]))

    def compare_record(self, name: str, raw: bytes, stored: Stored) -> None:
        found = decode(raw)
        if name == "Timed":
            assert (found.pop("made"), found.pop("changed")) == (int(stored.made), int(stored.version))  # whole ms
        assert same_record(found, stored.record)
        assert (version_of(raw), expiry_of(raw)) == (stored.version, stored.expiry)

    @rule(name=st.sampled_from(tuple(DEFINITIONS)), low=st.none() | any_keys, high=st.none() | any_keys)
    def scan(self, name: str, low: Any, high: Any) -> None:
        table = self.tables[name]
        self.compare_scan(
            name,
            self.committed[name],
            table.database.snapshot(),
            table,
            None if low is None else encode_key(low),
            None if high is None else encode_key(high),
        )

    def compare_scan(
        self, name: str, content: Content, txn: Any, table: Table, low: bytes | None = None, high: bytes | None = None
    ) -> None:
        inside = {
            storage_key(key): stored
            for key, stored in self.visible(content).items()
            if (low is None or low <= key) and (high is None or key < high)
        }
        for reverse in (False, True):
            found = list(table.scan(txn, low, high, reverse=reverse))
            assert [stored for stored, _ in found] == sorted(inside, reverse=reverse)
            for stored, raw in found:
                self.compare_record(name, raw, inside[stored])

    @rule(
        name=st.sampled_from(tuple(DEFINITIONS)),
        attribute=st.sampled_from(("a", "b", "tags", "changed")),
        low=st.none() | mixed_values,
        high=st.none() | mixed_values,
    )
    def scan_index(self, name: str, attribute: str, low: Any, high: Any) -> None:
        table = self.tables[name]
        if attribute in table.indexes:
            txn = table.database.snapshot()
            bounds = [None if value is None or isinstance(value, dict) else index_key(value) for value in (low, high)]
            if table.indexes[attribute].ready:
                self.compare_index(name, attribute, self.committed[name], txn, *bounds)
            else:
                for read in (table.indexes[attribute].scan, table.indexes[attribute].count):
                    with pytest.raises(IndexRebuilding):
                        read(txn)

    def compare_index(self, name: str, attribute: str, content: Content, txn: Any, low: bytes | None, high: bytes | None) -> None:
        entries = sorted(
            (entry, storage_key(key))
            for key, stored in content.items()
            for entry in index_keys(int(stored.version) if attribute == "changed" else stored.record.get(attribute))
            if (low is None or low <= entry) and (high is None or entry < high)
        )
        found = self.tables[name].indexes[attribute]
        assert list(found.scan(txn, low, high)) == entries
        assert list(found.scan(txn, low, high, reverse=True)) == entries[::-1]
        assert found.count(txn, low, high) == len(entries)
        # Any entry alone, as an equality looks it up.
        for entry, _ in entries[:3]:
            alone = [pair for pair in entries if pair[0] == entry]
            assert list(found.scan(txn, entry, entry + b"\0")) == alone
            assert found.count(txn, entry, entry + b"\0") == len(alone)
            assert is_cut(entry) or {pair[0] for pair in alone} == {entry}

    # -- the log

    def replay(self, changed: Database, entries: list[LogEntry]) -> None:
        """A listener that knows nothing but the log."""
        for entry in entries:
            assert entry.lsn == self.last_lsn.get(changed.name, entry.lsn - 1) + 1
            self.last_lsn[changed.name] = entry.lsn
            records = self.replayed[entry.table]
            before = records.get(entry.key)
            if before is None:
                assert entry.image is None
            elif entry.table == "Other":
                assert entry.image is None  # audit: false
            else:
                assert entry.image is not None
                assert same_record(self.without_times(entry.image), before)
                assert lsn_of(entry.image) == entry.previous
            if entry.kind == PUT:
                assert entry.value is not None
                records[entry.key] = self.without_times(entry.value)
            elif entry.kind == PATCH:
                assert entry.value is not None
                changes = {
                    name: Add(value["value"]) if isinstance(value, dict) and "__op__" in value else value
                    for name, value in self.without_times(entry.value).items()
                }
                # The patch of a record that is not there, or no longer, has all of it.
                stored = before if before is not None and not self.began_anew(entry) else {}
                records[entry.key] = merged(stored, changes)
            else:
                assert entry.kind in (DELETE, EXPIRE), KINDS[entry.kind]
                del records[entry.key]

    def began_anew(self, entry: LogEntry) -> bool:
        """Whether the record before the entry had expired."""
        if entry.image is not None:
            expiry = expiry_of(entry.image)
            return expiry is not None and expiry <= entry.wall_ms
        stored = self.committed[entry.table].get(entry.key)
        return stored is not None and stored.is_expired(entry.wall_ms)

    def without_times(self, raw: bytes) -> dict[str, Any]:
        return {name: value for name, value in decode(raw).items() if name not in ("made", "changed")}

    # -- always

    @invariant()
    def the_store_agrees_with_itself(self) -> None:
        if hasattr(self, "store") and not self.store.has_pending:
            self.store.check()

    def teardown(self) -> None:
        try:
            if hasattr(self, "store"):
                self.store.commit_turn()
                self.after_commit()
                self.drop_snapshots()
                self.store.close()
                for name in ("data", "more"):
                    report = check_database(self.path / name)
                    assert report.findings == []
                    for table, content in self.committed.items():
                        if self.definitions[table].database == name:
                            assert report.records[table] == len(content)
        finally:
            if hasattr(self, "store"):
                self.drop_snapshots()
                self.store.close()
            self.patch.undo()
            shutil.rmtree(self.path, ignore_errors=True)


def decode_model(record: dict[str, Any]) -> dict[str, Any]:
    """As the record would come back: whatever the model keeps in another form."""
    return decode(bytes(17).replace(b"\0", b"\x10", 1) + encode_payload(record))


TestStoreMachine: Callable[..., Any] = StoreMachine.TestCase
TestStoreMachine.settings = settings(  # type: ignore[attr-defined]
    max_examples=half_by_day(60), stateful_step_count=30, report_multiple_bugs=False
)
