"""Unique values, checks and defaults beside a plain model: transactions of every kind of write, records that expire, loads, another process's commits."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from svc.apps.schema_files import load_schema_files
from svc.clock import FakeClock
from svc.errors import CheckFailed, NotUnique, ValidationError
from svc.store import Store
from svc.store.values.records import decode
from svc.store.values.validation import Add
from svc.store.writing.bulk_write import bulk_write
from svc.testing.loop import Pool
from tests.support.profile import examples
from tests.unit.store.writing.test_long_write import Turns

SCHEMA = """
type T @table { id: ID @primaryKey  u: Any @unique  l: [String] @unique  n: Int @check(expr: "n < 5")  d: Int! @default(value: 7)
  c: String @computed(from: "'c' + str(n) if n is not None and n > 2 else None") @unique }
"""
LONG = "x" * 300
KEYS = st.sampled_from("abcd")
VALUES = st.sampled_from((None, 1, 1.0, True, "1", LONG + "1", LONG + "2", [1, 2], [2, None], {"o": 1}))
LISTS = st.none() | st.lists(st.sampled_from(("p", "q", LONG + "1", LONG + "2")) | st.none(), max_size=3)
NUMBERS = st.none() | st.integers(0, 5)
RECORDS = st.fixed_dictionaries({}, optional={"u": VALUES, "l": LISTS, "n": NUMBERS, "d": st.integers(1, 2)})
CHANGES = st.fixed_dictionaries({}, optional={"u": VALUES, "l": LISTS, "n": NUMBERS | st.builds(Add, st.integers(1, 2))})
WRITES = st.one_of(
    st.tuples(st.just("put"), KEYS, RECORDS),
    st.tuples(st.just("insert"), KEYS, RECORDS),
    st.tuples(st.sampled_from(("patch", "update", "upsert")), KEYS, CHANGES),
    st.tuples(st.just("delete"), KEYS, st.just({})),
)

Record = dict[str, Any]
Model = dict[str, tuple[Record, float | None]]  # key -> record, when it expires


def marks(record: Record) -> set[tuple[str, object]]:
    """What no two records may have in common."""
    found: set[tuple[str, object]] = set()
    n = record.get("n")
    for name, value in (("u", record.get("u")), ("l", record.get("l")), ("c", f"c{n}" if n is not None and n > 2 else None)):
        for each in value if isinstance(value, list) else [value]:
            if each is not None and not isinstance(each, dict):
                found.add((name, (type(each) is bool, each)))
    return found


class Refused(Exception):
    pass


def checked(record: Record) -> Record:
    if record.get("n") is not None and record["n"] >= 5:
        raise Refused
    return record


def applied(model: Model, verb: str, key: str, data: Record, now: float, expiry: float | None = None) -> None:
    """One write, its check included. Raises Refused."""
    there = model.get(key)
    old = there[0] if there is not None and (there[1] is None or there[1] > now) else None
    if verb == "delete":
        if old is not None:
            del model[key]
        return
    if (verb == "insert" and old is not None) or (verb == "update" and old is None):
        return
    if verb in ("put", "insert"):
        if old is not None and "d" not in data:
            raise Refused
        model[key] = checked({"d": 7, **data, "id": key}), expiry
        return
    base = {} if old is None else old
    changes = {name: value.applied_to(base.get(name)) if type(value) is Add else value for name, value in data.items()}
    kept = there[1] if there is not None and old is not None else None
    record = {**base, **changes, "id": key} if old is not None else {"d": 7, **changes, "id": key}
    model[key] = (checked(record) if old is None or "n" in changes else record), kept


def is_double(model: Model, now: float) -> bool:
    seen: set[tuple[str, object]] = set()
    for record, expiry in model.values():
        if expiry is None or expiry > now:
            if seen & marks(record):
                return True
            seen |= marks(record)
    return False


def clashes(model: Model, key: str, now: float) -> bool:
    """Whether this record, if it is live, has something in common with another live one."""
    live = {each: marks(record) for each, (record, expiry) in model.items() if expiry is None or expiry > now}
    mine = live.pop(key, set())
    return any(mine & other for other in live.values())


class ConstraintsMachine(RuleBasedStateMachine):
    @initialize()
    def open(self) -> None:
        self.directory = tempfile.TemporaryDirectory()
        self.clock = FakeClock()
        self.store = Store(Path(self.directory.name), clock=self.clock, make_helper=Pool)
        (definition,) = load_schema_files([("a", SCHEMA)]).definitions
        self.table = self.store.open_database("data").define_table(definition)
        self.model: Model = {}
        self.turns = Turns(self.store)

    def teardown(self) -> None:
        self.turns.close()
        self.store.close()
        self.directory.cleanup()

    @property
    def now(self) -> float:
        return self.clock.wall() * 1000

    def _collect(self, writes: list[tuple[str, str, Record]]) -> Any:
        transaction, validator = self.store.begin(), self.table.validator
        for verb, key, data in writes:
            if verb == "delete":
                transaction.delete(self.table, key)
            else:
                whole = verb in ("put", "insert")
                checked = validator.record(dict(data), source="native") if whole else validator.changes(dict(data), source="native")
                getattr(transaction, verb)(self.table, key, checked)
        return transaction

    def _expect(self, writes: list[tuple[str, str, Record]], run: Any) -> None:
        wanted: Model | None = dict(self.model)
        try:
            for verb, key, data in writes:
                assert wanted is not None
                applied(wanted, verb, key, data, self.now)
            if wanted is not None and is_double(wanted, self.now):
                wanted = None
        except Refused:
            wanted = None
        try:
            run(self._collect(writes))
            assert wanted is not None, writes
            self.model = wanted
        except (NotUnique, CheckFailed, ValidationError):
            assert wanted is None, writes
        self.store.commit_turn()

    @rule(writes=st.lists(WRITES, min_size=1, max_size=4))
    def write(self, writes: list[tuple[str, str, Record]]) -> None:
        self._expect(writes, self.store.commit_now)

    @rule(writes=st.lists(WRITES, min_size=1, max_size=4))
    def write_long(self, writes: list[tuple[str, str, Record]]) -> None:
        self._expect(writes, lambda transaction: self.turns.finish(transaction.apply_long()))

    @rule(key=KEYS, record=RECORDS, seconds=st.sampled_from((0, 1)))
    def write_for_a_while(self, key: str, record: Record, seconds: int) -> None:
        expiry, wanted = self.now + seconds * 1000, dict(self.model)
        transaction = self.store.begin()
        transaction.put(self.table, key, self.table.validator.record(dict(record), source="native"), expires_at=expiry)
        try:
            applied(wanted, "put", key, record, self.now, expiry)
            refused = clashes(wanted, key, self.now)
        except Refused:
            refused = True
        try:
            self.store.commit_now(transaction)
            assert not refused
            self.model = wanted
        except (NotUnique, CheckFailed, ValidationError):
            assert refused
        self.store.commit_turn()

    @rule(rows=st.lists(st.tuples(KEYS, CHANGES), min_size=1, max_size=4, unique_by=lambda row: row[0]))
    def load(self, rows: list[tuple[str, Record]]) -> None:
        """Record by record, in the order of the keys, which is that of the list here."""
        rows.sort()
        failed = []
        for number, (key, data) in enumerate(rows, 1):
            trial = dict(self.model)
            try:
                applied(trial, "upsert", key, data, self.now)
                if clashes(trial, key, self.now):
                    raise Refused
                self.model = trial
            except Refused:
                failed.append(number)
        result = self.turns.finish(bulk_write(self.table, [{"id": key, **data} for key, data in rows], mode="upsert", source="native"))
        assert [each.number for each in result.errors] == failed

    @rule(seconds=st.sampled_from((0.5, 2)))
    def wait(self, seconds: float) -> None:
        self.clock.advance(seconds)

    @invariant()
    def the_same_records(self) -> None:
        if hasattr(self, "table"):
            self.store.end_turn()
            snapshot = self.table.database.snapshot()
            found = {self.table.key_of(raw): decode(raw) for _, raw in self.table.scan(snapshot)}
            live = {key: record for key, (record, expiry) in self.model.items() if expiry is None or expiry > self.now}
            assert found == live
            self.store.check()
            self.store.end_turn()


ConstraintsMachine.TestCase.settings = settings(max_examples=examples(20), stateful_step_count=10, deadline=None)
TestConstraints = ConstraintsMachine.TestCase
