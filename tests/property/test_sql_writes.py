"""INSERT, UPDATE, DELETE and upserts of svc beside SQLite's own, on the same table (spec: sql §5)."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

import apsw
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from svc.api.context import Context
from svc.api.transactions import Transaction
from svc.awaitables import is_waiting, settled
from svc.errors import ClientError
from svc.store import Store
from svc.store.schema import Attribute, TableDefinition
from tests.support.fakes import TickingClock
from tests.support.profile import half_by_day
from tests.support.sql_writes import Sql, User, records_of
from tests.unit.store.writing.test_long_write import Turns

ITEM = TableDefinition(
    "Item",
    attributes=(
        Attribute("id", "Int", primary_key=True),
        Attribute("a", "Int", indexed=True),
        Attribute("b", "Float"),
        Attribute("c", "String", indexed=True, unique=True),
    ),
)
COLUMNS = ("id", "a", "b", "c")

KEYS = st.integers(0, 12)
TEXTS = st.sampled_from(
    ["'x'", "'y'", "''", "'ä'", "NULL", "'z' || id", "c || 'q'", "replace(c, 'x', 'y')", "(SELECT min(c) FROM data.Item)"]
)
NUMBERS = st.recursive(
    st.sampled_from(
        ["a", "id", "a", "1", "2", "-3", "NULL", "length(c)", "(SELECT max(a) FROM data.Item)", "(SELECT count(*) FROM data.Item)"]
    ),
    lambda inner: (
        st.builds("({} {} {}) % 1000".format, inner, st.sampled_from("+-*"), inner)
        | st.builds("coalesce({}, {})".format, inner, inner)
        | st.builds("CASE WHEN {} > {} THEN {} ELSE {} END".format, inner, inner, inner, inner)
    ),
    max_leaves=4,
)
FRACTIONS = st.builds("({}) / 4.0".format, NUMBERS) | st.sampled_from(["b", "b + 0.5", "NULL", "1.25", "a"])
CONDITIONS = st.recursive(
    st.builds("{} {} {}".format, NUMBERS, st.sampled_from(["=", "<", ">=", "<>", "IS"]), NUMBERS)
    | st.builds("c {} {}".format, st.sampled_from(["=", "<", "LIKE", "IS NOT"]), TEXTS)
    | st.builds("id IN ({}, {}, {})".format, KEYS, KEYS, KEYS)
    | st.sampled_from(["a IS NULL", "c IS NOT NULL", "EXISTS (SELECT 1 FROM data.Item i WHERE i.a = Item.id)", "1"]),
    lambda inner: (
        st.builds("({} AND {})".format, inner, inner) | st.builds("({} OR {})".format, inner, inner) | st.builds("NOT ({})".format, inner)
    ),
    max_leaves=3,
)
SETS = st.lists(
    st.builds("a = {}".format, NUMBERS) | st.builds("b = {}".format, FRACTIONS) | st.builds("c = {}".format, TEXTS),
    min_size=1,
    max_size=3,
    unique_by=lambda each: each[0],
).map(", ".join)
RETURNING = st.sampled_from(
    ["", "", " RETURNING *", " RETURNING id, a + 1 AS more, c", " RETURNING (SELECT count(*) FROM data.Item) AS n, id"]
)
VALUES = st.sampled_from(["1", "2 + 2", "NULL", "(SELECT max(a) FROM data.Item)"])
UPSERTED = st.lists(
    st.tuples(KEYS, st.integers(-5, 5), st.sampled_from(["'p'", "'q'", "'new'", "NULL"])),
    min_size=1,
    max_size=3,
    unique_by=(lambda row: row[0], lambda row: row[2]),
)
UPSERTS = st.sampled_from(["a = Item.a + excluded.a", "a = excluded.a, b = Item.b + 1", "b = excluded.a / 2.0, a = a + 1"])
UPSERT_WHERE = st.sampled_from(["", " WHERE excluded.a > 0", " WHERE Item.a < excluded.a", " WHERE a IS NOT NULL"])
WHERE = st.just("") | CONDITIONS.map(" WHERE {}".format)


class WritesMachine(RuleBasedStateMachine):
    """Each statement goes one of the ways that statements go: within a turn, in a long write, within a transaction of an application."""

    def __init__(self) -> None:
        super().__init__()
        self.path = Path(tempfile.mkdtemp())
        self.store = Store(self.path, clock=TickingClock(looks_a_slice=50))
        self.table = self.store.open_database("data").define_table(ITEM)
        self.sql = Sql(self.store)
        self.turns = Turns(self.store)
        self.sqlite = apsw.Connection(":memory:")
        self.sqlite.execute("ATTACH ':memory:' AS data; CREATE TABLE data.Item (id INTEGER PRIMARY KEY, a INTEGER, b REAL, c TEXT UNIQUE)")
        self.way = "short"

    @initialize(
        rows=st.lists(
            st.tuples(KEYS, st.integers(-5, 5), st.sampled_from(["p", "q", "r", None])), max_size=8, unique_by=(lambda row: row[0],)
        )
    )
    def fill(self, rows: list[tuple[int, int, str | None]]) -> None:
        seen: set[str | None] = set()
        for key, number, text in rows:
            unique = None if text in seen else text
            seen.add(text)
            shown = "NULL" if unique is None else f"'{unique}'"
            self.run(f"INSERT INTO data.Item (id, a, c) VALUES ({key}, {number}, {shown})")

    @rule(way=st.sampled_from(["short", "long", "joined", "joined long"]))
    def go(self, way: str) -> None:
        self.way = way

    @rule(sets=SETS, where=WHERE, returning=RETURNING)
    def update(self, sets: str, where: str, returning: str) -> None:
        self.run(f"UPDATE data.Item SET {sets}{where}{returning}")

    @rule(sets=SETS, where=CONDITIONS)
    def update_from(self, sets: str, where: str) -> None:
        source = "(SELECT id + 1 AS next, a AS more FROM data.Item) AS other"
        self.run(f"UPDATE data.Item SET {sets.replace(' = a', ' = other.more')} FROM {source} WHERE other.next = Item.id AND {where}")

    @rule(where=CONDITIONS, returning=RETURNING)
    def delete(self, where: str, returning: str) -> None:
        if "count" not in returning:  # SQLite has deleted some of the records by then
            self.run(f"DELETE FROM data.Item WHERE {where}{returning}")

    @rule(rows=st.lists(st.tuples(KEYS, VALUES), min_size=1, max_size=4), returning=RETURNING)
    def insert(self, rows: list[tuple[int, str]], returning: str) -> None:
        values = ", ".join([f"({key}, {value}, {key} / 4.0)" for key, value in rows])
        text = f"INSERT INTO data.Item (id, a, b) VALUES {values}"
        if "count" not in returning:
            self.run(f"{text}{returning}", theirs=f"{text} ON CONFLICT (id) DO NOTHING{returning}")

    @rule(where=CONDITIONS, distance=st.integers(1, 13), number=NUMBERS)
    def insert_selected(self, where: str, distance: int, number: str) -> None:
        text = f"INSERT INTO data.Item (id, a) SELECT (id + {distance}) % 26, {number} FROM data.Item WHERE {where}"
        self.run(text, theirs=f"{text} ON CONFLICT (id) DO NOTHING")

    @rule(
        rows=UPSERTED,
        column=st.sampled_from(["id", "c"]),
        sets=UPSERTS,
        where=UPSERT_WHERE,
        returning=st.sampled_from(["", " RETURNING id, a"]),
    )
    def upsert(self, rows: list[tuple[int, int, str]], column: str, sets: str, where: str, returning: str) -> None:
        if column == "c":
            rows = [row for row in rows if row[2] != "NULL"] or [(3, 1, "'p'")]
        values = ", ".join([f"({key}, {number}, {text})" for key, number, text in rows])
        text = f"INSERT INTO data.Item (id, a, c) VALUES {values} ON CONFLICT ({column}) DO UPDATE SET {sets}{where}{returning}"
        self.run(text, ignores_keys=column == "c")

    # -- both

    def run(self, text: str, *, theirs: str = "", ignores_keys: bool = False) -> None:
        """`theirs`: what SQLite is asked. `ignores_keys`: SQLite refuses a row whose key exists, which is skipped here."""
        before = self.ours()
        try:
            found = self.ask(text)
        except ClientError as problem:  # values that the table does not take, or that are not unique: nothing is written
            assert self.ours() == before, text
            assert problem.code in ("VALIDATION", "NOT_UNIQUE"), (text, problem.message)
            return
        self.sqlite.execute("BEGIN")
        try:
            expected = list(self.sqlite.execute(theirs or text))
        except apsw.ConstraintError:
            assert ignores_keys or "UPDATE" in text[:6], text
            self.sqlite.execute("ROLLBACK")
            self.copy()
            return
        changes = self.sqlite.changes()
        self.sqlite.execute("COMMIT")
        if "RETURNING" in text:
            rows = [tuple(row.values()) for row in found]
            assert sorted(rows, key=repr) == sorted(expected, key=repr), text
        else:
            lists = [found[name] for name in ("inserted_hashes", "update_hashes", "deleted_hashes") if name in found]
            assert sum(map(len, lists)) == changes, (text, found)

    def ask(self, text: str) -> Any:
        self.sql.engine.most_rows = -1 if "long" in self.way else 1000
        try:
            result = self.turns.finish(self.joined(text) if "joined" in self.way else self.sql.whole(text))
        finally:
            self.turns.turn()
        return result

    async def joined(self, text: str) -> Any:
        context = Context(User())  # type: ignore[arg-type]
        transaction = Transaction(self.store, context)
        transaction.is_lasting = True
        try:
            result = await self.sql.whole(text, joined=transaction, context=context)
            waiting = settled(transaction.apply())
            if is_waiting(waiting):
                await waiting
        finally:
            transaction.close()
        return result

    def ours(self) -> list[tuple[Any, ...]]:
        return [tuple(record.get(name) for name in COLUMNS) for record in records_of(self.table)]

    def copy(self) -> None:
        """What SQLite has not done, and svc has."""
        self.sqlite.execute("DELETE FROM data.Item")
        self.sqlite.executemany("INSERT INTO data.Item VALUES (?, ?, ?, ?)", self.ours())

    @invariant()
    def both_have_the_same_records(self) -> None:
        assert self.ours() == list(self.sqlite.execute("SELECT id, a, b, c FROM data.Item ORDER BY id"))
        self.store.end_turn()

    def teardown(self) -> None:
        assert self.sql.engine.reads == 0 and self.table.database.env.holder is None
        assert self.table.database.env.open_snapshots() == 0
        self.sql.close()
        self.store.check()
        self.turns.close()
        self.store.close()
        self.sqlite.close()
        shutil.rmtree(self.path)


WritesMachine.TestCase.settings = settings(max_examples=half_by_day(40), stateful_step_count=15)
TestWrites = WritesMachine.TestCase
