"""Long and short transactions in every order of events: each is there as a whole or not at all, and nobody sees anything in between.

The log is the witness. Every transaction is made by a user of its own, so the log tells which of them were committed, and in what order. At
any moment what can be read must be what those transactions make of an empty table, each with all of its writes; what was acknowledged must
be among them, and what failed, or was cancelled before its commit began, must not.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from svc.errors import Overloaded, Problem, RecordExists, ServerError
from svc.store import Database, LogEntry, Store, StoreSettings, Table, Transaction, WriterBusy
from svc.store.integrity.check import check_database
from svc.store.schema import Attribute, TableDefinition
from svc.store.values.records import decode
from svc.store.values.validation import Add
from svc.store.writing import long_write, transaction
from tests.support.fakes import HeldBack, TickingClock
from tests.support.profile import half_by_day

NOTE = TableDefinition(
    "Note",
    attributes=(Attribute("id", "ID", primary_key=True), Attribute("n", indexed=True), Attribute("tags", elements=True, indexed=True)),
)
KEYS = [f"k{number}" for number in range(8)] + ["k" * 600]

Write = tuple[str, str, int]  # kind, key, value
Content = dict[str, dict[str, Any]]

writes = st.tuples(st.sampled_from(("put", "put", "patch", "add", "delete", "create")), st.sampled_from(KEYS), st.integers(0, 3))
short_lists = st.lists(writes, min_size=1, max_size=2)
long_lists = st.lists(writes, min_size=3, max_size=14)


def carry_out(content: Content, todo: list[Write]) -> tuple[Content, int] | None:
    """What is stored afterwards, and how many log entries that makes; None if the transaction fails."""
    result = dict(content)
    entries = 0
    for kind, key, value in todo:
        old = result.get(key)
        if kind == "create" and old is not None:
            return None
        if kind in ("put", "create"):
            result[key] = {"n": value, "tags": [value, "t"], "id": key}
        elif kind == "delete":
            if result.pop(key, None) is None:
                continue
        else:
            record = dict(old or {"id": key})
            record["n"] = value if kind == "patch" or type(record.get("n")) is not int else record["n"] + value
            result[key] = record
        entries += 1
    return result, entries


@dataclass
class Asked:
    """A transaction and what became of it."""

    user: str
    todo: list[Write]
    task: asyncio.Task[None] | None = None
    acknowledged: bool = False
    problem: BaseException | None = None
    may_be_either = False


class LongWrites(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(transaction, "LONG_WRITES", 2)
        self.patch.setattr(long_write, "_CHUNK", 3)
        self.path = Path(tempfile.mkdtemp(prefix="long-writes-"))
        self.loop = asyncio.new_event_loop()
        self.helper = HeldBack()
        self.asked: dict[str, Asked] = {}
        self.heard: list[int] = []
        self.definition = NOTE
        self.store: Store
        self.table: Table
        self.snapshots: list[tuple[Any, Content]] = []

    @initialize(limit=st.sampled_from((0, 5, 1000)), cache_bytes=st.sampled_from((0, 1 << 20)), looks=st.integers(1, 6))
    def start(self, limit: int, cache_bytes: int, looks: int) -> None:
        self.patch.setattr(long_write, "CACHE_CHANGES", limit)
        self.store = Store(
            self.path,
            StoreSettings(cache_bytes=cache_bytes, map_bytes=64 << 20),
            clock=TickingClock(looks),
            make_helper=lambda: self.helper,
        )
        self.store.on_commit.append(self.listen)
        self.table = self.store.open_database("data").define_table(NOTE)

    # -- asking

    def ask(self, todo: list[Write]) -> tuple[Asked, Transaction]:
        asked = Asked(f"t{len(self.asked)}", todo)
        self.asked[asked.user] = asked
        made = self.store.begin(asked.user)
        for kind, key, value in todo:
            if kind == "delete":
                made.delete(self.table, key)
            elif kind == "add":
                made.patch(self.table, key, {"n": Add(value)})
            elif kind == "patch":
                made.patch(self.table, key, {"n": value})
            elif kind == "put":
                made.put(self.table, key, {"n": value, "tags": [value, "t"]})
            else:
                made.create(self.table, key, {"n": value, "tags": [value, "t"]})
        return asked, made

    def await_(self, asked: Asked, work: Coroutine[Any, Any, None], acknowledges: bool) -> None:
        async def run() -> None:
            try:
                await work
                asked.acknowledged = asked.acknowledged or acknowledges
            except (Problem, asyncio.CancelledError) as error:
                asked.problem = error

        asked.task = self.loop.create_task(run())

    def told(self, asked: Asked) -> Callable[[Problem | None], None]:
        def done(problem: Problem | None) -> None:
            asked.acknowledged, asked.problem = problem is None, problem

        return done

    @rule(todo=long_lists)
    def write_many(self, todo: list[Write]) -> None:
        asked, made = self.ask(todo)
        assert made.is_long
        self.await_(asked, made.apply_long(), acknowledges=True)

    @rule(todo=short_lists)
    def write_few(self, todo: list[Write]) -> None:
        """As a request does: at once if that is possible, else in turn."""
        asked, made = self.ask(todo)
        made.on_done = self.told(asked)
        try:
            made.apply(wait=False)
        except WriterBusy:
            self.await_(asked, made.apply_in_turn(), acknowledges=False)
        except RecordExists as error:
            asked.problem = error

    @rule(todo=short_lists)
    def write_without_waiting(self, todo: list[Write]) -> None:
        asked, made = self.ask(todo)
        made.on_done = self.told(asked)
        try:
            made.apply()
        except RecordExists as error:
            asked.problem = error

    # -- what happens

    @rule(count=st.integers(1, 8))
    def turns(self, count: int) -> None:
        for _ in range(count):
            self.loop.call_soon(self.loop.stop)
            self.loop.run_forever()
            if self.store.has_pending:
                self.store.commit_turn()
            self.store.end_turn()
            self.agree()

    @rule(holding=st.booleans())
    def let_commits_take_time(self, holding: bool) -> None:
        self.helper.holding = holding

    @rule()
    def commits_end(self) -> None:
        """On their thread: nobody has told the loop's yet."""
        self.helper.release()

    @precondition(lambda self: any(asked.task is not None and not asked.task.done() for asked in self.asked.values()))
    @rule(which=st.integers(0, 5))
    def go_away(self, which: int) -> None:
        waiting = [asked for asked in self.asked.values() if asked.task is not None and not asked.task.done()]
        asked = waiting[which % len(waiting)]
        assert asked.task is not None
        self.loop.call_soon(asked.task.cancel)  # as a connection does

    @rule(budget=st.sampled_from((0.01, 1.0)))
    def work_in_the_background(self, budget: float) -> None:
        self.store.maintenance(budget)
        self.store.commit_turn()

    @rule(other=st.booleans(), indexed=st.booleans())
    def change_a_definition(self, other: bool, indexed: bool) -> None:
        """Of this table, which long writes do not survive, or of another."""
        attributes = (NOTE.attributes[0], Attribute("n", indexed=indexed), NOTE.attributes[2])
        definition = TableDefinition("Other" if other else "Note", attributes=attributes)
        self.store.databases["data"].define_table(definition)
        self.store.commit_turn()

    @precondition(lambda self: len(self.snapshots) < 3)
    @rule()
    def take_snapshot(self) -> None:
        self.store.end_turn()
        txn = self.table.database.open_snapshot()
        self.snapshots.append((txn, self.visible(txn)))

    @rule()
    def read_snapshot(self) -> None:
        for txn, content in self.snapshots:
            assert self.visible(txn) == content
            txn.abort()
        self.snapshots.clear()

    # -- what holds

    def listen(self, database: Database, entries: list[LogEntry]) -> None:
        self.heard += [entry.lsn for entry in entries]

    def visible(self, txn: Any) -> Content:
        found = {}
        for _, raw in self.table.scan(txn):
            record = decode(raw)
            found[record["id"]] = record
        return found

    @invariant()
    def agree(self) -> None:
        if not hasattr(self, "table"):
            return
        self.store.end_turn()
        snapshot = self.table.database.snapshot()
        by_transaction: dict[int, list[LogEntry]] = {}
        for entry in self.table.database.log.read(snapshot):
            by_transaction.setdefault(entry.transaction, []).append(entry)
        content: Content = {}
        committed = set()
        for first, entries in by_transaction.items():
            assert [entry.lsn for entry in entries] == list(range(first, first + len(entries))), "transactions are mixed"
            asked = self.asked[entries[0].user or ""]
            assert {entry.user for entry in entries} == {asked.user} and asked.user not in committed
            committed.add(asked.user)
            outcome = carry_out(content, asked.todo)
            assert outcome is not None and outcome[1] == len(entries), f"{asked.user} is there in part"
            content = outcome[0]
        assert self.visible(snapshot) == content
        index = self.table.indexes.get("n")
        if index is not None and index.ready:
            assert index.count(snapshot, None, b"\xff") == len(content)
        for asked in self.asked.values():
            if isinstance(asked.problem, Problem):
                assert asked.user not in committed and isinstance(asked.problem, RecordExists | Overloaded | ServerError)
            elif asked.acknowledged and asked.user not in committed:
                assert all(kind == "delete" for kind, _, _ in asked.todo), f"{asked.user} was acknowledged and is not there"
        assert self.heard == list(range(1, len(self.heard) + 1)), "listeners hear of everything once, in order"

    def teardown(self) -> None:
        try:
            if hasattr(self, "table"):
                self.helper.holding = False
                self.helper.release()
                for _ in range(2000):
                    if all(asked.task is None or asked.task.done() for asked in self.asked.values()) and not self.store.has_pending:
                        break
                    self.turns(1)  # type: ignore[operator]
                for asked in self.asked.values():
                    assert asked.acknowledged or asked.problem is not None, f"{asked.user} was never answered"
                self.read_snapshot()  # type: ignore[operator]
                assert len(self.heard) == self.table.database.log.last_lsn
                assert self.table.database.env.holder is None and len(self.store.queue_of(self.table.database)) == 0
                self.store.check()
                self.store.close()
                assert check_database(self.path / "data").findings == []
        finally:
            for txn, _ in self.snapshots:
                txn.abort()
            if hasattr(self, "store"):
                self.store.close()
            self.loop.close()
            self.patch.undo()
            shutil.rmtree(self.path, ignore_errors=True)


TestLongWrites: Callable[..., Any] = LongWrites.TestCase
TestLongWrites.settings = settings(  # type: ignore[attr-defined]
    max_examples=half_by_day(60), stateful_step_count=30, report_multiple_bugs=False
)
